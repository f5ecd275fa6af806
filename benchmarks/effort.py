"""What annotating costs a simulated annotator who knows the truth, with and without stepcut.

    python benchmarks/effort.py DATA FEATURES WORK

A dragged boundary, a key, a name and the next video cost 1, another step for a segment and a marked range 2. A video is
done when 95 % of it is right; background counts. The greedy annotator does what gains most for its cost, the plain one
mends errors of half a second from left to right. Keys are late (log-normal, median 0.45 s times the speed, which shows
a segment for four seconds); `onsets` are keys without the reaction time. FEATURES are those of the knot-tying videos.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared import GESTURES, Kept, arguments, fill, gestures, recipes
from stepcut.annotations import REACTION, Annotation, Annotations
from stepcut.features.extract import extract
from stepcut.features.features import Features, load_features
from stepcut.formats import read_folder
from stepcut.methods import StepCut
from stepcut.methods.arithmetic import best_pairs
from stepcut.methods.similar import suggest
from stepcut.procedure.document import Document
from stepcut.procedure.fitting import timeline_of
from stepcut.procedure.verbs import apply
from stepcut.tables import Table
from stepcut.timeline import Timeline, runs
from stepcut.toy import make_kitchen

GRID, RIGHT, SEEN = 10, 0.95, 0.5
"""Cells per second, share that must be right, seconds of an error that the plain annotator sees."""
Cells = NDArray[np.int64]
Material = tuple[Mapping[str, Any], float, Mapping[str, Timeline]]
"""Features by video, rows per second, true timelines."""
WAYS = ("nothing", "keys", "onsets", "correct", "correct 3, Learn", "Learn after every",
        "Learn after every, keys if cheaper")  # fmt: skip


def correct(true: Cells, shown: Cells, plain: bool) -> tuple[int, Cells]:
    """Correct until enough is right; return the cost and the cells, with -1 for background."""
    cells, cost, parts = shown.copy(), 0, runs(true).tolist()
    sums = {step: np.append(0, np.cumsum(true == step)) for step in np.unique(true).tolist()}
    edges, wanted = [first for _, first, _ in parts], int(np.ceil(RIGHT * len(true)))

    def actions() -> Iterator[tuple[int, int, int, int]]:
        """All actions: the cost, and the step that the cells from first to last then have."""
        now = runs(cells).tolist()
        for (a, low, here), (b, _, high) in pairwise(now):
            for edge in (low, *(one for one in edges if low < one < high), high):
                yield (1, a, here, edge) if edge > here else (1, b, edge, here)
        for _, first, last in (one for one in now if one[0] >= 0):
            yield from ((2, step, first, last) for step in sums)
        yield from ((2, *part) for part in parts)

    while (done := int((cells == true).sum())) < wanted:
        right = np.append(0, np.cumsum(cells == true))
        errors = [one for one in runs(cells != true).tolist() if one[0]]
        at = next((a for _, a, b in errors if b - a >= SEEN * GRID), errors[0][1])
        best = (-1.0, 0, 0, 0, 0)
        for price, step, first, last in actions():
            if first < last and (not plain or first <= at < last):
                count = sums.get(step, np.zeros(len(true) + 1))
                gain = int(count[last] - count[first] - right[last] + right[first])
                best = max(best, (min(gain, wanted - done) / price, price, step, first, last))
        _, price, step, first, last = best
        cells[first:last] = step
        cost += price
    return cost, cells


class Quick(StepCut):
    """Without the held-out videos that measure confidence."""

    def _calibrate(self, *_: Any) -> None:
        self._left_out = None


class Task:
    """One material, and what stepcut proposes for it."""

    def __init__(self, rows: Mapping[str, Any], rate: float, true: Mapping[str, Timeline]) -> None:
        self.rows, self.rate, self.true = rows, rate, true
        self.steps = sorted({segment.step for one in true.values() for segment in one})
        self.cells = {name: self.at(one, name) for name, one in true.items()}
        self.quick = partial(Quick, steps=len(self.steps), rate=rate)
        self.first = self.quick().fit(list(rows.values()))
        views = [self.first.read(one).embedding for one in rows.values()]
        some = [list(true)[place] for place, _ in suggest(views, [], 3)]
        self.order = list(dict.fromkeys([*some, *true]))

    def at(self, timeline: Timeline, video: str, rate: float = GRID) -> Cells:
        times = (np.arange(int(self.true[video].end * rate)) + 0.5) / rate
        return timeline.labels(times, self.steps)

    def propose(self, done: Mapping[str, Cells]) -> Document:
        """Without labels, each step has the name of the one that it shares most time with."""
        count, videos = len(self.steps), list(self.rows.values())
        method, names = self.first, list(range(count))
        if done:
            said = {}
            for name, cells in done.items():
                one, end = Timeline.from_labels(cells, GRID, self.steps), self.true[name].end
                said[name] = Annotation(end=end, segments=one.segments, annotated=((0, end),))
            samples = {name: len(rows) for name, rows in self.rows.items()}
            known = Annotations(videos=said).constraints(samples, self.rate, self.steps)
            shown = [b if a is None else a.labels for a, b in zip(known, self.labels, strict=True)]
            method = self.quick()
            method.start_from(self.method, shown)
            method.fit(videos, known)
        else:
            shared = np.zeros((count + 1, count + 1))
            for labels, (name, one) in zip(method.labels_, self.true.items(), strict=True):
                true = self.at(one, name, self.rate)
                np.add.at(shared, (labels[: len(true)], true), 1)
            pairs = dict(best_pairs(shared[:-1, :-1], least=-1))
            names = [pairs[step] for step in range(count)]
        self.method, self.labels, timelines = method, [], {}
        for name, rows in self.rows.items():
            features = Features(rows, Fraction(self.rate), self.true[name].end, name)
            read = method.read(rows)
            self.labels.append(np.array([*names, -1])[read.labels])
            steps = [self.steps[number] for number in names]
            timelines[name] = timeline_of(features, read.labels, read.probabilities, steps)
        return Document.of(self.steps, timelines)

    def key(self, video: str, document: Document, bare: bool) -> tuple[int, Cells]:
        """The keys at all changes of step, and what they show; `bare`: with the reaction time."""
        parts, end = runs(self.cells[video]).tolist(), self.true[video].end
        parts = parts[parts[0][0] < 0 :]
        speed = float(np.clip(end / len(parts) / 4, 1, 4))
        late = 0.45 * np.exp(0.35 * np.random.default_rng(len(parts)).normal(size=len(parts)))
        for (step, first, _), wait in zip(parts, late + bare * REACTION, strict=True):
            given = {"video": video, "time": float(first / GRID + speed * wait), "speed": speed}
            given["step"] = step if step >= 0 else None
            document = apply(document, {"do": "onset", **given})
        return len(parts), self.at(document.timelines[video], video)

    def cost(self, way: str, plain: bool) -> int:
        total, done = len(self.steps), dict[str, Cells]()
        empty = {name: Timeline([], one.end, self.steps) for name, one in self.true.items()}
        document = Document.of(self.steps, empty)
        document = document if way in WAYS[:2] else self.propose(done)
        for place, video in enumerate(self.order):
            starts = [(0, self.at(document.timelines[video], video))]
            if way in WAYS[1:3] or "keys if" in way:
                keyed = self.key(video, document, way == "keys")
                starts = [keyed] if way in WAYS[1:3] else [*starts, keyed]
            ends = [(n, correct(self.cells[video], shown, plain)) for n, shown in starts]
            spent, done[video] = min(((n + c, cells) for n, (c, cells) in ends), key=lambda e: e[0])
            total += 1 + spent
            if "every" in way or ("3" in way and place == 2):
                document = self.propose(done)
        return total


def measure(name: str, data: Path, features: Path, work: Path, one: Any) -> dict[str, Any]:
    """The costs of one material in all ways, greedy and plain."""
    task = Task(*material(name, data, features, work, one))
    return {way: [task.cost(way, plain) for plain in (False, True)] for way in WAYS}


def material(name: str, data: Path, features: Path, work: Path, one: Any) -> Material:
    if name.startswith("recipe"):
        steps = list(map(str, range(40)))
        true = [Timeline.from_labels(labels - 1, 1, steps) for labels in one.true]
        names = [f"{number:02d}" for number in range(len(true))]
        return dict(zip(names, one.rows, strict=True)), 1, dict(zip(names, true, strict=True))
    if name.startswith("demo"):
        how: Any = {"duration": 30.0, "skip": 0, "repeat": 0, "shuffle": 0}
        kitchen = make_kitchen(work / "kitchen", videos=12, seed=0, **how)
        found, _ = extract(kitchen.videos, cache=work / "cache")
        return {each.name: each.rows for each in found}, float(found[0].rate), kitchen.timelines
    if name.startswith("openpack"):
        files = sorted((data / "openpack/features").glob("*.npy"))
        rows, labels = {f.stem: np.load(f) for f in files}, read_folder(data / "openpack/labels")
        ends = {name: len(one) / 2 for name, one in rows.items()}
        return rows, 2, {n: Timeline(labels[n].crop(0, end), end) for n, end in ends.items()}
    read = load_features(sorted(features.glob("*.safetensors")))
    places = np.linspace(0, len(read) - 1, int(name.split()[1])).astype(int)
    read = [read[place] for place in places]
    timelines = {}
    for each in read:
        file = data / "knot_tying/gestures" / f"{each.name}.txt"
        cells = gestures(file, int(each.end * GRID), GRID) - 1
        timelines[each.name] = Timeline.from_labels(cells, GRID, GESTURES, each.end)
    return {each.name: each.rows for each in read}, float(read[0].rate), timelines


def table(known: Mapping[str, Mapping[str, Sequence[int]]], who: int) -> Table:
    """Costs, and the mean share of the recipes of what keys cost."""
    cooked = [one for name, one in known.items() if name.startswith("recipe")]
    others = {name: one for name, one in known.items() if not name.startswith("recipe")}
    made = Table(["way", *others, *["recipes, % of keys"] * bool(cooked)], [])
    for way in WAYS:
        shares = [100 * one[way][who] / one["keys"][who] for one in cooked]
        mean = [round(float(np.mean(shares)))] if cooked else []
        made.rows.append([way, *(one[way][who] for one in others.values()), *mean])
    return made


def main() -> None:
    parser = arguments(__doc__)
    for name in ("data", "features", "work"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args()
    roots = [given.data / name for name in ("captaincook4d", "captaincook4d_more")]
    todo: dict[str, Any] = {f"recipe {one.name}": one for one in recipes(*roots)}
    todo = dict.fromkeys(("demo 12", "openpack 20", "knots 12", "knots 36")) | todo
    kept = Kept(given.work / "effort.jsonl")
    places = given.data, given.features, given.work
    kept.fill(measure, {name: (name, *places, one) for name, one in todo.items()}, 1)
    known = {name: kept.known[name] for name in todo}
    for who, title in enumerate(("greedy", "plain")):
        print(f"Cost of all videos, the {title} annotator\n{table(known, who)}", end="\n\n")
    for name, one in known.items():
        print(name, {way: costs[0] for way, costs in one.items()})
    page = Path(__file__).parents[1] / "docs" / "annotate.md"
    page.write_text(fill(page.read_text(), {"effort": table(known, 0).markdown()}))


if __name__ == "__main__":
    main()
