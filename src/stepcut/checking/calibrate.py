"""Expectations: one score for everything in which a video differs, and the limit that normal videos keep.

Each sign of a video has a chance p in normal videos. It is worth the evidence e(p) = (1 - p + p ln p) / (p ln^2 p)
(Vovk and Wang's calibrator, which no constant is chosen for); the signs of a group g, of which any one may be a true
deviation with probability q, add up to

    E_g = sum of ln(1 - q + q e(p))          and          score = sum over g of E_g / (var_g + SPREAD)

with var_g the variance of E_g among normal videos, each judged by what the others say: a group in which normal videos
vary much, because the cut errs in it or because people differ, decides little.

The limit is distribution-free: put a new normal video among the n that were learned from; its score is among the k
highest of the n + 1 with chance k / (n + 1). So it is called wrong if it would be among the `rate` (n + 1) highest, and
no rate below 1 / (n + 1) can be promised.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepcut.checking.evidence import GROUPS, Pace, Sign, Usual, find_signs, learn_usual
from stepcut.checking.observe import Floats, Observed, observe
from stepcut.checking.severity import Severity
from stepcut.checking.simulate import simulated
from stepcut.checking.task import TaskModel, learn_task
from stepcut.errors import OptionError, ProcedureError
from stepcut.order.graph import ProcedureGraph
from stepcut.order.orders import Labels, counted

FOLDS = 20
"""With more videos than this, as many groups are left out instead of single videos: the graph is learned each time."""
SPREAD = 0.03
"""The variance of a group that does not vary at all in the videos learned from."""
UNLIKELY = 0.1
"""How likely it is beside the others that somebody who errs repeats, dawdles or does something new: people who err
mostly leave out, hurry or exchange."""
RARE = frozenset({"extra", "long", "long video", "unknown"})


@dataclass(frozen=True)
class Expectations:
    """What a normal video looks like, and how far it may stray from that."""

    usual: Usual
    weights: dict[str, float]
    """What evidence of each group counts in the score."""
    limit: float
    """The score beyond which a video is called wrong."""
    false_alarms: float
    """The share of normal videos that may be called wrong, as asked for."""
    promised: float
    """The share that the limit is set for: the one asked for, or the least that can be told from so few videos."""
    alarmed: float
    """The share of the videos learned from beyond the limit, each judged by what the others say."""
    task: TaskModel = field(default_factory=lambda: TaskModel.from_json(None))
    detects: dict[str, float] = field(default_factory=dict)
    """What share of deviations would be found: `one step left out`, `half of the video`, `two steps exchanged`."""
    severity: Severity = field(default_factory=Severity)

    def signs(self, video: Observed) -> list[Sign]:
        """Every way in which a video differs, small and great."""
        return find_signs(video, self.usual, self.severity)

    def score(self, signs: Sequence[Sign]) -> float:
        """All evidence in one number: 1 at the limit, 0 for no evidence at all."""
        steps = len(self.usual.paces)
        # Durations exactly as usual speak against a deviation: e(p) falls to 1/2.
        least = sum(
            self.weights[group] * (1 if group.endswith("video") else steps) * math.log1p(-_share(group, steps) / 2)
            for group in ("short", "long", "short video", "long video")
        )
        return (total(evidence(signs, steps), self.weights) - least) / max(self.limit - least, 1e-9)

    @property
    def forecast(self) -> str:
        """What a check will be able to find with these videos, in one sentence; an estimate from changed videos."""
        if not self.detects:
            return "What a check will find was not measured; learn again, from two videos or more, to know."
        found = ", ".join(f"{name} {share:.0%}" for name, share in self.detects.items())
        return f"With {counted(self.usual.graph.videos)}, a check finds about: {found} of the time."

    def worth(self, sign: Sign) -> float:
        """What one sign adds to the score, for ranking reasons."""
        return self.weights[sign.group] * _worth(sign, len(self.usual.paces))

    def to_json(self) -> dict[str, Any]:
        """A JSON-able object; `from_json` reads it."""
        return {
            "graph": self.usual.graph.to_json(),
            "paces": [[step, *pace] for step, pace in sorted(self.usual.paces.items())],
            "length": list(self.usual.length),
            "never": self.usual.never,
            "peaks": [[step, list(known)] for step, known in sorted(self.usual.peaks.items())],
            "new": None if math.isinf(self.usual.new) else self.usual.new,
            "stretch": list(self.usual.stretch),
            "weights": self.weights,
            "limit": self.limit,
            "false_alarms": self.false_alarms,
            "promised": self.promised,
            "alarmed": self.alarmed,
            "task": self.task.to_json() if len(self.task.centres) else None,
            "detects": self.detects,
            "forecast": self.forecast,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Expectations:
        """What `to_json` gave, read again; also what version 0.1.0 gave, which had a limit for each kind."""
        try:
            old = "limits" in record
            new = record["strange"] if old else record["new"]
            usual = Usual(
                graph=ProcedureGraph.from_json(record["graph"]),
                paces={step: Pace(*pace) for step, *pace in record["paces"]},
                length=Pace(*record["length"]),
                never=dict.fromkeys(("missed", "misordered", "extra"), 0.01) if old else dict(record["never"]),
                peaks={step: (known,) if old else tuple(known) for step, known in record["peaks"]},
                new=math.inf if new is None else float(new),
                stretch=Pace(math.log(5.0), 1.0, 0) if old else Pace(*record["stretch"]),
            )
            asked = record["false_alarms"]
            weights = dict.fromkeys(GROUPS, 1.0) if old else {group: record["weights"][group] for group in GROUPS}
            return cls(
                usual,
                weights,
                # A kind had to be as rare as its limit in nats; so must the sum of all be now.
                min(float(limit) for limit in record["limits"].values()) if old else float(record["limit"]),
                asked,
                record.get("promised", asked),
                record["alarmed"],
                TaskModel.from_json(record.get("task")),
                dict(record.get("detects", {})),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProcedureError(
                f"the expectations of a procedure cannot be read ({type(error).__name__}: {error}); "
                "check.json is damaged. Learn the procedure again."
            ) from error


def learn_expectations(
    labels: Sequence[Labels],
    rate: float,
    memberships: Sequence[Floats] | None = None,
    novelty: Sequence[Floats] | None = None,
    false_alarms: float = 0.05,
    embeddings: Sequence[Floats] | None = None,
) -> Expectations:
    """Learn what is usual in the videos, and how far a normal video may stray from it.

    labels        the step of each row of each video, (T,), -1 for none
    rate          rows per second
    memberships   (T, K) per video
    novelty       (T,) per video, as if each were new
    false_alarms  the share of normal videos that may be called wrong; with n videos at least 1 / (n + 1)
    embeddings    (T, p) per video; without them another task is not told
    """
    if not 0 < false_alarms < 1:
        raise OptionError(
            f"false_alarms={false_alarms!r} is a share of normal videos; choose between 0 and 1, say 0.05."
        )
    if not len(labels):
        raise OptionError("labels is empty; expectations are learned from the labels of the training videos.")
    nothing: list[None] = [None] * len(labels)
    parts = (memberships or nothing, novelty or nothing, embeddings or nothing)
    videos = [observe(*row) for row in zip(labels, [rate] * len(labels), *parts, strict=True)]
    usual = learn_usual(videos)
    others = [learn_usual([v for place, v in enumerate(videos) if place % FOLDS != fold]) for fold in _folds(videos)]

    def judged(place: int, video: Observed) -> dict[str, float]:
        """The evidence of a video, or of a changed one, by what the others say."""
        return evidence(find_signs(video, others[place % FOLDS]), len(usual.paces))

    amounts = [judged(place, video) for place, video in enumerate(videos)] if others else []
    weights = learn_weights(amounts)
    scores = [total(amount, weights) for amount in amounts]
    limit = find_limit(scores, false_alarms)
    detects = {
        name: float(np.mean([total(judged(*one), weights) > limit for one in changed]))
        for name, changed in simulated(videos, usual.graph).items()
        if changed and others
    }
    return Expectations(
        usual=usual,
        weights=weights,
        limit=limit,
        false_alarms=false_alarms,
        promised=promised_rate(len(scores), false_alarms),
        alarmed=float(np.mean([score > limit for score in scores])) if scores else 0.0,
        task=learn_task(videos),
        detects=detects,
    )


def promised_rate(videos: int, asked: float) -> float:
    """The rate of false alarms that the limit is set for: the one asked for, or the least that can be promised.

    >>> round(promised_rate(8, 0.05), 3)
    0.111
    """
    return max(asked, 1 / (videos + 1))


def find_limit(scores: Sequence[float], rate: float) -> float:
    """The score that a share `rate` of normal videos exceed, from the scores of normal videos.

    Where `rate` (n + 1) lies between two whole numbers, the limit lies between the scores of those ranks.
    """
    if not scores:
        return math.log(1 / rate)
    ranked = sorted(scores, reverse=True)
    place = promised_rate(len(ranked), rate) * (len(ranked) + 1) - 1
    low = min(math.floor(place + 1e-9), len(ranked) - 1)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (ranked[high] - ranked[low]) * min(max(place - low, 0.0), 1.0)


def learn_weights(amounts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """One over the variance of each group's evidence, about its median, and SPREAD."""
    if not amounts:
        return dict.fromkeys(GROUPS, 1.0)
    rows = {group: np.array([amount[group] for amount in amounts]) for group in GROUPS}
    return {group: float(1 / (((row - np.median(row)) ** 2).mean() + SPREAD)) for group, row in rows.items()}


def evidence(signs: Sequence[Sign], steps: int) -> dict[str, float]:
    """The evidence of each group."""
    amount = dict.fromkeys(GROUPS, 0.0)
    for sign in signs:
        amount[sign.group] += _worth(sign, steps)
    return amount


def total(amount: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The weighted sum over groups."""
    return sum(weights[group] * amount[group] for group in GROUPS)


def _worth(sign: Sign, steps: int) -> float:
    share = _share(sign.group, steps)
    chance = min(max(sign.chance, 1e-12), 1 - 1e-6)
    log = math.log(chance)
    worth = math.log(1 - share + share * (1 - chance + chance * log) / (chance * log * log))
    # A usual duration speaks for a normal video; a common exchange does not.
    return worth if sign.how in ("short", "long") else max(worth, 0.0)


def _share(group: str, steps: int) -> float:
    """q: how probable it is that one sign of a group is a deviation, in a video that has one."""
    share = 0.5 if group.endswith("video") else 1 / max(steps, 2)
    return share * (UNLIKELY if group in RARE else 1.0)


def _folds(videos: Sequence[Observed]) -> range:
    """Which groups of videos are left out in turn; nothing can be left out of one."""
    return range(min(FOLDS, len(videos))) if len(videos) > 1 else range(0)
