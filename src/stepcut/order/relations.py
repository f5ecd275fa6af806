"""Relations: the facts of a procedure graph. What must precede what, with support; what is
optional, what comes next.

What comes next: for a step x after the last step y, with n(y, x) how often x followed y in the
videos,

    weight(x) = (n(y, x) + prior * readiness(x)) * readiness(x)

where readiness is small as long as a precondition is not met (as small as videos without it are
rare, and where it was done n times, as videos that went on then are rare among those that did it n
times before x), and small for a step that is done n times already (as small as those that do it
once more are rare among videos that do it n times). The weight of "nothing follows" is made the
same way: it is ready when every step was done as often as is usual. Weights divided by their sum
are the probabilities.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import TopologicalSorter
from statistics import median_low
from typing import Any, NamedTuple, Self

import numpy as np

from stepcut.errors import OptionError, ProcedureError, as_items
from stepcut.order.orders import name_of

# A step is called optional, or repeated, when more than this share of the videos, and at least two,
# say so.
SHARE = 0.1

START, END = -1, -2
"""Stand-ins in `transitions` for "nothing done yet" and "nothing follows"; they are not among the
steps or edges."""
PRIOR = 0.5


class Support(NamedTuple):
    """How many videos keep an edge, of those that do both its steps."""

    kept: int
    together: int
    refuted_by: int = 1
    """How many more videos that do it the other way round, and all else right, would refute it
    (`contrary_needed`)."""

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return self.kept / self.together if self.together else 0.0

    @property
    def refutation(self) -> str:
        """`2 more videos the other way round would refute it`."""
        what = "video" if self.refuted_by == 1 else "videos"
        return f"{self.refuted_by} more {what} the other way round would refute it"

    def __str__(self) -> str:
        return f"{self.kept} of {self.together}"


class Duration(NamedTuple):
    """Seconds that a video spends on a step: the median, and the range of the middle 80 % of the
    videos."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Self:
        """From the seconds of each video."""
        low, middle, high = np.quantile(
            np.asarray(seconds, dtype=np.float64), [0.1, 0.5, 0.9]
        ).tolist()
        return cls(middle, low, high)


@dataclass(frozen=True)
class Relations:
    """A partial order of steps, transitively reduced, with what the videos say of each step."""

    steps: tuple[int, ...]
    edges: set[tuple[int, int]]
    """`(before, after)`; START and END are not among them: see `sources` and `sinks`."""
    support: dict[tuple[int, int], Support]
    videos: int
    occurs: dict[int, int]
    """In how many videos each step is done."""
    times: dict[int, tuple[int, ...]]
    """How often each step is done in the videos that do it, sorted."""
    transitions: dict[tuple[int, int], int] = field(repr=False)
    """How often one segment followed another, START and END included."""
    first: dict[tuple[int, int], int] = field(repr=False)
    """In how many videos the one step was first done before the other was."""
    durations: dict[int, Duration] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    undecided: set[tuple[int, int]] = field(default_factory=set)
    """Pairs of which these videos cannot tell whether one must precede the other."""
    ahead: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict, repr=False)
    """In how many videos the one step was done 0, 1, 2 ... times before the other was first done,
    where it must precede it and some video did it more than once by then."""

    @property
    def optional(self) -> set[int]:
        """Steps that more than a tenth of the videos, and at least two, leave out."""
        return {
            step for step in self.steps if self._often(self.videos - self.occurs[step], self.videos)
        }

    @property
    def repeated(self) -> set[int]:
        """Steps that more than a tenth of the videos that do them, and at least two, do more than
        once."""
        return {
            step
            for step in self.steps
            if self._often(sum(times > 1 for times in self.times[step]), self.occurs[step])
        }

    @property
    def sources(self) -> list[int]:
        """Steps that nothing must precede: where the procedure may start."""
        return [step for step in self.steps if all(after != step for _, after in self.edges)]

    @property
    def sinks(self) -> list[int]:
        """Steps that need not precede anything: where the procedure may end."""
        return [step for step in self.steps if all(before != step for before, _ in self.edges)]

    def before(self, step: int) -> set[int]:
        """All that must be done before a step, near and far."""
        if step not in self.steps:
            raise OptionError(
                f"step={step!r} is not in this graph. Choose from {list(self.steps)}."
            )
        return set(self.all_before[step])

    def after(self, step: int) -> set[int]:
        """All that may only be done once a step is."""
        return {other for other in self.steps if step in self.all_before[other]}

    def usual_times(self, step: int) -> int:
        """How often videos that do a `step` usually do it: the median, the lower of two."""
        return median_low(self.times[step])

    def next(self, done: Iterable[int] = ()) -> list[tuple[int, float]]:
        """Which step comes next and how probable it is, the most probable first.

        `done` is what was done so far in the order of time (a set will do, and then the last step
        is not known). The probabilities sum to at most 1; what is missing is the probability that
        nothing follows.
        """
        steps = as_items(
            "done", done, (int, np.integer), "the numbers of the steps done so far, such as [0, 2]"
        )
        weights = next_weights(self, steps, ordered=not isinstance(done, set | frozenset))
        total = sum(weights.values())
        likely = [(step, weights[step] / total) for step in self.steps if weights[step] > 0]
        return sorted(likely, key=lambda pair: (-pair[1], pair[0]))

    def name(self, step: int) -> str:
        """The name of a step, or `step 3`."""
        return name_of(step, self.names)

    def renamed(self, names: Sequence[str]) -> Self:
        """The same graph, shown with these step names."""
        return replace(self, names=tuple(names))

    def to_json(self) -> dict[str, Any]:
        """A JSON-able object that holds everything; `from_json` reads it."""
        return {
            "steps": [
                {
                    "step": step,
                    "name": self.name(step),
                    "occurs": self.occurs[step],
                    "times": list(self.times[step]),
                    "optional": step in self.optional,
                    "repeated": step in self.repeated,
                    "duration": self.durations[step]._asdict() if step in self.durations else None,
                }
                for step in self.steps
            ],
            "edges": [
                {"before": a, "after": b, **self.support[a, b]._asdict()}
                for a, b in sorted(self.edges)
            ],
            "videos": self.videos,
            "transitions": [[a, b, count] for (a, b), count in sorted(self.transitions.items())],
            "first": [[a, b, count] for (a, b), count in sorted(self.first.items())],
            "names": list(self.names),
            "undecided": sorted(map(list, self.undecided)),
            "ahead": [[a, b, list(counts)] for (a, b), counts in sorted(self.ahead.items())],
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """The graph of a `record` that `to_json` gave."""
        try:
            edges, steps = record["edges"], record["steps"]
            support = {
                (_count(e["before"]), _count(e["after"])): Support(
                    _count(e["kept"]), _count(e["together"]), _count(e.get("refuted_by", 1))
                )
                for e in edges
            }
            return cls(
                steps=tuple(_count(entry["step"]) for entry in steps),
                edges=set(support),
                support=support,
                videos=_count(record["videos"]),
                occurs={entry["step"]: _count(entry["occurs"]) for entry in steps},
                times={entry["step"]: _read_times(entry["times"]) for entry in steps},
                transitions={
                    (_count(a, END), _count(b, END)): _count(n) for a, b, n in record["transitions"]
                },
                first={(_count(a), _count(b)): _count(count) for a, b, count in record["first"]},
                durations={
                    e["step"]: Duration(
                        **{key: float(value) for key, value in e["duration"].items()}
                    )
                    for e in steps
                    if e["duration"] is not None
                },
                names=tuple(map(str, record["names"])),
                undecided={(_count(a), _count(b)) for a, b in record.get("undecided", ())},
                ahead={
                    (_count(a), _count(b)): tuple(map(_count, n))
                    for a, b, n in record.get("ahead", ())
                },
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ProcedureError(
                f"this is no procedure graph ({type(error).__name__}: {error}); "
                "give what `graph.to_json()` made, or learn the procedure again."
            ) from error

    def _often(self, count: int, total: int) -> bool:
        return count >= 2 and count > SHARE * total

    @cached_property
    def all_before(self) -> dict[int, set[int]]:
        """For each step all that must precede it, near and far; the steps are in an order that
        keeps all edges."""
        needs = {step: {a for a, b in self.edges if b == step} for step in self.steps}
        found: dict[int, set[int]] = {}
        for step in TopologicalSorter(needs).static_order():
            found[step] = needs[step].union(*(found[before] for before in needs[step]))
        return found


def _read_times(values: Iterable[Any]) -> tuple[int, ...]:
    """How often videos do a step, each of those that do it, as a file holds it."""
    times = tuple(_count(value, 1) for value in values)
    if not times:
        raise ValueError("times says of a step that no video does it")
    return times


def _count(value: Any, least: int = 0) -> int:
    """A whole number from `least` up, as a file holds it."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{value!r} is no whole number from {least} up")
    return value


def next_weights(
    graph: Relations, done: Sequence[int], ordered: bool, least: float = 0.0
) -> dict[int, float]:
    """The weight of each step of a `graph`, and of `END`, to come next; `done` is what was done.

    `ordered`: whether `done` is in the order of time, so that its last is the step before.
    `least`: how ready every step is, where `done` may be mistaken.
    """
    before = Counter(done)
    lasts = (
        set(done) if done and not ordered else {done[-1] if done else START}
    )  # any of them, where it is not known
    weights: dict[int, float] = {}
    for step in [*graph.steps, END]:
        ready = max(readiness(graph, step, before), least)
        followed = sum(graph.transitions.get((last, step), 0) for last in lasts) / len(lasts)
        weights[step] = (followed + PRIOR * ready) * ready
    return weights


def readiness(graph: Relations, step: int, done: Mapping[int, int]) -> float:
    """How ready a `step` of a `graph` is, from 0 to 1: what unmet preconditions and repetition
    allow; `done`: how often each was done."""
    if step == END:
        return min(
            (_stopped(_how_often(graph, other), done.get(other, 0)) for other in graph.steps),
            default=1.0,
        )
    if step in done:
        # Of the videos that do it as often as that, those that do it once more.
        as_often = sum(times >= done[step] for times in graph.times[step])
        return sum(times > done[step] for times in graph.times[step]) / (as_often + 1)
    ready = 1.0
    for other in graph.before(step):
        # Of the videos that do the step, those that had not done `other` before it, or not more
        # often than that.
        without = graph.occurs[step] - graph.first.get((other, step), 0)
        counts = (
            graph.ahead.get((other, step), ())
            if other in done
            else (without, graph.occurs[step] - without)
        )
        ready = min(ready, _stopped(counts, done.get(other, 0)))
    return ready


def _how_often(graph: Relations, step: int) -> list[int]:
    """In how many videos of a `graph` a `step` is done 0, 1, 2 ... times."""
    counts = Counter(graph.times[step])
    return [
        graph.videos - graph.occurs[step],
        *(counts[times] for times in range(1, max(counts) + 1)),
    ]


def _stopped(counts: Sequence[int], times: int) -> float:
    """Of the videos that do something at least so many `times`, the share that does it no more
    often; `counts`: how many videos do it 0, 1, 2 ... times. It is 1 where none does it more
    often."""
    more, as_often = sum(counts[times + 1 :]), sum(counts[times:])
    return smoothed(1 - more / as_often, as_often) if more else 1.0


def smoothed(share: float, count: int) -> float:
    """A share of `count` videos, drawn a little towards one half so that what was never seen stays
    possible."""
    return (share * count + 0.25) / (count + 0.5)
