"""Teach a procedure in its folder, and compare the result."""

from typing import Any

import numpy as np

from stepcut.features.extract import Source
from stepcut.files.addresses import AnyPath
from stepcut.matching import best_pairs
from stepcut.procedure.folder import check_output
from stepcut.procedure.labels import LabelSource
from stepcut.procedure.loading import load
from stepcut.procedure.naming import shared_rows
from stepcut.procedure.procedure import Procedure
from stepcut.progress import Hook, silent


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
    """Apply `Procedure.teach` to the procedure in a folder, and save the result.

    The default `output` is `path`, and `take_back` can then restore the old procedure. `trust` is
    that of `stepcut.load`, the others are those of `Procedure.teach`. Returns the procedure before
    and after teaching.
    """
    target = path if output is None else output
    before = load(path, trust=trust)
    check_output(target)
    after = before.teach(labels, steps, source, progress, **more)
    after.save(target)
    return before, after


def changes(before: Procedure, after: Procedure) -> dict[str, float]:
    """Return the share of each video that changed its step; steps are matched by shared time."""
    was, now, rows = before.labels, after.labels, len(before.steps)
    shared = shared_rows(was, now, rows, len(after.steps))
    match = np.full(rows + 1, -1)
    for one, other in best_pairs(shared[:-1, :-1], least=-1):
        match[one] = other
    return {name: float(np.mean(match[was[name]] != now[name])) for name in now}
