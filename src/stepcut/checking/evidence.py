"""Evidence: every way in which one video differs from what is usual, each with the chance of it in
a normal video."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stepcut.checking.observe import Observed
from stepcut.checking.severity import Severity
from stepcut.checking.usual import Scale, Usual, new_stretches
from stepcut.checking.warping import ALONE, Beside, lay_beside
from stepcut.order.learn import Occurrence

KINDS = ("missed", "misordered", "extra", "unusual", "unknown")
"""What a report tells apart."""
LEAST = 1e-6
"""No chance counts as less than this."""


class Sign(NamedTuple):
    """One way in which a video differs, and its chance in a normal video."""

    kind: str
    chance: float
    start: float
    end: float
    step: int | None = None
    others: tuple[int, ...] = ()
    """The steps that it was exchanged with."""
    how: str = ""
    """Missed: fewer where it is done, but less often than is usual. Misordered: done too early
    (before what must precede it) or too late. Unusual: short, long or apart."""
    measure: float = 0.0
    """Seconds spent, or times done; of a step that is missed, the probability that it was done."""
    weight: float = 1.0
    """By how much it counts. Misordered: in what share of videos the steps could have been
    exchanged."""


@dataclass(frozen=True)
class Comparison:
    """One video beside what is usual, by the severity of its steps."""

    video: Observed
    usual: Usual
    severity: Severity = field(default_factory=Severity)

    @cached_property
    def whole(self) -> Observed:
        """The video with room, at the usual times, for the optional steps that it leaves out.

        As many seconds as a step takes, times the share of the videos that do it, are what leaving
        it out takes away.
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
        """How much later than usual each step comes, as a share of the video; free steps move
        others by their length."""
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
    def beside(self) -> Beside:
        """The video laid beside those learned from."""
        if self.video.slices is None:
            return ALONE
        severity = self.severity
        return lay_beside(self.video.slices, self.usual.slices, severity.optional, severity.free)

    @cached_property
    def signs(self) -> list[Sign]:
        """Every way in which the video differs from what is usual, small and great."""
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
        """How far the video differs in each way, 0 or so in a usual one.

        `length`: by how much its log seconds are less; `timing`: how far its steps are from their
        usual times, in the mean; `missed`: the sum over steps of -ln of the chance of as little
        evidence in a normal video, and of being done fewer times; the other kinds: the sum of -ln
        of the chances, by their weight, beyond what one step of all shows by chance; `apart`: ln of
        how far it is apart from the others when it is laid beside them.
        """
        away = [abs(late) for late in self.late.values()]
        amounts = {
            "length": -math.log(max(self.whole.seconds, 1e-3)),
            "timing": float(np.mean(away)) if away else 0.0,
            "apart": self.beside.apart,
        }
        for kind in KINDS:
            by_chance = 0.0 if kind == "missed" else math.log(max(len(self.usual.paces), 1))
            nats = [-math.log(one.chance) * one.weight for one in self.signs if one.kind == kind]
            amounts[kind] = sum(max(one - by_chance, 0.0) for one in nats)
        return amounts

    def untimely(self, chance: float) -> list[Sign]:
        """The step that is farthest from its usual time, if any; `chance`: of steps as far away as
        these."""
        if not (late := self.late):
            return []
        step = max(late, key=lambda one: abs(late[one]))
        one = max(self.video.by_step[step], key=lambda part: part.spent)
        how, time = "early" if late[step] < 0 else "late", self.usual.times[step] + late[step]
        return [Sign("misordered", chance, one.start, one.end, step, how=how, measure=time)]

    def apart(self, chance: float) -> list[Sign]:
        """The stretch in which the video is least like the others; `chance`: of a video as far
        apart as this."""
        along = self.beside.along
        if not along.any():
            return []
        most, less = int(along.argmax()), np.flatnonzero(along <= along.mean())
        slices = max(less[less < most], default=-1) + 1, min(less[less > most], default=len(along))
        start, end = (place * self.video.seconds / len(along) for place in slices)
        return [Sign("unusual", chance, float(start), float(end), how="apart")]


def _missed(video: Observed, usual: Usual, wishes: Severity) -> list[Sign]:
    """Every step by how likely it is missing, though normal videos do it: chance = 1 - P(usually
    done) P(not done).

    A step that is not in the segmentation was due before the first step that it must precede, and
    after the last one before that which must precede it.
    """
    signs, graph, first = [], usual.graph, video.first
    done = usual.presence.probabilities(video.evidence)
    for step in graph.steps:
        if step in wishes.optional:
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


def _fewer(video: Observed, usual: Usual, wishes: Severity) -> list[Sign]:
    """A step that is done, but less often than is usual; which of its times is missing is not
    known."""
    signs = []
    for step, done in video.by_step.items():
        times = len(done)
        if (
            step in usual.paces
            and step not in wishes.optional
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
    """The fewest steps that explain every pair that is the other way round than in most videos.

    One step done far too late stands behind many others: it is named, once, and not all of them.
    Found greedily: the step in the most (and rarest) exchanges first; of two alike, the one that
    was done too early.
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
        # Those next to it in the graph: the others follow from them.
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
    """A step done more often than most videos do it; dated to the first time too many."""
    signs = []
    for step, done in video.by_step.items():
        times = len(done)
        if times > 1 and step in usual.paces:
            again = done[max(count for count in [1, *usual.graph.times[step]] if count < times)]
            chance = usual.repeated(step, times)
            signs.append(Sign("extra", chance, again.start, again.end, step, measure=times))
    return signs


def _unusual(video: Observed, usual: Usual, whole: float) -> list[Sign]:
    """How far the seconds of each step, and of the `whole`, lie from what is usual."""
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
    """The side, short or long, on which a duration lies; the chance is that of lying as far out on
    either side."""
    less = pace.less(seconds)
    how = "short" if less < 0.5 else "long"
    return Sign("unusual", 2 * min(less, 1 - less), start, end, step, how=how, measure=seconds)


def _unknown(video: Observed, usual: Usual) -> list[Sign]:
    """Stretches newer than the newest hundredth of normal frames, by how long they last."""
    return [
        Sign("unknown", 1 - usual.stretch.less(1 + b - a), a, b)
        for a, b in new_stretches(video, usual.new)
    ]
