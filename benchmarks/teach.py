"""The tables of reports/labels.md: what labels of some recordings are worth on the others, and how honest confidences are.

    python benchmarks/teach.py DATA [DATA ...] [--knots FEATURES GESTURES] --keep teach.jsonl [--reduce N] [--draws 5]
    python benchmarks/teach.py DATA --time "clip 1"

DATA is a folder that `stepcut data info captaincook4d` describes, with features. FEATURES is what `stepcut features
--fps 4 -o FEATURES` makes of the knot-tying videos, GESTURES the folder of their labels. Every column is kept in the
`--keep` file as soon as it is known, so a second call goes on where the first was stopped.

The search without labels, from which teaching starts, does not depend on labels: it is run once for every column.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import shared
from shared import BACKBONES, BUILT_ON, GESTURES, SHORT, Kept, add_reduce, gestures, reduce_features
from stepcut import __version__
from stepcut.evaluation import score
from stepcut.features.files import load_features
from stepcut.methods import OPEN, StepCut
from stepcut.methods.constraints import as_constraints
from stepcut.methods.stepcut import method as default
from stepcut.methods.stepcut import teaching
from stepcut.methods.stepcut.forward_backward import forward_backward
from stepcut.methods.stepcut.found import strongest
from stepcut.methods.stepcut.slow_features import centre, principal_directions, smooth
from stepcut.methods.stepcut.suggest import suggest
from stepcut.methods.stepcut.taught import Taught
from stepcut.methods.stepcut.teaching import labelled_videos, match_found, share_right
from stepcut.tables import Table

Labels = NDArray[np.int64]
Floats = NDArray[np.float64]

NUMBERS = (1, 2, 3, 5)
LEVELS = ((0.0, 0.5), (0.5, 0.6), (0.6, 0.7), (0.7, 0.8), (0.8, 0.85), (0.85, 0.95), (0.95, 1.01))


@dataclass
class Column:
    """One task seen by one backbone; labels from 0, -1 is background."""

    key: str
    held: bool
    rate: float
    rows: list[NDArray[np.float32]]
    true: list[Labels]
    steps: int


def recipes(roots: Sequence[Path]) -> Iterator[Column]:
    """The columns of CaptainCook4D, image features first."""
    for recipe in sorted(
        shared.recipes(*roots), key=lambda one: list(BACKBONES).index(one.backbone)
    ):
        seen = np.unique(
            np.concatenate([[0], *recipe.true])
        )  # 0 is background; the others are numbered without gaps
        true = [np.searchsorted(seen, labels) - 1 for labels in recipe.true]
        key = f"{BACKBONES[recipe.backbone]} {SHORT[recipe.name]}"
        yield Column(key, recipe.name not in BUILT_ON, recipe.rate, recipe.rows, true, recipe.steps)


def knots(features: Path, labels: Path) -> Column:
    """The knot-tying videos, from the folders of their features and of their gestures."""
    read = load_features(sorted(features.glob("*.safetensors")))
    true = [
        gestures(labels / f"{one.name}.txt", len(one.rows), float(one.rate)) - 1 for one in read
    ]
    return Column(
        "knots", True, float(read[0].rate), [one.rows for one in read], true, len(GESTURES)
    )


class Bench:
    """One column with what does not depend on labels."""

    def __init__(self, column: Column, seed: int = 0) -> None:
        self.column = column
        settings: dict[str, Any] = {"steps": column.steps, "rate": column.rate, "seed": seed}
        self.without = StepCut(**settings).fit(column.rows)
        centred = [centre(rows) for rows in column.rows]
        light = float(np.median([len(rows) for rows in centred])) / default.LIGHT
        directions = principal_directions(centred, light, teaching.DIRECTIONS)
        self.videos = [rows @ directions for rows in centred]
        self.found = replace(self.without.found_, plane=directions.T @ self.without.found_.plane)

    def taught(self, labelled: Sequence[int]) -> dict[int, Labels]:
        """What the default method, taught by these recordings, finds in the others."""
        model = self.model(labelled)
        return {i: model.predict(self.videos[i]) for i in self.others(labelled)}

    def model(self, labelled: Sequence[int], honest: bool = False) -> Taught:
        """The default method taught by these recordings; `honest` calibrates its confidences too."""
        known, cut, steps, rate = (
            self.known(labelled),
            self.without.labels_,
            self.column.steps,
            self.column.rate,
        )
        learned = teaching.teach(self.videos, rate, cut, known, steps)
        surest = 1.0
        if honest:
            shares = [self.found.probabilities(video) for video in self.videos]
            doubt, right, _ = teaching.calibrate(self.videos, rate, cut, shares, known, steps)
            learned = learned.on_features(np.eye(self.videos[0].shape[1]), doubt)
            surest = share_right(cut, known, steps) if right is None else 1.0
        return Taught(
            learned,
            self.found.renumbered(match_found(cut, known, steps)),
            labelled_videos(known),
            surest,
        )

    def linear(self, labelled: Sequence[int]) -> dict[int, Labels]:
        """Linear discriminant analysis of the labelled recordings alone, then forward-backward as a chain."""
        lesson = teaching.read_lesson(self.known(labelled), self.column.steps)
        rows = [smooth(video, lesson.lasts / 8) for video in self.videos]
        states = np.arange(self.column.steps + 1)
        x = np.concatenate([rows[i] for i in labelled])
        y = np.concatenate([lesson.known[i] for i in labelled])
        hot = (y[:, None] == states).astype(np.float64)
        means = hot.T @ x / np.maximum(hot.sum(axis=0), 1)[:, None]
        within = (x - means[y]).T @ (x - means[y]) / len(x)
        weights = np.linalg.solve(
            within + np.trace(within) / len(within) * np.eye(len(within)), means.T
        )
        bias = np.where(hot.any(axis=0), -0.5 * (means.T * weights).sum(axis=0), -1e6)
        warmth = max(1.0, lesson.lasts / 8)
        return {
            i: strongest(
                forward_backward((rows[i] @ weights + bias) / warmth, lesson.stay),
                self.column.steps,
            )
            for i in self.others(labelled)
        }

    def confidences(self, labelled: Sequence[int]) -> list[list[float]]:
        """(confidence, share of its time that is right, rows) of every segment found in the other recordings."""
        model = self.model(labelled, honest=True)
        found = []
        for i in self.others(labelled):
            cut, share = model.predict(self.videos[i]), model.probabilities(self.videos[i])
            bounds = np.flatnonzero(np.diff(cut, prepend=-9))
            for first, last in zip(bounds, [*bounds[1:], len(cut)], strict=True):
                if cut[first] >= 0:
                    sure = float(share[first:last, cut[first]].mean())
                    right = float((self.column.true[i][first:last] == cut[first]).mean())
                    found.append([sure, right, float(last - first)])
        return found

    def advice(self, number: int) -> list[int]:
        """The recordings that `suggest` names, asked for one at a time as a person would: label, teach, ask again."""
        chosen: list[int] = []
        method = self.without
        for _ in range(number):
            chosen.append(suggest(method.embed(self.column.rows), chosen, 1)[0][0])
            method = StepCut(**self.without.settings())
            method.start_from(self.without)
            method.fit(self.column.rows, as_constraints(self.known(chosen)))
        return chosen

    def known(self, labelled: Sequence[int]) -> list[Labels]:
        true = self.column.true
        return [
            labels if i in labelled else np.full_like(labels, OPEN) for i, labels in enumerate(true)
        ]

    def others(self, labelled: Sequence[int]) -> list[int]:
        return [i for i in range(len(self.column.true)) if i not in labelled]

    def judge(self, cuts: dict[int, Labels]) -> list[float]:
        """strict, named, and strict of no labels on the same recordings."""
        true = [self.column.true[i] + 1 for i in cuts]
        found, before = list(cuts.values()), [self.without.labels_[i] for i in cuts]
        return [
            score(found, true, protocol="strict").f1,
            score(found, true, protocol="named").f1,
            score(before, true, protocol="strict").f1,
        ]


def measure(column: Column, draws: int) -> dict[str, Any]:
    """All rows of one column."""
    bench = Bench(column)
    count = len(column.rows)
    orders = [
        np.random.default_rng(1000 + draw).permutation(count).tolist() for draw in range(draws)
    ]
    advice = bench.advice(max(NUMBERS))
    whole = score(
        bench.without.labels_, [labels + 1 for labels in column.true], protocol="strict"
    ).f1
    figures: dict[str, Any] = {"no labels": [whole]}
    for number in NUMBERS:
        figures[f"{number}"] = np.mean(
            [bench.judge(bench.taught(o[:number])) for o in orders], axis=0
        ).tolist()
        figures[f"{number} linear"] = np.mean(
            [bench.judge(bench.linear(o[:number])) for o in orders], axis=0
        ).tolist()
        figures[f"{number} suggest"] = bench.judge(bench.taught(advice[:number]))
    folds = range(count) if count <= 20 else range(0, count, 3)
    for row, learn in (("all", bench.taught), ("all linear", bench.linear)):
        cuts: dict[int, Labels] = {}
        for i in folds:
            cuts |= learn([j for j in range(count) if j != i])
        figures[row] = bench.judge(cuts)
    figures["segments"] = {
        str(number): [row for order in orders[:2] for row in bench.confidences(order[:number])]
        for number in (1, 3, 5)
    }
    return {"key": column.key, "held": column.held, "version": __version__, "figures": figures}


def tables(results: list[dict[str, Any]]) -> Iterator[Table]:
    """The table of scores, strict and named, and that of confidences."""
    rows = [f"{number}{kind}" for kind in ("", " linear", " suggest") for number in NUMBERS]
    rows = [
        *rows[: len(NUMBERS)],
        "all",
        *rows[len(NUMBERS) : 2 * len(NUMBERS)],
        "all linear",
        *rows[-len(NUMBERS) :],
    ]
    for place, protocol in enumerate(("strict", "named")):
        columns = [
            "labelled",
            *(result["key"] for result in results),
            "chosen",
            "held back",
            "mean",
            "gain",
        ]
        table = Table(
            columns, [], f"{protocol} F1 on the recordings without labels, stepcut {__version__}"
        )
        for row in ["no labels", *rows] if place == 0 else rows:
            grid = np.array([result["figures"][row][place] for result in results])
            held = np.array([result["held"] for result in results])
            before = np.array([result["figures"][row][-1] for result in results])
            means = [
                float(part.mean()) if len(part) else float("nan")
                for part in (grid[~held], grid[held], grid)
            ]
            table.rows.append([row, *grid.tolist(), *means, float((grid - before).mean())])
        yield table
    table = Table(
        ["labelled", "called", "segments", "mean confidence", "time right", "mostly right"],
        [],
        "Confidences",
    )
    for number in ("1", "3", "5"):
        sure, right, _ = np.array(
            [row for r in results for row in r["figures"]["segments"][number]]
        ).T
        for low, high in LEVELS:
            there = (sure >= low) & (sure < high)
            if there.any():
                figures = [float(100 * part[there].mean()) for part in (sure, right, right > 0.5)]
                called = f"{100 * low:.0f} to {100 * min(high, 1):.0f} %"
                table.rows.append([number, called, int(there.sum()), *figures])
    yield table


def time_teaching(column: Column) -> Table:
    """Seconds that teaching takes where the steps were found without labels before."""
    bench = Bench(column)
    title = f"Seconds to teach {column.key}: {len(column.rows)} recordings, stepcut {__version__}"
    table = Table(["labelled", "by the clock", "of processor"], [], title)
    for number in (1, 3, 5):
        method = StepCut(**bench.without.settings())
        method.start_from(bench.without)
        clock, busy = time.perf_counter(), time.process_time()
        method.fit(column.rows, as_constraints(bench.known(range(number))))
        table.rows.append([number, time.perf_counter() - clock, time.process_time() - busy])
    return table


def main() -> None:
    """Measure what is not kept yet, in processes of their own, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--knots", nargs=2, type=Path)
    parser.add_argument("--keep", type=Path, help="a file for what is known")
    parser.add_argument(
        "--time", metavar="COLUMN", help="only how long teaching takes, on this column"
    )
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    add_reduce(parser)
    options = parser.parse_args()
    columns = [
        *recipes(reduce_features(options.data, options.reduce)),
        *([knots(*options.knots)] if options.knots else []),
    ]
    if options.time:
        print(time_teaching(next(column for column in columns if column.key == options.time)))
        return
    if options.keep is None:
        parser.error("--keep is missing")
    kept = Kept(options.keep)
    kept.fill(measure, {column.key: (column, options.draws) for column in columns}, options.workers)
    for table in tables([kept.known[column.key] for column in columns]):
        print(table, end="\n\n")


if __name__ == "__main__":
    main()
