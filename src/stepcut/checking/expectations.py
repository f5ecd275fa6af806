"""Expectations: what normal videos look like, how far they may deviate, and detection rates."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self, get_type_hints

import msgspec
import numpy as np
from scipy.special import ndtri

from stepcut.checking.evidence import KINDS_OF_FAULTS
from stepcut.checking.inputs import Inputs
from stepcut.checking.rules import Rule
from stepcut.checking.score import (
    MEASURES,
    Copy,
    Share,
    contributions,
    find_copies,
    find_limit,
    held_out_totals,
    learn_scales,
    promised_rate,
    stand_out,
)
from stepcut.checking.severity import Severity
from stepcut.checking.task import TaskModel
from stepcut.checking.usual import Amount, Scale, Step, Usual
from stepcut.errors import ProcedureError
from stepcut.order.graph import ProcedureGraph
from stepcut.order.orders import counted, name_of

SOME = 8
"""Names of one group that a sentence lists."""
STEP, HALF = KINDS_OF_FAULTS["step"], KINDS_OF_FAULTS["half"]


@dataclass(frozen=True)
class Expectations:
    """What a normal video looks like, and how far it may deviate."""

    graph: ProcedureGraph
    """The usual orders; from labels, where there are labels."""
    usual: Usual
    false_alarms: Share
    """Requested share of normal videos that may raise an alarm."""
    amounts: dict[str, tuple[Amount, ...]]
    """By measure, of every reference video, compared with the others; empty for one video."""
    invariant: tuple[Step, ...] = ()
    """Steps that every reference video does, and shows when it is seen as if it were new."""
    altered: dict[str, tuple[Copy, ...]] = field(default_factory=dict)
    """Altered copies of reference videos, by kind: they show how much a check finds."""
    task: TaskModel | None = None
    videos: tuple[str, ...] = ()
    """Names of the reference videos, in the order of `amounts`."""
    groups: tuple[tuple[str, ...], ...] = ()
    """Names of the videos of each of two tasks, if there seem to be two."""
    inputs: Inputs | None = None
    """What the camera usually sees."""
    severity: Severity = field(default_factory=Severity)
    rules: tuple[Rule, ...] = ()
    mistakes: frozenset[str] = frozenset()
    """Videos that a person excluded from the reference set."""
    kept: frozenset[str] = frozenset()
    """Videos that a person called normal: they are never set aside."""

    # ------------------------------------------------------------------ the reference set

    @cached_property
    def _arrays(self) -> dict[str, Any]:
        return {way: np.asarray(self.amounts.get(way, ())) for way in MEASURES}

    @cached_property
    def _places(self) -> tuple[list[int], list[int]]:
        """Places of the videos that set the limits, and of those that are set aside."""
        every = range(len(self._arrays["length"]))
        named = list(self.videos) or [str(place) for place in every]
        normal = [p for p in every if named[p] not in self.mistakes] or list(every)
        candidates = [at for at, place in enumerate(normal) if named[place] not in self.kept]
        amounts = {way: values[normal] for way, values in self._arrays.items()} if normal else {}
        aside = [normal[at] for at in stand_out(amounts, candidates)] if normal else []
        return [place for place in normal if place not in aside], aside

    @cached_property
    def _normal(self) -> dict[str, Any]:
        return {way: values[self._places[0]] for way, values in self._arrays.items()}

    @property
    def normal(self) -> int:
        """Number of videos that set the limits."""
        return len(self._places[0]) or self.usual.videos

    @property
    def set_aside(self) -> tuple[str, ...]:
        """Names of reference videos that stand out, so that they set no limits."""
        return tuple(self.videos[place] for place in self._places[1] if self.videos)

    @cached_property
    def scales(self) -> dict[str, Scale]:
        """Usual amount of each measure."""
        if not self.amounts:
            return {way: Scale(0.0, prior, 0) for way, prior in MEASURES.items()}
        return learn_scales(self._normal)

    @cached_property
    def limit(self) -> float:
        """Total that raises an alarm."""
        totals = held_out_totals(self._normal) if self.amounts else np.zeros(0)
        return find_limit(totals, self.promised)

    @property
    def promised(self) -> float:
        """False-alarm rate of the limit; see `promised_rate`."""
        return promised_rate(len(self._places[0]), self.false_alarms)

    @property
    def alarmed(self) -> float:
        """Share of the reference videos that exceed the limit, with those that are set aside."""
        (normal, aside), totals = self._places, held_out_totals(self._normal)
        return float((totals > self.limit).sum() + len(aside)) / max(len([*normal, *aside]), 1)

    @property
    def needed(self) -> int:
        """Least number of videos for the requested false-alarm rate."""
        return math.ceil(1 / self.false_alarms) - 1

    def judge(self, new: Mapping[str, float]) -> tuple[dict[str, float], float]:
        """Return the contribution of each measure to the total, and the score of a video.

        The score is from 0 to 1 within the limit and from 1 to 2 beyond it.
        """
        parts = {way: float(part) for way, part in contributions(new, self.scales).items()}
        total = sum(parts.values())
        return parts, (1 + total / (1 + abs(total))) / 2 + (total > self.limit)

    def alarm_limit(self, step: int, alarm_at: float | None = None) -> float:
        """Probability of being missing at which a step raises an alarm by itself.

        An invariant step does so if the probability that it was done is below the false-alarm rate,
        divided among these steps.
        """
        least = self.severity.alarm_limit(step, alarm_at)
        if step in self.invariant and step not in self.severity.optional:
            least = min(least, 1 - self.false_alarms / len(self.invariant))
        return least

    def with_marks(self, mistakes: Collection[str], kept: Collection[str] = ()) -> Self:
        """Exclude videos that contain `mistakes`; never set aside those that are `kept`.

        The usual steps, orders and durations still come from all videos: a few mistakes change them
        little.
        """
        return replace(self, mistakes=frozenset(mistakes), kept=frozenset(kept))

    # ------------------------------------------------------------------ what a check finds

    @cached_property
    def _hits(self) -> dict[str, Any]:
        """By kind: whether each altered copy of a normal video raises an alarm, its removed step
        and its video."""
        normal, least = self._places[0], self.false_alarms / max(len(self.invariant), 1)
        found = {}
        for kind, every in self.altered.items():
            hits = find_copies(every, self._arrays, normal, self.promised)
            hits = hits | [
                one.least < least
                or (one.gone >= 0 and 1 - one.likely >= self.alarm_limit(one.gone))
                for one in every
            ]
            gone, of = np.array([(one.gone, one.of) for one in every]).T
            rows = np.isin(of, normal)
            if rows.any():
                found[kind] = hits[rows], gone[rows], of[rows]
        return found

    @property
    def detects(self) -> dict[str, float]:
        """Detection rate of each kind of fault; of a missing step, that of the critical ones."""
        found = {kind: float(np.mean(hits)) for kind, (hits, *_) in self._hits.items()}
        by_step = self.detects_step
        if critical := self.severity.critical & by_step.keys():
            found[STEP] = min(by_step[step] for step in critical)
        return found

    @property
    def detects_step(self) -> dict[int, float]:
        """How often each step would be found to be missing."""
        hits, gone, _ = self._hits.get(STEP, (np.zeros(0), np.zeros(0), None))
        return {int(s): float(np.mean(hits[gone == s])) for s in np.unique(gone[gone >= 0])}

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """90 % Wilson interval of each rate in `detects`; every reference video counts once."""
        videos = {kind: len({*of.tolist()}) for kind, (*_, of) in self._hits.items()}
        return {kind: _wilson(share, videos[kind]) for kind, share in self.detects.items()}

    def remedy(self, least: float, names: Collection[str] = (), fault: str = "step") -> str:
        """What would make a check conclusive."""
        chosen = self.severity.critical or self.detects_step.keys()
        shares = sorted((share, s) for s, share in self.detects_step.items() if s in chosen)
        hidden = [
            f"{name_of(s, list(names))} ({share:.0%})" for share, s in shares if share < least
        ]
        words = ["label three or more videos"]
        if fault == "step" and hidden:
            words = [f"hardest to find: {', '.join(hidden[:3])}; {words[0]} that show them"]
        if len(self._places[0]) < self.needed:
            words.append(f"learn from {self.needed} normal videos")
        half = self.detects.get(HALF, 0.0)
        if fault == "step" and half >= least:
            words.append(f"use --for half if missing halves are enough ({half:.0%} found)")
        return "; or ".join(words)

    # ------------------------------------------------------------------ sentences

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
            f"These videos seem to show two tasks ({counts}): {'; and '.join(lists)}. "
            "If so, put each task into its own folder, and learn them separately."
        )

    @property
    def most_unusual(self) -> list[str]:
        """Names of the reference videos without a marked mistake, most unusual first."""
        if not self.videos or not self.amounts:
            return []
        totals: Any = sum(contributions(self._arrays, self.scales).values())
        named = [self.videos[place] for place in np.argsort(-totals, kind="stable")]
        return [name for name in named if name not in self.mistakes]

    @property
    def forecast(self) -> str:
        """Expected detection rate of a check, and the false-alarm rate that can be stated."""
        if not self.detects:
            return "The detection rate of a check is not known: it needs two videos or more."
        rates = ", ".join(
            f"{kind} {100 * share:.0f} % (90 % interval "
            f"{100 * self.ranges[kind][0]:.0f}–{100 * self.ranges[kind][1]:.0f} %)"
            for kind, share in self.detects.items()
        )
        text = f"Expected detection rate with {counted(self.normal)}: {rates}. {self.aside}".strip()
        if self.promised > self.false_alarms:
            text += (
                f" False alarms: up to {100 * self.promised:.0f} % of normal videos; "
                f"{self.needed} videos are needed for {100 * self.false_alarms:.0f} %."
            )
        return text

    @property
    def aside(self) -> str:
        """Which reference videos are set aside, and how to change that; else empty."""
        if not self.set_aside:
            return ""
        them, each = ("them", "each") if len(self.set_aside) > 1 else ("it", "it")
        return (
            f"Set aside as unlike the others: {', '.join(self.set_aside)}. Look at {them}, then "
            f"mark {each} with stepcut teach --mistakes or --normal. Until then, expect a false "
            f"alarm in up to {self.alarmed:.0%} of normal videos."
        )

    @property
    def advice(self) -> str:
        """Which videos to inspect for mistakes."""
        if len(self.most_unusual) < 3:
            return ""
        first, *others = self.most_unusual[:3]
        return (
            f"{first} differs most from the others, then {' and '.join(others)}. "
            "Exclude a recording that contains a mistake from the reference set."
        )

    # ------------------------------------------------------------------ the file

    def to_json(self) -> Any:
        """Return a JSON-able object; severity, rules and marks are saved elsewhere."""
        values = {name: getattr(self, name) for name in SAVED}
        saved = msgspec.to_builtins(values, enc_hook=_encode, str_keys=True)
        return {"graph": self.graph.to_json(), **saved}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Read the result of `to_json`."""
        try:
            graph = ProcedureGraph.from_json(record["graph"])
            record = {"inputs": None, **record}  # early versions of 0.4.0 had none
            saved = msgspec.convert(record, _Saved, dec_hook=_decode, str_keys=True)
            made = cls(graph=graph, **{name: getattr(saved, name) for name in SAVED})
            made._check()
            return made
        except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
            raise ProcedureError(
                f"check.json is damaged or older than version 0.3.0 "
                f"({type(error).__name__}: {error}). Learn the procedure again: stepcut teach."
            ) from error

    def _check(self) -> None:
        """Refuse parts of different sizes."""
        number, usual = len(self.amounts.get("length", ())), self.usual
        sizes = {*map(len, self.amounts.values())}
        if self.amounts and (self.amounts.keys() != MEASURES.keys() or sizes != {number}):
            raise ValueError("amounts needs one number for each measure and video")
        if any(one.of >= number for every in self.altered.values() for one in every):
            raise ValueError("altered has a copy of a video that does not exist")
        if self.videos and number and len(self.videos) != number:
            raise ValueError("videos needs one name for each of its amounts")
        if not usual.occurs.keys() == usual.repeats.keys() >= {*usual.paces, *usual.times}:
            raise ValueError("paces has a step that no video shows")
        for one in usual.slices:
            one.check()
        drawn = [one.rows for one in usual.slices] + ([self.task.centres] if self.task else [])
        if len({rows.shape[1] for rows in drawn if len(rows)}) > 1:
            raise ValueError("task and slices have rows of different lengths")


_hints = get_type_hints(Expectations, include_extras=True)
SAVED = tuple(
    one.name
    for one in fields(Expectations)
    if one.name not in ("graph", "severity", "rules", "mistakes", "kept")
)
_Saved = msgspec.defstruct("_Saved", [(name, _hints[name]) for name in SAVED])


def _encode(value: Any) -> Any:
    """Arrays as lists, to six digits."""
    if not isinstance(value, np.ndarray):
        raise NotImplementedError
    if (value == np.round(value)).all():
        return value.astype(np.int64).tolist()
    return [[float(f"{x:.6g}") for x in row] for row in value]


def _decode(kind: Any, value: Any) -> Any:
    return np.array(value, dtype=np.float64 if "float" in str(kind) else np.int64)


def _wilson(share: float, videos: int) -> tuple[float, float]:
    """90 % interval of a share that was counted in this many videos.

    (p + z^2 / 2n  +-  z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)
    """
    z2 = float(ndtri(0.95)) ** 2 / videos
    middle, half = share + z2 / 2, math.sqrt(z2 * share * (1 - share) + z2**2 / 4)
    return max(0.0, (middle - half) / (1 + z2)), min(1.0, (middle + half) / (1 + z2))
