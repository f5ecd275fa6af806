"""Write reports/recipes.md and reports/peers.md: methods on CaptainCook4D, without labels.

    python benchmarks/recipes.py DATA [MORE] --keep recipes.jsonl [--seeds 2]

DATA and MORE are folders as in `stepcut data info captaincook4d`, with features. Every figure is
kept in the `--keep` file, so a second call resumes. The figures of other authors' code in peers.md
were measured outside this repository.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared import BUILT_ON, REPORTS, Kept, Recipe, arguments, fill, head, recipes, renew_head
from stepcut.evaluation import score
from stepcut.methods import METHODS
from stepcut.methods.arithmetic import strongest_directions
from stepcut.tables import Spread, Table

ROWS = ("stepcut", "random", "one-cluster", "uniform", "kmeans", "asot")
DIRECTIONS = 96
Rows = NDArray[Any]
DATA = "CaptainCook4D features, one row per second"


def principal(given: Sequence[Rows], directions: int = DIRECTIONS) -> list[Rows]:
    rows = [video.astype(np.float64) for video in given]
    if not directions:
        return rows
    middle = np.concatenate(rows).mean(axis=0)
    centred = [video - middle for video in rows]
    axes, _ = strongest_directions(centred, directions)
    return [video @ axes for video in centred]


def measure(row: str, recipe: Recipe, seed: int, directions: int) -> dict[str, float]:
    """F1 of a method, on all features or on their principal `directions`."""
    rows = principal(recipe.rows, directions)
    labels = METHODS[row](recipe.steps, recipe.rate, seed).fit(rows).labels_
    return {"strict": score(labels, recipe.true, clusters=recipe.steps).f1}


def table(found: list[Recipe], kept: Kept, seeds: int, directions: int = 0) -> Table:
    """F1 of all methods by recipe, and means of tuning and of test recipes with their deviation."""
    built = np.array([recipe.name in BUILT_ON for recipe in found])
    image = np.array([recipe.backbone == "pe_core_b16" for recipe in found])
    groups = {"tuning, image": built & image, "tuning, clip": built & ~image}
    groups |= {"test, image": ~built & image, "test, clip": ~built & ~image}
    groups = {name: some for name, some in groups.items() if some.any()}
    made = Table(["", *(recipe.key for recipe in found), *groups], [])
    for row in ROWS:
        grid = np.empty((len(found), seeds))
        for place, seed in np.ndindex(*grid.shape):
            recipe = found[place]
            known = kept.get(
                f"{row} {recipe.key} {seed} {directions}",
                lambda row=row, r=recipe, s=seed: measure(row, r, s, directions),
            )
            grid[place, seed] = known["strict"]
        means = [Spread.of(grid[some].mean(axis=0).tolist()) for some in groups.values()]
        made.rows.append([row, *grid.mean(axis=1).tolist(), *means])
    return made


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--keep", type=Path, default=Path("recipes.jsonl"))
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    found, kept = list(recipes(*given.data)), Kept(given.keep)
    test = [recipe for recipe in found if recipe.name not in BUILT_ON]
    top = head(
        f"0 to {given.seeds - 1}; one for peers", DATA, "python benchmarks/recipes.py DATA MORE"
    )
    tables = {
        "recipes": table(found, kept, given.seeds),
        "peers": table(test, kept, given.seeds, DIRECTIONS),
    }
    for name, made in tables.items():
        page = REPORTS / f"{name}.md"
        text = fill(page.read_text(encoding="utf-8"), {"ours": made.markdown()})
        page.write_text(renew_head(text, top), encoding="utf-8")


if __name__ == "__main__":
    main()
