"""Two tasks in one folder: do the videos fall into two groups that show different things?

D_ij is the mean over the moments of video i of 1 - cos to the nearest moment of video j, averaged
over both directions, with moments centred per video. For a split of the videos into two groups,

    log D_ij = m + a_i + a_j + gamma [i and j in different groups] + noise

is fitted by least squares; a_i is how unusual video i is. The videos show two tasks if the t
statistic of gamma, of the best split along the first eigenvector of the residuals without groups,
is far beyond what a split of a single task reaches.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.arithmetic import normalised_times, unit

Floats = NDArray[np.floating[Any]]

MOMENTS = 60
"""Moments that stand for a video, evenly spaced."""
FEWEST = 6
"""With fewer videos, every split fits about as well as the best."""
COMPARED = 40
"""At most this many videos are compared with each other; the rest join the nearer group."""
APART, SCARCE = 2.4, 15.0
"""t / sqrt(videos) from which two groups are two tasks; 1.4 times as high at SCARCE residuals.

Random parts of single tasks (13 recipe columns of CaptainCook4D, knot tying, six toy kitchens)
stay below it in 99 of 100 cases.
"""


def find_groups(videos: Sequence[Floats]) -> list[list[int]]:
    """Return the places of the videos of each of two tasks, larger group first; [] for one task.

    A group has at least two videos: a single video that differs is a deviation. `videos` are
    embeddings (T, p).
    """
    moments = {}
    for place, rows in enumerate(videos):
        if len(rows):
            chosen = (normalised_times(MOMENTS) * len(rows)).astype(int)
            moments[place] = unit(rows[chosen] - rows.mean(axis=0))
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
            np.mean([log_distance(place, o) for o in some if group[o] == side])
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
