"""Check the knot-tying videos: `python benchmarks/use_knots.py FEATURES GESTURES [--others FEATURES]`.

FEATURES are those that `stepcut features` makes of the videos, --others those of another task, made in the same way. A
fifth of the trials is held out in turn; deviations are simulated in them as in `use_check.py`, exchanges where most
trials keep an order. Learned without labels, and with three labelled trials.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from shared import arguments
from stepcut.features.files import load_features
from stepcut.order import learn_graph
from stepcut.tables import Table
from stepcut.version import __version__
from teach import knots
from use_check import FOLDS, Learned, planted
from use_figures import Labels, area, closed_edges

KINDS = ("normal", "half", "third", "step out", "exchange")


def main() -> None:
    """Print the detection rates of simulated deviations and of another task."""
    parser = arguments(__doc__)
    parser.add_argument("features", type=Path)
    parser.add_argument("gestures", type=Path)
    parser.add_argument("--others", type=Path)
    args = parser.parse_args()
    column = knots(args.features, args.gestures)
    rows, true, steps = column.rows, column.true, column.steps
    graph = learn_graph(
        [cut[np.flatnonzero(np.diff(cut, prepend=-9))].tolist() for cut in map(_known, true)]
    )
    before = closed_edges(graph.edges, steps)
    others = [one.rows for one in load_features(args.others)] if args.others else []
    columns = [
        "labelled",
        *KINDS,
        *(["another task, area", "own called other", "others called other"] if others else []),
    ]
    table = Table(
        columns,
        [],
        f"Knot tying, percent called wrong, 5 % asked for, seed 0, stepcut {__version__}",
    )
    searches: list[Learned] = []
    for labelled in (0, 3):
        found: list[tuple[str, bool]] = []
        own, far = [], []
        for fold in range(FOLDS):
            learned_from = [place for place in range(len(rows)) if place % FOLDS != fold]
            chosen = np.random.default_rng(fold).permutation(learned_from)[:labelled]
            labels: list[Labels | None] = [
                true[place] if place in chosen else None for place in learned_from
            ]
            given = [rows[n] for n in learned_from]
            if labelled:
                learned = Learned(given, steps, labels, column.rate, searches[fold])
            else:
                learned = Learned(given, steps, rate=column.rate)
                searches.append(learned)
            for place in range(fold, len(rows), FOLDS):
                found += planted(learned, rows[place], true[place], before, place)
                own.append(learned.check(rows[place]).task_distance)
            far += [learned.check(one).task_distance for one in others]
        cells = [
            100 * float(np.mean([hit for what, hit in found if what == kind])) for kind in KINDS
        ]
        if others:
            cells.append(area(own + far, [False] * len(own) + [True] * len(far)))
            cells += [100 * float(np.mean([one > 1 for one in part])) for part in (own, far)]
        table.rows.append([labelled, *cells])
    print(table)


def _known(cut: Labels) -> Labels:
    return cut[cut >= 0]


if __name__ == "__main__":
    main()
