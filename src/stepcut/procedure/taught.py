"""Teaching a procedure in its folder: what changed by it, and how it is taken back."""

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from stepcut.errors import OptionError, OutputError
from stepcut.features.extract import Source
from stepcut.files.addresses import AnyPath, as_path
from stepcut.files.atomic import read_bytes, write_bytes
from stepcut.files.cache import cache_dir
from stepcut.methods.stepcut.consensus import pair_steps
from stepcut.procedure.folder import (
    OURS,
    check_output,
    folder_here,
    locked,
    new_folder,
    put_in_place,
    read_fingerprint,
)
from stepcut.procedure.lesson import Given
from stepcut.procedure.naming import shared_rows
from stepcut.procedure.procedure import Procedure, load
from stepcut.procedure.storage import read_corrections
from stepcut.progress import Hook, silent


def teach_folder(
    path: AnyPath,
    labels: Given | None = None,
    output: AnyPath | None = None,
    steps: int | None = None,
    source: Source | None = None,
    trust: bool = False,
    progress: Hook = silent,
    **more: Any,
) -> tuple[Procedure, Procedure]:
    """As `Procedure.teach`, for the procedure in the folder `path`; gives it as it was and as it is now.

    What was taught is kept at `output`; left out, in the same folder, and `take_back` brings the old one back. `more`:
    transcripts, recipe and origin.
    """
    target = path if output is None else output
    before = load(path, trust=trust)
    check_output(target)
    after = before.teach(labels, steps, source, progress, **more)
    here, there, fingerprint = as_path(path), as_path(target), after.config["fingerprint"]
    # The same lesson again changes nothing, and what went before it stays.
    anew = before.config.get("fingerprint") != fingerprint
    if (
        anew
        and isinstance(here, Path)
        and isinstance(there, Path)
        and here.resolve() == there.resolve()
    ):
        kept = _kept(here, fingerprint)
        with new_folder(kept) as fresh:
            _copy(here, fresh)
            put_in_place(fresh, kept)
    after.save(target)
    return before, after


def take_back(path: AnyPath) -> None:
    """Bring back the procedure at `path` as it was before it was taught there, with its corrections."""
    folder = folder_here(path)
    fingerprint = read_fingerprint(folder)
    if not can_take_back(folder, fingerprint):
        raise OptionError(f"{folder}: there is nothing to take back: it was not taught here.")
    with new_folder(folder) as fresh:
        _copy(_kept(folder, fingerprint), fresh)
        with locked(folder):
            since = [edit for edit in read_corrections(folder).done if edit["do"] != "colour"]
            if read_fingerprint(folder) != fingerprint or since:
                raise OutputError(
                    f"{folder}: {len(since)} corrections were made since it was taught, which would be lost. Undo them "
                    "first."
                )
            put_in_place(fresh, folder)


def can_take_back(folder: Path, fingerprint: str) -> bool:
    """Whether what the procedure of this `fingerprint` in this `folder` was taught from is still kept."""
    return bool(fingerprint) and _kept(folder, fingerprint).exists()


def _copy(folder: Path, target: Path) -> None:
    """Copy the files that stepcut wrote into a procedure's `folder` to another, `target`."""
    for file in folder.iterdir():
        if file.name in OURS and file.is_file():
            write_bytes(target / file.name, read_bytes(file))


def _kept(folder: Path, fingerprint: str) -> Path:
    """Where the copy is; of two folders that were taught the same, each has its own."""
    where = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
    return cache_dir() / "before" / f"{fingerprint}-{where}.proc"


def changes(before: Procedure, after: Procedure) -> dict[str, float]:
    """The share of each video that belongs to another step in `after` than in `before`; steps are matched by the time
    they share, so that a step with a new name is the same one."""
    was, now, rows = before.labels, after.labels, len(before.steps)
    shared = shared_rows(was, now, rows, len(after.steps))
    match = np.full(rows + 1, -1)
    one, other = pair_steps(shared[:-1, :-1])
    match[one] = other
    return {name: float(np.mean(match[was[name]] != now[name])) for name in now}
