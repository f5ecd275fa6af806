"""Occurrences: when a video does a step, from its labels; pauses are bridged and slips of the cut dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepcut.order.graph import ProcedureGraph
from stepcut.order.learn import learn_graph, main_places
from stepcut.order.orders import Labels
from stepcut.timeline import BACKGROUND, runs

SLIVER = 0.1
"""A segment that takes less than this share of the time its video spends on the step is a slip of the cut."""


class Occurrence(NamedTuple):
    """One step from `start` to `end`, in seconds; `spent` leaves out the pauses in between."""

    step: int
    start: float
    end: float
    spent: float
    sure: float = 1.0
    """How sure the cut is, from 0 to 1."""


def find_occurrences(
    labels: Labels, rate: float, sure: NDArray[np.floating[Any]] | None = None, sliver: float = SLIVER
) -> list[Occurrence]:
    """What was done when, in the order of time.

    Segments of one step with nothing but background, or dropped slivers, in between are one occurrence.

    labels   the step of each row, (T,), -1 for none
    rate     rows per second
    sure     how sure each row is the step it is called, (T,)
    sliver   segments are dropped that take less than this share of the time the video spends on the step

    >>> [(d.step, d.start, d.end) for d in find_occurrences([0, 0, -1, 0, 1, 1], rate=1.0)]
    [(0, 0.0, 4.0), (1, 4.0, 6.0)]
    """
    found = [run for run in runs(np.asarray(labels)).tolist() if run[0] != BACKGROUND]
    total: Counter[int] = Counter()
    for step, a, b in found:
        total[step] += b - a
    kept = [(step, a, b) for step, a, b in found if b - a >= sliver * total[step]]
    merged = []
    for step, group in groupby(kept, key=lambda run: run[0]):
        parts = list(group)
        spent = sum(b - a for _, a, b in parts)
        trust = 1.0 if sure is None else float(np.mean(np.concatenate([sure[a:b] for _, a, b in parts])))
        merged.append(Occurrence(step, parts[0][1] / rate, parts[-1][2] / rate, spent / rate, trust))
    return merged


def first_times(video: Sequence[Occurrence]) -> dict[int, Occurrence]:
    """When a `video` first does each step in earnest, in the order of time: what the graph is learned from."""
    places = main_places([one.step for one in video], [one.spent for one in video])
    return {video[place].step: video[place] for place in places}


def graph_of_labels(labels: Mapping[str, Labels], rate: float, names: Sequence[str] = ()) -> ProcedureGraph:
    """The procedure graph of the `labels` of videos, `{name: (T,) step numbers}`, `rate` a second, with `names`."""
    return graph_of_occurrences([find_occurrences(numbers, rate) for numbers in labels.values()], names)


def graph_of_occurrences(
    videos: Sequence[Sequence[Occurrence]], names: Sequence[str] = (), order: bool = True
) -> ProcedureGraph:
    """The procedure graph of what each of `videos` does, with these `names`; without `order` only what is counted."""
    return learn_graph(
        [[one.step for one in video] for video in videos],
        durations=[[one.spent for one in video] for video in videos],
        names=names,
        confidences=[[one.sure for one in video] for video in videos],
        order=order,
    )
