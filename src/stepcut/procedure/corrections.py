"""The edits to one learned state, and the append-only list of events that records them on disk."""

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

from stepcut.errors import OptionError, OutputError, ProcedureError, StepcutError
from stepcut.files import Address, output_errors, read_bytes, sync_folder, wall_clock, write_bytes
from stepcut.procedure.document import Document
from stepcut.procedure.verbs import Edit, apply
from stepcut.progress import warn_once

KEPT = 200
EVENTS = "events.jsonl"
BASES = ("learn", "teach", "convert")
STARTS = (*BASES, "back")
MISFITS = (StepcutError, OSError, ValueError, TypeError, KeyError, AttributeError)
Made = tuple[str, dict[str, Any]]


class StaleEdit(OutputError):
    """A correction is based on an old state; nothing was written."""


@dataclass(frozen=True)
class Corrections:
    learned: Document
    done: tuple[dict[str, Any], ...] = ()
    undone: tuple[dict[str, Any], ...] = ()
    documents: tuple[Document, ...] = ()
    at: int = 0
    """The last event on disk; 0 if there is none."""
    saved: int = 0
    """The number of edits on disk."""

    @property
    def document(self) -> Document:
        return self.documents[-1] if self.documents else self.learned

    @property
    def history(self) -> tuple[dict[str, Any], ...]:
        return (*self.done, *reversed(self.undone))

    def do(self, edit: Edit, run: Callable[[Document, Edit], Document] = apply) -> Self:
        documents = (*self.documents, run(self.document, edit))[-KEPT:]
        return replace(self, done=(*self.done, dict(edit)), undone=(), documents=documents)

    def undo(self) -> Self:
        if not self.done:
            raise OptionError("nothing to undo.")
        done, documents = self.done[:-1], self.documents[:-1]
        if done and not documents:
            documents = (reduce(apply, done, self.learned),)
        return replace(self, done=done, undone=(*self.undone, self.done[-1]), documents=documents)

    def redo(self) -> Self:
        if not self.undone:
            raise OptionError("nothing to redo.")
        return replace(self.do(self.undone[-1]), undone=self.undone[:-1])

    def on_disk(self, at: int) -> Self:
        return replace(self, at=at, saved=len(self.done))


def carry(
    before: Corrections, count: int, after: Corrections
) -> tuple[Corrections, list[dict[str, Any]]]:
    """Apply later edits of `before` to another learned state; return those that do not fit."""
    document = reduce(apply, before.done[:count], before.learned)
    lost = []
    for edit in before.done[count:]:
        try:
            after = after.do(_translate(edit, document, after.document))
        except (OptionError, KeyError):
            lost.append(edit)
        document = apply(document, edit)
    return after, lost


def _translate(edit: Edit, here: Document, there: Document) -> dict[str, Any]:
    """Return an `edit` of `here` as one of `there`; KeyError if it means nothing."""
    same = {step.number: there.numbers.get(step.name) for step in here.steps}
    number = {step: other for step, other in same.items() if other is not None}
    made, video = dict(edit), str(edit.get("video"))
    for key in ("step", "into"):
        if edit.get(key) is not None:
            made[key] = number[edit[key]]
    if "videos" in edit:  # some may have been removed
        made["videos"] = [one for one in edit["videos"] if one in there.segments]
        if not made["videos"]:
            raise KeyError("videos")
    for key in ("names", "kinds"):
        if key in edit:
            made[key] = {str(number[int(step)]): value for step, value in edit[key].items()}
    if edit["do"] in ("move_click", "remove_click"):
        if here.said.videos[video].clicks != there.said.videos[video].clicks:
            raise KeyError(video)
    elif edit["do"] in ("move_onset", "remove_onset"):
        if here.said.videos[video].onsets != there.said.videos[video].onsets:
            raise KeyError(video)
    elif edit["do"] == "move":  # the same boundary of the same step
        edge, own = edit["edge"], here.segments[video][edit["part"]]
        edges = [(one.step, getattr(one, edge)) for one in there.segments[video]]
        if edges.count(mine := (own.step, getattr(own, edge))) != 1:
            raise KeyError(video)
        made["part"] = edges.index(mine)
    elif edit["do"] in ("cut", "split"):  # the same step at this time
        steps = [
            [one.step for one in each.segments[video] if one.start < edit["time"] < one.end]
            for each in (here, there)
        ]
        if not steps[0] or steps[0] != steps[1]:
            raise KeyError(video)
    return made


# ---------- events on disk


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """The verb is that of an edit, undo, redo, learn, teach, convert, or back (to event `to`)."""

    id: int
    time: str
    author: str
    revision: str
    verb: str
    values: dict[str, Any] = {}


class Log(NamedTuple):
    events: tuple[Event, ...] = ()
    size: int = 0
    damaged: tuple[int, ...] = ()
    torn: bool = False
    """Whether the last line is incomplete: an edit that was never confirmed."""

    def of(self, revision: str) -> list[Event]:
        return [event for event in self.events if event.revision == revision]

    def next(self, revision: str, made: Made, author: str = "") -> Event:
        if not author:
            with contextlib.suppress(Exception):  # the system may know no user
                author = getpass.getuser()
        last = self.events[-1].id if self.events else 0
        return Event(last + 1, wall_clock(), author, revision, *made)

    def plus(self, revision: str, made: Iterable[Made]) -> "Log":
        log = self
        for one in made:
            log = log._replace(events=(*log.events, log.next(revision, one)))
        return log


def lines_of(events: Iterable[Event]) -> bytes:
    """Each line ends in a checksum of the rest."""
    bodies = (json.dumps(msgspec.to_builtins(one), allow_nan=False).encode() for one in events)
    return b"".join(b'%s, "sum": "%s"}\n' % (body[:-1], _checksum(body)) for body in bodies)


def _event_of(line: bytes) -> Event:
    body, _, end = line.rpartition(b', "sum": "')
    body += b"}"
    if end != b'%s"}' % _checksum(body):
        raise ValueError("the checksum differs")
    return msgspec.convert(json.loads(body), Event)


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=4).hexdigest().encode()


def read_log(folder: Path | Address) -> Log:
    path = folder / EVENTS
    data = read_bytes(path) if path.exists() else b""
    complete, end, rest = data.rpartition(b"\n")
    events: list[Event] = []
    damaged = []
    for number, line in enumerate((complete + end).splitlines(), 1):
        try:
            event = _event_of(line)
            if events and event.id <= events[-1].id:
                raise ValueError("the number of the event is not the next one")
            events.append(event)
        except (ValueError, RecursionError):
            damaged.append(number)
    return Log(tuple(events), len(complete) + len(end), tuple(damaged), bool(rest))


def append(folder: Path, log: Log, events: Sequence[Event]) -> Log:
    """Write to disk before returning; the caller holds the lock. A full disk changes nothing."""
    path, lines = folder / EVENTS, lines_of(events)
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


# ---------- events -> corrections


def replay(
    events: Iterable[Event], made: Corrections, dropped: list[Event] | None = None
) -> Iterator[tuple[Event, Corrections]]:
    """Yield the corrections after each event; `dropped` collects events that do not fit."""
    events = list(events)
    wanted = {str(event.values.get("to")) for event in events if event.verb == "back"}
    states: dict[str, Corrections] = {}
    for event in events:
        try:
            made = _after(event, made, states)
        except MISFITS as error:
            if dropped is None:
                raise ProcedureError(
                    f"{EVENTS}: event {event.id}, {event.verb}, does not fit ({error})."
                ) from error
            dropped.append(event)
        made = made.on_disk(event.id)
        if str(event.id) in wanted:
            states[str(event.id)] = made
        yield event, made


def corrections_of(
    events: Iterable[Event], before: Corrections, dropped: list[Event] | None = None
) -> Corrections:
    states = [before, *(made for _, made in replay(events, before, dropped))]
    return states[-1]


def _after(event: Event, made: Corrections, states: Mapping[str, Corrections]) -> Corrections:
    match event.verb:
        case "learn" | "teach" | "convert":
            return Corrections(made.learned)
        case "undo":
            return made.undo()
        case "redo":
            return made.redo()
        case "back":
            if (to := str(event.values.get("to"))) not in states:
                raise OptionError(f"event {to} is not an earlier one.")
            return states[to]
        case verb:
            return made.do({"do": verb, **event.values})


def edit_event(edit: Mapping[str, Any]) -> Made:
    return str(edit["do"]), {key: value for key, value in edit.items() if key != "do"}
