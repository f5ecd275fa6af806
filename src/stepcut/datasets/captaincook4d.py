"""CaptainCook4D: 24 recipes cooked in many kitchens, some with mistakes on purpose; with true task graphs."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from stepcut.datasets.dataset import DATASETS, Loaded, Shelf, Task, find_videos, first_of, plain_name
from stepcut.errors import AnnotationError
from stepcut.formats.common import fail, read_json
from stepcut.timeline import Segment

ABOUT = DATASETS["captaincook4d"]
RATE = Fraction(1)  # the published features: one row a second
STEPS, ERRORS = "complete_step_annotations.json", "error_annotations.json"
PLACES = ("annotations", "annotations/annotation_json")


def read(place: Path, loaded: Loaded) -> None:
    """Add all recipes at `place`, or in its folders, each with annotations of its own, to what was `loaded`.

    Steps that were left out (start -1) are errors, not segments.
    """
    alone = first_of(place, *(f"{each}/{STEPS}" for each in PLACES)) is not None
    for root in [place] if alone else sorted(p for p in place.iterdir() if p.is_dir()):
        steps_file = first_of(root, *(f"{each}/{STEPS}" for each in PLACES))
        if steps_file is not None:
            _read_recipes(root, steps_file, part := Loaded())
            loaded.add(part)
    if not loaded.tasks:
        loaded.missing.append(f"{place / PLACES[0] / STEPS}: absent. Copy it from {ABOUT.sources['annotations']}.")
    elif absent := [recipe for recipe in ABOUT.tasks if recipe not in {task.name for task in loaded.tasks}]:
        listed = ", ".join(absent)
        loaded.missing.append(f"{place}: {len(absent)} of {len(ABOUT.tasks)} recipes are not in it: {listed}.")


def _read_recipes(place: Path, steps_file: Path, loaded: Loaded) -> None:
    """Add the recipes of one folder, which has annotations of its own."""
    errors = _read_errors(steps_file.with_name(ERRORS), loaded)
    # The published files are called `1_7_360p.mp4`.
    films = {name.removesuffix("_360p"): path for name, path in find_videos(place / "videos").items()}
    shelf = Shelf(place, films)
    recipes: dict[str, list[dict[str, Any]]] = {}
    record = read_json(steps_file)
    for recording in record.values() if isinstance(record, dict) else record if isinstance(record, list) else [None]:
        if not isinstance(recording, dict) or not {"recording_id", "activity_name", "steps"} <= set(recording):
            fail(steps_file, "a recording lacks recording_id, activity_name or steps", "Copy the file again")
        recipes.setdefault(str(recording["activity_name"]), []).append(recording)
    for recipe, recordings in recipes.items():
        names, graph = _read_graph(place, recipe, recordings, loaded)
        steps = tuple(dict.fromkeys(names.values()))
        videos = []
        for recording in recordings:
            name = str(recording["recording_id"])
            segments, left_out = _segments(recording, names, steps_file, loaded)
            mistakes = errors.get(name, []) or [(description, "missing step") for description in left_out]
            wrong = tuple((names.get(step, step_name(step)), what) for step, what in mistakes)
            about = {str(key): str(recording[key]) for key in ("person_id", "environment") if key in recording}
            videos.append(shelf.video([name], segments, steps, RATE, about=about, errors=wrong))
        loaded.tasks.append(Task(recipe, videos, steps, graph))
    shelf.match(loaded)


def step_name(description: str) -> str:
    """A step's name: the description without the verb that it is headed with.

    >>> step_name("Coat -Coat a 6-oz. ramekin cup"), step_name("melt-In a large mug, melt butter")
    ('Coat a 6-oz. ramekin cup', 'In a large mug, melt butter')
    """
    _verb, dash, rest = description.partition("-")
    return " ".join((rest if dash and rest.strip() else description).split())


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


def _segments(
    recording: Mapping[str, Any], names: Mapping[str, str], path: Path, loaded: Loaded
) -> tuple[list[Segment], list[str]]:
    """What was done, and the descriptions of the steps that were left out."""
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
    return segments, left_out


def _read_errors(path: Path, loaded: Loaded) -> dict[str, list[tuple[str, str]]]:
    """Recording -> (description, kind of mistake)."""
    if not path.is_file():
        loaded.missing.append(f"{path}: absent. Copy it from {ABOUT.sources['annotations']}.")
        return {}
    found: dict[str, list[tuple[str, str]]] = {}
    for recording in read_json(path):
        for step in recording["step_annotations"]:
            for error in step.get("errors", ()):
                found.setdefault(str(recording["recording_id"]), []).append(
                    (str(step["description"]), str(error["tag"]).lower())
                )
    return found
