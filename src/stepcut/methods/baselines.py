"""Baselines and peers: random, uniform, one cluster, k-means, ASOT, TW-FINCH, spectral."""

import copy
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from stepcut.methods.arithmetic import (
    FUZZIFIER,
    Floats,
    as_vectors,
    equal_parts,
    fuzzy_shares,
    normalised_times,
    squared_distances,
    strongest_directions,
    unit,
)
from stepcut.methods.inputs import BLOCK, Array, Labels, Rows, fingerprint
from stepcut.methods.method import Method
from stepcut.settings import setting

# Of the smooth embedding: its Gaussian over time, and the weight of time against unit rows
SECONDS, COMPONENTS, TIME = 12.0, 32, 1.5
ITERATIONS, FIRST_STEP = 25, 4.0  # updates of ASOT, and the size of the first in log space

# ---------- baselines that ignore the video


class Random(Method):
    """Every frame gets a random step; the seed and the content of the video decide."""

    def segment(self, rows: Array) -> Labels:
        content = int.from_bytes(fingerprint(rows.astype(np.float32))[1])
        return np.random.default_rng([self.seed, content]).integers(self.count, size=len(rows))


class Uniform(Method):
    """Segments of equal length: the baseline to beat."""

    def segment(self, rows: Array) -> Labels:
        return equal_parts(len(rows), self.count)


class OneCluster(Method):
    """Every frame gets step 0."""

    def segment(self, rows: Array) -> Labels:
        return np.zeros(len(rows), dtype=np.int64)


# ---------- methods with a centre for each step

# The temporal prior: videos of one task tend to do the same steps at the same time; 0 is off. It has
# two forms: a cost per frame and step (`time_cost`), and time as a further dimension (`append_time`).
# It is the strongest single effect in this field: always compare with `uniform`.


@dataclass(eq=False, repr=False)
class CentreMethod(Method):
    """Learns `centres_` (steps, d)."""

    normalise: bool = setting(True, "Whether every frame is scaled to length 1 first.")
    prior: float = setting(0.0, "Weight of when steps usually come; 0 is off.", 0)

    def learn(self, videos: list[Array]) -> None:
        self.centres_ = self._find_centres(videos)
        # Cluster numbers are arbitrary; sort them by time, which the prior needs.
        plain = copy.copy(self)
        plain.prior = 0.0
        labels = [plain.segment(rows) for rows in videos]
        self.centres_ = self.centres_[time_order(labels, self.count)]

    @abstractmethod
    def _find_centres(self, videos: list[Array]) -> Rows:
        """One centre per step, in any order: (steps, d)."""

    def _prepare(self, rows: Array) -> Rows:
        """A float32 copy of the rows, of length 1 if `normalise`."""
        return unit(rows) if self.normalise else rows.astype(np.float32)

    def _stack(self, videos: list[Array]) -> Rows:
        return np.concatenate([self._prepare(rows) for rows in videos])


@dataclass(eq=False, repr=False)
class KMeans(CentreMethod):
    """k-means ("HC" in the paper); every frame gets its nearest centre.

    `prior` appends normalized time, times `prior` and the RMS length of a frame. Probabilities are
    the memberships of fuzzy c-means around the centres.
    """

    restarts: int = setting(10, "Number of starts of k-means.", 1, 10_000)

    def _find_centres(self, videos: list[Array]) -> Rows:
        self.clock_ = np.zeros(())
        if self.prior > 0:
            plain = super()._prepare
            square = sum(float(np.square(plain(rows), dtype=np.float64).sum()) for rows in videos)
            self.clock_ = np.asarray(self.prior * np.sqrt(square / sum(map(len, videos))))
        return self._choose_centres(self._stack(videos))

    def _choose_centres(self, rows: Rows) -> Rows:
        return find_means(rows, self.count, self.seed, self.restarts)

    def _prepare(self, rows: Array) -> Rows:
        prepared = super()._prepare(rows)
        return append_time(prepared, float(self.clock_)) if self.clock_ > 0 else prepared

    def shares(self, rows: Array) -> Rows:
        # Relative to the mean centre: far from the origin, float32 loses differences.
        middle = self.centres_.mean(axis=0)
        apart = squared_distances(self._prepare(rows) - middle, self.centres_ - middle)
        return fuzzy_shares(apart.T, FUZZIFIER).T


@dataclass(eq=False, repr=False)
class Asot(CentreMethod):
    """ASOT decoding (Xu and Gould, CVPR 2024) around k-means centres, on frames of length 1."""

    normalise: bool = field(default=True, init=False)
    radius: float = setting(0.04, "Reach of the links, as a share of the video.", 0, 1)
    alpha: float = setting(0.3, "Weight of the links against the cost.", 0, 1)
    entropy: float = setting(0.07, "Weight of the entropy (eps).", 0, above=True)
    balance: float = setting(0.1, "How strongly steps are drawn to equal length (lam).", 0)
    restarts: int = setting(10, "Number of starts of k-means.", 1, 10_000)

    def _find_centres(self, videos: list[Array]) -> Rows:
        return find_means(self._stack(videos), self.count, self.seed, self.restarts)

    def shares(self, rows: Array) -> Rows:
        cost = 1 - self._prepare(rows) @ unit(self.centres_).T
        if self.prior > 0:
            cost = cost + self.prior * time_cost(*cost.shape)
        return transport(cost, self.radius, self.alpha, self.entropy, self.balance)


def transport(cost: Array, radius: float, alpha: float, entropy: float, balance: float) -> Rows:
    """The plan P (T, K) of the optimal transport of frames to steps, smooth in time.

    P, whose rows sum to 1, starts uniform and is updated `ITERATIONS` times:

        G = a Cv (P/T) (1 - I) + (1 - a) C + eps log P + lam (log(K mean_t P) + 1)
        P <- P exp(-step G), rows normalized to 1

    with C = 1 - cosine between frame and step. Cv[i, j] = 1/r for frames 1 to r T apart links them
    as in a graph cut. `lam` weakly favours steps of equal length, so rare steps survive.
    """
    frames, steps = cost.shape
    reach = int(radius * frames)
    plan = np.full((frames, steps), 1 / steps)
    logs = np.log(plan)
    size = 0.0
    for _ in range(ITERATIONS):
        gradient = (1 - alpha) * cost + entropy * logs
        gradient += balance * (np.log(np.maximum(steps * plan.mean(axis=0), 1e-300)) + 1)
        if reach > 0:
            near = around(plan, reach) / (radius * frames)
            gradient += alpha * (near.sum(axis=1, keepdims=True) - near)  # times (1 - I)
        if size == 0:
            size = FIRST_STEP / max(float(np.abs(gradient).max()), 1e-9)
        logs -= size * gradient
        logs -= logs.max(axis=1, keepdims=True)
        plan = np.exp(logs)
        total = plan.sum(axis=1, keepdims=True)
        plan /= total
        logs -= np.log(total)
    return plan.astype(np.float32)


def around(plan: Floats, reach: int) -> Floats:
    """Sum over frames 1 to `reach` away on either side, in O(T K): (T, K)."""
    frames = len(plan)
    sums = np.concatenate([np.zeros((1, plan.shape[1])), np.cumsum(plan, axis=0)])
    at = np.arange(frames)
    return np.asarray(
        sums[np.minimum(at + reach + 1, frames)] - sums[np.maximum(at - reach, 0)] - plan
    )


def find_means(rows: Rows, k: int, seed: int, restarts: int) -> Rows:
    # In one thread: several sum in any order, so results would depend on timing
    from sklearn.cluster import KMeans as Solver
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(), _threads().limit(limits=1, user_api="openmp"):
        warnings.simplefilter("ignore", ConvergenceWarning)
        centres: Rows = Solver(k, n_init=restarts, random_state=seed).fit(rows).cluster_centers_
    return centres


@cache
def _threads() -> Any:
    # Cached, because finding the libraries is slow
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def time_cost(frames: int, steps: int) -> Floats:
    """|i/T - k/K| at the middle of frame i and step k: (T, K), to add to a cost."""
    return np.abs(normalised_times(frames)[:, None] - normalised_times(steps))


def append_time(rows: Rows, weight: float) -> Rows:
    clock = weight * normalised_times(len(rows))[:, None]
    return np.concatenate([rows, clock.astype(np.float32)], axis=1)


def time_order(labels: list[Labels], steps: int) -> Array:
    """Sort steps by the mean normalized time of their frames; steps without a frame come last."""
    times = np.concatenate([normalised_times(len(video)) for video in labels])
    joined: Array = np.concatenate(labels)
    count = np.bincount(joined, minlength=steps)
    total = np.bincount(joined, times, minlength=steps)
    return np.argsort(np.where(count > 0, total / np.maximum(count, 1), np.inf), kind="stable")


def smooth_embedding(features: Sequence[Array], rate: float = 1.0) -> list[Rows]:
    """All videos of a task, (T, d) each, as (T, 33) rows for k-means with `normalise=False`.

    Each is centred and smoothed over time: 32 components of length 1, and the time.
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


# ---------- methods that cluster every video on its own


class PerVideo(Method):
    """Clusters each video on its own; steps are numbered by their mean time there.

    No step is the same in two videos: score it under a protocol that matches every video
    separately.
    """

    def segment(self, rows: Array) -> Labels:
        labels = self.cluster(rows)
        place = np.argsort(time_order([labels], self.count))
        return np.asarray(place[labels], dtype=np.int64)

    @abstractmethod
    def cluster(self, rows: Array) -> Labels:
        """The cluster of each row, in any order of numbers below `count`: (T,)."""


class TwFinch(PerVideo):
    """TW-FINCH (Sarfraz et al., CVPR 2021), from its formulas.

    Every frame is linked to the one nearest by cosine distance times distance in time; connected
    frames are a cluster. Clusters, as means, are linked alike while at least K remain; then the
    two nearest are merged until K remain.
    """

    def cluster(self, rows: Array) -> Labels:
        rows = np.asarray(rows, dtype=np.float64)
        times = (np.arange(len(rows)) + 1.0) / len(rows)
        labels = np.arange(len(rows))
        means = rows, times  # (n, d), (n,) of each cluster
        while len(means[0]) > self.count:
            near, apart = _nearest(*means)
            links = np.arange(len(near))
            joined = _connected(links, near)
            if joined.max() + 1 < self.count:
                first = int(apart.argmin())
                joined = _connected(links, np.where(links == first, near[first], links))
            labels = joined[labels]
            means = _means(rows, labels), _means(times[:, None], labels)[:, 0]
        return np.asarray(labels, dtype=np.int64)


@dataclass(eq=False, repr=False)
class Spectral(PerVideo):
    """Spectral clustering of exp(cosine / temperature), the zero-shot row of HiERO."""

    temperature: float = setting(0.5, "Divisor of the cosine.", 0, above=True)
    window: float = setting(2.0, "Seconds of which rows are averaged before.", 0)

    def cluster(self, rows: Array) -> Labels:
        from sklearn.cluster import SpectralClustering

        size = max(1, min(round(self.window * float(self.rate)), len(rows) // self.count))
        part = np.arange(len(rows)) // size
        means = unit(_means(np.asarray(rows, dtype=np.float64), part))
        if len(means) <= self.count:
            return np.asarray(part, dtype=np.int64)
        affinity = np.exp(means @ means.T / self.temperature)
        solver = SpectralClustering(self.count, affinity="precomputed", random_state=self.seed)
        return np.asarray(solver.fit_predict(affinity)[part], dtype=np.int64)


def _nearest(rows: Array, times: Array) -> tuple[Labels, Floats]:
    directions = unit(rows)
    near, apart = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))
    step = max(1, BLOCK * 64 // len(rows))
    for at in range(0, len(rows), step):
        own = np.arange(at, min(at + step, len(rows)))
        distance = np.maximum(1.0 - directions[own] @ directions.T, 0.0)
        distance *= np.abs(times[own, None] - times)
        distance[own - at, own] = np.inf
        near[own] = distance.argmin(axis=1)
        apart[own] = distance[own - at, near[own]]
    return near, apart


def _connected(ones: Labels, others: Labels) -> Labels:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    size = len(ones)
    graph = csr_array((np.ones(size), (ones, others)), shape=(size, size))
    return np.asarray(connected_components(graph, directed=False)[1])


def _means(rows: Array, labels: Labels) -> Array:
    sums = np.zeros((int(labels.max()) + 1, rows.shape[1]))
    np.add.at(sums, labels, rows)
    return np.asarray(sums / np.bincount(labels)[:, None])
