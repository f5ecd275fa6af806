"""The list of what a person changed in one learned state, and which list is kept where two meet."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from stepcut.checking.severity import KINDS, Severity
from stepcut.errors import OptionError, OutputError, ProcedureError, StepcutError
from stepcut.procedure.corrections.document import Document
from stepcut.procedure.corrections.operations import Edit, apply
from stepcut.version import __version__

FORMAT = 1


class StaleEdit(OutputError):
    """A correction was made to a state that has changed since; nothing was written."""


@dataclass(frozen=True)
class Corrections:
    """What a person changed in one learned state; immutable."""

    of: str = ""
    """The fingerprint of the learned state that they belong to."""
    done: tuple[dict[str, Any], ...] = ()
    undone: tuple[dict[str, Any], ...] = ()
    changes: int = 0
    """How often this list was changed, undoing included."""
    seen: str | None = None
    """The revision that lay on the disk when this list was read or written; None where it never
    did."""

    @property
    def revision(self) -> str:
        """A short name for exactly this state of the list: whoever changes it says which one they
        saw."""
        held = json.dumps([self.of, self.changes, self.done, self.undone], sort_keys=True)
        return hashlib.blake2b(held.encode(), digest_size=8).hexdigest()

    @property
    def history(self) -> tuple[dict[str, Any], ...]:
        """Everything that was ever done and not replaced, undone or not."""
        return (*self.done, *reversed(self.undone))

    def apply(self, learned: Document) -> Document:
        """The learned document with all corrections in it."""
        document = learned
        for edit in self.done:
            try:
                document = apply(document, edit)
            except StepcutError as error:
                raise ProcedureError(
                    f"edits.json: the correction {dict(edit)} does not fit ({error}) Restore the file, or move it away."
                ) from error
        return document

    def do(self, edit: Edit) -> Self:
        """With one more `edit`; what was undone before is forgotten."""
        return replace(self, done=(*self.done, dict(edit)), undone=(), changes=self.changes + 1)

    def undo(self) -> Self:
        """Without the last change."""
        if not self.done:
            raise OptionError("there is nothing to undo: this is what was learned.")
        return replace(
            self,
            done=self.done[:-1],
            undone=(*self.undone, self.done[-1]),
            changes=self.changes + 1,
        )

    def redo(self) -> Self:
        """With the change that was undone last."""
        if not self.undone:
            raise OptionError("there is nothing to redo: no change was undone since the last one.")
        return replace(
            self,
            done=(*self.done, self.undone[-1]),
            undone=self.undone[:-1],
            changes=self.changes + 1,
        )

    def on_disk(self) -> Self:
        """The same list, once it lies on the disk."""
        return replace(self, seen=self.revision)

    def to_json(self) -> dict[str, Any]:
        """What edits.json holds."""
        record = {"format": FORMAT, "stepcut": __version__, "of": self.of, "changes": self.changes}
        return {**record, "done": list(self.done), "undone": list(self.undone)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """The list of a `record` that `to_json` gave."""
        if record["format"] > FORMAT:
            raise ProcedureError(
                f"made by a newer stepcut (format {record['format']}). Update with: pip install --upgrade stepcut"
            )
        done, undone = tuple(map(dict, record["done"])), tuple(map(dict, record["undone"]))
        return cls(str(record["of"]), done, undone, int(record["changes"])).on_disk()


def settle(there: Corrections, mine: Corrections, absorbed: str | None = None) -> Corrections:
    """Which list is kept when a procedure with the list `mine` is saved where the list `there`
    lies.

    Nothing that a person did may be lost: mine is kept where it follows from what is there (or
    where nothing is, or where what is there was `absorbed` by teaching), theirs where it follows
    from mine; otherwise saving is refused.
    """
    if not there.history or there.revision in (mine.seen, mine.revision, absorbed):
        return mine
    if there.of != mine.of:
        raise OutputError(
            f"it holds {len(there.history)} corrections made by hand, which this procedure was not taught. "
            "Choose another name with -o, or teach it with: stepcut teach"
        )
    if mine.done == there.history[: len(mine.done)]:
        return there
    raise OutputError(
        "its corrections were changed by somebody else since this procedure was loaded. Load it again, then repeat "
        "the change, or save it under another name."
    )


def apply_severity(base: Severity, corrections: Corrections) -> Severity:
    """What a check makes of the steps: what `base` says of them, and the `corrections` on top of
    it."""
    kinds = {kind: set(getattr(base, kind)) for kind in KINDS}

    def put(which: Mapping[str, list[str]]) -> None:
        for number, said in which.items():
            for kind in KINDS:
                (set.add if kind in said else set.discard)(kinds[kind], int(number))

    # Version 0.2.0 wrote each of its changes into the base, and beside the change what had been
    # there before.
    for edit in reversed(corrections.history):
        put(edit.get("were", {}))
    for edit in corrections.done:
        put(edit.get("kinds", {}))
    optional, critical, free = (frozenset(kinds[kind]) for kind in ("optional", "critical", "free"))
    return Severity(optional, critical, free, base.alarm_at)
