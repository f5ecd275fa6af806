"""The toy table of reports/recipes.md: rendered videos, default backbone; plain, half background,
free order.

    python benchmarks/results_toy.py [--work DIR] [--seeds 4] [--first 4]

Renders kitchens of eight videos, extracts two rows per second, and learns each with several
settings; `--work` keeps videos and features.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from shared import arguments
from stepcut.evaluation import score
from stepcut.features.extract import extract
from stepcut.features.spec import DEFAULT, FeatureSpec
from stepcut.methods import StepCut
from stepcut.methods.baselines.kmeans import KMeans, smooth_embedding
from stepcut.progress import Bar
from stepcut.tables import Table
from stepcut.toy import make_kitchen

RATE = 2.0
KITCHENS: dict[str, dict[str, Any]] = {
    "plain": {},
    "half background": {"background": 0.5},
    "repeats, free order": {"repeat": 0.5, "shuffle": 1.0},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "background=0": {"background": 0.0},
    "background=0.5": {"background": 0.5},
    "prior=0": {"prior": 0.0},
}


def see(
    work: Path, name: str, seed: int, plan: dict[str, Any], spec: FeatureSpec = DEFAULT
) -> tuple[list[Any], list[Any]]:
    """Rows of every video, and its annotated labels: steps from 1, 0 is background."""
    kitchen = make_kitchen(work / f"{name} {seed}", seed=seed, progress=Bar(), **plan)
    features, failures = extract(list(kitchen.videos), spec, cache=work / "cache", progress=Bar())
    assert not failures, failures
    true = [
        kitchen.timelines[one.name].labels(np.arange(len(one.rows)) / RATE) + 1 for one in features
    ]
    return [one.rows for one in features], true


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--seeds", type=int, default=4, help="kitchens of each kind")
    parser.add_argument(
        "--first", type=int, default=4, help="first kitchen; 0 to 3 were used for tuning"
    )
    given = parser.parse_args()
    columns = ["", "uniform", "smooth", *SETTINGS, "steps chosen", "F1 with them"]
    numbers = range(given.first, given.first + given.seeds)
    title = (
        f"strict F1, K = 6, toy videos, kitchens {numbers[0]} to {numbers[-1]} of each kind, seed 0"
    )
    table = Table(columns, [], title)
    with tempfile.TemporaryDirectory() as folder:
        for name, plan in KITCHENS.items():
            rows, chosen = [], []
            for seed in numbers:
                features, true = see(given.work or Path(folder), name, seed, plan)
                uniform = [np.arange(len(video)) * 6 // len(video) for video in features]
                smooth = (
                    KMeans(6, RATE, normalise=False).fit(smooth_embedding(features, RATE)).labels_
                )
                cuts = [uniform, smooth]
                cuts += [
                    StepCut(steps=6, rate=RATE, **one).fit(features).labels_
                    for one in SETTINGS.values()
                ]
                auto = StepCut(rate=RATE).fit(features)
                chosen.append(str(auto.steps_))
                rows.append([score(cut, true).f1 for cut in (*cuts, auto.labels_)])
            means = list(np.mean(rows, axis=0))
            table.rows.append([name, *means[:-1], ", ".join(chosen), means[-1]])
    print(table.markdown())


if __name__ == "__main__":
    main()
