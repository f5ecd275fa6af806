"""Quality: the share of time in which the steps are expected to be right."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from stepcut.checks import SEEDS
from stepcut.methods.arithmetic import (
    Floats,
    as_vectors,
    equal_parts,
    normalised_times,
    strongest_directions,
)
from stepcut.methods.consensus import agreement, come_again
from stepcut.methods.constraints import OPEN
from stepcut.methods.inputs import MANY, Array, Labels, build
from stepcut.methods.method import Method
from stepcut.progress import Hook, silent
from stepcut.timeline import runs

CHANCE = 0.1
"""Halves of the videos that agree by less than this beyond chance share no steps."""
SINGLE = 3
"""Single runs whose agreement is measured."""
SHORT = 64
"""Principal axes on which videos are learned again."""
NUMBERS = {3: "three", 5: "five"}
SPREAD = 0.1
"""Prior standard deviation of the share that is right over videos; weighs as much as two videos."""

# Fitted by benchmarks/quality.py; benchmarks/reports/quality.md has results on held-out tasks.
WEIGHTS = {"one": 0.097, "runs": 0.48, "irregularity": 0.197, "sharpness": 0.095}
"""Weights of the evidence in the estimated share of time that is right."""
ERRORS = (-0.177, 0.228)
"""10 % and 90 % quantiles of the error of the estimate."""
EQUAL = (0.297, -0.013, -0.106, 0.1)
"""Share that equal-length segments get right, EQUAL[0] + EQUAL[1] / steps, and quantiles of its
error."""
AFTER = {3: (0.092, 1.196, -0.14, 0.151), 5: (0.13, 1.146, -0.146, 0.134)}
"""By number of labelled videos: a, b, and error quantiles of a + b * (estimate without labels)."""


@dataclass(frozen=True)
class Evidence:
    """Measurements without labels; all but the last two are between 0 and 1."""

    runs: float
    """Agreement between single runs from different starts."""
    halves: float
    """Agreement of all steps with those learned from half of the videos, mean of both halves."""
    beyond: float
    """(h - c) / (1 - c): agreement of the two halves with each other, beyond chance.

    h is measured on the features, c on features with random phases: they keep their spectrum, but
    share nothing with other videos.
    """
    stable: float
    """Share of rows that keep their step when their video is held out."""
    uniform: float
    """Agreement with equal-length segments."""
    irregularity: float
    """Variation of the time of each step in single runs without a time prior; 0: no variation."""
    sharpness: float
    """Explained variance that is lost when every boundary moves by half a segment, see
    `measure_sharpness`; 0 if the steps are arbitrary slices of time."""
    steps: int
    videos: int


class Estimate(NamedTuple):
    """The share of time that is right, with an 80 % interval."""

    right: float
    low: float
    high: float

    @classmethod
    def around(cls, right: float, errors: tuple[float, float]) -> Self:
        """Make an estimate from its value and the quantiles of its error, clipped to 0 and 1."""
        return cls(
            *(float(np.clip(x, 0.0, 1.0)) for x in (right, right + errors[0], right + errors[1]))
        )

    def __str__(self) -> str:
        return f"{100 * self.right:.0f} % ({100 * self.low:.0f}–{100 * self.high:.0f} %)"


@dataclass(frozen=True)
class Quality:
    """How much of the time the steps are expected to be right.

    A row, also of background, is right if it has its true step after one matching of discovered to
    true steps for the whole task.

    Examples
    --------
    >>> proc.quality.kind in ("estimate", "uniform", "unknown")
    True
    """

    kind: Literal["estimate", "labels", "uniform", "unknown"]
    """estimate: from evidence without labels; labels: cross-validated; uniform: no better than
    equal-length segments; unknown: not enough evidence."""
    now: Estimate | None
    """None if `kind` is unknown."""
    after: dict[int, Estimate]
    """The same after three and five labelled videos; empty once videos are labelled."""
    why: str = ""
    """The basis of the estimate, or the reason why it is unknown."""
    evidence: Evidence | None = None

    @property
    def right(self) -> float | None:
        """The expected share of time that is right."""
        return None if self.now is None else self.now.right

    @property
    def reliability(self) -> float:
        """Factor that turns step probabilities into confidences when nothing is labelled."""
        if self.now is None or self.evidence is None:
            return 1.0
        return float(np.clip(self.now.right, 0.05, 0.95))

    def __str__(self) -> str:
        if self.now is None:
            return f"How much of the time is right cannot be estimated: {self.why}."
        interval = f"({100 * self.now.low:.0f}–{100 * self.now.high:.0f} %)"
        right = f"{100 * self.now.right:.0f} % of the time"
        equal = (
            "No better than cutting every video into equal parts. "
            if self.kind == "uniform"
            else ""
        )
        if self.evidence is None:
            return f"{equal}{right} is right {interval}, {self.why}."
        words = [f"{equal}Expect {right} to be right {interval}."]
        if self.after:
            first, *others = self.after.items()
            more = "".join(
                f", {NUMBERS[count]} to {100 * one.right:.0f} %" for count, one in others
            )
            begin = f"{NUMBERS[first[0]].capitalize()} labelled videos usually bring this to"
            words.append(f"{begin} {100 * first[1].right:.0f} %{more}.")
        return " ".join(words)

    def to_json(self) -> dict[str, Any]:
        """Return the quality as JSON values.

        Returns
        -------
        dict
            For `from_json`.

        Examples
        --------
        >>> proc.quality.to_json()["kind"] == proc.quality.kind
        True
        """
        record: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return record

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """Read the result of `to_json`.

        Parameters
        ----------
        record
            JSON values. A grade of version 0.2.0 gives an unknown quality.

        Returns
        -------
        Quality
            The quality.

        Examples
        --------
        >>> Quality.from_json({"kind": "unknown", "now": None, "after": {}}).right is None
        True
        """
        if "kind" not in record:
            return cls("unknown", None, {}, "it was learned with version 0.2.0, learn it again")
        return msgspec.convert(record, cls, str_keys=True)


def measure_quality(method: Method, features: Sequence[Array], progress: Hook = silent) -> Quality:
    """Estimate the quality of the steps that a fitted `method` discovered without labels."""
    evidence = gather_evidence(method, features, progress)
    return not_measured() if evidence is None else estimate(evidence)


def estimate(evidence: Evidence) -> Quality:
    """Estimate the quality; at most that of equal-length segments if `shows_nothing`."""
    right = sum(
        weight * (1.0 if name == "one" else getattr(evidence, name))
        for name, weight in WEIGHTS.items()
    )
    equal = EQUAL[0] + EQUAL[1] / evidence.steps
    if shows_nothing(evidence):
        return Quality("uniform", Estimate.around(min(right, equal), EQUAL[2:]), {}, "", evidence)
    after = {
        k: Estimate.around(a + b * right, (low, high)) for k, (a, b, low, high) in AFTER.items()
    }
    return Quality("estimate", Estimate.around(right, ERRORS), after, "", evidence)


def shows_nothing(evidence: Evidence) -> bool:
    """Tell whether halves share nothing, boundaries are arbitrary, or runs agree on less than half
    of the time, and less than the steps agree with equal-length segments, as on noise.
    """
    arbitrary = evidence.runs < min(0.5, evidence.uniform) or evidence.sharpness <= 0
    return arbitrary or evidence.beyond < CHANCE


def gather_evidence(
    method: Method, features: Sequence[Array], progress: Hook = silent
) -> Evidence | None:
    """Measure how stable the steps of a fitted `method` are, without labels.

    The method is refitted with few restarts: from other seeds, and on each half of the videos, or
    of `MANY` of them. The content of a video decides whether it takes part and in which half, so
    that names and order do not matter. Returns None for
    fewer than four videos, for one step, and for a method without the settings `steps`, `seed` and
    `restarts`, whose refits would be slow. `progress` is called for each refit.
    """
    given = method.settings()
    if not {"steps", "seed", "restarts"} <= given.keys() or len(features) < 4 or method.steps_ < 2:
        return None
    order, number = order_by_content(features)[:MANY], len(features)
    features = [features[place] for place in order]
    found = [method.labels_[place] for place in order]
    count, labels = method.steps_, np.concatenate(found)
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
    new = method.left_out_
    as_new = labels if new is None else np.concatenate([new.labels[place] for place in order])
    return Evidence(
        runs=float(np.mean([agreement(a, b, count) for i, a in enumerate(runs) for b in runs[:i]])),
        halves=float(np.mean([agreement(half, labels, count) for half in halves])),
        beyond=(agreement(halves[0], halves[1], count) - chance) / max(1 - chance, 1e-9),
        stable=float(np.mean(as_new == labels)),
        uniform=agreement(labels, uniform, count),
        irregularity=1.0
        if come_again(single, count, shortest)
        else 1 - float(np.mean([time_regularity(one, count, shortest) for one in single])),
        sharpness=measure_sharpness(videos, found),
        steps=count,
        videos=number,
    )


def order_by_content(features: Sequence[Array]) -> list[int]:
    """The places of the videos, sorted by a hash of their values in single precision."""

    def digest(place: int) -> bytes:
        rows = np.ascontiguousarray(features[place], dtype=np.float32)
        return hashlib.blake2b(rows.data).digest()

    return sorted(range(len(features)), key=digest)


def time_regularity(labels: Sequence[Labels], steps: int, shortest: float) -> float:
    """1 when every step comes at one time in all videos, 0 when the step does not determine the time.

    1 - mean over steps of var(t_vk over videos v) / var(all t_vk),  t_vk the mean normalised time of step k in video v.
    """
    times = np.full((len(labels), steps), np.nan)
    for i, numbers in enumerate(labels):
        along = normalised_times(len(numbers))
        lasts = np.bincount(numbers[numbers >= 0], minlength=steps)
        sums = np.bincount(numbers[numbers >= 0], weights=along[numbers >= 0], minlength=steps)
        there = lasts >= shortest
        times[i, there] = sums[there] / lasts[there]
    shared = (~np.isnan(times)).sum(
        axis=0
    ) >= 2  # a step of one video has no other time to agree with
    spread = float(np.nanvar(times)) if (~np.isnan(times)).any() else 0.0
    if not shared.any() or spread <= 0:
        return 0.0
    return float(1 - np.nanvar(times[:, shared], axis=0).mean() / spread)


def measure_sharpness(videos: Sequence[Floats], labels: Sequence[Labels]) -> float:
    """Compute 1 - E(moved) / E(found), with E = sum over segments of |sum of x|^2 / rows.

    E is what the means of the segments explain. `moved` has its boundaries in the middle of the
    found segments. The result is high if features are constant within steps and change between
    them, and 0 or below if they only drift. `videos` are centred, (T, d) each; `labels` (T,) each.
    """
    found = moved = 0.0
    for rows, cut in zip(videos, labels, strict=True):
        _, starts, ends = runs(cut).T
        middles = (starts + ends) // 2
        found += _explained(rows, starts)
        moved += _explained(rows, np.unique(np.append(0, middles)))
    return float(1 - moved / found) if found > 0 else 0.0


def _explained(rows: Floats, starts: NDArray[np.int64]) -> float:
    """Sum over the segments that begin at `starts` of |sum of x|^2 / rows."""
    lengths = np.diff(np.append(starts, len(rows)))
    return float(((np.add.reduceat(rows, starts, axis=0) ** 2).sum(axis=1) / lengths).sum())


def cut_by_halves(
    method: Method, videos: Sequence[Array], progress: Hook, **changes: Any
) -> list[list[Labels]]:
    """Segment all videos twice: fitted on the videos at even places, and on those at odd places."""
    return [
        refit(method, videos[first::2], progress, **changes).predict(videos) for first in (0, 1)
    ]


def randomise_phases(videos: Sequence[Floats], seed: int) -> list[Floats]:
    """Randomise the phases of every frequency: the surrogate data of Theiler et al. (1992)."""
    rng = np.random.default_rng(seed)
    out = []
    for rows in videos:
        waves = np.fft.rfft(rows, axis=0)
        out.append(
            np.fft.irfft(waves * np.exp(2j * np.pi * rng.random(waves.shape)), len(rows), axis=0)
        )
    return out


def shorten(features: Sequence[Array]) -> list[Floats]:
    """Project the videos onto their first principal axes, (T, 64) each, for quick refits."""
    rows = [as_vectors(video).astype(np.float64) for video in features]
    centred = [video - video.mean(axis=0) for video in rows]
    if rows[0].shape[1] <= SHORT:
        return centred
    axes, _ = strongest_directions(centred, SHORT)
    return [video @ axes for video in centred]


def refit(method: Method, videos: Sequence[Array], progress: Hook, **changes: Any) -> Method:
    """Fit a method with the same settings and choices, except for `changes`, to these videos."""
    chosen = {"steps": method.steps_, **(method.chosen_ or {})}
    fresh: Method = build(type(method), {**method.settings(), **chosen, **changes})
    return fresh.fit(videos, progress=progress)


def cross_validated(
    labels: Sequence[Labels | None], left_out: Sequence[Labels], count: int
) -> Quality:
    """Measure the quality of `count` labelled steps on held-out videos.

    The baseline is equal-length segments in the usual order.
    """
    pairs = [
        (true, seen)
        for true, seen in zip(labels, left_out, strict=True)
        if true is not None and (true != OPEN).any()
    ]
    if len(pairs) < 2:
        why = "one labelled video alone cannot be compared with another. Label two or three more"
        return Quality("unknown", None, {}, why)
    shares = np.array([(seen == true)[true != OPEN].mean() for true, seen in pairs])
    spread = (
        np.sqrt(((shares - shares.mean()) ** 2).sum() + 2 * SPREAD**2) / (len(shares) + 1) ** 0.5
    )
    half = float(stdtrit(len(shares) + 1, 0.9) * spread / len(shares) ** 0.5)
    rows = np.concatenate([true for true, _ in pairs])
    when = np.concatenate([normalised_times(len(true)) for true, _ in pairs])
    times = [when[rows == k].mean() if (rows == k).any() else 2.0 for k in range(count)]
    equal = np.argsort(times)[(when * count).astype(np.int64)]
    uniform = float((equal == rows)[rows != OPEN].mean())
    now = Estimate.around(float(shares.mean()), (-half, half))
    why = f"cross-validated on {len(pairs)} labelled videos; equal parts: {100 * uniform:.0f} %"
    return Quality("labels" if now.right > uniform else "uniform", now, {}, why)


def not_measured() -> Quality:
    """Return the quality if nothing was measured."""
    why = "it needs four videos or more and a method that can learn again quickly; label two videos"
    return Quality("unknown", None, {}, why)
