"""Judge the graph from true step sequences of CaptainCook4D, beside a simpler one:
`python benchmarks/use.py DATA [MORE]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from shared import arguments, is_wrong
from stepcut.evaluation.evaluate import reduce_edges
from stepcut.order import learn_graph
from stepcut.order.learn import count_first, insert_relations, reduce_order
from stepcut.paper.datasets import Task, TaskVideo, load
from stepcut.tables import Cell, Table
from stepcut.version import __version__

Walk = list[int]
Edges = set[tuple[int, int]]


def walk_of(task: Task, video: TaskVideo) -> Walk:
    """The true steps of a recording by number, in the order in which they begin."""
    return [task.steps.index(segment.step) for segment in video.timeline]


def f1(found: Edges, true: Edges, steps: int = 0) -> float:
    """F1 of edges in percent; with `steps`, also of those from START (-1) and to END (-2)."""

    def whole(edges: Edges) -> Edges:
        first = {(-1, s) for s in range(steps) if all(b != s for _, b in edges)}
        return edges | first | {(s, -2) for s in range(steps) if all(a != s for a, _ in edges)}

    found, true = whole(found), whole(true)
    return 100 * 2 * len(found & true) / max(len(found) + len(true), 1)


def count_edges(walks: Sequence[Walk], steps: int) -> Edges:
    """The baseline: what comes first in all videos that do both, transitively reduced."""
    counts = count_first([list(dict.fromkeys(walk)) for walk in walks], steps)
    # of equally certain relations the better supported first
    always = np.where((counts > 0) & (counts.T == 0), 1 + 1e-6 * counts, 0.0)
    return {(a, b) for a, b in np.argwhere(reduce_order(insert_relations(always, 0.0))).tolist()}


def graph_table(tasks: Sequence[Task]) -> Table:
    rows: list[list[Cell]] = []
    for task in tasks:
        count, index = len(task.steps), task.steps.index
        true = {(index(a), index(b)) for a, b in reduce_edges(task.graph or ())}
        every = [walk_of(task, video) for video in task]
        clean = [walk_of(task, video) for video in task if not is_wrong(video)]
        cells: list[Cell] = [task.name, len(every), len(clean)]
        for walks in (every, clean):
            for edges in (learn_graph(walks).edges, count_edges(walks, count)):
                cells += [f1(edges, true), f1(edges, true, count)]
        rows.append(cells)
    names = [f"{a}{b}" for a in ("", "clean ") for b in ("ours", "ends", "all", "all ends")]
    notes = [
        "ends: with START and END edges; all: the baseline that joins what comes first in all videos that do both;",
        "clean: recordings without a missing or misordered step.",
    ]
    title = "The procedure graph from true sequences, edge F1 in percent"
    means = np.mean([row[3:] for row in rows], axis=0).tolist()
    rows.append(["mean", None, None, *means])
    return Table(["recipe", "videos", "clean", *names], rows, title, notes)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("data", nargs="+", type=Path, help="folders of CaptainCook4D")
    folders = map(str, parser.parse_args().data)
    every = [task for folder in folders for task in load("captaincook4d", folder)]
    tasks = [task for task in every if task.graph is not None]
    print(f"stepcut {__version__}, CaptainCook4D, {len(tasks)} recipes")
    print(f"\n{graph_table(tasks)}")


if __name__ == "__main__":
    main()
