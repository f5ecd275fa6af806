"""One cell at work: features, embedding (kept on disk, shared between cells), cut, scores under every protocol."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from stepcut.evaluation.clock import put_on_one_clock
from stepcut.evaluation.evaluate import FIGURES, baseline, graph_f1, summary
from stepcut.evaluation.experiments.material import Material, Rows
from stepcut.evaluation.experiments.plan import Cell
from stepcut.evaluation.protocols import PROTOCOLS
from stepcut.evaluation.score import score
from stepcut.files.atomic import read_json, whole_file, write_json
from stepcut.plugins import needs
from stepcut.timeline import Timeline
from stepcut.version import __version__


def run_cell(cell: Cell, material: Material, folder: Path, train: Mapping[str, Any]) -> dict[str, Any]:
    """Fill one cell; its file in `folder/cells` is the answer of the next call."""
    made_of = hashlib.sha256(json.dumps([__version__, material.fingerprint, dict(train)]).encode()).hexdigest()[:8]
    path = folder / "cells" / f"{cell.key}-{made_of}.json"
    if path.exists():
        kept: dict[str, Any] = read_json(path)
        return kept
    start = time.perf_counter()
    found = predict(cell, material, folder, train)
    pair = put_on_one_clock(found, material.truth, all_found=_names(cell))
    pred = baseline(cell.segmenter, pair.true, cell.steps, cell.seed) if cell.embedding == "none" else pair.pred
    figures: dict[str, dict[str, float | None]] = {}
    for protocol in PROTOCOLS:
        if protocol == "named":  # what is found without labels has no names
            continue
        result = score(pred, pair.true, protocol, names=pair.steps, rate=pair.clock, clusters=cell.steps)
        values = dict(zip(FIGURES, summary(result), strict=True))
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


def predict(cell: Cell, material: Material, folder: Path, train: Mapping[str, Any]) -> dict[str, Timeline]:
    """The timelines that a cell's row finds; without segments for rows that look at no video."""
    if cell.embedding == "none":
        return {name: Timeline(duration=seconds, steps=_names(cell)) for name, seconds in material.durations.items()}
    if cell.embedding == "method":
        from stepcut.methods import METHODS

        rows = material.read()
        # A method is more than the contract's verbs: its class takes the settings that all methods share.
        maker: Any = METHODS[cell.segmenter]
        fitted = maker(steps=cell.steps, rate=material.rate, seed=cell.seed).fit(list(rows.values()))
        labels = dict(zip(rows, fitted.labels_, strict=True))
    else:
        from stepcut.methods.segmenters import SEGMENTERS

        embedded = embed(cell, material, folder, train)
        # Smooth rows carry the time as one more dimension, so they are not brought to length 1 again.
        options: dict[str, Any] = {"normalise": False} if cell.embedding in ("smooth", "raw") else {}
        segmenter = SEGMENTERS[cell.segmenter](steps=cell.steps, rate=material.rate, seed=cell.seed, **options)
        labels = dict(zip(embedded, segmenter.fit_predict(list(embedded.values())), strict=True))
    names = _names(cell)
    return {
        name: Timeline.from_labels(numbers, material.rate, names, material.durations[name])
        for name, numbers in labels.items()
    }


def embed(cell: Cell, material: Material, folder: Path, train: Mapping[str, Any]) -> dict[str, Rows]:
    """The rows that the segmenter is given: raw features, smooth ones, or those of a trained embedder."""
    from stepcut.methods.arithmetic import as_vectors
    from stepcut.methods.baselines.smooth import smooth_embedding

    if cell.embedding == "raw":
        return {name: as_vectors(rows) for name, rows in material.read().items()}
    if cell.embedding == "smooth":
        rows = material.read()
        return dict(zip(rows, smooth_embedding(list(rows.values()), material.rate), strict=True))
    return train_embedder(cell, material, folder, train)


def train_embedder(cell: Cell, material: Material, folder: Path, train: Mapping[str, Any]) -> dict[str, Rows]:
    """Embeddings under a loss, trained once per task, view, loss and seed; the file's name is a fingerprint."""
    from safetensors.numpy import load_file, save_file

    with needs("cnc"):
        from stepcut.methods.cnc.embedder import Embedder

    settings = {"loss": cell.embedding, "rate": material.rate, "seed": cell.seed, **train}
    made_of = json.dumps([__version__, material.fingerprint, settings], sort_keys=True).encode()
    path = folder / "embeddings" / f"{hashlib.sha256(made_of).hexdigest()[:20]}.safetensors"
    if path.exists():
        kept: dict[str, Rows] = load_file(path)
        return kept
    rows = material.read()
    checkpoint = path.with_suffix(".checkpoint")
    embedder = Embedder(**settings).fit(list(rows.values()), checkpoint=checkpoint)
    embeddings = dict(zip(rows, embedder.transform(list(rows.values())), strict=True))
    with whole_file(path) as temporary:
        save_file({name: np.ascontiguousarray(each) for name, each in embeddings.items()}, temporary)
    checkpoint.unlink(missing_ok=True)
    return embeddings


def embedding_key(cell: Cell) -> tuple[str, str, str, int] | None:
    """What cells that share a trained embedder have in common."""
    if cell.embedding in ("none", "raw", "smooth", "method"):
        return None
    return cell.task, cell.view, cell.embedding, cell.seed


def _names(cell: Cell) -> list[str]:
    return [f"step {number}" for number in range(cell.steps)]
