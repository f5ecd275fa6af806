"""Segment and Timeline: steps with start and end in seconds; immutable."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import AnnotationError, as_items, check_kind, wrong
from stepcut.files.names import Fragment
from stepcut.plugins import drawing
from stepcut.settings import as_rate
from stepcut.tables import data_frame

BACKGROUND = -1
_LONGEST = 1e300  # seconds
_ROUNDING = 1e-3  # seconds; versions before 0.4 rounded times up to this far past the end


def clock(seconds: float) -> str:
    tenths = round(seconds * 10)
    whole, rest = divmod(abs(tenths), 10)
    sign = "-" if tenths < 0 else ""
    return f"{sign}{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}.{rest}"


def unnamed(number: int) -> str:
    return f"step {number + 1}"


def is_unnamed(name: str) -> bool:
    """Whether the name of a step is a placeholder: "step 3", "step 3 (no name yet)"."""
    return re.fullmatch(r"step \d+( \(no name yet\))?", name) is not None


def runs(labels: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return the runs of equal `labels`, (n, 3): label, first frame, end frame (exclusive)."""
    array = np.asarray(labels, dtype=np.int64)
    starts = np.flatnonzero(np.diff(array, prepend=array[:1] - 1))
    return np.stack(
        [array[starts], starts, np.append(starts[1:], len(array))[: len(starts)]], axis=1
    )


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return float(value) if isinstance(value, Fraction) else value


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) <= _LONGEST


def time_in_video(time: float, end: float) -> float:
    """Return `time` in seconds, rounded to a millisecond and inside a video of `end` seconds.

    >>> time_in_video(1.23456, 60), time_in_video(58.3, 58.2999417), time_in_video(-1, 60)
    (1.235, 58.2999417, 0.0)
    """
    return end if time >= end else min(max(round(time, 3), 0.0), end)


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """One step from `start` to `end` in seconds, the end excluded.

    A segment of zero length is a click: the step occurs at that time, and its start and end are
    unknown.

    Parameters
    ----------
    start, end
        Seconds from the beginning of the video.
    step
        The name of the step.
    confidence
        From 0 to 1 for a predicted segment; None for an annotated one.

    Raises
    ------
    AnnotationError
        The times are not finite, or the end is before the start.

    Examples
    --------
    >>> Segment(3.0, 7.5, "add jam").duration, Segment(3, 3, "add jam").is_click
    (4.5, True)
    """

    start: float
    end: float
    step: str
    confidence: float | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name in ("start", "end", "confidence"):
            object.__setattr__(self, name, _plain(getattr(self, name)))
        if not (_is_seconds(self.start) and _is_seconds(self.end) and isinstance(self.step, str)):
            raise AnnotationError(
                f"segment {self.step!r}: start {self.start!r} and end {self.end!r} must be finite "
                "seconds, and the step must be a name.",
                value=(self.start, self.end),
            )
        if self.end < self.start:
            raise AnnotationError(
                f"segment {self.step!r}: the end {self.end:g} s is before the start "
                f"{self.start:g} s.",
                setting="end",
                value=self.end,
                allowed=self.start,
            )

    @property
    def duration(self) -> float:
        """The length in seconds."""
        return self.end - self.start

    @property
    def is_click(self) -> bool:
        """Whether the segment has zero length."""
        return self.start == self.end

    def overlaps(self, other: "Segment") -> bool:
        """Return whether this and the `other` segment share time; false if they only touch."""
        return max(self.start, other.start) < min(self.end, other.end)


def clip_segments(
    segments: Iterable[Segment], end: float, where: str = "segments"
) -> tuple[Segment, ...]:
    """Clip segments; more than a rounding error outside raises a ValueError that names `where`."""
    clipped = []
    for one in segments:
        if not -_ROUNDING <= one.start <= one.end <= end + _ROUNDING:
            raise ValueError(f"{where}: {one.start:g} to {one.end:g} s of {end:g} s")
        start, stop = (min(max(time, 0.0), end) for time in (one.start, one.end))
        if start < stop or one.is_click:
            clipped.append(replace(one, start=start, end=stop))
    return tuple(clipped)


@dataclass(frozen=True)
class Timeline:
    """The segments of one video, sorted by time; the rest is background.

    Segments of zero length are `clicks`, all others `intervals`.

    Parameters
    ----------
    segments
        In any order.
    duration
        The length of the video in seconds, if known.
    steps
        The vocabulary; numbers in label arrays are indices in it. By default, the steps in the
        order of their first occurrence.
    video
        The name of the video.

    Raises
    ------
    AnnotationError
        A step name occurs twice in `steps`.
    OptionError
        An argument has the wrong type.

    Examples
    --------
    >>> t = Timeline([Segment(2, 4, "stir"), Segment(0, 2, "pour")], duration=5)
    >>> t.steps
    ('pour', 'stir')
    >>> t.labels([0.0, 1.9, 2.0, 4.5]).tolist()
    [0, 0, 1, -1]
    >>> print(Timeline.from_labels([0, 0, -1, 1], rate=2, steps=["cut", "jam"]))
    <Timeline 2 segments of 2 steps, 2.0 s>
    00:00:00.0  00:00:01.0  cut
    00:00:01.5  00:00:02.0  jam
    """

    segments: tuple[Segment, ...]
    duration: float | None = None
    steps: tuple[str, ...] = ()
    video: str = ""

    def __init__(
        self,
        segments: Iterable[Segment] = (),
        duration: float | None = None,
        steps: Sequence[str] = (),
        video: str = "",
    ) -> None:
        ordered = tuple(
            sorted(as_items("segments", segments, Segment, "a list of Segment(start, end, step)"))
        )
        vocabulary = dict.fromkeys(names := as_items("steps", steps, str, "a list of names"))
        if len(vocabulary) != len(names):
            raise AnnotationError(
                f"step names must be different; got {names}.", setting="steps", value=names
            )
        vocabulary.update(dict.fromkeys(segment.step for segment in ordered))
        length = _plain(duration)
        if length is not None and not (_is_seconds(length) and length >= 0):
            why = "is not allowed; give the length of the video in seconds."
            raise wrong("duration", duration, why)
        vars(self).update(segments=ordered, duration=length, steps=tuple(vocabulary), video=video)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    def __len__(self) -> int:
        return len(self.segments)

    @property
    def clicks(self) -> tuple[Segment, ...]:
        """The segments of zero length."""
        return tuple(segment for segment in self.segments if segment.is_click)

    @property
    def intervals(self) -> tuple[Segment, ...]:
        """The segments that are longer than zero."""
        return tuple(segment for segment in self.segments if not segment.is_click)

    @property
    def end(self) -> float:
        """The length of the video or, if unknown, the end of the last segment."""
        last = max((segment.end for segment in self.segments), default=0.0)
        return last if self.duration is None else self.duration

    @property
    def offset(self) -> float:
        """Seconds of the file at which the recording starts; 0 unless it is a part of a file."""
        return Fragment.of(self.video).start

    def in_file(self) -> "Timeline":
        """Return the timeline of a part of a file in the time of the file, with its name."""
        part = Fragment.of(self.video)
        if part.whole == self.video:
            return self
        segments = [replace(s, start=s.start + part.start, end=s.end + part.start) for s in self]
        return Timeline(segments, steps=self.steps, video=part.whole)

    def in_part(self, name: str) -> "Timeline":
        """Return what a timeline of a whole file has in a part of it, named `name`, in its time."""
        part = Fragment.of(name)
        inside = self.crop(part.start, part.end)
        segments = [replace(s, start=s.start - part.start, end=s.end - part.start) for s in inside]
        return Timeline(segments, part.end - part.start, self.steps, name)

    # ---------- label arrays

    def labels(
        self, times: Sequence[float] | NDArray[np.floating[Any]], steps: Sequence[str] | None = None
    ) -> NDArray[np.int64]:
        """Return the number in `steps` at each of `times`, or -1; of two segments the later counts."""
        check_kind("times", times, (Iterable, Real), "a list of seconds")
        try:
            at = np.asarray(times, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise wrong("times", times, "is not allowed; give a list of seconds.") from error
        names = self.steps if steps is None else as_items("steps", steps, str, "a list of names")
        order = np.argsort(at, axis=None, kind="stable")
        labels = np.full(at.size, BACKGROUND, dtype=np.int64)
        number = {step: k for k, step in enumerate(names)}
        ends = np.searchsorted(
            at.ravel()[order], [(s.start, s.end) for s in self.segments]
        ).reshape(-1, 2)
        for segment, (first, last) in zip(self.segments, ends.tolist(), strict=True):
            labels[order[first:last]] = number.get(segment.step, BACKGROUND)
        return labels.reshape(at.shape)

    @classmethod
    def from_labels(
        cls,
        labels: Sequence[int] | NDArray[np.integer[Any]],
        rate: float | Fraction,
        steps: Sequence[str],
        duration: float | None = None,
        confidence: Sequence[float] | NDArray[np.floating[Any]] | None = None,
        video: str = "",
    ) -> Self:
        """Create a timeline from one number in `steps` per row: `i` covers `[i / rate, (i + 1) / rate)`.
        In `labels`, -1 is background, and -2 (open) becomes background, too. The confidence of a
        segment is the mean `confidence` of its rows. The default `duration` of the `video` is that
        of the labels.
        """
        numbers = np.asarray(labels)
        fits = numbers.ndim == 1 and numbers.dtype.kind in "iuf"
        if not fits or not (np.isfinite(numbers) & (numbers == np.floor(numbers))).all():
            why = (
                "is not allowed; give one whole number per row: a step counted from 0, or -1 for "
                "background."
            )
            raise wrong("labels", labels, why)
        as_rate(rate, "rate", 1_000_000)
        if numbers.max(initial=BACKGROUND) >= len(steps):
            raise AnnotationError(
                f"label {numbers.max()} for {len(steps)} steps; labels count the steps from 0.",
                setting="labels",
                value=int(numbers.max()),
                allowed=len(steps) - 1,
            )
        length = len(numbers) / rate if duration is None else duration
        segments = []
        for step, first, last in (run for run in runs(numbers).tolist() if run[0] >= 0):
            mean = None if confidence is None else float(np.mean(confidence[first:last]))
            end = min(last / rate, length)  # labels may continue after the end of the video
            if end > first / rate:
                segments.append(Segment(first / rate, end, steps[step], mean))
        return cls(segments, duration=length, steps=steps, video=video)

    def crop(self, start: float, end: float) -> "Timeline":
        """Return the part from `start` to `end`, the end excluded; times do not shift."""
        for name, time in (("start", start), ("end", end)):
            check_kind(name, time, Real, "seconds")
        inside = [s for s in self.intervals if s.start < end and s.end > start and start < end]
        inside += [s for s in self.clicks if start <= s.start < end]
        cropped = [replace(s, start=max(s.start, start), end=min(s.end, end)) for s in inside]
        return Timeline(cropped, duration=self.duration, steps=self.steps, video=self.video)

    def gaps(self) -> list[tuple[float, float]]:
        """Return the background intervals, (start, end) in seconds."""
        gaps, reached = [], 0.0
        for segment in self.intervals:
            if segment.start > reached:
                gaps.append((reached, segment.start))
            reached = max(reached, segment.end)
        return [*gaps, *([(reached, self.end)] if self.end > reached else [])]

    def sequence(self) -> list[str]:
        """Return the steps in the order of time, with repetitions."""
        return [segment.step for segment in self.segments]

    def without_overlaps(self) -> "Timeline":
        """Return the timeline in which, of two segments that overlap, the later start counts."""
        if not self.overlapping():
            return self
        edges = sorted({time for one in self.intervals for time in (one.start, one.end)})
        middles = [(start + end) / 2 for start, end in pairwise(edges)]
        numbered = [replace(one, step=str(place)) for place, one in enumerate(self.intervals)]
        shown = Timeline(numbered, steps=[one.step for one in numbered]).labels(middles)
        parts = [
            replace(self.intervals[place], start=edges[first], end=edges[last])
            for place, first, last in runs(shown).tolist()
            if place != BACKGROUND
        ]
        return replace(self, segments=(*parts, *self.clicks))

    def overlapping(self) -> list[tuple[Segment, Segment]]:
        """Return the pairs of segments that overlap, the earlier one first."""
        pairs: list[tuple[Segment, Segment]] = []
        running: list[Segment] = []
        for segment in self.segments:
            running = [s for s in running if s.end > segment.start]
            pairs.extend((s, segment) for s in running if s.overlaps(segment))
            running.append(segment)
        return pairs

    def rename(self, names: Mapping[str, str]) -> "Timeline":
        """Return the timeline with new `names` by current name; equal new names merge steps."""
        check_kind("names", names, Mapping, "a dict from step names to new ones")
        as_items("names", names.values(), str, "a dict from step names to new ones")
        segments = [replace(s, step=names.get(s.step, s.step)) for s in self.segments]
        steps = dict.fromkeys(names.get(step, step) for step in self.steps)
        return Timeline(segments, duration=self.duration, steps=tuple(steps), video=self.video)

    # ---------- display

    def __repr__(self) -> str:
        name = f"{self.video}: " if self.video else ""
        clicks = f" and {len(self.clicks)} clicks" if self.clicks else ""
        held = f"{len(self.intervals)} segments{clicks} of {len(self.steps)} steps"
        return f"<Timeline {name}{held}, {self.end:.1f} s>"

    def __str__(self) -> str:
        shown = self.in_file().segments
        lines = [f"{clock(s.start)}  {clock(s.end)}  {s.step}" for s in shown]
        return "\n".join([repr(self), *lines])

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame: video, step, start, end, duration, confidence by segment."""
        columns = ("video", "step", "start", "end", "duration", "confidence")
        rows = [
            (self.video, s.step, s.start, s.end, s.duration, s.confidence)
            for s in self.in_file().segments
        ]
        return data_frame(columns, rows)

    def _repr_html_(self) -> str:
        return drawing("timeline_html")(self)
