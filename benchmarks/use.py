"""Judge order, check and guide: `python benchmarks/use.py DATA [MORE] [--quick] [--only graph next check area guide]`.

DATA and MORE are folders of CaptainCook4D (see `stepcut data info captaincook4d`). `graph` and `next` start from true
step sequences; `check`, `area` and `guide` from features, cut by a method that has seen no label. Every figure stands
beside something simpler. --quick shows that the script runs, not how good anything is.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from stepcut.datasets.captaincook4d import read
from stepcut.datasets.task import Task
from stepcut.order import learn_graph
from stepcut.tables import Cell, Table
from stepcut.version import __version__
from use_check import FOLDS, Trial, detect, judge_recipe
from use_figures import count_edges, f1, is_wrong, next_hits, true_edges, true_sequence, with_ends
from use_guide import FEATURES, cases, guide_table, run

PARTS = ("graph", "next", "check", "area", "guide")
KITCHENS = range(100, 106)
"""Seeds of toy kitchens; the score was designed on seeds 0 to 5 and the first five recipes."""


def graph_table(tasks: Sequence[Task]) -> Table:
    """Edge F1 on true sequences."""
    rows: list[list[Cell]] = []
    for task in tasks:
        true, steps = true_edges(task), range(len(task.steps))
        every = [true_sequence(task, video) for video in task]
        clean = [true_sequence(task, video) for video in task if not is_wrong(video)]
        cells: list[Cell] = [task.name, len(every), len(clean)]
        for sequences in (every, clean):
            for edges in (learn_graph(sequences).edges, count_edges(sequences, len(task.steps), 1.0)):
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


def next_table(tasks: Sequence[Task]) -> Table:
    """Top-1 and top-3 of the next step."""
    hits = [(task.name, next_hits(task)) for task in tasks]
    rows: list[list[Cell]] = [[name, *own["ours"], *own["most frequent next"]] for name, own in hits]
    columns = ["recipe", "ours top-1", "ours top-3", "frequent top-1", "frequent top-3"]
    note = "Leaving one recording out; frequent: the step that most often followed the last one."
    return _mean(Table(columns, rows, "The next step from true sequences, percent right", [note]))


def check_table(results: Sequence[dict[str, Any]]) -> Table:
    """What is found of planted deviations, and what was forecast when the procedure was learned."""
    kinds = {"normal": "", "half": "half of the video", "third": "", "step out": "one step left out",
             "exchange": "two steps exchanged"}  # fmt: skip
    rows: list[list[Cell]] = []
    groups = dict.fromkeys((r["trial"].task, r["trial"].videos) for r in results)
    for name, videos in groups:
        mine = [r for r in results if (r["trial"].task, r["trial"].videos) == (name, videos)]
        cells: list[Cell] = [name, videos or float(np.mean([r["learned"] for r in mine]))]
        for kind, forecast in kinds.items():
            cells.append(100 * float(np.mean([hit for r in mine for hit in r["found"].get(kind, [])] or [np.nan])))
            if forecast:
                said = [r["forecast"][forecast] for r in mine if forecast in r["forecast"]]
                cells.append(100 * float(np.mean(said or [np.nan])))
        rows.append(cells)
    columns = ["task", "videos", "false alarms", "half", "(said)", "third", "step out", "(said)", "exchange", "(said)"]
    return Table(columns, rows, "Check: percent called wrong, 5 % false alarms asked for", [
        "promised is 1 / (videos + 1) where that is more than 5 %; (said): the forecast made at learning.",
    ])  # fmt: skip


def area_table(results: Sequence[dict[str, Any]]) -> Table:
    """The ROC of the check on recordings with annotated mistakes, and other recipes told as another task."""
    rows: list[list[Cell]] = [
        [
            r["trial"].task,
            r["wrong"],
            r["length"],
            r["other"],
            *(None if x is None else 100 * x for x in r["called other"]),
        ]
        for r in results
    ]
    columns = ["recipe", "wrong", "length alone", "other task", "own called other", "others called other"]
    return _mean(Table(columns, rows, "Areas under the ROC from features, percent", [
        "wrong: a step is missing or misordered, by report.score; learned from the normal recordings of two thirds.",
    ]))  # fmt: skip


def _mean(table: Table) -> Table:
    """The table with a row of means under it."""
    last: list[Cell] = ["mean"]
    for place in range(1, len(table.columns)):
        known = [row[place] for row in table.rows if isinstance(row[place], float)]
        last.append(float(np.mean(known)) if known else None)
    return Table(table.columns, [*table.rows, last], table.caption, table.notes)


def main() -> None:
    """Print the tables that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", help="folders of CaptainCook4D")
    parser.add_argument("--quick", action="store_true", help="one recipe, one kitchen")
    parser.add_argument("--jobs", type=int, default=2, help="fits at once, a core each")
    parser.add_argument("--every", type=int, default=4, help="guide: hold out every so many-th recording at once")
    parser.add_argument("--out", type=Path, default=Path("use-out"), help="finished fits of the guide are kept here")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    args = parser.parse_args()
    sources = [(folder, task) for folder in args.data for task in read(folder).tasks if task.graph is not None]
    sources = sources[1:2] if args.quick else sources
    tasks = [task for _, task in sources]
    print(f"stepcut {__version__}, CaptainCook4D, {len(tasks)} recipes, seed 0")
    os.environ.update(OMP_NUM_THREADS="1", NUMBA_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    seeds = KITCHENS[:1] if args.quick else KITCHENS
    toys = [Trial("", f"toy kitchen, {n} videos", seed, n) for n in (8, 16) for seed in seeds]
    recipes = [Trial(folder, task.name, 0) for folder, task in sources]
    with ProcessPoolExecutor(max(args.jobs, 1), mp_context=get_context("spawn")) as pool:
        if "graph" in args.only:
            print(f"\n{graph_table(tasks)}", flush=True)
        if "next" in args.only:
            print(f"\n{next_table(tasks)}", flush=True)
        if "check" in args.only:
            folds = [trial._replace(number=fold) for trial in recipes for fold in range(FOLDS)]
            print(f"\n{check_table(list(pool.map(detect, toys + folds)))}", flush=True)
        if "area" in args.only:
            print(f"\n{area_table(list(pool.map(judge_recipe, recipes)))}", flush=True)
    if "guide" in args.only:
        args.out.mkdir(parents=True, exist_ok=True)
        pairs = [(folder, task.name) for folder, task in sources] + [(FEATURES, FEATURES)]
        todo = [
            c for folder, name in pairs for c in cases(folder, name, str(args.out), "stepcut", 0, False, args.every)
        ]
        found: dict[str, list[dict[str, Any]]] = {name: [] for _, name in pairs}
        for case, records in run(todo, str(args.out), args.jobs):
            found[case.task] += records
        print(f"\n{_mean(guide_table(found, 'stepcut', 0))}", flush=True)


if __name__ == "__main__":
    main()
