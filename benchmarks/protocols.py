"""The tables of reports/protocols.md: baselines that ignore the video on EgoProceL annotations,
beside published rows.

    python benchmarks/protocols.py EGOPROCEL_DIR [--write benchmarks/reports/protocols.md] [--quick]

EGOPROCEL_DIR contains the annotations as in `stepcut data info egoprocel`. Nothing is learned or
tuned; random is the mean of five seeds.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import shared
from shared import arguments
from stepcut.evaluation import score
from stepcut.evaluation.clock import CLOCK, put_on_one_clock
from stepcut.evaluation.compare import baseline
from stepcut.paper.datasets import load
from stepcut.paper.datasets.egoprocel import TASKS
from stepcut.paper.experiments.results import read_published
from stepcut.timeline import Timeline
from stepcut.version import __version__

Labels = list[np.ndarray]

PARTS = list(dict.fromkeys(each["column"] for each in read_published() if each["table"] == "main"))
NUMBERS = (7, 10, 12, 15)
CLOCKS = (0.5, 1, 2, 5, 10)


def published(table: str, row: str, steps: int) -> dict[str, tuple[float, float]]:
    """Part -> published F1 and IoU (0 if not reported)."""
    wanted = {"table": table, "row": row, "K": str(steps)}
    found = [
        each
        for each in read_published()
        if all(each[key] == value for key, value in wanted.items())
    ]
    return {each["column"]: (float(each["F1"]), float(each["IoU"] or 0)) for each in found}


def read_truth(root: str, clock: float = CLOCK) -> dict[str, list[Labels]]:
    """Part -> annotated labels of each of its tasks, at one rate."""
    parts: dict[str, list[Labels]] = {part: [] for part in PARTS}
    for task in load("egoprocel", root):
        true = {name: timeline for name, timeline in task.timelines.items() if len(timeline)}
        blank = {name: Timeline(duration=timeline.end) for name, timeline in true.items()}
        parts[TASKS[task.name].part].append(put_on_one_clock(blank, true, clock).true)
    return parts


def figures(
    tasks: list[Labels], row: str, steps: int, protocol: str, seeds: int = 1
) -> tuple[float, float]:
    """F1 and IoU of a baseline, mean over tasks and seeds."""
    results = [
        score(baseline(row, true, steps, seed), true, protocol, rate=CLOCK, clusters=steps)
        for true in tasks
        for seed in range(seeds)
    ]
    return float(np.mean([r.f1 for r in results])), float(np.mean([r.iou for r in results]))


def line(name: str, cells: list[tuple[float, float] | None]) -> str:
    """A row of a Markdown table: F1 / IoU per part, then their mean."""
    known = [cell for cell in cells if cell is not None]
    mean = tuple(np.mean(known, axis=0)) if len(known) == len(cells) else None
    shown = ["–" if cell is None else f"{cell[0]:.1f} / {cell[1]:.1f}" for cell in [*cells, mean]]
    return f"| {name} | {' | '.join(shown)} |"


def head(*more: str) -> list[str]:
    """The head of a table with one column per part."""
    columns = ["F1 / IoU", *PARTS, "mean", *more]
    return [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]


def proof(parts: dict[str, list[Labels]], seeds: int) -> list[str]:
    """The random row, measured and published."""
    lines = head()
    lines.append(
        line("random, K = 7, ours", [figures(parts[p], "random", 7, "paper", seeds) for p in PARTS])
    )
    lines.append(line("random, K = 7, published", list(published("main", "random", 7).values())))
    lines += [
        "",
        "| F1 of random on CMU-MMAC | K = 7 | K = 10 | K = 12 | K = 15 |",
        "|---|---|---|---|---|",
    ]
    ours = [figures(parts["CMU-MMAC"], "random", k, "paper", seeds)[0] for k in NUMBERS]
    lines.append("| ours | " + " | ".join(f"{value:.1f}" for value in ours) + " |")
    theirs = [published("steps", "random", k)["CMU-MMAC"][0] for k in NUMBERS]
    lines.append("| published | " + " | ".join(f"{value:.1f}" for value in theirs) + " |")
    return lines


def clocks(root: str, seeds: int) -> list[str]:
    """How far the random row lies from the published one at other sampling rates."""
    theirs = np.array(list(published("main", "random", 7).values()))[:, 0]
    gaps = []
    for clock in CLOCKS:
        parts = read_truth(root, clock)
        ours = [figures(parts[p], "random", 7, "paper", seeds)[0] for p in PARTS]
        gaps.append(f"{np.abs(np.array(ours) - theirs).mean():.2f}")
    heads = " | ".join(f"{clock:g} Hz" for clock in CLOCKS)
    return [
        f"| | {heads} |",
        "|---|" + "---|" * len(CLOCKS),
        f"| mean gap of F1 over the six parts | {' | '.join(gaps)} |",
    ]


def blind(parts: dict[str, list[Labels]], seeds: int) -> list[str]:
    """The baselines under every protocol."""
    lines = head()
    for protocol in ("paper", "paper-per-video", "strict", "framewise", "framewise-steps"):
        for row in ("random", "uniform", "one-cluster"):
            count = seeds if row == "random" else 1
            cells = [figures(parts[p], row, 7, protocol, count) for p in PARTS]
            lines.append(line(f"{row}, `{protocol}`", cells))
    cnc = list(published("main", "tc3i + procut", 7).values())
    lines.append(line("the paper's method, published (`paper`)", cnc))
    return lines


def fewer(parts: dict[str, list[Labels]]) -> list[str]:
    """Uniform with few and with many clusters."""
    lines = [
        "| uniform, mean over the six parts | K = 1 | 2 | 3 | 5 | 7 | 10 | 15 |",
        "|---|" + "---|" * 7,
    ]
    for protocol in ("paper", "strict"):
        each = [
            np.mean([figures(parts[p], "uniform", k, protocol) for p in PARTS], 0)
            for k in (1, 2, 3, 5, 7, 10, 15)
        ]
        lines.append(
            f"| `{protocol}`, F1 / IoU | "
            + " | ".join(f"{f1:.1f} / {iou:.1f}" for f1, iou in each)
            + " |"
        )
    return lines


def main() -> None:
    """Print the tables, or write them into a page."""
    parser = arguments(__doc__)
    parser.add_argument("data", help="folder of the EgoProceL annotations")
    parser.add_argument(
        "--write", type=Path, help="page with marks <!-- table NAME --> ... <!-- end -->"
    )
    parser.add_argument("--quick", action="store_true", help="one seed for random instead of five")
    args = parser.parse_args()
    seeds = 1 if args.quick else 5
    parts = read_truth(args.data)
    made = f"(seeds 0 to {seeds - 1} for random, sampled at {CLOCK:g} Hz, stepcut {__version__}, `benchmarks/protocols.py`)"
    made_of = {
        "proof": proof(parts, seeds),
        "clocks": clocks(args.data, seeds),
        "blind": blind(parts, seeds),
        "fewer": fewer(parts),
    }
    tables = {name: "\n".join([*lines, "", made]) for name, lines in made_of.items()}
    if args.write:
        args.write.write_text(
            shared.fill(args.write.read_text(encoding="utf-8"), tables), encoding="utf-8"
        )
    else:
        print("\n\n".join(f"{name}\n{text}" for name, text in tables.items()))


if __name__ == "__main__":
    main()
