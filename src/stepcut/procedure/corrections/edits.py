"""The edits of a procedure: a list of changes in `edits.json`, beside what was learned and never over it.

Every change is on disk before it is answered; undo and redo outlive the program.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stepcut.errors import OptionError, OutputError, ProcedureError, StepcutError
from stepcut.files.atomic import read_json, write_json
from stepcut.procedure.corrections.document import Document, Learned, read_learned
from stepcut.procedure.corrections.operations import Edit, apply, describe
from stepcut.timeline import Timeline
from stepcut.version import __version__

FORMAT = 1
FILE = "edits.json"


class Edits:
    """A learned procedure and all that a person changed in it; every method that changes it saves it.

    >>> Edits("sandwich.proc").do({"do": "rename", "step": 0, "name": "add jam"})   # doctest: +SKIP
    'rename step 0 to add jam'
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.learned: Learned = read_learned(folder)
        self.path = self.learned.folder / FILE
        self.revision = 0
        self._lock = threading.Lock()
        self._stamp = _stamp(self.path)
        self._done, self._undone = _read(self.path, self.learned.fingerprint)
        self._states = [self.learned.document]
        for edit in self._done:
            self._states.append(_replay(self._states[-1], edit, self.path))

    @property
    def document(self) -> Document:
        """The steps and timelines as they stand now."""
        return self._states[-1]

    @property
    def next_undo(self) -> str | None:
        """What undo would take back, in words."""
        return describe(self._states[-2], self._done[-1]) if self._done else None

    @property
    def next_redo(self) -> str | None:
        """What redo would do again, in words."""
        return describe(self.document, self._undone[-1]) if self._undone else None

    def do(self, edit: Edit) -> str:
        """Make one change and save it; gives it in words. What was undone before is forgotten."""
        with self._lock:
            after, words = apply(self.document, edit), describe(self.document, edit)
            self._save([*self._done, dict(edit)], [])
            self._states.append(after)
            return words

    def undo(self) -> str:
        """Take the last change back and save that; gives it in words."""
        with self._lock:
            if not self._done:
                raise OptionError("there is nothing to undo: this is what was learned.")
            words = describe(self._states[-2], self._done[-1])
            self._save(self._done[:-1], [*self._undone, self._done[-1]])
            self._states.pop()
            return words

    def redo(self) -> str:
        """Do again what was undone last and save that; gives it in words."""
        with self._lock:
            if not self._undone:
                raise OptionError("there is nothing to redo: no change was undone since the last one.")
            edit = self._undone[-1]
            after, words = apply(self.document, edit), describe(self.document, edit)
            self._save([*self._done, edit], self._undone[:-1])
            self._states.append(after)
            return words

    def _save(self, done: list[dict[str, Any]], undone: list[dict[str, Any]]) -> None:
        """Write the file, whole or not at all, and only then believe it."""
        if _stamp(self.path) != self._stamp:
            raise OutputError(
                f"{self.path}: another program changed it meanwhile, so it is left alone. Close the other viewer, "
                "then start this one again."
            )
        record = {"format": FORMAT, "stepcut": __version__, "of": self.learned.fingerprint}
        write_json(self.path, {**record, "done": done, "undone": undone})
        self._stamp = _stamp(self.path)
        self._done, self._undone = done, undone
        self.revision += 1


def edited_timelines(folder: str | os.PathLike[str]) -> dict[str, Timeline]:
    """The timelines of a procedure folder as a person corrected them; as learned where nobody did."""
    return Edits(folder).document.timelines()


def edited_names(folder: str | os.PathLike[str]) -> dict[int | str, str]:
    """The name a person gave to each learned step, for those that still stand: what `Procedure.rename` takes."""
    edits = Edits(folder)
    learned = {step.number: step.name for step in edits.learned.document.steps}
    kept = {step.number: step.name for step in edits.document.steps if step.number in learned}
    taken = {name for number, name in learned.items() if number not in kept}
    return {number: name for number, name in kept.items() if name != learned[number] and name not in taken}


def _read(path: Path, fingerprint: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    if not path.exists():
        return [], []
    try:
        record = read_json(path)
        version, of = record["format"], record["of"]
        done, undone = list(record["done"]), list(record["undone"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ProcedureError(
            f"{path}: the corrections cannot be read ({error}). Restore the file, or move it away to start anew."
        ) from error
    if version > FORMAT:
        raise ProcedureError(f"{path}: made by a newer stepcut (format {version}). Update: pip install -U stepcut")
    if of != fingerprint:
        raise ProcedureError(
            f"{path}: these corrections belong to another procedure ({of}, this is {fingerprint}). Move the file away."
        )
    return done, undone


def _replay(document: Document, edit: Mapping[str, Any], path: Path) -> Document:
    try:
        return apply(document, edit)
    except StepcutError as error:
        raise ProcedureError(
            f"{path}: the correction {dict(edit)} does not fit ({error}) Restore the file, or move it away."
        ) from error


def _stamp(path: Path) -> tuple[int, int] | None:
    """What changes when the file does."""
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size
