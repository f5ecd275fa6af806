"""Discovery without labels: EM from many starts on slow features, and the consensus of all of them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.arithmetic import Floats, normalised_times, squared_distances
from stepcut.methods.baselines.kmeans import find_means
from stepcut.methods.consensus import (
    come_again,
    consensus,
    first_times,
    pairwise_agreement,
)
from stepcut.methods.inputs import Labels
from stepcut.methods.stepcut.chain import build_chain
from stepcut.methods.stepcut.change_points import find_change_points
from stepcut.methods.stepcut.em import EM, Joined
from stepcut.methods.stepcut.slow_features import PER_STEP, noise_ratio, project, slow_axes, smooth
from stepcut.settings import SEEDS
from stepcut.timeline import runs

USUAL, GROWTH = 1.31, 0.35
"""Videos of S seconds usually have USUAL S^GROWTH steps: fitted to nine recipes, surgical knots and toy kitchens."""
LEAST = 3
"""Fewer steps than this are not a procedure."""
PER_WIDTH = 8
"""Independent observations within the width of the Gaussian that smooths features."""
PRESENT = 0.4
"""Share of that width for which a video must show a step to count fully."""
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


def discover(
    videos: Sequence[Floats],
    count: int,
    sigma: float,
    seed: int,
    restarts: int,
    prior: float = 1.0,
    advance: Callable[[], None] = lambda: None,
) -> tuple[list[Labels], float | None]:
    """Segment centred `videos` (T, d), smoothed by `sigma` rows, into `count` steps: (T,) per video.

    Also the mean agreement of the segmentations from different starts, None for a single start.
    """
    em, light, stride = look(videos, count, sigma)
    found = []
    for start in draw_starts(em, light, seed, restarts, time=prior):
        found.append(run(em, start, prior, ITERATIONS))
        advance()
    alike = pairwise_agreement(found, count)
    together = em.videos.split(consensus(found, count, alike))
    number = np.argsort(usual_times(together, count, em.shortest).argsort())
    labels = [
        np.repeat(number[one], stride)[: len(rows)]
        for one, rows in zip(together, videos, strict=True)
    ]
    pairs = alike[np.triu_indices(len(alike), 1)]
    return labels, float(pairs.mean()) if len(pairs) else None


def usual_times(labels: Sequence[Labels], count: int, shortest: float) -> Floats:
    """When each step usually comes, (K,): its mean normalised time, or where most steps repeat, its first one."""
    if come_again([labels], count, shortest):
        return first_times(labels, count)
    times = [
        [normalised_times(len(one))[one == step].mean() for one in labels if (one == step).any()]
        for step in range(count)
    ]
    return np.array([np.mean(one) if one else 1.0 for one in times])


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
    em, light, stride = look(videos, count, sigma)
    starts = draw_starts(em, light, 0, PROBES, time=0.0)
    found = [run(em, start, 0.0, ITERATIONS // 3) for start in starts]
    segments = sum(len(runs(numbers)) for labels in found for numbers in em.videos.split(labels))
    return sum(map(len, found)) / segments * stride / (PER_STEP * sigma)


def look(videos: Sequence[Floats], count: int, sigma: float) -> tuple[EM, list[Floats], int]:
    """EM over centred videos (T, d), smoothed by `sigma` rows on slow axes; the same rows, lightly smoothed; the stride.

    Both have every `stride`-th row. Change points are looked for where rows are lightly smoothed.
    """
    axes = slow_axes(videos, sigma)
    stride = max(1, int(sigma / PER_WIDTH))  # smoothed rows in between add nothing
    slow = [smooth(rows, sigma)[::stride] for rows in videos]
    light = [(smooth(rows, sigma / PER_STEP) @ axes)[::stride] for rows in videos]
    joined = Joined.of(list(project(slow, axes)[1]))
    per_width = max(1.0, sigma) / stride
    em = EM(
        joined,
        [build_chain(None, 1, count)] * len(videos),
        np.full((len(joined.rows), count), 1 / count),
        np.ones(len(joined.rows)),
        stay=1 - 1 / max(2.0, float(np.median([len(rows) for rows in slow])) / count),
        observation=per_width / PER_WIDTH,
        shortest=max(1.0, PRESENT * per_width),
        share=np.full(count, 1 / count),
        prior=0.0,
        isotropic=True,
    )
    return em, light, stride


def run(em: EM, start: Floats, prior: float, iterations: int) -> Labels:
    """EM from the probabilities `start` (R, K); gives the likeliest steps (R,) that it ends with."""
    em = replace(em, posterior=start, prior=prior * PRIOR)
    for _ in range(iterations):
        em.expect(em.maximise())
    return np.asarray(em.posterior.argmax(axis=1))


def draw_starts(
    em: EM, light: Sequence[Floats], seed: int, number: int, time: float
) -> list[Floats]:
    """Probabilities (R, K) of all rows to start from: k-means with the normalised time appended, of weight `time`.

    Two of three cluster the means of segments between change points, where a long step weighs no more than a short
    one; the others cluster all rows.
    """
    count = em.posterior.shape[1]
    bounds = [find_segments(rows, count, em.shortest) for rows in light]
    means, middles = [], []
    for rows, bound in zip(light, bounds, strict=True):
        for first, last in pairwise(bound):
            means.append(rows[first:last].mean(axis=0))
            middles.append((first + last) / 2 / len(rows))
    lengths = np.concatenate([np.diff(bound) for bound in bounds])
    segments = np.column_stack([_unit(np.array(means)), time * np.array(middles)])
    frames = np.column_stack([_unit(em.videos.rows), time * em.videos.times])
    starts = []
    for place in range(number):
        whole = place % 3 == 2 or len(segments) < count
        rows = frames if whole else segments
        draw = (seed * 1000 + place) % (SEEDS + 1)
        centres = find_means(rows.astype(np.float32), count, draw, 1).astype(np.float64)
        labels = squared_distances(rows, centres).argmin(axis=1)
        labels = labels if whole else np.repeat(labels, lengths)
        starts.append(np.eye(count)[labels])
    return starts


def find_segments(rows: Floats, count: int, shortest: float) -> NDArray[np.int64]:
    """Bounds of the segments of one video (T, p) between its change points; a short video has fewer.

    Beyond 60 times the shortest segment each, means of blocks stand for the rows: the search is
    quadratic in the longest segment.
    """
    least, most = max(1, round(shortest)), round(60 * shortest)
    number = max(1, min(round(SEGMENTS * count), len(rows) // least))
    block = 1 if len(rows) <= number * most else -(-2 * len(rows) // (number * most))
    if block == 1:
        return find_change_points(rows, number, least if number > 1 else 1, most)
    starts = np.arange(0, len(rows), block)
    means = np.add.reduceat(rows, starts) / np.diff(starts, append=len(rows))[:, None]
    bounds = find_change_points(means, number, 1, most)
    return np.append(starts, len(rows))[bounds]


def _unit(rows: Floats) -> Floats:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))


def choose_count(
    lengths: Sequence[int], rate: float, limits: tuple[int, int] | None = None
) -> tuple[int, str]:
    """The usual number of steps of videos of so many rows, `rate` a second, and why; within `limits` where given.

    Features do not reveal the number: several ways to choose it from them were no better on test recipes.
    """
    seconds = float(np.median(lengths)) / rate
    usual = USUAL * seconds**GROWTH
    low, high = limits or (LEAST, max(LEAST, sum(lengths) // 4))
    count = int(np.clip(round(usual), low, high))
    count = max(1, min(count, sum(lengths)))
    reason = f"{count} steps, usual for videos of {seconds:.0f} s"
    if limits is not None and count != round(usual):
        reason = (
            f"{count} steps, within {low} to {high}; {round(usual)} are usual for {seconds:.0f} s"
        )
    return count, reason
