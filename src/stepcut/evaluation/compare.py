"""Comparisons for a table: baselines that ignore the video, a test of two rows, graphs."""

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import OptionError, as_items
from stepcut.evaluation.metrics import edge_rates
from stepcut.evaluation.score import Score
from stepcut.files.names import plain
from stepcut.methods import METHODS
from stepcut.order import graph_of_labels
from stepcut.order.likelihood import close_order, reduce_order
from stepcut.tables import Spread

NO_VIDEO = ("random", "uniform", "one-cluster")
"""The baselines of every table, which ignore the video."""


def baseline(
    row: str, like: Sequence[NDArray[Any]], steps: int, seed: int = 0
) -> list[NDArray[np.int64]]:
    """Return the labels of a baseline that ignores the video, as long as the arrays in `like`.

    `row` is "random" (by its `seed`), "uniform" or "one-cluster", with K `steps`.
    """
    # The method only sees the number of the video, so that equal lengths get different labels.
    videos = [
        np.full((len(labels), 1), number, dtype=np.float32) for number, labels in enumerate(like)
    ]
    labels: list[NDArray[np.int64]] = METHODS[row](steps=steps, seed=seed).fit(videos).labels_
    return labels


def above_uniform(mine: Spread, uniform: float) -> str:
    """Describe how far the F1 `mine` lies above that of the uniform baseline.

    >>> above_uniform(Spread(45.1, 0.4), 41.9)
    '3.2 above the uniform baseline (45.1 against 41.9)'
    """
    gap = mine.mean - uniform
    level = abs(gap) < max(mine.sd, 0.05)
    place = "level with" if level else f"{abs(gap):.1f} {'above' if gap > 0 else 'below'}"
    return f"{place} the uniform baseline ({mine.mean:.1f} against {uniform:.1f})"


class Difference(NamedTuple):
    """The mean difference in F1 between two rows over the same videos."""

    mean: float
    low: float
    high: float
    """95 % interval of the mean over videos (bootstrap)."""
    p: float
    """Sign-flip test: the share of all ways to exchange the rows, video by video, whose mean
    difference is at least as large."""
    better: int
    videos: int

    def __str__(self) -> str:
        return (
            f"{self.mean:+.1f} F1 on the mean of {self.videos} videos (95 % interval {self.low:+.1f} "
            f"to {self.high:+.1f}), better on {self.better} of them (sign-flip test over videos: "
            f"p = {self.p:.3g})"
        )


def compare_videos(ours: Mapping[str, float], theirs: Mapping[str, float]) -> Difference:
    """Compare two rows by their F1 of each video; give the mean over all seeds of a row."""
    gaps = np.array([ours[video] - theirs[video] for video in ours if video in theirs])
    count, rng = len(gaps), np.random.default_rng(0)
    drawn = gaps[rng.integers(count, size=(10_000, count))].mean(axis=1)
    low, high = np.percentile(drawn, (2.5, 97.5))
    if count <= 14:
        signs = 1 - 2 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1)
    else:
        signs = rng.choice([-1, 1], size=(20_000, count))
        signs[0] = 1  # the observed order is one of the ways, so p is never 0
    p = float(np.mean(np.abs((signs * gaps).mean(axis=1)) >= abs(gaps.mean()) - 1e-12))
    better = int((gaps > 0).sum())
    return Difference(float(gaps.mean()), float(low), float(high), p, better, count)


def adjust(ps: Sequence[float]) -> list[float]:
    """Adjust the p of several tests by the method of Holm.

    >>> adjust([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, most = [0.0] * len(ps), 0.0
    for rank, place in enumerate(sorted(range(len(ps)), key=lambda place: ps[place])):
        most = max(most, min(1.0, (len(ps) - rank) * ps[place]))
        adjusted[place] = most
    return adjusted


def graph_f1(one: Score, edges: Iterable[tuple[str, str]]) -> float:
    """Return F1 in percent of the edges of the predicted graph against the true `edges`.

    Both are transitively reduced. The predictions are those of the score `one`, after matching.
    """
    mapped = {str(i): one.mapped(i) for i in range(len(one.matchings))}
    labels = {name: np.where(steps > 0, steps - 1, -1) for name, steps in mapped.items()}
    if not any((steps >= 0).any() for steps in labels.values()):
        return 0.0
    found = graph_of_labels(labels, one.rate).edges
    ours = {(plain(one.name(a + 1)), plain(one.name(b + 1))) for a, b in found}
    return 100 * edge_rates(ours, reduce_edges((plain(a), plain(b)) for a, b in edges)).f1


def read_edges(graph: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Check that a `graph` is pairs without a cycle, and return its edges."""
    wanted = "pairs of step names, (before, after)"
    pairs = as_items("graph", graph, (tuple, list), wanted)
    if wrong := [pair for pair in pairs if len(pair) != 2]:
        raise OptionError(f"graph contains {wrong[0]!r}, not {wanted}.", setting="graph")
    edges, order = {(str(before), str(after)) for before, after in pairs}, TopologicalSorter[str]()
    for before, after in edges:
        order.add(after, before)
    try:
        order.prepare()
    except CycleError as error:
        raise OptionError(
            f"graph has a cycle: {', '.join(error.args[1])}. Remove one of its edges.",
            setting="graph",
        ) from error
    return edges


def reduce_edges(edges: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the edges that no path of other edges replaces.

    >>> sorted(reduce_edges([("a", "b"), ("b", "c"), ("a", "c")]))
    [('a', 'b'), ('b', 'c')]
    """
    all_edges = set(edges)
    steps = sorted({step for edge in all_edges for step in edge})
    matrix = np.zeros((len(steps), len(steps)), dtype=bool)
    for before, after in all_edges:
        matrix[steps.index(before), steps.index(after)] = True
    kept = reduce_order(close_order(matrix))
    return {(steps[a], steps[b]) for a, b in np.argwhere(kept).tolist()}
