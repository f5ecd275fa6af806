"""ProcedureGraph: what must precede what, as text, SVG, DOT or a matplotlib figure."""

import json
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import Any

from stepcut.colours import colour, ink
from stepcut.errors import choose
from stepcut.files.addresses import AnyPath, as_path
from stepcut.files.atomic import write_text
from stepcut.files.figures import FIXED, drawn_with
from stepcut.order.relations import Relations


@dataclass(frozen=True)
class ProcedureGraph(Relations):
    """A partial order of steps, transitively reduced, with statistics of each step.

    `learn_graph` creates it.

    Examples
    --------
    >>> sorted(proc.graph.edges)
    [(0, 1), (1, 2)]
    """

    colours: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Colours by step as #rrggbb, if a person chose them."""

    def _colour(self, step: int) -> str:
        return self.colours[step] if step < len(self.colours) else colour(step)

    def save(self, path: AnyPath) -> None:
        """Write the graph to `path`; the suffix decides: `.dot`, `.json` or `.svg`."""
        forms: dict[str, Callable[[ProcedureGraph], str]] = {
            ".dot": to_dot,
            ".json": lambda g: json.dumps(g.to_json(), indent=1, ensure_ascii=False) + "\n",
            ".svg": ProcedureGraph._repr_svg_,
        }
        write_text(path, choose("suffix", as_path(path).suffix.lower(), forms)(self))

    def __repr__(self) -> str:
        size = f"{len(self.steps)} steps, {len(self.edges)} edges"
        return f"<ProcedureGraph {size}, from {self.videos} videos>"

    def __str__(self) -> str:
        """List one step per line with its preconditions and statistics, in a valid order."""
        lines = [repr(self)]
        for step in (step for column in self._columns() for step in column):
            near = sorted(a for a, b in self.edges if b == step)
            needs = [f"{self.name(a)} ({self.support[a, step]})" for a in near]
            tied = any(step == a for a, _ in self.edges)
            free = (
                "any order" if not self.edges else "nothing must precede it" if tied else "any time"
            )
            facts = [f"after {', '.join(needs)}" if needs else free, *self._notes(step)]
            lines.append(f"  {self.name(step)}: {'; '.join(facts)}")
        if self.undecided:
            pairs = [f"{self.name(a)}, {self.name(b)}" for a, b in sorted(self.undecided)]
            lines.append(f"  not enough evidence: {'; '.join(pairs)}")
        return "\n".join(lines)

    def _repr_svg_(self) -> str:
        """Draw as SVG: time goes right, optional steps are dashed, thin lines have less support."""
        at, lines = self._places(), {step: lines_of(self.name(step)) for step in self.steps}
        wide, box_w, box_h, margin = (
            190,
            150,
            20 + 14 * max(map(len, lines.values()), default=1),
            20,
        )
        high = box_h + margin
        top = max((-row for _, row in at.values()), default=0.0)
        middle = {
            step: (margin + x * wide + box_w / 2, margin + (row + top) * high + box_h / 2)
            for step, (x, row) in at.items()
        }
        width = max((x for x, _ in middle.values()), default=0) + box_w / 2 + margin
        height = max((y for _, y in middle.values()), default=0) + box_h / 2 + margin
        parts = [
            '<svg xmlns="http://www.w3.org/2000/svg" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
            f'height="{height:.0f}" font-family="sans-serif" font-size="12" role="img" '
            # Scales down on narrow pages, but stays legible.
            f'style="max-width: 100%; min-width: {0.7 * width:.0f}px; height: auto" '
            f'aria-label="{escape(repr(self))}">',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" '
            'markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0 8 4 0 8z" fill="#666"/></marker></defs>',
        ]
        for a, b in sorted(self.edges):
            (x1, y1), (x2, y2) = middle[a], middle[b]
            x1, x2 = x1 + box_w / 2, x2 - box_w / 2
            bend, support = (x2 - x1) / 2, self.support[a, b]
            curve = f"C{x1 + bend:.0f} {y1:.0f} {x2 - bend:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"
            tip = f"{support} videos"
            parts.append(
                f'<path d="M{x1:.0f} {y1:.0f}{curve}" '
                f'fill="none" stroke="#666" stroke-width="{0.5 + 1.5 * support.share:.1f}" '
                f'marker-end="url(#tip)"><title>{tip}</title></path>'
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
                f'<g><title>{tip}</title><rect x="{x - box_w / 2:.0f}" y="{y - box_h / 2:.0f}" '
                f'width="{box_w}" height="{box_h}" rx="6" fill="{fill}"{dash}/>'
                f'<text text-anchor="middle" '
                f'fill="{ink(fill)}">{shown}</text></g>'
            )
        return "".join([*parts, "</svg>"])

    @drawn_with(FIXED)
    def draw(self, ax: Any = None) -> Any:
        """Draw with matplotlib, on `ax` or a new figure; return the axes."""
        at, names = self._places(), {step: lines_of(self.name(step)) for step in self.steps}
        if ax is None:
            from matplotlib.figure import Figure

            across = 1 + max((x for x, _ in at.values()), default=0)
            down = 1 + 2 * max((abs(row) for _, row in at.values()), default=0)
            high = 0.45 + 0.15 * max(map(len, names.values()), default=1)  # inches of a row
            ax = Figure(
                figsize=(2.2 * across, high * down + 0.6), layout="constrained"
            ).add_subplot()
        boxes = {}
        for step, (x, row) in at.items():
            fill = self._colour(step)
            box = {
                "boxstyle": "round",
                "facecolor": fill,
                "linestyle": "--" if step in self.optional else "-",
            }
            style = {"ha": "center", "va": "center", "color": ink(fill), "fontsize": 8}
            boxes[step] = ax.text(
                x, row, "\n".join(names[step]), bbox=box, **style
            ).get_bbox_patch()
        for a, b in sorted(self.edges):
            # Arrows connect the borders of the boxes, so the boxes are drawn first.
            ends = {"patchA": boxes[a], "patchB": boxes[b], "shrinkA": 0, "shrinkB": 1}
            line = {
                "arrowstyle": "-|>",
                "color": "#666666",
                "lw": 0.5 + 1.5 * self.support[a, b].share,
            }
            ax.annotate("", xy=at[b], xytext=at[a], arrowprops={**line, **ends}, zorder=4)
        ax.set_xlim(-0.6, max((x for x, _ in at.values()), default=0) + 0.6)
        ax.set_ylim(
            max((row for _, row in at.values()), default=0) + 0.7,
            min((r for _, r in at.values()), default=0) - 0.7,
        )
        ax.set_axis_off()
        return ax

    def _columns(self) -> list[list[int]]:
        """Steps by column: each one column right of its last precondition."""
        depth: dict[int, int] = {}
        for step, before in self.all_before.items():
            depth[step] = 1 + max((depth[other] for other in before), default=-1)
        return [
            [s for s in self.steps if depth[s] == c]
            for c in range(max(depth.values(), default=-1) + 1)
        ]

    def _places(self) -> dict[int, tuple[float, float]]:
        """Map step to (column, row). Rows are centred on 0, and near those of the preconditions."""
        found: dict[int, tuple[float, float]] = {}
        for x, column in enumerate(self._columns()):
            before = {step: [found[a][1] for a, b in self.edges if b == step] for step in column}
            target_row = {step: sum(rows) / max(len(rows), 1) for step, rows in before.items()}
            for place, step in enumerate(sorted(column, key=lambda s: (target_row[s], s))):
                found[step] = (float(x), place - (len(column) - 1) / 2)
        return found

    def _notes(self, step: int) -> list[str]:
        """Statistics of a step: optional, repeated, duration."""
        facts = []
        if step in self.optional:
            facts.append(f"optional, done in {self.occurs[step]} of {self.videos} videos")
        if step in self.repeated:
            facts.append(f"repeated, up to {self.times[step][-1]} times")
        if step in self.durations:
            length = self.durations[step]
            facts.append(f"{length.median:.0f} s ({length.low:.0f} to {length.high:.0f} s)")
        return facts


def lines_of(name: str) -> list[str]:
    """Wrap a name into at most three lines; of a longer name, keep the beginning and the end.

    >>> lines_of("take the bread from the upper shelf")
    ['take the bread from', 'the upper shelf']
    """
    lines = textwrap.wrap(name, 22)
    if len(lines) <= 3:
        return lines
    return [lines[0], "…", textwrap.wrap(name[::-1], 22)[0][::-1]]


def to_dot(graph: ProcedureGraph) -> str:
    """Return the graph for Graphviz, as in `dot -Tsvg graph.dot`; optional steps are dashed."""

    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    lines = ["digraph procedure {", "  rankdir=LR;", "  node [shape=box, style=rounded];"]
    for step in graph.steps:
        style = ', style="rounded,dashed"' if step in graph.optional else ""
        lines.append(f"  {step} [label={quoted(graph.name(step))}{style}];")
    lines += [
        f"  {a} -> {b} [label={quoted(str(graph.support[a, b]))}];" for a, b in sorted(graph.edges)
    ]
    return "\n".join([*lines, "}"]) + "\n"
