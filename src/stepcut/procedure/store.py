"""Read and write the procedure in a folder; `folder.py` says what is in it."""

import contextlib
import json
import os
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
import safetensors.numpy

from stepcut import files
from stepcut.checking.expectations import Expectations
from stepcut.checking.rules import (
    RULES_FILE,
    SEVERITY_FILE,
    Severity,
    read_severity,
    write_rules,
)
from stepcut.errors import OutputError, ProcedureError
from stepcut.features.spec import FeatureSpec, find_files
from stepcut.files import Address, AnyPath, as_path
from stepcut.methods import METHODS
from stepcut.methods.inputs import plain_numbers
from stepcut.methods.method import Method
from stepcut.plugins import find_saved, is_own, name_of, trusting
from stepcut.procedure import old
from stepcut.procedure.corrections import (
    EVENTS,
    STARTS,
    Corrections,
    Event,
    Log,
    Made,
    append,
    carry,
    corrections_of,
    edit_event,
    lines_of,
    read_log,
)
from stepcut.procedure.folder import (
    CURRENT,
    NAME,
    REVISIONS,
    Opened,
    Place,
    check_output,
    check_procedure,
    current,
    damaged,
    digest,
    is_old,
    new_folder,
    open_at,
    point,
    put_revision,
    read_checked,
)
from stepcut.procedure.learned import LABELS, Config, Learned, saved_of
from stepcut.progress import warn_once

# ---------- reading


def open_revision(path: AnyPath, name: str | None = None) -> Opened:
    folder = as_path(path)
    check_procedure(folder)
    with damaged(folder):
        if is_old(folder):
            return old.open_old(folder)
        name = current(folder) if name is None else name
        log = read_events(folder)
        if not log.of(name):
            raise ValueError(f"{EVENTS} lacks the events of revision {name[:8]}")
        return open_at(folder / REVISIONS / name, log)


def read_events(folder: Place) -> Log:
    log = read_log(folder)
    if log.damaged:
        raise ValueError(f"{EVENTS}, line {log.damaged[0]}, cannot be read")
    return log


def corrections_in(opened: Opened, dropped: list[Event] | None = None) -> Corrections:
    return corrections_of(
        opened.log.of(opened.name), old.first_corrections(opened.learned), dropped
    )


def read_config(path: AnyPath) -> Config:
    return open_revision(path).learned.config


def base_severity(folder: Place, corrections: Corrections) -> Severity:
    if not (folder / SEVERITY_FILE).exists():
        return Severity()
    names: dict[str, int] = {} if is_old(folder) else dict.fromkeys(_all_names(folder), -1)
    now = corrections.document
    return read_severity(folder / SEVERITY_FILE, now.model_steps, names | now.former_names)


def _all_names(folder: Place) -> Iterator[str]:
    for event in read_log(folder).events:
        if event.verb in ("rename", "add"):
            many = event.values.get("names", {})
            yield from map(str, [event.values.get("name"), *many.values()])
    for place in (folder / REVISIONS).iterdir():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            yield from map(str, files.read_json(place / "procedure.json")["steps"])


def has_work(path: AnyPath) -> str:
    folder, opened = as_path(path), open_revision(path)
    verbs = {event.verb for event in opened.log.of(opened.name)}
    if verbs - {*STARTS}:
        return "corrections"
    if "teach" in verbs:
        return "annotations"
    return SEVERITY_FILE if (folder / SEVERITY_FILE).exists() else ""


def read_model(
    opened: Opened, folder: Place, kind: type[Method] | None, trust: bool
) -> tuple[Learned, Expectations]:
    learned, config = opened.learned, opened.learned.config
    if config.method == LABELS:
        raise ProcedureError(
            f"{folder}: this folder contains labels, not a learned procedure. "
            "Learn one with: stepcut learn",
            path=folder,
        )
    with damaged(folder), trusting(trust):
        kind = kind or find_saved("method", config.method, METHODS)
        beside = [folder.absolute().parent] if isinstance(folder, Path) else []
        backbone = find_files(config.backbone, [*beside, Path.cwd()])
        FeatureSpec.from_json(backbone)
        model = read_checked(opened.place, opened.record, "model.safetensors")
        arrays = safetensors.numpy.load(model)
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("model.safetensors contains NaN or infinite values")
        method = kind.restore(config.settings, arrays)
        method.check_settings()
        if [len(labels) for labels in method.labels_] != list(learned.samples.values()):
            raise ValueError("the model was learned from other videos")
        record = json.loads(read_checked(opened.place, opened.record, "check.json"))
        expectations = Expectations.from_json(old.check_of_0_3(record))
    config = msgspec.structs.replace(config, backbone=backbone)
    return replace(learned, config=config, method=method), expectations


# ---------- writing


@contextlib.contextmanager
def writing(folder: Place) -> Iterator[Log]:
    """Lock a local folder and yield its events; convert one of an earlier version."""
    if isinstance(folder, Address):
        with damaged(folder):
            log = Log() if is_old(folder) else read_events(folder)
        yield log
        return
    with files.output_errors(folder), files.hold(folder):
        if is_old(folder):
            old.convert(folder)
        old.remove_converted(folder)  # what a crash while converting left
        with damaged(folder):
            log = read_events(folder)
        yield log


@dataclass(frozen=True)
class Change:
    learned: Learned
    corrections: Corrections
    card: str
    revision: str
    taught_from: tuple[str, Corrections] | None

    @property
    def name(self) -> str:
        if NAME.fullmatch(name := self.learned.config.fingerprint):
            return name
        content = [msgspec.to_builtins(self.learned.config), saved_of(self.learned)]
        return digest(json.dumps(content, sort_keys=True, default=str).encode())


def save(path: AnyPath, change: Change) -> Corrections:
    """Add edits to those on disk, or begin a revision; refuse if others have changed it."""
    target = as_path(path)
    if change.learned.method is not None:
        check_keepable(change.learned.method, target)
    if not isinstance(target, Address):
        target = target.resolve()
        if not target.exists():
            with new_folder(target) as fresh:
                made = _save(change, fresh, Log())
                try:
                    os.rename(fresh, target)
                except OSError:  # another program was faster
                    if not target.exists():
                        raise
                else:
                    files.sync_folder(target.parent)
                    return made
    check_output(target)
    with writing(target) as log:
        return _save(change, target, log)


def check_keepable(method: Method, target: AnyPath) -> None:
    name = name_of("method", method, METHODS)
    if name not in METHODS and ":" in name and not is_own(name):
        raise OutputError(
            f"{target}: the class of the custom method {type(method).__name__} cannot be imported "
            f"({name}), so the procedure could not be loaded. Move the class to the top level of "
            "a module.",
            path=target,
        )
    try:
        json.dumps(plain_numbers(method.settings()))
    except TypeError as error:
        raise OutputError(
            f"{target}: a setting of method {type(method).__name__} cannot be saved as JSON "
            f"({error}). Use numbers and strings.",
            path=target,
        ) from error


def _save(change: Change, folder: Place, log: Log) -> Corrections:
    name, mine, taught, now = change.name, change.corrections, change.taught_from, None
    if is_old(folder) or (folder / CURRENT).exists():
        opened = open_revision(folder)
        now = opened.name, corrections_in(opened)
    if now is None or now[0] != name:
        base = taught[0] if taught and _videos_differ(change, taught[1]) else ""
        stale = name if change.revision == name else base if now and base != now[0] else ""
        if events := log.of(stale):
            raise OutputError(
                f"{folder}: this procedure was learned again since it was loaded. Load it again, "
                "save it under another name, or go back to the state that was loaded: "
                f"stepcut history {shlex.quote(str(folder))} --to {events[-1].id}",
                path=folder,
            )
        _write_revision(change, folder / REVISIONS / name)
        made = _begin_revision(change, now, folder, log)
        point(folder, name)
        return made
    before, added = now[1], mine.done[mine.saved :]
    if not added or (taught is not None and taught[0] == name):
        return before  # taught with nothing new
    same = mine.at == before.at or not (mine.at or before.history)
    if not same or mine.done[: mine.saved] != before.done:
        raise OutputError(
            f"{folder}: the corrections have changed on disk since this procedure was loaded. "
            "Load it again and repeat the change, or save it under another name.",
            path=folder,
        )
    log = _add_events(folder, log, name, map(edit_event, added))
    return mine.on_disk(log.events[-1].id)


def _videos_differ(change: Change, before: Corrections) -> bool:
    return change.learned.samples.keys() != before.learned.segments.keys()


def _begin_revision(
    change: Change, now: tuple[str, Corrections] | None, folder: Place, log: Log
) -> Corrections:
    """Apply the edits that were made while `teach` ran on top."""
    mine, taught = change.corrections, change.taught_from
    lost = [] if now is None else list(now[1].history)
    if now is not None and taught is not None and taught[0] == now[0]:
        learned, present = taught[1].done, now[1].done
        kept = [one == other for one, other in zip(learned, present, strict=False)]
        count = [*kept, False].index(False)
        mine, lost = carry(now[1], count, mine)
        lost += learned[count:]  # undone meanwhile
    begin: Made = ("teach" if taught else "learn", {"from": now[0]} if now else {})
    if now is not None:
        before, after = now[1].learned.segments.keys(), change.learned.samples.keys()
        both = {"added": sorted(after - before), "removed": sorted(before - after)}
        begin[1].update({word: names for word, names in both.items() if names})
    made = [begin, *map(edit_event, mine.history), *[("undo", {})] * len(mine.undone)]
    made += _keep_severity(change.learned, folder, mine, new=now is None)
    back = log.events[-1].id if log.events else 0
    log = _add_events(folder, log, change.name, made)
    if lost:
        warn_once(
            f"{folder}: {len(lost)} corrections do not fit the new steps. They are kept with the "
            f"earlier state; to go back to it: stepcut history {shlex.quote(str(folder))} "
            f"--to {back}"
        )
    return corrections_of(log.of(change.name), Corrections(mine.learned))


def _keep_severity(learned: Learned, folder: Place, mine: Corrections, new: bool) -> list[Made]:
    if learned.expectations is None:
        return []
    base, now = learned.expectations.severity, mine.document
    if new:
        if base != Severity():
            files.write_json(folder / SEVERITY_FILE, base.to_json(learned.steps), follow=False)
        if rules := learned.expectations.rules:
            names, former = now.model_steps, now.former_names
            write_rules(folder / RULES_FILE, [rule.renamed(names, former) for rule in rules])
        return []
    there, wanted = now.severity(base_severity(folder, mine)), now.severity(base)
    kinds = {
        str(step): wanted.of(step)
        for step in range(len(learned.steps))
        if wanted.of(step) != there.of(step)
    }
    step = now.now[int(next(iter(kinds)))] if kinds else None
    return [("severity", {"step": step, "severity": None, "kinds": kinds})] if kinds else []


def _write_revision(change: Change, place: Place) -> None:
    learned, method = change.learned, change.learned.method
    with new_folder(place) as fresh:
        files.write_json(fresh / "procedure.json", saved_of(learned))
        if method is not None and learned.expectations is not None:
            arrays = {key: np.array(array, order="C") for key, array in method.state().items()}
            files.write_bytes(fresh / "model.safetensors", safetensors.numpy.save(arrays))
            files.write_json(fresh / "check.json", learned.expectations.to_json())
            files.write_bytes(fresh / "README.md", change.card.encode())
            if method.curve_ is not None:
                method.curve_.save(fresh / "loss.csv")
        put_revision(fresh, place, learned.config)


def _add_events(folder: Place, log: Log, name: str, made: Iterable[Made]) -> Log:
    after = log.plus(name, made)
    if isinstance(folder, Address):
        files.write_bytes(folder / EVENTS, lines_of(after.events))
        return after
    return append(folder, log, after.events[len(log.events) :])
