"""The settings of the default method, chosen on some recipes and reported on the others, in turn (reports/recipes.md).

    python benchmarks/choose_method.py DATA [--jobs 16] [--seeds 3] [--keep choose_method.jsonl]

Every recipe is reported with the settings that are best on the *other* recipes (all backbones, mean over seeds), so no
figure of the last line has seen its own labels. A recipe's columns leave together: pe 1 does not choose for omnivore 1.
"""

from __future__ import annotations

import json
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from shared import SHORT, Recipe, arguments, recipes, report
from stepcut.evaluation import score
from stepcut.methods.inputs import fingerprint
from stepcut.methods.stepcut.method import LIGHT
from stepcut.methods.stepcut.restarts import PER_STEP, Search, choose_sigma
from stepcut.methods.stepcut.slow_features import centre, principal_directions
from stepcut.tables import Table

NAMES = ("per step", "prior", "balance", "background")
STARTS = tuple(
    product((4, 5, 6), (1.0, 2.0, 3.0), (0.0, 0.2))
)  # what the starts depend on: the first three
BACKGROUND = (0.0, 0.7)  # what is done with them
DEFAULT = (4, 2.0, 0.2, 0.7)

found: list[Recipe] = []
short: list[list[NDArray[np.float64]]] = []
"""The videos of every recipe on their principal directions, in the order in which `StepCut` learns from them."""


def shorten(recipe: Recipe) -> list[NDArray[np.float64]]:
    """Sort a recipe's videos as `StepCut.fit` does, and give them short rows."""
    order = sorted(range(len(recipe.rows)), key=lambda i: fingerprint(recipe.rows[i]))
    recipe.rows, recipe.true = [recipe.rows[i] for i in order], [recipe.true[i] for i in order]
    centred = [centre(rows) for rows in recipe.rows]
    directions = principal_directions(
        centred, float(np.median([len(rows) for rows in centred])) / LIGHT
    )
    return [rows @ directions for rows in centred]


def learn(task: tuple[int, int, tuple[int, float, float]]) -> list[tuple[str, float]]:
    """F1 of one recipe and seed with one choice of starts and every use of them, each with its name."""
    place, seed, (per_step, prior, balance) = task
    recipe, videos = found[place], short[place]
    sigma = choose_sigma(videos, recipe.steps, 0.0) * PER_STEP / per_step
    tries = Search(recipe.steps, sigma, seed, prior, balance=balance).run_restarts(videos)
    out = []
    for background in BACKGROUND:
        end = Search(recipe.steps, sigma, seed, prior, background, balance=balance).combine(tries)
        name = json.dumps([recipe.key, seed, per_step, prior, balance, background])
        out.append((name, score(list(map(end.predict, videos)), recipe.true).f1))
    return out


def table(known: dict[str, float], seeds: int) -> Table:
    """The default, the best of all, and every recipe with what the others chose."""
    settings = [(*start, background) for start in STARTS for background in BACKGROUND]
    f1 = np.array(
        [
            [
                np.mean([known[json.dumps([recipe.key, seed, *one])] for seed in range(seeds)])
                for recipe in found
            ]
            for one in settings
        ]
    )
    image = np.array([recipe.backbone == "pe_core_b16" for recipe in found])

    def row(name: str, values: np.ndarray) -> list[object]:
        return [name, *values, values[image].mean(), values[~image].mean()]

    columns = ["", *(recipe.key for recipe in found), "pe mean", "omnivore mean"]
    rows = [
        row("default", f1[settings.index(DEFAULT)]),
        row("best on all of them", f1[f1.mean(axis=1).argmax()]),
    ]
    chosen = []
    for place, recipe in enumerate(found):
        others = [i for i, other in enumerate(found) if other.name != recipe.name]
        best = int(f1[:, others].mean(axis=1).argmax())
        chosen.append(f1[best, place])
        print(
            f"{SHORT[recipe.name]}: the others choose",
            dict(zip(NAMES, settings[best], strict=True)),
        )
    rows.append(row("chosen on the other recipes", np.array(chosen)))
    for place, name in enumerate(NAMES):
        for value in dict.fromkeys(one[place] for one in settings):
            alike = [i for i, one in enumerate(settings) if one[place] == value]
            rows.append(row(f"{name} {value}, mean over the rest", f1[alike].mean(axis=0)))
    return Table(columns, rows, f"strict F1, {len(settings)} settings, {seeds} seeds")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--keep", type=Path, default=Path("choose_method.jsonl"))
    given = parser.parse_args()
    found.extend(recipes(given.data))
    short.extend(map(shorten, found))
    known = (
        dict(map(json.loads, given.keep.read_text().splitlines())) if given.keep.exists() else {}
    )
    tasks = [
        (place, seed, start)
        for seed in range(given.seeds)
        for start in STARTS
        for place in range(len(found))
    ]
    tasks = [
        t for t in tasks if json.dumps([found[t[0]].key, t[1], *t[2], BACKGROUND[-1]]) not in known
    ]
    with (
        get_context("fork").Pool(given.jobs, threadpool_limits, (1,)) as pool,
        given.keep.open("a") as file,
    ):
        for figures in pool.imap_unordered(learn, tasks):
            for name, f1 in figures:
                known[name] = f1
                file.write(json.dumps([name, f1]) + "\n")
            file.flush()
    print(table(known, given.seeds).markdown())


if __name__ == "__main__":
    with report(__file__):
        main()
