"""Discovery without labels: EM from many starts on slow features, and their consensus."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import OptionError
from stepcut.methods.arithmetic import Floats, best_pairs, normalised_times, squared_distances
from stepcut.methods.baselines import find_means
from stepcut.methods.inputs import Labels
from stepcut.methods.stepcut.chain import build_chain
from stepcut.methods.stepcut.em import EM, Joined
from stepcut.methods.stepcut.slow_features import PER_STEP, noise_ratio, project, slow_axes, smooth
from stepcut.parallel import compiled_later
from stepcut.settings import SEEDS
from stepcut.timeline import runs

# Videos of S seconds usually have USUAL S^GROWTH steps: fitted to recipes, knots, toy kitchens
USUAL, GROWTH = 1.31, 0.35
LEAST = 3  # fewer steps are not a procedure
PER_WIDTH = 8  # independent observations within the width of the Gaussian
PRESENT = 0.4  # share of that width for which a video must show a step to count fully
SEGMENTS = 1.5  # per step, between the change points of a start
ITERATIONS = 12  # of EM from each start
PRIOR = 2.0  # of the time density, against one independent observation
HALVINGS = 3  # how often the width may be halved to look for short segments
PROBES = 6  # restarts, without any time, that measure how long segments are at a width


def discover(
    videos: Sequence[Floats],
    count: int,
    sigma: float,
    seed: int,
    restarts: int,
    prior: float,
    advance: Callable[[], None],
) -> tuple[list[Labels], float | None]:
    """Segment centred `videos` (T, d), smoothed by `sigma` rows, into `count` steps: (T,) each.

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


def look(videos: Sequence[Floats], count: int, sigma: float) -> tuple[EM, list[Floats], int]:
    """EM over smoothed videos on slow axes; rows smoothed less, for change points; the stride."""
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
    """Run EM from the probabilities `start` (R, K) to the likeliest steps (R,)."""
    em = replace(em, posterior=start, prior=prior * PRIOR)
    for _ in range(iterations):
        em.expect(em.maximise())
    return np.asarray(em.posterior.argmax(axis=1))


def draw_starts(
    em: EM, light: Sequence[Floats], seed: int, number: int, time: float
) -> list[Floats]:
    """Probabilities (R, K) of all rows: k-means with normalised time appended, of weight `time`.

    Two of three cluster the means of segments between change points, where long and short steps
    weigh the same; the others cluster all rows.
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
        starts.append(np.eye(count)[labels if whole else np.repeat(labels, lengths)])
    return starts


def _unit(rows: Floats) -> Floats:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))


# ---------- consensus


def overlap(a: Labels, b: Labels, steps: int) -> Floats:
    """F1 between every step of `a` and of `b`: (K, K); -1 is in neither."""
    both = (a >= 0) & (b >= 0)
    counts = np.zeros((steps, steps))
    np.add.at(counts, (a[both], b[both]), 1)
    ours, theirs = (np.bincount(one[one >= 0], minlength=steps) for one in (a, b))
    return np.asarray(2 * counts / np.maximum(ours[:, None] + theirs, 1))


def pair_steps(gain: Floats) -> tuple[list[int], list[int]]:
    """Rows and columns of a square `gain`, paired so that the sum is highest."""
    rows, columns = zip(*best_pairs(gain, least=-math.inf), strict=True)
    return list(rows), list(columns)


def agreement(a: Labels, b: Labels, steps: int) -> float:
    """0 to 1: mean F1 when every step of one is paired with one of the other."""
    gain = overlap(a, b, steps)
    return float(gain[pair_steps(gain)].mean())


def pairwise_agreement(segmentations: Sequence[Labels], steps: int) -> Floats:
    alike = np.eye(len(segmentations))
    for (i, one), (j, other) in combinations(enumerate(segmentations), 2):
        alike[i, j] = alike[j, i] = agreement(one, other, steps)
    return alike


def consensus(segmentations: Sequence[Labels], steps: int, alike: Floats) -> Labels:
    """(T,): the step with most votes, once all segmentations (T,) number their steps alike.

    Numbered after the one most like all others, by their pairwise agreement `alike` (n, n), then
    after the vote of all, up to five times.
    """
    common = segmentations[int(np.argmax(alike.sum(axis=1)))]
    for _ in range(5):
        votes = np.zeros((len(common), steps))
        for one in segmentations:
            rows, columns = pair_steps(overlap(common, one, steps))
            number = np.empty(steps, dtype=np.int64)
            number[columns] = rows
            votes[np.arange(len(one)), number[one]] += 1
        before, common = common, votes.argmax(axis=1)
        if (before == common).all():
            break
    return common


def usual_times(labels: Sequence[Labels], count: int, shortest: float) -> Floats:
    # In cyclic tasks all steps have the same mean time; their first times give the order.
    if come_again(labels, count, shortest):
        return first_times(labels, count)
    times = [
        [normalised_times(len(one))[one == step].mean() for one in labels if (one == step).any()]
        for step in range(count)
    ]
    return np.array([np.mean(one) if one else 1.0 for one in times])


def first_times(labels: Sequence[Labels], steps: int) -> Floats:
    first = [
        [np.argmax(one == step) / len(one) for one in labels if (one == step).any()]
        for step in range(steps)
    ]
    return np.array([np.median(times) if times else 1.0 for times in first])


def come_again(labels: Sequence[Labels], steps: int, shortest: float) -> bool:
    """Whether most steps that a video shows for `shortest` rows come more than once there."""
    again: list[bool] = []
    for numbers in labels:
        done = runs(numbers[numbers >= 0])[:, 0]
        lasts = np.bincount(numbers[numbers >= 0], minlength=steps)
        again += (np.bincount(done, minlength=steps)[lasts >= shortest] > 1).tolist()
    return sum(again) > len(again) / 2


# ---------- how many steps, how wide a Gaussian


def choose_width(videos: Sequence[Floats], count: int) -> float:
    """The width in rows of the Gaussian that smooths centred `videos` (T, d).

        sigma = L / 4  min(1, sqrt(n / s)),   L = median length / count,   n / s the noise ratio over L / 16.

    Smoothing leaves noise as 1 / sigma and blurs ends as sigma; their sum is least where sigma
    goes with sqrt(n / s). Actions that repeat last less than L: if segments are shorter than
    supposed at half the width, or at half of that, the width becomes half of the narrowest one of
    which this is true.
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
    """How long segments last, as a multiple of what a width of `sigma` rows supposes."""
    em, light, stride = look(videos, count, sigma)
    starts = draw_starts(em, light, 0, PROBES, time=0.0)
    found = [run(em, start, 0.0, ITERATIONS // 3) for start in starts]
    segments = sum(len(runs(numbers)) for labels in found for numbers in em.videos.split(labels))
    return sum(map(len, found)) / segments * stride / (PER_STEP * sigma)


def choose_count(
    lengths: Sequence[int], rate: float, limits: tuple[int, int] | None = None
) -> tuple[int, str]:
    """The usual number of steps, and why; within `limits` where given.

    Features do not reveal it: several ways to choose it from them were no better on test recipes.
    """
    seconds = float(np.median(lengths)) / rate
    usual = USUAL * seconds**GROWTH
    low, high = limits or (LEAST, max(LEAST, sum(lengths) // 4))
    count = max(1, min(int(np.clip(round(usual), low, high)), sum(lengths)))
    if limits is None or count == round(usual):
        return count, f"{count} steps, usual for videos of {seconds:.0f} s"
    within = f"{count} steps, within {low} to {high}"
    return count, f"{within}; {round(usual)} are usual for {seconds:.0f} s"


# ---------- change points


def find_segments(rows: Floats, count: int, shortest: float) -> NDArray[np.int64]:
    """Bounds of the segments of one video (T, p) between change points; a short video has fewer.

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


def find_change_points(
    rows: Floats, count: int, shortest: int = 1, longest: int | None = None
) -> NDArray[np.int64]:
    """Bounds (count + 1,) that minimise  sum over segments of sum over t in segment |x_t - mean|^2.

    By exact dynamic programming, with segments of `shortest` to `longest` rows.
    """
    frames = len(rows)
    limit = frames if longest is None else min(longest, frames)
    if not (count >= 1 and shortest >= 1 and count * shortest <= frames <= count * limit):
        what = f"{count} segments of {shortest} to {limit} rows; ask for fewer."
        message = f"{frames} rows cannot be divided into {what}"
        raise OptionError(message, setting="steps", value=count)
    return _cut(np.ascontiguousarray(rows, dtype=np.float64), count, shortest, limit)


@compiled_later
def _cut(rows: NDArray[np.float64], count: int, shortest: int, longest: int) -> NDArray[np.int64]:
    """best_n(e) = min over length L of  best_{n-1}(e - L) + cost(e - L, e)."""
    frames, dim = rows.shape
    first, second = np.zeros((frames + 1, dim)), np.zeros(frames + 1)  # sums of x and |x|^2
    for t in range(frames):
        square = 0.0
        for j in range(dim):
            first[t + 1, j] = first[t, j] + rows[t, j]
            square += rows[t, j] ** 2
        second[t + 1] = second[t] + square
    cost = np.full((frames + 1, longest + 1), np.inf)
    for end in range(1, frames + 1):
        for length in range(shortest, min(longest, end) + 1):
            square = 0.0
            for j in range(dim):
                square += (first[end, j] - first[end - length, j]) ** 2
            # sum |x - mean|^2 = sum |x|^2 - |sum x|^2 / L
            cost[end, length] = second[end] - second[end - length] - square / length
    best = np.full(frames + 1, np.inf)
    best[0] = 0.0
    chosen = np.zeros((count, frames + 1), dtype=np.int32)
    for n in range(count):
        better = np.full(frames + 1, np.inf)
        for end in range(shortest, frames + 1):
            for length in range(shortest, min(longest, end) + 1):
                value = best[end - length] + cost[end, length]
                if value < better[end]:
                    better[end] = value
                    chosen[n, end] = length
        best = better
    bounds = np.zeros(count + 1, dtype=np.int64)
    bounds[count] = frames
    for n in range(count - 1, -1, -1):
        bounds[n] = bounds[n + 1] - chosen[n, bounds[n + 1]]
    return bounds
