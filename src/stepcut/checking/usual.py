"""Usual: how often, how long and when reference videos do each step.

Events that never occur in the n reference videos share a Good-Turing probability. With N0 events
that never occur and N1 that occur once, of all missing (or repeated) steps,

    p = (N1 + 1/2) / (n N0 + N1 + 1)

An event that occurs m times has the probability (m + 1/2) / (n + 1).
Durations follow a t-distribution of log seconds, with a spread shrunk towards that of all steps.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median_low
from typing import Annotated, Any, NamedTuple, Self

import msgspec
import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from stepcut.checking.observe import Observed, some_of
from stepcut.checking.presence import Presence
from stepcut.checking.warping import Slices
from stepcut.order.learn import graph_of_occurrences
from stepcut.order.orders import grouped

PRIOR = 2.0
"""Weight of a prior spread, in videos."""
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
Step = Annotated[int, msgspec.Meta(ge=0, lt=100_000)]


class Scale(NamedTuple):
    """Middle, spread and number of observations; a new value follows a t-distribution."""

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

    @classmethod
    def robust(cls, values: Any, least: float) -> Self:
        """Estimate from median and quartiles, with a spread of at `least` this."""
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
        spread = (high - low) / 1.349  # of a normal distribution
        return cls(float(middle), max(float(spread), least), len(values))

    @property
    def freedom(self) -> float:
        """Degrees of freedom."""
        return max(self.videos - 1 + PRIOR, 1.0)

    @property
    def width(self) -> float:
        """Spread of a new value, including the uncertainty of the middle."""
        return self.spread * math.sqrt(1 + 1 / max(self.videos, 1))

    def less(self, seconds: float) -> float:
        """Probability of taking at most this many seconds, if the values are log seconds."""
        z = (math.log(max(seconds, 1e-3)) - self.middle) / self.width
        return min(max(float(stdtr(self.freedom, z)), 1e-12), 1 - 1e-12)

    def normal_score(self, value: Any) -> Any:
        """Normal score of a value or an array: above 2 for less than one in forty."""
        z = (np.asarray(value) - self.middle) / self.width
        return np.copysign(-ndtri(np.maximum(stdtr(self.freedom, -np.abs(z)), 1e-300)), z)

    def exceeded_by(self, share: float) -> float:
        """Value that this share of new values exceeds."""
        return self.middle + float(stdtrit(self.freedom, 1 - share)) * self.width


@dataclass(frozen=True)
class Usual:
    """What reference videos show, each seen as if it were new."""

    videos: Count
    occurs: dict[Step, Count]
    """Number of videos that show each step."""
    repeats: dict[Step, Annotated[tuple[Count, ...], msgspec.Meta(min_length=1)]]
    """How often the videos that show a step do it."""
    paces: dict[Step, Scale]
    """Log seconds of each step."""
    length: Scale
    """Log seconds of a whole video."""
    never: dict[str, Amount]
    """Probability of events that never occur."""
    times: dict[Step, Amount]
    """Usual time of each step: the median of its mean time, from 0 (start) to 1 (end)."""
    orders: tuple[tuple[Step, Step, Count], ...]
    """(a, b, number of videos in which a was first done before b)."""
    new: Amount | None
    """The 99 % quantile of smoothed novelty in normal frames, if it is known."""
    stretch: Scale
    """Log of one plus the seconds of the longest part beyond `new`."""
    slices: tuple[Slices, ...]
    """Slices of the reference videos, at most `MOST`."""
    presence: Presence
    """Model of the probability that each step was done."""

    @cached_property
    def swaps(self) -> dict[tuple[int, int], float]:
        return swap_chances({(a, b): count for a, b, count in self.orders})

    def usual_times(self, step: int) -> int:
        """How often a video usually does a step."""
        return median_low(self.repeats[step])

    def missing(self, step: int) -> float:
        """Probability that a normal video leaves out a step."""
        return _chance(self.videos - self.occurs[step], self.videos, self.never["missed"])

    def fewer(self, step: int, times: int) -> float:
        """Probability that a normal video does a step at most this often."""
        seldom = sum(count <= times for count in self.repeats[step])
        left_out = self.videos - self.occurs[step]
        return _chance(seldom + left_out, self.videos, self.never["fewer"])

    def repeated(self, step: int, times: int) -> float:
        """Probability that a normal video does a step at least this often."""
        often = sum(count >= times for count in self.repeats[step])
        return _chance(often, self.occurs[step], self.never["extra"])


def learn_usual(videos: Sequence[Observed], presence: Presence) -> Usual:
    """Learn what is usual in these videos."""
    counts = graph_of_occurrences([video.occurrences for video in videos], order=False)
    number, occurs, repeats = counts.videos, dict(counts.occurs), dict(counts.times)
    often = {step: median_low(times) for step, times in repeats.items()}
    never = {
        "missed": good_turing((number - shown, number) for shown in occurs.values()),
        "extra": good_turing(
            (sum(t > often[s] for t in times), occurs[s]) for s, times in repeats.items()
        ),
        "fewer": good_turing(
            (sum(t < often[s] for t in times), occurs[s])
            for s, times in repeats.items()
            if often[s] > 1
        ),
    }
    spent = grouped((step, math.log(s)) for video in videos for step, s in video.spent.items())
    middles = grouped(pair for video in videos for pair in video.mean_times.items())
    novelty = [v.novelty for v in videos if v.novelty is not None and len(v.novelty)]
    new = float(np.quantile(np.concatenate(novelty), 0.99)) if novelty else None
    longest = [max((b - a for a, b in new_stretches(video, new)), default=0.0) for video in videos]
    pooled = [float(np.var(own)) for own in spent.values() if len(own) > 1]
    variance = float(np.mean(pooled)) if pooled else LENGTH_SPREAD**2
    lengths = [math.log(video.seconds) for video in videos if video.seconds > 0]
    return Usual(
        videos=number,
        occurs=occurs,
        repeats=repeats,
        paces={step: _pace(own, variance) for step, own in spent.items()},
        length=_pace(lengths, LENGTH_SPREAD**2),
        never=never,
        times={step: float(np.median(own)) for step, own in middles.items()},
        orders=tuple((a, b, count) for (a, b), count in sorted(counts.first.items())),
        new=new,
        stretch=_pace([math.log(1 + seconds) for seconds in longest], 1.0),
        slices=tuple(some_of([v.slices for v in videos if v.slices is not None], MOST)),
        presence=presence,
    )


def new_stretches(video: Observed, limit: float | None) -> list[tuple[float, float]]:
    """Parts in which novelty exceeds the limit: (start, end) in seconds."""
    if video.novelty is None or limit is None:
        return []
    new = np.concatenate(([False], video.novelty > limit, [False]))
    edges = np.flatnonzero(np.diff(new.astype(np.int8))).reshape(-1, 2) / video.rate
    return [(float(a), float(b)) for a, b in edges]


def good_turing(counts: Iterable[tuple[int, int]]) -> float:
    """Good-Turing probability of unseen events, from (occurrences, opportunities) of each event."""
    events = list(counts)
    once = sum(seen == 1 for seen, _ in events)
    return (once + 0.5) / (sum(of for seen, of in events if seen == 0) + once + 1)


def swap_chances(first: Mapping[tuple[int, int], int]) -> dict[tuple[int, int], float]:
    """Probability that a normal video does b before a, for pairs (a, b) mostly done in this order.

    `first` counts the videos in which a was done before b.
    """
    both = {tuple(sorted(pair)) for pair in first}
    counted = [(first.get((a, b), 0), first.get((b, a), 0)) for a, b in both]
    never = good_turing((min(pair), sum(pair)) for pair in counted)
    swapped = {pair: first.get(pair[::-1], 0) for pair in first}
    return {
        pair: _chance(broken, first[pair] + broken, never)
        for pair, broken in swapped.items()
        if first[pair] > broken
    }


def _pace(logs: Sequence[float], pooled: float) -> Scale:
    """Mean and spread of log seconds, the spread shrunk towards the pooled variance."""
    if not logs:
        return Scale(0.0, math.sqrt(pooled), 0)
    spread = math.sqrt((float(np.var(logs)) * len(logs) + PRIOR * pooled) / (len(logs) + PRIOR))
    return Scale(float(np.mean(logs)), max(spread, NARROWEST), len(logs))


def _chance(seen: int, of: int, never: float) -> float:
    return never if seen == 0 else max(never, (seen + 0.5) / (of + 1))
