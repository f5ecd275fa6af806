"""Learn how far normal videos vary, and how much a check detects in altered copies of them.

Each video is seen by a model that has not seen it, also if labelled, and compared with other
folds.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.checking.check import Comparison
from stepcut.checking.expectations import MEASURES, Copy, Expectations
from stepcut.checking.gate import learn_task
from stepcut.checking.report import FAULTS, UNSEEN
from stepcut.checking.usual import (
    MOST,
    Floats,
    Observed,
    Usual,
    evidence_of,
    learn_presence,
    learn_usual,
    observe,
    slice_video,
    some_of,
)
from stepcut.errors import OptionError
from stepcut.methods.method import LeftOut
from stepcut.order.graph import ProcedureGraph
from stepcut.order.learn import find_occurrences, graph_of_occurrences
from stepcut.order.orders import Labels
from stepcut.settings import check_number
from stepcut.timeline import BACKGROUND, runs

Rows = NDArray[np.int64]

SOME = 3  # altered steps, and altered pairs, per video; more steps if there are few videos
MANY = 64  # at most this many videos, evenly spaced, are altered
FROZEN = 0.3  # share of a video in which the picture of a frozen copy stands still
GROUPS = 8  # folds, if the method does not define them


def learn_expectations(
    labels: Sequence[Labels],  # (T,) per video, for the usual orders and steps
    rate: float,
    probabilities: Sequence[Floats] | None = None,  # (T, K); without, labels count as certain
    false_alarms: float = 0.05,
    embeddings: Sequence[Floats] | None = None,  # (T, p); without, no other task is detected
    left_out: LeftOut | None = None,  # predictions for each video as new: all else comes from these
    videos: Sequence[str] = (),  # names; without, no video can be excluded
    labelled: bool = True,  # whether a person labelled any of them
) -> Expectations:
    check_number("false_alarms", false_alarms, 0, 1, above=True)
    if not len(labels):
        why = "labels is empty; give the labels of one training video or more."
        raise OptionError(why, setting="labels")
    nothing: Any = [None] * len(labels)
    trained: Any = (labels, probabilities or nothing, nothing)
    new = left_out or LeftOut(*trained)
    # `observe` shares arrays of this type instead of copying them.
    looks = [np.asarray(one, dtype=np.float64) for one in embeddings or ()] or nothing
    graph = graph_of_occurrences([find_occurrences(one, rate) for one in labels])
    every = range(len(labels))
    fold_of = new.groups or [place % GROUPS for place in every]
    several = len(set(fold_of)) > 1

    def shown_at(place: int, kept: Rows | None = None) -> Observed:
        parts = (new.labels, new.probabilities, new.novelty, looks)
        mine: Any = [None if one[place] is None else np.asarray(one[place]) for one in parts]
        if kept is not None:
            mine = [None if one is None else one[kept] for one in mine]
        return observe(mine[0], rate, *mine[1:])

    def embedded(fold: int, place: int, video: Observed, kept: Rows | None = None) -> Observed:
        """What the model that was trained without this fold sees of the video."""
        if new.embed is None or video.slices is None:
            return video
        return replace(video, slices=slice_video(new.embed(fold, place, kept), video.labels))

    shown = list(map(shown_at, every))
    done, absent = _evidence(labels, new, shown, rate)
    usual = learn_usual(shown, learn_presence(done, absent))

    @cache
    def usual_without(fold: int) -> Usual:
        places = [place for place in every if fold_of[place] != fold]
        aligned = some_of(places, MOST)
        part = [replace(shown[place], slices=None) for place in places if place not in aligned]
        part += [embedded(fold, place, shown[place]) for place in aligned]
        return learn_usual(part, learn_presence(done[places], absent[places]))

    def compare(place: int, video: Observed, kept: Rows | None = None) -> Comparison:
        if not several:
            return Comparison(video, usual)
        fold = fold_of[place]
        return Comparison(embedded(fold, place, video, kept), usual_without(fold))

    compared = [compare(place, video) for place, video in enumerate(shown)]
    invariant = tuple(
        step
        for step in usual.occurs
        if graph.occurs.get(step) == graph.videos
        and all(one.likely.get(step, 0.0) >= UNSEEN for one in compared)
    )
    some = some_of(every, MANY) if several else []
    altered: dict[str, tuple[Copy, ...]] = {}
    shortened: list[list[Floats]] = []
    for place in some:
        shortened.append([])
        steps = max(SOME, SOME * MANY // len(labels))
        for kind, gone, kept in alterations(labels[place], graph, steps):
            made = shown_at(place, kept)
            one = compare(place, made, kept)
            least = min((one.likely.get(step, 0.0) for step in invariant), default=1.0)
            amounts: Any = tuple(one.amounts[way] for way in MEASURES)
            copy = Copy(place, amounts, least, gone, one.likely.get(gone, 1.0))
            altered[kind] = (*altered.get(kind, ()), copy)
            if gone >= 0 and made.embedding is not None:
                embed = new.embed if new.looks else None
                rows = embed(fold_of[place], place, kept) if embed else made.embedding
                shortened[-1].append(rows)
    ways = {way: tuple(one.amounts[way] for one in compared) for way in MEASURES}
    return Expectations(
        graph=graph,
        usual=usual,
        false_alarms=false_alarms,
        amounts=ways if several else {},
        labelled=labelled,
        invariant=invariant,
        altered=altered,
        task=learn_task(shown, some, new.looks, shortened),
        videos=tuple(videos) if several else (),
    )


def _evidence(
    labels: Sequence[Labels], new: LeftOut, shown: Sequence[Observed], rate: float
) -> tuple[Floats, Floats]:
    """(N, K) each: of each shown step, as it is and with the rows of the step removed."""
    count = 1 + max((int(np.max(one, initial=-1)) for one in labels), default=-1)
    done, absent = np.full((2, len(labels), count), np.nan)
    for place, mine in enumerate(labels):
        numbers, share = np.asarray(mine), new.probabilities[place]
        seen = np.asarray(new.labels[place], dtype=np.int64)
        for step in np.unique(numbers[numbers >= 0]):
            kept = np.flatnonzero(numbers != step)
            left = evidence_of(seen[kept], rate, None if share is None else share[kept])
            for table, found in ((done, shown[place].evidence), (absent, left)):
                table[place, step] = found[step] if step < len(found) else 0.0
    return done, absent


def alterations(
    labels: Labels, graph: ProcedureGraph, steps: int = SOME
) -> list[tuple[str, int, Rows]]:
    """(kind, removed step or -1, rows) of each altered copy of a video."""
    numbers = np.asarray(labels, dtype=np.int64)
    length, every = len(numbers), np.arange(len(numbers))
    parts = [run for run in runs(numbers).tolist() if run[0] != BACKGROUND]
    shown = np.unique([step for step, _, _ in parts])
    pairs = [
        (one, two)
        for one, two in pairwise(parts)
        if one[0] in graph.steps and two[0] in graph.after(one[0])
    ]
    made = [
        (FAULTS["step"], int(gone), every[numbers != gone])
        for gone in (some_of(list(shown), steps) if len(shown) > 1 else ())
    ]
    for (_, a, b), (_, c, d) in some_of(pairs, SOME):
        exchanged = np.concatenate([every[:a], every[c:d], every[b:c], every[a:b], every[d:]])
        made.append((FAULTS["exchange"], -1, exchanged))
    if length > 1:
        still = every.copy()
        begin = (length - int(FROZEN * length)) // 2
        still[begin : begin + int(FROZEN * length)] = begin
        made += [
            (FAULTS["half"], -1, every[: length // 2]),
            (FAULTS["slow"], -1, np.repeat(every, 2)),
            (FAULTS["frozen"], -1, still),
        ]
    return made
