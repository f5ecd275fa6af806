"""ProceL: 12 tasks of third-person how-to videos, with a grammar of key-steps and their times per task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from stepcut.datasets.dataset import DATASETS, Loaded, Shelf, existing_root, find_videos, match_videos, read_numbered
from stepcut.datasets.task import Task
from stepcut.errors import AnnotationError
from stepcut.formats.common import build_segment, fail, read_text
from stepcut.formats.egoprocel import tell_apart
from stepcut.formats.mstcn import read_mapping
from stepcut.timeline import Segment

ABOUT = DATASETS["procel"]
SOURCE = ABOUT.sources["project and annotations"]


def read(root: str | Path) -> Loaded:
    """Read the 12 tasks under `root` from `data.mat`, or from the text files that others have made of it."""
    place = existing_root(root, "procel")
    base = place / "ProceL_dataset" if (place / "ProceL_dataset").is_dir() else place
    loaded = Loaded()
    shelf = Shelf(place)
    for name in ABOUT.tasks:
        folder = base / name
        if (folder / "data.mat").is_file():
            steps, timed = _read_mat(folder, loaded)
        elif (folder / "mapping.txt").is_file():
            steps, timed = _read_texts(folder, loaded)
        else:
            loaded.missing.append(f"{folder}/data.mat: absent. Unpack the annotations there, from {SOURCE}")
            continue
        shelf.videos = find_videos(folder / "videos")
        absent, extra = match_videos(shelf.videos, timed, str(folder / "videos"))
        loaded.missing += absent
        loaded.problems += extra
        videos = [shelf.video([video], segments, steps) for video, segments in timed.items()]
        loaded.tasks.append(Task(name, videos, steps))
    return loaded


def _read_mat(folder: Path, loaded: Loaded) -> tuple[tuple[str, ...], dict[str, list[Segment]]]:
    """Steps and segments from MATLAB cells: `grammar` (K, 1) of names, `key_steps_time` (N, 1) of (K, 1) of (m, 2)."""
    from scipy.io import loadmat

    path = folder / "data.mat"
    try:
        record = loadmat(str(path))
        steps = tuple(tell_apart(enumerate(map(_text, record["grammar"].ravel()), start=1)).values())
        times = record["key_steps_time"].ravel()
        names = _video_names(folder / "readme.txt", len(times), loaded)
        timed: dict[str, list[Segment]] = {}
        for name, cells in zip(names, times, strict=True):
            timed[name] = []
            for step, cell in zip(steps, cells.ravel(), strict=True):
                for start, end in np.asarray(cell, dtype=float).reshape(-1, 2).tolist():
                    try:
                        timed[name].append(build_segment(start, end, step, path, None))
                    except AnnotationError as error:
                        loaded.problems.append(f"{name}: {error}")
    except (KeyError, ValueError, TypeError, NotImplementedError) as error:  # the last: a file of MATLAB 7.3
        fail(path, f"has no grammar and key_steps_time that fit together ({error!r})", "Copy the file again")
    return steps, timed


def _video_names(path: Path, count: int, loaded: Loaded) -> list[str]:
    """The names in readme.txt, in order; where they do not fit the number of annotated videos, numbers."""
    rows = [line.split("\t") for line in read_text(path).split("\n") if line.strip()] if path.is_file() else []
    names = [row[1].strip() for row in rows if len(row) > 1]
    if len(names) == count:
        return names
    loaded.problems.append(f"{path}: {len(names)} names for {count} annotated videos, so these are numbered.")
    return [f"{path.parent.name}_{place + 1:04d}" for place in range(count)]


def _read_texts(folder: Path, loaded: Loaded) -> tuple[tuple[str, ...], dict[str, list[Segment]]]:
    named = [step.replace("_", " ") for step in read_mapping(folder / "mapping.txt")]
    steps = tuple(tell_apart(enumerate(named, start=1)).values())
    files = sorted((folder / "annotations").glob("*.csv"))
    if not files:
        loaded.missing.append(f"{folder}/annotations/: no CSV in it.")
    return steps, {path.stem: read_numbered(path, steps, loaded) for path in files}


def _text(cell: Any) -> str:
    """The string in a MATLAB cell, however deep it is wrapped."""
    while isinstance(cell, np.ndarray):
        cell = cell.ravel()[0]
    return " ".join(str(cell).split())
