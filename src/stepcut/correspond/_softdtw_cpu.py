"""The compiled soft-DTW kernel for CPUs: products and sums instead of logarithms, one anti-diagonal after the other.

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

import functools
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Ends = NDArray[np.int64]

_LOG2 = math.log(2)
_FAST = {"contract", "nnan", "nsz"}
"""In the loops there is no NaN."""
_NOWHERE = -(2.0**100)
"""The exponent of a cell that no alignment reaches."""
_COUNTED = 2.0**50
"""Exponents up to here are counted exactly in float64; in float32, up to `_COUNTED_SINGLE`."""
_COUNTED_SINGLE = 2.0**22
_ENOUGH = 2**16
"""Cells of cost for which it pays to share the batch between threads."""


def align(cost: Array, gamma: float, ends: Ends | None, threads: int, wanted: bool) -> tuple[Array, Array]:
    """The values (B,) of costs (B, N, M), and where `wanted` the share (B, N, M) of the alignments that pass each cell.

    `ends (B, 2)` counts the rows and columns that are real; None where all are.
    """
    ends = _whole(cost.shape) if ends is None else ends
    value, share = np.empty(cost.shape[0], cost.dtype), np.empty(cost.shape if wanted else (0, 0, 0), cost.dtype)
    if threads < 2 or cost.size < _ENOUGH:
        good = _align(cost, gamma, ends, value, share)
    else:
        good = _align_by_threads(cost, gamma, ends, value, share, threads)
    return (value, share) if good else _align_extremes(cost, gamma, ends, threads, wanted)


@functools.lru_cache(maxsize=64)
def _whole(shape: tuple[int, ...]) -> Ends:
    """(B, 2): all rows and columns of each matrix are real."""
    return np.full((shape[0], 2), shape[1:])


def _align_by_threads(cost: Array, gamma: float, ends: Ends, value: Array, share: Array, threads: int) -> bool:
    size = -(-len(cost) // threads)

    def work(first: int) -> bool:
        part = slice(first, first + size)
        return bool(_align(cost[part], gamma, ends[part], value[part], share[part]))

    with ThreadPoolExecutor(threads) as pool:  # the kernel lets go of Python's lock
        others = pool.map(work, range(size, len(cost), size))
        return work(0) and all(others)


def _align_extremes(cost: Array, gamma: float, ends: Ends, threads: int, wanted: bool) -> tuple[Array, Array]:
    """In float64, with costs so large that nothing passes in place of infinite ones; a NaN shows in the value."""
    blocked = _COUNTED * gamma / sum(cost.shape[1:]) / 2
    broken = np.isnan(cost) | (cost == -np.inf)
    held = np.where(broken, blocked, np.clip(cost.astype(np.float64), -blocked, blocked))
    value, share = align(held, gamma, ends, threads, wanted)
    value[value > blocked / 2] = np.inf
    for b, (n, m) in enumerate(ends):
        if broken[b, :n, :m].any():
            value[b] = np.nan
    return value.astype(cost.dtype), share.astype(cost.dtype)


def _numbers(array: Any) -> Any:
    """For the kind of floats in the array: what rounds to a whole number when added and taken away again, the bias of
    the exponent, and the polynomial of 2^y, exact to the last digit for |y| <= 1/2."""


@overload(_numbers)
def _numbers_compiled(array):  # type: ignore[no-untyped-def]
    single = array.dtype == types.float32
    kind, digits, bias, degree = (np.float32, 23, 127, 5) if single else (np.float64, 52, 1023, 11)
    fitted = Chebyshev.interpolate(np.exp2, degree, domain=[-0.5, 0.5]).convert(kind=Polynomial).coef
    rounds, polynomial = 1.5 * 2**digits, tuple(kind(c) for c in fitted)
    return lambda array: (array.dtype.type(rounds), array.dtype.type(bias), polynomial)


def _two_to(shifted: Any) -> Any:
    """2^n for a whole n, given as n + bias + the number that rounds: the last bits of that float, moved to where a
    float has its exponent."""


@overload(_two_to)
def _two_to_compiled(shifted):  # type: ignore[no-untyped-def]
    if shifted == types.float32:
        return lambda shifted: np.int32(np.float32(shifted).view(np.int32) << 23).view(np.float32)
    return lambda shifted: np.int64(np.float64(shifted).view(np.int64) << 52).view(np.float64)


@njit(cache=True, nogil=True)
def _align(cost, gamma, ends, value, share):  # type: ignore[no-untyped-def]
    """False, and nothing done, where a cost is not a number or too large to be counted."""
    _, rows, columns = cost.shape
    counted = _COUNTED if cost.itemsize == 8 else _COUNTED_SINGLE
    if not _within(cost.reshape(-1), cost.dtype.type(counted * gamma / (rows + columns))):
        return False
    weights = np.empty((3, cost.size), cost.dtype)  # of the predecessors of each cell: above, left, diagonal
    _forward(cost, gamma, ends, value, weights)
    if share.size > 0:
        _backward(weights, ends, share)
    return True


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _within(cost, most):  # type: ignore[no-untyped-def]
    """Whether no cost is larger than `most`, infinite or NaN."""
    none, one = cost.dtype.type(0), cost.dtype.type(1)
    outside = none
    for p in range(len(cost)):
        outside += none if abs(cost[p]) <= most else one
    return outside == none


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _forward(cost, gamma, ends, value, weights):  # type: ignore[no-untyped-def]
    batch, rows, columns = cost.shape
    kind = cost.dtype.type
    scale = kind(-1 / (gamma * _LOG2))
    # Z of this diagonal and of the two before, by turns. Before place `batch` is the wall above row 0; places that no
    # diagonal has come to yet are the wall left of column 0.
    mantissas = np.zeros((3, (rows + 1) * batch), cost.dtype)
    exponents = np.full((3, (rows + 1) * batch), kind(_NOWHERE))
    mantissas[1, :batch], exponents[1, :batch] = 1, 0  # every alignment begins on the diagonal before (0, 0)
    line = np.empty(rows * batch, cost.dtype)
    start = 0
    for diagonal in range(rows + columns - 1):
        first, last = max(0, diagonal - columns + 1), min(rows, diagonal + 1)
        above, here = slice(first * batch, last * batch), slice((first + 1) * batch, (last + 1) * batch)
        now, before, earlier = diagonal % 3, (diagonal + 2) % 3, (diagonal + 1) % 3
        m, e, m1, e1 = mantissas[now], exponents[now], mantissas[before], exponents[before]
        m2, e2 = mantissas[earlier], exponents[earlier]
        for i in range(first, last):
            for b in range(batch):
                line[(i - first) * batch + b] = cost[b, i, diagonal - i]
        stop = start + (last - first) * batch
        up, left, cross = weights[0, start:stop], weights[1, start:stop], weights[2, start:stop]
        _step(
            line,
            scale,
            m1[above],
            e1[above],
            m1[here],
            e1[here],
            m2[above],
            e2[above],
            up,
            left,
            cross,
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
        start = stop


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST, inline="always")
def _step(cost, scale, m_up, e_up, m_left, e_left, m_cross, e_cross, up, left, cross, m, e):  # type: ignore[no-untyped-def]
    """One diagonal: Z = m 2^e from the Z of the predecessors, and their weights `up`, `left` and `cross` in its sum."""
    rounds, bias, polynomial = _numbers(m)
    one, least, shift = m.dtype.type(1), -bias, rounds + bias
    for p in range(len(m)):
        x = cost[p] * scale  # K = 2^x = 2^whole 2^y
        whole = (x + rounds) - rounds
        y = x - whole
        k = polynomial[len(polynomial) - 1]
        for n in range(len(polynomial) - 2, -1, -1):
            k = polynomial[n] + y * k
        top = max(e_up[p], max(e_left[p], e_cross[p]))
        a = m_up[p] * _two_to(max(e_up[p] - top, least) + shift)
        b = m_left[p] * _two_to(max(e_left[p] - top, least) + shift)
        c = m_cross[p] * _two_to(max(e_cross[p] - top, least) + shift)
        total = a + b + c
        inverse = one / total
        up[p] = a * inverse
        left[p] = b * inverse
        cross[p] = c * inverse
        m[p] = total * k
        e[p] = top + whole


@njit(cache=True, nogil=True)
def _normalise(m, e):  # type: ignore[no-untyped-def]
    """Bring mantissas back towards 1. A diagonal makes them at most 2^2.1 times as large, at least 2^-0.5 times."""
    kind = m.dtype.type
    zero, one = kind(0), kind(1)
    large, small, bits = kind(2.0**24), kind(2.0**-24), kind(24)
    for p in range(len(m)):
        over, under = m[p] > kind(2.0**12), m[p] < kind(2.0**-12)
        m[p] = m[p] * (small if over else large if under else one)
        e[p] = e[p] + (bits if over else -bits if under else zero)


@njit(cache=True, nogil=True)
def _backward(weights, ends, share):  # type: ignore[no-untyped-def]
    batch, rows, columns = share.shape
    # What the cells of this diagonal and of the two after pass on, by turns: up, left and across; 0 where none is.
    size = (3, (rows + 1) * batch)
    ups, lefts, crosses = np.zeros(size, share.dtype), np.zeros(size, share.dtype), np.zeros(size, share.dtype)
    line = np.empty(rows * batch, share.dtype)
    stop = weights.shape[1]
    for diagonal in range(rows + columns - 2, -1, -1):
        first, last = max(0, diagonal - columns + 1), min(rows, diagonal + 1)
        here, below = slice(first * batch, last * batch), slice((first + 1) * batch, (last + 1) * batch)
        now, after, later = diagonal % 3, (diagonal + 1) % 3, (diagonal + 2) % 3
        start = stop - (last - first) * batch
        _add(ups[after, below], lefts[after, here], crosses[later, below], line[: stop - start])
        for b in range(batch):
            if ends[b, 0] + ends[b, 1] - 2 == diagonal:
                line[(ends[b, 0] - 1 - first) * batch + b] = 1
        _multiply(line, weights[0, start:stop], ups[now, here])
        _multiply(line, weights[1, start:stop], lefts[now, here])
        _multiply(line, weights[2, start:stop], crosses[now, here])
        for i in range(first, last):
            for b in range(batch):
                share[b, i, diagonal - i] = line[(i - first) * batch + b]
        stop = start


@njit(cache=True, nogil=True)
def _add(a, b, c, out):  # type: ignore[no-untyped-def]
    for p in range(len(out)):
        out[p] = a[p] + b[p] + c[p]


@njit(cache=True, nogil=True)
def _multiply(a, b, out):  # type: ignore[no-untyped-def]
    for p in range(len(out)):
        out[p] = a[p] * b[p]
