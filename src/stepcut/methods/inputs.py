"""What methods are given and give back, checked: features of videos, probabilities, settings, numbers of steps."""

import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import FeatureError, NotLearned, OptionError, unknown
from stepcut.features.contract import check_rows

Array = NDArray[Any]
Labels = NDArray[np.int64]
Rows = NDArray[np.float32]
Videos = Sequence[Array]
"""(T, d) vectors or (T, C, h, w) maps, one array per video."""
StepCount = int | Literal["auto"] | tuple[int, int]
"""How many steps: a number, "auto", or the fewest and the most."""
T = TypeVar("T")

SLACK = 1e-3
"""By how much probabilities of a row may miss a sum of 1: they may be float16."""
BLOCK = 65_536
"""Frames looked at together, so that a check of a long video needs little memory."""


def as_step_count(steps: Any) -> StepCount:
    """How many steps, as plain numbers: what makes no sense is refused in one sentence."""
    if isinstance(steps, str) and steps == "auto":
        return "auto"
    pair = isinstance(steps, tuple | list) and len(steps) == 2
    counts = list(steps) if pair else [steps]
    whole = all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in counts)
    if not whole or counts[0] < 1 or counts[-1] < counts[0]:
        raise OptionError(
            f"steps={steps!r}; give a whole number from 1 up, a range such as (8, 14), or 'auto'."
        )
    return (int(counts[0]), int(counts[1])) if pair else int(counts[0])


def as_whole_count(steps: Any, method: str) -> int:
    """How many steps, for a `method` that cannot choose the number itself."""
    if not isinstance(count := as_step_count(steps), int):
        raise OptionError(
            f"steps={steps!r}: method {method!r} needs a number, for example steps=7 (-k 7)."
        )
    return count


def build(maker: Callable[..., T], settings: Mapping[str, Any]) -> T:
    """Call `maker` with settings; one that it does not know is answered with the nearest one and the list."""
    known = list(inspect.signature(maker).parameters)
    for name in settings:
        if name not in known:
            raise unknown("setting", name, known)
    return maker(**settings)


def plain_numbers(settings: Any) -> Any:
    """The same settings, in lists and dicts too, with plain numbers in place of numpy's, which JSON cannot hold."""
    if isinstance(settings, Mapping):
        return {name: plain_numbers(value) for name, value in settings.items()}
    if isinstance(settings, list | tuple):
        return type(settings)(map(plain_numbers, settings))
    return settings.item() if isinstance(settings, np.generic) else settings


def part(state: Mapping[str, T], prefix: str) -> dict[str, T]:
    """What of a `state` has a name that begins with `prefix`, by the rest of its name."""
    return {
        key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)
    }


def as_learned(kept: Array) -> Any:
    """An array that a `state` holds, as float64; a plain number where it has no dimensions."""
    wide = np.asarray(kept, dtype=np.float64)
    return wide if wide.ndim else wide.item()


def kept_settings(method: object) -> dict[str, Any]:
    """What the `__init__` of a part, perhaps of somebody's own, was given: its attributes of the same names."""
    names = list(inspect.signature(type(method)).parameters)
    for name in names:
        if not hasattr(method, name):
            raise OptionError(
                f"{type(method).__name__}: __init__ takes {name} and does not store it; write self.{name} = {name}."
            )
    return {name: getattr(method, name) for name in names}


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
    """Step probabilities of a video, known to be (`frames`, `steps`) with rows that sum to 1; `whose` an error names."""
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
