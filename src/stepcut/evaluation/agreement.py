"""Agreement of two annotators, or of an annotator and a procedure."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from statistics import median
from typing import NamedTuple

import numpy as np

from stepcut.errors import AnnotationError
from stepcut.evaluation.clock import merge_names, refuse_clicks
from stepcut.files.names import match_videos, plain
from stepcut.methods.arithmetic import best_pairs
from stepcut.settings import check_number
from stepcut.tables import Cell, Table
from stepcut.timeline import BACKGROUND, Segment, Timeline, is_unnamed


class Stretch(NamedTuple):
    """A stretch of time in which neither timeline changes; a gap is the step `(no step)`."""

    start: float
    end: float
    first: str
    second: str


class Agreement(NamedTuple):
    """Agreement in one video, or in several together."""

    seconds: float
    same: float  # share of time with the same label
    # Cohen's (p - q) / (1 - q) over time, p observed, q by chance; nan with only one label
    kappa: float
    # F1; each is matched with one of the other within the tolerance, or an end of the video
    boundaries: float
    distance: float  # median seconds between matched boundaries; nan if there are none
    disagreements: list[Stretch]  # longest first


def agree(pairs: Sequence[tuple[Timeline, Timeline]], tolerance: float = 1.0) -> Agreement:
    """Compare all videos; steps match by name, boundaries up to `tolerance` seconds apart."""
    check_number("tolerance", tolerance, 0)
    mass: dict[tuple[str, str], float] = defaultdict(float)
    matched, boundaries = list[float](), 0
    found = [stretches(*pair) for pair in pairs]
    for video in found:
        for start, end, *labels in video:
            mass[labels[0], labels[1]] += end - start
        ours, theirs = (
            [left.end for left, right in pairwise(video) if left[side] != right[side]]
            for side in (2, 3)
        )
        alike = match_boundaries(ours, theirs, tolerance)
        alone = {*ours} - {a for a, _ in alike}, {*theirs} - {b for _, b in alike}
        inside = [t for side in alone for t in side if tolerance < t < video[-1].end - tolerance]
        boundaries += 2 * len(alike) + len(inside)
        matched += [abs(a - b) for a, b in alike]
    total = sum(mass.values())
    agreed = sum(seconds for (a, b), seconds in mass.items() if a == b)
    apart = [each for video in found for each in video if each.first != each.second]
    return Agreement(
        total,
        agreed / total if total else math.nan,
        _kappa(mass),
        2 * len(matched) / boundaries if boundaries else math.nan,
        median(matched) if matched else math.nan,
        sorted(apart, key=lambda each: each.start - each.end),
    )


def _kappa(mass: Mapping[tuple[str, str], float]) -> float:
    from sklearn.metrics import cohen_kappa_score

    if len({label for both in mass for label in both}) < 2:
        return math.nan
    return float(cohen_kappa_score(*zip(*mass, strict=True), sample_weight=list(mass.values())))


def stretches(first: Timeline, second: Timeline) -> list[Stretch]:
    """Split the time of the longer timeline wherever one of them changes."""
    sides = (first, second)
    times = {time for side in sides for s in side for time in (s.start, s.end)}
    borders = np.array(sorted({0.0, first.end, second.end, *times}))
    labels = [
        ["(no step)" if k == BACKGROUND else t.steps[k] for k in numbers.tolist()]
        for t in sides
        for numbers in [t.labels((borders[:-1] + borders[1:]) / 2)]
    ]
    pieces = zip(pairwise(borders.tolist()), zip(*labels, strict=True), strict=True)
    found = []
    for both, group in groupby(pieces, key=lambda each: each[1]):  # merge equal neighbours
        spans = [span for span, _ in group]
        found.append(Stretch(spans[0][0], spans[-1][1], *both))
    return found


def match_boundaries(
    first: Sequence[float], second: Sequence[float], tolerance: float
) -> list[tuple[float, float]]:
    """Pair as many as possible within the `tolerance`, at the least total distance."""
    apart = np.abs(np.subtract.outer(first, second))
    near = apart <= tolerance
    # One more pair is worth more than all distances together.
    reward = 1 + apart[near].max(initial=0.0) * min(apart.shape)
    return [(first[i], second[j]) for i, j in best_pairs(np.where(near, reward - apart, 0.0))]


def match_steps(
    pairs: Sequence[tuple[Timeline, Timeline]],
) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """New step names for both sides, such that equal names mean equal steps, and notes.

    Case, spaces and underscores do not count. A placeholder such as `step 1` gets the step of the
    other side by the best one-to-one matching of overlaps; the same placeholder beside names on
    both sides is the same step.
    """
    sides = [list(dict.fromkeys(step for pair in pairs for step in pair[i].steps)) for i in (0, 1)]
    unnamed = [{step for step in side if is_unnamed(step)} for side in sides]
    if any(len(found) < len(side) for found, side in zip(unnamed, sides, strict=True)):
        edited = unnamed[0] & unnamed[1]
        unnamed = [found - edited for found in unnamed]
    named = [
        {plain(step) for step in side if step not in found}
        for side, found in zip(sides, unnamed, strict=True)
    ]
    rows, columns = (
        [step for step in side if step in found or plain(step) not in other]
        for side, found, other in zip(sides, unnamed, reversed(named), strict=True)
    )
    shared = np.zeros((len(rows), len(columns)))
    for pair in pairs:
        for start, end, a, b in stretches(*pair):
            if a in rows and b in columns and (a in unnamed[0] or b in unnamed[1]):
                shared[rows.index(a), columns.index(b)] += end - start
    found = [(rows[i], columns[j]) for i, j in best_pairs(shared)]
    taken = named[0] | named[1]
    names = [
        {step: f"{step} (no name yet)" for step in side if plain(step) in taken} for side in unnamed
    ]
    for a, b in found:
        if a in unnamed[0]:
            names[0][a] = b
        else:
            names[1][b] = a
    notes = []
    if any(unnamed):
        listed = ", ".join(f"{a} = {b}" for a, b in found) or "none"
        notes.append(f"Steps without a name are matched by their overlap: {listed}.")
    spelled, _ = merge_names(pair[i].rename(new) for i, new in enumerate(names) for pair in pairs)
    full = [
        {step: spelled.get(new.get(step, step), step) for step in side}
        for side, new in zip(sides, names, strict=True)
    ]
    return full[0], full[1], notes


def compare_annotations(
    first: Mapping[str, Timeline], second: Mapping[str, Timeline], tolerance: float = 1.0
) -> tuple[Table, dict[str, Timeline]]:
    """A table with a row for each common video and one for all, and timelines of the differences.

    Their steps are such as `pour | stir`; see `match_steps` and `agree`.
    """
    common = match_videos(first, second)
    if not common:
        some = " and ".join(", ".join(list(names)[:3]) for names in (first, second))
        what = f"no video in common: {some}"
        raise AnnotationError(f"{what}. Videos are matched by name; rename the label files.")
    both = [(first[ours], second[theirs]) for ours, theirs in common.items()]
    for side in zip(*both, strict=True):
        refuse_clicks(side)
    ours, theirs, notes = match_steps(both)
    if clicks := sum(len(timeline.clicks) for pair in both for timeline in pair):
        notes.append(f"Clicks have no length and are not compared ({clicks}).")
    pairs = [(one.rename(ours), other.rename(theirs)) for one, other in both]
    found = {name: agree([pair], tolerance) for name, pair in zip(common, pairs, strict=True)}
    rows: list[list[Cell]] = [
        [name, each.seconds, each.kappa, 100 * each.same, 100 * each.boundaries, each.distance]
        for name, each in [*found.items(), ("all", agree(pairs, tolerance))]
    ]
    boundaries = f"boundaries within {tolerance:g} s %"
    columns = ["video", "seconds", "kappa", "same %", boundaries, "median apart s"]
    if unmatched := sorted({*first, *second} - {*common, *common.values()}):
        notes.append(f"Only in one of the two: {', '.join(unmatched)}.")
    apart = {
        name: Timeline(
            [Segment(start, end, f"{a} | {b}") for start, end, a, b in each.disagreements],
            video=name,
        )
        for name, each in found.items()
    }
    return Table(columns, rows, notes=notes, digits=2), apart
