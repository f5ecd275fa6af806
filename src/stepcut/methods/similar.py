"""Which video to label next, by comparing some rows of each."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.arithmetic import Floats, normalised_times, squared_distances

MOMENTS = 60
PAIRS = 2000  # the median of distances is over pairs of at most so many moments
MEDIAN = (1 - 0.5**0.5) ** 2  # of the squared difference of two times between 0 and 1


def suggest(
    views: Sequence[NDArray[np.float32]], labelled: Sequence[int], n: int
) -> list[tuple[int, str]]:
    """Places of up to `n` videos to label next, the most useful first, with the reason.

    Greedy k-medoids: each minimizes the mean distance of all videos, given by their embeddings
    (T, p), to the nearest chosen or `labelled` one.
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
    """Mean distance (N, N) from the moments x (at time t) of video i to the nearest y (at u) of j:

    d(x, y) = |x - y|^2 / median of |x - y|^2  +  (t - u)^2 / median of (t - u)^2
    """
    times = normalised_times(MOMENTS)
    moments = [view[(times * len(view)).astype(int)].astype(np.float64) for view in views]
    some = np.concatenate(moments)
    some = some[:: -(-len(some) // PAIRS)]
    usual = float(np.median(squared_distances(some, some))) or 1.0
    late = squared_distances(times[:, None], times[:, None]) / MEDIAN
    pairs = [
        (squared_distances(own, other) / usual + late).min(axis=1).mean()
        for own in moments
        for other in moments
    ]
    return np.array(pairs).reshape(len(moments), -1)
