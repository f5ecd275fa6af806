"""Expectations: how much surprise a normal video may hold, set by leaving out one training video after the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepcut.errors import OptionError, ProcedureError
from stepcut.order.doings import graph_of_doings
from stepcut.order.graph import ProcedureGraph
from stepcut.order.orders import Labels
from stepcut.use.evidence import KINDS, Floats, Pace, Seen, Sign, Usual, find_signs, learn_usual, look, totals

# No kind may alarm below this, however tame the training videos are. Nats: what fewer than a tenth of the videos do;
# for durations, three spreads from the middle; for unknown stretches, seconds.
FLOORS = {
    "missed": math.log(10),
    "misordered": math.log(10),
    "extra": math.log(10),
    "unusual": 4.5,
    "unknown": 5.0,
}
FOLDS = 20
"""With more videos than this, as many groups are left out instead of single videos: the graph is learned each time."""


@dataclass(frozen=True)
class Expectations:
    """What a normal video looks like, and the limit of each kind of deviation."""

    usual: Usual
    limits: dict[str, float]
    false_alarms: float
    """The share of normal videos that may be called wrong; the limits are set for it."""
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
            "limits": self.limits,
            "false_alarms": self.false_alarms,
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
                strange=math.inf if record["strange"] is None else record["strange"],
            )
            limits = {kind: float(record["limits"][kind]) for kind in KINDS}
            return cls(usual, limits, record["false_alarms"], record["alarmed"])
        except (KeyError, TypeError, ValueError) as error:
            raise ProcedureError(
                f"the expectations of a procedure cannot be read ({type(error).__name__}: {error}); "
                "check.json is damaged. Learn the procedure again."
            ) from error


def learn_expectations(
    labels: Sequence[Labels],
    rate: float,
    memberships: Sequence[Floats] | None = None,
    strangeness: Sequence[Floats] | None = None,
    false_alarms: float = 0.05,
) -> Expectations:
    """Learn what is usual in the training videos, and how far a normal video may stray from it.

    Every video is judged by what the others say: graph, durations and strangeness are learned without it. The limits
    are set so that the share of videos beyond them is `false_alarms`; no label is read. With n videos the finest share
    that can be counted is 1 / (n + 1); below it the limit is carried on as an exponential tail.
    """
    if not 0 < false_alarms < 1:
        raise OptionError(
            f"false_alarms={false_alarms!r} is a share of normal videos; choose between 0 and 1, say 0.05."
        )
    if not len(labels):
        raise OptionError("labels is empty; expectations are learned from the labels of the training videos.")
    shares = memberships if memberships is not None else [None] * len(labels)
    strange = strangeness if strangeness is not None else [None] * len(labels)
    videos = [look(*row) for row in zip(labels, [rate] * len(labels), shares, strange, strict=True)]
    amounts = [amount for fold in _folds(len(videos)) for amount in _judge(videos, fold)]

    limits = {}
    for kind in KINDS:
        limits[kind] = max(FLOORS[kind], limit_of([amount[kind] for amount in amounts], false_alarms))
    worst = [max(amount[kind] / limits[kind] for kind in KINDS) for amount in amounts]
    # The kinds alarm together: raise all limits alike until their union keeps the rate.
    together = max(1.0, limit_of(worst, false_alarms))
    alarmed = sum(ratio > together for ratio in worst) / len(worst) if worst else 0.0
    return Expectations(
        _usual(videos), {kind: limit * together for kind, limit in limits.items()}, false_alarms, alarmed
    )


def _usual(videos: Sequence[Seen]) -> Usual:
    return learn_usual(graph_of_doings([video.doings for video in videos]), videos)


def _folds(videos: int) -> list[list[int]]:
    """Which videos are left out together; nothing can be left out of one."""
    if videos < 2:
        return []
    return [list(range(fold, videos, FOLDS)) for fold in range(min(FOLDS, videos))]


def _judge(videos: Sequence[Seen], left_out: Sequence[int]) -> list[dict[str, float]]:
    """The amounts of the videos left out, by what the others say."""
    usual = _usual([video for place, video in enumerate(videos) if place not in left_out])
    return [totals(find_signs(videos[place], usual)) for place in left_out]


def limit_of(amounts: Sequence[float], share: float) -> float:
    """The amount that a share of normal videos exceeds, from the amounts of n of them.

    The k-th largest is exceeded by k of n + 1 videos on average. Where `share` is finer than 1 / (n + 1), the tail is
    taken to fall exponentially above the median, at a pace `scale` that is itself known from m amounts only, so that

        p(amount > median + x) = 1/2 (1 + x / (m scale))^-m

    >>> limit_of([0.0, 1.0, 2.0, 3.0], share=0.4)
    2.0
    """
    ordered = np.sort(np.asarray(amounts, dtype=np.float64))[::-1]
    if not len(ordered):
        return 0.0
    place = math.floor(share * (len(ordered) + 1))
    if place >= 1:
        return float(ordered[place - 1])
    middle = float(np.median(ordered))
    upper = ordered[: (len(ordered) + 1) // 2]
    scale = float(np.mean(upper - middle))
    reach = len(upper) * scale * (math.pow(2 * share, -1 / len(upper)) - 1)
    return max(float(ordered[0]), middle + reach)
