"""The sums behind benchmarks/use.py: graphs, next steps, checks and guidance, each beside something simpler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from stepcut.evaluation.evaluate import reduce_edges
from stepcut.order import ProcedureGraph, learn_graph
from stepcut.order.learn import close_order, count_first, insert_relations, reduce_order
from stepcut.paper.datasets import Task, TaskVideo

BACKBONES = ("omnivore", "pe_core_b16")  # the first that a recipe has
WRONG = {"missing step", "order error"}
Labels = NDArray[np.int64]
Edges = set[tuple[int, int]]


def backbone_of(task: Task) -> str:
    """The first backbone that some recording of the task has features of."""
    return next(b for b in BACKBONES if any(b in video.features for video in task))


def true_sequence(task: Task, video: TaskVideo) -> list[int]:
    """The true steps of one recording by number, in the order in which they begin."""
    assert video.timeline is not None
    return [task.steps.index(segment.step) for segment in video.timeline]


def true_labels(video: TaskVideo, frames: int | None = None) -> Labels:
    """The true step of every second, -1 for background."""
    assert video.timeline is not None
    return video.timeline.labels(np.arange(round(video.timeline.end) if frames is None else frames))


def is_wrong(video: TaskVideo) -> bool:
    """Whether a step is missing or out of order, as annotated."""
    return any(what in WRONG for _, what in video.errors)


# ---------------------------------------------------------------------- the graph


def true_edges(task: Task) -> Edges:
    """The edges of the true graph between steps, transitively reduced; START and END are excluded."""
    return {
        (task.steps.index(before), task.steps.index(after))
        for before, after in reduce_edges(task.graph or ())
    }


def with_ends(edges: Edges, steps: Iterable[int]) -> Edges:
    """The edges with START (-1) before every step that nothing precedes, and END (-2) after every last one."""
    first = {(-1, s) for s in steps if all(b != s for _, b in edges)}
    return edges | first | {(s, -2) for s in steps if all(a != s for a, _ in edges)}


def f1(found: Edges, true: Edges) -> float:
    """Of edges, in percent."""
    return 100 * 2 * len(found & true) / max(len(found) + len(true), 1)


def count_edges(sequences: Sequence[Sequence[int]], steps: int, share: float) -> Edges:
    """The baseline: who came first in at least this share of the videos that do both; reduced."""
    orders = [list(dict.fromkeys(sequence)) for sequence in sequences]
    counts = count_first(orders, steps)
    total = counts + counts.T
    sure = np.divide(counts, total, out=np.zeros(counts.shape), where=total > 0)
    # Of equally kept relations the better supported first; a hair's breadth, so that the order of shares is unchanged.
    closed = insert_relations(
        np.where((sure >= share) & (sure > 0.5), sure + 1e-6 * counts, 0.0), 0.0
    )
    return {(a, b) for a, b in np.argwhere(reduce_order(closed)).tolist()}


def random_task(seed: int, videos: int, steps: int, errors: float) -> tuple[list[list[int]], Edges]:
    """Sequences that keep a random partial order, about half of the pairs free, and its edges.

    In a share `errors` of the sequences one to three steps are misplaced, and in half of those one is missing.
    """
    rng = np.random.default_rng(seed)
    closed = np.zeros((steps, steps), dtype=bool)
    while not 0.35 < closed.sum() / (steps * (steps - 1) / 2) < 0.65:
        closed = close_order(np.triu(rng.random((steps, steps)) < rng.uniform(0.1, 0.4), 1))
    sequences = []
    for _ in range(videos):
        left, walk = set(range(steps)), []
        while left:
            walk.append(
                int(
                    rng.choice(
                        [one for one in left if not any(closed[other, one] for other in left)]
                    )
                )
            )
            left.remove(walk[-1])
        if rng.random() < errors:
            for _ in range(rng.integers(1, 4)):
                step = walk.pop(int(rng.integers(len(walk))))
                walk.insert(int(rng.integers(len(walk) + 1)), step)
            if rng.random() < 0.5:
                walk.pop(int(rng.integers(len(walk))))
        sequences.append(walk)
    return sequences, {(a, b) for a, b in np.argwhere(reduce_order(closed)).tolist()}


# ---------------------------------------------------------------------- what comes next


def most_frequent(graph: ProcedureGraph, done: Sequence[int]) -> list[int]:
    """The baseline: steps by how often they followed the last one, then by how often they occur."""
    last = done[-1] if done else -1
    return sorted(
        graph.steps, key=lambda s: (-graph.transitions.get((last, s), 0), -graph.occurs[s], s)
    )


def next_hits(task: Task) -> dict[str, tuple[float, float]]:
    """Top-1 and top-3 in percent, each recording predicted by a graph learned from the others."""
    hits: dict[str, list[tuple[bool, bool]]] = {"ours": [], "most frequent next": []}
    walks = [true_sequence(task, video) for video in task]
    for place, walk in enumerate(walks):
        graph = learn_graph([other for at, other in enumerate(walks) if at != place])
        for length, step in enumerate(walk):
            guesses = {
                "ours": [s for s, _ in graph.next(walk[:length])],
                "most frequent next": most_frequent(graph, walk[:length]),
            }
            for name, guess in guesses.items():
                hits[name].append((guess[:1] == [step], step in guess[:3]))
    return {name: tuple(100 * np.mean(values, axis=0)) for name, values in hits.items()}


# ---------------------------------------------------------------------- areas


def area(scores: Sequence[float], wrong: Sequence[bool]) -> float:
    """Area under the ROC in percent: how often a wrong recording scores above a right one (ties count half)."""
    if not 0 < sum(wrong) < len(wrong):
        return float("nan")
    ranks, bad = rankdata(scores), np.asarray(wrong)
    right = len(bad) - bad.sum()
    return float(100 * (ranks[bad].sum() - bad.sum() * (bad.sum() + 1) / 2) / (bad.sum() * right))
