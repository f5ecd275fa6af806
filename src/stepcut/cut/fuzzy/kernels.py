"""The compiled loops of fuzzy c-means on the CPU. Importing this imports numba; machine code is kept on disk.

With so few centres (7, not 700) a matrix product spends its time on moving frames about. Here a block of frames stays
in the nearest cache while its distances, memberships and share of the new centres are computed, two or four frames
and two centres at once, so that what is loaded is used more than once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from numba import njit

from stepcut.cut.contract import Rows
from stepcut.cut.fuzzy.engine import TINY

Loop = TypeVar("Loop", bound=Callable[..., object])

BLOCK = 64
"""Frames in a block; of 128 dimensions they take 32 kB."""
LEAST = np.float32(TINY)
FAR = np.float32(-80)
"""exp(-80) is nothing to float32."""
ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)


def compiled(loop: Loop) -> Loop:
    """Machine code of the loop. Sums may be reordered, for speed; NaN and infinity keep their meaning."""
    return cast(Loop, njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"})(loop))


@compiled
def add_up(rows: Rows, norms: Rows, weights: Rows, centres: Rows, m: np.float32, sums: Rows, mass: Rows) -> float:
    """Add the frames' share of the new centres to `sums` (k, or k + 1 to be even, d) and `mass` (k,); return J."""
    steps, dim = centres.shape
    apart = np.ones((steps, BLOCK), dtype=np.float32)
    powers = np.zeros((len(sums), BLOCK), dtype=np.float32)
    least = np.empty(BLOCK, dtype=np.float32)
    total = 0.0
    for first in range(0, len(rows), BLOCK):
        count = min(BLOCK, len(rows) - first)
        last = count - 1
        block = rows[first : first + count]
        measure(block, norms[first : first + count], centres, apart)
        share(apart, m, powers, least)
        for b in range(count):
            least[b] *= weights[first + b]
            total += least[b]
        least[count:] = ZERO  # what lies past the last frame has power 0
        for k in range(steps):
            gained = ZERO
            for b in range(BLOCK):
                powers[k, b] *= least[b] / apart[k, b]  # u^m = u J / d
                gained += powers[k, b]
            mass[k] += gained
        for b in range(0, count, 4):
            w, x, y, z = block[b], block[min(b + 1, last)], block[min(b + 2, last)], block[min(b + 3, last)]
            for k in range(0, len(sums), 2):
                p, q = powers[k], powers[k + 1]
                p0, p1, p2, p3 = p[b], p[b + 1], p[b + 2], p[b + 3]
                q0, q1, q2, q3 = q[b], q[b + 1], q[b + 2], q[b + 3]
                one, two = sums[k], sums[k + 1]
                for j in range(dim):
                    one[j] += p0 * w[j] + p1 * x[j] + p2 * y[j] + p3 * z[j]
                    two[j] += q0 * w[j] + q1 * x[j] + q2 * y[j] + q3 * z[j]
    return total


@compiled
def share_out(rows: Rows, norms: Rows, centres: Rows, m: np.float32, shares: Rows) -> None:
    """Write the memberships of the frames to `shares` (n, k)."""
    apart = np.ones((len(centres), BLOCK), dtype=np.float32)
    found = np.empty((len(centres), BLOCK), dtype=np.float32)
    least = np.empty(BLOCK, dtype=np.float32)
    for first in range(0, len(rows), BLOCK):
        count = min(BLOCK, len(rows) - first)
        measure(rows[first : first + count], norms[first : first + count], centres, apart)
        share(apart, m, found, least)
        for b in range(count):
            for k in range(len(centres)):
                shares[first + b, k] = found[k, b]


@compiled
def measure(rows: Rows, norms: Rows, centres: Rows, apart: Rows) -> None:
    """Squared distances |x|^2 - 2 c.x + |c|^2 into `apart` (k, BLOCK)."""
    steps, dim = centres.shape
    last = len(rows) - 1
    for k in range(0, steps, 2):  # two centres and two frames at once; the last of an odd number is taken twice
        i = min(k + 1, steps - 1)
        one, two = centres[k], centres[i]
        square_one, square_two = ZERO, ZERO
        for j in range(dim):
            square_one += one[j] * one[j]
            square_two += two[j] * two[j]
        for b in range(0, last + 1, 2):
            c = min(b + 1, last)
            x, y = rows[b], rows[c]
            bk, ck, bi, ci = ZERO, ZERO, ZERO, ZERO
            for j in range(dim):
                bk += x[j] * one[j]
                ck += y[j] * one[j]
                bi += x[j] * two[j]
                ci += y[j] * two[j]
            apart[k, b] = max(norms[b] + square_one - TWO * bk, LEAST)
            apart[k, c] = max(norms[c] + square_one - TWO * ck, LEAST)
            apart[i, b] = max(norms[b] + square_two - TWO * bi, LEAST)
            apart[i, c] = max(norms[c] + square_two - TWO * ci, LEAST)


@compiled
def share(apart: Rows, m: np.float32, shares: Rows, least: Rows) -> None:
    """Memberships into `shares` (k, BLOCK) and objectives into `least` (BLOCK,), from squared distances `apart`."""
    steps = len(apart)
    total = np.zeros(BLOCK, dtype=np.float32)
    if m == TWO:  # needs no logarithm
        for k in range(steps):
            for b in range(BLOCK):
                shares[k, b] = ONE / apart[k, b]
                total[b] += shares[k, b]
        for b in range(BLOCK):
            least[b] = ONE / total[b]
    else:
        power = -ONE / (m - ONE)
        top = np.full(BLOCK, -np.float32(np.inf), dtype=np.float32)
        for k in range(steps):
            for b in range(BLOCK):
                shares[k, b] = power * np.log(apart[k, b])
                top[b] = max(top[b], shares[k, b])
        for k in range(steps):
            for b in range(BLOCK):
                below = shares[k, b] - top[b]
                shares[k, b] = np.exp(below) if below > FAR else ZERO  # with m near 1 most are 0, and cost nothing
                total[b] += shares[k, b]
        for b in range(BLOCK):
            least[b] = np.exp((ONE - m) * (np.log(total[b]) + top[b]))
    for k in range(steps):
        for b in range(BLOCK):
            shares[k, b] /= total[b]
