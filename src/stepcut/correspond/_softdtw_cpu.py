"""The compiled soft-DTW kernel for CPUs: products and sums instead of logarithms, one pair after the other.

With Z = exp(-R / gamma) and K = exp(-cost / gamma) the recursion is

    Z[i, j] = K[i, j] (Z[i-1, j] + Z[i, j-1] + Z[i-1, j-1])

without a logarithm inside the loop, and with one exponential. Z leaves the range of any float, so
a cell is kept as mantissa and whole exponent, Z = m 2^e, and K likewise. Compiled once per machine, then read from
numba's cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit
from numpy.typing import NDArray

_SPAN = 1100
"""A term that is smaller than another by more than 2^-1100 is 0 beside it."""
_HALVES = np.exp2(-np.arange(_SPAN + 1, dtype=np.float64))
_LOG2 = math.log(2)
_S = tuple(1 / math.factorial(n) for n in range(12))
"""The series of the exponential; for |y| < 0.35 its twelve terms are exact to the last digits."""
_FAR = 2**50
"""Exponents stop here: of an infinite cost, and, with the other sign, of a cell that no alignment reaches."""


_ENOUGH = 2**16
"""Cells of cost for which it pays to share the batch between threads."""


def forward(
    cost: NDArray[np.floating], gamma: float, ends: NDArray[np.int64], threads: int
) -> tuple[NDArray[np.floating], list[NDArray[np.floating]]]:
    """Values (B,) and, for each part of the batch, the weights (3, N, M, B') of the three predecessors of each cell:
    above, left, diagonal."""
    batch, rows, columns = cost.shape
    value = np.empty(batch, cost.dtype)
    parts = np.array_split(np.arange(batch), min(threads, batch) if cost.size >= _ENOUGH else 1)
    weights = [np.empty((3, rows, columns, len(part)), cost.dtype) for part in parts]

    def work(number: int) -> None:
        here = slice(parts[number][0], parts[number][-1] + 1)
        _forward(cost[here], gamma, ends[here], _HALVES, value[here], weights[number])

    _share(work, len(parts))
    return value, weights


def backward(
    weights: list[NDArray[np.floating]], ends: NDArray[np.int64], grad: NDArray[np.floating]
) -> NDArray[np.floating]:
    """(B, N, M): `grad (B,)` times E, the share of the alignments that pass each cell."""
    _, rows, columns, _ = weights[0].shape
    starts = np.cumsum([0, *(part.shape[3] for part in weights)])
    share = np.empty((int(starts[-1]), rows, columns), weights[0].dtype)

    def work(number: int) -> None:
        here = slice(starts[number], starts[number + 1])
        _backward(weights[number], ends[here], grad[here], share[here])

    _share(work, len(weights))
    return share


def _share(work: Callable[[int], None], parts: int) -> None:
    """Do all parts, each in a thread of its own: the kernels let go of Python's lock."""
    if parts == 1:
        work(0)
        return
    with ThreadPoolExecutor(parts) as pool:
        list(pool.map(work, range(parts)))


# A cell waits for its left neighbour, so one matrix keeps a processor waiting; the innermost loop goes over the batch.


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _forward(cost, gamma, ends, halves, value, weights):  # type: ignore[no-untyped-def]
    batch, rows, columns = cost.shape
    scale = -1 / (gamma * _LOG2)
    km, ke = np.empty((batch, columns)), np.empty((batch, columns), np.int64)  # K of this row
    m, e = (
        np.zeros((columns + 1, batch)),
        np.full((columns + 1, batch), -_FAR),
    )  # Z of the row above, a wall on its left
    m[0], e[0] = 1.0, 0  # where every alignment begins
    cross_m, cross_e = np.empty(batch), np.empty(batch, np.int64)  # Z on the diagonal
    for i in range(rows):
        for b in range(batch):
            row, mantissa, exponent = cost[b, i], km[b], ke[b]
            for j in range(columns):  # K = 2^x = 2^whole e^y, e^y by its series: |y| < 0.35
                x = row[j] * scale
                whole = np.floor(x + 0.5)
                y = (x - whole) * _LOG2
                high = _S[6] + y * (_S[7] + y * (_S[8] + y * (_S[9] + y * (_S[10] + y * _S[11]))))
                mantissa[j] = 1 + y * (1 + y * (_S[2] + y * (_S[3] + y * (_S[4] + y * (_S[5] + y * high)))))
                exponent[j] = np.int64(whole)
            for j in range(columns):
                if not abs(row[j] * scale) < _FAR:  # nothing passes an infinite cost; a NaN shows in the value
                    mantissa[j] = 0.0 if row[j] * scale < 0 else math.nan
                    exponent[j] = 0
        for b in range(batch):
            cross_m[b], cross_e[b] = m[0, b], e[0, b]
            m[0, b], e[0, b] = 0.0, -_FAR
        for j in range(columns):
            for b in range(batch):
                above_m, above_e, left_e = m[j + 1, b], e[j + 1, b], e[j, b]
                top = max(above_e, left_e, cross_e[b])
                up = above_m * halves[min(top - above_e, _SPAN)]
                left = m[j, b] * halves[min(top - left_e, _SPAN)]
                cross = cross_m[b] * halves[min(top - cross_e[b], _SPAN)]
                total = up + left + cross
                inverse = 1.0 / total
                if not total > 0:
                    up, left, cross, inverse = 0.0, 0.0, 0.0, 0.0
                weights[0, i, j, b] = up * inverse
                weights[1, i, j, b] = left * inverse
                weights[2, i, j, b] = cross * inverse
                cross_m[b], cross_e[b] = above_m, above_e
                z, exponent = total * km[b, j], top + ke[b, j]
                if z > 2.0**60:  # the mantissa grows by less than 12 a cell; keep it within range
                    z *= 2.0**-60
                    exponent += 60
                m[j + 1, b] = z
                e[j + 1, b] = -_FAR if z == 0 else exponent
        for b in range(batch):
            if ends[b, 0] == i + 1:
                z = m[ends[b, 1], b]
                value[b] = math.inf if z == 0 else -gamma * (math.log(z) + e[ends[b, 1], b] * _LOG2)


@njit(cache=True, nogil=True)
def _backward(weights, ends, grad, share):  # type: ignore[no-untyped-def]
    _, rows, columns, batch = weights.shape
    # E of the row below and of this one, a column of 0 to the right; a cell outside `ends` passes nothing on.
    below, here = np.zeros((columns + 1, batch)), np.zeros((columns + 1, batch))
    for i in range(rows - 1, -1, -1):
        under = min(i + 1, rows - 1)
        for j in range(columns - 1, -1, -1):
            right = min(j + 1, columns - 1)
            for b in range(batch):
                here[j, b] = (
                    below[j, b] * weights[0, under, j, b]
                    + here[j + 1, b] * weights[1, i, right, b]
                    + below[j + 1, b] * weights[2, under, right, b]
                )
            for b in range(batch):
                if ends[b, 0] == i + 1 and ends[b, 1] == j + 1:
                    here[j, b] = grad[b]
                share[b, i, j] = here[j, b]
        below, here = here, below
