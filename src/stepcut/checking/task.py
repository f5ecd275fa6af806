"""Whether a video shows this task at all: do the steps have a moment in it, and do its moments look like the steps.

With c_k the mean direction of step k in the embedding, over the videos learned from, and x_t the direction of frame t,

    distance^2 =  mean over the nearer half of the steps k of  1 - max over t of  cos(c_k, x_t)
                * mean over all frames t of                    1 - max over k of  cos(c_k, x_t)

A video of another task may look familiar in every frame, for it is the same kitchen; but it lacks the moments of this
task. A part of this task has its own moments, and what it lacks does not count. The limit is that of a t-distribution
of the log distances of the videos learned from, each to the centres of the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepcut.checking.observe import Floats, Observed, unit
from stepcut.checking.usual import Scale

RARE = 0.01
"""The share of videos of this task that may be taken for another."""
SPREAD = 0.15
"""The spread of log distances that is believed before any video is seen, as `Scale` counts it."""


@dataclass(frozen=True)
class TaskModel:
    """What the steps look like, and how far the videos learned from are from the others."""

    centres: Floats
    """(K, p), of length 1."""
    limit: float
    """The distance beyond which a video shows another task."""

    def distance(self, video: Observed) -> float:
        """How far a video is from this task, 1 at the limit; 0 where it cannot be told."""
        if video.directions is None or not len(self.centres):
            return 0.0
        return _distance(self.centres, video.directions) / self.limit

    def to_json(self) -> dict[str, Any]:
        """A JSON-able object."""
        return {"centres": np.round(self.centres, 5).tolist(), "limit": self.limit}

    @classmethod
    def from_json(cls, record: dict[str, Any] | None) -> TaskModel:
        """What `to_json` gave, read again; without it, nothing is ever another task."""
        if record is None:
            return cls(np.zeros((0, 0)), math.inf)
        centres = np.asarray(record["centres"], dtype=np.float64).reshape(len(record["centres"]), -1)
        if not (np.abs(centres) <= 1.001).all():
            raise ValueError("the looks of the steps are not of length 1")
        return cls(centres, record["limit"])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TaskModel):
            return NotImplemented
        return self.limit == other.limit and np.allclose(self.centres, other.centres, atol=1e-4)


def learn_task(videos: Sequence[Observed], looks: Sequence[tuple[Floats, Floats]] | None = None) -> TaskModel:
    """Centres from all videos; the limit from the distance of each to the centres of the others.

    videos  those learned from
    looks   of each, the embedding (T, p) and the centres of the steps (K, p) by a model that has not seen it; without
            them its embedding is that of `videos`, a little nearer than a new video's
    """
    if len(videos) < 2 or any(video.directions is None for video in videos):
        return TaskModel.from_json(None)
    pairs: list[tuple[Floats, Floats | None]] = [(unit(centres), unit(rows)) for rows, centres in looks or ()]
    if not pairs:
        others = [_centres([*videos[:place], *videos[place + 1 :]]) for place in range(len(videos))]
        pairs = [(centres, video.directions) for centres, video in zip(others, videos, strict=True)]
    logs = [
        math.log(max(_distance(centres, directions), 1e-6))
        for centres, directions in pairs
        if directions is not None and len(centres)
    ]
    if not logs:
        return TaskModel.from_json(None)
    limit = math.exp(Scale.of(logs, SPREAD).exceeded_by(RARE))
    return TaskModel(_centres(videos), min(limit, 1.0))


def _centres(videos: Sequence[Observed]) -> Floats:
    """(K, p): every video counts once in the mean of each step it does."""
    found: dict[int, list[Floats]] = {}
    for video in videos:
        for step, row in (video.prototypes or {}).items():
            found.setdefault(step, []).append(row)
    return unit(np.array([np.mean(rows, axis=0) for rows in found.values()])) if found else np.zeros((0, 0))


def _distance(centres: Floats, directions: Floats) -> float:
    """The geometric mean of how far the nearer half of the steps are from the video, and its frames from the steps."""
    away = np.maximum(1 - centres @ directions.T, 0.0)
    nearest = np.sort(away.min(axis=1))
    return float(np.sqrt(nearest[: (len(nearest) + 1) // 2].mean() * away.min(axis=0).mean()))
