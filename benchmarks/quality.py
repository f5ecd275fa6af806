"""Quality: `python benchmarks/quality.py DATA KNOTS --keep FILE` writes benchmarks/reports/quality.md.

DATA is the folder with captaincook4d, captaincook4d_more, openpack, vts_suturing and knot_tying; KNOTS
holds features of the knot videos (`stepcut features DATA/knot_tying/videos --fps 2 -o KNOTS`). FILE
keeps the figures of each task, so that the command resumes. A task has at most ten videos.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load_file
from scipy.ndimage import gaussian_filter1d

from shared import Kept, arguments, gestures, head, labels_of, recipes
from stepcut.evaluation import score
from stepcut.formats import read_folder
from stepcut.methods import StepCut
from stepcut.methods.arithmetic import equal_parts, strongest_directions
from stepcut.methods.constraints import as_constraints
from stepcut.methods.quality import measure, warn_of_nothing_shared
from stepcut.methods.stepcut.slow_features import centre
from stepcut.toy import toy_features

REPORT = Path(__file__).parent / "reports" / "quality.md"
MOST, DRAWS, AXES = 10, 4, 64
KITCHENS: dict[str, dict[str, Any]] = {
    "toy, plain": {},
    "toy, half background": {"background": 0.5},
    "toy, repeats, free order": {"repeat": 0.5, "shuffle": 1.0},
}
HEAD = """
Right: percent of the time of unlabelled videos that has its true step, background included; without
labels after one matching of discovered and true steps per task. Labelled videos are drawn at random.

| task | without labels | uniform | 3 labelled | stated | 5 labelled | stated |
|---|--:|--:|--:|--:|--:|--:|
"""


class Task(NamedTuple):
    """Videos (T, d), and their labels (T,): steps from 1, 0 is background."""

    name: str
    kind: str
    rows: list[Any]
    true: list[Any]
    rate: float = 1.0


def tasks(data: Path, knots: Path) -> Iterator[Task]:
    """All recorded tasks, toys, and sets of videos that are not one task."""
    found = list(recipes(data / "captaincook4d", data / "captaincook4d_more"))
    for one in found:
        yield Task(one.key, "recorded", one.rows[:MOST], one.true[:MOST])
    for name, rate in (("openpack", 2.0), ("vts_suturing", 5.0)):
        yield Task(name, "recorded", *read_tables(data / name, rate), rate)
    files = sorted(knots.glob("*.safetensors"))[::4]  # of all people
    rows = [load_file(file)["rows"] for file in files]
    texts = [data / "knot_tying" / "gestures" / f"{file.stem}.txt" for file in files]
    true = [gestures(text, len(one), 2.0) for text, one in zip(texts, rows, strict=True)]
    yield Task("knots", "recorded", rows, true, 2.0)
    for name, plan in KITCHENS.items():
        toys, lines = toy_features(videos=8, seed=4, rate=2.0, noise=1.0, **plan)
        pairs = zip(toys, lines, strict=True)
        known = [line.labels(np.arange(len(one)) / 2) + 1 for one, line in pairs]
        yield Task(name, "toy", list(toys), known, 2.0)
    rng = np.random.default_rng(5)
    for model, steps in zip(found, (6, 8, 12), strict=False):
        noise = [rng.normal(size=(len(rows), AXES)) for rows in model.rows[:8]]
        smooth = [gaussian_filter1d(rows, steps / 1.5, axis=0) for rows in noise]
        walks = [rows.cumsum(axis=0) for rows in noise]
        for name, rows in (("noise", noise), ("smooth noise", smooth), ("random walks", walks)):
            yield sliced(f"{name}, {steps} steps", "noise", rows, steps)
    clips = [one.rows for one in found if one.backbone == "omnivore" and one.rows[0].shape[1] > 256]
    for n in range(3):
        yield sliced(f"unrelated {n}", "unrelated", [*(r[n] for r in clips), clips[n][9]], 8)
    for a, b in ((0, 1), (2, 3), (0, 3)):
        yield sliced(f"mixed {a} {b}", "two tasks", [*clips[a][:4], *clips[b][:4]], 10)


def sliced(name: str, kind: str, rows: list[Any], steps: int) -> Task:
    """A task whose labels only state the number of steps."""
    return Task(name, kind, rows, [equal_parts(len(one), steps) + 1 for one in rows])


def read_tables(folder: Path, rate: float) -> tuple[list[Any], list[Any]]:
    """Features as .npy, and labels as tables of start, end and step."""
    files = sorted((folder / "features").glob("*.npy"))[:MOST]
    read = read_folder(folder / "labels")
    lines, rows = [read[file.stem] for file in files], [np.load(file) for file in files]
    names = sorted({step for line in lines for step in line.sequence()})
    pairs = zip(lines, rows, strict=True)
    return rows, [labels_of(line, names, len(one), rate) for line, one in pairs]


def figures(task: Task) -> dict[str, Any]:
    """What is right without labels, how well starts agree, and all draws of labelled videos."""
    centred = [centre(np.asarray(rows, dtype=np.float64)) for rows in task.rows]
    axes, _ = strongest_directions(centred, AXES)
    rows = [one @ axes for one in centred]
    numbers = sorted(set(np.concatenate(task.true).tolist()) - {0})
    known = [np.array([numbers.index(x) if x else -1 for x in one]) for one in task.true]
    count, order = len(numbers), np.random.default_rng(0)
    base = StepCut(steps=count, rate=task.rate).fit(rows)
    found: dict[str, Any] = {"kind": task.kind, "steps": count, "agreement": base.agreement_}
    if task.kind in ("recorded", "toy"):
        found["right"] = matched(base.labels_, task.true)
        found["uniform"] = matched([equal_parts(len(one), count) for one in rows], task.true)
        some = [order.permutation(len(rows))[:few].tolist() for few in (3, 5) * DRAWS]
        found["draws"] = [draw(base, rows, known, places) for places in some]
    return found


def draw(base: StepCut, rows: list[Any], known: list[Any], some: Sequence[int]) -> dict[str, Any]:
    """Label the videos at `some` places: the quality that is stated, and what is right elsewhere."""
    given = [one if place in some else None for place, one in enumerate(known)]
    taught = StepCut(steps=base.steps_, rate=base.rate)
    taught.start_from(base)
    taught.fit(rows, constraints=as_constraints(given))
    assert taught.left_out_ is not None
    stated = measure(given, taught.left_out_.labels, base.steps_).now
    others = [place for place in range(len(rows)) if place not in some]
    hits = np.concatenate([taught.labels_[place] == known[place] for place in others])
    return {"labelled": len(some), "right": float(hits.mean()), "stated": stated}


def matched(labels: list[Any], true: list[Any]) -> float:
    """The share of rows that are right after the matching; no step is background."""
    pairs = score(labels, true).matching
    mapped = [[pairs.get(int(x), -9) if x >= 0 else 0 for x in one] for one in labels]
    return float(np.mean(np.concatenate(mapped) == np.concatenate(true)))


def report(known: dict[str, dict[str, Any]]) -> str:
    lines, inside = [], {}
    for name, one in known.items():
        cells = [one[key] for key in ("right", "uniform") if key in one]
        for few in (3, 5) if cells else ():
            mine = [each for each in one["draws"] if each["labelled"] == few]
            cells += [np.mean([x["right"] for x in mine]), np.mean([x["stated"][0] for x in mine])]
            held = [x["stated"][1] <= x["right"] <= x["stated"][2] for x in mine]
            inside.setdefault(f"{one['kind']} | {few}", []).extend(held)
        lines += [f"| {name} | " + " | ".join(f"{100 * x:.0f}" for x in cells) + " |"] * bool(cells)
    right = [100 * one["right"] for one in known.values() if one["kind"] == "recorded"]
    low, high = f"{min(right):.0f}", f"{max(right):.0f}"
    lines += [
        f"\n{len(right)} recorded tasks, without labels: {low} to {high} %,",
        f"median {np.median(right):.0f}. One labelled video, or clicks: not measured.\n",
        "| tasks | labelled videos | draws | truth in the 80 % interval, % |\n|---|--:|--:|--:|",
    ]
    lines += [f"| {key} | {len(x)} | {100 * np.mean(x):.0f} |" for key, x in inside.items()]
    lines.append("\n| videos | sets | warned: seem to share no steps |\n|---|--:|--:|")
    for kind in dict.fromkeys(one["kind"] for one in known.values()):
        each = [(x["agreement"], x["steps"]) for x in known.values() if x["kind"] == kind]
        warned = sum(bool(warn_of_nothing_shared(*one)) for one in each)
        lines.append(f"| {kind} | {len(each)} | {warned} |")
    return "\n".join(lines)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("knots", type=Path)
    parser.add_argument("--keep", type=Path, required=True)
    given = parser.parse_args()
    kept, known = Kept(given.keep), {}
    for task in tasks(given.data, given.knots):
        known[task.name] = kept.get(task.name, lambda task=task: figures(task))
    sets = "CaptainCook4D, OpenPack, VTS suturing, JIGSAWS knot tying, toys, noise"
    top = head(0, sets, "python benchmarks/quality.py DATA KNOTS --keep FILE")
    title = "# Quality: what is stated, and what is right"
    REPORT.write_text(f"{title}\n\n{top}\n{HEAD}{report(known)}\n")


if __name__ == "__main__":
    main()
