"""Usual: what the videos learned from do, how long, when and how surely, and how rare anything else
is.

Events that were never seen in the n videos learned from are given the chance of Good and Turing: of
all steps that nobody left out, all pairs that nobody exchanged, all steps that nobody repeated, N0
were never and N1 once seen so, and

    p = (N1 + 1/2) / (n N0 + N1 + 1)

so that steps vouch for each other: with eight videos of six steps and nothing left out, a missing
step has a chance of 1 %, not of 10 %. What happened m times has the chance (m + 1/2) / (n + 1).
Durations follow a t-distribution of log seconds whose spread is shrunk towards the spread of all
steps together.

That nobody exchanged two steps says something only in videos where they could have been exchanged,
so -ln p counts by the share of these. Two steps of which one needs the other mostly lie side by
side; two that are free, but mostly lie far apart with steps in between that bind them, may come in
one order by luck, and the other is then no great surprise.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from stepcut.checking.observe import Observed, some_of
from stepcut.checking.presence import Presence
from stepcut.checking.warping import Slices
from stepcut.order.graph import ProcedureGraph
from stepcut.order.learn import graph_of_occurrences
from stepcut.order.orders import grouped

PRIOR = 2.0
"""How many videos the pooled spread of durations counts for."""
LENGTH_SPREAD = 0.25
"""The spread of log seconds of whole videos that is believed before any is seen: a quarter longer
or shorter."""
MOST = 32
"""Of more videos than this, the slices of as many are kept, from the first to the last: more add
nothing."""
NARROWEST = 0.2
"""The least spread of log seconds: within a fifth, nothing is unusual."""


class Scale(NamedTuple):
    """What is usual of some number: its mean and spread in how many videos; a new one follows a
    t-distribution."""

    middle: float
    spread: float
    videos: int

    @classmethod
    def of(cls, values: Sequence[float], believed: float) -> Self:
        """From some values, the spread drawn towards what is believed before any is seen."""
        squares = float(((np.asarray(values) - np.mean(values)) ** 2).sum()) + PRIOR * believed**2
        return cls(
            float(np.mean(values)), math.sqrt(squares / (len(values) - 1 + PRIOR)), len(values)
        )

    @property
    def freedom(self) -> float:
        """Degrees of freedom."""
        return max(self.videos - 1 + PRIOR, 1.0)

    @property
    def width(self) -> float:
        """The spread of a new value, of which the mean is not known exactly either."""
        return self.spread * math.sqrt(1 + 1 / max(self.videos, 1))

    def less(self, seconds: float) -> float:
        """The chance of taking no longer than this, where the values are log seconds."""
        z = (math.log(max(seconds, 1e-3)) - self.middle) / self.width
        return min(max(float(stdtr(self.freedom, z)), 1e-12), 1 - 1e-12)

    def normal_score(self, value: Any) -> Any:
        """Where a value, or each of some, lies among usual ones: 0 in the middle, 2 is rarer than
        one in forty."""
        z = (np.asarray(value) - self.middle) / self.width
        return np.copysign(-ndtri(np.maximum(stdtr(self.freedom, -np.abs(z)), 1e-300)), z)

    def exceeded_by(self, share: float) -> float:
        """The value that a share of new ones exceed."""
        return self.middle + float(stdtrit(self.freedom, 1 - share)) * self.width


@dataclass(frozen=True)
class Usual:
    """What is usual in some videos."""

    graph: ProcedureGraph
    paces: dict[int, Scale]
    """How long each step takes."""
    length: Scale
    """How long a whole video takes."""
    never: dict[str, float]
    """The chance of what was never seen: that a step is `missed`, a pair is `misordered`, a step is
    `extra`, or done `fewer` times than usual."""
    times: dict[int, float]
    """When each step usually comes: the median of its mean time, from 0 at the beginning to 1 at
    the end."""
    new: float
    """The limit of smoothed novelty, which a hundredth of normal frames exceed; infinity where it
    is not known."""
    stretch: Scale
    """How long the longest stretch beyond that limit lasts, and a second."""
    exchangeable: dict[tuple[int, int], float]
    """In what share of the videos that do both steps one could have been moved past the other; 1
    where not known."""
    slices: tuple[Slices, ...]
    """What the videos look like from beginning to end; of very many, some."""
    presence: Presence
    """How likely each step was done, by how long it shows clearly."""

    def missing(self, step: int) -> float:
        """The chance that a normal video leaves a step out."""
        return _chance(
            self.graph.videos - self.graph.occurs[step], self.graph.videos, self.never["missed"]
        )

    def fewer(self, step: int, times: int) -> float:
        """The chance that a normal video does a step as seldom as this or leaves it out."""
        seldom = sum(count <= times for count in self.graph.times[step])
        left_out = self.graph.videos - self.graph.occurs[step]
        return _chance(seldom + left_out, self.graph.videos, self.never.get("fewer", 1.0))

    def swapped(self, before: int, after: int) -> float:
        """The chance that a normal video does `after` before `before`."""
        kept, broken = (
            self.graph.first.get((before, after), 0),
            self.graph.first.get((after, before), 0),
        )
        return _chance(broken, kept + broken, self.never["misordered"])

    def repeated(self, step: int, times: int) -> float:
        """The chance that a normal video does a step as often as this or more often."""
        often = sum(count >= times for count in self.graph.times[step])
        return _chance(often, self.graph.occurs[step], self.never["extra"])


def learn_usual(videos: Sequence[Observed], presence: Presence, order: bool = True) -> Usual:
    """What is usual in these videos; without `order` the graph has no edges, which `measure` does
    not need."""
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
    """Where novelty is beyond the limit: (start, end) in seconds."""
    if video.novelty is None:
        return []
    new = np.concatenate(([False], video.novelty > limit, [False]))
    edges = np.flatnonzero(np.diff(new.astype(np.int8))).reshape(-1, 2) / video.rate
    return [(float(a), float(b)) for a, b in edges]


def _paces(logs: Mapping[int, Sequence[float]]) -> dict[int, Scale]:
    """Mean and spread for each step, the spread drawn towards that of all steps together."""
    pooled = float(
        np.mean([float(np.var(own)) for own in logs.values() if len(own) > 1] or [LENGTH_SPREAD**2])
    )
    return {step: _pace(own, pooled) for step, own in logs.items()}


def _pace(logs: Sequence[float], pooled: float) -> Scale:
    """Mean and spread of some log seconds, the spread drawn towards the pooled variance."""
    if not logs:
        return Scale(0.0, math.sqrt(pooled), 0)
    spread = math.sqrt((float(np.var(logs)) * len(logs) + PRIOR * pooled) / (len(logs) + PRIOR))
    return Scale(float(np.mean(logs)), max(spread, NARROWEST), len(logs))


def _exchangeable(
    orders: Sequence[Sequence[int]], first: Mapping[tuple[int, int], int]
) -> dict[tuple[int, int], float]:
    """In what share of the videos that do both of two steps moving one of them alone would exchange
    the two.

    A step can be moved, either way, past all that it was once exchanged with, and past the next one
    too.
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
    """The chance of what was never seen, from how often each of some events was seen, of how many
    chances."""
    known = list(counts)
    once = sum(seen == 1 for seen, _ in known)
    return (once + 0.5) / (sum(of for seen, of in known if seen == 0) + once + 1)


def _chance(seen: int, of: int, never: float) -> float:
    return never if seen == 0 else max(never, (seen + 0.5) / (of + 1))
