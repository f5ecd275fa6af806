"""Soft-DTW: the smooth cost of the best alignments of two sequences, with its exact gradient.

    R[i, j] = cost[i, j] + softmin(R[i-1, j], R[i, j-1], R[i-1, j-1])
    softmin(x) = -gamma log sum exp(-x / gamma)

The gradient with respect to the cost is the share of the alignments that pass each cell. With w the
weights of the three predecessors in the softmin of a cell, computed from the last cell back:

    E[i, j] = E[i+1, j] w_up[i+1, j] + E[i, j+1] w_left[i, j+1] + E[i+1, j+1] w_cross[i+1, j+1]
    E[n, m] = 1

All arithmetic is float64. A compiled loop runs on the CPU. On a GPU, torch iterates over the
anti-diagonals, whose cells are independent, and reads nothing back, so a CUDA graph can record it.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from stepcut.compute import compiled_later
from stepcut.methods.arithmetic import Floats


def soft_dtw(cost: Tensor, gamma: float = 0.1, lengths: Tensor | None = None) -> Tensor:
    """Compute the soft-DTW value of every cost matrix: `cost (B, N, M)` -> `(B,)`.

    `gamma` is the smoothness; near 0 the value is the cost of the best alignment. `lengths (B, 2)`
    counts the real rows and columns of padded matrices.

    >>> soft_dtw(torch.zeros(1, 1, 1))
    tensor([0.])
    """
    function: type[torch.autograd.Function] = _SoftDTW
    value: Tensor = function.apply(cost, gamma, lengths)
    return value if cost.dtype in (torch.float32, torch.float64) else value.float()


class _SoftDTW(torch.autograd.Function):
    """Soft-DTW; the forward pass also computes the gradient E."""

    @staticmethod
    def forward(ctx: Any, cost: Tensor, gamma: float, lengths: Tensor | None) -> Tensor:
        wide = cost.detach().double()
        if cost.is_cpu:
            ends = (
                np.full((len(cost), 2), cost.shape[1:])
                if lengths is None
                else lengths.numpy().astype(np.int64)
            )
            value, share = (
                torch.from_numpy(x) for x in _align(wide.contiguous().numpy(), gamma, ends)
            )
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
