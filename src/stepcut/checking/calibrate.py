"""Calibrate: learn what normal videos look like, how far they vary, and how much a check detects.

The detection rate is estimated on altered copies of the training videos.
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
from stepcut.checking.groups import find_groups
from stepcut.checking.observe import Floats, Observed, evidence_of, observe, some_of
from stepcut.checking.presence import learn_presence
from stepcut.checking.score import (
    PRIOR_SPREADS,
    Altered,
    find_limit,
    learn_scales,
    promised_rate,
    set_limits,
)
from stepcut.checking.task import learn_task
from stepcut.checking.usual import MOST, learn_usual
from stepcut.errors import OptionError, check_kind
from stepcut.methods.learned import LeftOut
from stepcut.order.graph import ProcedureGraph
from stepcut.order.orders import Labels
from stepcut.timeline import BACKGROUND, runs

Rows = NDArray[np.int64]

MISSING_STEP, MISSING_HALF, EXCHANGED = "missing step", "missing half", "exchanged steps"
"""The deviations that are made in training videos to estimate detection rates."""
SOME = 3
"""Altered steps, and altered pairs, per video."""
MANY = 64
"""At most this many videos, evenly spaced, are altered."""
GROUPS = 8
"""Number of folds, if the method does not define them."""


def check_false_alarms(share: float) -> None:
    """Refuse values that are not a share between 0 and 1."""
    check_kind("false_alarms", share, Real, "a share between 0 and 1, such as 0.05")
    if not 0 < share < 1:
        raise OptionError(
            f"false_alarms={share!r} is not a share of normal videos; "
            "give a number between 0 and 1, such as 0.05.",
            setting="false_alarms",
            value=share,
        )


def learn_expectations(
    labels: Sequence[Labels],
    rate: float,
    probabilities: Sequence[Floats] | None = None,
    false_alarms: float = 0.05,
    embeddings: Sequence[Floats] | None = None,
    left_out: LeftOut | None = None,
    videos: Sequence[str] = (),
) -> Expectations:
    """Learn what normal videos look like, and how far they may deviate.

    labels         the step of each row of each video, (T,); `rate` rows per second
    probabilities  (T, K) per video; without them the labels count as certain
    false_alarms   share of normal videos that may raise an alarm; with n videos at least 1 / (n + 1)
    embeddings     (T, p) per video; without them, another task is not detected
    left_out       the same data from models that have not seen the video: a new video is segmented
                   slightly worse than a training video, so it is compared with held-out videos
    videos         the name of each video; without them, none can be excluded from the reference set
    """
    check_false_alarms(false_alarms)
    if not len(labels):
        raise OptionError(
            "labels is empty; give the labels of one training video or more.", setting="labels"
        )
    nothing: list[Any] = [None] * len(labels)
    in_training: Any = (labels, probabilities or nothing, nothing)
    as_new = left_out or LeftOut(*in_training)
    # `observe` shares arrays of this type instead of copying them.
    embedded_rows = [np.asarray(one, dtype=np.float64) for one in embeddings or ()] or nothing
    learned, shown = (
        [
            observe(steps, rate, share, *rest)
            for steps, share, *rest in zip(*segmented, as_new.novelty, embedded_rows, strict=True)
        ]
        for segmented in (in_training[:2], as_new[:2])
    )

    def look(place: int, kept: Rows) -> Observed:
        """Observe these rows of a video as if it were new."""
        parts = (
            as_new.labels[place],
            as_new.probabilities[place],
            as_new.novelty[place],
            embedded_rows[place],
        )
        steps, *others = (None if one is None else np.asarray(one)[kept] for one in parts)
        assert steps is not None
        return observe(steps, rate, *others)

    def rest(place: int, kept: Rows) -> Floats:
        """Evidence for each step in these rows of a video as if it were new."""
        share = as_new.probabilities[place]
        steps = np.asarray(as_new.labels[place], dtype=np.int64)[kept]
        return evidence_of(steps, rate, None if share is None else np.asarray(share)[kept])

    done, absent = _evidence(labels, learned, shown, rest)
    usual = learn_usual(learned, learn_presence(done, absent))
    fold_of = as_new.groups or [place % GROUPS for place in range(len(shown))]
    folds = sorted(set(fold_of)) if len(set(fold_of)) > 1 else []

    def embedded(fold: int, place: int, video: Observed, kept: Rows | None = None) -> Observed:
        """Embed the video with the model that was trained without this fold."""
        if as_new.embed is None or video.slices is None:
            return video
        return replace(video, slices=video.slices.seen_as(as_new.embed(fold, place, kept)))

    others = {}
    for fold in folds:
        places = [place for place in range(len(learned)) if fold_of[place] != fold]
        aligned = set(some_of(places, MOST))
        part = [replace(learned[place], slices=None) for place in places if place not in aligned]
        part += [embedded(fold, place, learned[place]) for place in sorted(aligned)]
        presence = learn_presence(done[places], absent[places])
        others[fold] = learn_usual(part, presence, order=False)

    def judged(place: int, video: Observed, kept: Rows | None = None) -> dict[str, float]:
        """Measure how far a video, or some of its rows, deviates from the others."""
        fold = fold_of[place]
        if not others:
            return Comparison(video, usual).amounts
        return Comparison(embedded(fold, place, video, kept), others[fold]).amounts

    measured = [judged(place, video) for place, video in enumerate(shown)]
    deviations = {way: tuple(amounts[way] for amounts in measured) for way in PRIOR_SPREADS}
    if not others:
        scales, limit = learn_scales(deviations), find_limit([], false_alarms)
        return Expectations(
            usual, scales, {}, limit, false_alarms, promised_rate(0, false_alarms), 0.0
        )
    shortened: list[list[Floats]] = []
    changed: dict[str, list[tuple[int, dict[str, float]]]] = {}
    some = some_of(range(len(labels)), MANY)
    for place in some:
        for kind, every in alter(labels[place], usual.graph).items():
            made = [look(place, kept) for kept in every]
            pairs = zip(made, every, strict=True)
            changed.setdefault(kind, []).extend(
                (place, judged(place, video, kept)) for video, kept in pairs
            )
            if kind == MISSING_STEP and as_new.looks and as_new.embed:
                shortened.append([as_new.embed(fold_of[place], place, kept) for kept in every])
            elif kind == MISSING_STEP:
                shortened.append([one.embedding for one in made if one.embedding is not None])
    altered = {kind: Altered.gather(each) for kind, each in changed.items()}
    return Expectations(
        usual=usual,
        false_alarms=false_alarms,
        task=learn_task(learned, some, as_new.looks, shortened),
        videos=tuple(videos),
        groups=tuple(tuple(videos[place] for place in each) for each in find_groups(learned))
        if videos
        else (),
        **set_limits(deviations, altered, false_alarms),
    )


def _evidence(
    labels: Sequence[Labels],
    learned: Sequence[Observed],
    shown: Sequence[Observed],
    rest: Callable[[int, Rows], Floats],
) -> tuple[Floats, Floats]:
    """Evidence (N, K) of each shown step, as it is and with the rows of the step removed."""
    count = 1 + max((one.step for video in learned for one in video.occurrences), default=-1)
    done, absent = (np.full((len(labels), count), np.nan) for _ in range(2))
    for place, video in enumerate(learned):
        for step in {one.step for one in video.occurrences}:
            evidence = shown[place].evidence
            done[place, step] = evidence[step] if step < len(evidence) else 0.0
            kept = np.flatnonzero(np.asarray(labels[place]) != step)
            left = rest(place, kept)
            absent[place, step] = left[step] if step < len(left) else 0.0
    return done, absent


def alter(labels: Labels, graph: ProcedureGraph) -> dict[str, list[Rows]]:
    """Return the rows of altered copies of a video, by kind of deviation.

    Adjacent steps are exchanged only if the graph requires their order.
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
