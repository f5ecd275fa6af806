"""Learn a procedure graph from step sequences or labels."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from statistics import median_low
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import OptionError, wrong
from stepcut.order.graph import ProcedureGraph
from stepcut.order.likelihood import (
    count_first,
    find_precedence,
    no_precedence,
    reduce_order,
)
from stepcut.order.orders import Labels, Orders, grouped, rank_orders, video_order
from stepcut.order.relations import END, START, Duration, Support
from stepcut.timeline import BACKGROUND, runs

LONG = 0.5
"""A segment is long from this share of the longest segment of its step in the video.

For a step that is done n times, the share is divided by n (`times_done`).
"""
SLIVER = 0.1
"""Segments below this share of the video's time on the step are segmentation errors.

For a step that is done n times, the share is divided by n.
"""


def learn_graph(
    sequences: Sequence[Sequence[int]],
    durations: Sequence[Sequence[float]] | None = None,
    names: Sequence[str] = (),
    confidences: Sequence[Sequence[float]] | None = None,
    order: bool = True,
) -> ProcedureGraph:
    """Learn preconditions, optional and repeated steps, durations and transitions.

    A precondition of a step must precede its first occurrence.

    Parameters
    ----------
    sequences
        The step numbers of each video in order of time. Steps may be missing, repeated or
        exchanged.
    durations
        Seconds of each segment, in the layout of `sequences`. With durations, the first long
        segment of a step counts, because segmentations contain short errors.
    names
        Step names.
    confidences
        Confidence of each segment, 0 to 1, in the layout of `sequences`.
    order
        Whether to learn edges. Without them, only the counts are made, which is fast.

    Returns
    -------
    ProcedureGraph
        The graph.

    Raises
    ------
    OptionError
        If `sequences` is empty or invalid, or another argument has a different layout.

    Examples
    --------
    >>> graph = learn_graph([[0, 1, 2], [1, 0, 2]] * 4)
    >>> sorted(graph.edges)
    [(0, 2), (1, 2)]
    """
    done = _checked(sequences)
    steps = sorted({step for sequence in done for step in sequence})
    number = {step: place for place, step in enumerate(steps)}
    laid_out = _laid_out(done, durations, "durations", 1e12)
    sure = _laid_out(done, confidences, "confidences", 1)
    places = list(map(main_places, done, laid_out))
    orders = [[number[video[at]] for at in own] for video, own in zip(done, places, strict=True)]
    weights = [[row[at] for at in own] for row, own in zip(sure, places, strict=True)]
    found = find_precedence(orders, len(steps), weights) if order else no_precedence(len(steps))
    first = count_first(orders, len(steps))

    def pairs(table: NDArray[Any]) -> list[tuple[int, int]]:
        return [(steps[a], steps[b]) for a, b in np.argwhere(table).tolist()]

    edges = set(pairs(reduce_order(found.closed)))
    support = {}
    for a, b in edges:
        kept, broken = int(first[number[a], number[b]]), int(first[number[b], number[a]])
        support[a, b] = Support(kept, kept + broken)
    counts = [Counter(sequence) for sequence in done]
    lengths = [grouped(zip(*both, strict=True)) for both in zip(done, laid_out, strict=True)]
    spent = {step: [sum(own[step]) for own in lengths if step in own] for step in steps}
    return ProcedureGraph(
        steps=tuple(steps),
        edges=edges,
        support=support,
        videos=len(done),
        occurs={step: sum(step in count for count in counts) for step in steps},
        times={
            step: tuple(sorted(count[step] for count in counts if step in count)) for step in steps
        },
        transitions=dict(Counter(pair for path in done for pair in pairwise([START, *path, END]))),
        first={(a, b): int(first[number[a], number[b]]) for a, b in pairs(first > 0)},
        durations={step: Duration.of(spent[step]) for step in steps if durations is not None},
        names=tuple(names),
        undecided=set(pairs(np.triu(found.undecided))),
        ahead=_ahead(done, places, pairs(found.closed)),
    )


def _ahead(
    done: Sequence[Sequence[int]], places: Sequence[Sequence[int]], pairs: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], tuple[int, ...]]:
    """Number of videos that did a 0, 1, 2 ... times before the first b, if a is repeated."""
    found: dict[tuple[int, int], Counter[int]] = {pair: Counter() for pair in pairs}
    for sequence, own in zip(done, places, strict=True):
        before = {sequence[place]: Counter(sequence[:place]) for place in own}
        for (a, b), counts in found.items():
            if b in before:
                counts[before[b][a]] += 1
    return {
        pair: tuple(counts[times] for times in range(max(counts) + 1))
        for pair, counts in found.items()
        if max(counts, default=0) > 1
    }


def _checked(sequences: Sequence[Sequence[int]]) -> list[list[int]]:
    """Refuse anything but lists of step numbers."""
    try:
        done = [list(sequence) for sequence in sequences]
    except TypeError as error:
        why = "is not a list of lists; give the steps of each video."
        raise wrong("sequences", sequences, why) from error
    odd = [
        f"[{place}] contains {step!r}"
        for place, steps in enumerate(done)
        for step in steps
        if not isinstance(step, int | np.integer) or step < 0
    ]
    if not done or odd:
        raise OptionError(
            f"sequences{odd[0] if odd else ' is empty'}; give the step numbers of one video or more, from 0. "
            "`stepcut.order.sequence(labels)` removes the background.",
            setting="sequences",
        )
    return [[int(step) for step in sequence] for sequence in done]


def _laid_out(
    done: Sequence[Sequence[int]], values: Sequence[Sequence[float]] | None, name: str, most: float
) -> Sequence[Sequence[float]]:
    """Check one number per segment; without numbers, all are 1."""
    needed = [len(sequence) for sequence in done]
    if values is None:
        return [[1.0] * count for count in needed]
    try:
        rows = [[float(number) for number in row] for row in values]
    except (TypeError, ValueError, OverflowError):
        rows = []
    # The tolerance allows for rounded sums.
    odd = [number for row in rows for number in row if not 0 <= number <= most + 1e-6]
    counts = [len(row) for row in rows]
    if counts != needed or odd:
        value, allowed = (odd[0], most) if odd else (counts, needed)
        seen = f"contains {value}" if odd else f"has {counts} for {needed}"
        raise OptionError(
            f"{name} {seen}; give one number from 0 to {most:g} per entry of sequences.",
            setting=name,
            value=value,
            allowed=allowed,
        )
    return rows


def main_places(sequence: Sequence[int], seconds: Sequence[float]) -> list[int]:
    """Index of the first long segment of each step in a video.

    >>> main_places([2, 0, 1, 2], seconds=[1.0, 9.0, 9.0, 8.0])
    [1, 2, 3]
    """
    lengths = grouped(zip(sequence, seconds, strict=True))
    least = {step: LONG * max(own) / times_done(own) for step, own in lengths.items()}
    found: dict[int, int] = {}
    for place, (step, time) in enumerate(zip(sequence, seconds, strict=True)):
        if time >= least[step]:
            found.setdefault(step, place)
    return list(found.values())


def times_done(lengths: Sequence[float]) -> int:
    """Effective number of segments, (sum l)^2 / sum l^2 rounded down.

    It equals their number if all are alike, and 1 if one is much longer than the others.

    >>> times_done([9.0, 9.0, 9.0]), times_done([10.0, 4.0, 1.0])
    (3, 1)
    """
    squares = sum(length**2 for length in lengths)
    return max(1, int(sum(lengths) ** 2 / squares + 1e-9)) if squares > 0 else 1


class Occurrence(NamedTuple):
    """One step from `start` to `end` in seconds; `spent` excludes pauses."""

    step: int
    start: float
    end: float
    spent: float
    sure: float = 1.0
    """Confidence of the segmentation, 0 to 1."""


def find_occurrences(
    labels: Labels,
    rate: float,
    sure: NDArray[np.floating[Any]] | None = None,
    sliver: float = SLIVER,
) -> list[Occurrence]:
    """Return the occurrences of steps in `labels` (T,), -1 for background, in order of time.

    Segments of one step that only background or slivers separate are one occurrence. Segments below
    the share `sliver` of the video's time on the step, divided by its repetitions, are slivers.
    `sure` is the confidence of each row, (T,).

    >>> [(d.step, d.start, d.end) for d in find_occurrences([0, 0, -1, 0, 1, 1], rate=1.0)]
    [(0, 0.0, 4.0), (1, 4.0, 6.0)]
    """
    found = [run for run in runs(np.asarray(labels)).tolist() if run[0] != BACKGROUND]
    lengths = grouped((step, b - a) for step, a, b in found)
    least = {step: sliver * sum(own) / times_done(own) for step, own in lengths.items()}
    kept = [(step, a, b) for step, a, b in found if b - a >= least[step]]
    merged = []
    for step, group in groupby(kept, key=lambda run: run[0]):
        parts = list(group)
        spent = sum(b - a for _, a, b in parts)
        trust = 1.0
        if sure is not None:
            trust = float(np.mean(np.concatenate([sure[a:b] for _, a, b in parts])))
        first, last = parts[0][1] / rate, parts[-1][2] / rate
        merged.append(Occurrence(step, first, last, spent / rate, trust))
    return merged


def first_times(video: Sequence[Occurrence]) -> dict[int, Occurrence]:
    """First long occurrence of each step, in order of time."""
    places = main_places([one.step for one in video], [one.spent for one in video])
    return {video[place].step: video[place] for place in places}


def orders_of_labels(
    labels: Mapping[str, Labels], rate: float, names: Sequence[str] = ()
) -> Orders:
    """Rank the orders of videos with `labels` (T,) by name, `rate` rows per second.

    Steps are sorted by mean time, as in the paper (`video_order`). If a step is usually repeated,
    they are sorted by first occurrence: in cyclic tasks, mean times are too close to compare.
    """
    videos = {name: find_occurrences(numbers, rate) for name, numbers in labels.items()}
    times = grouped(
        pair for video in videos.values() for pair in Counter(one.step for one in video).items()
    )
    if all(median_low(counts) == 1 for counts in times.values()):
        return rank_orders({name: video_order(numbers) for name, numbers in labels.items()}, names)
    return rank_orders(
        {name: list(first_times(video)) for name, video in videos.items()}, names, by_first=True
    )


def graph_of_labels(
    labels: Mapping[str, Labels], rate: float, names: Sequence[str] = ()
) -> ProcedureGraph:
    """Learn the procedure graph of labelled videos; parameters as in `orders_of_labels`."""
    return graph_of_occurrences(
        [find_occurrences(numbers, rate) for numbers in labels.values()], names
    )


def graph_of_occurrences(
    videos: Sequence[Sequence[Occurrence]], names: Sequence[str] = (), order: bool = True
) -> ProcedureGraph:
    """Learn the procedure graph from occurrences per video; `order=False` skips the edges."""
    return learn_graph(
        [[one.step for one in video] for video in videos],
        durations=[[one.spent for one in video] for video in videos],
        names=names,
        confidences=[[one.sure for one in video] for video in videos],
        order=order,
    )
