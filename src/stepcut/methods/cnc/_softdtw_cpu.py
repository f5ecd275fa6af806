"""Soft-DTW on CPUs: the compiled loops over a batch, by threads where that pays, and costs that the loops refuse."""

from __future__ import annotations

import functools

import numpy as np

from stepcut.methods.cnc._softdtw_loops import COUNTED, Array, Ends, align_batch
from stepcut.methods.cnc.threads import side_by_side

_ENOUGH = 2**16
"""Cells of cost for which it pays to share the batch between threads."""


def align(cost: Array, gamma: float, ends: Ends | None, threads: int, wanted: bool) -> tuple[Array, Array]:
    """The values (B,) of costs (B, N, M), and where `wanted` the share (B, N, M) of alignments that pass each cell.

    `ends (B, 2)` counts the rows and columns that are real; None where all are.
    """
    ends = _whole(cost.shape) if ends is None else ends
    value = np.empty(len(cost), cost.dtype)
    share = np.empty(cost.shape if wanted else (len(cost), 0, 0), cost.dtype)
    if threads < 2 or cost.size < _ENOUGH:
        good = align_batch(cost, gamma, ends, value, share)
    else:
        parts = [(cost[part], gamma, ends[part], value[part], share[part]) for part in _cut(len(cost), threads)]
        good = all(side_by_side(align_batch, parts))
    return (value, share) if good else _align_extremes(cost, gamma, ends, threads, wanted)


@functools.lru_cache(maxsize=64)
def _whole(shape: tuple[int, ...]) -> Ends:
    """(B, 2): all rows and columns of each matrix are real."""
    return np.full((shape[0], 2), shape[1:])


def _cut(batch: int, threads: int) -> list[slice]:
    """A part of the batch for each thread, nearly as many for one as for another."""
    parts = min(batch, threads)
    return [slice(batch * part // parts, batch * (part + 1) // parts) for part in range(parts)]


def _align_extremes(cost: Array, gamma: float, ends: Ends, threads: int, wanted: bool) -> tuple[Array, Array]:
    """In float64, with costs so large that nothing passes in place of infinite ones; a NaN shows in the value."""
    blocked = COUNTED * gamma / sum(cost.shape[1:]) / 2
    broken = np.isnan(cost) | (cost == -np.inf)
    held = np.where(broken, blocked, np.clip(cost.astype(np.float64), -blocked, blocked))
    value, share = align(held, gamma, ends, threads, wanted)
    value[value > blocked / 2] = np.inf
    for b, (n, m) in enumerate(ends):
        if broken[b, :n, :m].any():
            value[b] = np.nan
    return value.astype(cost.dtype), share.astype(cost.dtype)
