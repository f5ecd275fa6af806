"""CrossTask: 18 primary tasks of third-person how-to videos, with ordered steps and a CSV per annotated video."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from stepcut.datasets.dataset import (
    DataSet,
    Loaded,
    TaskInfo,
    existing_root,
    find_features,
    find_videos,
    first_of,
    read_durations,
    video_duration,
)
from stepcut.datasets.numbered import read_numbered, tell_apart
from stepcut.datasets.task import Task, TaskVideo
from stepcut.errors import AnnotationError
from stepcut.formats.text import fail, read_text
from stepcut.timeline import Timeline

CITATION = """@inproceedings{zhukov2019crosstask,
  author    = {Zhukov, Dimitri and Alayrac, Jean-Baptiste and Cinbis, Ramazan Gokberk and Fouhey, David and
               Laptev, Ivan and Sivic, Josef},
  title     = {Cross-task weakly supervised learning from instructional videos},
  booktitle = {IEEE Conference on Computer Vision and Pattern Recognition (CVPR)},
  year      = {2019}
}"""
SOURCES = {
    "annotations and features": "https://github.com/DmZhukov/CrossTask",
    "videos": "YouTube, by the addresses in videos.csv",
}
TREE = """ROOT/
  crosstask_release/tasks_primary.txt            six lines a task: id, title, address, number of steps, steps, blank
  crosstask_release/videos.csv                   task,video,address
  crosstask_release/annotations/<task>_<video>.csv    step number,start,end
  crosstask_features/<video>.npy                 (seconds, 3200), one row a second; optional
  features/<backbone>/<task>_<video>.npy         optional
  videos/<task>_<video>.mp4 or videos/<video>.mp4     optional"""
# Title -> published number of annotated videos and steps.
TASKS = {
    "Make Jello Shots": TaskInfo(182, 6),
    "Build Simple Floating Shelves": TaskInfo(153, 5),
    "Make Taco Salad": TaskInfo(170, 8),
    "Grill Steak": TaskInfo(228, 11),
    "Make Kimchi Fried Rice": TaskInfo(120, 6),
    "Make Meringue": TaskInfo(154, 6),
    "Make a Latte": TaskInfo(157, 6),
    "Make Bread and Butter Pickles": TaskInfo(106, 11),
    "Make Lemonade": TaskInfo(131, 8),
    "Make French Toast": TaskInfo(252, 10),
    "Jack Up a Car": TaskInfo(89, 3),
    "Make Kerala Fish Curry": TaskInfo(149, 7),
    "Make Banana Ice Cream": TaskInfo(170, 5),
    "Add Oil to Your Car": TaskInfo(137, 8),
    "Change a Tire": TaskInfo(99, 11),
    "Make Irish Coffee": TaskInfo(185, 5),
    "Make French Strawberry Cake": TaskInfo(86, 9),
    "Make Pancakes": TaskInfo(182, 8),
}
GIVEN = "crosstask"  # what the published features are called here
RATE = Fraction(1)


class Entry(NamedTuple):
    """One task of `tasks_primary.txt`."""

    number: str
    title: str
    steps: tuple[str, ...]


def read(root: str | Path) -> Loaded:
    """Read the 18 primary tasks; a video is what has an annotation file."""
    place = existing_root(root, "crosstask")
    loaded = Loaded()
    release = first_of(place, "crosstask_release/tasks_primary.txt", "tasks_primary.txt")
    if release is None:
        where = place / "crosstask_release" / "tasks_primary.txt"
        loaded.missing.append(
            f"{where}: absent. Unpack crosstask_release.zip there, from {SOURCES['annotations and features']}."
        )
        return loaded
    folder = release.parent / "annotations"
    if not folder.is_dir():
        loaded.missing.append(f"{folder}/: absent. It holds a CSV per annotated video.")
        return loaded
    entries = {entry.number: entry for entry in read_tasks(release)}
    files: dict[str, list[Path]] = {number: [] for number in entries}
    for path in sorted(folder.glob("*.csv")):
        number = path.stem.partition("_")[0]
        if number in files:
            files[number].append(path)
        else:
            loaded.problems.append(f"{path}: the task {number} is not in {release.name}.")
    listed = _listed(release.parent, loaded)
    features, videos, lengths = _features(place), find_videos(place / "videos"), read_durations(place)
    for number, entry in entries.items():
        task_videos = [_video(path, entry, features, videos, lengths, loaded) for path in files[number]]
        loaded.tasks.append(Task(entry.title, task_videos, entry.steps))
        expected = TASKS.get(entry.title, TaskInfo()).videos
        if expected and len(task_videos) < expected:
            loaded.missing.append(f"{folder}/{number}_*.csv: {len(task_videos)} of {expected} files of {entry.title}.")
        if listed:
            loaded.problems += [f"{p}: the video is not in videos.csv." for p in files[number] if p.stem not in listed]
    known = {video.name for task in loaded.tasks for video in task}
    names = known | {name.partition("_")[2] for name in known}
    loaded.problems += [f"{path}: a video without annotations." for name, path in videos.items() if name not in names]
    bare = [v.name for task in loaded.tasks for v in task if v.path is None and not v.features]
    if bare:
        loaded.missing.append(f"{place}/videos/: {len(bare)} of {len(known)} videos have neither video nor features.")
    return loaded


def read_tasks(path: Path) -> list[Entry]:
    """The tasks of a task list, in blocks of six lines."""
    entries = []
    lines = read_text(path).split("\n")
    for first in range(0, len(lines), 6):
        block = [line.strip() for line in lines[first : first + 5]]
        if not any(block):
            continue
        if len(block) < 5 or not all(re.fullmatch("[0-9]{1,9}", block[line]) for line in (0, 3)):
            fail(path, "a task needs id, title, address, number of steps, steps", "Copy the file again", first + 1)
        steps = tell_apart([" ".join(step.split()) for step in block[4].split(",")])
        if len(steps) != int(block[3]):
            fail(path, f"{block[1]} says {block[3]} steps and names {len(steps)}", "Copy the file again", first + 5)
        entries.append(Entry(block[0], block[1], steps))
    return entries


def _video(
    path: Path,
    entry: Entry,
    features: Mapping[str, Mapping[str, Path]],
    videos: Mapping[str, Path],
    lengths: Mapping[str, float],
    loaded: Loaded,
) -> TaskVideo:
    name = path.stem
    short = name.partition("_")[2]
    try:
        segments = read_numbered(path, entry.steps, loaded)
    except AnnotationError as error:
        loaded.problems.append(str(error))
        segments = []
    film = videos.get(name) or videos.get(short)
    given = {**features.get(short, {}), **features.get(name, {})}
    length = lengths.get(name) or lengths.get(short) or (None if film is None else video_duration(film))
    timeline = Timeline(segments, length, entry.steps, name)
    return TaskVideo(name, film, given, RATE if GIVEN in given else None, length, timeline)


def _features(root: Path) -> dict[str, dict[str, Path]]:
    found = find_features(root)
    for path in sorted((root / "crosstask_features").glob("*.npy")):
        found.setdefault(path.stem, {})[GIVEN] = path
    return found


def _listed(folder: Path, loaded: Loaded) -> set[str]:
    """The names `<task>_<video>` in videos.csv."""
    path = folder / "videos.csv"
    if not path.is_file():
        loaded.missing.append(f"{path}: absent. It holds the addresses of the videos.")
        return set()
    rows = [line.split(",") for line in read_text(path).split("\n") if line.strip()]
    return {f"{row[0].strip()}_{row[1].strip()}" for row in rows if len(row) >= 2}


DATA_SET = DataSet(
    name="crosstask",
    title="CrossTask",
    about="2,750 annotated third-person how-to videos of 18 primary tasks (and 65 related ones without annotation).",
    citation=CITATION,
    sources=SOURCES,
    licence="BSD 3-clause for the code; the videos belong to their authors on YouTube",
    obtain="Download crosstask_release.zip (and crosstask_features.zip) from the repository; fetch the videos yourself "
    "where their authors still offer them.",
    tree=TREE,
    tasks=TASKS,
    rate="videos vary; the published features have one row a second",
    read=read,
)
