"""The tables of reports/recipes.md: recipes of CaptainCook4D and surgical knots, automatic K, upper
bounds.

    python benchmarks/results.py DATA [MORE] [--knots DIR] --keep results.jsonl [--seeds 3] [--only
        strict,auto]

DATA and MORE are folders as in `stepcut data info captaincook4d`, with features; the method was
tuned on the recipes of the first. DIR contains `videos/` and `gestures/` of JIGSAWS knot tying, for
the default backbone. Every figure is kept in the `--keep` file, so a second call resumes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from shared import BUILT_ON, SHORT, Kept, Labels, Recipe, arguments, knots, recipes
from stepcut.evaluation import score
from stepcut.methods import METHODS, StepCut
from stepcut.methods.arithmetic import normalised_times
from stepcut.methods.baselines.kmeans import KMeans, find_means, smooth_embedding
from stepcut.paper.cnc.method import CnC
from stepcut.tables import Table
from stepcut.toy import toy_features

ABLATION: dict[str, dict[str, Any]] = {
    "stepcut": {},
    "without prior": {"prior": 0.0},
    "without background": {"background": 0.0},
    "without consensus (one restart)": {"restarts": 1},
    "half as many restarts": {"restarts": 24},
    "smoothed over 6 s": {"seconds": 6.0},
    "smoothed over 12 s": {"seconds": 12.0},
}


def judge(cut: Labels, true: Labels) -> dict[str, float]:
    strict, paper = score(cut, true, protocol="strict"), score(cut, true, protocol="paper")
    return {
        "strict": strict.f1,
        "strict iou": strict.iou,
        "paper": paper.f1,
        "paper iou": paper.iou,
    }


def baseline(name: str) -> Callable[[Recipe, int], Labels]:
    return lambda recipe, seed: (
        METHODS[name](steps=recipe.steps, seed=seed).fit(recipe.rows).labels_
    )


def method(**settings: Any) -> Callable[[Recipe, int], Labels]:
    return lambda recipe, seed: (
        StepCut(steps=recipe.steps, rate=recipe.rate, seed=seed, **settings)
        .fit(recipe.rows)
        .labels_
    )


ROWS: dict[str, Callable[[Recipe, int], Labels]] = {
    "random": baseline("random"),
    "one-cluster": baseline("one-cluster"),
    "uniform": baseline("uniform"),
    "kmeans": lambda recipe, seed: (
        KMeans(steps=recipe.steps, seed=seed, restarts=1).fit(recipe.rows).labels_
    ),
    "smooth": lambda recipe, seed: (
        KMeans(recipe.steps, seed=seed, normalise=False).fit(smooth_embedding(recipe.rows)).labels_
    ),
    "cnc": lambda recipe, seed: CnC(steps=recipe.steps, seed=seed).fit(recipe.rows).labels_,
    "stepcut": method(),
}


def main_table(found: list[Recipe], kept: Kept, seeds: int, figure: str, rows: list[str]) -> Table:
    """Rows by recipes; mean over seeds, and the deviation over seeds of the mean over recipes."""
    columns = ["", *(recipe.key for recipe in found), "tuning recipes", "test recipes", "sd"]
    table = Table(columns, [], f"{figure} F1, K = annotated number of steps, {seeds} seeds")
    for row in rows:
        table.rows.append(
            [row, *summary(found, kept, row, ROWS[row], 1 if row == "cnc" else seeds, figure)]
        )
    return table


def summary(
    found: list[Recipe],
    kept: Kept,
    row: str,
    cut: Callable[[Recipe, int], Labels],
    seeds: int,
    figure: str,
) -> list[float]:
    grid = np.array(
        [
            [
                kept.get(
                    f"{row} {recipe.key} {seed}", lambda r=recipe, s=seed: judge(cut(r, s), r.true)
                )[figure]
                for seed in range(seeds)
            ]
            for recipe in found
        ]
    )
    return [*means(found, grid.mean(axis=1)), float(grid.std(axis=1).mean())]


def means(found: list[Recipe], figures: np.ndarray) -> list[float]:
    """The figures, then their means over tuning and test recipes."""
    built = np.array([recipe.name in BUILT_ON for recipe in found])
    return [
        *figures,
        *(float(figures[some].mean()) if some.any() else float("nan") for some in (built, ~built)),
    ]


def ablation_table(found: list[Recipe], kept: Kept) -> Table:
    """One component removed at a time, one seed; and the choice by the other recipes."""
    columns = ["", *(recipe.key for recipe in found), "tuning recipes", "test recipes"]
    table = Table(columns, [], "strict F1, seed 0")
    for row, settings in ABLATION.items():
        table.rows.append([row, *summary(found, kept, row, method(**settings), 1, "strict")[:-1]])
    grid = np.array([row[1 : 1 + len(found)] for row in table.rows], dtype=float)
    chosen = []
    for place, recipe in enumerate(found):
        others = [i for i, other in enumerate(found) if other.name != recipe.name]
        chosen.append(grid[int(grid[:, others].mean(axis=1).argmax()), place])
    table.rows.append(["tuned on the other recipes", *means(found, np.array(chosen))])
    return table


def auto_table(found: list[Recipe], kept: Kept) -> Table:
    """The number of steps chosen without labels, and its cost."""
    table = Table(
        ["", "true K", "chosen", "F1 at annotated K", "F1 at chosen"],
        [],
        "strict F1, steps='auto', seed 0",
    )
    for recipe in found:

        def compute(recipe: Recipe = recipe) -> dict[str, float]:
            fitted = StepCut(rate=recipe.rate).fit(recipe.rows)
            return {**judge(fitted.labels_, recipe.true), "steps": fitted.steps_}

        auto = kept.get(f"auto {recipe.key}", compute)
        at_true = kept.get(
            f"stepcut {recipe.key} 0", lambda r=recipe: judge(method()(r, 0), r.true)
        )
        table.rows.append(
            [recipe.key, recipe.steps, int(auto["steps"]), at_true["strict"], auto["strict"]]
        )
    return table


def usual_table(found: list[Recipe]) -> Table:
    """The number of steps predicted from the length, fitted to the other tasks."""
    rows, timelines = toy_features(videos=8, seed=4)
    toy = Recipe("made", "toy kitchens", rows, [], len({s.step for one in timelines for s in one}))
    tasks = [*found, toy]
    seconds = np.log(
        [float(np.median([len(rows) for rows in task.rows])) / task.rate for task in tasks]
    )
    steps = np.log([task.steps for task in tasks])
    table = Table(
        ["", "seconds", "true K", "K predicted from the other tasks"],
        [],
        "K = a seconds^b, a and b without the task",
    )
    for place, task in enumerate(tasks):
        others = [i for i, other in enumerate(tasks) if other.name != task.name]
        once = [
            1 / sum(tasks[j].name == tasks[i].name for j in others) for i in others
        ]  # every task has equal weight
        slope, start = np.polyfit(seconds[others], steps[others], 1, w=np.sqrt(once))
        usual = float(np.exp(start + slope * seconds[place]))
        key = task.key if task.name in SHORT else task.name
        table.rows.append([key, round(float(np.exp(seconds[place]))), task.steps, round(usual, 1)])
    return table


def new_table(found: list[Recipe], kept: Kept, most: int = 6) -> Table:
    """Held-out recordings, compared with the same recordings in the training set."""
    table = Table(
        ["", "learned from", "new"],
        [],
        f"strict F1, leave one recording out ({most} recordings per recipe)",
    )
    for recipe in found:

        def compute(recipe: Recipe = recipe) -> dict[str, float]:
            inside = StepCut(steps=recipe.steps).fit(recipe.rows).labels_
            new = list(inside)
            chosen = np.linspace(0, len(recipe.rows) - 1, most).round().astype(int)
            alone = []
            for place in chosen:
                others = [i for i in range(len(recipe.rows)) if i != place]
                fitted = StepCut(steps=recipe.steps).fit([recipe.rows[i] for i in others])
                cut = fitted.predict([recipe.rows[place]])[0]
                # Use the matching of the training recordings, so that the new one cannot choose its own.
                match = score(fitted.labels_, [recipe.true[i] for i in others]).matching
                new[place] = np.array([match.get(int(k), -1) for k in cut])
                alone.append(place)
            match = score(inside, recipe.true).matching
            before = [np.array([match.get(int(k), -1) for k in inside[i]]) for i in alone]
            true = [recipe.true[i] for i in alone]
            after = [new[i] for i in alone]
            return {"inside": named_f1(before, true), "new": named_f1(after, true)}

        figures = kept.get(f"new {recipe.key}", compute)
        table.rows.append([recipe.key, figures["inside"], figures["new"]])
    return table


def named_f1(cut: Labels, true: Labels) -> float:
    """Mean F1 over the steps that occur, of labels that are already matched."""
    a, b = np.concatenate(cut), np.concatenate(true)
    each = [
        2 * ((a == s) & (b == s)).sum() / ((a == s).sum() + (b == s).sum())
        for s in set(b.tolist()) - {0}
    ]
    return 100 * float(np.mean(each))


def oracle_table(found: list[Recipe], kept: Kept) -> Table:
    """Upper bounds: true boundaries, true step centres, true background."""
    table = Table(
        ["", "stepcut", "true background", "true boundaries", "true steps"],
        [],
        "strict F1, upper bounds, seed 0",
    )
    for recipe in found:
        figures = kept.get(f"oracles {recipe.key}", lambda r=recipe: oracles(r))
        table.rows.append(
            [
                recipe.key,
                *(figures[name] for name in ("found", "background", "boundaries", "steps")),
            ]
        )
    return table


def oracles(recipe: Recipe) -> dict[str, float]:
    fitted = StepCut(steps=recipe.steps).fit(recipe.rows)
    views = [view.astype(np.float64) for view in fitted.embed(recipe.rows)]
    everything = StepCut(steps=recipe.steps, background=0.0).fit(recipe.rows).labels_
    silent = [
        np.where(true > 0, cut, -1) for cut, true in zip(everything, recipe.true, strict=True)
    ]
    means, lengths, cut = [], [], [np.full(len(true), -1) for true in recipe.true]
    for view, true in zip(views, recipe.true, strict=True):
        bounds = [0, *(np.flatnonzero(np.diff(true)) + 1), len(true)]
        for first, last in pairwise(bounds):
            if true[first]:
                clock = normalised_times(len(true))[first:last].mean()
                means.append([*view[first:last].mean(axis=0), clock])
                lengths.append((len(lengths), true, first, last))
    rows = np.array(means, dtype=np.float32)
    centres = find_means(rows, recipe.steps, 0, 10)
    numbers = ((rows[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    place = {id(true): i for i, true in enumerate(recipe.true)}
    for number, true, first, last in lengths:
        cut[place[id(true)]][first:last] = numbers[number]
    known = sorted(set(np.concatenate(recipe.true).tolist()) - {0})
    true_centres = np.array(
        [
            np.mean(
                [
                    v[t == s].mean(axis=0)
                    for v, t in zip(views, recipe.true, strict=True)
                    if (t == s).any()
                ],
                axis=0,
            )
            for s in known
        ]
    )
    nearest = [((view[:, None] - true_centres) ** 2).sum(axis=2).argmin(axis=1) for view in views]
    labels = {"found": fitted.labels_, "background": silent, "boundaries": cut, "steps": nearest}
    return {name: score(one, recipe.true).f1 for name, one in labels.items()}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("more", type=Path, nargs="?", help="test recipes")
    parser.add_argument("--knots", type=Path)
    parser.add_argument("--keep", type=Path, default=Path("results.jsonl"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="strict,paper,usual,auto,ablation,new,oracles")
    parser.add_argument(
        "--rows",
        default=",".join(ROWS),
        help="rows of the first two tables; cnc is slow (one seed)",
    )
    given = parser.parse_args()
    found, kept = list(recipes(given.data, *([given.more] if given.more else []))), Kept(given.keep)
    if given.knots is not None:
        found.append(knots(given.knots))
    tables = {
        "strict": lambda: main_table(found, kept, given.seeds, "strict", given.rows.split(",")),
        "paper": lambda: main_table(found, kept, given.seeds, "paper", given.rows.split(",")),
        "usual": lambda: usual_table(found),
        "auto": lambda: auto_table(found, kept),
        "ablation": lambda: ablation_table(found, kept),
        "new": lambda: new_table(found, kept),
        "oracles": lambda: oracle_table(found, kept),
    }
    for name in given.only.split(","):
        print(tables[name]().markdown(), "\n", flush=True)


if __name__ == "__main__":
    main()
