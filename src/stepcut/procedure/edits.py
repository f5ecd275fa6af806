"""Edits: make, undo and redo corrections in the folder of a procedure."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from stepcut.checking.rules import (
    RULES_FILE,
    SEVERITIES,
    Rule,
    change_rule,
    parse_rules,
    propose_rules,
    read_sentences,
)
from stepcut.files.addresses import AnyPath
from stepcut.procedure.corrections import (
    EVENTS,
    Corrections,
    Made,
    StaleEdit,
    append,
    edit_event,
)
from stepcut.procedure.document import Document, Edit, correct, describe, plain_edit
from stepcut.procedure.folder import CURRENT, damaged, folder_here
from stepcut.procedure.procedure import Procedure
from stepcut.procedure.store import base_severity, corrections_in, open_revision, writing

Change = tuple[Corrections, str, Made]
"""The corrections after a change, its description, and its event."""


class Edits:
    """The corrections in the folder of a procedure, on this machine; every change is saved at once.

    Several programs can edit one folder. Each change names the revision that it is based on. If
    the folder has a newer one, the change raises `StaleEdit` and does nothing.
    """

    def __init__(self, folder: AnyPath) -> None:
        self.folder = folder_here(folder)
        self._one_at_a_time = threading.RLock()
        self._stamp: list[tuple[int, int, int]] | None = None
        self.refresh()

    def refresh(self) -> None:
        with self._one_at_a_time:
            if self._stamp != (now := self._stamps()):
                opened = open_revision(self.folder)
                with damaged(self.folder):
                    made = corrections_in(opened)
                self.outline = Procedure(opened.learned, made, opened.name)
                self._stamp = now

    @property
    def document(self) -> Document:
        return self.outline.document

    @property
    def corrections(self) -> Corrections:
        return self.outline.corrections

    @property
    def revision(self) -> str:
        return f"{self.outline.revision[:16]}-{self.corrections.at}"

    @property
    def next_undo(self) -> str | None:
        now = self.corrections
        return describe(now.undo().document, now.done[-1]) if now.done else None

    @property
    def next_redo(self) -> str | None:
        now = self.corrections
        return describe(now.document, now.undone[-1]) if now.undone else None

    def do(self, edit: Edit, revision: str | None = None, author: str = "") -> str:
        """Make one change, save it and discard undone changes; return its description.

        `revision` is the one that the change is based on, by default the current one. The `author`
        is by default the user of this program. Raises `OptionError` if the edit does not fit, and
        `StaleEdit` if another program has changed the folder.
        """

        def change() -> Change:
            before, after = self.document, correct(self.document, edit)
            made = plain_edit(before, edit)
            now = self.corrections.do(made, lambda *_: after)
            return now, describe(before, made), edit_event(made)

        return self._change(change, revision, author)

    def undo(self, revision: str | None = None, author: str = "") -> str:
        return self._change(
            lambda: (self.corrections.undo(), str(self.next_undo), ("undo", {})), revision, author
        )

    def redo(self, revision: str | None = None, author: str = "") -> str:
        return self._change(
            lambda: (self.corrections.redo(), str(self.next_redo), ("redo", {})), revision, author
        )

    def _change(self, change: Callable[[], Change], revision: str | None, author: str) -> str:
        """Make a change under the lock if `revision` is current, and append its event."""
        with self._one_at_a_time:
            seen = self.revision if revision is None else revision
            with writing(self.folder) as log:
                self.refresh()
                if seen != self.revision:
                    raise StaleEdit(
                        f"{self.folder}: another window or program has changed this procedure, so "
                        "your change was not made. Reload, then make the change again.",
                        path=self.folder,
                    )
                after, words, made = change()
                event = log.next(self.outline.revision, made, author)
                append(self.folder, log, [event])
                self._stamp = self._stamps()
                self.outline = replace(self.outline, corrections=after.on_disk(event.id))
                return words

    @property
    def severity(self) -> dict[int, str]:
        """The severity of learned steps by number: critical, optional or free in order."""
        severity = self.document.severity(base_severity(self.folder, self.corrections))
        return {step: kind for kind in SEVERITIES for step in getattr(severity, kind)}

    @property
    def rules(self) -> tuple[Rule, ...]:
        now = self.document
        return parse_rules(
            read_sentences(self.folder / RULES_FILE), now.model_steps, now.former_names
        )

    def set_rule(self, sentence: str, holds: bool = True) -> Rule:
        """Add a rule to rules.toml, or remove it; return the rule."""
        with self._one_at_a_time, writing(self.folder):
            self.refresh()
            names = self.document.model_steps, self.document.former_names
            return change_rule(self.folder / RULES_FILE, sentence, holds, *names)

    def proposed_rules(self) -> dict[Rule, str]:
        """Rules that all normal videos keep, and the question to ask."""
        outline, marked = self.outline, self.document.said.mistakes
        normal = [labels for name, labels in outline.labels.items() if name not in marked]
        found = propose_rules(normal, float(outline.rate), outline.steps, self.rules)
        models = self.document.model_steps
        return {r: why for r, why in found.items() if {r.step, r.other} <= {*models, ""}}

    def _stamps(self) -> list[tuple[int, int, int]]:
        names = (CURRENT, EVENTS, "config.json", "edits.json")
        files = [self.folder / name for name in names if (self.folder / name).exists()]
        return [(state.st_ino, state.st_mtime_ns, state.st_size) for state in map(Path.stat, files)]
