"""Calibrate: learn what normal videos look like, how far they vary, and how much a check detects.

Every reference video is seen as if it were new: predicted by a model that has not seen it, also if
a person labelled it. The detection rates come from altered copies of the reference videos.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.checking.evidence import KINDS_OF_FAULTS, Comparison
from stepcut.checking.expectations import Expectations
from stepcut.checking.observe import Floats, Observed, evidence_of, observe, some_of
from stepcut.checking.presence import UNSEEN, learn_presence
from stepcut.checking.score import MEASURES, Copy
from stepcut.checking.task import learn_task
from stepcut.checking.usual import MOST, Usual, learn_usual
from stepcut.errors import OptionError
from stepcut.methods.method import LeftOut
from stepcut.methods.similar import find_groups
from stepcut.order.graph import ProcedureGraph
from stepcut.order.learn import find_occurrences, graph_of_occurrences
from stepcut.order.orders import Labels
from stepcut.settings import check_number
from stepcut.timeline import BACKGROUND, runs

Rows = NDArray[np.int64]

SOME = 3
"""Altered steps, and altered pairs, per video; more steps if there are few videos."""
MANY = 64
"""At most this many videos, evenly spaced, are altered."""
FROZEN = 0.3
"""Share of a video in which the picture of a frozen copy stands still."""
GROUPS = 8
"""Number of folds, if the method does not define them."""


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

    labels         (T,) per video, `rate` rows per second, for the usual orders and steps
    probabilities  (T, K) per video; without them the labels count as certain
    false_alarms   share of normal videos that may raise an alarm
    embeddings     (T, p) per video; without them, another task is not detected
    left_out       what models that have not seen a video predict for it; all else comes from these
    videos         names; without them, no video can be excluded from the reference set
    """
    check_number("false_alarms", false_alarms, 0, 1, above=True)
    if not len(labels):
        raise OptionError(
            "labels is empty; give the labels of one training video or more.", setting="labels"
        )
    references = References(labels, rate, probabilities, embeddings, left_out)
    shown, usual, graph = references.shown, references.usual, references.graph
    compared = [references.compare(place, video) for place, video in enumerate(shown)]
    invariant = tuple(
        step
        for step in usual.occurs
        if graph.occurs.get(step) == graph.videos
        and all(one.likely.get(step, 0.0) >= UNSEEN for one in compared)
    )
    several = len(references.folds) > 1
    amounts = {way: tuple(one.amounts[way] for one in compared) for way in MEASURES}
    altered: dict[str, tuple[Copy, ...]] = {}
    task = None
    if several:
        altered, shortened = references.alter(invariant)
        looks = left_out.looks if left_out else None
        task = learn_task(shown, references.some, looks, shortened)
    groups = find_groups(embeddings) if videos and embeddings is not None else []
    return Expectations(
        graph=graph,
        usual=usual,
        false_alarms=false_alarms,
        amounts=amounts if several else {},
        invariant=invariant,
        altered=altered,
        task=task,
        videos=tuple(videos) if several else (),
        groups=tuple(tuple(videos[place] for place in each) for each in groups),
    )


class References:
    """The reference videos as if they were new, each compared with those of other folds."""

    def __init__(
        self,
        labels: Sequence[Labels],
        rate: float,
        probabilities: Sequence[Floats] | None,
        embeddings: Sequence[Floats] | None,
        left_out: LeftOut | None,
    ) -> None:
        nothing: Any = [None] * len(labels)
        self.labels, self.rate = labels, rate
        as_trained: Any = (labels, probabilities or nothing, nothing)
        self.new = left_out or LeftOut(*as_trained)
        # `observe` shares arrays of this type instead of copying them.
        self.embeddings = [np.asarray(one, dtype=np.float64) for one in embeddings or ()] or nothing
        self.shown = [self.observe(place) for place in range(len(labels))]
        self.graph = graph_of_occurrences([find_occurrences(one, rate) for one in labels])
        self.some = some_of(range(len(labels)), MANY)
        self.fold_of = self.new.groups or [place % GROUPS for place in range(len(labels))]
        self.folds = sorted(set(self.fold_of))
        done, absent = self._evidence()
        self.usual = learn_usual(self.shown, learn_presence(done, absent))
        self._others = {
            fold: self._usual_without(fold, done, absent)
            for fold in (self.folds if len(self.folds) > 1 else ())
        }

    def observe(self, place: int, kept: Rows | None = None) -> Observed:
        """Observe a video, or these rows of it, as if it were new."""
        new = self.new
        parts = [new.labels, new.probabilities, new.novelty, self.embeddings]
        mine: Any = [None if one[place] is None else np.asarray(one[place]) for one in parts]
        if kept is not None:
            mine = [None if one is None else one[kept] for one in mine]
        steps, share, novelty, embedding = mine
        return observe(steps, self.rate, share, novelty, embedding)

    def compare(self, place: int, video: Observed, kept: Rows | None = None) -> Comparison:
        """Compare a video, or these rows of it, with those of other folds."""
        if not self._others:
            return Comparison(video, self.usual)
        fold = self.fold_of[place]
        return Comparison(self._embedded(fold, place, video, kept), self._others[fold])

    def alter(
        self, invariant: Sequence[int]
    ) -> tuple[dict[str, tuple[Copy, ...]], list[list[Floats]]]:
        """Alter copies of some videos; also return the embeddings of those that lack a step."""
        copies: dict[str, tuple[Copy, ...]] = {}
        shortened: list[list[Floats]] = []
        steps = max(SOME, SOME * MANY // len(self.labels))
        for place in self.some:
            shortened.append([])
            for kind, (gone, kept) in alterations(self.labels[place], self.graph, steps):
                made = self.observe(place, kept)
                one = self.compare(place, made, kept)
                least = min((one.likely.get(step, 0.0) for step in invariant), default=1.0)
                amounts: Any = tuple(one.amounts[way] for way in MEASURES)
                copy = Copy(place, amounts, least, gone, one.likely.get(gone, 1.0))
                copies[kind] = (*copies.get(kind, ()), copy)
                if kind == KINDS_OF_FAULTS["step"] and made.embedding is not None:
                    looks = self.new.looks and self.new.embed
                    fold = self.fold_of[place]
                    rows = looks(fold, place, kept) if looks else made.embedding
                    shortened[-1].append(rows)
        return copies, shortened

    def _evidence(self) -> tuple[Floats, Floats]:
        """Evidence (N, K) of each shown step, as it is and with the rows of the step removed."""
        count = 1 + max((int(np.max(one, initial=-1)) for one in self.labels), default=-1)
        done, absent = (np.full((len(self.labels), count), np.nan) for _ in range(2))
        for place, labels in enumerate(self.labels):
            numbers, share = np.asarray(labels), self.new.probabilities[place]
            new = np.asarray(self.new.labels[place], dtype=np.int64)
            for step in np.unique(numbers[numbers >= 0]):
                evidence = self.shown[place].evidence
                kept = np.flatnonzero(numbers != step)
                left = evidence_of(new[kept], self.rate, None if share is None else share[kept])
                done[place, step] = evidence[step] if step < len(evidence) else 0.0
                absent[place, step] = left[step] if step < len(left) else 0.0
        return done, absent

    def _usual_without(self, fold: int, done: Floats, absent: Floats) -> Usual:
        places = [place for place in range(len(self.shown)) if self.fold_of[place] != fold]
        aligned = set(some_of(places, MOST))
        part = [replace(self.shown[place], slices=None) for place in places if place not in aligned]
        part += [self._embedded(fold, place, self.shown[place]) for place in sorted(aligned)]
        return learn_usual(part, learn_presence(done[places], absent[places]))

    def _embedded(
        self, fold: int, place: int, video: Observed, kept: Rows | None = None
    ) -> Observed:
        """Embed the video with the model that was trained without this fold."""
        if self.new.embed is None or video.slices is None:
            return video
        return replace(video, slices=video.slices.seen_as(self.new.embed(fold, place, kept)))


def alterations(
    labels: Labels, graph: ProcedureGraph, steps: int = SOME
) -> list[tuple[str, tuple[int, Rows]]]:
    """Return the altered copies of a video: (kind, (removed step or -1, rows)).

    Adjacent steps are exchanged only if the graph requires their order.
    """
    numbers = np.asarray(labels, dtype=np.int64)
    length, every = len(numbers), np.arange(len(numbers))
    parts = [run for run in runs(numbers).tolist() if run[0] != BACKGROUND]
    shown = np.unique([step for step, _, _ in parts])
    pairs = [
        (one, two)
        for one, two in pairwise(parts)
        if one[0] in graph.steps and two[0] in graph.after(one[0])
    ]
    step, half, exchange, slow, frozen = KINDS_OF_FAULTS.values()
    made = [
        (step, (int(gone), every[numbers != gone]))
        for gone in (some_of(list(shown), steps) if len(shown) > 1 else ())
    ]
    for (_, a, b), (_, c, d) in some_of(pairs, SOME):
        exchanged = [every[:a], every[c:d], every[b:c], every[a:b], every[d:]]
        made.append((exchange, (-1, np.concatenate(exchanged))))
    if length > 1:
        still = every.copy()
        begin = (length - int(FROZEN * length)) // 2
        still[begin : begin + int(FROZEN * length)] = begin
        made += [(half, (-1, every[: length // 2])), (slow, (-1, np.repeat(every, 2)))]
        made.append((frozen, (-1, still)))
    return made
