"""Tasks for the calibration of the quality estimate: recorded, toy, and invalid ones."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from results_toy import KITCHENS
from rounds import make_rounds
from shared import Recipe, knots, recipes
from stepcut.toy import STEPS, toy_features

BACKBONES = ("pe_core_b16", "omnivore")
MOST = 10
"""Videos per task, so that all tasks take a few minutes."""
SMOOTH = 12.0
"""Seconds of the Gaussian of smoothed noise."""


@dataclass
class Trial:
    """One set of videos; those of one `group` are held out together."""

    name: str
    group: str
    kind: str
    """recorded, toy or wrong."""
    rows: list[NDArray[Any]]
    true: list[NDArray[np.int64]]
    """Steps from 1, 0 is background."""
    steps: int
    rate: float = 1.0


def trials(data: Path, cache: Path) -> Iterator[Trial]:
    """All trials; `data` contains captaincook4d, captaincook4d_more, knot_tying and openpack."""
    found = list(recipes(data / "captaincook4d", data / "captaincook4d_more", backbones=BACKBONES))
    for one in found:
        rows, true = one.rows[:MOST], one.true[:MOST]
        count = len(set(np.concatenate(true)) - {0})
        yield Trial(one.key, one.name, "recorded", rows, true, count)
    yield openpack(data / "openpack")
    knot = _knots(data / "knot_tying", cache)
    some = slice(0, None, 4)  # of all people
    yield Trial("knots", "knots", "recorded", knot.rows[some], knot.true[some], 6, knot.rate)
    for noise in (0.5, 1.0, 2.0):
        for place, (name, plan) in enumerate(KITCHENS.items()):
            seed = 4 + place
            rows, timelines = toy_features(videos=8, seed=seed, rate=2.0, noise=noise, **plan)
            times = [np.arange(len(one)) / 2 for one in rows]
            labels = [line.labels(at) + 1 for line, at in zip(timelines, times, strict=True)]
            yield Trial(
                f"{name}, noise {noise}", f"toy {name}", "toy", rows, labels, len(STEPS), 2.0
            )
    yield Trial("rounds", "rounds", "toy", *make_rounds(4, 1.0, 8), 6, 2.0)
    yield from wrong(found)


def openpack(folder: Path) -> Trial:
    """Twenty boxes, recorded by sensors."""
    rows, lines = [], []
    for path in sorted((folder / "features").glob("*.npy"))[:MOST]:
        rows.append(np.load(path))
        with open(folder / "labels" / f"{path.stem}.csv", encoding="utf-8-sig") as file:
            lines.append(list(csv.DictReader(file)))
    names = sorted({line["step"] for each in lines for line in each})
    true = []
    for one, each in zip(rows, lines, strict=True):
        labels = np.zeros(len(one), dtype=np.int64)
        for line in each:
            first, last = round(2 * float(line["start"])), round(2 * float(line["end"]))
            labels[first:last] = names.index(line["step"]) + 1
        true.append(labels)
    return Trial("openpack", "openpack", "recorded", rows, true, len(names), 2.0)


def _knots(folder: Path, cache: Path) -> Recipe:
    """Knot tying; its features are cached, because extraction takes a minute."""
    file = cache / "knots.npz"
    if not file.exists():
        made = knots(folder)
        parts = {f"rows{n}": one for n, one in enumerate(made.rows)}
        parts |= {f"true{n}": one for n, one in enumerate(made.true)}
        np.savez(file, **parts)
    with np.load(file) as kept:
        count = len(kept.files) // 2
        rows, true = ([kept[f"{part}{n}"] for n in range(count)] for part in ("rows", "true"))
    return Recipe("default", "Knot tying", rows, true, 6, 2.0)


def wrong(found: list[Recipe]) -> Iterator[Trial]:
    """Videos that are not one task: two tasks mixed, unrelated clips, noise; with their labels."""
    clips = [one for one in found if one.backbone == "omnivore" and one.rows[0].shape[1] > 256]
    rng = np.random.default_rng(5)
    model = clips[0]
    noise = [rng.normal(size=(len(rows), 64)) for rows in model.rows]
    made = {
        "random walks": [rows.cumsum(axis=0) for rows in noise],
        "noise": noise,
        "smoothed noise": [gaussian_filter1d(rows, SMOOTH, axis=0) for rows in noise],
    }
    for name, rows in made.items():
        yield Trial(name, name, "wrong", rows, model.true, model.steps)
    for a, b in ((0, 1), (2, 3)):
        some = [(clips[one], place) for place in range(5) for one in (a, b)]
        yield _mixed(f"two recipes mixed {a}", some, clips, 12)
    some = [(one, place) for place in (0, 1) for one in clips]
    yield _mixed("unrelated clips", some, clips, 12)


def _mixed(name: str, some: list[tuple[Recipe, int]], clips: list[Recipe], steps: int) -> Trial:
    rows = [recipe.rows[place] for recipe, place in some]
    true = [
        np.where(one.true[place] > 0, one.true[place] + 100 * clips.index(one), 0)
        for one, place in some
    ]
    return Trial(name, name, "wrong", rows, true, steps)
