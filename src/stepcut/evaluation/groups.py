"""Compare how two groups of people do a procedure: durations, counts and order.

For every step and the whole procedure:

- the Mann-Whitney test of the seconds, with Cliff's delta, P(A > B) - P(A < B), from -1 to 1;
- Fisher's exact test of how many videos miss or repeat a step, with the difference of the shares;
- the share of pairs of steps in an unusual order.

The p-values of all rows that vary are corrected together after Holm.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations, groupby
from typing import NamedTuple

import numpy as np

from stepcut.errors import OptionError
from stepcut.evaluation.budget import error_note, is_unchecked, true_range
from stepcut.evaluation.compare import adjust
from stepcut.order.likelihood import count_first
from stepcut.order.orders import counted, grouped
from stepcut.tables import Cell, Table
from stepcut.timeline import Timeline

COLUMNS = ["what", "step", "A", "B", "effect", "p", "p corrected"]
RANGES = ["A from", "A to", "B from", "B to"]
"""Columns of the 80 % intervals of seconds, if segments are unchecked."""
LEVEL = 0.05
"""Corrected p-values below this count as a difference."""


class Difference(NamedTuple):
    """One comparison of the groups."""

    what: str
    step: str
    first: float
    second: float
    effect: float
    p: float | None
    """None if all videos have the same value, so that there is nothing to test."""


def compare_groups(
    first: Sequence[Timeline],
    second: Sequence[Timeline],
    steps: Sequence[str],
    names: tuple[str, str] = ("A", "B"),
    labelled: bool = False,
) -> Table:
    """Compare the timelines of two groups of at least two videos each.

    The table has the differences, in all and per step, smallest p first. Rows without variation
    come last, have no p and do not enter the correction for multiple tests. `names` are those of
    the groups in the caption. If segments are unchecked predictions, seconds have 80 % intervals,
    which depend on whether the steps were learned with labels (`labelled`).
    """
    for name, group in zip(names, (first, second), strict=True):
        if len(group) < 2:
            raise OptionError(
                f"group {name} has {counted(len(group))}, but needs at least two.",
                setting=f"group {name}",
                value=len(group),
            )
    unchecked = any(is_unchecked(one) for group in (first, second) for t in group for one in t)
    found = [_lengths("seconds", "(whole video)", [t.end for t in first], [t.end for t in second])]
    for step in steps:
        times = [[_times(timeline)[step] for timeline in group] for group in (first, second)]
        spent = [[_spent(t)[step] for t in group if step in _spent(t)] for group in (first, second)]
        if all(spent):
            found.append(_lengths("seconds", step, *spent))
        found.append(
            _shares("missing", step, *[[count == 0 for count in group] for group in times])
        )
        found.append(
            _shares("repeated", step, *[[count > 1 for count in group] for group in times])
        )
    found.append(_lengths("exchanged pairs", "(order)", *_exchanged(first, second, steps)))
    tested = [one for one in found if one.p is not None]
    corrected = adjust([one.p for one in tested if one.p is not None])
    ranked = sorted(zip(tested, corrected, strict=True), key=lambda row: (row[1], row[0].p))
    same: list[tuple[Difference, float | None]] = [(one, None) for one in found if one.p is None]
    rows: list[list[Cell]] = [[*one, p] for one, p in (*ranked, *same)]
    if unchecked:
        for row in rows:
            ranges = [_range(group, str(row[1]), labelled) for group in (first, second)]
            known = row[0] == "seconds" and row[1] in steps
            row += [end for one in ranges for end in one] if known else [None] * len(RANGES)
    notes = [
        "seconds: medians and Cliff's delta, P(A > B) - P(A < B); missing, repeated: shares and "
        "their difference;",
        "exchanged pairs: share of step pairs in another order than in most videos;",
        f"p corrected: after Holm, for the {len(tested)} rows that vary between videos.",
    ]
    notes += [error_note(labelled)] if unchecked else []
    columns = COLUMNS + (RANGES if unchecked else [])
    return Table(columns, rows, summarize(ranked, names), notes, digits=3)


def _range(group: Sequence[Timeline], step: str, labelled: bool) -> Iterable[float]:
    """Return the medians of the 80 % intervals of the seconds of a step in the videos with it."""
    ends = [
        true_range([one for one in timeline if one.step == step], labelled)
        for timeline in group
        if step in timeline.sequence()
    ]
    return np.median(ends, axis=0).tolist() if ends else (0.0, 0.0)


def summarize(ranked: Sequence[tuple[Difference, float]], names: tuple[str, str]) -> str:
    """Describe the differences of the groups in one sentence."""
    sure = [one for one, p in ranked if p < LEVEL]
    if not ranked:
        return f"{names[0]} and {names[1]} are equal in every comparison."
    if not sure:
        least = ranked[0][1]
        return (
            f"No significant difference between {names[0]} and {names[1]} "
            f"(smallest corrected p = {least:.3f}, {len(ranked)} comparisons)."
        )
    phrases = [_in_words(one, names) for one in sure[:3]]
    more = f", and in {len(sure) - 3} more ways" if len(sure) > 3 else ""
    listed = "; ".join(phrases)
    return f"{names[0]} and {names[1]} differ: {listed}{more} (corrected p < {LEVEL:g})."


def _in_words(one: Difference, names: tuple[str, str]) -> str:
    """Describe a difference: `novices take longer for stir (12 s against 8 s)`."""
    if one.what == "seconds":
        where = "" if one.step.startswith("(") else f" for {one.step}"
        who = names[0] if one.effect > 0 else names[1]
        low, high = sorted((one.first, one.second))
        return f"{who} take longer{where} (median {high:.1f} s against {low:.1f} s)"
    who, most, least = (
        (names[0], one.first, one.second) if one.effect > 0 else (names[1], one.second, one.first)
    )
    if one.what == "exchanged pairs":
        return f"{who} change the order more often"
    verb = "miss" if one.what == "missing" else "repeat"
    return f"{who} {verb} {one.step} more often ({most:.0%} against {least:.0%} of videos)"


def _spent(timeline: Timeline) -> dict[str, float]:
    return {
        step: sum(spent)
        for step, spent in grouped((one.step, one.duration) for one in timeline).items()
    }


def _times(timeline: Timeline) -> Counter[str]:
    """Count how often each step is done; a pause does not make a repetition."""
    return Counter(step for step, _ in groupby(segment.step for segment in timeline))


def _lengths(what: str, step: str, first: Sequence[float], second: Sequence[float]) -> Difference:
    from scipy.stats import mannwhitneyu

    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    delta = float(np.sign(a[:, None] - b[None]).mean())
    p = float(mannwhitneyu(a, b).pvalue) if len({*first, *second}) > 1 else None
    return Difference(what, step, float(np.median(a)), float(np.median(b)), delta, p)


def _shares(what: str, step: str, first: Sequence[bool], second: Sequence[bool]) -> Difference:
    from scipy.stats import fisher_exact

    counts = [[sum(group), len(group) - sum(group)] for group in (first, second)]
    a, b = float(np.mean(first)), float(np.mean(second))
    p = float(fisher_exact(counts).pvalue) if len({*first, *second}) > 1 else None
    return Difference(what, step, a, b, a - b, p)


def _exchanged(
    first: Sequence[Timeline], second: Sequence[Timeline], steps: Sequence[str]
) -> list[list[float]]:
    """Return per video the share of step pairs in another order than in most videos."""
    number = {step: place for place, step in enumerate(steps)}
    orders = [
        [
            [number[step] for step in dict.fromkeys(timeline.sequence()) if step in number]
            for timeline in group
        ]
        for group in (first, second)
    ]
    counts = count_first([order for group in orders for order in group], len(steps))
    return [
        [
            float(
                np.mean([counts[a, b] < counts[b, a] for a, b in combinations(order, 2)] or [0.0])
            )
            for order in group
        ]
        for group in orders
    ]
