"""Suggest: choose the videos whose labels help most, by greedy k-medoids.

Videos are chosen one by one. Each choice minimizes the mean distance of all moments x (at time t)
of all videos to the nearest moment y (at time u) of a labelled video:

    d(x, y) = |x - y|^2 / median of |x - y|^2  +  (t - u)^2 / median of (t - u)^2

Times are from 0 to 1 over a video: moments that look alike at the same time represent each other.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.arithmetic import Floats, normalised_times, squared_distances

MOMENTS = 60
"""Moments per video, evenly spaced."""
PAIRS = 2000
"""The median is over the pairs of at most this many moments."""
MEDIAN = (1 - 0.5**0.5) ** 2
"""The median of the squared difference of two times between 0 and 1."""


def suggest(
    views: Sequence[NDArray[np.float32]], labelled: Sequence[int], n: int
) -> list[tuple[int, str]]:
    """Return the places of up to `n` videos to label next, the most useful first, with the reason.

    `views` are the embeddings (T, p) of all videos, `labelled` the places of those with labels.
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
    """Mean distance (N, N) from the moments of video i to the nearest of video j."""
    times = normalised_times(MOMENTS)
    moments = [view[(times * len(view)).astype(int)].astype(np.float64) for view in views]
    some = np.concatenate(moments)
    some = some[:: -(-len(some) // PAIRS)]
    usual = float(np.median(squared_distances(some, some))) or 1.0
    late = squared_distances(times[:, None], times[:, None]) / MEDIAN
    return np.array(
        [
            [(squared_distances(own, other) / usual + late).min(axis=1).mean() for other in moments]
            for own in moments
        ]
    )
