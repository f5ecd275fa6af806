"""Validation of the inputs and outputs of methods: features, probabilities, settings."""

import hashlib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import FeatureError, NotLearned, OptionError, placed, wrong
from stepcut.features.features import check_rows

Array = NDArray[Any]
Labels = NDArray[np.int64]
Rows = NDArray[np.float32]
Videos = Sequence[Array]  # (T, d) or maps (T, C, h, w) per video
StepCount = int | Literal["auto"] | tuple[int, int]  # or (fewest, most)
T = TypeVar("T")

BLOCK = 65_536  # frames per block, to limit memory
MANY = 64  # of more videos, so many stand for all: in restarts and refits


def as_step_count(steps: Any) -> StepCount:
    if isinstance(steps, str) and steps == "auto":
        return "auto"
    pair = isinstance(steps, tuple | list) and len(steps) == 2
    counts = list(steps) if pair else [steps]
    whole = all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in counts)
    if not whole or counts[0] < 1 or counts[-1] < counts[0]:
        why = "is not allowed; use a whole number from 1, a range such as (8, 14), or 'auto'."
        raise wrong("steps", steps, why)
    return (int(counts[0]), int(counts[1])) if pair else int(counts[0])


def read_step_count(text: str) -> StepCount:
    """The number of steps that a person writes: "7", "8-14" or "auto"."""
    low, dash, high = text.strip().partition("-")
    try:
        return as_step_count((int(low), int(high)) if dash else low if low == "auto" else int(low))
    except ValueError as error:  # also OptionError
        fix = "Give one such as 7, a range such as 8-14 (-k 8-14), or auto."
        raise wrong("steps", text[:200], f"is not a number of steps. {fix}") from error


def as_whole_count(steps: Any, method: str) -> int:
    if not isinstance(count := as_step_count(steps), int):
        why = f": method {method!r} needs a number, for example steps=7 (-k 7)."
        raise wrong("steps", steps, why)
    return count


def plain_numbers(settings: Any) -> Any:
    """NumPy numbers as plain ones and tuples as lists, also in lists and dicts, for JSON."""
    if isinstance(settings, Mapping):
        return {name: plain_numbers(value) for name, value in settings.items()}
    if isinstance(settings, list | tuple):
        return [*map(plain_numbers, settings)]
    return settings.item() if isinstance(settings, np.generic) else settings


def part(state: Mapping[str, T], prefix: str) -> dict[str, T]:
    named = state.items()
    return {key.removeprefix(prefix): value for key, value in named if key.startswith(prefix)}


def kept_settings(method: object) -> dict[str, Any]:
    """The constructor arguments of an object, from its attributes of the same names."""
    names = list(inspect.signature(type(method)).parameters)
    for name in names:
        if not hasattr(method, name):
            what = f"{type(method).__name__}: __init__ takes {name} but does not store it"
            raise OptionError(f"{what}; add self.{name} = {name}.", setting=name)
    return {name: getattr(method, name) for name in names}


def check_videos(
    videos: Any, dimension: int | None = None, kinds: tuple[int, ...] = (2, 4)
) -> list[NDArray[Any]]:
    """Each (T, d) with T > 0, the same d, and finite values.

    `kinds` are the allowed numbers of dimensions: 2 for vectors, 4 for maps (T, C, h, w).
    """
    alone = isinstance(videos, np.ndarray) and videos.ndim < 3
    if alone or not isinstance(videos, Iterable) or not len(videos := list(videos)):
        seen = f"one array of shape {np.shape(videos)}" if alone else repr(videos)
        what = f"videos is {'empty' if seen == '[]' else seen}"
        raise FeatureError(f"{what}; give a list of at least one (T, d) array.", setting="videos")
    checked: list[NDArray[Any]] = []
    for number, video in enumerate(videos):
        with placed(video=str(number)):
            rows = check_rows(video, f"video {number}", kinds)
        kinds = (rows.ndim,)  # all videos have the same kind
        dimension = rows.shape[1] if dimension is None else dimension
        if rows.shape[1] != dimension:
            raise FeatureError(
                f"video {number} has {rows.shape[1]} dimensions where {dimension} are expected. "
                "Extract all videos with the same backbone.",
                setting="videos",
                value=rows.shape[1],
                allowed=dimension,
                video=str(number),
            )
        checked.append(rows)
    return checked


def check_shares(shares: Any, frames: int, steps: int, whose: object) -> NDArray[Any]:
    """(`frames`, `steps`) with rows that sum to 1."""
    array = np.asarray(shares)
    seen: object = array.shape
    wanted: object = (frames, steps)
    if seen != wanted:
        what = f"a video of {frames} rows are {seen}; they must be {wanted}, one column per step."
    else:
        sums = array.sum(axis=1)
        bad = np.flatnonzero(~(np.abs(sums - 1) < 1e-3))  # they may be float16
        if not len(bad):
            return array
        seen, wanted = sums[bad[0]], 1
        what = f"row {bad[0]} sum to {seen:g}; they must sum to 1."
    text = f"{type(whose).__name__}: probabilities of {what}"
    raise OptionError(text, setting="probabilities", value=seen, allowed=wanted)


def check_fitted(method: object, learned: str) -> None:
    if not hasattr(method, learned):
        raise NotLearned("this method has not been fitted; call fit(features) first.")


def fingerprint(rows: NDArray[Any]) -> tuple[int, bytes]:
    """Length and content hash, to sort videos by content."""
    digest = hashlib.blake2b(digest_size=16)
    for first in range(0, len(rows), BLOCK):
        digest.update(np.ascontiguousarray(rows[first : first + BLOCK]).data)
    return len(rows), digest.digest()
