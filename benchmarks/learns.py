"""Write benchmarks/reports/learns.md: what the paper's embedder learns on recipes of CaptainCook4D.

    python benchmarks/learns.py DATA [MORE] --keep learns.jsonl [--seeds 3] [--rows ROW ...]

DATA and MORE are folders as in `stepcut data info captaincook4d`, with features. Labels are used
only to score. Every figure is kept in the `--keep` file, so a second call resumes.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import kendalltau

from shared import REPORTS, Kept, Labels, Recipe, arguments, head, recipes
from stepcut.evaluation import score
from stepcut.methods import METHODS
from stepcut.paper.cnc.embedder import Embedder
from stepcut.paper.cnc.network import centre_and_smooth
from stepcut.tables import Spread, Table

TRAINED: dict[str, dict[str, Any]] = {
    "tc3i": {},
    "tcc": {"loss": "tcc"},
    "lav": {"loss": "lav"},
    "lav+tcc": {"loss": "lav+tcc"},
}
ROWS = ("uniform", "centred and smoothed", *TRAINED)
FIGURES = ("same step", "tau", "k-means", "ProCut")
CHOSE_SETTINGS = {"omnivore 1", "omnivore 8", "omnivore 12", "pe_core_b16 16"}
"""Tuning tasks of the settings for vectors."""

REPORT = """# What the paper's embedder learns

{head}

K is the annotated number of steps. Figures are mean ± standard deviation over seeds, with torch {torch} on a CPU.
Embeddings have 128 dimensions. Training takes ten passes over the rows, here {iterations} iterations of 5 x 32 frames.

- *same step*: share of frames of a step whose nearest neighbour in another video has the same step, %
- *tau*: 100 times Kendall's tau of the alignment; 100 if nearest neighbours are in temporal order
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
    return 100 * statistics.mean(shares), 100 * float(np.nanmean(taus))


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


def section(title: str, columns: Sequence[str], rows: dict[str, list[Spread]]) -> str:
    made = Table(["", *columns], [[name, *cells] for name, cells in rows.items()])
    return f"## {title}\n\n{made.markdown()}"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("data", nargs="+", type=Path, help="folders of CaptainCook4D")
    parser.add_argument("--keep", type=Path, required=True, help="file of figures, one per line")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS, metavar="ROW")
    given = parser.parse_args()
    found, kept = list(recipes(*given.data)), Kept(given.keep)
    for row in given.rows:
        for seed in range(given.seeds):
            for recipe in found:
                name = f"{row} {recipe.key} {seed}"
                figures = kept.get(name, lambda r=recipe, a=row, s=seed: measure(a, r, s))
                print(name, *(f"{figures[each]:.2f}" for each in FIGURES), flush=True)
    keys = [recipe.key for recipe in found]

    def over_seeds(row: str, some: list[str], name: str) -> Spread:
        """Mean and deviation over seeds of the mean over tasks."""
        grid = [[kept.known[f"{row} {key} {s}"][name] for s in range(given.seeds)] for key in some]
        return Spread.of(np.mean(grid, axis=0).tolist())

    parts = []
    for title, tuned in (("Tuning tasks", True), ("Other tasks", False)):
        if some := [key for key in keys if (key in CHOSE_SETTINGS) == tuned]:
            rows = {row: [over_seeds(row, some, name) for name in FIGURES] for row in given.rows}
            parts.append(section(title, FIGURES, rows))
    for cut in FIGURES[2:]:
        rows = {key: [over_seeds(row, [key], cut) for row in given.rows] for key in keys}
        parts.append(section(f"By task, F1 after {cut}", given.rows, rows))
    trained = [kept.known[f"{row} {key} 0"] for row in given.rows for key in keys]
    used = [each["iterations"] for each in trained if "iterations" in each]
    text = REPORT.format(
        head=head(f"0 to {given.seeds - 1}", f"CaptainCook4D, recipes {', '.join(keys)}"),
        torch=torch.__version__,
        iterations=f"{min(used)} to {max(used)}" if used else "no",
        chosen=", ".join(sorted(CHOSE_SETTINGS)),
        tables="\n\n".join(parts),
    )
    (REPORTS / "learns.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
