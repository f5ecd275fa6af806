"""EgoProceL's key-steps as one JSON file of frame lists (`egoprocel.json`, `id2action.txt`), with its known defects."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from stepcut.datasets.dataset import DATASETS, Loaded
from stepcut.datasets.task import Task, TaskVideo
from stepcut.formats.common import fail, read_json, read_text
from stepcut.timeline import Segment, Timeline

RATE = Fraction(10)
"""Frames per second of the lists: every video's last frame ends in 9, a whole number of seconds at ten a second, and
MECCANO's mean length comes out as the 20.7 minutes of its own publication."""
VIEWS = 6  # no recording has more lists than this
SLACK = 50  # frames: how far the starts of one step lie apart in two views of a recording
BACKGROUND = "0"

TASKS = DATASETS["egoprocel"].tasks


class Frames(NamedTuple):
    """One list of the file: who does what between which frames, background included."""

    actions: Sequence[str]
    starts: Sequence[int]
    ends: Sequence[int]

    def steps(self) -> list[tuple[str, int, int]]:
        """(action, start, end) without the background."""
        return [each for each in zip(self.actions, self.starts, self.ends, strict=True) if each[0] != BACKGROUND]


def read_json_form(root: Path) -> Loaded:
    """Read all tasks of `egoprocel.json` under `root`; the views of a recording become one timeline."""
    loaded = Loaded()
    path = root / "egoprocel.json"
    names = _read_names(root, loaded)
    record = read_json(path)
    if not isinstance(record, dict):
        fail(path, "it must be an object with a task per key", "Copy the file again")
    for title, info in TASKS.items():
        if info.key in record:
            loaded.tasks.append(_read_task(title, info.defects, record[info.key], names, path))
        else:
            loaded.missing.append(f"{path}: the task {info.key!r} ({title}) is not in it.")
    for key in sorted(set(record) - {info.key for info in TASKS.values()}):
        loaded.problems.append(f"{path}: the task {key!r} is not known.")
    return loaded


def collapse_views(lists: Sequence[Frames]) -> list[list[Frames]]:
    """Group the lists by recording: neighbours with the same steps at nearly the same times are views of one.

    A camera may have stopped early, so the shorter of two lists need only be the beginning of the longer.
    """
    groups: list[list[Frames]] = []
    for frames in lists:
        if groups and len(groups[-1]) < VIEWS and _same_recording(fullest(groups[-1]).steps(), frames.steps()):
            groups[-1].append(frames)
        else:
            groups.append([frames])
    # A view with nothing in it (a camera that stopped at once) belongs to the neighbour that has fewer views.
    for place in range(len(groups) - 1, -1, -1):
        if len(groups) > 1 and not any(frames.steps() for frames in groups[place]):
            empty = groups.pop(place)
            beside = groups[max(place - 1, 0) : place + 1]
            min(beside, key=len).extend(empty)
    return groups


def fullest(views: Sequence[Frames]) -> Frames:
    """The one of `views` with the most steps, the first of them when several are alike."""
    return max(views, key=lambda frames: len(frames.steps()))


def _same_recording(one: list[tuple[str, int, int]], other: list[tuple[str, int, int]]) -> bool:
    shared = min(len(one), len(other))
    pairs = zip(one[:shared], other[:shared], strict=True)
    return shared > 0 and all(a[0] == b[0] and abs(a[1] - b[1]) <= SLACK for a, b in pairs)


def _read_task(
    title: str, defects: Sequence[str], entry: Mapping[str, Any], names: Mapping[str, str], path: Path
) -> Task:
    try:
        lists = [
            Frames([str(a) for a in actions], starts, ends)
            for actions, starts, ends in zip(
                entry["hdl_actions"], entry["hdl_start_times"], entry["hdl_end_times"], strict=True
            )
        ]
        handles = [str(handle) for handle in entry["handles"]]
    except (KeyError, TypeError, ValueError) as error:
        fail(
            path, f"{title}: handles, hdl_actions, hdl_start_times, hdl_end_times do not fit ({error})", "Copy it again"
        )
    views = collapse_views(lists) if len(lists) != len(handles) else [[frames] for frames in lists]
    found = list(defects)
    if len(lists) != len(handles):
        found.append(f"{len(lists)} lists of camera views were collapsed to {len(views)} recordings")
    if len(views) != len(handles):
        found.append(f"{len(handles)} video names for {len(views)} recordings, so these are numbered")
        handles = [f"{title} {place + 1:02d}" for place in range(len(views))]
    used = {action for group in views for frames in group for action, _, _ in frames.steps()}
    steps = tuple(names.get(action, action) for action in sorted(used, key=lambda a: (len(a), a)))
    videos = []
    for name, group in zip(handles, views, strict=True):
        frames = fullest(group)
        length = float((frames.ends[-1] + 1) / RATE)
        segments = [Segment(float(s / RATE), float(e / RATE), names.get(a, a)) for a, s, e in frames.steps()]
        timeline = Timeline(segments, length, steps, name)
        videos.append(TaskVideo(name, duration=length, timeline=timeline, about={"views": str(len(group))}))
    return Task(title, videos, steps, defects=tuple(found))


def _read_names(root: Path, loaded: Loaded) -> dict[str, str]:
    path = root / "id2action.txt"
    if not path.is_file():
        loaded.missing.append(f"{path}: absent; steps have numbers instead of names.")
        return {}
    names = {}
    for line, text in enumerate(read_text(path).splitlines(), start=1):
        number, space, name = text.strip().partition(" ")
        if text.strip() and (not space or not re.fullmatch("[0-9]{1,9}", number)):
            fail(path, f"{text!r} is not 'NUMBER name'", "Copy it again", line=line)
        names[number] = name.replace("_", " ")
    return names
