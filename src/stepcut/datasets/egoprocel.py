"""EgoProceL: 16 tasks from six sources of egocentric video, in the published annotation tree or as one JSON file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from stepcut.datasets.dataset import (
    DATASETS,
    Loaded,
    Shelf,
    existing_root,
    find_videos,
    match_videos,
    plain_name,
)
from stepcut.datasets.egoprocel_json import read_json_form
from stepcut.datasets.task import Task
from stepcut.errors import OptionError, unknown
from stepcut.formats.egoprocel import Numbered, name_numbers, parse
from stepcut.timeline import Segment

TASKS = DATASETS["egoprocel"].tasks
# The cameras of CMU-MMAC by the number in a file's name.
VIEWS = {"egocentric": "7150991", "top": "7151020", "back": "6510211", "left": "8421130", "right": "7151062"}
TENT_ENDING = ".egoprocel.ann"


def read(root: str | Path, view: str = "egocentric") -> Loaded:
    """Read the published tree, or `egoprocel.json` where that is what the root holds.

    `view` is the camera of CMU-MMAC that is wanted: egocentric, top, back, left or right.
    """
    place = existing_root(root, "egoprocel")
    if view not in VIEWS:
        raise OptionError(unknown("view", view, VIEWS))
    if (place / "egoprocel.json").is_file():
        return _with_videos(place, read_json_form(place), view)
    return _read_tree(place, view)


def _with_videos(root: Path, loaded: Loaded, view: str) -> Loaded:
    """The tasks of the JSON file with the videos and features that lie beside it."""
    shelf = Shelf(root)
    tasks = []
    for task in loaded.tasks:
        shelf.videos = _part_videos(root, TASKS[task.name].folder)
        videos = []
        for video in task:
            # A recording of CMU-MMAC has a file per camera, whose name begins with the recording's.
            of_view = [
                n for n in (*shelf.videos, *shelf.features) if n.startswith(video.name) and camera_view(n) == view
            ]
            film, features, length = shelf.find([video.name, *of_view])
            videos.append(replace(video, path=film, features=features, duration=length or video.duration))
        tasks.append(replace(task, videos=videos))
    loaded.tasks = tasks
    if not any(video.path or video.features for task in tasks for video in task):
        loaded.missing.append(f"{root}: no videos/ and no features/ beside egoprocel.json.")
    return loaded


def _part_videos(root: Path, place: str) -> dict[str, Path]:
    """The videos of one task: those in the folder of its part come before others of the same name."""
    whole = root / "videos"
    if not whole.is_dir():
        return {}
    own = _same_folder(whole, place) or _same_folder(whole, place.partition("/")[0])
    return {**find_videos(whole), **({} if own is None else find_videos(own))}


def _read_tree(root: Path, view: str) -> Loaded:
    loaded = Loaded()
    annotations = root / "annotations" if (root / "annotations").is_dir() else root
    shelf, every = Shelf(root), find_videos(root / "videos")
    known: list[str] = []
    for title, info in TASKS.items():
        folder = _same_folder(annotations, info.folder)
        if folder is None:
            loaded.missing.append(f"{annotations / info.folder}/: absent. It holds the annotations of {title}.")
            continue
        files = _view_files(folder, view, loaded) if info.part == "CMU-MMAC" else _files(folder)
        if len(files) < (info.videos or 0):
            loaded.missing.append(f"{folder}: {len(files)} of {info.videos} recordings of {title} are there.")
        if files:
            shelf.videos = _part_videos(root, info.folder)
            loaded.tasks.append(_read_task(title, files, shelf, loaded))
        known += [path.stem.removesuffix(TENT_ENDING) for path in folder.rglob("*.csv")]  # of every camera
    absent, _ = match_videos(every, [v.name for t in loaded.tasks for v in t], f"{root}/videos")
    _, extra = match_videos(every, known, f"{root}/videos")
    loaded.missing += absent
    loaded.problems += extra
    return loaded


def _read_task(title: str, files: Mapping[str, Path], shelf: Shelf, loaded: Loaded) -> Task:
    lines = {name: parse(path) for name, path in files.items()}
    names = name_numbers([line for each in lines.values() for line in each])
    _report_spellings(title, lines, names, loaded)
    steps = tuple(names.values())
    if len(steps) != TASKS[title].steps:
        loaded.problems.append(f"{title}: {len(steps)} steps occur in its files; {TASKS[title].steps} were published.")
    videos = []
    for name, each in lines.items():
        segments = [Segment(line.start, line.end, names[line.number]) for line in each]
        person = re.match(r"(S\d+)_", name)
        about = {"person_id": person[1], "view": camera_view(name)} if person else {}
        videos.append(shelf.video([name], segments, steps, about=about))
    return Task(title, videos, steps)


def _files(folder: Path) -> dict[str, Path]:
    """Video name -> annotation file."""
    return {path.name[:-4].removesuffix(TENT_ENDING): path for path in sorted(folder.glob("*.csv"))}


def _view_files(folder: Path, view: str, loaded: Loaded) -> dict[str, Path]:
    """Video name -> annotation file of one camera, a recording per sub-folder."""
    found = {}
    for recording in sorted(p for p in folder.iterdir() if p.is_dir()):
        views = {camera_view(path.stem): path for path in sorted(recording.glob("*.csv"))}
        if view in views:
            found[views[view].stem] = views[view]
        else:
            loaded.missing.append(f"{recording}: no file of the {view} view (camera {VIEWS[view]}).")
    return found


def camera_view(name: str) -> str:
    """The view that a file of CMU-MMAC shows, by the camera's number in its name; the number itself if unknown.

    >>> camera_view("S07_Brownie_7150991-1431")
    'egocentric'
    """
    match = re.search(r"_(\d{7})-\d+$", name)
    number = match[1] if match else ""
    return next((view for view, camera in VIEWS.items() if camera == number), number)


def _report_spellings(
    title: str, lines: Mapping[str, list[Numbered]], names: Mapping[int, str], loaded: Loaded
) -> None:
    """One number under two names is reported: the commoner name is used."""
    for name, each in lines.items():
        for line in each:
            usual = re.sub(r" \(\d+\)$", "", names[line.number])
            if plain_name(line.name) != plain_name(usual):
                loaded.problems.append(
                    f"{title}, {name}: step {line.number} is called {line.name!r} here and {usual!r} elsewhere."
                )


def _same_folder(root: Path, place: str) -> Path | None:
    """A folder by its name, whatever its case and signs."""
    here = root
    for part in place.split("/"):
        matches = [p for p in here.iterdir() if p.is_dir() and plain_name(p.name) == plain_name(part)]
        if not matches:
            return None
        here = matches[0]
    return here
