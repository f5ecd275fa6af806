"""Write reports/recipes.md and reports/peers.md: methods on CaptainCook4D, without labels.

    python benchmarks/recipes.py DATA [MORE] --keep recipes.jsonl [--seeds 2]

DATA and MORE are folders as in `stepcut data info captaincook4d`, with features. Every figure is
kept in the `--keep` file, so a second call resumes. The figures of other authors' code in `PEERS`
were measured outside this repository.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from shared import BUILT_ON, REPORTS, Kept, Recipe, arguments, head, recipes
from stepcut.evaluation import score
from stepcut.methods import METHODS
from stepcut.methods.arithmetic import strongest_directions
from stepcut.tables import Spread, Table

ROWS = ("stepcut", "random", "one-cluster", "uniform", "kmeans", "asot")
DIRECTIONS = 96
DATA = "CaptainCook4D features, one row per second"
PEERS = (
    ("**stepcut 0.2.0**", "default method, two seeds", "**44.7**", "**46.9**", ""),
    ("ASOT (CVPR 2024)", "mingu6/action_seg_ot 0c4c86b; Desktop Assembly / 50Salads preset", "34.5", "31.0", "46.0 / 42.0"),
    ("TW-FINCH (CVPR 2021), joined across videos by Hungarian matching (our addition)",
     "ssarfraz/FINCH-Clustering b181669", "29.8", "31.5", "41.4 / 42.6"),
    ("TOT (CVPR 2022), 1,500 epochs", "trquhuytin/TOT-CVPR22 428ce66; Breakfast preset", "28.4", "28.6", "39.2 / 39.0"),
    ("uniform baseline", "", "25.4", "27.4", "32.5 / 34.4"),
    ("HVQ (AAAI 2025)", "FedeSpu/HVQ c511dfb; Breakfast settings", "23.1", "24.6", "34.9 / 36.9"),
    ("k-means", "", "22.7", "20.8", ""),
    ("CTE (CVPR 2019)", "Annusha/unsup_temp_embed 2fd98b4; YTI preset with its background model",
     "21.0", "24.9", "33.1 / 33.5"),
    ("random", "", "6.8", "7.2", ""),
)  # fmt: skip
"""System, code, `strict` F1 on image and clip features, MoF over frames of steps."""

PEERS_REPORT = """# stepcut beside its peers

{head}

CaptainCook4D, `strict` F1 in percent, one matching per recipe, K = the annotated number of steps. Features:
{directions} principal directions of `pe_core_b16` (image) and `omnivore` (clip), one row per second.

## Measured with the authors' code, outside this repository

Means over test recipes: image 10, 13, 15, 17, 18; clip 3, 4, 5, 7, 10, 13, 17, 18, 21, 22, 27.
November 2026. Each peer ran its released core algorithm with the loaders and scoring of this package. No peer
used labels. Presets were tuned on recipes 1, 8, 9, 12, 16. One seed for peers, two for stepcut 0.2.0.

| method | code | image | clip | MoF over steps, image / clip |
|---|---|--:|--:|--:|
{peers}

TW-FINCH matched to the labels separately in every video, as its paper does, scores 50.3 / 49.5 MoF. Per-video
matching is a different and much easier task.

**Caveats.** The peers were built for other data sets, and their presets were not changed. They ran once.
Not runnable from public code: CLOT (no training loop), HiERO (weights not released with the code), OPEL, RGWOT,
GPL, STEPs (no code found). Not run for lack of time: VASOT, UFSA.

## Run by this package

Same features, K and scoring, but only the test recipes with available features; mean ± standard deviation over
seeds. These rows are comparable with each other, not with the table above. `asot` is the decoding of ASOT around
k-means centres on untrained features, without the network that its authors train.

{ours}"""
RECIPES_REPORT = """# Recipes: steps discovered without labels

{head}

`strict` F1 in percent, K = the annotated number of steps. Tuning recipes: 1, 8, 9, 12, 16; the others are test
recipes.

{ours}"""


def measure(row: str, recipe: Recipe, seed: int, directions: int) -> dict[str, float]:
    """F1 of a method, on all features or on their principal `directions`."""
    rows = [video.astype(np.float64) for video in recipe.rows]
    if directions:
        middle = np.concatenate(rows).mean(axis=0)
        centred = [video - middle for video in rows]
        axes, _ = strongest_directions(centred, directions)
        rows = [video @ axes for video in centred]
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
    pages = {
        "recipes": RECIPES_REPORT.format(head=top, ours=table(found, kept, given.seeds).markdown()),
        "peers": PEERS_REPORT.format(
            head=top,
            directions=DIRECTIONS,
            peers="\n".join(f"| {' | '.join(row)} |" for row in PEERS),
            ours=table(test, kept, given.seeds, DIRECTIONS).markdown(),
        ),
    }
    for name, text in pages.items():
        (REPORTS / f"{name}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
