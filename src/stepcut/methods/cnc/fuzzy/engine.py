"""What fuzzy c-means works on, and the two machines that do the work: compiled loops on the CPU, torch on CUDA."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import OptionError
from stepcut.methods.segmenter import Rows

TINY = 1e-30
"""Squared distances below this count as this: the frame lies on the centre."""
CHUNK = 1_024
"""Frames handled together: what is added up in float32 before it goes into a sum in float64."""


class Frames:
    """The frames, centred and scaled to an RMS length of 1: float32 then has digits to spare and nothing overflows."""

    def __init__(self, x: NDArray[Any], weights: NDArray[Any] | None = None, overwrite: bool = False) -> None:
        parts = [slice(first, first + CHUNK) for first in range(0, len(x), CHUNK)]
        kind = np.result_type(x.dtype, np.float32)
        sums = np.sum([x[part].sum(axis=0, dtype=kind) for part in parts], axis=0, dtype=np.float64)
        # The middle is a number of the frames' own kind, so that nothing is lost when it is taken from them: far from
        # the origin, rounding it afterwards would lose what tells frames apart.
        self.mean = (sums / len(x)).astype(kind)
        inplace = overwrite and x.dtype == np.float32 and x.flags.writeable and x.flags.c_contiguous
        self.rows: Rows = x if inplace else np.empty(x.shape, dtype=np.float32)
        self.norms = np.empty(len(x), dtype=np.float32)
        for part in parts:
            np.subtract(x[part], self.mean, out=self.rows[part], casting="same_kind")
            self.norms[part] = np.einsum("td,td->t", self.rows[part], self.rows[part])
        self.scale = float(np.sqrt(self.norms.mean(dtype=np.float64))) or 1.0
        self.rows *= np.float32(1 / self.scale)
        self.norms *= np.float32(1 / self.scale) ** 2
        self.weights = None if weights is None else np.array(weights, dtype=np.float32)

    def inward(self, centres: NDArray[Any]) -> Rows:
        """Centres of the user's space in the space of the rows."""
        moved: Rows = ((np.asarray(centres, dtype=np.float64) - self.mean) / self.scale).astype(np.float32)
        return moved

    def outward(self, centres: Rows) -> Rows:
        """The way back."""
        moved: Rows = (centres * self.scale + self.mean).astype(np.float32)
        return moved


class Engine(ABC):
    """Does the sums over all frames. Centres go in and come out as (k, d) float32."""

    @abstractmethod
    def turn(self, centres: Rows, m: float) -> tuple[float, Rows]:
        """The objective of these centres, and the centres that follow from their memberships."""

    @abstractmethod
    def memberships(self, centres: Rows, m: float) -> Rows:
        """(T, k), rows sum to 1."""

    @abstractmethod
    def distances(self, centre: Rows) -> Rows:
        """The squared distance of every frame to one place: (T,)."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Give back what the engine holds."""


def move_centres(before: Rows, sums: NDArray[np.float64], mass: NDArray[np.float64]) -> Rows:
    """sums / mass; with m near 1 a centre far from everything has no mass, and keeps its place."""
    moved: Rows = np.where(mass[:, None] > TINY, sums / np.maximum(mass, TINY)[:, None], before).astype(np.float32)
    return moved


def open_engine(frames: Frames, device: str = "cpu") -> Engine:
    """The engine for `cpu` or `cuda`."""
    if device == "cpu":
        from stepcut.methods.cnc.fuzzy.cpu import CpuEngine

        return CpuEngine(frames)
    from stepcut.methods.cnc.fuzzy.gpu import TorchEngine, has_device

    if not has_device(device):
        raise OptionError(f"device={device!r} is not there; choose 'cpu', or 'cuda' on a machine with a CUDA GPU.")
    return TorchEngine(frames, device)
