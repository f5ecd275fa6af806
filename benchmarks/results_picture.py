"""Draw docs/images/results.svg, three recordings segmented by the default method.

    python benchmarks/results_picture.py DATA

Shows the recording of each recipe with the median F1 under the matching of the whole recipe.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cut_picture import GAP, HEIGHT, LEFT, WIDTH, draw
from results import method, named_f1
from shared import Recipe, arguments, recipes
from stepcut.evaluation import score
from stepcut.methods import METHODS
from stepcut.version import __version__

SHOWN = ("omnivore 1", "omnivore 8", "omnivore 12")


def renamed(cut: list[NDArray[np.int64]], recipe: Recipe) -> list[NDArray[np.int64]]:
    """Labels numbered as the annotated steps, from 1; 0 without a match."""
    match = score(cut, recipe.true).matching
    return [np.array([match.get(int(k), 0) for k in labels]) for labels in cut]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path(__file__).parents[1] / "docs/images/results.svg"
    )
    given = parser.parse_args()
    lines, y = [], 4
    for recipe in recipes(given.data):
        if recipe.key not in SHOWN:
            continue
        found = renamed(method()(recipe, 0), recipe)
        uniform = renamed(METHODS["uniform"](steps=recipe.steps).fit(recipe.rows).labels_, recipe)
        own = [named_f1([cut], [true]) for cut, true in zip(found, recipe.true, strict=True)]
        middle = int(np.argsort(own)[len(own) // 2])
        lines.append(
            f'<text x="0" y="{y + 12}">{recipe.name}, {len(recipe.true[middle])} s, F1 {own[middle]:.0f}</text>'
        )
        y += 20
        for name, labels in (("true steps", recipe.true), ("stepcut", found), ("uniform", uniform)):
            lines.append(f'<text x="0" y="{y + 17}">{name}</text>{draw(labels[middle] - 1, y)}')
            y += HEIGHT + GAP
        y += 10
    size = f'viewBox="0 0 {LEFT + WIDTH} {y}" width="{LEFT + WIDTH}"'
    style = 'font-family="sans-serif" font-size="13" fill="#444"'
    note = f"<!-- stepcut {__version__}, benchmarks/results_picture.py, seed 0 -->"
    given.output.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{note}\n'
        + "\n".join(lines)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    main()
