"""The tables of reports/protocols.md: baselines that ignore the video on EgoProceL annotations,
beside published rows.

    python benchmarks/protocols.py EGOPROCEL_DIR [--write benchmarks/reports/protocols.md]

EGOPROCEL_DIR contains the annotations as in `stepcut data info egoprocel`. Nothing is learned or
tuned; random is the mean of five seeds.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from shared import arguments, fill
from stepcut.evaluation import score
from stepcut.evaluation.clock import CLOCK, put_on_one_clock
from stepcut.evaluation.compare import baseline
from stepcut.paper.datasets import load
from stepcut.paper.datasets.egoprocel import TASKS
from stepcut.paper.experiments.results import read_published
from stepcut.timeline import Timeline

Labels = list[np.ndarray]
Cell = tuple[float, float]
"""F1 and IoU."""

PARTS = list(dict.fromkeys(each["column"] for each in read_published() if each["table"] == "main"))
SEEDS = 5
NUMBERS = (7, 10, 12, 15)
CLOCKS = (0.5, 1, 2, 5, 10)


def published(table: str, row: str, steps: int) -> dict[str, Cell]:
    """Part -> published F1 and IoU (0 if not reported)."""
    wanted = {"table": table, "row": row, "K": str(steps)}.items()
    found = [each for each in read_published() if wanted <= each.items()]
    return {each["column"]: (float(each["F1"]), float(each["IoU"] or 0)) for each in found}


def read_truth(root: str, clock: float = CLOCK) -> dict[str, list[Labels]]:
    """Part -> annotated labels of each of its tasks, at one rate."""
    parts: dict[str, list[Labels]] = {part: [] for part in PARTS}
    for task in load("egoprocel", root):
        true = {name: timeline for name, timeline in task.timelines.items() if len(timeline)}
        blank = {name: Timeline(duration=timeline.end) for name, timeline in true.items()}
        parts[TASKS[task.name].part].append(put_on_one_clock(blank, true, clock).true)
    return parts


def figures(tasks: list[Labels], row: str, steps: int, protocol: str) -> Cell:
    """F1 and IoU of a baseline, mean over tasks and seeds."""
    results = [
        score(baseline(row, true, steps, seed), true, protocol, rate=CLOCK, clusters=steps)
        for true in tasks
        for seed in range(SEEDS if row == "random" else 1)
    ]
    return float(np.mean([r.f1 for r in results])), float(np.mean([r.iou for r in results]))


def line(name: str, cells: Iterable[object]) -> str:
    """A row of a Markdown table; pairs are F1 / IoU."""
    shown = [f"{c[0]:.1f} / {c[1]:.1f}" if isinstance(c, tuple) else str(c) for c in cells]
    return f"| {name} | {' | '.join(shown)} |"


def head(name: str, columns: Iterable[object]) -> list[str]:
    columns = list(columns)
    return [line(name, columns), "|---" * (len(columns) + 1) + "|"]


def with_mean(cells: list[Cell]) -> list[Cell]:
    return [*cells, tuple(np.mean(cells, axis=0))]


def proof(parts: dict[str, list[Labels]]) -> list[str]:
    """The random row, measured and published."""
    ours = [figures(parts[part], "random", 7, "paper") for part in PARTS]
    theirs = published("main", "random", 7)
    mmac = [figures(parts["CMU-MMAC"], "random", k, "paper")[0] for k in NUMBERS]
    known = [published("steps", "random", k)["CMU-MMAC"][0] for k in NUMBERS]
    return [
        *head("F1 / IoU", [*PARTS, "mean"]),
        line("random, K = 7, ours", with_mean(ours)),
        line("random, K = 7, published", with_mean(list(theirs.values()))),
        "",
        *head("F1 of random on CMU-MMAC", [f"K = {k}" for k in NUMBERS]),
        line("ours", (f"{value:.1f}" for value in mmac)),
        line("published", (f"{value:.1f}" for value in known)),
    ]


def clocks(root: str) -> list[str]:
    """How far the random row lies from the published one at other sampling rates."""
    theirs = np.array(list(published("main", "random", 7).values()))[:, 0]
    gaps = []
    for clock in CLOCKS:
        parts = read_truth(root, clock)
        ours = [figures(parts[part], "random", 7, "paper")[0] for part in PARTS]
        gaps.append(f"{np.abs(np.array(ours) - theirs).mean():.2f}")
    name = "mean gap of F1 over the six parts"
    return [*head("", [f"{clock:g} Hz" for clock in CLOCKS]), line(name, gaps)]


def blind(parts: dict[str, list[Labels]]) -> list[str]:
    """The baselines under every protocol."""
    lines = head("F1 / IoU", [*PARTS, "mean"])
    for protocol in ("paper", "paper-per-video", "strict", "framewise", "framewise-steps"):
        for row in ("random", "uniform", "one-cluster"):
            cells = [figures(parts[part], row, 7, protocol) for part in PARTS]
            lines.append(line(f"{row}, `{protocol}`", with_mean(cells)))
    cnc = with_mean(list(published("main", "tc3i + procut", 7).values()))
    return [*lines, line("the paper's method, published (`paper`)", cnc)]


def fewer(parts: dict[str, list[Labels]]) -> list[str]:
    """Uniform with few and with many clusters."""
    numbers = (1, 2, 3, 5, 7, 10, 15)
    lines = head("uniform, mean over the six parts", ["K = 1", *numbers[1:]])
    for protocol in ("paper", "strict"):
        each = [[figures(parts[p], "uniform", k, protocol) for p in PARTS] for k in numbers]
        means = [tuple(np.mean(cells, axis=0)) for cells in each]
        lines.append(line(f"`{protocol}`, F1 / IoU", means))
    return lines


def main() -> None:
    """Print the tables, or write them into a page."""
    parser = arguments(__doc__)
    parser.add_argument("data", help="folder of the EgoProceL annotations")
    parser.add_argument("--write", type=Path, help="page with marks for the tables")
    args = parser.parse_args()
    parts = read_truth(args.data)
    made_of = {
        "proof": proof(parts),
        "clocks": clocks(args.data),
        "blind": blind(parts),
        "fewer": fewer(parts),
    }
    tables = {name: "\n".join(lines) for name, lines in made_of.items()}
    if args.write:
        args.write.write_text(fill(args.write.read_text(), tables))
    else:
        print("\n\n".join(f"{name}\n{text}" for name, text in tables.items()))


if __name__ == "__main__":
    main()
