"""The guide judged on recordings that it has not learned from: a fit per held-out recording, many of them at once.

Results are kept in OUT/guide.jsonl as they come; a second call does only what is missing. What was found with other
code (methods, order or use), method or seed is not taken for the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import stepcut
from stepcut.checking.calibrate import learn_expectations
from stepcut.datasets.captaincook4d import read
from stepcut.datasets.toy import STEPS, make_kitchen, toy_features
from stepcut.evaluation import score
from stepcut.guidance.guide import TRUST, Guide, State
from stepcut.methods import METHODS
from stepcut.order import find_occurrences, graph_of_labels
from stepcut.tables import Cell, Table
from use_figures import Labels, backbone_of, most_frequent, true_labels

TRUSTS = (TRUST, 0.3)
FEATURES, FILMED = "toy kitchen, features", "toy kitchen, videos"
Array = NDArray[Any]


@dataclass(frozen=True)
class Recordings:
    """The recordings of one task: features (T, d) and true steps (T,), -1 for background."""

    task: str
    names: list[str]
    rows: list[Array]
    truth: list[Labels]
    rate: float
    steps: int


class Case(NamedTuple):
    """One fit: what is learned from all recordings of a task but those held out."""

    source: str
    """The folder of CaptainCook4D, or the name of a toy kitchen."""
    task: str
    held: tuple[str, ...]
    method: str
    seed: int
    quick: bool


# ---------------------------------------------------------------------- the recordings


@cache
def recordings(source: str, task: str, out: str) -> Recordings:
    """The recordings of a task; every process reads them once."""
    if source == FEATURES:
        rows, timelines = toy_features(videos=16, seed=0, rate=1.0, duration=240)
        truth = [t.labels(np.arange(len(x))) for t, x in zip(timelines, rows, strict=True)]
        return Recordings(source, [f"video {n}" for n in range(16)], list(rows), truth, 1.0, len(STEPS))
    if source == FILMED:
        return _filmed(Path(out))
    whole = next(found for found in read(source).tasks if found.name == task)
    backbone = backbone_of(whole)
    videos = list(whole.with_features(backbone))
    inputs = [video.read_features(backbone) for video in videos]
    truth = [true_labels(video, len(x)) for video, x in zip(videos, inputs, strict=True)]
    return Recordings(task, [video.name for video in videos], inputs, truth, 1.0, len(whole.steps))


def _filmed(out: Path, videos: int = 16) -> Recordings:
    """Toy videos as `stepcut learn` sees them by default. Filmed and seen once; later calls need no video decoder."""
    file = out / "kitchen.npz"
    if not file.is_file():
        from stepcut.features.extract import extract

        kitchen = make_kitchen(out / "kitchen", videos=videos, seed=0)
        seen, _ = extract([str(path) for path in kitchen.videos], "efficientnet-lite0", fps=2, cache=out / "cache")
        arrays = {f"rows {x.name}": x.rows for x in seen}
        for x in seen:
            times = np.arange(len(x.rows)) / float(x.rate)
            arrays[f"truth {x.name}"] = kitchen.timelines[x.name].labels(times)
        np.savez(file, **arrays)
    with np.load(file, allow_pickle=False) as kept:
        names = sorted(name.removeprefix("rows ") for name in kept if name.startswith("rows "))
        rows, truth = [kept[f"rows {name}"] for name in names], [kept[f"truth {name}"] for name in names]
    return Recordings(FILMED, names, rows, truth, 2.0, len(STEPS))


# ---------------------------------------------------------------------- one fit


class Given:
    """An online object that repeats memberships computed before: the guide is asked with several settings."""

    def push(self, row: Array) -> NDArray[np.float64]:
        """The row as it is."""
        return np.asarray(row, dtype=np.float64)


def judge(case: Case, out: str) -> list[dict[str, Any]]:
    """Learn from the others, follow each held-out recording; a record of figures, in percent, for each."""
    data = recordings(case.source, case.task, out)
    inside = [place for place, name in enumerate(data.names) if name not in case.held]
    settings: dict[str, Any] = {"train": {"iterations": 20}} if case.quick and case.method == "cnc" else {}
    model = METHODS[case.method](steps=data.steps, rate=data.rate, seed=case.seed, **settings)
    model.fit([data.rows[place] for place in inside])
    matching = score(model.labels_, [data.truth[place] + 1 for place in inside], "strict").matching
    to_true = np.full(max(data.steps, model.steps_) + 1, -2)
    for found, step in matching.items():
        to_true[found] = step - 1
    graph = graph_of_labels({str(n): labels for n, labels in enumerate(model.labels_)}, data.rate)
    usual = learn_expectations(model.labels_, data.rate)
    records = []
    for name in case.held:
        rows, true = data.rows[data.names.index(name)], data.truth[data.names.index(name)]
        raw = model.online()
        seen = np.stack([raw.push(row) for row in rows])
        offline = model.predict([rows])[0]
        known = true >= 0
        record: dict[str, Any] = {"recording": name, "learned": len(inside)}
        record["cut has a step"] = 100 * float(np.mean(offline >= 0))
        record["cut right"] = 100 * float(np.mean(to_true[offline][known] == true[known]))
        names = [f"step {k}" for k in range(model.steps_)]
        for trust in TRUSTS:
            guide = Guide(Given, data.rate, graph, usual, names, trust)
            states = [guide.push(number / data.rate, row) for number, row in enumerate(seen)]
            online = np.array([state.step for state in states])
            record[f"agree {trust}"] = 100 * float(np.mean((online == offline)[offline >= 0]))
            record[f"right {trust}"] = 100 * float(np.mean(to_true[online][known] == true[known]))
            if trust == TRUST:
                record["next"] = next_hits(states, offline, data.rate, graph)
                record["alarm"] = 100.0 * any(state.alerts for state in states)
        records.append(record)
    return records


def next_hits(states: Sequence[State], offline: Labels, rate: float, graph: Any) -> list[list[bool]]:
    """Halfway through each segment of the cut: is the next one first, or among the first three, of what is expected?

    The guide's answer, then the baseline's: what most often followed the step that the guide sees now.
    """
    hits = []
    walk = find_occurrences(offline, rate)
    for now, later in pairwise(walk):
        state = states[min(int((now.start + now.end) / 2 * rate), len(states) - 1)]
        ours = [step for step, _ in state.next]
        frequent = [step for step in most_frequent(graph, [state.step]) if step != state.step]
        hits.append([later.step in guess[:top] for guess in (ours, frequent) for top in (1, 3)])
    return hits


# ---------------------------------------------------------------------- all of them


def code() -> str:
    """A fingerprint of the code whose figures these are."""
    root = Path(stepcut.__file__).parent
    files = sorted(
        file for part in ("methods", "order", "checking", "guidance") for file in (root / part).rglob("*.py")
    )
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def cases(source: str, task: str, out: str, method: str, seed: int, quick: bool, every: int) -> list[Case]:
    """The fits of a task: one per recording, or one with every so many-th recording held out."""
    names = recordings(source, task, out).names
    splits = [tuple(names[::every])] if every else [(name,) for name in names]
    return [Case(source, task, held, method, seed, quick) for held in (splits[:1] if quick else splits)]


def run(todo: Sequence[Case], out: str, jobs: int) -> Iterator[tuple[Case, list[dict[str, Any]]]]:
    """What each case gives, as it comes; what is on file is read."""
    file = Path(out) / "guide.jsonl"
    version = code()
    known: dict[str, list[dict[str, Any]]] = {}
    if file.is_file():
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        known = {line["key"]: line["records"] for line in lines}
    keys = {case: f"{version} {case.task} | {', '.join(case.held)} | {case[3:]}" for case in todo}
    yield from ((case, known[keys[case]]) for case in todo if keys[case] in known)
    left = [case for case in todo if keys[case] not in known]
    # One thread each: the processes share the cores.
    os.environ.update(OMP_NUM_THREADS="1", NUMBA_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    with ProcessPoolExecutor(max(jobs, 1), mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(judge, case, out): case for case in left}
        for number, future in enumerate(as_completed(waiting), start=1):
            case, records = waiting[future], future.result()
            with file.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"key": keys[case], "records": records}) + "\n")
            print(f"  guide: {number} of {len(left)}, {case.task}, {', '.join(case.held)}", file=sys.stderr)
            yield case, records


COLUMNS = [
    "task", "held out", "cut has a step", "guide = cut", "guide right", "cut right", "alarm", "next top-1", "top-3",
    "frequent top-1", "top-3",
]  # fmt: skip
NOTES = [
    "= cut: of the seconds in which the cut of the whole recording has a step, those in which the guide, which sees",
    "the past only, says the same; it always names a step;",
    "alarm: recordings in which the guide raises an alarm, those with mistakes among them (none in the toy kitchen);",
    "right: after the matching of the training videos, on seconds that belong to a step;",
    "next: halfway through each segment of the cut, is the step of the next one expected first, or among three;",
    "frequent: the step that most often followed the one that the guide sees.",
]


def guide_table(found: dict[str, list[dict[str, Any]]], method: str, seed: int) -> Table:
    """The guide by task."""
    rows: list[list[Cell]] = []
    for task, records in found.items():
        keys = ("cut has a step", f"agree {TRUST}", f"right {TRUST}", "cut right", "alarm")
        hits = np.array([hit for record in records for hit in record["next"]], dtype=float).reshape(-1, 4)
        rows.append([task, len(records), *(_mean(records, key) for key in keys), *(100 * hits.mean(axis=0)).tolist()])
    return Table(COLUMNS, rows, f"The guide, trust {TRUST}, method {method}, seed {seed}, percent", NOTES)


def _mean(records: Sequence[dict[str, Any]], key: str) -> float:
    return float(np.mean([record[key] for record in records]))
