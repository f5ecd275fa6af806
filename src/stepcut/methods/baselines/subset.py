"""Subset selection ("SS" in the paper): many states, of which the few are kept that best stand for all frames."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.arithmetic import squared_distances
from stepcut.methods.baselines.kmeans import MeansSegmenter, find_means
from stepcut.methods.segmenter import Rows, check_number


@dataclass(eq=False, repr=False)
class Subset(MeansSegmenter):
    """k-means to `states` states (10 per step where not given), then the greedy choice of `steps` of them."""

    restarts: int = 1
    states: int | None = None

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.states is not None:
            check_number("states", self.states, self.steps, whole=True)

    def _choose_centres(self, rows: Rows) -> Rows:
        wanted = 10 * self.steps if self.states is None else self.states
        states = find_means(rows, min(wanted, len(rows)), self.seed, self.restarts)
        chosen, _ = choose_subset(np.sqrt(squared_distances(states, rows)), self.steps)
        return states[chosen]


def choose_subset(apart: NDArray[np.float32], k: int) -> tuple[list[int], int]:
    """The greedy choice of k of M states, and how many gains it took: `apart (M, T)` are distances.

    A frame is served by its nearest chosen state. Each choice takes the state with the highest facility-location
    gain, sum_t max(0, served_t - apart[s, t]), the lowest number on a tie. A gain can only fall as others are chosen,
    so an old gain is an upper bound (Minoux 1978): the state on top of the heap is evaluated anew, and chosen when it
    stays on top. The choice is that of the plain greedy, most gains are never computed.
    """
    served = apart.max(axis=0)  # as if by a state farther away than any
    gain = np.empty_like(served)

    def evaluate(state: int) -> float:
        np.subtract(served, apart[state], out=gain)
        return float(np.maximum(gain, 0, out=gain).sum())

    heap = [(-evaluate(state), state, 0) for state in range(len(apart))]
    heapq.heapify(heap)
    chosen: list[int] = []
    count = len(heap)
    while len(chosen) < k:
        _, state, when = heapq.heappop(heap)
        if when < len(chosen):
            heapq.heappush(heap, (-evaluate(state), state, len(chosen)))
            count += 1
            continue
        chosen.append(state)
        np.minimum(served, apart[state], out=served)
    return chosen, count
