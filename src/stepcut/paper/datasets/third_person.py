"""Third-person how-to videos: CrossTask, 18 tasks with ordered steps, and ProceL, 12 tasks."""

import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from stepcut.errors import AnnotationError
from stepcut.formats.common import build_segment, fail, read_text, refusals, seconds
from stepcut.formats.lines import read_mapping
from stepcut.formats.tables import tell_apart
from stepcut.paper.datasets.dataset import (
    DATASETS,
    Loaded,
    Shelf,
    Task,
    TaskInfo,
    find_videos,
    first_of,
)
from stepcut.timeline import Segment

CROSSTASK = DATASETS["crosstask"]
FEATURES = "crosstask"  # name of the published features
RATE = Fraction(1)
PROCEL = DATASETS["procel"]
SOURCE = PROCEL.sources["project and annotations"]


def read_numbered(path: Path, steps: Sequence[str], loaded: Loaded) -> list[Segment]:
    """Read segments from lines of step number, start and end.

    Invalid lines and unknown step numbers are reported in `loaded` and skipped.
    """
    segments = []
    named = {str(number): step for number, step in enumerate(steps, start=1)}
    for line, text in enumerate(read_text(path).split("\n"), start=1):
        if not text.strip():
            continue
        number, *times = (cell.strip() for cell in text.split(","))
        start, end = [*map(seconds, times), None, None][:2]
        try:
            if number.lstrip("0") not in named or start is None or end is None:
                what = f"{text!r} is not 'step number,start,end' with one of {len(steps)} steps"
                fail(path, what, "Copy the file again", line)
            with refusals(path):
                segments.append(build_segment(start, end, named[number.lstrip("0")], line))
        except AnnotationError as error:
            loaded.problems.append(str(error))
    return segments


def read_crosstask(place: Path, loaded: Loaded) -> None:
    """Add the 18 primary tasks; every annotation file is a video."""
    release = (first_of(place, "crosstask_release") or place) / "tasks_primary.txt"
    folder, addresses = release.parent / "annotations", release.with_name("videos.csv")
    source = CROSSTASK.sources["annotations and features"]
    absent = [path for path in (release, folder, addresses) if not path.exists()]
    loaded.missing += [
        f"{path}: absent. Unpack crosstask_release.zip there, from {source}." for path in absent
    ]
    if release in absent or folder in absent:
        return
    tasks = read_tasks(release)
    for path in sorted(folder.glob("[!.]*.csv")):
        number = path.stem.partition("_")[0]
        if number not in tasks:
            loaded.problems.append(f"{path}: task {number} is not in {release.name}.")
    shelf = Shelf(place)
    for path in sorted((place / "crosstask_features").glob("[!.]*.npy")):
        shelf.features.setdefault(path.stem, {})[FEATURES] = path
    for number, (title, steps) in tasks.items():
        files, videos = sorted(folder.glob(f"{number}_*.csv")), []
        for path in files:
            names = [path.stem, path.stem.partition("_")[2]]
            video = shelf.video(names, read_numbered(path, steps, loaded), steps)
            videos.append(replace(video, rate=RATE) if FEATURES in video.features else video)
        loaded.tasks.append(Task(title, videos, steps))
        expected = CROSSTASK.tasks.get(title, TaskInfo()).videos
        if expected and len(files) < expected:
            loaded.missing.append(
                f"{folder}/{number}_*.csv: {len(files)} of {expected} files of {title}."
            )
    shelf.match(loaded)


def read_tasks(path: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Number -> title and steps, from blocks of six lines."""
    tasks = {}
    lines = read_text(path).split("\n")
    for first in range(0, len(lines), 6):
        block = [line.strip() for line in lines[first : first + 5]]
        if not any(block):
            continue
        if len(block) < 5 or not all(re.fullmatch("[0-9]{1,9}", block[line]) for line in (0, 3)):
            fail(
                path,
                "a task needs id, title, address, number of steps, steps",
                "Copy the file again",
                first + 1,
            )
        named = [" ".join(step.split()) for step in block[4].split(",")]
        steps = tuple(tell_apart(enumerate(named, start=1)).values())
        if len(steps) != int(block[3]):
            fail(
                path,
                f"{block[1]} announces {block[3]} steps and names {len(steps)}",
                "Copy the file again",
                first + 5,
            )
        tasks[block[0]] = block[1], steps
    return tasks


def read_procel(place: Path, loaded: Loaded) -> None:
    """Add the 12 tasks, from `data.mat` or from text files converted from it."""
    base = place / "ProceL_dataset" if (place / "ProceL_dataset").is_dir() else place
    shelf, every = Shelf(place), dict[str, Path]()
    for name in PROCEL.tasks:
        folder = base / name
        if (folder / "data.mat").is_file():
            steps, timed = _read_mat(folder, loaded)
        elif (folder / "mapping.txt").is_file():
            steps, timed = _read_texts(folder, loaded)
        else:
            loaded.missing.append(
                f"{folder}/data.mat: absent. Unpack the annotations there, from {SOURCE}"
            )
            continue
        shelf.videos = find_videos(folder / "videos")
        every |= shelf.videos
        videos = [shelf.video([video], segments, steps) for video, segments in timed.items()]
        loaded.tasks.append(Task(name, videos, steps))
    shelf.videos = every
    shelf.match(loaded, place="<task>/videos")


def _read_mat(folder: Path, loaded: Loaded) -> tuple[tuple[str, ...], dict[str, list[Segment]]]:
    """Steps and segments from MATLAB cells: `grammar` (K, 1), `key_steps_time` (N, 1) of (K, 1) of
    (m, 2)."""
    from scipy.io import loadmat

    path = folder / "data.mat"
    try:
        record = loadmat(str(path))
        steps = tuple(
            tell_apart(enumerate(map(_text, record["grammar"].ravel()), start=1)).values()
        )
        times = record["key_steps_time"].ravel()
        names = _video_names(folder / "readme.txt", len(times), loaded)
        timed: dict[str, list[Segment]] = {}
        for name, cells in zip(names, times, strict=True):
            timed[name] = []
            for step, cell in zip(steps, cells.ravel(), strict=True):
                for start, end in np.asarray(cell, dtype=float).reshape(-1, 2).tolist():
                    try:
                        with refusals(path):
                            timed[name].append(build_segment(start, end, step))
                    except AnnotationError as error:
                        loaded.problems.append(f"{name}: {error}")
    except AnnotationError:
        raise
    except Exception as error:  # scipy raises anything on damaged files
        fail(
            path,
            f"grammar and key_steps_time are missing or inconsistent ({error!r})",
            "Copy the file again",
        )
    return steps, timed


def _video_names(path: Path, count: int, loaded: Loaded) -> list[str]:
    """Names in readme.txt, or numbers if they do not match the annotated videos."""
    rows = (
        [line.split("\t") for line in read_text(path).split("\n") if line.strip()]
        if path.is_file()
        else []
    )
    names = [row[1].strip() for row in rows if len(row) > 1]
    if len(names) == count:
        return names
    loaded.problems.append(
        f"{path}: {len(names)} names for {count} annotated videos, which are therefore numbered."
    )
    return [f"{path.parent.name}_{place + 1:04d}" for place in range(count)]


def _read_texts(folder: Path, loaded: Loaded) -> tuple[tuple[str, ...], dict[str, list[Segment]]]:
    named = [step.replace("_", " ") for step in read_mapping(folder / "mapping.txt")]
    steps = tuple(tell_apart(enumerate(named, start=1)).values())
    files = sorted((folder / "annotations").glob("[!.]*.csv"))
    if not files:
        loaded.missing.append(f"{folder}/annotations/: no CSV file.")
    return steps, {path.stem: read_numbered(path, steps, loaded) for path in files}


def _text(cell: Any) -> str:
    """The string in a nested MATLAB cell."""
    while isinstance(cell, np.ndarray):
        cell = cell.ravel()[0]
    return " ".join(str(cell).split())
