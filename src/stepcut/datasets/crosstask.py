"""CrossTask: 18 primary tasks of third-person how-to videos, with ordered steps and a CSV per annotated video."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from stepcut.datasets.dataset import (
    DATASETS,
    Loaded,
    Shelf,
    TaskInfo,
    existing_root,
    first_of,
    read_numbered,
    tell_apart,
)
from stepcut.datasets.task import Task, TaskVideo
from stepcut.errors import AnnotationError
from stepcut.formats.common import fail, read_text

ABOUT = DATASETS["crosstask"]
GIVEN = "crosstask"  # what the published features are called here
RATE = Fraction(1)


class Entry(NamedTuple):
    """One task of `tasks_primary.txt`."""

    number: str
    title: str
    steps: tuple[str, ...]


def read(root: str | Path) -> Loaded:
    """Read the 18 primary tasks under `root`; a video is what has an annotation file."""
    place = existing_root(root, "crosstask")
    loaded = Loaded()
    release = first_of(place, "crosstask_release/tasks_primary.txt", "tasks_primary.txt")
    if release is None:
        where = place / "crosstask_release" / "tasks_primary.txt"
        loaded.missing.append(
            f"{where}: absent. Unpack crosstask_release.zip there, from {ABOUT.sources['annotations and features']}."
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
    shelf = Shelf(place)
    for path in sorted((place / "crosstask_features").glob("*.npy")):
        shelf.features.setdefault(path.stem, {})[GIVEN] = path
    for number, entry in entries.items():
        task_videos = [_video(path, entry, shelf, loaded) for path in files[number]]
        loaded.tasks.append(Task(entry.title, task_videos, entry.steps))
        expected = ABOUT.tasks.get(entry.title, TaskInfo()).videos
        if expected and len(task_videos) < expected:
            loaded.missing.append(f"{folder}/{number}_*.csv: {len(task_videos)} of {expected} files of {entry.title}.")
        if listed:
            loaded.problems += [f"{p}: the video is not in videos.csv." for p in files[number] if p.stem not in listed]
    known = {video.name for task in loaded.tasks for video in task}
    names = known | {name.partition("_")[2] for name in known}
    loaded.problems += [
        f"{path}: a video without annotations." for name, path in shelf.videos.items() if name not in names
    ]
    bare = [v.name for task in loaded.tasks for v in task if v.path is None and not v.features]
    if bare:
        loaded.missing.append(f"{place}/videos/: {len(bare)} of {len(known)} videos have neither video nor features.")
    return loaded


def read_tasks(path: Path) -> list[Entry]:
    """The tasks of the task list at `path`, in blocks of six lines."""
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


def _video(path: Path, entry: Entry, shelf: Shelf, loaded: Loaded) -> TaskVideo:
    try:
        segments = read_numbered(path, entry.steps, loaded)
    except AnnotationError as error:
        loaded.problems.append(str(error))
        segments = []
    names = [path.stem, path.stem.partition("_")[2]]
    return shelf.video(names, segments, entry.steps, RATE if GIVEN in shelf.find(names)[1] else None)


def _listed(folder: Path, loaded: Loaded) -> set[str]:
    """The names `<task>_<video>` in videos.csv."""
    path = folder / "videos.csv"
    if not path.is_file():
        loaded.missing.append(f"{path}: absent. It holds the addresses of the videos.")
        return set()
    rows = [line.split(",") for line in read_text(path).split("\n") if line.strip()]
    return {f"{row[0].strip()}_{row[1].strip()}" for row in rows if len(row) >= 2}
