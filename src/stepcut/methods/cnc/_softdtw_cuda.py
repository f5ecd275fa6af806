"""Soft-DTW for CUDA: one kernel forward and one back, a program for each matrix, one anti-diagonal after the other.

Cells are kept as A = -R / gamma in float64: sums of costs over gamma reach thousands, where float32 has no digits left
for the differences that the weights are made of. Cell (i, j) lies at place i of diagonal i + j.
"""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl
from torch import Tensor


def align(cost: Tensor, gamma: float, ends: Tensor) -> tuple[Tensor, Tensor]:
    """The values (B,) of costs (B, N, M), and the share (B, N, M) of the alignments that pass each cell.

    `ends (B, 2)` counts the rows and columns that are real.
    """
    batch, rows, columns = cost.shape
    cost = cost.contiguous()
    value, share = cost.new_empty(batch), torch.zeros_like(cost)
    cells = cost.new_empty(2, batch, rows + columns - 1, rows, dtype=torch.float64)  # A, and E
    places = triton.next_power_of_2(rows)
    warps = max(1, min(8, places // 32))
    scale = _inverse(gamma, cost.device)
    with torch.cuda.device_of(cost):
        _forward[(batch,)](cost, ends, scale, value, cells[0], rows, columns, T=places, num_warps=warps)
        _backward[(batch,)](cost, ends, scale, share, cells[0], cells[1], rows, columns, T=places, num_warps=warps)
    return value, share


@functools.lru_cache(maxsize=16)
def _inverse(gamma: float, device: torch.device) -> Tensor:
    """1 / gamma as a float64, which a kernel does not take as a plain number."""
    return torch.tensor([1 / gamma], dtype=torch.float64, device=device)


@triton.jit
def _forward(
    cost_at: tl.tensor,
    ends_at: tl.tensor,
    scale_at: tl.tensor,
    value_at: tl.tensor,
    cells_at: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    T: tl.constexpr,
) -> None:
    """A[i, j] = log(exp A[i-1, j] + exp A[i, j-1] + exp A[i-1, j-1]) - cost[i, j] / gamma"""
    b = tl.program_id(0)
    n, m = tl.load(ends_at + 2 * b), tl.load(ends_at + 2 * b + 1)
    scale = tl.load(scale_at)
    cost_at += b * rows * columns
    cells_at += b * (rows + columns - 1) * rows
    i = tl.arange(0, T)
    for diagonal in range(n + m - 1):
        j = diagonal - i
        inside = (i < n) & (j >= 0) & (j < m)
        here_at = cells_at + diagonal * rows + i
        up = tl.load(here_at - rows - 1, inside & (i > 0), float("-inf"))
        left = tl.load(here_at - rows, inside & (j > 0), float("-inf"))
        across = tl.load(here_at - 2 * rows - 1, inside & (i > 0) & (j > 0), float("-inf"))
        across = tl.where((i == 0) & (j == 0), 0.0, across)  # every alignment begins here
        top = tl.maximum(tl.maximum(up, left), across)
        reached = top != float("-inf")  # true of NaN, which then shows in the value
        top = tl.where(reached, top, 0.0)
        total = tl.exp(up - top) + tl.exp(left - top) + tl.exp(across - top)
        gate = tl.where(reached, top + tl.log(tl.where(reached, total, 1.0)), float("-inf"))
        cost = tl.load(cost_at + i * columns + j, inside, 0).to(tl.float64)
        tl.store(here_at, gate - cost * scale, inside)
        tl.debug_barrier()  # the next diagonal reads what other threads have written
    last = tl.load(cells_at + (n + m - 2) * rows + n - 1)
    tl.store(value_at + b, -last / scale)


@triton.jit
def _backward(
    cost_at: tl.tensor,
    ends_at: tl.tensor,
    scale_at: tl.tensor,
    share_at: tl.tensor,
    cells_at: tl.tensor,
    shares_at: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    T: tl.constexpr,
) -> None:
    """E[i, j] = the sum over the cells c below, right and across of E[c] exp(A[i, j] - A[c] - cost[c] / gamma)"""
    b = tl.program_id(0)
    n, m = tl.load(ends_at + 2 * b), tl.load(ends_at + 2 * b + 1)
    scale = tl.load(scale_at)
    cost_at += b * rows * columns
    share_at += b * rows * columns
    cells_at += b * (rows + columns - 1) * rows
    shares_at += b * (rows + columns - 1) * rows
    i = tl.arange(0, T)
    for back in range(n + m - 1):
        diagonal = n + m - 2 - back
        j = diagonal - i
        inside = (i < n) & (j >= 0) & (j < m)
        place = diagonal * rows + i
        cell_at = cost_at + i * columns + j
        a = tl.load(cells_at + place, inside, 0.0)
        below, right = inside & (i + 1 < n), inside & (j + 1 < m)
        total = tl.where((i == n - 1) & (j == m - 1), 1.0, 0.0).to(tl.float64)
        total += _passed(cells_at, shares_at, place + rows + 1, cell_at + columns, below, a, scale)
        total += _passed(cells_at, shares_at, place + rows, cell_at + 1, right, a, scale)
        total += _passed(cells_at, shares_at, place + 2 * rows + 1, cell_at + columns + 1, below & right, a, scale)
        tl.store(shares_at + place, total, inside)
        tl.store(share_at + i * columns + j, total, inside)
        tl.debug_barrier()


@triton.jit
def _passed(
    cells_at: tl.tensor,
    shares_at: tl.tensor,
    place: tl.tensor,
    cost_at: tl.tensor,
    there: tl.tensor,
    a: tl.tensor,
    scale: tl.tensor,
) -> tl.tensor:
    """What a cell gets of the share of one that comes after it; nothing where no alignment passes, or of a NaN."""
    after = tl.load(cells_at + place, there, 0.0)
    cost = tl.load(cost_at, there, 0).to(tl.float64)
    reached = there & (after > float("-inf")) & (a > float("-inf"))
    weight = tl.exp(tl.where(reached, a, 0.0) - tl.where(reached, after, 0.0) - tl.where(reached, cost, 0.0) * scale)
    return tl.where(reached, weight * tl.load(shares_at + place, there, 0.0), 0.0)
