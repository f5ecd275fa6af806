"""The graph from found sequences of toy kitchens, where the true graph is known and the order is partly free."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np

from stepcut.datasets.toy import EDGES, STEPS, toy_features
from stepcut.evaluation import score
from stepcut.methods import METHODS
from stepcut.order import graph_of_labels, sequence
from stepcut.tables import Cell, Table
from use_figures import count_edges, f1

NOISES = ({"noise": 0.5, "drift": 0.5, "offset": 2.0}, {"noise": 1.5, "drift": 1.0, "offset": 3.0},
          {"noise": 3.0, "drift": 1.5, "offset": 3.0})  # fmt: skip
FIRST = 300
"""The first seed; when a step counts as done in earnest was chosen on seeds 200 to 211."""


class Trial(NamedTuple):
    """A kitchen: how noisy its features are, its seed, and the method that cuts it."""

    noise: int
    seed: int
    method: str


def find(trial: Trial) -> list[float]:
    """Strict F1 of the cut, then edge F1 of the graph: ours, first in most, first in 85 % and first in all."""
    rows, timelines = toy_features(videos=16, seed=trial.seed, duration=200.0, **NOISES[trial.noise])
    truth = [t.labels(np.arange(len(x))) for t, x in zip(timelines, rows, strict=True)]
    model = METHODS[trial.method](steps=len(STEPS), rate=1.0, seed=0).fit(list(rows))
    result = score(model.labels_, [labels + 1 for labels in truth], "strict")
    mapped = [np.where(result.mapped(i) > 0, result.mapped(i) - 1, -1) for i in range(len(rows))]
    true = {(STEPS.index(a), STEPS.index(b)) for a, b in EDGES}
    walks = [sequence(labels) for labels in mapped]
    counted = [f1(count_edges(walks, len(STEPS), share), true) for share in (0.5, 0.85, 1.0)]
    ours = graph_of_labels({str(i): labels for i, labels in enumerate(mapped)}, 1.0).edges
    return [result.f1, f1(ours, true), *counted]


def found_table(method: str, seeds: int, jobs: int) -> Table:
    """Edge F1 from found sequences beside counting, at three levels of noise."""
    trials = [Trial(noise, seed, method) for noise in range(len(NOISES)) for seed in range(FIRST, FIRST + seeds)]
    os.environ.update(OMP_NUM_THREADS="1", NUMBA_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    with ProcessPoolExecutor(max(jobs, 1), mp_context=get_context("spawn")) as pool:
        results: Sequence[list[float]] = list(pool.map(find, trials))
    rows: list[list[Cell]] = []
    for place, noise in enumerate(NOISES):
        mine = [row for trial, row in zip(trials, results, strict=True) if trial.noise == place]
        rows.append([f"noise {noise['noise']:g}", *np.mean(mine, axis=0).tolist()])
    columns = ["toy kitchen", "cut", "ours", "first in most", "first in 85 %", "first in all"]
    note = "cut: strict F1; the others: edge F1 of the graph from found sequences, 16 videos a kitchen."
    return Table(columns, rows, f"The graph from found sequences, method {method}, {seeds} seeds, percent", [note])
