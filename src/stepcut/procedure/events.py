"""events.jsonl: everything that people did to a procedure, one event a line, only ever appended."""

import contextlib
import getpass
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from stepcut.errors import OptionError, ProcedureError, StepcutError
from stepcut.files.addresses import Address
from stepcut.files.atomic import output_errors, read_bytes, sync_folder, write_bytes
from stepcut.files.cache import wall_clock
from stepcut.procedure.corrections.document import Document
from stepcut.procedure.corrections.log import Corrections
from stepcut.progress import warn_once

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


def events_of(corrections: Corrections) -> list[tuple[str, dict[str, Any]]]:
    """Return `corrections` as verbs and values of events."""
    made = [edit_event(edit) for edit in corrections.history]
    return made + [("undo", {})] * len(corrections.undone)


def edit_event(edit: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return an `edit` as the verb and the values of an event."""
    return str(edit["do"]), {key: value for key, value in edit.items() if key != "do"}


def edit_events(edits: Iterable[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Return `edits` as verbs and values of events."""
    return [edit_event(edit) for edit in edits]
