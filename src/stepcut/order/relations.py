"""Relations: edges and statistics of a procedure graph, and the probability of the next step.

For a step x after the last step y, with n(y, x) the number of times x followed y,

    weight(x) = (n(y, x) + prior * readiness(x)) * readiness(x)

Readiness is low if a precondition is not met: it is the share of the videos that do x with as few
repetitions of the precondition. It is also low for a step that was done n times: then it is the
share of the videos that do it again. "Nothing follows" has a weight of the same form: it is ready
when every step was done as often as usual. Weights divided by their sum are the probabilities.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import TopologicalSorter
from statistics import median_low
from typing import Annotated, Any, NamedTuple, Self

import msgspec
import numpy as np

from stepcut.errors import ProcedureError, as_items, wrong
from stepcut.order.orders import name_of

SHARE = 0.1
"""Steps are optional or repeated in more than this share of the videos, and at least two."""

START, END = -1, -2
"""Entries of `transitions` for "nothing done yet" and "nothing follows"."""
PRIOR = 0.5


class Support(NamedTuple):
    """Number of videos that keep an edge, and that do both of its steps."""

    kept: int
    together: int

    @property
    def share(self) -> float:
        """Share of videos that keep the edge, 0 to 1."""
        return self.kept / self.together if self.together else 0.0

    def __str__(self) -> str:
        return f"{self.kept} of {self.together}"


class Duration(NamedTuple):
    """Seconds per video spent on a step: median and 80 % interval."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Self:
        """Estimate from the seconds of each video."""
        return cls(*np.quantile(np.asarray(seconds, dtype=np.float64), [0.5, 0.1, 0.9]).tolist())


@dataclass(frozen=True)
class Relations:
    """A partial order of steps, transitively reduced, with statistics of each step."""

    steps: tuple[int, ...]
    edges: set[tuple[int, int]]
    """`(before, after)`; see `sources` and `sinks` for the start and end."""
    support: dict[tuple[int, int], Support]
    videos: int
    occurs: dict[int, int]
    """Number of videos that show each step."""
    times: dict[int, tuple[int, ...]]
    """Repetitions of each step in the videos that show it, sorted."""
    transitions: dict[tuple[int, int], int] = field(repr=False)
    """Number of times one segment followed another, including START and END."""
    first: dict[tuple[int, int], int] = field(repr=False)
    """Number of videos in which the first step was first done before the second."""
    durations: dict[int, Duration] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    undecided: set[tuple[int, int]] = field(default_factory=set)
    """Pairs without enough evidence."""
    ahead: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict, repr=False)
    """For required pairs (a, b), number of videos that did a 0, 1, 2 ... times before b.

    Only pairs with a video that did a more than once by then.
    """

    @property
    def optional(self) -> set[int]:
        """Steps that more than a tenth of the videos, and at least two, omit."""
        return {
            step for step in self.steps if self._often(self.videos - self.occurs[step], self.videos)
        }

    @property
    def repeated(self) -> set[int]:
        """Steps that more than a tenth of the videos that show them, and at least two, repeat."""
        return {
            step
            for step in self.steps
            if self._often(sum(times > 1 for times in self.times[step]), self.occurs[step])
        }

    @property
    def sources(self) -> list[int]:
        """Steps without preconditions."""
        return [step for step in self.steps if all(after != step for _, after in self.edges)]

    @property
    def sinks(self) -> list[int]:
        """Steps that are not a precondition of any step."""
        return [step for step in self.steps if all(before != step for before, _ in self.edges)]

    def before(self, step: int) -> set[int]:
        """Return all direct and indirect preconditions of a step."""
        if step not in self.steps:
            raise wrong("step", step, f"is not in this graph. Choose from {list(self.steps)}.")
        return set(self.all_before[step])

    def after(self, step: int) -> set[int]:
        """Return all steps that need a step, directly or indirectly."""
        return {other for other in self.steps if step in self.all_before[other]}

    def usual_times(self, step: int) -> int:
        """Return how often a step is usually done: the median over videos that show it."""
        return median_low(self.times[step])

    def next(self, done: Iterable[int] = ()) -> list[tuple[int, float]]:
        """Predict what follows the steps `done` (in order of time; with a set, the last step is
        unknown): (step, probability), most probable first. The rest up to 1 is that nothing does.
        """
        steps = as_items(
            "done", done, (int, np.integer), "the numbers of the steps done so far, such as [0, 2]"
        )
        lasts = set(steps) if isinstance(done, set | frozenset) else steps[-1:]
        weights = next_weights(self, Counter(steps), lasts)
        total = sum(weights.values())
        likely = [(step, weights[step] / total) for step in self.steps if weights[step] > 0]
        return sorted(likely, key=lambda pair: (-pair[1], pair[0]))

    def name(self, step: int) -> str:
        """Return the name of a step, or `step 3`."""
        return name_of(step, self.names)

    def renamed(self, names: Sequence[str]) -> Self:
        """Return the same graph with other step names, by step number."""
        return replace(self, names=tuple(names))

    def to_json(self) -> dict[str, Any]:
        """Return the graph as JSON values: steps, edges and counts."""
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
        """Read the result of `to_json`; a damaged record raises `ProcedureError`."""
        try:
            saved = msgspec.convert(record, _Saved)
        except msgspec.ValidationError as error:
            raise ProcedureError(
                f"this is not a procedure graph ({error}); "
                "give the result of `graph.to_json()`, or learn the procedure again."
            ) from error
        support = {(one.before, one.after): Support(one.kept, one.together) for one in saved.edges}
        return cls(
            steps=tuple(one.step for one in saved.steps),
            edges=set(support),
            support=support,
            videos=saved.videos,
            occurs={one.step: one.occurs for one in saved.steps},
            times={one.step: one.times for one in saved.steps},
            transitions={(a, b): count for a, b, count in saved.transitions},
            first={(a, b): count for a, b, count in saved.first},
            durations={
                one.step: Duration(*msgspec.structs.astuple(one.duration))
                for one in saved.steps
                if one.duration
            },
            names=saved.names,
            undecided=set(saved.undecided),
            ahead={(a, b): counts for a, b, counts in saved.ahead},
        )

    def _often(self, count: int, total: int) -> bool:
        return count >= 2 and count > SHARE * total

    @cached_property
    def all_before(self) -> dict[int, set[int]]:
        """Direct and indirect preconditions of each step; the keys are in a valid order."""
        needs = {step: {a for a, b in self.edges if b == step} for step in self.steps}
        found: dict[int, set[int]] = {}
        for step in TopologicalSorter(needs).static_order():
            found[step] = needs[step].union(*(found[before] for before in needs[step]))
        return found


Count = Annotated[int, msgspec.Meta(ge=0)]
Node = Annotated[int, msgspec.Meta(ge=END)]
Times = Annotated[tuple[Annotated[int, msgspec.Meta(ge=1)], ...], msgspec.Meta(min_length=1)]


class _Duration(msgspec.Struct):
    median: float
    low: float
    high: float


class _Step(msgspec.Struct):
    step: Count
    occurs: Count
    times: Times
    duration: _Duration | None


class _Edge(msgspec.Struct):
    before: Count
    after: Count
    kept: Count
    together: Count


class _Saved(msgspec.Struct):
    """The JSON form of a graph."""

    steps: list[_Step]
    edges: list[_Edge]
    videos: Count
    transitions: list[tuple[Node, Node, Count]]
    first: list[tuple[Count, Count, Count]]
    names: tuple[str, ...]
    undecided: list[tuple[Count, Count]] = []
    ahead: list[tuple[Count, Count, tuple[Count, ...]]] = []


def next_weights(
    graph: Relations, done: Mapping[int, int], lasts: Collection[int], least: float = 0.0
) -> dict[int, float]:
    """Weight of each step, and of `END`, to come next after steps were `done` so often.

    `lasts` has the previous step, or all that it may be; nothing at the start. `least` is the least
    readiness of every step, if `done` may contain errors.
    """
    lasts = lasts or [START]
    weights: dict[int, float] = {}
    for step in [*graph.steps, END]:
        ready = max(readiness(graph, step, done), least)
        followed = sum(graph.transitions.get((last, step), 0) for last in lasts) / len(lasts)
        weights[step] = (followed + PRIOR * ready) * ready
    return weights


def readiness(graph: Relations, step: int, done: Mapping[int, int]) -> float:
    """Readiness of a step from 0 to 1, from unmet preconditions and repetitions."""
    if step == END:
        every = (_stopped(_how_often(graph, one), done.get(one, 0)) for one in graph.steps)
        return min(every, default=1.0)
    if step in done:
        # Share of the videos with as many repetitions that do it once more.
        as_often = sum(times >= done[step] for times in graph.times[step])
        return sum(times > done[step] for times in graph.times[step]) / (as_often + 1)
    ready = 1.0
    for other in graph.before(step):
        # Share of the videos with this step that did `other` at most as often before it.
        without = graph.occurs[step] - graph.first.get((other, step), 0)
        counts: tuple[int, ...] = (without, graph.occurs[step] - without)
        if other in done:
            counts = graph.ahead.get((other, step), ())
        ready = min(ready, _stopped(counts, done.get(other, 0)))
    return ready


def _how_often(graph: Relations, step: int) -> list[int]:
    """Number of videos that do a step 0, 1, 2 ... times."""
    counts = Counter(graph.times[step])
    shown = [counts[times] for times in range(1, max(counts) + 1)]
    return [graph.videos - graph.occurs[step], *shown]


def _stopped(counts: Sequence[int], times: int) -> float:
    """Of the videos that do something at least `times` times, the share that does not do it again.

    `counts` has the number of videos that do it 0, 1, 2 ... times.
    """
    more, as_often = sum(counts[times + 1 :]), sum(counts[times:])
    return smoothed(1 - more / as_often, as_often) if more else 1.0


def smoothed(share: float, count: int) -> float:
    """Shrink a share of `count` videos towards 1/2, so that unseen events stay possible."""
    return (share * count + 0.25) / (count + 0.5)
