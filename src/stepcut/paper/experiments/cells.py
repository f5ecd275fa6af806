"""Cells of the paper's tables: which cells a table has, and how to fill one.

A cell is one row, task, K and seed, and runs on its own. Trained embeddings are cached and shared.
"""

import hashlib
import inspect
import json
import math
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from stepcut.errors import OptionError, choose
from stepcut.evaluation.clock import CLOCK, put_on_one_clock
from stepcut.evaluation.compare import NO_VIDEO, baseline, graph_f1
from stepcut.evaluation.protocols import PROTOCOLS
from stepcut.evaluation.score import score
from stepcut.files.atomic import read_json, whole_file, write_json
from stepcut.methods import METHODS
from stepcut.methods.arithmetic import as_vectors
from stepcut.methods.baselines.kmeans import smooth_embedding
from stepcut.methods.inputs import build
from stepcut.paper.cnc.method import EMBEDDERS
from stepcut.paper.cnc.settings import preset_settings
from stepcut.paper.experiments.material import Material
from stepcut.plugins import find
from stepcut.timeline import Timeline, unnamed
from stepcut.version import __version__


@dataclass(frozen=True)
class Cell:
    """One figure of a table, to be computed."""

    task: str
    row: str
    steps: int
    seed: int
    view: str = ""
    """The camera, or the data set in a table that compares data sets."""
    place: str = ""
    """The class of a custom row `mine=package.module:Class`."""

    @property
    def parts(self) -> tuple[str, str]:
        """The embedding and the segmenter of the row.

        The embedding is "none" (ignores the video), "raw" features, "smooth" features, the loss of
        a trained embedder, or "method", if the segmenter is a whole method.
        """
        if self.row in NO_VIDEO:
            return "none", self.row
        if self.row in ("kmeans", "smooth"):
            return ("raw" if self.row == "kmeans" else "smooth"), "kmeans"
        embedding, _, segmenter = self.row.partition(" + ")
        return (embedding, segmenter) if segmenter else ("method", self.place or self.row)

    @property
    def embedding(self) -> tuple[str, str, str, int] | None:
        """Identifies the trained embedder that cells share; None without training."""
        return (self.task, self.view, self.parts[0], self.seed) if " + " in self.row else None

    @property
    def key(self) -> str:
        words = "-".join([self.task, self.view, self.row, str(self.steps), str(self.seed)])
        return "".join(c if c.isalnum() else "_" for c in words)[:80]


@dataclass(frozen=True)
class Experiment:
    """A table of the paper; `tables.toml` explains the fields."""

    name: str
    title: str
    rows: Sequence[str]
    figures: Sequence[str]
    protocol: str = "paper"
    also: Sequence[str] = ()
    steps: Sequence[int] = ()
    views: bool = False
    datasets: Sequence[str] = ()


EXPERIMENTS: dict[str, Experiment] = {
    name: Experiment(name, **about)
    for name, about in tomllib.loads(
        (Path(__file__).parent / "tables.toml").read_text(encoding="utf-8")
    ).items()
}


SCORED = [name for name in PROTOCOLS if name != "named"]
"""Protocols that score cells; discovered steps have no names, so `named` is excluded."""


def choose_protocol(name: str, scored: Iterable[str] = SCORED) -> str:
    """Return the protocol called `name`, one of `scored`."""
    return choose("protocol", name, {each: each for each in scored})


def choose_rows(experiment: Experiment, names: Sequence[str] | None) -> dict[str, str]:
    """Return the rows to fill, each with its class if it is custom: all, or those in `names`.

    The baselines that ignore the video are always included. A name outside the table may be a
    method: one of stepcut, of a plugin, `package.module:Class`, or `mine=package.module:Class`,
    which is called `mine`.
    """
    custom = {}
    for name in names or ():
        if name not in experiment.rows:
            called, _, place = name.rpartition("=")
            try:
                find("method", place, METHODS, "row")
            except OptionError:
                if ":" in name:
                    raise
                choose("row", name, dict.fromkeys(experiment.rows))
            if called in experiment.rows:
                raise OptionError(
                    f"row {name!r}: the table already has a row {called!r}. Choose another name.",
                    setting="rows",
                    value=name,
                )
            custom[called or place] = place if called else ""
    shown = [row for row in experiment.rows if names is None or row in (*names, *NO_VIDEO)]
    return {**dict.fromkeys(shown, ""), **custom}


def plan(
    rows: Mapping[str, str], steps: Mapping[tuple[str, str], Sequence[int]], seeds: Sequence[int]
) -> list[Cell]:
    """List all cells of `rows` and `seeds`; `steps` has the numbers of steps by view and task."""
    return [
        Cell(task, row, number, seed, view, rows[row])
        for (view, task), numbers in steps.items()
        for number in numbers
        for row in rows
        for seed in (seeds[:1] if row in ("uniform", "one-cluster") else seeds)
    ]


class Work(NamedTuple):
    """A cell and everything needed to fill it."""

    cell: Cell
    material: Material
    folder: Path
    """Stores finished cells and trained embeddings."""
    train: Mapping[str, Any]
    """Settings of the embedder."""
    cut: Mapping[str, Any]
    """Settings of the segmenters; each takes those it has."""
    device: str | None = None
    """Where embedders are trained: cpu or cuda; None lets each worker choose."""
    preset: str = ""
    """A preset of settings where none are set: published, released, or none."""

    @property
    def settings(self) -> tuple[dict[str, Any], dict[str, Any]]:
        chosen: tuple[dict[str, Any], ...] = ({}, {})
        if self.preset and " + " in self.cell.row:
            loss, rate = self.cell.parts[0], self.material.rate
            chosen = preset_settings(self.preset, loss, self.train, rate, self.cell.steps)
        return {**chosen[0], **self.train}, {**chosen[1], **self.cut}

    def file(self, kind: str, *made_of: Any) -> Path:
        """Cache file of this `kind`, named by `made_of`, the material and the version."""
        whole = json.dumps([__version__, self.material.fingerprint, *made_of], sort_keys=True)
        return self.folder / kind / hashlib.sha256(whole.encode()).hexdigest()[:20]


def run_cell(work: Work) -> dict[str, Any]:
    """Fill one cell, or read its intact file in `folder/cells`."""
    cell, material = work.cell, work.material
    trained = [work.device] if cell.embedding else []
    cached = work.file("cells", asdict(cell), *work.settings, *trained, *custom_code(cell))
    path = cached.with_name(f"{cell.key}-{cached.name}.json")
    record: dict[str, Any]
    with suppress(OSError, ValueError, TypeError):
        if set(record := read_json(path)) == {"cell", "figures", "notes", "seconds"}:
            return record
    start = time.perf_counter()
    names = [unnamed(number) for number in range(cell.steps)]
    if cell.row in NO_VIDEO:
        found = {
            name: Timeline(duration=seconds, steps=names)
            for name, seconds in material.durations.items()
        }
    else:
        found = {
            name: Timeline.from_labels(labels, material.rate, names, material.durations[name])
            for name, labels in predict(work).items()
        }
    pair = put_on_one_clock(found, material.truth, all_found=names)
    pred = (
        baseline(cell.row, pair.true, cell.steps, cell.seed) if cell.row in NO_VIDEO else pair.pred
    )
    figures: dict[str, dict[str, float | None]] = {}
    for protocol in SCORED:
        result = score(pred, pair.true, protocol, names=pair.steps, rate=CLOCK, clusters=cell.steps)
        values = result.figures
        if material.task.graph is not None and protocol == "strict":
            values["graph F1"] = graph_f1(result, set(material.task.graph))
        figures[protocol] = {
            name: None if math.isnan(value) else round(value, 4) for name, value in values.items()
        }
    record = {
        "cell": asdict(cell),
        "figures": figures,
        "notes": [f"{material.task.name}: {note}" for note in pair.notes],
        "seconds": round(time.perf_counter() - start, 3),
    }
    write_json(path, record)
    return record


def custom_code(cell: Cell) -> list[str]:
    """Source of a custom method, if the row is one: part of the cache key."""
    embedding, name = cell.parts
    if embedding != "method" or name in METHODS:
        return []
    maker: Any = find("method", name, METHODS)
    return [Path(inspect.getfile(maker)).read_text(encoding="utf-8")]


def predict(work: Work) -> dict[str, NDArray[np.int64]]:
    """Return the labels of each video for the row of the cell."""
    cell, material = work.cell, work.material
    embedding, name = cell.parts
    named: dict[str, Any] = {"steps": cell.steps, "rate": material.rate, "seed": cell.seed}
    if cell.embedding is not None:
        rows = load_file(train_embedder(work))
    else:
        rows = material.read()
        if embedding == "method":
            # Every method class takes the settings that all methods share.
            maker: Any = find("method", name, METHODS)
            return dict(zip(rows, maker(**named).fit(list(rows.values())).labels_, strict=True))
        videos = [as_vectors(video) for video in rows.values()]
        videos = smooth_embedding(videos, material.rate) if embedding == "smooth" else videos
        rows = dict(zip(rows, videos, strict=True))
    segmenter = build(METHODS[name], {**named, **cut_in_effect(work)})
    return dict(zip(rows, segmenter.fit(list(rows.values())).labels_, strict=True))


def cut_in_effect(work: Work) -> dict[str, Any]:
    """Return every setting of the segmenter of a cell, chosen or default."""
    takes = inspect.signature(METHODS[work.cell.parts[1]]).parameters
    settings = {
        name: each.default for name, each in takes.items() if name not in ("steps", "rate", "seed")
    }
    if work.cell.embedding is None:
        # Smooth rows contain time as a dimension, so they are not normalized again.
        settings["normalise"] = False
    return settings | {name: value for name, value in work.settings[1].items() if name in takes}


def describe_cuts(works: Iterable[Work]) -> str:
    """Describe the segmenters of cells with all their settings; "none" without any."""
    words: dict[str, None] = {}
    for work in works:
        embedding, name = work.cell.parts
        if embedding in ("none", "method"):
            continue
        title = name if work.cell.embedding else f"{work.cell.row} without encoder"
        settings = ", ".join(
            f"{setting} {'auto' if value is None else value}"
            for setting, value in cut_in_effect(work).items()
        )
        words[f"{title} ({settings})"] = None
    return "; ".join(words) or "none"


def train_embedder(work: Work) -> Path:
    """Return the file of embeddings, trained once per task, view, loss and seed."""
    cell, material = work.cell, work.material
    settings = {"loss": cell.parts[0], "rate": material.rate, "seed": cell.seed, **work.settings[0]}
    path = work.file("embeddings", settings, work.device).with_suffix(".safetensors")
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
