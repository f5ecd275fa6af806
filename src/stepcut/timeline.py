"""Segment and Timeline: which step is done when, in seconds. Immutable; a timeline draws itself in a notebook."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from html import escape
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stepcut.colours import BACKGROUND_COLOUR, EMPTY_COLOUR, colour, legend
from stepcut.errors import AnnotationError, OptionError, as_items, check_kind
from stepcut.rate import as_rate
from stepcut.tables import data_frame

BACKGROUND = -1
"""The label of a frame that belongs to no step."""
_WIDTH = 1000
_LONGEST = 1e300  # seconds, which a float can hold


def unnamed(number: int) -> str:
    """Name step `number`, counted from 0, that nobody has named; people count from 1.

    >>> unnamed(0)
    'step 1'
    """
    return f"step {number + 1}"


def is_unnamed(name: str) -> bool:
    """Tell whether a step has only a placeholder for a name, as `unnamed` makes it.

    >>> is_unnamed("step 3"), is_unnamed("step 3 (no name yet)"), is_unnamed("stir")
    (True, True, False)
    """
    return re.fullmatch(r"step \d+( \(no name yet\))?", name) is not None


def runs(labels: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Every stretch of one label in `labels`, (n, 3): the label, its first frame, the frame after its last.

    >>> runs([5, 5, 0, 5]).tolist()
    [[5, 0, 2], [0, 2, 3], [5, 3, 4]]
    """
    array = np.asarray(labels, dtype=np.int64)
    starts = np.flatnonzero(np.diff(array, prepend=array[:1] - 1))
    return np.stack(
        [array[starts], starts, np.append(starts[1:], len(array))[: len(starts)]], axis=1
    )


def _plain(value: Any) -> Any:
    """A number of numpy, or a fraction such as a frame number by a rate, as a plain one, which JSON can hold."""
    return (
        value.item()
        if isinstance(value, np.generic)
        else float(value)
        if isinstance(value, Fraction)
        else value
    )


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """One step from `start` to `end`, in seconds, half-open: the end itself is no longer part of it.

    `confidence`: how sure the cut is, from 0 to 1, where something cut it; None where a person did.

    >>> Segment(3.0, 7.5, "add jam").duration
    4.5
    """

    start: float
    end: float
    step: str
    confidence: float | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name in ("start", "end", "confidence"):
            object.__setattr__(self, name, _plain(getattr(self, name)))
        seconds = all(
            isinstance(time, int | float) and abs(time) <= _LONGEST
            for time in (self.start, self.end)
        )
        if not seconds or not isinstance(self.step, str):
            what = f"start {self.start!r} and end {self.end!r} must be finite seconds, and the step a name"
            raise AnnotationError(f"segment {self.step!r}: {what}.")
        if self.end < self.start:
            what = f"it ends at {self.end:g} s, before it starts at {self.start:g} s"
            raise AnnotationError(f"segment {self.step!r}: {what}.")

    @property
    def duration(self) -> float:
        """How long it takes, in seconds."""
        return self.end - self.start

    def overlaps(self, other: "Segment") -> bool:
        """Whether this and the `other` share a stretch of time longer than zero."""
        return max(self.start, other.start) < min(self.end, other.end)


@dataclass(frozen=True)
class Timeline:
    """The segments of one video, sorted by time. What no segment covers is background.

    `steps` is the vocabulary in its order (the numbers in label arrays are positions in it); when it is not given, it
    is made of the names in the order in which they first occur. `duration` is the length of the video when known.

    >>> t = Timeline([Segment(2, 4, "stir"), Segment(0, 2, "pour")], duration=5)
    >>> t.steps
    ('pour', 'stir')
    >>> t.labels([0.0, 1.9, 2.0, 4.5]).tolist()
    [0, 0, 1, -1]
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
            raise AnnotationError(f"step names must differ from one another; got {names}.")
        vocabulary.update(dict.fromkeys(segment.step for segment in ordered))
        length = _plain(duration)
        if length is not None and not (isinstance(length, int | float) and 0 <= length <= _LONGEST):
            raise OptionError(
                f"duration={duration!r} is not allowed; give the length of the video in seconds."
            )
        vars(self).update(segments=ordered, duration=length, steps=tuple(vocabulary), video=video)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    def __len__(self) -> int:
        return len(self.segments)

    @property
    def end(self) -> float:
        """The length of the video or, where it is not known, the end of the last segment."""
        last = max((segment.end for segment in self.segments), default=0.0)
        return last if self.duration is None else self.duration

    # ------------------------------------------------------------------ between segments and label arrays

    def labels(
        self, times: Sequence[float] | NDArray[np.floating[Any]], steps: Sequence[str] | None = None
    ) -> NDArray[np.int64]:
        """The step number at each of the `times`, -1 for none. Where segments overlap, the one that starts later wins.

        `steps`: names in the order of the numbers, where these are not the timeline's own; other steps are -1.
        """
        check_kind("times", times, (Iterable, Real), "a list of seconds")
        try:
            at = np.asarray(times, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise OptionError(f"times={times!r} is not allowed; give a list of seconds.") from error
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
        """Segments from a step number per sampled time: label `i` stands for `[i / rate, (i + 1) / rate)`.

        labels      (T,), -1 for background; -2, where nobody said anything, shows as background, too
        rate        labels per second
        steps       the names of the steps, in the order of their numbers
        duration    of the video in seconds; left out, all labels together
        confidence  of every label, (T,); a segment's is their mean
        video       its name
        """
        numbers = np.asarray(labels)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iuf":
            raise OptionError(
                f"labels={labels!r}; give a step number for each sampled time, -1 for none."
            )
        as_rate(rate, "rate", 1_000_000)
        if numbers.max(initial=BACKGROUND) >= len(steps):
            raise AnnotationError(
                f"label {numbers.max()} for {len(steps)} steps; labels count the steps from 0."
            )
        length = len(numbers) / rate if duration is None else duration
        segments = []
        for step, first, last in (run for run in runs(numbers).tolist() if run[0] >= 0):
            sure = (
                None if confidence is None else float(np.mean(np.asarray(confidence)[first:last]))
            )
            end = min(last / rate, length) if last == len(numbers) else last / rate
            segments.append(Segment(first / rate, max(end, first / rate), steps[step], sure))
        return cls(segments, duration=length, steps=steps, video=video)

    def crop(self, start: float, end: float) -> "Timeline":
        """What lies from `start` to before `end`, cut off at both; times stay those of the video."""
        for name, time in (("start", start), ("end", end)):
            check_kind(name, time, Real, "seconds")
        inside = (s for s in self.segments if s.start < end and (s.end > start or s.start == start))
        cut = [replace(s, start=max(s.start, start), end=min(s.end, end)) for s in inside]
        return Timeline(cut, duration=self.duration, steps=self.steps, video=self.video)

    def gaps(self) -> list[tuple[float, float]]:
        """The stretches of background, as `(start, end)`."""
        gaps, reached = [], 0.0
        for segment in self.segments:
            if segment.start > reached:
                gaps.append((reached, segment.start))
            reached = max(reached, segment.end)
        if self.end > reached:
            gaps.append((reached, self.end))
        return gaps

    def sequence(self) -> list[str]:
        """The names of the segments in the order of time, repeats included."""
        return [segment.step for segment in self.segments]

    def overlapping(self) -> list[tuple[Segment, Segment]]:
        """Pairs of segments that share time; most users want none."""
        pairs: list[tuple[Segment, Segment]] = []
        running: list[Segment] = []
        for segment in self.segments:
            running = [s for s in running if s.end > segment.start]
            pairs.extend((s, segment) for s in running if s.overlaps(segment))
            running.append(segment)
        return pairs

    def rename(self, names: Mapping[str, str]) -> "Timeline":
        """The same timeline with other step names; two steps given one name become one."""
        check_kind("names", names, Mapping, "a dict from step names to new ones")
        as_items("names", names.values(), str, "a dict from step names to new ones")
        segments = [replace(s, step=names.get(s.step, s.step)) for s in self.segments]
        steps = dict.fromkeys(names.get(step, step) for step in self.steps)
        return Timeline(segments, duration=self.duration, steps=tuple(steps), video=self.video)

    # ------------------------------------------------------------------ looking at it

    def __repr__(self) -> str:
        name = f"{self.video}: " if self.video else ""
        return f"<Timeline {name}{len(self.segments)} segments of {len(self.steps)} steps, {self.end:.1f} s>"

    def __str__(self) -> str:
        lines = [f"{clock(s.start)}  {clock(s.end)}  {s.step}" for s in self.segments]
        return "\n".join([repr(self), *lines])

    def to_svg(
        self,
        colours: Mapping[str, str] | None = None,
        end: float | None = None,
        height: int = 26,
        label: str = "",
    ) -> str:
        """A bar with a coloured block per segment, as SVG text; names, times and confidence appear on hover.

        colours  of the steps by name; left out, those of their numbers
        end      the time at the right edge, so that bars of several videos share one scale; left out, the video's end
        height   of the bar in pixels
        label    what a screen reader says; left out, the video and its steps

        >>> Timeline(duration=3).to_svg().startswith("<svg")
        True
        """
        check_kind("colours", colours, (Mapping, type(None)), "a dict from step names to colours")
        check_kind("end", end, (Real, type(None)), "seconds")
        check_kind("height", height, Real, "a number of pixels")
        whole = end or self.end or 1.0
        known = (
            {step: colour(number) for number, step in enumerate(self.steps)}
            if colours is None
            else colours
        )
        blocks = [
            f'<rect width="{self.end / whole * _WIDTH:.1f}" height="{height}" fill="{EMPTY_COLOUR}"/>'
        ]
        for segment in self.segments:
            left, width = (
                segment.start / whole * _WIDTH,
                max(segment.duration / whole * _WIDTH, 1.0),
            )
            sure = "" if segment.confidence is None else f", confidence {segment.confidence:.2f}"
            tip = f"{escape(segment.step)}, {clock(segment.start)} to {clock(segment.end)}{sure}"
            shape = f'x="{left:.1f}" width="{width:.1f}" height="{height}"'
            fill = known.get(segment.step, BACKGROUND_COLOUR)
            blocks.append(f'<rect {shape} fill="{fill}"><title>{tip}</title></rect>')
        words = escape(str(label or f"{self.video}: " + ", ".join(self.sequence())), quote=True)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" preserveAspectRatio="none" '
            f'width="100%" height="{height}" role="img" aria-label="{words}">{"".join(blocks)}</svg>'
        )

    def to_pandas(self) -> Any:
        """A pandas DataFrame with a row per segment: video, step, start, end, duration, confidence."""
        columns = ("video", "step", "start", "end", "duration", "confidence")
        rows = [
            (self.video, s.step, s.start, s.end, s.duration, s.confidence) for s in self.segments
        ]
        return data_frame(columns, rows)

    def _repr_html_(self) -> str:
        """The names on their colours, the bar and its axis, for notebooks."""
        used = set(self.sequence())
        chips = legend(
            {step: colour(number) for number, step in enumerate(self.steps) if step in used}
        )
        return f"<div><p>{escape(repr(self))}</p><p>{chips}</p>{self.to_svg()}{draw_axis(self.end)}</div>"


def draw_axis(end: float) -> str:
    """The scale beneath bars that share it, as SVG text: a mark at round times up to `end`."""
    whole = end or 1.0
    spans = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)
    span = next((each for each in spans if whole / each <= 10), 3600 * math.ceil(whole / 36000))
    marks = []
    for number in range(int(whole / span) + 1):
        left = 100 * number * span / whole
        anchor = "start" if number == 0 else "end" if left > 97 else "middle"
        shown = clock(number * span)[:-2].lstrip("0:") or 0
        marks.append(f'<text x="{left:.2f}%" y="13" text-anchor="{anchor}">{shown}</text>')
    style = 'style="font:11px sans-serif;fill:#7a838e"'
    return f'<svg class="axis" width="100%" height="18" {style} aria-hidden="true">{"".join(marks)}</svg>'


def clock(seconds: float) -> str:
    """A time, `seconds`, as a person reads it.

    >>> clock(192.43)
    '00:03:12.4'
    """
    tenths = round(seconds * 10)
    whole, rest = divmod(abs(tenths), 10)
    return f"{'-' if tenths < 0 else ''}{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}.{rest}"
