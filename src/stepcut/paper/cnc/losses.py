"""The losses of the paper: plain functions that pull the same step of different videos together.

All take `embeddings (B, T, d)` of B videos, `times (B, T)` in [0, 1] (time of a frame divided by
the length of its video) and `mask (B, T)`, true on real frames, for videos with fewer than T
frames. Some also take `durations (B,)` in seconds. All return a scalar and weigh every video (or
ordered pair of videos) equally. They compute in float32 (float64 for float64), also inside
autocast.
"""

import contextlib

import torch
from torch import Tensor

from stepcut.paper.cnc.settings import Losses
from stepcut.paper.cnc.softdtw import soft_dtw

VARIANCE_FLOOR = 1e-6
"""Smallest variance in `tcc`: a thousandth of the video, squared."""
ON_THE_EDGE = 1e-4
"""Rounding tolerance of the window of `cidm`, in seconds."""
FILMED = 30.0
"""Frame rate of the paper's videos, for `gamma_time="frames"`."""


def tcc(
    embeddings: Tensor,
    times: Tensor,
    mask: Tensor | None = None,
    temperature: float = 0.1,
    variance_weight: float = 0.001,
    column_norms: bool = False,
) -> Tensor:
    """Temporal cycle consistency: a frame mapped to another video and back returns to its time.

    The mean over all ordered pairs of videos of the mean over the frames i of the first:

        alpha_j = softmax_j(-|u_i - v_j|^2 / (d temperature))     v~ = sum_j alpha_j v_j
        beta_k  = softmax_k(-|v~ - u_k|^2 / (d temperature))      mu = sum_k beta_k t_k
        var     = sum_k beta_k (t_k - mu)^2
        L_i     = (t_i - mu)^2 / var + variance_weight log var

    `var` is at least `VARIANCE_FLOOR`. With `column_norms`, |u_j|^2 stands where |u_i|^2 belongs, and
    |v~_k|^2 where |v~_i|^2 belongs, and a distance is at least 0: the authors' code.
    """
    with _full_precision(embeddings):
        u, t, real = _checked(embeddings, times, mask)
        count = len(u)
        if not column_norms:
            # Only distances matter; centring reduces the rounding error of products.
            u = (u - u.sum((0, 1)) / real.sum().clamp_min(1)).masked_fill(~real[:, :, None], 0)
        pair = torch.arange(count * (count - 1), device=u.device)
        a, b = pair // (count - 1), pair % (count - 1)
        b = b + (b >= a).long()  # all ordered pairs of different videos
        scale = 1 / (u.shape[2] * temperature)
        # |u_i - v_j|^2 = |u_i|^2 - 2 u_i.v_j + |v_j|^2; |u_i|^2 cancels in a softmax over j.
        # A padded frame is infinitely far; a video of padding only has no weight.
        norms = u.square().sum(2).masked_fill(~real & real.any(1, keepdim=True), torch.inf)
        first, second = _take(u, a), _take(u, b)

        def softmax(rows: Tensor, columns: Tensor, norm: Tensor) -> Tensor:  # (P, T, T)
            near = 2 * rows @ columns.mT - norm[:, None]
            if column_norms:
                near = (near - rows.square().sum(2)[:, None]).clamp_max(0)
            return torch.softmax(near * scale, dim=2)

        nearest = softmax(first, second, _take(norms, b)) @ second
        beta = softmax(nearest, first, _take(norms, a))
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
    """Contrastive inverse difference moment: near frames lie close, far ones `margin` apart.

    The mean over the videos of the mean over all pairs of frames (i, j), with d = |u_i - u_j|:

        gamma = (t_i - t_j)^2 + 1
        near, |seconds_i - seconds_j| <= window:  d / gamma
        far:                                      gamma max(0, margin - d)

    With `frames (B,)`, the number of frames of each video, gamma measures time in frames.
    """
    with _full_precision(embeddings):
        u, t, real = _checked(embeddings, times, mask)
        apart = t[:, :, None] - t[:, None, :]
        near = apart.abs() * durations.to(t.device, t.dtype)[:, None, None] <= window + ON_THE_EDGE
        span = 1 if frames is None else frames.to(t.device, t.dtype)[:, None, None]
        gamma = (apart * span).square() + 1
        d = torch.cdist(u, u, compute_mode="donot_use_mm_for_euclid_dist")  # its gradient at 0 is 0
        each = torch.where(near, d / gamma, gamma * (margin - d).clamp_min(0))
        return _mean_of_means(each.flatten(1), (real[:, :, None] & real[:, None, :]).flatten(1))


def loss_terms(
    name: str,
    u: Tensor,
    times: Tensor,
    durations: Tensor,
    mask: Tensor | None,
    chosen: Losses,
    window: float,
) -> dict[str, Tensor]:
    """Compute a loss of `LOSSES` by name, as `loss`, and its terms; soft-DTW is per frame.

    Default weight of C-IDM: 1 for tc3i. For lav and lav+tcc it is T, the number of frames: LAV adds
    0.5 (I_a + I_b), sums over T^2 pairs, to the soft-DTW of two videos, here divided by T.
    """
    parts: dict[str, Tensor] = {}
    count = times.shape[1]
    if name != "lav":
        parts["tcc"] = tcc(
            u, times, mask, chosen.temperature, chosen.variance_weight, chosen.column_norms
        )
    if name in ("lav", "lav+tcc"):
        u = unit(u)
        parts["soft_dtw"] = alignment(u, times, mask, chosen.gamma) / count
    total = torch.stack(list(parts.values())).sum()
    if name != "tcc":
        frames = FILMED * durations if chosen.gamma_time == "frames" else None
        usual = 1.0 if name == "tc3i" else float(count)
        v = u if chosen.cidm_gradient else u.detach()
        parts["cidm"] = cidm(v, times, durations, mask, window, chosen.margin, frames)
        total = total + (usual if chosen.weight is None else chosen.weight) * parts["cidm"]
    return {"loss": total, **parts}


def alignment(
    embeddings: Tensor, times: Tensor, mask: Tensor | None = None, gamma: float = 0.1
) -> Tensor:
    """Mean soft-DTW value over all pairs of videos, on squared distances of frames."""
    with _full_precision(embeddings):
        u, _, real = _checked(embeddings, times, mask)
        # Real frames first, in their order.
        order = (~real).to(torch.uint8).argsort(dim=1, stable=True)
        u = u.gather(1, order[:, :, None].expand_as(u))
        # Soft-DTW is symmetric: each pair once.
        a, b = torch.triu_indices(len(u), len(u), offset=1, device=u.device)
        apart = torch.cdist(_take(u, a), _take(u, b), compute_mode="donot_use_mm_for_euclid_dist")
        cost = apart.square()
        frames = real.sum(1)
        lengths = torch.stack([frames[a], frames[b]], dim=1)
        filled = (lengths > 0).all(1)
        values = soft_dtw(cost, gamma, lengths=lengths.clamp_min(1))
        return torch.where(filled, values, 0).sum() / filled.sum().clamp_min(1)


def unit(embeddings: Tensor) -> Tensor:
    """Divide every embedding by its length; 0 stays 0."""
    with _full_precision(embeddings):
        u = embeddings if embeddings.dtype == torch.float64 else embeddings.float()
        return u / u.square().sum(-1, keepdim=True).clamp_min(1e-12).sqrt()


def _take(videos: Tensor, places: Tensor) -> Tensor:
    """`videos[places]`, with a gradient that is summed in a fixed order.

    On a CPU, `index_select` sums its gradient in a fixed order; on a GPU, indexing does.
    """
    return videos.index_select(0, places) if videos.device.type == "cpu" else videos[places]


def _mean_of_means(each: Tensor, real: Tensor) -> Tensor:
    """Mean over rows of the mean over the real entries of a row; empty rows do not count."""
    counts = real.sum(1)
    rows = torch.where(real, each, 0).sum(1) / counts.clamp_min(1)
    return rows.sum() / (counts > 0).sum().clamp_min(1)


def _full_precision(embeddings: Tensor) -> contextlib.AbstractContextManager[object]:
    """Switch autocast off: half precision is too coarse for distances and logarithms."""
    return torch.autocast(device_type=embeddings.device.type, enabled=False)


def _checked(
    embeddings: Tensor, times: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return embeddings and times (0 on padded frames) in full precision, and the mask."""
    dtype = torch.float64 if embeddings.dtype == torch.float64 else torch.float32
    u, t = embeddings.to(dtype), times.to(embeddings.device, dtype)
    if mask is None:
        return u, t, torch.ones_like(t, dtype=torch.bool)
    real = mask.to(u.device, torch.bool)
    return u.masked_fill(~real[:, :, None], 0), t.masked_fill(~real, 0), real
