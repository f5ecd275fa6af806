"""Compare videos by some rows of each: which to label next, and do they show two tasks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.arithmetic import Floats, normalised_times, squared_distances, unit

MOMENTS = 60
PAIRS = 2000  # the median of distances is over pairs of at most so many moments
MEDIAN = (1 - 0.5**0.5) ** 2  # of the squared difference of two times between 0 and 1
FEWEST = 6  # with fewer videos, every split into two groups fits about as well as the best
COMPARED = 40  # most videos that are compared; the rest join the nearer group
# t / sqrt(videos) from which two groups are two tasks; 1.4 times as high at SCARCE residuals.
# Single tasks (13 recipe columns, knots, six toy kitchens) stay below it in 99 of 100 cases
APART, SCARCE = 2.4, 15.0


def _moments(rows: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(rows[(normalised_times(MOMENTS) * len(rows)).astype(int)])


# ---------- which video to label next


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
    moments = [_moments(view).astype(np.float64) for view in views]
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


# ---------- two tasks in one folder


def find_groups(videos: Sequence[NDArray[Any]]) -> list[list[int]]:
    """Places of the videos of each of two tasks, larger group first; [] for one task.

    D_ij is the mean over the moments of video i of 1 - cos to the nearest moment of video j, both
    ways, with moments centred per video. For a split into two groups,

        log D_ij = m + a_i + a_j + gamma [i and j in different groups] + noise

    is fitted by least squares; a_i is how unusual video i is. Two tasks: the t statistic of gamma,
    of the best split along the first eigenvector of the residuals without groups, is far beyond
    what splits of one task reach. A single video that differs is a deviation, not a group.
    """
    shown = ((place, rows) for place, rows in enumerate(videos) if len(rows))
    moments = {place: unit(_moments(rows - rows.mean(axis=0))) for place, rows in shown}
    few = np.linspace(0, len(moments) - 1, min(COMPARED, len(moments))).round().astype(int)
    some = [list(moments)[place] for place in few]
    if len(some) < FEWEST:
        return []

    def log_distance(one: int, other: int) -> float:
        away = np.maximum(1 - moments[one] @ moments[other].T, 1e-6)
        return float(np.log((away.min(axis=0).mean() + away.min(axis=1).mean()) / 2))

    logs = np.zeros((len(some), len(some)))
    for one, first in enumerate(some):
        for two, second in enumerate(some[:one]):
            logs[one, two] = logs[two, one] = log_distance(first, second)
    split, statistic = _best_split(logs)
    if statistic < APART * np.sqrt(1 + SCARCE / _residuals(len(some))):
        return []
    group = dict(zip(some, split.tolist(), strict=True))
    for place in set(moments) - set(some):
        near = [
            np.mean([log_distance(place, other) for other in some if group[other] == side])
            for side in (False, True)
        ]
        group[place] = bool(near[1] < near[0])
    groups = [[place for place in moments if group[place] == side] for side in (False, True)]
    return sorted(groups, key=len, reverse=True)


def _best_split(logs: Floats) -> tuple[NDArray[np.bool_], float]:
    """The split (N,) with the largest t / sqrt(N), and this number, from log distances (N, N)."""
    number = len(logs)
    left = _without_videos(logs)
    order = np.argsort(np.linalg.eigh(-left)[1][:, -1])
    best, highest = np.zeros(number, dtype=bool), 0.0
    for size in range(2, number - 1):
        split = np.isin(np.arange(number), order[:size])
        apart = _without_videos((split[:, None] != split).astype(np.float64))
        gamma = (left * apart).sum() / (apart**2).sum()
        noise = ((left - gamma * apart) ** 2).sum() / 2 / _residuals(number)
        t = float(gamma * np.sqrt((apart**2).sum() / 2 / max(noise, 1e-12)))
        if t > highest:
            best, highest = split, t
    return best, highest / np.sqrt(number)


def _without_videos(pairs: Floats) -> Floats:
    """Remove m + a_i + a_j, by least squares over i != j, from a symmetric matrix (N, N)."""
    number, off = len(pairs), ~np.eye(len(pairs), dtype=bool)
    mean = float(pairs[off].mean())
    unusual = ((pairs * off).sum(axis=1) / (number - 1) - mean) * (number - 1) / (number - 2)
    return np.asarray((pairs - mean - unusual[:, None] - unusual) * off)


def _residuals(number: int) -> float:
    """Degrees of freedom: pairs of videos without m, gamma and the free a_i."""
    return number * (number - 3) / 2 - 1
