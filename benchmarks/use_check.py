"""The check judged: what it finds of planted deviations, the area under the ROC on recipes, and other tasks.

Deviations are made by cutting and rearranging the features of recordings that the procedure was not learned from: the
second half cut off, the middle third cut out, one step cut out, two neighbouring steps exchanged where one must precede
the other (by the true labels and the true graph). The cut of every such video is made anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepcut.datasets.captaincook4d import read
from stepcut.datasets.toy import EDGES, STEPS, toy_features
from stepcut.order.likelihood import close_order
from stepcut.procedure.learning import learn
from use_figures import area, backbone_of, is_wrong, true_edges, true_labels

Rows = NDArray[np.float32]
FOLDS = 3
FEWEST = 4
"""Fewer normal recordings than this are not learned from."""


class Trial(NamedTuple):
    """One procedure to learn and try: a toy kitchen (source empty) or a fold of a recipe."""

    source: str
    task: str
    number: int
    """The seed of a kitchen, or the fold of a recipe."""
    videos: int = 0
    """Of a kitchen; 0: all that a recipe has."""


def deviations(rows: Rows, true: NDArray[np.int64], before: NDArray[np.bool_], seed: int) -> list[tuple[str, Rows]]:
    """A recording with something planted: (what, rows)."""
    rng, length = np.random.default_rng(seed), len(rows)
    found = [("half", rows[: length // 2]), ("third", np.concatenate([rows[: length // 3], rows[2 * length // 3 :]]))]
    steps = rng.permutation(np.unique(true[true >= 0]))[:3]
    found += [("step out", rows[true != step]) for step in steps]
    bounds = [0, *(np.flatnonzero(np.diff(true)) + 1).tolist(), length]
    parts = [(int(true[a]), a, b) for a, b in pairwise(bounds) if true[a] >= 0]
    pairs = [(one, two) for one, two in pairwise(parts) if before[one[0], two[0]]]
    for place in rng.permutation(len(pairs))[:3]:
        (_, a, b), (_, c, d) = pairs[place]
        found.append(("exchange", np.concatenate([rows[:a], rows[c:d], rows[b:c], rows[a:b], rows[d:]])))
    return found


def matrix(edges: Sequence[tuple[int, int]], steps: int) -> NDArray[np.bool_]:
    """All that must precede what, (K, K)."""
    direct = np.zeros((steps, steps), dtype=bool)
    for a, b in edges:
        direct[a, b] = True
    return close_order(direct)


def detect(trial: Trial) -> dict[str, Any]:
    """Learn from normal recordings, check others intact and with something planted; percent called wrong."""
    if not trial.source:
        count = trial.videos
        rows, timelines = toy_features(videos=count + 6, seed=trial.number, duration=120.0, skip=0.0, repeat=0.0)
        truth = [t.labels(np.arange(len(x))) for t, x in zip(timelines, rows, strict=True)]
        learned, fresh, known = list(rows[:count]), list(rows[count:]), truth[count:]
        before = matrix([(STEPS.index(a), STEPS.index(b)) for a, b in EDGES], len(STEPS))
    else:
        task = next(one for one in read(trial.source).tasks if one.name == trial.task)
        backbone = backbone_of(task)
        normal = [video for video in task.with_features(backbone) if not is_wrong(video)]
        own = [video for place, video in enumerate(normal) if place % FOLDS != trial.number]
        held = [video for place, video in enumerate(normal) if place % FOLDS == trial.number]
        learned, fresh = ([video.read_features(backbone) for video in part] for part in (own, held))
        known = [true_labels(video, len(x)) for video, x in zip(held, fresh, strict=True)]
        before = matrix(sorted(true_edges(task)), len(task.steps))
    if len(learned) < FEWEST:
        return {"trial": trial, "found": {}, "forecast": {}, "learned": len(learned)}
    procedure = learn(learned, steps=len(before), seed=0)
    found: dict[str, list[bool]] = {}
    for place, (x, true) in enumerate(zip(fresh, known, strict=True)):
        for what, changed in [("normal", x), *deviations(x, true, before, place)]:
            found.setdefault(what, []).append(not procedure.check(changed).ok)
    return {"trial": trial, "found": found, "forecast": procedure.expectations.detects, "learned": len(learned)}


def judge_recipe(trial: Trial) -> dict[str, Any]:
    """Areas on a recipe: each third of the recordings checked by a procedure of the normal ones among the others.

    `wrong`: a step is missing or misordered, by the score, and by length alone. `other`: recordings of other recipes
    with the same features, by the distance from the task, against held-out ones of this.
    """
    tasks = [one for one in read(trial.source).tasks if one.graph is not None]
    task = next(one for one in tasks if one.name == trial.task)
    backbone = backbone_of(task)
    videos = list(task.with_features(backbone))
    scores, lengths, wrong, distances, others = [], [], [], [], []
    for fold in range(FOLDS):
        learned = [v for place, v in enumerate(videos) if place % FOLDS != fold and not is_wrong(v)]
        held = [v for place, v in enumerate(videos) if place % FOLDS == fold]
        if len(learned) < FEWEST or not held:
            continue
        procedure = learn([v.read_features(backbone) for v in learned], steps=len(task.steps), seed=0)
        usual = procedure.expectations.usual.length.middle
        for video in held:
            rows = video.read_features(backbone)
            report = procedure.check(rows)
            scores.append(report.score)
            lengths.append(usual - float(np.log(len(rows))))
            wrong.append(is_wrong(video))
            distances.append(report.task_distance)
        for other in tasks:
            if other is not task:
                some = [v for v in other if backbone in v.features][fold::9]
                reports = [procedure.check(v.read_features(backbone)) for v in some]
                others += [report.task_distance for report in reports]
    return {
        "trial": trial,
        "wrong": area(scores, wrong) if 0 < sum(wrong) < len(wrong) else None,
        "length": area(lengths, wrong) if 0 < sum(wrong) < len(wrong) else None,
        "other": area(distances + others, [False] * len(distances) + [True] * len(others)) if others else None,
        "called other": [float(np.mean([d > 1 for d in part])) if part else None for part in (distances, others)],
    }
