"""What a person said of a video, to the moment: it stands as it is, while learning goes by rows of features."""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from stepcut.features.contract import Features
from stepcut.methods.constraints import OPEN
from stepcut.methods.inputs import Array, Labels
from stepcut.procedure.corrections.document import Part, Stretches, join, union
from stepcut.timeline import BACKGROUND, Segment, Timeline, runs


class Words(NamedTuple):
    """What a person said of a video, to the moment: a timeline, and the stretches of it that they spoke of."""

    timeline: Timeline
    known: Stretches

    def spoken(self) -> list[Segment]:
        """The segments, or the pieces of them, that lie in those stretches."""
        end = self.timeline.end
        return [
            s for a, b in self.known for s in self.timeline.crop(a, b if b < end else float("inf"))
        ]


def whole_words(timeline: Timeline, end: float) -> Words:
    """What a `timeline` says of a whole video, which ends at `end`."""
    inside = [
        replace(one, end=min(one.end, end), confidence=None) for one in timeline if one.start <= end
    ]
    return Words(Timeline(inside, end), ((0.0, end),))


def say_anew(before: Words, rows: Labels, names: Sequence[str], rate: Fraction) -> Words:
    """What was said of a video `before`, under what labels of its `rows` (T,), `rate` a second, say now, -2 nothing."""
    end = before.timeline.end
    now = Words(Timeline.from_labels(rows, float(rate), names, end), stretches_of(rows, rate, end))
    rest = Timeline([Segment(*stretch, "") for stretch in now.known], end).gaps()
    kept = [one for stretch in rest for one in before.timeline.crop(*stretch)]
    return Words(Timeline([*kept, *now.spoken()], end), union(before.known, *now.known))


def keep_words(
    words: Words, features: Features, labels: Labels, sure: Array, steps: Sequence[str]
) -> Timeline:
    """What a person said of a video, in these `words`, and elsewhere the `labels` (T,) that were found, as `sure` (T,)
    as they are, which reach up to it."""
    rate, end = float(features.rate), features.duration
    parts = [Part(one.start, one.end, steps.index(one.step)) for one in words.spoken()]
    for begin, until in Timeline([Segment(*stretch, "") for stretch in words.known], end).gaps():
        first = min(
            math.ceil(begin * rate - 0.5), len(labels) - 1
        )  # the first row whose middle lies here
        last = len(labels) if until >= end else max(math.ceil(until * rate - 0.5), first + 1)
        for step, a, b in runs(labels[first:last]).tolist():
            start, stop = (
                begin if a == 0 else (first + a) / rate,
                until if first + b == last else (first + b) / rate,
            )
            parts += (
                [Part(start, stop, step, float(sure[first + a : first + b].mean()))]
                if step != BACKGROUND
                else []
            )
    # A segment that goes on where nobody has spoken of it is one segment.
    cuts = {time for one in words.timeline for time in (one.start, one.end)}
    joined = join(
        sorted(parts, key=lambda part: part[:2]),
        {time for one in words.known for time in one} - cuts,
    )
    told = [Segment(part.start, part.end, steps[part.step], part.confidence) for part in joined]
    return Timeline(told, features.end, steps, features.name)


def stretches_of(rows: Labels, rate: Fraction, end: float) -> Stretches:
    """The stretches of a video up to its `end` that labels of its `rows` (T,) speak of, `rate` a second.

    >>> stretches_of(np.array([-2, 0, -1, -2, 1]), Fraction(2), 2.4)
    ((0.5, 1.5), (2.0, 2.4))
    """
    spoken = [
        (start, last) for said, start, last in runs((rows != OPEN).astype(int)).tolist() if said
    ]
    return tuple(
        (start / float(rate), end if last == len(rows) else last / float(rate))
        for start, last in spoken
    )


def middles(rows: int, rate: Fraction, end: float) -> Array:
    """The times that decide what each of the `rows` is: a row stands for the time from its own to the next one's, and
    the middle decides; what goes beyond the `end` of the video is taken from just before it."""
    return np.asarray(np.clip((np.arange(rows) + 0.5) / float(rate), 0.0, max(end - 1e-6, 0.0)))
