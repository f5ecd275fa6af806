"""A plain folder of videos, with or without label files in any format: what most people have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from stepcut.datasets.dataset import (
    DataSet,
    Loaded,
    existing_root,
    find_features,
    find_videos,
    first_of,
    read_durations,
    video_duration,
)
from stepcut.datasets.task import Task, TaskVideo
from stepcut.errors import AnnotationError
from stepcut.formats import Rate, read_all, video_name
from stepcut.formats.guess import label_files
from stepcut.timeline import Timeline

TREE = """ROOT/                                           one task; or a folder per task, each like this:
  *.mp4                                          videos, here or in videos/
  *.csv, *.eaf, *.json, *.vtt, ...               a label file per video and of its name, here or in annotations/
  features/<backbone>/<name>.npy                 optional"""
LABELS = ("annotations", "labels", "groundTruth")


def read(root: str | Path, rate: Rate = None) -> Loaded:
    """Read a folder of one task, or of folders with a task each; `rate` is for label files that count frames."""
    place = existing_root(root, "folder")
    loaded = Loaded()
    folders = [place] if _is_task(place) else [p for p in sorted(place.iterdir()) if p.is_dir() and _is_task(p)]
    if not folders:
        loaded.missing.append(f"{place}: no video and no label file in it, nor in a folder of it.")
    for folder in folders:
        loaded.tasks.append(read_task(folder, loaded, rate))
    return loaded


def read_task(folder: Path, loaded: Loaded, rate: Rate = None) -> Task:
    """One folder as a task; what does not fit together is reported."""
    videos = find_videos(folder / "videos" if (folder / "videos").is_dir() else folder)
    timelines = _timelines(folder, loaded, rate)
    features, lengths = find_features(folder), read_durations(folder)
    names = list(dict.fromkeys([*videos, *features, *timelines]))
    steps = tuple(dict.fromkeys(step for timeline in timelines.values() for step in timeline.steps))
    if timelines:
        loaded.missing += [f"{videos[name]}: a video without a label file." for name in videos if name not in timelines]
    if videos or features:
        strays = [name for name in timelines if name not in videos and name not in features]
        loaded.problems += [f"{folder}: the label file of {name!r} matches no video." for name in strays]
    return Task(
        folder.name, [_video(name, videos, features, lengths, timelines, steps) for name in sorted(names)], steps
    )


def _video(
    name: str,
    videos: Mapping[str, Path],
    features: Mapping[str, Mapping[str, Path]],
    lengths: Mapping[str, float],
    timelines: Mapping[str, Timeline],
    steps: tuple[str, ...],
) -> TaskVideo:
    film, given = videos.get(name), timelines.get(name)
    length = lengths.get(name) or (None if film is None else video_duration(film))
    if length is None and given is not None:
        length = given.duration
    timeline = None if given is None else Timeline(given.segments, length, steps, name)
    return TaskVideo(name, film, features.get(name, {}), None, length, timeline)


def _timelines(folder: Path, loaded: Loaded, rate: Rate) -> dict[str, Timeline]:
    """Video name -> timeline; a label file that makes no sense is reported, and the others are still read."""
    found: dict[str, Timeline] = {}
    for path in label_files(first_of(folder, *LABELS) or folder):
        try:
            for timeline in read_all(path, rate=rate):
                name = video_name(timeline.video) or path.stem
                if name in found:
                    loaded.problems.append(f"{path}: {name!r} has a label file already; this one is passed over.")
                found.setdefault(name, timeline)
        except AnnotationError as error:
            loaded.problems.append(str(error))
    return found


def _is_task(folder: Path) -> bool:
    if first_of(folder, "videos", *LABELS):
        return True
    return bool(label_files(folder)) or any(path.parent == folder for path in find_videos(folder).values())


DATA_SET = DataSet(
    name="folder",
    title="A folder of your own",
    about="Videos with or without label files in any format that stepcut reads (docs/formats.md).",
    citation="",
    sources={},
    licence="yours",
    obtain="Put your videos in a folder, and beside them label files of the same names, where there are some.",
    tree=TREE,
    tasks={},
    rate="any; read from each file",
    read=read,
)
