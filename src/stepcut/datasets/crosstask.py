"""CrossTask: 18 primary tasks of third-person how-to videos, with ordered steps and a CSV per annotated video."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

from stepcut.datasets.dataset import DATASETS, Loaded, Shelf, TaskInfo, existing_root, first_of, read_numbered
from stepcut.datasets.task import Task
from stepcut.formats.common import fail, read_text
from stepcut.formats.egoprocel import tell_apart

ABOUT = DATASETS["crosstask"]
GIVEN = "crosstask"  # what the published features are called here
RATE = Fraction(1)


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
    tasks = read_tasks(release)
    for path in sorted(folder.glob("*.csv")):
        number = path.stem.partition("_")[0]
        if number not in tasks:
            loaded.problems.append(f"{path}: the task {number} is not in {release.name}.")
    listed = _listed(release.parent, loaded)
    shelf = Shelf(place)
    for path in sorted((place / "crosstask_features").glob("*.npy")):
        shelf.features.setdefault(path.stem, {})[GIVEN] = path
    for number, (title, steps) in tasks.items():
        files, videos = sorted(folder.glob(f"{number}_*.csv")), []
        for path in files:
            names = [path.stem, path.stem.partition("_")[2]]
            rate = RATE if GIVEN in shelf.find(names)[1] else None
            videos.append(shelf.video(names, read_numbered(path, steps, loaded), steps, rate))
        loaded.tasks.append(Task(title, videos, steps))
        expected = ABOUT.tasks.get(title, TaskInfo()).videos
        if expected and len(files) < expected:
            loaded.missing.append(f"{folder}/{number}_*.csv: {len(files)} of {expected} files of {title}.")
        if listed:
            loaded.problems += [f"{p}: the video is not in videos.csv." for p in files if p.stem not in listed]
    known = {video.name for task in loaded.tasks for video in task}
    either = known | {name.partition("_")[2] for name in known}
    loaded.problems += [f"{shelf.videos[n]}: a video without annotations." for n in shelf.videos if n not in either]
    bare = [v.name for task in loaded.tasks for v in task if v.path is None and not v.features]
    if bare:
        loaded.missing.append(f"{place}/videos/: {len(bare)} of {len(known)} videos have neither video nor features.")
    return loaded


def read_tasks(path: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Number -> title and steps of the tasks in the list at `path`, in blocks of six lines."""
    tasks = {}
    lines = read_text(path).split("\n")
    for first in range(0, len(lines), 6):
        block = [line.strip() for line in lines[first : first + 5]]
        if not any(block):
            continue
        if len(block) < 5 or not all(re.fullmatch("[0-9]{1,9}", block[line]) for line in (0, 3)):
            fail(path, "a task needs id, title, address, number of steps, steps", "Copy the file again", first + 1)
        named = [" ".join(step.split()) for step in block[4].split(",")]
        steps = tuple(tell_apart(enumerate(named, start=1)).values())
        if len(steps) != int(block[3]):
            fail(path, f"{block[1]} says {block[3]} steps and names {len(steps)}", "Copy the file again", first + 5)
        tasks[block[0]] = block[1], steps
    return tasks


def _listed(folder: Path, loaded: Loaded) -> set[str]:
    """The names `<task>_<video>` in videos.csv."""
    path = folder / "videos.csv"
    if not path.is_file():
        loaded.missing.append(f"{path}: absent. It holds the addresses of the videos.")
        return set()
    rows = [line.split(",") for line in read_text(path).split("\n") if line.strip()]
    return {f"{row[0].strip()}_{row[1].strip()}" for row in rows if len(row) >= 2}
