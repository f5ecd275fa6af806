"""Evidence: how one video differs from what is usual, as findings whose surprise is in nats (-log of how rare it is).

What was seen in x of n videos counts as a share of (x + 1/4) / (n + 1/2): nothing is impossible, and few videos prove
little. Nothing here decides; `calibrate.py` sets how much surprise of each kind a normal video may hold.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import OptionError
from stepcut.order.graph import ProcedureGraph
from stepcut.order.occurrences import Occurrence, find_occurrences, first_times
from stepcut.order.orders import Labels
from stepcut.order.predict import smoothed

KINDS = ("missed", "misordered", "extra", "unusual", "unknown")
Floats = NDArray[np.floating[Any]]

SMOOTHING = 4.0
"""Seconds over which novelty is averaged before it is compared with its limit."""
LEEWAY = 1.3
"""A video is strange as a whole when half of it is stranger than this many times the middle of any normal video: each
moment of another task may look like the oddest ones of this, background for instance, but not all do."""
NARROWEST = 0.25
"""The least spread of a step's duration, in log seconds: within a quarter, nothing is unusual."""


class Pace(NamedTuple):
    """How long a step usually takes: median and spread (a robust standard deviation) of its log seconds."""

    middle: float
    spread: float
    videos: int


@dataclass(frozen=True)
class Usual:
    """What is usual in some videos: the graph, how long each step takes, how strange a frame may be."""

    graph: ProcedureGraph
    paces: dict[int, Pace]
    length: Pace
    """How long a whole video usually takes."""
    peaks: dict[int, float]
    """How surely a step is seen at its clearest moment, in the middle of the videos that do it."""
    strange: float
    """The limit of smoothed novelty; infinity where novelty is not known."""
    strange_whole: float = math.inf
    """The limit of a video's median novelty."""


@dataclass(frozen=True)
class Sign:
    """One way in which a video differs; `surprise` in nats, for `unknown` in seconds."""

    kind: str
    surprise: float
    start: float
    end: float
    step: int | None = None
    others: tuple[int, ...] = ()
    """The steps that it was swapped with."""
    how: str = ""
    """Misordered: done too early (before its preconditions) or too late (after what it must precede).
    Unusual: short or long."""
    measure: float = 0.0
    """Seconds spent, or times done."""


class Seen(NamedTuple):
    """What the evidence is drawn from: what one video does when, and how surely and how strangely."""

    occurrences: list[Occurrence]
    seconds: float
    rate: float
    novelty: Floats | None = None
    """(T,), smoothed."""
    odd: float = 0.0
    """The median of novelty."""
    peaks: Floats | None = None
    """(K,): the smoothed membership of each step at its clearest moment."""


def look(labels: Labels, rate: float, memberships: Floats | None = None, novelty: Floats | None = None) -> Seen:
    """Gather the evidence of one video from its cut: labels (T,), memberships (T, K), novelty (T,)."""
    for name, rows in {"memberships": memberships, "novelty": novelty}.items():
        if rows is not None and len(rows) != len(labels):
            raise OptionError(f"{name} has {len(rows)} rows for {len(labels)} labels; give one row per label.")
    peaks = None
    if memberships is not None and len(memberships):
        peaks = np.stack([smooth(column, rate).max() for column in np.asarray(memberships).T])
    strange = None if novelty is None else smooth(np.asarray(novelty), rate)
    odd = float(np.median(novelty)) if novelty is not None and len(novelty) else 0.0
    return Seen(find_occurrences(labels, rate), len(labels) / rate, rate, strange, odd, peaks)


def smooth(values: Floats, rate: float) -> Floats:
    """The mean of values (T,) over a few seconds around each frame."""
    if not len(values):
        return values
    width = min(max(1, round(SMOOTHING * rate)), len(values))
    padded = np.pad(values.astype(np.float64), (width // 2, width - 1 - width // 2), mode="edge")
    mean: Floats = np.convolve(padded, np.ones(width) / width, mode="valid")
    return mean


def learn_usual(graph: ProcedureGraph, videos: Sequence[Seen]) -> Usual:
    """Durations and novelty of these videos beside a graph learned from them."""
    spent: dict[int, list[float]] = {}
    for video in videos:
        for step, seconds in time_spent(video.occurrences).items():
            spent.setdefault(step, []).append(math.log(seconds))
    paces = {step: _pace(logs) for step, logs in spent.items()}
    length = _pace([math.log(video.seconds) for video in videos if video.seconds > 0])
    peaks = {
        step: float(np.median(sure))
        for step in paces
        if (sure := [v.peaks[step] for v in videos if v.peaks is not None and step in {d.step for d in v.occurrences}])
    }
    strange = [video.novelty for video in videos if video.novelty is not None]
    limit = float(np.quantile(np.concatenate(strange), 0.99)) if strange else math.inf
    whole = LEEWAY * max(video.odd for video in videos) if strange else math.inf
    return Usual(graph, paces, length, peaks, limit, whole)


def _pace(logs: Sequence[float]) -> Pace:
    """The middle and the spread of some log seconds."""
    middle = float(np.median(logs)) if len(logs) else 0.0
    mad = float(np.median(np.abs(np.asarray(logs) - middle))) if len(logs) else 0.0
    # 1.4826 MAD is the standard deviation of a normal distribution; few videos are drawn towards a factor of two.
    spread = (1.4826 * mad * len(logs) + math.log(2) * 2) / (len(logs) + 2)
    return Pace(middle, max(spread, NARROWEST), len(logs))


def time_spent(video: Sequence[Occurrence]) -> dict[int, float]:
    """Seconds that a video spends on each step it does."""
    spent: dict[int, float] = {}
    for one in video:
        spent[one.step] = spent.get(one.step, 0.0) + one.spent
    return spent


def find_signs(video: Seen, usual: Usual) -> list[Sign]:
    """Every way in which a video differs from what is usual, small and great."""
    first = first_times(video.occurrences)
    return [
        *_missed(video, first, usual),
        *_misordered(first, usual.graph),
        *_extra(video.occurrences, usual.graph),
        *_unusual(video, first, usual),
        *_unknown(video, usual),
    ]


def _missed(video: Seen, first: dict[int, Occurrence], usual: Usual) -> list[Sign]:
    """A step that is not there; it is dated to the moment at which something was done that it should precede.

    A moment that looks like the step, though it was cut otherwise, takes away from the surprise.
    """
    signs, graph = [], usual.graph
    for step in graph.steps:
        if step in first:
            continue
        share = smoothed(1 - graph.occurs[step] / graph.videos, graph.videos)
        later = [first[other].start for other in graph.after(step) if other in first]
        time = min(later, default=video.seconds)
        signs.append(Sign("missed", -math.log(share) * (1 - _likeness(video, step, usual)), time, time, step))
    return signs


def _likeness(video: Seen, step: int, usual: Usual) -> float:
    """How clearly a step shows at its best moment: 1 as clearly as in the videos that do it, 0 half as clearly or less.

    Some step is always the most likely one, so every step has a moment at which it looks likely by half.
    """
    if video.peaks is None or step not in usual.peaks:
        return 0.0
    return min(1.0, max(0.0, 2 * float(video.peaks[step]) / max(usual.peaks[step], 1e-9) - 1))


def _misordered(first: dict[int, Occurrence], graph: ProcedureGraph) -> list[Sign]:
    """The fewest steps that explain every relation that is not kept; a precondition that never came is missed instead.

    One step done far too late stands behind many others: it is named, once, and not all of them. Found greedily: the
    step in the most (and rarest) swaps first; of two alike, the one that was done too early.
    """
    swaps = {
        (a, b): _rarity_of_swap(graph, a, b)
        for b in first
        if b in graph.steps
        for a in graph.before(b)
        if a in first and first[a].start > first[b].start
    }
    signs = []
    while swaps:
        weight: dict[int, float] = {}
        for pair, rare in swaps.items():
            for step in pair:
                weight[step] = weight.get(step, 0.0) + rare
        step = max(weight, key=lambda s: (round(weight[s], 9), -first[s].start))
        early = {a: rare for (a, b), rare in swaps.items() if b == step}
        late = {b: rare for (a, b), rare in swaps.items() if a == step}
        own = early if sum(early.values()) >= sum(late.values()) else late
        kind = "early" if own is early else "late"
        rare = max([*early.values(), *late.values()])
        one = first[step]
        signs.append(Sign("misordered", rare, one.start, one.end, step, _nearest(graph, own, kind), how=kind))
        swaps = {pair: rare for pair, rare in swaps.items() if step not in pair}
    return signs


def _nearest(graph: ProcedureGraph, swapped: dict[int, float], how: str) -> tuple[int, ...]:
    """Of the steps that one was swapped with, those next to it in the graph: the others follow from them."""
    beyond = graph.after if how == "early" else graph.before
    return tuple(step for step in sorted(swapped) if not (beyond(step) & swapped.keys()))


def _rarity_of_swap(graph: ProcedureGraph, before: int, after: int) -> float:
    kept, swapped = graph.first.get((before, after), 0), graph.first.get((after, before), 0)
    together = kept + swapped
    return -math.log(smoothed(swapped / together if together else 0.0, together))


def _extra(video: Sequence[Occurrence], graph: ProcedureGraph) -> list[Sign]:
    """A step done more often than in any of the videos: every time too many is counted."""
    signs = []
    for step, times in Counter(one.step for one in video).items():
        most = max(graph.times.get(step, (1,)))
        if times <= most:
            continue
        again = [one for one in video if one.step == step][most]
        rare = -math.log(smoothed(0.0, graph.occurs.get(step, 0)))
        signs.append(Sign("extra", rare * (times - most), again.start, again.end, step, measure=times))
    return signs


def _unusual(video: Seen, first: dict[int, Occurrence], usual: Usual) -> list[Sign]:
    """How far the seconds of each step, and of the whole, lie from the middle: z^2 / 2 nats, as if logs were normal."""
    signs = []
    for step, seconds in time_spent(video.occurrences).items():
        if step in usual.paces:
            surprise, how = _distance(seconds, usual.paces[step])
            signs.append(Sign("unusual", surprise, first[step].start, first[step].end, step, how=how, measure=seconds))
    if usual.length.videos and video.seconds > 0:
        surprise, how = _distance(video.seconds, usual.length)
        signs.append(Sign("unusual", surprise, 0.0, video.seconds, how=how, measure=video.seconds))
    return signs


def _distance(seconds: float, pace: Pace) -> tuple[float, str]:
    z = (math.log(seconds) - pace.middle) / pace.spread
    return z * z / 2, "short" if z < 0 else "long"


def _unknown(video: Seen, usual: Usual) -> list[Sign]:
    """Stretches stranger than the limits; the surprise of one is its length in seconds."""
    if video.novelty is None:
        return []
    if video.odd > usual.strange_whole:
        return [Sign("unknown", video.seconds, 0.0, video.seconds)]
    strange = np.concatenate(([False], video.novelty > usual.strange, [False]))
    edges = np.flatnonzero(np.diff(strange.astype(np.int8))).reshape(-1, 2) / video.rate
    return [Sign("unknown", float(b - a), float(a), float(b)) for a, b in edges]


def totals(signs: Sequence[Sign]) -> dict[str, float]:
    """How much of each kind a video shows: the sum, and for durations the greatest, so that one is enough."""
    amount = dict.fromkeys(KINDS, 0.0)
    for sign in signs:
        if sign.kind == "unusual":
            amount[sign.kind] = max(amount[sign.kind], sign.surprise)
        else:
            amount[sign.kind] += sign.surprise
    return amount
