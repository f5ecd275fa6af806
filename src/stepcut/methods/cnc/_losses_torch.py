"""`tcc` and `cidm` with their gradients written out, by torch: a third of the work that autograd does.

Both are functions of products of frames or of their differences only, so nothing of size (videos, videos, frames,
frames, d) is ever made.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from stepcut.methods.cnc.kernels import Settings


def measure(
    u: Tensor, t: Tensor, seconds: Tensor | None, real: Tensor | None, settings: Settings
) -> tuple[Tensor, Tensor, Tensor]:
    """See `kernels.Way`."""
    with torch.autocast(device_type=u.device.type, enabled=False):
        u = _centred(u, real)
        nothing = u.new_zeros(()), torch.zeros_like(u)
        cycle = nothing if settings.cycle is None else _cycle(u, t, real, settings)
        contrast = nothing if seconds is None else _contrast(u, t, seconds, real, settings)
        values = torch.stack([cycle[0], contrast[0]])
        first, second = settings.cycle or 0.0, settings.contrast or 0.0
        loss = first * cycle[0] + second * contrast[0]
        return loss, values, first * cycle[1] + second * contrast[1]


def _centred(u: Tensor, real: Tensor | None) -> Tensor:
    """The frames with their middle at 0: no distance changes, and products of frames lose less to rounding."""
    if real is None:
        return u - u.mean((0, 1))
    return u - u.sum((0, 1)) / real.sum().clamp_min(1)  # padded frames hold 0 as they come


@functools.cache
def _pairs(count: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """All ordered pairs of different videos: first and second (P,), and who is first and second as matrices (B, P)."""
    grid = torch.cartesian_prod(torch.arange(count), torch.arange(count))
    first, second = grid[grid[:, 0] != grid[:, 1]].T
    chosen = torch.eye(count)
    made = first, second, chosen[:, first].to(dtype), chosen[:, second].to(dtype)
    a, b, is_first, is_second = (x.to(device).contiguous() for x in made)
    return a, b, is_first, is_second


def _cycle(u: Tensor, t: Tensor, real: Tensor | None, settings: Settings) -> tuple[Tensor, Tensor]:
    """`tcc` and its gradient.

    |u_i|^2 is the same for all j, so the softmax over j does not see it, and v~ . u_k = sum_j alpha_j (v_j . u_k):
    products of frames are all that is needed.
    """
    count, frames, dim = u.shape
    scale = settings.scale(dim)
    a, b, is_first, is_second = _pairs(count, u.device, u.dtype)
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
    held = var.clamp_min(settings.variance_floor)
    error = ta - mu
    share = 1 / error.numel() if real is None else _weights(real, a, b, u.dtype)
    value = ((error.square() / held + settings.variance_weight * held.log()) * share).sum()

    steep = error / held
    d_mu = steep * share * -2
    # d var / d mu = -2 sum_k beta_k (t_k - mu) = 0; a variance held at its floor has no gradient.
    d_var = (settings.variance_weight - steep * error) / held * share * (var >= settings.variance_floor)
    d_beta = torch.addcmul(d_mu[:, :, None] * ta[:, None], d_var[:, :, None], square)
    d_back = _through_softmax(d_beta, beta)  # towards v~ . u_k
    d_away = _through_softmax(d_back @ away, alpha)
    d_norms = is_first @ d_back.sum(1) + is_second @ d_away.sum(1)  # (B, T), with the sign turned
    d_pairs = (d_away + (alpha.mT.contiguous() @ d_back).mT) * (2 * scale)
    d_products = flat.new_zeros(count, frames, count, frames)
    d_products[a, :, b] = d_pairs
    both = d_products.view(count * frames, count * frames)
    both.diagonal().copy_(d_norms.reshape(-1) * -scale)
    return value, ((both + both.T) @ flat).view(u.shape)


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


def _contrast(u: Tensor, t: Tensor, seconds: Tensor, real: Tensor | None, settings: Settings) -> tuple[Tensor, Tensor]:
    """`cidm` and its gradient.

    Frames are subtracted, not multiplied, since little is then lost between close ones; the gradient of a distance of
    0 is 0.
    """
    apart = t[:, :, None] - t[:, None, :]
    near = apart.abs() * seconds[:, None, None] <= settings.window
    gamma = apart.square_() + 1
    d = torch.cdist(u, u, compute_mode="donot_use_mm_for_euclid_dist")
    inside = settings.margin - d
    weights = _pair_weights(u, real)
    value = (torch.where(near, d / gamma, gamma * inside.clamp_min(0)) * weights).sum()
    slope = torch.where(near, gamma.reciprocal(), torch.where(inside > 0, -gamma, 0)) * weights
    pull = (slope / d).masked_fill_(d == 0, 0)
    # (B, T, T), symmetric: sum_j pull_ij (u_i - u_j), once as i and once as j
    return value, torch.addcmul(-(pull @ u), pull.sum(2, keepdim=True), u) * 2


def _pair_weights(u: Tensor, real: Tensor | None) -> Tensor | float:
    """What a pair of frames of one video weighs in the mean over videos of the mean over their real pairs."""
    if real is None:
        return 1.0 / (u.shape[0] * u.shape[1] ** 2)
    both = (real[:, :, None] & real[:, None, :]).to(u.dtype)
    pairs = both.sum((1, 2))
    videos = (pairs > 0).sum().clamp_min(1)
    return both / (pairs.clamp_min(1) * videos)[:, None, None]
