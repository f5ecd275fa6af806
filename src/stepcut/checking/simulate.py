"""Simulated deviations: the videos learned from with a step cut out, an end cut off, two steps exchanged.

They are made from what was observed, without looking at the pictures again. How many of them the limit finds says,
before any video is checked, what a check will be able to tell with so few or so many videos.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from stepcut.checking.observe import Observed
from stepcut.order.graph import ProcedureGraph
from stepcut.order.learn import Occurrence

MOST = 8
"""How many steps of one video are tried."""


def simulated(videos: Sequence[Observed], graph: ProcedureGraph) -> dict[str, list[tuple[int, Observed]]]:
    """Changed videos by what was changed, each with the place of the video that it was made from.

    Neighbours are exchanged where the graph says that one must precede the other: elsewhere it is no deviation.
    """
    found: dict[str, list[tuple[int, Observed]]] = {
        "one step left out": [],
        "half of the video": [],
        "two steps exchanged": [],
    }
    for place, video in enumerate(videos):
        steps = sorted({one.step for one in video.occurrences})
        found["one step left out"] += [(place, without(video, step)) for step in steps[:MOST] if len(steps) > 1]
        found["half of the video"].append((place, first_half(video)))
        neighbours = [pair for pair in pairwise(video.occurrences) if pair[1].step in graph.after(pair[0].step)]
        found["two steps exchanged"] += [(place, exchanged(video, *pair)) for pair in neighbours[:MOST]]
    return found


def without(video: Observed, step: int) -> Observed:
    """The video with every occurrence of a step cut out; what comes after it comes sooner."""
    left, gone = [], 0.0
    for one in video.occurrences:
        if one.step == step:
            gone += one.end - one.start
        else:
            left.append(one._replace(start=one.start - gone, end=one.end - gone))
    return _changed(video, left, max(video.seconds - gone, 1 / video.rate))


def first_half(video: Observed) -> Observed:
    """The video cut off in the middle."""
    half, left = video.seconds / 2, []
    for one in video.occurrences:
        if one.start < half:
            end = min(one.end, half)
            share = (end - one.start) / max(one.end - one.start, 1e-9)
            left.append(one._replace(end=end, spent=share * one.spent))
    return _changed(video, left, half)


def exchanged(video: Observed, first: Occurrence, second: Occurrence) -> Observed:
    """The video with two neighbouring occurrences in each other's place."""
    moved = {
        first: first._replace(start=second.end - (first.end - first.start), end=second.end),
        second: second._replace(start=first.start, end=first.start + (second.end - second.start)),
    }
    order = sorted((moved.get(one, one) for one in video.occurrences), key=lambda one: one.start)
    return _changed(video, order, video.seconds)


def _changed(video: Observed, occurrences: list[Occurrence], seconds: float) -> Observed:
    """What was done otherwise; what was seen of absent steps and of novelty is not known anew."""
    return video._replace(occurrences=occurrences, seconds=seconds, peaks=None, novelty=None)
