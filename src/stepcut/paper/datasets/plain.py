"""Data sets that are plain folders: your own, that of action segmentation, the toy kitchen."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from stepcut.errors import AnnotationError
from stepcut.files.names import match_videos, video_name
from stepcut.formats import label_files, lines, read_all
from stepcut.formats.common import Options, frame_rate, read_json, read_text, refusals
from stepcut.paper.datasets.dataset import Loaded, Shelf, Task, TaskVideo, find_videos, first_of
from stepcut.settings import Rate
from stepcut.timeline import Timeline

LABELS = ("annotations", "labels", "groundTruth")


def read(place: Path, loaded: Loaded, rate: Rate | None = None) -> None:
    """The task in folder `place`, or in its subfolders; `rate` is that of label files in frames."""
    inside = [place] if _is_task(place) else sorted(place.iterdir())
    folders = [each for each in inside if each.is_dir() and _is_task(each)]
    if not folders:
        loaded.missing.append(f"{place}: no video and no label file here or in a subfolder.")
    loaded.tasks += [read_task(folder, loaded, rate) for folder in folders]


def read_task(
    folder: Path, loaded: Loaded, rate: Rate | None = None, steps: tuple[str, ...] = ()
) -> Task:
    """Read a task of these `steps`, or of those that occur."""
    shelf = Shelf(folder, find_videos(first_of(folder, "videos") or folder, loaded))
    timelines = _timelines(folder, loaded, rate)
    try:
        matched = match_videos(timelines, {**shelf.videos, **shelf.features})
        timelines = {matched.get(name, name): timeline for name, timeline in timelines.items()}
    except AnnotationError as error:
        loaded.problems.append(f"{folder}: {error}")
    steps = steps or tuple(dict.fromkeys(step for one in timelines.values() for step in one.steps))
    files = {*shelf.videos, *shelf.features}
    if timelines:
        bare = [path for name, path in shelf.videos.items() if name not in timelines]
        loaded.missing += [f"{path}: a video without a label file." for path in bare]
    loaded.problems += [
        f"{folder}: the label file of {name!r} does not match a video."
        for name in timelines
        if files and name not in files
    ]
    videos = []
    for name in sorted({*files, *timelines}):
        line = timelines.get(name)
        segments, length = (None, None) if line is None else (line.segments, line.duration)
        videos.append(shelf.video([name], segments, steps, length=length))
    return Task(folder.name, videos, steps)


def read_segmentation(place: Path, loaded: Loaded, rate: Rate | None = None) -> None:
    """The activities of `groundTruth/`, `features/` and `mapping.txt`; `rate` is that of frames.

    As Breakfast, 50Salads, YTI and Desktop Assembly. An activity is a folder of `features/`, or
    part of the name of a video, or else the data set is one.
    """
    folder = place / "groundTruth"
    if not folder.is_dir():
        loaded.missing.append(f"{folder}/: absent. It has a file per video, with a step per frame.")
        return
    shelf = Shelf(place, {})
    shelf.features = {
        path.name[: -len(path.suffix)]: {"features": path}
        for path in sorted((place / "features").rglob("[!.]*"))
        if path.suffix in (".npy", ".npz", ".safetensors", ".txt")
    }
    options = Options(frame_rate(rate))
    with refusals(folder):
        frames_per_second = options.needed_rate()
    if lines.find_mapping(folder / "any") is None:
        what = "absent; steps have the order of the labels."
        loaded.missing.append(f"{place / 'mapping.txt'}: {what}")
    tasks: dict[str, list[TaskVideo]] = {}
    for path in sorted(folder.glob("[!.]*")):
        name = path.name.removesuffix(".txt")
        if not path.is_file() or name in ("mapping", "readme") or name.endswith("_idt"):
            continue
        try:
            with refusals(path):
                timeline = lines.read_mstcn(read_text(path), replace(options, path=path))
        except AnnotationError as error:
            loaded.problems.append(str(error))
            continue
        seconds = timeline.duration
        video = shelf.video([name], timeline.segments, timeline.steps, frames_per_second, seconds)
        file = video.features.get("features")
        if file is not None and file.suffix == ".npy":
            frames, (rows, columns) = timeline.end * frames_per_second, np.load(file, "r").shape
            video = replace(video, frames_last=abs(columns - frames) < abs(rows - frames))
        tasks.setdefault(_activity(name, file, place), []).append(video)
    for activity, videos in tasks.items():
        steps = {step for video in videos if video.timeline for step in video.timeline.sequence()}
        known = videos[0].timeline.steps if videos[0].timeline else ()
        order = tuple(step for step in known if step in steps) or tuple(sorted(steps))
        loaded.tasks.append(Task(activity, videos, order))
    shelf.match(loaded, place="features")


def _activity(name: str, file: Path | None, place: Path) -> str:
    """Names of videos end in it in Breakfast, and begin with it in YTI."""
    if file is not None and file.parent.name != "features":
        return file.parent.name
    match = re.fullmatch(r"P\d+_.+_P\d+_(\w+)|(\w+)_\d{4}", name)
    return place.resolve().name if match is None else match[1] or match[2]


def read_kitchen(place: Path, loaded: Loaded) -> None:
    """Read a toy kitchen; its `graph.json` has the steps and their order."""
    if not (place / "graph.json").is_file():
        loaded.missing.append(
            f"{place}/graph.json: absent. Render a kitchen there: "
            f"python -c 'from stepcut.toy import make_kitchen; make_kitchen({str(place)!r})'"
        )
        return
    with refusals(place / "graph.json", "the order of a toy kitchen"):
        graph = read_json(place / "graph.json")
        edges = tuple((str(before), str(after)) for before, after in graph["edges"])
        steps = tuple(str(step) for step in graph["steps"])
    task = read_task(place, loaded, steps=steps)
    loaded.tasks.append(replace(task, name="breakfast", graph=edges))


def _timelines(folder: Path, loaded: Loaded, rate: Rate | None) -> dict[str, Timeline]:
    """Video name -> timeline; unreadable label files are reported and skipped."""
    found: dict[str, Timeline] = {}
    options = Options(frame_rate(rate), confirmed=True)
    for path in label_files(first_of(folder, *LABELS) or folder):
        try:
            for timeline in read_all(path, options=options):
                name = video_name(timeline.video) or path.stem
                if name in found:
                    second = f"{path}: {name!r} already has a label file; this one is ignored."
                    loaded.problems.append(second)
                found.setdefault(name, timeline)
        except AnnotationError as error:
            loaded.problems.append(str(error))
    return found


def _is_task(folder: Path) -> bool:
    if first_of(folder, "videos", *LABELS) or label_files(folder):
        return True
    return any(path.parent == folder for path in find_videos(folder).values())
