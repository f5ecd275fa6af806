"""The compiled loops of soft-DTW: products and sums instead of logarithms, one anti-diagonal after the other.

With Z = exp(-R / gamma) and K = exp(-cost / gamma) the recursion is

    Z[i, j] = K[i, j] (Z[i-1, j] + Z[i, j-1] + Z[i-1, j-1])

without a logarithm inside the loop, and with one exponential. Z leaves the range of any float, so a cell is kept as a
mantissa and a whole exponent, Z = m 2^e, and K likewise.

The cells of an anti-diagonal do not wait for one another, nor do the matrices of a batch: cell (i, j) of matrix b lies
at place i * batch + b of diagonal i + j. So every step of the recursion is a plain loop over neighbouring numbers, all
floats of one kind, which the compiler turns into vector instructions. Compiled once per machine, then read from numba's
cache.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.jit import compiled
from stepcut.methods.cnc._powers_cpu import numbers, two_to

Array = NDArray[np.floating[Any]]
Ends = NDArray[np.int64]

_LOG2 = math.log(2)
_FAST = {"contract", "nnan", "nsz"}
"""In the loops there is no NaN."""
_NOWHERE = -(2.0**100)
"""The exponent of a cell that no alignment reaches."""
COUNTED = 2.0**50
"""Exponents up to here are counted exactly in float64; in float32, up to `_COUNTED_SINGLE`."""
_COUNTED_SINGLE = 2.0**21


@compiled(fastmath={"reassoc"})
def _within(cost: Array, most: Any) -> bool:
    """Whether no cost is larger than `most`, infinite or NaN."""
    none, one = cost.dtype.type(0), cost.dtype.type(1)
    outside = none
    for p in range(len(cost)):
        outside += none if abs(cost[p]) <= most else one
    return bool(outside == none)


@compiled()
def align_batch(cost: Array, gamma: float, ends: Ends, value: Array, share: Array) -> bool:
    """Fill in the values (B,) and, unless they have no place, the shares (B, N, M) of the alignments in each cell.

    False, and nothing done, where a cost is not a number or too large to be counted. Shares are computed at once, not
    when a gradient is asked for: the weights are still in the cache, and need not be kept.
    """
    wanted = share.size > 0
    weights = np.empty((3, cost.size if wanted else 0), cost.dtype)
    good = _forward(cost, gamma, ends, value, weights)
    if good and wanted:
        _backward(weights, ends, share)
    return bool(good)


@compiled(error_model="numpy", fastmath=_FAST)
def _forward(cost: Array, gamma: float, ends: Ends, value: Array, weights: Array) -> bool:
    """The values and, unless they have no place, the weights of the predecessors of a cell: above, left, diagonal."""
    batch, rows, columns = cost.shape
    kind = cost.dtype.type
    counted = COUNTED if cost.itemsize == 8 else _COUNTED_SINGLE
    if not _within(cost.reshape(-1), kind(counted * gamma / (rows + columns))):
        return False
    scale = kind(-1 / (gamma * _LOG2))
    # Z of this diagonal and of the two before, by turns. Before place `batch` is the wall above row 0; places that no
    # diagonal has come to yet are the wall left of column 0.
    mantissas = np.zeros((3, (rows + 1) * batch), cost.dtype)
    exponents = np.full((3, (rows + 1) * batch), kind(_NOWHERE))
    mantissas[1, :batch], exponents[1, :batch] = 1, 0  # every alignment begins on the diagonal before (0, 0)
    lines = np.empty((4, rows * batch), cost.dtype)
    wanted = weights.size > 0
    kept = weights if wanted else np.empty((3, rows * batch), cost.dtype)
    start = 0
    for diagonal in range(rows + columns - 1):
        if diagonal % 4 == 0:
            _exchange(cost, diagonal, lines, False)
        first, last = max(0, diagonal - columns + 1), min(rows, diagonal + 1)
        above, here = slice(first * batch, last * batch), slice((first + 1) * batch, (last + 1) * batch)
        now, before, earlier = diagonal % 3, (diagonal + 2) % 3, (diagonal + 1) % 3
        m, e, m1, e1 = mantissas[now], exponents[now], mantissas[before], exponents[before]
        m2, e2 = mantissas[earlier], exponents[earlier]
        stop = start + (last - first) * batch
        _step(
            lines[diagonal % 4, above],
            scale,
            m1[above],
            e1[above],
            m1[here],
            e1[here],
            m2[above],
            e2[above],
            kept[0, start:stop],
            kept[1, start:stop],
            kept[2, start:stop],
            m[here],
            e[here],
        )
        if diagonal % 8 < 2:  # an alignment may leap over one diagonal, not over two
            _normalise(m[here], e[here])
        if diagonal == 0:
            mantissas[1, :batch], exponents[1, :batch] = 0, _NOWHERE
        for b in range(batch):
            if ends[b, 0] + ends[b, 1] - 2 == diagonal:
                place = ends[b, 0] * batch + b
                value[b] = -gamma * (math.log(np.float64(m[place])) + e[place] * _LOG2)
        if wanted:
            start = stop
    return True


@compiled()
def _exchange(matrices: Array, diagonal: int, lines: Array, back: bool) -> None:
    """Four diagonals of the matrices (B, N, M), this one and the next, into `lines` (4, N B), or `back` from there.

    Four neighbours of a row are moved together, so that a line of the cache is not looked for again and again."""
    batch, rows, columns = matrices.shape
    first, last = max(0, diagonal + 4 - columns), min(rows, diagonal + 1)  # rows that all four pass
    flat = matrices.reshape(-1)
    one, two, three, four = lines[0], lines[1], lines[2], lines[3]
    for i in range(first, last):
        cell = i * columns + diagonal - i
        for p in range(i * batch, (i + 1) * batch):
            place = np.uintp(p)  # unsigned numbers are not looked at for being negative
            a, b, c, d = np.uintp(cell), np.uintp(cell + 1), np.uintp(cell + 2), np.uintp(cell + 3)
            if back:
                flat[a], flat[b], flat[c], flat[d] = one[place], two[place], three[place], four[place]
            else:
                one[place], two[place], three[place], four[place] = flat[a], flat[b], flat[c], flat[d]
            cell += rows * columns
    for i in range(max(0, diagonal + 1 - columns), min(rows, diagonal + 4)):
        if first <= i < last:
            continue
        for n in range(4):
            j = diagonal + n - i
            if 0 <= j < columns:
                for p in range(batch):
                    if back:
                        matrices[p, i, j] = lines[n, i * batch + p]
                    else:
                        lines[n, i * batch + p] = matrices[p, i, j]


@compiled(error_model="numpy", fastmath=_FAST, inline="always")
def _step(
    cost: Array,
    scale: Any,
    m_up: Array,
    e_up: Array,
    m_left: Array,
    e_left: Array,
    m_cross: Array,
    e_cross: Array,
    up: Array,
    left: Array,
    cross: Array,
    m: Array,
    e: Array,
) -> None:
    """One diagonal: Z = m 2^e from the Z of the predecessors, and their weights `up`, `left` and `cross` in its sum."""
    rounds, bias, polynomial = numbers(m)
    one, least, shift = m.dtype.type(1), rounds, rounds + bias
    for p in range(len(m)):
        x = cost[p] * scale  # K = 2^x = 2^whole 2^y
        whole = (x + rounds) - rounds
        y = x - whole
        k = polynomial[len(polynomial) - 1]
        for n in range(len(polynomial) - 2, -1, -1):
            k = polynomial[n] + y * k
        top = max(e_up[p], max(e_left[p], e_cross[p]))
        base = top - shift  # whole numbers that the float still counts: nothing is rounded
        a = m_up[p] * two_to(max(e_up[p] - base, least))
        b = m_left[p] * two_to(max(e_left[p] - base, least))
        c = m_cross[p] * two_to(max(e_cross[p] - base, least))
        total = a + b + c
        inverse = one / total
        up[p] = a * inverse
        left[p] = b * inverse
        cross[p] = c * inverse
        m[p] = total * k
        e[p] = top + whole


@compiled()
def _normalise(m: Array, e: Array) -> None:
    """Bring mantissas back towards 1. A diagonal makes them at most 2^2.1 times as large, at least 2^-0.5 times."""
    kind = m.dtype.type
    zero, one = kind(0), kind(1)
    large, small, bits = kind(2.0**24), kind(2.0**-24), kind(24)
    for p in range(len(m)):
        over, under = m[p] > kind(2.0**12), m[p] < kind(2.0**-12)
        m[p] = m[p] * (small if over else large if under else one)
        e[p] = e[p] + (bits if over else -bits if under else zero)


@compiled()
def _backward(weights: Array, ends: Ends, share: Array) -> None:
    """The shares, from the last diagonal to the first."""
    batch, rows, columns = share.shape
    # What the cells of this diagonal and of the two after pass on, by turns: up, left and across; 0 where none is.
    size = (3, (rows + 1) * batch)
    ups, lefts, crosses = np.zeros(size, share.dtype), np.zeros(size, share.dtype), np.zeros(size, share.dtype)
    lines = np.empty((4, rows * batch), share.dtype)
    stop = weights.shape[1]
    for diagonal in range(rows + columns - 2, -1, -1):
        first, last = max(0, diagonal - columns + 1), min(rows, diagonal + 1)
        here, below = slice(first * batch, last * batch), slice((first + 1) * batch, (last + 1) * batch)
        now, after, later = diagonal % 3, (diagonal + 1) % 3, (diagonal + 2) % 3
        start = stop - (last - first) * batch
        for b in range(batch):  # the last cell gets its share as if from the cell below it, which is not real
            if ends[b, 0] + ends[b, 1] - 2 == diagonal:
                ups[after, ends[b, 0] * batch + b] = 1
        _step_back(
            ups[after, below],
            lefts[after, here],
            crosses[later, below],
            weights[0, start:stop],
            weights[1, start:stop],
            weights[2, start:stop],
            lines[diagonal % 4, here],
            ups[now, here],
            lefts[now, here],
            crosses[now, here],
        )
        for b in range(batch):
            if ends[b, 0] + ends[b, 1] - 2 == diagonal:
                ups[after, ends[b, 0] * batch + b] = 0
        if diagonal % 4 == 0:
            _exchange(share, diagonal, lines, True)
        stop = start


@compiled(inline="always")
def _step_back(
    below: Array,
    right: Array,
    across: Array,
    w_up: Array,
    w_left: Array,
    w_cross: Array,
    share: Array,
    up: Array,
    left: Array,
    cross: Array,
) -> None:
    """One diagonal: the shares that the cells get, and what they pass on up, left and across."""
    for p in range(len(share)):
        passed = below[p] + right[p] + across[p]
        share[p] = passed
        up[p] = passed * w_up[p]
        left[p] = passed * w_left[p]
        cross[p] = passed * w_cross[p]
