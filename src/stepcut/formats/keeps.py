"""What a format can hold of a timeline, as a small table; from it follow the stated losses and the round-trip tests."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from stepcut.errors import AnnotationError
from stepcut.timeline import Segment, Timeline


@dataclass(frozen=True)
class Keeps:
    """What survives being written and read back. The defaults are those of the native JSON: everything."""

    times: Literal["exact", "micro", "milli", "frames"] = "exact"
    """Floats in full, six decimals, three decimals, or the nearest frame."""
    names: Literal["any", "trimmed", "line", "word"] = "any"
    """In full; without outer spaces; in one line with single spaces; in one word with underscores."""
    steps: Literal["all", "order", "none"] = "all"
    """The whole vocabulary; the order of those that occur; or only the order of occurrence."""
    instants: bool = True
    """Segments of zero length; else they become as long as the shortest the format can hold."""
    overlaps: bool = True
    """Segments that share time; else the one that starts later wins and equal neighbours join."""
    duration: bool = True
    video: bool = True
    """The name of the video; else it is taken from the file's name."""
    confidence: bool = True
    empty: bool = True
    """A timeline without segments; else it is refused."""


UNIT = {"micro": 1_000_000, "milli": 1_000}
"""The units of a second in which some formats count."""


def kept(timeline: Timeline, keeps: Keeps, stem: str = "", rate: Fraction | None = None) -> Timeline:
    """The timeline as it comes back from a format: `read(write(x)) == kept(x)`, the law that every format obeys."""
    if keeps.times == "frames" and not keeps.overlaps:
        timeline = _per_frame(timeline, frame_rate(rate, "frames"))
    names = {step: kept_name(step, keeps) for step in timeline.steps}
    segments = [_kept_segment(s, keeps, rate, names) for s in timeline.segments]
    again = Timeline(segments)
    vocabulary = tuple(dict.fromkeys(names.values()))
    if keeps.steps == "none":
        vocabulary = again.steps
    elif keeps.steps == "order":
        vocabulary = tuple(step for step in vocabulary if step in set(again.steps))
    return Timeline(
        segments,
        duration=timeline.duration if keeps.duration else None,
        steps=vocabulary,
        video=timeline.video if keeps.video else stem,
    )


def _kept_segment(segment: Segment, keeps: Keeps, rate: Fraction | None, names: dict[str, str]) -> Segment:
    start, end = segment.start, segment.end
    if keeps.times in UNIT:
        unit = UNIT[keeps.times]
        first, last = round(start * unit), round(end * unit)
        start, end = first / unit, (last if keeps.instants else max(last, first + 1)) / unit
    elif keeps.times == "frames" and keeps.overlaps:
        each = frame_rate(rate, "frames")
        first, last = round(start * each), round(end * each)
        start, end = float(first / each), float((last if keeps.instants else max(last, first + 1)) / each)
    confidence = segment.confidence if keeps.confidence else None
    return replace(segment, start=start, end=end, step=names[segment.step], confidence=confidence)


def _per_frame(timeline: Timeline, rate: Fraction) -> Timeline:
    """One step per frame: frame `i` stands for `[i / rate, (i + 1) / rate)` and is labelled by its middle."""
    numbers = timeline.labels([float((i + Fraction(1, 2)) / rate) for i in range(frame_count(timeline, rate))])
    length = float(len(numbers) / rate)
    return Timeline.from_labels(numbers, float(rate), timeline.steps, duration=length, video=timeline.video)


def frame_count(timeline: Timeline, rate: Fraction) -> int:
    """How many frames a video of this length has."""
    return math.ceil(Fraction(timeline.end) * rate - Fraction(1, 1000))


def kept_name(step: str, keeps: Keeps) -> str:
    """A step name as it comes back.

    >>> kept_name(" add  jam", Keeps(names="line")), kept_name("add jam", Keeps(names="word"))
    ('add jam', 'add_jam')
    """
    if keeps.names == "any":
        return step
    if keeps.names == "trimmed":
        return step.strip()
    return ("_" if keeps.names == "word" else " ").join(step.split())


def frame_rate(rate: Fraction | None, what: str) -> Fraction:
    """The frame rate that was given, or an error that asks for it."""
    if rate is None:
        raise AnnotationError(
            f"{what}: this format counts frames and no frame rate is known. "
            "Give it: rate=30 in Python, --rate 30 on the command line (30000/1001 for 29.97)."
        )
    return rate


# XML and WebVTT cannot hold these, and no step is named with them on purpose.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def check_writable(timelines: Sequence[Timeline], keeps: Keeps, format_name: str) -> None:
    """Refuse what a format cannot hold in any form, before anything is written."""
    for timeline in timelines:
        where = timeline.video or "timeline"
        if not timeline.segments and not keeps.empty:
            raise AnnotationError(
                f"{where}: it has no segments, and a file of format {format_name!r} cannot say so. Write it as JSON."
            )
        for segment in timeline.segments:
            if segment.start < 0:
                raise AnnotationError(
                    f"{where}: {segment.step!r} starts at {segment.start:g} s; a label file begins at 0. "
                    "Crop the timeline first: timeline.crop(0, timeline.end)."
                )
        shown = [kept_name(step, keeps) for step in timeline.steps]
        for step, name in zip(timeline.steps, shown, strict=True):
            if not name.strip() or _UNPRINTABLE.search(name):
                raise AnnotationError(
                    f"{where}: the step name {step!r} is empty or holds control characters. Rename the step first."
                )
        if len(set(shown)) != len(shown):
            twice = sorted({name for name in shown if shown.count(name) > 1})
            raise AnnotationError(
                f"{where}: in format {format_name!r} two steps would both be named {twice[0]!r}. Rename one of them."
            )
