"""Fuzzy c-means: every frame belongs to every cluster, to a degree between 0 and 1.

It minimizes, over centres c and memberships u whose rows sum to 1,

    J = sum_i sum_k u_ik^m |x_i - c_k|^2

by alternating, with d = |x - c|^2: u_ik = d_ik^(-1/(m-1)) / sum_j d_ij^(-1/(m-1)), then
c_k = sum_i u_ik^m x_i / sum_i u_ik^m.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.arithmetic import FUZZIFIER, TINY, fuzzy_shares
from stepcut.methods.inputs import Rows

CHUNK = 4096
"""Frames per block; a block stays in the cache."""


def fuzzy_c_means(
    x: NDArray[Any],
    k: int,
    m: float = FUZZIFIER,
    seed: int = 0,
    *,
    start: NDArray[Any] | None = None,
    restarts: int = 3,
    iterations: int = 300,
    tolerance: float = 1e-4,
    overwrite: bool = False,
) -> tuple[Rows, Rows]:
    """Cluster frames `x` (T, d) with fuzzy c-means into `k` clusters; `m` > 1 is the fuzzifier.

    Return memberships (T, k), whose rows sum to 1, and centres (k, d). Of `restarts` k-means++
    starts, the one with the lowest objective wins, unless the centres to `start` from are set.
    It stops when no centre moves by more than `tolerance` times the spread of the data.
    `overwrite` allows changing `x` in place, to save memory.
    """
    frames = _Frames(x, overwrite)
    rng = np.random.default_rng(seed)
    starts = (
        [frames.inward(start)]
        if start is not None
        else [frames.spread(k, rng) for _ in range(restarts)]
    )
    found = [_descend(frames, first, m, iterations, tolerance) for first in starts]
    centres = min(found, key=lambda each: frames.turn(each, m)[0]) if len(found) > 1 else found[0]
    return frames.memberships(centres, m), frames.outward(centres)


def memberships(
    x: NDArray[Any], centres: NDArray[Any], m: float = FUZZIFIER, *, overwrite: bool = False
) -> Rows:
    """Compute the memberships (T, k) of frames `x` (T, d) around `centres` (k, d)."""
    frames = _Frames(x, overwrite)
    return frames.memberships(frames.inward(centres), m)


class _Frames:
    """Frames, centred and scaled to an RMS length of 1, so that float32 is precise enough."""

    def __init__(self, x: NDArray[Any], overwrite: bool) -> None:
        kind = np.result_type(x.dtype, np.float32)
        # In the precision of the frames: far from the origin, float32 loses their differences.
        self.mean = x.mean(axis=0, dtype=np.float64).astype(kind)
        inplace = overwrite and x.dtype == np.float32 and x.flags.writeable and x.flags.c_contiguous
        self.rows: Rows = x if inplace else np.empty(x.shape, dtype=np.float32)
        np.subtract(x, self.mean, out=self.rows, casting="same_kind")
        self.scale = (
            float(np.sqrt(np.einsum("td,td->t", self.rows, self.rows).mean(dtype=np.float64)))
            or 1.0
        )
        self.rows *= np.float32(1 / self.scale)
        self.norms = np.einsum("td,td->t", self.rows, self.rows)

    def inward(self, centres: NDArray[Any]) -> Rows:
        return np.asarray(
            (np.asarray(centres, dtype=np.float64) - self.mean) / self.scale, dtype=np.float32
        )

    def outward(self, centres: Rows) -> Rows:
        return np.asarray(centres * self.scale + self.mean, dtype=np.float32)

    def distances(self, part: slice, centres: Rows) -> Rows:
        """|x - c|^2 of some frames and all centres, at least `TINY`: (k, t)."""
        apart: Rows = (centres * -2) @ self.rows[part].T
        apart += self.norms[part]
        apart += np.einsum("kd,kd->k", centres, centres)[:, None]
        return np.maximum(apart, np.float32(TINY), out=apart)

    def turn(self, centres: Rows, m: float) -> tuple[float, Rows]:
        """Return the objective of these centres, and the updated centres."""
        total, mass, sums = 0.0, np.zeros(len(centres)), np.zeros(centres.shape)
        for first in range(0, len(self.rows), CHUNK):
            part = slice(first, first + CHUNK)
            apart = self.distances(part, centres)
            power = fuzzy_shares(apart, m) ** np.float32(m)
            total += float(np.vdot(power, apart))
            mass += power.sum(axis=1)
            sums += power @ self.rows[part]
        # With m near 1, a centre far from all frames has no mass and stays where it is.
        moved = np.where(mass[:, None] > TINY, sums / np.maximum(mass, TINY)[:, None], centres)
        return total, moved.astype(np.float32)

    def memberships(self, centres: Rows, m: float) -> Rows:
        parts = [slice(first, first + CHUNK) for first in range(0, len(self.rows), CHUNK)]
        return np.concatenate([fuzzy_shares(self.distances(part, centres), m).T for part in parts])

    def spread(self, k: int, rng: np.random.Generator) -> Rows:
        """k-means++: draw each centre in proportion to its squared distance to the others."""
        closest, drawn = np.full(len(self.rows), np.inf, dtype=np.float32), []
        chance = np.ones_like(closest)
        for _ in range(k):
            sums = np.cumsum(chance, dtype=np.float64)
            # If every frame lies on a centre, draw uniformly.
            lone = not sums[-1] > 0
            at = (
                rng.integers(len(sums))
                if lone
                else np.searchsorted(sums, rng.random() * sums[-1], side="right")
            )
            drawn.append(min(int(at), len(sums) - 1))
            np.minimum(closest, self.distances(slice(None), self.rows[drawn[-1:]])[0], out=closest)
            closest[drawn] = 0
            chance = closest
        return self.rows[drawn]


def _descend(frames: _Frames, centres: Rows, m: float, iterations: int, tolerance: float) -> Rows:
    for _ in range(iterations):
        before = centres
        _, centres = frames.turn(centres, m)
        if np.linalg.norm(centres - before, axis=1).max() <= tolerance:
            break
    return centres
