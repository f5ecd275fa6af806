"""Fuzzy c-means on the CPU: one compiled pass over the frames per turn, shared between threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from stepcut.methods.cnc.fuzzy.engine import CHUNK, Engine, Frames, move_centres
from stepcut.methods.segmenter import Rows


class CpuEngine(Engine):
    """Spans of chunks of frames go to as many threads as there are cores; sums are added in the order of the chunks."""

    def __init__(self, frames: Frames) -> None:
        self.rows, self.norms = frames.rows, frames.norms
        self.weights = np.ones(len(self.rows), dtype=np.float32) if frames.weights is None else frames.weights
        self.chunk, self.chunks = CHUNK, -(-len(self.rows) // CHUNK)
        threads = min(count_threads(), self.chunks)
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None
        spans = min(2 * threads, self.chunks) if threads > 1 else 1
        bounds = [self.chunks * span // spans for span in range(spans + 1)]
        self.spans = [slice(first, last) for first, last in pairwise(bounds)]

    def turn(self, centres: Rows, m: float) -> tuple[float, Rows]:
        from stepcut.methods.cnc.fuzzy.kernels import add_up

        still = np.ascontiguousarray(centres)
        steps, dim = still.shape
        sums = np.zeros((self.chunks, steps + -steps % 4, dim), dtype=np.float32)
        mass = np.zeros((self.chunks, steps), dtype=np.float32)

        def work(span: slice, part: slice) -> float:
            given = self.rows[part], self.norms[part], self.weights[part], still, np.float32(m), self.chunk
            return float(add_up(*given, sums[span], mass[span]))

        total = sum(self._map(work))
        return total, move_centres(still, sums[:, :steps].sum(0, np.float64), mass.sum(0, np.float64))

    def memberships(self, centres: Rows, m: float) -> Rows:
        from stepcut.methods.cnc.fuzzy.kernels import share_out

        still = np.ascontiguousarray(centres)
        shares = np.empty((len(self.rows), len(still)), dtype=np.float32)

        def work(_span: slice, part: slice) -> None:
            share_out(self.rows[part], self.norms[part], still, np.float32(m), shares[part])

        self._map(work)
        return shares

    def distances(self, centre: Rows) -> Rows:
        near: Rows = self.norms - 2 * (self.rows @ centre) + centre @ centre
        return np.maximum(near, 0)

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown()

    def _map(self, work: Callable[[slice, slice], Any]) -> list[Any]:
        """The answers for every span of chunks and the frames in it."""
        frames = [slice(span.start * self.chunk, span.stop * self.chunk) for span in self.spans]
        return list((map if self.pool is None else self.pool.map)(work, self.spans, frames))


def count_threads() -> int:
    """As many as the user allows other libraries (OMP_NUM_THREADS), or as the process has cores."""
    allowed = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if allowed.isdigit() and int(allowed) > 0:
        return int(allowed)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
