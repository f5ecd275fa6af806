"""The losses of the paper: plain functions that pull the same step of different videos together.

They take `embeddings (B, T, d)` of B videos, `times (B, T)` in [0, 1] (of a frame, divided by the
length of its video), `mask (B, T)`, true on real frames, and some `durations (B,)` in seconds. All
return a scalar, weigh every video (or ordered pair) equally, and compute in float32 (float64 for
float64).
"""

import contextlib
import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from stepcut.methods.arithmetic import Floats
from stepcut.paper.cnc.settings import Losses
from stepcut.parallel import compiled_later

VARIANCE_FLOOR = 1e-6  # Smallest variance in `tcc`: a thousandth of the video, squared
ON_THE_EDGE = 1e-4  # Rounding tolerance of the window of `cidm`, in seconds
FILMED = 30.0  # Frame rate of the paper's videos, for `gamma_time="frames"`
# Plans between videos: cost of the virtual frame, temperature of cosines, Sinkhorn iterations
VIRTUAL, SHARP, SINKHORN = 0.5, 0.1, 30


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
        var     = sum_k beta_k (t_k - mu)^2, at least `VARIANCE_FLOOR`
        L_i     = (t_i - mu)^2 / var + variance_weight log var

    With `column_norms`, as in the authors' code, |u_j|^2 stands where |u_i|^2 belongs, and
    |v~_k|^2 where |v~_i|^2 belongs, and a distance is at least 0.
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

        gamma = (t_i - t_j)^2 + 1       (in frames, with `frames (B,)` of each video)
        near, |seconds_i - seconds_j| <= window:  d / gamma
        far:                                      gamma max(0, margin - d)
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


def opel(embeddings: Tensor, times: Tensor, mask: Tensor | None = None) -> Tensor:
    """OPEL (Chowdhury et al. 2024): the cost of moving one video onto another, near two priors.

    The mean over all ordered pairs of videos of the minimum over plans P with uniform margins of

        sum_ij P_ij (1 - u_i.v_j - 0.1 S_ij + 0.1 log(P_ij / Q_ij))

    with |u| = 1. Q averages the Laplace priors exp(-x / (3 sqrt(1/N^2 + 1/M^2))) of two distances,
    S averages 1 / (x^2 + 1): x is |t_i - s_j| (time), and half of |t_i - t_i*| + |s_j - s_j*|
    (optimality), i* the frame most like j and j* the one most like i. A virtual frame in each
    video has cost 0.5, S = 0 and Q = 1/e. Left out: the contrastive term between videos, priors
    that change in training, their constants.
    """
    with _full_precision(embeddings):
        cosine, t, s, rows, columns = _matched(embeddings, times, mask)
        real = rows[:, :, None] & columns[:, None]
        like = cosine.detach().masked_fill(~real, -torch.inf)
        t_like, s_like = (
            t.gather(1, like.argmax(1))[:, None],
            s.gather(1, like.argmax(2))[..., None],
        )
        optimal = ((t[:, :, None] - t_like).abs() + (s[:, None] - s_like).abs()) / 2
        x = torch.stack([(t[:, :, None] - s[:, None]).abs(), optimal])
        n, m = (side.to(t.dtype).sum(1).clamp_min(1)[:, None, None] for side in (rows, columns))
        prior = torch.exp(-x / (3 * (1 / n**2 + 1 / m**2).sqrt())).mean(0)
        cost = 1 - cosine - 0.1 * (1 / (x.square() + 1)).mean(0)
        cost, prior = _bordered(cost, VIRTUAL), _bordered(prior, math.exp(-1))
        plan = _transport(prior.double().log() - cost.detach().double() / 0.1, rows, columns)
        kept = torch.where(plan > 0, prior.clamp_min(1e-30), 1)
        # The gradient of a minimum is the one at the plan that attains it.
        each = plan.to(cost.dtype) * cost + 0.1 * torch.xlogy(plan, plan / kept).to(cost.dtype)
        return _mean_of_means(each.sum((1, 2))[:, None], real.flatten(1).any(1)[:, None])


def rgwot(embeddings: Tensor, times: Tensor, mask: Tensor | None = None) -> Tensor:
    """RGWOT (Mahmood et al. 2025): fused Gromov-Wasserstein plans between videos are the targets.

    The mean over all ordered pairs of videos of the mean over the frames i of the first of
    -sum_j P_ij log softmax_j(u_i.v_j / 0.1), with |u| = 1. P has uniform margins and is updated
    five times, without a gradient, from P_ij = 1 / (M + 1), rows scaled to 1:

        C_ij = 1 - u_i.v_j + 0.35 |t_i - s_j|     G = 0.7 C + 0.3 A P B
        P = the plan of least sum_ij P_ij (G_ij + 0.07 log P_ij)

    A[i, k] = 1/r for frames 1 to r = max(1, 0.04 N) apart; B[j, l] = 1 for frames of the second
    video farther apart than that: neighbours go to neighbours. A virtual frame in each video has
    cost 0.5 and no neighbours. Left out: margins that are not uniform, their solver.
    """
    with _full_precision(embeddings):
        cosine, t, s, rows, columns = _matched(embeddings, times, mask)
        with torch.no_grad():
            cost = _bordered(1 - cosine + 0.35 * (t[:, :, None] - s[:, None]).abs(), VIRTUAL)
            cost = cost.double()
            near, reach = _apart(rows, cost.dtype)
            linked = _bordered(((near > 0) & (near <= reach)) / reach, 0)
            far, reach = _apart(columns, cost.dtype)
            distant = _bordered((far > reach).to(cost.dtype), 0)
            count = rows.sum(1)[:, None, None] + 1
            plan = _transport(torch.zeros_like(cost), rows, columns)
            for _ in range(5):
                structure = linked @ (count * plan) @ distant
                plan = _transport(-(0.7 * cost + 0.3 * structure) / 0.07, rows, columns)
            target = (count * plan)[:, :-1, :-1].to(cosine.dtype)
        logits = (cosine / SHARP).masked_fill(~columns[:, None], -1e9)
        each = -(target * torch.log_softmax(logits, 2)).sum(2)
        return _mean_of_means(each, rows & columns.any(1)[:, None])


def _matched(embeddings: Tensor, times: Tensor, mask: Tensor | None) -> tuple[Tensor, ...]:
    """Cosines (P, T, T) of all ordered pairs of videos, times and real frames of both (P, T)."""
    u, t, real = _checked(embeddings, times, mask)
    u, count = unit(u), len(u)
    pair = torch.arange(count * (count - 1), device=u.device)
    a, b = pair // (count - 1), pair % (count - 1)
    b = b + (b >= a).long()
    return _take(u, a) @ _take(u, b).mT, t[a], t[b], real[a], real[b]


def _bordered(each: Tensor, value: float) -> Tensor:
    return torch.nn.functional.pad(each, (0, 1, 0, 1), value=value)


def _apart(real: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """How many real frames lie between two frames (P, T, T), and what counts as near (P, 1, 1)."""
    place = real.cumsum(1).to(dtype)
    reach = (0.04 * real.sum(1)[:, None, None].to(dtype)).floor().clamp_min(1)
    both = real[:, :, None] & real[:, None]
    return (place[:, :, None] - place[:, None]).abs().masked_fill(~both, 0), reach


@torch.no_grad()
def _transport(scores: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Scale exp(scores) to uniform margins over the real and virtual frames (Sinkhorn)."""
    rows, columns = (torch.nn.functional.pad(side, (0, 1), value=True) for side in (rows, columns))
    kernel = scores.masked_fill(~(rows[:, :, None] & columns[:, None]), -torch.inf).exp()
    p, q = (side.to(scores.dtype) / side.sum(1, keepdim=True) for side in (rows, columns))
    left = p[:, :, None]
    for _ in range(SINKHORN):
        right = q / (kernel * left).sum(1).clamp_min(1e-300)  # faster than a product
        left = p[:, :, None] / (kernel @ right[:, :, None]).clamp_min(1e-300)
    return left * kernel * right[:, None]


def loss_terms(
    name: str,
    u: Tensor,
    times: Tensor,
    durations: Tensor,
    mask: Tensor | None,
    chosen: Losses,
    window: float,
) -> dict[str, Tensor]:
    """A loss of `LOSSES` by name, as `loss`, and its terms; soft-DTW is per frame.

    C-IDM weighs 1, or T, the number of frames, for lav and lav+tcc: LAV adds 0.5 (I_a + I_b), sums
    over T^2 pairs, to the soft-DTW of two videos, here divided by T.
    """
    parts: dict[str, Tensor] = {}
    count = times.shape[1]
    if name in ("opel", "rgwot"):
        u = unit(u)
        parts[name] = (opel if name == "opel" else rgwot)(u, times, mask)
    elif name != "lav":
        parts["tcc"] = tcc(
            u, times, mask, chosen.temperature, chosen.variance_weight, chosen.column_norms
        )
    if name in ("lav", "lav+tcc"):
        u = unit(u)
        parts["soft_dtw"] = alignment(u, times, mask, chosen.gamma) / count
    total = torch.stack(list(parts.values())).sum()
    if name != "tcc":
        frames = FILMED * durations if chosen.gamma_time == "frames" else None
        usual = float(count) if name in ("lav", "lav+tcc") else 1.0
        v = u if chosen.cidm_gradient else u.detach()
        parts["cidm"] = cidm(v, times, durations, mask, window, chosen.margin, frames)
        total = total + (usual if chosen.weight is None else chosen.weight) * parts["cidm"]
    return {"loss": total, **parts}


def alignment(
    embeddings: Tensor, times: Tensor, mask: Tensor | None = None, gamma: float = 0.1
) -> Tensor:
    """Mean soft-DTW over all pairs of videos, on squared distances of frames."""
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
    # On a CPU, `index_select` sums its gradient in a fixed order; on a GPU, indexing does.
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
    """Embeddings and times (0 on padded frames) in full precision, and the mask."""
    dtype = torch.float64 if embeddings.dtype == torch.float64 else torch.float32
    u, t = embeddings.to(dtype), times.to(embeddings.device, dtype)
    if mask is None:
        return u, t, torch.ones_like(t, dtype=torch.bool)
    real = mask.to(u.device, torch.bool)
    return u.masked_fill(~real[:, :, None], 0), t.masked_fill(~real, 0), real


# ---------- soft-DTW
#
#     R[i, j] = cost[i, j] + softmin(R[i-1, j], R[i, j-1], R[i-1, j-1])
#     softmin(x) = -gamma log sum exp(-x / gamma)
#
# The gradient with respect to the cost is the share of the alignments that pass each cell. With w the
# weights of the three predecessors in the softmin of a cell, computed from the last cell back:
#
#     E[i, j] = E[i+1, j] w_up[i+1, j] + E[i, j+1] w_left[i, j+1] + E[i+1, j+1] w_cross[i+1, j+1]
#     E[n, m] = 1
#
# All arithmetic is float64. A compiled loop runs on the CPU. On a GPU, torch iterates over the
# anti-diagonals, whose cells are independent, and reads nothing back, so a CUDA graph can record it.


def soft_dtw(cost: Tensor, gamma: float = 0.1, lengths: Tensor | None = None) -> Tensor:
    """Soft-DTW of `cost (B, N, M)`, `(B,)`; `lengths (B, 2)` counts real rows and columns."""
    function: type[torch.autograd.Function] = _SoftDTW
    value: Tensor = function.apply(cost, gamma, lengths)
    return value if cost.dtype in (torch.float32, torch.float64) else value.float()


class _SoftDTW(torch.autograd.Function):
    """The forward pass also computes the gradient E."""

    @staticmethod
    def forward(ctx: Any, cost: Tensor, gamma: float, lengths: Tensor | None) -> Tensor:
        wide = cost.detach().double()
        if cost.is_cpu:
            ends = np.full((len(cost), 2), cost.shape[1:])
            if lengths is not None:
                ends = lengths.numpy().astype(np.int64)
            found = _align(wide.contiguous().numpy(), gamma, ends)
            value, share = map(torch.from_numpy, found)
        else:
            value, share = _align_on_gpu(wide, gamma, lengths)
        ctx.save_for_backward(share.to(cost.dtype))
        return value.to(cost.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (share,) = ctx.saved_tensors
        return share * grad[:, None, None], None, None


@compiled_later
def _align(cost: Floats, gamma: float, ends: NDArray[np.int64]) -> tuple[Floats, Floats]:
    batch, rows, columns = cost.shape
    values, shares = np.zeros(batch), np.zeros(cost.shape)
    r, w = np.empty((rows + 1, columns + 1)), np.zeros((3, rows, columns))
    for b in range(batch):
        n, m = ends[b]
        r[:], r[0, 0] = np.inf, 0.0
        for i in range(n):
            for j in range(m):
                up, left, cross = r[i, j + 1], r[i + 1, j], r[i, j]
                low = min(up, left, cross)
                w[:, i, j] = 0.0
                if low < np.inf:
                    w[0, i, j] = np.exp((low - up) / gamma)
                    w[1, i, j] = np.exp((low - left) / gamma)
                    w[2, i, j] = np.exp((low - cross) / gamma)
                    total = w[0, i, j] + w[1, i, j] + w[2, i, j]
                    w[:, i, j] /= total
                    low -= gamma * np.log(total)
                r[i + 1, j + 1] = cost[b, i, j] + low
        values[b] = r[n, m]
        e = shares[b]
        e[n - 1, m - 1] = 1.0
        for i in range(n - 1, -1, -1):
            for j in range(m - 1, -1, -1):
                if i > 0:
                    e[i - 1, j] += e[i, j] * w[0, i, j]
                if j > 0:
                    e[i, j - 1] += e[i, j] * w[1, i, j]
                if i > 0 and j > 0:
                    e[i - 1, j - 1] += e[i, j] * w[2, i, j]
    return values, shares


def _align_on_gpu(cost: Tensor, gamma: float, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """The same, one diagonal at a time: cell (i, j) is place i of diagonal i + j, A = -R / gamma.

    Two diagonals and one place before the first hold log 0: no alignment starts there.
    """
    batch, rows, columns = cost.shape
    last = rows + columns - 1
    i = torch.arange(rows, device=cost.device)[:, None]
    j = torch.arange(columns, device=cost.device)
    n, m = (cost.new_full((batch,), side, dtype=torch.int64) for side in (rows, columns))
    if lengths is not None:
        n, m = lengths.to(cost.device, torch.int64).unbind(1)
    real = (i < n[:, None, None]) & (j < m[:, None, None])  # (B, N, M)
    k = cost.new_full((last, batch, rows), -torch.inf)
    k[i + j, :, i] = (cost / -gamma).masked_fill(~real, -torch.inf).permute(1, 2, 0)
    # Diagonal p is a[p + 2], place i is [i + 1]. a[0, :, 0] is the predecessor of cell (0, 0) only.
    a = cost.new_full((last + 2, batch, rows + 1), -torch.inf)
    a[0, :, 0] = 0
    gate = torch.empty_like(k)
    for p in range(last):
        torch.logaddexp(a[p + 1, :, 1:], a[p + 1, :, :-1], out=gate[p])
        torch.logaddexp(gate[p], a[p, :, :-1], out=gate[p])
        torch.add(gate[p], k[p], out=a[p + 2, :, 1:])
    every = torch.arange(batch, device=cost.device)
    value = -gamma * a[n + m, every, n]
    up, left, cross = (
        torch.exp(before - gate).masked_fill(gate == -torch.inf, 0)
        for before in (a[1:-1, :, :-1], a[1:-1, :, 1:], a[:-2, :, :-1])
    )
    e = cost.new_zeros((last + 2, batch, rows + 1))
    e.index_put_((n + m - 2, every, n - 1), cost.new_ones(batch))  # a scalar would need a copy
    for p in range(last - 2, -1, -1):
        e[p, :, :-1].addcmul_(e[p + 1, :, :-1], left[p + 1])
        e[p, :, : rows - 1].addcmul_(e[p + 1, :, 1:rows], up[p + 1, :, 1:])
        if p + 2 < last:
            e[p, :, : rows - 1].addcmul_(e[p + 2, :, 1:rows], cross[p + 2, :, 1:])
    return value, torch.where(real, e[i + j, :, i].permute(2, 0, 1), 0)
