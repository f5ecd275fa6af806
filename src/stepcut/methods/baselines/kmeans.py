"""k-means over the frames of all videos ("HC" in the paper) and subset selection ("SS"): the nearest centre wins."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.arithmetic import squared_distances
from stepcut.methods.baselines.centres import CentreSegmenter, append_time
from stepcut.methods.cnc.fuzzy import FUZZIFIER, memberships
from stepcut.methods.segmenter import Rows, check_number


def find_means(rows: Rows, k: int, seed: int, restarts: int) -> Rows:
    """The centres (k, d) that scikit-learn's k-means finds; fewer distinct frames than `k` give equal centres."""
    from sklearn.cluster import KMeans as Solver
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        centres: Rows = Solver(k, n_init=restarts, random_state=seed).fit(rows).cluster_centers_
    return centres


@dataclass(eq=False, repr=False)
class KMeans(CentreSegmenter):
    """k-means, the best of `restarts` starts; every frame goes to its nearest centre.

    `prior` appends the normalised time, times `prior` and the RMS length of a frame, as one more dimension; 0 is off.
    Memberships are those of fuzzy c-means around the same centres.
    """

    LEARNED: ClassVar[tuple[str, ...]] = ("centres_", "clock_")

    restarts: int = 10

    def _check_settings(self) -> None:
        super()._check_settings()
        check_number("restarts", self.restarts, 1, whole=True)

    def _find_centres(self, videos: list[NDArray[Any]]) -> Rows:
        """Learns the weight of time on the way."""
        self.clock_ = np.zeros(())
        if self.prior > 0:
            plain = super()._prepare
            square = sum(float(np.square(plain(rows), dtype=np.float64).sum()) for rows in videos)
            self.clock_ = np.asarray(self.prior * np.sqrt(square / sum(map(len, videos))))
        return self._choose_centres(self._stack(videos))

    def _choose_centres(self, rows: Rows) -> Rows:
        """(steps, d) from all frames of all videos."""
        return find_means(rows, self.steps, self.seed, self.restarts)

    def _prepare(self, rows: NDArray[Any]) -> Rows:
        prepared = super()._prepare(rows)
        return append_time(prepared, float(self.clock_)) if self.prior > 0 else prepared

    def _memberships(self, rows: NDArray[Any]) -> Rows:
        return memberships(self._prepare(rows), self.centres_, FUZZIFIER, overwrite=True)


@dataclass(eq=False, repr=False)
class Subset(KMeans):
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
        return states[choose_subset(np.sqrt(squared_distances(states, rows)), self.steps)]


def choose_subset(apart: NDArray[np.float32], k: int) -> list[int]:
    """The greedy choice of k of M states that best stand for all frames: `apart (M, T)` are distances.

    A frame is served by its nearest chosen state. Each choice takes the state with the highest facility-location gain,
    sum_t max(0, served_t - apart[s, t]), the lowest number on a tie.
    """
    served = apart.max(axis=0)  # as if by a state farther away than any
    chosen: list[int] = []
    for _ in range(k):
        gains = np.array([np.maximum(served - row, 0).sum() for row in apart])
        gains[chosen] = -1
        chosen.append(int(gains.argmax()))
        served = np.minimum(served, apart[chosen[-1]])
    return chosen
