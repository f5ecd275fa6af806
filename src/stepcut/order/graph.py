"""ProcedureGraph: what must precede what, what comes next; as text, SVG, DOT or a figure.

For a step x after the last step y, with n(y, x) the number of times x followed y,

    weight(x) = (n(y, x) + prior * readiness(x)) * readiness(x)

Readiness is low if a precondition is not met: it is the share of the videos that do x with as few
repetitions of it. It is also low for a step that was done n times: the share of the videos that do
it again. "Nothing follows" is ready when every step was done as often as usual. Weights divided by
their sum are the probabilities.
"""

import json
import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import TopologicalSorter
from html import escape
from importlib.resources import files
from statistics import median_low
from typing import Annotated, Any, NamedTuple, Self, TypedDict

import msgspec
import numpy as np

from stepcut.colours import colour, ink
from stepcut.errors import ProcedureError, as_items, choose, wrong
from stepcut.files import AnyPath, as_path, write_text
from stepcut.order.orders import Orders, name_of
from stepcut.tables import FIXED, drawn_with

# Steps are optional or repeated in more than this share of the videos, and at least two
SHARE = 0.1
START, END = -1, -2  # in `transitions`: "nothing done yet", "nothing follows"
PRIOR = 0.5
WIDE, BOX, MARGIN = 190, 150, 20  # pixels of an SVG: column to column, box, around


class Support(NamedTuple):
    """Videos that keep an edge, and that do both of its steps."""

    kept: int
    together: int

    @property
    def share(self) -> float:
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
        return cls(*np.quantile(np.asarray(seconds, dtype=np.float64), [0.5, 0.1, 0.9]).tolist())


@dataclass(frozen=True)
class ProcedureGraph:
    """A partial order of steps, transitively reduced, with statistics of each step.

    `learn_graph` creates it.

    Examples
    --------
    >>> sorted(proc.graph.edges)
    [(0, 1), (1, 2)]
    """

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
    colours: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Colours by step as #rrggbb, if a person chose them."""

    # ---------- questions

    @property
    def optional(self) -> set[int]:
        """Steps that more than a tenth of the videos, and at least two, omit."""
        omitted = {step: self.videos - self.occurs[step] for step in self.steps}
        return {step for step in self.steps if _often(omitted[step], self.videos)}

    @property
    def repeated(self) -> set[int]:
        """Steps that more than a tenth of the videos that show them, and at least two, repeat."""
        again = {step: sum(times > 1 for times in self.times[step]) for step in self.steps}
        return {step for step in self.steps if _often(again[step], self.occurs[step])}

    @property
    def sources(self) -> list[int]:
        """Steps without preconditions."""
        return [step for step in self.steps if all(after != step for _, after in self.edges)]

    @property
    def sinks(self) -> list[int]:
        """Steps that are not a precondition of any step."""
        return [step for step in self.steps if all(before != step for before, _ in self.edges)]

    @cached_property
    def all_before(self) -> dict[int, set[int]]:
        """Direct and indirect preconditions of each step; the keys are in a valid order."""
        needs = {step: {a for a, b in self.edges if b == step} for step in self.steps}
        found: dict[int, set[int]] = {}
        for step in TopologicalSorter(needs).static_order():
            found[step] = needs[step].union(*(found[before] for before in needs[step]))
        return found

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
        wanted = "the numbers of the steps done so far, such as [0, 2]"
        steps = as_items("done", done, (int, np.integer), wanted)
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

    # ---------- files

    def save(self, path: AnyPath) -> None:
        """Write the graph to `path`; the suffix decides: `.dot`, `.json` or `.svg`."""
        forms: dict[str, Callable[[ProcedureGraph], str]] = {
            ".dot": to_dot,
            ".json": lambda g: json.dumps(g.to_json(), indent=1, ensure_ascii=False) + "\n",
            ".svg": ProcedureGraph._repr_svg_,
        }
        write_text(path, choose("suffix", as_path(path).suffix.lower(), forms)(self))

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
                    "duration": self.duration_of(step),
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
        spent = {one.step: one.duration for one in saved.steps if one.duration}
        return cls(
            steps=tuple(one.step for one in saved.steps),
            edges=set(support),
            support=support,
            videos=saved.videos,
            occurs={one.step: one.occurs for one in saved.steps},
            times={one.step: one.times for one in saved.steps},
            transitions={(a, b): count for a, b, count in saved.transitions},
            first={(a, b): count for a, b, count in saved.first},
            durations={step: Duration(**one) for step, one in spent.items()},
            names=saved.names,
            undecided=set(saved.undecided),
            ahead={(a, b): counts for a, b, counts in saved.ahead},
        )

    def duration_of(self, step: int) -> dict[str, float] | None:
        """Return median, low and high of the seconds of a step, if they are known."""
        return self.durations[step]._asdict() if step in self.durations else None

    # ---------- display

    def __repr__(self) -> str:
        size = f"{len(self.steps)} steps, {len(self.edges)} edges"
        return f"<ProcedureGraph {size}, from {self.videos} videos>"

    def __str__(self) -> str:
        """One step per line with its preconditions and statistics, in a valid order."""
        lines = [repr(self)]
        for step in (step for column in self._columns() for step in column):
            near = sorted(a for a, b in self.edges if b == step)
            needs = [f"{self.name(a)} ({self.support[a, step]})" for a in near]
            tied = any(step == a for a, _ in self.edges)
            free = "nothing must precede it" if tied else "any time" if self.edges else "any order"
            facts = [f"after {', '.join(needs)}" if needs else free, *self._notes(step)]
            lines.append(f"  {self.name(step)}: {'; '.join(facts)}")
        if self.undecided:
            pairs = [f"{self.name(a)}, {self.name(b)}" for a, b in sorted(self.undecided)]
            lines.append(f"  not enough evidence: {'; '.join(pairs)}")
        return "\n".join(lines)

    def _repr_svg_(self) -> str:
        """Time goes right, optional steps are dashed, thin lines have less support."""
        at, lines = self._places(), {step: lines_of(self.name(step)) for step in self.steps}
        box = 20 + 14 * max(map(len, lines.values()), default=1)  # its height
        top = max((-row for _, row in at.values()), default=0.0)
        middle = {
            step: (MARGIN + x * WIDE + BOX / 2, MARGIN + (row + top) * (box + MARGIN) + box / 2)
            for step, (x, row) in at.items()
        }
        width = max((x for x, _ in middle.values()), default=0) + BOX / 2 + MARGIN
        height = max((y for _, y in middle.values()), default=0) + box / 2 + MARGIN
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}" '
            'font-family="sans-serif" font-size="12" role="img" '
            # Scales down on narrow pages, but stays legible.
            f'style="max-width: 100%; min-width: {0.7 * width:.0f}px; height: auto" '
            f'aria-label="{escape(repr(self))}">',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" '
            'markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0 8 4 0 8z" fill="#666"/></marker></defs>',
        ]
        for a, b in sorted(self.edges):
            (x1, y1), (x2, y2) = middle[a], middle[b]
            x1, x2 = x1 + BOX / 2, x2 - BOX / 2
            bend, support = (x2 - x1) / 2, self.support[a, b]
            curve = f"C{x1 + bend:.0f} {y1:.0f} {x2 - bend:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"
            parts.append(
                f'<path d="M{x1:.0f} {y1:.0f}{curve}" '
                f'fill="none" stroke="#666" stroke-width="{0.5 + 1.5 * support.share:.1f}" '
                f'marker-end="url(#tip)"><title>{support} videos</title></path>'
            )
        for step in self.steps:
            x, y = middle[step]
            fill = self._colour(step)
            dash = ' stroke="#333" stroke-dasharray="4 3"' if step in self.optional else ""
            tip = escape("; ".join([self.name(step), *self._notes(step)]))
            begin = y + 4 - 7 * (len(lines[step]) - 1)
            shown = "".join(
                f'<tspan x="{x:.0f}" y="{begin + 14 * line:.0f}">{escape(text)}</tspan>'
                for line, text in enumerate(lines[step])
            )
            parts.append(
                f'<g><title>{tip}</title><rect x="{x - BOX / 2:.0f}" y="{y - box / 2:.0f}" '
                f'width="{BOX}" height="{box}" rx="6" fill="{fill}"{dash}/>'
                f'<text text-anchor="middle" fill="{ink(fill)}">{shown}</text></g>'
            )
        return "".join([*parts, "</svg>"])

    @drawn_with(FIXED)
    def draw(self, ax: Any = None) -> Any:
        """Draw with matplotlib, on `ax` or a new figure; return the axes."""
        at, names = self._places(), {step: lines_of(self.name(step)) for step in self.steps}
        columns, rows = [x for x, _ in at.values()], [row for _, row in at.values()]
        if ax is None:
            from matplotlib.figure import Figure

            across = 1 + max(columns, default=0)
            down = 1 + 2 * max(map(abs, rows), default=0)
            high = 0.45 + 0.15 * max(map(len, names.values()), default=1)  # inches of a row
            size = (2.2 * across, high * down + 0.6)
            ax = Figure(figsize=size, layout="constrained").add_subplot()
        boxes = {}
        for step, (x, row) in at.items():
            fill, line = self._colour(step), "--" if step in self.optional else "-"
            box = {"boxstyle": "round", "facecolor": fill, "linestyle": line}
            style = {"ha": "center", "va": "center", "color": ink(fill), "fontsize": 8}
            text = ax.text(x, row, "\n".join(names[step]), bbox=box, **style)
            boxes[step] = text.get_bbox_patch()
        for a, b in sorted(self.edges):
            # Arrows connect the borders of the boxes, so the boxes are drawn first.
            ends = {"patchA": boxes[a], "patchB": boxes[b], "shrinkA": 0, "shrinkB": 1}
            thick = 0.5 + 1.5 * self.support[a, b].share
            arrow = {"arrowstyle": "-|>", "color": "#666666", "lw": thick, **ends}
            ax.annotate("", xy=at[b], xytext=at[a], arrowprops=arrow, zorder=4)
        ax.set_xlim(-0.6, max(columns, default=0) + 0.6)
        ax.set_ylim(max(rows, default=0) + 0.7, min(rows, default=0) - 0.7)
        ax.set_axis_off()
        return ax

    def _colour(self, step: int) -> str:
        return self.colours[step] if step < len(self.colours) else colour(step)

    def _columns(self) -> list[list[int]]:
        """Each step one column right of its last precondition."""
        depth: dict[int, int] = {}
        for step, before in self.all_before.items():
            depth[step] = 1 + max((depth[other] for other in before), default=-1)
        count = max(depth.values(), default=-1) + 1
        return [[step for step in self.steps if depth[step] == column] for column in range(count)]

    def _places(self) -> dict[int, tuple[float, float]]:
        """(column, row) of each step; rows are centred on 0, near those of the preconditions."""
        found: dict[int, tuple[float, float]] = {}
        for x, column in enumerate(self._columns()):
            before = {step: [found[a][1] for a, b in self.edges if b == step] for step in column}
            target_row = {step: sum(rows) / max(len(rows), 1) for step, rows in before.items()}
            for place, step in enumerate(sorted(column, key=lambda s: (target_row[s], s))):
                found[step] = (float(x), place - (len(column) - 1) / 2)
        return found

    def _notes(self, step: int) -> list[str]:
        facts = []
        if step in self.optional:
            facts.append(f"optional, done in {self.occurs[step]} of {self.videos} videos")
        if step in self.repeated:
            facts.append(f"repeated, up to {self.times[step][-1]} times")
        if step in self.durations:
            length = self.durations[step]
            facts.append(f"{length.median:.0f} s ({length.low:.0f} to {length.high:.0f} s)")
        return facts


def _often(count: int, total: int) -> bool:
    return count >= 2 and count > SHARE * total


def lines_of(name: str) -> list[str]:
    """Wrap into at most three lines; of a longer name, keep the beginning and the end."""
    lines = textwrap.wrap(name, 22)
    if len(lines) <= 3:
        return lines
    return [lines[0], "…", textwrap.wrap(name[::-1], 22)[0][::-1]]


def to_dot(graph: ProcedureGraph) -> str:
    """The graph for Graphviz, as in `dot -Tsvg graph.dot`; optional steps are dashed."""

    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    lines = ["digraph procedure {", "  rankdir=LR;", "  node [shape=box, style=rounded];"]
    for step in graph.steps:
        style = ', style="rounded,dashed"' if step in graph.optional else ""
        lines.append(f"  {step} [label={quoted(graph.name(step))}{style}];")
    for a, b in sorted(graph.edges):
        lines.append(f"  {a} -> {b} [label={quoted(str(graph.support[a, b]))}];")
    return "\n".join([*lines, "}"]) + "\n"


Count = Annotated[int, msgspec.Meta(ge=0)]
Node = Annotated[int, msgspec.Meta(ge=END)]
Times = Annotated[tuple[Annotated[int, msgspec.Meta(ge=1)], ...], msgspec.Meta(min_length=1)]


class _Duration(TypedDict):
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
    steps: list[_Step]
    edges: list[_Edge]
    videos: Count
    transitions: list[tuple[Node, Node, Count]]
    first: list[tuple[Count, Count, Count]]
    names: tuple[str, ...]
    undecided: list[tuple[Count, Count]] = []
    ahead: list[tuple[Count, Count, tuple[Count, ...]]] = []


# ---------- what comes next


def next_weights(
    graph: ProcedureGraph, done: Mapping[int, int], lasts: Collection[int], least: float = 0.0
) -> dict[int, float]:
    """Weight of each step, and of `END`, to come next after steps were `done` so often.

    `lasts` has the previous step, or all that it may be; nothing at the start. `least` is the
    least readiness of every step, if `done` may contain errors.
    """
    lasts = lasts or [START]
    weights: dict[int, float] = {}
    for step in [*graph.steps, END]:
        ready = max(readiness(graph, step, done), least)
        followed = sum(graph.transitions.get((last, step), 0) for last in lasts) / len(lasts)
        weights[step] = (followed + PRIOR * ready) * ready
    return weights


def readiness(graph: ProcedureGraph, step: int, done: Mapping[int, int]) -> float:
    if step == END:
        ends = []
        for one in graph.steps:
            times = Counter(graph.times[one])
            shown = [times[number] for number in range(1, max(times) + 1)]
            omitted = graph.videos - graph.occurs[one]
            ends.append(_stopped([omitted, *shown], done.get(one, 0)))
        return min(ends, default=1.0)
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


def _stopped(counts: Sequence[int], times: int) -> float:
    """Share of the videos that do something `times` times or more that does not do it again.

    `counts` has the number of videos that do it 0, 1, 2 ... times.
    """
    more, as_often = sum(counts[times + 1 :]), sum(counts[times:])
    if not more:
        return 1.0
    # Shrunk towards 1/2, so that unseen events stay possible.
    return ((1 - more / as_often) * as_often + 0.25) / (as_often + 0.5)


# ---------- for planners and robots


def make_plan(graph: ProcedureGraph, orders: Orders, steps: Sequence[str]) -> dict[str, Any]:
    """The steps with direct preconditions and durations, and the orders of the videos.

    An optional precondition applies only if it is done at all.
    """

    def keeps(order: Sequence[int]) -> bool:
        place = {step: at for at, step in enumerate(order)}
        return all(place[a] < place[b] for a, b in graph.edges if a in place and b in place)

    return {
        "format": "stepcut-plan",
        "version": 1,
        "videos": graph.videos,
        "steps": [
            {
                "id": identifier(step),
                "step": step,
                "name": name_of(step, steps),
                "preconditions": [
                    {"id": identifier(before), **graph.support[before, step]._asdict()}
                    for before, after in sorted(graph.edges)
                    if after == step
                ],
                "optional": step in graph.optional,
                "done_in": graph.occurs[step],
                "times": {"usual": graph.usual_times(step), "most": graph.times[step][-1]},
                "duration": graph.duration_of(step),
            }
            for step in graph.steps
        ],
        "start": list(map(identifier, graph.sources)),
        "end": list(map(identifier, graph.sinks)),
        "alternatives": [
            {"order": list(map(identifier, order)), "videos": len(videos), "keeps": keeps(order)}
            for order, videos in orders
        ],
    }


def read_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a plan."""
    text = files("stepcut.order").joinpath("plan.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def identifier(step: int) -> str:
    """Name a step so that it does not change when the step is renamed."""
    return f"step_{step}"
