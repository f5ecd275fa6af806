"""Small matrices in compiled loops: products, the softmax of rows and its gradient, without the calls of a library."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.jit import compiled
from stepcut.methods.cnc._powers_cpu import numbers, two_to

Array = NDArray[np.floating[Any]]

FAST = {"contract", "reassoc", "nsz"}
"""Sums may be taken in any order; infinities and NaN keep their meaning."""


@compiled(fastmath=FAST)
def multiply(out: Array, left: Array, right: Array) -> None:
    """out += left @ right, four rows of `right` at once."""
    rows, inner = left.shape
    fours = inner // 4 * 4
    for i in range(rows):
        row = out[i]
        for h in range(0, fours, 4):
            w, x, y, z = right[h], right[h + 1], right[h + 2], right[h + 3]
            p, q, r, s = left[i, h], left[i, h + 1], left[i, h + 2], left[i, h + 3]
            for j in range(len(row)):
                row[j] += p * w[j] + q * x[j] + r * y[j] + s * z[j]
        for h in range(fours, inner):
            add(row, right[h], left[i, h])


@compiled(fastmath=FAST)
def multiply_rows(out: Array, left: Array, right: Array) -> None:
    """out = left @ right.T, four rows of `right` at once."""
    fours = len(right) // 4 * 4
    for i in range(len(left)):
        row = left[i]
        for j in range(0, fours, 4):
            w, x, y, z = right[j], right[j + 1], right[j + 2], right[j + 3]
            p = q = r = s = row.dtype.type(0)
            for k in range(len(row)):
                p += row[k] * w[k]
                q += row[k] * x[k]
                r += row[k] * y[k]
                s += row[k] * z[k]
            out[i, j], out[i, j + 1], out[i, j + 2], out[i, j + 3] = p, q, r, s
        for j in range(fours, len(right)):
            last, total = right[j], row.dtype.type(0)
            for k in range(len(row)):
                total += row[k] * last[k]
            out[i, j] = total


@compiled(fastmath=FAST)
def add(out: Array, row: Array, times: Any) -> None:
    """out += times * row"""
    for j in range(len(out)):
        out[j] += times * row[j]


@compiled(fastmath=FAST)
def softmax(rows: Array) -> None:
    """Over each row, in place."""
    for i in range(len(rows)):
        row = rows[i]
        top = row[0]
        for j in range(len(row)):
            top = max(top, row[j])
        for j in range(len(row)):
            row[j] -= top
    _exponentiate(rows.reshape(-1))
    for i in range(len(rows)):
        row = rows[i]
        total = row.dtype.type(0)
        for j in range(len(row)):
            total += row[j]
        inverse = row.dtype.type(1) / total
        for j in range(len(row)):
            row[j] *= inverse


@compiled(fastmath={"contract"})
def _exponentiate(row: Array) -> None:
    """exp in place, of numbers up to 0, several at once: exp x = 2^whole 2^y. The sums here keep their order."""
    rounds, bias, polynomial = numbers(row)
    scale = row.dtype.type(1 / math.log(2))
    for j in range(len(row)):
        x = row[j] * scale
        x = -bias if x < -bias else x  # 0 in the end; NaN stays NaN
        whole = (x + rounds) - rounds
        y = x - whole
        power = polynomial[len(polynomial) - 1]
        for n in range(len(polynomial) - 2, -1, -1):
            power = polynomial[n] + y * power
        row[j] = power * two_to(whole + (rounds + bias))


@compiled(fastmath=FAST)
def through_softmax(grad: Array, out: Array) -> None:
    """The gradient before a softmax of each row, from the one after it, in place."""
    for i in range(len(out)):
        slope, row = grad[i], out[i]
        middle = slope.dtype.type(0)
        for j in range(len(row)):
            middle += row[j] * slope[j]
        for j in range(len(row)):
            slope[j] = row[j] * (slope[j] - middle)
