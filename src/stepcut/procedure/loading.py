"""Load a saved procedure, with or without its model."""

from contextlib import suppress
from dataclasses import replace

import numpy as np

from stepcut.checking.check import check_labels
from stepcut.checking.rules import FILE, parse_rules, read_sentences
from stepcut.errors import NotLearned, OptionError, ProcedureError
from stepcut.files.addresses import AnyPath, as_path
from stepcut.methods.method import Method
from stepcut.procedure.folder import damaged
from stepcut.procedure.procedure import Procedure
from stepcut.procedure.store import base_severity, open_revision, read, read_fields


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
    procedure = Procedure(**read(path, method, trust))
    folder = as_path(path)
    file, names = folder / FILE, procedure.former_names
    try:
        severity = base_severity(folder, procedure)
    except OptionError as error:
        raise ProcedureError(str(error)) from error
    try:
        rules = parse_rules(read_sentences(file), procedure.model_steps, names)
    except OptionError as error:
        why = str(error) if error.path else f"{file}: {error}"
        raise ProcedureError(why, path=file) from error
    procedure.learned_expectations = replace(
        procedure.learned_expectations, severity=severity, rules=rules
    )
    # The model of an old version can be looked at, corrected and learned again, not used.
    with damaged(path), suppress(NotLearned):
        _try(procedure)
    return procedure


def read_outline(path: AnyPath) -> Procedure:
    """Load a procedure without its model, which is enough to view and correct it.

    Parameters
    ----------
    path
        The folder, or an address (s3://, gs://).
    """
    return Procedure(**read_fields(open_revision(path), as_path(path)))


def _try(procedure: Procedure) -> None:
    """Run every operation on two empty rows, to detect inconsistent files on loading."""
    count, method = len(procedure.learned_steps), procedure.method
    rows = np.zeros((2, *map(int, procedure.config["shape"])), dtype=np.float32)
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
