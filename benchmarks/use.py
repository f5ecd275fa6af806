"""Judge order and use: `python benchmarks/use.py DATA [--quick] [--method cnc] [--only graph next check ...]`.

DATA is the folder of CaptainCook4D (see `stepcut data info captaincook4d`). Parts `graph`, `next` and `check` start
from the true step sequences; `features` and `guide` from features, cut by a method that has seen no label; `flaws`,
`found` and `toy` need no data. Every figure stands beside something simpler. --quick takes one recipe and few training
steps: it shows that the script runs, not how good anything is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from stepcut.checking.calibrate import learn_expectations
from stepcut.checking.check import check_labels
from stepcut.datasets.captaincook4d import read
from stepcut.datasets.task import Task
from stepcut.evaluation import score
from stepcut.methods import METHODS, leave_one_out_novelty
from stepcut.order import graph_of_labels, learn_graph, sequence
from stepcut.tables import Cell, Table
from stepcut.version import __version__
from use_figures import (
    Labels,
    Tally,
    area,
    backbone_of,
    count_edges,
    f1,
    is_wrong,
    next_hits,
    reports,
    suspicions,
    tally_checks,
    true_edges,
    true_labels,
    true_sequence,
    with_ends,
)
from use_flaws import flaws_table, interval
from use_found import found_table
from use_guide import FEATURES, FILMED, cases, guide_table, run, trust_table

PARTS = ("graph", "next", "check", "flaws", "features", "other", "found", "guide", "toy")


def graph_table(tasks: Sequence[Task]) -> Table:
    """Edge F1 on true sequences."""

    @cache
    def walks(name: str, clean: bool) -> list[list[int]]:
        task = next(task for task in tasks if task.name == name)
        return [true_sequence(task, video) for video in task if not (clean and is_wrong(video))]

    def everything(task: Task) -> list[list[int]]:
        return walks(task.name, False)

    rows: list[list[Cell]] = []
    for task in tasks:
        true, every, clean = true_edges(task), everything(task), walks(task.name, True)
        ours = learn_graph(every).edges
        figures = [
            f1(ours, true),
            f1(learn_graph(clean).edges, true),
            f1(with_ends(ours, range(len(task.steps))), with_ends(true, range(len(task.steps)))),
            f1(count_edges(every, len(task.steps), 0.5), true),
            f1(count_edges(every, len(task.steps), 1.0), true),
            f1(count_edges(clean, len(task.steps), 1.0), true),
        ]
        rows.append([task.name, len(every), len(clean), *figures])
    columns = ["recipe", "videos", "clean", "ours", "ours clean", "with ends", "most", "all", "all clean"]
    return _mean(Table(columns, rows, "The procedure graph from true sequences, edge F1 in percent", [
        "ours: all recordings, errors included;",
        "clean: recordings without a missing or misordered step; with ends: START and END edges counted as well;",
        "most, all: the baseline that counts who came first, in most or in all videos that do both.",
    ]))  # fmt: skip


def next_table(tasks: Sequence[Task]) -> Table:
    """Top-1 and top-3 of the next step."""
    rows: list[list[Cell]] = []
    for task in tasks:
        hits = next_hits(task)
        rows.append([task.name, *hits["ours"], *hits["most frequent next"]])
    columns = ["recipe", "ours top-1", "ours top-3", "frequent top-1", "frequent top-3"]
    note = "Leaving one recording out; frequent: the step that most often followed the last one."
    return _mean(Table(columns, rows, "The next step from true sequences, percent right", [note]))


def check_table(tasks: Sequence[Task]) -> Table:
    """Precision and recall of missing and order errors on true sequences."""
    rows: list[list[Cell]] = []
    for rate in (0.05, 0.1, 0.2):
        names = [f"{what}, by {unit}" for unit in ("step", "recording") for what in ("missing step", "order error")]
        tallies = {
            name: Tally() for name in [*names, "either, by recording", "any alarm on a normal recording", "normal"]
        }
        for task in tasks:
            cuts = {video.name: (true_labels(video), None, None) for video in task}
            tally_checks(task, reports(task, cuts, rate), tallies)
        alarms, normal = tallies.pop("any alarm on a normal recording"), tallies.pop("normal")
        rows += [[f"{rate:.0%}", name, tally.precision, tally.recall] for name, tally in tallies.items()]
        right = [sum(not is_wrong(video) for video in task) for task in tasks]
        # Each of n is tested by what the n - 1 others say, for which no rate below 1 / n can be promised.
        promised = sum(n * max(rate, 1 / n) for n in right) / sum(right)
        said = f"false alarms {interval(alarms.false, normal.hit)}, {alarms.false} of {normal.hit}"
        rows.append([f"{rate:.0%}", f"{said}; promised {promised:.1%}", None, None])
    columns = ["asked for", "what", "precision", "recall"]
    return Table(columns, rows, "Check on true sequences, percent", [
        "Learned from the recordings without missing or misordered steps; each of those is tested by the others.",
    ])  # fmt: skip


def fitted(task: Task, backbone: str, method: str, seed: int, quick: bool) -> Any:
    """A method that has learned from the features of a task, labels unseen."""
    settings: dict[str, Any] = {"train": {"iterations": 20}} if quick and method == "cnc" else {}
    rows = [video.read_features(backbone) for video in task]
    return METHODS[method](steps=len(task.steps), rate=1.0, seed=seed, **settings).fit(rows)


def features_table(tasks: Sequence[Task], method: str, seed: int, quick: bool) -> Table:
    """From features: the graph of found sequences, and the ROC of the check."""
    rows: list[list[Cell]] = []
    for full in tasks:
        backbone = backbone_of(full)
        task = full.with_features(backbone)
        model = fitted(task, backbone, method, seed, quick)
        inputs = [video.read_features(backbone) for video in task]
        found: list[Labels] = model.labels_
        true = [true_labels(v, len(x)) + 1 for v, x in zip(task, inputs, strict=True)]
        result = score(found, true, "strict")
        mapped = [np.where(result.mapped(i) > 0, result.mapped(i) - 1, -1) for i in range(len(found))]
        graph = graph_of_labels({str(i): labels for i, labels in enumerate(mapped)}, 1.0)
        counted = count_edges([sequence(labels) for labels in mapped], len(task.steps), 0.5)
        shares, strange = model.memberships(inputs), model.novelty(inputs)
        cuts = {v.name: cut for v, cut in zip(task, zip(found, shares, strange, strict=True), strict=True)}
        said = suspicions(task, cuts)
        wrong = [is_wrong(video) for video in task]
        lengths = [-float(len(x)) for x in inputs]
        rows.append([
            task.name, backbone, result.f1, f1(graph.edges, true_edges(task)), f1(counted, true_edges(task)),
            area([said[video.name][0] for video in task], wrong),
            area([said[video.name][1] for video in task], wrong), area(lengths, wrong), 50.0,
        ])  # fmt: skip
        print(f"  {task.name}: done", file=sys.stderr)
    columns = ["recipe", "features", "cut F1", "graph", "most first", "ROC", "ROC +short", "ROC length", "chance"]
    return _mean(Table(columns, rows, f"From features, method {method}, seed {seed}, percent", [
        "cut F1: strict; graph, most first: edge F1 from the found sequences, ours and the counting baseline;",
        "ROC: area for 'a step is missing or misordered' by what is missed or misordered; +short: and what is short;",
        "length: the baseline that suspects the shorter video.",
    ]))  # fmt: skip


def other_table(tasks: Sequence[Task], method: str, seed: int) -> Table:
    """Recordings of other recipes, shown to the procedure of one: are they called wrong, or another task."""
    rows: list[list[Cell]] = []
    for task in tasks:
        backbone = backbone_of(task)
        inside = list(task.with_features(backbone))
        own, seen = inside[::4], [video for place, video in enumerate(inside) if place % 4]
        others = [v for other in tasks if other is not task for v in list(other.with_features(backbone))[:4]]
        inputs = [video.read_features(backbone) for video in seen]
        model = METHODS[method](steps=len(task.steps), rate=1.0, seed=seed).fit(inputs)
        usual = learn_expectations(model.labels_, 1.0, model.memberships(inputs), leave_one_out_novelty(model, inputs))
        cells: list[Cell] = [task.name]
        for videos in (own, others):
            fresh = [video.read_features(backbone) for video in videos]
            cuts = zip(model.predict(fresh), model.memberships(fresh), model.novelty(fresh), strict=True)
            found = [check_labels(labels, 1.0, usual, shares, strange) for labels, shares, strange in cuts]
            wrong, another = [not r.ok for r in found], [not r.ok and r.strange > 0.5 for r in found]
            cells += [100 * float(np.mean(v)) if v else None for v in (wrong, another)]
        rows.append(cells)
        print(f"  {task.name}: done", file=sys.stderr)
    columns = ["recipe", "own: alarm", "own: another task", "others: alarm", "others: another task"]
    return _mean(Table(columns, rows, f"Another recipe, method {method}, seed {seed}, percent of recordings", [
        "own: every fourth recording of the recipe, held out, those with mistakes among them; others: four of each",
        "other recipe; another task: most of the recording is said to match no known step.",
    ]))  # fmt: skip


def guide_tables(sources: Sequence[tuple[str, str]], args: argparse.Namespace) -> list[Table]:
    """Online against offline on recordings that were held out; sources are pairs of data and task."""
    args.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[dict[str, Any]]] = {task: [] for _, task in sources}
    out, settings = str(args.out), (args.method, args.seed, args.quick, args.every)
    todo = [case for source, task in sources for case in cases(source, task, out, *settings)]
    for case, records in run(todo, out, args.jobs):
        found[case.task] += records
    guide = _mean(guide_table(found, args.method, args.seed))
    return [guide, _mean(trust_table(found))] if len(found) > 1 else [guide]


def _mean(table: Table) -> Table:
    """The table with a row of means under it."""
    last: list[Cell] = ["mean"]
    for place in range(1, len(table.columns)):
        cells = [row[place] for row in table.rows]
        last.append(float(np.mean(cells)) if all(isinstance(cell, float) for cell in cells) else None)
    return Table(table.columns, [*table.rows, last], table.caption, table.notes)


def main() -> None:
    """Print the tables that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="the folder of CaptainCook4D")
    parser.add_argument("--quick", action="store_true", help="one recipe, few training steps")
    parser.add_argument("--method", default=next(iter(METHODS)), choices=list(METHODS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--every", type=int, default=0, help="hold out every so many-th recording at once (default: each in turn)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="fits at once, a core each (flaws, found, guide, toy)")
    parser.add_argument("--seeds", type=int, default=16, help="toy kitchens of each kind in `flaws` (default 16)")
    parser.add_argument("--toy", nargs="+", choices=(FEATURES, FILMED), default=(FEATURES, FILMED))
    parser.add_argument("--out", type=Path, default=Path("use-out"), help="finished fits are kept here")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    args = parser.parse_args()
    tasks = [task for task in read(args.data).tasks if task.graph is not None]
    few = tasks[1:2] if args.quick else tasks
    parts = {
        "graph": lambda: graph_table(tasks[1:3] if args.quick else tasks),
        "next": lambda: next_table(few),
        "check": lambda: check_table(few),
        "flaws": lambda: flaws_table(args.method, 2 if args.quick else args.seeds, args.jobs),
        "features": lambda: features_table(few, args.method, args.seed, args.quick),
        "other": lambda: other_table(tasks[1:3] if args.quick else tasks, args.method, args.seed),
        "found": lambda: found_table(args.method, 2 if args.quick else 12, args.jobs),
    }
    print(f"stepcut {__version__}, CaptainCook4D, {len(tasks)} recipes")
    for part in parts:
        if part in args.only:
            print(f"\n{parts[part]()}", flush=True)
    sources = {"guide": [(args.data, task.name) for task in few], "toy": [(toy, toy) for toy in args.toy]}
    for part in sources:
        for table in guide_tables(sources[part], args) if part in args.only else ():
            print(f"\n{table}", flush=True)


if __name__ == "__main__":
    main()
