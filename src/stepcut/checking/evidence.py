"""The deviations of one video: five amounts that enter the alarm, and `Sign`s, its reasons."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stepcut.checking.observed import Alignment, Observed, align_slices
from stepcut.checking.rules import Severity
from stepcut.checking.usual import Scale, Usual, new_stretches, swap_chances
from stepcut.order.graph import ProcedureGraph
from stepcut.order.learn import Occurrence


class Sign(NamedTuple):
    """One deviation, and its probability (`chance`) in a normal video."""

    kind: str
    chance: float
    start: float
    end: float
    step: int | None = None
    others: tuple[int, ...] = ()  # exchanged with it, or before which a missed step was due
    how: str = ""  # missed: fewer; misordered: early, late; unusual: short, long, apart
    measure: float = 0.0  # seconds or repetitions; of a missed step, whether it was done


@dataclass(frozen=True)
class Comparison:
    video: Observed
    usual: Usual
    severity: Severity = field(default_factory=Severity)

    @cached_property
    def likely(self) -> dict[int, float]:
        shares = self.usual.presence.probabilities(self.video.evidence)
        return {
            step: float(shares[step]) if step < len(shares) else float(step in self.video.by_step)
            for step in self.usual.occurs
        }

    @cached_property
    def whole(self) -> Observed:
        # With the usual time of each optional step left out, times the share of videos that do it
        video, usual = self.video, self.usual
        left_out = set(self.severity.optional) & usual.times.keys() - video.by_step.keys()
        for step in sorted(left_out, key=lambda one: usual.times[one]):
            room = math.exp(usual.paces[step].middle) * usual.occurs[step] / usual.videos
            seconds = video.seconds + room
            place = usual.times[step] * seconds - room / 2
            moved = [
                one._replace(start=one.start + room, end=one.end + room)
                if (one.start + one.end) / 2 > place
                else one
                for one in video.occurrences
            ]
            video = replace(video, occurrences=moved, seconds=seconds)
        return video

    @cached_property
    def late(self) -> dict[int, float]:
        # As a share of the video, less the time spent on free steps
        free, usually = self.severity.free, self.usual.times
        moved = sum(self.video.spent.get(step, 0.0) for step in free)
        moved /= max(self.whole.seconds, 1e-9)
        late = {
            step: time - usually[step]
            for step, time in self.whole.mean_times.items()
            if step in usually and step not in free
        }
        return {step: math.copysign(max(abs(by) - moved, 0.0), by) for step, by in late.items()}

    @cached_property
    def alignment(self) -> Alignment:
        if self.video.slices is None:
            return Alignment()
        severity = self.severity
        return align_slices(self.video.slices, self.usual.slices, severity.optional, severity.free)

    @cached_property
    def amounts(self) -> dict[str, float]:
        """`missed` and `unknown` sum -ln of the probability of so little evidence, so few
        repetitions, such an exchange or unknown part; of the last two, what exceeds the rarest of K by chance.
        """
        by_chance = math.log(max(len(self.usual.paces), 1))

        def beyond(signs: list[Sign]) -> float:
            return sum(max(-math.log(sign.chance) - by_chance, 0.0) for sign in signs)

        away = [abs(late) for late in self.late.values()]
        missing = sum(-math.log(sign.chance) for sign in (*self._missed(), *self._fewer()))
        swapped = misordered(self.video.first, self.usual.swaps, self.severity)
        return {
            "length": math.log(max(self.whole.seconds, 1e-3)),
            "missed": missing + beyond(swapped),
            "timing": float(np.mean(away)) if away else 0.0,
            "apart": self.alignment.apart,
            "unknown": beyond(self._unknown()),
        }

    def signs(self, graph: ProcedureGraph) -> list[Sign]:
        video, usual = self.video, self.usual
        signs = [_due(sign, video, graph) for sign in self._missed()]
        signs += misordered(video.first, swap_chances(graph.first), self.severity, graph)
        signs += self._fewer()
        signs += [
            repeated(step, done, usual)
            for step, done in video.by_step.items()
            if len(done) > 1 and step in usual.occurs
        ]
        signs += [
            duration(usual.paces[step], seconds, video.first[step], step)
            for step, seconds in video.spent.items()
            if step in usual.paces
        ]
        if usual.length.videos and video.seconds > 0:
            all_of_it = Occurrence(-1, 0.0, video.seconds, video.seconds)
            length = duration(usual.length, self.whole.seconds, all_of_it)
            signs.append(length._replace(measure=video.seconds))
        return signs + self._unknown()

    def untimely(self, chance: float) -> list[Sign]:
        """The step farthest from its usual time, which has this probability."""
        if not (late := self.late):
            return []
        step = max(late, key=lambda one: abs(late[one]))
        one = max(self.video.by_step[step], key=lambda part: part.spent)
        how, time = "early" if late[step] < 0 else "late", self.usual.times[step] + late[step]
        return [Sign("misordered", chance, one.start, one.end, step, how=how, measure=time)]

    def apart(self, chance: float) -> list[Sign]:
        """The part that differs most from the other videos, which has this probability."""
        along = self.alignment.along
        if not along.any():
            return []
        most, less = int(along.argmax()), np.flatnonzero(along <= along.mean())
        first = max(less[less < most], default=-1) + 1
        last = min(less[less > most], default=len(along))
        start, end = (float(at * self.video.seconds / len(along)) for at in (first, last))
        return [Sign("unusual", chance, start, end, how="apart")]

    def _missed(self) -> list[Sign]:
        return [
            missed(step, self.likely[step], self.video.seconds, self.usual)
            for step in self.usual.occurs
            if step not in self.severity.optional
        ]

    def _fewer(self) -> list[Sign]:
        usual, signs = self.usual, []
        for step, done in self.video.by_step.items():
            required = step in usual.occurs and step not in self.severity.optional
            if required and (times := len(done)) < usual.usual_times(step):
                chance, start, end = usual.fewer(step, times), done[0].start, done[-1].end
                signs.append(Sign("missed", chance, start, end, step, how="fewer", measure=times))
        return signs

    def _unknown(self) -> list[Sign]:
        return [
            Sign("unknown", 1 - self.usual.stretch.less(1 + b - a), a, b)
            for a, b in new_stretches(self.video, self.usual.new)
        ]


def missed(step: int, likely: float, seconds: float, usual: Usual) -> Sign:
    # 1 - P(usually done) P(not done)
    chance = 1 - (1 - usual.missing(step)) * (1 - likely)
    return Sign("missed", max(chance, 1e-6), 0.0, seconds, step, measure=likely)


def repeated(step: int, done: list[Occurrence], usual: Usual) -> Sign:
    times = len(done)
    again = done[max(count for count in (1, *usual.repeats[step]) if count < times)]
    chance = usual.repeated(step, times)
    return Sign("extra", chance, again.start, again.end, step, measure=times)


def duration(pace: Scale, seconds: float, part: Occurrence, step: int | None = None) -> Sign:
    less = pace.less(seconds)
    how, chance = "short" if less < 0.5 else "long", 2 * min(less, 1 - less)
    return Sign("unusual", chance, part.start, part.end, step, how=how, measure=seconds)


def _due(sign: Sign, video: Observed, graph: ProcedureGraph) -> Sign:
    """Where it was done, or due: after its preconditions, before the first step it must precede."""
    step, first = sign.step, video.first
    if step in first:
        return sign._replace(start=first[step].start, end=first[step].end)
    if step not in graph.steps:
        return sign
    later = {first[other].start: other for other in graph.after(step) if other in first}
    end = min(later, default=video.seconds)
    before = graph.before(step)
    earlier = [one.end for one in video.occurrences if one.step in before and one.end <= end]
    others = (later[end],) if later else ()
    return sign._replace(start=max(earlier, default=0.0), end=end, others=others)


def misordered(
    first: Mapping[int, Occurrence],
    chances: Mapping[tuple[int, int], float],
    severity: Severity,
    graph: ProcedureGraph | None = None,
) -> list[Sign]:
    """The fewest steps that explain every pair in an unusual order, greedily.

    Most and rarest exchanges first; of equals, the step done too early. `chances` as of
    `swap_chances`; with the `graph`, only direct neighbours are named.
    """
    swaps = {
        (a, b): -math.log(chance)
        for (a, b), chance in chances.items()
        if {a, b} <= first.keys() and not {a, b} & severity.free and first[a].start > first[b].start
    }
    signs = []
    while swaps:
        weight: dict[int, float] = {}
        for pair, nats in swaps.items():
            for step in pair:
                weight[step] = weight.get(step, 0.0) + nats
        step = max(weight, key=lambda s: (round(weight[s], 9), -first[s].start))
        early = {a: nats for (a, b), nats in swaps.items() if b == step}
        late = {b: nats for (a, b), nats in swaps.items() if a == step}
        own, how = (early, "early") if sum(early.values()) >= sum(late.values()) else (late, "late")
        most = max([*early.values(), *late.values()])
        rarest = {other: nats for other, nats in own.items() if nats > most - 1e-9} or own
        others = tuple(sorted(rarest))
        if graph is not None:  # the others follow from its direct neighbours
            beyond = graph.after if how == "early" else graph.before
            others = tuple(other for other in others if not beyond(other) & rarest.keys())
        start, end = first[step].start, first[step].end
        signs.append(Sign("misordered", math.exp(-most), start, end, step, others, how))
        swaps = {pair: nats for pair, nats in swaps.items() if step not in pair}
    return signs
