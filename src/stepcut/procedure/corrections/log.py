"""Corrections: the edits to one learned state, the documents they make, and what edits carry over."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Self

from stepcut.checking.severity import KINDS, Severity
from stepcut.errors import OptionError, OutputError
from stepcut.procedure.corrections.document import Document
from stepcut.procedure.corrections.verbs import Edit, apply

KEPT = 200
"""Documents in memory, so that undoing the last edits applies no verb."""


class StaleEdit(OutputError):
    """A correction is based on an old state; nothing was written."""


@dataclass(frozen=True)
class Corrections:
    """The edits of a person to one learned state, and the document that they make; immutable."""

    learned: Document
    """The learned steps and timelines, before all edits."""
    done: tuple[dict[str, Any], ...] = ()
    undone: tuple[dict[str, Any], ...] = ()
    documents: tuple[Document, ...] = ()
    """The documents after each of the last edits."""
    at: int = 0
    """The last event on disk that made this state; 0 if there is none."""
    saved: int = 0
    """The number of edits that are on disk."""

    @property
    def document(self) -> Document:
        """The learned document with all edits applied."""
        return self.documents[-1] if self.documents else self.learned

    @property
    def history(self) -> tuple[dict[str, Any], ...]:
        """All edits, including those that are undone."""
        return (*self.done, *reversed(self.undone))

    def do(self, edit: Edit, run: Callable[[Document, Edit], Document] = apply) -> Self:
        """Return the list with one more `edit`, and without undone ones."""
        documents = (*self.documents, run(self.document, edit))[-KEPT:]
        return replace(self, done=(*self.done, dict(edit)), undone=(), documents=documents)

    def undo(self) -> Self:
        """Return the list without the last edit."""
        if not self.done:
            raise OptionError("nothing to undo.")
        done, documents = self.done[:-1], self.documents[:-1]
        if done and not documents:
            documents = (reduce(apply, done, self.learned),)
        return replace(self, done=done, undone=(*self.undone, self.done[-1]), documents=documents)

    def redo(self) -> Self:
        """Return the list with the last undone edit."""
        if not self.undone:
            raise OptionError("nothing to redo.")
        return replace(self.do(self.undone[-1]), undone=self.undone[:-1])

    def on_disk(self, at: int) -> Self:
        """Return the list, marked as saved by the event `at`."""
        return replace(self, at=at, saved=len(self.done))

    @property
    def former_names(self) -> dict[str, int]:
        """The number of the step that had each name most recently."""
        numbers = {step.name: step.number for step in self.learned.steps}
        for edit in self.done:
            if edit["do"] == "rename":
                one = {str(edit["step"]): edit["name"]} if "name" in edit else {}
                numbers |= {name: int(step) for step, name in edit.get("names", one).items()}
        return numbers


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


def carry(
    before: Corrections, count: int, after: Corrections
) -> tuple[Corrections, list[dict[str, Any]]]:
    """Apply the edits of `before`, except the first `count`, to another learned state, `after`.

    Steps are matched by name. Returns the new list, and the edits that do not fit there.
    """
    document = reduce(apply, before.done[:count], before.learned)
    lost = []
    for edit in before.done[count:]:
        there = _translate(edit, document, after.document)
        document = apply(document, edit)
        try:
            if there is None:
                raise OptionError("the step or the segment does not exist.")
            after = after.do(there)
        except OptionError:
            lost.append(edit)
    return after, lost


def _translate(edit: Edit, here: Document, there: Document) -> dict[str, Any] | None:
    """Return an `edit` of the document `here` as one of `there`; None if it means nothing there."""
    numbers = {step.name: step.number for step in there.steps}
    names = {step.number: step.name for step in here.steps}

    def step(number: Any) -> int | None:
        return numbers.get(names.get(int(number), ""))

    made = dict(edit)
    for key in ("step", "into"):
        if edit.get(key) is not None:
            made[key] = step(edit[key])
            if made[key] is None:
                return None
    for key in ("names", "kinds", "were"):
        if key in edit:
            made[key] = {str(step(number)): value for number, value in edit[key].items()}
            if "None" in made[key]:
                return None
    video = str(edit.get("video"))
    if edit["do"] in ("move_click", "remove_click"):
        clicks = [_named(one.clicks.get(video, ()), one) for one in (here, there)]
        return made if clicks[0] == clicks[1] else None
    if edit["do"] in ("cut", "split", "move"):
        place = edit.get("part")
        own = [
            part
            for n, part in enumerate(here.parts[video])
            if (n == place if place is not None else part.start < edit["time"] < part.end)
        ]
        # The same boundary of the same step, or the same step at this time.
        same = [
            n
            for n, part in enumerate(there.parts.get(video, ()))
            if own
            and step(own[0].step) == part.step
            and (
                getattr(part, edit["edge"]) == getattr(own[0], edit["edge"])
                if place is not None
                else part.start < edit["time"] < part.end
            )
        ]
        if len(same) != 1:
            return None
        if place is not None:
            made["part"] = same[0]
    return made


def _named(clicks: Sequence[Any], document: Document) -> list[tuple[float, str]]:
    names = {step.number: step.name for step in document.steps}
    return [(click.time, names[click.step]) for click in clicks]
