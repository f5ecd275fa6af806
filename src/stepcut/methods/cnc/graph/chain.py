"""The exact minimum of the Potts energy on a chain, in O(T K): dynamic programming, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepcut.errors import FeatureError
from stepcut.jit import compiled_later
from stepcut.methods.cnc.graph.energy import check_unary, check_weights


def chain(unary: ArrayLike, weights: ArrayLike) -> NDArray[np.int64]:
    """The labels (T,) of lowest energy where frame t is linked to t + 1 only.

    `unary (T, K)`; `weights (T - 1,)`, the cost of a change between t and t + 1, or one number for all.

    >>> chain([[0, 1], [0.6, 0.4], [0, 1]], 0.2).tolist()
    [0, 0, 0]
    """
    costs = check_unary(unary)
    strength = check_weights(weights, len(costs) - 1)
    labels = _chain(costs, strength)
    if labels[0] < 0:
        raise FeatureError(
            "unary holds NaN, minus infinity, or a frame without any finite cost; costs must be numbers. Infinity may "
            "forbid some steps of a frame, not all."
        )
    return labels


@compiled_later
def _chain(unary: NDArray[Any], weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """best_t(k) = unary_t(k) + min(best_{t-1}(k), min_j best_{t-1}(j) + w): stay, or come from the cheapest."""
    frames, steps = unary.shape
    best = unary[0].astype(np.float64)
    cheapest = np.zeros(frames, dtype=np.int32)  # the step it is cheapest to come from, at the frame before
    stays = np.ones((frames, steps), dtype=np.bool_)
    for t in range(1, frames):
        at = 0
        for k in range(1, steps):
            if best[k] < best[at]:
                at = k
        cheapest[t] = at
        # Kept relative to the cheapest, so that sums over a million frames lose no digits.
        base, change = best[at], weights[t - 1]
        for k in range(steps):
            keep = best[k] - base
            if change < keep:
                stays[t, k] = False
                keep = change
            best[k] = unary[t, k] + keep
    labels = np.full(frames, -1, dtype=np.int64)
    step = 0
    for k in range(1, steps):
        if best[k] < best[step]:
            step = k
    if not np.isfinite(best[step]) or np.isnan(best).any():  # NaN, once met, stays to the end
        return labels
    for t in range(frames - 1, -1, -1):
        labels[t] = step
        if not stays[t, step]:
            step = cheapest[t]
    return labels
