"""Search: from centred features to steps, for a given number of them. Many starts, the clearest agree, then refine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepcut.cut.contract import normalised_times, one_hot
from stepcut.cut.kmeans import find_means
from stepcut.methods.agree import agree, clearness
from stepcut.methods.pieces import cut_pieces
from stepcut.methods.slow import calm, nearly_unit, refined_axes, slow_axes, usual_length
from stepcut.methods.steps import Steps, learn_steps, squared_distances

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

PER_STEP = 4
"""A step lasts this many times the standard deviation of the Gaussian that calms features."""
PIECES = 1.5
"""Pieces per step into which a video is cut for a start."""
TIME = 1.0
"""Weight of the normalised time in a start, against rows of length 1."""
ROUNDS = 12
"""Rounds of learning from each start; half as many after the starts have agreed."""


@dataclass(frozen=True)
class Found:
    """What a search ends with: `axes` (d, p), the usual length of a row on them, and the steps there."""

    axes: Floats
    usual: float
    steps: Steps
    clearness: float


@dataclass(frozen=True)
class Search:
    """The settings of a search. `sigma` is in rows."""

    count: int
    sigma: float
    seed: int = 0
    prior: float = 2.0
    background: float = 0.0
    restarts: int = 24
    refine: bool = True

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
        axes = slow_axes(videos, self.sigma)
        slow, views, cuts, clear = self.tries(videos, axes, tick)
        best = np.argsort(clear, kind="stable")[::-1][: max(1, len(cuts) // 3)]
        joined = agree([np.concatenate(cuts[i]) for i in best], self.count)
        votes = _split(joined, views)
        if self.refine:
            axes = refined_axes(slow, [label(share) for share in votes], self.count)
        usual, views = look(slow, axes)
        steps, shares = learn_steps(views, votes, ROUNDS // 2, self.prior, self.background, self.least)
        return Found(axes, usual, steps, clearness(views, [label(share) for share in shares], self.count, self.least))

    def clearest(self, videos: Sequence[Floats]) -> float:
        """How clear-cut the steps of the best starts are: what the number of steps is chosen by."""
        _, _, _, clear = self.tries(videos, slow_axes(videos, self.sigma))
        return float(np.mean(np.sort(clear)[-max(1, len(clear) // 2) :]))

    def tries(
        self, videos: Sequence[Floats], axes: Floats, tick: Callable[[], None] = lambda: None
    ) -> tuple[list[Floats], list[Floats], list[list[Labels]], list[float]]:
        """Learn from every start: the calmed rows, the same on the axes, and the cut and clearness of each start."""
        slow = [calm(rows, self.sigma)[:: self.stride] for rows in videos]
        light = [(calm(rows, self.sigma / 4) @ axes)[:: self.stride] for rows in videos]
        _, views = look(slow, axes)
        cuts, clear = [], []
        for start in self.starts(light, views):
            _, shares = learn_steps(views, start, ROUNDS, self.prior, self.background, self.least)
            cuts.append([label(share) for share in shares])
            clear.append(clearness(views, cuts[-1], self.count, self.least))
            tick()
        return slow, views, cuts, clear

    def starts(self, light: Sequence[Floats], views: Sequence[Floats]) -> list[list[Floats]]:
        """`restarts` first guesses as shares (T, K) per video: k-means with the time appended, two of three on the
        means of pieces, where a long step weighs no more than a short one, the others on all frames."""
        bounds, means, clocks = [], [], []
        for rows in light:
            bounds.append(self.pieces(rows))
            for first, last in zip(bounds[-1][:-1], bounds[-1][1:], strict=True):
                means.append(rows[first:last].mean(axis=0))
                clocks.append((first + last) / 2 / len(rows))
        pieces = np.column_stack([_unit(np.array(means)), TIME * np.array(clocks)])
        clock = np.concatenate([normalised_times(len(rows)) for rows in views])
        frames = np.column_stack([_unit(np.concatenate(views)), TIME * clock])
        guesses = []
        for number in range(self.restarts):
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
