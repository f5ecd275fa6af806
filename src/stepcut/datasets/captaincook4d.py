"""CaptainCook4D: 24 recipes cooked in many kitchens, some with mistakes on purpose; with true task graphs."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from stepcut.datasets.dataset import (
    DataSet,
    Loaded,
    TaskInfo,
    existing_root,
    find_features,
    find_videos,
    first_of,
    plain_name,
)
from stepcut.datasets.task import Task, TaskVideo
from stepcut.errors import AnnotationError
from stepcut.formats.text import fail, read_json, read_text
from stepcut.timeline import Segment, Timeline

CITATION = """@inproceedings{peddi2024captaincook4d,
  title     = {{CaptainCook4D}: A Dataset for Understanding Errors in Procedural Activities},
  author    = {Peddi, Rohith and Arya, Shivvrat and Challa, Bharath and Pallapothula, Likhitha and Vyas, Akshay and
               Gouripeddi, Bhavya and Wang, Jikai and Zhang, Qifan and Komaragiri, Vasundhara and Ragan, Eric and
               Ruozzi, Nicholas and Xiang, Yu and Gogate, Vibhav},
  booktitle = {Advances in Neural Information Processing Systems (Datasets and Benchmarks)},
  year      = {2024}
}"""
SOURCES = {
    "project": "https://captaincook4d.github.io/captain-cook/",
    "annotations": "https://github.com/CaptainCook4D/annotations",
    "videos": "https://github.com/CaptainCook4D/downloader",
}
TREE = """ROOT/
  annotations/complete_step_annotations.json     (or annotations/annotation_json/...)
  annotations/error_annotations.json
  task_graphs/<recipe>.json                      microwaveeggsandwich.json, coffee.json, ...
  features/<backbone>/<recording>.npy            (seconds, d), one row a second; optional
  videos/<recording>_360p.mp4                    or <recording>.mp4; optional
  index.csv                                      recording_id, seconds; optional, gives the lengths"""
# Recipe -> recordings in the published set, where known.
TASKS = {
    "Microwave Egg Sandwich": TaskInfo(18),
    "Dressed Up Meatballs": TaskInfo(16),
    "Microwave Mug Pizza": TaskInfo(13),
    "Ramen": TaskInfo(17),
    "Coffee": TaskInfo(15),
    "Breakfast Burritos": TaskInfo(16),
    "Spiced Hot Chocolate": TaskInfo(16),
    "Microwave French Toast": TaskInfo(14),
    "Pinwheels": TaskInfo(12),
    "Tomato Mozzarella Salad": TaskInfo(18),
    "Butter Corn Cup": TaskInfo(),
    "Tomato Chutney": TaskInfo(),
    "Scrambled Eggs": TaskInfo(),
    "Cucumber Raita": TaskInfo(),
    "Zoodles": TaskInfo(),
    "Sauted Mushrooms": TaskInfo(),
    "Blender Banana Pancakes": TaskInfo(),
    "Herb Omelet with Fried Tomatoes": TaskInfo(),
    "Broccoli Stir Fry": TaskInfo(),
    "Pan Fried Tofu": TaskInfo(),
    "Mug Cake": TaskInfo(),
    "Cheese Pimiento": TaskInfo(),
    "Spicy Tuna Avocado Wraps": TaskInfo(),
    "Caprese Bruschetta": TaskInfo(),
}
CHECKSUMS = {
    "task_graphs/microwaveeggsandwich.json": "43581e60fa783dc5fb8541c013121abefd00cb186edfd54142fb215e355bf7b7",
    "task_graphs/microwavefrenchtoast.json": "4147418c0f0794855aaa54312aac2afb2ff4bc1e6ba5d4b48de3770eb5a6d92b",
    "task_graphs/scrambledeggs.json": "2da72a2d0f683d3aa5b47eb0e8f85f5b08546843f1196418eafbdc2147ae9689",
    "task_graphs/spicedhotchocolate.json": "06fdf99acfb85378c923f4ac845fa87409c25b980a00d589a0295a274577038e",
    "task_graphs/tomatomozzarellasalad.json": "5aadd8668a3d9d281e8aeb900fc3bf62a39507670d0a0a2a2be8a32cf9e3833e",
}
RATE = Fraction(1)  # the published features: one row a second
ANNOTATIONS = "annotations/complete_step_annotations.json"


def read(root: str | Path) -> Loaded:
    """Read all recipes under a root, or under the folders of a root, each with annotations of its own.

    Steps that were left out (start -1) are errors, not segments.
    """
    place = existing_root(root, "captaincook4d")
    loaded = Loaded()
    places = [place] if _steps_file(place) else sorted(p for p in place.iterdir() if p.is_dir())
    for each in places:
        if (steps_file := _steps_file(each)) is not None:
            _read_recipes(each, steps_file, loaded)
    if not loaded.tasks:
        loaded.missing.append(f"{place / ANNOTATIONS}: absent. Copy it from {SOURCES['annotations']}.")
        return loaded
    absent = [recipe for recipe in TASKS if recipe not in {task.name for task in loaded.tasks}]
    if absent:
        loaded.missing.append(f"{place}: {len(absent)} of {len(TASKS)} recipes are not in it: {', '.join(absent)}.")
    return loaded


def _steps_file(place: Path) -> Path | None:
    return first_of(place, ANNOTATIONS, "annotations/annotation_json/complete_step_annotations.json")


def _read_recipes(place: Path, steps_file: Path, loaded: Loaded) -> None:
    """Add the recipes of one folder."""
    found = len(loaded.tasks)
    errors = _read_errors(place, loaded)
    lengths = _read_lengths(place)
    features, videos = find_features(place), _videos(place)
    recipes: dict[str, list[dict[str, Any]]] = {}
    for recording in _recordings(steps_file):
        recipes.setdefault(str(recording["activity_name"]), []).append(recording)
    for recipe, recordings in recipes.items():
        names, graph = _read_graph(place, recipe, recordings, loaded)
        task_videos = []
        for recording in recordings:
            name = str(recording["recording_id"])
            timeline, left_out = _timeline(recording, names, lengths.get(name), steps_file, loaded)
            mistakes = errors.get(name, []) or [(description, "missing step") for description in left_out]
            task_videos.append(
                TaskVideo(
                    name,
                    videos.get(name),
                    features.get(name, {}),
                    RATE if name in features else None,
                    lengths.get(name),
                    timeline,
                    {key: str(recording[key]) for key in ("person_id", "environment") if key in recording},
                    tuple((names.get(step, step_name(step)), what) for step, what in mistakes),
                )
            )
        loaded.tasks.append(Task(recipe, task_videos, tuple(dict.fromkeys(names.values())), graph))
    _report_strays(loaded, loaded.tasks[found:], features, videos)


def step_name(description: str) -> str:
    """A step's name: the description without the verb that it is headed with.

    >>> step_name("Coat -Coat a 6-oz. ramekin cup"), step_name("melt-In a large mug, melt butter")
    ('Coat a 6-oz. ramekin cup', 'In a large mug, melt butter')
    """
    _verb, dash, rest = description.partition("-")
    return " ".join((rest if dash and rest.strip() else description).split())


def _recordings(path: Path) -> list[dict[str, Any]]:
    record = read_json(path)
    entries = list(record.values()) if isinstance(record, dict) else record
    for entry in entries if isinstance(entries, list) else [None]:
        if not isinstance(entry, dict) or not {"recording_id", "activity_name", "steps"} <= set(entry):
            fail(path, "a recording lacks recording_id, activity_name or steps", "Copy the file again")
    return list(entries)


def _read_graph(
    root: Path, recipe: str, recordings: list[dict[str, Any]], loaded: Loaded
) -> tuple[dict[str, str], tuple[tuple[str, str], ...] | None]:
    """Description -> step name in the order of the task graph, and its edges by name.

    Step numbers differ between the annotations and the graphs (and are swapped in one recording); the description is
    the same in both, so it is what identifies a step.
    """
    folder = first_of(root, "task_graphs", "annotations/task_graphs")
    path = None if folder is None else folder / f"{plain_name(recipe)}.json"
    names: dict[str, str] = {}
    graph = None
    if path is None or not path.is_file():
        loaded.missing.append(f"{root}/task_graphs/{plain_name(recipe)}.json: absent; the recipe has no true order.")
    else:
        record = read_json(path)
        try:
            nodes = {int(key): str(text) for key, text in record["steps"].items()}
            named = {key: step_name(text) for key, text in nodes.items() if text not in ("START", "END")}
            names = {nodes[key]: named[key] for key in sorted(named)}
            graph = tuple((named[a], named[b]) for a, b in record["edges"] if a in named and b in named)
        except (KeyError, TypeError, ValueError, AttributeError):
            fail(path, "it needs 'steps' {number: description} and 'edges' [[before, after]]", "Copy it again")
    for recording in recordings:
        for step in recording["steps"]:
            description = str(step["description"])
            if graph is not None and description not in names:
                loaded.problems.append(f"recording {recording['recording_id']}: {description!r} is not in {path}.")
            names.setdefault(description, step_name(description))
    return names, graph


def _timeline(
    recording: Mapping[str, Any], names: Mapping[str, str], length: float | None, path: Path, loaded: Loaded
) -> tuple[Timeline, list[str]]:
    segments, left_out = [], []
    for step in recording["steps"]:
        start, end, description = float(step["start_time"]), float(step["end_time"]), str(step["description"])
        if start < 0:
            left_out.append(description)
            continue
        try:
            segments.append(Segment(start, end, names[description]))
        except AnnotationError as error:
            loaded.problems.append(f"{path}: recording {recording['recording_id']}: {error}")
    steps = tuple(dict.fromkeys(names.values()))
    return Timeline(segments, length, steps, str(recording["recording_id"])), left_out


def _read_errors(root: Path, loaded: Loaded) -> dict[str, list[tuple[str, str]]]:
    """Recording -> (description, kind of mistake)."""
    path = first_of(root, "annotations/error_annotations.json", "annotations/annotation_json/error_annotations.json")
    if path is None:
        loaded.missing.append(
            f"{root}/annotations/error_annotations.json: absent. Copy it from {SOURCES['annotations']}."
        )
        return {}
    found: dict[str, list[tuple[str, str]]] = {}
    for recording in read_json(path):
        for step in recording["step_annotations"]:
            for error in step.get("errors", ()):
                found.setdefault(str(recording["recording_id"]), []).append(
                    (str(step["description"]), str(error["tag"]).lower())
                )
    return found


def _read_lengths(root: Path) -> dict[str, float]:
    path = root / "index.csv"
    if not path.is_file():
        return {}
    return {row["recording_id"]: float(row["seconds"]) for row in csv.DictReader(read_text(path).splitlines())}


def _videos(root: Path) -> dict[str, Path]:
    """Recording -> file; the published files are called `1_7_360p.mp4`."""
    return {name.removesuffix("_360p"): path for name, path in find_videos(root / "videos").items()}


def _report_strays(
    loaded: Loaded, tasks: list[Task], features: Mapping[str, Mapping[str, Path]], videos: Mapping[str, Path]
) -> None:
    known = {video.name for task in tasks for video in task}
    for name in sorted((set(features) | set(videos)) - known):
        path = videos.get(name) or next(iter(features[name].values()))
        loaded.problems.append(f"{path}: no recording of this name is annotated.")
    for name in sorted(known - set(features) - set(videos)):
        loaded.missing.append(f"videos/{name}_360p.mp4 or features/<backbone>/{name}.npy: neither is there.")


DATA_SET = DataSet(
    name="captaincook4d",
    title="CaptainCook4D",
    about="384 recordings of 24 recipes with a head-mounted camera, in ten kitchens; half with deliberate mistakes. "
    "Steps, error labels and the true task graphs.",
    citation=CITATION,
    sources=SOURCES,
    licence="Apache 2.0 by the authors' README, MIT by their LICENSE file",
    obtain="Clone the annotations repository; fetch the 360p videos with the authors' downloader, or their features.",
    tree=TREE,
    tasks=TASKS,
    rate="videos 30 fps; features one row a second",
    read=read,
    checksums=CHECKSUMS,
)
