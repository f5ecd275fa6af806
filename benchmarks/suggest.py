"""Is it better to label what `suggest` names than what one draws at random? A table of reports/labels.md.

    python benchmarks/suggest.py DATA [--knots FEATURES GESTURES] --keep suggest.jsonl [--seeds 4] [--first 0]

Folders as for `benchmarks/teach.py`. A single choice of three recordings is good or bad by some three points of F1 by
luck alone, so every column is learned with several seeds, and each is compared with ten draws of its own. `suggest` is
asked for one recording at a time, and the procedure is taught in between, as a person would.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from shared import Kept, add_reduce, arguments, reduce_features
from stepcut import __version__
from stepcut.tables import Table
from teach import Bench, Column, knots, recipes

DRAWS = {1: 4, 3: 10, 5: 4}
"""How many random draws each number of labelled recordings is compared with."""


def measure(column: Column, seed: int) -> dict[str, Any]:
    """F1 (strict, named, strict of no labels on the same recordings) by draws and by `suggest`."""
    bench = Bench(column, seed)
    advice = bench.advice(max(DRAWS))
    figures: dict[str, Any] = {"key": column.key, "seed": seed}
    for number, draws in DRAWS.items():
        seeds = range(1000 + 100 * seed, 1000 + 100 * seed + draws)
        orders = [np.random.default_rng(one).permutation(len(column.rows)) for one in seeds]
        drawn = [bench.judge(bench.taught(order[:number].tolist())) for order in orders]
        figures[f"drawn {number}"] = np.mean(drawn, axis=0).tolist()
        figures[f"suggest {number}"] = bench.judge(bench.taught(advice[:number]))
    return figures


def table(results: list[dict[str, Any]]) -> Table:
    """How far `suggest` is above random draws, by column and in the mean."""
    keys = sorted({result["key"] for result in results})
    rows: list[list[Any]] = []
    for number in DRAWS:
        found = {
            key: [_ahead(result, number) for result in results if result["key"] == key]
            for key in keys
        }
        means = np.array([np.mean(own, axis=0) for own in found.values()])
        names = ("strict", "named", "gain")
        rows += [
            [number, name, *own.tolist(), float(own.mean())]
            for name, own in zip(names, means.T, strict=True)
        ]
    seeds = len({result["seed"] for result in results})
    title = f"`suggest` less random draws, F1, {seeds} seeds, stepcut {__version__}"
    return Table(
        ["labelled", "", *keys, "mean"],
        rows,
        title,
        ["gain: over no labels on the same recordings."],
    )


def _ahead(result: dict[str, Any], number: int) -> list[float]:
    """Strict, named and gain of `suggest` less those of random draws."""
    strict, named, before = np.subtract(
        result[f"suggest {number}"], result[f"drawn {number}"]
    ).tolist()
    return [strict, named, strict - before]


def main() -> None:
    """Measure what is not kept yet, in processes of their own, and print the table."""
    parser = arguments(__doc__)
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--knots", nargs=2, type=Path)
    parser.add_argument("--keep", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=2)
    add_reduce(parser)
    options = parser.parse_args()
    columns = [
        *recipes(reduce_features(options.data, options.reduce)),
        *([knots(*options.knots)] if options.knots else []),
    ]
    kept, seeds = Kept(options.keep), range(options.first, options.first + options.seeds)
    todo = {f"{column.key} {seed}": (column, seed) for seed in seeds for column in columns}
    kept.fill(measure, todo, options.workers)
    print(table(list(kept.known.values())))


if __name__ == "__main__":
    main()
