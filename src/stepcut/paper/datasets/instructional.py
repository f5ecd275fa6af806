"""Instructional videos: CaptainCook4D with task graphs and mistakes, CrossTask and ProceL."""

import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from stepcut.errors import AnnotationError
from stepcut.formats.common import build_segment, fail, read_json, read_text, refusals, seconds
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
    plain_name,
)
from stepcut.timeline import Segment

COOKED, CROSSTASK, PROCEL = (DATASETS[name] for name in ("captaincook4d", "crosstask", "procel"))
RATE = Fraction(1)  # Published features have one row per second

# ---------- CaptainCook4D

STEPS, ERRORS = "complete_step_annotations.json", "error_annotations.json"
PLACES = tuple(f"{place}/{STEPS}" for place in ("annotations", "annotations/annotation_json"))
# Name, metadata and steps (description, start, end) of a recording
Recording = tuple[str, dict[str, str], list[tuple[str, float, float]]]


def read_captaincook4d(place: Path, loaded: Loaded) -> None:
    """Read `place`, or its subfolders with annotations; omitted steps (start -1) are errors."""
    alone = first_of(place, *PLACES) is not None
    for root in [place] if alone else sorted(p for p in place.iterdir() if p.is_dir()):
        if steps_file := first_of(root, *PLACES):
            _read_recipes(root, steps_file, part := Loaded())
            loaded.add(part)
    here = {task.name for task in loaded.tasks}
    absent = [recipe for recipe in COOKED.tasks if recipe not in here]
    if not here:
        where = COOKED.sources["annotations"]
        loaded.missing.append(f"{place / PLACES[0]}: absent. Copy it from {where}.")
    elif absent:
        listed = f"{len(absent)} of {len(COOKED.tasks)} recipes are missing: {', '.join(absent)}."
        loaded.missing.append(f"{place}: {listed}")


def _read_recipes(place: Path, steps_file: Path, loaded: Loaded) -> None:
    errors = _read_errors(steps_file.with_name(ERRORS), loaded)
    # Published files are named `1_7_360p.mp4`.
    films = find_videos(place / "videos").items()
    shelf = Shelf(place, {name.removesuffix("_360p"): path for name, path in films})
    recipes: dict[str, list[Recording]] = {}
    with refusals(steps_file, "annotations of CaptainCook4D"):
        record = read_json(steps_file)
        for each in record.values() if isinstance(record, dict) else record:
            about = {key: str(each[key]) for key in ("person_id", "environment") if key in each}
            steps = [
                (str(s["description"]), float(s["start_time"]), float(s["end_time"]))
                for s in each["steps"]
            ]
            recordings = recipes.setdefault(str(each["activity_name"]), [])
            recordings.append((str(each["recording_id"]), about, steps))
    for recipe, recordings in recipes.items():
        names, graph = _read_graph(place, recipe, recordings, loaded)
        vocabulary = tuple(dict.fromkeys(names.values()))
        videos = []
        for name, about, steps in recordings:
            segments = []
            for description, start, end in steps:
                try:
                    segments += [Segment(start, end, names[description])] * (start >= 0)
                except AnnotationError as error:
                    loaded.problems.append(f"{steps_file}: recording {name}: {error}")
            omitted = [(step, "missing step") for step, start, _ in steps if start < 0]
            marked = errors.get(name) or omitted
            wrong = tuple((names.get(step, step_name(step)), what) for step, what in marked)
            video = shelf.video([name], segments, vocabulary, RATE, about=about, errors=wrong)
            videos.append(video)
        loaded.tasks.append(Task(recipe, videos, vocabulary, graph))
    shelf.match(loaded)


def step_name(description: str) -> str:
    """Remove the leading verb, as in "Coat -Coat a cup" and "melt-In a mug, melt it"."""
    _verb, dash, rest = description.partition("-")
    return " ".join((rest if dash and rest.strip() else description).split())


def _read_graph(
    root: Path, recipe: str, recordings: list[Recording], loaded: Loaded
) -> tuple[dict[str, str], tuple[tuple[str, str], ...] | None]:
    """Description -> step name in the order of the task graph, and its edges by name.

    Step numbers differ between annotations and graphs, so the description identifies a step.
    """
    folder = first_of(root, "task_graphs", "annotations/task_graphs") or root / "task_graphs"
    path = folder / f"{plain_name(recipe)}.json"
    names: dict[str, str] = {}
    graph = None
    if not path.is_file():
        loaded.missing.append(f"{path}: absent; the recipe has no annotated order.")
    else:
        with refusals(path, "a task graph"):
            record = read_json(path)
            nodes = {int(key): str(text) for key, text in record["steps"].items()}
            steps = {key: text for key, text in nodes.items() if text not in ("START", "END")}
            named = {key: step_name(text) for key, text in steps.items()}
            names = {nodes[key]: named[key] for key in sorted(named)}
            edges = record["edges"]
            graph = tuple((named[a], named[b]) for a, b in edges if a in named and b in named)
    for name, _, recorded in recordings:
        for description, _, _ in recorded:
            if graph is not None and description not in names:
                loaded.problems.append(f"recording {name}: {description!r} is not in {path}.")
            names.setdefault(description, step_name(description))
    return names, graph


def _read_errors(path: Path, loaded: Loaded) -> dict[str, list[tuple[str, str]]]:
    """Recording -> (description, kind of mistake)."""
    errors: dict[str, list[tuple[str, str]]] = {}
    if not path.is_file():
        loaded.missing.append(f"{path}: absent. Copy it from {COOKED.sources['annotations']}.")
        return errors
    with refusals(path, "mistakes of CaptainCook4D"):
        for recording in read_json(path):
            errors[str(recording["recording_id"])] = [
                (str(step["description"]), str(error["tag"]).lower())
                for step in recording["step_annotations"]
                for error in step.get("errors", ())
            ]
    return errors


# ---------- CrossTask and ProceL


def read_numbered(path: Path, steps: Sequence[str], loaded: Loaded) -> list[Segment]:
    """Read lines of step number, start and end; wrong ones are reported."""
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
    """The 18 primary tasks; every annotation file is a video."""
    release = (first_of(place, "crosstask_release") or place) / "tasks_primary.txt"
    folder, addresses = release.parent / "annotations", release.with_name("videos.csv")
    source = CROSSTASK.sources["annotations and features"]
    absent = [path for path in (release, folder, addresses) if not path.exists()]
    where = f"absent. Unpack crosstask_release.zip there, from {source}."
    loaded.missing += [f"{path}: {where}" for path in absent]
    if release in absent or folder in absent:
        return
    tasks = read_tasks(release)
    for path in sorted(folder.glob("[!.]*.csv")):
        if (number := path.stem.partition("_")[0]) not in tasks:
            loaded.problems.append(f"{path}: task {number} is not in {release.name}.")
    shelf = Shelf(place)
    for path in sorted((place / "crosstask_features").glob("[!.]*.npy")):
        shelf.features.setdefault(path.stem, {})["crosstask"] = path
    for number, (title, steps) in tasks.items():
        files, videos = sorted(folder.glob(f"{number}_*.csv")), []
        for path in files:
            names = [path.stem, path.stem.partition("_")[2]]
            video = shelf.video(names, read_numbered(path, steps, loaded), steps)
            videos.append(replace(video, rate=RATE) if "crosstask" in video.features else video)
        loaded.tasks.append(Task(title, videos, steps))
        expected = CROSSTASK.tasks.get(title, TaskInfo()).videos or 0
        if len(files) < expected:
            here = f"{len(files)} of {expected} files of {title}."
            loaded.missing.append(f"{folder}/{number}_*.csv: {here}")
    shelf.match(loaded)


def read_tasks(path: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Number -> title and steps, from blocks of six lines."""
    tasks = {}
    lines = read_text(path).split("\n")

    def refuse(what: str, line: int) -> None:
        fail(path, what, "Copy the file again", line)

    for first in range(0, len(lines), 6):
        block = [line.strip() for line in lines[first : first + 5]]
        if not any(block):
            continue
        if len(block) < 5 or not all(re.fullmatch("[0-9]{1,9}", block[line]) for line in (0, 3)):
            refuse("a task needs id, title, address, number of steps, steps", first + 1)
        steps = _as_steps(block[4].split(","))
        if len(steps) != int(block[3]):
            refuse(f"{block[1]} announces {block[3]} steps and names {len(steps)}", first + 5)
        tasks[block[0]] = block[1], steps
    return tasks


def _as_steps(names: Sequence[str]) -> tuple[str, ...]:
    """Remove needless spaces; number equal names."""
    named = [" ".join(name.split()) for name in names]
    return tuple(tell_apart(enumerate(named, start=1)).values())


def read_procel(place: Path, loaded: Loaded) -> None:
    """The 12 tasks, from `data.mat` or from text files converted from it."""
    base, source = first_of(place, "ProceL_dataset") or place, PROCEL.sources
    shelf, every = Shelf(place), dict[str, Path]()
    for name in PROCEL.tasks:
        folder = base / name
        if (folder / "data.mat").is_file():
            steps, timed = _read_mat(folder, loaded)
        elif (folder / "mapping.txt").is_file():
            mapping = read_mapping(folder / "mapping.txt")
            steps = _as_steps([step.replace("_", " ") for step in mapping])
            files = sorted((folder / "annotations").glob("[!.]*.csv"))
            loaded.missing += [] if files else [f"{folder}/annotations/: no CSV file."]
            timed = {path.stem: read_numbered(path, steps, loaded) for path in files}
        else:
            where = f"Unpack the annotations there, from {source['project and annotations']}"
            loaded.missing.append(f"{folder}/data.mat: absent. {where}")
            continue
        shelf.videos = find_videos(folder / "videos")
        every |= shelf.videos
        videos = [shelf.video([video], segments, steps) for video, segments in timed.items()]
        loaded.tasks.append(Task(name, videos, steps))
    shelf.videos = every
    shelf.match(loaded, place="<task>/videos")


def _read_mat(folder: Path, loaded: Loaded) -> tuple[tuple[str, ...], dict[str, list[Segment]]]:
    """Read MATLAB cells: `grammar` (K, 1), `key_steps_time` (N, 1) of (K, 1) of (m, 2)."""
    from scipy.io import loadmat

    path = folder / "data.mat"
    try:
        record = loadmat(str(path))
        steps = _as_steps([_text(cell) for cell in record["grammar"].ravel()])
        times = record["key_steps_time"].ravel()
        names = _video_names(folder / "readme.txt", len(times), loaded)
        timed: dict[str, list[Segment]] = {name: [] for name in names}
        for name, cells in zip(names, times, strict=True):
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
        what = f"grammar and key_steps_time are missing or inconsistent ({error!r})"
        fail(path, what, "Copy the file again")
    return steps, timed


def _video_names(path: Path, count: int, loaded: Loaded) -> list[str]:
    """Names from readme.txt, or numbers if they do not match the annotated videos."""
    text = read_text(path) if path.is_file() else ""
    rows = [line.split("\t") for line in text.split("\n") if line.strip()]
    names = [row[1].strip() for row in rows if len(row) > 1]
    if len(names) == count:
        return names
    numbered = f"{len(names)} names for {count} annotated videos, which are therefore numbered."
    loaded.problems.append(f"{path}: {numbered}")
    return [f"{path.parent.name}_{place + 1:04d}" for place in range(count)]


def _text(cell: Any) -> str:
    """The string in a nested MATLAB cell."""
    while isinstance(cell, np.ndarray):
        cell = cell.ravel()[0]
    return str(cell)
