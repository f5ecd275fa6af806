"""Task: detect videos that show another task.

c_k is the mean of step k in the embedding over the reference videos, and x_t is frame t. The offset
o is the mean over t of x_t - c_k, with k the step nearest to x_t.

    distance^2 =  mean over the nearer half of the steps k of  1 - max over t of  cos(c_k, x_t - o)
                * mean over all frames t of                    1 - max over k of  cos(c_k, x_t)

A video of another task in the same kitchen lacks the moments of this task; a partial video of this
task has some, so only the nearer half of the steps counts. The offset o corrects for missing steps.

The limit is a quantile of a t-distribution of log distances of reference videos to the centres of
the others. Each counts with its largest distance over versions with one step removed, which still
show this task. A video that shows all usual steps is never called another task (`check`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np

from stepcut.checking.observe import Floats, Observed
from stepcut.checking.usual import Scale
from stepcut.methods.arithmetic import squared_distances, unit
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
