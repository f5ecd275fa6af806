"""Teach a procedure in its folder, compare the result, and undo the teaching."""

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from stepcut.errors import OptionError, OutputError
from stepcut.features.extract import Source
from stepcut.files.addresses import AnyPath, as_path
from stepcut.files.atomic import read_bytes, write_bytes
from stepcut.files.cache import cache_dir
from stepcut.procedure.folder import (
    OURS,
    check_output,
    folder_here,
    locked,
    new_folder,
    put_in_place,
    read_fingerprint,
)
from stepcut.procedure.labels import LabelSource
from stepcut.procedure.loading import load
from stepcut.procedure.naming import shared_rows
from stepcut.procedure.procedure import Procedure
from stepcut.procedure.storage import read_corrections
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
    here, there, fingerprint = as_path(path), as_path(target), after.config["fingerprint"]
    # Teaching the same annotations again changes nothing, so the existing backup stays.
    changed = before.config.get("fingerprint") != fingerprint
    if changed and isinstance(here, Path) and here.resolve() == there.resolve():
        backup = _backup(here, fingerprint)
        with new_folder(backup) as fresh:
            _copy(here, fresh)
            put_in_place(fresh, backup)
    after.save(target)
    return before, after


def take_back(path: AnyPath) -> None:
    """Restore the procedure at `path`, with its corrections, from before the last teaching.

    Raises
    ------
    OptionError
        This machine has no backup.
    OutputError
        Corrections were made after teaching; undo them first.
    """
    folder = folder_here(path)
    fingerprint = read_fingerprint(folder)
    if not can_take_back(folder, fingerprint):
        raise OptionError(
            f"{folder}: nothing to undo. The cache ({cache_dir()}) has no copy of this folder from "
            "before a teaching; copies do not move with the folder.",
            path=folder,
        )
    with new_folder(folder) as fresh:
        _copy(_backup(folder, fingerprint), fresh)
        with locked(folder):
            since = [edit for edit in read_corrections(folder).done if edit["do"] != "colour"]
            if read_fingerprint(folder) != fingerprint or since:
                raise OutputError(
                    f"{folder}: {len(since)} corrections made after teaching would be lost. "
                    "Undo them first: stepcut view, then Ctrl+Z.",
                    path=folder,
                )
            put_in_place(fresh, folder)


def can_take_back(folder: Path, fingerprint: str) -> bool:
    """Whether a backup from before the teaching exists."""
    return bool(fingerprint) and _backup(folder, fingerprint).exists()


def _copy(folder: Path, target: Path) -> None:
    """Copy the files of stepcut, with their permissions, from `folder` to `target`."""
    for file in folder.iterdir():
        if file.name in OURS and file.is_file():
            write_bytes(target / file.name, read_bytes(file))
            shutil.copymode(file, target / file.name)


def _backup(folder: Path, fingerprint: str) -> Path:
    """The path of the backup; it is different for each folder."""
    where = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
    return cache_dir() / "before" / f"{fingerprint}-{where}.proc"


def changes(before: Procedure, after: Procedure) -> dict[str, float]:
    """Return the share of each video that changed its step; steps are matched by shared time."""
    was, now, rows = before.labels, after.labels, len(before.steps)
    shared = shared_rows(was, now, rows, len(after.steps))
    match = np.full(rows + 1, -1)
    one, other = linear_sum_assignment(shared[:-1, :-1], maximize=True)
    match[one] = other
    return {name: float(np.mean(match[was[name]] != now[name])) for name in now}
