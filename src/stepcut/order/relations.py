"""Relations: the facts of a procedure graph. What must precede what, with support; what is optional, what repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from stepcut.errors import OptionError, ProcedureError
from stepcut.order.orders import name_of

# A step is called optional, or repeated, when more than this share of the videos, and at least two, say so.
SHARE = 0.1


class Support(NamedTuple):
    """How many videos keep an edge, of those that do both its steps."""

    kept: int
    together: int
    refuted_by: int = 1
    """How many more videos that do it the other way round would make it less probable than not."""

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return self.kept / self.together if self.together else 0.0


class Duration(NamedTuple):
    """Seconds that a video spends on a step: the median, and the range of the middle 80 % of the videos."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Duration:
        """From the seconds of each video."""
        low, middle, high = np.quantile(np.asarray(seconds, dtype=np.float64), [0.1, 0.5, 0.9]).tolist()
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

    # ------------------------------------------------------------------ asking it

    @property
    def optional(self) -> set[int]:
        """Steps that more than a tenth of the videos, and at least two, leave out."""
        return {step for step in self.steps if self._often(self.videos - self.occurs[step], self.videos)}

    @property
    def repeated(self) -> set[int]:
        """Steps that more than a tenth of the videos that do them, and at least two, do more than once."""
        return {
            step for step in self.steps if self._often(sum(times > 1 for times in self.times[step]), self.occurs[step])
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
        return set(self._related(step, 1))

    def after(self, step: int) -> set[int]:
        """All that may only be done once a step is."""
        return set(self._related(step, 0))

    def name(self, step: int) -> str:
        """The name of a step, or `step 3`."""
        return name_of(step, self.names)

    def renamed(self, names: Sequence[str]) -> Self:
        """The same graph, shown with these step names."""
        return replace(self, names=tuple(names))

    # ------------------------------------------------------------------ files

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
            "edges": [{"before": a, "after": b, **self.support[a, b]._asdict()} for a, b in sorted(self.edges)],
            "videos": self.videos,
            "transitions": [[a, b, count] for (a, b), count in sorted(self.transitions.items())],
            "first": [[a, b, count] for (a, b), count in sorted(self.first.items())],
            "names": list(self.names),
            "undecided": sorted(map(list, self.undecided)),
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """The graph of a `record` that `to_json` gave."""
        try:
            support = {
                (e["before"], e["after"]): Support(e["kept"], e["together"], e.get("refuted_by", 1))
                for e in record["edges"]
            }
            steps = record["steps"]
            return cls(
                steps=tuple(entry["step"] for entry in steps),
                edges=set(support),
                support=support,
                videos=record["videos"],
                occurs={entry["step"]: entry["occurs"] for entry in steps},
                times={entry["step"]: tuple(entry["times"]) for entry in steps},
                transitions={(a, b): count for a, b, count in record["transitions"]},
                first={(a, b): count for a, b, count in record["first"]},
                durations={e["step"]: Duration(**e["duration"]) for e in steps if e["duration"] is not None},
                names=tuple(record["names"]),
                undecided={(a, b) for a, b in record.get("undecided", ())},
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ProcedureError(
                f"this is no procedure graph ({type(error).__name__}: {error}); "
                "give what `graph.to_json()` made, or learn the procedure again."
            ) from error

    def _often(self, count: int, total: int) -> bool:
        return count >= 2 and count > SHARE * total

    def _related(self, step: int, side: int) -> set[int]:
        if step not in self.occurs:
            raise OptionError(f"step={step!r} is not in this graph. Choose from {list(self.steps)}.")
        return self._reach[side][step]

    @cached_property
    def _reach(self) -> tuple[dict[int, set[int]], dict[int, set[int]]]:
        """For each step, all that follow it and all that precede it, along the edges."""
        found: tuple[dict[int, set[int]], dict[int, set[int]]] = ({}, {})
        for side, reach in enumerate(found):
            near: dict[int, set[int]] = {step: set() for step in self.steps}
            for edge in self.edges:
                near[edge[side]].add(edge[1 - side])
            for step in self.steps:
                todo = list(near[step])
                reach[step] = set(todo)
                while todo:
                    further = near[todo.pop()] - reach[step]
                    reach[step] |= further
                    todo.extend(further)
        return found
