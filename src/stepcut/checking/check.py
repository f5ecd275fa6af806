"""Check one video: five amounts enter the alarm, and each deviation (`Sign`) is a reason."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from stepcut.checking.expectations import Expectations
from stepcut.checking.gate import Camera
from stepcut.checking.report import FAULTS, MIN_DETECTION, SEEN, Finding, Report, StepSeen, word_for
from stepcut.checking.rules import Severity, broken_rules
from stepcut.checking.usual import (
    Alignment,
    Floats,
    Observed,
    Scale,
    Usual,
    align_slices,
    new_stretches,
    observe,
    swap_chances,
)
from stepcut.errors import choose
from stepcut.order.graph import ProcedureGraph
from stepcut.order.learn import Occurrence
from stepcut.order.orders import Labels, counted, name_of
from stepcut.settings import check_number
from stepcut.timeline import BACKGROUND

NOTABLE = 0.05  # in a video that raises an alarm, deviations less likely than this are reported


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
    """Place the sign where the step was done, or due: before the first that it must precede."""
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


def check_labels(
    labels: Labels,  # (T,)
    rate: float,
    expectations: Expectations,
    probabilities: Floats | None = None,  # (T, K); without them the labels count as certain
    novelty: Floats | None = None,  # (T,); without it, unknown parts are not reported
    names: Sequence[str] = (),
    video: str = "",
    embedding: Floats | None = None,  # (T, p); without it, another task is not detected
    seconds: float | None = None,  # the duration, if it is known more precisely than by the rows
    alarm_at: float | None = None,
    min_detection: float | None = None,
    must_find: str = "step",
    camera: Camera | None = None,
) -> Report:
    if alarm_at is not None:
        check_number("alarm_at", alarm_at, 0, 1, above=True)
    choose("must_find", must_find, FAULTS)
    least = MIN_DETECTION if min_detection is None else min_detection
    check_number("min_detection", least, 0, 1)
    blind, unchecked = ([], "") if camera is None else (camera.findings, camera.unchecked)
    if camera is not None:
        labels = np.where(camera.blind, BACKGROUND, labels)
    shown = observe(labels, rate, probabilities, novelty, embedding)
    compared = Comparison(shown, expectations.usual, expectations.severity)
    parts, score = expectations.judge(compared.amounts)
    length = shown.seconds if seconds is None else seconds
    steps = _steps(compared, expectations, names, length, alarm_at)
    alarming = [one for one in steps if 1 - one.probability >= one.alarm_at]
    # A video that shows all usual steps shows this task.
    lacks = any(one.share_of_videos > 0.5 and one.probability < SEEN for one in steps)
    distance = expectations.task.distance(shown) if expectations.task else 0.0
    distance = distance if lacks else min(distance, 1.0)
    findings = broken_rules(expectations.rules, shown.occurrences, names, length)
    if score > 1 or alarming or distance > 1:
        for sign in _reasons(compared, expectations, parts, alarming):
            name = "" if sign.step is None else name_of(sign.step, names)
            start, end = min(sign.start, length), min(sign.end, length)
            if sign.kind == "unusual" and sign.step is None:
                sign = sign._replace(measure=length)
            reason = explain(sign, expectations, names, shown)
            findings.append(
                Finding(sign.kind, start, end, sign.step, name, 1 - sign.chance, reason)
            )
    return Report(
        video=video,
        seconds=length,
        findings=findings + blind,
        score=score,
        steps=steps,
        task_distance=distance,
        false_alarms=expectations.false_alarms,
        promised=expectations.promised,
        alarms=tuple(one.name for one in alarming),
        detection=expectations.detects,
        invariant=tuple(one.name for one in steps if one.step in expectations.invariant),
        must_find=must_find,
        min_detection=least,
        remedy=expectations.remedy(least, names, must_find),
        note=" ".join(filter(None, (expectations.few, expectations.aside, unchecked))),
    )


def _steps(
    compared: Comparison,
    expectations: Expectations,
    names: Sequence[str],
    length: float,
    alarm_at: float | None,
) -> list[StepSeen]:
    graph, found = expectations.graph, []
    for step in sorted({*graph.steps, *range(len(names)), *expectations.severity.critical}):
        parts = compared.video.by_step.get(step, [])
        times = tuple((min(one.start, length), min(one.end, length)) for one in parts)
        probability = compared.likely.get(step, float(bool(times)))
        share = graph.occurs.get(step, 0) / graph.videos
        limit = expectations.alarm_limit(step, alarm_at)
        found.append(StepSeen(step, name_of(step, names), probability, times, share, limit))
    return sorted(found, key=lambda one: one.probability)


def _reasons(
    compared: Comparison,
    expectations: Expectations,
    parts: Mapping[str, float],
    alarming: Sequence[StepSeen],
) -> list[Sign]:
    """The rarest first."""
    shown, along = compared.video, compared.alignment.along
    alarmed = {step.step for step in alarming}
    signs = compared.signs(expectations.graph)
    # Optional steps and steps that no reference video shows have no sign yet.
    signs += [
        Sign("missed", 1.0, 0.0, shown.seconds, one.step, measure=one.probability)
        for one in alarming
        if one.step not in {sign.step for sign in signs if sign.kind == "missed"}
    ]
    exchanged = any(sign.kind == "misordered" and sign.chance < NOTABLE for sign in signs)
    if not exchanged and parts["timing"] == max(parts.values()):
        signs += compared.untimely(float(ndtr(-parts["timing"])))

    def is_loud(sign: Sign) -> bool:
        if sign.kind != "missed" or sign.how:
            return sign.chance < NOTABLE
        unseen = word_for(sign.measure) == "not seen" and sign.chance < 0.5
        return unseen or sign.step in alarmed

    def rank(sign: Sign) -> tuple[bool, float, float, float]:
        """Alarming steps first, then the rarest; of equals, where the video differs most."""
        alarms = sign.kind == "missed" and not sign.how and sign.step in alarmed
        again = -sign.measure if sign.kind == "extra" else 0.0
        times = (sign.start, sign.end)
        first, last = (int(time / max(shown.seconds, 1e-9) * len(along)) for time in times)
        first = min(first, len(along) - 1)
        apart = float(along[first : max(last, first) + 1].mean())
        return (not alarms, round(sign.chance, 6), again, -apart)

    ranked = sorted(signs, key=rank)
    loud = [sign for sign in ranked if is_loud(sign)]
    # If no reason has a position, add the part in which the video differs most.
    if not any(sign.step is not None or sign.kind == "unknown" for sign in loud):
        loud += [s for s in compared.apart(float(ndtr(-parts["apart"]))) if s.chance < NOTABLE]
    return loud or ranked[:1]


def explain(
    sign: Sign, expectations: Expectations, names: Sequence[str], shown: Observed | None = None
) -> str:
    usual, graph, step = expectations.usual, expectations.graph, sign.step
    if sign.kind == "unknown":
        return f"{sign.end - sign.start:.0f} s match no known step"
    if sign.how == "apart":
        return "the video differs most from the reference videos here"
    name = "the video" if step is None else name_of(step, names)
    if sign.kind == "unusual":
        pace = usual.length if step is None else usual.paces[step]
        number = len(shown.by_step.get(step, ())) if shown and step is not None else 1
        split = f" in {number} parts" if number > 1 else ""
        took, middle = _seconds(sign.measure), _seconds(math.exp(pace.middle))
        return f"{name} took {took}{split}, unusually {sign.how}; {middle} is usual"
    assert step is not None
    if sign.kind == "missed" and not sign.how:
        critical = ", and is critical" if step in expectations.severity.critical else ""
        share = f"{graph.occurs.get(step, 0)} of {counted(graph.videos)} do it"
        likely = f"{word_for(sign.measure)} (probability {100 * sign.measure:.0f} %)"
        before = f", before {name_of(sign.others[0], names)}" if sign.others else ""
        return f"{name} was {likely}{critical}; {share}{before}"
    if sign.kind in ("extra", "missed"):
        often = "once" if sign.measure == 1 else f"{sign.measure:.0f} times"
        counts, extra = usual.repeats[step], sign.kind == "extra"
        many = sum(n < sign.measure if extra else n > sign.measure for n in counts)
        how = "less" if extra else "more"
        return f"{name} was done {often}; {many} of {counted(len(counts))} do it {how} often"
    if not sign.others:
        usually = f"{usual.times[step]:.0%} is usual"
        return f"{name} was done {sign.how}, at {sign.measure:.0%} of the video; {usually}"
    others, late = " and ".join(name_of(other, names) for other in sign.others), sign.how == "late"
    pairs = [(step, other) if late else (other, step) for other in sign.others]
    # The least supported relation.
    kept, swapped = min((graph.first.get(p, 0), graph.first.get(p[::-1], 0)) for p in pairs)
    keep = "keeps" if kept == 1 else "keep"
    when = "only after" if late else "before"
    must = "which it must precede" if late else "which must precede it"
    support = f"({kept} of {counted(kept + swapped)} {keep} to this)"
    return f"{name} was done {when} {others}, {must} {support}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
