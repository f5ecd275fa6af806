"""Agree: from many ways of cutting the same videos to the one that they have in common."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


def overlap(a: Labels, b: Labels, steps: int) -> Floats:
    """F1 between every step of cut `a` and every step of cut `b`: (K, K). Frames without a step (-1) are in neither."""
    both = (a >= 0) & (b >= 0)
    counts = np.zeros((steps, steps))
    np.add.at(counts, (a[both], b[both]), 1)
    total = np.bincount(a[a >= 0], minlength=steps)[:, None] + np.bincount(b[b >= 0], minlength=steps)
    return np.asarray(2 * counts / np.maximum(total, 1))


def likeness(a: Labels, b: Labels, steps: int) -> float:
    """How alike two cuts are, 0 to 1: mean F1 when every step of one is paired with one of the other."""
    gain = overlap(a, b, steps)
    return float(gain[_pair(gain)].mean())


def agree(cuts: Sequence[Labels], steps: int, rounds: int = 5) -> Floats:
    """(T, K): the share of cuts that give each frame each step, once the steps of all are numbered alike.

    They are numbered after the cut most like all others, then after what the vote gives, a few rounds.
    """
    alike = [sum(likeness(cut, other, steps) for other in cuts) for cut in cuts]
    common = cuts[int(np.argmax(alike))]
    for _ in range(rounds):
        votes = np.zeros((len(common), steps))
        for cut in cuts:
            rows, columns = _pair(overlap(common, cut, steps))
            number = np.empty(steps, dtype=np.int64)
            number[columns] = rows
            inside = np.flatnonzero(cut >= 0)
            votes[inside, number[cut[inside]]] += 1
        settled, common = common, strongest_or_none(votes, len(cuts))
        if (settled == common).all():
            break
    return votes / len(cuts)


def strongest_or_none(votes: Floats, voters: float) -> Labels:
    """The step with most votes, or -1 where more votes are for none."""
    best = votes.argmax(axis=1)
    return np.where(votes.max(axis=1) >= voters - votes.sum(axis=1), best, -1).astype(np.int64)


def clearness(videos: Sequence[Floats], cuts: Sequence[Labels], steps: int, least: float) -> float:
    """How clear-cut the steps are, -1 to 1: the silhouette of their means, one per video and step.

    (b - a) / max(a, b)  with a = |m_vk - c_k|^2 and b the same to the nearest other centre. Each step of each video
    counts once, however long it lasts, so a cut that splits a long step to win a little does not look better.
    """
    dim = videos[0].shape[1]
    means = np.zeros((len(videos), steps, dim))
    seen = np.zeros((len(videos), steps), dtype=bool)
    for i, (rows, cut) in enumerate(zip(videos, cuts, strict=True)):
        for step in range(steps):
            inside = cut == step
            if inside.sum() >= least:
                means[i, step], seen[i, step] = rows[inside].mean(axis=0), True
    found = np.flatnonzero(seen.any(axis=0))
    if len(found) < 2:
        return -1.0
    centres = means.sum(axis=0)[found] / seen.sum(axis=0)[found, None]
    away = ((means[:, found, None] - centres) ** 2).sum(axis=3)  # (N, K, K)
    own = np.einsum("nkk->nk", away).copy()
    np.einsum("nkk->nk", away)[:] = np.inf
    other = away.min(axis=2)
    score = (other - own) / np.maximum(np.maximum(other, own), 1e-12)
    # A step that is missing in a video counts 0: neither clear nor unclear.
    return float(np.where(seen[:, found], score, 0.0).sum() / (len(videos) * steps))


def punctuality(cuts: Sequence[Labels], steps: int, least: float) -> float:
    """How much a step's time is its own: 1 when every step comes at one time in all videos, 0 when it says nothing.

    1 - mean over steps of var(t_vk over videos v) / var(all t_vk),  t_vk the mean normalised time of step k in video v.
    """
    times = np.full((len(cuts), steps), np.nan)
    for i, cut in enumerate(cuts):
        clock = (np.arange(len(cut)) + 0.5) / max(len(cut), 1)
        lasts = np.bincount(cut[cut >= 0], minlength=steps)
        sums = np.bincount(cut[cut >= 0], weights=clock[cut >= 0], minlength=steps)
        there = lasts >= least
        times[i, there] = sums[there] / lasts[there]
    shared = (~np.isnan(times)).sum(axis=0) >= 2  # a step of one video has no other time to agree with
    spread = float(np.nanvar(times)) if (~np.isnan(times)).any() else 0.0
    if not shared.any() or spread <= 0:
        return 0.0
    return float(1 - np.nanvar(times[:, shared], axis=0).mean() / spread)


def _pair(gain: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(-gain)
    return rows, columns
