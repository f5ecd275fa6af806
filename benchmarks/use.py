"""Judge orders: `python benchmarks/use.py DATA [MORE]`, the graph and the next step from true step sequences.

DATA and MORE are folders of CaptainCook4D (see `stepcut data info captaincook4d`). Every figure stands beside
something simpler. `verdicts.py` judges check and guide.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from shared import arguments
from stepcut.order import learn_graph
from stepcut.paper.datasets import Task, load
from stepcut.tables import Cell, Table
from stepcut.version import __version__
from use_figures import (
    count_edges,
    f1,
    is_wrong,
    next_hits,
    random_task,
    true_edges,
    true_sequence,
    with_ends,
)


def graph_table(tasks: Sequence[Task]) -> Table:
    """Edge F1 on true sequences."""
    rows: list[list[Cell]] = []
    for task in tasks:
        true, steps = true_edges(task), range(len(task.steps))
        every = [true_sequence(task, video) for video in task]
        clean = [true_sequence(task, video) for video in task if not is_wrong(video)]
        cells: list[Cell] = [task.name, len(every), len(clean)]
        for sequences in (every, clean):
            for edges in (
                learn_graph(sequences).edges,
                count_edges(sequences, len(task.steps), 1.0),
            ):
                cells += [f1(edges, true), f1(with_ends(edges, steps), with_ends(true, steps))]
        rows.append(cells)
    columns = [
        "recipe",
        "videos",
        "clean",
        *(f"{a}{b}" for a in ("", "clean ") for b in ("ours", "ends", "all", "all ends")),
    ]
    return _mean(Table(columns, rows, "The procedure graph from true sequences, edge F1 in percent", [
        "ends: with START and END edges; all: the baseline that joins what comes first in all videos that do both;",
        "clean: recordings without a missing or misordered step.",
    ]))  # fmt: skip


def random_table() -> Table:
    """Edge F1 on sequences of random partial orders, with and without misplaced steps."""
    rows: list[list[Cell]] = []
    for errors in (0.0, 0.5):
        for videos in (8, 16, 32):
            made = [random_task(1000 + seed, videos, 10, errors) for seed in range(20)]
            ours = [f1(learn_graph(sequences).edges, true) for sequences, true in made]
            counted = [f1(count_edges(sequences, 10, 1.0), true) for sequences, true in made]
            rows.append([errors, videos, float(np.mean(ours)), float(np.mean(counted))])
    return Table(
        ["sequences with errors", "sequences", "ours", "all"],
        rows,
        "Random orders of ten steps, edge F1",
        [],
    )


def next_table(tasks: Sequence[Task]) -> Table:
    """Top-1 and top-3 of the next step."""
    hits = [(task.name, next_hits(task)) for task in tasks]
    rows: list[list[Cell]] = [
        [name, *own["ours"], *own["most frequent next"]] for name, own in hits
    ]
    columns = ["recipe", "ours top-1", "ours top-3", "frequent top-1", "frequent top-3"]
    note = "Leaving one recording out; frequent: the step that most often followed the last one."
    return _mean(Table(columns, rows, "The next step from true sequences, percent right", [note]))


def _mean(table: Table) -> Table:
    """The table with a row of means under it."""
    last: list[Cell] = ["mean"]
    for place in range(1, len(table.columns)):
        known = [row[place] for row in table.rows if isinstance(row[place], float)]
        last.append(float(np.mean(known)) if known else None)
    return Table(table.columns, [*table.rows, last], table.caption, table.notes)


def main() -> None:
    """Print the tables."""
    parser = arguments(__doc__)
    parser.add_argument("data", nargs="+", type=Path, help="folders of CaptainCook4D")
    parser.add_argument("--quick", action="store_true", help="one recipe")
    args = parser.parse_args()
    tasks = [task for folder in args.data for task in load("captaincook4d", str(folder))]
    tasks = [task for task in tasks if task.graph is not None][: 1 if args.quick else None]
    print(f"stepcut {__version__}, CaptainCook4D, {len(tasks)} recipes")
    print(f"\n{graph_table(tasks)}\n\n{random_table()}\n\n{next_table(tasks)}")


if __name__ == "__main__":
    main()
