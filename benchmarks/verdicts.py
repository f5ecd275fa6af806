"""Verdicts: how often a check raises an alarm for normal, wrong and altered recordings.

    python benchmarks/verdicts.py [--knots FEATURES GESTURES] [--recipes DATA ...] [--kitchens 4]

FEATURES is what `stepcut features DATA/knot_tying/videos -o FEATURES` makes. Some recordings are learned
from, without labels, with three and with all labelled; each other one is checked as it is and altered, by
the true labels where steps are concerned. Of CaptainCook4D normal recordings are learned from, and a fifth
is held out at a time. A foreign part has the same numbers in another order of columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from shared import arguments, is_wrong
from stepcut.checking.calibrate import learn_expectations
from stepcut.checking.check import check_labels
from stepcut.checking.guide import Guide
from stepcut.checking.report import Report
from stepcut.methods import StepCut
from stepcut.methods.constraints import as_constraints
from stepcut.paper.datasets import load
from stepcut.tables import Cell, Table
from stepcut.timeline import runs
from stepcut.toy import STEPS, toy_features
from teach import knots

Rows = NDArray[Any]
Labels = NDArray[np.int64]
BACKBONES = ("omnivore", "pe_core_b16")  # the first that a recipe has
FOLDS, FEWEST, REDUCED = 5, 4, 160
LEVELS = (0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75)
LABELLED = ("no labels", "3 labels", "all labels")
KINDS = (
    "untouched", "recorded errors", "one step out", "third out", "first half", "halves exchanged", "steps swapped",
    "30 % repeated", "foreign part", "30 % frozen", "half speed", "double speed", "last 30 % gone",
)  # fmt: skip


class Learned:
    """A method and its expectations, from some recordings, of which `labels` (T,) or None are known."""

    def __init__(
        self,
        rows: Sequence[Rows],
        steps: int,
        labels: Sequence[Labels | None] | None = None,
        rate: float = 1.0,
        before: Learned | None = None,
    ) -> None:
        self.method, self.rate = StepCut(steps=steps, rate=rate, seed=0), rate
        if before is not None:
            self.method.start_from(before.method)
        self.method.fit(rows, None if labels is None else as_constraints(labels))
        readings, left_out = [self.method.read(one) for one in rows], self.method.left_out_
        assert left_out is not None
        self.expectations = learn_expectations(
            left_out.labels if labels is None else self.method.labels_,
            rate,
            probabilities=[one.probabilities for one in readings],
            left_out=left_out,
            embeddings=[one.embedding for one in readings],
            videos=[str(place) for place in range(len(rows))],
            labelled=labels is not None,
        )

    def check(self, rows: Rows) -> Report:
        """Return the report of `proc.check`."""
        labels, *read, embedding = self.method.read(rows)
        return check_labels(labels, self.rate, self.expectations, *read, embedding=embedding)

    def probabilities(self, rows: Rows) -> dict[int, float]:
        return defaultdict(float, {one.step: one.probability for one in self.check(rows).steps})

    def guided(self, rows: Rows, true: Labels) -> tuple[int, float, NDArray[Any]]:
        """Alerts of `proc.guide`, how many it expects, and (4, T): true step, guide right,
        segmentation right, confidence of the guide."""
        names = [f"step {number}" for number in range(self.method.steps_)]
        guide = Guide(self.method.online, self.rate, self.expectations, names, self.method.read)
        states = [guide.push(t / self.rate, row) for t, row in enumerate(rows)]
        count = sum(len(state.alerts) for state in states) + len(guide.end().alerts)
        now = np.array([state.step for state in states]) == true
        sure, whole = [state.confidence for state in states], self.method.read(rows).labels == true
        return count, guide.expected_alarms, np.array([true, now, whole, sure])


def area(scores: Sequence[float], wrong: Sequence[bool]) -> float:
    """Area under the ROC in percent: how often a wrong one scores above a right one (ties: half)."""
    ranks, bad = rankdata(scores), np.asarray(wrong)
    pairs = bad.sum() * (~bad).sum()
    return float(100 * (ranks[bad].sum() - bad.sum() * (bad.sum() + 1) / 2) / pairs)


class Trial(NamedTuple):
    """Recordings to learn from and new ones, with their true labels, of one task."""

    name: str
    steps: int
    rate: float
    own: list[tuple[Rows, Labels]]
    new: list[tuple[Rows, Labels]]
    wrong: list[Rows]
    others: list[Rows]
    """Recordings of other tasks."""


def trials_of_knots(features: Path, labels: Path) -> Iterator[Trial]:
    """Two random draws of 20 recordings."""
    column = knots(features, labels)
    both = list(zip(column.rows, column.true, strict=True))
    for draw in range(2):
        order = np.random.default_rng(draw).permutation(len(both)).tolist()
        own, new = [both[n] for n in order[:20]], [both[n] for n in order[20:]]
        yield Trial(f"draw {draw}", column.steps, column.rate, own, new, [], [])


def reduced(folder: Path, backbone: str) -> dict[str, Rows]:
    """Features by video, on principal directions of all rows, without centring, in half precision."""
    files = sorted((folder / "features" / backbone).glob("*.npy"))
    rows = {file.stem: np.load(file).astype(np.float32) for file in files}
    if folder.name.endswith("_more"):  # columns are already principal directions of each recipe
        basis = np.eye(len(next(iter(rows.values()))[0]), REDUCED, dtype=np.float32)
    else:
        scatter = np.asarray(sum(one.T @ one for one in rows.values()), dtype=np.float64)
        basis = np.linalg.eigh(scatter)[1][:, ::-1][:, :REDUCED].astype(np.float32)
    half = {name: (one @ basis).astype(np.float16) for name, one in rows.items()}
    return {name: one.astype(np.float32) for name, one in half.items()}


def trials_of_recipes(folders: Sequence[Path]) -> Iterator[Trial]:
    """Every fifth of each recipe; other recipes have the same features if they lie in one folder."""
    for folder in (one.resolve() for one in folders):
        names = sorted(one.name for one in (folder / "features").iterdir())
        rows = {name: reduced(folder, name) for name in names}
        tasks = [task for task in load("captaincook4d", str(folder)) if task.graph is not None]
        for task in tasks:
            backbone = next(b for b in BACKBONES if any(b in video.features for video in task))
            read = {
                each.name: [rows[backbone][v.features[backbone].stem] for v in each.with_features(backbone)]
                for each in tasks
            }  # fmt: skip
            videos = list(task.with_features(backbone))
            both = []
            for x, video in zip(read[task.name], videos, strict=True):
                assert video.timeline is not None
                both.append((x, video.timeline.labels(np.arange(len(x)))))
            order = np.random.default_rng(0).permutation(len(videos)).tolist()
            right = [n for n, one in enumerate(videos) if not is_wrong(one)]
            for fold in range(FOLDS):
                held = sorted(order[fold::FOLDS])
                own = [both[n] for n in right if n not in held]
                new = [both[n] for n in held if n in right]
                wrong = [both[n][0] for n in held if n not in right]
                rest = [] if folder.name.endswith("_more") else [n for n in read if n != task.name]
                others = [x for name in rest for x in read[name][fold::9]]
                if len(own) >= FEWEST:
                    yield Trial(task.name, len(task.steps), 1.0, own, new, wrong, others)


def trials_of_kitchens(count: int) -> Iterator[Trial]:
    """Toy kitchens: 16 videos to learn from, 6 new ones, and 3 of another kitchen."""
    for seed in range(320, 320 + count):
        rows, timelines = toy_features(videos=22, seed=seed, duration=120.0, skip=0.0, repeat=0.0)
        both = [
            (x, line.labels(np.arange(len(x)))) for x, line in zip(rows, timelines, strict=True)
        ]
        others = toy_features(videos=3, seed=seed + 50, duration=120.0)[0]
        yield Trial(f"kitchen {seed}", len(STEPS), 1.0, both[:16], both[16:], [], list(others))


def altered(rows: Rows, true: Labels, seed: int) -> Iterator[tuple[str, Rows]]:
    """A recording, and what is made of it."""
    rng, n = np.random.default_rng(seed), len(rows)
    a, b = round(0.35 * n), round(0.65 * n)
    yield "untouched", rows
    for step in rng.permutation(np.unique(true[true >= 0]))[:2]:
        yield "one step out", rows[true != step]
    yield "third out", np.concatenate([rows[: n // 3], rows[2 * n // 3 :]])
    yield "first half", rows[: n // 2]
    yield "halves exchanged", np.concatenate([rows[n // 2 :], rows[: n // 2]])
    parts = [(start, end) for step, start, end in runs(true).tolist() if step >= 0]
    pairs = list(pairwise(parts))
    for place in rng.permutation(len(pairs))[:2]:
        (c, d), (e, f) = pairs[place]
        yield "steps swapped", np.concatenate([rows[:c], rows[e:f], rows[d:e], rows[c:d], rows[f:]])
    yield "30 % repeated", np.concatenate([rows[:b], rows[a:]])
    foreign = rows[a:b][:, rng.permutation(rows.shape[1])]
    yield "foreign part", np.concatenate([rows[:a], foreign, rows[b:]])
    yield "30 % frozen", np.concatenate([rows[:a], np.repeat(rows[a : a + 1], b - a, 0), rows[b:]])
    yield "half speed", np.repeat(rows, 2, axis=0)
    yield "double speed", rows[::2]
    yield "last 30 % gone", rows[: round(0.7 * n)]


Found = dict[tuple[str, str], list[Any]]


def measure(trial: Trial) -> Found:
    """What was found by (labels, kind): verdict and score of each recording, and how the guide did."""
    found: Found = defaultdict(list)
    rows, true = [list(one) for one in zip(*trial.own, strict=True)]
    first = Learned(rows, trial.steps, rate=trial.rate)
    chosen = np.random.default_rng(0).permutation(len(rows)).tolist()
    made = [one for n, (x, y) in enumerate(trial.new) for one in altered(x, y, n)]
    made += [("recorded errors", x) for x in trial.wrong]
    for how, count in zip(LABELLED, (0, 3, len(rows)), strict=True):
        known = [one if n in chosen[:count] else None for n, one in enumerate(true)]
        learned = Learned(rows, trial.steps, known, trial.rate, first) if count else first
        for kind, x in made:
            seen = learned.check(x)
            found[how, kind].append((seen.verdict, seen.score))
        found[how, "own"] += [learned.check(x).other_task for x, _ in trial.new]
        found[how, "others"] += [learned.check(x).other_task for x in trial.others]
        for x, labels in trial.new:
            alerts, expected, right = learned.guided(x, labels)
            found[how, "guide"].append((alerts, expected))
            found[how, "right"].append(right)
            whole = learned.probabilities(x)
            for step in np.unique(labels[labels >= 0]).tolist():
                without = learned.probabilities(x[labels != step])
                found[how, "steps"].append((without[step], whole[step]))
    return found


def judge(name: str, trials: Iterator[Trial], workers: int) -> None:
    """Print the tables of one kind of task; areas are means over the tasks."""
    with ProcessPoolExecutor(workers) as pool:
        tasks, parts = zip(*((t.name, pool.submit(measure, t)) for t in trials), strict=True)
        results = list(zip(tasks, (part.result() for part in parts), strict=True))

    def of(how: str, kind: str, task: str = "") -> list[Any]:
        return [x for name, found in results if task in ("", name) for x in found[how, kind]]

    lines: list[list[Cell]] = []
    for kind in KINDS:
        cells: list[Cell] = [kind]
        for how in LABELLED:
            verdicts, known = [verdict for verdict, _ in of(how, kind)], []
            for task in dict.fromkeys(tasks):
                normal, other = ([s for _, s in of(how, each, task)] for each in (KINDS[0], kind))
                if normal and other and kind != KINDS[0]:
                    marks = [False] * len(normal) + [True] * len(other)
                    known.append(area(normal + other, marks))
            alarms = sum(one in ("deviations", "another task") for one in verdicts)
            mean = f"{np.mean(known):.0f}" if known else "–"
            cells.append(f"{alarms}/{len(verdicts)} {verdicts.count('fine')} {mean}")
        if of(LABELLED[0], kind):
            lines.append(cells)
    title = f"{name}: alarms/recordings, called fine, area under the curve"
    print(Table(["recordings", *LABELLED], lines, title))
    for how in LABELLED:
        own, others = (f"{sum(x)} of {len(x)}" for x in (of(how, "own"), of(how, "others")))
        mean, expected = np.mean(of(how, "guide"), axis=0)
        print(f"{how}: called another task {own}, of other tasks {others};", end=" ")
        print(f"guide {mean:.2f} alerts per normal recording, {expected:.2f} expected")
    for how in LABELLED[1:]:
        show_steps(how, of(how, "steps"))
    steps, right, whole, confidence = np.concatenate(of(LABELLED[-1], "right"), axis=1)
    there, sure = steps >= 0, (steps >= 0) & (confidence > 0.7)
    print(
        f"{LABELLED[-1]}, seconds of a step: guide right {100 * right[there].mean():.1f} %, segmentation"
        f" {100 * whole[there].mean():.1f} %; guide above a confidence of 0.7: {100 * right[sure].mean():.1f} %"
        f" of {sure.sum() / there.sum():.1%}\n"
    )


def show_steps(how: str, found: Sequence[tuple[float, float]]) -> None:
    """Print what limits of the probability of a step find, and how often such steps were done."""
    removed, present = np.array(found).T
    both, done = np.append(removed, present), np.repeat([0, 1], len(found))
    curve = area((-both).tolist(), (done == 0).tolist())
    limits = [
        [f"{level:g}", *(100 * float(np.less(each, level).mean()) for each in (removed, present))]
        for level in LEVELS
    ]
    names = ["probability below", "removed found, %", "present called missing, %"]
    title = f"{how}: {len(found)} steps, as they are and removed, area under the curve {curve:.1f}"
    print(Table(names, limits, title))
    fifth = np.minimum(both * 5, 4).astype(int)
    lines: list[list[Cell]] = []
    for n in range(5):
        some = fifth == n
        shares = (100 * float(each[some].mean()) for each in (both, done))
        lines.append([f"{n / 5} to {(n + 1) / 5}", int(some.sum()), *shares])
    print(Table(["probability", "steps", "mean, %", "done, %"], lines), end="\n\n")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--knots", type=Path, nargs=2, metavar=("FEATURES", "GESTURES"))
    parser.add_argument("--recipes", type=Path, nargs="+", metavar="DATA", default=[])
    parser.add_argument("--kitchens", type=int, default=0, metavar="N")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    if args.knots:
        judge("Knots", trials_of_knots(*args.knots), args.workers)
    if args.kitchens:
        judge("Toy kitchens", trials_of_kitchens(args.kitchens), args.workers)
    if args.recipes:
        judge("Recipes", trials_of_recipes(args.recipes), args.workers)


if __name__ == "__main__":
    main()
