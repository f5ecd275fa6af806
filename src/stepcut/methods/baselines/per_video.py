"""Methods that cluster every video on its own: TW-FINCH, and spectral clustering as in HiERO.

They learn nothing and find no correspondence between videos: steps are numbered by their mean time
in each video. Score them under a protocol that matches every video separately.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from stepcut.methods.arithmetic import Floats, unit
from stepcut.methods.baselines.kmeans import time_order
from stepcut.methods.inputs import BLOCK, Array, Labels
from stepcut.methods.method import Method
from stepcut.settings import setting

Means = tuple[NDArray[Any], NDArray[Any]]
"""Mean row (n, d) and mean time (n,) of each cluster."""


class PerVideo(Method):
    """Clusters each video on its own, with `cluster`."""

    def segment(self, rows: Array) -> Labels:
        labels = self.cluster(rows)
        place = np.argsort(time_order([labels], self.count))
        return np.asarray(place[labels], dtype=np.int64)

    @abstractmethod
    def cluster(self, rows: Array) -> Labels:
        """Return the cluster of each row, in any order of numbers below `count`: (T,)."""


class TwFinch(PerVideo):
    """TW-FINCH (Sarfraz et al., CVPR 2021), from its formulas.

    The distance of two frames is their cosine distance times their distance in time. Every frame is
    linked to its nearest one, and connected frames are a cluster. Clusters, as means of their
    frames, are linked in the same way while at least K remain; then the two nearest ones are merged
    until K remain.
    """

    def cluster(self, rows: Array) -> Labels:
        rows = np.asarray(rows, dtype=np.float64)
        times = (np.arange(len(rows)) + 1.0) / len(rows)
        labels = np.arange(len(rows))
        means: Means = rows, times
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
    """Spectral clustering of the affinities exp(cosine / temperature), the zero-shot row of HiERO."""

    temperature: float = setting(0.5, "Divisor of the cosine.", 0, above=True)
    window: float = setting(
        2.0,
        "Seconds of which rows are averaged before.",
        0,
    )

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


def _nearest(rows: NDArray[Any], times: NDArray[Any]) -> tuple[Labels, Floats]:
    """Return for each row the nearest other one, and its distance."""
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
    """Number the connected parts of the graph with these links."""
    size = len(ones)
    graph = csr_array((np.ones(size), (ones, others)), shape=(size, size))
    return np.asarray(connected_components(graph, directed=False)[1])


def _means(rows: NDArray[Any], labels: Labels) -> NDArray[Any]:
    """Return the mean of the rows with each label: (n, d)."""
    sums = np.zeros((int(labels.max()) + 1, rows.shape[1]))
    np.add.at(sums, labels, rows)
    return np.asarray(sums / np.bincount(labels)[:, None])
