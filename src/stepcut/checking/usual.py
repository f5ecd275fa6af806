"""Usual: the distributions of steps, orders and durations in the training videos.

Events that never occur in the n training videos get a Good-Turing probability. The events are
missing steps, exchanged pairs and repeated steps. N0 of them never occur, and N1 occur once:

    p = (N1 + 1/2) / (n N0 + N1 + 1)

So all steps share their evidence: with eight complete videos of six steps, a missing step has a
probability of 1 %, not 10 %. An event that occurs m times has the probability (m + 1/2) / (n + 1).
Durations follow a t-distribution of log seconds, with a spread shrunk towards that of all steps.

An exchange of two steps counts only in videos where it was possible, so -ln p is weighted by their
share. Two steps that depend on each other are usually adjacent. Two independent steps that lie far
apart, with dependent steps in between, may keep one order by chance.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Self

import msgspec
import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from stepcut.checking.observe import Observed, some_of
from stepcut.checking.presence import Presence
from stepcut.checking.warping import Slices
from stepcut.order.graph import ProcedureGraph
from stepcut.order.learn import graph_of_occurrences
from stepcut.order.orders import grouped

PRIOR = 2.0
"""Weight of the pooled spread of durations, in videos."""
LENGTH_SPREAD = 0.25
"""Prior spread of the log duration of whole videos."""
MOST = 32
"""Keep the slices of at most this many videos, evenly spaced."""
NARROWEST = 0.2
"""Least spread of log seconds: deviations within a fifth are never unusual."""


LARGEST = 1e6
"""Larger numbers mean a damaged file: amounts are logarithms and shares."""
Amount = Annotated[float, msgspec.Meta(gt=-LARGEST, lt=LARGEST)]
Spread = Annotated[float, msgspec.Meta(ge=0, lt=LARGEST)]
Count = Annotated[int, msgspec.Meta(ge=0, lt=int(LARGEST))]


class Scale(NamedTuple):
    """Mean, spread and number of observations; a new value follows a t-distribution."""

    middle: Amount
    spread: Spread
    videos: Count

    @classmethod
    def of(cls, values: Sequence[float], prior: float) -> Self:
        """Estimate from values; `prior` is the prior spread."""
        squares = float(((np.asarray(values) - np.mean(values)) ** 2).sum()) + PRIOR * prior**2
        return cls(
            float(np.mean(values)), math.sqrt(squares / (len(values) - 1 + PRIOR)), len(values)
        )

    @property
    def freedom(self) -> float:
        """Degrees of freedom."""
        return max(self.videos - 1 + PRIOR, 1.0)

    @property
    def width(self) -> float:
        """Spread of a new value, including the uncertainty of the mean."""
        return self.spread * math.sqrt(1 + 1 / max(self.videos, 1))

    def less(self, seconds: float) -> float:
        """Probability of taking at most this many seconds, if the values are log seconds."""
        z = (math.log(max(seconds, 1e-3)) - self.middle) / self.width
        return min(max(float(stdtr(self.freedom, z)), 1e-12), 1 - 1e-12)

    def normal_score(self, value: Any) -> Any:
        """Normal score of one value or an array: 0 in the middle, above 2 for less than one in
        forty."""
        z = (np.asarray(value) - self.middle) / self.width
        return np.copysign(-ndtri(np.maximum(stdtr(self.freedom, -np.abs(z)), 1e-300)), z)

    def exceeded_by(self, share: float) -> float:
        """Value that this share of new values exceeds."""
        return self.middle + float(stdtrit(self.freedom, 1 - share)) * self.width


@dataclass(frozen=True)
class Usual:
    """What is usual in the training videos."""

    graph: ProcedureGraph
    paces: dict[int, Scale]
    """Log seconds of each step."""
    length: Scale
    """Log seconds of a whole video."""
    never: dict[str, float]
    """Probability of events that never occur: `missed`, `misordered`, `extra` and `fewer`."""
    times: dict[int, float]
    """Usual time of each step: the median of its mean time, from 0 (start) to 1 (end)."""
    new: float
    """The 99 % quantile of smoothed novelty in normal frames; infinity if it is unknown."""
    stretch: Scale
    """Log of one plus the seconds of the longest part beyond `new`."""
    exchangeable: dict[tuple[int, int], float]
    """Share of the videos with both steps in which one could move past the other."""
    slices: tuple[Slices, ...]
    """Slices of the training videos, at most `MOST`."""
    presence: Presence
    """Model of the probability that each step was done."""

    def missing(self, step: int) -> float:
        """Probability that a normal video leaves out a step."""
        return _chance(
            self.graph.videos - self.graph.occurs[step], self.graph.videos, self.never["missed"]
        )

    def fewer(self, step: int, times: int) -> float:
        """Probability that a normal video does a step at most this often."""
        seldom = sum(count <= times for count in self.graph.times[step])
        left_out = self.graph.videos - self.graph.occurs[step]
        return _chance(seldom + left_out, self.graph.videos, self.never.get("fewer", 1.0))

    def swapped(self, before: int, after: int) -> float:
        """Probability that a normal video does `after` before `before`."""
        kept, broken = (
            self.graph.first.get((before, after), 0),
            self.graph.first.get((after, before), 0),
        )
        return _chance(broken, kept + broken, self.never["misordered"])

    def repeated(self, step: int, times: int) -> float:
        """Probability that a normal video does a step at least this often."""
        often = sum(count >= times for count in self.graph.times[step])
        return _chance(often, self.graph.occurs[step], self.never["extra"])


def learn_usual(videos: Sequence[Observed], presence: Presence, order: bool = True) -> Usual:
    """Learn what is usual in these videos; `order=False` skips the edges of the graph."""
    graph = graph_of_occurrences([video.occurrences for video in videos], order=order)
    spent = [pair for video in videos for pair in video.spent.items()]
    first, often = graph.first, {step: graph.usual_times(step) for step in graph.steps}
    again = [step for step, times in often.items() if times > 1]
    pairs = [
        (first.get((a, b), 0), first.get((b, a), 0))
        for a in graph.steps
        for b in graph.steps
        if a < b
    ]
    never = {
        "missed": _good_turing(
            (graph.videos - graph.occurs[step], graph.videos) for step in graph.steps
        ),
        "misordered": _good_turing((min(pair), sum(pair)) for pair in pairs),
        "extra": _good_turing(
            (sum(t > often[s] for t in graph.times[s]), graph.occurs[s]) for s in graph.steps
        ),
        "fewer": _good_turing(
            (sum(t < often[s] for t in graph.times[s]), graph.occurs[s]) for s in again
        ),
    }
    times = [video.mean_times for video in videos]
    novelty = [
        video.novelty for video in videos if video.novelty is not None and len(video.novelty)
    ]
    new = float(np.quantile(np.concatenate(novelty), 0.99)) if novelty else math.inf
    longest = [max((b - a for a, b in new_stretches(video, new)), default=0.0) for video in videos]
    slices = some_of([video.slices for video in videos if video.slices is not None], MOST)
    return Usual(
        graph=graph,
        paces=_paces(grouped((step, math.log(seconds)) for step, seconds in spent)),
        length=_pace(
            [math.log(video.seconds) for video in videos if video.seconds > 0], LENGTH_SPREAD**2
        ),
        never=never,
        times={
            step: float(np.median([one[step] for one in times if step in one]))
            for step in graph.steps
        },
        new=new,
        stretch=_pace([math.log(1 + seconds) for seconds in longest], 1.0),
        exchangeable=_exchangeable([list(video.first) for video in videos], first),
        slices=tuple(slices),
        presence=presence,
    )


def new_stretches(video: Observed, limit: float) -> list[tuple[float, float]]:
    """Parts in which novelty exceeds the limit: (start, end) in seconds."""
    if video.novelty is None:
        return []
    new = np.concatenate(([False], video.novelty > limit, [False]))
    edges = np.flatnonzero(np.diff(new.astype(np.int8))).reshape(-1, 2) / video.rate
    return [(float(a), float(b)) for a, b in edges]


def _paces(logs: Mapping[int, Sequence[float]]) -> dict[int, Scale]:
    """Mean and spread of each step, the spread shrunk towards that of all steps."""
    pooled = float(
        np.mean([float(np.var(own)) for own in logs.values() if len(own) > 1] or [LENGTH_SPREAD**2])
    )
    return {step: _pace(own, pooled) for step, own in logs.items()}


def _pace(logs: Sequence[float], pooled: float) -> Scale:
    """Mean and spread of log seconds, the spread shrunk towards the pooled variance."""
    if not logs:
        return Scale(0.0, math.sqrt(pooled), 0)
    spread = math.sqrt((float(np.var(logs)) * len(logs) + PRIOR * pooled) / (len(logs) + PRIOR))
    return Scale(float(np.mean(logs)), max(spread, NARROWEST), len(logs))


def _exchangeable(
    orders: Sequence[Sequence[int]], first: Mapping[tuple[int, int], int]
) -> dict[tuple[int, int], float]:
    """Share of the videos with both steps in which moving one step would exchange them.

    A step can move in either direction past all steps that it was ever exchanged with, and one
    more.
    """
    could: Counter[tuple[int, int]] = Counter()
    for order in orders:
        near = set()
        for place, step in enumerate(order):
            for other in order[place + 1 :]:
                near.add((step, other))
                if (other, step) not in first:
                    break
            for other in reversed(order[:place]):
                near.add((other, step))
                if (step, other) not in first:
                    break
        could.update(near)
    return {
        (a, b): (could[a, b] + could[b, a]) / (kept + first.get((b, a), 0))
        for (a, b), kept in first.items()
    }


def _good_turing(counts: Iterable[tuple[int, int]]) -> float:
    """Good-Turing probability of unseen events, from (occurrences, opportunities) of each event."""
    events = list(counts)
    once = sum(seen == 1 for seen, _ in events)
    return (once + 0.5) / (sum(of for seen, of in events if seen == 0) + once + 1)


def _chance(seen: int, of: int, never: float) -> float:
    return never if seen == 0 else max(never, (seen + 0.5) / (of + 1))
