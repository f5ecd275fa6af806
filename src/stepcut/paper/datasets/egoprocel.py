"""EgoProceL: 16 egocentric tasks, from the published tree or one JSON file; features by HiERO."""

import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from stepcut.errors import DataError, ExtraNeeded, choose
from stepcut.features.features import save_rows
from stepcut.formats.common import fail, read_json, read_text, refusals
from stepcut.formats.lines import read_numbered_names
from stepcut.formats.tables import name_numbers, parse_numbered, parse_rows
from stepcut.paper.datasets.dataset import DATASETS, Loaded, Shelf, Task, find_videos, plain_name
from stepcut.plugins import needs
from stepcut.settings import Rate, as_rate
from stepcut.timeline import Segment

TASKS = DATASETS["egoprocel"].tasks
# The cameras of CMU-MMAC by the number in a file's name.
VIEWS = {
    "egocentric": "7150991",
    "top": "7151020",
    "back": "6510211",
    "left": "8421130",
    "right": "7151062",
}
TENT_ENDING = ".egoprocel.ann"
# Frames per second of the JSON file: then lengths are whole seconds, and MECCANO's mean the
# published
RATE = Fraction(10)
MOST_VIEWS = 6  # lists per recording in the JSON file
SLACK = 50  # frames: largest difference of step starts between two views of a recording
UNLABELLED = "0"


def read(root: Path, loaded: Loaded, view: str = "egocentric") -> None:
    """The tasks in the published tree or `egoprocel.json`; `view` is the camera of CMU-MMAC."""
    choose("view", view, VIEWS)
    (_read_json if (root / "egoprocel.json").is_file() else _read_tree)(root, loaded, view)


def _read_tree(root: Path, loaded: Loaded, view: str) -> None:
    annotations = root / "annotations" if (root / "annotations").is_dir() else root
    shelf = Shelf(root)
    every_camera: list[str] = []
    for title, info in TASKS.items():
        folder = _same_folder(annotations, info.folder)
        if folder is None:
            absent = f"{annotations / info.folder}/: absent."
            loaded.missing.append(f"{absent} It contains the annotations of {title}.")
            continue
        paths = sorted(folder.glob("[!.]*.csv"))
        files = {path.name[:-4].removesuffix(TENT_ENDING): path for path in paths}
        if info.part == "CMU-MMAC":
            files = _view_files(folder, view, loaded)
        if len(files) < (info.videos or 0):
            few = f"only {len(files)} of {info.videos} recordings of {title}."
            loaded.missing.append(f"{folder}: {few}")
        if files:
            loaded.tasks.append(_read_task(title, files, _shelf_of(shelf, info.folder), loaded))
        every_camera += [path.stem.removesuffix(TENT_ENDING) for path in folder.rglob("[!.]*.csv")]
    shelf.match(loaded, every_camera)


def _shelf_of(shelf: Shelf, place: str) -> Shelf:
    """Videos in the folder of the task have priority over others of the same name."""
    whole, own = shelf.root / "videos", copy(shelf)
    places = (place, place.partition("/")[0]) if shelf.videos else ()
    folder = next(filter(None, (_same_folder(whole, each) for each in places)), None)
    own.videos = shelf.videos if folder is None else {**shelf.videos, **find_videos(folder)}
    return own


def _read_task(title: str, files: Mapping[str, Path], shelf: Shelf, loaded: Loaded) -> Task:
    lines = {}
    for name, path in files.items():
        with refusals(path):
            lines[name] = parse_numbered(parse_rows(read_text(path)))
    names = name_numbers([line for each in lines.values() for line in each])
    steps, published = tuple(names.values()), TASKS[title].steps
    if len(steps) != published:
        other = f"{title}: the files have {len(steps)} steps, published are {published}."
        loaded.problems.append(other)
    videos = []
    for name, each in lines.items():
        for number, segment in each:
            usual = re.sub(r" \(\d+\)$", "", names[number])
            if plain_name(segment.step) != plain_name(usual):
                loaded.problems.append(
                    f"{title}, {name}: step {number} is {segment.step!r} here, elsewhere {usual!r}."
                )
        segments = [replace(segment, step=names[number]) for number, segment in each]
        person = re.match(r"(S\d+)_", name)
        about = {"person_id": person[1], "view": camera_view(name)} if person else {}
        videos.append(shelf.video([name], segments, steps, about=about))
    return Task(title, videos, steps)


def _view_files(folder: Path, view: str, loaded: Loaded) -> dict[str, Path]:
    """Video name -> annotation file of one camera; each subfolder is a recording."""
    found = {}
    for recording in sorted(p for p in folder.iterdir() if p.is_dir()):
        views = {camera_view(path.stem): path for path in sorted(recording.glob("[!.]*.csv"))}
        if view in views:
            found[views[view].stem] = views[view]
            continue
        loaded.missing.append(f"{recording}: the {view} view is missing (camera {VIEWS[view]}).")
    return found


def camera_view(name: str) -> str:
    """The view of a CMU-MMAC file, from the camera number in its name, or else that number."""
    match = re.search(r"_(\d{7})-\d+$", name)
    number = match[1] if match else ""
    return next((view for view, camera in VIEWS.items() if camera == number), number)


def _same_folder(root: Path, place: str) -> Path | None:
    """Find a folder by name, ignoring case and punctuation."""
    here: Path | None = root
    for part in place.split("/"):
        folders = [] if here is None else [p for p in here.iterdir() if p.is_dir()]
        here = next((p for p in folders if plain_name(p.name) == plain_name(part)), None)
    return here


# One list of `egoprocel.json`: (action, first frame, last frame), including background
Frames = Sequence[tuple[str, int, int]]


def _steps(frames: Frames) -> Frames:
    return [each for each in frames if each[0] != UNLABELLED]


def _read_json(root: Path, loaded: Loaded, view: str) -> None:
    """All tasks of `egoprocel.json`, with the videos and features beside it."""
    shelf, path = Shelf(root), root / "egoprocel.json"
    names = {}
    if (root / "id2action.txt").is_file():
        numbered = read_numbered_names(root / "id2action.txt")
        names = {str(number): name.replace("_", " ") for number, name in numbered}
    else:
        absent = f"{root / 'id2action.txt'}: absent; steps are numbered instead of named."
        loaded.missing.append(absent)
    record = read_json(path)
    if not isinstance(record, dict):
        fail(path, "it must be an object with a task per key", "Copy the file again")
    for title, info in TASKS.items():
        if info.key in record:
            with refusals(path, f"the lists of {title}"):
                part = _shelf_of(shelf, info.folder)
                loaded.tasks.append(_read_lists(title, record[info.key], names, part, view))
        else:
            loaded.missing.append(f"{path}: the task {info.key!r} ({title}) is missing.")
    for key in sorted(set(record) - {info.key for info in TASKS.values()}):
        loaded.problems.append(f"{path}: the task {key!r} is unknown.")
    if not any(video.path or video.features for task in loaded.tasks for video in task):
        loaded.missing.append(f"{root}: no videos/ and no features/ beside egoprocel.json.")


def collapse_views(lists: Sequence[Frames]) -> list[list[Frames]]:
    """Group lists by recording: neighbours with the same steps at nearly the same times.

    A camera may stop early, so the shorter list only needs to match the beginning of the longer.
    """
    groups: list[list[Frames]] = []
    for frames in lists:
        last = groups[-1] if groups else []
        if 0 < len(last) < MOST_VIEWS and _same_recording(_steps(fullest(last)), _steps(frames)):
            last.append(frames)
        else:
            groups.append([frames])
    # An empty view belongs to the neighbour with fewer views.
    for place in range(len(groups) - 1, -1, -1):
        if len(groups) > 1 and not any(map(_steps, groups[place])):
            empty = groups.pop(place)
            beside = groups[max(place - 1, 0) : place + 1]
            min(beside, key=len).extend(empty)
    return groups


def fullest(views: Sequence[Frames]) -> Frames:
    """The first of `views` with the most steps."""
    return max(views, key=lambda frames: len(_steps(frames)))


def _same_recording(one: Frames, other: Frames) -> bool:
    shared = min(len(one), len(other))
    pairs = zip(one[:shared], other[:shared], strict=True)
    return shared > 0 and all(a[0] == b[0] and abs(a[1] - b[1]) <= SLACK for a, b in pairs)


def _read_lists(
    title: str, entry: Mapping[str, Any], names: Mapping[str, str], shelf: Shelf, view: str
) -> Task:
    """One task of the file; the views of a recording become one timeline."""
    parts = zip(entry["hdl_actions"], entry["hdl_start_times"], entry["hdl_end_times"], strict=True)
    lists = [list(zip(map(str, actions), *times, strict=True)) for actions, *times in parts]
    handles = [str(handle) for handle in entry["handles"]]
    views: list[list[Frames]] = [[frames] for frames in lists]
    defects, named = list(TASKS[title].defects), f"{len(handles)} video names for"
    if len(lists) != len(handles):
        views = collapse_views(lists)
        collapsed = f"camera views were collapsed to {len(views)} recordings"
        defects.append(f"{len(lists)} lists of {collapsed}")
    if len(views) != len(handles):
        defects.append(f"{named} {len(views)} recordings, which are therefore numbered")
        handles = [f"{title} {place + 1:02d}" for place in range(len(views))]
    used = {action for group in views for frames in group for action, _, _ in _steps(frames)}
    steps = tuple(names.get(action, action) for action in sorted(used, key=lambda a: (len(a), a)))
    videos = []
    for name, group in zip(handles, views, strict=True):
        frames = fullest(group)
        length = float((frames[-1][2] + 1) / RATE)
        segments = [
            Segment(float(s / RATE), float(e / RATE), names.get(a, a)) for a, s, e in _steps(frames)
        ]
        # CMU-MMAC has one file per camera, which starts with the name of the recording.
        here = (n for n in (*shelf.videos, *shelf.features) if n.startswith(name))
        files = [n for n in here if camera_view(n) == view]
        about = {"views": str(len(group))}
        videos.append(shelf.video([name, *files], segments, steps, length=length, about=about))
    return Task(title, videos, steps, defects=tuple(defects))


# ---------- the features of HiERO

STRIDE = 16  # Frames per row


def convert(root: Path, loaded: Loaded, fps: Rate | None = None) -> list[Path]:
    """Convert `features/<backbone>/**/<video>.pt`, (rows, d), to .safetensors; return new files.

    The rate is `fps` / `STRIDE`, or else rows by the length of the video. `loaded` has the
    lengths, and gets the files that cannot be converted.
    """
    files = sorted(root.glob("features/*/**/[!.]*.pt"))
    if not files:
        where = "'stepcut data info egoprocel' has their addresses."
        what = f"no .pt file below features/<backbone>/. Unpack HiERO's archives there; {where}"
        raise DataError(f"{root}: {what}", path=root)
    lengths = {video.name: video.duration for task in loaded.tasks for video in task}
    made = []
    for file in files:
        backbone = root / "features" / file.relative_to(root / "features").parts[0]
        target = backbone / f"{file.stem}.safetensors"
        try:
            _convert_file(file, target, lengths.get(file.stem), fps)
        except (ExtraNeeded, OSError):
            raise
        except Exception as error:  # torch documents no error for a damaged file
            loaded.problems.append(f"{file}: cannot be converted ({error}). Download it again.")
        else:
            made.append(target)
    return made


def _convert_file(file: Path, target: Path, length: float | None, fps: Rate | None) -> None:
    with needs("cnc"):
        import torch
    # weights_only: tensors are read, code in the file is not run.
    rows = torch.load(file, map_location="cpu", weights_only=True)
    if not isinstance(rows, torch.Tensor) or rows.ndim != 2:
        raise ValueError("it does not contain one tensor of rows")
    if fps is not None:
        rate = as_rate(fps, "rate", 1_000_000) / STRIDE
    elif length:
        rate = Fraction(len(rows) / length).limit_denominator(1000)
    else:
        raise ValueError("the length of its video is unknown; set --rate to its frames per second")
    save_rows(target, rows.numpy().astype("float32"), {"name": file.stem, "rate": str(rate)})
