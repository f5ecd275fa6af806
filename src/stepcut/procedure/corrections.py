"""Corrections: the edits to one learned state, the documents they make, and the list of events.

`events.jsonl` has everything that people did to a procedure, one event a line, only ever appended.
"""

import contextlib
import getpass
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from stepcut.checking.severity import KINDS, Severity
from stepcut.errors import OptionError, OutputError, ProcedureError, StepcutError
from stepcut.files.addresses import Address
from stepcut.files.atomic import output_errors, read_bytes, sync_folder, write_bytes
from stepcut.files.cache import wall_clock
from stepcut.procedure.document import Document
from stepcut.procedure.verbs import Edit, apply
from stepcut.progress import warn_once
from stepcut.timeline import Segment

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

    def severity(self, base: Severity) -> Severity:
        """Return the severity of the steps: `base` with the edits applied."""
        kinds = {kind: set(getattr(base, kind)) for kind in KINDS}
        for edit in self.done:
            for number, wanted in edit.get("kinds", {}).items():
                for kind, steps in kinds.items():
                    (set.add if kind in wanted else set.discard)(steps, int(number))
        made: Any = {kind: frozenset(steps) for kind, steps in kinds.items()}
        return replace(base, **made)


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
    made, video = dict(edit), str(edit.get("video"))
    for key in ("step", "into"):
        if edit.get(key) is not None:
            made[key] = numbers.get(names.get(edit[key], ""))
            if made[key] is None:
                return None
    for key in ("names", "kinds"):
        if key in edit:
            moved = {numbers.get(names.get(int(n), "")): value for n, value in edit[key].items()}
            if None in moved:
                return None
            made[key] = {str(number): value for number, value in moved.items()}
    if edit["do"] in ("move_click", "remove_click"):
        both = (one.said.videos.get(video) for one in (here, there))
        clicks = [one.clicks if one else [] for one in both]
        return made if clicks[0] == clicks[1] else None
    if edit["do"] in ("cut", "split", "move"):
        own = _meant(edit, here.segments[video])
        # The same boundary of the same step, or the same step at this time.
        same = [
            n
            for n, one in enumerate(there.segments.get(video, ()))
            if own
            and own.step == one.step
            and (
                getattr(one, edit["edge"]) == getattr(own, edit["edge"])
                if "part" in edit
                else one.start < edit["time"] < one.end
            )
        ]
        if len(same) != 1:
            return None
        if "part" in edit:
            made["part"] = same[0]
    return made


def _meant(edit: Edit, segments: Sequence[Segment]) -> Segment | None:
    """The segment that an edit is about."""
    if "part" in edit:
        return segments[edit["part"]]
    return next((one for one in segments if one.start < edit["time"] < one.end), None)


# ------------------------------------------------------------------ events on disk

EVENTS = "events.jsonl"
BASES = ("learn", "teach", "convert")
"""Events that start a revision without edits."""
STARTS = (*BASES, "back")
"""Events after which the earlier edits do not count."""


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that a person did.

    The verb is that of an edit, `undo`, `redo`, `learn`, `teach`, `convert`, or `back` (to the state
    after the event `to`).
    """

    id: int
    time: str
    author: str
    revision: str
    """The learned state that it is about."""
    verb: str
    values: dict[str, Any] = {}


class Log(NamedTuple):
    """The events on disk."""

    events: tuple[Event, ...] = ()
    size: int = 0
    """The length in bytes of all complete lines."""
    damaged: tuple[int, ...] = ()
    """The numbers of the lines that cannot be read, from 1."""
    torn: bool = False
    """Whether the last line is incomplete: an edit that was never confirmed."""

    @property
    def last(self) -> int:
        """The id of the last event."""
        return self.events[-1].id if self.events else 0

    def of(self, revision: str) -> list[Event]:
        """Return the events of one `revision`."""
        return [event for event in self.events if event.revision == revision]


def new_event(
    log: Log, revision: str, verb: str, values: dict[str, Any] | None = None, author: str = ""
) -> Event:
    """Return the next event after those in `log`; the `author` is by default the user."""
    return Event(log.last + 1, wall_clock(), author or user(), revision, verb, values or {})


def with_events(log: Log, revision: str, made: Iterable[tuple[str, dict[str, Any]]]) -> Log:
    """Return `log` with more events of one `revision`, as pairs of verb and values."""
    for verb, values in made:
        log = log._replace(events=(*log.events, new_event(log, revision, verb, values)))
    return log


def user() -> str:
    """Return the name of the user, or "" if the system knows none."""
    with contextlib.suppress(Exception):
        return getpass.getuser()
    return ""


def line_of(event: Event) -> bytes:
    """Return an event as a line of JSON that ends in a checksum of the rest."""
    body = json.dumps(msgspec.to_builtins(event), allow_nan=False).encode()
    return b'%s, "sum": "%s"}\n' % (body[:-1], _checksum(body))


def _event_of(line: bytes) -> Event:
    body, _, end = line.rpartition(b', "sum": "')
    body += b"}"
    if end != b'%s"}' % _checksum(body):
        raise ValueError("the checksum differs")
    return msgspec.convert(json.loads(body), Event)


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=4).hexdigest().encode()


def read_log(folder: Path | Address, after: Log | None = None) -> Log:
    """Read the events in `folder`, or only the new ones `after` those that were read before."""
    path, before = folder / EVENTS, after or Log()
    data = read_bytes(path) if path.exists() else b""
    if len(data) < before.size:
        return read_log(folder)
    complete, end, rest = data[before.size :].rpartition(b"\n")
    events, damaged = list(before.events), list(before.damaged)
    first = 1 + data[: before.size].count(b"\n")
    for number, line in enumerate((complete + end).splitlines(), first):
        try:
            event = _event_of(line)
            if events and event.id <= events[-1].id:
                raise ValueError("the number of the event is not the next one")
            events.append(event)
        except (ValueError, RecursionError):
            damaged.append(number)
    size = before.size + len(complete) + len(end)
    return Log(tuple(events), size, tuple(damaged), bool(rest))


def append(folder: Path, log: Log, events: Sequence[Event]) -> Log:
    """Append `events` to those in `folder`, on disk when this returns; the caller holds the lock.

    An incomplete last line is cut off. If the disk is full, the file stays as it was.
    """
    path = folder / EVENTS
    lines = b"".join(map(line_of, events))
    if path.is_symlink():  # never write through a link
        write_bytes(path, read_bytes(path)[: log.size] if path.exists() else b"", follow=False)
    with output_errors(path):
        new = not path.exists()
        flags = os.O_WRONLY | (os.O_CREAT if new else 0) | getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(path, flags, 0o666)
        try:
            if log.torn:
                warn_once(f"{path}: the last line was incomplete and is removed.")
            os.ftruncate(handle, log.size)
            os.lseek(handle, log.size, os.SEEK_SET)
            try:
                left = memoryview(lines)
                while left:
                    left = left[os.write(handle, left) :]
                os.fsync(handle)
            except BaseException:
                os.ftruncate(handle, log.size)
                raise
        finally:
            os.close(handle)
        if new:
            sync_folder(folder)
    return Log((*log.events, *events), log.size + len(lines), log.damaged)


# ------------------------------------------------------------------ events -> corrections


def replay(
    events: Iterable[Event],
    made: Corrections,
    where: str,
    dropped: list[Event] | None = None,
) -> Iterator[tuple[Event, Corrections]]:
    """Yield the `events` of one revision with the corrections after each; `made` are those before.

    dropped  collects events that do not fit, which are otherwise an error
    """
    events = list(events)
    states: dict[Any, Corrections | None] = {
        json.dumps(event.values.get("to")): None for event in events if event.verb == "back"
    }
    for event in events:
        try:
            made = _after(event, made, states)
        except (StepcutError, ValueError, TypeError, KeyError, AttributeError) as error:
            if dropped is None:
                raise ProcedureError(
                    f"{where}: event {event.id}, {event.verb}, does not fit ({error})."
                ) from error
            dropped.append(event)
        made = made.on_disk(event.id)
        if str(event.id) in states:
            states[str(event.id)] = made
        yield event, made


def corrections_of(
    events: Iterable[Event],
    learned: Document,
    where: str,
    before: Corrections | None = None,
    dropped: list[Event] | None = None,
) -> Corrections:
    """Return the corrections after the `events` of one revision; see `replay`."""
    first = before or Corrections(learned)
    states = [first, *(made for _, made in replay(events, first, where, dropped))]
    return states[-1]


def _after(
    event: Event, made: Corrections, states: Mapping[Any, Corrections | None]
) -> Corrections:
    if event.verb in BASES:
        return Corrections(made.learned)
    if event.verb == "undo":
        return made.undo()
    if event.verb == "redo":
        return made.redo()
    if event.verb == "back":
        if (found := states.get(json.dumps(event.values.get("to")))) is None:
            raise OptionError(f"event {event.values.get('to')!r} is not an earlier one.")
        return found
    return made.do({"do": event.verb, **event.values})


def edit_event(edit: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return an `edit` as the verb and the values of an event."""
    return str(edit["do"]), {key: value for key, value in edit.items() if key != "do"}
