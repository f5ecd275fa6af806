"""Rows and cells of the paper's tables: what a row does, and how to fill one of its cells.

A cell is one row, task, K and seed, and runs on its own. Trained embeddings are kept and shared.
"""

import hashlib
import inspect
import json
import math
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from stepcut.cli.common import read_settings
from stepcut.errors import OptionError, choose, unknown
from stepcut.evaluation.clock import CLOCK, NO_VIDEO, Pair, put_on_one_clock
from stepcut.evaluation.compare import baseline
from stepcut.evaluation.evaluate import graph_f1
from stepcut.evaluation.protocols import PROTOCOLS
from stepcut.evaluation.score import Score, score
from stepcut.files.atomic import read_json, whole_file, write_json
from stepcut.methods import METHODS
from stepcut.methods.arithmetic import as_vectors
from stepcut.methods.baselines import smooth_embedding
from stepcut.paper.cnc.method import EMBEDDERS, cut_settings
from stepcut.paper.cnc.settings import find_loss, group_settings, preset_settings
from stepcut.paper.experiments.material import Material
from stepcut.plugins import find, is_own
from stepcut.settings import build
from stepcut.timeline import Timeline, unnamed
from stepcut.version import __version__

SCORED = [name for name in PROTOCOLS if name != "named"]
"""Protocols that score every cell; discovered steps have no names, so `named` is excluded."""


# ------------------------------------------------------------------ rows


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


@dataclass(frozen=True)
class Row:
    """A row of a table: what embeds the frames, and what segments the embeddings."""

    name: str
    embedding: str
    """"none" (ignores the video), "raw" or "smooth" features, "method" (the segmenter is a whole
    method), or the loss of a trained embedder: a name or `package.module:function`."""
    segmenter: str
    """A method: a name or `package.module:Class`."""
    settings: tuple[tuple[str, Any], ...] = ()
    """Settings of this row alone, as on the command line."""

    @property
    def trained(self) -> bool:
        return self.embedding not in ("none", "raw", "smooth", "method")

    @property
    def loss_code(self) -> list[str]:
        """The source of a custom loss, which identifies what it computes."""
        return [_source(find_loss(self.embedding))] if is_own(self.embedding) else []

    @property
    def method_code(self) -> list[str]:
        """The source of a custom segmenter or method."""
        known = self.segmenter in METHODS
        return [] if known else [_source(find("method", self.segmenter, METHODS))]


def _source(part: Any) -> str:
    return Path(inspect.getfile(part)).read_text(encoding="utf-8")


def read_row(text: str, known: Iterable[str] = ()) -> Row:
    """Read a row, `[NAME=]WHAT[; KEY=VALUE ...]`; its name is NAME, or the whole text.

    WHAT is `loss + segmenter`, a method, or one of the rows "kmeans" and "smooth". A loss may be
    raw, smooth or package.module:function, a method package.module:Class.

    >>> read_row("wide=tcc + procut; cut.window=4").settings
    (('cut.window', 4),)
    """
    head, *more = (part.strip() for part in text.split(";"))
    called, _, what = (part.strip() for part in head.rpartition("="))
    name, settings = called or text, tuple(read_settings([each for each in more if each]).items())
    if what in NO_VIDEO:
        row = Row(name, "none", what, settings)
    elif what in ("kmeans", "smooth"):
        row = Row(name, "raw" if what == "kmeans" else what, "kmeans", settings)
    elif " + " in what:
        embedding, _, segmenter = what.partition(" + ")
        row = Row(name, embedding.strip(), segmenter.strip(), settings)
        if embedding not in ("raw", "smooth"):
            find_loss(row.embedding)
    else:
        row = Row(name, "method", what, settings)
    try:
        maker: Any = find("method", row.segmenter, METHODS, "row")
    except OptionError:
        if ":" in row.segmenter or row.embedding != "method":
            raise
        raise unknown("row", what, dict.fromkeys((*known, *METHODS))) from None
    if row.embedding in ("none", "method"):
        for key, _ in settings:
            choose("setting", key, dict.fromkeys(inspect.signature(maker).parameters))
    else:
        group_settings(dict(settings), cut_settings([row.segmenter]))
    return row


def choose_rows(experiment: Experiment, names: Sequence[str] | None) -> list[Row]:
    """Return the rows to fill: all of the table, or those in `names` and any further ones.

    The baselines that ignore the video are always included.
    """
    custom = [
        read_row(name, experiment.rows) for name in names or () if name not in experiment.rows
    ]
    shown = [row for row in experiment.rows if names is None or row in (*names, *NO_VIDEO)]
    rows = [*map(read_row, shown), *custom]
    for row in custom:
        if row.name in experiment.rows or [each.name for each in rows].count(row.name) > 1:
            raise OptionError(
                f"row {row.name!r}: the table already has a row {row.name!r}. Choose another name.",
                setting="rows",
                value=row.name,
            )
    return rows


def choose_protocol(name: str, scored: Iterable[str] = SCORED) -> str:
    """Return the protocol called `name`, one of `scored`."""
    return choose("protocol", name, {each: each for each in scored})


# ------------------------------------------------------------------ cells


@dataclass(frozen=True)
class Cell:
    """One figure of a table, to be computed."""

    task: str
    row: Row
    steps: int
    seed: int
    view: str = ""
    """The camera, or the data set in a table that compares data sets."""

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


def plan(
    rows: Sequence[Row], steps: Mapping[tuple[str, str], Sequence[int]], seeds: Sequence[int]
) -> list[Cell]:
    """List all cells of `rows` and `seeds`; `steps` has the numbers of steps by view and task."""
    return [
        Cell(task, row, number, seed, view)
        for (view, task), numbers in steps.items()
        for number in numbers
        for row in rows
        for seed in (seeds[:1] if row.segmenter in ("uniform", "one-cluster") else seeds)
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
    protocols: tuple[str, ...] = ()
    """Further protocols that score the cell."""

    @property
    def settings(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Settings of the embedder and the segmenter: those of the row, then all rows, the preset."""
        row = self.cell.row
        chosen: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        if row.embedding in ("none", "method"):
            return {}, dict(row.settings)
        own = group_settings(dict(row.settings), cut_settings([row.segmenter]))
        train, cut = {**self.train, **own[0]}, {**self.cut, **own[1]}
        if self.preset and row.trained:
            rate, steps = self.material.rate, self.cell.steps
            chosen = preset_settings(self.preset, row.embedding, train, rate, steps)
        return {**chosen[0], **train}, {**chosen[1], **cut}

    def file(self, kind: str, *made_of: Any) -> Path:
        """Cache file of this `kind`, named by `made_of`, the material and the version."""
        whole = json.dumps([__version__, self.material.fingerprint, *made_of], sort_keys=True)
        return self.folder / kind / hashlib.sha256(whole.encode()).hexdigest()[:20]


def run_cell(work: Work) -> dict[str, Any]:
    """Fill one cell, or read its intact file in `folder/cells`."""
    cell, row, material = work.cell, work.cell.row, work.material
    trained = [work.device] if row.trained else []
    parts = [row.embedding, row.segmenter, *work.settings, work.protocols]
    cached = work.file("cells", cell.record(), *parts, *trained, row.loss_code, row.method_code)
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
        if material.task.graph is not None and protocol == "strict":
            values["graph F1"] = graph_f1(result, set(material.task.graph))
        figures[protocol] = {
            name: None if math.isnan(value) else round(value, 4) for name, value in values.items()
        }
        f1 = (round(video.f1, 4) for video in result.per_video)
        videos[protocol] = dict(zip(pair.videos, f1, strict=True))
    record = {
        "cell": cell.record(),
        "figures": figures,
        "videos": videos,
        "notes": [f"{material.task.name}: {note}" for note in pair.notes],
        "seconds": round(time.perf_counter() - start, 3),
    }
    write_json(path, record)
    return record


def score_pair(pair: Pair, protocol: str, steps: int) -> Score:
    return score(pair.pred, pair.true, protocol, names=pair.steps, rate=CLOCK, clusters=steps)


def predict(work: Work) -> Pair:
    """Return the labels of each video for the row of the cell, beside the true ones."""
    cell, material = work.cell, work.material
    names = [unnamed(number) for number in range(cell.steps)]
    lengths = material.durations
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
    """Return the step of every row of every video."""
    row, material = work.cell.row, work.material
    rows = load_file(train_embedder(work)) if row.trained else material.read()
    if row.embedding in ("raw", "smooth"):
        vectors = [as_vectors(video) for video in rows.values()]
        if row.embedding == "smooth":
            vectors = smooth_embedding(vectors, material.rate)
        rows = dict(zip(rows, vectors, strict=True))
    shared = {"steps": work.cell.steps, "rate": material.rate, "seed": work.cell.seed}
    maker: Any = find("method", row.segmenter, METHODS)
    segmenter = build(maker, {**shared, **segmenter_settings(work)})
    return dict(zip(rows, segmenter.fit(list(rows.values())).labels_, strict=True))


def segmenter_settings(work: Work) -> dict[str, Any]:
    """Return every setting of the segmenter of a cell, chosen or default."""
    row, chosen = work.cell.row, work.settings[1]
    if row.embedding in ("none", "method"):
        return chosen
    maker: Any = find("method", row.segmenter, METHODS)
    takes = inspect.signature(maker).parameters
    settings = {
        name: each.default for name, each in takes.items() if name not in ("steps", "rate", "seed")
    }
    if not row.trained and "normalise" in takes:
        # Smooth rows contain time as a dimension, so they are not normalized again.
        settings["normalise"] = False
    return settings | {name: value for name, value in chosen.items() if name in takes}


def describe_segmenters(works: Iterable[Work]) -> str:
    """Describe the segmenters of cells with all their settings; "none" without any."""
    words: dict[str, None] = {}
    for work in works:
        row = work.cell.row
        if row.embedding == "none" or (row.embedding == "method" and not row.settings):
            continue
        plain = (row.trained and not row.settings) or row.name == row.segmenter
        title = row.segmenter if plain else f"{row.name}: {row.segmenter}"
        settings = ", ".join(
            f"{setting} {'auto' if value is None else value}"
            for setting, value in segmenter_settings(work).items()
        )
        words[f"{title} ({settings})"] = None
    return "; ".join(words) or "none"


def train_embedder(work: Work) -> Path:
    """Return the file of embeddings, trained once per task, view, loss, settings and seed."""
    cell, material = work.cell, work.material
    named = {"loss": cell.row.embedding, "rate": material.rate, "seed": cell.seed}
    settings = {**named, **work.settings[0]}
    path = work.file("embeddings", settings, cell.row.loss_code, work.device).with_suffix(
        ".safetensors"
    )
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
