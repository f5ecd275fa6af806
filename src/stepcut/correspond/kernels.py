"""The inner computations of `tcc` and `cidm` with their gradients written out: a third of the work that autograd does.

Both are functions of products of frames only, so nothing of size (videos, videos, frames, frames, d) is ever made. On a
CPU compiled kernels do the same (`_losses_cpu`); torch does it on CUDA, and where numba is absent. Gradients of
gradients are not supported.
"""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

import torch
from torch import Tensor

from stepcut.errors import OptionError

_Gradients = tuple[Tensor, None, None, None, None, None]


def apply(function: type[torch.autograd.Function], *given: object) -> Tensor:
    """`Function.apply`, which torch gives no type."""
    value: Tensor = function.apply(*given)
    return value


def refuse_second_gradients() -> None:
    """What torch's `once_differentiable` is for, at once and without its cost in every step."""
    if torch.is_grad_enabled():
        raise OptionError(
            "create_graph=True was given to the backward pass of a loss whose gradient has no gradient of its own. "
            "Leave it out; losses.tcc, cidm and soft_dtw can be differentiated once."
        )


@functools.cache
def _pairs(count: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """All ordered pairs of different videos: first and second (P,), and who is first and second as matrices (B, P)."""
    grid = torch.cartesian_prod(torch.arange(count), torch.arange(count))
    first, second = grid[grid[:, 0] != grid[:, 1]].T
    chosen = torch.eye(count)
    made = first, second, chosen[:, first].to(dtype), chosen[:, second].to(dtype)
    a, b, is_first, is_second = (x.to(device).contiguous() for x in made)
    return a, b, is_first, is_second


class Cycle(torch.autograd.Function):
    """`tcc` on centred frames u (B, T, d) with times t (B, T) and a mask (B, T) or None: a scalar.

    |u_i|^2 is the same for all j, so the softmax over j does not see it, and v~ . u_k = sum_j alpha_j (v_j . u_k):
    products of frames are all that is needed.
    """

    @staticmethod
    def forward(ctx: Any, u: Tensor, t: Tensor, real: Tensor | None, scale: float, lam: float, floor: float) -> Tensor:
        count, frames, dim = u.shape
        a, b, *_ = _pairs(count, u.device, u.dtype)
        flat = u.reshape(count * frames, dim)
        products = flat @ flat.T
        norms = products.diagonal().view(count, frames) * scale
        if real is not None:  # a padded frame is infinitely far; a video of padding alone has no weight at all
            norms = norms.masked_fill(~real & real.any(1, keepdim=True), torch.inf)
        away = products.view(count, frames, count, frames)[a, :, b] * (2 * scale)  # (P, T, T): 2 u_i . v_j
        back = away.mT.contiguous()
        alpha = torch.softmax(away - norms[b][:, None], dim=2)
        beta = torch.softmax(torch.baddbmm(norms[a][:, None], alpha, back, beta=-1), dim=2)
        ta = t[a]
        mu = (beta * ta[:, None]).sum(2)  # (P, T)
        square = (ta[:, None] - mu[:, :, None]).square_()  # (t_k - mu)^2
        var = (beta * square).sum(2)
        held = var.clamp_min(floor)
        error = ta - mu
        loss = error.square() / held + lam * held.log()
        weights = None if real is None else _weights(real, a, b, u.dtype)
        ctx.save_for_backward(flat, ta, alpha, beta, away, square, var, held, error, weights)
        ctx.shape, ctx.scale, ctx.lam, ctx.floor = u.shape, scale, lam, floor
        return loss.mean() if weights is None else (loss * weights).sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> _Gradients:
        refuse_second_gradients()
        flat, ta, alpha, beta, away, square, var, held, error, weights = ctx.saved_tensors
        (count, frames, _), scale = ctx.shape, ctx.scale
        a, b, is_first, is_second = _pairs(count, flat.device, flat.dtype)
        share = grad / error.numel() if weights is None else grad * weights
        steep = error / held
        d_mu = steep * share * -2
        # d var / d mu = -2 sum_k beta_k (t_k - mu) = 0; a variance held at its floor has no gradient.
        d_var = (ctx.lam - steep * error) / held * share * (var >= ctx.floor)
        d_beta = torch.addcmul(d_mu[:, :, None] * ta[:, None], d_var[:, :, None], square)
        d_back = _through_softmax(d_beta, beta)  # towards v~ . u_k
        d_away = _through_softmax(d_back @ away, alpha)
        d_norms = is_first @ d_back.sum(1) + is_second @ d_away.sum(1)  # (B, T), with the sign turned
        d_pairs = (d_away + (alpha.mT.contiguous() @ d_back).mT) * (2 * scale)
        d_products = flat.new_zeros(count, frames, count, frames)
        d_products[a, :, b] = d_pairs
        both = d_products.view(count * frames, count * frames)
        both.diagonal().copy_(d_norms.reshape(-1) * -scale)
        return ((both + both.T) @ flat).view(ctx.shape), None, None, None, None, None


def _through_softmax(grad: Tensor, out: Tensor) -> Tensor:
    """The gradient before a softmax over the last dimension, from the one after it."""
    weighted = grad * out
    return torch.addcmul(weighted, out, weighted.sum(2, keepdim=True), value=-1)


def _weights(real: Tensor, a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """(P, T): what a frame of the first video of a pair weighs in the mean over pairs and over real frames."""
    inside = real.to(dtype)
    share = inside / inside.sum(1, keepdim=True).clamp_min(1)  # (B, T): rows of videos with frames sum to 1
    filled = real.any(1)
    pairs = (filled[a] & filled[b]).to(dtype)
    return share[a] * (pairs / pairs.sum().clamp_min(1))[:, None]


class Contrast(torch.autograd.Function):
    """`cidm` on centred frames u (B, T, d) with times (B, T), seconds (B,) and a mask (B, T) or None: a scalar.

    Frames are subtracted, not multiplied, since little is then lost between close ones; the gradient of a distance of
    0 is 0.
    """

    @staticmethod
    def forward(
        ctx: Any, u: Tensor, t: Tensor, seconds: Tensor, real: Tensor | None, window: float, margin: float
    ) -> Tensor:
        apart = t[:, :, None] - t[:, None, :]
        near = apart.abs() * seconds[:, None, None] <= window
        gamma = apart.square_() + 1
        d = torch.cdist(u, u, compute_mode="donot_use_mm_for_euclid_dist")
        inside = margin - d
        weights = _pair_weights(u, real)
        loss = torch.where(near, d / gamma, gamma * inside.clamp_min(0)) * weights
        slope = torch.where(near, gamma.reciprocal(), torch.where(inside > 0, -gamma, 0)) * weights
        ctx.save_for_backward(u, (slope / d).masked_fill_(d == 0, 0))
        return loss.sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> _Gradients:
        refuse_second_gradients()
        u, pull = ctx.saved_tensors  # (B, T, T), symmetric: sum_j pull_ij (u_i - u_j), once as i and once as j
        moved = torch.addcmul(-(pull @ u), pull.sum(2, keepdim=True), u)
        return moved * (2 * grad), None, None, None, None, None


def _pair_weights(u: Tensor, real: Tensor | None) -> Tensor | float:
    """What a pair of frames of one video weighs in the mean over videos of the mean over their real pairs."""
    if real is None:
        return 1.0 / (u.shape[0] * u.shape[1] ** 2)
    both = (real[:, :, None] & real[:, None, :]).to(u.dtype)
    pairs = both.sum((1, 2))
    videos = (pairs > 0).sum().clamp_min(1)
    return both / (pairs.clamp_min(1) * videos)[:, None, None]


class CompiledCycle(torch.autograd.Function):
    """`Cycle` by the compiled kernel: the gradient comes with the value."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, t: Tensor, real: Tensor | None, scale: float, lam: float, floor: float) -> Tensor:
        from stepcut.correspond import _losses_cpu as cpu

        flat = u.reshape(-1, u.shape[2])
        mask = None if real is None else real.contiguous().numpy()
        value, gradient = cpu.cycle((flat @ flat.T).numpy(), t.contiguous().numpy(), mask, scale, lam, floor)
        ctx.save_for_backward(flat, torch.from_numpy(gradient))
        ctx.shape = u.shape
        return u.new_tensor(value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> _Gradients:
        refuse_second_gradients()
        flat, both = ctx.saved_tensors
        return ((both + both.T) @ flat).mul_(grad).view(ctx.shape), None, None, None, None, None


class CompiledContrast(torch.autograd.Function):
    """`Contrast` by the compiled kernel: the gradient comes with the value."""

    @staticmethod
    def forward(
        ctx: Any, u: Tensor, t: Tensor, seconds: Tensor, real: Tensor | None, window: float, margin: float
    ) -> Tensor:
        from stepcut.correspond import _losses_cpu as cpu

        arrays = [x.contiguous().numpy() for x in (u, t, seconds)]
        mask = None if real is None else real.contiguous().numpy()
        value, gradient = cpu.contrast(arrays[0], arrays[1], arrays[2], mask, window, margin)
        ctx.save_for_backward(torch.from_numpy(gradient))
        return u.new_tensor(value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> _Gradients:
        refuse_second_gradients()
        (gradient,) = ctx.saved_tensors
        return gradient * grad, None, None, None, None, None


def choose_kernels(device: torch.device) -> tuple[type[torch.autograd.Function], type[torch.autograd.Function]]:
    """The functions for `tcc` and `cidm` on this device."""
    if device.type == "cpu" and numba_is_here():
        return CompiledCycle, CompiledContrast
    return Cycle, Contrast


@functools.cache
def numba_is_here() -> bool:
    """Whether the compiled kernels can be used."""
    return importlib.util.find_spec("numba") is not None
