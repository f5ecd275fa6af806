"""Suggest: the videos whose labels would help most, because together they stand for all videos.

Videos are chosen one after the other (kernel herding) so that the labelled set S has the least

    ( mean over steps k of  | m_k(S) - m_k |^2 )  /  number of segments in S

m_k(S) is the mean of step k over the videos of S, m_k that over all videos; a step that S does not show counts as far
away as the farthest. The more segments, the more samples a person's labels are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.contract import Array, Labels, Method

Floats = NDArray[np.float64]


def suggest(method: Method, features: Sequence[Array], labelled: Sequence[int], n: int) -> list[tuple[int, str]]:
    """The places of `n` videos to label next, the most useful first, each with the reason in words.

    method    any method, fitted to all videos
    features  (T, d) per video, those that it was fitted to
    labelled  the places of videos that are labelled already
    n         how many to name; fewer are named where fewer are left
    """
    segments = np.array([1 + np.count_nonzero(np.diff(cut)) for cut in method.labels_])
    means, seen = step_means(method.embed(features), method.labels_, method.steps_)
    chosen = [int(place) for place in labelled]
    left = [place for place in range(len(means)) if place not in chosen]
    told: list[tuple[int, str]] = []
    while left and len(told) < n:
        sets = [[*chosen, place] for place in left]
        costs = [bias(means, seen, these) / segments[these].sum() for these in sets]
        best = left.pop(int(np.argmin(costs)))
        what = "with what is labelled, it stands best for all videos" if chosen else "the most typical of all videos"
        told.append((best, f"{what}: {int(seen[best].sum())} of {method.steps_} steps in {segments[best]} segments"))
        chosen.append(best)
    return told


def step_means(
    views: Sequence[NDArray[np.float32]], labels: Sequence[Labels], steps: int
) -> tuple[Floats, NDArray[np.bool_]]:
    """The mean (N, K, p) of every step in every video, and whether the video shows it (N, K).

    views   embeddings (T, p) per video
    labels  (T,) per video, -1 for background
    steps   the number of steps
    """
    means = np.zeros((len(views), steps, views[0].shape[1]))
    seen = np.zeros((len(views), steps), dtype=bool)
    for i, (rows, cut) in enumerate(zip(views, labels, strict=True)):
        for step in np.unique(cut[cut >= 0]):
            means[i, step], seen[i, step] = rows[cut == step].mean(axis=0), True
    return means, seen


def bias(means: Floats, seen: NDArray[np.bool_], these: Sequence[int]) -> float:
    """How far the mean of a step over `these` videos is from that over all: squared, the mean over steps."""
    usual = means.sum(axis=0) / np.maximum(seen.sum(axis=0), 1)[:, None]
    farthest = np.where(seen, ((means - usual) ** 2).sum(axis=2), 0.0).max()
    ours = means[list(these)].sum(axis=0) / np.maximum(seen[list(these)].sum(axis=0), 1)[:, None]
    away = np.where(seen[list(these)].any(axis=0), ((ours - usual) ** 2).sum(axis=1), farthest)
    return float(away[seen.any(axis=0)].mean()) if seen.any() else 0.0
