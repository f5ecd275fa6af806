"""The compiled soft-DTW kernel for CPUs: products and sums instead of logarithms, one pair after the other.

With Z = exp(-R / gamma) and K = exp(-cost / gamma) the recursion is

    Z[i, j] = K[i, j] (Z[i-1, j] + Z[i, j-1] + Z[i-1, j-1])

without an exponential or a logarithm inside the loop. Z leaves the range of any float, so a cell is kept as mantissa
and whole exponent, Z = m 2^e, and K likewise. Compiled once per machine, then read from numba's cache.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]

_SPAN = 1100
"""A term that is smaller than another by more than 2^-1100 is 0 beside it."""
_HALVES: Array = np.exp2(-np.arange(_SPAN + 1, dtype=np.float64))
_LOWEST = -(2**52)
"""The exponent of 0."""


def forward(cost: NDArray[np.floating], gamma: float, ends: NDArray[np.int64]) -> tuple[Array, Array]:
    """Values (B,) and the weights (B, N, M, 3) of the three predecessors of each cell: above, left, diagonal."""
    x = cost.astype(np.float64) * (-1 / (gamma * math.log(2)))
    if not np.isfinite(x).all():  # an infinite cost is a cell that no alignment passes; a NaN shows in the value
        x = np.clip(x, -(2.0**50), 2.0**50)
    exponent = np.floor(x)
    mantissa = np.exp2(x - exponent)
    whole = np.nan_to_num(exponent, nan=0.0).astype(np.int64)
    value = np.empty(len(cost))
    weights = np.empty((*cost.shape, 3))
    _forward(mantissa, whole, ends, _HALVES, value, weights)
    return value * (-gamma), weights


def backward(weights: Array, ends: NDArray[np.int64]) -> Array:
    """E (B, N, M): the share of the alignments that pass each cell."""
    share = np.zeros(weights.shape[:3])
    _backward(weights, ends, share)
    return share


@njit(cache=True, nogil=True)
def _forward(mantissa, exponent, ends, halves, value, weights):  # type: ignore[no-untyped-def]
    batch, _, columns = mantissa.shape
    m, e = np.empty(columns + 1), np.empty(columns + 1, np.int64)  # the row above, a wall of zeros to its left
    for b in range(batch):
        n, k = ends[b, 0], ends[b, 1]
        m[:] = 0.0
        e[:] = _LOWEST
        m[0], e[0] = 1.0, 0  # where every alignment begins
        for i in range(n):
            diagonal_m, diagonal_e = m[0], e[0]
            left_m, left_e = 0.0, _LOWEST
            m[0], e[0] = left_m, left_e
            for j in range(k):
                above_m, above_e = m[j + 1], e[j + 1]
                top = max(above_e, left_e, diagonal_e)
                up = above_m * halves[min(top - above_e, _SPAN)]
                left = left_m * halves[min(top - left_e, _SPAN)]
                across = diagonal_m * halves[min(top - diagonal_e, _SPAN)]
                total = up + left + across
                inverse = 1.0 / total if total > 0 else 0.0
                weights[b, i, j, 0] = up * inverse
                weights[b, i, j, 1] = left * inverse
                weights[b, i, j, 2] = across * inverse
                diagonal_m, diagonal_e = above_m, above_e
                left_m, left_e = total * mantissa[b, i, j], top + exponent[b, i, j]
                if left_m > 2.0**60:  # the mantissa grows by less than 12 a cell; keep it within range
                    left_m *= 2.0**-60
                    left_e += 60
                m[j + 1], e[j + 1] = left_m, left_e
        value[b] = math.log(left_m) + left_e * 0.6931471805599453 if left_m > 0 else left_m * math.nan - math.inf
        if left_m != left_m:
            value[b] = math.nan


@njit(cache=True, nogil=True)
def _backward(weights, ends, share):  # type: ignore[no-untyped-def]
    for b in range(weights.shape[0]):
        n, k = ends[b, 0], ends[b, 1]
        share[b, n - 1, k - 1] = 1.0
        for i in range(n - 1, -1, -1):
            for j in range(k - 1, -1, -1):
                here = share[b, i, j]
                if i > 0:
                    share[b, i - 1, j] += here * weights[b, i, j, 0]
                if j > 0:
                    share[b, i, j - 1] += here * weights[b, i, j, 1]
                if i > 0 and j > 0:
                    share[b, i - 1, j - 1] += here * weights[b, i, j, 2]
