"""Compare two groups of people by how they do a procedure: how long, how often, in which order.

For every step and the whole: Mann and Whitney's test of the seconds, with the effect size d = P(A > B) - P(A < B)
(Cliff's delta, from -1 to 1); Fisher's exact test of how many leave a step out or repeat it, with the difference of the
shares; the share of exchanged pairs against the usual order. All p-values together are corrected after Holm.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, groupby
from typing import Any

import numpy as np

from stepcut.errors import OptionError
from stepcut.files.figures import FIXED, drawn_with
from stepcut.order.likelihood import count_first
from stepcut.order.orders import counted, grouped
from stepcut.tables import Cell, Table
from stepcut.timeline import Timeline

Difference = tuple[str, str, float, float, float, float]
"""One thing in which the groups may differ: what, in which step, its value in both, the effect and the p-value."""
COLUMNS = ("what", "step", "A", "B", "effect", "p", "p corrected")


def compare_groups(
    first: Sequence[Timeline], second: Sequence[Timeline], steps: Sequence[str]
) -> Table:
    """What differs between the timelines of two groups of videos, in all and in each of `steps`, the surest first;
    other steps do not count."""
    for name, group in {"A": first, "B": second}.items():
        if len(group) < 2:
            raise OptionError(
                f"group {name} has {counted(len(group))}; two groups are compared by two each or more."
            )
    found = [_lengths("seconds", "(whole video)", [t.end for t in first], [t.end for t in second])]
    for step in steps:
        times = [[_times(timeline)[step] for timeline in group] for group in (first, second)]
        spent = [[_spent(t)[step] for t in group if step in _spent(t)] for group in (first, second)]
        if all(spent):
            found.append(_lengths("seconds", step, *spent))
        found.append(
            _shares("left out", step, *[[count == 0 for count in group] for group in times])
        )
        found.append(
            _shares("repeated", step, *[[count > 1 for count in group] for group in times])
        )
    found.append(_lengths("exchanged pairs", "(order)", *_exchanged(first, second, steps)))
    corrected = holm([one[-1] for one in found])
    ranked = sorted(zip(found, corrected, strict=True), key=lambda row: (row[1], row[0][-1]))
    rows: list[list[Cell]] = [[*one, p] for one, p in ranked]
    return Table(list(COLUMNS), rows, f"{len(first)} videos of A and {len(second)} of B", [
        "seconds: medians and Cliff's delta, P(A > B) - P(A < B); left out, repeated: shares and their difference;",
        "exchanged pairs: share of pairs of steps in another order than in most videos; p corrected: Holm, all rows.",
    ], digits=3)  # fmt: skip


def time_budget(groups: Mapping[str, Sequence[Timeline]], steps: Sequence[str]) -> Table:
    """How long and how often every video does each of `steps`, and what share of it that is, for a spreadsheet: a row
    for each timeline of `groups` by name; one that is called "" gets no column of groups."""
    rows: list[list[Cell]] = []
    for name, timelines in groups.items():
        for timeline in timelines:
            spent, times = _spent(timeline), _times(timeline)
            for step in steps:
                seconds = spent.get(step, 0.0)
                about: list[Cell] = [
                    timeline.video,
                    step,
                    seconds,
                    times[step],
                    100 * seconds / (timeline.end or 1.0),
                ]
                rows.append([name, *about] if name else about)
    group = ["group"] if any(groups) else []
    return Table([*group, "video", "step", "seconds", "times", "% of video"], rows, "Time budget")


@drawn_with(FIXED)
def draw_budget(groups: Mapping[str, Sequence[Timeline]], steps: Sequence[str]) -> Any:
    """Draw the seconds of each step in both groups as boxes side by side; gives the matplotlib axes."""
    from matplotlib.figure import Figure

    ax: Any = Figure(figsize=(7, 1 + 0.5 * len(steps)), layout="constrained").add_subplot()
    width = 0.8 / max(len(groups), 1)
    for place, (name, timelines) in enumerate(groups.items()):
        spent = [[_spent(timeline).get(step, 0.0) for timeline in timelines] for step in steps]
        at = np.arange(len(steps)) + (place - (len(groups) - 1) / 2) * width
        boxes = ax.boxplot(
            spent, positions=at, widths=0.9 * width, orientation="horizontal", patch_artist=True
        )
        for box in boxes["boxes"]:
            box.set_facecolor(f"C{place}")
        ax.plot([], [], color=f"C{place}", linewidth=6, label=name)
    ax.set_yticks(np.arange(len(steps)), steps)
    ax.invert_yaxis()
    ax.set_xlabel("seconds")
    ax.legend()
    return ax


def holm(chances: Sequence[float]) -> list[float]:
    """p-values corrected for their number after Holm.

    >>> holm([0.01, 0.5, 0.04])
    [0.03, 0.5, 0.08]
    """
    order = sorted(range(len(chances)), key=lambda place: chances[place])
    out, largest = [0.0] * len(chances), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(chances) - rank) * chances[place]))
        out[place] = largest
    return out


def _spent(timeline: Timeline) -> dict[str, float]:
    return {
        step: sum(spent)
        for step, spent in grouped((one.step, one.duration) for one in timeline).items()
    }


def _times(timeline: Timeline) -> Counter[str]:
    """How often each step is done; a pause is no repeat."""
    return Counter(step for step, _ in groupby(segment.step for segment in timeline))


def _lengths(what: str, step: str, first: Sequence[float], second: Sequence[float]) -> Difference:
    from scipy.stats import mannwhitneyu

    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    delta = float(np.sign(a[:, None] - b[None]).mean())
    p = float(mannwhitneyu(a, b).pvalue) if len(np.unique([*first, *second])) > 1 else 1.0
    return what, step, float(np.median(a)), float(np.median(b)), delta, p


def _shares(what: str, step: str, first: Sequence[bool], second: Sequence[bool]) -> Difference:
    from scipy.stats import fisher_exact

    counts = [[sum(group), len(group) - sum(group)] for group in (first, second)]
    a, b = float(np.mean(first)), float(np.mean(second))
    return what, step, a, b, a - b, float(fisher_exact(counts).pvalue)


def _exchanged(
    first: Sequence[Timeline], second: Sequence[Timeline], steps: Sequence[str]
) -> list[list[float]]:
    """Per video of both groups: the share of pairs of steps in the other order than in most videos of both."""
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
