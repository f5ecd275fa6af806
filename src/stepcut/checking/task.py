"""Task: detect videos that show another task, and two tasks among the reference videos.

c_k is the mean of step k in the embedding over the reference videos, and x_t is frame t. The offset
o is the mean over t of x_t - c_k, with k the step nearest to x_t.

    distance^2 =  mean over the nearer half of the steps k of  1 - max over t of  cos(c_k, x_t - o)
                * mean over all frames t of                    1 - max over k of  cos(c_k, x_t)

A video of another task may look familiar in every frame, because it shows the same kitchen. But it
lacks the moments of this task. A partial video of this task has some of its moments, so only the
nearer half of the steps counts. The offset o corrects the mean for missing steps.

The limit is a quantile of a t-distribution of log distances, each from one reference video to the
centres of the others. Each video counts with its largest distance over versions with one step
removed: a video that lacks a step deviates, but still shows this task. A video that shows all
usual steps is never called another task (`check`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepcut.checking.observe import Floats, Observed, some_of
from stepcut.checking.usual import Scale
from stepcut.methods.arithmetic import normalised_times, squared_distances, unit
from stepcut.order.orders import grouped

RARE = 0.01
"""Share of videos of this task that may be classified as another task."""
SPREAD = 0.15
"""Prior spread of log distances, see `Scale`."""
FARTHEST = 1e15
"""Larger embeddings mean a damaged file; squares must fit into float32."""


@dataclass(frozen=True)
class TaskModel:
    """The mean of each step in the embedding, and the limit of the distance."""

    centres: Floats
    """(K, p)"""
    limit: Annotated[float, msgspec.Meta(gt=0, lt=FARTHEST)]
    """Distance beyond which a video shows another task."""

    def __post_init__(self) -> None:
        if self.centres.ndim != 2 or not (np.abs(self.centres) <= FARTHEST).all():
            raise ValueError("the centres of the steps are not finite numbers")

    def distance(self, video: Observed) -> float:
        """Distance of a video from this task, 1 at the limit; 0 without an embedding."""
        if video.embedding is None:
            return 0.0
        return _distance(self.centres, video.embedding) / self.limit

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TaskModel):
            return NotImplemented
        most = float(np.abs(self.centres).max(initial=0.0))  # files keep six digits
        return self.limit == other.limit and np.allclose(
            self.centres, other.centres, atol=1e-4 * most
        )


def learn_task(
    videos: Sequence[Observed],
    some: Sequence[int],
    looks: Sequence[tuple[Floats, Floats]] | None = None,
    shortened: Sequence[Sequence[Floats]] = (),
) -> TaskModel | None:
    """Learn centres from all videos, and the limit from the distance of some to the others.

    some       the places of the videos whose distance to the others is measured
    looks      per video, the embedding (T, p) and centres (K, p) of a model that has not seen it;
               without them, that of `videos` is used, which underestimates the distance slightly
    shortened  per video at these places, its embeddings with one step removed, by the same model
    """
    whole = [video.embedding for video in videos if video.embedding is not None]
    means = [_means(video) for video in videos]
    centres = _centres(means)
    if len(videos) < 2 or len(whole) < len(videos) or not len(centres):
        return None
    logs = []
    for number, place in enumerate(some):
        if looks:
            rows, seen = looks[place]
        else:
            rows, seen = whole[place], _centres([*means[:place], *means[place + 1 :]])
        parts = [part for part in (shortened[number] if shortened else ()) if len(part)]
        if len(seen):
            logs.append(max(_log_distance(seen, part) for part in (rows, *parts)))
    if not logs:
        return None
    return TaskModel(centres, min(math.exp(Scale.of(logs, SPREAD).exceeded_by(RARE)), 1.0))


def _means(video: Observed) -> dict[int, Floats]:
    """Mean embedding (p,) of each step that a video shows."""
    rows, steps = video.embedding, video.labels
    if rows is None:
        return {}
    return {int(k): rows[steps == k].mean(axis=0) for k in np.unique(steps[steps >= 0])}


def _centres(means: Sequence[dict[int, Floats]]) -> Floats:
    """Mean of each step, (K, p); every video has the same weight."""
    found = grouped(pair for one in means for pair in one.items())
    rows = [np.mean(own, axis=0) for own in found.values()]
    return np.array(rows) if rows else np.zeros((0, 0))


def _distance(centres: Floats, rows: Floats) -> float:
    """Distance between step centres (K, p) and a video (T, p); see the module's equation."""
    beside = rows - (rows - centres[squared_distances(rows, centres).argmin(axis=1)]).mean(axis=0)
    steps = np.sort(_away(beside, centres).min(axis=0))
    nearer = steps[: (len(steps) + 1) // 2].mean()
    return float(np.sqrt(nearer * _away(rows, centres).min(axis=1).mean()))


def _log_distance(centres: Floats, rows: Floats) -> float:
    return math.log(max(_distance(centres, rows), 1e-6))


def _away(rows: Floats, centres: Floats) -> Floats:
    """1 - cos between rows (T, p) and centres (K, p): (T, K)."""
    return np.asarray(np.maximum(1 - unit(rows) @ unit(centres).T, 0.0))


# ------------------------------------------------------------------ two tasks in one folder
#
# D_ij is the mean over the moments of video i of 1 - cos to the nearest moment of video j, averaged
# over both directions, with moments centred per video. For a split of the videos into two groups,
#
#     log D_ij = m + a_i + a_j + gamma [i and j in different groups] + noise
#
# is fitted by least squares; a_i is how unusual video i is. The videos show two tasks if the t
# statistic of gamma, of the best split along the first eigenvector of the residuals without groups,
# is far beyond what a split of a single task reaches.

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


def find_groups(videos: Sequence[Observed]) -> list[list[int]]:
    """Return the places of the videos of each of two tasks, larger group first; [] for one task.

    A group has at least two videos: a single video that differs is a deviation.
    """
    moments = {}
    for place, video in enumerate(videos):
        if (rows := video.embedding) is not None:
            chosen = (normalised_times(MOMENTS) * len(rows)).astype(int)
            moments[place] = unit(rows[chosen] - rows.mean(axis=0))
    some = some_of(list(moments), COMPARED)
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
