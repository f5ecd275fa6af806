"""Subset selection ("SS" in the paper): choose the few of many states that best represent all
frames."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepcut.checks import check_number, limited
from stepcut.methods.arithmetic import squared_distances
from stepcut.methods.baselines.kmeans import KMeans, find_means
from stepcut.methods.constraints import Constraints
from stepcut.methods.inputs import Rows


@dataclass(eq=False, repr=False)
class Subset(KMeans):
    """k-means to `states` states (default: 10 per step), then greedy choice of `steps` of them."""

    restarts: int = limited(1, 1, 10_000, whole=True)
    states: int | None = None

    def check_settings(self, constraints: Constraints | None = None) -> None:
        super().check_settings(constraints)
        if self.states is not None:
            check_number("states", self.states, self.count, whole=True)

    def _choose_centres(self, rows: Rows) -> Rows:
        wanted = 10 * self.count if self.states is None else self.states
        states = find_means(rows, min(wanted, len(rows)), self.seed, self.restarts)
        return states[choose_subset(np.sqrt(squared_distances(states, rows)), self.count)]


def choose_subset(apart: NDArray[np.float32], k: int) -> list[int]:
    """Greedily choose k of M states that best represent all frames; `apart (M, T)` are distances.

    The nearest chosen state represents a frame. Each choice has the highest facility-location gain,
    sum_t max(0, served_t - apart[s, t]); the lowest number wins a tie.
    """
    served = apart.max(axis=0)
    chosen: list[int] = []
    for _ in range(k):
        gains = np.array([np.maximum(served - row, 0).sum() for row in apart])
        gains[chosen] = -1
        chosen.append(int(gains.argmax()))
        served = np.minimum(served, apart[chosen[-1]])
    return chosen
