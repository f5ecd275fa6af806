"""How well the probability of a step predicts whether it was done: `python benchmarks/steps.py DATA [MORE]`.

DATA and MORE are folders of CaptainCook4D. A procedure is learned from normal recordings, all or three
of them labelled, as in `verdicts.py`. In every normal held-out recording each step is judged as it is
(present) and after its rows were removed.
"""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from shared import arguments, report
from stepcut.tables import Table
from verdicts import Learned, Rows, Trial, area, trials_of_recipes

LEVELS = (0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75)


def probabilities(learned: Learned, rows: Rows) -> dict[int, float]:
    return defaultdict(float, {one.step: one.probability for one in learned.check(rows).steps})


def show(how: str, removed: list[float], present: list[float]) -> None:
    """Print what a limit finds, and how often the steps of a probability were done."""
    both, done = np.array([*removed, *present]), np.repeat([0, 1], [len(removed), len(present)])
    curve = area((-both).tolist(), (done == 0).tolist())
    title = (
        f"{how} normal recordings labelled: {len(present)} steps, area under the ROC {curve:.1f}"
    )
    limits = [
        [f"{level:g}", *(100 * float(np.less(each, level).mean()) for each in (removed, present))]
        for level in LEVELS
    ]
    print(Table(["below", "removed found, %", "present called missing, %"], limits, title))
    fifth = np.minimum(both * 5, 4).astype(int)
    parts = [(n, fifth == n) for n in range(5) if n in fifth]
    lines = [
        [
            f"{n / 5} to {(n + 1) / 5}",
            int(here.sum()),
            *(100 * x[here].mean() for x in (both, done)),
        ]
        for n, here in parts
    ]
    print(Table(["probability", "steps", "mean, %", "done, %"], lines), end="\n\n")


def measure(trial: Trial) -> list[tuple[list[float], list[float]]]:
    """Probabilities of removed and of present steps, with all and with three recordings labelled."""
    rows, true = [list(one) for one in zip(*trial.own, strict=True)]
    first = Learned(rows, trial.steps)
    chosen = np.random.default_rng(0).permutation(len(rows))
    found = []
    for count in (len(rows), 3):
        known = [one if n in chosen[:count] else None for n, one in enumerate(true)]
        learned = Learned(rows, trial.steps, known, before=first)
        removed, present = [], []
        for x, labels in trial.new:
            whole = probabilities(learned, x)
            for step in np.unique(labels[labels >= 0]).tolist():
                present.append(whole[step])
                removed.append(probabilities(learned, x[labels != step])[step])
        found.append((removed, present))
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("data", nargs="+", type=Path, help="folders of CaptainCook4D")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    with ProcessPoolExecutor(options.workers) as pool:
        both = zip(*pool.map(measure, trials_of_recipes(options.data)), strict=True)
    for how, parts in zip(("All", "Three"), both, strict=True):
        show(how, *([one for part in lists for one in part] for lists in zip(*parts, strict=True)))


if __name__ == "__main__":
    with report(__file__):
        main()
