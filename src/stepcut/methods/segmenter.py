"""The contract of every segmenter: what it is given (checked once, here), what it answers, how it is kept.

    fit(videos) -> self               learn the steps that the videos share
    predict(videos) -> labels         a step number per frame, 0 to steps - 1, a list of (T,) int64
    fit_predict(videos) -> labels     both
    probabilities(videos) -> shares     how much each frame belongs to each step, a list of (T, steps), rows sum to 1
    settings(), state(), restore()    JSON-able settings and arrays, from which the same segmenter is built again

`videos` is a list of (T, d) arrays, one per video. Same seed, same labels, in whatever order the videos come.
"""

import hashlib
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import FeatureError, NotLearned, OptionError
from stepcut.features.contract import check_rows
from stepcut.methods.contract import kept_settings

Labels = NDArray[np.int64]
Rows = NDArray[np.float32]
Videos = Sequence[NDArray[Any]]

SEEDS = 2**32 - 1
"""The largest seed that every library takes."""
SLACK = 1e-3
"""By how much probabilities of a row may miss a sum of 1: they may be float16."""
BLOCK = 65_536
"""Frames looked at together, so that a check of a long video needs little memory."""


def limited(
    default: Any, low: float, high: float = math.inf, *, above: bool = False, whole: bool = False
) -> Any:
    """A setting of a dataclass with this `default`, whose limits, those of `check_number`, `check_limits` knows."""
    limits = {"low": low, "high": high, "above": above, "whole": whole}
    return field(default=default, metadata={"limits": limits})


def check_limits(part: Any) -> None:
    """Refuse the first setting of `part` that is outside its limits; one that is None by default may be None, and one
    that is true or false by default must be one of these."""
    for each in fields(part):
        limits = each.metadata.get("limits")
        if limits and not (each.default is None and getattr(part, each.name) is None):
            check_number(each.name, getattr(part, each.name), **limits)
        if isinstance(each.default, bool) and not isinstance(
            getattr(part, each.name), bool | np.bool_
        ):
            raise OptionError(
                f"{each.name}={getattr(part, each.name)!r} is not allowed; give true or false (in Python True, False)."
            )


def check_number(
    name: str,
    value: Any,
    low: float,
    high: float = math.inf,
    *,
    above: bool = False,
    whole: bool = False,
) -> None:
    """Refuse a setting that is no number between `low` and `high`; `above`: `low` itself is refused too."""
    kinds: Any = (int, np.integer) if whole else (int, float, Fraction, np.integer, np.floating)
    numeric = (
        isinstance(value, kinds)
        and not isinstance(value, bool)
        and abs(value) <= sys.float_info.max
    )
    if numeric and low <= value <= high and not (above and value == low):
        return
    kind = "whole number" if whole else "number"
    least = f"above {low:g}" if above else f"of at least {low:g}"
    most = f" and at most {high if whole else format(high, 'g')}" if high < math.inf else ""
    wanted = f"a {kind} {least}{most}"
    raise OptionError(
        f"{name}={value!r} is not allowed; give {wanted}.",
        setting=name,
        value=value,
        allowed=wanted,
    )


@dataclass(eq=False, repr=False)
class Segmenter(ABC):
    """Gives every frame of every video one of `steps` steps. `rate` is in frames (rows) per second."""

    LEARNED: ClassVar[tuple[str, ...]] = ()
    """The names of the arrays that `fit` learns."""

    steps: int = limited(7, 1, whole=True)
    rate: float | Fraction = limited(1.0, 0, above=True)
    seed: int = limited(0, 0, SEEDS, whole=True)

    # ------------------------------------------------------------------ what a user calls

    def fit(self, videos: Videos) -> Self:
        """Learn the steps that the videos share."""
        self.check_settings()
        checked = check_videos(videos)
        frames = sum(len(rows) for rows in checked)
        if self.steps > frames:
            raise OptionError(
                f"steps={self.steps} is more than the {frames} frames given; allowed is 1 to {frames}. "
                "Ask for fewer steps or give more frames."
            )
        # In an order of their own, so that the order in which they come cannot matter.
        self._learn(sorted(checked, key=fingerprint))
        self.dimension_ = checked[0].shape[1]
        return self

    def predict(self, videos: Videos) -> list[Labels]:
        """The step of every frame, per video."""
        return [self._cut(rows).astype(np.int64) for rows in self._check_learned(videos)]

    def fit_predict(self, videos: Videos) -> list[Labels]:
        """Learn the steps, then cut the same videos into them."""
        return self.fit(videos).predict(videos)

    def probabilities(self, videos: Videos) -> list[Rows]:
        """How much every frame belongs to every step, per video: (T, steps), rows sum to 1."""
        return [self._checked_probabilities(rows) for rows in self._check_learned(videos)]

    def settings(self) -> dict[str, Any]:
        """The settings, as `__init__` takes them and JSON can hold them."""
        kept = kept_settings(self).items()
        return {
            name: float(value) if isinstance(value, Fraction) else value for name, value in kept
        }

    def state(self) -> dict[str, NDArray[Any]]:
        """What was learned, as arrays."""
        self._check_learned([])
        if missing := [name for name in self.LEARNED if not hasattr(self, name)]:
            raise OptionError(
                f"{type(self).__name__}: fit did not learn {', '.join(missing)}, which LEARNED names."
            )
        learned = {name: np.asarray(getattr(self, name)) for name in self.LEARNED}
        return {"dimension_": np.asarray(self.dimension_, dtype=np.int64), **learned}

    @classmethod
    def restore(cls, settings: Mapping[str, Any], state: Mapping[str, NDArray[Any]]) -> Self:
        """The segmenter that `settings()` and `state()` describe."""
        segmenter = cls(**settings)
        segmenter.dimension_ = int(state["dimension_"])
        for name in cls.LEARNED:
            setattr(segmenter, name, np.asarray(state[name]))
        return segmenter

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"{type(self).__name__}({shown})"

    # ------------------------------------------------------------------ what a segmenter adds

    @abstractmethod
    def _learn(self, videos: list[NDArray[Any]]) -> None:
        """Learn from videos that have been checked and put in an order of their own."""

    @abstractmethod
    def _probabilities(self, rows: NDArray[Any]) -> Rows:
        """(T, steps), rows sum to 1."""

    def _cut(self, rows: NDArray[Any]) -> Labels:
        """The step of every frame of one video: the one with the largest share, the lowest on a tie."""
        return np.asarray(self._checked_probabilities(rows).argmax(axis=1))

    def _checked_probabilities(self, rows: NDArray[Any]) -> Rows:
        return check_shares(self._probabilities(rows), len(rows), self.steps, self)

    def check_settings(self) -> None:
        """Say what is wrong with a setting. Here and not in `__init__`, which only stores."""
        check_limits(self)

    def _check_learned(self, videos: Videos) -> list[NDArray[Any]]:
        if not hasattr(self, "dimension_"):
            raise NotLearned(
                f"{type(self).__name__} has not learned any steps yet; call fit(videos) first."
            )
        return check_videos(videos, self.dimension_) if len(videos) else []


def check_videos(
    videos: Any, dimension: int | None = None, kinds: tuple[int, ...] = (2,)
) -> list[NDArray[Any]]:
    """The same `videos`, each known to be (T, d) with T > 0, the same d, and finite.

    `dimension` is the d that is expected, where it is known. `kinds` are the numbers of array dimensions that may be:
    2 for vectors, 4 for maps (T, C, h, w), whose C is the d.
    """
    alone = isinstance(videos, np.ndarray) and videos.ndim < 3
    if alone or not isinstance(videos, Iterable):
        seen = f"one array of shape {np.shape(videos)}" if alone else repr(videos)
        raise FeatureError(
            f"videos is {seen}; expected is a list of (T, d) arrays. Put it in a list."
        )
    checked: list[NDArray[Any]] = []
    for number, video in enumerate(videos):
        rows = check_rows(video, f"video {number}", kinds)
        kinds = (rows.ndim,)  # all of one kind
        dimension = rows.shape[1] if dimension is None else dimension
        if rows.shape[1] != dimension:
            raise FeatureError(
                f"video {number} has {rows.shape[1]} dimensions where {dimension} are expected; all videos need the "
                "same. Extract them with the same backbone."
            )
        checked.append(rows)
    if not checked:
        raise FeatureError(
            "videos is empty; at least one video with one frame is needed. Give a list of (T, d) arrays."
        )
    return checked


def check_shares(shares: Any, frames: int, steps: int, whose: object) -> NDArray[Any]:
    """Memberships of a video, known to be (`frames`, `steps`) with rows that sum to 1; `whose` an error names."""
    array, name = np.asarray(shares), type(whose).__name__
    if array.shape != (frames, steps):
        raise OptionError(
            f"{name}: probabilities of a video of {frames} rows are {array.shape}; they must be ({frames}, {steps}): a "
            "column for each step."
        )
    sums = array.sum(axis=1)
    if len(wrong := np.flatnonzero(~(np.abs(sums - 1) < SLACK))):
        raise OptionError(
            f"{name}: probabilities of row {wrong[0]} sum to {sums[wrong[0]]:g}; they must sum to 1."
        )
    return array


def check_fitted(method: object, learned: str) -> None:
    """Refuse a method without what `fit` learns, an attribute of the name `learned`."""
    if not hasattr(method, learned):
        raise NotLearned("this method has not been fitted; call fit(features) first.")


def fingerprint(rows: NDArray[Any]) -> tuple[int, bytes]:
    """What sorts videos by their content."""
    digest = hashlib.blake2b(digest_size=16)
    for first in range(0, len(rows), BLOCK):
        digest.update(np.ascontiguousarray(rows[first : first + BLOCK]).data)
    return len(rows), digest.digest()


def normalised_times(frames: int) -> NDArray[np.float64]:
    """The middle of each frame in [0, 1], where 1 is the end of the video."""
    return (np.arange(frames) + 0.5) / frames


def equal_parts(frames: int, count: int) -> Labels:
    """A video of so many `frames` in `count` parts of equal length."""
    return np.arange(frames) * count // max(frames, 1)


def one_hot(labels: NDArray[np.integer[Any]], steps: int) -> Rows:
    """All of a frame's share to its label: (T, steps)."""
    return np.asarray(np.eye(steps, dtype=np.float32)[labels])
