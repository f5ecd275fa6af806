"""Evidence: every deviation of one video, with its probability in a normal video."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stepcut.checking.observe import Observed
from stepcut.checking.severity import Severity
from stepcut.checking.usual import Scale, Usual, new_stretches
from stepcut.checking.warping import UNALIGNED, Alignment, align_slices
from stepcut.order.learn import Occurrence

KINDS = ("missed", "misordered", "extra", "unusual", "unknown")
"""The kinds of deviations in a report."""
LEAST = 1e-6
"""Lower bound of all probabilities."""


class Sign(NamedTuple):
    """One deviation, and its probability (`chance`) in a normal video."""

    kind: str
    chance: float
    start: float
    end: float
    step: int | None = None
    others: tuple[int, ...] = ()
    """Steps that it was exchanged with."""
    how: str = ""
    """`fewer` (missed): done, but less often than usual. `early` or `late` (misordered): done
    before a precondition, or too late. `short`, `long` or `apart` (unusual).
    """
    measure: float = 0.0
    """Seconds or repetitions; for a missed step, the probability that it was done."""
    weight: float = 1.0
    """Weight of the sign. Misordered: share of videos in which the steps could have been exchanged.
    """


@dataclass(frozen=True)
class Comparison:
    """One video compared with what is usual, given the severity of each step."""

    video: Observed
    usual: Usual
    severity: Severity = field(default_factory=Severity)

    @cached_property
    def whole(self) -> Observed:
        """The video with time added for the optional steps that it leaves out.

        Each adds its usual duration, times the share of the videos that do it, at its usual time.
        """
        video, usual = self.video, self.usual
        left_out = set(self.severity.optional) & usual.times.keys() - video.by_step.keys()
        for step in sorted(left_out, key=lambda one: usual.times[one]):
            share = usual.graph.occurs[step] / usual.graph.videos
            room = math.exp(usual.paces[step].middle) * share
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
        """Delay of each step as a share of the video, less the time spent on free steps."""
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
        """The video aligned with the training videos."""
        if self.video.slices is None:
            return UNALIGNED
        severity = self.severity
        return align_slices(self.video.slices, self.usual.slices, severity.optional, severity.free)

    @cached_property
    def signs(self) -> list[Sign]:
        """Every deviation from what is usual, small or large."""
        video, usual, severity = self.video, self.usual, self.severity
        ordered = {step: one for step, one in video.first.items() if step not in severity.free}
        return [
            *_missed(video, usual, severity),
            *_misordered(ordered, usual),
            *_fewer(video, usual, severity),
            *_extra(video, usual),
            *_unusual(video, usual, self.whole.seconds),
            *_unknown(video, usual),
        ]

    @cached_property
    def amounts(self) -> dict[str, float]:
        """Amount of deviation per measure, near 0 in a usual video.

        `length`: negative log seconds. `timing`: mean distance of steps from their usual times.
        `missed`: sum over steps of -ln of the probability of as little evidence, or as few
        repetitions. `apart`: log distance from the aligned training videos. The other kinds:
        weighted sum of -ln of the probabilities, beyond what one of K steps shows by chance.
        """
        away = [abs(late) for late in self.late.values()]
        amounts = {
            "length": -math.log(max(self.whole.seconds, 1e-3)),
            "timing": float(np.mean(away)) if away else 0.0,
            "apart": self.alignment.apart,
        }
        for kind in KINDS:
            by_chance = 0.0 if kind == "missed" else math.log(max(len(self.usual.paces), 1))
            nats = [-math.log(one.chance) * one.weight for one in self.signs if one.kind == kind]
            amounts[kind] = sum(max(one - by_chance, 0.0) for one in nats)
        return amounts

    def untimely(self, chance: float) -> list[Sign]:
        """The step farthest from its usual time, if any; `chance` is the probability of this
        distance."""
        if not (late := self.late):
            return []
        step = max(late, key=lambda one: abs(late[one]))
        one = max(self.video.by_step[step], key=lambda part: part.spent)
        how, time = "early" if late[step] < 0 else "late", self.usual.times[step] + late[step]
        return [Sign("misordered", chance, one.start, one.end, step, how=how, measure=time)]

    def apart(self, chance: float) -> list[Sign]:
        """The part in which the video differs most from the others; `chance` is the probability of
        this."""
        along = self.alignment.along
        if not along.any():
            return []
        most, less = int(along.argmax()), np.flatnonzero(along <= along.mean())
        slices = max(less[less < most], default=-1) + 1, min(less[less > most], default=len(along))
        start, end = (place * self.video.seconds / len(along) for place in slices)
        return [Sign("unusual", chance, float(start), float(end), how="apart")]


def _missed(video: Observed, usual: Usual, severity: Severity) -> list[Sign]:
    """Every step with chance = 1 - P(usually done) P(not done).

    A step outside the segmentation was due before the first step that it must precede, and after
    the last of its preconditions before that.
    """
    signs, graph, first = [], usual.graph, video.first
    done = usual.presence.probabilities(video.evidence)
    for step in graph.steps:
        if step in severity.optional:
            continue
        likely = float(done[step]) if step < len(done) else float(step in first)
        chance = 1 - (1 - usual.missing(step)) * (1 - likely)
        if step in first:
            start, end = first[step].start, first[step].end
        else:
            later = [first[other].start for other in graph.after(step) if other in first]
            end = min(later, default=video.seconds)
            before = graph.before(step)
            earlier = [o.end for o in video.occurrences if o.step in before and o.end <= end]
            start = max(earlier, default=0.0)
        signs.append(Sign("missed", max(chance, LEAST), start, end, step, measure=likely))
    return signs


def _fewer(video: Observed, usual: Usual, severity: Severity) -> list[Sign]:
    """Steps done less often than usual; the sign spans all occurrences."""
    signs = []
    for step, done in video.by_step.items():
        times = len(done)
        if (
            step in usual.paces
            and step not in severity.optional
            and times < usual.graph.usual_times(step)
        ):
            chance = usual.fewer(step, times)
            signs.append(
                Sign(
                    "missed", chance, done[0].start, done[-1].end, step, how="fewer", measure=times
                )
            )
    return signs


def _misordered(first: dict[int, Occurrence], usual: Usual) -> list[Sign]:
    """The fewest steps that explain every pair in an unusual order.

    A greedy search takes the step in the most and rarest exchanges first; of two equal steps, the
    one done too early. So one late step is reported once, and not every step that it follows.
    """
    counts = usual.graph.first
    swaps = {
        (a, b): -math.log(usual.swapped(a, b))
        for a in first
        for b in first
        if counts.get((a, b), 0) > counts.get((b, a), 0) and first[a].start > first[b].start
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
        # Only its direct neighbours in the graph: the others follow from them.
        beyond = usual.graph.after if how == "early" else usual.graph.before
        others = tuple(other for other in sorted(rarest) if not (beyond(other) & rarest.keys()))
        pairs = [pair for pair, nats in swaps.items() if step in pair and nats > most - 1e-9]
        possible = max(usual.exchangeable.get(pair, 1.0) for pair in pairs)
        start, end = first[step].start, first[step].end
        signs.append(
            Sign("misordered", math.exp(-most), start, end, step, others, how, weight=possible)
        )
        swaps = {pair: nats for pair, nats in swaps.items() if step not in pair}
    return signs


def _extra(video: Observed, usual: Usual) -> list[Sign]:
    """Steps done more often than in most videos, at the first surplus repetition."""
    signs = []
    for step, done in video.by_step.items():
        times = len(done)
        if times > 1 and step in usual.paces:
            again = done[max(count for count in [1, *usual.graph.times[step]] if count < times)]
            chance = usual.repeated(step, times)
            signs.append(Sign("extra", chance, again.start, again.end, step, measure=times))
    return signs


def _unusual(video: Observed, usual: Usual, whole: float) -> list[Sign]:
    """Deviation of the duration of each step, and of the `whole` video."""
    signs = []
    for step, seconds in video.spent.items():
        if step in usual.paces:
            first = video.first[step]
            signs.append(_rarer(usual.paces[step], seconds, first.start, first.end, step))
    if usual.length.videos and video.seconds > 0:
        signs.append(
            _rarer(usual.length, whole, 0.0, video.seconds)._replace(measure=video.seconds)
        )
    return signs


def _rarer(pace: Scale, seconds: float, start: float, end: float, step: int | None = None) -> Sign:
    """Whether a duration is short or long, and the two-sided probability."""
    less = pace.less(seconds)
    how = "short" if less < 0.5 else "long"
    return Sign("unusual", 2 * min(less, 1 - less), start, end, step, how=how, measure=seconds)


def _unknown(video: Observed, usual: Usual) -> list[Sign]:
    """Parts whose novelty exceeds that of 99 % of normal frames, by their duration."""
    return [
        Sign("unknown", 1 - usual.stretch.less(1 + b - a), a, b)
        for a, b in new_stretches(video, usual.new)
    ]
