"""Inputs: where the camera of a video did not see the task.

It uses the feature rows before any normalisation. All limits come from the reference videos, of
which one may be odd.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepcut.checking.observe import Floats, smooth, some_of
from stepcut.checking.report import Finding
from stepcut.features.features import Features
from stepcut.methods.arithmetic import squared_distances
from stepcut.methods.inputs import Labels
from stepcut.timeline import BACKGROUND, runs

WIDTH = 64
"""Rows are projected to this many numbers."""
STILL = 0.1
"""The picture stands still below this share of the median change between rows."""
JUMP = 2
"""Rows that may change in a still picture."""
MARGIN = 1.5
"""A limit is this many times the second largest value of the reference videos."""
SECONDS, DAMAGED = 2.0, 0.5
"""Least limits: seconds of a still picture, and damaged frames per second."""
FEWEST, MOST = 3, 64
"""Reference videos from which limits are learned; of more, some are taken."""
Number = Annotated[float, msgspec.Meta(ge=0, lt=1e15)]


class Inputs(msgspec.Struct, frozen=True):
    """Limits of normal inputs."""

    means: list[list[Annotated[float, msgspec.Meta(gt=-1e20, lt=1e20)]]]
    """Mean projected row of each reference video."""
    apart: Number
    """Distance from the nearest of `means` beyond which the scene is another one."""
    change: Number
    """Change between rows below which the picture stands still."""
    still: Number
    """Seconds that the picture may stand still."""
    idle: Number
    """Seconds that it may stand still at the beginning or end."""
    quiet: Number
    """Mean change over some seconds, between these, below which the lens may be covered."""
    damaged: Number
    """Damaged frames per second."""


def learn_inputs(videos: Sequence[Features]) -> Inputs | None:
    """Learn the limits from reference videos; None from fewer than `FEWEST`."""
    if len(videos) < FEWEST:
        return None
    rate = float(videos[0].rate)
    rows = [_project(one) for one in some_of(videos, MOST)]
    changes = [np.linalg.norm(np.diff(one, axis=0), axis=1) for one in rows]
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


def check_inputs(video: Features, inputs: Inputs | None) -> list[Finding]:
    """Find where the camera did not see the task."""
    if inputs is None:
        return []
    rows, rate = _project(video), float(video.rate)
    found = _blind(rows, rate, inputs)
    means = np.array(inputs.means)
    if squared_distances(rows.mean(axis=0)[None], means).min() > inputs.apart**2:
        found.append((0, len(rows), "the scene is unlike that of all reference videos"))
    if video.corrupt > inputs.damaged * video.end:
        found.append((0, len(rows), f"{video.corrupt} frames are damaged"))
    return [
        Finding("input", a / rate, min(b / rate, video.end), None, "", 1.0, reason)
        for a, b, reason in found
    ]


def without_blind(labels: Labels, video: Features, inputs: Inputs | None) -> Labels:
    """Return labels (T,) with background where the camera saw nothing, such as a black start."""
    seen = np.array(labels)
    blind = _blind(_project(video), float(video.rate), inputs) if inputs else []
    for a, b, _ in blind:
        seen[a:b] = BACKGROUND
    return seen


def unchecked_inputs(video: Features, inputs: Inputs | None) -> str:
    """What cannot be seen of the input of a video, in a sentence, or ""."""
    if inputs is None:
        return "A frozen picture or covered lens is not detected: learn from three videos or more."
    if video.spec is None or not video.spec.of_videos:
        return "Damaged frames are not detected in features; check the video itself."
    return ""


def _blind(rows: Floats, rate: float, inputs: Inputs) -> list[tuple[int, int, str]]:
    """Stretches of projected rows (T, WIDTH) without change, and why."""
    changes = np.linalg.norm(np.diff(rows, axis=0), axis=1)
    stills = _still(changes, inputs.change)
    found = [
        (a, b + 1, "the picture stands still")
        for a, b, at_edge in stills
        if b - a > (inputs.idle if at_edge else inputs.still) * rate
    ]
    calm = _stretches(_calm(changes, stills, rate) < inputs.quiet)
    return found + [
        (a, b + 1, "the picture hardly changes, as if the lens were covered")
        for a, b in calm
        if b - a >= SECONDS * rate and not any(begin < b and a < end for begin, end, _ in found)
    ]


def _project(video: Features) -> Floats:
    """Rows (T, d) or maps (T, d, h, w) as (T, WIDTH): the first cosines over the channels."""
    rows = np.asarray(video.rows, dtype=np.float64)
    rows = rows.reshape(*rows.shape[:2], -1).mean(axis=2)
    size = rows.shape[1]
    angles = np.outer(np.arange(size) + 0.5, np.arange(1, WIDTH + 1)) * np.pi / size
    return np.asarray(rows if size <= WIDTH else rows @ np.cos(angles))


def _still(changes: Floats, limit: float) -> list[tuple[int, int, bool]]:
    """Stretches without change, and whether each is at an edge of the video.

    A change within `JUMP` rows, as at a key frame, does not count.
    """
    still = changes < limit
    for a, b in _stretches(~still):
        still[a:b] |= b - a <= JUMP and a > 0 and b < len(still)
    return [(a, b, a == 0 or b == len(still)) for a, b in _stretches(still)]


def _calm(changes: Floats, stills: Sequence[tuple[int, int, bool]], rate: float) -> Floats:
    """Smoothed changes; infinite where the picture stands still at an edge of the video."""
    calm = smooth(changes, rate)
    for a, b, at_edge in stills:
        if at_edge:
            calm[a:b] = np.inf
    return calm


def _stretches(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    return [(a, b) for true, a, b in runs(mask.astype(np.int64)).tolist() if true]
