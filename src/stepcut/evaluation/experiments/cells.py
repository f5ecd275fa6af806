"""Cells: which of them make each table of the paper, and how one is filled: features, embedding, cut, scores.

A cell is one row, task, K and seed; it can be run on its own. Trained embeddings are kept on disk and shared.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load_file, save_file

from stepcut.errors import OptionError, choose
from stepcut.evaluation.clock import put_on_one_clock
from stepcut.evaluation.compare import baseline, graph_f1
from stepcut.evaluation.experiments.material import Material, Rows
from stepcut.evaluation.protocols import PROTOCOLS
from stepcut.evaluation.score import score
from stepcut.files.atomic import read_json, whole_file, write_json
from stepcut.methods import METHODS
from stepcut.methods.arithmetic import as_vectors
from stepcut.methods.baselines.smooth import smooth_embedding
from stepcut.methods.cnc.method import AS_PUBLISHED
from stepcut.methods.contract import build
from stepcut.methods.segmenters import SEGMENTERS
from stepcut.plugins import find, needs
from stepcut.timeline import Timeline
from stepcut.version import __version__

NO_VIDEO = ("random", "uniform", "one-cluster")


@dataclass(frozen=True)
class Cell:
    """One figure of a table before it is known."""

    task: str
    row: str
    steps: int
    seed: int
    view: str = ""

    @property
    def parts(self) -> tuple[str, str]:
        """What the row is made of: an embedding, and the segmenter that is given it.

        The embedding is "none" (it looks at no video), "raw" features, "smooth" ones, a loss that an embedder is
        trained with, or "method", where the second names a whole method.
        """
        if self.row in NO_VIDEO:
            return "none", self.row
        if self.row in ("kmeans", "smooth"):
            return ("raw" if self.row == "kmeans" else "smooth"), "kmeans"
        embedding, _, segmenter = self.row.partition(" + ")
        return (embedding, segmenter) if segmenter else ("method", self.row)

    @property
    def key(self) -> str:
        """A name for its file."""
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]
        words = "-".join([self.task, self.view, self.row, str(self.steps), str(self.seed)])
        return "".join(c if c.isalnum() else "_" for c in words)[:80] + "-" + digest


@dataclass(frozen=True)
class Experiment:
    """A table of the paper; `tables.toml` has them and says what each part means."""

    name: str
    title: str
    rows: Sequence[str]
    figures: Sequence[str]
    protocol: str = "paper"
    also: Sequence[str] = ()
    steps: Sequence[int] = ()
    views: bool = False


EXPERIMENTS: dict[str, Experiment] = {
    name: Experiment(name, **about)
    for name, about in tomllib.loads((Path(__file__).parent / "tables.toml").read_text(encoding="utf-8")).items()
}


def choose_rows(experiment: Experiment, names: Sequence[str] | None) -> list[str]:
    """The rows of an `experiment` to fill: all, or those of these `names`; the clock is always among them.

    A name that the table does not have may be a method: one of stepcut's, of an entry point, `package.module:Class`.
    """
    own = [name for name in names or () if name not in experiment.rows]
    for name in own:
        try:
            find("method", name, METHODS)
        except OptionError:
            if ":" in name:
                raise
            choose("row", name, dict.fromkeys(experiment.rows))
    return [*(row for row in experiment.rows if names is None or row in names or row == "uniform"), *own]


def plan(
    rows: Sequence[str], tasks: Sequence[tuple[str, str]], numbers: Mapping[str, Sequence[int]], seeds: Sequence[int]
) -> list[Cell]:
    """All cells of `rows` and `seeds`: `tasks` as (view, name), `numbers[name]` the numbers of steps for a task."""
    return [
        Cell(task, row, number, seed, view)
        for view, task in tasks
        for number in numbers[task]
        for row in rows
        for seed in (seeds[:1] if row in ("uniform", "one-cluster") else seeds)
    ]


@dataclass(frozen=True)
class Settings:
    """What was said beside the defaults: settings of the embedder and of the segmenters, and the machine."""

    train: dict[str, Any]
    cut: dict[str, Any]
    device: str | None = None
    """Where an embedder is trained; it makes no other figures, so it names no file."""

    @classmethod
    def of(cls, train: Mapping[str, Any], cut: Mapping[str, Any], as_published: bool, device: str) -> Settings:
        """The settings `train` and `cut` that were given; with `as_published`, those of the paper for the others.

        `device` is where an embedder is trained: auto, cpu or cuda.
        """
        below = AS_PUBLISHED if as_published else {"train": {}, "cut": {}}
        cool = {"temperature": 1 / train.get("dim", 128)} if as_published else {}
        place = None if device == "auto" else device
        return cls({**cool, **below["train"], **train}, {**below["cut"], **cut}, place)

    def key(self, *more: Any) -> str:
        """A name for what is made of these settings and of what else is given."""
        made_of = json.dumps([__version__, self.train, self.cut, *more], sort_keys=True)
        return hashlib.sha256(made_of.encode()).hexdigest()[:20]


class Work(NamedTuple):
    """A cell to be filled, and what it is filled from."""

    cell: Cell
    material: Material
    folder: Path
    """Where finished cells and trained embeddings are kept."""
    settings: Settings


def run_cell(work: Work) -> dict[str, Any]:
    """Do the `work` of one cell; its file in `folder/cells` is the answer of the next call."""
    cell, material, folder, settings = work
    path = folder / "cells" / f"{cell.key}-{settings.key(material.fingerprint)[:8]}.json"
    if path.exists():
        kept: dict[str, Any] = read_json(path)
        return kept
    start = time.perf_counter()
    pair = put_on_one_clock(predict(work), material.truth, all_found=_names(cell))
    pred = baseline(cell.row, pair.true, cell.steps, cell.seed) if cell.row in NO_VIDEO else pair.pred
    figures: dict[str, dict[str, float | None]] = {}
    for protocol in PROTOCOLS:
        if protocol == "named":  # what is found without labels has no names
            continue
        result = score(pred, pair.true, protocol, names=pair.steps, rate=pair.clock, clusters=cell.steps)
        values = result.figures
        if material.task.graph is not None and protocol == "strict":
            values["graph F1"] = graph_f1(result, set(material.task.graph))
        figures[protocol] = {name: None if math.isnan(value) else round(value, 4) for name, value in values.items()}
    record = {
        "cell": asdict(cell),
        "figures": figures,
        "notes": [f"{material.task.name}: {note}" for note in pair.notes],
        "seconds": round(time.perf_counter() - start, 3),
    }
    write_json(path, record)
    return record


def predict(work: Work) -> dict[str, Timeline]:
    """The timelines that the row of the cell of `work` finds; without segments for rows that look at no video."""
    cell, material, _, settings = work
    embedding, name = cell.parts
    if embedding == "none":
        return {name: Timeline(duration=seconds, steps=_names(cell)) for name, seconds in material.durations.items()}
    if embedding == "method":
        rows = material.read()
        # A method is more than the contract's verbs: its class takes the settings that all methods share.
        maker: Any = find("method", name, METHODS)
        fitted = maker(steps=cell.steps, rate=material.rate, seed=cell.seed).fit(list(rows.values()))
        labels = dict(zip(rows, fitted.labels_, strict=True))
    else:
        embedded = embed(work)
        maker = SEGMENTERS[name]
        known = {name: value for name, value in settings.cut.items() if name in inspect.signature(maker).parameters}
        # Smooth rows carry the time as one more dimension, so they are not brought to length 1 again.
        options: dict[str, Any] = {"normalise": False} if embedding in ("smooth", "raw") else {}
        segmenter = build(maker, {"steps": cell.steps, "rate": material.rate, "seed": cell.seed, **options, **known})
        labels = dict(zip(embedded, segmenter.fit_predict(list(embedded.values())), strict=True))
    names = _names(cell)
    return {
        name: Timeline.from_labels(numbers, material.rate, names, material.durations[name])
        for name, numbers in labels.items()
    }


def embed(work: Work) -> dict[str, Rows]:
    """What the segmenter of the cell of `work` is given: features, raw or smooth, or those of a trained embedder."""
    embedding, material = work.cell.parts[0], work.material
    if embedding == "raw":
        return {name: as_vectors(rows) for name, rows in material.read().items()}
    if embedding == "smooth":
        rows = material.read()
        return dict(zip(rows, smooth_embedding(list(rows.values()), material.rate), strict=True))
    embeddings: dict[str, Rows] = load_file(train_embedder(work))
    return embeddings


def train_embedder(work: Work) -> Path:
    """The file of embeddings under the loss of the cell of `work`, trained once per task, view, loss and seed."""
    cell, material, folder, settings = work
    given = {"loss": cell.parts[0], "rate": material.rate, "seed": cell.seed, **settings.train}
    path = folder / "embeddings" / f"{Settings(given, {}).key(material.fingerprint)}.safetensors"
    if path.exists():
        return path
    with needs("cnc"):
        from stepcut.methods.cnc.embedder import Embedder

    rows = material.read()
    checkpoint = path.with_suffix(".checkpoint")
    embedder = build(Embedder, {"device": settings.device, **given}).fit(list(rows.values()), checkpoint=checkpoint)
    embeddings = map(np.ascontiguousarray, embedder.transform(list(rows.values())))
    with whole_file(path) as temporary:
        save_file(dict(zip(rows, embeddings, strict=True)), temporary)
    checkpoint.unlink(missing_ok=True)
    return path


def embedding_key(cell: Cell) -> tuple[str, str, str, int] | None:
    """What a `cell` has in common with those that share its trained embedder."""
    return (cell.task, cell.view, cell.parts[0], cell.seed) if " + " in cell.row else None


def _names(cell: Cell) -> list[str]:
    return [f"step {number}" for number in range(cell.steps)]
