"""What the embedder learns, the table of docs/cnc.md: four losses beside the untrained features and `uniform`.

    python benchmarks/learns.py [--data DIR/captaincook4d] [--seeds 3] [--only NAME ...] [--rows ROW ...] [--csv FILE]

For every task and row: `same step`, the share of the frames of a step whose nearest neighbour in another video is of
the same step; `tau`, Kendall's tau of the alignment, 1 when nearest neighbours come in the order of time; `F1`,
`strict`, after k-means with K = the number of steps. Labels are read to score, never to learn. Without --data: the toy
kitchen alone.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from stepcut.evaluation import score
from stepcut.files.atomic import write_text
from stepcut.methods import METHODS
from stepcut.paper.cnc.embedder import Embedder
from stepcut.paper.cnc.network import centre_and_smooth
from stepcut.paper.datasets import load
from stepcut.tables import Table
from stepcut.timeline import Timeline
from stepcut.toy import toy_features
from stepcut.version import __version__

Rows = list[NDArray[np.float32]]
Labels = list[NDArray[np.int64]]

BACKBONES = ("omnivore", "pe_core_b16")
CHOSE_SETTINGS = {"1 omnivore", "8 omnivore", "12 omnivore", "16 pe_core_b16"}
"""The tasks on which the settings for vectors were chosen; the others were looked at afterwards."""

TRAINED: dict[str, dict[str, Any]] = {
    "tc3i": {},
    "tcc": {"loss": "tcc"},
    "lav": {"loss": "lav"},
    "lav+tcc": {"loss": "lav+tcc"},
    "tc3i, weight=32": {"weight": 32.0},
    "tc3i, temperature=1/128": {"temperature": 1 / 128},
    "lav, weight=0.5": {"loss": "lav", "weight": 0.5},
}
ROWS = ("uniform", "features, untrained", "centred and smoothed", *TRAINED)


@dataclass(frozen=True)
class Given:
    """One task: features at one row a second, and true labels, 0 for background."""

    name: str
    features: Rows
    labels: Labels
    steps: int

    @classmethod
    def make(cls, name: str, features: Rows, timelines: list[Timeline]) -> Given:
        """A task whose timelines all have its steps."""
        pairs = zip(timelines, features, strict=True)
        labels = [timeline.labels(np.arange(len(rows))) + 1 for timeline, rows in pairs]
        return cls(name, features, labels, len(np.unique(np.concatenate(labels))) - 1)


def toy_tasks(quick: bool) -> Iterator[Given]:
    for seed in range(1 if quick else 2):
        yield Given.make(f"toy {seed}", *toy_features(videos=8, seed=seed))


def recipes(root: Path) -> Iterator[Given]:
    for task in load("captaincook4d", root):
        recipe = task.videos[0].name.split("_")[0]
        for backbone in BACKBONES:
            seen = task.with_features(backbone)
            if seen.videos:
                features = [video.read_features(backbone) for video in seen]
                yield Given.make(f"{recipe} {backbone}", features, list(seen.timelines.values()))


def correspond(embedded: Rows, labels: Labels) -> tuple[float, float]:
    """`same step` in percent and `tau`, both the mean over all ordered pairs of videos, by nearest neighbours.

    The first counts frames of a step that the other video has too.
    """
    shares, taus = [], []
    for a, u in enumerate(embedded):
        for b, v in enumerate(embedded):
            if a == b:
                continue
            nearest = ((v**2).sum(1)[None] - 2 * u @ v.T).argmin(1)
            taus.append(kendalltau(np.arange(len(nearest)), nearest).statistic)
            asked = (labels[a] > 0) & np.isin(labels[a], labels[b])
            if asked.any():
                shares.append(float(np.mean(labels[b][nearest[asked]] == labels[a][asked])))
    return 100 * statistics.mean(shares), float(np.nanmean(taus))


def judge(given: Given, embedded: Rows, segmenter: str, seed: int) -> list[float]:
    found = METHODS[segmenter](steps=given.steps, rate=1.0, seed=seed).fit(embedded).labels_
    f1 = score(found, given.labels, protocol="strict").f1
    every = 4  # a quarter of the frames is enough for a share, in a sixteenth of the time
    near = correspond(
        [rows[::every] for rows in embedded], [rows[::every] for rows in given.labels]
    )
    return [*near, f1]


def figures_of(row: str, given: Given, seed: int, quick: bool) -> list[float]:
    """What one row of the table has on one task with one seed."""
    if row == "uniform":
        clock = [
            np.arange(len(rows), dtype=np.float32)[:, None] / len(rows) for rows in given.features
        ]
        return judge(given, clock, "uniform", seed)
    if row == "features, untrained":
        return judge(given, given.features, "kmeans", seed)
    if row == "centred and smoothed":
        prepared = [centre_and_smooth(rows, 1.0, Embedder.of().smooth) for rows in given.features]
        return judge(given, prepared, "kmeans", seed)
    embedder = Embedder.of(seed=seed, **TRAINED[row], **({"iterations": 200} if quick else {}))
    return judge(given, embedder.fit(given.features).transform(given.features), "kmeans", seed)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="the folder of CaptainCook4D")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="tasks by name, such as 'toy 0' '9 omnivore'")
    parser.add_argument(
        "--rows", nargs="+", choices=ROWS, default=ROWS, metavar="ROW", help="of the table, by name"
    )
    parser.add_argument("--csv", type=Path, help="write every figure here")
    parser.add_argument("--quick", action="store_true", help="200 training steps")
    args = parser.parse_args()
    tasks = list(toy_tasks(args.quick)) + (list(recipes(args.data)) if args.data else [])
    figures = Table(["task", "row", "seed", "same step", "tau", "F1"], [])
    for given in tasks:
        if args.only and given.name not in args.only:
            continue
        for name in args.rows:
            seeds = [
                figures_of(name, given, seed, args.quick)
                for seed in range(1 if name == "uniform" else args.seeds)
            ]
            figures.rows += [[given.name, name, seed, *each] for seed, each in enumerate(seeds)]
            mean = np.mean(seeds, axis=0)
            spread = statistics.pstdev([each[2] for each in seeds])
            print(
                f"{given.name:<16} {name:<22} {mean[0]:5.1f} {mean[1]:6.2f} {mean[2]:5.1f} ± {spread:.1f}",
                flush=True,
            )
        if args.csv:
            write_text(args.csv, figures.csv())
    print(f"\n{summary(figures, args.seeds)}")


def summary(figures: Table, seeds: int) -> Table:
    """The mean of each row over the toy kitchen, over the recipes that chose the settings and over the others."""
    groups: dict[str, list[list[Any]]] = {"toy": [], "chosen on": [], "held out": []}
    for line in figures.rows:
        task = str(line[0])
        groups[
            "toy"
            if task.startswith("toy")
            else "chosen on"
            if task in CHOSE_SETTINGS
            else "held out"
        ].append(line)
    table = Table(
        ["row"], [[name] for name in dict.fromkeys(str(line[1]) for line in figures.rows)]
    )
    for group, lines in groups.items():
        if lines:
            table.columns += [f"{group}: same step", "tau", "F1"]
            for row in table.rows:
                mine = [line[3:] for line in lines if line[1] == row[0]]
                row += [float(x) for x in np.mean(np.array(mine, float), axis=0)]
    table.digits = 2
    table.caption = f"strict, K = number of steps, {seeds} seeds, stepcut {__version__}"
    return table


if __name__ == "__main__":
    main()
