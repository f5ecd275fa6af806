"""What seeing gives to all later stages: the features of a video, or the reason why there are none."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from stepcut.errors import StepcutError
from stepcut.features.spec import FeatureSpec


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
    spec: FeatureSpec | None = None
    """How they were made, where that is known: more of the same can then be computed from videos."""

    def __repr__(self) -> str:
        shape = " x ".join(str(n) for n in self.rows.shape)
        return f"<Features {self.name}: {shape}, {self.rate} rows per second, {self.duration:.1f} s>"


@dataclass(frozen=True)
class Failure:
    """A video that could not be used, and why."""

    name: str
    path: str
    error: StepcutError

    def __str__(self) -> str:
        return str(self.error)
