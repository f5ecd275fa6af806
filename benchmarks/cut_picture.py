"""Draw docs/images/cut.svg, one toy video segmented by each segmenter: `python
benchmarks/cut_picture.py`."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from shared import arguments, toy_tasks
from stepcut.colours import colour
from stepcut.evaluation import score
from stepcut.methods import METHODS
from stepcut.version import __version__

NOISE = 1.5
"""Three times the default noise of the toy."""
LEFT, WIDTH, HEIGHT, GAP = 110, 640, 26, 8


def draw(labels: Any, y: int) -> str:
    """Draw one bar with a block per segment."""
    edges = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), len(labels)]
    blocks = []
    for first, last in pairwise(edges):
        x, width = LEFT + WIDTH * first / len(labels), WIDTH * (last - first) / len(labels)
        fill = colour(int(labels[first]))
        blocks.append(
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{HEIGHT}" fill="{fill}"/>'
        )
    return "".join(blocks)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path(__file__).parents[1] / "docs" / "images" / "cut.svg",
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    task = toy_tasks(options.seed + 1, noise=NOISE)[options.seed]
    bars = [("true steps", task.true[0] - 1, "")]
    for name, kind in METHODS.items():
        labels = kind(steps=len(task.steps), seed=options.seed).fit(task.rows).labels_
        result = score(labels, task.true)
        # A cluster has the colour of its matched step; an unmatched one is grey.
        names = np.array([result.matching.get(k, 0) - 1 for k in range(len(task.steps))])
        bars.append((name, names[labels[0]], f"{result.f1:.0f}"))
    height = (len(bars) + 1) * (HEIGHT + GAP) + 2 * GAP
    total = LEFT + WIDTH + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height}" font-family="sans-serif" '
        f'font-size="13">'
        f'<rect width="{total}" height="{height}" fill="white"/>'
    ]
    for number, (name, labels, figure) in enumerate(bars):
        y = GAP + number * (HEIGHT + GAP)
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + 18}" text-anchor="end">{name}</text>{draw(labels, y)}'
        )
        parts.append(f'<text x="{LEFT + WIDTH + 8}" y="{y + 18}">{figure}</text>')
    note = f"Toy video 0 of seed {options.seed}, noise {NOISE}; grey: background or no match; right: F1 (strict) of "
    note += f"all 8 videos, K = {len(task.steps)}; stepcut {__version__}"
    parts.append(f'<text x="{GAP}" y="{height - GAP - 4}" font-size="11">{note}</text></svg>')
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
