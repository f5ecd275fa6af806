"""The tables of reports/recipes.md: methods and parts of the default method, without labels.

    python benchmarks/results.py DATA [MORE] --keep results.jsonl [--seeds 2] [--write]

DATA and MORE are folders as in `stepcut data info captaincook4d`, with features; the constants were
set on the recipes of DATA, so parts are removed on those of MORE. Every figure is kept in the
`--keep` file, so a second call resumes; `--write` fills the report.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from provenance import provenance
from shared import BUILT_ON, REPORTS, Kept, Labels, Recipe, arguments, fill, recipes
from stepcut.evaluation import score
from stepcut.methods import METHODS, StepCut
from stepcut.methods.baselines.kmeans import KMeans, smooth_embedding
from stepcut.tables import Table

HOME = "stepcut.methods.stepcut"
PARTS: dict[str, dict[str, Any]] = {
    "the default": {},
    "one restart, no consensus": {"restarts": 1},
    "half as many restarts": {"restarts": 12},
    "no time prior": {"prior": 0.0},
    "no background": {"background": 0.0},
    "no balance bonus in EM": {"em.BALANCE": 0.0},
    "one Gaussian scale": {"learning.FINE": 4.0},
    "no motion": {"learning.MOTION": 0.0},
    "no whitening of slow axes": {"slow_features.WHITEN": 0.0},
    "hard normalisation": {"slow_features.SOFT": 0.0},
    "narrower Gaussian (PER_STEP 6)": {"learning.PER_STEP": 6, "learning.FINE": 36},
    "noise 4": {"slow_features.NOISE": 4},
    "shrinkage 0.1": {"slow_features.SHRINK": 0.1},
}
"""Settings, and constants `module.NAME`, that each row changes."""


def changed(recipe: Recipe, seed: int, change: dict[str, Any]) -> Labels:
    """Labels of the default method with other settings or constants."""
    settings = {name: value for name, value in change.items() if "." not in name}
    patches = [patch(f"{HOME}.{name}", value) for name, value in change.items() if "." in name]
    for each in patches:
        each.start()
    try:
        method = StepCut(steps=recipe.steps, rate=recipe.rate, seed=seed, **settings)
        return method.fit(recipe.rows).labels_
    finally:
        for each in patches:
            each.stop()


def by_name(name: str) -> Callable[[Recipe, int], Labels]:
    return lambda recipe, seed: (
        METHODS[name](recipe.steps, recipe.rate, seed).fit(recipe.rows).labels_
    )


ROWS: dict[str, Callable[[Recipe, int], Labels]] = {
    **{name: by_name(name) for name in ("random", "one-cluster", "uniform", "kmeans", "asot")},
    "smooth": lambda recipe, seed: (
        KMeans(recipe.steps, seed=seed, normalise=False).fit(smooth_embedding(recipe.rows)).labels_
    ),
    "stepcut": lambda recipe, seed: changed(recipe, seed, {}),
}


def table(
    found: list[Recipe], kept: Kept, rows: dict[str, Callable[[Recipe, int], Labels]], seeds: int
) -> Table:
    """`strict` F1 of rows by recipes, means over seeds, and the deviation over seeds."""
    built = np.array([recipe.name in BUILT_ON for recipe in found])
    groups = {"tuning recipes": built, "test recipes": ~built}
    groups = {name: some for name, some in groups.items() if some.any()}
    made = Table(["", *(recipe.key for recipe in found), *groups, "sd"], [])
    for name, cut in rows.items():
        grid = np.array(
            [
                [
                    kept.get(
                        f"{name} {recipe.key} {seed}",
                        lambda r=recipe, s=seed, cut=cut: {
                            "strict": score(cut(r, s), r.true, clusters=r.steps).f1
                        },
                    )["strict"]
                    for seed in range(seeds)
                ]
                for recipe in found
            ]
        )
        means = grid.mean(axis=1)
        sd = float(grid.std(axis=1, ddof=1).mean()) if seeds > 1 else None
        made.rows.append(
            [name, *means, *(float(means[some].mean()) for some in groups.values()), sd]
        )
    return made


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("more", type=Path, nargs="?", help="test recipes")
    parser.add_argument("--keep", type=Path, default=Path("results.jsonl"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="fill reports/recipes.md")
    given = parser.parse_args()
    found = list(recipes(*filter(None, (given.data, given.more))))
    kept, test = Kept(given.keep), [recipe for recipe in found if recipe.name not in BUILT_ON]
    parts = {
        name: lambda recipe, seed, change=change: changed(recipe, seed, change)
        for name, change in PARTS.items()
    }
    tables = {
        "head": provenance(
            "python benchmarks/results.py DATA MORE --write",
            f"0 to {given.seeds - 1}; parts: 0",
            "CaptainCook4D features, one row per second",
        ),
        "methods": table(found, kept, ROWS, given.seeds).markdown(),
        "parts": table(test, kept, parts, 1).markdown(),
    }
    print("\n\n".join(tables.values()))
    if given.write:
        page = REPORTS / "recipes.md"
        page.write_text(fill(page.read_text(encoding="utf-8"), tables), encoding="utf-8")


if __name__ == "__main__":
    main()
