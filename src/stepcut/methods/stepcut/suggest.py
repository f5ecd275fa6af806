"""Suggest: the videos whose labels would help most, because every moment of the others resembles one of theirs.

Videos are chosen one after the other (greedy k-medoids) so that the labelled set S has the least

    mean over videos v and their moments x at time t of   min over moments y at time u of S   d(x, y)

    d(x, y) = |x - y|^2 / median of |x - y|^2  +  (t - u)^2 / median of (t - u)^2

with t and u from 0 to 1 over a video: what looks alike stands for each other, the more so at the same time.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.arithmetic import Floats, normalised_times, squared_distances

MOMENTS = 60
"""Moments that stand for a video, evenly spaced."""
PAIRS = 2000
"""The median is taken over the pairs of at most so many moments."""
MEDIAN = (1 - 0.5**0.5) ** 2
"""The median of the squared difference of two times between 0 and 1."""


def suggest(
    views: Sequence[NDArray[np.float32]], labelled: Sequence[int], n: int
) -> list[tuple[int, str]]:
    """Return the places of up to `n` videos to label next, the most useful first, each with the reason.

    `views` are the embeddings of all videos; `labelled` are the places of videos with labels.
    """
    apart = distances(views)
    chosen = [int(place) for place in labelled]
    left = [place for place in range(len(apart)) if place not in chosen]
    suggestions: list[tuple[int, str]] = []
    while left and len(suggestions) < n:
        costs = [apart[:, [*chosen, place]].min(axis=1).mean() for place in left]
        best = left.pop(int(np.argmin(costs)))
        nearer = np.sum(apart[left, best] < apart[left][:, chosen].min(axis=1)) if chosen else 0
        if not chosen:
            reason = "the most typical of all videos"
        elif nearer:
            reason = f"{nearer} of the {len(left)} others are more like it than like those labelled"
        else:
            reason = "it has moments that look like none in those labelled"
        suggestions.append((best, reason))
        chosen.append(best)
    return suggestions


def distances(views: Sequence[NDArray[np.float32]]) -> Floats:
    """(N, N): how far the moments of video i are from the nearest of video j, in the mean; `views` (T, p) per video."""
    times = normalised_times(MOMENTS)
    moments = np.stack([view[(times * len(view)).astype(int)] for view in views]).astype(
        np.float64
    )  # (N, M, p)
    some = moments.reshape(-1, moments.shape[2])
    some = some[:: -(-len(some) // PAIRS)]
    usual = float(np.median(squared_distances(some, some))) or 1.0
    late = squared_distances(times[:, None], times[:, None]) / MEDIAN
    apart = np.empty((len(views), len(views)))
    for i, own in enumerate(moments):
        for j, other in enumerate(moments):
            apart[i, j] = (squared_distances(own, other) / usual + late).min(axis=1).mean()
    return apart
