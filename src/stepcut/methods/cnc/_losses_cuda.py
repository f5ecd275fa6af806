"""`tcc` and `cidm` with their gradient for CUDA: two kernels in place of the hundred that torch would launch.

The first has a program for every ordered pair of videos (`tcc`) and one for every video (`cidm`). Each leaves its share
of the gradient in a place of its own, and the second adds the shares up: no order of arrival can change a sum. Products
of matrices are taken in three parts on tensor cores (tf32x3), as exact as float32 and faster.
"""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl
from torch import Tensor

from stepcut.methods.cnc.kernels import Settings


def measure(
    u: Tensor, t: Tensor, seconds: Tensor | None, real: Tensor | None, settings: Settings
) -> tuple[Tensor, Tensor, Tensor]:
    """See `kernels.Way`."""
    count, frames, dim = u.shape
    u, t = u.contiguous(), t.contiguous()
    mask = _all_real(t.shape, t.device) if real is None else real.contiguous()
    lasting = t if seconds is None else seconds.contiguous()
    cycle, contrast = settings.cycle is not None, settings.contrast is not None
    pairs = count * (count - 1)
    shares = u.new_empty(2 * pairs + count, frames, dim)
    values = u.new_empty(pairs + count)
    answers, gradient = u.new_empty(3), torch.empty_like(u)
    sizes = {"T": _power(frames), "D": _power(dim), "B": triton.next_power_of_2(count)}
    figures = settings.scale(dim), settings.variance_weight, settings.variance_floor, settings.window, settings.margin
    weights = settings.cycle or 0.0, settings.contrast or 0.0
    size, places = frames * dim, triton.next_power_of_2(pairs + count)
    with torch.cuda.device_of(u):
        _share[(pairs + count,)](
            u, t, lasting, mask, shares, values, count, frames, dim, *figures, cycle, contrast, **sizes
        )
        _add_up[(count, triton.cdiv(size, _BLOCK))](
            shares, values, answers, gradient, count, size, *weights, cycle, contrast, P=places, BLOCK=_BLOCK
        )
    return answers[0], answers[1:], gradient


_BLOCK = 1024
"""Numbers of the gradient that one program adds up."""


@functools.cache
def _all_real(shape: torch.Size, device: torch.device) -> Tensor:
    return torch.ones(shape, dtype=torch.bool, device=device)


def _power(size: int) -> int:
    """Kernels work on powers of two, and multiply matrices of 16 rows or more."""
    return max(16, int(triton.next_power_of_2(size)))


@triton.jit
def _share(
    u_at: tl.tensor,
    t_at: tl.tensor,
    seconds_at: tl.tensor,
    real_at: tl.tensor,
    shares_at: tl.tensor,
    values_at: tl.tensor,
    count: tl.tensor,
    frames: tl.tensor,
    dim: tl.tensor,
    scale: tl.tensor,
    lam: tl.tensor,
    floor: tl.tensor,
    window: tl.tensor,
    margin: tl.tensor,
    CYCLE: tl.constexpr,
    CONTRAST: tl.constexpr,
    T: tl.constexpr,
    D: tl.constexpr,
    B: tl.constexpr,
) -> None:
    """One ordered pair of videos, or one video: its part of the loss, and of the gradient."""
    program = tl.program_id(0)
    pairs = count * (count - 1)
    videos, rows = tl.arange(0, B), tl.arange(0, T)
    places = videos[:, None] * frames + rows[None, :]
    inside = (videos[:, None] < count) & (rows[None, :] < frames)
    every = tl.load(real_at + places, inside, 0).to(tl.float32)
    filled = tl.sum((tl.sum(every, 1) > 0).to(tl.float32), 0)
    if program < pairs:
        if CYCLE:
            a = program // (count - 1)
            other = program % (count - 1)
            b = other + (other >= a).to(tl.int32)
            _pair(
                u_at,
                t_at,
                real_at,
                shares_at + 2 * program * frames * dim,
                values_at + program,
                a,
                b,
                frames,
                dim,
                filled,
                scale,
                lam,
                floor,
                T,
                D,
            )
    else:
        if CONTRAST:
            b = program - pairs
            _video(
                u_at,
                t_at,
                seconds_at,
                real_at,
                shares_at + (pairs + program) * frames * dim,
                values_at + program,
                b,
                frames,
                dim,
                filled,
                window,
                margin,
                T,
                D,
            )


@triton.jit
def _pair(
    u_at: tl.tensor,
    t_at: tl.tensor,
    real_at: tl.tensor,
    shares_at: tl.tensor,
    value_at: tl.tensor,
    a: tl.tensor,
    b: tl.tensor,
    frames: tl.tensor,
    dim: tl.tensor,
    filled: tl.tensor,
    scale: tl.tensor,
    lam: tl.tensor,
    floor: tl.tensor,
    T: tl.constexpr,
    D: tl.constexpr,
) -> None:
    """`tcc` from video a to b and back; the equations are those of `losses.tcc`, in the letters of `_losses_torch`."""
    rows, columns = tl.arange(0, T), tl.arange(0, D)
    here = tl.load(real_at + a * frames + rows, rows < frames, 0) != 0
    there = tl.load(real_at + b * frames + rows, rows < frames, 0) != 0
    place = rows[:, None] * dim + columns[None, :]
    width = columns[None, :] < dim
    u = tl.load(u_at + a * frames * dim + place, here[:, None] & width, 0)
    v = tl.load(u_at + b * frames * dim + place, there[:, None] & width, 0)
    t = tl.load(t_at + a * frames + rows, here, 0)
    length, length_there = tl.sum(here.to(tl.float32), 0), tl.sum(there.to(tl.float32), 0)
    middle = tl.sum(u, 0) / tl.maximum(length, 1)  # no distance changes, and products lose less to rounding
    u = tl.where(here[:, None], u - middle[None, :], 0)
    v = tl.where(there[:, None], v - middle[None, :], 0)

    away = tl.dot(u, tl.trans(v), input_precision="tf32x3") * (2 * scale)
    # A padded frame is infinitely far; a video of padding alone has no weight at all.
    norms = tl.where(here, tl.sum(u * u, 1) * scale, tl.where(length > 0, float("inf"), 0.0))
    norms_there = tl.where(there, tl.sum(v * v, 1) * scale, tl.where(length_there > 0, float("inf"), 0.0))
    alpha = _softmax(away - norms_there[None, :])
    beta = _softmax(tl.dot(alpha, tl.trans(away), input_precision="tf32x3") - norms[None, :])
    mu = tl.sum(beta * t[None, :], 1)
    apart = t[None, :] - mu[:, None]
    var = tl.sum(beta * apart * apart, 1)
    held = tl.maximum(var, floor)
    error = t - mu
    share = tl.where(length_there > 0, 1 / (tl.maximum(length, 1) * tl.maximum(filled * (filled - 1), 1)), 0.0)
    weight = tl.where(here, share, 0.0)
    steep = error / held
    tl.store(value_at, tl.sum(tl.where(weight > 0, (steep * error + lam * tl.log(held)) * weight, 0.0), 0))

    d_mu = -2 * steep * weight
    d_var = tl.where(var >= floor, (lam / held - steep * steep) * weight, 0.0)
    d_back = _through_softmax(d_mu[:, None] * t[None, :] + d_var[:, None] * apart * apart, beta)
    d_away = _through_softmax(tl.dot(d_back, away, input_precision="tf32x3"), alpha)
    curb, curb_there = tl.sum(d_back, 0) * (-2 * scale), tl.sum(d_away, 0) * (-2 * scale)
    slope = (d_away + tl.dot(tl.trans(d_back), alpha, input_precision="tf32x3")) * (2 * scale)
    d_u = tl.dot(slope, v, input_precision="tf32x3") + curb[:, None] * u
    d_v = tl.dot(tl.trans(slope), u, input_precision="tf32x3") + curb_there[:, None] * v
    fits = (rows[:, None] < frames) & width
    tl.store(shares_at + place, d_u, fits)
    tl.store(shares_at + frames * dim + place, d_v, fits)


@triton.jit
def _softmax(rows: tl.tensor) -> tl.tensor:
    power = tl.exp(rows - tl.max(rows, 1)[:, None])
    return power / tl.sum(power, 1)[:, None]


@triton.jit
def _through_softmax(grad: tl.tensor, out: tl.tensor) -> tl.tensor:
    """The gradient before a softmax of each row, from the one after it."""
    return out * (grad - tl.sum(out * grad, 1)[:, None])


@triton.jit
def _video(
    u_at: tl.tensor,
    t_at: tl.tensor,
    seconds_at: tl.tensor,
    real_at: tl.tensor,
    share_at: tl.tensor,
    value_at: tl.tensor,
    b: tl.tensor,
    frames: tl.tensor,
    dim: tl.tensor,
    filled: tl.tensor,
    window: tl.tensor,
    margin: tl.tensor,
    T: tl.constexpr,
    D: tl.constexpr,
) -> None:
    """`cidm` of one video. Frames are subtracted, not multiplied: little is then lost between close ones."""
    rows, columns = tl.arange(0, T), tl.arange(0, D)
    real = tl.load(real_at + b * frames + rows, rows < frames, 0) != 0
    t = tl.load(t_at + b * frames + rows, real, 0)
    seconds = tl.load(seconds_at + b)
    place = rows[:, None] * dim + columns[None, :]
    width = columns[None, :] < dim
    u = tl.load(u_at + b * frames * dim + place, real[:, None] & width, 0)
    squared = tl.zeros((T, T), tl.float32)
    for j in range(frames):  # one frame after the other against all
        v = tl.load(u_at + (b * frames + j) * dim + columns, columns < dim, 0)
        difference = u - v[None, :]
        squared = tl.where(rows[None, :] == j, tl.sum(difference * difference, 1)[:, None], squared)
    d = tl.sqrt(squared)
    apart = tl.abs(t[:, None] - t[None, :])
    gamma = apart * apart + 1
    near = apart * seconds <= window
    inside = margin - d
    length = tl.sum(real.to(tl.float32), 0)
    weight = tl.where(real[:, None] & real[None, :], 1 / (tl.maximum(length * length, 1) * tl.maximum(filled, 1)), 0.0)
    value = tl.where(near, d / gamma, gamma * tl.maximum(inside, 0.0)) * weight
    tl.store(value_at, tl.sum(tl.sum(value, 1), 0))

    slope = tl.where(near, 1 / gamma, tl.where(inside > 0, -gamma, 0.0)) * weight
    # Symmetric: sum_j pull_ij (u_i - u_j), once as i and once as j; the gradient of a distance of 0 is 0.
    pull = tl.where(d > 0, slope, 0.0) / tl.where(d > 0, d, 1.0)
    u = tl.where(real[:, None], u - (tl.sum(u, 0) / tl.maximum(length, 1))[None, :], 0)
    moved = tl.sum(pull, 1)[:, None] * u - tl.dot(pull, u, input_precision="tf32x3")
    tl.store(share_at + place, 2 * moved, (rows[:, None] < frames) & width)


@triton.jit
def _add_up(
    shares_at: tl.tensor,
    values_at: tl.tensor,
    answers_at: tl.tensor,
    gradient_at: tl.tensor,
    count: tl.tensor,
    size: tl.tensor,
    cycle: tl.tensor,
    contrast: tl.tensor,
    CYCLE: tl.constexpr,
    CONTRAST: tl.constexpr,
    P: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """The gradient of one video from all its shares, always in the same order; the first program adds up the values."""
    video, block = tl.program_id(0), tl.program_id(1)
    pairs = count * (count - 1)
    place = block * BLOCK + tl.arange(0, BLOCK)
    fits = place < size
    total = tl.zeros((BLOCK,), tl.float32)
    if CYCLE:
        for other in range(count - 1):
            partner = other + (other >= video).to(tl.int32)
            first = video * (count - 1) + other  # the pair in which the video comes first
            second = partner * (count - 1) + video - (video > partner).to(tl.int32)
            total += tl.load(shares_at + 2 * first * size + place, fits, 0)
            total += tl.load(shares_at + (2 * second + 1) * size + place, fits, 0)
        total *= cycle
    if CONTRAST:
        total += contrast * tl.load(shares_at + (2 * pairs + video) * size + place, fits, 0)
    tl.store(gradient_at + video * size + place, total, fits)
    if (video == 0) & (block == 0):
        number = tl.arange(0, P)
        tcc, cidm = 0.0, 0.0
        if CYCLE:
            tcc = tl.sum(tl.load(values_at + number, number < pairs, 0), 0)
        if CONTRAST:
            cidm = tl.sum(tl.load(values_at + number, (number >= pairs) & (number < pairs + count), 0), 0)
        tl.store(answers_at, cycle * tcc + contrast * cidm)
        tl.store(answers_at + 1, tcc)
        tl.store(answers_at + 2, cidm)
