"""Comparisons: baselines, tests of two rows of a table, and of how two groups of people differ.

Per step and in all, groups have the Mann-Whitney test of seconds, with Cliff's delta, P(A > B) -
P(A < B); Fisher's exact test of videos that miss or repeat a step; the share of pairs of steps in
an unusual order. The p-values of all rows that vary are corrected together after Holm.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, groupby
from typing import NamedTuple

import numpy as np

from stepcut.errors import OptionError
from stepcut.evaluation.times import error_note, is_unchecked, true_range
from stepcut.methods import METHODS
from stepcut.methods.inputs import Array, Labels
from stepcut.order.learn import count_first
from stepcut.order.orders import counted, grouped
from stepcut.tables import Cell, Spread, Table
from stepcut.timeline import Timeline

LEVEL = 0.05  # corrected p-values below count as a difference


def baseline(row: str, like: Sequence[Array], steps: int, seed: int = 0) -> list[Labels]:
    """Labels of a baseline of `NO_VIDEO`, as long as the arrays in `like`."""
    # The method only sees the number of the video, so that equal lengths get different labels.
    videos = [np.full((len(one), 1), number, dtype=np.float32) for number, one in enumerate(like)]
    labels: list[Labels] = METHODS[row](steps=steps, seed=seed).fit(videos).labels_
    return labels


def above_uniform(mine: Spread, uniform: float) -> str:
    gap = mine.mean - uniform
    level = abs(gap) < max(mine.sd, 0.05)
    place = "level with" if level else f"{abs(gap):.1f} {'above' if gap > 0 else 'below'}"
    return f"{place} the uniform baseline ({mine.mean:.1f} against {uniform:.1f})"


class Difference(NamedTuple):
    """Mean difference in F1 between two rows over the same videos."""

    mean: float
    low: float
    high: float  # 95 % interval over videos (bootstrap)
    # Sign-flip test: share of the ways to exchange the rows with at least this mean difference
    p: float
    better: int
    videos: int

    def __str__(self) -> str:
        return (
            f"{self.mean:+.1f} F1 on the mean of {self.videos} videos (95 % interval {self.low:+.1f} "
            f"to {self.high:+.1f}), better on {self.better} of them (sign-flip test over videos: "
            f"p = {self.p:.3g})"
        )


def compare_videos(ours: Mapping[str, float], theirs: Mapping[str, float]) -> Difference:
    gaps = np.array([ours[video] - theirs[video] for video in ours if video in theirs])
    count, rng = len(gaps), np.random.default_rng(0)
    drawn = gaps[rng.integers(count, size=(10_000, count))].mean(axis=1)
    low, high = np.percentile(drawn, (2.5, 97.5))
    if count <= 14:
        signs = 1 - 2 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1)
    else:
        signs = rng.choice([-1, 1], size=(20_000, count))
        signs[0] = 1  # the observed order is one of the ways, so p is never 0
    p = float(np.mean(np.abs((signs * gaps).mean(axis=1)) >= abs(gaps.mean()) - 1e-12))
    better = int((gaps > 0).sum())
    return Difference(float(gaps.mean()), float(low), float(high), p, better, count)


def adjust(ps: Sequence[float]) -> list[float]:
    """Adjust several p by the method of Holm."""
    adjusted, most = [0.0] * len(ps), 0.0
    for rank, place in enumerate(sorted(range(len(ps)), key=lambda place: ps[place])):
        most = max(most, min(1.0, (len(ps) - rank) * ps[place]))
        adjusted[place] = most
    return adjusted


class Contrast(NamedTuple):
    what: str
    step: str
    first: float
    second: float
    effect: float
    p: float | None


def compare_groups(
    first: Sequence[Timeline],
    second: Sequence[Timeline],
    steps: Sequence[str],
    names: tuple[str, str] = ("A", "B"),
    labelled: bool = False,
) -> Table:
    """Differences of two groups of two or more videos, in all and per step, smallest p first.

    Rows without variation have no p and come last. Seconds of unchecked predictions have 80 %
    intervals, which depend on whether the steps were learned with labels (`labelled`).
    """
    groups = (first, second)
    for name, group in zip(names, groups, strict=True):
        if len(group) < 2:
            what = f"group {name} has {counted(len(group))}, but needs at least two."
            raise OptionError(what, setting=f"group {name}", value=len(group))
    found = [_lengths("seconds", "(whole video)", *([t.end for t in group] for group in groups))]
    spent = [[grouped((one.step, one.duration) for one in t) for t in group] for group in groups]
    # Equal neighbours are one: a pause does not make a repetition.
    done = [[Counter(step for step, _ in groupby(t.sequence())) for t in group] for group in groups]
    for step in steps:
        seconds = [[sum(video[step]) for video in group if step in video] for group in spent]
        if all(seconds):
            found.append(_lengths("seconds", step, *seconds))
        times = [[video[step] for video in group] for group in done]
        found.append(_shares("missing", step, *([n == 0 for n in group] for group in times)))
        found.append(_shares("repeated", step, *([n > 1 for n in group] for group in times)))
    found.append(_lengths("exchanged pairs", "(order)", *_exchanged(groups, steps)))
    tested = [(one, one.p) for one in found if one.p is not None]
    corrected = zip(tested, adjust([p for _, p in tested]), strict=True)
    ranked = [(one, p) for (one, _), p in sorted(corrected, key=lambda row: (row[1], row[0][1]))]
    same: list[tuple[Contrast, float | None]] = [(one, None) for one in found if one.p is None]
    rows: list[list[Cell]] = [[*one, p] for one, p in (*ranked, *same)]
    columns = ["what", "step", "A", "B", "effect", "p", "p corrected"]
    notes = [
        "seconds: medians and Cliff's delta, P(A > B) - P(A < B); missing, repeated: shares and "
        "their difference;",
        "exchanged pairs: share of step pairs in another order than in most videos;",
        f"p corrected: after Holm, for the {len(tested)} rows that vary between videos.",
    ]
    if any(is_unchecked(one) for group in groups for timeline in group for one in timeline):
        columns += ["A from", "A to", "B from", "B to"]
        notes.append(error_note(labelled))
        for row in rows:
            known = row[0] == "seconds" and row[1] in steps
            ranges = [_range(group, str(row[1]), labelled) for group in groups]
            row += [end for one in ranges for end in one] if known else [None] * 4
    return Table(columns, rows, summarize(ranked, names), notes, digits=3)


def _range(group: Sequence[Timeline], step: str, labelled: bool) -> list[float]:
    spent = [[one for one in timeline if one.step == step] for timeline in group]
    ends = [true_range(segments, labelled) for segments in spent if segments]
    return np.median(ends, axis=0).tolist() if ends else [0.0, 0.0]


def summarize(ranked: Sequence[tuple[Contrast, float]], names: tuple[str, str]) -> str:
    sure = [one for one, p in ranked if p < LEVEL]
    if not ranked:
        return f"{names[0]} and {names[1]} are equal in every comparison."
    if not sure:
        return (
            f"No significant difference between {names[0]} and {names[1]} "
            f"(smallest corrected p = {ranked[0][1]:.3f}, {len(ranked)} comparisons)."
        )
    more = f", and in {len(sure) - 3} more ways" if len(sure) > 3 else ""
    listed = "; ".join(_in_words(one, names) for one in sure[:3])
    return f"{names[0]} and {names[1]} differ: {listed}{more} (corrected p < {LEVEL:g})."


def _in_words(one: Contrast, names: tuple[str, str]) -> str:
    who = names[0] if one.effect > 0 else names[1]
    if one.what == "seconds":
        where = "" if one.step.startswith("(") else f" for {one.step}"
        low, high = sorted((one.first, one.second))
        return f"{who} take longer{where} (median {high:.1f} s against {low:.1f} s)"
    if one.what == "exchanged pairs":
        return f"{who} change the order more often"
    most, least = (one.first, one.second) if one.effect > 0 else (one.second, one.first)
    verb = "miss" if one.what == "missing" else "repeat"
    return f"{who} {verb} {one.step} more often ({most:.0%} against {least:.0%} of videos)"


def _lengths(what: str, step: str, first: Sequence[float], second: Sequence[float]) -> Contrast:
    from scipy.stats import mannwhitneyu

    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    delta = float(np.sign(a[:, None] - b[None]).mean())
    p = float(mannwhitneyu(a, b).pvalue) if len({*first, *second}) > 1 else None
    return Contrast(what, step, float(np.median(a)), float(np.median(b)), delta, p)


def _shares(what: str, step: str, first: Sequence[bool], second: Sequence[bool]) -> Contrast:
    from scipy.stats import fisher_exact

    counts = [[sum(group), len(group) - sum(group)] for group in (first, second)]
    a, b = float(np.mean(first)), float(np.mean(second))
    p = float(fisher_exact(counts).pvalue) if len({*first, *second}) > 1 else None
    return Contrast(what, step, a, b, a - b, p)


def _exchanged(groups: Sequence[Sequence[Timeline]], steps: Sequence[str]) -> list[list[float]]:
    number = {step: place for place, step in enumerate(steps)}
    orders = [
        [[number[s] for s in dict.fromkeys(t.sequence()) if s in number] for t in group]
        for group in groups
    ]
    counts = count_first([order for group in orders for order in group], len(steps))

    def share(order: Sequence[int]) -> float:
        exchanged = [counts[a, b] < counts[b, a] for a, b in combinations(order, 2)]
        return float(np.mean(exchanged or [0.0]))

    return [[share(order) for order in group] for group in orders]
