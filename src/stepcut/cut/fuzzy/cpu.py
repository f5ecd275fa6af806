"""Fuzzy c-means on the CPU: one compiled pass over the frames per turn, shared between threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from stepcut.cut.contract import Rows
from stepcut.cut.fuzzy.engine import CHUNK, Engine, Frames, move_centres


class CpuEngine(Engine):
    """Chunks of frames go to as many threads as there are cores; sums are added in the order of the chunks."""

    def __init__(self, frames: Frames) -> None:
        self.rows, self.norms = frames.rows, frames.norms
        self.weights = np.ones(len(self.rows), dtype=np.float32) if frames.weights is None else frames.weights
        self.parts = [slice(first, first + CHUNK) for first in range(0, len(self.rows), CHUNK)]
        threads = min(count_threads(), len(self.parts))
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def turn(self, centres: Rows, m: float) -> tuple[float, Rows]:
        from stepcut.cut.fuzzy.kernels import add_up

        still = np.ascontiguousarray(centres)
        steps = len(still)

        def work(part: slice) -> tuple[float, Rows, Rows]:
            sums = np.zeros((steps + steps % 2, still.shape[1]), dtype=np.float32)
            mass = np.zeros(steps, dtype=np.float32)
            total = add_up(self.rows[part], self.norms[part], self.weights[part], still, np.float32(m), sums, mass)
            return total, sums[:steps], mass

        totals, sums, mass = zip(*self._map(work), strict=True)
        return float(sum(totals)), move_centres(still, np.sum(sums, 0, np.float64), np.sum(mass, 0, np.float64))

    def memberships(self, centres: Rows, m: float) -> Rows:
        from stepcut.cut.fuzzy.kernels import share_out

        still = np.ascontiguousarray(centres)
        shares = np.empty((len(self.rows), len(still)), dtype=np.float32)

        def work(part: slice) -> None:
            share_out(self.rows[part], self.norms[part], still, np.float32(m), shares[part])

        self._map(work)
        return shares

    def distances(self, centre: Rows) -> Rows:
        near: Rows = self.norms - 2 * (self.rows @ centre) + centre @ centre
        return np.maximum(near, 0)

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown()

    def _map(self, work: Callable[[slice], Any]) -> list[Any]:
        return list(map(work, self.parts) if self.pool is None else self.pool.map(work, self.parts))


def count_threads() -> int:
    """As many as the user allows other libraries (OMP_NUM_THREADS), or as the process has cores."""
    allowed = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if allowed.isdigit() and int(allowed) > 0:
        return int(allowed)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
