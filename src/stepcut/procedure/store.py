"""The folder of a procedure: immutable revisions, a pointer to one of them, and a list of events.

CURRENT                 the name of the current revision
revisions/NAME/         one learned state, which never changes:
  config.json           every setting, seed and version, and digests of the other files
  procedure.json        the steps, and of each video the segments in seconds and the annotations
  model.safetensors     the fitted method
  check.json            the reference statistics of `check`
  loss.csv              the loss after every training iteration, if the method trains
  README.md             a model card
events.jsonl            everything that people did, one event a line; see `events.py`
severity.json           which steps are critical, optional or free in order; users may edit it
rules.toml              what every video must do, written by users or the page

All other files belong to the user, and stepcut neither reads nor changes them. Saving writes a
revision, then the events, then the pointer, each whole or not at all.
"""

import contextlib
import json
import math
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import safetensors.numpy

from stepcut.annotations import Annotations
from stepcut.checking.expectations import Expectations
from stepcut.checking.rules import FILE as RULES
from stepcut.checking.rules import write_rules
from stepcut.checking.severity import FILE, KINDS, Severity, read_severity
from stepcut.errors import OutputError, ProcedureError
from stepcut.features.spec import FeatureSpec, find_files
from stepcut.files.addresses import Address, AnyPath, as_path
from stepcut.files.atomic import (
    hold,
    output_errors,
    read_json,
    sync_folder,
    write_bytes,
    write_json,
)
from stepcut.methods import METHODS
from stepcut.methods.hierarchy import Hierarchy
from stepcut.methods.inputs import plain_numbers
from stepcut.methods.method import Method
from stepcut.methods.quality import Quality
from stepcut.plugins import find_saved, is_own, name_of, trusting
from stepcut.procedure.content import Digest
from stepcut.procedure.corrections.document import document_of
from stepcut.procedure.corrections.log import Corrections, apply_severity, carry
from stepcut.procedure.events import (
    EVENTS,
    STARTS,
    Event,
    Log,
    append,
    corrections_of,
    edit_events,
    events_of,
    line_of,
    read_log,
    with_events,
)
from stepcut.procedure.folder import (
    CURRENT,
    REVISIONS,
    check_output,
    check_procedure,
    damaged,
    digest,
    is_old,
    new_folder,
)
from stepcut.procedure.old import check_of_0_3, convert, open_old, remove_converted
from stepcut.procedure.revision import (
    ABOUT,
    LABELS,
    NAME,
    Opened,
    Saved,
    SavedConfig,
    SavedVideo,
    current,
    point,
    put_revision,
    read_checked,
    read_sealed,
)
from stepcut.procedure.state import ProcedureState
from stepcut.progress import warn_once
from stepcut.rate import as_rate
from stepcut.timeline import Timeline, clip_segments

# ------------------------------------------------------------------ reading


def open_revision(path: AnyPath, name: str | None = None) -> Opened:
    """Read a revision of the procedure at `path`, without its model; by default the current one."""
    folder = as_path(path)
    check_procedure(folder)
    with damaged(folder):
        if is_old(folder):
            return open_old(folder)
        name = current(folder) if name is None else name
        log = read_events(folder)
        if not log.of(name):
            raise ValueError(f"{EVENTS} lacks the events of revision {name[:8]}")
        return open_at(folder / REVISIONS / name, log)


def open_at(place: Path | Address, log: Log) -> Opened:
    """Read the revision at `place`, with the events `log` of its folder."""
    config = read_sealed(place)
    saved = msgspec.convert(json.loads(read_checked(place, config, "procedure.json")), Saved)
    return Opened(place.name, place, config, saved, log)


def read_events(folder: Path | Address) -> Log:
    """Read all events; refuse damaged ones."""
    log = read_log(folder)
    if log.damaged:
        raise ValueError(f"{EVENTS}, line {log.damaged[0]}, cannot be read")
    return log


def read_config(path: AnyPath) -> dict[str, Any]:
    """Read the settings of the procedure at `path`."""
    return open_revision(path).config


def base_severity(folder: Path | Address, record: ProcedureState) -> Severity:
    """Read severity.json for a `record`, without corrections.

    Names of steps that only other states in the folder have are passed over.
    """
    if not (folder / FILE).exists():
        return Severity()
    names: dict[str, int] = {}
    if not is_old(folder):
        names = dict.fromkeys(_all_names(folder), -1)
    return read_severity(folder / FILE, record.model_steps, names | record.former_names)


def _all_names(folder: Path | Address) -> Iterator[str]:
    """Yield the names of steps in all revisions and events."""
    for event in read_log(folder).events:
        if event.verb in ("rename", "add"):
            many = event.values.get("names", {})
            yield from map(str, [event.values.get("name"), *many.values()])
    for place in (folder / REVISIONS).iterdir():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            yield from map(str, read_json(place / "procedure.json")["steps"])


def has_work(path: AnyPath) -> str:
    """Return what people have added to the procedure at `path`: corrections, annotations, ... or ""."""
    folder = as_path(path)
    opened = open_revision(folder)
    if any(event.verb not in STARTS for event in opened.log.of(opened.name)):
        return "corrections"
    if any(event.verb == "teach" for event in opened.log.of(opened.name)):
        return "annotations"
    return FILE if (folder / FILE).exists() else ""


def read_fields(opened: Opened, folder: Path | Address) -> dict[str, Any]:
    """Return the fields of a `Procedure`, except the model."""
    config, saved = opened.config, opened.saved
    with damaged(folder):
        checked = msgspec.convert(config, SavedConfig)
        shown = [checked.title, checked.suggestions, checked.quality, checked.hierarchy]
        msgspec.json.encode(shown)  # raises for text that is not Unicode
        if checked.quality:
            Quality.from_json(checked.quality)
        if checked.hierarchy is not None:
            Hierarchy.from_json(checked.hierarchy, saved.steps)
        if not saved.steps or len(set(saved.steps)) != len(saved.steps) or not saved.videos:
            raise ValueError("procedure.json lacks steps or videos")
        timelines = {
            name: _read_timeline(name, one, saved.steps) for name, one in saved.videos.items()
        }
        annotations = Annotations.from_json(saved.annotations)
        steps = {step for timeline in timelines.values() for step in timeline.steps}
        if not annotations.videos.keys() <= timelines.keys() or not {*annotations.steps} <= steps:
            raise ValueError("the annotations do not match the videos and steps")
        learned = document_of(saved.steps, timelines, annotations)
        return {
            "revision": opened.name,
            "learned_steps": saved.steps,
            "learned_timelines": timelines,
            "samples": {name: one.samples for name, one in saved.videos.items()},
            "videos": {name: one.path for name, one in saved.videos.items()},
            "rate": as_rate(config["rate"], "rate"),
            "config": {key: value for key, value in config.items() if key not in ABOUT},
            "learned_annotations": annotations,
            "digests": {
                name: one.digest for name, one in saved.videos.items() if one.digest != Digest()
            },
            "corrections": corrections_of(opened.log.of(opened.name), learned, EVENTS),
        }


def _read_timeline(name: str, saved: SavedVideo, steps: list[str]) -> Timeline:
    """Make a timeline of one video of procedure.json, and check it."""
    end = max((s.end for s in saved.segments), default=0.0)
    end = end if saved.duration is None else saved.duration
    inside = clip_segments(saved.segments, end, f"the timeline of {name}")
    timeline = Timeline(inside, duration=saved.duration, steps=steps, video=name)
    if not math.isfinite(timeline.end) or timeline.overlapping():
        raise ValueError(f"the timeline of {name}")
    return timeline


def read(
    path: AnyPath,
    method: type[Method] | None = None,
    trust: bool = False,
    name: str | None = None,
) -> dict[str, Any]:
    """Read the fields of a saved procedure; the arguments are those of `stepcut.load`.

    name  the revision, by default the current one
    """
    folder = as_path(path)
    opened = open_revision(folder, name)
    fields = read_fields(opened, folder)
    config = fields["config"]
    if config["method"] == LABELS:
        raise ProcedureError(
            f"{folder}: this folder contains labels, not a learned procedure. "
            "Learn one with: stepcut learn",
            path=folder,
        )
    with damaged(folder), trusting(trust):
        kind = method or find_saved("method", str(config["method"]), METHODS)
        beside = [folder.absolute().parent] if isinstance(folder, Path) else []
        config["backbone"] = find_files(config["backbone"], [*beside, Path.cwd()])
        FeatureSpec.from_json(config["backbone"])
        model = read_checked(opened.place, opened.config, "model.safetensors")
        arrays = safetensors.numpy.load(model)
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("model.safetensors contains NaN or infinite values")
        learned = kind.restore(config["settings"], arrays)
        learned.check_settings()
        if [len(labels) for labels in learned.labels_] != list(fields["samples"].values()):
            raise ValueError("the model was learned from other videos")
        record = json.loads(read_checked(opened.place, opened.config, "check.json"))
        expectations = Expectations.from_json(check_of_0_3(record))
    return {**fields, "method": learned, "learned_expectations": expectations, "trusted": trust}


# ------------------------------------------------------------------ writing


@contextlib.contextmanager
def writing(folder: Path | Address) -> Iterator[Log]:
    """Lock the procedure in `folder` for changes, and yield its events.

    A folder of an earlier version is converted first. Addresses have no locks.
    """
    if isinstance(folder, Address):
        with damaged(folder):
            log = read_events(folder) if not is_old(folder) else Log()
        yield log
        return
    with output_errors(folder), hold(folder):
        if is_old(folder):
            convert(folder)
        remove_converted(folder)  # what a crash while converting left
        with damaged(folder):
            log = read_events(folder)
        yield log


def save(record: ProcedureState, path: AnyPath) -> None:
    """Write a `record` as a revision of the procedure at `path`, and make it the current one.

    Edits of the record are added to those on disk. If others have changed the same revision since
    the record was read, saving is refused.
    """
    target = as_path(path)
    if record.config.get("method") != LABELS:
        check_keepable(record.method, target)
    if not isinstance(target, Address):
        target = target.resolve()
        if not target.exists():
            with new_folder(target) as fresh:
                kept = _save(record, fresh, Log())
                try:
                    os.rename(fresh, target)
                except OSError:  # another program was faster
                    if not target.exists():
                        raise
                else:
                    sync_folder(target.parent)
                    record.corrections, record.revision = kept, revision_of(record)
                    return
    check_output(target)
    with writing(target) as log:
        record.corrections = _save(record, target, log)
    record.revision = revision_of(record)


def check_keepable(method: Method, target: AnyPath) -> None:
    """Refuse a `method` that cannot be loaded again from `target`."""
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


def _save(record: ProcedureState, folder: Path | Address, log: Log) -> Corrections:
    """Write a `record` to `folder`, whose events are `log`; return its corrections."""
    name, mine = revision_of(record), record.corrections
    now = _current_corrections(folder)
    if now is None or now[0] != name:
        if record.revision == name and (events := log.of(name)):
            raise OutputError(
                f"{folder}: this procedure was learned again since it was loaded. Load it again, "
                "save it under another name, or go back to the state that was loaded: "
                f"stepcut history {shlex.quote(str(folder))} --to {events[-1].id}",
                path=folder,
            )
        write_revision(record, folder / REVISIONS / name)
        log, mine = _new_revision(record, name, now, folder, log)
        point(folder, name)
        return mine
    before = now[1]
    if record.taught_from is not None and record.taught_from[0] == name:
        return before  # taught with nothing new
    added = edit_events(mine.done[mine.saved :])
    same = mine.at == before.at or not (mine.at or before.history)
    if not added:
        return before
    if not same or mine.done[: mine.saved] != before.done:
        raise OutputError(
            f"{folder}: the corrections have changed on disk since this procedure was loaded. "
            "Load it again and repeat the change, or save it under another name.",
            path=folder,
        )
    log = add_events(folder, log, name, added)
    return mine.on_disk(log.last)


def _current_corrections(
    folder: Path | Address,
) -> tuple[str, Corrections, dict[str, Any]] | None:
    """The name, corrections and fields of the current revision in `folder`, if there is one."""
    if not (is_old(folder) or (folder / CURRENT).exists()):
        return None
    opened = open_revision(folder)
    fields = read_fields(opened, folder)
    return opened.name, fields["corrections"], fields


def _new_revision(
    record: ProcedureState,
    name: str,
    now: tuple[str, Corrections, dict[str, Any]] | None,
    folder: Path | Address,
    log: Log,
) -> tuple[Log, Corrections]:
    """Append the events that begin the revision `name`; `now` is the one that it replaces.

    Edits made while `teach` ran are applied on top.
    """
    mine, taught = record.corrections, record.taught_from
    lost: list[dict[str, Any]] = []
    if now is not None and taught is not None and taught[0] == now[0]:
        learned, present = taught[1].done, now[1].done
        kept = [one == other for one, other in zip(learned, present, strict=False)]
        count = [*kept, False].index(False)
        mine, lost = carry(now[1], count, mine)
        lost += learned[count:]  # undone meanwhile
    elif now is not None and now[1].history:
        lost = list(now[1].history)
    values = {"from": now[0]} if now is not None else {}
    made = [("teach" if taught else "learn", values), *events_of(mine)]
    if severity := _severity_edit(record, folder, mine, new=now is None):
        made.append(severity)
    back = log.last
    log = add_events(folder, log, name, made)
    if lost:
        warn_once(
            f"{folder}: {len(lost)} corrections do not fit the new steps. They are kept with the "
            f"earlier state; to go back to it: stepcut history {shlex.quote(str(folder))} "
            f"--to {back}"
        )
    return log, corrections_of(log.of(name), mine.learned, EVENTS)


def _severity_edit(
    record: ProcedureState, folder: Path | Address, mine: Corrections, new: bool
) -> tuple[str, dict[str, Any]] | None:
    """Keep the severities of a `record`, in severity.json of a new folder or as an edit."""
    if record.config.get("method") == LABELS:
        return None
    base = record.learned_expectations.severity
    if new:
        if base.by_name(record.learned_steps) or base.alarm_at:
            write_json(folder / FILE, base.to_json(record.learned_steps), follow=False)
        if rules := record.expectations.rules:
            write_rules(folder / RULES, rules)
        return None
    there = apply_severity(base_severity(folder, record), mine)
    wanted = apply_severity(base, mine)
    kinds = {
        str(step): [kind for kind in KINDS if step in getattr(wanted, kind)]
        for step in range(len(record.learned_steps))
        if any((step in getattr(wanted, kind)) != (step in getattr(there, kind)) for kind in KINDS)
    }
    if not kinds:
        return None
    first = next(iter(kinds))
    return "severity", {"step": int(first), "severity": None, "kinds": kinds}


def revision_of(record: ProcedureState) -> str:
    """Return the name of the revision of a `record`: its fingerprint, or a hash of its content."""
    name = str(record.config.get("fingerprint", ""))
    if NAME.fullmatch(name):
        return name
    content = [record.config, msgspec.to_builtins(saved_of(record))]
    return digest(json.dumps(content, sort_keys=True, default=str).encode())


def saved_of(record: ProcedureState) -> Saved:
    """Return the content of procedure.json."""
    return Saved(
        record.learned_steps,
        {
            name: SavedVideo(
                record.videos[name],
                timeline.duration,
                record.samples[name],
                list(timeline),
                record.digests.get(name, Digest()),
            )
            for name, timeline in record.learned_timelines.items()
        },
        record.learned_annotations.to_json(),
    )


def write_revision(record: ProcedureState, place: Path | Address) -> None:
    """Write a `record`, without corrections, to the new folder `place`."""
    with new_folder(place) as fresh:
        write_json(fresh / "procedure.json", msgspec.to_builtins(saved_of(record)))
        if record.config.get("method") != LABELS:
            state = record.method.state()
            arrays = {key: np.array(array, order="C") for key, array in state.items()}
            write_bytes(fresh / "model.safetensors", safetensors.numpy.save(arrays))
            write_json(fresh / "check.json", record.learned_expectations.to_json())
            write_bytes(fresh / "README.md", record.card().encode())
            if record.method.curve_ is not None:
                record.method.curve_.save(fresh / "loss.csv")
        put_revision(fresh, place, record.config)


def add_events(
    folder: Path | Address, log: Log, name: str, made: list[tuple[str, dict[str, Any]]]
) -> Log:
    """Append events about the revision `name` to `log` and to its file."""
    after = with_events(log, name, made)
    if isinstance(folder, Address):
        write_bytes(folder / EVENTS, b"".join(map(line_of, after.events)))
        return after
    return append(folder, log, after.events[len(log.events) :])


def event_named(log: Log, number: int) -> Event | None:
    """Return the event with this number, or None."""
    return next((event for event in log.events if event.id == number), None)
