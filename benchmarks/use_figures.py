"""The sums behind benchmarks/use.py: graphs, next steps, checks and guidance, each beside something simpler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from stepcut.checking.calibrate import Expectations, learn_expectations
from stepcut.checking.check import Report, check_labels
from stepcut.checking.evidence import find_signs, learn_usual, look
from stepcut.datasets.task import Task, TaskVideo
from stepcut.order import ProcedureGraph, learn_graph
from stepcut.order.likelihood import close_order, count_first, insert_relations, reduce_order
from stepcut.order.occurrences import graph_of_occurrences

BACKBONES = ("omnivore", "pe_core_b16")  # the first that a recipe has
WRONG = {"missing step", "order error"}
Labels = NDArray[np.int64]
Edges = set[tuple[int, int]]
Cut = tuple[Labels, NDArray[np.float64] | None, NDArray[np.float64] | None]
"""Labels (T,), memberships (T, K) and novelty (T,) of one recording."""


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
    """The edges of the true graph between steps, transitively reduced; START and END are left out."""
    matrix = np.zeros((len(task.steps),) * 2, dtype=bool)
    for before, after in task.graph or ():
        matrix[task.steps.index(before), task.steps.index(after)] = True
    return {(a, b) for a, b in np.argwhere(reduce_order(close_order(matrix))).tolist()}


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
    closed = insert_relations(np.where((sure >= share) & (sure > 0.5), sure + 1e-6 * counts, 0.0), 0.0)
    return {(a, b) for a, b in np.argwhere(reduce_order(closed)).tolist()}


# ---------------------------------------------------------------------- what comes next


def most_frequent(graph: ProcedureGraph, done: Sequence[int]) -> list[int]:
    """The baseline: steps by how often they followed the last one, then by how often they occur."""
    last = done[-1] if done else -1
    return sorted(graph.steps, key=lambda s: (-graph.transitions.get((last, s), 0), -graph.occurs[s], s))


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


# ---------------------------------------------------------------------- checks


def reports(task: Task, cuts: dict[str, Cut], rate: float) -> dict[str, Report]:
    """A report per recording; what is usual is learned from the recordings without such errors, never from itself."""
    normal = [video.name for video in task if video.name in cuts and not is_wrong(video)]

    def learned(names: Sequence[str]) -> Expectations:
        labels, shares, strange = zip(*(cuts[name] for name in names), strict=True)
        return learn_expectations(
            labels, 1.0, None if shares[0] is None else shares, None if strange[0] is None else strange, rate
        )

    everything = learned(normal)
    found = {}
    for name, (labels, shares, strange) in cuts.items():
        usual = learned([other for other in normal if other != name]) if name in normal else everything
        found[name] = check_labels(labels, 1.0, usual, shares, strange, task.steps, name)
    return found


def suspicions(task: Task, cuts: dict[str, Cut]) -> dict[str, tuple[float, float]]:
    """Per recording, the nats that speak for a missing or misordered step.

    First by missed and misordered steps alone, then with what is unusually short added: what is left out takes no time.

    A recording without such errors is judged by what the others of its kind say. So that the two groups are judged
    alike, every other recording is judged as often, leaving out each of those in turn; the mean counts.
    """
    seen = {name: look(labels, 1.0, shares, strange) for name, (labels, shares, strange) in cuts.items()}
    normal = [video.name for video in task if video.name in cuts and not is_wrong(video)]
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in cuts}
    for left_out in normal:
        others = [seen[name] for name in normal if name != left_out]
        usual = learn_usual(graph_of_occurrences([video.occurrences for video in others]), others)
        for name in cuts:
            if name == left_out or name not in normal:
                signs = find_signs(seen[name], usual)
                wrong = sum(sign.surprise for sign in signs if sign.kind in ("missed", "misordered"))
                short = sum(sign.surprise for sign in signs if sign.how == "short")
                found[name].append((wrong, wrong + short))
    return {name: tuple(np.mean(values, axis=0).tolist()) for name, values in found.items()}


def area(scores: Sequence[float], wrong: Sequence[bool]) -> float:
    """Area under the ROC in percent: how often a wrong recording scores above a right one (ties count half)."""
    ranks, bad = rankdata(scores), np.asarray(wrong)
    right = len(bad) - bad.sum()
    return float(100 * (ranks[bad].sum() - bad.sum() * (bad.sum() + 1) / 2) / (bad.sum() * right))


class Tally:
    """Hits, false alarms and misses."""

    def __init__(self) -> None:
        self.hit = self.false = self.missed = 0

    def add(self, found: set[int], true: set[int]) -> None:
        """Count sets of steps."""
        self.hit += len(found & true)
        self.false += len(found - true)
        self.missed += len(true - found)

    @property
    def precision(self) -> float:
        """In percent."""
        return 100 * self.hit / max(self.hit + self.false, 1)

    @property
    def recall(self) -> float:
        """In percent."""
        return 100 * self.hit / max(self.hit + self.missed, 1)


def tally_checks(task: Task, found: dict[str, Report], tallies: dict[str, Tally]) -> None:
    """Compare reports with the annotated errors: step by step, and recording by recording."""
    for video in task:
        report = found[video.name]
        missing = {task.steps.index(step) for step, what in video.errors if what == "missing step"}
        swapped = {task.steps.index(step) for step, what in video.errors if what == "order error"}
        missed, misordered = {f.step for f in report.missed}, {f.step for f in report.misordered}
        tallies["missing step, by step"].add(missed, missing)
        tallies["order error, by step"].add(misordered, swapped)
        tallies["missing step, by recording"].add({1} if missed else set(), {1} if missing else set())
        tallies["order error, by recording"].add({1} if misordered else set(), {1} if swapped else set())
        either = max(report.excess["missed"], report.excess["misordered"]) > 1
        tallies["either, by recording"].add({1} if either else set(), {1} if missing or swapped else set())
        if not is_wrong(video):
            tallies["any alarm on a normal recording"].add({1} if not report.ok else set(), set())
            tallies["normal"].add({1}, {1})
