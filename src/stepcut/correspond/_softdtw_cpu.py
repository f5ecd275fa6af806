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
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numba import njit, types
from numba.extending import overload
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Ends = NDArray[np.int64]
Result = TypeVar("Result")

_LOG2 = math.log(2)
_FAST = {"contract", "nnan", "nsz"}
"""In the loops there is no NaN."""
_NOWHERE = -(2.0**100)
"""The exponent of a cell that no alignment reaches."""
_COUNTED = 2.0**50
"""Exponents up to here are counted exactly in float64; in float32, up to `_COUNTED_SINGLE`."""
_COUNTED_SINGLE = 2.0**21
_ENOUGH = 2**16
"""Cells of cost for which it pays to share the batch between threads."""


def align(cost: Array, gamma: float, ends: Ends | None, threads: int, wanted: bool) -> tuple[Array, list[Array]]:
    """The values (B,) of costs (B, N, M), and where `wanted`, for `spread`, the weights of the predecessors of a cell.

    `ends (B, 2)` counts the rows and columns that are real; None where all are. The batch is cut into as many parts as
    there are weights, one for a thread.
    """
    ends = _whole(cost.shape) if ends is None else ends
    value = np.empty(len(cost), cost.dtype)
    if threads < 2 or cost.size < _ENOUGH:
        weights = [_room(cost, wanted)]
        good = _forward(cost, gamma, ends, value, weights[0])
    else:
        parts = _cut(len(cost), threads)
        weights = [_room(cost[part], wanted) for part in parts]
        given = zip(parts, weights, strict=True)
        good = all(_by_threads(_forward, [(cost[part], gamma, ends[part], value[part], own) for part, own in given]))
    return (value, weights) if good else _align_extremes(cost, gamma, ends, threads, wanted)


def spread(shape: tuple[int, ...], weights: list[Array], ends: Ends | None, grad: Array) -> Array:
    """`grad` (B,) times the share (B, N, M) of the alignments that pass each cell."""
    ends = _whole(shape) if ends is None else ends
    kind = weights[0].dtype
    share = np.empty(shape, kind)
    seed = np.ascontiguousarray(grad, kind)
    if len(weights) == 1:
        _backward(weights[0], ends, seed, share)
    else:
        parts = zip(weights, _cut(len(share), len(weights)), strict=True)
        _by_threads(_backward, [(each, ends[part], seed[part], share[part]) for each, part in parts])
    return share.astype(grad.dtype, copy=False)


def _room(cost: Array, wanted: bool) -> Array:
    """For the weights of the predecessors of each cell: above, left, diagonal."""
    return np.empty((3, cost.size if wanted else 0), cost.dtype)


@functools.lru_cache(maxsize=64)
def _whole(shape: tuple[int, ...]) -> Ends:
    """(B, 2): all rows and columns of each matrix are real."""
    return np.full((shape[0], 2), shape[1:])


def _cut(batch: int, threads: int) -> list[slice]:
    """A part of the batch for each thread, nearly as many for one as for another."""
    parts = min(batch, threads)
    return [slice(batch * part // parts, batch * (part + 1) // parts) for part in range(parts)]


def _by_threads(work: Callable[..., Result], parts: list[tuple[Any, ...]]) -> list[Result]:
    """The answers for all parts; the first is done here. The kernels let go of Python's lock."""
    others = [_threads(len(parts) - 1).submit(work, *part) for part in parts[1:]]
    return [work(*parts[0]), *(other.result() for other in others)]


@functools.cache
def _threads(count: int) -> ThreadPoolExecutor:
    """Threads that are kept: to start one takes as long as to align thousands of cells."""
    return ThreadPoolExecutor(count)


if hasattr(os, "register_at_fork"):  # a child process has none of its parent's threads
    os.register_at_fork(after_in_child=_threads.cache_clear)


def _align_extremes(cost: Array, gamma: float, ends: Ends, threads: int, wanted: bool) -> tuple[Array, list[Array]]:
    """In float64, with costs so large that nothing passes in place of infinite ones; a NaN shows in the value."""
    blocked = _COUNTED * gamma / sum(cost.shape[1:]) / 2
    broken = np.isnan(cost) | (cost == -np.inf)
    held = np.where(broken, blocked, np.clip(cost.astype(np.float64), -blocked, blocked))
    value, weights = align(held, gamma, ends, threads, wanted)
    value[value > blocked / 2] = np.inf
    for b, (n, m) in enumerate(ends):
        if broken[b, :n, :m].any():
            value[b] = np.nan
    return value.astype(cost.dtype), weights


def numbers(array: Any) -> Any:
    """For the kind of floats in the array: what rounds to a whole number when added and taken away again, the bias of
    the exponent, and the polynomial of 2^y, exact to the last digit for |y| <= 1/2."""


@overload(numbers)
def _numbers_compiled(array):  # type: ignore[no-untyped-def]
    single = array.dtype == types.float32
    kind, digits, bias, degree = (np.float32, 23, 127, 5) if single else (np.float64, 52, 1023, 11)
    fitted = Chebyshev.interpolate(np.exp2, degree, domain=[-0.5, 0.5]).convert(kind=Polynomial).coef
    rounds, polynomial = 1.5 * 2**digits, tuple(kind(c) for c in fitted)
    return lambda array: (array.dtype.type(rounds), array.dtype.type(bias), polynomial)


def two_to(shifted: Any) -> Any:
    """2^n for a whole n, given as n + bias + the number that rounds: the last bits of that float, moved to where a
    float has its exponent."""


@overload(two_to)
def _two_to_compiled(shifted):  # type: ignore[no-untyped-def]
    if shifted == types.float32:
        return lambda shifted: np.int32(np.float32(shifted).view(np.int32) << 23).view(np.float32)
    return lambda shifted: np.int64(np.float64(shifted).view(np.int64) << 52).view(np.float64)


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
    """Values and, unless they have no place, weights; False, and nothing done, where a cost is not a number or too
    large to be counted."""
    batch, rows, columns = cost.shape
    kind = cost.dtype.type
    counted = _COUNTED if cost.itemsize == 8 else _COUNTED_SINGLE
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
            _gather(cost, diagonal, lines)
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


@njit(cache=True, nogil=True)
def _gather(matrices, diagonal, lines):  # type: ignore[no-untyped-def]
    """Four diagonals of the matrices (B, N, M), this one and the next, into `lines` (4, N B): four neighbours of a row
    are read together, so that a line of the cache is not looked for again and again."""
    batch, rows, columns = matrices.shape
    first, last = max(0, diagonal + 4 - columns), min(rows, diagonal + 1)  # rows that all four pass
    flat = matrices.reshape(-1)
    one, two, three, four = lines[0], lines[1], lines[2], lines[3]
    for i in range(first, last):
        cell = i * columns + diagonal - i
        for p in range(i * batch, (i + 1) * batch):
            place = np.uintp(p)  # unsigned numbers are not looked at for being negative
            one[place] = flat[np.uintp(cell)]
            two[place] = flat[np.uintp(cell + 1)]
            three[place] = flat[np.uintp(cell + 2)]
            four[place] = flat[np.uintp(cell + 3)]
            cell += rows * columns
    for i in range(max(0, diagonal + 1 - columns), min(rows, diagonal + 4)):
        if first <= i < last:
            continue
        for n in range(4):
            j = diagonal + n - i
            if 0 <= j < columns:
                for b in range(batch):
                    lines[n, i * batch + b] = matrices[b, i, j]


@njit(cache=True, nogil=True)
def _scatter(lines, diagonal, matrices):  # type: ignore[no-untyped-def]
    """The way back: `_gather` with reading and writing exchanged."""
    batch, rows, columns = matrices.shape
    first, last = max(0, diagonal + 4 - columns), min(rows, diagonal + 1)
    flat = matrices.reshape(-1)
    one, two, three, four = lines[0], lines[1], lines[2], lines[3]
    for i in range(first, last):
        cell = i * columns + diagonal - i
        for p in range(i * batch, (i + 1) * batch):
            place = np.uintp(p)
            flat[np.uintp(cell)] = one[place]
            flat[np.uintp(cell + 1)] = two[place]
            flat[np.uintp(cell + 2)] = three[place]
            flat[np.uintp(cell + 3)] = four[place]
            cell += rows * columns
    for i in range(max(0, diagonal + 1 - columns), min(rows, diagonal + 4)):
        if first <= i < last:
            continue
        for n in range(4):
            j = diagonal + n - i
            if 0 <= j < columns:
                for b in range(batch):
                    matrices[b, i, j] = lines[n, i * batch + b]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST, inline="always")
def _step(cost, scale, m_up, e_up, m_left, e_left, m_cross, e_cross, up, left, cross, m, e):  # type: ignore[no-untyped-def]
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
def _backward(weights, ends, seed, share):  # type: ignore[no-untyped-def]
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
                ups[after, ends[b, 0] * batch + b] = seed[b]
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
            _scatter(lines, diagonal, share)
        stop = start


@njit(cache=True, nogil=True, inline="always")
def _step_back(below, right, across, w_up, w_left, w_cross, share, up, left, cross):  # type: ignore[no-untyped-def]
    """One diagonal: the shares that the cells get, and what they pass on up, left and across."""
    for p in range(len(share)):
        passed = below[p] + right[p] + across[p]
        share[p] = passed
        up[p] = passed * w_up[p]
        left[p] = passed * w_left[p]
        cross[p] = passed * w_cross[p]
