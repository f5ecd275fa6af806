"""Whether a video shows this task at all: do the steps have a moment in it, and do its moments look
like the steps.

With c_k the mean of step k in the embedding, over the videos learned from, x_t frame t, and o how
far its frames lie beside the steps in the mean, the mean over t of x_t - c_k with k the step
nearest to x_t,

    distance^2 =  mean over the nearer half of the steps k of  1 - max over t of  cos(c_k, x_t - o)
                * mean over all frames t of                    1 - max over k of  cos(c_k, x_t)

A video of another task may look familiar in every frame, for it is the same kitchen; but it lacks
the moments of this task. A part of this task has its own moments, and what it lacks does not count,
nor that its mean is another one where steps are missing (o). The limit is that of a t-distribution
of log distances, of each video learned from to the centres of the others, and as much more as it
lies farther off without the step that it can spare least: a video that lacks a step deviates, and
is still of this task.

The same distance tells two tasks in one folder apart: between any two videos, from the steps of one
to the frames of the other and back, videos are joined into two groups by average linkage. They are
two tasks where the mean log distance between the groups exceeds that within them by APART spreads
of the latter.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from stepcut.checking.observe import Floats, Observed, some_of
from stepcut.checking.usual import Scale
from stepcut.methods.arithmetic import squared_distances, unit
from stepcut.order.orders import grouped

RARE = 0.01
"""The share of videos of this task that may be taken for another."""
SPREAD = 0.15
"""The spread of log distances that is believed before any video is seen, as `Scale` counts it."""
APART = 1.3
"""By how many spreads two groups of videos must be apart to be called two tasks."""
COMPARED = 40
"""Of more videos than this, as many are compared with each other, and the others put to the nearer
group."""
FARTHEST = 1e15
"""No embedding is larger, for squares must fit into float32; a file that says so is damaged."""


@dataclass(frozen=True)
class TaskModel:
    """What the steps look like, and how far the videos learned from are from the others."""

    centres: Floats
    """(K, p)"""
    limit: float
    """The distance beyond which a video shows another task."""

    def distance(self, video: Observed) -> float:
        """How far a video is from this task, 1 at the limit; 0 where it cannot be told."""
        if video.embedding is None or not len(self.centres):
            return 0.0
        return _distance(self.centres, video.embedding) / self.limit

    def to_json(self) -> dict[str, Any]:
        """A JSON-able object."""
        return {
            "centres": [[float(f"{x:.6g}") for x in row] for row in self.centres],
            "limit": self.limit,
        }

    @classmethod
    def from_json(cls, record: dict[str, Any] | None) -> Self:
        """What `to_json` gave, read again; without it, nothing is ever another task."""
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
    """Centres from all videos; the limit from the distance of each to the centres of the others.

    videos     those learned from
    looks      of each, the embedding (T, p) and the centres of the steps (K, p) by a model that has
               not seen it; without them its embedding is that of `videos`, a little nearer than a
               new video's
    shortened  of each, its embedding with one step or another removed, by the same model
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


def find_groups(videos: Sequence[Observed]) -> list[list[int]]:
    """The places of the videos of each of two tasks, the larger group first; nothing where they
    seem to be one task.

    A group has at least two videos: a single one that differs is a deviation.
    """
    known = [place for place, video in enumerate(videos) if video.prototypes]
    some = some_of(known, COMPARED)
    if len(some) < 4:
        return []
    steps = {place: np.array(list((videos[place].prototypes or {}).values())) for place in known}

    def apart(one: int, two: int) -> float:
        """The mean log distance of two videos, from the steps of each to the frames of the
        other."""
        rows = [np.asarray(videos[place].embedding) for place in (one, two)]
        return (_log_distance(steps[one], rows[1]) + _log_distance(steps[two], rows[0])) / 2

    pairs = list(combinations(some, 2))
    logs = np.array([apart(*pair) for pair in pairs])
    joined = fcluster(linkage(np.exp(logs), "average"), 2, "maxclust")
    group = dict(zip(some, joined.tolist(), strict=True))
    same = np.array([group[one] == group[two] for one, two in pairs])
    if min(Counter(group.values()).values()) < 2 or len(set(group.values())) < 2:
        return []
    if logs[~same].mean() - logs[same].mean() < APART * logs[same].std():
        return []
    for place in set(known) - set(some):
        near = {
            key: [apart(place, other) for other in some if group[other] == key] for key in (1, 2)
        }
        group[place] = min(near, key=lambda key: float(np.mean(near[key])))
    groups = [[place for place in known if group[place] == key] for key in (1, 2)]
    return sorted(groups, key=len, reverse=True)


def _centres(videos: Sequence[Observed]) -> Floats:
    """(K, p): every video counts once in the mean of each step it does."""
    found = grouped(pair for video in videos for pair in (video.prototypes or {}).items())
    return (
        np.array([np.mean(rows, axis=0) for rows in found.values()]) if found else np.zeros((0, 0))
    )


def _distance(centres: Floats, rows: Floats) -> float:
    """The geometric mean of how far the nearer half of the steps (K, p) are from the video (T, p),
    and its frames from the steps."""
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
