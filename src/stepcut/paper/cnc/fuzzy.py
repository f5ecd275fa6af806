"""Fuzzy c-means: every frame belongs to every cluster, to a degree between 0 and 1.

It lowers, over centres c and memberships u whose rows sum to 1,

    J = sum_i w_i sum_k u_ik^m |x_i - c_k|^2

by turns, with d = |x - c|^2: u_ik = d_ik^(-1/(m-1)) / sum_j d_ij^(-1/(m-1)), then
c_k = sum_i w_i u_ik^m x_i / sum_i w_i u_ik^m.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.checks import check_number
from stepcut.errors import FeatureError
from stepcut.features.contract import check_rows
from stepcut.methods.arithmetic import FUZZIFIER, TINY, fuzzy_shares
from stepcut.methods.inputs import Rows

CHUNK = 4096
"""Frames handled together, so that what is computed of them stays in the cache."""


def fuzzy_c_means(
    x: NDArray[Any],
    k: int,
    m: float = FUZZIFIER,
    seed: int = 0,
    *,
    weights: NDArray[Any] | None = None,
    start: NDArray[Any] | None = None,
    restarts: int = 3,
    iterations: int = 300,
    tolerance: float = 1e-4,
    overwrite: bool = False,
) -> tuple[Rows, Rows]:
    """Memberships (T, k), whose rows sum to 1, and centres (k, d) of the frames `x` (T, d).

    `m` above 1: how fuzzy. Of `restarts` k-means++ starts, drawn by `seed`, the one with the lowest
    objective is kept; `start` (k, d) begins from given centres instead. It ends when no centre
    moves by more than `tolerance` times the spread of the data, or after `iterations`. `weights`
    (T,) count a frame that many times. `overwrite` may spoil `x`, to save memory."""
    x = check_rows(x, "x")
    check_number("k", k, 1, len(x), whole=True)
    check_number("m", m, 1, above=True)
    check_number("restarts", restarts, 1, whole=True)
    check_number("iterations", iterations, 1, whole=True)
    check_number("tolerance", tolerance, 0)
    if start is not None and np.shape(start) != (k, x.shape[1]):
        raise FeatureError(
            f"start has shape {np.shape(start)}; expected is {(k, x.shape[1])}, a centre per "
            "cluster."
        )
    given = np.ones(len(x)) if weights is None else np.asarray(weights)
    if (
        given.shape != (len(x),)
        or not np.isfinite(given).all()
        or given.min() < 0
        or given.max() <= 0
    ):
        what = f"weights has shape {given.shape}; expected are {len(x)} of at least 0, not all 0"
        raise FeatureError(f"{what}. Leave it out to weigh all frames alike.")
    frames = _Frames(x, weights, overwrite)
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
    """The memberships (T, k) of frames `x` (T, d) around given centres (k, d); `overwrite` may
    spoil `x`."""
    x, centres = check_rows(x, "x"), check_rows(centres, "centres")
    check_number("m", m, 1, above=True)
    if centres.shape[1:] != x.shape[1:]:
        raise FeatureError(
            f"centres has shape {centres.shape}; expected is (k, {x.shape[1]}), as wide as the "
            "frames."
        )
    frames = _Frames(x, overwrite=overwrite)
    return frames.memberships(frames.inward(centres), m)


class _Frames:
    """The frames, centred and scaled to an RMS length of 1: float32 then has digits to spare and
    nothing overflows."""

    def __init__(
        self, x: NDArray[Any], weights: NDArray[Any] | None = None, overwrite: bool = False
    ) -> None:
        kind = np.result_type(x.dtype, np.float32)
        # Of the frames' own kind: far from the origin, rounding it afterwards would lose what tells
        # frames apart.
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
        self.weights: Rows = (
            np.ones(len(x), np.float32)
            if weights is None
            else np.asarray(weights, dtype=np.float32)
        )

    def inward(self, centres: NDArray[Any]) -> Rows:
        """Centres of the user's space in the space of the rows."""
        return np.asarray(
            (np.asarray(centres, dtype=np.float64) - self.mean) / self.scale, dtype=np.float32
        )

    def outward(self, centres: Rows) -> Rows:
        """The way back."""
        return np.asarray(centres * self.scale + self.mean, dtype=np.float32)

    def distances(self, part: slice, centres: Rows) -> Rows:
        """|x - c|^2 of some frames and all centres, never below `TINY`: (k, t), a row per
        centre."""
        apart: Rows = (centres * -2) @ self.rows[part].T
        apart += self.norms[part]
        apart += np.einsum("kd,kd->k", centres, centres)[:, None]
        return np.maximum(apart, np.float32(TINY), out=apart)

    def turn(self, centres: Rows, m: float) -> tuple[float, Rows]:
        """The objective of these centres, and the centres that follow from their memberships."""
        total, mass, sums = 0.0, np.zeros(len(centres)), np.zeros(centres.shape)
        for first in range(0, len(self.rows), CHUNK):
            part = slice(first, first + CHUNK)
            apart = self.distances(part, centres)
            power = fuzzy_shares(apart, m) ** np.float32(m)
            power *= self.weights[part]
            total += float(np.vdot(power, apart))
            mass += power.sum(axis=1)
            sums += power @ self.rows[part]
        # With m near 1 a centre far from everything has no mass, and keeps its place.
        moved = np.where(mass[:, None] > TINY, sums / np.maximum(mass, TINY)[:, None], centres)
        return total, moved.astype(np.float32)

    def memberships(self, centres: Rows, m: float) -> Rows:
        """(T, k), rows sum to 1."""
        parts = [slice(first, first + CHUNK) for first in range(0, len(self.rows), CHUNK)]
        return np.concatenate([fuzzy_shares(self.distances(part, centres), m).T for part in parts])

    def spread(self, k: int, rng: np.random.Generator) -> Rows:
        """k-means++: each next centre is a frame, drawn in proportion to its squared distance to
        those drawn."""
        closest, drawn, chance = np.full(len(self.rows), np.inf, dtype=np.float32), [], self.weights
        for _ in range(k):
            sums = np.cumsum(chance, dtype=np.float64)
            # Frames that all lie on centres already are as good as one another.
            lone = not sums[-1] > 0
            at = (
                rng.integers(len(sums))
                if lone
                else np.searchsorted(sums, rng.random() * sums[-1], side="right")
            )
            drawn.append(min(int(at), len(sums) - 1))
            np.minimum(closest, self.distances(slice(None), self.rows[drawn[-1:]])[0], out=closest)
            closest[drawn] = 0
            chance = closest * self.weights
        return self.rows[drawn]


def _descend(frames: _Frames, centres: Rows, m: float, iterations: int, tolerance: float) -> Rows:
    """Turn after turn until the centres rest."""
    for _ in range(iterations):
        before = centres
        _, centres = frames.turn(centres, m)
        if np.linalg.norm(centres - before, axis=1).max() <= tolerance:
            break
    return centres
