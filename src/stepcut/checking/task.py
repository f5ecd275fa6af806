"""Task: detect videos that show another task.

c_k is the mean of step k in the embedding over the training videos, and x_t is frame t. The offset
o is the mean over t of x_t - c_k, with k the step nearest to x_t.

    distance^2 =  mean over the nearer half of the steps k of  1 - max over t of  cos(c_k, x_t - o)
                * mean over all frames t of                    1 - max over k of  cos(c_k, x_t)

A video of another task may look familiar in every frame, because it shows the same kitchen. But it
lacks the moments of this task. A partial video of this task has some of its moments, so only the
nearer half of the steps counts. The offset o corrects the mean for missing steps.

The limit is a quantile of a t-distribution of log distances, each from one training video to the
centres of the others. Each video counts with its largest distance over versions with one step
removed: a video that lacks a step deviates, but still shows this task.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

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
    limit: float
    """Distance beyond which a video shows another task."""

    def distance(self, video: Observed) -> float:
        """Distance of a video from this task, 1 at the limit; 0 without an embedding."""
        if video.embedding is None or not len(self.centres):
            return 0.0
        return _distance(self.centres, video.embedding) / self.limit

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able object."""
        return {
            "centres": [[float(f"{x:.6g}") for x in row] for row in self.centres],
            "limit": self.limit,
        }

    @classmethod
    def from_json(cls, record: dict[str, Any] | None) -> Self:
        """Read the result of `to_json`; None gives a model that accepts every video."""
        if record is None:
            return cls(np.zeros((0, 0)), math.inf)
        centres = np.asarray(record["centres"], dtype=np.float64).reshape(
            len(record["centres"]), -1
        )
        if not (np.abs(centres) <= FARTHEST).all():
            raise ValueError("the centres of the steps are not finite numbers")
        return cls(centres, record["limit"])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TaskModel):
            return NotImplemented
        most = float(np.abs(self.centres).max(initial=0.0))  # files keep six digits
        return self.limit == other.limit and np.allclose(
            self.centres, other.centres, atol=1e-4 * most
        )


def learn_task(
    videos: Sequence[Observed],
    looks: Sequence[tuple[Floats, Floats]] | None = None,
    shortened: Sequence[Sequence[Floats]] = (),
) -> TaskModel:
    """Learn centres from all videos, and the limit from each video's distance to the others.

    looks      per video, the embedding (T, p) and centres (K, p) of a model that has not seen it;
               without them, that of `videos` is used, which underestimates the distance slightly
    shortened  per video, its embeddings with one step removed, by the same model
    """
    whole = [video.embedding for video in videos if video.embedding is not None]
    centres = _centres(videos)
    if len(videos) < 2 or len(whole) < len(videos) or not len(centres):
        return TaskModel.from_json(None)
    others = [
        _centres([*videos[:place], *videos[place + 1 :]])
        for place in range(0 if looks else len(videos))
    ]
    logs = []
    for place, (rows, seen) in enumerate(looks or zip(whole, others, strict=True)):
        parts = [part for part in (shortened[place] if shortened else ()) if len(part)]
        if len(seen):
            logs.append(max(_log_distance(seen, part) for part in (rows, *parts)))
    if not logs:
        return TaskModel.from_json(None)
    return TaskModel(centres, min(math.exp(Scale.of(logs, SPREAD).exceeded_by(RARE)), 1.0))


def _centres(videos: Sequence[Observed]) -> Floats:
    """Mean of each step, (K, p); every video has the same weight."""
    found = grouped(pair for video in videos for pair in (video.prototypes or {}).items())
    return (
        np.array([np.mean(rows, axis=0) for rows in found.values()]) if found else np.zeros((0, 0))
    )


def _distance(centres: Floats, rows: Floats) -> float:
    """Distance between step centres (K, p) and a video (T, p); see the module's equation."""
    beside = rows - (rows - centres[squared_distances(rows, centres).argmin(axis=1)]).mean(axis=0)
    steps = np.sort(_away(beside, centres).min(axis=0))
    return float(
        np.sqrt(steps[: (len(steps) + 1) // 2].mean() * _away(rows, centres).min(axis=1).mean())
    )


def _log_distance(centres: Floats, rows: Floats) -> float:
    return math.log(max(_distance(centres, rows), 1e-6))


def _away(rows: Floats, centres: Floats) -> Floats:
    """1 - cos between rows (T, p) and centres (K, p): (T, K)."""
    return np.asarray(np.maximum(1 - unit(rows) @ unit(centres).T, 0.0))
