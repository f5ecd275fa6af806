"""History: who changed what when, going back to any point, and restoring a damaged procedure."""

import shlex
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepcut.errors import OptionError, ProcedureError, StepcutError
from stepcut.files.addresses import AnyPath
from stepcut.files.atomic import hold, output_errors, read_bytes, write_bytes
from stepcut.procedure.corrections import (
    BASES,
    EVENTS,
    STARTS,
    Corrections,
    Event,
    Log,
    append,
    line_of,
    new_event,
    read_log,
    replay,
)
from stepcut.procedure.folder import (
    CURRENT,
    NAME,
    REVISIONS,
    check_procedure,
    current,
    damaged,
    folder_here,
    is_old,
    is_whole,
    point,
    read_checked,
    read_sealed,
    set_aside,
)
from stepcut.procedure.learned import document_of
from stepcut.procedure.old import EDITS, convert, copy_before_teaching, open_old
from stepcut.procedure.store import corrections_in, open_at, open_revision, writing
from stepcut.procedure.verbs import VERBS, describe
from stepcut.tables import Table


@dataclass(frozen=True)
class Entry:
    """One thing that a person did to a procedure."""

    id: int
    time: str
    author: str
    what: str
    revision: str
    now: bool = False
    """Whether the procedure is at this point now."""


def history(path: AnyPath) -> list[Entry]:
    """Return everything that was done to the procedure at `path`, oldest first."""
    folder = folder_here(path)
    here = open_revision(folder)
    log = here.log
    words: dict[int, str] = {}
    for name in dict.fromkeys(event.revision for event in log.events):
        before: Corrections | None = None
        with suppress(ProcedureError, OSError, ValueError):
            opened = here if name == here.name else open_revision(folder, name)
            before = Corrections(document_of(opened.learned))
        if before is None:  # the revision is damaged
            words |= {event.id: event.verb for event in log.of(name)}
            continue
        for event, after in replay(log.of(name), before, EVENTS):
            words[event.id] = _words(event, before)
            before = after
    last = log.of(here.name)[-1].id
    return [
        Entry(one.id, one.time, one.author, words[one.id], one.revision, one.id == last)
        for one in log.events
    ]


def _words(event: Event, before: Corrections) -> str:
    if event.verb in VERBS:
        return describe(before.document, {"do": event.verb, **event.values})
    if event.verb == "undo" and before.done:
        return f"undo: {describe(before.undo().document, before.done[-1])}"
    if event.verb == "redo" and before.undone:
        return f"redo: {describe(before.document, before.undone[-1])}"
    if event.verb == "back":
        return f"go back to {event.values.get('to')}"
    return {"learn": "learn the steps", "teach": "teach"}.get(event.verb, event.verb)


def history_table(path: AnyPath) -> Table:
    """Return the history of the procedure at `path` as a table."""
    rows: list[Any] = [
        [one.id, one.time, one.author, one.what, "now" if one.now else ""] for one in history(path)
    ]
    return Table(["id", "time (UTC)", "author", "change", "state"], rows)


def go_back(path: AnyPath, to: int) -> None:
    """Restore the state of the procedure at `path` after the event `to`; nothing is deleted.

    Raises
    ------
    OptionError
        There is no such event.
    ProcedureError
        The learned state of this event is damaged.
    """
    folder = folder_here(path)
    check_procedure(folder)
    with writing(folder) as log:
        event = next((event for event in log.events if event.id == to), None)
        if event is None:
            raise OptionError(
                f"{folder}: event {to!r} does not exist. Choose a number from: "
                f"stepcut history {shlex.quote(str(folder))}",
                setting="to",
                value=to,
            )
        with damaged(folder):
            corrections_in(open_revision(folder, event.revision))
        if not is_whole(folder / REVISIONS / event.revision):
            raise ProcedureError(
                f"{folder}: the learned state of event {to} is damaged.", path=folder
            )
        append(folder, log, [new_event(log, event.revision, "back", {"to": to})])
        point(folder, event.revision)


def take_back(path: AnyPath) -> None:
    """Restore the procedure at `path`, with its corrections, from before the last teaching.

    Corrections made after teaching stay in the history.

    Raises
    ------
    OptionError
        The procedure was not taught in this folder.
    """
    folder = folder_here(path)
    check_procedure(folder)
    with writing(folder):  # a folder of an earlier version is converted
        to = _before_teaching(folder)
    if to is None:
        raise OptionError(
            f"{folder}: nothing to undo, since no teaching was saved in this folder. All changes: "
            f"stepcut history {shlex.quote(str(folder))}",
            path=folder,
        )
    go_back(folder, to)


def can_take_back(path: AnyPath) -> bool:
    """Whether the state before the last teaching exists."""
    folder = folder_here(path)
    if is_old(folder):
        return copy_before_teaching(folder) is not None
    return _before_teaching(folder) is not None


def _before_teaching(folder: Path) -> int | None:
    """The last event before the teaching that made the current revision."""
    opened = open_revision(folder)
    bases = [event for event in opened.log.of(opened.name) if event.verb in BASES]
    before = str(bases[-1].values.get("from", "")) if bases else ""
    if not bases or bases[-1].verb != "teach" or not (folder / REVISIONS / before).is_dir():
        return None
    events = opened.log.of(before)
    return events[-1].id if events else None


# ------------------------------------------------------------------ damage


@dataclass(frozen=True)
class Damage:
    """What is damaged in the folder of a procedure, and what `restore` will show instead."""

    what: tuple[str, ...]
    lost: tuple[str, ...]
    """What people did that will no longer be shown; its files are kept."""
    to: str | None
    """The revision to show; None if none can be read."""

    def __str__(self) -> str:
        lost = "; ".join(self.lost) or "nothing"
        return f"damaged: {'; '.join(self.what)}. Restoring will lose: {lost}."


def diagnose(path: AnyPath) -> Damage | None:
    """Return what is damaged in the procedure at `path`, or None."""
    folder = folder_here(path)
    check_procedure(folder)
    if is_old(folder):
        return _diagnose_old(folder)
    return _survey(folder)[0]


def _diagnose_old(folder: Path) -> Damage | None:
    try:
        corrections_in(open_old(folder))
    except (StepcutError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        what = (" ".join(str(error).split()),)
        with suppress(StepcutError, OSError, ValueError, KeyError, TypeError, AttributeError):
            corrections_in(open_old(folder, edits=False))
            return Damage(what, (f"the corrections in {EDITS}",), "")
        return Damage(what, (), None)
    return None


def _survey(folder: Path) -> tuple[Damage | None, Log, list[Event]]:
    """Return the damage, the readable events, and those of them that do not fit."""
    what, lost = [], []
    log = _readable_events(folder)
    if log.damaged:
        lines = ", ".join(map(str, log.damaged[:5]))
        what.append(f"{EVENTS}, line {lines}")
        lost.append(f"{len(log.damaged)} changes")
    name = ""
    try:
        name = current(folder)
    except (OSError, ValueError):
        what.append(CURRENT)
    if name and not log.of(name) and not (folder / REVISIONS / name).is_dir():
        what.append(CURRENT)
        name = ""
    dropped: list[Event] = []
    for candidate in _candidates(folder, name, log):
        unfit: list[Event] = []
        if (problem := _problem(folder, candidate, log, unfit)) is None:
            break
        what.append(f"{REVISIONS}/{candidate[:8]} ({problem})")
        if made := [event for event in log.of(candidate) if event.verb not in BASES]:
            lost.append(f"{len(made)} changes made after learning")
    else:
        return Damage(tuple(what), tuple(lost), None), log, dropped
    dropped = unfit
    if not log.of(candidate) and not log.damaged:
        what.append(f"{EVENTS} (it lacks the events of this procedure)")
        lost.append("the changes made since learning")
    if dropped:
        what.append(f"{EVENTS}, event {', '.join(str(event.id) for event in dropped[:5])}")
        lost.append(f"{len(dropped)} changes that do not fit")
    return (Damage(tuple(what), tuple(lost), candidate) if what else None), log, dropped


def _readable_events(folder: Path) -> Log:
    try:
        return read_log(folder)
    except OSError:
        return Log(damaged=(1,))


def _candidates(folder: Path, name: str, log: Log) -> list[str]:
    """The names of the revisions, the likeliest first."""
    there = [path for path in (folder / REVISIONS).iterdir() if NAME.fullmatch(path.name)]
    newest = sorted(there, key=lambda path: -path.stat().st_mtime)
    moved = [event.revision for event in reversed(log.events) if event.verb in STARTS]
    named = dict.fromkeys([*filter(None, [name]), *moved, *(path.name for path in newest)])
    return [one for one in named if NAME.fullmatch(one)]


def _problem(folder: Path, name: str, log: Log, unfit: list[Event]) -> str | None:
    """Return why a revision cannot be read, or None; collect the events that do not fit it."""
    place = folder / REVISIONS / name
    try:
        if not place.is_dir():
            return "missing"
        config = read_sealed(place)
        for file in config["files"]:
            read_checked(place, config, file)
        opened = open_at(place, log)
        corrections_in(opened, unfit)
    except (StepcutError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return " ".join(str(error).split())
    return None


def restore(path: AnyPath) -> Damage:
    """Show the last readable state of a damaged procedure; damaged files are kept under new names.

    Raises
    ------
    OptionError
        Nothing is damaged.
    ProcedureError
        No learned state can be read.
    """
    folder = folder_here(path)
    check_procedure(folder)
    with output_errors(folder), hold(folder):
        log, dropped = Log(), list[Event]()
        if is_old(folder):
            damage = _diagnose_old(folder)
        else:
            damage, log, dropped = _survey(folder)
        if damage is None:
            raise OptionError(f"{folder}: nothing is damaged.", path=folder)
        if damage.to is None:
            raise ProcedureError(
                f"{folder}: no learned state can be read ({'; '.join(damage.what)}). Nothing was "
                "changed. Restore the folder from a backup, or learn the procedure again from the "
                "same videos, with the same settings, and with another name (-o).",
                path=folder,
            )
        if is_old(folder):
            convert(folder, edits=False)
            return damage
        _restore(folder, damage.to, log, dropped)
    return damage


def _restore(folder: Path, name: str, log: Log, dropped: list[Event]) -> None:
    for place in (folder / REVISIONS).iterdir():
        if NAME.fullmatch(place.name) and place.name != name and not is_whole(place):
            set_aside(place)
    if log.damaged or dropped:
        events = tuple(event for event in log.events if event not in dropped)
        path, number = folder / EVENTS, 1
        while (aside := folder / f"{EVENTS}.damaged-{number}").exists():
            number += 1
        with suppress(OSError):
            write_bytes(aside, read_bytes(path))
        lines = b"".join(map(line_of, events))
        write_bytes(path, lines, follow=False)
        log = Log(events, len(lines))
    mine = log.of(name)
    event = new_event(log, name, "back" if mine else "learn", {"to": mine[-1].id} if mine else {})
    append(folder, log, [event])
    point(folder, name)
