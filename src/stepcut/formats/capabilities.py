"""What a format can hold of a timeline, as a small table; from it follow the stated losses and the round-trip tests."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from stepcut.errors import AnnotationError
from stepcut.formats.names import video_name
from stepcut.formats.options import NONE, Options
from stepcut.timeline import Segment, Timeline


@dataclass(frozen=True)
class Keeps:
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
    duration: bool = True
    confidence: bool = True
    empty: bool = True
    """A timeline without segments; else it is refused."""


UNIT = {"micro": 1_000_000, "milli": 1_000}
"""Into how many parts some formats divide a second."""


def kept(timeline: Timeline, keeps: Keeps, stem: str = "", options: Options = NONE) -> Timeline:
    """The timeline as it comes back from a format: `read(write(x)) == kept(x)`, the law that every format obeys."""
    if not keeps.overlaps:
        timeline = per_frame(timeline, options.frame_rate("frames"))
    names = {step: kept_name(step, keeps) for step in timeline.steps}
    segments = [_kept_segment(segment, keeps, options, names) for segment in timeline.segments]
    occurring = Timeline(segments).steps
    vocabulary = tuple(dict.fromkeys(names.values()))
    if keeps.steps == "none":
        vocabulary = occurring
    elif keeps.steps == "order":
        vocabulary = tuple(step for step in vocabulary if step in occurring)
    videos = {"full": timeline.video, "name": video_name(timeline.video), "file": stem}
    return Timeline(segments, timeline.duration if keeps.duration else None, vocabulary, videos[keeps.video])


def _kept_segment(segment: Segment, keeps: Keeps, options: Options, names: dict[str, str]) -> Segment:
    start, end = segment.start, segment.end
    if keeps.times in UNIT:
        first, last = whole_units(segment, UNIT[keeps.times], keeps.instants)
        start, end = first / UNIT[keeps.times], last / UNIT[keeps.times]
    elif keeps.times == "frames" and keeps.overlaps:
        rate = options.frame_rate("frames")
        first, last = whole_units(segment, rate, keeps.instants)
        start, end = float(first / rate), float(last / rate)
    confidence = segment.confidence if keeps.confidence else None
    return replace(segment, start=start, end=end, step=names[segment.step], confidence=confidence)


def whole_units(segment: Segment, unit: int | Fraction, instants: bool = True) -> tuple[int, int]:
    """Start and end in whole units of 1 / unit seconds; without `instants`, at least one unit long.

    >>> whole_units(Segment(1.0004, 2.0, "stir"), 1000)
    (1000, 2000)
    """
    first, last = round(Fraction(segment.start) * unit), round(Fraction(segment.end) * unit)
    return first, last if instants else max(last, first + 1)


def per_frame(timeline: Timeline, rate: Fraction) -> Timeline:
    """One step per frame: frame `i` stands for `[i / rate, (i + 1) / rate)` and is labelled by its middle."""
    frames = math.ceil(Fraction(timeline.end) * rate - Fraction(1, 1000))
    numbers = timeline.labels((np.arange(frames) + 0.5) / float(rate))
    return Timeline.from_labels(numbers, float(rate), timeline.steps, video=timeline.video)


def kept_name(step: str, keeps: Keeps) -> str:
    """A step name as it comes back.

    >>> kept_name(" add  jam", Keeps(names="line")), kept_name("add jam", Keeps(names="word"))
    ('add jam', 'add_jam')
    """
    if keeps.names == "any":
        return step
    if keeps.names == "trimmed":
        return re.sub("\r\n?", "\n", step).strip()
    return ("_" if keeps.names == "word" else " ").join(step.split())


def stated_losses(keeps: Keeps) -> list[str]:
    """What a format does not keep, in words; docs/formats.md lists exactly these.

    >>> stated_losses(Keeps(times="milli", confidence=False))
    ['times are rounded to a millisecond', 'confidence is lost']
    """
    times = {"micro": "a microsecond", "milli": "a millisecond", "frames": "a frame"}
    names = {
        "trimmed": "outer spaces of names are lost, line breaks become \\n",
        "line": "names become one line with single spaces",
        "word": "spaces in names become underscores",
    }
    losses = [
        (f"times are rounded to {times.get(keeps.times)}", keeps.times != "exact"),
        (names.get(keeps.names, ""), keeps.names != "any"),
        ("steps that do not occur are lost", keeps.steps == "order"),
        ("the order of the vocabulary and steps that do not occur are lost", keeps.steps == "none"),
        ("zero-length segments get the shortest length", not keeps.instants and keeps.overlaps),
        ("zero-length segments are lost, the later of two overlapping ones wins", not keeps.overlaps),
        ("the length of the video is lost", not keeps.duration),
        ("confidence is lost", not keeps.confidence),
        ("folder and suffix of the video are lost", keeps.video == "name"),
        ("the video is named after the file", keeps.video == "file"),
        ("a timeline without segments is refused", not keeps.empty),
    ]
    return [text for text, lost in losses if lost]


def actual_losses(timeline: Timeline, keeps: Keeps, options: Options = NONE) -> list[str]:
    """Which of the stated losses this timeline does suffer; the name of the video is passed over."""
    everything = Keeps()
    unknown = keeps.times == "frames" and options.rate is None  # then what a frame costs cannot be measured
    found = stated_losses(Keeps(times=keeps.times)) if unknown else []
    passed = {"video", "empty", *(("times", "instants", "overlaps") if unknown else ())}
    for each in fields(Keeps):
        if each.name in passed or getattr(keeps, each.name) == getattr(everything, each.name):
            continue
        # The shortest length depends on the unit of time, so the two are probed together.
        unit: dict[str, Any] = {"times": keeps.times} if each.name == "instants" and keeps.overlaps else {}
        before = kept(timeline, replace(everything, **unit), timeline.video, options)
        alone = replace(everything, **unit, **{each.name: getattr(keeps, each.name)})
        after = kept(timeline, alone, timeline.video, options)
        if before != after or [s.confidence for s in before] != [s.confidence for s in after]:
            found += [text for text in stated_losses(alone) if text not in stated_losses(replace(everything, **unit))]
    return found


# XML and WebVTT cannot hold these, and no step is named with them on purpose.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


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
