"""The compiled loops of fuzzy c-means on the CPU. Importing this imports numba; machine code is kept on disk.

With so few centres (7, not 700) a matrix product spends its time on moving frames about. Here a block of frames stays
in the nearest cache while its distances, memberships and share of the new centres are computed, four frames and four
centres at once, so that what is loaded is used more than once.
"""

from __future__ import annotations

import numpy as np

from stepcut.jit import compiled, fit
from stepcut.methods.cnc.fuzzy.engine import TINY
from stepcut.methods.segmenter import Rows

FAST = {"reassoc", "contract", "arcp", "nsz"}
"""Sums may be reordered, for speed; NaN and infinity keep their meaning."""
BLOCK = 64
"""Frames in a block; of 128 dimensions they take 32 kB."""
LEAST = np.float32(TINY)
MIDDLE = 0x3F3504F3
"""The bits of 2^-1/2."""
LOWEST, HIGHEST = np.float32(-127), np.float32(127)
ZERO, HALF, ONE, TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)
POWER = tuple(np.float32(c) for c in fit(np.exp2, 5, -0.5, 0.5))
"""2^y."""
LOGARITHM = tuple(np.float32(c) for c in fit(lambda y: np.log2(1 + y) / y, 9, 2**-0.5 - 1, 2**0.5 - 1))
"""log2(1 + y) / y; both err by less than the last digit of a float32."""


@compiled(fastmath=FAST)
def add_up(
    rows: Rows, norms: Rows, weights: Rows, centres: Rows, m: np.float32, chunk: int, sums: Rows, mass: Rows
) -> float:
    """Add the share of each chunk of frames in the new centres to its part of `sums` (chunks, k, d) and of `mass`
    (chunks, k); return J. What is added up in float32 is no longer than a chunk. `sums` has a multiple of four of k."""
    total = 0.0
    for number in range(len(sums)):
        part = slice(number * chunk, (number + 1) * chunk)
        total += add_chunk(rows[part], norms[part], weights[part], centres, m, sums[number], mass[number])
    return total


@compiled(fastmath=FAST)
def add_chunk(rows: Rows, norms: Rows, weights: Rows, centres: Rows, m: np.float32, sums: Rows, mass: Rows) -> float:
    """Add the frames' share to `sums` (k, d) and `mass` (k,); return their part of J."""
    steps, dim = centres.shape
    apart = np.ones((steps, BLOCK), dtype=np.float32)
    powers = np.zeros((len(sums), BLOCK), dtype=np.float32)
    least, weigh = np.empty(BLOCK, dtype=np.float32), np.empty(BLOCK, dtype=np.float32)
    squares = square(centres)
    total = 0.0
    for first in range(0, len(rows), BLOCK):
        count = min(BLOCK, len(rows) - first)
        last = count - 1
        block = rows[first : first + count]
        measure(block, norms[first : first + count], centres, squares, apart)
        share(apart, m, powers, least)
        weigh[:count], weigh[count:] = weights[first : first + count], ZERO  # past the last frame the power is 0
        for b in range(BLOCK):
            least[b] *= weigh[b]
            total += least[b]
        for k in range(steps):
            gained = ZERO
            for b in range(BLOCK):
                # u^m = u J / d, which for m = 2 needs no division
                powers[k, b] *= powers[k, b] * weigh[b] if m == TWO else least[b] / apart[k, b]
                gained += powers[k, b]
            mass[k] += gained
        for k in range(0, len(sums), 4):
            p, q, r, s = powers[k], powers[k + 1], powers[k + 2], powers[k + 3]
            one, two, three, four = sums[k], sums[k + 1], sums[k + 2], sums[k + 3]
            for b in range(0, count, 4):
                w, x, y, z = block[b], block[min(b + 1, last)], block[min(b + 2, last)], block[min(b + 3, last)]
                p0, p1, p2, p3 = p[b], p[b + 1], p[b + 2], p[b + 3]
                q0, q1, q2, q3 = q[b], q[b + 1], q[b + 2], q[b + 3]
                r0, r1, r2, r3 = r[b], r[b + 1], r[b + 2], r[b + 3]
                s0, s1, s2, s3 = s[b], s[b + 1], s[b + 2], s[b + 3]
                for j in range(dim):
                    one[j] += p0 * w[j] + p1 * x[j] + p2 * y[j] + p3 * z[j]
                    two[j] += q0 * w[j] + q1 * x[j] + q2 * y[j] + q3 * z[j]
                    three[j] += r0 * w[j] + r1 * x[j] + r2 * y[j] + r3 * z[j]
                    four[j] += s0 * w[j] + s1 * x[j] + s2 * y[j] + s3 * z[j]
    return total


@compiled(fastmath=FAST)
def share_out(rows: Rows, norms: Rows, centres: Rows, m: np.float32, shares: Rows) -> None:
    """Write the memberships of the frames to `shares` (n, k)."""
    apart = np.ones((len(centres), BLOCK), dtype=np.float32)
    found = np.empty((len(centres), BLOCK), dtype=np.float32)
    least = np.empty(BLOCK, dtype=np.float32)
    squares = square(centres)
    for first in range(0, len(rows), BLOCK):
        count = min(BLOCK, len(rows) - first)
        measure(rows[first : first + count], norms[first : first + count], centres, squares, apart)
        share(apart, m, found, least)
        for b in range(count):
            for k in range(len(centres)):
                shares[first + b, k] = found[k, b]


@compiled(fastmath=FAST)
def square(centres: Rows) -> Rows:
    """|c|^2 of each centre, (k,)."""
    squares = np.zeros(len(centres), dtype=np.float32)
    for k in range(len(centres)):
        for j in range(centres.shape[1]):
            squares[k] += centres[k, j] * centres[k, j]
    return squares


@compiled(fastmath=FAST)
def measure(rows: Rows, norms: Rows, centres: Rows, squares: Rows, apart: Rows) -> None:
    """Squared distances |x|^2 - 2 c.x + |c|^2 into `apart` (k, BLOCK)."""
    steps, dim = centres.shape
    last, end = len(rows) - 1, steps - 1
    for k in range(0, steps, 4):  # the last centre and the last frame are taken more than once where there is no other
        i, m, n = min(k + 1, end), min(k + 2, end), min(k + 3, end)
        one, two, three, four = centres[k], centres[i], centres[m], centres[n]
        for b in range(0, last + 1, 4):
            c, d, e = min(b + 1, last), min(b + 2, last), min(b + 3, last)
            w, x, y, z = rows[b], rows[c], rows[d], rows[e]
            bk, bi, bm, bn = ZERO, ZERO, ZERO, ZERO
            ck, ci, cm, cn = ZERO, ZERO, ZERO, ZERO
            dk, di, dm, dn = ZERO, ZERO, ZERO, ZERO
            ek, ei, em, en = ZERO, ZERO, ZERO, ZERO
            for j in range(dim):
                bk += w[j] * one[j]
                bi += w[j] * two[j]
                bm += w[j] * three[j]
                bn += w[j] * four[j]
                ck += x[j] * one[j]
                ci += x[j] * two[j]
                cm += x[j] * three[j]
                cn += x[j] * four[j]
                dk += y[j] * one[j]
                di += y[j] * two[j]
                dm += y[j] * three[j]
                dn += y[j] * four[j]
                ek += z[j] * one[j]
                ei += z[j] * two[j]
                em += z[j] * three[j]
                en += z[j] * four[j]
            apart[k, b], apart[i, b], apart[m, b], apart[n, b] = bk, bi, bm, bn
            apart[k, c], apart[i, c], apart[m, c], apart[n, c] = ck, ci, cm, cn
            apart[k, d], apart[i, d], apart[m, d], apart[n, d] = dk, di, dm, dn
            apart[k, e], apart[i, e], apart[m, e], apart[n, e] = ek, ei, em, en
    for k in range(steps):
        for b in range(last + 1):
            apart[k, b] = max(norms[b] + squares[k] - TWO * apart[k, b], LEAST)


@compiled(fastmath=FAST)
def log2(x: np.float32) -> np.float32:
    """The binary logarithm of a positive float32. Unlike that of a library, it can be done for several at once."""
    bits = np.float32(x).view(np.int32)
    whole = np.int32((bits - MIDDLE) >> 23)
    y = np.int32(bits - (whole << 23)).view(np.float32) - ONE  # x = 2^whole (1 + y), 1 + y between 2^-1/2 and 2^1/2
    found = LOGARITHM[len(LOGARITHM) - 1]
    for n in range(len(LOGARITHM) - 2, -1, -1):
        found = LOGARITHM[n] + y * found
    return np.float32(whole) + y * found


@compiled(fastmath=FAST)
def exp2(x: np.float32) -> np.float32:
    """2^x for a float32; 0 below the smallest one."""
    held: np.float32 = min(max(x, LOWEST), HIGHEST)
    whole = np.floor(held + HALF)
    y = held - whole
    found = POWER[len(POWER) - 1]
    for n in range(len(POWER) - 2, -1, -1):
        found = POWER[n] + y * found
    return found * np.int32((np.int32(whole) + 127) << 23).view(np.float32)


@compiled(fastmath=FAST)
def share(apart: Rows, m: np.float32, shares: Rows, least: Rows) -> None:
    """Memberships into `shares` (k, BLOCK) and objectives into `least` (BLOCK,), from squared distances `apart`."""
    steps = len(apart)
    total = np.zeros(BLOCK, dtype=np.float32)
    if m == TWO:  # needs no logarithm
        for k in range(steps):
            for b in range(BLOCK):
                shares[k, b] = ONE / apart[k, b]
                total[b] += shares[k, b]
        least[:] = ONE / total
    else:
        power = -ONE / (m - ONE)
        top = np.full(BLOCK, -np.float32(np.inf), dtype=np.float32)
        for k in range(steps):
            for b in range(BLOCK):
                shares[k, b] = power * log2(apart[k, b])
                top[b] = max(top[b], shares[k, b])
        for k in range(steps):
            for b in range(BLOCK):
                shares[k, b] = exp2(shares[k, b] - top[b])
                total[b] += shares[k, b]
        for b in range(BLOCK):
            least[b] = exp2((ONE - m) * (log2(total[b]) + top[b]))
    inverse = ONE / total
    for k in range(steps):
        for b in range(BLOCK):
            shares[k, b] *= inverse[b]
