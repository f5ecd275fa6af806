"""Where to draw the steps of a graph: columns by how much must precede a step, rows that keep lines short."""

from __future__ import annotations

from stepcut.order.relations import Relations


def columns(graph: Relations) -> list[list[int]]:
    """The steps in columns: each stands one to the right of the last of its preconditions."""
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
    """`step -> (column, row)`; rows are centred on 0, and a step stands near the mean row of its preconditions."""
    found: dict[int, tuple[float, float]] = {}
    for x, column in enumerate(columns(graph)):
        wish = {}
        for step in column:
            rows = [found[a][1] for a, b in graph.edges if b == step]
            wish[step] = sum(rows) / len(rows) if rows else 0.0
        for place, step in enumerate(sorted(column, key=lambda s: (wish[s], s))):
            found[step] = (float(x), place - (len(column) - 1) / 2)
    return found
