"""CaptainCook4D: 24 recipes in many kitchens, some with deliberate mistakes; with task graphs."""

from fractions import Fraction
from pathlib import Path

from stepcut.errors import AnnotationError
from stepcut.formats.common import read_json, refusals
from stepcut.paper.datasets.dataset import (
    DATASETS,
    Loaded,
    Shelf,
    Task,
    find_videos,
    first_of,
    plain_name,
)
from stepcut.timeline import Segment

ABOUT = DATASETS["captaincook4d"]
RATE = Fraction(1)  # published features: one row per second
STEPS, ERRORS = "complete_step_annotations.json", "error_annotations.json"
PLACES = ("annotations", "annotations/annotation_json")
Recording = tuple[str, dict[str, str], list[tuple[str, float, float]]]
"""Name, metadata and steps (description, start, end) of a recording."""


def read(place: Path, loaded: Loaded) -> None:
    """Add all recipes at `place`, or in its subfolders with annotations, to `loaded`.

    Omitted steps (start -1) are errors, not segments.
    """
    alone = first_of(place, *(f"{each}/{STEPS}" for each in PLACES)) is not None
    for root in [place] if alone else sorted(p for p in place.iterdir() if p.is_dir()):
        steps_file = first_of(root, *(f"{each}/{STEPS}" for each in PLACES))
        if steps_file is not None:
            _read_recipes(root, steps_file, part := Loaded())
            loaded.add(part)
    if not loaded.tasks:
        loaded.missing.append(
            f"{place / PLACES[0] / STEPS}: absent. Copy it from {ABOUT.sources['annotations']}."
        )
    elif absent := [
        recipe for recipe in ABOUT.tasks if recipe not in {task.name for task in loaded.tasks}
    ]:
        listed = ", ".join(absent)
        loaded.missing.append(
            f"{place}: {len(absent)} of {len(ABOUT.tasks)} recipes are missing: {listed}."
        )


def _read_recipes(place: Path, steps_file: Path, loaded: Loaded) -> None:
    errors = _read_errors(steps_file.with_name(ERRORS), loaded)
    # Published files are named `1_7_360p.mp4`.
    videos_here = {
        name.removesuffix("_360p"): path for name, path in find_videos(place / "videos").items()
    }
    shelf = Shelf(place, videos_here)
    recipes: dict[str, list[Recording]] = {}
    with refusals(steps_file, "annotations of CaptainCook4D"):
        record = read_json(steps_file)
        for each in record.values() if isinstance(record, dict) else record:
            about = {key: str(each[key]) for key in ("person_id", "environment") if key in each}
            steps = [
                (str(s["description"]), float(s["start_time"]), float(s["end_time"]))
                for s in each["steps"]
            ]
            recipes.setdefault(str(each["activity_name"]), []).append(
                (str(each["recording_id"]), about, steps)
            )
    for recipe, recordings in recipes.items():
        names, graph = _read_graph(place, recipe, recordings, loaded)
        vocabulary = tuple(dict.fromkeys(names.values()))
        videos = []
        for name, about, steps in recordings:
            segments, omitted = [], []
            for description, start, end in steps:
                if start < 0:
                    omitted.append((description, "missing step"))
                    continue
                try:
                    segments.append(Segment(start, end, names[description]))
                except AnnotationError as error:
                    loaded.problems.append(f"{steps_file}: recording {name}: {error}")
            wrong = tuple(
                (names.get(step, step_name(step)), what)
                for step, what in errors.get(name) or omitted
            )
            videos.append(
                shelf.video([name], segments, vocabulary, RATE, about=about, errors=wrong)
            )
        loaded.tasks.append(Task(recipe, videos, vocabulary, graph))
    shelf.match(loaded)


def step_name(description: str) -> str:
    """Return the description of a step without its leading verb.

    >>> step_name("Coat -Coat a 6-oz. ramekin cup"), step_name("melt-In a large mug, melt butter")
    ('Coat a 6-oz. ramekin cup', 'In a large mug, melt butter')
    """
    _verb, dash, rest = description.partition("-")
    return " ".join((rest if dash and rest.strip() else description).split())


def _read_graph(
    root: Path, recipe: str, recordings: list[Recording], loaded: Loaded
) -> tuple[dict[str, str], tuple[tuple[str, str], ...] | None]:
    """Return description -> step name in the order of the task graph, and its edges by name.

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
            named = {
                key: step_name(text) for key, text in nodes.items() if text not in ("START", "END")
            }
            names = {nodes[key]: named[key] for key in sorted(named)}
            graph = tuple(
                (named[a], named[b]) for a, b in record["edges"] if a in named and b in named
            )
    for name, _, steps in recordings:
        for description, _, _ in steps:
            if graph is not None and description not in names:
                loaded.problems.append(f"recording {name}: {description!r} is not in {path}.")
            names.setdefault(description, step_name(description))
    return names, graph


def _read_errors(path: Path, loaded: Loaded) -> dict[str, list[tuple[str, str]]]:
    """Recording -> (description, kind of mistake)."""
    errors: dict[str, list[tuple[str, str]]] = {}
    if not path.is_file():
        loaded.missing.append(f"{path}: absent. Copy it from {ABOUT.sources['annotations']}.")
        return errors
    with refusals(path, "mistakes of CaptainCook4D"):
        for recording in read_json(path):
            errors[str(recording["recording_id"])] = [
                (str(step["description"]), str(error["tag"]).lower())
                for step in recording["step_annotations"]
                for error in step.get("errors", ())
            ]
    return errors
