"""What a timeline becomes in a format, by what the format says it keeps: the oracle of the round trips."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from stepcut.files.names import video_name
from stepcut.formats.capabilities import UNIT, Capabilities, as_written, rounded, touching
from stepcut.formats.common import NONE, Options
from stepcut.timeline import Timeline


def as_read_back(
    timeline: Timeline, can: Capabilities, stem: str = "", options: Options = NONE
) -> Timeline:
    """The `timeline` as it comes back from a format; every format obeys `read(write(x)) == as_read_back(x)`.

    can      what the format keeps
    stem     the name of the label file, without suffix
    options  with which it is written and read
    """
    timeline = as_written(timeline, can)
    if not can.overlaps:
        timeline = per_frame(timeline, options.frame_rate("frames"))
    elif can.times == "frames":
        timeline = rounded(timeline, options.frame_rate("frames"), can.instants)
    segments = [
        segment if can.confidence else replace(segment, confidence=None) for segment in timeline
    ]
    occurring = Timeline(segments).steps
    vocabulary = timeline.steps
    if can.steps == "none":
        vocabulary = occurring
    elif can.steps == "order":
        vocabulary = tuple(step for step in vocabulary if step in occurring)
    videos = {"full": timeline.video, "name": video_name(timeline.video), "file": stem}
    duration = {True: timeline.duration, False: None, "end": timeline.end}[can.duration]
    unit = UNIT.get(can.times) or (options.rate if can.times == "frames" else None)
    back = Timeline(segments, duration, vocabulary, videos[can.video])
    return touching(back, unit) if unit else back


def per_frame(timeline: Timeline, rate: Fraction) -> Timeline:
    """The `timeline` with one step per frame: frame `i` is `[i / rate, (i + 1) / rate)`, labelled by its middle."""
    frames = math.ceil(Fraction(timeline.end) * rate - Fraction(1, 1000))
    numbers = timeline.labels((np.arange(frames) + 0.5) / float(rate))
    return Timeline.from_labels(numbers, float(rate), timeline.steps, video=timeline.video)
