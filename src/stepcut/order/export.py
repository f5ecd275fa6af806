"""A procedure graph as text, DOT, GraphML, SVG, on matplotlib axes, and in files."""

from __future__ import annotations

import json
import textwrap
from html import escape
from pathlib import Path
from typing import Any

from stepcut.colours import colour, ink
from stepcut.errors import choose
from stepcut.files.atomic import write_text
from stepcut.order.relations import Relations


def columns(graph: Relations) -> list[list[int]]:
    """The steps of a `graph` in columns: each stands one to the right of the last of its preconditions."""
    depth: dict[int, int] = {}
    waiting = list(graph.steps)
    while waiting:
        for step in waiting:
            near = [a for a, b in graph.edges if b == step]
            if all(a in depth for a in near):
                depth[step] = 1 + max((depth[a] for a in near), default=-1)
        waiting = [step for step in waiting if step not in depth]
    return [[s for s in graph.steps if depth[s] == c] for c in range(max(depth.values(), default=-1) + 1)]


def places(graph: Relations) -> dict[int, tuple[float, float]]:
    """`step -> (column, row)` in a `graph`; rows are centred on 0, a step stands near the rows of its preconditions."""
    found: dict[int, tuple[float, float]] = {}
    for x, column in enumerate(columns(graph)):
        wish = {}
        for step in column:
            rows = [found[a][1] for a, b in graph.edges if b == step]
            wish[step] = sum(rows) / len(rows) if rows else 0.0
        for place, step in enumerate(sorted(column, key=lambda s: (wish[s], s))):
            found[step] = (float(x), place - (len(column) - 1) / 2)
    return found


def to_text(graph: Relations) -> str:
    """The `graph` in lines, one per step, in an order that keeps all edges: what it needs, what videos say of it."""
    lines = [repr(graph)]
    for step in (step for column in columns(graph) for step in column):
        near = sorted(a for a, b in graph.edges if b == step)
        needs = [f"{graph.name(a)} ({support(graph, a, step)}, {refuted(graph, a, step)})" for a in near]
        tied = any(step == a for a, _ in graph.edges)
        free = "any order" if not graph.edges else "nothing must precede it" if tied else "any time"
        facts = [f"after {', '.join(needs)}" if needs else free, *notes(graph, step)]
        lines.append(f"  {graph.name(step)}: {'; '.join(facts)}")
    if graph.undecided:
        lines.append(
            f"  cannot tell: {'; '.join(f'{graph.name(a)}, {graph.name(b)}' for a, b in sorted(graph.undecided))}"
        )
    return "\n".join(lines)


def support(graph: Relations, before: int, after: int) -> str:
    """`11 of 12`: videos that keep the edge from `before` to `after` of a `graph`, of those that do both."""
    known = graph.support[before, after]
    return f"{known.kept} of {known.together}"


def refuted(graph: Relations, before: int, after: int) -> str:
    """`2 more videos the other way round would refute it`: the edge from `before` to `after` of a `graph`."""
    count = graph.support[before, after].refuted_by
    return f"{count} more {'video' if count == 1 else 'videos'} the other way round would refute it"


def notes(graph: Relations, step: int) -> list[str]:
    """What is worth knowing of a `step` of a `graph` beside its preconditions."""
    facts = []
    if step in graph.optional:
        facts.append(f"optional, done in {graph.occurs[step]} of {graph.videos} videos")
    if step in graph.repeated:
        facts.append(f"repeated, up to {graph.times[step][-1]} times")
    if step in graph.durations:
        length = graph.durations[step]
        facts.append(f"{length.median:.0f} s ({length.low:.0f} to {length.high:.0f} s)")
    return facts


def lines_of(name: str) -> list[str]:
    """A name in up to three lines for a box; of a longer one the beginning and the end, which tells it from others.

    >>> lines_of("take the bread from the upper shelf")
    ['take the bread from', 'the upper shelf']
    """
    lines = textwrap.wrap(name, 22)
    if len(lines) <= 3:
        return lines
    return [lines[0], "…", textwrap.wrap(name[::-1], 22)[0][::-1]]


def to_dot(graph: Relations) -> str:
    """The `graph` for Graphviz: `dot -Tsvg graph.dot -o graph.svg`; optional steps are dashed."""

    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    lines = ["digraph procedure {", "  rankdir=LR;", "  node [shape=box, style=rounded];"]
    for step in graph.steps:
        style = ', style="rounded,dashed"' if step in graph.optional else ""
        lines.append(f"  {step} [label={quoted(graph.name(step))}{style}];")
    lines += [f"  {a} -> {b} [label={quoted(support(graph, a, b))}];" for a, b in sorted(graph.edges)]
    return "\n".join([*lines, "}"]) + "\n"


def to_graphml(graph: Relations) -> str:
    """The `graph` as GraphML: name, videos and median duration of every step, the support of every edge."""
    keys = [
        ("name", "node", "string"), ("occurs", "node", "int"), ("optional", "node", "boolean"),
        ("repeated", "node", "boolean"), ("seconds", "node", "double"), ("kept", "edge", "int"),
        ("together", "edge", "int"),
    ]  # fmt: skip
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">']
    lines += [f'  <key id="{k}" for="{where}" attr.name="{k}" attr.type="{kind}"/>' for k, where, kind in keys]
    lines.append('  <graph id="procedure" edgedefault="directed">')
    for step in graph.steps:
        data = {
            "name": escape(graph.name(step)),
            "occurs": str(graph.occurs[step]),
            "optional": str(step in graph.optional).lower(),
            "repeated": str(step in graph.repeated).lower(),
        }
        if step in graph.durations:
            data["seconds"] = f"{graph.durations[step].median:g}"
        inside = "".join(f'<data key="{key}">{value}</data>' for key, value in data.items())
        lines.append(f'    <node id="n{step}">{inside}</node>')
    for a, b in sorted(graph.edges):
        known = graph.support[a, b]
        inside = f'<data key="kept">{known.kept}</data><data key="together">{known.together}</data>'
        lines.append(f'    <edge source="n{a}" target="n{b}">{inside}</edge>')
    return "\n".join([*lines, "  </graph>", "</graphml>"]) + "\n"


def to_svg(graph: Relations) -> str:
    """The `graph` as SVG text: time goes right, optional steps are dashed, thin lines have less support."""
    at, words = places(graph), {step: lines_of(graph.name(step)) for step in graph.steps}
    wide, box_w, box_h, margin = 190, 150, 20 + 14 * max(map(len, words.values()), default=1), 20
    high = box_h + margin
    top = max((-row for _, row in at.values()), default=0.0)
    middle = {s: (margin + x * wide + box_w / 2, margin + (row + top) * high + box_h / 2) for s, (x, row) in at.items()}
    width = max((x for x, _ in middle.values()), default=0) + box_w / 2 + margin
    height = max((y for _, y in middle.values()), default=0) + box_h / 2 + margin
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="sans-serif" font-size="12" role="img" '
        f'aria-label="{escape(repr(graph))}">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#666"/></marker></defs>',
    ]
    for a, b in sorted(graph.edges):
        (x1, y1), (x2, y2) = middle[a], middle[b]
        x1, x2 = x1 + box_w / 2, x2 - box_w / 2
        bend = (x2 - x1) / 2
        parts.append(
            f'<path d="M{x1:.0f} {y1:.0f}C{x1 + bend:.0f} {y1:.0f} {x2 - bend:.0f} {y2:.0f} {x2:.0f} {y2:.0f}" '
            f'fill="none" stroke="#666" stroke-width="{0.5 + 1.5 * graph.support[a, b].share:.1f}" '
            f'marker-end="url(#tip)"><title>{support(graph, a, b)} videos; {refuted(graph, a, b)}</title></path>'
        )
    for step in graph.steps:
        x, y = middle[step]
        fill = colour(step)
        dash = ' stroke="#333" stroke-dasharray="4 3"' if step in graph.optional else ""
        tip = escape("; ".join([graph.name(step), *notes(graph, step)]))
        begin = y + 4 - 7 * (len(words[step]) - 1)
        shown = "".join(
            f'<tspan x="{x:.0f}" y="{begin + 14 * line:.0f}">{escape(text)}</tspan>'
            for line, text in enumerate(words[step])
        )
        parts.append(
            f'<g><title>{tip}</title><rect x="{x - box_w / 2:.0f}" y="{y - box_h / 2:.0f}" width="{box_w}" '
            f'height="{box_h}" rx="6" fill="{fill}"{dash}/><text text-anchor="middle" '
            f'fill="{ink(fill)}">{shown}</text></g>'
        )
    return "".join([*parts, "</svg>"])


def draw(graph: Relations, ax: Any = None) -> Any:
    """The `graph` on the matplotlib axes `ax`, which are made when none are given."""
    at, names = places(graph), {step: lines_of(graph.name(step)) for step in graph.steps}
    if ax is None:
        from matplotlib.figure import Figure

        across = 1 + max((x for x, _ in at.values()), default=0)
        down = 1 + 2 * max((abs(row) for _, row in at.values()), default=0)
        high = 0.45 + 0.15 * max(map(len, names.values()), default=1)  # inches of a row
        ax = Figure(figsize=(2.2 * across, high * down + 0.6), layout="constrained").add_subplot()
    boxes = {}
    for step, (x, row) in at.items():
        box = {"boxstyle": "round", "facecolor": colour(step), "linestyle": "--" if step in graph.optional else "-"}
        words = {"ha": "center", "va": "center", "color": ink(colour(step)), "fontsize": 8}
        boxes[step] = ax.text(x, row, "\n".join(names[step]), bbox=box, **words).get_bbox_patch()
    for a, b in sorted(graph.edges):
        # From edge to edge of the boxes, whose size is known once they are drawn: the arrows come after them.
        ends = {"patchA": boxes[a], "patchB": boxes[b], "shrinkA": 0, "shrinkB": 1}
        line = {"arrowstyle": "-|>", "color": "#666666", "lw": 0.5 + 1.5 * graph.support[a, b].share}
        ax.annotate("", xy=at[b], xytext=at[a], arrowprops={**line, **ends}, zorder=4)
    ax.set_xlim(-0.6, max((x for x, _ in at.values()), default=0) + 0.6)
    ax.set_ylim(
        max((row for _, row in at.values()), default=0) + 0.7, min((r for _, r in at.values()), default=0) - 0.7
    )
    ax.set_axis_off()
    return ax


def save(graph: Relations, path: str) -> None:
    """Write the `graph` to `path`; the suffix decides between `.dot`, `.graphml`, `.json` and `.svg`."""
    forms = {
        ".dot": to_dot,
        ".graphml": to_graphml,
        ".json": lambda g: json.dumps(g.to_json(), indent=1, ensure_ascii=False) + "\n",
        ".svg": to_svg,
    }
    write_text(path, choose("suffix", Path(path).suffix.lower(), forms)(graph))
