"""Edits: make, undo and redo corrections in the folder of a procedure."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from stepcut.checking.severity import FILE, KINDS, Severity, read_severity
from stepcut.errors import OptionError, unknown
from stepcut.files.addresses import AnyPath
from stepcut.files.atomic import read_json, write_json
from stepcut.procedure.corrections.document import Document
from stepcut.procedure.corrections.log import Corrections, StaleEdit, apply_severity
from stepcut.procedure.corrections.verbs import Edit, correct, describe, plain_edit
from stepcut.procedure.folder import folder_here, locked
from stepcut.procedure.loading import read_outline
from stepcut.procedure.procedure import Procedure
from stepcut.procedure.storage import EDITS


class Edits:
    """The corrections in the folder of a procedure; every change is saved at once.

    Several programs can edit one folder. Each change names the revision that it is based on. If
    the folder has a newer one, the change raises `StaleEdit` and does nothing.

    Parameters
    ----------
    folder
        The folder of a procedure, on this machine.

    Examples
    --------
    `Edits("sandwich.proc").do({"do": "rename", "step": 0, "name": "add jam"})` returns "rename
    step 1 to add jam".
    """

    def __init__(self, folder: AnyPath) -> None:
        self.folder = folder_here(folder)
        self.path = self.folder / EDITS
        self._stamp: list[tuple[int, int, int]] | None = None
        self.refresh()

    def refresh(self) -> None:
        """Read changes of other programs."""
        with locked(self.folder, shared=True):
            self._read()

    def _read(self) -> None:
        """Read changed files; the caller holds the lock."""
        if self._stamp != (now := self._stamps()):
            self.outline: Procedure = read_outline(self.folder)
            whole = replace(self.corrections, done=self.corrections.history)
            whole.apply(self.outline.learned)  # raises here if corrections do not fit
            self._stamp = now

    @property
    def document(self) -> Document:
        """The steps and timelines with the corrections applied."""
        return self.outline.document

    @property
    def corrections(self) -> Corrections:
        """All changes, including undone ones."""
        return self.outline.corrections

    @property
    def revision(self) -> str:
        """The identifier of the current state."""
        return self.corrections.revision

    @property
    def next_undo(self) -> str | None:
        """A description of the change that `undo` reverts, or None."""
        return self._words(self.corrections.undo()) if self.corrections.done else None

    @property
    def next_redo(self) -> str | None:
        """A description of the change that `redo` makes, or None."""
        return self._words(self.corrections.redo()) if self.corrections.undone else None

    def do(self, edit: Edit, revision: str | None = None) -> str:
        """Make one change, save it and discard undone changes.

        Parameters
        ----------
        edit
            A mapping with the verb under "do".
        revision
            The revision that the change is based on; by default the current one.

        Returns
        -------
        str
            A description of the change.

        Raises
        ------
        OptionError
            The edit does not fit.
        StaleEdit
            Another program has changed the folder.
        """

        def change(now: Corrections) -> Corrections:
            severity = isinstance(edit, Mapping) and edit.get("do") == "severity"
            whole = self._severity_edit(edit) if severity else edit
            correct(self.document, whole)
            return now.do(plain_edit(self.document, whole))

        return self._change(change, revision)

    def undo(self, revision: str | None = None) -> str:
        """Undo the last change, save, and return its description; `revision` as for `do`."""
        return self._change(Corrections.undo, revision)

    def redo(self, revision: str | None = None) -> str:
        """Redo the last undone change, save, and return its description; `revision` as for `do`."""
        return self._change(Corrections.redo, revision)

    def _change(self, change: Callable[[Corrections], Corrections], revision: str | None) -> str:
        """Apply a change under the lock if `revision` is current, and write the file."""
        seen = self.revision if revision is None else revision
        with locked(self.folder):
            self._read()
            if seen != self.revision:
                raise StaleEdit(
                    f"{self.path}: another window or program has changed this file, so your change "
                    "was not made. Reload, then make the change again.",
                    path=self.path,
                )
            after = change(self.corrections)
            words = self._words(after)
            # A rename may change the names in severity.json, so write step numbers first.
            file, numbers = self.folder / FILE, self._base_severity().to_json()
            if file.exists() and read_json(file) != numbers:
                write_json(file, numbers, follow=False)
            write_json(self.path, after.to_json(), follow=False)
            self._stamp = self._stamps()
            self.outline.corrections = after.on_disk()
            return words

    @property
    def severity(self) -> dict[int, str]:
        """The severity of learned steps by number: critical, optional or free in order."""
        severity = apply_severity(self._base_severity(), self.corrections)
        return {step: kind for kind in KINDS for step in getattr(severity, kind)}

    def _base_severity(self) -> Severity:
        """The content of severity.json, without corrections."""
        return read_severity(
            self.folder / FILE, self.outline.model_steps, self.outline.learned_steps
        )

    def _severity_edit(self, edit: Edit) -> Edit:
        """Complete a severity edit with all model steps that were merged into its step."""
        step, kind = edit.get("step"), edit.get("severity")
        if kind is not None and kind not in KINDS:
            raise unknown("severity", kind, KINDS)
        mine = [
            n for n in range(len(self.outline.learned_steps)) if self.document.stands_for(n) == step
        ]
        if not mine:
            raise OptionError(
                f"step={step!r} was added after learning; run teach before you set its severity.",
                setting="step",
                value=step,
            )
        kinds = {str(n): [kind] if kind else [] for n in mine}
        return {"do": "severity", "step": step, "severity": kind, "kinds": kinds}

    def _words(self, other: Corrections) -> str:
        """Describe the one edit between the current state and the `other` one."""
        fewer, more = sorted((self.corrections, other), key=lambda each: len(each.done))
        return describe(fewer.apply(self.outline.learned), more.done[-1])

    def _stamps(self) -> list[tuple[int, int, int]]:
        """File states that change with the corrections or the procedure."""
        files = [file for file in (self.path, self.folder / "config.json") if file.exists()]
        return [(state.st_ino, state.st_mtime_ns, state.st_size) for state in map(Path.stat, files)]
