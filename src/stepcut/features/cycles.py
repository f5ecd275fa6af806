"""Find the repetitions of a task in one long recording: a cyclic chain, fitted to its features.

A cycle is a chain of `PLACES` positions, each with a mean row. A row stays at its position or goes
to the next, so a cycle may pause, and takes at least half a period. Rows may also lie between
cycles, at a fixed cost. The best path of all rows and the means are computed in turn (hard EM).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import OptionError
from stepcut.features.features import Features
from stepcut.timeline import clock

Array = NDArray[np.float64]
Span = tuple[float, float]

CYCLE = "cycle"
"""The step of a table of cycles."""
PLACES = 20  # positions of a cycle; a start is needed within a tenth of it
ROUNDS = 5  # of path and means; more change nothing
DIMENSIONS = 32
BEGINNINGS = 4  # windows that the first means are taken from; the best one counts
SHUFFLES = 6  # recordings without order that a repetition is compared with
FEWEST = 3  # cycles that make another repetition, after a changeover


class Cycle(NamedTuple):
    start: float
    end: float
    confidence: float | None
    """Share of its rows that are nearer to the typical cycle than to chance; None if marked."""


class Found(NamedTuple):
    cycles: list[Cycle]
    period: float
    notes: list[str]
    """What a person must know: where the start is a choice, or another task repeats."""


def find_cycles(features: Features, like: Sequence[Span] = (), name: str = "") -> Found:
    """Find the cycles, or those that are `like` marked ones; raise if nothing repeats."""
    rate, name = float(features.rate), name or features.name
    marks = sorted((float(start), float(end)) for start, end in like)
    for start, end in marks:
        if not 0 <= start < end <= features.end + 1 / rate or (end - start) * rate < 2:
            raise OptionError(
                f"--like {start:g}-{end:g}: {name} lasts {features.end:.1f} s. Give the start and "
                "the end of one cycle, in seconds, at least two rows apart.",
                setting="like",
                value=(start, end),
            )
    check_apart(marks, f"{name}: --like")
    rows = _prepare(features.rows)
    scaled = [(start * rate, end * rate) for start, end in marks]
    period = float(np.mean([end - start for start, end in scaled])) if marks else 0.0
    lines = _Chain(rows, period, scaled) if marks else _chain(rows)
    spans = [Cycle(first / rate, end / rate, sure) for first, end, sure in lines.cycles()]
    kept = [one for one in spans if all(one.end <= a or one.start >= b for a, b in marks)]
    cycles = sorted([*kept, *(Cycle(start, end, None) for start, end in marks)])
    if len(cycles) < 2 or not lines.repeats:
        seen = "one cycle" if len(cycles) == 1 or marks else "no repetition"
        raise OptionError(
            f"{name}: {seen} in {clock(features.end)}; nothing else is like it. Mark one or two "
            "cycles, in seconds: stepcut cycles FILE --like START-END. A recording of a single "
            "cycle needs no cycles: learn it together with other recordings.",
            setting="like",
        )
    notes = []
    if not marks and not lines.waits:
        notes.append(
            "no pause between cycles shows where one starts, so the first is taken to start with "
            "the recording. Mark one with --like START-END if that is wrong."
        )
    if other := _changeover(rows, cycles, rate):
        notes.append(other)
    return Found(cycles, float(np.median([one.end - one.start for one in cycles])), notes)


def check_apart(spans: Sequence[Span], where: str, end: float = math.inf) -> None:
    """Refuse spans that overlap or lie outside a recording of `end` seconds."""
    ordered = sorted(spans)
    for place, (start, stop) in enumerate(ordered):
        if start < 0 or stop > end + 1e-3 or start >= stop:
            what = f"{where}: the cycle {start:g} to {stop:g} s lies outside the recording, which "
            what += f"has {end:g} s" if stop > start else "is empty: its end must come after"
            raise OptionError(f"{what}. Correct its times.", setting="cycles", value=start)
        if place and start < ordered[place - 1][1] - 1e-3:
            before = ordered[place - 1]
            raise OptionError(
                f"{where}: the cycles {before[0]:g} to {before[1]:g} s and {start:g} to {stop:g} s "
                "overlap. Correct one of their times.",
                setting="cycles",
                value=start,
            )


def _prepare(rows: NDArray[np.generic]) -> Array:
    """Standardise the columns and keep their first principal components."""
    flat = np.asarray(rows, np.float64).reshape(len(rows), -1)
    flat = flat - flat.mean(axis=0)
    spread = flat.std(axis=0)
    flat = flat[:, spread > 1e-6 * spread.max()] / spread[spread > 1e-6 * spread.max()]
    if flat.shape[1] > DIMENSIONS:
        flat = flat @ np.linalg.eigh(flat.T @ flat)[1][:, -DIMENSIONS:]
    scaled: Array = flat / max(float(np.sqrt((flat**2).sum(axis=1).mean())), 1e-9)
    return scaled


def _chain(rows: Array) -> "_Chain":
    """The chain of the period that explains most beyond chance, of periods half an octave apart."""
    shortest, longest = 2.0 * PLACES, max(2.0 * PLACES, len(rows) / 2)
    octaves = math.log2(longest / shortest)
    periods = np.geomspace(shortest, longest, 1 + math.ceil(2 * octaves))
    best = max((_Chain(rows, period, ()) for period in periods), key=lambda each: each.gain)
    # The same content in another order does not repeat: quarters of a period, shuffled.
    quarters = np.array_split(rows, max(2, round(4 * len(rows) / best.period)))
    rng, chance = np.random.default_rng(0), list[float]()
    for _ in range(SHUFFLES if best.gain > 0 else 0):
        mixed = np.concatenate([quarters[at] for at in rng.permutation(len(quarters))])
        chance.append(max(_Chain(mixed, best.period, ()).gain, -1.0))
    # Three deviations, since the best of some thirty fits is compared.
    best.repeats = bool(chance and best.gain > np.mean(chance) + 3 * np.std(chance))
    return best


class _Chain:
    """The fitted chain of one recording: rows in bins of a fortieth of a period."""

    def __init__(self, rows: Array, period: float, marks: Sequence[Span]) -> None:
        edges = np.arange(0, len(rows), max(1.0, period / (2 * PLACES)))
        self.edges = np.unique(np.append(np.round(edges), len(rows)).astype(int))
        self.marks, self.period = marks, period
        self.rows = np.add.reduceat(rows, self.edges[:-1]) / np.diff(self.edges)[:, None]
        self.waits = False
        self.idle: Array | None = None
        if marks:
            means = np.mean([self._window(rows, start, end) for start, end in marks], axis=0)
        else:
            firsts = np.linspace(0, max(0.0, len(rows) - period), BEGINNINGS)
            begun = [self._settle(self._window(rows, at, at + period)) for at in firsts]
            means = min(begun, key=lambda each: self._cost(each))
            means = self._begin(means)
        self._fit(means)

    def _window(self, rows: Array, start: float, end: float) -> Array:
        places = np.linspace(start, end, PLACES + 1)
        firsts = np.clip(np.floor(places[:-1]).astype(int), 0, len(rows) - 1)
        lasts = np.clip(np.ceil(places[1:]).astype(int), firsts + 1, len(rows))
        return np.array([rows[a:b].mean(axis=0) for a, b in zip(firsts, lasts, strict=True)])

    def _settle(self, means: Array) -> Array:
        for _ in range(ROUNDS):
            means = self._means(best_path(self._distances(means)), means)
        return means

    def _means(self, path: NDArray[np.int64], means: Array) -> Array:
        there = [path == place for place in range(len(means))]
        return np.array(
            [
                self.rows[one].mean(axis=0) if one.any() else means[at]
                for at, one in enumerate(there)
            ]
        )

    def _distances(self, means: Array) -> Array:
        squares = (self.rows**2).sum(axis=1)[:, None] + (means**2).sum(axis=1)
        distances: Array = np.maximum(squares - 2 * self.rows @ means.T, 0)
        return distances

    def _cost(self, means: Array) -> float:
        distances = self._distances(means)
        return float(distances[np.arange(len(distances)), best_path(distances)].mean())

    def _begin(self, means: Array) -> Array:
        """Turn the chain so that it starts after the wait between cycles, and drop the wait."""
        path = best_path(self._distances(means))
        changes = np.flatnonzero(np.diff(path)) + 1
        stays = np.diff(np.concatenate([[0], changes, [len(path)]]))
        places = path[np.concatenate([[0], changes])]
        varies = [
            float(np.var(stays[places == place])) if place in places else 0.0
            for place in range(PLACES)
        ]
        wait = int(np.argmax(varies))
        # A position with most of the variance of cycle times is a wait, not work.
        self.waits = bool(varies[wait] > sum(varies) / 2)
        first = wait + 1 if self.waits else int(path[0])
        turned: Array = np.roll(means, -first, axis=0)
        if self.waits:
            self.idle, turned = turned[-1], turned[:-1]
        return turned

    def _fit(self, means: Array) -> None:
        right, chance = self._cost(means), self._cost(means[::-1])
        for _ in range(ROUNDS):
            self.between = (right + chance) / 2
            distances = self._distances(means)
            rest = np.full(len(distances), self.between)
            if self.idle is not None:
                rest = np.minimum(rest, ((self.rows - self.idle) ** 2).sum(axis=1))
            self.path = best_path(distances, rest)
            self.costs = np.where(self.path < len(means), 0.0, np.nan)
            inside = self.path < len(means)
            self.costs[inside] = distances[np.flatnonzero(inside), self.path[inside]]
            if not inside.any():
                break
            right, chance = float(self.costs[inside].mean()), self._cost(means[::-1])
            means = self._means(self.path, means)
        self.length, self.means = len(means), means
        count = len(self._spans())
        # A mean is nearer to its own rows: n of n - 1, as in leaving one out.
        fair = right * (count / (count - 1)) ** 2 if count > 1 else math.inf
        self.gain = chance - fair
        self.repeats = bool(self.marks) or self.gain > 0

    def _spans(self) -> list[tuple[int, int]]:
        """First and last bin of each cycle that is complete."""
        path, last = self.path, self.length - 1
        firsts = [at for at in range(len(path)) if path[at] == 0 and (at == 0 or path[at - 1] != 0)]
        ends = [*firsts[1:], len(path)][: len(firsts)]
        return [
            (first, first + int(np.flatnonzero(path[first:end] == last)[-1]) + 1)
            for first, end in zip(firsts, ends, strict=True)
            if last in path[first:end]
        ]

    def cycles(self) -> list[tuple[int, int, float]]:
        return [
            (
                int(self.edges[first]),
                int(self.edges[end]),
                float(np.mean(self.costs[first:end] < self.between)),
            )
            for first, end in self._spans()
        ]


def best_path(distances: Array, between: Array | None = None) -> NDArray[np.int64]:
    """Return the cheapest position of each row; one more than the last is between two cycles.

    A row stays or goes to the next position. Without the costs of rows `between` cycles, the last is followed by the first
    and the path may begin and end anywhere; with it, only complete cycles count.
    """
    count, places = distances.shape
    closed = between is not None
    between = np.full(count, math.inf) if between is None else between
    moved, left = np.zeros((count, places), bool), np.zeros(count, bool)
    rested = np.zeros(count, bool)
    costs, rest = distances[0].copy(), float(between[0])
    if closed:
        costs[1:] = math.inf
    for row in range(1, count):
        before = np.roll(costs, 1)
        rested[row] = rest < before[0]
        before[0] = min(rest, before[0])
        moved[row] = before < costs
        left[row] = costs[-1] < rest
        rest = min(rest, costs[-1]) + between[row]
        costs = np.minimum(costs, before) + distances[row]
    path = np.empty(count, np.int64)
    ends = np.append(costs, rest)
    if closed:
        ends[: places - 1] = math.inf
    at = int(np.argmin(ends))
    for row in range(count - 1, -1, -1):
        path[row] = at
        if at == places:
            at = places - 1 if left[row] else at
        elif moved[row, at]:
            at = (places if rested[row] else places - 1) if at == 0 else at - 1
    return path


def _changeover(rows: Array, cycles: Sequence[Cycle], rate: float) -> str:
    """Describe another repetition in the longest stretch without cycles, if there is one."""
    edges = [0.0, *(time for one in cycles for time in (one.start, one.end)), len(rows) / rate]
    gaps = [(edges[at + 1] - edges[at], edges[at]) for at in range(0, len(edges), 2)]
    length, start = max(gaps)
    period = float(np.median([one.end - one.start for one in cycles]))
    if length < FEWEST * period:
        return ""
    part = rows[round(start * rate) : round((start + length) * rate)]
    other = _chain(part)
    what = f"from {clock(start)} to {clock(start + length)} no cycle is like the others"
    if not other.repeats or len(other.cycles()) < FEWEST:
        return f"{what}."
    first, end, _ = other.cycles()[0]
    return (
        f"{what}, but something else repeats there: a changeover to another product? Find its "
        f"cycles with --like {start + first / rate:.1f}-{start + end / rate:.1f}."
    )
