"""Metrics: pure functions of label arrays, orders and graphs, with figures from 0 to 1 (percent
comes later)."""

import math
from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import jensenshannon

from stepcut.timeline import runs

Labels = Sequence[int] | NDArray[np.integer[Any]]
Lengths = Sequence[float] | NDArray[np.floating[Any]]


class Rates(NamedTuple):
    """Four figures of one step, or their means over steps."""

    precision: float
    recall: float
    f1: float
    iou: float


def count(pred: Labels, true: Labels, clusters: int, steps: int) -> NDArray[np.int64]:
    """`C[s, k]`: the frames whose `true` step is `s < steps` and whose `pred` is the cluster `k <
    clusters`.

    >>> count([0, 0, 1], [1, 1, 0], clusters=2, steps=2).tolist()
    [[0, 1], [2, 0]]
    """
    flat = np.asarray(true, dtype=np.int64) * clusters + np.asarray(pred, dtype=np.int64)
    return (
        np.bincount(flat, minlength=steps * clusters)
        .reshape(steps, clusters)
        .astype(np.int64, copy=False)
    )


def rates(both: float, predicted: float, actual: float) -> Rates:
    """The four figures from frames in `both`, `predicted` and `actual`; 0 where there is nothing to
    divide.

    >>> rates(2, 4, 8)
    Rates(precision=0.5, recall=0.25, f1=0.3333333333333333, iou=0.2)
    """
    return Rates(
        precision=both / predicted if predicted else 0.0,
        recall=both / actual if actual else 0.0,
        f1=2 * both / (predicted + actual) if predicted + actual else 0.0,
        iou=both / (predicted + actual - both) if predicted + actual - both else 0.0,
    )


def mean_rates(figures: list[Rates]) -> Rates:
    """The mean of each of the four `figures`; zeros where there is nothing."""
    return Rates(*np.mean(figures, axis=0).tolist()) if figures else Rates(0.0, 0.0, 0.0, 0.0)


def harmonic(figures: Rates) -> Rates:
    """The `figures` with F1 as the harmonic mean of precision and recall."""
    both = figures.precision + figures.recall
    return figures._replace(f1=2 * figures.precision * figures.recall / both if both else 0.0)


def mof(pred: Labels, true: Labels) -> float:
    """Mean over frames: the part of the frames of `true` steps (0 is background) that are right in
    `pred`.

    >>> mof([1, 1, 2, 2], [0, 1, 2, 1])
    0.6666666666666666
    """
    found, actual = np.asarray(pred), np.asarray(true)
    return float(np.mean(found[actual != 0] == actual[actual != 0])) if actual.any() else math.nan


def segments(labels: Labels, background: int = 0) -> NDArray[np.int64]:
    """The runs of `labels` that are not `background`, (n, 3): the label, its first frame, the frame
    after its last."""
    every = runs(labels)
    return np.asarray(every[every[:, 0] != background])


def edit(pred: Labels, true: Labels) -> float:
    """1 minus the Levenshtein distance of the segments of `pred` and `true` over the longer; 1
    where both are empty."""
    found, actual = segments(pred)[:, 0], segments(true)[:, 0]
    longest = max(len(found), len(actual))
    return 1.0 - levenshtein(found.tolist(), actual.tolist()) / longest if longest else 1.0


def levenshtein(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """The fewest insertions, deletions and replacements that turn `a` into `b`.

    >>> levenshtein("kitten", "sitting")
    3
    """
    few, many = sorted((a, b), key=len)
    number = {item: i for i, item in enumerate(dict.fromkeys([*few, *many]))}
    across = np.array([number[item] for item in many], dtype=np.int64)
    places = np.arange(len(many) + 1)
    row = places.copy()
    for i, item in enumerate(few, start=1):
        # From above or from the diagonal first; then from the left, which is a running minimum of
        # row[j] - j.
        start = np.concatenate([[i], np.minimum(row[1:] + 1, row[:-1] + (across != number[item]))])
        row = np.minimum.accumulate(start - places) + places
    return int(row[-1])


def segment_hits(
    pred: Labels, true: Labels, overlaps: Sequence[float]
) -> tuple[list[int], int, int]:
    """Segments of `true` found in `pred` at an IoU of at least each of `overlaps`, and how many
    both have.

    Every predicted segment is held against the true segment of its own step with which it has the
    highest IoU; each true segment is found once at most."""
    found, actual = segments(pred), segments(true)
    step, start, end = found.T
    best, place = np.zeros(len(found)), np.full(len(found), -1)
    for number, (label, first, last) in enumerate(actual.tolist()):
        # Segments do not overlap and are sorted, so those that meet this one stand side by side.
        near = slice(
            int(np.searchsorted(end, first, "right")), int(np.searchsorted(start, last, "left"))
        )
        both = np.minimum(end[near], last) - np.maximum(start[near], first)
        union = np.maximum(end[near], last) - np.minimum(start[near], first)
        iou = np.where(step[near] == label, both / np.maximum(union, 1), 0.0)
        better = iou > best[near]
        best[near][better], place[near][better] = iou[better], number
    hits = [len(np.unique(place[(best >= overlap) & (place >= 0)])) for overlap in overlaps]
    return hits, len(found), len(actual)


def length_distance(pred: Lengths, true: Lengths) -> float:
    """Jensen-Shannon distance (base 2, so 0 to 1) between the segment lengths `pred` and `true`, in
    seconds.

    Lengths are counted in bins that double: below 1 s, 1-2 s, 2-4 s and so on. Equal sets are 0
    apart, sets without a common bin 1; not a number where one of them is empty."""
    edges = [0.0, *2.0 ** np.arange(23), np.inf]
    p, q = (np.histogram(lengths, edges)[0] for lengths in (pred, true))
    if not p.sum() or not q.sum():
        return math.nan
    return float(jensenshannon(p, q, base=2))


def kendall(found: Sequence[Hashable], true: Sequence[Hashable]) -> float:
    """Kendall's tau of the orders `found` and `true` over shared steps: 1 the same, -1 reversed;
    NaN below two steps.

    An order names every step once.

    >>> kendall("abcd", "abdc")
    0.6666666666666666
    """
    place = {step: i for i, step in enumerate(true)}
    shared = [place[step] for step in found if step in place]
    pairs = list(combinations(shared, 2))
    return sum(1 if a < b else -1 for a, b in pairs) / len(pairs) if pairs else math.nan


def edge_rates(
    found: Iterable[tuple[Hashable, Hashable]], true: Iterable[tuple[Hashable, Hashable]]
) -> Rates:
    """Precision, recall, F1 and IoU of the edges `found` against those of the `true` task graph."""
    ours, theirs = set(found), set(true)
    return rates(len(ours & theirs), len(ours), len(theirs))
