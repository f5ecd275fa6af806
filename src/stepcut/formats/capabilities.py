"""What a format can hold of a timeline, as a small table; from it follow the stated losses and the round-trip tests."""

import heapq
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Literal

from stepcut.errors import AnnotationError
from stepcut.formats.common import LONGEST
from stepcut.timeline import Segment, Timeline


@dataclass(frozen=True)
class Capabilities:
    """What survives being written and read back. The defaults are those of the native JSON: everything."""

    times: Literal["exact", "micro", "milli", "frames"] = "exact"
    """Floats in full, six decimals, three decimals, or the nearest frame."""
    names: Literal["any", "trimmed", "line", "word"] = "any"
    """In full; without outer spaces and with one kind of line break; in one line; in one word with underscores."""
    steps: Literal["all", "order", "none"] = "all"
    """The whole vocabulary; the order of those that occur; or only the order of occurrence."""
    video: Literal["full", "name", "file"] = "full"
    """As it is; the name without folder and suffix; or nothing, so that it is the name of the label file."""
    instants: bool = True
    """Segments of zero length; else they become as long as the shortest the format can hold."""
    overlaps: bool = True
    """Segments that share time; else the one that starts later wins, and equal neighbours join."""
    duration: bool | Literal["end"] = True
    """The length of the video; "end": where it is not known, the end of the last segment becomes it."""
    confidence: bool = True
    empty: bool = True
    """A timeline without segments; else it is refused."""


UNIT = {"micro": 1_000_000, "milli": 1_000}
"""Into how many parts some formats divide a second."""


def as_written(timeline: Timeline, can: Capabilities) -> Timeline:
    """The `timeline` with the names and, unless it counts frames, the times of a format that `can` hold so much."""
    names = {
        step: written_name(step, can) for step in timeline.steps if written_name(step, can) != step
    }
    named = timeline.rename(names) if names else timeline
    return rounded(named, UNIT[can.times], can.instants) if can.times in UNIT else named


def rounded(timeline: Timeline, unit: int | Fraction, instants: bool = True) -> Timeline:
    """The `timeline` with times of whole units, `unit` a second; without `instants`, no segment shorter than one."""
    units = [(segment, whole_units(segment, unit, instants)) for segment in timeline]
    segments = [
        replace(each, start=float(first / unit), end=float(last / unit))
        for each, (first, last) in units
    ]
    return replace(timeline, segments=tuple(segments))


def whole_units(segment: Segment, unit: int | Fraction, instants: bool = True) -> tuple[int, int]:
    """Start and end of a `segment` in whole units of 1 / unit seconds; without `instants`, at least one unit long.

    >>> whole_units(Segment(1.0004, 2.0, "stir"), 1000)
    (1000, 2000)
    """
    first, last = round(Fraction(segment.start) * unit), round(Fraction(segment.end) * unit)
    return first, last if instants else max(last, first + 1)


def touching(timeline: Timeline, unit: int | Fraction) -> Timeline:
    """The `timeline`; a segment that ends at most one unit, 1 / unit seconds, after the next one starts ends there.

    So much is the rounding of who wrote it; segments that overlap by more stay as they are.

    >>> touching(Timeline([Segment(0, 2.04, "pour"), Segment(2, 3, "stir")]), 25).segments[0].end
    2
    """
    starts = sorted({segment.start for segment in timeline})
    next_start = dict(pairwise([*starts, math.inf]))
    segments = [
        replace(s, end=next_start[s.start])
        if 0 < (s.end - next_start[s.start]) * unit < 1.001
        else s
        for s in timeline
    ]
    return replace(timeline, segments=tuple(segments))


def without_overlap(timeline: Timeline) -> list[list[Segment]]:
    """The segments of a `timeline` in as few rows as do not overlap, each in the order of time; at least one row."""
    rows: list[list[Segment]] = [[]]
    busy: list[tuple[float, int]] = [(-math.inf, 0)]  # until when, and which row
    for segment in timeline:
        if busy[0][0] <= segment.start:
            row = heapq.heappop(busy)[1]
        else:
            row = len(rows)
            rows.append([])
        rows[row].append(segment)
        heapq.heappush(busy, (segment.end, row))
    return rows


def written_name(step: str, can: Capabilities) -> str:
    """The name of a `step` as it comes back from a format that `can` hold so much.

    >>> written_name(" add  jam", Capabilities(names="line")), written_name("add jam", Capabilities(names="word"))
    ('add jam', 'add_jam')
    """
    if can.names == "any":
        return step
    if can.names == "trimmed":
        return re.sub("\r\n?", "\n", step).strip()
    return ("_" if can.names == "word" else " ").join(step.split())


def stated_losses(
    can: Capabilities, timeline: Timeline | None = None, rate: Fraction | None = None
) -> list[str]:
    """What a format that `can` hold so much does not keep, in words; docs/formats.md lists exactly these.

    With a `timeline`: what of this it suffers where it is written with `rate` frames a second, its name aside.

    >>> stated_losses(Capabilities(times="milli", confidence=False))
    ['times are rounded to a millisecond', 'confidence is lost']
    >>> stated_losses(Capabilities(times="milli", confidence=False), Timeline([Segment(0, 1.5, "pour", 0.9)]))
    ['confidence is lost']
    """
    times = {"micro": "a microsecond", "milli": "a millisecond", "frames": "a frame"}
    names = {
        "trimmed": "outer spaces of names are lost, line breaks become \\n",
        "line": "names become one line with single spaces",
        "word": "spaces in names become underscores",
    }
    t = Timeline() if timeline is None else timeline
    unit = UNIT.get(can.times, rate)  # without one it cannot be measured
    moved = unit is None or touching(rounded(t, unit), unit) != t
    short = unit is not None and any(whole_units(s, unit) != whole_units(s, unit, False) for s in t)
    reordered = t.steps != Timeline(t.segments).steps
    hidden = any(s.start == s.end for s in t) or len(without_overlap(t)) > 1
    losses = [
        (f"times are rounded to {times.get(can.times)}", can.times != "exact", moved),
        (
            names.get(can.names, ""),
            can.names != "any",
            any(written_name(step, can) != step for step in t.steps),
        ),
        (
            "steps that do not occur are lost",
            can.steps == "order",
            set(t.steps) != set(t.sequence()),
        ),
        (
            "the order of the vocabulary and steps that do not occur are lost",
            can.steps == "none",
            reordered,
        ),
        ("zero-length segments get the shortest length", not can.instants and can.overlaps, short),
        (
            "zero-length segments are lost, the later of two overlapping ones wins",
            not can.overlaps,
            hidden,
        ),
        ("the length of the video is lost", not can.duration, t.duration is not None),
        (
            "a video of unknown length ends with its last segment",
            can.duration == "end",
            t.duration is None,
        ),
        ("confidence is lost", not can.confidence, any(s.confidence is not None for s in t)),
        ("folder and suffix of the video are lost", can.video == "name", False),
        ("the video is named after the file", can.video == "file", False),
        ("a timeline without segments is refused", not can.empty, False),
    ]
    return [
        text for text, lacking, suffered in losses if lacking and (timeline is None or suffered)
    ]


# XML and WebVTT cannot hold these, and no step is named with them on purpose.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def check_writable(timelines: Sequence[Timeline], can: Capabilities, format_name: str) -> None:
    """Refuse `timelines` that the format `format_name`, with what it `can` hold, has no form for, before writing."""
    for timeline in timelines:
        where = timeline.video or "timeline"
        if not timeline.segments and not can.empty:
            raise AnnotationError(
                f"{where}: it has no segments; format {format_name!r} cannot say so. Write JSON."
            )
        for segment in timeline.segments:
            if not 0 <= segment.start <= segment.end < LONGEST:
                times = (
                    f"{segment.step!r} starts at {segment.start:g} s and ends at {segment.end:g} s"
                )
                asked = "a label file begins at 0, and no video is that long. Use timeline.crop(0, timeline.end)"
                raise AnnotationError(f"{where}: {times}; {asked}.")
        shown = [written_name(step, can) for step in timeline.steps]
        counts = Counter(shown)
        for step, name in zip(timeline.steps, shown, strict=True):
            if not name.strip() or _UNPRINTABLE.search(name):
                raise AnnotationError(
                    f"{where}: the name {step!r} is empty or holds control characters. Rename it."
                )
            if counts[name] > 1:
                raise AnnotationError(
                    f"{where}: in {format_name!r} two steps would be named {name!r}. Rename one."
                )
