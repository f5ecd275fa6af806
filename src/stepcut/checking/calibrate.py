"""Calibrate: learn from the videos at hand what a normal one looks like, and how far it may stray.

How many of the deviations that are planted in them the limit finds says, before any video is checked, what a check will
be able to tell with these videos.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.checking.evidence import find_signs, measure
from stepcut.checking.expectations import Expectations
from stepcut.checking.observe import Floats, Observed, observe, some_of
from stepcut.checking.score import (
    BELIEVED,
    Planted,
    find_limit,
    learn_scales,
    promised_rate,
    set_limits,
)
from stepcut.checking.task import learn_task
from stepcut.checking.usual import MOST, learn_usual
from stepcut.errors import OptionError, check_kind
from stepcut.methods.learned import LeftOut
from stepcut.methods.stepcut.method import FOLDS
from stepcut.order.graph import ProcedureGraph
from stepcut.order.orders import Labels
from stepcut.timeline import BACKGROUND, runs

Rows = NDArray[np.int64]
Recut = Callable[[int, Rows], tuple[Labels, Floats | None, Floats | None, Floats | None]]
"""From the place of a video and some of its rows to steps, probabilities, novelty and embedding of the video of these."""

WITHOUT_STEP = "one step left out"
SOME = 3
"""How many steps, and how many pairs, of one video are tried."""


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
    recut: Recut | None = None,
    videos: Sequence[str] = (),
) -> Expectations:
    """Learn what is usual in videos, and how far a normal one may stray from it, by the labels (T,) and probabilities
    (T, K) of their rows, `rate` a second.

    novelty       (T,) per video, where it is not that of `left_out`
    false_alarms  the share of normal videos that may be called wrong; with n videos at least 1 / (n + 1)
    embeddings    (T, p) per video; without them another task is not told
    left_out      the same, as if each video were new: a new one is cut a little worse than those learned from, shows
                  steps less clearly, and is judged as these are, by the `labels` of the others; what looks alike in a
                  space that was made for it is no measure of new ones
    recut         cuts some rows of a video as a new one, to tell what will be found; without it they keep their labels
    videos        the name of each video; without them none can be said to hold a mistake
    """
    check_false_alarms(false_alarms)
    if not len(labels):
        raise OptionError(
            "labels is empty; expectations are learned from the labels of the training videos."
        )
    nothing: list[Any] = [None] * len(labels)
    as_found: Any = (labels, probabilities or nothing, novelty or nothing)
    as_new = left_out or LeftOut(*as_found)
    parts = ([rate] * len(labels), novelty or as_new.novelty, embeddings or nothing)
    learned, shown = (
        [
            observe(cut, per, share, *rest)
            for cut, share, per, *rest in zip(given, seen, *parts, strict=True)
        ]
        for given, seen, *_ in (as_found, as_new)
    )
    learned = [
        one._replace(peaks=new.peaks, clarity=new.clarity)
        for one, new in zip(learned, shown, strict=True)
    ]
    usual = learn_usual(learned)
    fold_of = as_new.groups or [place % FOLDS for place in range(len(shown))]
    folds = sorted(set(fold_of)) if len(set(fold_of)) > 1 else []  # nothing can be left out of one

    def embedded(fold: int, place: int, video: Observed, kept: Rows | None = None) -> Observed:
        """The same video, outlined as it looks to what was learned without the videos of this fold."""
        if as_new.embed is None or video.outline is None:
            return video
        return video._replace(outline=video.outline.seen_as(as_new.embed(fold, place, kept)))

    others = {}
    for fold in folds:
        places = [place for place in range(len(learned)) if fold_of[place] != fold]
        laid = set(some_of(places, MOST))  # beside which a video is laid
        part = [learned[place]._replace(outline=None) for place in places if place not in laid]
        part += [embedded(fold, place, learned[place]) for place in sorted(laid)]
        others[fold] = learn_usual(part, order=False)

    def judged(place: int, video: Observed, kept: Rows | None = None) -> dict[str, float]:
        """How far a video, or some rows of it, strays by what the others say."""
        fold = fold_of[place]
        known, seen = (
            (others[fold], embedded(fold, place, video, kept)) if others else (usual, video)
        )
        return measure(seen, find_signs(seen, known), known)

    measured = [judged(place, video) for place, video in enumerate(shown)]
    strayed = {way: tuple(amounts[way] for amounts in measured) for way in BELIEVED}
    if not others:
        scales, limit = learn_scales(strayed), find_limit([], false_alarms)
        return Expectations(
            usual, scales, {}, limit, false_alarms, promised_rate(0, false_alarms), 0.0
        )

    def look(place: int, kept: Rows) -> Observed:
        """What the video of these rows shows, as a new one."""
        parts = (
            (np.asarray(as_new.labels[place])[kept], None, None, None)
            if recut is None
            else recut(place, kept)
        )
        return observe(parts[0], rate, *parts[1:])

    shortened: list[list[Observed]] = []
    changed: dict[str, list[tuple[int, dict[str, float]]]] = {}
    for place, cut in enumerate(as_new.labels):
        for kind, every in plant(cut, usual.graph).items():
            made = [look(place, kept) for kept in every]
            pairs = zip(made, every, strict=True)
            changed.setdefault(kind, []).extend(
                (place, judged(place, video, kept)) for video, kept in pairs
            )
            if kind == WITHOUT_STEP:
                shortened.append(made)
    planted = {kind: Planted.gather(each) for kind, each in changed.items()}
    return Expectations(
        usual=usual,
        false_alarms=false_alarms,
        task=learn_task(learned, as_new.looks, shortened),
        videos=tuple(videos),
        **set_limits(strayed, planted, false_alarms),
    )


def plant(labels: Labels, graph: ProcedureGraph) -> dict[str, list[Rows]]:
    """The rows of changed videos, by what was changed; what is left of each is cut anew, as a new video is.

    Neighbours are exchanged where the graph says that one must precede the other: elsewhere it is no deviation.
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
        WITHOUT_STEP: [
            every[numbers != step] for step in some_of(list(steps), SOME) if len(steps) > 1
        ],
        "half of the video": [every[: len(every) // 2]] if len(every) > 1 else [],
        "two steps exchanged": some_of(exchanged, SOME),
    }
