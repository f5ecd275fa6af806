"""What no check can judge: a video of another task, or one whose camera did not see the task.

c_k is the mean of step k in the embedding over the reference videos, x_t is frame t, and the
offset o the mean over t of x_t - c_k, with k the step nearest to x_t: it corrects for missing
steps.

    distance^2 =  mean over the nearer half of the steps k of  1 - max over t of  cos(c_k, x_t - o)
                * mean over all frames t of                    1 - max over k of  cos(c_k, x_t)

Only the nearer half counts, as a partial video of this task lacks moments too. The limit is a
quantile of a t-distribution of log distances of reference videos to the centres of the others,
each the largest over versions with one step removed. The camera is judged by rows before
normalisation; of the reference videos, one may be odd.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepcut.checking.report import Finding
from stepcut.checking.usual import Floats, Observed, Scale, smooth, some_of, stretches
from stepcut.features.features import Features
from stepcut.methods.arithmetic import squared_distances, unit
from stepcut.order.orders import grouped

RARE = 0.01  # share of videos of this task that may be classified as another task
TASK_SPREAD = 0.15  # prior spread of log distances
FARTHEST = 1e15  # of embeddings: squares must fit into float32
WIDTH = 64  # rows are projected to this many numbers
STILL = 0.1  # the picture stands still below this share of the median change between rows
JUMP = 2  # rows that may change in a still picture, as at a key frame
MARGIN = 1.5  # a limit is this many times the second largest value of the reference videos
SECONDS, DAMAGED = 2.0, 0.5  # least limits: of a still picture, and of damaged frames per second
FEWEST, MOST = 3, 64  # reference videos from which limits are learned; of more, some are taken
ELSEWHERE = "the scene is unlike that of all reference videos"
Number = Annotated[float, msgspec.Meta(ge=0, lt=FARTHEST)]


@dataclass(frozen=True)
class TaskModel:
    centres: Floats  # mean of each step in the embedding, (K, p)
    limit: Annotated[float, msgspec.Meta(gt=0, lt=FARTHEST)]

    def distance(self, video: Observed) -> float:
        """1 at the limit; 0 without an embedding."""
        if video.embedding is None:
            return 0.0
        return _distance(self.centres, video.embedding) / self.limit


def learn_task(
    videos: Sequence[Observed],
    some: Sequence[int],
    looks: Sequence[tuple[Floats, Floats]] | None,
    shortened: Sequence[Sequence[Floats]],
) -> TaskModel | None:
    """The limit comes from `some` videos, each against the centres of the others.

    looks      embedding (T, p) and centres (K, p) of models that have not seen each video; without
               them, the distance is underestimated slightly
    shortened  of `some`, the embeddings with one step removed, by the same model
    """
    whole = [video.embedding for video in videos if video.embedding is not None]
    means = [_means(video) for video in videos]
    centres = _centres(means)
    if len(videos) < 2 or len(whole) < len(videos) or not len(centres):
        return None
    logs = []
    for place, parts in zip(some, shortened, strict=True):
        others = [*means[:place], *means[place + 1 :]]
        rows, seen = looks[place] if looks else (whole[place], _centres(others))
        if len(seen):
            shown = (rows, *(part for part in parts if len(part)))
            logs.append(math.log(max(1e-6, *(_distance(seen, part) for part in shown))))
    if not logs:
        return None
    limit = math.exp(Scale.of(logs, TASK_SPREAD).exceeded_by(RARE))
    return TaskModel(centres, min(limit, 1.0))


def _means(video: Observed) -> dict[int, Floats]:
    rows, steps = video.embedding, video.labels
    if rows is None:
        return {}
    return {int(k): rows[steps == k].mean(axis=0) for k in np.unique(steps[steps >= 0])}


def _centres(means: Sequence[dict[int, Floats]]) -> Floats:
    found = grouped(pair for one in means for pair in one.items())
    return np.array([np.mean(own, axis=0) for own in found.values()] or np.zeros((0, 0)))


def _distance(centres: Floats, rows: Floats) -> float:
    beside = rows - (rows - centres[squared_distances(rows, centres).argmin(axis=1)]).mean(axis=0)
    steps = np.sort(_away(beside, centres).min(axis=0))
    nearer = steps[: (len(steps) + 1) // 2].mean()
    return float(np.sqrt(nearer * _away(rows, centres).min(axis=1).mean()))


def _away(rows: Floats, centres: Floats) -> Floats:
    """1 - cos between rows (T, p) and centres (K, p): (T, K)."""
    return np.asarray(np.maximum(1 - unit(rows) @ unit(centres).T, 0.0))


# ---------- the camera


class Inputs(msgspec.Struct, frozen=True):
    # Mean projected row of each reference video.
    means: list[list[Annotated[float, msgspec.Meta(gt=-1e20, lt=1e20)]]]
    apart: Number  # distance from the nearest of `means` beyond which the scene is another one
    change: Number  # between rows; below, the picture stands still
    still: Number  # seconds that the picture may stand still
    idle: Number  # the same at the beginning or end
    quiet: Number  # mean change over some seconds, below which the lens may be covered
    damaged: Number  # frames per second


def learn_inputs(videos: Sequence[Features]) -> Inputs | None:
    if len(videos) < FEWEST:
        return None
    rate = float(videos[0].rate)
    rows = [project(one.rows) for one in some_of(videos, MOST)]
    changes = [_changes(one) for one in rows]
    change = STILL * float(np.median(np.concatenate([*changes, [0.0]])))
    means = np.array([one.mean(axis=0) for one in rows])
    apart = squared_distances(means, means)
    np.fill_diagonal(apart, np.inf)
    stills = [_still(one, change) for one in changes]

    def longest(edge: bool) -> float:
        spans = [[b - a for a, b, at_edge in own if at_edge == edge] for own in stills]
        return max(MARGIN * sorted(max(own, default=0) for own in spans)[-2] / rate, SECONDS)

    pairs = zip(changes, stills, strict=True)
    calm = sorted(float(_calm(one, own, rate).min(initial=np.inf)) for one, own in pairs)
    return Inputs(
        means=[[float(f"{x:.5g}") for x in mean] for mean in means],
        apart=MARGIN * float(np.sort(np.sqrt(apart.min(axis=1)))[-2]),
        change=change,
        still=longest(edge=False),
        idle=longest(edge=True),
        quiet=calm[1] / MARGIN if calm[1] < np.inf else 0.0,
        damaged=max(MARGIN * max(one.corrupt / one.end for one in videos), DAMAGED),
    )


class Camera(NamedTuple):
    findings: list[Finding]
    blind: NDArray[np.bool_]  # whether each row shows nothing, (T,); such rows are background
    unchecked: str = ""  # what cannot be seen of the camera, in a sentence


def look(video: Features, inputs: Inputs | None) -> Camera:
    if inputs is None:
        why = "A frozen picture or covered lens is not detected: learn from three videos or more."
        return Camera([], np.zeros(len(video.rows), dtype=bool), why)
    camera = look_at(project(video.rows), float(video.rate), video.end, inputs)
    if video.corrupt > inputs.damaged * video.end:
        why = f"{video.corrupt} frames are damaged"
        camera.findings.append(Finding("input", 0, video.end, None, "", 1.0, why))
    if video.spec is None or not video.spec.of_videos:
        why = "Damaged frames are not detected in features; check the video itself."
        return camera._replace(unchecked=why)
    return camera


def look_at(rows: Floats, rate: float, end: float, inputs: Inputs) -> Camera:
    """Find where projected rows (T, WIDTH) show nothing, or another scene than all references."""
    changes = _changes(rows)
    stills = _still(changes, inputs.change)
    found = [
        (a, b + 1, "the picture stands still")
        for a, b, at_edge in stills
        if b - a > (inputs.idle if at_edge else inputs.still) * rate
    ]
    found += [
        (a, b + 1, "the picture hardly changes, as if the lens were covered")
        for a, b in stretches(_calm(changes, stills, rate) < inputs.quiet)
        if b - a >= SECONDS * rate and not any(begin < b and a < end for begin, end, _ in found)
    ]
    blind = np.zeros(len(rows), dtype=bool)
    for a, b, _ in found:
        blind[a:b] = True
    apart = squared_distances(rows.mean(axis=0)[None], np.array(inputs.means)).min()
    found += [(0, len(rows), ELSEWHERE)] if apart > inputs.apart**2 else []
    spans = ((a / rate, min(b / rate, end), why) for a, b, why in found)
    return Camera([Finding("input", a, b, None, "", 1.0, why) for a, b, why in spans], blind)


def project(rows: NDArray[Any]) -> Floats:
    """Rows (T, d) or maps (T, d, h, w) as (T, WIDTH): the first cosines over the channels."""
    rows = np.asarray(rows, dtype=np.float64)
    rows = rows.reshape(*rows.shape[:2], -1).mean(axis=2)
    return np.asarray(rows if rows.shape[1] <= WIDTH else rows @ _cosines(rows.shape[1]))


@cache
def _cosines(size: int) -> Floats:
    return np.cos(np.outer(np.arange(size) + 0.5, np.arange(1, WIDTH + 1)) * np.pi / size)


def _changes(rows: Floats) -> Floats:
    return np.asarray(np.linalg.norm(np.diff(rows, axis=0), axis=1))


def _still(changes: Floats, limit: float) -> list[tuple[int, int, bool]]:
    """Stretches without change, and whether each is at an edge of the video."""
    still = changes < limit
    for a, b in stretches(~still):
        still[a:b] |= b - a <= JUMP and a > 0 and b < len(still)
    return [(a, b, a == 0 or b == len(still)) for a, b in stretches(still)]


def _calm(changes: Floats, stills: Sequence[tuple[int, int, bool]], rate: float) -> Floats:
    """Smoothed changes; infinite where the picture stands still at an edge of the video."""
    calm = smooth(changes, rate)
    for a, b, at_edge in stills:
        calm[a:b] = np.inf if at_edge else calm[a:b]
    return calm
