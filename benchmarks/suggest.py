"""Compare labelling the recordings of `suggest` with random ones.

    python benchmarks/suggest.py DATA [--knots FEATURES GESTURES] --keep suggest.jsonl [--seeds 4]
        [--first 0]

Folders as for `benchmarks/teach.py`. Three random recordings vary by about three points of F1 by
chance. Every column is therefore learned with several seeds, and each is compared with ten draws.
`suggest` selects one recording at a time, with `teach` in between, as a person works.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from shared import Kept, arguments, report
from stepcut import __version__
from stepcut.methods import StepCut
from stepcut.methods.constraints import Constraint
from stepcut.methods.similar import suggest
from stepcut.tables import Table
from teach import Column, figures, knots, recipes

DRAWS = {1: 4, 3: 10, 5: 4}
"""Random draws for each number of labelled recordings."""


def measure(column: Column, seed: int) -> dict[str, Any]:
    """F1 (strict, named, strict without labels on the same recordings) for draws and for `suggest`."""
    without = StepCut(steps=column.steps, rate=column.rate, seed=seed).fit(column.rows)
    every = range(len(column.rows))

    def teach(labelled: list[int]) -> StepCut:
        method = StepCut(**without.settings())
        method.start_from(without)
        known = [Constraint(labels=column.true[place]) for place in every]
        return method.fit(column.rows, [known[i] if i in labelled else None for i in every])

    def judge(labelled: list[int]) -> list[float]:
        others = [place for place in every if place not in labelled]
        found = teach(labelled).labels_
        before = figures(column, {place: without.labels_[place] for place in others})[0]
        return [*figures(column, {place: found[place] for place in others}), before]

    advice: list[int] = []
    for _ in range(max(DRAWS)):
        method = teach(advice) if advice else without
        views = [method.read(one).embedding for one in column.rows]
        advice.append(suggest(views, advice, 1)[0][0])
    found: dict[str, Any] = {"key": column.key, "seed": seed}
    for number, draws in DRAWS.items():
        seeds = range(1000 + 100 * seed, 1000 + 100 * seed + draws)
        orders = [np.random.default_rng(one).permutation(len(every)).tolist() for one in seeds]
        drawn = [judge(order[:number]) for order in orders]
        found[f"drawn {number}"] = np.mean(drawn, axis=0).tolist()
        found[f"suggest {number}"] = judge(advice[:number])
    return found


def table(results: list[dict[str, Any]]) -> Table:
    """Gain of `suggest` over random draws, by column and on average."""
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
    title = f"`suggest` minus random draws, F1, {seeds} seeds, stepcut {__version__}"
    return Table(
        ["labelled", "", *keys, "mean"],
        rows,
        title,
        ["gain: difference to no labels on the same recordings."],
    )


def _ahead(result: dict[str, Any], number: int) -> list[float]:
    """Strict, named and gain of `suggest` minus those of random draws."""
    strict, named, before = np.subtract(
        result[f"suggest {number}"], result[f"drawn {number}"]
    ).tolist()
    return [strict, named, strict - before]


def main() -> None:
    """Measure what is missing, in separate processes, and print the table."""
    parser = arguments(__doc__)
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--knots", nargs=2, type=Path)
    parser.add_argument("--keep", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    columns = [
        *recipes(options.data),
        *([knots(*options.knots)] if options.knots else []),
    ]
    kept, seeds = Kept(options.keep), range(options.first, options.first + options.seeds)
    todo = {f"{column.key} {seed}": (column, seed) for seed in seeds for column in columns}
    kept.fill(measure, todo, options.workers)
    with report(__file__):
        print(table(list(kept.known.values())))


if __name__ == "__main__":
    main()
