"""Choose the defaults of ProCut, `smoothness` and `m`: `python benchmarks/choose_smoothness.py
--data DIR`.

Labels are used only to score. The tuning data are toy features of seeds 0 to 4 and the recipes in
DIR; results on them are not held out. Features are prepared without training: every video is
centred, unsmoothed and smoothed over 3 seconds. The choice has the highest mean of the two groups'
mean F1 (`strict`, K = the annotated number of steps).
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from shared import arguments, recipe_tasks, report, toy_tasks
from stepcut.evaluation import score
from stepcut.methods import METHODS
from stepcut.paper.cnc.procut import ProCut
from stepcut.tables import Table
from stepcut.version import __version__

SMOOTHNESS = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0)
FUZZIFIERS = (1.05, 1.1, 1.2, 2.0)
RIVALS = ("kmeans", "subset", "asot", "uniform", "random")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        "--data", type=Path, help="folder of CaptainCook4D (default: toy features only)"
    )
    parser.add_argument("--quick", action="store_true", help="two toy tasks, three fuzzifiers")
    options = parser.parse_args()
    tasks = []
    for smooth in (0.0, 3.0):
        tasks += toy_tasks(2 if options.quick else 5, smooth)
        tasks += (
            recipe_tasks(options.data, smooth=smooth) if options.data and not options.quick else []
        )
    fuzzifiers = FUZZIFIERS[:3] if options.quick else FUZZIFIERS

    found: dict[tuple[float, float, str], list[float]] = defaultdict(list)
    rivals: dict[tuple[str, str], list[float]] = defaultdict(list)
    for task in tasks:
        steps = len(task.steps)
        for m in fuzzifiers:
            learned = ProCut(steps=steps, m=m, restarts=1).fit(task.rows)
            for smoothness in SMOOTHNESS:
                settings = {**learned.settings(), "smoothness": smoothness}
                labels = ProCut.restore(settings, learned.state()).predict(task.rows)
                found[m, smoothness, task.group].append(score(labels, task.true).f1)
        for name in RIVALS:
            labels = METHODS[name](steps=steps).fit(task.rows).labels_
            rivals[name, task.group].append(score(labels, task.true).f1)

    groups = sorted({task.group for task in tasks})
    for group in groups:
        rows = [[m, *(float(np.mean(found[m, s, group])) for s in SMOOTHNESS)] for m in fuzzifiers]
        count = sum(task.group == group for task in tasks)
        caption = f"{group}: F1 (strict) by fuzzifier and smoothness in seconds; mean of {count} tasks, seed 0"
        print(
            f"{Table(['m', *(f'{s:g} s' for s in SMOOTHNESS)], [[f'{r[0]:g}', *r[1:]] for r in rows], caption)}\n"
        )
    rows = [[name, *(float(np.mean(rivals[name, group])) for group in groups)] for name in RIVALS]
    print(f"{Table(['rival', *groups], rows, 'The same tasks, F1 (strict), default settings')}\n")
    mean = {
        (m, s): np.mean([np.mean(found[m, s, g]) for g in groups])
        for m in fuzzifiers
        for s in SMOOTHNESS
    }
    m, smoothness = max(mean, key=lambda pair: (mean[pair], -pair[1]))
    print(
        f"stepcut {__version__}: best is m = {m:g}, smoothness = {smoothness:g} s, mean F1 {mean[m, smoothness]:.1f}."
    )


if __name__ == "__main__":
    with report(__file__):
        main()
