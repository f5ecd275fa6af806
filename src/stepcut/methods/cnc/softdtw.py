"""Soft-DTW: the smooth cost of the best alignments of two sequences, with its exact gradient, batched, on CPU and CUDA.

    R[i, j] = cost[i, j] + softmin(R[i-1, j], R[i, j-1], R[i-1, j-1]),   softmin(x) = -gamma log sum exp(-x / gamma)

The gradient with respect to the cost is the share of the alignments that pass each cell. With w the weights of the
three predecessors in the softmin of a cell, it is, from the last cell back,

    E[i, j] = E[i+1, j] w_up[i+1, j] + E[i, j+1] w_left[i, j+1] + E[i+1, j+1] w_diagonal[i+1, j+1],   E[n, m] = 1

Memory is O(N M) per pair. On a CPU compiled loops do the work (`_softdtw_cpu`), on CUDA a kernel (`_softdtw_cuda`);
where numba or Triton is absent, torch goes over the anti-diagonals, whose cells do not depend on one another. Gradients
of gradients are not supported.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from stepcut.errors import OptionError
from stepcut.methods.cnc import kernels


def soft_dtw(cost: Tensor, gamma: float = 0.1, lengths: Tensor | None = None) -> Tensor:
    """The soft-DTW value of every cost matrix: `cost (B, N, M)` -> `(B,)`.

    `lengths (B, 2)` counts the rows and columns that are real, where sequences were padded at their end.

    >>> soft_dtw(torch.zeros(1, 1, 1))
    tensor([0.])
    """
    shape = tuple(cost.shape)
    if len(shape) != 3 or 0 in shape[1:]:
        raise OptionError(
            f"cost has shape {shape}; expected (batch, frames of one, frames of the other), none of them "
            f"empty. Add a batch dimension with cost[None]."
        )
    if gamma <= 0:
        raise OptionError(f"gamma={gamma} is not positive. Choose 0.1, or less for a sharper alignment.")
    if lengths is not None and lengths.shape != (shape[0], 2):
        raise OptionError(
            f"lengths has shape {tuple(lengths.shape)}; expected {(shape[0], 2)}: real rows and columns of a matrix."
        )
    full = cost if cost.dtype in (torch.float32, torch.float64) else cost.float()
    if cost.is_cpu and kernels.numba_is_here():
        way: type[torch.autograd.Function] = _CompiledSoftDTW
    elif shape[1] <= _MOST_ROWS and kernels.triton_is_here(cost.device):
        way = _CudaSoftDTW
    else:
        way = _SoftDTW
    return kernels.apply(way, full, gamma, lengths)


_MOST_ROWS = 4096
"""Rows that the kernel for CUDA takes: a multiprocessor holds a whole anti-diagonal."""


class _SoftDTW(torch.autograd.Function):
    """Forward keeps the weights of the three predecessors of each cell; backward runs the recursion for E on them."""

    @staticmethod
    def forward(ctx: Any, cost: Tensor, gamma: float, lengths: Tensor | None) -> Tensor:
        ends = _ends(cost, lengths)
        value, weights = _forward_torch(cost, gamma, ends)
        ctx.shape = cost.shape
        ctx.save_for_backward(ends, weights)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        kernels.refuse_second_gradients()
        return _backward_torch(ctx.shape, grad, *ctx.saved_tensors), None, None


class _CompiledSoftDTW(torch.autograd.Function):
    """The same by the compiled kernel: E comes with the value."""

    @staticmethod
    def forward(ctx: Any, cost: Tensor, gamma: float, lengths: Tensor | None) -> Tensor:
        ends = None if lengths is None else lengths.to(torch.int64).contiguous().numpy()
        given = cost.contiguous().numpy()
        value, share = _kernel().align(given, gamma, ends, torch.get_num_threads(), ctx.needs_input_grad[0])
        ctx.share = share  # an array, not a tensor: to wrap and unwrap it takes longer than to use it
        return torch.from_numpy(value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        kernels.refuse_second_gradients()
        return torch.from_numpy(ctx.share * grad.numpy()[:, None, None]), None, None


class _CudaSoftDTW(torch.autograd.Function):
    """The same by the kernels for CUDA."""

    @staticmethod
    def forward(ctx: Any, cost: Tensor, gamma: float, lengths: Tensor | None) -> Tensor:
        from stepcut.methods.cnc import _softdtw_cuda

        value, ctx.share = _softdtw_cuda.align(cost, gamma, _ends(cost, lengths))
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        kernels.refuse_second_gradients()
        return ctx.share * grad[:, None, None], None, None


def _ends(cost: Tensor, lengths: Tensor | None) -> Tensor:
    """(B, 2) on the device of the cost: the rows and columns of each matrix that are real."""
    if lengths is None:
        return _whole(cost.shape, cost.device)
    return lengths.to(cost.device, torch.int64).contiguous()


@functools.cache
def _kernel() -> ModuleType:
    """The compiled kernel; numba is imported when it is first needed."""
    from stepcut.methods.cnc import _softdtw_cpu

    return _softdtw_cpu


@functools.lru_cache(maxsize=64)
def _whole(shape: torch.Size, device: torch.device) -> Tensor:
    """(B, 2): all rows and columns of each matrix are real."""
    return torch.tensor([shape[1:]] * shape[0], dtype=torch.int64, device=device).view(-1, 2)


def _forward_torch(cost: Tensor, gamma: float, ends: Tensor) -> tuple[Tensor, Tensor]:
    """The value and the weights `(3, diagonals, B, N)`, one anti-diagonal after the other.

    Cell (i, j) lies at place i of diagonal i + j; a place outside the matrix holds log 0, no alignment passes it.
    """
    batch, rows, columns = cost.shape
    k = _skew(cost / -gamma, fill=-torch.inf)  # (diagonals, B, N)
    wall = cost.new_full((batch, 1), -torch.inf)
    before, last = cost.new_full((batch, rows), -torch.inf), cost.new_full((batch, rows), -torch.inf)
    gates, diagonals = [], []
    for place in range(rows + columns - 1):  # the loop of logarithms: A = -R / gamma
        up = torch.cat([wall, last[:, :-1]], dim=1)
        across = torch.cat([wall, before[:, :-1]], dim=1)
        gate = torch.logaddexp(torch.logaddexp(up, last), across)
        if place == 0:
            gate = torch.cat([torch.zeros_like(wall), gate[:, 1:]], dim=1)
        before, last = last, gate + k[place]
        gates.append(gate)
        diagonals.append(last)
    a, gate = torch.stack(diagonals), torch.stack(gates)
    n, m = ends[:, 0] - 1, ends[:, 1] - 1
    value = -gamma * a[n + m, torch.arange(batch, device=cost.device), n]
    pad = torch.nn.functional.pad
    up = pad(a, (1, 0, 0, 0, 1, 0), value=-torch.inf)[:-1, :, :-1]
    left = pad(a, (0, 0, 0, 0, 1, 0), value=-torch.inf)[:-1]
    across = pad(a, (1, 0, 0, 0, 2, 0), value=-torch.inf)[:-2, :, :-1]
    weights = torch.exp(torch.stack([up, left, across]) - gate)
    # Where no alignment arrives, or the cost is infinite, the share is 0; NaN of a NaN cost stays visible in the value.
    return value, torch.nan_to_num(weights, nan=0.0)


def _backward_torch(shape: torch.Size, grad: Tensor, ends: Tensor, weights: Tensor) -> Tensor:
    """`grad (B,)` times E, from the last diagonal to the first: weights `(3, diagonals, B, N)` -> `(B, N, M)`."""
    batch, rows, columns = shape
    diagonals = rows + columns - 1
    n, m = ends[:, 0] - 1, ends[:, 1] - 1
    seed = weights.new_zeros(diagonals, batch, rows)
    seed[n + m, torch.arange(batch, device=ends.device), n] = grad
    pad = torch.nn.functional.pad
    up, left, across = pad(weights, (0, 1, 0, 0, 0, 2))  # a row below and two diagonals beyond hold weight 0
    after = next_ = weights.new_zeros(batch, rows + 1)
    shares = []
    for place in reversed(range(diagonals)):
        here = torch.addcmul(seed[place], next_[:, 1:], up[place + 1, :, 1:])
        here = torch.addcmul(here, next_[:, :-1], left[place + 1, :, :-1])
        here = torch.addcmul(here, after[:, 1:], across[place + 2, :, 1:])
        after, next_ = next_, pad(here, (0, 1))
        shares.append(here)
    return _unskew(torch.stack(shares[::-1]), columns)


def _skew(cost: Tensor, fill: float) -> Tensor:
    """(B, N, M) -> (N + M - 1, B, N): cell (i, j) goes to place i of diagonal i + j; places outside hold `fill`."""
    batch, rows, columns = cost.shape
    wide = cost.new_full((batch, rows, rows + columns), fill)
    wide[:, :, :columns] = cost
    # Rows one cell shorter than they are: row i begins i cells later.
    slanted = wide.flatten(1)[:, : rows * (rows + columns - 1)].view(batch, rows, rows + columns - 1)
    return slanted.permute(2, 0, 1).contiguous()


def _unskew(diagonals: Tensor, columns: int) -> Tensor:
    """The inverse of `_skew`."""
    span, batch, rows = diagonals.shape
    flat = diagonals.permute(1, 2, 0).reshape(batch, rows * span)
    padded = torch.nn.functional.pad(flat, (0, rows))
    return padded.view(batch, rows, span + 1)[:, :, :columns]
