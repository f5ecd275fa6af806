"""People's work on a procedure: edit, undo and redo; list and go back; restore what is damaged."""

import re
import shlex
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
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
from stepcut.errors import OptionError, ProcedureError, wrong
from stepcut.files import AnyPath, hold, output_errors, read_bytes, write_bytes
from stepcut.procedure import old
from stepcut.procedure.corrections import (
    BASES,
    EVENTS,
    MISFITS,
    STARTS,
    Corrections,
    Event,
    Log,
    Made,
    StaleEdit,
    append,
    edit_event,
    lines_of,
    read_log,
    replay,
)
from stepcut.procedure.document import Document
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
    open_at,
    place_aside,
    point,
    read_checked,
    set_aside,
)
from stepcut.procedure.learning import read_outline
from stepcut.procedure.store import (
    base_severity,
    corrections_in,
    open_revision,
    read_events,
    writing,
)
from stepcut.procedure.verbs import VERBS, Edit, correct, describe, plain_edit
from stepcut.tables import Table

Change = tuple[Corrections, str, Made]
SECONDS = r"\d+(?:\.\d+)?"


class Edits:
    """The corrections in a local folder, saved at once.

    Several programs can edit one folder: a change of an old revision raises `StaleEdit`.
    """

    def __init__(self, folder: AnyPath) -> None:
        self.folder = folder_here(folder)
        self._one_at_a_time = threading.RLock()
        self._stamp: list[tuple[int, int, int]] | None = None
        self.refresh()

    def refresh(self) -> None:
        with self._one_at_a_time:
            if self._stamp != (now := self._stamps()):
                self.outline, self._stamp = read_outline(self.folder), now

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
        """Make one change, of this `revision` or the current one; return its description."""

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
        severity = self.document.severity(base_severity(self.folder, self.corrections))
        return {step: kind for kind in SEVERITIES for step in getattr(severity, kind)}

    @property
    def rules(self) -> tuple[Rule, ...]:
        now = self.document
        return parse_rules(
            read_sentences(self.folder / RULES_FILE), now.model_steps, now.former_names
        )

    def set_rule(self, sentence: str, holds: bool = True) -> Rule:
        with self._one_at_a_time, writing(self.folder):
            self.refresh()
            names = self.document.model_steps, self.document.former_names
            return change_rule(self.folder / RULES_FILE, sentence, holds, *names)

    @property
    def limits(self) -> dict[str, str]:
        """How long steps may take, as `set_limit` reads it."""
        ends = {rule.step: (rule.least, rule.most) for rule in self.rules if rule.kind == "lasts"}
        return {
            step: "-".join("" if end is None else f"{end:g}" for end in both).lstrip("-")
            for step, both in ends.items()
        }

    def set_limit(self, step: str, limit: str) -> None:
        """Set how long a step may take: "40" at most, "10-40", "10-", or "" for no limit."""
        found = re.fullmatch(rf"(?:({SECONDS}) ?- ?)?({SECONDS})? ?s?", limit.strip())
        least, most = (float(one) if one else None for one in found.groups()) if found else (0, 0)
        if most == 0 or (most and (least or 0) > most):
            what = "is not a limit; give seconds, such as 40, or 10-40 for both limits."
            raise wrong("limit", limit, what)
        with self._one_at_a_time:
            for rule in self.rules:
                if rule.kind == "lasts" and rule.step == step:
                    self.set_rule(str(rule), False)
            if least or most:
                self.set_rule(str(Rule("lasts", step, least=least, most=most)))

    def proposed_rules(self) -> dict[Rule, str]:
        outline, marked = self.outline, self.document.said.mistakes
        normal = [labels for name, labels in outline.labels.items() if name not in marked]
        found = propose_rules(normal, float(outline.rate), outline.steps, self.rules)
        models = self.document.model_steps
        return {r: why for r, why in found.items() if {r.step, r.other} <= {*models, ""}}

    def _stamps(self) -> list[tuple[int, int, int]]:
        names = (CURRENT, EVENTS, "config.json", "edits.json")
        files = [self.folder / name for name in names if (self.folder / name).exists()]
        return [(state.st_ino, state.st_mtime_ns, state.st_size) for state in map(Path.stat, files)]


# ---------- history


@dataclass(frozen=True)
class Entry:
    id: int
    time: str
    author: str
    what: str
    revision: str
    now: bool


def history(path: AnyPath) -> list[Entry]:
    folder = folder_here(path)
    here = open_revision(folder)
    log = here.log
    words = {event.id: event.verb for event in log.events}  # of a damaged revision
    for name in dict.fromkeys(event.revision for event in log.events):
        with suppress(ProcedureError, OSError, ValueError):
            opened = here if name == here.name else open_revision(folder, name)
            before = old.first_corrections(opened.learned)
            for event, after in replay(log.of(name), before):
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
    done = [f"{w} {', '.join(event.values[w])}" for w in ("added", "removed") if w in event.values]
    return "; ".join(["learn the steps" if event.verb == "learn" else event.verb, *done])


def history_table(path: AnyPath) -> Table:
    return Table(
        ["id", "time (UTC)", "author", "change", "state"],
        [[e.id, e.time, e.author, e.what, "now" if e.now else ""] for e in history(path)],
    )


def go_back(path: AnyPath, to: int) -> None:
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
        append(folder, log, [log.next(event.revision, ("back", {"to": to}))])
        point(folder, event.revision)


def take_back(path: AnyPath) -> None:
    """Restore what was before the last teaching; later corrections stay in the history."""
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
    folder = folder_here(path)
    before = old.copy_before_teaching(folder) if is_old(folder) else _before_teaching(folder)
    return before is not None


def _before_teaching(folder: Path) -> int | None:
    with damaged(folder):
        log, name = read_events(folder), current(folder)
    bases = [event for event in log.of(name) if event.verb in BASES]
    before = str(bases[-1].values.get("from", "")) if bases else ""
    if not bases or bases[-1].verb != "teach" or not (folder / REVISIONS / before).is_dir():
        return None
    return max((event.id for event in log.of(before)), default=None)


# ---------- damage


@dataclass(frozen=True)
class Damage:
    what: tuple[str, ...]
    lost: tuple[str, ...]
    to: str | None

    def __str__(self) -> str:
        lost = "; ".join(self.lost) or "nothing"
        return f"damaged: {'; '.join(self.what)}. Restoring will lose: {lost}."


def diagnose(path: AnyPath) -> Damage | None:
    folder = folder_here(path)
    check_procedure(folder)
    return _survey(folder)[0]


def _survey(folder: Path) -> tuple[Damage | None, Log]:
    if is_old(folder):
        return _survey_old(folder), Log()
    what, lost = [], []
    try:
        log = read_log(folder)
    except OSError:
        log = Log(damaged=(1,))
    if log.damaged:
        what.append(f"{EVENTS}, line {', '.join(map(str, log.damaged[:5]))}")
        lost.append(f"{len(log.damaged)} changes")
    name = ""
    with suppress(OSError, ValueError):
        name = current(folder)
    if not name or not (log.of(name) or (folder / REVISIONS / name).is_dir()):
        what.append(CURRENT)
        name = ""
    for candidate in _candidates(folder, name, log):
        unfit: list[Event] = []
        if (problem := _problem(folder / REVISIONS / candidate, log, unfit)) is None:
            break
        what.append(f"{REVISIONS}/{candidate[:8]} ({problem})")
        if made := [event for event in log.of(candidate) if event.verb not in BASES]:
            lost.append(f"{len(made)} changes made after learning")
    else:
        return Damage(tuple(what), tuple(lost), None), log
    if not log.of(candidate) and not log.damaged:
        what.append(f"{EVENTS} (it lacks the events of this procedure)")
        lost.append("the changes made since learning")
    if unfit:
        what.append(f"{EVENTS}, event {', '.join(str(event.id) for event in unfit[:5])}")
        lost.append(f"{len(unfit)} changes that do not fit")
        kept = tuple(event for event in log.events if event not in unfit)
        log = log._replace(events=kept, damaged=log.damaged or (0,))
    return (Damage(tuple(what), tuple(lost), candidate) if what else None), log


def _survey_old(folder: Path) -> Damage | None:
    try:
        corrections_in(old.open_old(folder))
    except MISFITS as error:
        what = (" ".join(str(error).split()),)
        with suppress(*MISFITS):
            corrections_in(old.open_old(folder, edits=False))
            return Damage(what, (f"the corrections in {old.EDITS}",), "")
        return Damage(what, (), None)
    return None


def _candidates(folder: Path, name: str, log: Log) -> list[str]:
    newest = sorted((folder / REVISIONS).iterdir(), key=lambda path: -path.stat().st_mtime)
    moved = [event.revision for event in reversed(log.events) if event.verb in STARTS]
    named = dict.fromkeys([name, *moved, *(path.name for path in newest)])
    return [one for one in named if NAME.fullmatch(one)]


def _problem(place: Path, log: Log, unfit: list[Event]) -> str | None:
    """Return why a revision cannot be read; collect the events that do not fit it."""
    if not place.is_dir():
        return "missing"
    try:
        opened = open_at(place, log)
        for file in opened.record["files"]:
            read_checked(place, opened.record, file)
        corrections_in(opened, unfit)
    except MISFITS as error:
        return " ".join(str(error).split())
    return None


def restore(path: AnyPath) -> Damage:
    """Show the last readable state; damaged files are kept under new names."""
    folder = folder_here(path)
    check_procedure(folder)
    with output_errors(folder), hold(folder):
        damage, log = _survey(folder)
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
            old.convert(folder, edits=False)
            return damage
        for place in (folder / REVISIONS).iterdir():
            if NAME.fullmatch(place.name) and place.name != damage.to and not is_whole(place):
                set_aside(place)
        if log.damaged:
            with suppress(OSError):
                write_bytes(place_aside(folder / EVENTS), read_bytes(folder / EVENTS))
            lines = lines_of(log.events)
            write_bytes(folder / EVENTS, lines, follow=False)
            log = Log(log.events, len(lines))
        mine = log.of(damage.to)
        made = ("back", {"to": mine[-1].id}) if mine else ("learn", {})
        append(folder, log, [log.next(damage.to, made)])
        point(folder, damage.to)
    return damage
