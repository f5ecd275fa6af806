"""EgoProceL: 16 tasks from six sources of egocentric video, in the published annotation tree or as one JSON file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from stepcut.datasets.dataset import (
    DataSet,
    Loaded,
    TaskInfo,
    existing_root,
    find_features,
    find_videos,
    match_videos,
    plain_name,
    read_durations,
    video_duration,
)
from stepcut.datasets.egoprocel_json import read_json_form
from stepcut.datasets.task import Task, TaskVideo
from stepcut.errors import OptionError, unknown
from stepcut.formats.egoprocel import Numbered, name_numbers, parse
from stepcut.timeline import Segment, Timeline

CITATION = """@inproceedings{EgoProceLECCV2022,
  author    = {Bansal, Siddhant and Arora, Chetan and Jawahar, C.V.},
  title     = {My View is the Best View: Procedure Learning from Egocentric Videos},
  booktitle = {European Conference on Computer Vision (ECCV)},
  year      = {2022}
}"""
SOURCES = {
    "project and annotations": "https://sid2697.github.io/egoprocel/",
    "PC Assembly, PC Disassembly": "https://sid2697.github.io/egoprocel/#download",
    "CMU-MMAC": "http://kitchen.cs.cmu.edu/main.php",
    "EGTEA Gaze+": "https://cbs.ic.gatech.edu/fpv/",
    "MECCANO": "https://iplab.dmi.unict.it/MECCANO/",
    "EPIC-Tents": "https://sites.google.com/view/epic-tent",
}
TREE = """ROOT/
  annotations/                                   (ROOT may also be this folder itself)
    CMU-MMAC/Brownie/S07_Brownie_Video/S07_Brownie_7150991-1431.csv      a file per camera view
    CMU-MMAC/{Eggs,Pizza,Salad,Sandwich}/...
    EGTEA_Gaze+/BaconAndEggs/OP01-R03-BaconAndEggs.csv
    EGTEA_Gaze+/{Cheeseburger,ContinentalBreakfast,GreekSalad,PastaSalad,Pizza,TurkeySandwich}/...
    EPIC-Tents/01.tent.090617.gopro.egoprocel.ann.csv
    MECCANO/0003.csv
    pc_assembly/Head_5.csv
    pc_disassembly/Head_6.csv
  videos/**/<name of the annotation file>.mp4    optional
  features/<backbone>/<name>.npy                 optional
  durations.csv                                  name,seconds; optional, where there are no videos
or, with videos/ and features/ as above,
  egoprocel.json, id2action.txt                  the same steps as frame lists
Videos with equal names in two parts lie in folders named as the parts: videos/MECCANO/, videos/EPIC-Tents/, ..."""

# Task -> what the paper's table says: videos, key-steps, foreground, missing, repeated.
TASKS = {
    "PC Assembly": TaskInfo(14, 9, 0.79, 0.02, 0.65),
    "PC Disassembly": TaskInfo(15, 9, 0.72, 0.00, 0.60),
    "Toy Bike (MECCANO)": TaskInfo(20, 17, 0.50, 0.06, 0.32),
    "Tent": TaskInfo(29, 12, 0.63, 0.14, 0.73),
    "Bacon and Eggs": TaskInfo(16, 11, 0.15, 0.22, 0.51),
    "Cheese Burger": TaskInfo(10, 10, 0.22, 0.22, 0.65),
    "Continental Breakfast": TaskInfo(12, 10, 0.23, 0.20, 0.36),
    "Greek Salad": TaskInfo(10, 4, 0.25, 0.18, 0.77),
    "Pasta Salad": TaskInfo(19, 8, 0.25, 0.19, 0.86),
    "Hot Dog Pizza": TaskInfo(6, 8, 0.31, 0.13, 0.62),
    "Turkey Sandwich": TaskInfo(13, 6, 0.21, 0.01, 0.52),
    "Brownie": TaskInfo(34, 9, 0.44, 0.19, 0.26),
    "Eggs": TaskInfo(33, 8, 0.26, 0.05, 0.26),
    "Pepperoni Pizza": TaskInfo(33, 5, 0.53, 0.00, 0.26),
    "Salad": TaskInfo(34, 9, 0.32, 0.30, 0.14),
    "Sandwich": TaskInfo(31, 4, 0.25, 0.03, 0.37),
}
# Task -> its folder in the published tree: part, and category where the part has several.
FOLDERS = {
    "PC Assembly": "pc_assembly",
    "PC Disassembly": "pc_disassembly",
    "Toy Bike (MECCANO)": "MECCANO",
    "Tent": "EPIC-Tents",
    "Bacon and Eggs": "EGTEA_Gaze+/BaconAndEggs",
    "Cheese Burger": "EGTEA_Gaze+/Cheeseburger",
    "Continental Breakfast": "EGTEA_Gaze+/ContinentalBreakfast",
    "Greek Salad": "EGTEA_Gaze+/GreekSalad",
    "Pasta Salad": "EGTEA_Gaze+/PastaSalad",
    "Hot Dog Pizza": "EGTEA_Gaze+/Pizza",
    "Turkey Sandwich": "EGTEA_Gaze+/TurkeySandwich",
    "Brownie": "CMU-MMAC/Brownie",
    "Eggs": "CMU-MMAC/Eggs",
    "Pepperoni Pizza": "CMU-MMAC/Pizza",
    "Salad": "CMU-MMAC/Salad",
    "Sandwich": "CMU-MMAC/Sandwich",
}
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
    features, lengths = find_features(root), read_durations(root)
    tasks = []
    for task in loaded.tasks:
        films = _part_videos(root, FOLDERS[task.name])
        videos = []
        for video in task:
            # A recording of CMU-MMAC has a file per camera, whose name begins with the recording's.
            names = [
                video.name,
                *(n for n in (*films, *features) if n.startswith(video.name) and camera_view(n) == view),
            ]
            film = next((films[name] for name in names if name in films), None)
            given = next((features[name] for name in names if name in features), {})
            length = next((lengths[name] for name in names if name in lengths), video.duration)
            videos.append(replace(video, path=film, features=given, duration=length))
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
    features, lengths = find_features(root), read_durations(root)
    known: list[str] = []
    for title, place in FOLDERS.items():
        folder = _same_folder(annotations, place)
        if folder is None:
            loaded.missing.append(f"{annotations / place}/: absent. It holds the annotations of {title}.")
            continue
        files = _view_files(folder, view, loaded) if place.startswith("CMU") else _files(folder)
        expected = TASKS[title].videos or 0
        if len(files) < expected:
            loaded.missing.append(f"{folder}: {len(files)} of {expected} recordings of {title} are there.")
        if files:
            loaded.tasks.append(_read_task(title, files, _part_videos(root, place), features, lengths, loaded))
        known += [path.stem.removesuffix(TENT_ENDING) for path in folder.rglob("*.csv")]  # of every camera
    absent, _ = match_videos(find_videos(root / "videos"), [v.name for t in loaded.tasks for v in t], f"{root}/videos")
    _, extra = match_videos(find_videos(root / "videos"), known, f"{root}/videos")
    loaded.missing += absent
    loaded.problems += extra
    return loaded


def _read_task(
    title: str,
    files: Mapping[str, Path],
    videos: Mapping[str, Path],
    features: Mapping[str, Mapping[str, Path]],
    lengths: Mapping[str, float],
    loaded: Loaded,
) -> Task:
    lines = {name: parse(path) for name, path in files.items()}
    names = name_numbers([line for each in lines.values() for line in each])
    _report_spellings(title, lines, names, loaded)
    steps = tuple(names.values())
    published = TASKS[title].steps
    if len(steps) != published:
        loaded.problems.append(f"{title}: {len(steps)} steps occur in its files; {published} were published.")
    task_videos = []
    for name, each in lines.items():
        segments = [Segment(line.start, line.end, names[line.number]) for line in each]
        path = videos.get(name)
        length = lengths.get(name) or (None if path is None else video_duration(path))
        given = features.get(name, {})
        task_videos.append(
            TaskVideo(name, path, given, None, length, Timeline(segments, length, steps, name), _about(name))
        )
    return Task(title, task_videos, steps)


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


def _about(name: str) -> dict[str, str]:
    match = re.match(r"(S\d+)_", name)
    return {"person_id": match[1], "view": camera_view(name)} if match else {}


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


DATA_SET = DataSet(
    name="egoprocel",
    title="EgoProceL",
    about="62 hours of egocentric video of 130 people doing 16 tasks, from CMU-MMAC (with four third-person views), "
    "EGTEA Gaze+, MECCANO, EPIC-Tents, PC Assembly and PC Disassembly; key-steps annotated in seconds.",
    citation=CITATION,
    sources=SOURCES,
    licence="each part its own; no licence file comes with the annotations. Ask the sources before redistributing.",
    obtain="Download the annotations from the project page, and the videos of each part from its own page. Give every "
    "video the name of its annotation file.",
    tree=TREE,
    tasks=TASKS,
    rate="they differ between and within the parts, so each file is asked; the JSON counts 10 frames a second",
    read=read,
)
