"""Expectations: how much surprise a normal video may hold, set by leaving out one training video after the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stepcut.checking.evidence import KINDS, Floats, Pace, Seen, Sign, Usual, find_signs, learn_usual, look, totals
from stepcut.checking.limits import find_limits, promised_rate
from stepcut.errors import OptionError, ProcedureError
from stepcut.order.graph import ProcedureGraph
from stepcut.order.occurrences import graph_of_occurrences
from stepcut.order.orders import Labels

FOLDS = 20
"""With more videos than this, as many groups are left out instead of single videos: the graph is learned each time."""


@dataclass(frozen=True)
class Expectations:
    """What a normal video looks like, and the limit of each kind of deviation."""

    usual: Usual
    limits: dict[str, float]
    false_alarms: float
    """The share of normal videos that may be called wrong, as asked for."""
    promised: float
    """The share that the limits are set for: the one asked for, or the least that can be told from so few videos."""
    alarmed: float
    """The share of training videos beyond the limits, each judged by what was learned from the others."""

    def signs(self, video: Seen) -> list[Sign]:
        """Every way in which a video differs, small and great."""
        return find_signs(video, self.usual)

    def excess(self, signs: Sequence[Sign]) -> dict[str, float]:
        """How much of each kind there is, as a multiple of its limit: above 1 is an alarm."""
        return {kind: amount / self.limits[kind] for kind, amount in totals(signs).items()}

    def to_json(self) -> dict[str, Any]:
        """A JSON-able object; `from_json` reads it."""
        return {
            "graph": self.usual.graph.to_json(),
            "paces": [[step, *pace] for step, pace in sorted(self.usual.paces.items())],
            "length": list(self.usual.length),
            "peaks": [[step, peak] for step, peak in sorted(self.usual.peaks.items())],
            "strange": None if math.isinf(self.usual.strange) else self.usual.strange,
            "strange_whole": None if math.isinf(self.usual.strange_whole) else self.usual.strange_whole,
            "limits": self.limits,
            "false_alarms": self.false_alarms,
            "promised": self.promised,
            "alarmed": self.alarmed,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Expectations:
        """What `to_json` gave, read again."""
        try:
            usual = Usual(
                graph=ProcedureGraph.from_json(record["graph"]),
                paces={step: Pace(*pace) for step, *pace in record["paces"]},
                length=Pace(*record["length"]),
                peaks=dict(record["peaks"]),
                strange=_limit(record["strange"]),
                strange_whole=_limit(record.get("strange_whole")),
            )
            limits = {kind: float(record["limits"][kind]) for kind in KINDS}
            asked = record["false_alarms"]
            return cls(usual, limits, asked, record.get("promised", asked), record["alarmed"])
        except (KeyError, TypeError, ValueError) as error:
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
) -> Expectations:
    """Learn what is usual in the training videos, and how far a normal video may stray from it.

    Every video is judged by what the others say: graph, durations and novelty are learned without it. The limits
    are set so that a share `false_alarms` of normal videos is beyond one of them (`limits.py` says how); no label is
    read. With n videos no share below 1 / (n + 1) can be promised: then the limits are set for that.
    """
    if not 0 < false_alarms < 1:
        raise OptionError(
            f"false_alarms={false_alarms!r} is a share of normal videos; choose between 0 and 1, say 0.05."
        )
    if not len(labels):
        raise OptionError("labels is empty; expectations are learned from the labels of the training videos.")
    shares = memberships if memberships is not None else [None] * len(labels)
    strange = novelty if novelty is not None else [None] * len(labels)
    videos = [look(*row) for row in zip(labels, [rate] * len(labels), shares, strange, strict=True)]
    amounts = [amount for fold in _folds(len(videos)) for amount in _judge(videos, fold)]

    limits = find_limits(amounts, false_alarms)
    beyond = [any(amount[kind] > limits[kind] for kind in KINDS) for amount in amounts]
    alarmed = sum(beyond) / len(beyond) if beyond else 0.0
    return Expectations(_usual(videos), limits, false_alarms, promised_rate(len(amounts), false_alarms), alarmed)


def _limit(number: float | None) -> float:
    """JSON has no infinity: null stands for no limit."""
    return math.inf if number is None else float(number)


def _usual(videos: Sequence[Seen]) -> Usual:
    return learn_usual(graph_of_occurrences([video.occurrences for video in videos]), videos)


def _folds(videos: int) -> list[list[int]]:
    """Which videos are left out together; nothing can be left out of one."""
    if videos < 2:
        return []
    return [list(range(fold, videos, FOLDS)) for fold in range(min(FOLDS, videos))]


def _judge(videos: Sequence[Seen], left_out: Sequence[int]) -> list[dict[str, float]]:
    """The amounts of the videos left out, by what the others say."""
    usual = _usual([video for place, video in enumerate(videos) if place not in left_out])
    return [totals(find_signs(videos[place], usual)) for place in left_out]
