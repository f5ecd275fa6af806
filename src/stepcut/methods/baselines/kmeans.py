"""k-means over the frames of all videos ("HC" in the paper), and what methods with centres share.

The temporal prior: videos of one task tend to do the same steps at the same time; 0 is off. It has
two forms: a cost per frame and step (`time_cost`), and time as a further dimension (`append_time`).
It is the strongest single effect in this field: always compare with `uniform`.
"""

import copy
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.arithmetic import (
    FUZZIFIER,
    as_vectors,
    fuzzy_shares,
    normalised_times,
    squared_distances,
    strongest_directions,
    unit,
)
from stepcut.methods.inputs import Labels, Rows
from stepcut.methods.method import Method
from stepcut.settings import setting

SECONDS = 12.0
"""Standard deviation of the temporal Gaussian in the smooth embedding."""
COMPONENTS = 32
TIME = 1.5
"""Weight of normalized time in the smooth embedding, against rows of length 1."""


def find_means(rows: Rows, k: int, seed: int, restarts: int) -> Rows:
    """Run k-means of scikit-learn: centres (k, d); too few distinct frames give equal centres.

    It runs in one thread: several threads sum in any order, so results would depend on timing.
    """
    from sklearn.cluster import KMeans as Solver
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(), _threads().limit(limits=1, user_api="openmp"):
        warnings.simplefilter("ignore", ConvergenceWarning)
        centres: Rows = Solver(k, n_init=restarts, random_state=seed).fit(rows).cluster_centers_
    return centres


@cache
def _threads() -> Any:
    """Thread controller of the loaded libraries, cached because finding them is slow."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@dataclass(eq=False, repr=False)
class CentreMethod(Method):
    """Learns `centres_` (steps, d)."""

    normalise: bool = setting(True, "Whether every frame is scaled to length 1 first.")
    prior: float = setting(0.0, "Weight of when steps usually come; 0 is off.", 0)

    def learn(self, videos: list[NDArray[Any]]) -> None:
        self.centres_ = self._find_centres(videos)
        # Cluster numbers are arbitrary; sort them by time, which the prior needs.
        plain = copy.copy(self)
        plain.prior = 0.0
        self.centres_ = self.centres_[
            time_order([plain.segment(rows) for rows in videos], self.count)
        ]

    @abstractmethod
    def _find_centres(self, videos: list[NDArray[Any]]) -> Rows:
        """Find one centre per step, in any order: (steps, d)."""

    def _prepare(self, rows: NDArray[Any]) -> Rows:
        """A float32 copy of the rows, of length 1 if `normalise`."""
        return unit(rows) if self.normalise else rows.astype(np.float32)

    def _stack(self, videos: list[NDArray[Any]]) -> Rows:
        """Prepared frames of all videos, as one new array."""
        return np.concatenate([self._prepare(rows) for rows in videos])


@dataclass(eq=False, repr=False)
class KMeans(CentreMethod):
    """k-means, the best of `restarts` starts; every frame gets its nearest centre.

    `prior` appends normalized time as a dimension, times `prior` and the RMS length of a frame; 0
    is off. Probabilities are the memberships of fuzzy c-means around the centres.
    """

    restarts: int = setting(10, "Number of starts of k-means.", 1, 10_000)

    def _find_centres(self, videos: list[NDArray[Any]]) -> Rows:
        """Also learns the weight of time."""
        self.clock_ = np.zeros(())
        if self.prior > 0:
            plain = super()._prepare
            square = sum(float(np.square(plain(rows), dtype=np.float64).sum()) for rows in videos)
            self.clock_ = np.asarray(self.prior * np.sqrt(square / sum(map(len, videos))))
        return self._choose_centres(self._stack(videos))

    def _choose_centres(self, rows: Rows) -> Rows:
        """(steps, d) from all frames of all videos."""
        return find_means(rows, self.count, self.seed, self.restarts)

    def _prepare(self, rows: NDArray[Any]) -> Rows:
        prepared = super()._prepare(rows)
        return append_time(prepared, float(self.clock_)) if self.clock_ > 0 else prepared

    def shares(self, rows: NDArray[Any]) -> Rows:
        # Relative to the mean centre: far from the origin, float32 loses differences.
        middle = self.centres_.mean(axis=0)
        apart = squared_distances(self._prepare(rows) - middle, self.centres_ - middle)
        return fuzzy_shares(apart.T, FUZZIFIER).T


def time_cost(frames: int, steps: int) -> NDArray[np.float64]:
    """|i/T - k/K| at the middle of frame i and step k: (T, K), to add to a cost."""
    return np.abs(normalised_times(frames)[:, None] - normalised_times(steps))


def append_time(rows: Rows, weight: float) -> Rows:
    """Append `weight` times the normalized time as a dimension: (T, d + 1)."""
    clock = weight * normalised_times(len(rows))[:, None]
    return np.concatenate([rows, clock.astype(np.float32)], axis=1)


def time_order(labels: list[Labels], steps: int) -> NDArray[np.intp]:
    """Sort steps by the mean normalized time of their frames; steps without a frame come last."""
    times = np.concatenate([normalised_times(len(video)) for video in labels])
    joined: NDArray[Any] = np.concatenate(labels)
    count = np.bincount(joined, minlength=steps)
    total = np.bincount(joined, times, minlength=steps)
    return np.argsort(np.where(count > 0, total / np.maximum(count, 1), np.inf), kind="stable")


def smooth_embedding(
    features: Sequence[NDArray[Any]], rate: float = 1.0
) -> list[NDArray[np.float32]]:
    """Embed the features of all videos of a task, (T, d) each, as (T, 33) rows for k-means.

    Each video is centred and smoothed over time: 32 components of length 1, and the time. Use
    k-means with `normalise=False`.
    """
    from scipy.ndimage import gaussian_filter1d

    smoothed = []
    for rows in features:
        vectors = as_vectors(rows)
        centred = vectors - vectors.mean(axis=0)
        smoothed.append(gaussian_filter1d(centred, SECONDS * rate, axis=0, mode="nearest"))
    every = np.concatenate(smoothed).astype(np.float64)
    middle = every.mean(axis=0)
    directions, _ = strongest_directions([every - middle], COMPONENTS)
    found = []
    for rows in smoothed:
        strong = (rows - middle) @ directions
        length = np.maximum(np.linalg.norm(strong, axis=1, keepdims=True), 1e-12)
        time = np.arange(len(rows))[:, None] / len(rows)
        found.append(np.hstack([strong / length, TIME * time]).astype(np.float32))
    return found
