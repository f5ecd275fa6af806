"""The toy kitchen as a data set: a folder that `stepcut.datasets.toy.make_kitchen` has filmed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stepcut.datasets.dataset import DataSet, Loaded, TaskInfo
from stepcut.datasets.plain import read_task
from stepcut.datasets.task import Task, TaskVideo
from stepcut.files.atomic import read_json
from stepcut.timeline import Timeline

TREE = """ROOT/
  videos/*.mp4
  annotations/*.csv                              EgoProceL CSV, exact to the frame
  graph.json                                     steps, and which comes before which
  kitchen.json                                   the settings that made it"""
NAME = "breakfast"


def read(root: str | Path) -> Loaded:
    """Read a kitchen; the vocabulary and the true order come from `graph.json`."""
    place = Path(root)
    loaded = Loaded()
    if not (place / "graph.json").is_file():
        loaded.missing.append(
            f"{place}/graph.json: absent. Film a kitchen there: "
            f"python -c 'from stepcut.datasets.toy import make_kitchen; make_kitchen({str(place)!r})'"
        )
        return loaded
    graph = read_json(place / "graph.json")
    steps = tuple(str(step) for step in graph["steps"])
    found = read_task(place, loaded)
    edges = tuple((str(before), str(after)) for before, after in graph["edges"])
    loaded.tasks.append(Task(NAME, [_with_steps(video, steps) for video in found], steps, edges))
    return loaded


def _with_steps(video: TaskVideo, steps: tuple[str, ...]) -> TaskVideo:
    given = video.timeline
    if given is None:
        return video
    return replace(video, timeline=Timeline(given.segments, given.duration, steps, given.video))


DATA_SET = DataSet(
    name="toy",
    title="Toy kitchen",
    about="First-person videos of a breakfast being made, drawn by stepcut itself, with exact ground truth; for demos "
    "and tests, offline.",
    citation="",
    sources={},
    licence="MIT, as stepcut",
    obtain="Film it: stepcut.datasets.toy.make_kitchen(folder, videos=8, seed=0).",
    tree=TREE,
    tasks={NAME: TaskInfo(steps=6)},
    rate="read from each file",
    read=read,
)
