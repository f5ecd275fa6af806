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

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stepcut.cut.contract import Rows, check_number, check_rows
from stepcut.errors import FeatureError, OptionError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

FUZZIFIER = 1.2
"""The default `m`. The usual 2 lets all centres fall into one in more than a few dimensions (see docs/cut.md)."""
TINY = 1e-30
"""Squared distances below this count as this: the frame lies on the centre."""
CHUNK = {"cpu": 8_192, "cuda": 262_144}
"""Frames worked on together: small enough for the CPU's cache, large enough to keep a GPU busy."""


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
    data = _Data(x, weights, device, overwrite)
    rng = np.random.default_rng(seed)
    best: tuple[float, Tensor] | None = None
    for _ in range(1 if start is not None else restarts):
        first = data.spread(k, rng) if start is None else data.inward(start)
        objective, centres = _descend(data, first, m, iterations, tolerance)
        if best is None or objective < best[0]:
            best = objective, centres
    assert best is not None
    return data.memberships(best[1], m), data.outward(best[1])


def memberships(x: NDArray[Any], centres: NDArray[Any], m: float = FUZZIFIER) -> Rows:
    """The memberships (T, k) of frames `x` (T, d) in clusters with the given centres (k, d)."""
    data = _Data(x, None, "cpu", overwrite=False)
    return data.memberships(data.inward(centres), m)


def objective(x: NDArray[Any], centres: NDArray[Any], m: float = FUZZIFIER) -> float:
    """J of the frames `x` (T, d) and the centres (k, d), with the best memberships for them."""
    data = _Data(x, None, "cpu", overwrite=False)
    return _turn(data, data.inward(centres), m)[0] * data.scale**2


def _descend(data: _Data, centres: Tensor, m: float, iterations: int, tolerance: float) -> tuple[float, Tensor]:
    """Turn after turn until the centres rest; the objective of the centres, and the centres."""
    for _ in range(iterations):
        before = centres
        _, centres = _turn(data, centres, m)
        if float((centres - before).norm(dim=1).max()) <= tolerance:
            break
    return _turn(data, centres, m)[0], centres


def _turn(data: _Data, centres: Tensor, m: float) -> tuple[float, Tensor]:
    """The objective of these centres, and the centres that follow from their memberships."""
    import torch

    sums = torch.zeros_like(centres, dtype=torch.float64)
    mass = sums.new_zeros(len(centres))
    total = sums.new_zeros(())
    for part in data.parts():
        near = data.distances(part, centres)
        shares, least = _shares(near, m)
        powers = shares.mul_(least).div_(near)  # u^m = u J / d, (k, n)
        if data.weights is not None:
            powers, least = powers.mul_(data.weights[part]), least * data.weights[part]
        sums += powers @ data.rows[part]
        mass += powers.sum(1)
        total += least.sum()
    alive = mass > TINY  # with m near 1 a centre far from everything keeps its place
    moved = torch.where(alive[:, None], sums / mass.clamp(min=TINY)[:, None], centres.double())
    return float(total), moved.to(centres.dtype)


def _shares(near: Tensor, m: float) -> tuple[Tensor, Tensor]:
    """Memberships (k, n) and objective (n,) of squared distances `near` (k, n)."""
    logits = near.log().mul_(-1 / (m - 1))
    top = logits.amax(0)
    shares = logits.sub_(top).exp_()
    total = shares.sum(0)
    return shares.div_(total), total.log_().add_(top).mul_(-(m - 1)).exp_()


class _Data:
    """The frames, centred and scaled to an RMS norm of 1: float32 then has digits to spare and nothing overflows."""

    def __init__(self, x: NDArray[Any], weights: NDArray[Any] | None, device: str, overwrite: bool) -> None:
        import torch

        where = _device(device)
        self.step = CHUNK[where.type]
        self.frames = len(x)
        self.mean = sum((x[p].sum(0, dtype=np.float64) for p in self.parts()), np.zeros(x.shape[1])) / self.frames
        inplace = overwrite and x.dtype == np.float32 and x.flags.writeable and x.flags.c_contiguous
        self.rows = torch.from_numpy(x).to(where) if inplace else torch.empty(x.shape, device=where)
        self.norms = torch.empty(self.frames, device=where)
        for part in self.parts():
            # In float64 for the subtraction alone: far from the origin, float32 would lose what tells frames apart.
            self.rows[part] = torch.from_numpy((x[part] - self.mean).astype(np.float32)).to(where)
            self.norms[part] = self.rows[part].square().sum(1)
        self.scale = float(self.norms.double().mean().sqrt()) or 1.0
        self.rows /= self.scale
        self.norms /= self.scale**2
        self.weights: Tensor | None = None
        if weights is not None:
            self.weights = torch.from_numpy(np.array(weights, dtype=np.float32)).to(where)

    def parts(self) -> Iterator[slice]:
        """The frames, chunk by chunk."""
        return (slice(first, first + self.step) for first in range(0, self.frames, self.step))

    def distances(self, part: slice, centres: Tensor) -> Tensor:
        """Squared distances (k, n): |x|^2 - 2 c.x + |c|^2."""
        import torch

        near = torch.addmm(self.norms[part], centres, self.rows[part].T, alpha=-2)
        return near.add_(centres.square().sum(1, keepdim=True)).clamp_(min=TINY)

    def spread(self, k: int, rng: np.random.Generator) -> Tensor:
        """k-means++: each next centre is a frame, drawn in proportion to its squared distance to those drawn."""
        chance = self.norms.new_ones(self.frames) if self.weights is None else self.weights.clone()
        closest = self.norms.new_full((self.frames,), float("inf"))
        drawn: list[int] = []
        for _ in range(k):
            steps = chance.double().cumsum(0)
            total = float(steps[-1])
            # Frames that all lie on centres already (total 0) are as good as one another.
            at = int((steps <= rng.random() * total).sum()) if total > 0 else int(rng.integers(self.frames))
            drawn.append(min(at, self.frames - 1))
            for part in self.parts():
                near = self.distances(part, self.rows[drawn[-1] : drawn[-1] + 1])[0]
                closest[part] = closest[part].minimum(near)
            closest[drawn] = 0
            chance = closest if self.weights is None else closest * self.weights
        return self.rows[drawn].clone()

    def memberships(self, centres: Tensor, m: float) -> Rows:
        """(T, k), rows sum to 1."""
        shares = np.empty((self.frames, len(centres)), dtype=np.float32)
        for part in self.parts():
            shares[part] = _shares(self.distances(part, centres), m)[0].T.cpu().numpy()
        return shares

    def inward(self, centres: NDArray[Any]) -> Tensor:
        """Centres of the user's space in the space of the rows."""
        import torch

        moved = (np.asarray(centres, dtype=np.float64) - self.mean) / self.scale
        return torch.from_numpy(moved.astype(np.float32)).to(self.rows.device)

    def outward(self, centres: Tensor) -> Rows:
        """The way back."""
        moved: Rows = (centres.cpu().double().numpy() * self.scale + self.mean).astype(np.float32)
        return moved


def _device(name: str) -> torch.device:
    import torch

    if name != "cpu" and not (name.startswith("cuda") and torch.cuda.is_available()):
        raise OptionError(f"device={name!r} is not there; choose 'cpu', or 'cuda' on a machine with a CUDA GPU.")
    return torch.device(name)


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
