"""Alignment: steps that come in one order in all videos, found by going through all of them side by side.

A left-right hidden Markov model trained by Viterbi: every video goes from the first step to the last, each lasting at
least a row, and steps and their centres are found in turn. It is a clock that knows how far along each video is.
"""

from collections.abc import Sequence

import numpy as np

from stepcut.methods.arithmetic import Floats, equal_parts, one_hot, squared_distances
from stepcut.methods.inputs import Labels
from stepcut.methods.stepcut.em import Joined, estimate

ROUNDS = 30
"""The most rounds of cutting and estimating; few videos need a third of them."""


def align(videos: Sequence[Floats], count: int) -> list[Labels]:
    """The step of each row of all `videos` (T, p), from 0 to `count` - 1 in this order; it starts from equal parts."""
    cuts = [equal_parts(len(rows), count) for rows in videos]
    joined = Joined.of(videos)
    for _ in range(ROUNDS):
        share = one_hot(np.concatenate(cuts), count).astype(np.float64)
        centres = estimate(joined, share, shortest=1.0).centres
        before, cuts = cuts, [cut_in_order(squared_distances(rows, centres)) for rows in videos]
        if all(map(np.array_equal, before, cuts)):
            break
    return cuts


def cut_in_order(costs: Floats) -> Labels:
    """The cheapest way through all steps in their order: (T,) from `costs` (T, K); equal parts of too short a video.

    With C_k(e) the cost of rows 0 to e for step k,

    best_k(e) = min over s < e of  best_{k-1}(s) + C_k(e) - C_k(s)

    >>> cut_in_order(np.array([[0.0, 9], [0, 9], [9, 0], [0, 5], [9, 0]])).tolist()
    [0, 0, 1, 1, 1]
    """
    frames, count = costs.shape
    if frames < count:
        return equal_parts(frames, count)
    total = np.vstack([np.zeros(count), costs.cumsum(axis=0)])
    best, starts = np.append(np.inf, total[1:, 0]), []
    for step in range(1, count):
        gain = best - total[:, step]
        least = np.minimum.accumulate(gain)
        starts.append(np.maximum.accumulate(np.where(gain == least, np.arange(frames + 1), 0)))
        best = np.append(np.inf, total[1:, step] + least[:-1])
    bounds = [frames]
    for start in reversed(starts):
        bounds.append(int(start[bounds[-1] - 1]))
    lengths = -np.diff([*bounds, 0])[::-1]
    return np.repeat(np.arange(count), lengths)
