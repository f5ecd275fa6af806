"""Warping: distance of a video from the reference videos after dynamic time warping.

A video is described by the means of N equal slices of its embedding, as unit vectors. Two videos a
and b are aligned by dynamic time warping (Sakoe and Chiba 1978),

    D(i, j) = 1 - cos(a_i, b_j) + min( D(i-1, j-1), D(i-1, j), D(i, j-1) )

and their distance is D(N, N) over the number of pairs on the best path. The distance from the
reference videos is the mean over the nearer half of them: a task may be done in several ways.
"""

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepcut.jit import compiled_later
from stepcut.methods.arithmetic import unit
from stepcut.order.orders import Labels

Floats = NDArray[np.floating[Any]]

SLICES = 50
"""N. In a video of ten minutes, a slice lasts twelve seconds."""
FINE = 1000
"""Rows are rounded to thousandths, in memory as in files, so that both give the same results."""
HIGHEST = 100_000
"""Larger step numbers mean a damaged file."""
NEAREST = 1e-6
"""Lower bound of the distance."""


class Slices(NamedTuple):
    """A video in N slices."""

    rows: Floats
    """Unit vectors in thousandths, (N, p)."""
    steps: NDArray[np.int64]
    """The step in the middle of each slice, (N,); -1 for none."""

    def without(self, steps: Collection[int]) -> "Slices":
        """Return the slices of all other steps."""
        kept = ~np.isin(self.steps, list(steps))
        return Slices(self.rows[kept], self.steps[kept])

    def seen_as(self, embedding: Floats) -> "Slices":
        """Return the same video in another embedding (T, p)."""
        return Slices(_slices(embedding), self.steps)

    def check(self) -> None:
        """Refuse slices of a damaged file."""
        rows, steps = self.rows, self.steps
        if rows.ndim != 2 or steps.shape != rows.shape[:1] or not (np.abs(rows) <= FINE).all():
            raise ValueError("slices need one row of thousandths for each of their steps")
        if not len(steps) or not -1 <= steps.min() <= steps.max() < HIGHEST:
            raise ValueError("slices have no steps, or invalid step numbers")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slices) and all(map(np.array_equal, self, other))


def slice_video(embedding: Floats, labels: Labels) -> Slices:
    """Divide a video into `SLICES` slices, from its embedding (T, p) and labels (T,)."""
    starts, ends = _bounds(len(embedding))
    return Slices(_slices(embedding), np.asarray(labels, dtype=np.int64)[(starts + ends) // 2])


def _bounds(length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last row of each slice; slices of short videos share rows."""
    bounds = np.arange(SLICES + 1) * length // SLICES
    return bounds[:-1], np.maximum(bounds[1:], bounds[:-1] + 1)


def _slices(embedding: Floats) -> Floats:
    """Unit vector of each slice of an embedding (T, p), in thousandths, (N, p)."""
    starts, ends = _bounds(len(embedding))
    sums = np.concatenate(
        [np.zeros((1, embedding.shape[1])), np.cumsum(embedding, axis=0, dtype=np.float64)]
    )
    return (unit(sums[ends] - sums[starts]) * FINE).round()


class Alignment(NamedTuple):
    """A video aligned with others."""

    apart: float
    """Log distance from the others; 0 if there are none."""
    along: Floats
    """Distance of each slice, (N,)."""


UNALIGNED = Alignment(0.0, np.zeros(1))
"""Result without other videos."""


def align_slices(
    video: Slices,
    others: Sequence[Slices],
    optional: Collection[int] = (),
    free: Collection[int] = (),
) -> Alignment:
    """Align a video with others, and return its distance from the nearer half of them.

    Slices of `free` steps are ignored, and those of `optional` steps that the video leaves out.
    """
    used = ~np.isin(video.steps, list(free))
    ignored = [*free, *(set(optional) - set(video.steps.tolist()))]
    own, kept = (
        video.rows[used],
        [other.without(ignored) for other in others] if ignored else others,
    )
    if not len(own) or not any(len(other.rows) for other in kept):
        return UNALIGNED
    pairs = [_align(1 - own @ other.rows.T / FINE**2) for other in kept if len(other.rows)]
    nearer = sorted(pairs, key=lambda one: one[0])[: (len(pairs) + 1) // 2]
    along = np.zeros(len(video.rows))
    along[used] = np.mean([rows for _, rows in nearer], axis=0)
    apart = math.log(max(float(np.mean([one[0] for one in nearer])), NEAREST))
    return Alignment(apart, along)


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
