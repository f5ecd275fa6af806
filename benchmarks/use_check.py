"""Evaluate check and guide on held-out recordings; each model is fitted once.

A fifth of the recordings of a recipe is held out in turn. The training set is *all* of the others or only the
*normal* ones: without labels, with *three labelled* (normal ones, drawn at random) or with *all* normal ones labelled.
*marked*: recordings with mistakes are excluded from the reference set, all of them or those among the *three* most
unusual ones. *same* checks the training recordings. *true labels* uses the true labels in place of every segmentation,
which is the upper limit of a check.
Deviations are simulated in held-out normal recordings by removing and rearranging features: the second half, the
middle third or one step is removed, or two neighbouring steps are exchanged where one must precede the other (by the
true labels and the true graph). Each such video is segmented again.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepcut.checking.calibrate import learn_expectations
from stepcut.checking.check import check_labels
from stepcut.checking.expectations import Expectations
from stepcut.checking.report import Report
from stepcut.evaluation import score
from stepcut.guidance.guide import Guide
from stepcut.methods import leave_out
from stepcut.methods.constraints import as_constraints
from stepcut.methods.stepcut.method import StepCut
from stepcut.paper.datasets import Task, TaskVideo, load
from stepcut.toy import EDGES, STEPS, toy_features
from use_figures import Labels, backbone_of, closed_edges, is_wrong, true_edges, true_labels

Rows = NDArray[Any]
FOLDS, FEWEST, NEAR = 5, 4, 10.0
"""FEWEST: fewer recordings are not learned from; NEAR: seconds that a named time may be off."""
PLANTED = ("normal", "all", "all + 3 marked", "all + marked")
"""Training sets for which deviations are simulated."""


class Trial(NamedTuple):
    """One search for steps: in a fold of a recipe, or in a toy kitchen (source empty, `fold` its seed)."""

    source: str
    task: str
    hows: tuple[str, ...]
    """all, all + 3 marked, all + marked; or normal, normal + 3 labels, normal + all labels; or true
    cut; or same; or `8 videos` of a kitchen. What is learned from labels starts from the same search, as by `teach`."""
    fold: int
    draw: int = 0
    """The seed by which recordings are put into folds."""


class Learned:
    """A method and what is usual, from some recordings."""

    def __init__(
        self,
        rows: Sequence[Rows],
        steps: int,
        labels: Sequence[Labels | None] | None = None,
        rate: float = 1.0,
        before: Learned | None = None,
    ) -> None:
        self.method, self.rate = StepCut(steps=steps, rate=rate, seed=0), rate
        if before is not None:
            self.method.start_from(before.method)
        self.method.fit(rows, None if labels is None else as_constraints(labels))
        left_out = leave_out(self.method, rows)
        self.expectations: Expectations = learn_expectations(
            left_out.labels if labels is None else self.method.labels_,
            rate,
            probabilities=self.method.probabilities(rows),
            left_out=left_out,
            embeddings=self.method.embed(rows),
            videos=[str(place) for place in range(len(rows))],
        )

    def marked(self, mistakes: Sequence[int]) -> Learned:
        """Return a copy that excludes videos with mistakes from the reference set."""
        told = copy.copy(self)
        told.expectations = self.expectations.without([str(place) for place in mistakes])
        return told

    def _cut(self, rows: Rows) -> tuple[Labels, Rows, Rows, Rows]:
        """The steps, probabilities, novelty and embedding of a new video."""
        one, method = [rows], self.method
        return (
            method.predict(one)[0],
            method.probabilities(one)[0],
            method.novelty(one)[0],
            method.embed(one)[0],
        )

    def check(self, rows: Rows) -> Report:
        """Return the report of `proc.check`."""
        labels, shares, novelty, embedding = self._cut(rows)
        return check_labels(
            labels, self.rate, self.expectations, shares, novelty, embedding=embedding
        )

    def follow(self, rows: Rows) -> tuple[Labels, NDArray[np.float64], int]:
        """Return the step of each row by the guide, its confidence, and the number of alarms."""
        names = [f"step {number}" for number in range(self.method.steps_)]
        guide = Guide(self.method.online, self.rate, self.expectations, names)
        states = [guide.push(float(time), row) for time, row in enumerate(rows)]
        sure = np.array([state.confidence for state in states])
        return (
            np.array([state.step for state in states]),
            sure,
            sum(len(state.alerts) for state in states),
        )


class TrueCut:
    """What is usual by true labels (T,), which stand in for rows and for their cut."""

    def __init__(self, labels: Sequence[Labels]) -> None:
        self.expectations = learn_expectations(labels, 1.0)

    def check(self, labels: Labels) -> Report:
        """Return the report of a check of these labels."""
        return check_labels(labels, 1.0, self.expectations)


def judge(trial: Trial) -> list[dict[str, Any]]:
    """Learn from each training set of the trial; check, guide and alter the held-out videos."""
    if not trial.source:
        return [_judge_kitchen(trial)]
    tasks = [one for one in load("captaincook4d", trial.source) if one.graph is not None]
    task = next(one for one in tasks if one.name == trial.task)
    backbone = backbone_of(task)
    videos, same = list(task.with_features(backbone)), trial.hows == ("same",)
    order = np.random.default_rng(trial.draw).permutation(len(videos))
    held = videos if same else [videos[place] for place in sorted(order[trial.fold :: FOLDS])]
    own = [video for video in videos if same or video not in held]
    own = [
        video
        for video in own
        if not (trial.hows[0].startswith(("normal", "true")) and is_wrong(video))
    ]
    if len(own) < FEWEST:
        return [_nothing(trial, how, len(own)) for how in trial.hows]
    before = closed_edges(true_edges(task), len(task.steps))
    if trial.hows == ("true labels",):
        return [_judge_true_cut(trial, task, own, held, before)]
    rows = [video.read_features(backbone) for video in own]
    found, first = [], Learned(rows, len(task.steps))
    normal = [place for place, video in enumerate(own) if not is_wrong(video)]
    drawn = np.random.default_rng(trial.fold).permutation(normal)
    for how in trial.hows:
        learned, seen = first, []
        if "marked" in how:
            odd = [
                int(name) for name in first.expectations.oddest[: 3 if "3 marked" in how else None]
            ]
            mistakes = [place for place in odd if is_wrong(own[place])]
            if len(own) - len(mistakes) < FEWEST:
                found.append(_nothing(trial, how, len(own) - len(mistakes)))
                continue
            learned, seen = first.marked(mistakes), [place in mistakes for place in odd]
        if "labels" in how:
            chosen = drawn[: 3 if "3 labels" in how else None]
            labels = [
                true_labels(own[n], len(x)) if n in chosen else None for n, x in enumerate(rows)
            ]
            learned = Learned(rows, len(task.steps), labels, before=first)
        found.append(_nothing(trial, how, len(own)) | _said(learned) | {"odd": seen})
        truth = [true_labels(video, len(x)) for video, x in zip(own, rows, strict=True)]
        matching = np.full(
            learned.method.steps_ + 1, -2
        )  # the last one is asked for as -1, background
        for step, true in score(
            learned.method.labels_, [labels + 1 for labels in truth], "strict"
        ).matching.items():
            matching[step] = true - 1
        for place, video in enumerate(held):
            x = video.read_features(backbone)
            record = _record(learned, task, video, x, matching, guided=how in ("all", "normal"))
            found[-1]["records"].append(record | {"promised": learned.expectations.promised})
            if how in PLANTED and not is_wrong(video):
                found[-1]["planted"] += planted(
                    learned, x, true_labels(video, len(x)), before, place
                )
        comparable = not trial.source.rstrip("/").endswith(
            "_more"
        )  # there, each recipe has separate features
        if comparable and how in ("all", "normal"):
            others = [
                video
                for other in tasks
                if other is not task
                for video in list(other)[trial.fold :: 9]
            ]
            some = [video.read_features(backbone) for video in others if backbone in video.features]
            found[-1]["others"] = [learned.check(x).task_distance for x in some]
    return found


def _judge_true_cut(
    trial: Trial,
    task: Task,
    own: Sequence[TaskVideo],
    held: Sequence[TaskVideo],
    before: NDArray[np.bool_],
) -> dict[str, Any]:
    """Check what was held out where every cut is true; learned from `own`; `before`: what must precede what, (K, K)."""
    learned = TrueCut([true_labels(video) for video in own])
    found = _nothing(trial, "true labels", len(own)) | _said(learned)
    for place, video in enumerate(held):
        true = true_labels(video)
        record = _record(learned, task, video, true, np.arange(len(task.steps)), guided=False)
        found["records"].append(record | {"promised": learned.expectations.promised})
        found["planted"] += [] if is_wrong(video) else planted(learned, true, true, before, place)
    return found


def _nothing(trial: Trial, how: str, learned: int) -> dict[str, Any]:
    """Return an empty record of a training set; `learned` is its number of videos."""
    return {
        "trial": trial,
        "how": how,
        "records": [],
        "planted": [],
        "others": [],
        "learned": learned,
        "forecast": {},
        "ranges": {},
        "odd": [],
    }


def _said(learned: Learned | TrueCut) -> dict[str, Any]:
    """Return the forecast of the detection rate, with its interval."""
    return {"forecast": learned.expectations.detects, "ranges": learned.expectations.ranges}


def _judge_kitchen(trial: Trial) -> dict[str, Any]:
    how = trial.hows[0]
    count = int(how.split()[0])
    rows, timelines = toy_features(
        videos=count + 6, seed=trial.fold, duration=120.0, skip=0.0, repeat=0.0
    )
    learned = Learned(list(rows[:count]), len(STEPS))
    before = closed_edges({(STEPS.index(a), STEPS.index(b)) for a, b in EDGES}, len(STEPS))
    found: list[tuple[str, bool]] = []
    for place, (x, timeline) in enumerate(zip(rows[count:], timelines[count:], strict=True)):
        found += planted(learned, x, timeline.labels(np.arange(len(x))), before, place)
    return _nothing(trial, how, count) | {"planted": found} | _said(learned)


def _record(
    learned: Learned | TrueCut,
    task: Task,
    video: TaskVideo,
    rows: Rows,
    matching: Labels,
    guided: bool,
) -> dict[str, Any]:
    """The figures of one held-out recording, by a `matching` of found steps to true ones; `guided`: the guide's too."""
    report = learned.check(rows)
    record: dict[str, Any] = {"wrong": is_wrong(video), "score": report.score, "alarm": not report.ok,
                              "short": -float(np.log(len(rows))), "distance": report.task_distance}  # fmt: skip
    times = error_times(task, video)
    named = [one for one in report.findings if one.step is not None][:1]
    if times and named:
        start, lasts = named[0].start, named[0].end - named[0].start
        places = np.linspace(0.0, max(len(rows) - lasts, 0.0), 200)
        record["near"] = is_near(start, lasts, times)
        record["near by chance"] = float(
            np.mean([is_near(place, lasts, times) for place in places])
        )
    exchanged = {
        task.steps.index(name)
        for name, what in video.errors
        if what == "order error" and name in task.steps
    }
    told = {int(matching[one.step]) for one in report.misordered if one.step is not None}
    record |= {"order errors": len(exchanged), "order errors named": len(exchanged & told)}
    if guided and isinstance(learned, Learned):
        true = true_labels(video, len(rows))
        online, sure, alarms = learned.follow(rows)
        cut, known = learned.method.predict([rows])[0], true >= 0
        right = (matching[online] == true)[known]
        record |= {"cut right": float(np.mean(matching[cut][known] == true[known])), "guide alarms": alarms,
                   "guide right": float(np.mean(right)), "seconds": np.stack([sure[known], right], axis=1)}  # fmt: skip
    return record


def is_near(start: float, lasts: float, times: Sequence[tuple[float, float]]) -> bool:
    """Whether a stretch that begins at `start` and `lasts` so long lies within NEAR seconds of one of `times`."""
    return any(start <= b + NEAR and start + lasts >= a - NEAR for a, b in times)


def error_times(task: Task, video: TaskVideo) -> list[tuple[float, float]]:
    """When steps are done that are annotated as misordered; for a missing one, from the last that must precede it to
    the first that must follow it."""
    before, found = closed_edges(true_edges(task), len(task.steps)), []
    done = [
        (task.steps.index(segment.step), segment.start, segment.end)
        for segment in video.timeline or ()
    ]
    for name, what in video.errors:
        step = task.steps.index(name) if name in task.steps else -1
        own = [(start, end) for other, start, end in done if other == step]
        if what == "order error":
            found += own
        elif what == "missing step" and step >= 0 and not own:
            late = min(
                (start for other, start, _ in done if before[step, other]), default=done[-1][2]
            )
            early = max(
                (end for other, _, end in done if before[other, step] and end <= late), default=0.0
            )
            found.append((early, late))
    return found


def planted(
    learned: Learned | TrueCut, rows: Rows, true: Labels, before: NDArray[np.bool_], seed: int
) -> list[tuple[str, bool]]:
    """Whether a recording, and what is made of it, is called wrong: (what was done to it, whether)."""
    rng, length = np.random.default_rng(seed), len(rows)
    made = [("normal", rows), ("half", rows[: length // 2])]
    made.append(("third", np.concatenate([rows[: length // 3], rows[2 * length // 3 :]])))
    made += [
        ("step out", rows[true != step]) for step in rng.permutation(np.unique(true[true >= 0]))[:3]
    ]
    bounds = [0, *(np.flatnonzero(np.diff(true)) + 1).tolist(), length]
    parts = [(int(true[a]), a, b) for a, b in pairwise(bounds) if true[a] >= 0]
    pairs = [(one, two) for one, two in pairwise(parts) if before[one[0], two[0]]]
    for place in rng.permutation(len(pairs))[:3]:
        (_, a, b), (_, c, d) = pairs[place]
        made.append(
            ("exchange", np.concatenate([rows[:a], rows[c:d], rows[b:c], rows[a:b], rows[d:]]))
        )
    return [(what, not learned.check(changed).ok) for what, changed in made]
