"""Many tasks at once: a procedure for every sub-folder, in parallel; one that fails does not stop the others."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from stepcut.errors import DataError, StepcutError, VideoError
from stepcut.features.read import feature_files, read_source
from stepcut.features.spec import FeatureSpec, as_spec
from stepcut.features.video.find import find_videos, natural
from stepcut.files.addresses import Address, AnyPath, as_path
from stepcut.parallel.contract import Engine
from stepcut.procedure.folder import check_output
from stepcut.procedure.learning import learn_features
from stepcut.progress import Hook, Stage, silent
from stepcut.tables import Cell, Table


@dataclass(frozen=True)
class Task:
    """One sub-folder, and where its procedure is to be kept."""

    name: str
    folder: Path | Address
    output: Path | Address
    spec: FeatureSpec
    device: str
    settings: Mapping[str, Any]
    known: Mapping[str, VideoError] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskResult:
    """What became of a task."""

    name: str
    output: str
    steps: int = 0
    videos: int = 0
    skipped: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    error: str = ""


def learn_tasks(
    root: AnyPath,
    output: AnyPath,
    engine: Engine,
    *,
    backbone: str | FeatureSpec = "efficientnet-lite0",
    fps: float | str | Fraction | None = None,
    weights: str | None = None,
    layer: str | None = None,
    family: str | None = None,
    device: str = "auto",
    cache: AnyPath | None = None,
    strict: bool = False,
    progress: Hook = silent,
    **settings: Any,
) -> list[TaskResult]:
    """Learn a procedure from each sub-folder of `root` and keep it as `output/NAME.proc`.

    First the workers see all videos of all tasks, long ones in pieces; then each learns a task. Settings are those of
    `learn`. Tasks that are finished already are found again and not learned anew.
    """
    spec = as_spec(backbone, fps=fps, weights=weights, layer=layer, family=family)
    settings = {**settings, "cache": None if cache is None else as_path(cache).absolute(), "strict": strict}
    target = as_path(output).absolute()
    tasks = [
        Task(folder.name, folder, target / f"{folder.name}.proc", spec, device, settings)
        for folder in find_tasks(as_path(root))
    ]
    known = _extract(tasks, spec, device, settings, engine, progress)
    ready = [replace(task, known=known) for task in tasks]
    with Stage(progress, "tasks", total=len(ready), unit="tasks") as stage:
        answers = engine.map(learn_task, ready, lambda number, _: stage.advance(item=ready[number].name), gpu=True)
    return [
        TaskResult(task.name, str(task.output), error=_words(answer)) if isinstance(answer, Exception) else answer
        for task, answer in zip(ready, answers, strict=True)
    ]


def find_tasks(root: Path | Address) -> Sequence[Path | Address]:
    """The sub-folders of `root`, in natural order."""
    folders: list[Path | Address]
    if isinstance(root, Address):
        folders = [path for path in root.iterdir() if path.is_dir()]
    elif root.is_dir():
        folders = [path.absolute() for path in root.iterdir() if path.is_dir()]
    else:
        raise DataError(f"{root}: no such folder. Give the folder that holds a sub-folder of videos for each task.")
    named = [path for path in folders if not path.name.startswith(".") and path.suffix != ".proc"]
    if not named:
        raise DataError(
            f"{root}: it holds no sub-folder. Give the folder that holds a sub-folder of videos for each task."
        )
    return sorted(named, key=natural)


def learn_task(task: Task) -> TaskResult:
    """Learn one task: what a worker does."""
    start = time.perf_counter()
    settings = dict(task.settings)
    rate, strict = settings.pop("rate", 1), settings.pop("strict")
    check_output(task.output)
    features, failures = read_source(
        task.folder, rate, task.spec, settings["cache"], strict, known=task.known, device=task.device
    )
    procedure = learn_features(features, failures, output=task.output, **settings)
    return TaskResult(
        task.name,
        str(task.output),
        len(procedure.steps),
        len(procedure.timelines),
        procedure.config["skipped"],
        time.perf_counter() - start,
    )


def summarise(learned: Sequence[TaskResult]) -> Table:
    """A row per task, and a note for everything that was left out or went wrong."""
    rows: list[list[Cell]] = []
    notes = []
    for task in learned:
        made = [None, None, None] if task.error else [task.steps, task.videos, task.seconds]
        rows.append([task.name, *made, "failed" if task.error else task.output])
        notes += [f"{task.name}: {task.error}"] if task.error else []
        notes += [f"{task.name}: left out {name}: {reason}" for name, reason in task.skipped.items()]
    failed = sum(bool(task.error) for task in learned)
    caption = f"{len(learned) - failed} of {len(learned)} tasks learned"
    return Table(["task", "steps", "videos", "seconds", "procedure"], rows, caption, notes)


def _extract(
    tasks: Sequence[Task],
    spec: FeatureSpec,
    device: str,
    settings: Mapping[str, Any],
    engine: Engine,
    progress: Hook,
) -> dict[str, VideoError]:
    """Compute the features of all videos of all tasks; gives what is wrong with some of them, by path."""
    videos: list[Path | Address] = []
    for task in tasks:
        try:
            if not feature_files(task.folder):
                videos += find_videos(task.folder)
        except VideoError:
            continue  # a task without videos says so itself when it is learned
    if not videos:
        return {}
    try:
        _, failures = read_source(
            videos, 1, spec, settings["cache"], settings["strict"], progress, engine, device=device
        )
    except VideoError:
        if settings["strict"]:
            raise
        return {}
    return {str(as_path(failure.path).absolute()): VideoError(str(failure.error)) for failure in failures}


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, StepcutError) else f"{type(error).__name__}: {error}"
