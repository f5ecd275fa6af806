"""The Potts energy of a labelling, and the checks that its minimisers share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepcut.errors import FeatureError, OptionError

Unary = NDArray[np.float64] | NDArray[np.float32]


def energy(unary: ArrayLike, links: ArrayLike, weights: ArrayLike, labels: ArrayLike) -> float:
    """E(x) = sum_t unary[t, x_t] + sum_e weights[e] [x_a != x_b], link e joining frames a and b.

    `unary (T, K)`, `links (E, 2)`, `weights (E,)` or one number, `labels (T,)`.

    >>> energy([[0.0, 1.0], [0.5, 0.0]], [[0, 1]], [0.2], [0, 1])
    0.2
    """
    costs = check_unary(unary)
    pairs, strength = check_links(links, weights, len(costs))
    chosen = np.asarray(labels)
    if chosen.shape != (len(costs),) or chosen.dtype.kind not in "iu":
        raise FeatureError(
            f"labels is {chosen.dtype} of shape {chosen.shape}; expected are {len(costs)} whole numbers."
        )
    if len(chosen) and not 0 <= chosen.min() <= chosen.max() < costs.shape[1]:
        raise FeatureError(f"labels go from {chosen.min()} to {chosen.max()}; allowed is 0 to {costs.shape[1] - 1}.")
    return float(total_energy(costs, pairs, strength, chosen))


def total_energy(
    unary: Unary, links: NDArray[np.int64], weights: NDArray[np.float64], labels: NDArray[np.integer[Any]]
) -> np.float64:
    """The same for arrays that have been checked."""
    data = unary[np.arange(len(unary)), labels].sum(dtype=np.float64)
    return np.float64(data + weights[labels[links[:, 0]] != labels[links[:, 1]]].sum())


def check_unary(unary: ArrayLike) -> Unary:
    """Costs as a contiguous (T, K) array of float32 or float64."""
    costs = np.asarray(unary)
    if costs.ndim != 2 or 0 in costs.shape or costs.dtype.kind not in "fiu":
        raise FeatureError(
            f"unary is {costs.dtype} of shape {costs.shape}; expected is (T, K), a cost per frame and step."
        )
    if costs.dtype == np.float32:
        return np.ascontiguousarray(costs, dtype=np.float32)
    return np.ascontiguousarray(costs, dtype=np.float64)


def check_weights(weights: ArrayLike, count: int) -> NDArray[np.float64]:
    """Weights as (count,) float64; one number stands for all. A Potts weight below 0 has no cut."""
    strength = np.asarray(weights, dtype=np.float64)
    if strength.ndim == 0:
        strength = np.full(count, strength)
    if strength.shape != (count,):
        raise FeatureError(f"weights has shape {strength.shape}; expected is one number or ({count},), one per link.")
    if count and not strength.min() >= 0:
        raise OptionError(f"weights go down to {strength.min()}; allowed are numbers of at least 0. Raise them.")
    return np.ascontiguousarray(strength)


def check_links(links: ArrayLike, weights: ArrayLike, frames: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Links as (E, 2) frame numbers, with a weight each."""
    pairs = np.asarray(links)
    pairs = pairs.astype(np.int64).reshape(0, 2) if pairs.size == 0 else pairs
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise FeatureError(
            f"links is {pairs.dtype} of shape {pairs.shape}; expected is (E, 2), two frame numbers each."
        )
    if len(pairs) and not 0 <= pairs.min() <= pairs.max() < frames:
        raise FeatureError(f"links join frames {pairs.min()} to {pairs.max()}; there are frames 0 to {frames - 1}.")
    return pairs.astype(np.int64), check_weights(weights, len(pairs))
