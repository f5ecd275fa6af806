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
from stepcut.checking.presence import Presence
from stepcut.checking.rules import Rule
from stepcut.checking.score import (
    MEASURES,
    Altered,
    Share,
    contributions,
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


@dataclass(frozen=True)
class Expectations:
    """What a normal video looks like, and how far it may deviate."""

    graph: ProcedureGraph
    """The usual orders; from labels, where there are labels."""
    usual: Usual
    false_alarms: Share
    """Requested share of normal videos that may raise an alarm."""
    amounts: dict[str, tuple[Amount, ...]]
    """Amounts of every reference video, by measure, compared with the others; empty for one video.
    """
    invariant: tuple[Step, ...] = ()
    """Steps that every reference video does, and shows when it is seen as if it were new."""
    altered: dict[str, Altered] = field(default_factory=dict)
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
    def _places(self) -> tuple[list[int], list[int]]:
        """Places of the videos that set the limits, and of those that are set aside."""
        number = len(self.amounts.get("length", ()))
        named = list(self.videos) or [str(place) for place in range(number)]
        normal = [place for place in range(number) if named[place] not in self.mistakes]
        normal = normal or list(range(number))
        candidates = [p for p, place in enumerate(normal) if named[place] not in self.kept]
        amounts = {way: values[normal] for way, values in self._arrays.items()}
        aside = [normal[p] for p in stand_out(amounts, candidates)] if normal else []
        return [place for place in normal if place not in aside], aside

    @cached_property
    def _arrays(self) -> dict[str, Any]:
        return {way: np.asarray(values) for way, values in self.amounts.items()}

    @cached_property
    def _normal_amounts(self) -> dict[str, Any]:
        return {way: values[self._places[0]] for way, values in self._arrays.items()}

    @property
    def normal(self) -> int:
        """Number of videos that set the limits."""
        return len(self._places[0]) if self.amounts else self.usual.videos

    @property
    def set_aside(self) -> tuple[str, ...]:
        """Names of reference videos that stand out, so that they set no limits."""
        return tuple(self.videos[place] for place in self._places[1] if self.videos)

    @cached_property
    def scales(self) -> dict[str, Scale]:
        """Usual amount of each measure."""
        if not self.amounts:
            return {way: Scale(0.0, prior, 0) for way, prior in MEASURES.items()}
        return learn_scales(self._normal_amounts)

    @cached_property
    def limit(self) -> float:
        """Total that raises an alarm."""
        totals = held_out_totals(self._normal_amounts) if self.amounts else np.zeros(0)
        return find_limit(totals, self.promised)

    @property
    def alarmed(self) -> float:
        """Share of the videos that set the limit that exceed it, each compared with the others."""
        totals = held_out_totals(self._normal_amounts) if self.amounts else np.zeros(0)
        return float(np.mean(totals > self.limit)) if len(totals) else 0.0

    @property
    def promised(self) -> float:
        """False-alarm rate of the limit; see `promised_rate`."""
        return promised_rate(len(self._places[0]), self.false_alarms)

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
        """Whether each altered copy of a normal video raises an alarm, by kind, and its rows."""
        places, found = set(self._places[0]), {}
        limit = self.false_alarms / max(len(self.invariant), 1)
        for kind, copies in self.altered.items():
            rows = [row for row, place in enumerate(copies.of) if place in places]
            beyond = copies.found(self._arrays, self._places[0], self.promised)
            unseen = np.array(copies.least) < limit
            own = np.array(
                [1 - likely >= self.alarm_limit(step) if step >= 0 else False
                 for step, likely in zip(copies.gone, copies.likely, strict=True)],
                dtype=bool,
            )  # fmt: skip
            found[kind] = (beyond | unseen | own)[rows], np.array(copies.gone)[rows], rows
        return found

    @property
    def detects(self) -> dict[str, float]:
        """Detection rate of each kind of fault; of a missing step, that of the critical ones."""
        found = {kind: float(np.mean(hits)) for kind, (hits, *_) in self._hits.items() if len(hits)}
        critical = [share for step, share in self.detects_step.items() if step in self._critical]
        if critical:
            found[KINDS_OF_FAULTS["step"]] = min(critical)
        return found

    @property
    def _critical(self) -> frozenset[int]:
        return self.severity.critical

    @property
    def detects_step(self) -> dict[int, float]:
        """How often each step would be found to be missing."""
        if KINDS_OF_FAULTS["step"] not in self._hits:
            return {}
        hits, gone, _ = self._hits[KINDS_OF_FAULTS["step"]]
        return {
            int(step): float(np.mean(hits[gone == step])) for step in np.unique(gone[gone >= 0])
        }

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """90 % Wilson interval of each rate in `detects`; every reference video counts once."""
        videos = {
            kind: len({self.altered[kind].of[row] for row in rows})
            for kind, (_, _, rows) in self._hits.items()
        }
        return {kind: _wilson(share, videos[kind]) for kind, share in self.detects.items()}

    def conclusive(self, least: float, fault: str = "step") -> bool:
        """Whether a check finds at least this share of a kind of fault."""
        return least <= 0 or self.detects.get(KINDS_OF_FAULTS[fault], -1.0) >= least

    def remedy(self, least: float, names: Collection[str] = (), fault: str = "step") -> str:
        """What would make a check conclusive."""
        shares = sorted((share, step) for step, share in self.detects_step.items())
        hidden = [(share, step) for share, step in shares if share < least]
        if self._critical:
            hidden = [one for one in hidden if one[1] in self._critical]
        words = []
        if fault == "step" and hidden:
            named = ", ".join(f"{name_of(s, list(names))} ({r:.0%})" for r, s in hidden[:3])
            words.append(f"hardest to find: {named}; label three or more videos that show them")
        else:
            words.append("label three or more videos")
        if len(self._places[0]) < self.needed:
            words.append(f"learn from {self.needed} normal videos")
        others = self.detects
        if fault == "step" and others.get(KINDS_OF_FAULTS["half"], 0.0) >= least:
            half = others[KINDS_OF_FAULTS["half"]]
            words.append(f"use --for half if missing halves are enough ({half:.0%} found)")
        return "; or ".join(words)

    @property
    def needed(self) -> int:
        """Least number of videos for the requested false-alarm rate."""
        return math.ceil(1 / self.false_alarms) - 1

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
            f"These videos seem to show two tasks ({counts}): {lists[0]}; and {lists[1]}. "
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
        between = self.ranges
        rates = ", ".join(
            f"{kind} {100 * share:.0f} % "
            f"(90 % interval {100 * between[kind][0]:.0f}–{100 * between[kind][1]:.0f} %)"
            for kind, share in self.detects.items()
        )
        text = f"Expected detection rate with {counted(self.normal)}: {rates}."
        text += f" {self.aside}" if self.aside else ""
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
        many = len(self.set_aside) > 1
        return (
            f"Set aside as unlike the others: {', '.join(self.set_aside)}. Look at "
            f"{'them' if many else 'it'}, then mark {'each' if many else 'it'} with "
            "stepcut teach --mistakes or --normal."
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
        """Read the result of `to_json`, or that of an older version."""
        try:
            if "usual" not in record:
                record = _converted(record)
            graph = ProcedureGraph.from_json(record["graph"])
            record = {"inputs": None, **record}  # early versions of 0.4.0 had none
            saved = msgspec.convert(record, _Saved, dec_hook=_decode, str_keys=True)
            made = cls(graph=graph, **{name: getattr(saved, name) for name in SAVED})
            made._check()
            return made
        except (
            AttributeError,
            KeyError,
            IndexError,
            OverflowError,
            TypeError,
            ValueError,
        ) as error:
            raise ProcedureError(
                f"check.json is damaged or older than version 0.3.0 "
                f"({type(error).__name__}: {error}). Learn the procedure again: stepcut teach."
            ) from error

    def _check(self) -> None:
        """Refuse parts of different sizes."""
        number = len(self.amounts.get("length", ()))
        for amounts, count in [
            (self.amounts, number),
            *((copies.amounts, len(copies.of)) for copies in self.altered.values()),
        ]:
            if amounts and (
                amounts.keys() != MEASURES.keys() or {*map(len, amounts.values())} != {count}
            ):
                raise ValueError("amounts needs one number for each measure and video")
        for copies in self.altered.values():
            columns = (copies.of, copies.least, copies.gone, copies.likely)
            if len({*map(len, columns)}) > 1 or any(place >= number for place in copies.of):
                raise ValueError("altered needs one number for each altered video")
        if self.videos and number and len(self.videos) != number:
            raise ValueError("videos needs one name for each of its amounts")
        usual = self.usual
        if not usual.occurs.keys() == usual.repeats.keys() >= {*usual.paces, *usual.times}:
            raise ValueError("paces has a step that no video shows")
        for one in usual.slices:
            one.check()
        drawn = [one.rows for one in usual.slices] + ([self.task.centres] if self.task else [])
        if len({rows.shape[1] for rows in drawn if len(rows)}) > 1:
            raise ValueError("task and slices have rows of different lengths")


SAVED = tuple(
    one.name
    for one in fields(Expectations)
    if one.name not in ("graph", "severity", "rules", "mistakes", "kept")
)
_hints = get_type_hints(Expectations, include_extras=True)
_Saved = msgspec.defstruct("_Saved", [(name, _hints[name]) for name in SAVED])


def _encode(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if (value == np.round(value)).all():
            return value.astype(np.int64).tolist()
        return (
            [[float(f"{x:.6g}") for x in row] for row in value]
            if value.ndim == 2
            else value.tolist()
        )
    raise NotImplementedError


def _decode(kind: Any, value: Any) -> Any:
    return np.array(value, dtype=np.float64 if "float" in str(kind) else np.int64)


def _wilson(share: float, videos: int) -> tuple[float, float]:
    """90 % interval of a share that was counted in this many videos.

    (p + z^2 / 2n  +-  z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)
    """
    z2 = float(ndtri(0.95)) ** 2 / videos
    middle, half = share + z2 / 2, math.sqrt(z2 * share * (1 - share) + z2**2 / 4)
    return max(0.0, (middle - half) / (1 + z2)), min(1.0, (middle + half) / (1 + z2))


def _converted(record: Mapping[str, Any]) -> dict[str, Any]:
    """The file of version 0.3.0 in today's form: its measures are five of the eight there."""
    graph = ProcedureGraph.from_json(record["graph"])

    def five(amounts: Mapping[str, Any]) -> dict[str, Any]:
        if not amounts:
            return {}
        kept = {way: amounts[way] for way in MEASURES}
        pairs = zip(amounts["missed"], amounts["misordered"], strict=True)
        missed = [missing + swapped for missing, swapped in pairs]
        return kept | {"length": [-one for one in amounts["length"]], "missed": missed}

    copies = {
        kind: {
            "of": [int(place) for place in one["of"]],
            "amounts": five(one),
            "least": [1.0] * len(one["of"]),
            "gone": [-1] * len(one["of"]),
            "likely": [1.0] * len(one["of"]),
        }
        for kind, one in record.get("planted", {}).items()
        if one["of"]
    }
    usual = {
        "videos": graph.videos,
        "occurs": graph.occurs,
        "repeats": graph.times,
        "paces": {step: pace for step, *pace in record["paces"]},
        "length": record["length"],
        "never": {"fewer": 1.0, **record["never"]},
        "times": dict(record["times"]),
        "orders": [(a, b, count) for (a, b), count in sorted(graph.first.items())],
        "new": record["new"],
        "stretch": record["stretch"],
        "slices": [[one["rows"], one["steps"]] for one in record.get("outlines", [])],
        "presence": record.get("presence", msgspec.to_builtins(Presence())),
    }
    return {
        "graph": record["graph"],
        "usual": msgspec.to_builtins(usual, str_keys=True),
        "false_alarms": record["false_alarms"],
        "amounts": five(record.get("amounts", {})),
        "invariant": [s for s, videos in graph.occurs.items() if videos == graph.videos],
        "altered": copies,
        "task": record["task"],
        "videos": record.get("videos", []) if record.get("amounts") else [],
        "groups": record.get("groups", []),
    }
