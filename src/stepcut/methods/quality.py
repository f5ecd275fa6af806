"""Quality without labels: are these steps, or little more than slices of time or chance?"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from stepcut.checks import SEEDS
from stepcut.methods.arithmetic import (
    Floats,
    as_vectors,
    equal_parts,
    normalised_times,
    strongest_directions,
)
from stepcut.methods.constraints import OPEN
from stepcut.methods.inputs import Array, Labels, build
from stepcut.methods.method import Method
from stepcut.methods.stepcut.consensus import agreement, come_again, time_regularity
from stepcut.progress import Hook, silent
from stepcut.timeline import runs

Grade = Literal["good", "doubtful", "clock"]

GOOD = 1.0
"""A score of at least this is graded good. Set, as the next, on recipes, knots, toy kitchens, shuffled videos and
noise, see docs/results.md."""
CHANCE = 0.1
"""Halves of the videos that agree by less than this beyond chance share no steps."""
HELP = "More videos, labels for two or three of them (stepcut teach), a better backbone or a higher --fps help."
SINGLE = 5
"""Single runs whose agreement is measured."""
RIGHT = (0.06, 0.53)
"""Of segments about RIGHT[0] + RIGHT[1] score are right. Fitted to nine recipes and knots, each judged by the others in
docs/results.md."""
SHORT = 64
"""Principal axes on which videos are learned again."""


@dataclass(frozen=True)
class Quality:
    """How far to trust the steps. All figures are from 0 to 1, and 0 where they were not measured."""

    grade: Grade
    """good, doubtful, or clock: little more than slices of time, or than chance."""
    reason: str
    """One sentence, with what helps."""
    score: float
    """(runs + halves) (1 - regularity / 2), half of it for slices of time, 0 where nothing is shared; 0 to 2."""
    runs: float
    """Agreement between single runs from different starts."""
    halves: float
    """Agreement of all steps with those learned from half of the videos, mean of both halves."""
    shared_beyond_chance: float
    """(h - c) / (1 - c), h how far the two halves agree with each other, c the same on videos with random phases: each
    keeps how strongly and how quickly its features change, and loses what it shares with the others."""
    clock: float
    """Agreement with a cut of every video into equal parts."""
    regularity: float
    """How regular the times of the steps are that single runs find without any time; 1: each at one time."""
    shared: tuple[float, ...]
    """Of each step, the share of the videos in which it is done."""
    sharpness: float = 1.0
    """What of the features is lost when every boundary moves by half a segment, see `measure_sharpness`; where nothing
    is, steps are slices of time."""

    def __str__(self) -> str:
        return f"{self.grade}: {self.reason}"

    @property
    def reliability(self) -> float:
        """The share of segments that are expected to be right where the method itself is sure; 1 if not measured."""
        return float(np.clip(RIGHT[0] + RIGHT[1] * self.score, 0.05, 0.95)) if self.shared else 1.0

    def to_json(self) -> dict[str, Any]:
        """For config.json."""
        return {**asdict(self), "shared": list(self.shared)}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """What `to_json` wrote."""
        return cls(**{**record, "shared": tuple(record["shared"])})


def measure_quality(
    method: Method, features: Sequence[Array], progress: Hook = silent
) -> Quality | None:
    """The quality of the steps that a fitted method found in these videos, in a few seconds.

    It learns again with a few restarts, from other starts, and from half of the videos. None for a method without the
    settings `steps`, `seed` and `restarts` (learning again would take as long as learning), for fewer than four videos
    and for one step. `progress` hears how far learning again is, once for each time.
    """
    given = method.settings()
    if not {"steps", "seed", "restarts"} <= given.keys() or len(features) < 4 or method.steps_ < 2:
        return None
    count, labels = method.steps_, np.concatenate(method.labels_)
    videos = shorten(features)
    timeless = {"prior": 0.0} if "prior" in given else {}
    seeds = [(given["seed"] + 1 + number) % (SEEDS + 1) for number in range(SINGLE)]
    single = [
        refit(method, videos, progress, restarts=1, seed=seed, **timeless).labels_ for seed in seeds
    ]
    runs = [np.concatenate(one) for one in single]
    few = max(1, given["restarts"] // 8)
    halves = [
        np.concatenate(half) for half in cut_by_halves(method, videos, progress, restarts=few)
    ]
    random = randomise_phases(videos, given["seed"])
    by_chance = [
        np.concatenate(half)
        for half in cut_by_halves(method, random, progress, restarts=1, **timeless)
    ]
    chance = agreement(by_chance[0], by_chance[1], count)
    uniform = np.concatenate([equal_parts(len(rows), count) for rows in features])
    shortest = min(len(rows) for rows in features) / (10 * count)
    done = [[(cut == step).any() for step in range(count)] for cut in method.labels_]
    return grade(
        runs=float(np.mean([agreement(a, b, count) for i, a in enumerate(runs) for b in runs[:i]])),
        halves=float(np.mean([agreement(half, labels, count) for half in halves])),
        beyond=(agreement(halves[0], halves[1], count) - chance) / max(1 - chance, 1e-9),
        clock=agreement(labels, uniform, count),
        regularity=0.0
        if come_again(single, count, shortest)
        else float(np.mean([time_regularity(one, count, shortest) for one in single])),
        shared=tuple(np.mean(done, axis=0).round(3).tolist()),
        sharpness=measure_sharpness(videos, method.labels_),
    )


def measure_sharpness(videos: Sequence[Floats], labels: Sequence[Labels]) -> float:
    """1 - E(moved) / E(found),  E = sum over segments of |sum of x|^2 / rows,  what the means of segments explain.

    `moved` has its boundaries in the middle of the segments found. Where features stay alike within a step and change
    between steps, much is lost; of features that only drift, moved boundaries explain as much, and it is 0 or below.
    `videos` are centred, (T, d) each; `labels` (T,) each.
    """
    found = moved = 0.0
    for rows, cut in zip(videos, labels, strict=True):
        _, starts, ends = runs(cut).T
        middles = (starts + ends) // 2
        found += _explained(rows, starts)
        moved += _explained(rows, np.unique(np.append(0, middles)))
    return float(1 - moved / found) if found > 0 else 0.0


def _explained(rows: Floats, starts: NDArray[np.int64]) -> float:
    """Sum over segments, which begin at `starts`, of |sum of x|^2 / rows."""
    lengths = np.diff(np.append(starts, len(rows)))
    return float(((np.add.reduceat(rows, starts, axis=0) ** 2).sum(axis=1) / lengths).sum())


def cut_by_halves(
    method: Method, videos: Sequence[Array], progress: Hook, **changes: Any
) -> list[list[Labels]]:
    """All videos cut by the steps of the first, third, ... video, and by those of the others."""
    return [
        refit(method, videos[first::2], progress, **changes).predict(videos) for first in (0, 1)
    ]


def randomise_phases(videos: Sequence[Floats], seed: int) -> list[Floats]:
    """Videos with the same power at every frequency and random phases: the surrogate data of Theiler et al. (1992)."""
    rng = np.random.default_rng(seed)
    out = []
    for rows in videos:
        waves = np.fft.rfft(rows, axis=0)
        out.append(
            np.fft.irfft(waves * np.exp(2j * np.pi * rng.random(waves.shape)), len(rows), axis=0)
        )
    return out


def shorten(features: Sequence[Array]) -> list[Floats]:
    """The videos on their first principal axes, so that learning again is quick: (T, 64) each."""
    rows = [as_vectors(video).astype(np.float64) for video in features]
    centred = [video - video.mean(axis=0) for video in rows]
    if rows[0].shape[1] <= SHORT:
        return centred
    axes, _ = strongest_directions(centred, SHORT)
    return [video @ axes for video in centred]


def refit(method: Method, videos: Sequence[Array], progress: Hook, **changes: Any) -> Method:
    """A method with the same settings and what was chosen, but for `changes`, fitted to these videos."""
    chosen = {"steps": method.steps_, **(method.chosen_ or {})}
    fresh: Method = build(type(method), {**method.settings(), **chosen, **changes})
    return fresh.fit(videos, progress=progress)


def grade(
    runs: float,
    halves: float,
    beyond: float,
    clock: float,
    regularity: float,
    shared: tuple[float, ...],
    sharpness: float,
) -> Quality:
    """The grade that the figures of `Quality` give, and why; `beyond` is `shared_beyond_chance`."""
    nothing = beyond < CHANCE
    score = 0.0 if nothing else (runs + halves) * (1 - max(0.0, regularity) / 2)
    score *= 0.5 if sharpness <= 0 else 1.0
    figures = (score, runs, halves, beyond, clock, regularity, shared, sharpness)
    if nothing:
        why = "halves of the videos agree no better than videos that have nothing in common"
        return Quality(
            "clock", f"no steps that the videos share were found: {why}. {HELP}", *figures
        )
    if sharpness <= 0:
        why = "nothing changes more where they end than in their middle"
        return Quality(
            "clock", f"these steps are little more than slices of time: {why}. {HELP}", *figures
        )
    if score >= GOOD:
        why = f"runs agree by {runs:.0%}, halves of the videos by {halves:.0%}"
        return Quality("good", f"independent runs find the same steps: {why}.", *figures)
    agreed = [(runs, f"runs from other starts agree by {runs:.0%} only")]
    agreed += [(halves, f"steps learned from half of the videos agree by {halves:.0%} only")]
    weak = [why for share, why in agreed if share < 0.7]
    if (
        regularity > 0.6 or not weak
    ):  # where both agree so far, nothing else keeps the score below GOOD
        weak.append(f"the time of the video explains much of them (regularity {regularity:.0%})")
    return Quality("doubtful", f"{'; '.join(weak)}. {HELP}", *figures)


def grade_taught(right: float | None, labels: Sequence[Labels | None], count: int) -> Quality:
    """The grade of `count` steps that a person labelled: how well labelled videos are found when they are left out,
    `right` for this share of their rows; None where one video alone is labelled."""
    said = [rows for rows in labels if rows is not None and (rows != OPEN).any()]
    if right is None:
        why = "one video alone is labelled, so none can be left out to see how well it is found"
        return Quality("doubtful", f"{why}. Label two or three more.", 0, 0, 0, 0, 0, 0, ())
    when = np.concatenate([normalised_times(len(rows)) for rows in said])
    rows = np.concatenate(said)
    order = np.argsort(
        [when[rows == step].mean() if (rows == step).any() else 2.0 for step in range(count)]
    )
    inside = rows != OPEN
    clock = float(
        (order[(when * count).astype(np.int64)] == rows)[inside].mean()
    )  # equal parts, in the usual order
    told = f"left out in turn, the {len(said)} labelled videos are found right for {right:.0%} of their time"
    reason = f"{told} (equal parts of each video: {clock:.0%})."
    score = (right - RIGHT[0]) / RIGHT[1]
    grade: Grade = "clock" if right <= clock else "good" if score >= GOOD else "doubtful"
    return Quality(
        grade, reason if grade == "good" else f"{reason} {HELP}", score, 0, 0, 0, clock, 0, ()
    )


def not_measured() -> Quality:
    """What is said where nothing was measured."""
    why = "this method, or so few videos, cannot be measured"
    reason = f"{why}; compare with labels of videos that were not learned from."
    return Quality("doubtful", reason, 0, 0, 0, 0, 0, 0, ())
