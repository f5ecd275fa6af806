"""Write benchmarks/reports/learns.md: what the paper's embedder learns on recipes of CaptainCook4D.

    python benchmarks/learns.py DATA [MORE] --keep learns.jsonl [--seeds 3] [--rows ROW ...]

DATA and MORE are folders as in `stepcut data info captaincook4d`, with features. Labels are used
only to score. Every figure is kept in the `--keep` file, so a second call resumes.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import kendalltau

from provenance import provenance
from shared import Kept, Labels, Recipe, recipes
from stepcut.evaluation import score
from stepcut.files.atomic import write_text
from stepcut.methods import METHODS
from stepcut.paper.cnc.embedder import Embedder
from stepcut.paper.cnc.network import centre_and_smooth

TRAINED: dict[str, dict[str, Any]] = {
    "tc3i": {},
    "tcc": {"loss": "tcc"},
    "lav": {"loss": "lav"},
    "lav+tcc": {"loss": "lav+tcc"},
    "tc3i, weight=32": {"weight": 32.0},
    "tc3i, temperature=1/128": {"temperature": 1 / 128},
    "lav, weight=0.5": {"loss": "lav", "weight": 0.5},
}
ROWS = ("uniform", "centred and smoothed", *TRAINED)
FIGURES = ("same step", "tau", "k-means", "ProCut")
CHOSE_SETTINGS = {"omnivore 1", "omnivore 8", "omnivore 12", "pe_core_b16 16"}
"""Tuning tasks of the settings for vectors."""

REPORT = """# What the paper's embedder learns

{provenance}

K is the annotated number of steps. Figures are mean ± standard deviation over seeds, with torch {torch} on a CPU.
Embeddings have 128 dimensions. Training takes ten passes over the rows, here {iterations} iterations of 5 x 32 frames.

- *same step*: share of frames of a step whose nearest neighbour in another video has the same step, %
- *tau*: Kendall's tau of the alignment; 1 if nearest neighbours are in temporal order
- *k-means*, *ProCut*: `strict` F1 in percent with this segmenter on the same embeddings; the uniform baseline has one

The settings for vectors were tuned on {chosen} with seed 0.

{tables}
"""


def correspond(embedded: list[Any], labels: Labels) -> tuple[float, float]:
    """`same step` in percent and `tau`: means over all ordered pairs of videos, by nearest
    neighbours.

    `same step` counts frames of steps that the other video also has.
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


def judge(recipe: Recipe, embedded: list[Any], cuts: tuple[str, str], seed: int) -> dict[str, Any]:
    every = 4  # a quarter of the frames is precise enough and takes a sixteenth of the time
    near = correspond([rows[::every] for rows in embedded], [rows[::every] for rows in recipe.true])
    found = [
        score(METHODS[cut](steps=recipe.steps, seed=seed).fit(embedded).labels_, recipe.true).f1
        for cut in cuts
    ]
    return dict(zip(FIGURES, [*near, *found], strict=True))


def measure(row: str, recipe: Recipe, seed: int) -> dict[str, Any]:
    """Figures of one row on one task with one seed."""
    if row == "uniform":
        lengths = [len(rows) for rows in recipe.rows]
        times = [np.arange(n, dtype=np.float32)[:, None] / n for n in lengths]
        return judge(recipe, times, ("uniform", "uniform"), seed)
    if row == "centred and smoothed":
        smooth = Embedder().network.smooth
        plain = [centre_and_smooth(rows, 1.0, smooth) for rows in recipe.rows]
        return judge(recipe, plain, ("kmeans", "procut"), seed)
    embedder = Embedder.of(seed=seed, **TRAINED[row]).fit(recipe.rows)
    figures = judge(recipe, embedder.transform(recipe.rows), ("kmeans", "procut"), seed)
    return {**figures, "iterations": len(embedder.curve_.values)}


def average(row: str, keys: list[str], name: str, kept: Kept, seeds: int) -> str:
    """Mean and standard deviation over seeds of the mean over tasks."""
    each = np.mean(
        [[kept.known[f"{row} {key} {s}"][name] for s in range(seeds)] for key in keys], axis=0
    )
    digits = 2 if name == "tau" else 1
    return f"{each.mean():.{digits}f} ± {each.std():.{digits}f}"


def markdown(title: str, columns: list[str], rows: dict[str, list[str]]) -> str:
    lines = [f"## {title}", "", f"| | {' | '.join(columns)} |", "|---|" + "--:|" * len(columns)]
    return "\n".join([*lines, *(f"| {row} | {' | '.join(cells)} |" for row, cells in rows.items())])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="+", type=Path, help="folders of CaptainCook4D")
    parser.add_argument("--keep", type=Path, required=True, help="file of figures, one per line")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS, metavar="ROW")
    report = Path(__file__).parent / "reports" / "learns.md"
    parser.add_argument("-o", "--output", type=Path, default=report)
    given = parser.parse_args()
    found, kept = list(recipes(*given.data)), Kept(given.keep)
    for row in given.rows:
        for seed in range(given.seeds):
            for recipe in found:
                name = f"{row} {recipe.key} {seed}"
                figures = kept.get(name, lambda r=recipe, a=row, s=seed: measure(a, r, s))
                print(name, *(f"{figures[each]:.2f}" for each in FIGURES), flush=True)
    keys = [recipe.key for recipe in found]
    groups = {
        "Tuning tasks": [key for key in keys if key in CHOSE_SETTINGS],
        "Other tasks": [key for key in keys if key not in CHOSE_SETTINGS],
    }
    parts = [
        markdown(
            title,
            list(FIGURES),
            {
                row: [average(row, some, name, kept, given.seeds) for name in FIGURES]
                for row in given.rows
            },
        )
        for title, some in groups.items()
        if some
    ]
    for cut in FIGURES[2:]:
        each = {
            key: [average(row, [key], cut, kept, given.seeds) for row in given.rows] for key in keys
        }
        parts.append(markdown(f"By task, F1 after {cut}", list(given.rows), each))
    trained = [kept.known[f"{row} {key} 0"] for row in given.rows for key in keys]
    used = [each["iterations"] for each in trained if "iterations" in each]
    write_text(
        given.output,
        REPORT.format(
            provenance=provenance(
                f"python benchmarks/learns.py DATA --seeds {given.seeds} --rows {shlex.join(given.rows)}",
                f"0 to {given.seeds - 1}",
                f"CaptainCook4D, recipes {', '.join(keys)}, features at one row per second",
            ),
            torch=torch.__version__,
            iterations=f"{min(used)} to {max(used)}" if used else "no",
            chosen=", ".join(sorted(CHOSE_SETTINGS)),
            tables="\n\n".join(parts),
        ),
    )


if __name__ == "__main__":
    main()
