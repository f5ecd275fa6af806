"""Labels that a person gave to some videos: read from any format, checked, and turned into step numbers per row."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import AnnotationError, OptionError, unknown
from stepcut.formats import read_folder, video_name
from stepcut.methods.contract import BACKGROUND, OPEN, Labels
from stepcut.timeline import Timeline

Given = str | os.PathLike[str] | Mapping[str, Timeline | NDArray[Any]]
"""What a user may hand over: label files, timelines by video, or arrays (T,) of step numbers by video."""

LEAST = 1.0
"""A step that is labelled for no more seconds than this, in all videos together, has nothing to be learned from."""


@dataclass(frozen=True)
class Labelled:
    """Labels in numbers: for some videos (T,), a step, -1 for background, -2 where nobody said anything."""

    rows: dict[str, Labels]
    names: list[str] | None = None
    """The names of the steps, in the order of their numbers; None where only numbers were given."""

    @property
    def count(self) -> int:
        """How many steps the labels speak of."""
        if self.names is not None:
            return len(self.names)
        return 1 + max((int(one.max()) for one in self.rows.values() if one.size), default=-1)

    @property
    def used(self) -> set[int]:
        """The numbers of the steps that are labelled somewhere."""
        return {int(number) for one in self.rows.values() for number in np.unique(one) if number >= 0}


def read_labels(given: Given) -> Mapping[str, Timeline | NDArray[Any]]:
    """Timelines, or arrays of numbers, by video; files are read in any format of `stepcut.formats`."""
    if isinstance(given, str | os.PathLike):
        return read_folder(given)
    if not isinstance(given, Mapping) or not given:
        raise OptionError(
            f"labels={given!r} is not allowed; give a folder of label files, or timelines or arrays by video."
        )
    kinds = {isinstance(one, Timeline) for one in given.values()}
    if len(kinds) > 1:
        raise OptionError("labels mix timelines and arrays; give all of one kind.")
    return {str(name): one for name, one in given.items()}


def number_labels(
    given: Mapping[str, Timeline | NDArray[Any]],
    samples: Mapping[str, int],
    rate: Fraction,
    ends: Mapping[str, float],
    order: Sequence[str] | None = None,
) -> Labelled:
    """Check labels and turn them into step numbers, one per row of features.

    given    timelines or arrays by video, as `read_labels` gives them
    samples  rows of features of every video that may be labelled
    rate     rows per second
    ends     the length of each of those videos, in seconds
    order    the names of the steps in their order, where it is known; left out, the one in which they usually come
    """
    matched = {_find(name, samples, len(given)): one for name, one in given.items()}
    if len(matched) < len(given):
        raise AnnotationError(f"the labels {sorted(given)} name one video twice. Keep one of them.")
    if all(isinstance(one, Timeline) for one in matched.values()):
        timelines = {name: one for name, one in matched.items() if isinstance(one, Timeline)}
        names = list(order) if order is not None else usual_order(timelines.values())
        _check_names(names)
        labelled = Labelled({n: _rows(n, t, names, samples[n], rate, ends[n]) for n, t in timelines.items()}, names)
    else:
        labelled = Labelled({name: _numbers(name, one, samples[name]) for name, one in matched.items()})
    check_enough(labelled, rate)
    return labelled


def usual_order(timelines: Iterable[Timeline]) -> list[str]:
    """The names of the labelled steps by when they usually come: the median of their middles, as a share of the video.

    >>> from stepcut.timeline import Segment
    >>> usual_order([Timeline([Segment(0, 2, "pour"), Segment(2, 9, "stir")], duration=9)])
    ['pour', 'stir']
    """
    places: dict[str, list[float]] = {}
    for timeline in timelines:
        for segment in timeline:
            places.setdefault(segment.step, []).append((segment.start + segment.end) / 2 / max(timeline.end, 1e-9))
    return sorted(places, key=lambda name: float(np.median(places[name])))


def check_enough(labelled: Labelled, rate: Fraction) -> None:
    """Every labelled step needs more than one row, and more than one second."""
    all_rows = np.concatenate(list(labelled.rows.values()))
    if not (all_rows != OPEN).any():
        raise OptionError("labels were given, but all of them are open (-2); label a video, or leave labels out.")
    for number in sorted(labelled.used):
        rows = int((all_rows == number).sum())
        if rows < 2 or rows / float(rate) <= LEAST:
            name = repr(labelled.names[number]) if labelled.names else str(number)
            raise AnnotationError(
                f"step {name} is labelled for {rows / float(rate):g} s in all videos together, which is too little to "
                f"learn it from; label more than {LEAST:g} s of it, or leave it out."
            )


def _find(name: str, samples: Mapping[str, int], count: int) -> str:
    """The video that a label is of: by its name, with or without folder and suffix."""
    if name in samples:
        return name
    plain = [video for video in samples if video_name(video) == video_name(name)]
    if len(plain) != 1:
        hint = " None of them may be of this task." if count == 1 else " Are these the labels of another task?"
        raise AnnotationError(f"labels of a video that is not here: {unknown('video', name, samples)}{hint}")
    return plain[0]


def _check_names(names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        plain = " ".join(name.split()).casefold()
        if plain in seen:
            raise AnnotationError(
                f"the step names {seen[plain]!r} and {name!r} differ by spaces or capitals only. Write them alike "
                "where they are one step, or give them names that differ."
            )
        seen[plain] = name


def _rows(name: str, timeline: Timeline, names: Sequence[str], rows: int, rate: Fraction, end: float) -> Labels:
    if pairs := timeline.overlapping():
        one, other = pairs[0]
        raise AnnotationError(
            f"{name}: at {max(one.start, other.start):g} s it is labelled both {one.step!r} and {other.step!r}; "
            "one step at a time can be learned. Shorten one of the two."
        )
    last = max((segment.end for segment in timeline), default=0.0)
    if last > end + max(1.0, 1 / float(rate)):
        raise AnnotationError(
            f"{name}: a label ends at {last:.1f} s, beyond the video ({end:.1f} s). Are these labels of another video?"
        )
    place = {step: number for number, step in enumerate(names)}
    translate = np.array([*(place.get(step, BACKGROUND) for step in timeline.steps), BACKGROUND], dtype=np.int64)
    # A row stands for the time from its own to the next one's: the middle decides, and for the last one its start.
    times = np.minimum((np.arange(rows) + 0.5) / float(rate), max(last, end) - 1e-6)
    return translate[timeline.labels(np.maximum(times, 0))]


def _numbers(name: str, given: Any, rows: int) -> Labels:
    numbers = np.asarray(given)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise OptionError(
            f"{name}: labels of type {numbers.dtype} and shape {numbers.shape}; give whole numbers of shape (T,): a "
            "step from 0, -1 for background, -2 for open."
        )
    if len(numbers) != rows:
        raise AnnotationError(f"{name}: {len(numbers)} labels for {rows} rows of features; give one for each row.")
    if numbers.size and numbers.min() < OPEN:
        raise OptionError(f"{name}: label {numbers.min()}; steps are counted from 0, -1 is background and -2 is open.")
    return numbers.astype(np.int64)
