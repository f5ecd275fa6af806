"""Expectations: what a normal video looks like, how far it may stray, and what a check will find by
that."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from stepcut.checking.presence import Presence
from stepcut.checking.score import (
    BELIEVED,
    Planted,
    find_limit,
    set_limits,
    total_worth,
    worths,
    worths_beside,
)
from stepcut.checking.severity import Severity
from stepcut.checking.task import TaskModel
from stepcut.checking.usual import Scale, Usual
from stepcut.checking.warping import Slices
from stepcut.errors import ProcedureError
from stepcut.order.graph import ProcedureGraph
from stepcut.order.orders import counted

SOME = 8
"""Names of one group that a sentence lists."""
LARGEST = 1e6
"""No amount comes near this: they are logarithms of lengths and chances, and shares of a video."""


@dataclass(frozen=True)
class Expectations:
    """What a normal video looks like, and how far it may stray from that."""

    usual: Usual
    scales: dict[str, Scale]
    """What amounts are usual, for each way of straying."""
    amounts: dict[str, tuple[float, ...]]
    """For each way, by how much every video learned from strays, judged by the others; empty where
    there are no others, and in procedures of version 0.1.0."""
    limit: float
    """The total beyond which a video is called wrong where amounts are not known."""
    false_alarms: float
    """The share of normal videos that may be called wrong, as asked for."""
    promised: float
    """The share that the limit is set for: the one asked for, or the least that can be told from so
    few videos."""
    alarmed: float
    """The share of the videos learned from beyond the limit, each judged by what the others say."""
    task: TaskModel = field(default_factory=lambda: TaskModel.from_json(None))
    detects: dict[str, float] = field(default_factory=dict)
    """What share of deviations would be found: `missing step`, `missing half`, `exchanged
    steps`."""
    severity: Severity = field(default_factory=Severity)
    videos: tuple[str, ...] = ()
    """The names of the videos that `amounts` are of: those that count as normal."""
    groups: tuple[tuple[str, ...], ...] = ()
    """The names of the videos of each of two tasks, where they seem to show two."""
    planted: dict[str, Planted] = field(default_factory=dict)
    """The changed videos that `detects` tells of."""

    def judge(self, new: Mapping[str, float]) -> tuple[dict[str, float], float]:
        """What each way of straying adds to the total, and all evidence in one score; `new`: the
        amounts of a video.

        The score is from 0 to 1 within the limit, from 1 to 2 beyond it. Apart from that step it
        depends on the sum of all evidence alone: the limit is one normal video's total and varies
        much.
        """
        worth = worths(new, self.scales)
        total, limit = sum(worth.values()), self.limit
        if self.amounts:
            beside = worths_beside(self.amounts, new)
            limit = find_limit(total_worth(beside), self.false_alarms)
        return worth, float((1 + total / (1 + abs(total))) / 2 + (total_worth(worth) > limit))

    def without(self, mistakes: Collection[str]) -> Self:
        """The same, where a person says that the videos `mistakes` hold mistakes: they are no
        normal ones, so they do not say how far a normal one may stray.

        What is usual is still told by all of them: that a few do it otherwise changes little,
        whereas one that strays far sets the limit. Those that are left and a new one are still
        compared alike, so the promise holds.
        """
        kept = [place for place, name in enumerate(self.videos) if name not in mistakes]
        if len(kept) in (0, len(self.videos)):  # none would be left to compare with
            return self
        amounts = {
            way: tuple(values[place] for place in kept) for way, values in self.amounts.items()
        }
        planted = {kind: changed.among(kept) for kind, changed in self.planted.items()}
        limits = set_limits(amounts, planted, self.false_alarms)
        return replace(self, videos=tuple(self.videos[place] for place in kept), **limits)

    @property
    def normal(self) -> int:
        """How many videos count as normal."""
        return len(self.amounts["length"]) if self.amounts else self.usual.graph.videos

    @property
    def mixed(self) -> str:
        """That the videos seem to show two tasks, which ones, and what to do; nothing where they
        show one."""
        if not self.groups:
            return ""
        lists = [
            ", ".join(names[:SOME]) + (" ..." if len(names) > SOME else "") for names in self.groups
        ]
        counts = " and ".join(counted(len(names)) for names in self.groups)
        return (
            f"These videos seem to show two tasks ({counts}): {lists[0]}; and {lists[1]}. "
            "If so, put each task into a folder of its own, and learn them separately."
        )

    @property
    def oddest(self) -> list[str]:
        """The names of the videos that count as normal, those that stray most first."""
        totals = total_worth(worths(self.amounts, self.scales)) if self.videos else []
        return [self.videos[place] for place in np.argsort(-np.asarray(totals), kind="stable")]

    @property
    def forecast(self) -> str:
        """What a check will be able to find with these videos, in one sentence; an estimate from
        changed videos."""
        if not self.detects:
            return "The detection rate of a check is not known: it needs two videos or more."
        said = f"Expected detection rate with {counted(self.normal)}: {self._found}."
        if self.promised <= self.false_alarms:
            return said
        enough = (
            math.ceil(1 / self.false_alarms) - 1
        )  # the fewest n with 1 / (n + 1) no more than what is asked for
        return (
            f"{said} False alarms: up to {100 * self.promised:.0f} % of normal videos; {enough} videos are "
            f"needed for {100 * self.false_alarms:.0f} %."
        )

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Between which shares each of `detects` lies, in nine of ten cases: Wilson's interval,
        every video counting once, for what is found in one of its changed videos is mostly found in
        the others.
        """
        changed = {kind: len(set(planted.of)) for kind, planted in self.planted.items()}
        return {
            kind: _wilson(share, changed.get(kind) or self.normal)
            for kind, share in self.detects.items()
        }

    @property
    def advice(self) -> str:
        """Which videos to look at, as they may hold mistakes, and what a check finds without the
        first of them; nothing where they are too few."""
        if len(self.videos) < 3:
            return ""
        first, *others = self.oddest[:3]
        less = self.without([first])._found
        return (
            f"{first} differs most from the others, then {' and '.join(others)}. Exclude a recording that contains a "
            f"mistake from the reference set; without {first}: {less}."
        )

    @property
    def _found(self) -> str:
        between = self.ranges
        return ", ".join(
            f"{kind} {100 * share:.0f} % "
            f"(90 % interval {100 * between[kind][0]:.0f}–{100 * between[kind][1]:.0f} %)"
            for kind, share in self.detects.items()
        )

    def to_json(self) -> dict[str, Any]:
        """A JSON-able object; `from_json` reads it."""
        return {
            "graph": self.usual.graph.to_json(),
            "paces": [[step, *pace] for step, pace in sorted(self.usual.paces.items())],
            "length": list(self.usual.length),
            "never": self.usual.never,
            "times": [[step, time] for step, time in sorted(self.usual.times.items())],
            "new": None if math.isinf(self.usual.new) else self.usual.new,
            "stretch": list(self.usual.stretch),
            "exchangeable": [
                [*pair, share] for pair, share in sorted(self.usual.exchangeable.items())
            ],
            "presence": self.usual.presence.to_json(),
            "outlines": [one.to_json() for one in self.usual.slices],
            "scales": {name: list(scale) for name, scale in self.scales.items()},
            "amounts": {way: list(values) for way, values in self.amounts.items()},
            "limit": self.limit,
            "false_alarms": self.false_alarms,
            "promised": self.promised,
            "alarmed": self.alarmed,
            "task": self.task.to_json() if len(self.task.centres) else None,
            "detects": self.detects,
            "videos": list(self.videos),
            "groups": [list(names) for names in self.groups],
            "planted": {
                kind: {"of": changed.of, **changed.amounts}
                for kind, changed in self.planted.items()
            },
            "forecast": self.forecast,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """What `to_json` gave, read again; of version 0.2.0, what a normal video looks like and no
        limits."""
        try:
            if "clarity" in record:
                nothing: dict[str, Any] = {
                    "amounts": {},
                    "planted": {},
                    "detects": {},
                    "videos": [],
                }
                record = {**record, **nothing, "presence": Presence().to_json()}
            new = record["new"]
            usual = Usual(
                graph=ProcedureGraph.from_json(record["graph"]),
                paces={step: _read_scale(*pace) for step, *pace in record["paces"]},
                length=_read_scale(*record["length"]),
                never=dict(record["never"]),
                times={step: float(time) for step, time in record["times"]},
                new=math.inf if new is None else float(new),
                stretch=_read_scale(*record["stretch"]),
                exchangeable={(a, b): float(share) for a, b, share in record["exchangeable"]},
                slices=tuple(map(Slices.from_json, record["outlines"])),
                presence=Presence.from_json(record["presence"]),
            )
            scales = {way: _read_scale(*record["scales"][way]) for way in BELIEVED}
            amounts = _read_amounts(record["amounts"])
            task, names = TaskModel.from_json(record["task"]), tuple(map(str, record["videos"]))
            drawn = [rows for rows in (task.centres, *(o.rows for o in usual.slices)) if len(rows)]
            if len({rows.shape[1] for rows in drawn}) > 1:
                raise ValueError("what steps and videos look like has rows of several lengths")
            if not usual.paces.keys() <= set(usual.graph.steps):
                raise ValueError("paces has a step that the graph has not")
            detects = {str(kind): float(share) for kind, share in record["detects"].items()}
            if not all(0 <= share <= 1 for share in detects.values()):
                raise ValueError("detects has a number that is not a share")
            if names and len(names) != len(amounts.get("length", ())):
                raise ValueError("videos has not one name for each of its amounts")
            return cls(
                usual,
                scales,
                amounts,
                float(record["limit"]),
                record["false_alarms"],
                record["promised"],
                record["alarmed"],
                task,
                detects,
                videos=names,
                groups=tuple(tuple(map(str, one)) for one in record.get("groups", ())),
                planted={k: _read_planted(one, amounts) for k, one in record["planted"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ProcedureError(
                f"the expectations of a procedure cannot be read ({type(error).__name__}: {error}); "
                "check.json is damaged, or older than version 0.3.0. Learn the procedure again."
            ) from error


def _wilson(share: float, videos: int) -> tuple[float, float]:
    """The shares between which the true one lies in nine of ten cases, when `share` of so many
    videos was counted.

    (p + z^2 / 2n  +-  z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)
    """
    z2 = float(ndtri(0.95)) ** 2 / videos
    middle, half = share + z2 / 2, math.sqrt(z2 * share * (1 - share) + z2**2 / 4)
    return max(0.0, (middle - half) / (1 + z2)), min(1.0, (middle + half) / (1 + z2))


def _read_scale(middle: float, spread: float, videos: int) -> Scale:
    if not (abs(middle) < LARGEST and 0 <= spread < LARGEST and 0 <= videos < LARGEST):
        raise ValueError(f"a mean of {middle}, a spread of {spread} in {videos} videos")
    return Scale(middle, spread, videos)


def _read_amounts(record: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, ...]]:
    amounts = {way: tuple(map(float, values)) for way, values in record.items()}
    if amounts and (
        amounts.keys() != BELIEVED.keys()
        or len({len(values) for values in amounts.values()} | {0}) != 2
    ):
        raise ValueError("amounts has not one number for each way of straying and each video")
    if any(not abs(value) < LARGEST for values in amounts.values() for value in values):
        raise ValueError(f"amounts has a number that is none, or beyond {LARGEST:g}")
    return amounts


def _read_planted(record: Mapping[str, Any], learned: Mapping[str, Sequence[float]]) -> Planted:
    of, videos = tuple(map(int, record["of"])), len(learned.get("length", ()))
    amounts = (
        _read_amounts({way: values for way, values in record.items() if way != "of"}) if of else {}
    )
    if of and (not 0 <= min(of) <= max(of) < videos or len(amounts["length"]) != len(of)):
        raise ValueError("planted has not one number for each changed video")
    return Planted(of, amounts or dict.fromkeys(BELIEVED, ()))
