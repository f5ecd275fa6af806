"""One cell at work: features, embedding (kept on disk, shared between cells), cut, scores under every protocol."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stepcut.evaluation.clock import put_on_one_clock
from stepcut.evaluation.compare import baseline, graph_f1
from stepcut.evaluation.experiments.material import Material, Rows
from stepcut.evaluation.experiments.plan import NO_VIDEO, Cell
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


def run_cell(cell: Cell, material: Material, folder: Path, settings: Settings) -> dict[str, Any]:
    """Fill one `cell` from `material` and `settings`; its file in `folder/cells` is the answer of the next call."""
    path = folder / "cells" / f"{cell.key}-{settings.key(material.fingerprint)[:8]}.json"
    if path.exists():
        kept: dict[str, Any] = read_json(path)
        return kept
    start = time.perf_counter()
    found = predict(cell, material, folder, settings)
    pair = put_on_one_clock(found, material.truth, all_found=_names(cell))
    pred = baseline(cell.row, pair.true, cell.steps, cell.seed) if cell.row in NO_VIDEO else pair.pred
    figures: dict[str, dict[str, float | None]] = {}
    for protocol in PROTOCOLS:
        if protocol == "named":  # what is found without labels has no names
            continue
        result = score(pred, pair.true, protocol, names=pair.steps, rate=pair.clock, clusters=cell.steps)
        values = result.figures
        if material.graph is not None and protocol == "strict":
            values["graph F1"] = graph_f1(result, set(material.graph))
        figures[protocol] = {name: None if math.isnan(value) else round(value, 4) for name, value in values.items()}
    record = {
        "cell": asdict(cell),
        "figures": figures,
        "notes": [f"{material.task}: {note}" for note in pair.notes],
        "seconds": round(time.perf_counter() - start, 3),
    }
    write_json(path, record)
    return record


def predict(cell: Cell, material: Material, folder: Path, settings: Settings) -> dict[str, Timeline]:
    """The timelines that the row of a `cell` finds in `material`; without segments for rows that look at no video.

    `folder` and `settings` are those of `run_cell`.
    """
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
        embedded = embed(cell, material, folder, settings)
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


def embed(cell: Cell, material: Material, folder: Path, settings: Settings) -> dict[str, Rows]:
    """What the segmenter of a `cell` is given: features of `material`, raw or smooth, or of a trained embedder.

    `folder` and `settings` are those of `run_cell`.
    """
    embedding, _ = cell.parts
    if embedding == "raw":
        return {name: as_vectors(rows) for name, rows in material.read().items()}
    if embedding == "smooth":
        rows = material.read()
        return dict(zip(rows, smooth_embedding(list(rows.values()), material.rate), strict=True))
    return train_embedder(cell, material, folder, settings)


def train_embedder(cell: Cell, material: Material, folder: Path, settings: Settings) -> dict[str, Rows]:
    """Embeddings of `material` under the loss of a `cell`, trained once per task, view, loss and seed.

    They lie in `folder`, in a file named by a fingerprint of the `settings`.
    """
    from safetensors.numpy import load_file, save_file

    with needs("cnc"):
        from stepcut.methods.cnc.embedder import Embedder

    given = {"loss": cell.parts[0], "rate": material.rate, "seed": cell.seed, **settings.train}
    path = folder / "embeddings" / f"{Settings(given, {}).key(material.fingerprint)}.safetensors"
    if path.exists():
        kept: dict[str, Rows] = load_file(path)
        return kept
    rows = material.read()
    checkpoint = path.with_suffix(".checkpoint")
    embedder = build(Embedder, {"device": settings.device, **given}).fit(list(rows.values()), checkpoint=checkpoint)
    embeddings = dict(zip(rows, embedder.transform(list(rows.values())), strict=True))
    with whole_file(path) as temporary:
        save_file({name: np.ascontiguousarray(each) for name, each in embeddings.items()}, temporary)
    checkpoint.unlink(missing_ok=True)
    return embeddings


def embedding_key(cell: Cell) -> tuple[str, str, str, int] | None:
    """What a `cell` has in common with those that share its trained embedder."""
    return (cell.task, cell.view, cell.parts[0], cell.seed) if " + " in cell.row else None


def _names(cell: Cell) -> list[str]:
    return [f"step {number}" for number in range(cell.steps)]
