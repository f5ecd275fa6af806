"""The features of a video, checked, or the reason why there are none."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import FeatureError, StepcutError
from stepcut.features.spec import FeatureSpec

LARGEST = 1e15
"""Larger values overflow in squared distances of single precision."""


@dataclass(frozen=True, eq=False)
class Features:
    """The features of one video: row i belongs to the time i / rate, in seconds.

    Examples
    --------
    >>> proc.features(new).end
    40.0
    """

    rows: NDArray[Any]
    """(T, d) vectors or (T, C, h, w) maps; memory-mapped float16 if read from the cache."""
    rate: Fraction
    """Rows per second."""
    duration: float
    """Length of the video in seconds."""
    name: str
    path: str | None = None
    """The video they were computed from, if any."""
    corrupt: int = 0
    """Number of damaged frames that the decoder skipped."""
    spec: FeatureSpec | None = None
    """How they were computed, if known."""

    @property
    def end(self) -> float:
        """End of the last row in seconds: the duration, or half a row after its time if later."""
        last = (len(self.rows) - 1) / float(self.rate)
        return self.duration if self.duration > last else last + 0.5 / float(self.rate)

    def __repr__(self) -> str:
        shape = " x ".join(str(n) for n in self.rows.shape)
        return (
            f"<Features {self.name}: {shape}, {self.rate} rows per second, {self.duration:.1f} s>"
        )


@dataclass(frozen=True)
class Failure:
    """An unusable video and its error.

    Examples
    --------
    >>> from stepcut.errors import VideoError
    >>> print(Failure("a", "a.mp4", VideoError("a.mp4: the file is empty.")))
    a.mp4: the file is empty.
    """

    name: str
    path: str
    error: StepcutError

    def __str__(self) -> str:
        return str(self.error)


def check_alike(features: Sequence[Features]) -> None:
    """Refuse features of different dimensions, rates or backbones."""
    for other in features[1:]:
        made = [(one.rate, one.rows.shape[1:]) for one in (features[0], other)]
        if made[0] != made[1] or not _same(features[0].spec, other.spec):
            differ = " and ".join(
                f"{one.name} has {one.rate} rows of shape {one.rows.shape[1:]} per second by "
                f"{one.spec.to_json() if one.spec else 'an unknown backbone'}"
                for one in (features[0], other)
            )
            raise FeatureError(
                f"features differ: {differ}. Use features of one backbone and one rate.",
                video=other.name,
            )


def _same(one: FeatureSpec | None, other: FeatureSpec | None) -> bool:
    return one is other if one is None or other is None else not one.unlike(other)


def check_rows(rows: Any, name: str, kinds: tuple[int, ...] = (2, 4)) -> NDArray[Any]:
    """Return `rows` as an array (T, d) or (T, C, h, w), not empty, of finite numbers.

    Errors call them `name`; `kinds` are the allowed dimensions: 2 for vectors, 4 for maps.
    """
    try:  # rows of different lengths; a tensor on a GPU, or with gradients
        array = np.asarray(rows)
    except (ValueError, TypeError, RuntimeError) as error:
        raise FeatureError(
            f"{name}: not an array ({error}). Use numbers of shape (T, d)."
        ) from error
    if array.dtype.kind not in "fiu":
        raise FeatureError(
            f"{name}: values of type {array.dtype}, not numbers. Save them as float16 or float32."
        )
    if array.ndim not in kinds:
        wanted = " or ".join({2: "(T, d) vectors", 4: "(T, C, h, w) maps"}[kind] for kind in kinds)
        advice = "Pass a list of such arrays" if array.ndim == 1 else "Reshape them"
        raise FeatureError(
            f"{name}: shape {array.shape}; features are {wanted}, one row per time step. {advice}."
        )
    if array.size == 0:
        raise FeatureError(
            f"{name}: empty, shape {array.shape}. Features need at least one row of one number."
        )
    for at in range(0, len(array), 1024):  # in pieces, so that a memory-mapped file stays on disk
        part = array[at : at + 1024]
        if part.dtype == np.float16:  # slow min and max
            with np.errstate(invalid="ignore"):  # numpy warns of unusual NaNs
                part = part.astype(np.float32)
        if not (float(part.min()) >= -LARGEST and float(part.max()) <= LARGEST):  # also for NaN
            with np.errstate(invalid="ignore"):
                bad = np.argwhere(~(np.abs(part.astype(np.float64)) <= LARGEST))[0]
            what = f"NaN, infinity or a number beyond {LARGEST:g} ({part[tuple(bad)]})"
            raise FeatureError(
                f"{name}: row {at + bad[0]} contains {what}. Recompute it, or exclude the video."
            )
    return array
