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

from stepcut.correspond._powers_cpu import numbers, two_to
from stepcut.correspond.kernels import Settings
from stepcut.correspond.threads import side_by_side
from stepcut.machine_code import compiled

Array = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]

_FAST = {"contract", "reassoc", "nsz"}
"""Sums may be taken in any order; infinities and NaN keep their meaning."""
_ENOUGH = 2**13
"""Pairs of frames for which it pays to wake another thread."""


def measure(
    u: Tensor, t: Tensor, seconds: Tensor | None, real: Tensor | None, settings: Settings
) -> tuple[Tensor, Tensor, Tensor]:
    """See `kernels.Way`."""
    count, frames, _ = u.shape
    given, times = u.contiguous().numpy(), t.contiguous().numpy()
    mask = np.ones(times.shape, np.bool_) if real is None else real.contiguous().numpy()
    lasting = np.zeros(count, times.dtype) if seconds is None else seconds.contiguous().numpy()
    asked = settings.cycle is not None, settings.contrast is not None
    first, second = settings.cycle or 0.0, settings.contrast or 0.0
    figures = settings.scale, settings.variance_weight, settings.variance_floor, settings.window, settings.margin
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


@compiled(fastmath=_FAST)
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
                _add(gradient[a, i], u[a, i], u.dtype.type(2 * scale * curbs[a, i]))
    if contrast_asked:
        for b in range(count):
            if (count - b) % parts == part and lengths[b] > 0:
                share = 2.0 / (filled * lengths[b] ** 2)  # each pair once, counted twice
                values[1] += share * _video(
                    u[b], times[b], seconds[b], real[b], window, margin, share * contrast, gradient[b]
                )


@compiled(fastmath=_FAST)
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


@compiled(fastmath=_FAST)
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


@compiled(fastmath=_FAST)
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
    _multiply_rows(away, u[a], u[b])
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
    _multiply(gradient[a], towards, u[b])
    _multiply(gradient[b], towards.T, u[a])
    return value


@compiled(fastmath=_FAST)
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
    _softmax(alpha)
    _multiply_rows(beta, alpha, away)  # v~ . u_k = sum_j alpha_j v_j . u_k
    for i in range(frames):
        for k in range(frames):
            beta[i, k] -= norms[k]
    _softmax(beta)
    length, value = _count(real), 0.0
    for i in range(frames):
        landed = _land(times[i], times, beta[i], share / length if real[i] else 0.0, lam, floor, d_back[i])
        value += landed if real[i] else 0.0
    _through_softmax(d_back, beta)
    _multiply_rows(slope, d_back, back)
    _through_softmax(slope, alpha)
    for i in range(frames):
        for k in range(frames):
            curb[k] -= d_back[i, k]
        for j in range(frames):
            curb_there[j] -= slope[i, j]
    _multiply(slope, d_back.T, alpha)
    return float(value / length)


@compiled(fastmath=_FAST)
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


@compiled(fastmath=_FAST)
def _multiply(out: Array, left: Array, right: Array) -> None:
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
            _add(row, right[h], left[i, h])


@compiled(fastmath=_FAST)
def _multiply_rows(out: Array, left: Array, right: Array) -> None:
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


@compiled(fastmath=_FAST)
def _add(out: Array, row: Array, times: Any) -> None:
    """out += times * row"""
    for j in range(len(out)):
        out[j] += times * row[j]


@compiled(fastmath=_FAST)
def _softmax(rows: Array) -> None:
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


@compiled(fastmath=_FAST)
def _through_softmax(grad: Array, out: Array) -> None:
    """The gradient before a softmax of each row, from the one after it, in place."""
    for i in range(len(out)):
        slope, row = grad[i], out[i]
        middle = slope.dtype.type(0)
        for j in range(len(row)):
            middle += row[j] * slope[j]
        for j in range(len(row)):
            slope[j] = row[j] * (slope[j] - middle)


@compiled(fastmath=_FAST)
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
