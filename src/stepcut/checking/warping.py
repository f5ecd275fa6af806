"""Warping: how far a video is apart from those learned from when they are laid side by side, and
where most.

A video is described by the means of N equal slices of its embedding, as rows of length 1. Two
videos a and b are laid side by side by dynamic time warping (Sakoe and Chiba 1978),

    D(i, j) = 1 - cos(a_i, b_j) + min( D(i-1, j-1), D(i-1, j), D(i, j-1) )

and are apart by D(N, N) over the number of pairs on the best path. From the videos learned from,
one is apart by the mean over the nearer half of them: there are several ways to do a task, and it
need not be like all of them. What is left out, put in or done in another order shows here even
where the cut did not find its steps.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from stepcut.jit import compiled_later
from stepcut.methods.arithmetic import unit
from stepcut.order.orders import Labels

Floats = NDArray[np.floating[Any]]

SLICES = 50
"""N: of a video of ten minutes, one lasts twelve seconds."""
FINE = 1000
"""Rows are kept in thousandths, in memory as in files: the same is said of a video before and
after."""
HIGHEST = 100_000
"""No step has such a number; a file that says so is damaged."""
NEAREST = 1e-6
"""Two videos are never less apart than this."""


class Slices(NamedTuple):
    """A video in N slices."""

    rows: Floats
    """(N, p): what each looks like, of length 1, in thousandths."""
    steps: NDArray[np.int64]
    """(N,): the step in the middle of each, -1 for none."""

    def without(self, steps: Collection[int]) -> "Slices":
        """The same without the slices of some steps."""
        kept = ~np.isin(self.steps, list(steps))
        return Slices(self.rows[kept], self.steps[kept])

    def seen_as(self, embedding: Floats) -> "Slices":
        """The same video in another embedding (T, p)."""
        return Slices(_slices(embedding), self.steps)

    def to_json(self) -> dict[str, Any]:
        """A JSON-able object."""
        return {"rows": self.rows.astype(int).tolist(), "steps": self.steps.tolist()}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """What `to_json` gave, read again."""
        rows, steps = (
            np.array(record["rows"], dtype=np.float32),
            np.array(record["steps"], dtype=np.int64),
        )
        if rows.ndim != 2 or steps.shape != rows.shape[:1] or not (np.abs(rows) <= FINE).all():
            raise ValueError("slices need one row of thousandths for each of their steps")
        if not len(steps) or not -1 <= steps.min() <= steps.max() < HIGHEST:
            raise ValueError("slices have no steps, or numbers of steps that do not exist")
        return cls(rows, steps)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slices) and all(map(np.array_equal, self, other))


def slice_video(embedding: Floats, labels: Labels) -> Slices:
    """A video in `SLICES` slices of nearly equal length, from its `embedding` (T, p) and the steps
    of its rows (T,)."""
    starts, ends = _bounds(len(embedding))
    return Slices(_slices(embedding), np.asarray(labels, dtype=np.int64)[(starts + ends) // 2])


def _bounds(length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the slices of so many rows begin and end; a short video has rows in several of them."""
    bounds = np.arange(SLICES + 1) * length // SLICES
    return bounds[:-1], np.maximum(bounds[1:], bounds[:-1] + 1)


def _slices(embedding: Floats) -> Floats:
    """What each slice of an embedding (T, p) looks like, (N, p), of length 1, in thousandths."""
    starts, ends = _bounds(len(embedding))
    sums = np.concatenate(
        [np.zeros((1, embedding.shape[1])), np.cumsum(embedding, axis=0, dtype=np.float64)]
    )
    return (unit(sums[ends] - sums[starts]) * FINE).round()


class Beside(NamedTuple):
    """A video laid beside others."""

    apart: float
    """ln of how far it is apart from them; 0 where there are none."""
    along: Floats
    """(N,): how far each of its slices is."""


ALONE = Beside(0.0, np.zeros(1))
"""What is known of a video with nothing beside it."""


def lay_beside(
    video: Slices,
    others: Sequence[Slices],
    optional: Collection[int] = (),
    free: Collection[int] = (),
) -> Beside:
    """How far a video is apart from the nearer half of the others, those learned from.

    optional  steps that may be left out: where the video does so, the others are taken without them
    free      steps that may come at any time: all are taken without them
    """
    asked = ~np.isin(video.steps, list(free))
    spared = [*free, *(set(optional) - set(video.steps.tolist()))]
    own, kept = video.rows[asked], [other.without(spared) for other in others] if spared else others
    if not len(own) or not any(len(other.rows) for other in kept):
        return ALONE
    pairs = [_align(1 - own @ other.rows.T / FINE**2) for other in kept if len(other.rows)]
    nearer = sorted(pairs, key=lambda one: one[0])[: (len(pairs) + 1) // 2]
    along = np.zeros(len(video.rows))
    along[asked] = np.mean([rows for _, rows in nearer], axis=0)
    apart = math.log(max(float(np.mean([one[0] for one in nearer])), NEAREST))
    return Beside(apart, along)


@compiled_later
def _align(cost: Floats) -> tuple[float, Floats]:
    """The mean cost on the best path through costs (n, m), from the first to the last of both; and
    the mean of what it meets in each row (n,)."""
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
