"""Suggest: the videos whose labels would help most, so that every other video has one like it among the labelled.

Facility location: choose, one after the other, the set S for which the sum over all videos j of

    min over i in S of  D_ij / n_i

is least; D_ij is the mean squared distance from the steps of video j to the same steps of video i (the largest there is
where i does not show a step), and n_i the number of segments in video i: what a label is worth as a sample.
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
    apart = distances(method.embed(features), method.labels_, method.steps_) / segments[:, None]
    chosen = [int(place) for place in labelled]
    left = [place for place in range(len(apart)) if place not in chosen]
    told: list[tuple[int, str]] = []
    while left and len(told) < n:
        before = apart[chosen].min(axis=0) if chosen else np.full(len(apart), apart.max())
        best = left.pop(int(np.argmin([np.minimum(before, apart[place]).sum() for place in left])))
        nearer = sum(bool(apart[best, place] < before[place]) for place in left)
        if chosen:
            reason = f"{nearer} of the videos without labels look more like it than like any labelled one"
        else:
            reason = f"the most typical: its steps look most like those of the other {len(left)} videos"
        told.append((best, f"{reason}; {segments[best]} segments"))
        chosen.append(best)
    return told


def distances(views: Sequence[NDArray[np.float32]], labels: Sequence[Labels], steps: int) -> Floats:
    """(N, N): the mean squared distance from the steps of video j (column) to the same steps of video i (row).

    views   embeddings (T, p) per video
    labels  (T,) per video, -1 for background
    steps   the number of steps
    """
    means = np.zeros((len(views), steps, views[0].shape[1]))
    seen = np.zeros((len(views), steps), dtype=bool)
    for i, (rows, cut) in enumerate(zip(views, labels, strict=True)):
        for step in np.unique(cut[cut >= 0]):
            means[i, step], seen[i, step] = rows[cut == step].mean(axis=0), True
    apart = ((means[:, None] - means) ** 2).sum(axis=3)  # (N, N, K)
    both = seen[:, None] & seen
    apart = np.where(both, apart, apart[both].max() if both.any() else 1.0)
    return np.asarray(np.where(seen, apart, 0.0).sum(axis=2) / np.maximum(seen.sum(axis=1), 1))
