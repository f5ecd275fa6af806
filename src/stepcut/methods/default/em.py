"""EM: a centre and a usual time for each step, estimated in turn with where the steps are in every video."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.arithmetic import squared_distances
from stepcut.methods.default.forward_backward import forward_backward
from stepcut.methods.segmenter import normalised_times

Floats = NDArray[np.float64]

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


def time_prior(times: Floats, steps: Steps) -> Floats:
    """log( (1 - a) exp(-(t - t_k)^2 / 2 w^2) + a ) for frames at normalised `times`: (T, K)."""
    near = np.exp(-((times[:, None] - steps.times) ** 2) / (2 * WIDTH**2))
    return np.asarray(np.log((1 - ANYTIME) * near + ANYTIME))


def log_likelihood(rows: Floats, times: Floats, steps: Steps, prior: float, background: float) -> Floats:
    """log p(x_t | k) up to a constant: (T, K), and one more column for background where `background` is not 0.

    -|x - c_k|^2 / 2v  + prior x time_prior   and   -(|x|^2 + m) / 2v   with  m = (1 - 1.5 background) mean |c|^2.

    The origin is the mean of the video, where nothing is going on in particular: where m is 0, at background = 2/3, a
    frame that lies closer to it than to any step is background.

    rows        (T, p), one video on the axes
    times       (T,), normalised
    steps       what steps look like
    prior       weight of the time prior
    background  0: no frame is background; towards 1: more and more are
    """
    seen = -squared_distances(rows, steps.centres) / (2 * steps.spread)
    if background > 0:
        margin = (1 - 1.5 * background) * (steps.centres**2).sum(axis=1).mean()
        nothing = -((rows**2).sum(axis=1) + margin) / (2 * steps.spread)
    if prior > 0:
        seen += prior * time_prior(times, steps)
    return np.column_stack([seen, nothing]) if background > 0 else seen


def estimate(videos: Sequence[Floats], memberships: Sequence[Floats], shortest: float) -> Steps:
    """The M-step: centres, times and spread of steps from memberships (T, K) of each video's rows (T, p).

    Every video counts once in the centre of a step that it shows, so that a long recording is no more a model of the
    step than a short one; one that shows it for fewer than `shortest` rows counts less.
    """
    steps, dim = memberships[0].shape[1], videos[0].shape[1]
    centres, times, weight = np.zeros((steps, dim)), np.zeros(steps), np.zeros(steps)
    for rows, share in zip(videos, memberships, strict=True):
        mass = share.sum(axis=0)
        once = share / np.maximum(mass, shortest)
        centres += once.T @ rows
        times += once.T @ normalised_times(len(rows))
        weight += once.sum(axis=0)
    weight = np.maximum(weight, 1e-9)
    centres /= weight[:, None]
    off = sum(float((s * squared_distances(x, centres)).sum()) for x, s in zip(videos, memberships, strict=True))
    inside = sum(float(share.sum()) for share in memberships)
    return Steps(centres, times / weight, max(off / max(inside, 1e-9) / dim, 1e-6))


def run_em(
    videos: Sequence[Floats],
    memberships: Sequence[Floats],
    iterations: int,
    prior: float,
    background: float,
    shortest: float,
    balance: float = BALANCE,
) -> tuple[Steps, list[Floats]]:
    """Alternate between estimating the steps and finding them in every video by forward-backward.

    videos       (T, p) each, on the axes
    memberships  (T, K) each, where to start from
    iterations   how often to alternate
    prior        weight of the time prior
    background   see `log_likelihood`
    shortest     rows for which a video must show a step to count fully
    balance      how quickly to add, to the log-likelihood of a step in a video, what makes it last 1/K of the video (at
                 most `MOST`): steps are what videos share, and a cluster found in one kitchen gives way to one in all

    Returns the steps and the memberships (T, K) that they were estimated from.
    """
    current = list(memberships)
    count = memberships[0].shape[1]
    bonus = np.zeros((len(videos), count))
    for _ in range(iterations):
        steps = estimate(videos, current, shortest)
        for i, rows in enumerate(videos):
            seen = log_likelihood(rows, normalised_times(len(rows)), steps, prior, background)
            seen[:, :count] += bonus[i]
            current[i] = forward_backward(seen)[:, :count]
            mass = current[i].sum(axis=0)
            wanted = max(float(mass.sum()), 1.0) / count
            bonus[i] += balance * np.log(wanted / (mass + 0.01 * wanted))
        np.clip(bonus, -MOST, MOST, out=bonus)
    return estimate(videos, current, shortest), current
