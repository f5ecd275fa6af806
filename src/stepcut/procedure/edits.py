"""Corrections made in a procedure's folder, one after another: saved before they are answered,
undone and redone."""

from collections.abc import Callable, Mapping
from pathlib import Path

from stepcut.checking.severity import FILE, KINDS, Severity, read_severity
from stepcut.errors import OptionError, unknown
from stepcut.files.addresses import AnyPath
from stepcut.files.atomic import read_json, write_json
from stepcut.procedure.corrections.document import Document
from stepcut.procedure.corrections.log import Corrections, StaleEdit, apply_severity
from stepcut.procedure.corrections.operations import Edit, correct, describe, plain_edit
from stepcut.procedure.folder import folder_here, locked
from stepcut.procedure.procedure import Procedure, read_outline
from stepcut.procedure.storage import EDITS


class Edits:
    """A procedure's folder and all that a person changed in it; every method that changes it saves
    it.

    Several windows and programs may do so at once: each change names the revision that its maker
    saw, which is compared with the disk under a lock, and one that comes too late raises
    `StaleEdit` and changes nothing.

    `Edits("sandwich.proc").do({"do": "rename", "step": 0, "name": "add jam"})` gives "rename step 0
    to add jam".
    """

    def __init__(self, folder: AnyPath) -> None:
        self.folder = folder_here(folder)
        self.path = self.folder / EDITS
        self._stamp: list[tuple[int, int, int]] | None = None
        self.refresh()

    def refresh(self) -> None:
        """See what other programs have changed since."""
        with locked(self.folder, shared=True):
            self._read()

    def _read(self) -> None:
        """Read what has changed on the disk; the caller holds the lock."""
        if self._stamp != (now := self._stamps()):
            self.outline: Procedure = read_outline(self.folder)
            _ = self.outline.document  # corrections that do not fit are told at once
            self._stamp = now

    @property
    def document(self) -> Document:
        """What a person sees."""
        return self.outline.document

    @property
    def corrections(self) -> Corrections:
        """All that was changed, and undone."""
        return self.outline.corrections

    @property
    def revision(self) -> str:
        """A name for the state as it stands."""
        return self.corrections.revision

    @property
    def next_undo(self) -> str | None:
        """What undo would take back, in words."""
        return self._words(self.corrections.undo()) if self.corrections.done else None

    @property
    def next_redo(self) -> str | None:
        """What redo would do again, in words."""
        return self._words(self.corrections.redo()) if self.corrections.undone else None

    def do(self, edit: Edit, revision: str | None = None) -> str:
        """Make one change and save it; gives it in words. What was undone before is forgotten.

        `edit` is an object with the verb under "do"; `revision` the state that its maker saw, when
        not this one's.
        """

        def change(now: Corrections) -> Corrections:
            severity = isinstance(edit, Mapping) and edit.get("do") == "severity"
            whole = self._severity_edit(edit) if severity else edit
            correct(self.document, whole)
            return now.do(plain_edit(whole))

        return self._change(change, revision)

    def undo(self, revision: str | None = None) -> str:
        """Take the last change back and save that; gives it in words. `revision` as for `do`."""
        return self._change(Corrections.undo, revision)

    def redo(self, revision: str | None = None) -> str:
        """Do again what was undone last and save that; gives it in words. `revision` as for
        `do`."""
        return self._change(Corrections.redo, revision)

    def _change(self, change: Callable[[Corrections], Corrections], revision: str | None) -> str:
        """Hold the folder, if it is as the maker of a change saw it; write the file, and only then
        believe it."""
        seen = self.revision if revision is None else revision
        with locked(self.folder):
            self._read()
            if seen != self.revision:
                raise StaleEdit(
                    f"{self.path}: it was changed in another window or program meanwhile, so this change was not made. "
                    "Look at it as it is now, then make the change again."
                )
            after = change(self.corrections)
            words = self._words(after)
            # Names in it may change now; numbers stay. This says nothing new, so that a kill after
            # it does no harm.
            file, numbers = self.folder / FILE, self._base_severity().to_json()
            if file.exists() and read_json(file) != numbers:
                write_json(file, numbers, follow=False)
            write_json(self.path, after.to_json(), follow=False)
            self._stamp = self._stamps()
            self.outline.corrections = after.on_disk()
            return words

    @property
    def severity(self) -> dict[int, str]:
        """What a person said of learned steps, by number: critical, optional or free in order."""
        said = apply_severity(self._base_severity(), self.corrections)
        return {step: kind for kind in KINDS for step in getattr(said, kind)}

    def _base_severity(self) -> Severity:
        """What severity.json says; the corrections hold on top of it."""
        return read_severity(
            self.folder / FILE, self.outline.model_steps, self.outline.learned_steps
        )

    def _severity_edit(self, edit: Edit) -> Edit:
        """The whole of an edit that says of what kind a step is: critical, optional or free in
        order; None takes that back. It holds for what was merged into the step, too."""
        step, kind = edit.get("step"), edit.get("severity")
        if kind is not None and kind not in KINDS:
            raise unknown("severity", kind, KINDS)
        mine = [
            n for n in range(len(self.outline.learned_steps)) if self.document.stands_for(n) == step
        ]
        if not mine:
            raise OptionError(
                f"step={step!r} is not one that was learned; check knows it after teach."
            )
        kinds = {str(n): [kind] if kind else [] for n in mine}
        return {"do": "severity", "step": step, "severity": kind, "kinds": kinds}

    def _words(self, other: Corrections) -> str:
        """What lies between the state as it stands and its neighbour, in words."""
        return describe(*self._between(other))

    def _between(self, other: Corrections) -> tuple[Document, Edit]:
        """What lies between the state as it stands and its neighbour: the one before it, and the
        edit."""
        fewer, more = sorted((self.corrections, other), key=lambda each: len(each.done))
        return fewer.apply(self.outline.learned), more.done[-1]

    def _stamps(self) -> list[tuple[int, int, int]]:
        """What changes when the corrections or the procedure do."""
        files = [file for file in (self.path, self.folder / "config.json") if file.exists()]
        return [(state.st_ino, state.st_mtime_ns, state.st_size) for state in map(Path.stat, files)]
