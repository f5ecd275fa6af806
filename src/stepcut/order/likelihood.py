"""How well a partial order explains the sequences of the videos, and the search for the order that does so best.

A video is taken to do its steps one after the other, each time any step whose preconditions are met, all of them
alike. With `R` the steps that the video has yet to do and `A` those of them with no precondition left in `R`,

    p(next = x) = (1 - slip) [x in A] / |A| + slip / |R|

where `slip` is the chance that a person ignores the rules once. A whole video may follow no rule at all, with chance
`scrambled`. The order found maximises log p(all videos) - penalty x (number of edges): an edge must earn its place, so
two steps that came in the same order by chance in a few videos are not joined. Steps that a video misses are not in its
`R`, and the relations reach across them, because the partial order is kept transitively closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.floating[Any]]


def reduce_order(closed: Bools) -> Bools:
    """The edges of a transitively closed order `(K, K)` that no path of other edges replaces."""
    paths = closed.astype(np.int64)
    return closed & ~((paths @ paths) > 0)


def close_order(edges: Bools) -> Bools:
    """All relations that follow from `edges` `(K, K)`: a before b, b before c, so a before c."""
    closed = edges.copy()
    for middle in range(len(closed)):
        closed |= np.outer(closed[:, middle], closed[middle])
    return closed


def count_first(orders: Sequence[Sequence[int]], steps: int) -> NDArray[np.int64]:
    """`(K, K)`: in how many of the orders, each of distinct steps, does a come before b."""
    counts = np.zeros((steps, steps), dtype=np.int64)
    for order in orders:
        for place, step in enumerate(order):
            counts[step, list(order[place + 1 :])] += 1
    return counts


def majority_order(counts: NDArray[np.int64], share: float) -> Bools:
    """Relations kept by at least `share` of the videos, the surest first, none that would close a circle."""
    total = counts + counts.T
    sure = np.divide(counts, total, out=np.zeros(counts.shape), where=total > 0)
    closed = np.zeros(counts.shape, dtype=bool)
    pairs = np.argwhere((sure >= share) & (counts > counts.T))
    for a, b in sorted(pairs.tolist(), key=lambda pair: (-sure[pair[0], pair[1]], -counts[pair[0], pair[1]], pair)):
        if not closed[b, a] and not closed[a, b]:
            closed |= np.outer(_with(closed[:, a], a), _with(closed[b], b))
    return closed


class OrderFit:
    """The search for the best partial order of `steps` steps, given the order of each video (distinct steps)."""

    def __init__(
        self, orders: Sequence[Sequence[int]], steps: int, slip: float, scrambled: float, penalty: float
    ) -> None:
        self.steps, self.slip, self.scrambled, self.penalty = steps, slip, scrambled, penalty
        distinct: dict[tuple[int, ...], int] = {}
        for order in orders:
            distinct[tuple(order)] = distinct.get(tuple(order), 0) + 1
        self.weight = np.array(list(distinct.values()), dtype=np.float64)
        self.counts = count_first(list(orders), steps)
        chosen = [(video, order[t:]) for video, order in enumerate(distinct) for t in range(len(order))]
        self.video = np.array([video for video, _ in chosen], dtype=np.int64)
        self.next = np.array([left[0] for _, left in chosen], dtype=np.int64)
        self.left = np.zeros((len(chosen), steps), dtype=np.float32)  # R, one row per choice that a video made
        for row, (_, left) in enumerate(chosen):
            self.left[row, list(left)] = 1.0
        self.size = self.left.sum(axis=1)
        # A video without rules: every remaining step is alike.
        self.lawless = np.bincount(self.video, -np.log(np.maximum(self.size, 1)), len(self.weight))

    def likelihood(self, closed: Bools) -> float:
        """log p of all videos under a transitively closed order `(K, K)`."""
        return self._likelihood(self._free(self.left @ closed.astype(np.float32)))

    def score(self, closed: Bools) -> float:
        """What the search maximises."""
        return self.likelihood(closed) - self.penalty * int(reduce_order(closed).sum())

    def search(self) -> Bools:
        """The best order found from several beginnings: no edges, and what most, nearly all or all videos keep."""
        starts = [np.zeros((self.steps, self.steps), dtype=bool)]
        starts += [majority_order(self.counts, share) for share in (0.6, 0.8, 0.95)]
        climbed = [self.climb(start) for start in starts]
        return max(climbed, key=self.score)

    def climb(self, closed: Bools) -> Bools:
        """Add and remove one edge at a time as long as the score rises; the surest pairs are tried first."""
        best = self.score(closed)
        pairs = np.argwhere(~np.eye(self.steps, dtype=bool))
        balance = (self.counts - self.counts.T)[pairs[:, 0], pairs[:, 1]]
        tried = pairs[np.argsort(-balance, kind="stable")].tolist()
        moved = True
        while moved:
            moved = False
            waiting = self.left @ closed.astype(np.float32)
            edges = reduce_order(closed)
            for a, b in tried:
                if closed[b, a] or (closed[a, b] and not edges[a, b]):
                    continue
                if not closed[a, b] and self.counts[a, b] <= self.counts[b, a]:
                    continue  # most videos that do both do them the other way round, or none does both
                other, changed = self._moved(closed, waiting, a, b)
                other_edges = reduce_order(other)
                value = self._likelihood(self._free(changed)) - self.penalty * int(other_edges.sum())
                if value > best + 1e-9:
                    closed, waiting, edges, best, moved = other, changed, other_edges, value, True
        return closed

    def _moved(self, closed: Bools, waiting: Floats, a: int, b: int) -> tuple[Bools, Floats]:
        """The order with the edge taken out, or put in with all that follows; `waiting` counts unmet preconditions."""
        other, changed = closed.copy(), waiting.copy()
        if closed[a, b]:
            other[a, b] = False
            changed[:, b] -= self.left[:, a]
            return other, changed
        before, after = np.flatnonzero(_with(closed[:, a], a)), np.flatnonzero(_with(closed[b], b))
        new = ~closed[np.ix_(before, after)]
        other[np.ix_(before, after)] = True
        changed[:, after] += self.left[:, before] @ new.astype(np.float32)
        return other, changed

    def _free(self, waiting: Floats) -> Bools:
        """`(choices, K)`: A, the steps that could have come next."""
        return (self.left > 0) & (waiting < 0.5)

    def _likelihood(self, free: Bools) -> float:
        kept = free[np.arange(len(free)), self.next] / np.maximum(free.sum(axis=1), 1)
        choice = np.log((1 - self.slip) * kept + self.slip / np.maximum(self.size, 1))
        lawful = np.bincount(self.video, choice, len(self.weight))
        mixed = np.logaddexp(np.log1p(-self.scrambled) + lawful, np.log(self.scrambled) + self.lawless)
        return float(self.weight @ mixed)


def _with(row: Bools, place: int) -> Bools:
    """The row with one more place set."""
    out = row.copy()
    out[place] = True
    return out
