"""Judge order, check and guide: `python benchmarks/use.py DATA [MORE] [--only graph next toys recipes] [--draw SEED]`.

DATA and MORE are folders of CaptainCook4D (see `stepcut data info captaincook4d`). `graph` and `next` start from true
step sequences; `toys` and `recipes` (check and guide) from features. Every figure stands
beside something simpler. --draw holds out other fifths of the recordings, which shows how much is luck. --quick shows
that the script runs, not how good anything is.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from shared import add_reduce, reduce_features
from stepcut.order import learn_graph
from stepcut.paper.datasets import Task, load
from stepcut.tables import Cell, Table
from stepcut.version import __version__
from use_check import FOLDS, Trial, judge
from use_figures import (
    area,
    count_edges,
    f1,
    is_wrong,
    next_hits,
    random_task,
    true_edges,
    true_sequence,
    with_ends,
)

PARTS = ("graph", "next", "toys", "recipes")
REDUCED = 160
"""Directions of the features: fewer than all change figures by a point or so, in half of the time."""
KITCHENS = range(100, 106)
"""Seeds of toy kitchens; the rule of the score was chosen on these and on the first five recipes."""
HOWS = (
    "all",
    "normal",
    "all + 3 marked",
    "all + marked",
    "normal + 3 labels",
    "normal + all labels",
    "true labels",
    "same",
)

SURE = (0.0, 0.5, 0.7, 0.9, 1.01)


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


def check_table(results: Sequence[dict[str, Any]]) -> Table:
    """Detection of simulated deviations, and the forecast made when the procedure was learned."""
    kinds = {"normal": "", "half": "missing half", "third": "", "step out": "missing step",
             "exchange": "exchanged steps"}  # fmt: skip
    rows: list[list[Cell]] = []
    shown = [r for r in results if r["planted"] and not r["how"].startswith("all")]
    within: list[bool] = []
    for name in dict.fromkeys((r["trial"].task, r["how"]) for r in shown):
        mine = [r for r in results if (r["trial"].task, r["how"]) == name and r["planted"]]
        task = name[0] + (", true labels" if name[1] == "true labels" else "")
        cells: list[Cell] = [task, _share([r["learned"] for r in mine])]
        for kind, forecast in kinds.items():
            cells.append(
                100 * _share([hit for r in mine for what, hit in r["planted"] if what == kind])
            )
            if forecast:
                said = [r for r in mine if forecast in r["forecast"]]
                low, high = (_share([r["ranges"][forecast][side] for r in said]) for side in (0, 1))
                within += [low <= float(cells[-1]) / 100 <= high] if said else []
                cells.append(100 * _share([r["forecast"][forecast] for r in said]))
        rows.append(cells)
    columns = [
        "task",
        "videos",
        "false alarms",
        "half",
        "(forecast)",
        "third",
        "step out",
        "(forecast)",
        "exchange",
        "(forecast)",
    ]
    return Table(columns, rows, "Check: percent with an alarm, at 5 % requested false alarms", [
        "The rate of false alarms is at least 1 / (videos + 1); (forecast): made when learning.",
        f"The detection rate is inside its 90 % interval in {sum(within)} of {len(within)} cases.",
    ])  # fmt: skip


def marked_table(results: Sequence[dict[str, Any]]) -> Table:
    """Detection of simulated deviations if training recordings contain mistakes, all recipes."""
    rows: list[list[Cell]] = []
    for how in dict.fromkeys(r["how"] for r in results if r["planted"] and r["trial"].source):
        mine = [r for r in results if r["how"] == how]
        planted = [one for r in mine for one in r["planted"]]
        kinds = ("normal", "half", "third", "step out", "exchange")
        odd = [100 * _share([one for r in mine for one in r["odd"][:count]]) for count in (1, None)]
        rows.append(
            [
                how,
                *(100 * _share([hit for what, hit in planted if what == kind]) for kind in kinds),
                *odd,
            ]
        )
    columns = [
        "learned from",
        "false alarms",
        "half",
        "third",
        "step out",
        "exchange",
        "most unusual wrong",
        "inspected wrong",
    ]
    return Table(columns, rows, "Check: percent with an alarm, if training recordings contain mistakes", [
        "marked: recordings with mistakes are excluded; 3 marked: those among the three most unusual ones.",
        "most unusual, inspected: share of the most unusual, and of all inspected recordings, with mistakes.",
    ])  # fmt: skip


def area_table(results: Sequence[dict[str, Any]], hows: Sequence[str]) -> Table:
    """The ROC of the check on recordings with annotated mistakes, by what was learned from."""
    rows: list[list[Cell]] = []
    for name in dict.fromkeys(r["trial"].task for r in results if r["trial"].source):
        cells: list[Cell] = [name]
        for key, how in [*(("score", how) for how in hows), ("short", "same")]:
            known = _records(results, how, name)
            one = area([record[key] for record in known], [record["wrong"] for record in known])
            cells.append(None if np.isnan(one) else one)
        rows.append(cells)
    return _mean(Table(["recipe", *hows, "length alone"], rows, "Areas under the ROC from features, percent", [
        "a step is missing or misordered, by report.score; held out: a fifth of the recordings at a time.",
    ]))  # fmt: skip


def alarm_table(results: Sequence[dict[str, Any]], hows: Sequence[str]) -> Table:
    """How many recordings are called wrong, of normal ones and of those with mistakes; whether the time is right."""
    rows: list[list[Cell]] = []
    for how in hows:
        known = _records(results, how)
        alarms = [[r["alarm"] for r in known if r["wrong"] is wrong] for wrong in (False, True)]
        dated = [r for r in known if r["wrong"] and r["alarm"] and "near" in r]
        near = [100 * _share([r[key] for r in dated]) for key in ("near", "near by chance")]
        promised = _share([r["promised"] for r in known])
        swapped, named = (
            sum(r[key] for r in known) for key in ("order errors", "order errors named")
        )
        cells: list[Cell] = [100 * x for x in (promised, *map(_share, alarms))]
        rows.append([how, *cells, len(dated), *near, swapped, 100 * named / max(swapped, 1)])
    columns = ["learned from", "promised", "normal called wrong", "wrong found", "true alarms with a time", "near",
               "by chance", "order errors", "named"]  # fmt: skip
    return Table(columns, rows, "Recordings called wrong, percent", [
        "near: the first time named lies within 10 s of a missing or misordered step; by chance: any other time of the",
        "video would, as often; order errors: steps annotated as done out of order, and how many the check names so.",
    ])  # fmt: skip


def other_table(results: Sequence[dict[str, Any]]) -> Table:
    """Recordings of other recipes against held-out ones of this, by the distance from the task."""
    rows: list[list[Cell]] = []
    for how, name in dict.fromkeys((r["how"], r["trial"].task) for r in results if r["others"]):
        folds = [r for r in results if (r["how"], r["trial"].task) == (how, name) and r["others"]]
        parts = [([record["distance"] for record in r["records"]], r["others"]) for r in folds]
        areas = [
            area(own + others, [False] * len(own) + [True] * len(others)) for own, others in parts
        ]
        mean = float(np.average(areas, weights=[len(own) * len(others) for own, others in parts]))
        called = [
            100 * _share([one > 1 for part in side for one in part])
            for side in zip(*parts, strict=True)
        ]
        rows.append([how, name, mean, *called])
    columns = ["learned from", "recipe", "area", "own called other", "others called other"]
    return Table(columns, rows, "Another task, percent", [
        "area: how often a recording of another recipe is farther from the task than one of this recipe, both judged by",
        "one procedure; the limit varies from fold to fold, so distances by several are not compared.",
    ])  # fmt: skip


def guide_table(results: Sequence[dict[str, Any]]) -> Table:
    """The guide on held-out recordings, beside the segmentation of the whole recording."""
    rows: list[list[Cell]] = []
    for name in dict.fromkeys(r["trial"].task for r in results if r["trial"].source):
        known, calm = _records(results, "all", name), _records(results, "normal", name)
        right = [
            100 * _share([record[key] for record in known]) for key in ("guide right", "cut right")
        ]
        alarms = [record["guide alarms"] > 0 for record in calm if not record["wrong"]]
        rows.append([name, *right, None if not alarms else 100 * _share(alarms)])
    return _mean(Table(["recipe", "guide right", "cut right", "normal with an alarm"], rows, "The guide, percent", [
        "right: of seconds that belong to a step, after the matching of the videos learned from (all others);",
        "an alarm: of normal held-out recordings, learned from normal ones.",
    ]))  # fmt: skip


def sure_table(results: Sequence[dict[str, Any]]) -> Table:
    """How often the guide is right, by its confidence."""
    sure, right = np.concatenate(
        [np.empty((0, 2)), *(r["seconds"] for r in _records(results, "all"))]
    ).T
    rows: list[list[Cell]] = []
    for low, high in pairwise(SURE):
        there = (sure >= low) & (sure < high)
        rows.append(
            [f"{low:.1f} to {min(high, 1.0):.1f}", int(there.sum()), 100 * _share(right[there])]
        )
    return Table(["confidence", "seconds", "right"], rows, "The guide's confidence, percent right", [
        "seconds that belong to a step, of held-out recordings; learned from all others.",
    ])  # fmt: skip


def _records(
    results: Sequence[dict[str, Any]], how: str, task: str | None = None
) -> list[dict[str, Any]]:
    chosen = [r for r in results if r["how"] == how and task in (None, r["trial"].task)]
    return [record for r in chosen for record in r["records"]]


def _share(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _mean(table: Table) -> Table:
    """The table with a row of means under it."""
    last: list[Cell] = ["mean"]
    for place in range(1, len(table.columns)):
        known = [row[place] for row in table.rows if isinstance(row[place], float)]
        last.append(float(np.mean(known)) if known else None)
    return Table(table.columns, [*table.rows, last], table.caption, table.notes)


def main() -> None:
    """Print the tables that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="+", type=Path, help="folders of CaptainCook4D")
    parser.add_argument("--quick", action="store_true", help="one recipe, one kitchen")
    parser.add_argument(
        "--kitchens", type=int, nargs=2, metavar=("FIRST", "LAST"), help="seeds of toy kitchens"
    )
    parser.set_defaults(kitchens=(KITCHENS[0], KITCHENS[-1]))
    parser.add_argument("--jobs", type=int, default=2, help="fits at once, a core each")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument(
        "--draw", type=int, default=0, metavar="SEED", help="which recordings are held out together"
    )
    parser.add_argument(
        "--learned-from",
        nargs="+",
        choices=HOWS,
        default=HOWS,
        metavar="HOW",
        help="see use_check.py",
    )
    add_reduce(parser, REDUCED)
    args = parser.parse_args()
    folders = map(str, reduce_features(args.data, args.reduce))
    sources = [
        (folder, task)
        for folder in folders
        for task in load("captaincook4d", folder)
        if task.graph is not None
    ]
    sources = sources[1:2] if args.quick else sources
    tasks = [task for _, task in sources]
    how = f"seed 0, draw {args.draw}" + (f", {args.reduce} directions" if args.reduce else "")
    print(f"stepcut {__version__}, CaptainCook4D, {len(tasks)} recipes, {how}")
    os.environ.update(
        OMP_NUM_THREADS="1", NUMBA_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1"
    )
    seeds = range(args.kitchens[0], args.kitchens[0 if args.quick else 1] + 1)
    toys = [
        Trial("", f"toy kitchen, {n} videos", (f"{n} videos",), seed)
        for n in (4, 8, 16)
        for seed in seeds
    ]
    groups = [
        tuple(how for how in args.learned_from if how.split()[0] == kind)
        for kind in ("all", "normal", "true", "same")
    ]
    folds = [
        (hows, f)
        for hows in groups
        if hows
        for f in range(1 if args.quick or hows[0] == "same" else FOLDS)
    ]
    recipes = [
        Trial(folder, task.name, hows, fold, args.draw)
        for hows, fold in folds
        for folder, task in sources
    ]
    if "graph" in args.only:
        print(f"\n{graph_table(tasks)}\n\n{random_table()}", flush=True)
    if "next" in args.only:
        print(f"\n{next_table(tasks)}", flush=True)
    todo = (toys if "toys" in args.only else []) + (recipes if "recipes" in args.only else [])
    with ProcessPoolExecutor(max(args.jobs, 1), mp_context=get_context("spawn")) as pool:
        results = []
        for number, (trial, found) in enumerate(zip(todo, pool.map(judge, todo), strict=True), 1):
            results += found
            print(
                f"{number} of {len(todo)}: {trial.task}, {', '.join(trial.hows)}, {trial.fold}",
                file=sys.stderr,
            )
    if results:
        print(f"\n{check_table(results)}", flush=True)
    if "recipes" in args.only:
        for table in (
            marked_table(results),
            area_table(results, [how for how in args.learned_from if "marked" not in how]),
            alarm_table(results, args.learned_from),
            other_table(results),
            guide_table(results),
            sure_table(results),
        ):
            print(f"\n{table}", flush=True)


if __name__ == "__main__":
    main()
