"""Steps: a centre and a usual time for each, learned by following all videos again and again (EM)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.default.forward_backward import smoothed
from stepcut.methods.segmenter import normalised_times

Floats = NDArray[np.float64]

WIDTH = 0.15
"""How far from its usual time a step commonly is, as a share of the video."""
ANYTIME = 0.05
"""The least the prior leaves to a step at any time: one far from its usual time costs this much and no more."""
BALANCE = 0.2
"""How quickly a step that is hardly seen in a video is made more likely there (learning only)."""
MOST = 3.0
"""The most that balance adds to the evidence of a frame."""


@dataclass(frozen=True)
class Steps:
    """What steps look like. `spread` is the variance of a row around its step's centre, per dimension."""

    centres: Floats
    """(K, p)"""
    times: Floats
    """(K,), normalised"""
    spread: float

    def __len__(self) -> int:
        return len(self.centres)


def squared_distances(rows: Floats, centres: Floats) -> Floats:
    """|x - c|^2 for every row and centre: (T, K)."""
    squared = (rows**2).sum(axis=1)[:, None] - 2 * rows @ centres.T + (centres**2).sum(axis=1)
    return np.asarray(np.maximum(squared, 0))


def time_prior(times: Floats, steps: Steps) -> Floats:
    """log( (1 - a) exp(-(t - t_k)^2 / 2 w^2) + a ) for frames at normalised `times`: (T, K)."""
    near = np.exp(-((times[:, None] - steps.times) ** 2) / (2 * WIDTH**2))
    return np.asarray(np.log((1 - ANYTIME) * near + ANYTIME))


def evidence(rows: Floats, times: Floats, steps: Steps, prior: float, background: float) -> Floats:
    """log p(x_t | k) up to a constant, (T, K), and one more column for background where `background` is not 0:

    -|x - c_k|^2 / 2v  + prior x time_prior   and   -(|x|^2 + m) / 2v   with  m = (1 - 1.5 background) mean |c|^2.

    The origin is the mean of the video, where nothing is going on in particular: where m is 0, at background = 2/3, a
    frame that lies closer to it than to any step is background.
    """
    seen = -squared_distances(rows, steps.centres) / (2 * steps.spread)
    if background > 0:
        margin = (1 - 1.5 * background) * (steps.centres**2).sum(axis=1).mean()
        nothing = -((rows**2).sum(axis=1) + margin) / (2 * steps.spread)
    if prior > 0:
        seen += prior * time_prior(times, steps)
    return np.column_stack([seen, nothing]) if background > 0 else seen


def estimate(videos: Sequence[Floats], shares: Sequence[Floats], least: float) -> Steps:
    """Centres, times and spread from shares (T, K). Every video in which a step lasts counts once in its centre, so
    that a long recording is no more a model of the step than a short one; `least` rows make it count fully."""
    steps, dim = shares[0].shape[1], videos[0].shape[1]
    centres, times, weight = np.zeros((steps, dim)), np.zeros(steps), np.zeros(steps)
    for rows, share in zip(videos, shares, strict=True):
        mass = share.sum(axis=0)
        once = share / np.maximum(mass, least)
        centres += once.T @ rows
        times += once.T @ normalised_times(len(rows))
        weight += once.sum(axis=0)
    weight = np.maximum(weight, 1e-9)
    centres /= weight[:, None]
    off = sum(float((s * squared_distances(x, centres)).sum()) for x, s in zip(videos, shares, strict=True))
    inside = sum(float(share.sum()) for share in shares)
    return Steps(centres, times / weight, max(off / max(inside, 1e-9) / dim, 1e-6))


def learn_steps(
    videos: Sequence[Floats],
    shares: Sequence[Floats],
    rounds: int,
    prior: float,
    background: float,
    least: float,
    balance: float = BALANCE,
) -> tuple[Steps, list[Floats]]:
    """Start from shares (T, K) and alternate: estimate the steps, follow them through every video.

    `balance` adds to the evidence of a step in a video what makes it last 1/K of it, slowly and at most `MOST`: steps
    are what videos share, and a cluster that lives in one kitchen only gives way to one that is found in all.
    """
    followed = list(shares)
    count = shares[0].shape[1]
    favour = np.zeros((len(videos), count))
    for _ in range(rounds):
        steps = estimate(videos, followed, least)
        for i, rows in enumerate(videos):
            seen = evidence(rows, normalised_times(len(rows)), steps, prior, background)
            seen[:, :count] += favour[i]
            followed[i] = smoothed(seen)[:, :count]
            mass = followed[i].sum(axis=0)
            wanted = max(float(mass.sum()), 1.0) / count
            favour[i] += balance * np.log(wanted / (mass + 0.01 * wanted))
        np.clip(favour, -MOST, MOST, out=favour)
    return estimate(videos, followed, least), followed
