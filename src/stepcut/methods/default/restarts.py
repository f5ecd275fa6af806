"""Search: from centred features to steps, for a given number of them. Many starts, the clearest agree, then refine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.baselines.kmeans import find_means
from stepcut.methods.default.change_points import cut_pieces
from stepcut.methods.default.consensus import agree, clearness, punctuality
from stepcut.methods.default.em import BALANCE, Steps, learn_steps, squared_distances
from stepcut.methods.default.slow_features import calm, nearly_unit, refined_axes, restlessness, slow_axes, usual_length
from stepcut.methods.segmenter import normalised_times, one_hot

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

PER_STEP = 4
"""A step lasts this many times the standard deviation of the Gaussian that calms restless features; calm ones less."""
PIECES = 1.5
"""Pieces per step into which a video is cut for a start."""
TIME = 1.0
"""Weight of the normalised time in a start, against rows of length 1."""
ROUNDS = 12
"""Rounds of learning from each start; half as many after the starts have agreed."""
LATE = 0.7
"""Up to this `background` the starts know none: a step that is not yet known is easily taken for background. Beyond,
more and more, and at 1 as much as the end: where most of a video is background, steps are not found in spite of it."""
BUSY = 0.5
"""The part of a video that steps fill where `background` is 1; all of it up to `LATE`."""
SCOUTS = 6
"""Starts that look, before all others and without any time, whether steps have a time of their own."""
FREE, FIXED = 0.4, 0.5
"""At this punctuality and below the order is free and the prior off; at this and above it has its full weight."""
BEST = 3
"""Of the starts, one in so many is heard when they agree."""


@dataclass(frozen=True)
class Found:
    """What a search ends with: `axes` (d, p), the usual length of a row on them, and the steps there."""

    axes: Floats
    usual: float
    steps: Steps
    prior: float
    """The weight of a step's usual time that these videos deserve."""


@dataclass(frozen=True)
class Tries:
    """What the starts led to: calmed rows, the same on the axes, and of each start its cut of every video and how
    clear-cut its steps are."""

    axes: Floats
    prior: float
    slow: list[Floats]
    views: list[Floats]
    cuts: list[list[Labels]]
    clear: Floats


@dataclass(frozen=True)
class Search:
    """The settings of a search. `sigma` is in rows."""

    count: int
    sigma: float
    seed: int = 0
    prior: float = 2.0
    background: float = 0.0
    restarts: int = 48
    refine: bool = True
    balance: float = BALANCE

    @property
    def stride(self) -> int:
        """Of calmed rows every so many-th is learned from: those between say nothing more."""
        return max(1, int(self.sigma / 6))

    @property
    def least(self) -> float:
        """Rows learned from that a step lasts at least to be counted as there."""
        return max(1.0, 0.4 * self.sigma / self.stride)

    def run(self, videos: Sequence[Floats], tick: Callable[[], None] = lambda: None) -> Found:
        """Steps of centred videos (T, d)."""
        return self.settle(self.tries(videos, tick))

    def tries(self, videos: Sequence[Floats], tick: Callable[[], None] = lambda: None) -> Tries:
        """Learn from every start."""
        background = strictness(self.background)
        axes = slow_axes(videos, self.sigma)
        slow = [calm(rows, self.sigma)[:: self.stride] for rows in videos]
        light = [(calm(rows, self.sigma / 4) @ axes)[:: self.stride] for rows in videos]
        _, views = look(slow, axes)
        prior = self.prior * self.trust_in_time(light, views) if self.prior > 0 else 0.0
        cuts, clear = [], []
        for start in self.starts(light, views, self.restarts):
            _, shares = learn_steps(views, start, ROUNDS, prior, background, self.least, self.balance)
            cuts.append([label(share) for share in shares])
            clear.append(clearness(views, cuts[-1], self.count, self.least))
            tick()
        return Tries(axes, prior, slow, views, cuts, np.array(clear))

    def trust_in_time(self, light: Sequence[Floats], views: Sequence[Floats]) -> float:
        """0 to 1: how far the prior may be followed. Where steps that were found without it come at any time, it would
        only cut a step that moves into several."""
        found = []
        for start in self.starts(light, views, SCOUTS, time=0.0):
            _, shares = learn_steps(views, start, ROUNDS, 0.0, 0.0, self.least, self.balance)
            found.append(punctuality([label(share) for share in shares], self.count, self.least))
        return float(np.clip((np.mean(found) - FREE) / (FIXED - FREE), 0, 1))

    def settle(self, tries: Tries) -> Found:
        """The clearest starts agree; the axes are refined by what they agree on, and the steps learned once more."""
        best = np.argsort(-tries.clear, kind="stable")[: max(1, len(tries.clear) // BEST)]
        joined = agree([np.concatenate(tries.cuts[i]) for i in best], self.count)
        votes = _split(joined, tries.views)
        axes = tries.axes
        if self.refine:
            axes = refined_axes(tries.slow, [label(share) for share in votes], self.count)
        usual, views = look(tries.slow, axes)
        steps, _ = learn_steps(views, votes, ROUNDS // 2, tries.prior, self.background, self.least, self.balance)
        return Found(axes, usual, steps, tries.prior)

    def starts(
        self, light: Sequence[Floats], views: Sequence[Floats], restarts: int, time: float = TIME
    ) -> list[list[Floats]]:
        """First guesses as shares (T, K) per video: k-means with the time appended, two of three on the
        means of pieces, where a long step weighs no more than a short one, the others on all frames."""
        bounds, means, clocks = [], [], []
        for rows in light:
            bounds.append(self.pieces(rows))
            for first, last in zip(bounds[-1][:-1], bounds[-1][1:], strict=True):
                means.append(rows[first:last].mean(axis=0))
                clocks.append((first + last) / 2 / len(rows))
        pieces = np.column_stack([_unit(np.array(means)), time * np.array(clocks)])
        clock = np.concatenate([normalised_times(len(rows)) for rows in views])
        frames = np.column_stack([_unit(np.concatenate(views)), time * clock])
        guesses = []
        for number in range(restarts):
            seed = self.seed * 1000 + number
            rows, whole = (frames, True) if number % 3 == 2 or len(pieces) < self.count else (pieces, False)
            centres = find_means(rows.astype(np.float32), self.count, seed, 1).astype(np.float64)
            labels = squared_distances(rows, centres).argmin(axis=1)
            if not whole:
                lengths = np.concatenate([np.diff(bound) for bound in bounds])
                labels = np.repeat(labels, lengths)
            guesses.append(_split(one_hot(labels, self.count).astype(np.float64), views))
        return guesses

    def pieces(self, rows: Floats) -> NDArray[np.int64]:
        """Where one video changes; a short video is cut in fewer pieces."""
        shortest = max(1, round(self.least))
        count = max(1, min(round(PIECES * self.count), len(rows) // shortest))
        longest = max(round(60 * self.least), -(-len(rows) // count))
        return cut_pieces(rows, count, shortest if count > 1 else 1, longest)


def strictness(background: float) -> float:
    """0 for a `background` up to `LATE`, from there to 1."""
    return max(0.0, (background - LATE) / (1 - LATE))


def choose_sigma(videos: Sequence[Floats], count: int, background: float) -> float:
    """Rows over which to calm centred videos for `count` steps: a quarter of what a step lasts, or less,

    sigma = busy L / 4  min(1, sqrt(n / s)),   L = median length / count,   n / s the restlessness over L / 16.

    Calming leaves noise as 1 / sigma and blurs the ends of a step as sigma; their sum is least where sigma goes with
    sqrt(n / s). Where much is background, steps are shorter: `busy` is the part of a video that they fill.
    """
    most = float(np.median([len(rows) for rows in videos])) / (PER_STEP * count)
    busy = 1 - (1 - BUSY) * strictness(background)
    return busy * most * min(1.0, math.sqrt(restlessness(videos, most / 4)))


def look(slow: Sequence[Floats], axes: Floats) -> tuple[float, list[Floats]]:
    """Calmed videos on the axes, rows scaled to nearly 1, and the usual length of a row before that."""
    turned = [rows @ axes for rows in slow]
    usual = usual_length(turned)
    return usual, [nearly_unit(rows, usual) for rows in turned]


def _unit(rows: Floats) -> Floats:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))


def label(share: Floats) -> Labels:
    """The strongest step, or -1 where the shares leave more than half to background."""
    best = share.argmax(axis=1)
    return np.where(share.max(axis=1) >= 1 - share.sum(axis=1), best, -1).astype(np.int64)


def _split(rows: Floats, videos: Sequence[Floats]) -> list[Floats]:
    """Rows of all videos put end to end, per video again."""
    return np.split(rows, np.cumsum([len(video) for video in videos])[:-1])
