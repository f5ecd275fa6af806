"""run_experiment(): fill all cells of a table in parallel; resumes an earlier run."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from stepcut.errors import DataError, OptionError, choose
from stepcut.evaluation.clock import NO_VIDEO
from stepcut.evaluation.protocols import find_protocol
from stepcut.features.backbones.runtime import choose_device
from stepcut.features.spec import FeatureSpec
from stepcut.paper.cnc.settings import HOME, PRESETS, Training, choose_preset, spelled
from stepcut.paper.experiments.cells import (
    EXPERIMENTS,
    SCORED,
    Row,
    Work,
    choose_rows,
    describe_segmenters,
    plan,
    run_cell,
    train_embedder,
)
from stepcut.paper.experiments.material import Material, Source
from stepcut.paper.experiments.results import FORMAT, Results
from stepcut.parallel.engine import Engine, count_cores, free_memory, open_engine
from stepcut.progress import Hook, Stage, silent
from stepcut.rate import Rate
from stepcut.settings import SEEDS, check_number
from stepcut.version import versions


def run_experiment(
    name: str,
    data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    features: str | None = None,
    tasks: Sequence[str] | None = None,
    seeds: int = 3,
    seed: int = 0,
    steps: int | str = 7,
    rows: Sequence[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    fps: Rate | None = None,
    train: Mapping[str, Any] | None = None,
    toy: Mapping[str, Any] | None = None,
    progress: Hook = silent,
    engine: str | Engine | None = None,
    address: str | None = None,
    spec: FeatureSpec | None = None,
    cut: Mapping[str, Any] | None = None,
    as_published: bool = False,
    as_released: bool = False,
    device: str = "auto",
    maps: str = "keep",
    protocols: Sequence[str] = (),
) -> Results:
    """Make a table of the paper on any data.

    Parameters
    ----------
    name
        The table: a key of `EXPERIMENTS`.
    data
        The folder of a data set (or several), NAME:DIR, or "toy".
    features, tasks
        The name of existing features; only these tasks.
    seeds, seed
        The number of seeds, and the first one.
    steps
        K, or "true" for the annotated number of steps of each task.
    rows
        Only these rows of the table, and further ones: `[NAME=]WHAT[; KEY=VALUE ...]`, where WHAT is
        `loss + segmenter` or a method. Each may be custom code: `package.module:function`,
        `package.module:Class`. The settings hold for this row alone.
    folder
        Stores finished cells and trained embeddings (default: the cache); the same call resumes.
    jobs
        Cells that run in parallel (default: as many as cores and memory allow).
    fps
        Rows per second of existing features that do not store it (1), or of extracted ones (2).
    train, cut
        Settings of the embedder and of the segmenters; each segmenter takes those it has.
    toy
        Settings of the toy kitchen.
    progress
        Hook for progress.
    engine, address
        Where the work runs: "local", or "ray" (a cluster at `address` that shares `folder`).
    spec
        How features are extracted: backbone, weights, layer, family, rate.
    as_published, as_released
        Use the settings of the published text, or of the authors' code, where the defaults differ;
        `train` and `cut` override them.
    device
        Where the backbone and the embedder run: auto, cpu or cuda.
    maps
        For the paper's network: "keep" all maps, or "stream" those of one task at a time.
    protocols
        Further protocols that score the cells: entry points, or `package.module:NAME`.

    Returns
    -------
    Results
        Every cell with its settings; `.table()` makes the table.

    Raises
    ------
    OptionError
        A setting is not allowed.
    DataError
        No task has what the rows need.

    Examples
    --------
    >>> from stepcut.formats import write_folder
    >>> files = write_folder("kitchen/sandwich", dict.fromkeys(videos, labels), "csv")
    >>> from pathlib import Path
    >>> Path("kitchen/sandwich/features/toy").mkdir(parents=True)
    >>> for name, rows in videos.items():
    ...     np.save(f"kitchen/sandwich/features/toy/{name}.npy", rows)
    >>> chosen = {"rows": ["uniform"], "steps": 3, "seeds": 1, "fps": 1, "jobs": 1}
    >>> results = run_experiment("main", "kitchen", folder="cells", **chosen)
    >>> results.mean("uniform").mean
    100.0
    >>> "uniform" in results.table().column("row")
    True
    >>> results.plot("main.svg")
    >>> results.save("results.json")
    >>> type(results).load("results.json")
    <Results main on folder: 3 cells>
    """
    experiment = choose("experiment", name, EXPERIMENTS)
    check_number("seeds", seeds, 1, 10_000, whole=True)
    check_number("seed", seed, 0, SEEDS - seeds, whole=True)
    if steps != "true" and (not isinstance(steps, int) or steps < 1):
        raise OptionError(
            f"steps={steps!r} is not allowed; use a whole number of at least 1, or 'true'.",
            setting="steps",
            value=steps,
        )
    if jobs is not None:
        check_number("jobs", jobs, 1, whole=True)
    preset = choose_preset(as_published, as_released)
    chosen = choose_rows(experiment, rows)
    more = tuple(dict.fromkeys(each for each in protocols if each not in SCORED))
    for each in more:
        find_protocol(each)
    train, cut = dict(train or {}), dict(cut or {})
    device = str(train.pop("device", device))
    on_cluster = engine not in (None, "local")
    # Fails before any work. Each worker of a cluster may choose.
    trains: str | None = device if on_cluster else choose_device(device)
    if trains == "auto":
        trains = None
    # Locally, one process with all cores extracts features fastest.
    there = (engine, jobs) if on_cluster else (None, None)
    with open_engine(*there, address) as cluster:
        source = Source(
            data,
            features,
            tasks,
            folder,
            fps,
            toy,
            progress,
            spec,
            device,
            maps,
            experiment.views,
            experiment.datasets,
            cluster,
        )
        if None in source.kinds.values():
            _need_no_video(chosen, data)
        materials: list[Material] = []
        records: list[dict[str, Any]] = []
        works: list[Work] = []
        for part in [[one] for one in source.found] if maps == "stream" else [source.found]:
            made = [source.material(view, task) for view, task in part]
            ready = [material for material in made if material is not None]
            if not ready:
                continue
            by_task = {(material.view, material.task.name): material for material in ready}
            numbers = {
                of: experiment.steps or (m.steps if steps == "true" else int(steps),)
                for of, m in by_task.items()
            }
            cells = plan(chosen, numbers, range(seed, seed + seeds))
            shared = (source.place, train, cut, trains, preset, more)
            work = [Work(cell, by_task[cell.view, cell.task], *shared) for cell in cells]
            # Train each embedding once, before the cells that share it.
            first = {one.cell.embedding: one for one in work if one.cell.embedding is not None}
            size = None if on_cluster else _jobs(jobs, ready)
            with open_engine(cluster, None if size == 1 else size) as workers:
                _each(train_embedder, list(first.values()), workers, "embeddings", progress)
                records += _each(run_cell, work, workers, "cells", progress)
            materials += ready
            works += work
            if maps == "stream":
                shutil.rmtree(source.place / "maps", ignore_errors=True)
        if not materials:
            raise DataError(
                f"no task of {data} has features {[*source.kinds.values()]} and annotated timelines. "
                "Choose other features or tasks.",
                setting="data",
                value=data,
            )
    described = " and ".join(dict.fromkeys(filter(None, (each.described for each in materials))))
    encoded = any(row.trained for row in chosen)
    notes = [f"As {preset}, except for: {'; '.join(PRESETS[preset])}."] if preset else []
    return Results(
        {
            "format": FORMAT,
            "experiment": name,
            "data": source.name,
            "features": described or None,
            "rows": [row.name for row in chosen],
            "steps": steps,
            "seeds": list(range(seed, seed + seeds)),
            "encoder": describe_encoder(described, train) if encoded else "none",
            "device": _device_name(trains) if encoded else "CPU",
            "train": train,
            "cut": cut,
            "segmenters": describe_segmenters(works),
            "preset": preset,
            "versions": versions(),
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "tasks": [
                {
                    "task": material.task.name,
                    "view": material.view,
                    "videos": len(material.durations),
                    "steps": material.steps,
                    "hours": round(sum(material.durations.values()) / 3600, 3),
                    "fingerprint": material.fingerprint,
                }
                for material in materials
            ],
            "cells": records,
            "notes": [
                *notes,
                *(note for material in materials for note in material.notes),
                *dict.fromkeys(note for record in records for note in record["notes"]),
            ],
        }
    )


def _need_no_video(rows: Sequence[Row], data: Any) -> None:
    """Refuse rows that need features where there are neither features nor videos."""
    if seeing := [row.name for row in rows if row.embedding != "none"]:
        raise DataError(
            f"{data}: there are neither features nor videos, which {len(seeing)} rows need "
            f"({', '.join(seeing[:3])} ...). Add features/<name>.npy or videos, or ask for the "
            f"other rows: --rows {' '.join(NO_VIDEO)}",
            setting="rows",
            value=seeing,
            allowed=NO_VIDEO,
        )


def describe_encoder(features: str, train: Mapping[str, Any]) -> str:
    """Describe the encoder with its iterations, frames and hidden width."""
    on_maps = " maps of " in features
    chosen = {
        "iterations": "at most 10,000" if on_maps else "ten passes over the rows, at most 1,000",
        "frames": Training.frames,
        "hidden": 256 if on_maps else 128,
        **{name: value for name, value in train.items() if value is not None},
    }
    named = {key: chosen.pop(key) for key in ("iterations", "frames", "hidden")}
    words = [f"{name} {value}" for name, value in named.items()]
    words += [f"{spelled(name)}={value}" for name, value in chosen.items() if name in HOME]
    return f"{'map encoder' if on_maps else 'vector encoder'} ({', '.join(words)})"


def _device_name(device: str | None) -> str:
    if device is None:
        return "of each worker"
    if device == "cpu":
        return "CPU"
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else device


def _jobs(jobs: int | None, materials: Sequence[Material]) -> int:
    """Cells in parallel: at most the cores, and six copies of the rows each in memory."""
    if jobs is not None:
        return jobs
    largest = max(
        sum(path.stat().st_size for path in material.features.values()) for material in materials
    )
    return max(1, min(count_cores(), int(free_memory() / (6 * largest + 2**29))))


def _each(
    do: Callable[[Work], Any],
    todo: Sequence[Work],
    engine: Engine | None,
    what: str,
    progress: Hook,
) -> list[Any]:
    """Do all work, here or by the workers of the engine; answers keep their order."""
    answers: list[Any] = []
    with Stage(progress, what, total=len(todo), unit="cells") as stage:

        def done(number: int, answer: Any) -> None:
            if isinstance(answer, Exception):
                raise answer
            stage.advance(item=todo[number].cell.key)

        if engine is not None:
            return engine.map(do, todo, done, gpu=True)
        for number, work in enumerate(todo):
            answers.append(do(work))
            done(number, answers[-1])
    return answers
