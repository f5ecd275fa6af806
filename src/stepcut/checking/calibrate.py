"""Calibrate: learn from the videos at hand what a normal one looks like, and how far it may differ
from that.

How many of the deviations that are made in them the limit finds says, before any video is checked,
what a check will be able to find with these videos.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.checking.evidence import Comparison
from stepcut.checking.expectations import Expectations
from stepcut.checking.observe import Floats, Observed, observe, some_of
from stepcut.checking.presence import learn_presence
from stepcut.checking.score import (
    BELIEVED,
    Planted,
    find_limit,
    learn_scales,
    promised_rate,
    set_limits,
)
from stepcut.checking.task import find_groups, learn_task
from stepcut.checking.usual import MOST, learn_usual
from stepcut.errors import OptionError, check_kind
from stepcut.methods.learned import LeftOut
from stepcut.order.graph import ProcedureGraph
from stepcut.order.orders import Labels
from stepcut.timeline import BACKGROUND, runs

Rows = NDArray[np.int64]

MISSING_STEP, MISSING_HALF, EXCHANGED = "missing step", "missing half", "exchanged steps"
"""The deviations that are made in videos to see what a check finds."""
SOME = 3
"""How many steps, and how many pairs, of one video are tried."""
GROUPS = 8
"""Into how many groups videos are put that are judged by the others, where the method does not say
so."""


def check_false_alarms(share: float) -> None:
    """Whether it is a share that may be asked for."""
    check_kind("false_alarms", share, Real, "a share between 0 and 1, say 0.05")
    if not 0 < share < 1:
        raise OptionError(
            f"false_alarms={share!r} is a share of normal videos; choose between 0 and 1, say 0.05."
        )


def learn_expectations(
    labels: Sequence[Labels],
    rate: float,
    probabilities: Sequence[Floats] | None = None,
    novelty: Sequence[Floats] | None = None,
    false_alarms: float = 0.05,
    embeddings: Sequence[Floats] | None = None,
    left_out: LeftOut | None = None,
    videos: Sequence[str] = (),
) -> Expectations:
    """Learn what is usual in videos, and how far a normal one may differ from it.

    Parameters
    ----------
    labels
        The step of each row of each video, (T,).
    rate
        Rows a second.
    probabilities
        (T, K) per video; without them the labels are taken as certain.
    novelty
        (T,) per video, where it is not that of `left_out`.
    false_alarms
        The share of normal videos that may raise an alarm; with n videos at least 1 / (n + 1).
    embeddings
        (T, p) per video; without them another task is not noticed.
    left_out
        The same, as a model sees each video that has not learned from it: a new video is segmented
        a little worse than those learned from, and is compared with videos in the same situation.
    videos
        The name of each video; without them none can be marked as having a mistake.
    """
    check_false_alarms(false_alarms)
    if not len(labels):
        raise OptionError(
            "labels is empty; expectations are learned from the labels of the training videos."
        )
    nothing: list[Any] = [None] * len(labels)
    as_found: Any = (labels, probabilities or nothing, novelty or nothing)
    as_new = left_out or LeftOut(*as_found)
    strange, embedded_rows = novelty or as_new.novelty, embeddings or nothing
    learned = [
        observe(cut, rate, share, *rest)
        for cut, share, *rest in zip(
            labels, probabilities or nothing, strange, embedded_rows, strict=True
        )
    ]
    shown = [
        observe(cut, rate, share, *rest)
        for cut, share, *rest in zip(
            as_new.labels, as_new.probabilities, strange, embedded_rows, strict=True
        )
    ]

    def look(place: int, kept: Rows) -> Observed:
        """What the video of these rows shows, as a new one."""
        parts = (
            as_new.labels[place],
            as_new.probabilities[place],
            strange[place],
            embedded_rows[place],
        )
        cut, *others = (None if one is None else np.asarray(one)[kept] for one in parts)
        assert cut is not None
        return observe(cut, rate, *others)

    done, absent = _evidence(labels, learned, shown, look)
    usual = learn_usual(learned, learn_presence(done, absent))
    fold_of = as_new.groups or [place % GROUPS for place in range(len(shown))]
    folds = sorted(set(fold_of)) if len(set(fold_of)) > 1 else []  # nothing can be left out of one

    def embedded(fold: int, place: int, video: Observed, kept: Rows | None = None) -> Observed:
        """The same video, as it looks to what was learned without the videos of this fold."""
        if as_new.embed is None or video.slices is None:
            return video
        return replace(video, slices=video.slices.seen_as(as_new.embed(fold, place, kept)))

    others = {}
    for fold in folds:
        places = [place for place in range(len(learned)) if fold_of[place] != fold]
        laid = set(some_of(places, MOST))  # beside which a video is laid
        part = [replace(learned[place], slices=None) for place in places if place not in laid]
        part += [embedded(fold, place, learned[place]) for place in sorted(laid)]
        presence = learn_presence(done[places], absent[places])
        others[fold] = learn_usual(part, presence, order=False)

    def judged(place: int, video: Observed, kept: Rows | None = None) -> dict[str, float]:
        """How far a video, or some rows of it, differs from the others."""
        fold = fold_of[place]
        known, seen = (
            (others[fold], embedded(fold, place, video, kept)) if others else (usual, video)
        )
        return Comparison(seen, known).amounts

    measured = [judged(place, video) for place, video in enumerate(shown)]
    strayed = {way: tuple(amounts[way] for amounts in measured) for way in BELIEVED}
    if not others:
        scales, limit = learn_scales(strayed), find_limit([], false_alarms)
        return Expectations(
            usual, scales, {}, limit, false_alarms, promised_rate(0, false_alarms), 0.0
        )
    shortened: list[list[Floats]] = []
    changed: dict[str, list[tuple[int, dict[str, float]]]] = {}
    for place, cut in enumerate(labels):
        for kind, every in plant(cut, usual.graph).items():
            made = [look(place, kept) for kept in every]
            pairs = zip(made, every, strict=True)
            changed.setdefault(kind, []).extend(
                (place, judged(place, video, kept)) for video, kept in pairs
            )
            if kind == MISSING_STEP and as_new.looks and as_new.embed:
                shortened.append([as_new.embed(fold_of[place], place, kept) for kept in every])
            elif kind == MISSING_STEP:
                shortened.append([one.embedding for one in made if one.embedding is not None])
    planted = {kind: Planted.gather(each) for kind, each in changed.items()}
    return Expectations(
        usual=usual,
        false_alarms=false_alarms,
        task=learn_task(learned, as_new.looks, shortened),
        videos=tuple(videos),
        groups=tuple(tuple(videos[place] for place in each) for each in find_groups(learned))
        if videos
        else (),
        **set_limits(strayed, planted, false_alarms),
    )


def _evidence(
    labels: Sequence[Labels],
    learned: Sequence[Observed],
    shown: Sequence[Observed],
    look: Callable[[int, Rows], Observed],
) -> tuple[Floats, Floats]:
    """The evidence (N, K) for each step that a video does, as it is and with the rows of the step
    removed."""
    count = 1 + max((one.step for video in learned for one in video.occurrences), default=-1)
    done, absent = (np.full((len(labels), count), np.nan) for _ in range(2))
    for place, video in enumerate(learned):
        for step in {one.step for one in video.occurrences}:
            evidence = shown[place].evidence
            done[place, step] = evidence[step] if step < len(evidence) else 0.0
            kept = np.flatnonzero(np.asarray(labels[place]) != step)
            rest = look(place, kept).evidence
            absent[place, step] = rest[step] if step < len(rest) else 0.0
    return done, absent


def plant(labels: Labels, graph: ProcedureGraph) -> dict[str, list[Rows]]:
    """The rows of changed videos, by what was changed.

    Neighbours are exchanged where the graph says that one must precede the other: elsewhere it is
    not a deviation.
    """
    numbers = np.asarray(labels, dtype=np.int64)
    every = np.arange(len(numbers))
    parts = [run for run in runs(numbers).tolist() if run[0] != BACKGROUND]
    steps = np.unique([step for step, _, _ in parts])
    pairs = [
        (one, two)
        for one, two in pairwise(parts)
        if one[0] in graph.steps and two[0] in graph.after(one[0])
    ]
    exchanged = [
        np.concatenate([every[:a], every[c:d], every[b:c], every[a:b], every[d:]])
        for (_, a, b), (_, c, d) in pairs
    ]
    return {
        MISSING_STEP: [
            every[numbers != step] for step in some_of(list(steps), SOME) if len(steps) > 1
        ],
        MISSING_HALF: [every[: len(every) // 2]] if len(every) > 1 else [],
        EXCHANGED: some_of(exchanged, SOME),
    }
