"""BORIS: projects (`.boris`, JSON), and tables of tabular or aggregated events.

Point events are clicks.
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from stepcut.files.atomic import write_json
from stepcut.files.names import video_name
from stepcut.formats.common import (
    Absent,
    Options,
    build_segment,
    fail,
    need_seconds,
    number,
    optional,
    plain,
    seconds,
    without_overlap,
)
from stepcut.formats.rows import BEHAVIOR, TIME, Row, find_columns, simplify, write_rows
from stepcut.timeline import Segment, Timeline

VERSION = "7.0"
NOBODY = "No focal subject"
KEYS = "abcdefghijklmnopqrstuvwxyz0123456789"
Media = tuple[tuple[str, float], ...]
"""Media files with their start in the time of the observation."""


class Event(NamedTuple):
    """The start or stop of a state event, or a point event."""

    time: float
    subject: str
    code: str
    modifier: str = ""


# ---------------------------------------------------------------------- projects


def read(record: Any, path: Path, options: Options) -> list[Timeline]:
    """Read all observations, or those of the annotator; each media file becomes one timeline."""
    conf = [each for _, each in sorted(record["behaviors_conf"].items(), key=lambda i: int(i[0]))]
    points = {str(each["code"]) for each in conf if str(each["type"]).startswith("Point")}
    steps = [str(each["code"]) for each in conf]
    observations = {str(name): each for name, each in record["observations"].items()}
    subjects = {str(event[1]) for each in observations.values() for event in each["events"]}
    chosen, subjects = _choose_subjects(set(observations), subjects, path, options)
    found: list[tuple[str, Timeline]] = []
    for name, observation in observations.items():
        if name not in chosen:
            continue
        offset = number(observation.get("time offset") or 0)
        events = [
            Event(number(time) - offset, str(subject), str(code), str(modifier))
            for time, subject, code, modifier, *_ in observation["events"]
        ]
        if missing := sorted({event.code for event in events} - set(steps)):
            what = f"observation {name!r}: {missing[0]!r} is not in the ethogram"
            fail(path, what, "Add it in BORIS")
        mine = [event for event in events if event.subject in subjects]
        segments = _pair([event for event in mine if event.code not in points], path)
        segments += [build_segment(e.time, e.time, e.code, path) for e in mine if e.code in points]
        timeline = Timeline(segments, None, steps)
        found += [(name, each) for each in _by_media(name, observation, timeline)]
    return _one_per_video(found, path)


def _by_media(name: str, observation: Mapping[str, Any], timeline: Timeline) -> list[Timeline]:
    """Split the timeline of an observation at the boundaries of its media files."""
    files = observation.get("file") or {}
    played = [str(file) for file in (files.get("1") if isinstance(files, dict) else files) or ()]
    stated = (observation.get("media_info") or {}).get("length") or {}
    lengths = [optional(stated.get(file)) for file in played]
    if not played or (len(played) > 1 and None in lengths):
        return [replace(timeline, video=name)]
    starts = accumulate((length or 0.0 for length in lengths[:-1]), initial=0.0)
    media = tuple(zip(played, starts, strict=True))
    parts = [part for segment in timeline for part in _by_video(segment, media)]
    return [
        Timeline([part for video, part in parts if video == file], length, timeline.steps, file)
        for file, length in zip(played, lengths, strict=True)
    ]


def write(path: Path, timelines: Sequence[Timeline], _options: Options) -> None:
    """Write a project with the steps as ethogram, and one observation per video.

    A step with clicks only is a point event; other clicks start and stop a state event.
    """
    steps = list(dict.fromkeys(step for timeline in timelines for step in timeline.steps))
    states = {segment.step for timeline in timelines for segment in timeline.intervals}
    points = {click.step for timeline in timelines for click in timeline.clicks} - states
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    observations: dict[str, Any] = {}
    subjects: dict[str, None] = {}
    for place, timeline in enumerate(timelines, start=1):
        name = video_name(timeline.video)
        name = f"observation {place}" if not name or name in observations else name
        events = [event for event, _ in _list_events(timeline, points)]
        subjects.update(dict.fromkeys(event.subject for event in events if event.subject))
        length = {} if timeline.duration is None else {timeline.video: timeline.duration}
        there = {timeline.video: True}
        observations[name] = {
            "file": {"1": [timeline.video]}, "type": "MEDIA", "date": now, "description": "",
            "time offset": 0.0, "events": [[*event, ""] for event in events],
            "observation time interval": [0, 0], "independent_variables": {},
            "visualize_spectrogram": False, "visualize_waveform": False,
            "close_behaviors_between_videos": False,
            "media_info": {"length": length, "fps": {}, "hasVideo": there, "hasAudio": {}},
        }  # fmt: skip
    blank = {"description": "", "category": "", "modifiers": {}, "excluded": "", "coding map": ""}
    behaviors = {}
    for place, step in enumerate(steps):
        kind = "Point event" if step in points else "State event"
        key = KEYS[place : place + 1]
        behaviors[str(place)] = {"type": kind, "key": key, "code": step, **blank}
    people = {str(i): {"key": "", "name": s, "description": ""} for i, s in enumerate(subjects)}
    project = {
        "time_format": "hh:mm:ss", "project_date": now, "project_name": path.stem,
        "project_description": "written by stepcut", "project_format_version": VERSION,
        "subjects_conf": people, "behaviors_conf": behaviors, "observations": observations,
        "behavioral_categories": [], "independent_variables": {}, "coding_map": {},
        "behaviors_coding_map": [], "converters": {},
    }  # fmt: skip
    write_json(path, project)


def matches(record: Any) -> bool:
    return isinstance(record, dict) and all(
        isinstance(record.get(k), dict) for k in ("observations", "behaviors_conf")
    )


# ---------------------------------------------------------------------- tables of events

HEADER = ["Observation id", "Media file name", "Subject", "Behavior", "Behavior type", "Time"]
POINT = ("POINT", "PUNKT", "PONCTUEL", "PUNTO", "PUNTUAL", "STATE POINT", "POINT EVENT")


def read_events(rows: Sequence[Row], path: Path, options: Options) -> list[Timeline]:
    """Read tabular events (of old versions with a preamble, too) or aggregated events."""
    place = next(place for place, row in enumerate(rows) if matches_events([row]))
    columns = find_columns(rows[place].cells)
    modifiers = [
        i for i, cell in enumerate(rows[place].cells) if simplify(cell).startswith("modifi")
    ]
    media = next((name for name in ("video", "observation") if name in columns), "")
    named = [
        (row, row.cell(columns, "observation", path), row.cell(columns, "subject", path))
        for row in rows[place + 1 :]
    ]
    observations, people = {each[1] for each in named}, {each[2] for each in named}
    chosen, subjects = _choose_subjects(observations, people, path, options)
    videos: dict[tuple[str, str], list[Segment]] = {}
    events: dict[tuple[str, Media], list[Event]] = {}
    states: dict[tuple[str, Media], list[Segment]] = {}
    for row, observation, subject in named:
        if observation not in chosen:
            continue
        time = row.time(columns, "start", path)
        step = row.cell(columns, "step", path)
        video = row.cell(columns, media, path) if media else path.stem
        points = videos.setdefault((observation, video), [])
        played = _played(row, columns, video, path)
        if subject not in subjects:
            continue
        if row.cell(columns, "status", path).upper() in POINT:
            time -= dict(played)[video]
            points.append(build_segment(time, time, step, path, row.line))
        elif "end" in columns:
            end = row.time(columns, "end", path)
            state = build_segment(time, end, step, path, row.line)
            states.setdefault((observation, played), []).append(state)
        else:
            how = "|".join(row.cells[i] for i in modifiers if i < len(row.cells))
            events.setdefault((observation, played), []).append(Event(time, subject, step, how))
    states |= {key: _pair(each, path) for key, each in events.items()}
    for (observation, played), segments in states.items():
        for video, part in (each for segment in segments for each in _by_video(segment, played)):
            videos.setdefault((observation, video), []).append(part)
    return _one_per_video(
        [(name, Timeline(each, video=video)) for (name, video), each in videos.items()], path
    )


def write_events(path: Path, timelines: Sequence[Timeline], options: Options) -> None:
    """Write tabular events with the columns of current versions."""
    rows = [HEADER]
    for timeline in timelines:
        name = video_name(timeline.video)
        for event, status in _list_events(timeline, timeline.steps):
            who = event.subject or NOBODY
            rows.append([name, timeline.video, who, event.code, status, plain(event.time)])
    write_rows(path, rows, "\t", options.spreadsheet)


def matches_events(rows: Sequence[Row]) -> bool:
    """Whether a table has the header of tabular or aggregated events."""
    return any(_is_header(row.cells) for row in rows[:100])


def _is_header(cells: Sequence[str]) -> bool:
    columns = find_columns(cells)
    if not {"start", "step", "status"} <= columns.keys():
        return False
    if simplify(cells[columns["step"]]) not in BEHAVIOR.split():
        return False
    aggregated = "end" in columns
    return (
        "observation" in columns
        if aggregated
        else simplify(cells[columns["start"]]) in TIME.split()
    )


def _played(row: Row, columns: Mapping[str, int], video: str, path: Path) -> Media:
    """Return the media files of the observation of a row, with their start.

    Without a list of files in the table, return only the `video` of the row.
    """
    wanted = ("time_offset", "source", "media_duration")
    offset, played, lengths = (row.cell(columns, name, path) for name in wanted)
    files = re.sub("^player ?#1:", "", played.split("|")[0]).split(";")
    begin = seconds(offset) or 0.0
    if video not in files:
        return ((video, begin),)
    media, stated = [], lengths.split("|")[0].split(";")
    for file, length in zip_longest(files, stated[: len(files)], fillvalue=""):
        media.append((file, begin))
        if video in dict(media) and seconds(length) is None:
            break  # the start of the next file is unknown
        begin += need_seconds(length, path, row.line)
    return tuple(media)


# ---------------------------------------------------------------------- both


def _one_per_video(found: Sequence[tuple[str, Timeline]], path: Path) -> list[Timeline]:
    """Return the timelines; refuse two observations of one video."""
    videos: dict[str, list[str]] = {}
    for observation, timeline in found:
        videos.setdefault(timeline.video, []).append(observation)
    for video, observations in videos.items():
        if len(observations) > 1:
            what = f"{', '.join(map(repr, observations))} are observations of one video, {video!r}"
            fail(path, what, "Choose one: annotator=NAME, where * matches any letters")
    return [timeline for _, timeline in found]


def _by_video(segment: Segment, media: Media) -> Iterator[tuple[str, Segment]]:
    """Split a segment of an observation at the boundaries of its `media` files."""
    for place, (video, begin) in enumerate(media):
        first = segment.start if place == 0 else max(segment.start, begin)
        end = media[place + 1][1] if place + 1 < len(media) else math.inf
        last = min(segment.end, end)
        # Lengths are rounded to a millisecond, so drop a remainder of one.
        if last - first > 0.001 or ((first, last) == (segment.start, segment.end) and first < end):
            yield video, Segment(first - begin, last - begin, segment.step)


def _choose_subjects(
    observations: set[str], subjects: set[str], path: Path, options: Options
) -> tuple[set[str], set[str]]:
    """Return the `observations` and `subjects` to read.

    The annotator selects a subject or, if there is none, observations.
    """
    name = "" if options.annotator == NOBODY and "" in subjects else options.annotator
    if name in subjects:
        return observations, {name}
    if name is None:
        return observations, subjects
    chosen = {each for each in observations if each == name or fnmatchcase(each, name)}
    if chosen or subjects <= {"", NOBODY}:
        return chosen or observations, subjects
    raise Absent(
        f"{path}: found no subject {name!r}. Choose from the subjects {sorted(subjects)} or the "
        f"observations {sorted(observations)}.",
        path=path,
    )


def _pair(events: Iterable[Event], path: Path) -> list[Segment]:
    """Pair starts and stops of each subject, behaviour and modifier: they alternate."""
    kinds: dict[tuple[str, str, str], list[float]] = {}
    for event in sorted(events):
        kinds.setdefault((event.subject, event.code, event.modifier), []).append(event.time)
    segments = []
    for (_, code, _), times in kinds.items():
        if len(times) % 2:
            what = f"the last {code!r}, at {times[-1]:g} s, has a start but no stop"
            fail(path, what, "Close it in BORIS")
        pairs = zip(times[::2], times[1::2], strict=True)
        segments += [build_segment(start, end, code, path) for start, end in pairs]
    return segments


def _list_events(timeline: Timeline, points: Collection[str]) -> list[tuple[Event, str]]:
    """List starts, stops and the clicks of `points` by time.

    Overlapping segments of one step get different subjects.
    """
    events = []
    for click in timeline.clicks:
        if click.step in points:
            events.append((click.start, 0, Event(click.start, "", click.step), "POINT"))
    for step in dict.fromkeys(timeline.sequence()):
        lasting = [s for s in timeline if s.step == step and not (s.is_click and step in points)]
        for place, row in enumerate(without_overlap(lasting)):
            subject = f"person {place + 1}" if place else ""
            for order, segment in enumerate(row):
                events.append((segment.start, order, Event(segment.start, subject, step), "START"))
                events.append((segment.end, order, Event(segment.end, subject, step), "STOP"))
    return [(event, status) for _, _, event, status in sorted(events, key=lambda e: e[:2])]
