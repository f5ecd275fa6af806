"""BORIS: projects (`.boris`, JSON), and tables of tabular or aggregated events."""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any

import msgspec

from stepcut.files.names import video_name
from stepcut.formats.common import (
    Absent,
    Options,
    all_steps,
    build_segment,
    flaw,
    need_seconds,
    plain,
    read_json,
    seconds,
    without_overlap,
)
from stepcut.formats.tables import NAMES, Row, find_columns, simplify, to_text
from stepcut.timeline import Segment, Timeline

NOBODY = "No focal subject"
Media = tuple[tuple[str, float], ...]  # files with their start in the time of the observation


class Event(msgspec.Struct, array_like=True, order=True):
    """The start or stop of a state event, or a point event, which is a click."""

    time: float
    subject: Any
    code: Any
    modifier: Any = ""


class Behavior(msgspec.Struct):
    code: Any
    type: Any


class Observation(msgspec.Struct):
    events: list[Event]
    file: dict[str, list[str]] | list[str] | str | None = None
    media_info: Any = None
    offset: float | None = msgspec.field(name="time offset", default=None)


class Project(msgspec.Struct):
    behaviors_conf: dict[str, Behavior]
    observations: dict[str, Observation]


# ---------- projects


def read(record: Any, options: Options) -> list[Timeline]:
    """Read the observations (of the annotator); each media file becomes one timeline."""
    project = msgspec.convert(record, Project)
    conf = [each for _, each in sorted(project.behaviors_conf.items(), key=lambda i: int(i[0]))]
    points = {str(each.code) for each in conf if str(each.type).startswith("Point")}
    steps = [str(each.code) for each in conf]
    there = {str(event.subject) for each in project.observations.values() for event in each.events}
    chosen, subjects = _choose_subjects(set(project.observations), there, options)
    found: list[tuple[str, Timeline]] = []
    for name in (name for name in project.observations if name in chosen):
        observation = project.observations[name]
        events = [
            Event(e.time - (observation.offset or 0), str(e.subject), str(e.code), str(e.modifier))
            for e in observation.events
        ]
        if missing := sorted({event.code for event in events} - set(steps)):
            what = f"observation {name!r}: {missing[0]!r} is not in the ethogram"
            raise flaw(what, "Add it in BORIS")
        mine = [event for event in events if event.subject in subjects]
        segments = _pair(event for event in mine if event.code not in points)
        segments += [build_segment(e.time, e.time, e.code) for e in mine if e.code in points]
        played = observation.file or []
        played = played.get("1", []) if isinstance(played, dict) else list(played)
        stated = (observation.media_info or {}).get("length") or {}
        lengths = [msgspec.convert(stated.get(file), float | None) for file in played]
        if not played or (len(played) > 1 and None in lengths):
            found.append((name, Timeline(segments, None, steps, name)))
            continue
        starts = accumulate((length or 0.0 for length in lengths[:-1]), initial=0.0)
        media = tuple(zip(played, starts, strict=True))
        parts = [part for segment in Timeline(segments) for part in _by_video(segment, media)]
        for file, length in zip(played, lengths, strict=True):
            own = [part for video, part in parts if video == file]
            found.append((name, Timeline(own, length, steps, file)))
    return _one_per_video(found)


def write(timelines: Sequence[Timeline], options: Options) -> Any:
    """Write a project; a step with clicks only is a point event, others start and stop."""
    steps = all_steps(timelines)
    states = {segment.step for timeline in timelines for segment in timeline.intervals}
    points = {click.step for timeline in timelines for click in timeline.clicks} - states
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    blank: dict[str, Any] = read_json(Path(__file__).with_suffix(".json"))
    observations: dict[str, Any] = {}
    subjects: dict[str, None] = {}
    for place, timeline in enumerate(timelines, start=1):
        name = video_name(timeline.video)
        name = f"observation {place}" if not name or name in observations else name
        events = [event for event, _ in _list_events(timeline, points)]
        subjects.update(dict.fromkeys(event.subject for event in events if event.subject))
        length = {} if timeline.duration is None else {timeline.video: timeline.duration}
        there = {timeline.video: True}
        observations[name] = blank["observation"] | {
            "file": {"1": [timeline.video]},
            "date": now,
            "events": [[e.time, e.subject, e.code, e.modifier, ""] for e in events],
            "media_info": {"length": length, "fps": {}, "hasVideo": there, "hasAudio": {}},
        }
    keys = "abcdefghijklmnopqrstuvwxyz0123456789"
    behaviors = {}
    for place, step in enumerate(steps):
        kind = "Point event" if step in points else "State event"
        about = {"type": kind, "key": keys[place : place + 1], "code": step}
        behaviors[str(place)] = about | blank["behavior"]
    people = {str(i): {"key": "", "name": s, "description": ""} for i, s in enumerate(subjects)}
    return blank["project"] | {
        "project_date": now,
        "project_name": options.path.stem,
        "subjects_conf": people,
        "behaviors_conf": behaviors,
        "observations": observations,
    }


def matches(record: Any) -> bool:
    keys = ("observations", "behaviors_conf")
    return isinstance(record, dict) and all(isinstance(record.get(key), dict) for key in keys)


# ---------- tables of events

HEADER = ["Observation id", "Media file name", "Subject", "Behavior", "Behavior type", "Time"]
POINT = ("POINT", "PUNKT", "PONCTUEL", "PUNTO", "PUNTUAL", "STATE POINT", "POINT EVENT")


def read_events(rows: Sequence[Row], options: Options) -> list[Timeline]:
    """Read tabular events (of old versions with a preamble, too) or aggregated events."""
    head = next(place for place, row in enumerate(rows) if _is_header(row.cells))
    columns = find_columns(rows[head].cells)
    names = map(simplify, rows[head].cells)
    modifiers = [i for i, name in enumerate(names) if name.startswith("modifi")]
    media = next((name for name in ("video", "observation") if name in columns), "")
    rows = rows[head + 1 :]
    named = [(row.cell(columns, "observation"), row.cell(columns, "subject")) for row in rows]
    chosen, subjects = _choose_subjects({of for of, _ in named}, {who for _, who in named}, options)
    videos: dict[tuple[str, str], list[Segment]] = {}
    events: dict[tuple[str, Media], list[Event]] = {}
    states: dict[tuple[str, Media], list[Segment]] = {}
    for row, (observation, subject) in zip(rows, named, strict=True):
        if observation not in chosen:
            continue
        time, step = row.time(columns, "start"), row.cell(columns, "step")
        video = row.cell(columns, media) if media else options.path.stem
        points = videos.setdefault((observation, video), [])
        played = _played(row, columns, video)
        if subject not in subjects:
            continue
        if row.cell(columns, "status").upper() in POINT:
            time -= dict(played)[video]
            points.append(build_segment(time, time, step, row.line))
        elif "end" in columns:
            state = build_segment(time, row.time(columns, "end"), step, row.line)
            states.setdefault((observation, played), []).append(state)
        else:
            how = "|".join(row.cells[i] for i in modifiers if i < len(row.cells))
            events.setdefault((observation, played), []).append(Event(time, subject, step, how))
    states |= {key: _pair(each) for key, each in events.items()}
    for (observation, played), segments in states.items():
        for video, part in (each for segment in segments for each in _by_video(segment, played)):
            videos.setdefault((observation, video), []).append(part)
    return _one_per_video(
        [(name, Timeline(each, video=video)) for (name, video), each in videos.items()]
    )


def write_events(timelines: Sequence[Timeline], options: Options) -> str:
    rows = [HEADER]
    for timeline in timelines:
        about = [video_name(timeline.video), timeline.video]
        for event, status in _list_events(timeline, timeline.steps):
            who = event.subject or NOBODY
            rows.append([*about, who, event.code, status, plain(event.time)])
    return to_text(rows, "\t", options.spreadsheet)


def matches_events(rows: Sequence[Row]) -> bool:
    return any(_is_header(row.cells) for row in rows[:100])


def _is_header(cells: Sequence[str]) -> bool:
    columns = find_columns(cells)
    if not {"start", "step", "status"} <= columns.keys():
        return False
    if simplify(cells[columns["step"]]) not in NAMES["events"]["behavior"].split():
        return False
    if "end" in columns:  # aggregated
        return "observation" in columns
    return simplify(cells[columns["start"]]) in NAMES["events"]["time"].split()


def _played(row: Row, columns: Mapping[str, int], video: str) -> Media:
    """Return the media files of the observation of a row, or only its `video` without a list."""
    wanted = ("time_offset", "source", "media_duration")
    offset, played, lengths = (row.cell(columns, name) for name in wanted)
    files = re.sub("^player ?#1:", "", played.split("|")[0]).split(";")
    begin = seconds(offset) or 0.0
    if video not in files:
        return ((video, begin),)
    media, stated = [], lengths.split("|")[0].split(";")
    for file, length in zip_longest(files, stated[: len(files)], fillvalue=""):
        media.append((file, begin))
        if video in dict(media) and seconds(length) is None:
            break  # the start of the next file is unknown
        begin += need_seconds(length, row.line)
    return tuple(media)


# ---------- both


def _one_per_video(found: Sequence[tuple[str, Timeline]]) -> list[Timeline]:
    videos: dict[str, list[str]] = {}
    for observation, timeline in found:
        videos.setdefault(timeline.video, []).append(observation)
    for video, observations in videos.items():
        if len(observations) > 1:
            what = f"{', '.join(map(repr, observations))} are observations of one video, {video!r}"
            raise flaw(what, "Choose one: annotator=NAME, where * matches any letters")
    return [timeline for _, timeline in found]


def _by_video(segment: Segment, media: Media) -> Iterator[tuple[str, Segment]]:
    for place, (video, begin) in enumerate(media):
        first = segment.start if place == 0 else max(segment.start, begin)
        end = media[place + 1][1] if place + 1 < len(media) else math.inf
        last = min(segment.end, end)
        # Lengths are rounded to a millisecond, so drop a remainder of one.
        if last - first > 0.001 or ((first, last) == (segment.start, segment.end) and first < end):
            yield video, replace(segment, start=first - begin, end=last - begin)


def _choose_subjects(
    observations: set[str], subjects: set[str], options: Options
) -> tuple[set[str], set[str]]:
    name = "" if options.annotator == NOBODY and "" in subjects else options.annotator
    if name in subjects:
        return observations, {name}
    if name is None:
        return observations, subjects
    chosen = {each for each in observations if each == name or fnmatchcase(each, name)}
    if chosen or subjects <= {"", NOBODY}:
        return chosen or observations, subjects
    where = f"the subjects {sorted(subjects)} or the observations {sorted(observations)}"
    raise Absent(f"found no subject {name!r}. Choose from {where}.")


def _pair(events: Iterable[Event]) -> list[Segment]:
    """Pair starts and stops of each subject, behaviour and modifier: they alternate."""
    kinds: dict[tuple[str, str, str], list[float]] = {}
    for event in sorted(events):
        kinds.setdefault((event.subject, event.code, event.modifier), []).append(event.time)
    segments = []
    for (_, code, _), times in kinds.items():
        if len(times) % 2:
            what = f"the last {code!r}, at {times[-1]:g} s, has a start but no stop"
            raise flaw(what, "Close it in BORIS")
        pairs = zip(times[::2], times[1::2], strict=True)
        segments += [build_segment(start, end, code) for start, end in pairs]
    return segments


def _list_events(timeline: Timeline, points: Collection[str]) -> list[tuple[Event, str]]:
    """List the starts, stops and `points`; overlaps of one step get different subjects."""
    clicks = [s for s in timeline.clicks if s.step in points]
    events = [(s.start, 0, Event(s.start, "", s.step), "POINT") for s in clicks]
    for step in dict.fromkeys(timeline.sequence()):
        lasting = [s for s in timeline if s.step == step and not (s.is_click and step in points)]
        for place, row in enumerate(without_overlap(lasting)):
            who = f"person {place + 1}" if place else ""
            for order, segment in enumerate(row):
                events.append((segment.start, order, Event(segment.start, who, step), "START"))
                events.append((segment.end, order, Event(segment.end, who, step), "STOP"))
    return [(event, status) for _, _, event, status in sorted(events, key=lambda e: e[:2])]
