"""Corrections: the list of edits to one learned state, and how two lists are merged."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from stepcut.checking.severity import KINDS, Severity
from stepcut.errors import OptionError, OutputError, ProcedureError, StepcutError
from stepcut.procedure.corrections.document import Document
from stepcut.procedure.corrections.verbs import Edit, apply
from stepcut.version import __version__

FORMAT = 1


class StaleEdit(OutputError):
    """A correction is based on an old state; nothing was written."""


@dataclass(frozen=True)
class Corrections:
    """The edits of a person to one learned state; immutable."""

    of: str = ""
    """The fingerprint of the learned state."""
    done: tuple[dict[str, Any], ...] = ()
    undone: tuple[dict[str, Any], ...] = ()
    changes: int = 0
    """The number of changes to this list, including undo and redo."""
    seen: str | None = None
    """The revision on disk when this list was last read or written, or None."""

    @property
    def revision(self) -> str:
        """A hash of this state of the list; an edit names the revision that it is based on."""
        held = json.dumps([self.of, self.changes, self.done, self.undone], sort_keys=True)
        return hashlib.blake2b(held.encode(), digest_size=8).hexdigest()

    @property
    def history(self) -> tuple[dict[str, Any], ...]:
        """All edits, including those that are undone."""
        return (*self.done, *reversed(self.undone))

    def apply(self, learned: Document) -> Document:
        """Return the `learned` document with all corrections applied."""
        document = learned
        for edit in self.done:
            try:
                document = apply(document, edit)
            except StepcutError as error:
                raise ProcedureError(
                    f"edits.json: the correction {dict(edit)} does not fit ({error}) "
                    "Restore the file, or move it away."
                ) from error
        return document

    def do(self, edit: Edit) -> Self:
        """Return the list with one more `edit`, and without undone ones."""
        return replace(self, done=(*self.done, dict(edit)), undone=(), changes=self.changes + 1)

    def undo(self) -> Self:
        """Return the list without the last edit."""
        if not self.done:
            raise OptionError("nothing to undo.")
        return replace(
            self,
            done=self.done[:-1],
            undone=(*self.undone, self.done[-1]),
            changes=self.changes + 1,
        )

    def redo(self) -> Self:
        """Return the list with the last undone edit."""
        if not self.undone:
            raise OptionError("nothing to redo.")
        return replace(
            self,
            done=(*self.done, self.undone[-1]),
            undone=self.undone[:-1],
            changes=self.changes + 1,
        )

    def on_disk(self) -> Self:
        """Return the list, marked as saved."""
        return replace(self, seen=self.revision)

    def to_json(self) -> dict[str, Any]:
        """Return the content of edits.json."""
        record = {"format": FORMAT, "stepcut": __version__, "of": self.of, "changes": self.changes}
        return {**record, "done": list(self.done), "undone": list(self.undone)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Create the list from the `record` of `to_json`."""
        if record["format"] > FORMAT:
            raise ProcedureError(
                f"a newer stepcut wrote this file (format {record['format']}). "
                "Update with: pip install --upgrade stepcut"
            )
        done, undone = tuple(map(dict, record["done"])), tuple(map(dict, record["undone"]))
        return cls(str(record["of"]), done, undone, int(record["changes"])).on_disk()


def settle(there: Corrections, mine: Corrections, absorbed: str | None = None) -> Corrections:
    """Return the corrections to keep when `mine` is saved over `there`.

    No edit may be lost. `mine` is kept if it continues `there`, or if teaching has `absorbed`
    `there`. `there` is kept if it continues `mine`. Otherwise saving is refused.
    """
    if not there.history or there.revision in (mine.seen, mine.revision, absorbed):
        return mine
    if there.of != mine.of:
        raise OutputError(
            f"saving would lose {len(there.history)} corrections in this folder. "
            "Choose another name with -o, or learn from them: stepcut teach"
        )
    if mine.done == there.history[: len(mine.done)]:
        return there
    raise OutputError(
        "the corrections have changed on disk since this procedure was loaded. "
        "Load it again and repeat the change, or save it under another name."
    )


def apply_severity(base: Severity, corrections: Corrections) -> Severity:
    """Return the severity of the steps: `base` with the `corrections` applied."""
    kinds = {kind: set(getattr(base, kind)) for kind in KINDS}

    def put(severities: Mapping[str, list[str]]) -> None:
        for number, wanted in severities.items():
            for kind in KINDS:
                (set.add if kind in wanted else set.discard)(kinds[kind], int(number))

    # Version 0.2.0 wrote its changes into the base, and stored the earlier values in "were".
    for edit in reversed(corrections.history):
        put(edit.get("were", {}))
    for edit in corrections.done:
        put(edit.get("kinds", {}))
    optional, critical, free = (frozenset(kinds[kind]) for kind in ("optional", "critical", "free"))
    return Severity(optional, critical, free, base.alarm_at)
