"""Metrics: pure functions of label arrays, orders and graphs, with results from 0 to 1."""

import math
from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from stepcut.timeline import runs

Labels = Sequence[int] | NDArray[np.integer[Any]]

SAMPLES = 15  # frames that CTE and ASOT sample from each segment


class Rates(NamedTuple):
    precision: float
    recall: float
    f1: float
    iou: float


def count(pred: Labels, true: Labels, clusters: int, steps: int) -> NDArray[np.int64]:
    flat = np.asarray(true, dtype=np.int64) * clusters + np.asarray(pred, dtype=np.int64)
    counts = np.bincount(flat, minlength=steps * clusters).reshape(steps, clusters)
    return counts.astype(np.int64, copy=False)


def rates(both: float, predicted: float, actual: float) -> Rates:
    """Scores from frames in `both`, `predicted` and `actual`; 0 for 0 / 0."""
    together = predicted + actual
    return Rates(
        both / predicted if predicted else 0.0,
        both / actual if actual else 0.0,
        2 * both / together if together else 0.0,
        both / (together - both) if together - both else 0.0,
    )


def mean_rates(figures: list[Rates]) -> Rates:
    return Rates(*np.mean(figures, axis=0).tolist()) if figures else Rates(0.0, 0.0, 0.0, 0.0)


def harmonic(figures: Rates) -> Rates:
    """Replace F1 by the harmonic mean of precision and recall."""
    both = figures.precision + figures.recall
    return figures._replace(f1=2 * figures.precision * figures.recall / both if both else 0.0)


def mof(pred: Labels, true: Labels) -> float:
    """Mean over frames; 0 in `true` is background."""
    found, actual = np.asarray(pred), np.asarray(true)
    return float(np.mean(found[actual != 0] == actual[actual != 0])) if actual.any() else math.nan


def segments(labels: Labels) -> NDArray[np.int64]:
    """The runs of steps (0 is background), (n, 3): label, first frame, end frame."""
    every = runs(labels)
    return np.asarray(every[every[:, 0] != 0])


def edit(pred: Labels, true: Labels) -> float:
    """1 - Levenshtein distance of the segments / length of the longer; 1 if both empty."""
    found, actual = segments(pred)[:, 0], segments(true)[:, 0]
    longest = max(len(found), len(actual))
    return 1.0 - levenshtein(found.tolist(), actual.tolist()) / longest if longest else 1.0


def levenshtein(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    few, many = sorted((a, b), key=len)
    number = {item: i for i, item in enumerate(dict.fromkeys([*few, *many]))}
    across = np.array([number[item] for item in many], dtype=np.int64)
    places = np.arange(len(many) + 1)
    row = places.copy()
    for i, item in enumerate(few, start=1):
        # First from above or the diagonal; then from the left, a running minimum of row[j] - j.
        start = np.concatenate([[i], np.minimum(row[1:] + 1, row[:-1] + (across != number[item]))])
        row = np.minimum.accumulate(start - places) + places
    return int(row[-1])


def segment_hits(
    pred: Labels, true: Labels, overlaps: Sequence[float]
) -> tuple[list[int], int, int]:
    """Segments of `true` found in `pred` at each IoU, and those of both.

    Each predicted segment meets the true one of its step with the highest IoU, which counts once.
    """
    found, actual = segments(pred), segments(true)
    step, start, end = found.T
    best, place = np.zeros(len(found)), np.full(len(found), -1)
    for number, (label, first, last) in enumerate(actual.tolist()):
        # Segments are sorted and do not overlap, so those that meet this one are adjacent.
        near = slice(*np.searchsorted(end, [first], "right"), *np.searchsorted(start, [last]))
        both = np.minimum(end[near], last) - np.maximum(start[near], first)
        union = np.maximum(end[near], last) - np.minimum(start[near], first)
        iou = np.where(step[near] == label, both / np.maximum(union, 1), 0.0)
        better = iou > best[near]
        best[near][better], place[near][better] = iou[better], number
    hits = [len(np.unique(place[(best >= overlap) & (place >= 0)])) for overlap in overlaps]
    return hits, len(found), len(actual)


def segment_shares(pred: Labels, true: Labels) -> NDArray[np.float64]:
    right, bounds = np.asarray(pred) == np.asarray(true), runs(true)[:, 1:]
    return np.array([right[first:end].mean() for first, end in bounds.tolist()])


def sampled_f1(shares: NDArray[np.float64], predicted: int) -> float:
    """F1 of CTE (Kukleva et al., CVPR 2019), without its sampling error.

    CTE samples 15 frames of each of n true segments and adds up the shares s of right ones. With m
    predicted segments, K per video, F1 = 2 sum(s) / (n + m) is linear: its mean is that of the
    `shares` of all frames. It exceeds 1 if videos have more than K right segments.
    """
    return float(2 * shares.sum() / (len(shares) + predicted))


def majority_f1(shares: NDArray[np.float64], predicted: int) -> float:
    """F1 of ASOT (Xu and Gould, CVPR 2024): as above, but at least 8 of 15 frames must be right."""
    return sampled_f1(bdtrc(SAMPLES // 2, SAMPLES, shares), predicted)


def kendall(found: Sequence[Hashable], true: Sequence[Hashable]) -> float:
    """Kendall's tau of two orders over their common steps; nan for fewer than two."""
    place = {step: i for i, step in enumerate(true)}
    shared = [place[step] for step in found if step in place]
    pairs = list(combinations(shared, 2))
    return sum(1 if a < b else -1 for a, b in pairs) / len(pairs) if pairs else math.nan


def edge_rates(
    found: Iterable[tuple[Hashable, Hashable]], true: Iterable[tuple[Hashable, Hashable]]
) -> Rates:
    ours, theirs = set(found), set(true)
    return rates(len(ours & theirs), len(ours), len(theirs))
