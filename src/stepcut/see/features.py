"""Features: one row per sampled time of a video; computing them for many videos, and reading given ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from stepcut.errors import StepcutError
from stepcut.progress import Hook, silent


@dataclass(frozen=True, eq=False)
class Features:
    """The features of one video, regular on true time: row i stands for the time i / rate, in seconds."""

    rows: NDArray[Any]
    """(T, d) vectors or (T, C, h, w) maps; half precision and memory-mapped when they come from the store."""
    rate: Fraction
    """Rows per second."""
    duration: float
    """Length of the video in seconds."""
    name: str
    path: str | None = None
    """The video they were computed from, when there is one."""
    corrupt: int = 0
    """How many damaged frames the decoder passed over."""


@dataclass(frozen=True)
class Failure:
    """A video that could not be used, and why."""

    name: str
    path: str
    error: StepcutError


def extract(
    videos: str | Path | Sequence[str | Path],
    backbone: Any = "efficientnet-lite0",
    fps: float | Fraction = 2,
    cache: str | Path | None = None,
    progress: Hook = silent,
    strict: bool = False,
    device: str = "auto",
) -> tuple[list[Features], list[Failure]]:
    """Compute (or read from the store) the features of every video.

    A video that cannot be used is left out and listed in the second result; with `strict` its error is raised.
    """
    raise NotImplementedError


def load_features(paths: str | Path | Iterable[str | Path], rate: float | Fraction | None = None) -> list[Features]:
    """Read given features: `.npy`, `.npz` or `.safetensors` files (or folders of them), one row per time step."""
    raise NotImplementedError
