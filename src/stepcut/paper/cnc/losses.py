"""The losses that put the same step of different videos close together: plain functions of tensors.

All take `embeddings (B, T, d)` of B videos, `times (B, T)` in [0, 1] (a frame's time divided by its
video's length), where seconds matter `durations (B,)` in seconds, and `mask (B, T)`, true on real
frames, for videos with fewer than T. All return a scalar, count every video (or ordered pair of
videos) the same, and do not care about the order of videos. They compute in float32 (float64 for
float64) also inside autocast."""

import contextlib

import torch
from torch import Tensor

from stepcut.errors import OptionError
from stepcut.paper.cnc.softdtw import soft_dtw

VARIANCE_FLOOR = 1e-6
"""The smallest variance of a landing place in `tcc`: a thousandth of the video, squared."""
ON_THE_EDGE = 1e-4
"""Seconds by which a pair may miss the window of `cidm` and still be near: times were divided and
multiplied again."""


def tcc(
    embeddings: Tensor,
    times: Tensor,
    mask: Tensor | None = None,
    temperature: float = 0.1,
    variance_weight: float = 0.001,
) -> Tensor:
    """Temporal cycle consistency: a frame that goes to another video and back should land where it
    started.

    The mean over all ordered pairs of videos of the mean over the frames i of the first:

        alpha_j = softmax_j(-|u_i - v_j|^2 / (d temperature))     v~ = sum_j alpha_j v_j
        beta_k  = softmax_k(-|v~ - u_k|^2 / (d temperature))      mu = sum_k beta_k t_k
        var     = sum_k beta_k (t_k - mu)^2
        L_i     = (t_i - mu)^2 / var + variance_weight log var

    `var` is never taken below `VARIANCE_FLOOR`.
    """
    if not temperature > 0:
        raise OptionError(
            f"temperature={temperature} is not positive. Choose 0.1, or less for nearest frames "
            "alone."
        )
    with _full_precision(embeddings):
        u, t, real = _checked(embeddings, times, mask, 2)
        count = len(u)
        # Only distances count. With the frames' middle at 0 their products lose less to rounding.
        u = (u - u.sum((0, 1)) / real.sum().clamp_min(1)).masked_fill(~real[:, :, None], 0)
        pair = torch.arange(count * (count - 1), device=u.device)
        a, b = pair // (count - 1), pair % (count - 1)
        b = b + (b >= a).long()  # all ordered pairs of different videos
        scale = 1 / (u.shape[2] * temperature)
        # |u_i - v_j|^2 = |u_i|^2 - 2 u_i.v_j + |v_j|^2, and a softmax over j does not see |u_i|^2.
        # A padded frame is infinitely far; a video of padding alone has no weight at all.
        norms = u.square().sum(2).masked_fill(~real & real.any(1, keepdim=True), torch.inf)
        first, second = _take(u, a), _take(u, b)
        alpha = torch.softmax(
            (2 * first @ second.mT - _take(norms, b)[:, None]) * scale, dim=2
        )  # (P, T, T)
        nearest = alpha @ second
        beta = torch.softmax((2 * nearest @ first.mT - _take(norms, a)[:, None]) * scale, dim=2)
        mu = (beta @ t[a][:, :, None])[:, :, 0]
        var = (beta * (t[a][:, None] - mu[:, :, None]).square()).sum(2).clamp_min(VARIANCE_FLOOR)
        each = (t[a] - mu).square() / var + variance_weight * var.log()  # (P, T)
        frames = real[a] & real.any(1)[b][:, None]
        return _mean_of_means(each, frames)


def cidm(
    embeddings: Tensor,
    times: Tensor,
    durations: Tensor,
    mask: Tensor | None = None,
    window: float = 10.0,
    margin: float = 2.0,
    frames: Tensor | None = None,
) -> Tensor:
    """Contrastive inverse difference moment: frames near in time lie close, far ones at least
    `margin` apart.

    The mean over the videos of the mean over all pairs of frames (i, j), with d = |u_i - u_j|:

        gamma = (t_i - t_j)^2 + 1
        near, |seconds_i - seconds_j| <= window:  d / gamma
        far:                                      gamma max(0, margin - d)

    With `frames (B,)`, how many frames each video has, the times of gamma are counted in frames.
    """
    with _full_precision(embeddings):
        u, t, real = _checked(embeddings, times, mask, 1, durations)
        apart = t[:, :, None] - t[:, None, :]
        near = apart.abs() * durations.to(t.device, t.dtype)[:, None, None] <= window + ON_THE_EDGE
        gamma = (
            apart if frames is None else apart * frames.to(t.device, t.dtype)[:, None, None]
        ).square() + 1
        d = torch.cdist(u, u, compute_mode="donot_use_mm_for_euclid_dist")  # its gradient at 0 is 0
        each = torch.where(near, d / gamma, gamma * (margin - d).clamp_min(0))
        return _mean_of_means(each.flatten(1), (real[:, :, None] & real[:, None, :]).flatten(1))


def tc3i(
    embeddings: Tensor,
    times: Tensor,
    durations: Tensor,
    mask: Tensor | None = None,
    weight: float = 1.0,
    temperature: float = 0.1,
    variance_weight: float = 0.001,
    window: float = 10.0,
    margin: float = 2.0,
) -> Tensor:
    """The paper's loss: `tcc + weight * cidm`, both as means; with `weight=T`, the frames sampled,
    the paper's sums."""
    cycle = tcc(embeddings, times, mask, temperature, variance_weight)
    return cycle + weight * cidm(embeddings, times, durations, mask, window, margin)


def lav(
    embeddings: Tensor,
    times: Tensor,
    durations: Tensor,
    mask: Tensor | None = None,
    weight: float = 0.5,
    gamma: float = 0.1,
    window: float = 10.0,
    margin: float = 2.0,
) -> Tensor:
    """Learning by aligning videos: soft-DTW between the videos + `weight` C-IDM, both on embeddings
    of length 1.

    The mean over all pairs of videos of soft-DTW on |u_i - v_j|^2, as a sum along the path, as it
    is defined. Masked frames are left out of the path."""
    u, times, real = _checked(embeddings, times, mask, 2)
    on_sphere = unit(u)
    return alignment(on_sphere, times, real, gamma) + weight * cidm(
        on_sphere, times, durations, real, window, margin
    )


def lav_tcc(
    embeddings: Tensor,
    times: Tensor,
    durations: Tensor,
    mask: Tensor | None = None,
    weight: float = 0.5,
    gamma: float = 0.1,
    temperature: float = 0.1,
    variance_weight: float = 0.001,
    window: float = 10.0,
    margin: float = 2.0,
) -> Tensor:
    """`lav + tcc`: the first on embeddings of length 1, the second on the embeddings as they
    are."""
    aligned = lav(embeddings, times, durations, mask, weight, gamma, window, margin)
    return aligned + tcc(embeddings, times, mask, temperature, variance_weight)


def alignment(
    embeddings: Tensor, times: Tensor, mask: Tensor | None = None, gamma: float = 0.1
) -> Tensor:
    """The mean over all pairs of videos of the soft-DTW value on the squared distances of their
    frames."""
    with _full_precision(embeddings):
        u, _, real = _checked(embeddings, times, mask, 2)
        order = (
            (~real).to(torch.uint8).argsort(dim=1, stable=True)
        )  # real frames first, in their order
        u = u.gather(1, order[:, :, None].expand_as(u))
        a, b = torch.triu_indices(
            len(u), len(u), offset=1, device=u.device
        )  # soft-DTW is symmetric: each pair once
        cost = torch.cdist(
            _take(u, a), _take(u, b), compute_mode="donot_use_mm_for_euclid_dist"
        ).square()
        frames = real.sum(1)
        lengths = torch.stack([frames[a], frames[b]], dim=1)
        filled = (lengths > 0).all(1)
        values = soft_dtw(cost, gamma, lengths=lengths.clamp_min(1))
        return torch.where(filled, values, 0).sum() / filled.sum().clamp_min(1)


def unit(embeddings: Tensor) -> Tensor:
    """Every embedding divided by its own length; 0 stays 0."""
    with _full_precision(embeddings):
        u = embeddings if embeddings.dtype == torch.float64 else embeddings.float()
        return u / u.square().sum(-1, keepdim=True).clamp_min(1e-12).sqrt()


def _take(videos: Tensor, places: Tensor) -> Tensor:
    """`videos[places]`, with a gradient that is summed in the same order each time: the same seed,
    the same result.

    The threads of a CPU sum the gradient of an index in any order, that of `index_select` in one;
    on a GPU it is the other way round."""
    return videos.index_select(0, places) if videos.device.type == "cpu" else videos[places]


def _mean_of_means(each: Tensor, real: Tensor) -> Tensor:
    """The mean over the rows that hold something real of the mean over what is real in them."""
    counts = real.sum(1)
    rows = torch.where(real, each, 0).sum(1) / counts.clamp_min(1)
    return rows.sum() / (counts > 0).sum().clamp_min(1)


def _full_precision(embeddings: Tensor) -> contextlib.AbstractContextManager[object]:
    """Autocast switched off: distances, softmaxes and logarithms in half precision would be
    wrong."""
    return torch.autocast(device_type=embeddings.device.type, enabled=False)


def _checked(
    embeddings: Tensor,
    times: Tensor,
    mask: Tensor | None,
    least: int,
    durations: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Shapes that fit, float32 or float64, and the mask; padded frames hold 0, so nothing of them
    gets through."""
    if embeddings.ndim != 3 or embeddings.shape[0] < least:
        raise OptionError(
            f"embeddings has shape {tuple(embeddings.shape)}; expected (videos, frames, "
            "dimensions) with at least "
            f"{least} {'video' if least == 1 else 'videos'}. Stack the sampled frames of the "
            "videos of one task."
        )
    videos, frames = tuple(embeddings.shape[:1]), tuple(embeddings.shape[:2])
    for name, given, shape, what in (
        ("times", times, frames, "each frame's time divided by its video's length"),
        ("mask", mask, frames, "true on real frames, or nothing when no frame is padding"),
        ("durations", durations, videos, "the length of each video in seconds"),
    ):
        if given is not None and given.shape != shape:
            raise OptionError(
                f"{name} has shape {tuple(given.shape)}; expected {shape}. Give {what}."
            )
    dtype = torch.float64 if embeddings.dtype == torch.float64 else torch.float32
    u, t = embeddings.to(dtype), times.to(embeddings.device, dtype)
    if mask is None:
        return u, t, torch.ones_like(t, dtype=torch.bool)
    real = mask.to(u.device, torch.bool)
    return u.masked_fill(~real[:, :, None], 0), t.masked_fill(~real, 0), real
