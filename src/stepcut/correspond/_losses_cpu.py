"""The compiled kernels of `tcc` and `cidm` for CPUs: value and gradient in one pass, row by row, nothing large kept.

They do what `kernels` does with torch, where the small matrices of a training step cost more in calls than in
arithmetic. Compiled once per machine, then read from numba's cache.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.correspond._powers_cpu import numbers, two_to
from stepcut.machine_code import compiled

Array = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]

_FAST = {"contract", "reassoc", "nsz"}
"""Sums may be taken in any order; infinities and NaN keep their meaning."""


def cycle(
    products: Array, times: Array, real: Mask | None, scale: float, lam: float, floor: float
) -> tuple[float, Array]:
    """The value of `tcc` and its gradient (B T, B T) with respect to the products of frames."""
    gradient = np.zeros_like(products)
    mask = np.ones(times.shape, np.bool_) if real is None else real
    return _cycle(products, times, mask, scale, lam, floor, gradient), gradient


def contrast(
    u: Array, times: Array, seconds: Array, real: Mask | None, window: float, margin: float
) -> tuple[float, Array]:
    """The value of `cidm` and its gradient (B, T, d)."""
    gradient = np.zeros_like(u)
    mask = np.ones(times.shape, np.bool_) if real is None else real
    return _contrast(u, times, seconds, mask, window, margin, gradient), gradient


@compiled(fastmath=_FAST)
def _softmax(row: Array, real: Mask) -> None:
    """In place, over the real frames; 0 on the others."""
    top = -math.inf
    for j in range(len(row)):
        if real[j]:
            top = max(top, row[j])
    for j in range(len(row)):
        row[j] = row[j] - row.dtype.type(top) if real[j] else -math.inf
    _exponentiate(row)
    total = 0.0
    for j in range(len(row)):
        total += row[j]
    inverse = row.dtype.type(1 / total)
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


@compiled(fastmath=_FAST)
def _add(out: Array, row: Array, times: Any) -> None:
    """out += times * row"""
    for j in range(len(out)):
        out[j] += times * row[j]


@compiled(fastmath=_FAST)
def _fill(out: Array, row: Array) -> None:
    """out = -row, without room for a row in between."""
    for j in range(len(out)):
        out[j] = -row[j]


@compiled(fastmath=_FAST)
def _combine(out: Array, matrix: Array, first: int, part: slice, weights: Array, times: Any) -> None:
    """out += times * weights @ matrix[first:, part], four rows at once."""
    count = len(weights) // 4 * 4
    for i in range(0, count, 4):
        p, q, r, s = times * weights[i], times * weights[i + 1], times * weights[i + 2], times * weights[i + 3]
        w, x = matrix[first + i, part], matrix[first + i + 1, part]
        y, z = matrix[first + i + 2, part], matrix[first + i + 3, part]
        for j in range(len(out)):
            out[j] += p * w[j] + q * x[j] + r * y[j] + s * z[j]
    for i in range(count, len(weights)):
        _add(out, matrix[first + i, part], times * weights[i])


@compiled(fastmath=_FAST)
def _through_softmax(grad: Array, out: Array) -> None:
    """The gradient before a softmax, from the one after it, in place."""
    middle = grad.dtype.type(0)
    for j in range(len(out)):
        middle += out[j] * grad[j]
    for j in range(len(out)):
        grad[j] = out[j] * (grad[j] - middle)


@compiled(fastmath=_FAST)
def _cycle(products: Array, times: Array, real: Mask, scale: float, lam: float, floor: float, gradient: Array) -> float:
    count, frames = times.shape
    kind = products.dtype.type
    alpha, beta = np.empty(frames, products.dtype), np.empty(frames, products.dtype)
    d_alpha, d_beta = np.empty(frames, products.dtype), np.empty(frames, products.dtype)
    norms = kind(scale) * np.diag(products).copy()
    d_norms = np.zeros(len(norms), products.dtype)
    lengths = np.array([real[a].sum() for a in range(count)])
    filled = (lengths > 0).sum()
    one, twice = kind(1), kind(2 * scale)
    value = 0.0
    for a in range(count):
        here = slice(a * frames, (a + 1) * frames)
        for b in range(count):
            if a == b or lengths[a] == 0 or lengths[b] == 0:
                continue
            there = slice(b * frames, (b + 1) * frames)
            weight = 1.0 / (filled * (filled - 1) * lengths[a])
            for i in range(frames):
                if not real[a, i]:
                    continue
                _fill(alpha, norms[there])
                _add(alpha, products[a * frames + i, there], twice)  # 2 u_i . v_j - |v_j|^2
                _softmax(alpha, real[b])
                _fill(beta, norms[here])
                _combine(beta, products, b * frames, here, alpha, twice)  # v~ . u_k = sum_j alpha_j v_j . u_k
                _softmax(beta, real[a])
                mu, var = 0.0, 0.0
                for k in range(frames):
                    mu += beta[k] * times[a, k]
                for k in range(frames):
                    var += beta[k] * (times[a, k] - mu) ** 2
                held = max(var, floor)
                steep = (times[a, i] - mu) / held
                value += weight * (steep * (times[a, i] - mu) + lam * math.log(held))
                # d var / d mu = 0; a variance held at its floor has no gradient.
                d_mu = -2 * weight * steep
                d_var = weight * (lam / held - steep * steep) if var >= floor else 0.0
                for k in range(frames):
                    d_beta[k] = d_mu * times[a, k] + d_var * (times[a, k] - mu) ** 2
                _through_softmax(d_beta, beta)
                d_alpha[:] = 0
                for k in range(frames):
                    _add(gradient[a * frames + k, there], alpha, twice * d_beta[k])
                _combine(d_alpha, products, a * frames, there, d_beta, twice)
                _through_softmax(d_alpha, alpha)
                _add(gradient[a * frames + i, there], d_alpha, twice)
                _add(d_norms[here], d_beta, -one)
                _add(d_norms[there], d_alpha, -one)
    for i in range(len(norms)):
        gradient[i, i] += kind(scale) * d_norms[i]
    return value


@compiled(fastmath=_FAST)
def _contrast(
    u: Array, times: Array, seconds: Array, real: Mask, window: float, margin: float, gradient: Array
) -> float:
    count, frames, dim = u.shape
    lengths = np.array([real[b].sum() for b in range(count)])
    filled = (lengths > 0).sum()
    value = 0.0
    for b in range(count):
        for i in range(frames):
            for j in range(i):  # each pair once, counted twice; a frame and itself add nothing
                if not (real[b, i] and real[b, j]):
                    continue
                weight = 2.0 / (filled * lengths[b] ** 2)
                squared = 0.0
                for k in range(dim):
                    squared += (u[b, i, k] - u[b, j, k]) ** 2
                d = math.sqrt(squared)
                apart = abs(times[b, i] - times[b, j])
                gamma = apart * apart + 1
                if apart * seconds[b] <= window:
                    value += weight * d / gamma
                    slope = weight / gamma
                else:
                    value += weight * gamma * max(0.0, margin - d)
                    slope = -weight * gamma if d < margin else 0.0
                if d > 0 and slope != 0:
                    pull = gradient.dtype.type(slope / d)
                    for k in range(dim):
                        move = pull * (u[b, i, k] - u[b, j, k])
                        gradient[b, i, k] += move
                        gradient[b, j, k] -= move
    return value
