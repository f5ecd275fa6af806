"""What videos show: steps, novelty and looks, and how often, how long and when they usually do.

The evidence for step k in a video with step probabilities p_tk at `rate` rows per second is

    e_k = ln(1 + sum over t of (p_tk - q_t)^2 / rate)

where q_t is the probability of the least likely step, which background shares with all steps.
The look is the mean embedding of N equal slices, as unit vectors. Two videos a and b are aligned
by dynamic time warping (Sakoe and Chiba 1978),

    D(i, j) = 1 - cos(a_i, b_j) + min( D(i-1, j-1), D(i-1, j), D(i, j-1) )

at distance D(N, N) over the pairs on the best path. The distance from several videos is the mean
over the nearer half of them: a task may be done in several ways.

Events that never occur in the n reference videos share a Good-Turing probability. With N0 events
that never occur and N1 that occur once, of all missing (or repeated) steps,

    p = (N1 + 1/2) / (n N0 + N1 + 1)

An event that occurs m times has the probability (m + 1/2) / (n + 1).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median_low
from typing import Annotated, Any, NamedTuple, Self, TypeVar

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, ndtri, stdtr, stdtrit

from stepcut.methods.arithmetic import unit
from stepcut.order.learn import Occurrence, find_occurrences, first_times, graph_of_occurrences
from stepcut.order.orders import Labels, grouped
from stepcut.parallel import compiled_later
from stepcut.timeline import runs

Floats = NDArray[np.floating[Any]]
T = TypeVar("T")

SLICES = 50  # of ten minutes, one lasts twelve seconds
FINE = 1000  # rows of slices are rounded to thousandths, in memory as in files
SMOOTHING = 4.0  # seconds over which novelty is averaged
PRIOR = 2.0  # weight of a prior mean or spread, in videos
LENGTH_SPREAD = 0.25  # prior spread of the log duration of whole videos
NARROWEST = 0.2  # deviations of durations within a fifth are never unusual
EVIDENCE_SPREAD = 0.5  # prior spread of the evidence of a step
STIFF = 3.0  # inverse prior variance of slope and bias around 1 and 0
MOST = 32  # slices of at most so many videos are kept
# Numbers beyond these mean that a file is damaged.
Amount = Annotated[float, Meta(gt=-1e6, lt=1e6)]
Count = Annotated[int, Meta(ge=0, lt=1_000_000)]
Step = Annotated[int, Meta(ge=0, lt=100_000)]
Number = Annotated[float, Meta(gt=-1e3, lt=1e3)]


class Slices(NamedTuple):
    rows: Floats  # unit vectors in thousandths, (N, p)
    steps: NDArray[np.int64]  # in the middle of each slice, (N,); -1 for none


class Alignment(NamedTuple):
    apart: float = 0.0  # log distance from other videos; 0 if there are none
    along: Floats = np.zeros(1)  # distance of each slice, (N,)


@dataclass(frozen=True)
class Observed:
    occurrences: list[Occurrence]
    seconds: float
    rate: float
    labels: NDArray[np.int64]  # (T,)
    novelty: Floats | None  # smoothed, (T,)
    evidence: Floats  # (K,)
    embedding: Floats | None  # (T, p)
    slices: Slices | None

    @cached_property
    def by_step(self) -> dict[int, list[Occurrence]]:
        return grouped((one.step, one) for one in self.occurrences)

    @cached_property
    def first(self) -> dict[int, Occurrence]:
        return first_times(self.occurrences)

    @cached_property
    def spent(self) -> dict[int, float]:
        return {step: sum(one.spent for one in done) for step, done in self.by_step.items()}

    @cached_property
    def mean_times(self) -> dict[int, float]:
        """The mean time of each step, from 0 (start of the video) to 1 (end)."""
        return {
            step: sum(one.spent * (one.start + one.end) / 2 for one in done)
            / (self.spent[step] * self.seconds)
            for step, done in self.by_step.items()
        }


def observe(
    labels: Labels,  # (T,)
    rate: float,
    probabilities: Floats | None = None,  # (T, K)
    novelty: Floats | None = None,  # (T,)
    embedding: Floats | None = None,  # (T, p)
) -> Observed:
    numbers = np.asarray(labels, dtype=np.int64)
    sure = None
    if probabilities is not None and len(probabilities):
        sure = np.asarray(probabilities)[np.arange(len(numbers)), np.maximum(numbers, 0)]
    if embedding is not None:
        embedding = np.asarray(embedding, dtype=np.float64) if len(embedding) else None
    return Observed(
        find_occurrences(numbers, rate, sure),
        len(numbers) / rate,
        rate,
        numbers,
        None if novelty is None else smooth(np.asarray(novelty), rate),
        evidence_of(numbers, rate, probabilities),
        embedding,
        None if embedding is None else slice_video(embedding, numbers),
    )


def evidence_of(labels: Labels, rate: float, probabilities: Floats | None) -> Floats:
    """(K,); without probabilities (T, K), the labels (T,) are certain."""
    if probabilities is None or not len(probabilities):
        numbers = np.asarray(labels)
        return np.asarray(np.log1p(np.bincount(numbers[numbers >= 0]) / rate))
    rows = np.asarray(probabilities, dtype=np.float64)
    excess = rows - rows.min(axis=1, keepdims=True) if rows.shape[1] > 1 else rows
    return np.asarray(np.log1p((excess**2).sum(axis=0) / rate))


def smooth(values: Floats, rate: float) -> Floats:
    """Moving average of values (T,) over `SMOOTHING` seconds."""
    if not len(values):
        return values
    width = min(max(1, round(SMOOTHING * rate)), len(values))
    padded = np.pad(values.astype(np.float64), (width // 2, width - 1 - width // 2), mode="edge")
    return np.asarray(np.convolve(padded, np.ones(width) / width, mode="valid"))


def stretches(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First row of each run of true values, and the row after it."""
    return [(a, b) for true, a, b in runs(mask.astype(np.int64)).tolist() if true]


def some_of(items: Sequence[T], most: int) -> list[T]:
    places = np.linspace(0, len(items) - 1, min(most, len(items))).round().astype(int)
    return [items[place] for place in places]


def slice_video(embedding: Floats, labels: Labels) -> Slices:
    bounds = np.arange(SLICES + 1) * len(embedding) // SLICES
    starts, ends = bounds[:-1], np.maximum(bounds[1:], bounds[:-1] + 1)  # short videos share rows
    sums = np.zeros((len(embedding) + 1, embedding.shape[1]))
    np.cumsum(embedding, axis=0, dtype=np.float64, out=sums[1:])
    rows = (unit(sums[ends] - sums[starts]) * FINE).round()
    return Slices(rows, np.asarray(labels, dtype=np.int64)[(starts + ends) // 2])


def align_slices(
    video: Slices,
    others: Sequence[Slices],
    optional: Collection[int] = (),
    free: Collection[int] = (),
) -> Alignment:
    # Slices of free steps are ignored, and those of optional steps that the video leaves out.
    used = ~np.isin(video.steps, list(free))
    ignored = [*free, *(set(optional) - set(video.steps.tolist()))]
    kept = [other.rows[~np.isin(other.steps, ignored)] for other in others]
    kept = [rows for rows in kept if len(rows) and used.any()]
    if not kept:
        return Alignment()
    pairs = [_align(1 - video.rows[used] @ rows.T / FINE**2) for rows in kept]
    nearer = sorted(pairs, key=lambda one: one[0])[: (len(pairs) + 1) // 2]
    along = np.zeros(len(video.rows))
    along[used] = np.mean([rows for _, rows in nearer], axis=0)
    return Alignment(math.log(max(float(np.mean([one for one, _ in nearer])), 1e-6)), along)


@compiled_later
def _align(cost: Floats) -> tuple[float, Floats]:
    """Mean cost on the best path through costs (n, m), and the mean cost in each row (n,)."""
    n, m = cost.shape
    total = np.full((n + 1, m + 1), np.inf)
    total[0, 0] = 0.0
    for i in range(n):
        for j in range(m):
            total[i + 1, j + 1] = cost[i, j] + min(total[i, j], total[i, j + 1], total[i + 1, j])
    rows, pairs = np.zeros(n), np.zeros(n)
    i, j = n, m
    while i > 0:
        rows[i - 1] += cost[i - 1, j - 1]
        pairs[i - 1] += 1
        across, back = total[i - 1, j - 1], min(total[i - 1, j], total[i, j - 1])
        if across <= back:
            i, j = i - 1, j - 1
        elif total[i - 1, j] <= back:
            i -= 1
        else:
            j -= 1
    return rows.sum() / pairs.sum(), rows / pairs


# ---------- reference videos


class Scale(NamedTuple):
    """Middle and spread of observations; a new value follows a t-distribution."""

    middle: Amount
    spread: Annotated[float, Meta(ge=0, lt=1e6)]
    videos: Count

    @classmethod
    def of(cls, values: Any, prior: Any) -> Self:
        """Estimate from values (n,) or (m, n), with a `prior` spread."""
        values, table = np.asarray(values), np.ndim(values) > 1
        middle, number = values.mean(axis=-1, keepdims=table), values.shape[-1]
        squares = ((values - middle) ** 2).sum(axis=-1, keepdims=table) + PRIOR * prior**2
        return cls(middle, np.sqrt(squares / (number - 1 + PRIOR)), number)

    @classmethod
    def robust(cls, values: Any, least: Any) -> Self:
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=-1, keepdims=True)
        spread = (high - low) / 1.349  # of a normal distribution
        return cls(middle, np.maximum(spread, least), np.shape(values)[-1])

    @classmethod
    def of_logs(cls, logs: Sequence[float], pooled: float) -> Self:
        """Estimate from log seconds, with a spread shrunk towards the `pooled` variance."""
        if not logs:
            return cls(0.0, math.sqrt(pooled), 0)
        variance = (float(np.var(logs)) * len(logs) + PRIOR * pooled) / (len(logs) + PRIOR)
        return cls(float(np.mean(logs)), max(math.sqrt(variance), NARROWEST), len(logs))

    @property
    def freedom(self) -> float:
        return max(self.videos - 1 + PRIOR, 1.0)

    @property
    def width(self) -> float:
        # Of a new value, including the uncertainty of the middle.
        return self.spread * math.sqrt(1 + 1 / max(self.videos, 1))

    def less(self, seconds: float) -> float:
        """Probability of taking at most so long, if the values are log seconds."""
        z = (math.log(max(seconds, 1e-3)) - self.middle) / self.width
        return min(max(float(stdtr(self.freedom, z)), 1e-12), 1 - 1e-12)

    def normal_score(self, value: Any) -> Any:
        """Above 2 for less than one in forty."""
        z = (np.asarray(value) - self.middle) / self.width
        return np.copysign(-ndtri(np.maximum(stdtr(self.freedom, -np.abs(z)), 1e-300)), z)

    def exceeded_by(self, share: float) -> float:
        return float(self.middle + stdtrit(self.freedom, 1 - share) * self.width)


@dataclass(frozen=True)
class Presence:
    """The calibrated probability that a video shows each step, from its evidence e_k.

    Each training video is held out in turn, as it is and without the rows of step k. a_k and b_k
    are the mean evidence with and without them, shrunk towards the means of all steps, s the
    spread.

        l_k = (a_k - b_k) (e_k - (a_k + b_k) / 2) / s^2,    p = 1 / (1 + exp(-slope l_k - bias))

    Slope and bias are fitted to the same videos, each scored with the means of the others (Platt
    1999), at prior odds of 1.
    """

    done: tuple[Number, ...] = ()  # a_k; the mean of all steps if no video shows step k
    absent: tuple[Number, ...] = ()  # b_k
    spread: Annotated[float, Meta(gt=0, lt=1e3)] = EVIDENCE_SPREAD
    slope: Number = 1.0
    bias: Number = 0.0

    def probabilities(self, evidence: Floats) -> Floats:
        seen = np.zeros(len(self.done))
        seen[: len(evidence)] = evidence[: len(seen)]
        odds = _log_odds(seen, np.array(self.done), np.array(self.absent), self.spread)
        return _logistic(self.slope * odds + self.bias)


def learn_presence(done: Floats, absent: Floats) -> Presence:
    """Learn from the evidence (N, K) with and without the rows of a step; NaN if not shown."""
    shown = ~np.isnan(done)
    if not shown.any():
        return Presence()
    usual, lacking = (_means(values, shown) for values in (done, absent))
    left = np.concatenate([(done - usual)[shown], (absent - lacking)[shown]])
    squares = (left**2).sum() + PRIOR * EVIDENCE_SPREAD**2
    spread = float(np.sqrt(squares / (len(left) + PRIOR)))
    there, gone = (_means(values, shown, without=True) for values in (done, absent))
    odds = np.concatenate([_log_odds(seen, there, gone, spread)[shown] for seen in (done, absent)])
    slope, bias = _fit_logistic(odds, np.repeat([1.0, -1.0], shown.sum()))
    return Presence(tuple(usual.tolist()), tuple(lacking.tolist()), spread, slope, bias)


def _means(values: Floats, shown: NDArray[np.bool_], without: bool = False) -> Floats:
    """Shrunken mean of each step, (K,), or of each without each video in turn, (N, K)."""
    filled = np.where(shown, values, 0.0)
    total, count = filled.sum(axis=0), shown.sum(axis=0)
    if without:
        total, count = total - filled, count - shown
    return np.asarray((total + PRIOR * values[shown].mean()) / (count + PRIOR))


def _log_odds(evidence: Floats, done: Floats, absent: Floats, spread: float) -> Floats:
    # A step that is done never has less evidence than one that is not.
    gap = np.maximum(done - absent, 0.0)
    return np.asarray(gap * (evidence - (done + absent) / 2) / spread**2)


def _fit_logistic(odds: Floats, sign: Floats) -> tuple[float, float]:
    """Slope and bias, shrunk towards 1 and 0; `sign` is 1 or -1."""
    start = np.array([1.0, 0.0])

    def loss(weights: Floats) -> tuple[float, Floats]:
        margin, away = sign * (weights[0] * odds + weights[1]), weights - start
        slope = -sign * _logistic(-margin)
        value = np.logaddexp(0.0, -margin).sum() + STIFF / 2 * (away**2).sum()
        return float(value), np.array([(slope * odds).sum(), slope.sum()]) + STIFF * away

    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0.0, None), (None, None)])
    return float(found.x[0]), float(found.x[1])


def _logistic(odds: Floats) -> Floats:
    return np.asarray(expit(np.clip(odds, -30, 30)))


@dataclass(frozen=True)
class Usual:
    videos: Count
    occurs: dict[Step, Count]  # videos that show each step
    # How often these videos do it.
    repeats: dict[Step, Annotated[tuple[Count, ...], Meta(min_length=1)]]
    paces: dict[Step, Scale]  # log seconds of each step
    length: Scale  # log seconds of a whole video
    never: dict[str, Amount]  # probability of events that never occur
    times: dict[Step, Amount]  # median of the mean time of each step, from 0 (start) to 1 (end)
    orders: tuple[tuple[Step, Step, Count], ...]  # (a, b, videos in which a was first before b)
    new: Amount | None  # 99 % quantile of smoothed novelty in normal frames, if it is known
    stretch: Scale  # log of one plus the seconds of the longest part beyond `new`
    slices: tuple[Slices, ...]
    presence: Presence

    @cached_property
    def swaps(self) -> dict[tuple[int, int], float]:
        return swap_chances({(a, b): count for a, b, count in self.orders})

    def usual_times(self, step: int) -> int:
        return median_low(self.repeats[step])

    # The probability that a normal video leaves out a step, or does it at most or at least so often.

    def missing(self, step: int) -> float:
        return _chance(self.videos - self.occurs[step], self.videos, self.never["missed"])

    def fewer(self, step: int, times: int) -> float:
        seldom = sum(count <= times for count in self.repeats[step])
        left_out = self.videos - self.occurs[step]
        return _chance(seldom + left_out, self.videos, self.never["fewer"])

    def repeated(self, step: int, times: int) -> float:
        often = sum(count >= times for count in self.repeats[step])
        return _chance(often, self.occurs[step], self.never["extra"])


def learn_usual(videos: Sequence[Observed], presence: Presence) -> Usual:
    counts = graph_of_occurrences([video.occurrences for video in videos], order=False)
    number, occurs, repeats = counts.videos, dict(counts.occurs), dict(counts.times)
    often = {step: median_low(times) for step, times in repeats.items()}
    more = [(sum(t > often[s] for t in times), occurs[s]) for s, times in repeats.items()]
    fewer = [
        (sum(t < often[s] for t in times), occurs[s])
        for s, times in repeats.items()
        if often[s] > 1
    ]
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
        paces={step: Scale.of_logs(own, variance) for step, own in spent.items()},
        length=Scale.of_logs(lengths, LENGTH_SPREAD**2),
        never={
            "missed": good_turing([(number - shown, number) for shown in occurs.values()]),
            "extra": good_turing(more),
            "fewer": good_turing(fewer),
        },
        times={step: float(np.median(own)) for step, own in middles.items()},
        orders=tuple((a, b, count) for (a, b), count in sorted(counts.first.items())),
        new=new,
        stretch=Scale.of_logs([math.log(1 + seconds) for seconds in longest], 1.0),
        slices=tuple(some_of([v.slices for v in videos if v.slices is not None], MOST)),
        presence=presence,
    )


def new_stretches(video: Observed, limit: float | None) -> list[tuple[float, float]]:
    """Parts in which novelty exceeds the limit: (start, end) in seconds."""
    if video.novelty is None or limit is None:
        return []
    return [(a / video.rate, b / video.rate) for a, b in stretches(video.novelty > limit)]


def good_turing(events: Sequence[tuple[int, int]]) -> float:
    # (occurrences, opportunities) of each event
    once = sum(seen == 1 for seen, _ in events)
    return (once + 0.5) / (sum(of for seen, of in events if seen == 0) + once + 1)


def swap_chances(first: Mapping[tuple[int, int], int]) -> dict[tuple[int, int], float]:
    """Probability that a normal video does b before a, for pairs mostly done in this order.

    `first` counts the videos in which a was done before b.
    """
    counted = {(min(p), max(p)): sorted((first.get(p, 0), first.get(p[::-1], 0))) for p in first}
    never = good_turing([(fewer, fewer + more) for fewer, more in counted.values()])
    return {
        pair: _chance(broken, kept + broken, never)
        for pair, kept in first.items()
        if kept > (broken := first.get(pair[::-1], 0))
    }


def _chance(seen: int, of: int, never: float) -> float:
    return never if seen == 0 else max(never, (seen + 0.5) / (of + 1))
