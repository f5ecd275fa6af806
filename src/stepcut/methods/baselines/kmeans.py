"""k-means over the frames of all videos ("HC" in the paper): every frame goes to its nearest centre."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

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
class MeansSegmenter(CentreSegmenter):
    """Every frame goes to its nearest centre, and the centres come from k-means.

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

    @abstractmethod
    def _choose_centres(self, rows: Rows) -> Rows:
        """(steps, d) from all frames of all videos."""

    def _prepare(self, rows: NDArray[Any]) -> Rows:
        prepared = super()._prepare(rows)
        return append_time(prepared, float(self.clock_)) if self.prior > 0 else prepared

    def _memberships(self, rows: NDArray[Any]) -> Rows:
        return memberships(self._prepare(rows), self.centres_, FUZZIFIER, overwrite=True)


class KMeans(MeansSegmenter):
    """k-means, the best of `restarts` starts. `normalise`: frames of length 1 first."""

    def _choose_centres(self, rows: Rows) -> Rows:
        return find_means(rows, self.steps, self.seed, self.restarts)
