"""Fuzzy c-means on CUDA, by torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepcut.methods.cnc.fuzzy.engine import TINY, Engine, Frames, move_centres
from stepcut.methods.segmenter import Rows

if TYPE_CHECKING:
    from torch import Tensor

CHUNK = 262_144
"""Frames worked on together: large enough to keep a GPU busy."""


def has_device(name: str) -> bool:
    """Whether torch can work there."""
    import torch

    return name.startswith("cuda") and torch.cuda.is_available()


class TorchEngine(Engine):
    """The frames lie on the device from the beginning; centres come and go."""

    def __init__(self, frames: Frames, device: str) -> None:
        import torch

        self.device = torch.device(device)
        self.rows = torch.from_numpy(frames.rows).to(self.device)
        self.norms = torch.from_numpy(frames.norms).to(self.device)
        self.weights = None if frames.weights is None else torch.from_numpy(frames.weights).to(self.device)
        self.parts = [slice(first, first + CHUNK) for first in range(0, len(frames.rows), CHUNK)]

    def turn(self, centres: Rows, m: float) -> tuple[float, Rows]:
        import torch

        here = self._bring(centres)
        sums = torch.zeros_like(here, dtype=torch.float64)
        mass, total = sums.new_zeros(len(here)), sums.new_zeros(())
        for part in self.parts:
            near = self._near(here, part)
            shares, least = _shares(near, m)
            powers = shares.mul_(least).div_(near)  # u^m = u J / d, (k, n)
            if self.weights is not None:
                powers, least = powers.mul_(self.weights[part]), least * self.weights[part]
            sums += powers @ self.rows[part]
            mass += powers.sum(1, dtype=torch.float64)
            total += least.sum(dtype=torch.float64)
        return float(total), move_centres(centres, sums.cpu().numpy(), mass.cpu().numpy())

    def memberships(self, centres: Rows, m: float) -> Rows:
        here = self._bring(centres)
        shares = np.empty((len(self.rows), len(centres)), dtype=np.float32)
        for part in self.parts:
            shares[part] = _shares(self._near(here, part), m)[0].T.cpu().numpy()
        return shares

    def distances(self, centre: Rows) -> Rows:
        here = self._bring(centre[None])
        return np.concatenate([self._near(here, part)[0].cpu().numpy() for part in self.parts])

    def close(self) -> None:
        del self.rows, self.norms, self.weights

    def _bring(self, centres: Rows) -> Tensor:
        import torch

        return torch.from_numpy(centres).to(self.device)

    def _near(self, centres: Tensor, part: slice) -> Tensor:
        """Squared distances (k, n): |x|^2 - 2 c.x + |c|^2."""
        import torch

        near = torch.addmm(self.norms[part], centres, self.rows[part].T, alpha=-2)
        return near.add_(centres.square().sum(1, keepdim=True)).clamp_(min=TINY)


def _shares(near: Tensor, m: float) -> tuple[Tensor, Tensor]:
    """Memberships (k, n) and objective (n,) of squared distances `near` (k, n)."""
    logits = near.log().mul_(-1 / (m - 1))
    top = logits.amax(0)
    shares = logits.sub_(top).exp_()
    total = shares.sum(0)
    return shares.div_(total), total.log_().add_(top).mul_(-(m - 1)).exp_()
