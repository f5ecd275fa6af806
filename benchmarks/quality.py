"""The tables of docs/results.md on what is said without labels: quality, and confidences of segments.

    python benchmarks/quality.py DATA [MORE] [--knots DIR] --keep quality.jsonl
    python benchmarks/quality.py DATA [MORE] --fresh --keep fresh.jsonl

Folders and `--keep` are those of benchmarks/results.py. Beside recipes and knots stand toy kitchens with much noise,
and videos that have no steps in common. K is the true number of steps (12 where there is none), seed 0; learned on 64
principal axes with 24 restarts, half of the default. `--fresh` are tasks on which nothing of the quality was found: a
third backbone, six recordings of each recipe, other kitchens with less and more noise, rounds, other videos of nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from scipy.stats import spearmanr

from results_data import Kept, Recipe, knots, recipes
from results_toy import KITCHENS
from rounds import make_rounds
from stepcut.evaluation import score
from stepcut.methods import METHODS, StepCut
from stepcut.methods.quality import RIGHT, measure_quality, shorten
from stepcut.tables import Table
from stepcut.toy import STEPS, toy_features
from stepcut.version import __version__

FIGURES = ("score", "runs", "halves", "shared_beyond_chance", "clock", "regularity", "sharpness")
LEVELS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SMOOTH = 12.0
"""Seconds of the Gaussian that makes smoothed noise."""
FEW = 6
"""Recordings of a recipe where there are to be few."""


def toys(seeds: Sequence[int] = (4, 5), noise: float = 2.0) -> Iterator[Recipe]:
    """Made features of toy kitchens, with four times their usual noise if nothing else is said."""
    for name, plan in KITCHENS.items():
        for seed in seeds:
            rows, timelines = toy_features(videos=8, seed=seed, rate=2.0, noise=noise, **plan)
            times = [np.arange(len(one)) / 2 for one in rows]
            true = [line.labels(at) + 1 for line, at in zip(timelines, times, strict=True)]
            yield Recipe("toy", f"{name} {seed}", rows, true, len(STEPS), 2.0)


def fresh(found: Sequence[Recipe], third: Sequence[Recipe]) -> Iterator[Recipe]:
    """Tasks that nothing was found on: a `third` backbone, six recordings of each of `found`, other made videos."""
    yield from third
    for recipe in found:
        rows, true = recipe.rows[:FEW], recipe.true[:FEW]
        yield Recipe("", f"six of {recipe.key}", rows, true, len(set(np.concatenate(true)) - {0}))
    for noise in (1.0, 3.0):
        for toy in toys((8, 9), noise):
            yield replace(toy, name=f"{toy.name}, noise {noise}")
        yield Recipe("", f"rounds, noise {noise}", *make_rounds(4, noise, 8), 6, 2.0)
    yield from nonsense(found[::-1], seed=8)


def nonsense(found: Sequence[Recipe], seed: int = 5) -> Iterator[Recipe]:
    """Videos that share no steps, with the lengths and labels of a recipe; of `found`, the first of clips is taken."""
    clips = [recipe for recipe in found if recipe.backbone == "omnivore"]
    model, rng = clips[0], np.random.default_rng(seed)
    orders = [rng.permutation(len(rows)) for rows in model.rows]
    noise = [rng.normal(size=(len(rows), 64)) for rows in model.rows]
    smoothed = [gaussian_filter1d(rows, SMOOTH, axis=0) for rows in noise]
    made = {
        "random walks": [rows.cumsum(axis=0) for rows in noise],
        "noise": noise,
        "smoothed noise": smoothed,
    }
    for name, rows in made.items():
        yield Recipe("", name, [one.astype(np.float32) for one in rows], model.true, 12)
    shuffled = [
        [part[order] for part, order in zip(all_, orders, strict=True)]
        for all_ in (model.rows, model.true)
    ]
    yield Recipe("", "the first recipe, frames shuffled", *shuffled, 12)
    some = [(recipe, place) for place in (0, 1) for recipe in clips]
    axes = [shorten(recipe.rows) for recipe in clips]
    rows = [axes[clips.index(recipe)][place].astype(np.float32) for recipe, place in some]
    true = [np.where(one.true[i] > 0, one.true[i] + 100 * clips.index(one), 0) for one, i in some]
    yield Recipe("", "recipes mixed", rows, true, 12)


def measure(recipe: Recipe) -> dict[str, Any]:
    """Quality and F1 of what is found, and of every segment (how sure, whether more than half of it is right)."""
    rows = shorten(recipe.rows)
    fitted = StepCut(steps=recipe.steps, rate=recipe.rate, restarts=24).fit(rows)
    quality = measure_quality(fitted, rows)
    assert quality is not None
    result, segments = score(fitted.labels_, recipe.true), []
    for cut, shares, true in zip(
        fitted.labels_, fitted.probabilities(rows), recipe.true, strict=True
    ):
        bounds = np.flatnonzero(np.diff(cut, prepend=-9))
        for first, last in zip(bounds, [*bounds[1:], len(cut)], strict=True):
            if (step := int(cut[first])) >= 0:
                right = float((true[first:last] == result.matching.get(step, -1)).mean())
                segments.append([float(shares[first:last, step].mean()), float(right > 0.5)])
    clock = METHODS["uniform"](steps=recipe.steps).fit(recipe.rows).labels_
    figures = {name: getattr(quality, name) for name in FIGURES}
    return {"F1": result.f1, "uniform": score(clock, recipe.true).f1, "grade": quality.grade, "segments": segments,
            **figures}  # fmt: skip


def rank_correlation(known: dict[str, dict[str, Any]]) -> float:
    """How far the score orders tasks as F1 does (Spearman)."""
    return float(
        spearmanr(
            [one["score"] for one in known.values()], [one["F1"] for one in known.values()]
        ).statistic
    )


def quality_table(known: dict[str, dict[str, Any]]) -> Table:
    """What is said of the steps without labels, beside their F1."""
    rows = [
        [name, one["F1"], one["uniform"], one["grade"], *(one[f] for f in FIGURES)]
        for name, one in known.items()
    ]
    rank = rank_correlation(known)
    title = f"Quality without labels, strict F1, seed 0, stepcut {__version__}"
    note = f"The rank correlation of score and F1 over the {len(known)} tasks is {rank:.2f}."
    return Table(["", "F1", "uniform", "grade", *FIGURES], rows, title, [note], digits=2)


def confidence_table(tasks: Sequence[Recipe], known: dict[str, dict[str, Any]]) -> Table:
    """Membership times reliability, a line in the score that is fitted to the other tasks, beside what is right."""
    results = [known[name_of(task)] for task in tasks]
    sure, right = ([np.array(one["segments"])[:, column] for one in results] for column in (0, 1))
    scores = np.array([one["score"] for one in results])
    shares = np.array([b.mean() / a.mean() for a, b in zip(sure, right, strict=True)])
    said = []
    for place, task in enumerate(tasks):
        others = [i for i, other in enumerate(tasks) if other.name != task.name]
        line = np.polyfit(scores[others], shares[others], 1)
        said.append(sure[place] * np.clip(np.polyval(line, scores[place]), 0.05, 0.95))
    told, truth = np.concatenate(said), np.concatenate(right)
    table = Table(
        ["said", "segments", "mean said", "right"],
        [],
        "Confidences, each task by the others",
        digits=2,
    )
    for low, high in pairwise(LEVELS):
        there = (told >= low) & (told < high)
        if there.any():
            table.rows.append(
                [
                    f"{low} to {high}",
                    int(there.sum()),
                    float(told[there].mean()),
                    float(truth[there].mean()),
                ]
            )
    slope, start = np.polyfit(scores, shares, 1)
    used = np.concatenate(
        [
            a * np.clip(RIGHT[0] + RIGHT[1] * b, 0.05, 0.95)
            for a, b in zip(sure, scores, strict=True)
        ]
    )
    table.notes = [
        f"Memberships say {np.concatenate(sure).mean():.2f} on average where {truth.mean():.2f} are right.",
        f"The mean difference is {difference(told, truth):.2f}; with the constants in use, {RIGHT[0]} + {RIGHT[1]} "
        f"score, {difference(used, truth):.2f}. Fitted to all tasks they would be {start:.2f} + {slope:.2f} score.",
    ]
    return table


def difference(told: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """The mean over segments of how far said and right lie apart in their level."""
    level = np.digitize(told, LEVELS)
    apart = [
        abs(told[level == one].mean() - truth[level == one].mean()) * (level == one).sum()
        for one in set(level)
    ]
    return float(sum(apart) / len(told))


def name_of(recipe: Recipe) -> str:
    """The name of a row; those of recipes as in the other tables."""
    return (
        recipe.name
        if not recipe.backbone
        else f"toy {recipe.name}"
        if recipe.backbone == "toy"
        else recipe.key
    )


def main() -> None:
    """Measure what is not kept yet, and print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument(
        "more", type=Path, nargs="?", help="recipes that the method was not built on"
    )
    parser.add_argument("--knots", type=Path, help="the folder with videos/ and gestures/")
    parser.add_argument("--fast", action="store_true", help="sample the knots fast")
    parser.add_argument(
        "--fresh", action="store_true", help="tasks that nothing of the quality was found on"
    )
    parser.add_argument("--keep", type=Path, required=True)
    options = parser.parse_args()
    real = list(recipes(options.data, *([options.more] if options.more else [])))
    kept = Kept(options.keep)
    if options.fresh:
        third = list(recipes(options.data, backbones=["slowfast"]))
        known = {
            name_of(task): kept.get(name_of(task), partial(measure, task))
            for task in fresh(real, third)
        }
        table, names = quality_table(known), list(known)
        recorded = {name: known[name] for name in names[: len(third) + len(real)]}
        shared = {name: one for name, one in known.items() if one["score"] > 0}
        table.notes.append(
            f"Without the {len(known) - len(shared)} graded clock it is {rank_correlation(shared):.2f}, "
            f"over the {len(recorded)} recorded tasks alone {rank_correlation(recorded):.2f}."
        )
        print(table)
        return
    made = [*toys(), *nonsense(real)]
    real += [knots(options.knots, fast=options.fast)] if options.knots else []
    known = {
        name_of(task): kept.get(name_of(task), partial(measure, task)) for task in [*real, *made]
    }
    print(f"{quality_table(known)}\n\n{confidence_table(real, known)}")


if __name__ == "__main__":
    main()
