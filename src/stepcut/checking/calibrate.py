"""Expectations: what a normal video looks like, and how far it may stray, learned from the videos at hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import ndtri

from stepcut.checking.evidence import Sign, find_signs, measure
from stepcut.checking.observe import Floats, Observed, observe
from stepcut.checking.score import (
    BELIEVED,
    find_limit,
    learn_scales,
    promised_rate,
    total_worth,
    worths,
    worths_beside,
)
from stepcut.checking.severity import Severity
from stepcut.checking.simulate import WITHOUT_STEP, Recut, Rows, change
from stepcut.checking.task import TaskModel, learn_task
from stepcut.checking.usual import Scale, Usual, learn_usual
from stepcut.errors import OptionError, ProcedureError
from stepcut.order.graph import ProcedureGraph
from stepcut.order.orders import Labels, counted

FOLDS = 20
"""With more videos than this, as many groups are left out instead of single videos."""
LARGEST = 1e6
"""No amount comes near this: they are logarithms of lengths and chances, and shares of a video."""


@dataclass(frozen=True)
class Expectations:
    """What a normal video looks like, and how far it may stray from that."""

    usual: Usual
    scales: dict[str, Scale]
    """What amounts are usual, for each way of straying."""
    amounts: dict[str, tuple[float, ...]]
    """For each way, by how much every video learned from strays, judged by the others; empty where there are no others,
    and in procedures of version 0.1.0."""
    limit: float
    """The total beyond which a video is called wrong where amounts are not known."""
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
    steps_decide: bool = False
    """Whether steps left out or exchanged may decide alone, as more is found so: see `score.py`."""

    def judge(self, video: Observed, signs: Sequence[Sign]) -> tuple[dict[str, float], float]:
        """What each way of straying adds to the total, and all evidence in one score.

        The score is from 0 to 1 within the limit, from 1 to 2 beyond it. Apart from that step it depends on the sum of
        all evidence alone: the limit is one normal video's total and varies much.
        """
        new = measure(video, signs, self.usual, self.severity)
        worth = worths(new, self.scales)
        total, limit = sum(worth.values()), self.limit
        if self.amounts:
            beside = worths_beside(self.amounts, new)
            limit = find_limit(total_worth(beside, self.steps_decide), self.false_alarms)
        return worth, float((1 + total / (1 + abs(total))) / 2 + (total_worth(worth, self.steps_decide) > limit))

    @property
    def forecast(self) -> str:
        """What a check will be able to find with these videos, in one sentence; an estimate from changed videos."""
        if not self.detects:
            return "What a check will find was not measured; learn again, from two videos or more, to know."
        found = ", ".join(f"{name} {share:.0%}" for name, share in self.detects.items())
        return f"With {counted(self.usual.graph.videos)}, a check finds about: {found} of the time."

    def to_json(self) -> dict[str, Any]:
        """A JSON-able object; `from_json` reads it."""
        return {
            "graph": self.usual.graph.to_json(),
            "paces": [[step, *pace] for step, pace in sorted(self.usual.paces.items())],
            "length": list(self.usual.length),
            "never": self.usual.never,
            "peaks": [[step, list(known)] for step, known in sorted(self.usual.peaks.items())],
            "times": [[step, time] for step, time in sorted(self.usual.times.items())],
            "new": None if math.isinf(self.usual.new) else self.usual.new,
            "stretch": list(self.usual.stretch),
            "clarity": [[step, *scale] for step, scale in sorted(self.usual.clarity.items())],
            "exchangeable": [[*pair, share] for pair, share in sorted(self.usual.exchangeable.items())],
            "scales": {name: list(scale) for name, scale in self.scales.items()},
            "amounts": {way: list(values) for way, values in self.amounts.items()},
            "limit": self.limit,
            "false_alarms": self.false_alarms,
            "promised": self.promised,
            "alarmed": self.alarmed,
            "task": self.task.to_json() if len(self.task.centres) else None,
            "detects": self.detects,
            "steps_decide": self.steps_decide,
            "forecast": self.forecast,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Expectations:
        """What `to_json` gave, read again; also what version 0.1.0 gave, which had a limit for each kind."""
        try:
            old = "limits" in record
            new = record["strange"] if old else record["new"]
            length = Scale(*record["length"])
            usual = Usual(
                graph=ProcedureGraph.from_json(record["graph"]),
                paces={step: Scale(*pace) for step, *pace in record["paces"]},
                length=length,
                never=dict.fromkeys(("missed", "misordered", "extra"), 0.01) if old else dict(record["never"]),
                peaks={step: (known,) if old else tuple(known) for step, known in record["peaks"]},
                times={} if old else {step: float(time) for step, time in record["times"]},
                new=math.inf if new is None else float(new),
                stretch=Scale(math.log(5.0), 1.0, 0) if old else Scale(*record["stretch"]),
                clarity={step: Scale(*scale) for step, *scale in record.get("clarity", ())},
                exchangeable={(a, b): float(share) for a, b, share in record.get("exchangeable", ())},
            )
            scales = {name: Scale(0.0, believed, length.videos) for name, believed in BELIEVED.items()}
            scales["length"] = Scale(-length.middle, length.spread, length.videos)
            if not old:
                scales = {name: Scale(*record["scales"].get(name, scales[name])) for name in BELIEVED}
            asked = record["false_alarms"]
            return cls(
                usual,
                scales,
                _read_amounts(record.get("amounts") or {}),
                float(-ndtri(asked)) if old else float(record["limit"]),
                asked,
                record.get("promised", asked),
                record["alarmed"],
                TaskModel.from_json(record.get("task")),
                dict(record.get("detects", {})),
                steps_decide=bool(record.get("steps_decide", False)),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProcedureError(
                f"the expectations of a procedure cannot be read ({type(error).__name__}: {error}); "
                "check.json is damaged. Learn the procedure again."
            ) from error


def _read_amounts(record: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, ...]]:
    amounts = {way: tuple(map(float, values)) for way, values in record.items()}
    if amounts.keys() == BELIEVED.keys() - {"faint"}:  # written before that way was known
        amounts["faint"] = (0.0,) * len(amounts["length"])
    if amounts and (amounts.keys() != BELIEVED.keys() or len({len(values) for values in amounts.values()} | {0}) != 2):
        raise ValueError("amounts has not one number for each way of straying and each video")
    if any(not abs(value) < LARGEST for values in amounts.values() for value in values):
        raise ValueError(f"amounts has a number that is none, or beyond {LARGEST:g}")
    return amounts


def check_false_alarms(share: float) -> None:
    """Whether it is a share that may be asked for."""
    if not 0 < share < 1:
        raise OptionError(f"false_alarms={share!r} is a share of normal videos; choose between 0 and 1, say 0.05.")


def learn_expectations(
    labels: Sequence[Labels],
    rate: float,
    memberships: Sequence[Floats] | None = None,
    novelty: Sequence[Floats] | None = None,
    false_alarms: float = 0.05,
    embeddings: Sequence[Floats] | None = None,
    left_out: Sequence[Labels] | None = None,
    left_out_memberships: Sequence[Floats] | None = None,
    left_out_looks: Sequence[tuple[Floats, Floats]] | None = None,
    recut: Recut | None = None,
) -> Expectations:
    """Learn what is usual in the videos, and how far a normal video may stray from it.

    labels        the step of each row of each video, (T,), -1 for none
    rate          rows per second
    memberships   (T, K) per video
    novelty       (T,) per video, as if each were new
    false_alarms  the share of normal videos that may be called wrong; with n videos at least 1 / (n + 1)
    embeddings    (T, p) per video; without them another task is not told
    left_out      the labels again, as if each video were new: a new one is cut a little worse than those learned from,
                  and it is judged as these are, by the `labels` of the others
    left_out_memberships   and the memberships, likewise: how clearly steps show is told by these
    left_out_looks         and the embedding (T, p) with the centres of the steps (K, p), likewise: how far a video of
                           this task may be from its steps
    recut         cuts some rows of a video as a new one, to tell what will be found; without it they keep their labels
    """
    check_false_alarms(false_alarms)
    if not len(labels):
        raise OptionError("labels is empty; expectations are learned from the labels of the training videos.")
    nothing: list[None] = [None] * len(labels)
    shares = memberships or nothing
    parts = ([rate] * len(labels), novelty or nothing, embeddings or nothing)
    cuts = left_out or labels
    learned, videos = (
        [observe(cut, per, share, *rest) for cut, share, per, *rest in zip(given, seen, *parts, strict=True)]
        for given, seen in ((labels, shares), (cuts, left_out_memberships or shares))
    )
    learned = [one._replace(peaks=new.peaks, clarity=new.clarity) for one, new in zip(learned, videos, strict=True)]
    usual = learn_usual(learned)
    folds = range(min(FOLDS, len(videos))) if len(videos) > 1 else range(0)  # nothing can be left out of one
    parted = [[video for place, video in enumerate(learned) if place % FOLDS != fold] for fold in folds]
    others = [learn_usual(part, order=False) for part in parted]

    def judged(place: int, video: Observed) -> dict[str, float]:
        """How far a video, or a changed one, strays by what the others say."""
        known = others[place % FOLDS] if others else usual
        return measure(video, find_signs(video, known), known)

    measured = [judged(place, video) for place, video in enumerate(videos)]
    strayed = {way: np.array([amounts[way] for amounts in measured]) for way in BELIEVED}
    scales = learn_scales(strayed)

    def shown(place: int, kept: Rows) -> Observed:
        """What the video of these rows shows, as a new one."""
        parts = (np.asarray(cuts[place])[kept], None, None, None) if recut is None else recut(place, kept)
        return observe(parts[0], rate, *parts[1:])

    def found(new: dict[str, float], rest: dict[str, Floats], usual_rest: dict[str, Scale]) -> list[bool]:
        """Whether a changed video would be called wrong, in the place of the one that it was made of: where all
        evidence is summed, and where steps may decide alone."""
        worth, beside = worths(new, usual_rest), worths_beside(rest, new)
        alone = (False, True)
        return [bool(total_worth(worth, one) > find_limit(total_worth(beside, one), false_alarms)) for one in alone]

    hits: dict[str, list[list[bool]]] = {}
    gains = np.zeros(len(videos))  # how many more are found of each video where steps may decide alone
    shortened: list[list[Observed]] = []
    for place, cut in enumerate(cuts if others else ()):
        made = {name: [shown(place, kept) for kept in rows] for name, rows in change(cut, usual.graph).items()}
        shortened.append(made[WITHOUT_STEP])
        rest = {way: np.delete(values, place) for way, values in strayed.items()}
        usual_rest = learn_scales(rest)
        for name, changed in made.items():
            told = [found(judged(place, video), rest, usual_rest) for video in changed]
            hits.setdefault(name, []).extend(told)
            gains[place] += sum(alone - summed for summed, alone in told)
    # By more than one standard error: of few videos, more may be found by chance.
    decide = bool(others) and bool(gains.mean() > gains.std(ddof=1) / math.sqrt(len(gains)))
    totals = total_worth(worths(strayed, scales), decide) if others else np.array([])
    limit = find_limit(totals, false_alarms)
    return Expectations(
        usual=usual,
        scales=scales,
        amounts={way: tuple(values.tolist()) for way, values in strayed.items()} if others else {},
        limit=limit,
        false_alarms=false_alarms,
        promised=promised_rate(len(totals), false_alarms),
        alarmed=float(np.mean(totals > limit)) if others else 0.0,
        task=learn_task(learned, left_out_looks, shortened),
        detects={name: float(np.mean([one[decide] for one in each])) for name, each in hits.items() if each},
        steps_decide=decide,
    )
