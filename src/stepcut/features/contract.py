"""What extraction gives to all later stages: the features of a video, checked, or why there are none."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import FeatureError, StepcutError
from stepcut.features.spec import FeatureSpec

LARGEST = 1e15
"""Beyond this, squared distances are no numbers in single precision."""


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

    @property
    def end(self) -> float:
        """When the last row ends, in seconds: with the video; half a row later where a file ends it before that row."""
        last = (len(self.rows) - 1) / float(self.rate)
        return self.duration if self.duration > last else last + 0.5 / float(self.rate)

    def __repr__(self) -> str:
        shape = " x ".join(str(n) for n in self.rows.shape)
        return (
            f"<Features {self.name}: {shape}, {self.rate} rows per second, {self.duration:.1f} s>"
        )


@dataclass(frozen=True)
class Failure:
    """A video that could not be used, and why."""

    name: str
    path: str
    error: StepcutError

    def __str__(self) -> str:
        return str(self.error)


def check_alike(features: Sequence[Features]) -> None:
    """Raise when two videos have features of different dimensions, rates or backbones."""
    for other in features[1:]:
        made = [(one.rate, one.spec, one.rows.shape[1:]) for one in (features[0], other)]
        if made[0] != made[1]:
            told = " and ".join(
                f"{one.name} has {one.rate} rows of shape {one.rows.shape[1:]} per second by "
                f"{one.spec.to_json() if one.spec else 'an unknown backbone'}"
                for one in (features[0], other)
            )
            raise FeatureError(
                f"features were made differently: {told}. Give those of one backbone and one rate."
            )


def check_rows(rows: Any, name: str, kinds: tuple[int, ...] = (2, 4)) -> NDArray[Any]:
    """The same `rows`, known to be (T, d) or (T, C, h, w), at least one, of numbers finite and not huge.

    An error calls them `name`; `kinds` are the dimensions they may have: 2 for vectors, 4 for maps.
    """
    try:  # rows of several lengths; a tensor elsewhere, or in training
        array = np.asarray(rows)
    except (ValueError, TypeError, RuntimeError) as error:
        raise FeatureError(
            f"{name}: it is no array ({error}); give numbers of shape (T, d)."
        ) from error
    if array.dtype.kind not in "fiu":
        raise FeatureError(
            f"{name}: values of type {array.dtype}, not numbers. Save them as float16 or float32."
        )
    if array.ndim not in kinds:
        wanted = " or ".join({2: "(T, d) vectors", 4: "(T, C, h, w) maps"}[kind] for kind in kinds)
        advice = "Give a list of such arrays" if array.ndim == 1 else "Reshape them"
        raise FeatureError(
            f"{name}: shape {array.shape}; features are {wanted}, one row per time step. {advice}."
        )
    if array.size == 0:
        raise FeatureError(
            f"{name}: empty, shape {array.shape}; at least one row of one number is needed."
        )
    for at in range(
        0, len(array), 1024
    ):  # in pieces, so that a memory-mapped file stays on the disk
        part = array[at : at + 1024]
        if (
            part.dtype == np.float16
        ):  # of which a processor takes the least and the greatest one by one
            with np.errstate(invalid="ignore"):  # numpy warns of NaNs of an unusual kind
                part = part.astype(np.float32)
        if not (
            float(part.min()) >= -LARGEST and float(part.max()) <= LARGEST
        ):  # false for NaN as well
            with np.errstate(invalid="ignore"):  # numpy warns of NaNs of an unusual kind
                bad = np.argwhere(~(np.abs(part.astype(np.float64)) <= LARGEST))[0]
            what = f"NaN, infinity or a number beyond {LARGEST:g} ({part[tuple(bad)]})"
            raise FeatureError(
                f"{name}: row {at + bad[0]} holds {what}. Compute it again, or leave the video out."
            )
    return array
