"""How far two annotators, or an annotator and a proposal, agree: Cohen's kappa, boundaries, and
where they do not."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepcut.checks import check_number
from stepcut.errors import AnnotationError
from stepcut.evaluation.clock import merge_names
from stepcut.files.names import match_videos, plain
from stepcut.tables import Cell, Table
from stepcut.timeline import BACKGROUND, Segment, Timeline, is_unnamed

NOTHING = "(no step)"


class Stretch(NamedTuple):
    """A stretch of time in which neither changes their mind."""

    start: float
    end: float
    first: str
    second: str


@dataclass(frozen=True)
class Agreement:
    """What `agree` finds in one video, or in several together."""

    seconds: float
    same: float
    """The share of time in which both say the same."""
    kappa: float
    """Cohen's kappa over time, (p - q) / (1 - q) with p the share of agreement and q that of
    chance: 1 is perfect; nan where only one thing is ever said."""
    boundaries: float
    """F1 of the boundaries, each matched with one of the other within the tolerance, or with an end
    of the video, which both have and which does not count."""
    distance: float
    """Seconds between matched boundaries, the median; nan without any."""
    disagreements: tuple[Stretch, ...]
    """Where they differ, the longest first."""


def agree(pairs: Sequence[tuple[Timeline, Timeline]], tolerance: float = 1.0) -> Agreement:
    """Compare two timelines of each video, as if all were one: times and boundaries are added up
    before any division.

    pairs      two timelines for each video; steps are the same where their names are, and what
               none covers is `(no step)`
    tolerance  seconds by which two boundaries may differ

    >>> ours = Timeline([Segment(0, 4, "pour"), Segment(4, 10, "stir")])
    >>> found = agree([(ours, Timeline([Segment(0, 5, "pour"), Segment(5, 10, "stir")]))])
    >>> found.same, found.boundaries, found.distance
    (0.9, 1.0, 1.0)
    """
    from sklearn.metrics import cohen_kappa_score

    check_number("tolerance", tolerance, 0)
    mass: dict[tuple[str, str], float] = {}
    matched: list[float] = []
    boundaries = 0
    apart: list[Stretch] = []
    for one, other in pairs:
        found = stretches(one, other)
        for start, end, a, b in found:
            mass[a, b] = mass.get((a, b), 0.0) + end - start
        ours, theirs = (
            [left.end for left, right in pairwise(found) if left[side] != right[side]]
            for side in (2, 3)
        )
        alike = match_boundaries(ours, theirs, tolerance)
        alone = [
            *({*ours} - {pair[0] for pair in alike}),
            *({*theirs} - {pair[1] for pair in alike}),
        ]
        boundaries += 2 * len(alike) + sum(
            tolerance < time < found[-1].end - tolerance for time in alone
        )
        matched += [abs(a - b) for a, b in alike]
        apart += [stretch for stretch in found if stretch.first != stretch.second]
    kappa, total = math.nan, sum(mass.values())
    if len({said for both in mass for said in both}) > 1:
        kappa = float(
            cohen_kappa_score(*zip(*mass, strict=True), sample_weight=list(mass.values()))
        )
    same = sum(seconds for (a, b), seconds in mass.items() if a == b) / total if total else math.nan
    return Agreement(
        total,
        same,
        kappa,
        2 * len(matched) / boundaries if boundaries else math.nan,
        median(matched) if matched else math.nan,
        tuple(sorted(apart, key=lambda stretch: stretch.start - stretch.end)),
    )


def stretches(first: Timeline, second: Timeline) -> list[Stretch]:
    """The time of the longer of `first` and `second`, cut wherever one of them changes."""
    ends = {
        0.0,
        first.end,
        second.end,
        *(time for t in (first, second) for s in t for time in (s.start, s.end)),
    }
    cuts = np.array(sorted(ends))
    middles: NDArray[Any] = (cuts[:-1] + cuts[1:]) / 2
    said = [
        [NOTHING if k == BACKGROUND else t.steps[k] for k in t.labels(middles).tolist()]
        for t in (first, second)
    ]
    cut = zip(pairwise(cuts.tolist()), zip(*said, strict=True), strict=True)
    found = []
    for both, group in groupby(
        cut, key=lambda each: each[1]
    ):  # a cut at which neither changes is none
        times = [time for time, _ in group]
        found.append(Stretch(times[0][0], times[-1][1], *both))
    return found


def match_boundaries(
    first: Sequence[float], second: Sequence[float], tolerance: float
) -> list[tuple[float, float]]:
    """As many pairs as there can be of boundaries in `first` and `second` within the `tolerance`,
    and of all ways to pair as many the one in which they lie least apart."""
    from scipy.optimize import linear_sum_assignment

    apart = np.abs(np.subtract.outer(first, second))
    near = apart <= tolerance
    # One pair more is worth more than all distances together.
    reward = 1 + apart[near].max(initial=0.0) * min(apart.shape)
    chosen = linear_sum_assignment(np.where(near, apart - reward, 0.0))
    return [(first[i], second[j]) for i, j in zip(*chosen, strict=True) if near[i, j]]


def match_steps(
    pairs: Sequence[tuple[Timeline, Timeline]],
) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """New names for the steps of both sides, such that equal names mean equal steps, and notes.

    Steps have the same name up to capitals, spaces and underscores. A placeholder such as `step 1`
    is no name: it takes the step of the other side with which it shares most time, by the best
    one-to-one matching. Where both sides have the same placeholder beside names, it is the same
    step."""
    from scipy.optimize import linear_sum_assignment

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
    for one, other in pairs:
        for start, end, a, b in stretches(one, other):
            if a in rows and b in columns and (a in unnamed[0] or b in unnamed[1]):
                shared[rows.index(a), columns.index(b)] += end - start
    found = [
        (rows[i], columns[j])
        for i, j in zip(*linear_sum_assignment(-shared), strict=True)
        if shared[i, j] > 0
    ]
    names = [
        {step: f"{step} (no name yet)" for step in side if plain(step) in named[0] | named[1]}
        for side in unnamed
    ]
    for a, b in found:
        if a in unnamed[0]:
            names[0][a] = b
        else:
            names[1][b] = a
    notes = []
    if any(unnamed):
        listed = ", ".join(f"{a} = {b}" for a, b in found) or "none"
        notes.append(f"Steps without a name were matched by the time they share: {listed}.")
    timelines = [
        timeline.rename(new)
        for side, new in enumerate(names)
        for timeline in (pair[side] for pair in pairs)
    ]
    spelled, _ = merge_names(timelines)
    full = [
        {step: spelled.get(new.get(step, step), step) for step in side}
        for side, new in zip(sides, names, strict=True)
    ]
    return full[0], full[1], notes


def compare_annotations(
    first: Mapping[str, Timeline], second: Mapping[str, Timeline], tolerance: float = 1.0
) -> tuple[Table, dict[str, Timeline]]:
    """Compare two annotations of the same videos.

    Parameters
    ----------
    first, second
        Timelines by video. Videos are matched by name, and so are steps; placeholders such as
        `step 1` are matched by overlap.
    tolerance
        Seconds by which two boundaries may differ.

    Returns
    -------
    table, disagreements
        A row for each video that both have and one for all; timelines of where they differ, with
        steps such as `pour | stir`.

    Raises
    ------
    AnnotationError
        The two have no video in common.
    """
    common = match_videos(first, second)
    if not common:
        some = " and ".join(", ".join(list(names)[:3]) for names in (first, second))
        what = f"the two have no video in common: {some}"
        raise AnnotationError(f"{what}. They are matched by name.")
    both = [(first[ours], second[theirs]) for ours, theirs in common.items()]
    ours, theirs, notes = match_steps(both)
    pairs = {
        name: (one.rename(ours), other.rename(theirs))
        for name, (one, other) in zip(common, both, strict=True)
    }
    found = {name: agree([pair], tolerance) for name, pair in pairs.items()}
    whole = agree(list(pairs.values()), tolerance)
    rows: list[list[Cell]] = [
        [name, each.seconds, each.kappa, 100 * each.same, 100 * each.boundaries, each.distance]
        for name, each in [*found.items(), ("all", whole)]
    ]
    columns = [
        "video",
        "seconds",
        "kappa",
        "same %",
        f"boundaries within {tolerance:g} s %",
        "median apart s",
    ]
    if left_out := sorted({*first, *second} - {*common, *common.values()}):
        notes.append(f"Only one of the two has: {', '.join(left_out)}.")
    apart = {
        name: Timeline(
            [Segment(s.start, s.end, f"{s.first} | {s.second}") for s in each.disagreements],
            video=name,
        )
        for name, each in found.items()
    }
    return Table(columns, rows, notes=notes, digits=2), apart
