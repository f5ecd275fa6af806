"""run_experiment(): fill the cells of a table of the paper, in parallel; resumes an earlier run.

A cell is one row, task, K and seed, and runs on its own. Trained embeddings are kept and shared.
"""

import hashlib
import inspect
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from stepcut.cli.common import read_settings
from stepcut.errors import DataError, OptionError, choose, unknown, wrong
from stepcut.evaluation.clock import CLOCK, NO_VIDEO, Pair, put_on_one_clock
from stepcut.evaluation.compare import baseline
from stepcut.evaluation.evaluate import graph_f1
from stepcut.evaluation.protocols import find_protocol
from stepcut.evaluation.score import Score, score
from stepcut.features.backbones.runtime import choose_device
from stepcut.features.spec import FeatureSpec
from stepcut.files import read_json, whole_file, write_json
from stepcut.methods import METHODS
from stepcut.methods.arithmetic import as_vectors
from stepcut.methods.baselines import smooth_embedding
from stepcut.paper.cnc.method import EMBEDDERS, cut_settings
from stepcut.paper.cnc.settings import (
    HOME,
    PRESETS,
    Training,
    choose_preset,
    find_loss,
    group_settings,
    preset_settings,
    spelled,
)
from stepcut.paper.experiments.material import Material, Source
from stepcut.paper.experiments.results import EXPERIMENTS, FORMAT, SCORED, Experiment, Results
from stepcut.parallel.engine import Engine, count_cores, free_memory, open_engine
from stepcut.plugins import find, is_own
from stepcut.progress import Hook, Stage, silent
from stepcut.settings import SEEDS, Rate, build, check_number
from stepcut.timeline import Timeline, unnamed
from stepcut.version import __version__, versions

Settings = tuple[dict[str, Any], dict[str, Any]]  # Of the embedder and of the segmenter

# ---------- rows and cells


@dataclass(frozen=True)
class Row:
    """A row of a table: what embeds the frames, and what segments the embeddings."""

    name: str
    # "none" (ignores the video), "raw" or "smooth" features, "method" (the segmenter is a whole
    # method), or the loss of a trained embedder: a name or `package.module:function`
    embedding: str
    segmenter: str  # A method: a name or `package.module:Class`
    # Settings of this row alone, as on the command line
    settings: tuple[tuple[str, Any], ...] = ()

    @property
    def trained(self) -> bool:
        return self.embedding not in ("none", "raw", "smooth", "method")

    @property
    def loss_code(self) -> list[str]:
        # The source identifies what a custom loss computes
        return [_source(find_loss(self.embedding))] if is_own(self.embedding) else []

    @property
    def maker(self) -> Any:
        return find("method", self.segmenter, METHODS)


def _source(part: Any) -> str:
    return Path(inspect.getfile(part)).read_text(encoding="utf-8")


def read_row(text: str, known: Iterable[str] = ()) -> Row:
    """Read `[NAME=]WHAT[; KEY=VALUE ...]`; its name is NAME, or the whole text.

    WHAT is `loss + segmenter`, a method, or "kmeans" or "smooth". A loss may be raw, smooth or
    package.module:function, a method package.module:Class.
    """
    head, *more = (part.strip() for part in text.split(";"))
    called, _, what = (part.strip() for part in head.rpartition("="))
    embedding, plus, segmenter = (part.strip() for part in what.partition(" + "))
    if what in NO_VIDEO:
        embedding, segmenter = "none", what
    elif what in ("kmeans", "smooth"):
        embedding, segmenter = "raw" if what == "kmeans" else what, "kmeans"
    elif not plus:
        embedding, segmenter = "method", what
    elif embedding not in ("raw", "smooth"):
        find_loss(embedding)
    settings = tuple(read_settings([each for each in more if each]).items())
    try:
        maker: Any = find("method", segmenter, METHODS, "row")
    except OptionError:
        if ":" in segmenter or embedding != "method":
            raise
        raise unknown("row", what, dict.fromkeys((*known, *METHODS))) from None
    if embedding in ("none", "method"):
        for key, _ in settings:
            choose("setting", key, dict.fromkeys(inspect.signature(maker).parameters))
    else:
        group_settings(dict(settings), cut_settings([segmenter]))
    return Row(called or text, embedding, segmenter, settings)


def choose_rows(experiment: Experiment, names: Sequence[str] | None) -> list[Row]:
    """All of the table, or those in `names` and any further ones; always the baselines."""
    own = [read_row(name, experiment.rows) for name in names or () if name not in experiment.rows]
    shown = [row for row in experiment.rows if names is None or row in (*names, *NO_VIDEO)]
    rows = [*map(read_row, shown), *own]
    for row in own:
        if row.name in experiment.rows or [each.name for each in rows].count(row.name) > 1:
            taken = f"the table already has a row {row.name!r}. Choose another name."
            raise OptionError(f"row {row.name!r}: {taken}", setting="rows", value=row.name)
    return rows


@dataclass(frozen=True)
class Cell:
    """One figure of a table, to be computed."""

    task: str
    row: Row
    steps: int
    seed: int
    view: str = ""  # The camera, or the data set in a table that compares data sets

    @property
    def embedding(self) -> tuple[Any, ...] | None:
        """Identifies the trained embedder that cells share; None without training."""
        row = self.row
        settings = tuple(each for each in row.settings if not each[0].startswith("cut."))
        shared = (self.task, self.view, row.embedding, self.seed, settings)
        return shared if row.trained else None

    @property
    def key(self) -> str:
        words = "-".join([self.task, self.view, self.row.name, str(self.steps), str(self.seed)])
        return "".join(c if c.isalnum() else "_" for c in words)[:80]

    def record(self) -> dict[str, Any]:
        return {**vars(self), "row": self.row.name}


class Work(NamedTuple):
    """A cell and everything needed to fill it."""

    cell: Cell
    material: Material
    folder: Path  # Stores finished cells and trained embeddings
    train: Mapping[str, Any]
    cut: Mapping[str, Any]  # Settings of the segmenters; each takes those it has
    device: str | None = None  # Where embedders are trained; None lets each worker choose
    preset: str = ""  # A preset of settings where none are set: published, released, or none
    protocols: tuple[str, ...] = ()  # Further protocols that score the cell

    @property
    def settings(self) -> Settings:
        """Settings of the row, then of all rows, then of the preset."""
        row = self.cell.row
        if row.embedding in ("none", "method"):
            return {}, dict(row.settings)
        own = group_settings(dict(row.settings), cut_settings([row.segmenter]))
        train, cut = {**self.train, **own[0]}, {**self.cut, **own[1]}
        chosen: Settings = ({}, {})
        if self.preset and row.trained:
            rate, steps = self.material.rate, self.cell.steps
            chosen = preset_settings(self.preset, row.embedding, train, rate, steps)
        return {**chosen[0], **train}, {**chosen[1], **cut}

    def file(self, kind: str, *made_of: Any) -> Path:
        """A cache file, named by `kind` and `made_of`, the material and the version."""
        whole = json.dumps([__version__, self.material.fingerprint, *made_of], sort_keys=True)
        return self.folder / kind / hashlib.sha256(whole.encode()).hexdigest()[:20]


def run_cell(work: Work) -> dict[str, Any]:
    """Fill one cell, or read its intact file in `folder/cells`."""
    cell, row, graph = work.cell, work.cell.row, work.material.task.graph
    code = [*row.loss_code, *([] if row.segmenter in METHODS else [_source(row.maker)])]
    parts = [row.embedding, row.segmenter, *work.settings, work.protocols, code]
    cached = work.file("cells", cell.record(), *parts, *([work.device] if row.trained else []))
    path = cached.with_name(f"{cell.key}-{cached.name}.json")
    record: dict[str, Any]
    with suppress(OSError, ValueError, TypeError):
        if set(record := read_json(path)) == {"cell", "figures", "videos", "notes", "seconds"}:
            return record
    start = time.perf_counter()
    pair = predict(work)
    figures: dict[str, dict[str, float | None]] = {}
    videos: dict[str, dict[str, float]] = {}
    for protocol in (*SCORED, *work.protocols):
        result = score_pair(pair, protocol, cell.steps)
        values = result.figures
        if graph is not None and protocol == "strict":
            values["graph F1"] = graph_f1(result, set(graph))
        figures[protocol] = {
            name: None if math.isnan(value) else round(value, 4) for name, value in values.items()
        }
        f1 = (round(video.f1, 4) for video in result.per_video)
        videos[protocol] = dict(zip(pair.videos, f1, strict=True))
    record = {
        "cell": cell.record(),
        "figures": figures,
        "videos": videos,
        "notes": [f"{work.material.task.name}: {note}" for note in pair.notes],
        "seconds": round(time.perf_counter() - start, 3),
    }
    write_json(path, record)
    return record


def score_pair(pair: Pair, protocol: str, steps: int) -> Score:
    return score(pair.pred, pair.true, protocol, names=pair.steps, rate=CLOCK, clusters=steps)


def predict(work: Work) -> Pair:
    """The labels of each video for the row of the cell, beside the true ones."""
    cell, material, lengths = work.cell, work.material, work.material.durations
    names = [unnamed(number) for number in range(cell.steps)]
    if cell.row.embedding == "none":
        blank = {name: Timeline(duration=end, steps=names) for name, end in lengths.items()}
        pair = put_on_one_clock(blank, material.truth, all_found=names)
        pair.pred[:] = baseline(cell.row.segmenter, pair.true, cell.steps, cell.seed)
        return pair
    found = {
        name: Timeline.from_labels(labels, material.rate, names, lengths[name])
        for name, labels in segment(work).items()
    }
    return put_on_one_clock(found, material.truth, all_found=names)


def segment(work: Work) -> dict[str, NDArray[np.int64]]:
    row, material = work.cell.row, work.material
    rows = load_file(train_embedder(work)) if row.trained else material.read()
    if row.embedding in ("raw", "smooth"):
        vectors = [as_vectors(video) for video in rows.values()]
        if row.embedding == "smooth":
            vectors = smooth_embedding(vectors, material.rate)
        rows = dict(zip(rows, vectors, strict=True))
    shared = {"steps": work.cell.steps, "rate": material.rate, "seed": work.cell.seed}
    segmenter = build(row.maker, {**shared, **segmenter_settings(work)})
    return dict(zip(rows, segmenter.fit(list(rows.values())).labels_, strict=True))


def segmenter_settings(work: Work) -> dict[str, Any]:
    """Settings of the segmenter of a cell, chosen or default."""
    row, chosen = work.cell.row, work.settings[1]
    if row.embedding in ("none", "method"):
        return chosen
    takes = inspect.signature(row.maker).parameters.items()
    settings = {name: x.default for name, x in takes if name not in ("steps", "rate", "seed")}
    if not row.trained and "normalise" in settings:
        # Smooth rows contain time as a dimension, so they are not normalized again.
        settings["normalise"] = False
    return settings | {name: value for name, value in chosen.items() if name in settings}


def describe_segmenters(works: Iterable[Work]) -> str:
    """Describe the segmenters of cells with all their settings; "none" without any."""
    words: dict[str, None] = {}
    for work in works:
        row = work.cell.row
        if row.embedding == "none" or (row.embedding == "method" and not row.settings):
            continue
        plain = (row.trained and not row.settings) or row.name == row.segmenter
        title = row.segmenter if plain else f"{row.name}: {row.segmenter}"
        each = segmenter_settings(work).items()
        settings = ", ".join(f"{name} {'auto' if x is None else x}" for name, x in each)
        words[f"{title} ({settings})"] = None
    return "; ".join(words) or "none"


def train_embedder(work: Work) -> Path:
    """The file of embeddings, trained once per task, view, loss, settings and seed."""
    cell, material = work.cell, work.material
    named = {"loss": cell.row.embedding, "rate": material.rate, "seed": cell.seed}
    settings = {**named, **work.settings[0]}
    cached = work.file("embeddings", settings, cell.row.loss_code, work.device)
    path = cached.with_suffix(".safetensors")
    with suppress(OSError, SafetensorError), safe_open(path, "numpy"):  # intact
        return path
    rows, checkpoint = material.read(), path.with_suffix(".checkpoint")
    embedder = EMBEDDERS["cnc"].of(**{"device": work.device, **settings})
    embedder.fit(list(rows.values()), checkpoint=checkpoint)
    embeddings = map(np.ascontiguousarray, embedder.transform(list(rows.values())))
    with whole_file(path) as temporary:
        save_file(dict(zip(rows, embeddings, strict=True)), temporary)
    checkpoint.unlink(missing_ok=True)
    return path


# ---------- the whole table


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
    name, data
        A key of `EXPERIMENTS`; the folder of a data set (or several), NAME:DIR, or "toy".
    features, tasks
        The name of existing features; only these tasks.
    seeds, seed, steps
        The number of seeds, and the first one; K, or "true" for the annotated one of each task.
    rows
        Only these rows of the table, and further ones: `[NAME=]WHAT[; KEY=VALUE ...]`, where WHAT is
        `loss + segmenter` or a method. Each may be custom code: `package.module:function`,
        `package.module:Class`. The settings hold for this row alone.
    folder, progress
        Stores finished cells and trained embeddings (default: the cache), so that the same call
        resumes; hook for progress.
    jobs, engine, address
        Cells that run in parallel (default: as many as cores and memory allow), here ("local") or
        on "ray" (a cluster at `address` that shares `folder`).
    fps, spec, maps
        Rows per second of existing features that do not store it (1), or of extracted ones (2); how
        features are extracted; "keep" all maps, or "stream" those of one task at a time.
    train, cut, toy
        Settings of the embedder, of the segmenters (each takes those it has), of the toy kitchen.
    as_published, as_released
        Use the settings of the published text, or of the authors' code, where the defaults differ;
        `train` and `cut` override them.
    device, protocols
        Where the backbone and the embedder run: auto, cpu or cuda; further protocols that score the
        cells: entry points, or `package.module:NAME`.

    Returns
    -------
    Results
        Every cell with its settings; `.table()` makes the table.

    Raises
    ------
    OptionError, DataError
        A setting is not allowed; no task has what the rows need.

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
        why = "is not allowed; use a whole number of at least 1, or 'true'."
        raise wrong("steps", steps, why)
    if jobs is not None:
        check_number("jobs", jobs, 1, whole=True)
    preset = choose_preset(as_published, as_released)
    chosen = choose_rows(experiment, rows)
    more = tuple(dict.fromkeys(each for each in protocols if each not in SCORED))
    for each in more:
        find_protocol(each)
    train, cut, numbers = dict(train or {}), dict(cut or {}), range(seed, seed + seeds)
    device = str(train.pop("device", device))
    on_cluster = engine not in (None, "local")
    # Fails before any work. Each worker of a cluster may choose.
    named = device if on_cluster else choose_device(device)
    trains = None if named == "auto" else named
    # Locally, one process with all cores extracts features fastest.
    there = (engine, jobs) if on_cluster else (None, None)
    with open_engine(*there, address) as cluster:
        where: dict[str, Any] = {"device": device, "maps": maps, "engine": cluster}
        where |= {"views": experiment.views, "datasets": experiment.datasets}
        what = (data, features, tasks, folder, fps, toy, progress, spec)
        source = Source(*what, **where)
        if None in source.kinds.values():
            _need_no_video(chosen, data)
        materials: list[Material] = []
        records: list[dict[str, Any]] = []
        works: list[Work] = []
        for part in [[one] for one in source.found] if maps == "stream" else [source.found]:
            made = [source.material(view, task) for view, task in part]
            if not (ready := [material for material in made if material is not None]):
                continue
            work = [
                Work(cell, one, source.place, train, cut, trains, preset, more)
                for one in ready
                for cell in _plan(experiment, chosen, one, steps, numbers)
            ]
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
            lacks = f"no task of {data} has features {[*source.kinds.values()]} and annotated"
            fix = "timelines. Choose other features or tasks."
            raise DataError(f"{lacks} {fix}", setting="data", value=data)
    described = " and ".join(dict.fromkeys(filter(None, (each.described for each in materials))))
    encoded = any(row.trained for row in chosen)
    notes = [f"As {preset}, except for: {'; '.join(PRESETS[preset])}."] if preset else []
    notes += [note for material in materials for note in material.notes]
    return Results(
        {
            "format": FORMAT,
            "experiment": name,
            "data": source.name,
            "features": described or None,
            "rows": [row.name for row in chosen],
            "steps": steps,
            "seeds": list(numbers),
            "encoder": describe_encoder(described, train) if encoded else "none",
            "device": _device_name(trains) if encoded else "CPU",
            "train": train,
            "cut": cut,
            "segmenters": describe_segmenters(works),
            "preset": preset,
            "versions": versions(),
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "tasks": [material.record() for material in materials],
            "cells": records,
            "notes": [*notes, *dict.fromkeys(note for one in records for note in one["notes"])],
        }
    )


def _plan(
    experiment: Experiment, rows: Sequence[Row], of: Material, steps: int | str, seeds: range
) -> list[Cell]:
    """The cells of a task; rows without randomness have one seed."""
    return [
        Cell(of.task.name, row, number, seed, of.view)
        for number in experiment.steps or (of.steps if steps == "true" else int(steps),)
        for row in rows
        for seed in (seeds[:1] if row.segmenter in ("uniform", "one-cluster") else seeds)
    ]


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
    words = [f"{name} {chosen.pop(name)}" for name in ("iterations", "frames", "hidden")]
    words += [f"{spelled(name)}={value}" for name, value in chosen.items() if name in HOME]
    return f"{'map encoder' if on_maps else 'vector encoder'} ({', '.join(words)})"


def _device_name(device: str | None) -> str:
    if device is None or device == "cpu":
        return "CPU" if device else "of each worker"
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else device


def _jobs(jobs: int | None, materials: Sequence[Material]) -> int:
    """Cells in parallel: at most the cores, and six copies of the rows each in memory."""
    if jobs is not None:
        return jobs
    sizes = [sum(path.stat().st_size for path in one.features.values()) for one in materials]
    return max(1, min(count_cores(), int(free_memory() / (6 * max(sizes) + 2**29))))


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
