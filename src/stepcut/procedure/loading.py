"""Load a saved procedure, with or without its model; teach it in its folder; ask it on workers."""

from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from stepcut.checking.check import check_labels
from stepcut.checking.rules import RULES_FILE, parse_rules, read_sentences
from stepcut.errors import NotLearned, OptionError, ProcedureError
from stepcut.features.extract import Source
from stepcut.files.addresses import AnyPath, as_path
from stepcut.methods.arithmetic import best_pairs
from stepcut.methods.method import Method
from stepcut.procedure import store
from stepcut.procedure.fitting import shared_rows
from stepcut.procedure.folder import check_output, damaged
from stepcut.procedure.labels import LabelSource
from stepcut.procedure.procedure import Procedure
from stepcut.progress import Hook, silent


def load(path: AnyPath, method: type[Method] | None = None, trust: bool = False) -> Procedure:
    """Load a saved procedure, with its corrections.

    Parameters
    ----------
    path
        The folder, or an address (s3://, gs://).
    method
        The class of a custom method that the procedure was learned with.
    trust
        Import the code that the procedure names. By default, loading runs no foreign code.

    Returns
    -------
    Procedure
        The saved procedure.

    Raises
    ------
    ProcedureError
        The folder is damaged, was written by a newer version, or names code that is not trusted.

    Examples
    --------
    >>> proc.save("sandwich.proc")
    >>> sc.load("sandwich.proc").steps
    ['cut bread', 'spread butter', 'add jam']
    """
    folder = as_path(path)
    opened = store.open_revision(folder)
    with damaged(folder):
        made = store.corrections_in(opened)
    learned, expectations = store.read_model(opened, folder, method, trust)
    now, file = made.document, folder / RULES_FILE
    try:
        severity = store.base_severity(folder, made)
    except OptionError as error:
        raise ProcedureError(str(error)) from error
    try:
        rules = parse_rules(read_sentences(file), now.model_steps, now.former_names)
    except OptionError as error:
        why = str(error) if error.path else f"{file}: {error}"
        raise ProcedureError(why, path=file) from error
    expectations = replace(expectations, severity=severity, rules=rules)
    learned = replace(learned, expectations=expectations)
    procedure = Procedure(learned, made, opened.name, trusted=trust)
    # The model of an old version can be looked at, corrected and learned again, not used.
    with damaged(path), suppress(NotLearned):
        _try(procedure)
    return procedure


def read_outline(path: AnyPath) -> Procedure:
    opened = store.open_revision(path)
    with damaged(path):
        return Procedure(opened.learned, store.corrections_in(opened), opened.name)


def teach_folder(
    path: AnyPath,
    labels: LabelSource | None = None,
    output: AnyPath | None = None,
    steps: int | None = None,
    source: Source | None = None,
    trust: bool = False,
    progress: Hook = silent,
    **more: Any,
) -> tuple[Procedure, Procedure]:
    """Return the procedure before and after; `take_back` restores the one that was replaced."""
    target = path if output is None else output
    before = load(path, trust=trust)
    check_output(target)
    after = before.teach(labels, steps, source, progress, **more)
    after.save(target)
    return before, after


def changes(before: Procedure, after: Procedure) -> dict[str, float]:
    """Return the share of each video that changed its step; steps are matched by shared time."""
    was, now, rows = before.labels, after.labels, len(before.steps)
    match = np.full(rows + 1, -1)
    for one, other in best_pairs(shared_rows(was, now, rows, len(after.steps)), least=-1):
        match[one] = other
    return {name: float(np.mean(match[was[name]] != now[name])) for name in now}


def ask(
    verb: str,
    procedure: str,
    word: str,
    trust: bool,
    device: str,
    video: str,
    progress: Hook = silent,
    **options: Any,
) -> Any:
    """Ask on a worker, which loads the procedure once per `word`."""
    return getattr(open_once(procedure, word, trust), verb)(video, device, progress, **options)


@lru_cache(maxsize=1)
def open_once(path: str, _word: str, trust: bool) -> Procedure:
    return load(path, trust=trust)


def _try(procedure: Procedure) -> None:
    """Run every operation on two empty rows, to detect inconsistent files on loading."""
    count, method = len(procedure.learned.steps), procedure.method
    rows = np.zeros((2, *map(int, procedure.config.shape)), dtype=np.float32)
    read = method.read(rows)
    if read.probabilities.shape != (2, count) or not np.isfinite(read.probabilities).all():
        raise ValueError(f"probabilities {read.probabilities.shape} for {count} steps")
    if not np.isfinite(read.novelty).all():
        raise ValueError("novelty is not finite")
    every = np.repeat(np.arange(count), 2)
    check_labels(every, float(procedure.rate), procedure.expectations, names=procedure.model_steps)
    procedure.check(rows)
    procedure.segment(rows)
    procedure.guide().push(0.0, rows[0])
    procedure.plan()
