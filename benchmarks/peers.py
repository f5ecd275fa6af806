"""Write benchmarks/reports/peers.md: `python benchmarks/peers.py DATA...`, folders of
CaptainCook4D.

The figures of other authors' code were measured outside this repository and are stored here. The
rows that this package can run use the same recipes, features, K and scoring.
"""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from provenance import provenance
from stepcut.evaluation.score import score
from stepcut.methods import METHODS
from stepcut.methods.arithmetic import strongest_directions
from stepcut.paper.datasets import Task, load
from stepcut.version import __version__

OURS = ("stepcut", "random", "uniform", "one-cluster", "kmeans", "asot")
DIRECTIONS = 96
RECIPES = {
    "pe_core_b16": (10, 13, 15, 17, 18),
    "omnivore": (3, 4, 5, 7, 10, 13, 17, 18, 21, 22, 27),
}
"""Test recipes of each kind of features; presets were tuned on 1, 8, 9, 12 and 16."""

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

REPORT = """# stepcut beside its peers

{provenance}

CaptainCook4D, `strict` F1 in percent, one matching per recipe, K = the annotated number of steps. Features:
{directions} principal directions of `pe_core_b16` (image) and `omnivore` (clip), one row per second.

## Measured with the authors' code, outside this repository

Means over test recipes: image {image}; clip {clip}.
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

`python benchmarks/peers.py DATA...`, stepcut {version}, {date}, seeds {seeds}, mean ± standard deviation over seeds.
Same features, K and scoring, but only the recipes with available features: image {found_image}; clip {found_clip}.
These rows are comparable with each other, not with the table above. `asot` is the decoding of ASOT around k-means
centres on untrained features, without the network that its authors train.

| method | image | clip |
|---|--:|--:|
{ours}
"""


def number(task: Task) -> int:
    """Number of a recipe: the prefix of its recordings."""
    return int(task.videos[0].name.split("_")[0])


def reduce(videos: list[NDArray[Any]]) -> list[NDArray[np.float64]]:
    """Project all rows of a recipe onto principal directions."""
    middle = np.concatenate(videos).mean(axis=0, dtype=np.float64)
    centred = [rows.astype(np.float64) - middle for rows in videos]
    directions, _ = strongest_directions(centred, DIRECTIONS)
    return [rows @ directions for rows in centred]


def measure(tasks: list[Task], backbone: str, seeds: int) -> dict[str, list[list[float]]]:
    """Row -> F1 of every recipe and seed."""
    found: dict[str, list[list[float]]] = {row: [] for row in OURS}
    for task in tasks:
        videos = [video for video in task.with_features(backbone) if video.timeline is not None]
        rows = reduce([video.read_features(backbone) for video in videos])
        steps = {segment.step for video in videos for segment in video.timeline or ()}
        true = [
            video.timeline.labels(np.arange(len(each)) + 0.5) + 1
            for video, each in zip(videos, rows, strict=True)
            if video.timeline is not None
        ]
        for row in OURS:
            figures = []
            for seed in range(seeds):
                labels = METHODS[row](steps=len(steps), seed=seed).fit(rows).labels_
                figures.append(score(labels, true, clusters=len(steps)).f1)
            found[row].append(figures)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    report = Path(__file__).parent / "reports" / "peers.md"
    parser.add_argument("-o", "--output", type=Path, default=report)
    options = parser.parse_args()
    tasks = {number(task): task for root in options.data for task in load("captaincook4d", root)}
    measured, there = {}, {}
    for backbone, wanted in RECIPES.items():
        mine = [
            number
            for number in wanted
            if number in tasks and any(backbone in video.features for video in tasks[number])
        ]
        there[backbone] = mine
        measured[backbone] = measure([tasks[each] for each in mine], backbone, options.seeds)
    lines = []
    for row in OURS:
        cells = []
        for backbone in RECIPES:
            seeds = np.mean(measured[backbone][row], axis=0) if measured[backbone][row] else []
            cells.append(f"{np.mean(seeds):.1f} ± {np.std(seeds):.1f}" if len(seeds) else "–")
        lines.append(f"| {row} | {' | '.join(cells)} |")
    listed = {name: ", ".join(map(str, numbers)) for name, numbers in RECIPES.items()}
    here = {name: ", ".join(map(str, numbers)) for name, numbers in there.items()}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(
        REPORT.format(
            provenance=provenance(
                "python benchmarks/peers.py DATA...",
                f"0 to {options.seeds - 1}; one for peers",
                "CaptainCook4D features, test recipes",
            ),
            directions=DIRECTIONS,
            image=listed["pe_core_b16"],
            clip=listed["omnivore"],
            peers="\n".join(f"| {' | '.join(row)} |" for row in PEERS),
            version=__version__,
            date=datetime.datetime.now(tz=datetime.UTC).date(),
            seeds=f"0 to {options.seeds - 1}",
            ours="\n".join(lines),
            found_image=here["pe_core_b16"],
            found_clip=here["omnivore"],
        ),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
