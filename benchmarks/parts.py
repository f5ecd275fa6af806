"""What every part and constant of the default method is worth: `python benchmarks/parts.py DATA [MORE] --keep parts.jsonl`.

DATA and MORE are folders as in `stepcut data info captaincook4d`, with features. A part is switched off, or a constant
of docs/appendix/method.md halved or doubled, and all else kept. Only tuning recipes are learned, without labels, so
that the others stay unseen, on clip features. Every figure is kept in the `--keep` file, so a second call resumes.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from shared import BUILT_ON, Kept, Recipe, arguments, recipes
from stepcut.evaluation import score
from stepcut.methods import StepCut
from stepcut.tables import Table

APPENDIX = Path(__file__).parents[1] / "docs" / "appendix" / "method.md"
FIXED = {
    *("FOLDS", "USUAL", "GROWTH", "LEAST", "NEVER", "TRANSLATIONS"),
    *("TEMPERATURE", "AGE", "MANY", "BINS"),
}
REAL = ("WIDTH", "PRIOR", "MOTION", "MOST", "SEGMENTS")
"""Constants that do not take part without labels and with a given number of steps, and two of numerics."""
Change = dict[str, Any]

PARTS: dict[str, tuple[Change, Change]] = {
    "as it is": ({}, {}),
    "one start": ({"restarts": 1}, {}),
    "six starts": ({"restarts": 6}, {}),
    "no time": ({"prior": 0.0}, {}),
    "no background": ({"background": 0.0}, {}),
    "the width is never halved": ({}, {"HALVINGS": 0}),
    "principal instead of slow axes": (
        {},
        {"slow_axes": lambda videos, _, count=32: np.eye(videos[0].shape[1])[:, :count]},
    ),
    "no normalisation": ({}, {"SOFT": 1e6}),
    "unit length": ({}, {"SOFT": 0.0}),
    "no balance bonus": ({}, {"BALANCE": 0.0}),
    "one Gaussian": ({}, {"FINE": 4}),
    "no motion": ({}, {"motion": lambda slow, _: np.zeros_like(slow)}),
    "discovery alone, no model of its own": ({}, {"learning.ITERATIONS": 0}),
}
"""Name of a row: settings, and what replaces a constant or function of the method."""


def constants() -> dict[str, tuple[Change, Change]]:
    """Every constant of the appendix, halved and doubled."""
    rows = re.findall(
        r"^\| `(\w+)` \| (\w+) \| (\S+) \|",
        APPENDIX.read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    made: dict[str, tuple[Change, Change]] = {}
    for name, module, text in rows:
        if name not in FIXED:
            for factor, word in ((0.5, "half"), (2, "double")):
                value = float(text) * factor
                value = value if "." in text or name in REAL else round(value)
                made[f"{module}.{name} {word}"] = ({}, {f"{module}.{name}": value})
    return made


@contextmanager
def changed(changes: Change) -> Iterator[None]:
    """Replace names in all modules of the method that have them: `NAME`, or where several modules
    have constants of one name, `module.NAME`."""
    old: list[tuple[Any, str, Any]] = []
    for key, value in changes.items():
        home, _, name = key.rpartition(".")
        modules = [part for path, part in sys.modules.items() if path.startswith("stepcut.methods")]
        owners = [part for part in modules if name in vars(part)]
        named = [part for part in owners if part.__name__.endswith(f".{home}")] or owners
        was = vars(named[0])[name]
        for owner in owners:
            if vars(owner)[name] == was:
                old.append((owner, name, was))
                setattr(owner, name, value)
    yield
    for owner, name, was in old:
        setattr(owner, name, was)


def measure(recipe: Recipe, settings: Change, changes: Change) -> dict[str, float]:
    with changed(changes):
        method = StepCut(recipe.steps, recipe.rate, 0, **settings).fit(recipe.rows)
    return {"strict": score(method.labels_, recipe.true, clusters=recipe.steps).f1}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--keep", type=Path, default=Path("parts.jsonl"))
    given = parser.parse_args()
    found = [each for each in recipes(*given.data, backbones=["omnivore"]) if each.name in BUILT_ON]
    kept, base = Kept(given.keep), 0.0
    table = Table(["", *(recipe.key for recipe in found), "mean", "difference"], [])
    for row, (settings, changes) in {**PARTS, **constants()}.items():
        figures = [
            kept.get(f"{row} {each.key}", partial(measure, each, settings, changes))["strict"]
            for each in found
        ]
        mean = statistics.fmean(figures)
        base = base or mean
        table.rows.append([row, *figures, mean, mean - base])
    print(table)


if __name__ == "__main__":
    main()
