"""What one video shows: steps, the evidence for each, novelty, and its look in slices.

The evidence for step k in a video with step probabilities p_tk at `rate` rows per second is

    e_k = ln(1 + sum over t of (p_tk - q_t)^2 / rate)

where q_t is the probability of the least likely step, which background shares with all steps.
The look is the mean embedding of N equal slices, as unit vectors. Two videos a and b are aligned
by dynamic time warping (Sakoe and Chiba 1978),

    D(i, j) = 1 - cos(a_i, b_j) + min( D(i-1, j-1), D(i-1, j), D(i, j-1) )

at distance D(N, N) over the pairs on the best path. The distance from several videos is the mean
over the nearer half of them: a task may be done in several ways.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stepcut.compute import compiled_later
from stepcut.methods.arithmetic import unit
from stepcut.order.learn import Occurrence, find_occurrences, first_times
from stepcut.order.orders import Labels, grouped
from stepcut.timeline import runs

Floats = NDArray[np.floating[Any]]
T = TypeVar("T")

SLICES = 50  # of ten minutes, one lasts twelve seconds
FINE = 1000  # rows of slices are rounded to thousandths, in memory as in files
SMOOTHING = 4.0  # seconds over which novelty is averaged


class Slices(NamedTuple):
    rows: Floats  # unit vectors in thousandths, (N, p)
    steps: NDArray[np.int64]  # in the middle of each slice, (N,); -1 for none


class Alignment(NamedTuple):
    apart: float = 0.0  # log distance from other videos; 0 if there are none
    along: Floats = np.zeros(1)  # distance of each slice, (N,)


@dataclass(frozen=True)
class Observed:
    occurrences: list[Occurrence]
    seconds: float
    rate: float
    labels: NDArray[np.int64]  # (T,)
    novelty: Floats | None  # smoothed, (T,)
    evidence: Floats  # (K,)
    embedding: Floats | None  # (T, p)
    slices: Slices | None

    @cached_property
    def by_step(self) -> dict[int, list[Occurrence]]:
        return grouped((one.step, one) for one in self.occurrences)

    @cached_property
    def first(self) -> dict[int, Occurrence]:
        return first_times(self.occurrences)

    @cached_property
    def spent(self) -> dict[int, float]:
        return {step: sum(one.spent for one in done) for step, done in self.by_step.items()}

    @cached_property
    def mean_times(self) -> dict[int, float]:
        """From 0 (start of the video) to 1 (end)."""
        return {
            step: sum(one.spent * (one.start + one.end) / 2 for one in done)
            / (self.spent[step] * self.seconds)
            for step, done in self.by_step.items()
        }


def observe(
    labels: Labels,  # (T,)
    rate: float,
    probabilities: Floats | None = None,  # (T, K)
    novelty: Floats | None = None,  # (T,)
    embedding: Floats | None = None,  # (T, p)
) -> Observed:
    numbers = np.asarray(labels, dtype=np.int64)
    sure = None
    if probabilities is not None and len(probabilities):
        sure = np.asarray(probabilities)[np.arange(len(numbers)), np.maximum(numbers, 0)]
    if embedding is not None:
        embedding = np.asarray(embedding, dtype=np.float64) if len(embedding) else None
    return Observed(
        find_occurrences(numbers, rate, sure),
        len(numbers) / rate,
        rate,
        numbers,
        None if novelty is None else smooth(np.asarray(novelty), rate),
        evidence_of(numbers, rate, probabilities),
        embedding,
        None if embedding is None else slice_video(embedding, numbers),
    )


def evidence_of(labels: Labels, rate: float, probabilities: Floats | None) -> Floats:
    """(K,); without probabilities (T, K), the labels (T,) are certain."""
    if probabilities is None or not len(probabilities):
        numbers = np.asarray(labels)
        return np.asarray(np.log1p(np.bincount(numbers[numbers >= 0]) / rate))
    rows = np.asarray(probabilities, dtype=np.float64)
    excess = rows - rows.min(axis=1, keepdims=True) if rows.shape[1] > 1 else rows
    return np.asarray(np.log1p((excess**2).sum(axis=0) / rate))


def smooth(values: Floats, rate: float) -> Floats:
    """Moving average of values (T,) over `SMOOTHING` seconds."""
    if not len(values):
        return values
    width = min(max(1, round(SMOOTHING * rate)), len(values))
    padded = np.pad(values.astype(np.float64), (width // 2, width - 1 - width // 2), mode="edge")
    return np.asarray(np.convolve(padded, np.ones(width) / width, mode="valid"))


def stretches(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First row of each run of true values, and the row after it."""
    return [(a, b) for true, a, b in runs(mask.astype(np.int64)).tolist() if true]


def some_of(items: Sequence[T], most: int) -> list[T]:
    places = np.linspace(0, len(items) - 1, min(most, len(items))).round().astype(int)
    return [items[place] for place in places]


def slice_video(embedding: Floats, labels: Labels) -> Slices:
    bounds = np.arange(SLICES + 1) * len(embedding) // SLICES
    starts, ends = bounds[:-1], np.maximum(bounds[1:], bounds[:-1] + 1)  # short videos share rows
    sums = np.zeros((len(embedding) + 1, embedding.shape[1]))
    np.cumsum(embedding, axis=0, dtype=np.float64, out=sums[1:])
    rows = (unit(sums[ends] - sums[starts]) * FINE).round()
    return Slices(rows, np.asarray(labels, dtype=np.int64)[(starts + ends) // 2])


def align_slices(
    video: Slices,
    others: Sequence[Slices],
    optional: Collection[int] = (),
    free: Collection[int] = (),
) -> Alignment:
    # Slices of free steps are ignored, and those of optional steps that the video leaves out.
    used = ~np.isin(video.steps, list(free))
    ignored = [*free, *(set(optional) - set(video.steps.tolist()))]
    kept = [other.rows[~np.isin(other.steps, ignored)] for other in others]
    kept = [rows for rows in kept if len(rows) and used.any()]
    if not kept:
        return Alignment()
    pairs = [_align(1 - video.rows[used] @ rows.T / FINE**2) for rows in kept]
    nearer = sorted(pairs, key=lambda one: one[0])[: (len(pairs) + 1) // 2]
    along = np.zeros(len(video.rows))
    along[used] = np.mean([rows for _, rows in nearer], axis=0)
    return Alignment(math.log(max(float(np.mean([one for one, _ in nearer])), 1e-6)), along)


@compiled_later
def _align(cost: Floats) -> tuple[float, Floats]:
    """Mean cost on the best path through costs (n, m), and the mean cost in each row (n,)."""
    n, m = cost.shape
    total = np.full((n + 1, m + 1), np.inf)
    total[0, 0] = 0.0
    for i in range(n):
        for j in range(m):
            total[i + 1, j + 1] = cost[i, j] + min(total[i, j], total[i, j + 1], total[i + 1, j])
    rows, pairs = np.zeros(n), np.zeros(n)
    i, j = n, m
    while i > 0:
        rows[i - 1] += cost[i - 1, j - 1]
        pairs[i - 1] += 1
        across, back = total[i - 1, j - 1], min(total[i - 1, j], total[i, j - 1])
        if across <= back:
            i, j = i - 1, j - 1
        elif total[i - 1, j] <= back:
            i -= 1
        else:
            j -= 1
    return rows.sum() / pairs.sum(), rows / pairs
