"""EM: a centre and a usual time for each step, estimated in turn with where the steps are in every video."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.arithmetic import Floats, normalised_times, squared_distances
from stepcut.methods.stepcut.forward_backward import forward_backward

WIDTH = 0.15
"""Standard deviation of a step's time around its usual time, as a share of the video."""
ANYTIME = 0.05
"""The least the time prior leaves to a step at any time: one far from its usual time costs this much and no more."""
BALANCE = 0.2
"""How quickly a step that is hardly seen in a video is made more likely there (learning only)."""
MOST = 3.0
"""The most that balance adds to the log-likelihood of a frame."""


@dataclass(frozen=True)
class Steps:
    """What steps look like and when they come."""

    centres: Floats
    """(K, p)"""
    times: Floats
    """(K,), the usual normalised time"""
    spread: float
    """Variance of a row around its step's centre, per dimension."""

    def __len__(self) -> int:
        return len(self.centres)

    @property
    def shown(self) -> Floats:
        """The centres of the steps that some row shows. Rows are shorter than 1, so their means are; that of a step
        which no row shows lies beyond (`NOWHERE`)."""
        return np.asarray(self.centres[(self.centres**2).sum(axis=1) < 1])


def time_prior(times: Floats, steps: Steps) -> Floats:
    """log( (1 - a) exp(-(t - t_k)^2 / 2 w^2) + a ) for frames at normalised `times`: (T, K)."""
    near = np.exp(-((times[:, None] - steps.times) ** 2) / (2 * WIDTH**2))
    return np.asarray(np.log((1 - ANYTIME) * near + ANYTIME))


def log_likelihood(
    rows: Floats, times: Floats, steps: Steps, prior: float, background: float
) -> Floats:
    """log p(x_t | k) of `rows` (T, p) at normalised `times` (T,), up to a constant: (T, K), and one more column for
    background where `background` is not 0; towards 1 more and more rows are.

    -|x - c_k|^2 / 2v  + prior x time_prior   and   -(|x|^2 + m) / 2v   with  m = (1 - 1.5 background) mean |c|^2
    over the steps that are shown.

    The origin is the mean of the video, where nothing is going on in particular: where m is 0, at background = 2/3, a
    frame that lies closer to it than to any step is background.
    """
    seen = -squared_distances(rows, steps.centres) / (2 * steps.spread)
    if background > 0:
        shown = steps.shown
        margin = (1 - 1.5 * background) * (shown**2).sum(axis=1).mean() if len(shown) else 0.0
        nothing = -((rows**2).sum(axis=1) + margin) / (2 * steps.spread)
    if prior > 0:
        seen += prior * time_prior(times, steps)
    return np.column_stack([seen, nothing]) if background > 0 else seen


@dataclass(frozen=True)
class Joined:
    """Videos put end to end, so that numpy works on all rows at once."""

    rows: Floats
    """(N, p)"""
    times: Floats
    """(N,), normalised"""
    video: NDArray[np.int64]
    """(N,), the number of each row's video"""
    starts: NDArray[np.int64]
    """Where each video begins."""

    @classmethod
    def of(cls, videos: Sequence[Floats]) -> Self:
        """`videos` (T, p) of at least a row each."""
        lengths = [len(rows) for rows in videos]
        times = np.concatenate([normalised_times(length) for length in lengths])
        starts = np.cumsum([0, *lengths[:-1]])
        return cls(
            np.concatenate(videos), times, np.repeat(np.arange(len(videos)), lengths), starts
        )

    def total(self, rows: Floats) -> Floats:
        """The sum (V, K) over each video of `rows` (N, K)."""
        return np.asarray(np.add.reduceat(rows, self.starts, axis=0))

    def split(self, rows: NDArray[Any]) -> list[NDArray[Any]]:
        """`rows` (N, ...), per video again."""
        return np.split(rows, self.starts[1:])


def estimate(videos: Joined, share: Floats, shortest: float) -> Steps:
    """The M-step: centres, times and spread of steps from the probabilities `share` (N, K) of the rows of all videos.

    Every video counts once in the centre of a step that it shows, so that a long recording is no more a model of the
    step than a short one; one that shows it for fewer than `shortest` rows counts less.
    """
    once = share / np.maximum(videos.total(share), shortest)[videos.video]
    weight = np.maximum(once.sum(axis=0), 1e-9)
    centres = once.T @ videos.rows / weight[:, None]
    off = float((share * squared_distances(videos.rows, centres)).sum())
    variance = off / max(float(share.sum()), 1e-9) / videos.rows.shape[1]
    return Steps(centres, once.T @ videos.times / weight, max(variance, 1e-6))


def run_em(
    videos: Joined,
    share: Floats,
    iterations: int,
    prior: float,
    background: float,
    shortest: float,
    balance: float = BALANCE,
) -> tuple[Steps, Floats]:
    """Alternate between estimating the steps and finding them in every video by forward-backward.

    It starts from the probabilities `share` (N, K); `prior` and `background` as for `log_likelihood`, `shortest` as for
    `estimate`. `balance` is how quickly to add, to the log-likelihood of a step in a video, what makes it last 1/K of
    the video (at most `MOST`): steps are what videos share, and a cluster found in one kitchen gives way to one in all.

    Returns the steps and the probabilities (N, K) that they were estimated from.
    """
    count = share.shape[1]
    bonus = np.zeros((len(videos.starts), count))
    for _ in range(iterations):
        steps = estimate(videos, share, shortest)
        seen = log_likelihood(videos.rows, videos.times, steps, prior, background)
        seen[:, :count] += bonus[videos.video]
        share = np.concatenate([forward_backward(evidence) for evidence in videos.split(seen)])[
            :, :count
        ]
        mass = videos.total(share)
        wanted = np.maximum(mass.sum(axis=1, keepdims=True), 1.0) / count
        bonus += balance * np.log(wanted / (mass + 0.01 * wanted))
        np.clip(bonus, -MOST, MOST, out=bonus)
    return estimate(videos, share, shortest), share
