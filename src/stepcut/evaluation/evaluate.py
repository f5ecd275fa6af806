"""evaluate(): a procedure against true timelines, in a table that names its protocol and shows the baselines."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stepcut.errors import OptionError, choose
from stepcut.evaluation.clock import CLOCK, put_on_one_clock
from stepcut.evaluation.compare import baseline, compare_videos, graph_f1, verdict
from stepcut.evaluation.protocols import Protocol, find_protocol
from stepcut.evaluation.score import Score, score
from stepcut.files.addresses import as_path
from stepcut.files.names import short_names
from stepcut.formats import read_folder
from stepcut.methods.segmenter import check_number
from stepcut.procedure.folder import is_procedure
from stepcut.procedure.procedure import load
from stepcut.procedure.storage import read_outline
from stepcut.tables import Cell, Spread, Table
from stepcut.timeline import Timeline
from stepcut.version import __version__

if TYPE_CHECKING:
    from stepcut.datasets import Task
    from stepcut.parallel.contract import Engine
    from stepcut.procedure.procedure import Procedure

    Found = Procedure | Mapping[str, Timeline] | str | os.PathLike[str]
    Truth = Task | Mapping[str, Timeline] | str | os.PathLike[str]

BASELINES = ("random", "uniform", "one-cluster")
FIGURES = ("F1", "IoU", "precision", "recall", "MoF", "edit", "F1@10", "F1@25", "F1@50", "tau", "lengths")


@dataclass
class Evaluation(Table):
    """A table of figures in percent (tau -1 to 1, lengths 0 to 1), and the scores behind each row."""

    scores: dict[str, list[Score]] = field(default_factory=dict)
    """Row -> one score for every seed."""
    videos: list[str] = field(default_factory=list)
    clusters: list[str] = field(default_factory=list)

    @property
    def score(self) -> Score:
        """The score of what was evaluated (of the first row and its first seed)."""
        return next(iter(self.scores.values()))[0]

    @property
    def matching(self) -> str:
        """Which found step is which true step, in words."""
        if self.score.protocol == "named":
            return "steps are told by their names; nothing was matched"
        return self.score.explain(self.clusters)

    def json(self) -> str:
        """The table with the matching beside it: found step -> true step."""
        record = json.loads(super().json())
        if self.score.has_one_matching and self.score.protocol != "named":
            record["matching"] = {self._cluster(k): self.score.name(s) for k, s in self.score.matching.items()}
        return json.dumps(record, indent=1, ensure_ascii=False) + "\n"

    def per_step(self) -> Table:
        """The figures of every true step."""
        rows: list[list[Cell]] = []
        for s in self.score.per_step:
            matched = None if s.cluster is None else self._cluster(s.cluster)
            found = s.name if self.score.protocol == "named" else matched
            rows.append([s.name, found, s.f1, s.iou, s.precision, s.recall, s.frames])
        columns = ["step", "found as", "F1", "IoU", "precision", "recall", "ticks"]
        return Table(columns, rows, f"{self.caption}; per step")

    def per_video(self) -> Table:
        """The figures of every video."""
        each = zip(self.videos, self.score.per_video, strict=True)
        rows: list[list[Cell]] = [[name, v.f1, v.iou, v.precision, v.recall, v.mof, v.edit, v.tau] for name, v in each]
        columns = ["video", "F1", "IoU", "precision", "recall", "MoF", "edit", "tau"]
        return Table(columns, rows, f"{self.caption}; per video")

    def confusion(self) -> Table:
        """How many ticks of every true step were given to every found one; the first row's, of its first seed."""
        counts = self.score.confusion
        found = ["no step", *self.clusters, *(f"cluster {k}" for k in range(len(self.clusters), counts.shape[1] - 1))]
        shown = np.flatnonzero(counts.sum(axis=0))
        rows: list[list[Cell]] = [
            [self.score.name(step), *(int(counts[step, k]) for k in shown)]
            for step in np.flatnonzero(counts.sum(axis=1)).tolist()
        ]
        return Table(["true step", *(found[k] for k in shown)], rows, f"{self.caption}; confusion, in ticks")

    def _cluster(self, number: int) -> str:
        return "no step" if number < 0 else self.clusters[number]


def evaluate(
    proc_or_timelines: Found | Sequence[Found] | Mapping[str, Found | Sequence[Found]],
    truth: Truth,
    protocol: str | Protocol = "strict",
    seeds: int = 5,
    background: str = "count",
    clock: float = CLOCK,
    seed: int = 0,
    graph: Iterable[tuple[str, str]] | None = None,
    engine: Engine | None = None,
) -> Evaluation:
    """Score a procedure (or timelines by any other program) against true timelines.

    proc_or_timelines  a `Procedure`, the path of one, a folder of timeline files, or a dict from video names to
                       timelines. A list of these is the same thing learned with several seeds, and gives means and
                       standard deviations. A dict from names to any of these gives a row each, and says whether the
                       first two differ over videos
    truth              a folder of annotation files, a dict, a task of a data set, or NAME:DIR of a data set
    protocol           a name of docs/protocols.md, or a `Protocol` of your own
    seeds, seed        how often `random` is drawn, and from which seed on; nothing is learned anew here
    background         "count" or "drop" frames of true background
    clock              ticks a second
    graph              the true edges (before, after) between step names, where known; a task may bring its own
    engine             whose workers score; left out, this process does
    """
    check_number("seeds", seeds, 1, whole=True)
    true, origin = read_truth(truth)
    known = getattr(truth, "graph", None) if graph is None else graph
    edges = None if known is None else set(known)
    random = range(seed, seed + seeds)

    def one_row(given: Any) -> Evaluation:
        return _evaluate(given, true, origin, find_protocol(protocol), random, background, clock, edges, engine)

    rows: Any = proc_or_timelines
    if isinstance(rows, Mapping) and not all(isinstance(found, Timeline) for found in rows.values()):
        return side_by_side({row: one_row(found) for row, found in rows.items()})
    return one_row(rows)


def _evaluate(
    given: Any,
    true: Mapping[str, Timeline],
    origin: str,
    protocol: Protocol,
    random: Sequence[int],
    background: str,
    clock: float,
    edges: set[tuple[str, str]] | None,
    engine: Engine | None,
) -> Evaluation:
    """The table of one thing that was found, beside the baselines; `random` are the seeds of that baseline."""
    alone = isinstance(given, str | os.PathLike | Mapping) or hasattr(given, "timelines")
    opened = [_open(one) for one in ([given] if alone else given)]
    if not opened:
        raise OptionError("nothing was given to evaluate; give a procedure, its path, or timelines.")
    pairs = [put_on_one_clock(found, true, clock, all_found=steps) for found, steps, *_ in opened]
    sizes = sorted({len(pair.clusters) for pair in pairs})
    if len(sizes) > 1:
        raise OptionError(
            f"the procedures have K = {sizes} steps; seeds of one method have the same K. Evaluate apart."
        )
    named = protocol.name == "named"
    to_score = [("ours", pair.by_name() if named else pair.pred, pair.true, pair.steps) for pair in pairs]
    for row in BASELINES:
        for number in random if row == "random" else random[:1]:
            pair = pairs[0]
            to_score.append((row, baseline(row, pair.true, sizes[0], number), pair.true, pair.steps))
    options: dict[str, Any] = {"protocol": protocol, "background": background, "rate": clock, "clusters": sizes[0]}
    work = partial(_score, options=options)
    answers = [work(one) for one in to_score] if engine is None else engine.map(work, to_score)
    scores: dict[str, list[Score]] = {row: [] for row in ("ours", *BASELINES)}
    for (row, *_), answer in zip(to_score, answers, strict=True):
        if isinstance(answer, Exception):
            raise answer
        scores[row].append(answer)
    columns = ["row", *FIGURES, *(["graph F1"] if edges is not None else [])]
    rows: list[list[Cell]] = []
    for row, each in scores.items():
        rows.append([row, *(spread([one.figures[name] for one in each]) for name in FIGURES)])
        if edges is not None:
            rows[-1].append(spread([graph_f1(one, edges) for one in each]))
    learned = " ".join(seed for _, _, seed, _ in opened)
    caption = ", ".join(
        [
            f"protocol {protocol.name}" + (" without true background" if background == "drop" else ""),
            f"K = {sizes[0]}",
            f"{len(pairs[0].videos)} videos",
            f"data {origin} {fingerprint(true)}",
            f"seeds {learned} (random: {random[0]} to {random[-1]})",
            f"clock {clock:g} Hz",
            f"stepcut {__version__}",
        ]
    )
    blind = ["Baselines name nothing; they are given the names that suit them best."] if named else []
    said = [name for name in pairs[0].videos if any(name in labelled for *_, labelled in opened)]
    if said:
        blind.append(
            f"{len(said)} of the {len(pairs[0].videos)} videos show what a person said of them, which is no finding: "
            f"{', '.join(said[:5])}{' ...' if len(said) > 5 else ''}. Leave their truth out to score the others alone."
        )
    notes = [verdict(scores), *blind, *dict.fromkeys(note for pair in pairs for note in pair.notes)]
    return Evaluation(columns, rows, caption, notes, scores=scores, videos=pairs[0].videos, clusters=pairs[0].clusters)


def side_by_side(each: Mapping[str, Evaluation]) -> Evaluation:
    """One table with a row for each of several evaluations against the same truth, and the baselines of the first."""
    first = next(iter(each.values()))
    rows: list[list[Cell]] = [[name, *table.rows[0][1:]] for name, table in each.items()]
    scores = {name: table.scores["ours"] for name, table in each.items()}
    blind = {row: first.scores[row] for row in BASELINES}
    notes = [verdict({**scores, **blind}, name) for name in each]
    names = list(each)[:2]
    if len(names) == 2:
        tables = [each[name] for name in names]
        scored = [zip(table.videos, table.score.per_video, strict=True) for table in tables]
        notes.append(compare_videos(names, [{video: one.f1 for video, one in pairs} for pairs in scored]))
    notes += dict.fromkeys(note for table in each.values() for note in table.notes[1:])
    return replace(first, rows=[*rows, *first.rows[1:]], notes=notes, scores={**scores, **blind})


def _score(job: tuple[str, Any, Any, Any], options: Mapping[str, Any]) -> Score:
    row, found, true, names = job
    # What looks at no video names nothing: under `named` it is given the best names, those of strict.
    best = {"protocol": "strict"} if row in BASELINES and options["protocol"].name == "named" else {}
    return score(found, true, names=names, **{**options, **best})


def fingerprint(timelines: Mapping[str, Timeline]) -> str:
    """Eight characters that change when `timelines` do."""
    plain = {n: [(s.start, s.end, s.step) for s in t] for n, t in sorted(timelines.items())}
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()[:8]


def spread(values: Sequence[float]) -> Cell:
    """The figure in `values`, or the mean and standard deviation of several."""
    known = [value for value in values if not math.isnan(value)]
    if len(values) == 1 or not known:
        return float(values[0])
    return Spread(float(np.mean(known)), float(np.std(known)))


def _open(found: Any) -> tuple[Mapping[str, Timeline], Sequence[str], str, set[str]]:
    """Timelines by video, the names of all steps, the seed, and the videos that a person labelled or corrected."""
    if isinstance(found, str | os.PathLike):
        place = as_path(found)
        if is_procedure(place):  # timelines need no model, and an address is read whole
            found = read_outline(place) if isinstance(place, Path) else load(place)
        else:
            found = read_folder(found)
    if isinstance(found, Mapping):
        return found, (), "unknown", set()
    return found.timelines, found.steps, str(found.config.get("seed", "unknown")), {*found.given, *found.document.known}


def read_truth(truth: Any) -> tuple[Mapping[str, Timeline], str]:
    """The timelines of `truth` by video, and a word for where they come from."""
    if isinstance(truth, str) and ":" in truth and not Path(truth).exists():
        from stepcut.datasets import DATASETS, load

        kind, _, root = truth.partition(":")
        choose("data set", kind, DATASETS)
        tasks = [(f"{task.name}/{name}", each) for task in load(kind, root) for name, each in task.timelines.items()]
        names = short_names([name for name, _ in tasks])  # two tasks may have videos of one name
        return dict(zip(names, (timeline for _, timeline in tasks), strict=True)), kind
    if isinstance(truth, str | os.PathLike):
        return read_folder(truth), Path(truth).name or str(truth)
    if isinstance(truth, Mapping):
        return truth, "given"
    return {video.name: video.timeline for video in truth.videos if video.timeline is not None}, str(truth.name)
