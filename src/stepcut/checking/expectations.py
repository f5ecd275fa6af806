"""What normal videos look like, how far they may deviate, and how much a check finds.

A video deviates by measure g by an amount x_g. With m and s the mean and spread of the amounts of
the reference videos, each as if it were new, s shrunk towards a prior,

    z_g = the normal score of (x_g - m) / (s sqrt(1 + 1/n)) in a t-distribution
    total = sum of max(z_g, -1) over the five measures, with |z_g| for the length

The limit is the quantile of a t-distribution fitted to all totals, so no single video sets it.
Before that, videos that stand out by medians and quartiles are set aside together.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple, Self, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from stepcut.checking.gate import FARTHEST, Inputs, TaskModel
from stepcut.checking.report import FAULTS
from stepcut.checking.rules import Rule, Severity
from stepcut.checking.usual import FINE, PRIOR, Amount, Count, Floats, Scale, Step, Usual
from stepcut.errors import ProcedureError
from stepcut.order.graph import ProcedureGraph
from stepcut.order.orders import counted, name_of

# prior spread of the amounts of each
MEASURES = {"length": 0.25, "missed": 1.0, "timing": 0.05, "apart": 0.15, "unknown": 1.0}
TOTAL_SPREAD = 1.5  # prior spread of totals
STANDS_OUT = 3.0  # spreads above the median from which a reference video stands out
MOST_ASIDE = 5  # at most one in this many reference videos is set aside
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
PRIORS: Any = np.array([*MEASURES.values()])[:, None]
# Without labels, reference videos deviate less than new ones, as the steps were found in them:
# limits at half the rate are exceeded twice as often as asked (benchmarks/reports/check.md)
OPTIMISM = 2.0
SWING, SUSPECTS = 0.5, 3  # change of a rate, by which of the most unusual videos


def contributions(amounts: Floats, scale: Scale) -> Floats:
    scores = scale.normal_score(amounts)
    scores[0] = np.abs(scores[0])
    return np.asarray(np.maximum(scores, -1.0))


def held_out_totals(amounts: Floats) -> Floats:
    """Totals (n,) from amounts (5, n), each with the scale of the others."""
    number = amounts.shape[1]
    if number < 2:
        return np.zeros(0)
    # `Scale.of` of the others, for all videos at once.
    mean = (amounts.sum(axis=1, keepdims=True) - amounts) / (number - 1)
    squares = (amounts**2).sum(axis=1, keepdims=True) - amounts**2 - (number - 1) * mean**2
    spread = np.sqrt((np.maximum(squares, 0) + PRIOR * PRIORS**2) / (number - 2 + PRIOR))
    return np.asarray(contributions(amounts, Scale(mean, spread, number - 1)).sum(axis=0))


def find_limit(totals: Any, rate: float) -> float:
    """Total that a share `rate` of normal videos exceeds."""
    scale = Scale.of(totals, TOTAL_SPREAD) if len(totals) else Scale(0.0, TOTAL_SPREAD, 0)
    return scale.exceeded_by(rate)


def stand_out(amounts: Floats, candidates: Iterable[int]) -> list[int]:
    """Those that stand out from all videos, the most unusual first."""
    number = amounts.shape[1]
    if number < MOST_ASIDE:
        return []
    totals = contributions(amounts, Scale.robust(amounts, PRIORS)).sum(axis=0)
    usual = Scale.robust(totals, TOTAL_SPREAD)
    limit = usual.middle + STANDS_OUT * usual.spread
    beyond = sorted((p for p in candidates if totals[p] > limit), key=lambda p: -totals[p])
    return beyond[: number // MOST_ASIDE]


class Copy(NamedTuple):
    of: Count  # place of the reference video
    amounts: tuple[Amount, Amount, Amount, Amount, Amount]  # in the order of `MEASURES`
    least: Share  # probability of the least likely invariant step
    gone: int = -1  # the removed step, if one was
    likely: Share = 1.0  # its probability


@dataclass(frozen=True, eq=False)
class Expectations:
    graph: ProcedureGraph  # the usual orders; from labels, where there are labels
    usual: Usual
    false_alarms: Share  # requested share of normal videos that may raise an alarm
    # By measure, of every reference video, compared with the others; empty for one video.
    amounts: dict[str, tuple[Amount, ...]]
    labelled: bool = True  # whether a person labelled any reference video
    invariant: tuple[Step, ...] = ()  # steps that every reference video does, and shows as new
    altered: dict[str, tuple[Copy, ...]] = field(default_factory=dict)  # by kind of fault
    task: TaskModel | None = None
    videos: tuple[str, ...] = ()  # names of the reference videos, in the order of `amounts`
    inputs: Inputs | None = None  # what the camera usually sees
    severity: Severity = field(default_factory=Severity)
    rules: tuple[Rule, ...] = ()
    mistakes: frozenset[str] = frozenset()  # videos that a person excluded
    kept: frozenset[str] = frozenset()  # videos that a person called normal: never set aside

    # ---------- the reference set

    @cached_property
    def _amounts(self) -> Floats:
        return np.array([self.amounts.get(way, ()) for way in MEASURES], dtype=np.float64)

    @cached_property
    def _places(self) -> tuple[list[int], list[int]]:
        # Of the videos that set the limits, and of those that are set aside.
        every = range(self._amounts.shape[1])
        named = self.videos or [str(place) for place in every]
        normal = [p for p in every if named[p] not in self.mistakes] or list(every)
        candidates = [at for at, place in enumerate(normal) if named[place] not in self.kept]
        aside = [normal[at] for at in stand_out(self._amounts.take(normal, 1), candidates)]
        return [place for place in normal if place not in aside], aside

    @cached_property
    def _normal(self) -> Floats:
        return self._amounts.take(self._places[0], axis=1)

    @property
    def normal(self) -> int:
        return len(self._places[0]) or self.usual.videos

    @property
    def set_aside(self) -> tuple[str, ...]:
        return tuple(self.videos[place] for place in self._places[1] if self.videos)

    @cached_property
    def _scale(self) -> Scale:
        return Scale.of(self._normal, PRIORS) if self.amounts else Scale(0.0, PRIORS, 0)

    @cached_property
    def limit(self) -> float:
        return find_limit(held_out_totals(self._normal), self._rate)

    @property
    def _caution(self) -> float:
        return 1.0 if self.labelled else OPTIMISM

    @property
    def _rate(self) -> float:
        # 1 / (n + 1): as often, a new video is the most unusual of all.
        return max(self.false_alarms, 1 / (len(self._places[0]) + 1)) / self._caution

    @property
    def promised(self) -> float:
        """False-alarm rate among new videos that can be stated."""
        return min(1.0, self._rate * self._caution**2)

    @property
    def alarmed(self) -> float:
        """Share of the reference videos beyond the limit, with those that are set aside."""
        (normal, aside), totals = self._places, held_out_totals(self._normal)
        return float((totals > self.limit).sum() + len(aside)) / max(len([*normal, *aside]), 1)

    @property
    def needed(self) -> int:
        return math.ceil(1 / self.false_alarms) - 1

    def judge(self, new: Mapping[str, float]) -> tuple[dict[str, float], float]:
        """The part of each measure in the total, and the score: above 1 is beyond the limit."""
        amounts = np.array([[new[way]] for way in MEASURES])
        shares = contributions(amounts, self._scale)[:, 0].tolist()
        parts, total = dict(zip(MEASURES, shares, strict=True)), sum(shares)
        return parts, (1 + total / (1 + abs(total))) / 2 + (total > self.limit)

    def alarm_limit(self, step: int, alarm_at: float | None = None) -> float:
        """Probability of being missing at which a step raises an alarm by itself."""
        # For invariant steps, the false-alarm rate is divided among them.
        least = self.severity.alarm_limit(step, alarm_at)
        if step in self.invariant and step not in self.severity.optional:
            rate = self.false_alarms / self._caution
            least = min(least, 1 - rate / len(self.invariant))
        return least

    def with_marks(self, mistakes: Collection[str], kept: Collection[str] = ()) -> Self:
        # Usual steps, orders and durations still come from all: a few mistakes change them little.
        return replace(self, mistakes=frozenset(mistakes), kept=frozenset(kept))

    # ---------- what a check finds

    @cached_property
    def _hits(self) -> dict[str, tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
        """Whether each altered copy raises an alarm, its removed step and its video, by kind."""
        normal = self._places[0]
        least = self.false_alarms / self._caution / max(len(self.invariant), 1)
        found = {}
        for kind, every in self.altered.items():
            copies = [one for one in every if one.of in normal]
            gone, of = np.array([(one.gone, one.of) for one in copies]).reshape(-1, 2).T
            amounts = np.array([one.amounts for one in copies]).T
            hits = np.array([
                one.least < least
                or (one.gone >= 0 and 1 - one.likely >= self.alarm_limit(one.gone))
                for one in copies
            ])  # fmt: skip
            for place in np.unique(of):
                if others := [p for p in normal if p != place]:
                    rest = self._amounts.take(others, axis=1)
                    totals = contributions(amounts[:, of == place], Scale.of(rest, PRIORS))
                    limit = find_limit(held_out_totals(rest), self._rate)
                    hits[of == place] |= totals.sum(axis=0) > limit
            if copies:
                found[kind] = hits, gone, of
        return found

    @property
    def detects(self) -> dict[str, float]:
        """Detection rate by kind of fault; of a missing step, that of the critical ones."""
        found = {kind: float(np.mean(hits)) for kind, (hits, *_) in self._hits.items()}
        by_step = self.detects_step
        if critical := self.severity.critical & by_step.keys():
            found[FAULTS["step"]] = min(by_step[step] for step in critical)
        return found

    @cached_property
    def detects_step(self) -> dict[int, float]:
        if FAULTS["step"] not in self._hits:
            return {}
        hits, gone, _ = self._hits[FAULTS["step"]]
        return {int(step): float(np.mean(hits[gone == step])) for step in np.unique(gone)}

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """90 % Wilson interval of each rate in `detects`; every reference video counts once."""
        videos = {kind: len({*of.tolist()}) for kind, (*_, of) in self._hits.items()}
        return {kind: _wilson(share, videos[kind]) for kind, share in self.detects.items()}

    def remedy(self, least: float, names: Sequence[str] = (), fault: str = "step") -> str:
        chosen = self.severity.critical or self.detects_step.keys()
        shares = sorted((share, s) for s, share in self.detects_step.items() if s in chosen)
        hidden = [f"{name_of(s, names)} ({share:.0%})" for share, s in shares if share < least]
        words = ["label three or more videos"]
        if fault == "step" and hidden:
            words = [f"hardest to find: {', '.join(hidden[:3])}; {words[0]} that show them"]
        if len(self._places[0]) < self.needed:
            words.append(f"learn from {self.needed} normal videos")
        half = self.detects.get(FAULTS["half"], 0.0)
        if fault == "step" and half >= least:
            words.append(f"use --for half if missing halves are enough ({half:.0%} found)")
        return "; or ".join(words)

    # ---------- sentences

    @property
    def most_unusual(self) -> list[str]:
        """Reference videos without a marked mistake, most unusual first."""
        if not self.videos or not self.amounts:
            return []
        totals = contributions(self._amounts, self._scale).sum(axis=0)
        named = [self.videos[place] for place in np.argsort(-totals, kind="stable")]
        return [name for name in named if name not in self.mistakes]

    @property
    def forecast(self) -> str:
        if not self.detects:
            return "The detection rate of a check is not known: it needs two videos or more."
        rates = ", ".join(
            f"{kind} {100 * self.detects[kind]:.0f} % "
            f"(90 % interval {100 * low:.0f}–{100 * high:.0f} %)"
            for kind, (low, high) in self.ranges.items()
        )
        text = f"Expected detection rate with {counted(self.normal)}: {rates}."
        text = " ".join(filter(None, (text, self.unstable, self.aside)))
        if self.promised > self.false_alarms:
            text += (
                f" False alarms: up to {100 * self.promised:.0f} % of normal videos; "
                f"for {100 * self.false_alarms:.0f} %, {self._lower}."
            )
        return text

    @property
    def unstable(self) -> str:
        """Whether one video decides on a detection rate, of those that differ most."""
        for name in self.most_unusual[:SUSPECTS]:
            without = replace(self, mistakes=self.mistakes | {name}).detects
            for kind, rate in self.detects.items():
                if abs((other := without.get(kind, rate)) - rate) > SWING:
                    return (
                        f"Unstable: without {name}, the rate for {kind} is {other:.0%}. Look at this "
                        "video first."
                    )
        return ""

    @property
    def few(self) -> str:
        """A warning if the videos are too few for the requested false-alarm rate."""
        if round(self.promised, 2) <= self.false_alarms:
            return ""
        known = "" if self.labelled else " and no labels"
        return (
            f"With {counted(self.normal)}{known} the rate of false alarms cannot be set below "
            f"{self.promised:.0%} ({self.false_alarms:.0%} was requested); {self._lower}."
        )

    @property
    def _lower(self) -> str:
        """What a person can do for the requested false-alarm rate."""
        ways = [] if self.labelled else ["label three videos"]
        if self.normal < self.needed:
            ways.append(f"learn from {self.needed} videos or more")
        return " and ".join(ways)

    @property
    def aside(self) -> str:
        """Which reference videos are set aside, and how to change that."""
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
        if len(self.most_unusual) < 3:
            return ""
        first, *others = self.most_unusual[:3]
        return (
            f"{first} differs most from the others, then {' and '.join(others)}. "
            "Exclude a recording that contains a mistake from the reference set."
        )

    # ---------- the file

    def to_json(self) -> Any:
        """Severity, rules and marks are saved elsewhere."""
        values = {name: getattr(self, name) for name in SAVED}
        saved = msgspec.to_builtins(values, enc_hook=_encode, str_keys=True)
        return {"graph": self.graph.to_json(), **saved}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        try:
            graph = ProcedureGraph.from_json(record["graph"])
            record = {"inputs": None, "labelled": True, **record}  # of early versions of 0.4.0
            saved = msgspec.convert(record, _Saved, dec_hook=_decode, str_keys=True)
            made = cls(graph=graph, **{name: getattr(saved, name) for name in SAVED})
            if not made._is_consistent():
                raise ValueError("its parts have different sizes, or numbers out of range")
            return made
        except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
            raise ProcedureError(
                f"check.json is damaged or older than version 0.3.0 "
                f"({type(error).__name__}: {error}). Learn the procedure again: stepcut teach."
            ) from error

    def _is_consistent(self) -> bool:
        usual, sizes = self.usual, {*map(len, self.amounts.values())}
        number = max(sizes, default=0)
        tables = [one.rows for one in usual.slices] + ([self.task.centres] if self.task else [])
        return (
            self.amounts.keys() in (set(), MEASURES.keys())
            and sizes <= {number}
            and all(one.of < number for every in self.altered.values() for one in every)
            and len(self.videos) in (0, number or len(self.videos))
            and usual.occurs.keys() == usual.repeats.keys() >= {*usual.paces, *usual.times}
            and len(usual.presence.done) == len(usual.presence.absent)
            and all(table.ndim == 2 for table in tables)
            and len({table.shape[1] for table in tables if len(table)}) < 2
            and all((np.abs(table) <= FARTHEST).all() for table in tables)
            and all((np.abs(one.rows) <= FINE).all() for one in usual.slices)
            and all(one.steps.shape == one.rows.shape[:1] != (0,) for one in usual.slices)
            and all(-1 <= one.steps.min() <= one.steps.max() < 100_000 for one in usual.slices)
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Expectations):
            return NotImplemented
        same = all(getattr(self, name) == getattr(other, name) for name in MARKS)
        return same and bool(self.to_json() == other.to_json())


MARKS = ("severity", "rules", "mistakes", "kept")  # fields that are saved elsewhere
SAVED = tuple(one.name for one in fields(Expectations) if one.name not in ("graph", *MARKS))
_hints = get_type_hints(Expectations, include_extras=True)
_Saved = msgspec.defstruct("_Saved", [(name, _hints[name]) for name in SAVED])


def _encode(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        raise NotImplementedError
    if (value == np.round(value)).all():
        return value.astype(np.int64).tolist()
    return [[float(f"{x:.6g}") for x in row] for row in value]


def _decode(kind: Any, value: Any) -> Any:
    return np.array(value, dtype=np.float64 if "float" in str(kind) else np.int64)


def _wilson(share: float, videos: int) -> tuple[float, float]:
    """(p + z^2 / 2n  +-  z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n), at 90 %."""
    z2 = float(ndtri(0.95)) ** 2 / videos
    middle, half = share + z2 / 2, math.sqrt(z2 * share * (1 - share) + z2**2 / 4)
    return max(0.0, (middle - half) / (1 + z2)), min(1.0, (middle + half) / (1 + z2))
