"""Expectations: what normal videos look like, how far they may deviate, and detection rates."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

import msgspec
import numpy as np
from scipy.special import ndtri

from stepcut.checking.presence import Presence
from stepcut.checking.score import (
    PRIOR_SPREADS,
    Altered,
    contributions,
    contributions_beside,
    find_limit,
    set_limits,
)
from stepcut.checking.severity import Severity
from stepcut.checking.task import TaskModel
from stepcut.checking.usual import Amount, Count, Scale, Spread, Usual
from stepcut.checking.warping import Slices
from stepcut.errors import ProcedureError
from stepcut.order.graph import ProcedureGraph
from stepcut.order.orders import counted

SOME = 8
"""Names of one group that a sentence lists."""


@dataclass(frozen=True)
class Expectations:
    """What a normal video looks like, and how far it may deviate."""

    usual: Usual
    scales: dict[str, Scale]
    """Usual amount of each measure."""
    amounts: dict[str, tuple[float, ...]]
    """Amounts of every reference video, by measure, compared with the others; empty for one video.
    """
    limit: float
    """Total that raises an alarm, if amounts are unknown."""
    false_alarms: float
    """Requested share of normal videos that may raise an alarm."""
    promised: float
    """False-alarm rate of the limit: the requested rate, or the least possible with so few videos.
    """
    alarmed: float
    """Share of the training videos beyond the limit, each compared with the others."""
    task: TaskModel = field(default_factory=lambda: TaskModel.from_json(None))
    detects: dict[str, float] = field(default_factory=dict)
    """Detection rate of `missing step`, `missing half` and `exchanged steps`."""
    severity: Severity = field(default_factory=Severity)
    videos: tuple[str, ...] = ()
    """Names of the reference videos, in the order of `amounts`."""
    groups: tuple[tuple[str, ...], ...] = ()
    """Names of the videos of each of two tasks, if there seem to be two."""
    altered: dict[str, Altered] = field(default_factory=dict)
    """The altered videos that `detects` is estimated from."""

    def judge(self, new: Mapping[str, float]) -> tuple[dict[str, float], float]:
        """Return each measure's contribution to the total, and the score; `new` has the amounts of
        a video.

        The score is from 0 to 1 within the limit and from 1 to 2 beyond it. Within each range it
        depends on the total alone, because the limit rests on a single normal video and varies.
        """
        parts = contributions(new, self.scales)
        total, limit = sum(parts.values()), self.limit
        if self.amounts:
            beside = contributions_beside(self.amounts, new)
            limit = find_limit(sum(beside.values()), self.false_alarms)
        return parts, float((1 + total / (1 + abs(total))) / 2 + (total > limit))

    def without(self, mistakes: Collection[str]) -> Self:
        """Exclude videos that contain `mistakes` from the reference set, and set the limits again.

        The usual steps, orders and durations still come from all videos: a few mistakes change them
        little, but one unusual video can set the limit.
        """
        kept = [place for place, name in enumerate(self.videos) if name not in mistakes]
        if len(kept) in (0, len(self.videos)):
            return self
        amounts = {
            way: tuple(values[place] for place in kept) for way, values in self.amounts.items()
        }
        altered = {kind: changed.among(kept) for kind, changed in self.altered.items()}
        limits = set_limits(amounts, altered, self.false_alarms)
        return replace(self, videos=tuple(self.videos[place] for place in kept), **limits)

    @property
    def normal(self) -> int:
        """Number of reference videos."""
        return len(self.amounts["length"]) if self.amounts else self.usual.graph.videos

    @property
    def mixed(self) -> str:
        """A warning if the videos seem to show two tasks, else empty."""
        if not self.groups:
            return ""
        lists = [
            ", ".join(names[:SOME]) + (" ..." if len(names) > SOME else "") for names in self.groups
        ]
        counts = " and ".join(counted(len(names)) for names in self.groups)
        return (
            f"These videos seem to show two tasks ({counts}): {lists[0]}; and {lists[1]}. "
            "If so, put each task into its own folder, and learn them separately."
        )

    @property
    def most_unusual(self) -> list[str]:
        """Names of the reference videos, most unusual first."""
        parts = contributions(self.amounts, self.scales) if self.videos else {}
        totals = sum(parts.values()) if parts else []
        return [self.videos[place] for place in np.argsort(-np.asarray(totals), kind="stable")]

    @property
    def forecast(self) -> str:
        """Expected detection rate of a check, in one or two sentences."""
        if not self.detects:
            return "The detection rate of a check is not known: it needs two videos or more."
        rate = f"Expected detection rate with {counted(self.normal)}: {self._found}."
        if self.promised <= self.false_alarms:
            return rate
        enough = math.ceil(1 / self.false_alarms) - 1  # least n with 1 / (n + 1) <= false_alarms
        return (
            f"{rate} False alarms: up to {100 * self.promised:.0f} % of normal videos; "
            f"{enough} videos are needed for {100 * self.false_alarms:.0f} %."
        )

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """90 % Wilson interval of each rate in `detects`; every training video counts once."""
        changed = {kind: len(set(altered.of)) for kind, altered in self.altered.items()}
        return {
            kind: _wilson(share, changed.get(kind) or self.normal)
            for kind, share in self.detects.items()
        }

    @property
    def advice(self) -> str:
        """Which videos to inspect for mistakes, and the detection rate without the first one."""
        if len(self.videos) < 3:
            return ""
        first, *others = self.most_unusual[:3]
        less = self.without([first])._found
        return (
            f"{first} differs most from the others, then {' and '.join(others)}. "
            "Exclude a recording that contains a mistake from the reference set; "
            f"without {first}: {less}."
        )

    @property
    def _found(self) -> str:
        between = self.ranges
        return ", ".join(
            f"{kind} {100 * share:.0f} % "
            f"(90 % interval {100 * between[kind][0]:.0f}–{100 * between[kind][1]:.0f} %)"
            for kind, share in self.detects.items()
        )

    def to_json(self) -> Any:
        """Return a JSON-able object."""
        usual = self.usual
        saved = _Saved(
            graph=usual.graph.to_json(),
            paces=[(step, *pace) for step, pace in sorted(usual.paces.items())],
            length=usual.length,
            never=usual.never,
            times=sorted(usual.times.items()),
            new=None if math.isinf(usual.new) else usual.new,
            stretch=usual.stretch,
            exchangeable=[(*pair, share) for pair, share in sorted(usual.exchangeable.items())],
            presence=usual.presence,
            outlines=[one.to_json() for one in usual.slices],
            scales=self.scales,
            amounts=self.amounts,
            limit=self.limit,
            false_alarms=self.false_alarms,
            promised=self.promised,
            alarmed=self.alarmed,
            task=self.task.to_json() if len(self.task.centres) else None,
            detects=self.detects,
            videos=self.videos,
            groups=self.groups,
            planted={kind: {"of": one.of, **one.amounts} for kind, one in self.altered.items()},
            forecast=self.forecast,
        )
        return msgspec.to_builtins(saved)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Read the result of `to_json`; files of version 0.2.0 have no limits."""
        try:
            if "clarity" in record:
                nothing: dict[str, Any] = {"amounts": {}, "planted": {}, "detects": {}}
                record = {**record, **nothing, "videos": [], "presence": {}}
            saved = msgspec.convert(record, _Saved)
            usual = Usual(
                graph=ProcedureGraph.from_json(saved.graph),
                paces={step: Scale(mean, spread, n) for step, mean, spread, n in saved.paces},
                length=saved.length,
                never=saved.never,
                times=dict(saved.times),
                new=math.inf if saved.new is None else saved.new,
                stretch=saved.stretch,
                exchangeable={(a, b): share for a, b, share in saved.exchangeable},
                slices=tuple(map(Slices.from_json, saved.outlines)),
                presence=saved.presence,
            )
            task = TaskModel.from_json(saved.task)
            _check_amounts(saved.amounts, len(saved.videos))
            drawn = [rows for rows in (task.centres, *(o.rows for o in usual.slices)) if len(rows)]
            if len({rows.shape[1] for rows in drawn}) > 1:
                raise ValueError("task and slices have rows of different lengths")
            if not usual.paces.keys() <= set(usual.graph.steps):
                raise ValueError("paces has a step that is not in the graph")
            videos = len(saved.amounts.get("length", ()))
            return cls(
                usual,
                {way: saved.scales[way] for way in PRIOR_SPREADS},
                saved.amounts,
                saved.limit,
                saved.false_alarms,
                saved.promised,
                saved.alarmed,
                task,
                saved.detects,
                videos=saved.videos,
                groups=saved.groups,
                altered={kind: _read_altered(one, videos) for kind, one in saved.planted.items()},
            )
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise ProcedureError(
                f"check.json is damaged or older than version 0.3.0 "
                f"({type(error).__name__}: {error}). Learn the procedure again."
            ) from error


class _Saved(msgspec.Struct):
    """The JSON form of the expectations."""

    graph: dict[str, Any]
    paces: list[tuple[int, Amount, Spread, Count]]
    length: Scale
    never: dict[str, float]
    times: list[tuple[int, float]]
    new: float | None
    stretch: Scale
    exchangeable: list[tuple[int, int, float]]
    presence: Presence
    outlines: list[dict[str, Any]]
    scales: dict[str, Scale]
    amounts: dict[str, tuple[Amount, ...]]
    limit: float
    false_alarms: float
    promised: float
    alarmed: float
    task: dict[str, Any] | None
    detects: dict[str, Annotated[float, msgspec.Meta(ge=0, le=1)]]
    videos: tuple[str, ...]
    planted: dict[str, dict[str, tuple[Amount, ...]]]
    groups: tuple[tuple[str, ...], ...] = ()
    forecast: str = ""


def _wilson(share: float, videos: int) -> tuple[float, float]:
    """90 % interval of a share that was counted in this many videos.

    (p + z^2 / 2n  +-  z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)
    """
    z2 = float(ndtri(0.95)) ** 2 / videos
    middle, half = share + z2 / 2, math.sqrt(z2 * share * (1 - share) + z2**2 / 4)
    return max(0.0, (middle - half) / (1 + z2)), min(1.0, (middle + half) / (1 + z2))


def _check_amounts(amounts: Mapping[str, Sequence[float]], videos: int) -> None:
    """Refuse amounts without one number for each measure and video; 0 is any number of videos."""
    counts = {len(values) for values in amounts.values()}
    if amounts and (amounts.keys() != PRIOR_SPREADS.keys() or len(counts | {0}) != 2):
        raise ValueError("amounts needs one number for each measure and video")
    if videos and counts != {videos}:
        raise ValueError("videos needs one name for each of its amounts")


def _read_altered(record: Mapping[str, tuple[float, ...]], learned: int) -> Altered:
    of = tuple(map(int, record["of"]))
    amounts = {way: values for way, values in record.items() if way != "of"}
    if of:
        _check_amounts(amounts, len(of))
    if of and not (amounts and 0 <= min(of) <= max(of) < learned):
        raise ValueError("planted needs one number for each altered video")
    return Altered(of, amounts or dict.fromkeys(PRIOR_SPREADS, ()))
