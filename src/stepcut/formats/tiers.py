"""Tiers: the rows of ELAN, Praat and BORIS, in which segments must not overlap, and whose labels are to be read."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from pathlib import Path

from stepcut.formats.options import Options
from stepcut.formats.text import fail
from stepcut.timeline import Segment, Timeline

PROPOSAL = "stepcut"
"""The annotator of what stepcut itself proposes; a person's tier goes before it when a file has both."""


def choose_tier(tiers: Mapping[str, Timeline], options: Options, path: Path) -> Timeline:
    """The timeline of the annotator that is named, or of the only person, or else the proposal.

    tiers    annotator -> timeline
    options  may name the annotator
    path     the file, for the error
    """
    if options.annotator is not None and set(tiers) != {""}:
        if options.annotator not in tiers:
            fail(path, f"no tier of {options.annotator!r}; it has {', '.join(map(repr, tiers))}", "Name one of these")
        return tiers[options.annotator]
    people = [name for name, timeline in tiers.items() if name != PROPOSAL and timeline.segments]
    people = people or [name for name in tiers if name == PROPOSAL] or list(tiers)
    if len(people) > 1:
        fail(path, f"has tiers of several annotators: {', '.join(map(repr, people))}", "Say which: annotator=NAME")
    return tiers[people[0]]


def without_overlap(
    timeline: Timeline, ends: Callable[[Segment], tuple[float, float]] = lambda s: (s.start, s.end)
) -> list[list[Segment]]:
    """The segments in as few rows as do not overlap, each in the order of time; at least one row.

    timeline  whose segments
    ends      start and end of a segment in the format's own unit
    """
    rows: list[list[Segment]] = [[]]
    busy: list[tuple[float, int]] = []  # until when, and which row
    for segment in timeline:
        start, end = ends(segment)
        if busy and busy[0][0] <= start:
            row = heapq.heappop(busy)[1]
        elif not busy:
            row = 0
        else:
            row = len(rows)
            rows.append([])
        rows[row].append(segment)
        heapq.heappush(busy, (end, row))
    return rows
