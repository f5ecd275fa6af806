"""What annotations of some recordings are worth on the others: labels, clicks and transcripts.

    python benchmarks/teach.py [DATA ...] [--knots FEATURES GESTURES] --keep teach.jsonl [--draws 5]

DATA is a folder that `stepcut data info captaincook4d` describes, with features. FEATURES is what
`stepcut features -o FEATURES` makes of the knot-tying videos, GESTURES the folder of their labels.
Every column is kept in the `--keep` file as soon as it is known, so a second call continues where the first stopped.

Annotations are made from the true labels: a click lies anywhere in the middle half of a segment. Scores are of the
recordings without annotations; transcripts are given for all recordings, which have no labels to learn from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import shared
from shared import BACKBONES, BUILT_ON, GESTURES, SHORT, Kept, Recipe, arguments, gestures
from stepcut.evaluation import score
from stepcut.features.features import load_features
from stepcut.methods import StepCut
from stepcut.methods.constraints import Constraint, Transcript
from stepcut.tables import Table
from stepcut.timeline import runs

Labels = NDArray[np.int64]

NUMBERS = (1, 3, 5)


def column(recipe: Recipe) -> Recipe:
    """Labels from 0 without gaps, -1 is background."""
    seen = np.unique(np.concatenate([[0], *recipe.true]))
    return replace(recipe, true=[np.searchsorted(seen, labels) - 1 for labels in recipe.true])


def key(recipe: Recipe) -> str:
    return f"{BACKBONES.get(recipe.backbone, '')} {SHORT[recipe.name]}".strip()


def knots(features: Path, labels: Path) -> Recipe:
    """The knot-tying videos, from the folders of their features and of their gestures."""
    read = load_features(sorted(features.glob("*.safetensors")))
    true = [
        gestures(labels / f"{one.name}.txt", len(one.rows), float(one.rate)) - 1 for one in read
    ]
    rows = [one.rows for one in read]
    return Recipe("", "Knot tying", rows, true, len(GESTURES), float(read[0].rate))


def annotate(kind: str, true: Labels, rng: np.random.Generator) -> Constraint:
    if kind == "labels":
        return Constraint(labels=true)
    segments = [segment for segment in runs(true).tolist() if segment[0] >= 0]
    if kind == "transcripts":
        return Constraint(transcript=Transcript(tuple(step for step, _, _ in segments)))
    places = [
        (int(first + (0.25 + 0.5 * rng.random()) * (last - first)), step)
        for step, first, last in segments
    ]
    return Constraint(clicks=tuple(places))


def figures(column: Recipe, found: dict[int, Labels]) -> list[float]:
    """Strict F1, and F1 with the names that annotations give, of the recordings in `found`."""
    places = sorted(found)
    pairs = [found[place] for place in places], [column.true[place] + 1 for place in places]
    named = [score(*pairs, protocol=protocol).f1 for protocol in ("strict", "named")]
    return [float(one) for one in named]


def measure(column: Recipe, draws: int, seed: int = 0) -> dict[str, Any]:
    settings: dict[str, Any] = {"steps": column.steps, "rate": column.rate, "seed": seed}
    without = StepCut(**settings).fit(column.rows)
    every = range(len(column.rows))

    def segment(kind: str, places: Sequence[int], draw: int, wanted: Sequence[int]) -> Any:
        rng = np.random.default_rng(50 + draw)
        known = {place: annotate(kind, column.true[place], rng) for place in places}
        method = StepCut(**settings)
        method.start_from(without)
        method.fit(column.rows, [known.get(place) for place in every])
        return {place: method.labels_[place] for place in wanted}

    found: dict[str, Any] = {"no annotations": figures(column, dict(enumerate(without.labels_)))}
    for kind in ("labels", "clicks"):
        for number in NUMBERS:
            scores = []
            for draw in range(draws):
                order = np.random.default_rng(1000 + draw).permutation(len(every)).tolist()
                scores.append(figures(column, segment(kind, order[:number], draw, order[number:])))
            found[f"{kind} in {number}"] = np.mean(scores, axis=0).tolist()
        left_out: dict[int, Labels] = {}
        for place in every if len(every) <= 20 else every[::3]:
            others = [other for other in every if other != place]
            left_out |= segment(kind, others, place, [place])
        found[f"{kind} in all others"] = figures(column, left_out)
    found["transcripts of all"] = figures(column, segment("transcripts", every, 0, every))
    return {
        "key": key(column),
        "tuned": column.name in BUILT_ON,
        "figures": found,
    }


def tables(results: list[dict[str, Any]]) -> Iterator[Table]:
    """Scores with the steps matched, and scores by name; `effort.py` has what they cost a person."""
    recipes = np.array([result["key"] != "knots" for result in results])
    tuned = np.array([result["tuned"] for result in results])
    rows = list(results[0]["figures"])
    for place, title in enumerate(("F1, steps matched one to one", "F1, by the annotated names")):
        names = [result["key"] for result in results]
        table = Table(
            ["annotations", *names, "tuning recipes", "test recipes", "all recipes"],
            [],
            f"{title}, on recordings without annotations (transcripts: all recordings); means of recipes",
        )
        grids = {
            row: np.array([result["figures"][row][place] for result in results]) for row in rows
        }
        for row, grid in grids.items():
            if place and row == "no annotations":
                continue
            parts = [float(grid[each].mean()) for each in (tuned, recipes & ~tuned, recipes)]
            table.rows.append([row, *grid.tolist(), *parts])
        yield table


def main() -> None:
    """Measure what is not stored yet, each in its own process, and print the tables."""
    parser = arguments(__doc__)
    parser.add_argument("data", nargs="*", type=Path)
    parser.add_argument("--knots", nargs=2, type=Path)
    parser.add_argument("--keep", type=Path, required=True, help="a file for what is known")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    found = shared.recipes(*options.data)
    columns = [column(one) for one in sorted(found, key=lambda one: one.backbone, reverse=True)]
    columns += [knots(*options.knots)] if options.knots else []
    kept = Kept(options.keep)
    kept.fill(measure, {key(one): (one, options.draws) for one in columns}, options.workers)
    for table in tables([kept.known[key(one)] for one in columns]):
        print(table, end="\n\n")


if __name__ == "__main__":
    main()
