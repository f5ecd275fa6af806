"""Discovery without labels: EM from many starts on slow features, and the consensus of all of them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stepcut.checks import SEEDS
from stepcut.methods.arithmetic import Floats, normalised_times, one_hot, squared_distances
from stepcut.methods.baselines.kmeans import find_means
from stepcut.methods.inputs import Labels
from stepcut.methods.stepcut.chain import build_chain
from stepcut.methods.stepcut.change_points import find_change_points
from stepcut.methods.stepcut.consensus import (
    come_again,
    consensus,
    first_times,
    majority,
)
from stepcut.methods.stepcut.em import EM, Joined
from stepcut.methods.stepcut.slow_features import (
    PER_STEP,
    noise_ratio,
    project,
    slow_axes,
    smooth,
)
from stepcut.timeline import runs

PER_WIDTH = 8
"""Independent observations within that width."""
SEGMENTS = 1.5
"""Segments per step between the change points of a start."""
ITERATIONS = 12
"""Iterations of EM from each start."""
PRIOR = 2.0
"""Weight of the time density against one independent observation."""
HALVINGS = 3
"""How often the width may be halved to look for short segments."""
PROBES = 6
"""Restarts, without any time, that measure how long segments are at a width."""


@dataclass(frozen=True)
class Views:
    """Videos as the restarts see them at one width."""

    joined: Joined
    """Smoothed, on slow axes, softly normalised; every `stride`-th row."""
    light: list[Floats]
    """Lightly smoothed, on the same axes, every `stride`-th row: where change points are looked for."""
    stride: int
    shortest: float
    """Rows, of those used, that a step must last to count as present."""
    stay: float
    """Probability that a step continues in the next of these rows."""
    observation: float
    """How many of these rows count as one independent observation."""


def discover(
    videos: Sequence[Floats],
    count: int,
    sigma: float,
    seed: int,
    restarts: int,
    prior: float = 1.0,
    advance: Callable[[], None] = lambda: None,
) -> list[Labels]:
    """Segment `videos`, (T, d) and centred, into `count` steps: (T,) per video.

    `sigma` is the width of the Gaussian over time, in rows; `prior` weighs when steps come, 1 as usual; `advance` is
    called after every restart.
    """
    views = look(videos, count, sigma)
    found = []
    for start in draw_starts(views, count, seed, restarts, time=prior):
        found.append(majority(run(views, start, prior, ITERATIONS)))
        advance()
    together = views.joined.split(majority(consensus(found, count)))
    number = np.append(np.argsort(usual_times(together, count, views.shortest).argsort()), -1)
    return [
        np.repeat(number[labels], views.stride)[: len(rows)]
        for labels, rows in zip(together, videos, strict=True)
    ]


def usual_times(labels: Sequence[Labels], count: int, shortest: float) -> Floats:
    """Return the usual time of each step, (K,): the mean over videos of its normalised time.

    If most steps repeat, it is the median of their first times, because the means are alike.
    """
    if come_again([labels], count, shortest):
        return first_times(labels, count)
    times = np.full((len(labels), count), np.nan)
    for place, numbers in enumerate(labels):
        along = normalised_times(len(numbers))
        for step in np.unique(numbers[numbers >= 0]):
            times[place, step] = along[numbers == step].mean()
    shown = (~np.isnan(times)).sum(axis=0)
    return np.where(shown > 0, np.nansum(times, axis=0) / np.maximum(shown, 1), 1.0)


def choose_width(videos: Sequence[Floats], count: int) -> float:
    """The width in rows of the Gaussian that smooths centred `videos` (T, d).

        sigma = L / 4  min(1, sqrt(n / s)),   L = median length / count,   n / s the noise ratio over L / 16.

    Smoothing leaves noise as 1 / sigma and blurs the ends of a step as sigma; their sum is least where sigma goes with
    sqrt(n / s). Actions that repeat last less than L. Then segments are shorter than supposed at half the width, or at
    half of that, and the width becomes half of the narrowest one of which this is true.
    """
    most = float(np.median([len(rows) for rows in videos])) / (PER_STEP * count)
    sigma = max(1 / PER_STEP, most * min(1.0, math.sqrt(noise_ratio(videos, most / 4))))
    # An observation less than supposed may be chance.
    wide = [
        halvings
        for halvings in range(1, HALVINGS + 1)
        if relative_length(videos, count, sigma / 2**halvings) < 1 - 1 / PER_WIDTH
    ]
    return sigma / 2 ** (1 + wide[-1]) if wide else sigma


def relative_length(videos: Sequence[Floats], count: int, sigma: float) -> float:
    """How long segments of centred videos last, as a multiple of what a width of `sigma` rows supposes."""
    views = look(videos, count, sigma)
    starts = draw_starts(views, count, 0, PROBES, time=0.0)
    found = [majority(run(views, start, 0.0, ITERATIONS // 3)) for start in starts]
    segments = sum(len(runs(numbers)) for labels in found for numbers in views.joined.split(labels))
    return sum(map(len, found)) / segments * views.stride / (PER_STEP * sigma)


def look(videos: Sequence[Floats], count: int, sigma: float) -> Views:
    """Centred videos (T, d), smoothed by `sigma` rows, on slow axes."""
    axes = slow_axes(videos, sigma)
    stride = max(1, int(sigma / PER_WIDTH))  # smoothed rows in between add nothing
    slow = [smooth(rows, sigma)[::stride] for rows in videos]
    light = [(smooth(rows, sigma / 4) @ axes)[::stride] for rows in videos]
    joined = Joined.of(list(project(slow, axes)[1]))
    lasts = max(2.0, float(np.median([len(rows) for rows in slow])) / count)
    per_width = max(1.0, sigma) / stride
    return Views(
        joined, light, stride, max(1.0, 0.4 * per_width), 1 - 1 / lasts, per_width / PER_WIDTH
    )


def run(views: Views, start: Floats, prior: float, iterations: int) -> Floats:
    """EM from the probabilities `start` (R, K); gives those it ends with."""
    count = start.shape[1]
    free = build_chain(None, 1, count)
    em = EM(
        views.joined,
        [free] * len(views.joined.starts),
        start,
        np.ones(len(start)),
        stay=views.stay,
        observation=views.observation,
        shortest=views.shortest,
        share=np.full(count, 1 / count),
        prior=prior * PRIOR,
        isotropic=True,
    )
    for _ in range(iterations):
        em.expect(em.maximise())
    return em.posterior


def draw_starts(views: Views, count: int, seed: int, number: int, time: float) -> list[Floats]:
    """Probabilities (R, K) of all rows to start from: k-means with the normalised time appended, of weight `time`.

    Two of three cluster the means of segments between change points, where a long step weighs no more than a short
    one; the others cluster all rows.
    """
    bounds = [find_segments(rows, count, views.shortest) for rows in views.light]
    means, middles = [], []
    for rows, bound in zip(views.light, bounds, strict=True):
        for first, last in pairwise(bound):
            means.append(rows[first:last].mean(axis=0))
            middles.append((first + last) / 2 / len(rows))
    lengths = np.concatenate([np.diff(bound) for bound in bounds])
    segments = np.column_stack([_unit(np.array(means)), time * np.array(middles)])
    frames = np.column_stack([_unit(views.joined.rows), time * views.joined.times])
    starts = []
    for place in range(number):
        whole = place % 3 == 2 or len(segments) < count
        rows = frames if whole else segments
        draw = (seed * 1000 + place) % (SEEDS + 1)
        centres = find_means(rows.astype(np.float32), count, draw, 1).astype(np.float64)
        labels = squared_distances(rows, centres).argmin(axis=1)
        labels = labels if whole else np.repeat(labels, lengths)
        starts.append(one_hot(labels, count).astype(np.float64))
    return starts


def find_segments(rows: Floats, count: int, shortest: float) -> NDArray[np.int64]:
    """Bounds of the segments of one video (T, p) between its change points; a short video has fewer."""
    least = max(1, round(shortest))
    number = max(1, min(round(SEGMENTS * count), len(rows) // least))
    longest = max(round(60 * shortest), -(-len(rows) // number))
    return find_change_points(rows, number, least if number > 1 else 1, longest)


def _unit(rows: Floats) -> Floats:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))
