"""ProceL: 12 tasks of third-person how-to videos, with a grammar of key-steps and their times per task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from stepcut.datasets.dataset import (
    DataSet,
    Loaded,
    TaskInfo,
    existing_root,
    find_features,
    find_videos,
    match_videos,
    read_durations,
    video_duration,
)
from stepcut.datasets.numbered import read_numbered, tell_apart
from stepcut.datasets.task import Task, TaskVideo
from stepcut.errors import AnnotationError
from stepcut.formats.mstcn import read_mapping
from stepcut.formats.text import build_segment, fail, read_text
from stepcut.timeline import Segment, Timeline

CITATION = """@inproceedings{elhamifar2019procel,
  author    = {Elhamifar, Ehsan and Naing, Zwe},
  title     = {Unsupervised Procedure Learning via Joint Dynamic Summarization},
  booktitle = {IEEE International Conference on Computer Vision (ICCV)},
  year      = {2019}
}"""
SOURCES = {
    "project and annotations": "https://www.khoury.northeastern.edu/home/eelhami/procel.htm",
    "videos": "YouTube, by the addresses in each task's readme.txt",
}
TREE = """ROOT/                                           (ROOT may also hold ProceL_dataset/)
  <task>/data.mat                                grammar and key_steps_time
  <task>/readme.txt                              a line per video: number, name, address, parted by tabs
  <task>/videos/<name>.mp4                       optional
  durations.csv                                  name,seconds; optional, where there are no videos
or, instead of data.mat,
  <task>/mapping.txt                             number and step, a line each
  <task>/annotations/<name>.csv                  step number,start,end
with the tasks assemble_clarinet, change_iphone_battery, change_tire, change_toilet_seat, jump_car, make_coffee,
make_pbj_sandwich, make_smoke_salmon_sandwich, perform_cpr, repot_plant, setup_chromecast, tie_tie"""
TASKS = {
    "assemble_clarinet": TaskInfo(steps=16),
    "change_iphone_battery": TaskInfo(steps=14),
    "change_tire": TaskInfo(steps=18),
    "change_toilet_seat": TaskInfo(steps=21),
    "jump_car": TaskInfo(steps=14),
    "make_coffee": TaskInfo(steps=12),
    "make_pbj_sandwich": TaskInfo(steps=10),
    "make_smoke_salmon_sandwich": TaskInfo(steps=9),
    "perform_cpr": TaskInfo(steps=8),
    "repot_plant": TaskInfo(steps=10),
    "setup_chromecast": TaskInfo(steps=12),
    "tie_tie": TaskInfo(steps=14),
}


def read(root: str | Path) -> Loaded:
    """Read the 12 tasks from `data.mat`, or from the text files that others have made of it."""
    place = existing_root(root, "procel")
    base = place / "ProceL_dataset" if (place / "ProceL_dataset").is_dir() else place
    loaded = Loaded()
    features, lengths = find_features(place), read_durations(place)
    for name in TASKS:
        folder = base / name
        if (folder / "data.mat").is_file():
            steps, timed = _read_mat(folder, loaded)
        elif (folder / "mapping.txt").is_file():
            steps, timed = _read_texts(folder, loaded)
        else:
            loaded.missing.append(
                f"{folder}/data.mat: absent. Unpack the annotations there, from {SOURCES['project and annotations']}"
            )
            continue
        videos = find_videos(folder / "videos")
        task_videos = []
        for video, segments in timed.items():
            film = videos.get(video)
            length = lengths.get(video) or (None if film is None else video_duration(film))
            timeline = Timeline(segments, length, steps, video)
            task_videos.append(TaskVideo(video, film, features.get(video, {}), None, length, timeline))
        absent, extra = match_videos(videos, timed, str(folder / "videos"))
        loaded.missing += absent
        loaded.problems += extra
        loaded.tasks.append(Task(name, task_videos, steps))
    return loaded


def _read_mat(folder: Path, loaded: Loaded) -> tuple[tuple[str, ...], dict[str, list[Segment]]]:
    """Steps and segments from MATLAB cells: `grammar` (K, 1) of names, `key_steps_time` (N, 1) of (K, 1) of (m, 2)."""
    from scipy.io import loadmat

    path = folder / "data.mat"
    try:
        record = loadmat(str(path))
        steps = tell_apart([_text(cell) for cell in record["grammar"].ravel()])
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
    steps = tell_apart([step.replace("_", " ") for step in read_mapping(folder / "mapping.txt")])
    files = sorted((folder / "annotations").glob("*.csv"))
    if not files:
        loaded.missing.append(f"{folder}/annotations/: no CSV in it.")
    return steps, {path.stem: read_numbered(path, steps, loaded) for path in files}


def _text(cell: Any) -> str:
    """The string in a MATLAB cell, however deep it is wrapped."""
    while isinstance(cell, np.ndarray):
        cell = cell.ravel()[0]
    return " ".join(str(cell).split())


DATA_SET = DataSet(
    name="procel",
    title="ProceL",
    about="720 third-person how-to videos of 12 tasks, 60 each, with narration and key-steps.",
    citation=CITATION,
    sources=SOURCES,
    licence="for research; the videos belong to their authors on YouTube",
    obtain="Download the annotations from the project page; fetch the videos yourself where they are still offered.",
    tree=TREE,
    tasks=TASKS,
    rate="videos vary: each file is asked",
    read=read,
)
