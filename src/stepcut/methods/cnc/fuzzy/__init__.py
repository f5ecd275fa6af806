"""Fuzzy c-means: every frame belongs to every cluster, to a degree between 0 and 1. On CPU and on CUDA.

It lowers, over centres c and memberships u whose rows sum to 1,

    J = sum_i w_i sum_k u_ik^m |x_i - c_k|^2

by turns, with d = |x - c|^2: u_ik = d_ik^(-1/(m-1)) / sum_j d_ij^(-1/(m-1)), then
c_k = sum_i w_i u_ik^m x_i / sum_i w_i u_ik^m.
With m near 1 the powers overflow, so memberships are a softmax of -log(d) / (m - 1). Put into J, the best u leave

    J_i = (sum_k d_ik^(-1/(m-1)))^-(m-1)   and   u_ik^m = u_ik J_i / d_ik

so that each turn costs one logarithm and one exponential per frame and cluster beside two matrix products.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import FeatureError
from stepcut.methods.cnc.fuzzy.engine import Engine, Frames, open_engine
from stepcut.methods.segmenter import Rows, check_number, check_rows

FUZZIFIER = 1.1
"""The default `m`, chosen with the smoothness. The usual 2 lets all centres fall into one in many dimensions."""


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
    device: str = "cpu",
    overwrite: bool = False,
) -> tuple[Rows, Rows]:
    """Memberships (T, k), whose rows sum to 1, and centres (k, d) of the frames `x` (T, d).

    Of `restarts` k-means++ starts the one with the lowest objective is kept; `start` (k, d) begins from given centres
    instead. It ends when no centre moves by more than `tolerance` times the spread of the data, or after
    `iterations`. `weights` (T,) count a frame that many times. `overwrite` may spoil `x`, to save memory.
    """
    x = check_rows(x, "x")
    _check(x, k, m, weights, start, restarts, iterations, tolerance)
    frames = Frames(x, weights, overwrite)
    rng = np.random.default_rng(seed)
    with open_engine(frames, device) as engine:
        found: list[Rows] = []
        for _ in range(1 if start is not None else restarts):
            first = _spread(frames, engine, k, rng) if start is None else frames.inward(start)
            found.append(_descend(engine, first, m, iterations, tolerance))
        centres = found[0] if len(found) == 1 else min(found, key=lambda each: engine.turn(each, m)[0])
        return engine.memberships(centres, m), frames.outward(centres)


def memberships(x: NDArray[Any], centres: NDArray[Any], m: float = FUZZIFIER, *, overwrite: bool = False) -> Rows:
    """The memberships (T, k) of frames `x` (T, d) around given centres (k, d); `overwrite` may spoil `x`."""
    frames = Frames(x, overwrite=overwrite)
    with open_engine(frames) as engine:
        return engine.memberships(frames.inward(centres), m)


def objective(x: NDArray[Any], centres: NDArray[Any], m: float = FUZZIFIER) -> float:
    """J of the frames `x` (T, d) and the centres (k, d), with the best memberships for them."""
    frames = Frames(x)
    with open_engine(frames) as engine:
        return engine.turn(frames.inward(centres), m)[0] * frames.scale**2


def _spread(frames: Frames, engine: Engine, k: int, rng: np.random.Generator) -> Rows:
    """k-means++: each next centre is a frame, drawn in proportion to its squared distance to those drawn."""
    chance = np.ones(len(frames.rows), dtype=np.float32) if frames.weights is None else frames.weights
    closest = np.full(len(frames.rows), np.inf, dtype=np.float32)
    drawn: list[int] = []
    for _ in range(k):
        sums = np.cumsum(chance, dtype=np.float64)
        # Frames that all lie on centres already are as good as one another.
        if sums[-1] > 0:
            at = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
        else:
            at = int(rng.integers(len(sums)))
        drawn.append(min(at, len(sums) - 1))
        np.minimum(closest, engine.distances(frames.rows[drawn[-1]]), out=closest)
        closest[drawn] = 0
        chance = closest if frames.weights is None else closest * frames.weights
    return frames.rows[drawn]


def _descend(engine: Engine, centres: Rows, m: float, iterations: int, tolerance: float) -> Rows:
    """Turn after turn until the centres rest."""
    for _ in range(iterations):
        before = centres
        _, centres = engine.turn(centres, m)
        if np.linalg.norm(centres - before, axis=1).max() <= tolerance:
            break
    return centres


def _check(
    x: NDArray[Any],
    k: int,
    m: float,
    weights: NDArray[Any] | None,
    start: NDArray[Any] | None,
    restarts: int,
    iterations: int,
    tolerance: float,
) -> None:
    check_number("k", k, 1, len(x), whole=True)
    check_number("m", m, 1, above=True)
    check_number("restarts", restarts, 1, whole=True)
    check_number("iterations", iterations, 1, whole=True)
    check_number("tolerance", tolerance, 0)
    if start is not None and np.shape(start) != (k, x.shape[1]):
        raise FeatureError(f"start has shape {np.shape(start)}; expected is {(k, x.shape[1])}, a centre per cluster.")
    if weights is None:
        return
    given = np.asarray(weights)
    if given.shape != (len(x),) or not np.isfinite(given).all() or given.min() < 0 or given.max() <= 0:
        raise FeatureError(
            f"weights has shape {given.shape}; expected are {len(x)} finite weights of at least 0, not all of them 0. "
            "Leave it out to weigh all frames alike."
        )
