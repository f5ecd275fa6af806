"""ProcedureGraph: what must precede what, what comes next, and how to draw it or hand it to other programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from stepcut.order import export
from stepcut.order.predict import next_steps
from stepcut.order.relations import Relations


@dataclass(frozen=True)
class ProcedureGraph(Relations):
    """A partial order of steps, transitively reduced, with what the videos say of each step. Made by `learn_graph`."""

    def next(self, done: Iterable[int] = ()) -> list[tuple[int, float]]:
        """Which step comes next and how probable it is, the most probable first.

        `done` is what was done so far in the order of time (a set will do, and then the last step is not known). The
        probabilities sum to at most 1; what is missing is the probability that nothing follows.
        """
        return next_steps(self, list(done), ordered=not isinstance(done, set | frozenset))

    def save(self, path: str) -> None:
        """Write it to `path` as `.dot`, `.graphml`, `.json` or `.svg`; the suffix decides."""
        export.save(self, path)

    # ------------------------------------------------------------------ looking at it

    def draw(self, ax: Any = None) -> Any:
        """Draw it with matplotlib on `ax`, or on new axes; gives them."""
        return export.draw(self, ax)

    def __repr__(self) -> str:
        return f"<ProcedureGraph {len(self.steps)} steps, {len(self.edges)} edges, from {self.videos} videos>"

    def __str__(self) -> str:
        return export.to_text(self)

    def _repr_svg_(self) -> str:
        return export.to_svg(self)
