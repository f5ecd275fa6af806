"""EM: what the steps look like and when they come, in turn with where they are in every video.

The emission of state k is a Gaussian with mean m_k and a covariance C that all share, times a
density of normalised time; with n rows to one independent observation, up to what is the same for
all states,

    log p(x_t, t | k)  =  (w_k . x_t + b_k + prior log p(t | k)) / n,    w_k = C^-1 m_k,   b_k = -m_k' C^-1 m_k / 2
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.arithmetic import Floats, normalised_times
from stepcut.methods.stepcut.chain import Chain
from stepcut.methods.stepcut.slow_features import SHRINK

WIDTH = 0.2  # of the kernel of the time density, as a share of the video
# share of the time density that is uniform: the most a step far from its usual time costs
ANYTIME = 0.05
# how quickly a state that is rarer in a video than usual becomes likelier, while learning
BALANCE = 0.2
MOST = 3.0  # the most that balance adds to the evidence of a row
BINS = 50  # of the normalised time
NEVER = -1e6  # evidence of a state that no row shows


@dataclass(frozen=True)
class Joined:
    """Videos put end to end, so that numpy works on all rows at once."""

    rows: NDArray[Any]  # (R, p)
    times: Floats  # (R,), normalised
    video: NDArray[np.int64]  # (R,), the number of each row's video
    starts: NDArray[np.int64]  # where each video begins

    @classmethod
    def of(cls, videos: Sequence[NDArray[Any]]) -> Self:
        lengths = [len(rows) for rows in videos]
        times = np.concatenate([normalised_times(length) for length in lengths])
        starts = np.cumsum([0, *lengths[:-1]])
        return cls(
            np.concatenate(videos), times, np.repeat(np.arange(len(videos)), lengths), starts
        )

    def total(self, rows: Floats) -> Floats:
        return np.asarray(np.add.reduceat(rows, self.starts, axis=0))

    def split(self, rows: NDArray[Any]) -> list[NDArray[Any]]:
        return np.split(rows, self.starts[1:])


@dataclass(frozen=True)
class Emission:
    """The emission of every state, as estimated by the M-step."""

    weights: Floats  # (p, S)
    bias: Floats  # (S,)
    timing: Floats  # (bins, S): prior log p(t | k)

    def evidence(self, rows: NDArray[Any], times: Floats, observation: float) -> Floats:
        """(T, S) from rows (T, p) at normalised `times` (T,)."""
        scores = rows @ self.weights + self.bias + self.timing[time_bins(times)]
        return np.asarray(scores / observation)


@dataclass
class EM:
    """Alternates between the M-step, `maximise`, and the E-step, `expect`."""

    videos: Joined
    chains: Sequence[Chain]
    posterior: Floats  # (R, S), where EM starts
    trust: Floats  # (R,): what each row counts
    stay: float  # probability that a state continues in the next row
    observation: float  # rows that count as one independent observation
    shortest: float  # rows for which a video must show a state to count fully in its mean
    share: Floats  # (S,): the part of a video that each state usually lasts; balance aims at it
    prior: float  # of the time density, against one independent observation
    isotropic: bool = False  # C a multiple of the identity, for rows that were whitened
    # Weight, in videos, of background at the mean of a video, where no step stands out
    origin: float = 0.0

    def __post_init__(self) -> None:
        from scipy.sparse import csr_array

        rows = self.videos.rows
        self.bonus = np.zeros((len(self.videos.starts), self.posterior.shape[1]))
        self.scatter = rows.T @ (rows * self.trust[:, None].astype(rows.dtype))
        # As a product, it adds up the rows of each bin.
        at = (time_bins(self.videos.times), np.arange(len(rows)))
        self.binned = csr_array((np.ones(len(rows)), at), shape=(BINS, len(rows)))

    def run(self, iterations: int) -> Emission:
        for _ in range(iterations):
            self.expect(self.maximise())
        return self.maximise()

    def maximise(self, without: NDArray[np.bool_] | None = None) -> Emission:
        """The M-step, from all rows or from all but those `without` (R,).

        Videos that show a state weigh the same in its mean. C is the scatter within states:

            sum over rows and states of  p_k (x - m_k)(x - m_k)'  =  X - S' M - M' S + M' diag(n) M
        """
        rows, kind = self.videos.rows, self.videos.rows.dtype
        dim = rows.shape[1]
        trusted, scatter = self.posterior * self.trust[:, None], self.scatter
        if without is not None:
            trusted[without] = 0
            gone = rows[without]
            scatter = scatter - gone.T @ (gone * self.trust[without, None].astype(kind))
        lasts = np.maximum(self.videos.total(self.posterior), self.shortest)
        once = trusted / lasts[self.videos.video]
        weight, mass = once.sum(axis=0), trusted.sum(axis=0)
        shown = weight > 1e-6
        counts = np.maximum(weight, 1e-9)
        counts[-1] += self.origin
        means = (once.T.astype(kind) @ rows) / counts[:, None]
        cross = (trusted.T.astype(kind) @ rows).T @ means
        within = scatter - cross - cross.T + (means.T * mass) @ means
        within = within / max(float(mass.sum()), 1e-9)
        level = float(np.trace(within)) / dim or 1.0
        even = level * np.eye(dim)
        covariance = even if self.isotropic else within + SHRINK * even
        weights = np.linalg.solve(covariance, means.T)
        bias = np.where(shown, -0.5 * (means.T * weights).sum(axis=0), NEVER)
        if self.origin:
            bias[-1] = -0.5 * float(means[-1] @ weights[:, -1])
        density = log_time_density(self.binned @ once)
        return Emission(weights, bias, self.prior * density)

    def expect(self, emission: Emission) -> None:
        """The E-step: forward-backward in every video that leaves anything open.

        Balance makes states last their usual share: a cluster that one kitchen shows gives way to
        one that all show.
        """
        evidence = emission.evidence(self.videos.rows, self.videos.times, self.observation)
        evidence += self.prior / self.observation * self.bonus[self.videos.video]
        pairs = zip(self.chains, self.videos.split(evidence), strict=True)
        self.posterior = np.concatenate([chain.posterior(rows, self.stay) for chain, rows in pairs])
        lengths = np.bincount(self.videos.video)[:, None]
        lasts = self.videos.total(self.posterior) / lengths
        free = np.array([not len(chain.edges) for chain in self.chains])[:, None]
        rare = np.log((self.share + 1e-3) / (lasts + 0.1 * self.share + 1e-3))
        self.bonus = np.clip(self.bonus + BALANCE * free * rare, -MOST, MOST)


def time_bins(times: Floats) -> NDArray[np.int64]:
    return np.minimum((times * BINS).astype(np.int64), BINS - 1)


def log_time_density(counts: Floats) -> Floats:
    """log p(t | k), (bins, S): a kernel density of the bins at which each state was seen."""
    middles = normalised_times(BINS)
    kernel = np.exp(-((middles[:, None] - middles) ** 2) / (2 * WIDTH**2))
    dense = kernel @ counts
    density = BINS * dense / np.maximum(dense.sum(axis=0), 1e-9)
    return np.asarray(np.log((1 - ANYTIME) * density + ANYTIME))
