"""`tcc` and `cidm` with their gradient for CPUs: compiled loops, where torch would spend more on calls than on sums.

Pairs of videos are shared between threads, each with a gradient of its own, added in the end. Compiled once per
machine, then read from numba's cache.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stepcut.jit import compiled
from stepcut.methods.cnc._matrices_cpu import FAST, Array, add, multiply, multiply_rows, softmax, through_softmax
from stepcut.methods.cnc.kernels import Settings
from stepcut.methods.cnc.threads import side_by_side

Mask = NDArray[np.bool_]

_ENOUGH = 2**13
"""Pairs of frames for which it pays to wake another thread."""


def measure(
    u: Tensor, t: Tensor, seconds: Tensor | None, real: Tensor | None, settings: Settings
) -> tuple[Tensor, Tensor, Tensor]:
    """See `kernels.Way`."""
    count, frames, dim = u.shape
    given, times = u.contiguous().numpy(), t.contiguous().numpy()
    mask = np.ones(times.shape, np.bool_) if real is None else real.contiguous().numpy()
    lasting = np.zeros(count, times.dtype) if seconds is None else seconds.contiguous().numpy()
    asked = settings.cycle is not None, settings.contrast is not None
    first, second = settings.cycle or 0.0, settings.contrast or 0.0
    figures = settings.scale(dim), settings.variance_weight, settings.variance_floor, settings.window, settings.margin
    threads = max(1, min(torch.get_num_threads(), (count * frames) ** 2 // _ENOUGH))
    gradients = np.zeros((threads, *given.shape), given.dtype)
    values = np.zeros((threads, 2))
    parts = [
        (
            thread,
            threads,
            given,
            times,
            lasting,
            mask,
            *asked,
            first,
            second,
            *figures,
            gradients[thread],
            values[thread],
        )
        for thread in range(threads)
    ]
    side_by_side(_part, parts)
    for other in gradients[1:]:
        gradients[0] += other
    tcc, cidm = (sum(column) for column in zip(*values.tolist(), strict=True))
    loss, both = np.array(first * tcc + second * cidm, given.dtype), np.array([tcc, cidm], given.dtype)
    return torch.from_numpy(loss), torch.from_numpy(both), torch.from_numpy(gradients[0])


@compiled(fastmath=FAST)
def _part(
    part: int,
    parts: int,
    given: Array,
    times: Array,
    seconds: Array,
    real: Mask,
    cycle_asked: bool,
    contrast_asked: bool,
    cycle: float,
    contrast: float,
    scale: float,
    lam: float,
    floor: float,
    window: float,
    margin: float,
    gradient: Array,
    values: Array,
) -> None:
    """Every `parts`-th pair of videos for `tcc`, and every `parts`-th video for `cidm`."""
    count, frames, _ = given.shape
    u = _centred(given, real)
    lengths, filled = np.zeros(count, np.int64), 0
    for b in range(count):
        lengths[b] = _count(real[b])
        filled += lengths[b] > 0
    if cycle_asked:
        norms = _norms(u, real, scale)
        curbs = np.zeros_like(norms)
        room = np.empty((7, frames, frames), u.dtype)
        number = 0
        for a in range(count):
            for b in range(a):
                number += 1
                if number % parts == part and lengths[a] > 0 and lengths[b] > 0:
                    share = 1.0 / (filled * (filled - 1))
                    values[0] += share * _pair(
                        a, b, share * cycle, u, times, real, norms, scale, lam, floor, gradient, curbs, room
                    )
        for a in range(count):
            for i in range(frames):
                add(gradient[a, i], u[a, i], u.dtype.type(2 * scale * curbs[a, i]))
    if contrast_asked:
        for b in range(count):
            if (count - b) % parts == part and lengths[b] > 0:
                share = 2.0 / (filled * lengths[b] ** 2)  # each pair once, counted twice
                values[1] += share * _video(
                    u[b], times[b], seconds[b], real[b], window, margin, share * contrast, gradient[b]
                )


@compiled(fastmath=FAST)
def _centred(u: Array, real: Mask) -> Array:
    """The frames with their middle at 0: no distance changes, and products of frames lose less to rounding."""
    count, frames, dim = u.shape
    middle = np.zeros(dim, u.dtype)
    for b in range(count):
        for i in range(frames):  # padded frames hold 0
            for k in range(dim):
                middle[k] += u[b, i, k]
    share = u.dtype.type(1 / max(1, _count(real.reshape(-1))))
    x = np.empty_like(u)
    for b in range(count):
        for i in range(frames):
            for k in range(dim):
                x[b, i, k] = u[b, i, k] - share * middle[k]
    return x


@compiled()
def _count(real: Mask) -> int:
    """How many frames are real."""
    total = 0
    for i in range(len(real)):
        total += real[i]
    return total


@compiled(fastmath=FAST)
def _norms(u: Array, real: Mask, scale: float) -> Array:
    """(B, T): the squared lengths of frames, scaled; padded frames are infinitely far."""
    norms = np.empty(real.shape, u.dtype)
    for a in range(real.shape[0]):
        for i in range(real.shape[1]):
            squared = u.dtype.type(0)
            for k in range(u.shape[2]):
                squared += u[a, i, k] * u[a, i, k]
            norms[a, i] = scale * squared if real[a, i] else np.inf
    return norms


@compiled(fastmath=FAST)
def _pair(
    a: int,
    b: int,
    share: float,
    u: Array,
    times: Array,
    real: Mask,
    norms: Array,
    scale: float,
    lam: float,
    floor: float,
    gradient: Array,
    curbs: Array,
    room: Array,
) -> float:
    """`tcc` from a to b and back, and from b to a and back, with their gradients."""
    frames = times.shape[1]
    away, back, towards, from_there, rest = room[0], room[1], room[2], room[3], room[4:]
    twice = u.dtype.type(2 * scale)
    multiply_rows(away, u[a], u[b])
    for i in range(frames):
        for j in range(frames):
            away[i, j] *= twice
            back[j, i] = away[i, j]
    value = _walk(
        away, back, times[a], real[a], norms[a], norms[b], share, lam, floor, towards, curbs[a], curbs[b], rest
    )
    value += _walk(
        back, away, times[b], real[b], norms[b], norms[a], share, lam, floor, from_there, curbs[b], curbs[a], rest
    )
    for i in range(frames):
        for j in range(frames):
            towards[i, j] = twice * (towards[i, j] + from_there[j, i])
    multiply(gradient[a], towards, u[b])
    multiply(gradient[b], towards.T, u[a])
    return value


@compiled(fastmath=FAST)
def _walk(
    away: Array,
    back: Array,
    times: Array,
    real: Mask,
    norms: Array,
    norms_there: Array,
    share: float,
    lam: float,
    floor: float,
    slope: Array,
    curb: Array,
    curb_there: Array,
    room: Array,
) -> float:
    """The mean of L_i over the frames of one video, with `away[i, j]` = 2 u_i . v_j, and `back` that transposed;
    `share` times its gradient towards `away`, `slope`, and towards the squared lengths of the frames, the two curbs."""
    frames = len(times)
    alpha, beta, d_back = room[0], room[1], room[2]
    for i in range(frames):
        for j in range(frames):
            alpha[i, j] = away[i, j] - norms_there[j]  # 2 u_i . v_j - |v_j|^2
    softmax(alpha)
    multiply_rows(beta, alpha, away)  # v~ . u_k = sum_j alpha_j v_j . u_k
    for i in range(frames):
        for k in range(frames):
            beta[i, k] -= norms[k]
    softmax(beta)
    length, value = _count(real), 0.0
    for i in range(frames):
        landed = _land(times[i], times, beta[i], share / length if real[i] else 0.0, lam, floor, d_back[i])
        value += landed if real[i] else 0.0
    through_softmax(d_back, beta)
    multiply_rows(slope, d_back, back)
    through_softmax(slope, alpha)
    for i in range(frames):
        for k in range(frames):
            curb[k] -= d_back[i, k]
        for j in range(frames):
            curb_there[j] -= slope[i, j]
    multiply(slope, d_back.T, alpha)
    return float(value / length)


@compiled(fastmath=FAST)
def _land(start: Any, times: Array, beta: Array, weight: float, lam: float, floor: float, d_beta: Array) -> float:
    """L_i: where a frame lands, beta, against where it started; and `weight` times the gradient."""
    mu, var = beta.dtype.type(0), beta.dtype.type(0)
    for k in range(len(beta)):
        mu += beta[k] * times[k]
    for k in range(len(beta)):
        var += beta[k] * (times[k] - mu) * (times[k] - mu)
    held = max(np.float64(var), floor)
    steep = (start - mu) / held
    # d var / d mu = 0; a variance held at its floor has no gradient.
    d_mu = beta.dtype.type(-2 * weight * steep)
    d_var = beta.dtype.type(weight * (lam / held - steep * steep) if var >= floor else 0.0)
    for k in range(len(beta)):
        d_beta[k] = d_mu * times[k] + d_var * (times[k] - mu) * (times[k] - mu)
    return float(steep * (start - mu) + lam * math.log(held))


@compiled(fastmath=FAST)
def _video(
    u: Array, times: Array, seconds: Any, real: Mask, window: float, margin: float, share: float, moves: Array
) -> float:
    """The sum of `cidm` over the pairs of frames of one video, each once, and `share` times its gradient."""
    frames, dim = u.shape
    value = 0.0
    for i in range(frames):
        for j in range(i):  # a frame and itself add nothing
            if not (real[i] and real[j]):
                continue
            squared = u.dtype.type(0)
            for k in range(dim):
                squared += (u[i, k] - u[j, k]) ** 2
            d = math.sqrt(squared)
            apart = abs(times[i] - times[j])
            gamma = apart * apart + 1
            if apart * seconds <= window:
                value += d / gamma
                slope = 1 / gamma
            else:
                value += gamma * max(0.0, margin - d)
                slope = -gamma if d < margin else 0.0
            if d > 0 and slope != 0:
                pull = u.dtype.type(share * slope / d)
                for k in range(dim):
                    move = pull * (u[i, k] - u[j, k])
                    moves[i, k] += move
                    moves[j, k] -= move
    return value
