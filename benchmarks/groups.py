"""Two tasks in one folder: how often they are noticed, and how often one task is taken for two.

    python benchmarks/groups.py DATA

DATA is a folder of CaptainCook4D. Every pair of recipes with the same features is learned together, twelve recordings
of each; single recipes and toy kitchens alone. Random parts of the videos are then judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shared import arguments, recipes
from stepcut.methods import StepCut
from stepcut.methods.similar import find_groups
from stepcut.tables import Table
from stepcut.toy import toy_features

MOST, DRAWS = 12, 6
SIZES = ((6, 6), (9, 3), (12, 12))
PARTS = (6, 8, 12, 24)
SEEDS = range(6)

Rows = list[NDArray[np.float32]]


def learn(rows: Rows, rate: float) -> Callable[[Sequence[int]], list[list[int]]]:
    """Learn videos together; return what finds the groups among some of them."""
    method = StepCut(rate=rate).fit(rows)
    videos = [method.read(one).embedding for one in rows]
    return lambda places: find_groups([videos[place] for place in places])


def mixed(first: Rows, second: Rows, rate: float) -> list[float | None]:
    """For each size: percent of draws in which both tasks are noticed and the groups are right."""
    groups, rng = learn([*first, *second], rate), np.random.default_rng(0)
    found: list[float | None] = []
    for one, two in SIZES:
        truth, right = [[*range(one)], [*range(one, one + two)]], 0
        for _ in range(DRAWS):
            places = rng.permutation(len(first))[:one].tolist()
            places += (len(first) + rng.permutation(len(second))[:two]).tolist()
            right += sorted(groups(places)) == truth
        enough = one <= len(first) and two <= len(second)
        found.append(100 * right / DRAWS if enough else None)
    return found


def single(rows: Rows, rate: float) -> list[float | None]:
    """Percent of random parts of each size that are taken for two tasks."""
    groups, rng = learn(rows, rate), np.random.default_rng(0)

    def taken(part: int) -> float:
        draws = [rng.permutation(len(rows))[:part].tolist() for _ in range(DRAWS)]
        return 100 * float(np.mean([bool(groups(places)) for places in draws]))

    return [taken(part) if part <= len(rows) else None for part in PARTS]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("data", type=Path)
    options = parser.parse_args()
    tasks = list(recipes(options.data))
    toys = [toy_features(24, rate=2, seed=seed)[0] for seed in SEEDS]
    pairs = [
        (f"{one.key} + {other.key}", one.rows, other.rows, one.rate)
        for one, other in combinations(tasks, 2)
        if one.backbone == other.backbone
    ]
    pairs += [
        (f"toy kitchens {a} + {b}", toys[a], toys[b], 2.0) for a, b in ((0, 1), (2, 3), (4, 5))
    ]
    two = Table(
        ["folder", *(f"{a} + {b}" for a, b in SIZES)],
        [[name, *mixed(a[:MOST], b[:MOST], rate)] for name, a, b, rate in pairs],
        "Two tasks: percent of draws in which they are noticed and the groups are right",
    )
    alone = [(task.key, task.rows, task.rate) for task in tasks]
    alone += [(f"toy kitchen {seed}", rows, 2.0) for seed, rows in enumerate(toys)]
    one_task = Table(
        ["folder", *(f"{part} videos" for part in PARTS)],
        [[name, *single(rows, rate)] for name, rows, rate in alone],
        "One task: percent of draws that are taken for two",
    )
    print(two, one_task, sep="\n\n")


if __name__ == "__main__":
    main()
