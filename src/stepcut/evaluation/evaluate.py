"""evaluate(): a procedure against true timelines, in a table that names its protocol and shows the baselines."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepcut.checks import SEEDS, check_number
from stepcut.errors import AnnotationError, OptionError, as_items
from stepcut.evaluation.clock import CLOCK, Pair, put_on_one_clock, share_videos
from stepcut.evaluation.compare import (
    NO_VIDEO,
    above_clock,
    baseline,
    compare_videos,
    graph_f1,
    read_edges,
)
from stepcut.evaluation.protocols import Protocol, find_protocol
from stepcut.evaluation.score import Score, score
from stepcut.files.addresses import as_path
from stepcut.files.names import match_videos, short_names
from stepcut.formats import read_folder
from stepcut.plugins import find
from stepcut.procedure.folder import is_procedure
from stepcut.procedure.procedure import Procedure, read_outline
from stepcut.tables import Cell, Spread, Table
from stepcut.timeline import Timeline
from stepcut.version import __version__

if TYPE_CHECKING:
    from stepcut.parallel.contract import Engine

    Edges = Iterable[tuple[str, str]] | None
    Found = Procedure | Mapping[str, Timeline] | str | os.PathLike[str]
    Truth = Any | Mapping[str, Timeline] | str | os.PathLike[str]


@dataclass(repr=False)
class Evaluation(Table):
    """A table of figures in percent (tau -1 to 1, lengths 0 to 1), and the scores behind each row."""

    scores: dict[str, list[Score]] = field(default_factory=dict)
    """Row -> one score for every seed."""
    videos: list[str] = field(default_factory=list)
    clusters: list[str] = field(default_factory=list)
    """The names of the found steps by their numbers in the scores; under `named` the true steps come first."""

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
            record["matching"] = {
                self._cluster(k): self.score.name(s) for k, s in self.score.matching.items()
            }
        return json.dumps(record, indent=1, ensure_ascii=False) + "\n"

    def per_step(self) -> Table:
        """The figures of every true step."""
        rows: list[list[Cell]] = []
        for s in self.score.per_step:
            found = None if s.cluster is None else self._cluster(s.cluster)
            rows.append([s.name, found, s.f1, s.iou, s.precision, s.recall, s.frames])
        columns = ["step", "found as", "F1", "IoU", "precision", "recall", "ticks"]
        return Table(columns, rows, f"{self.caption}; per step")

    def per_video(self) -> Table:
        """The figures of every video."""
        each = zip(self.videos, self.score.per_video, strict=True)
        rows: list[list[Cell]] = [
            [name, v.f1, v.iou, v.precision, v.recall, v.mof, v.edit, v.tau] for name, v in each
        ]
        columns = ["video", "F1", "IoU", "precision", "recall", "MoF", "edit", "tau"]
        return Table(columns, rows, f"{self.caption}; per video")

    def confusion(self) -> Table:
        """How many ticks of every true step were given to every found one; the first row's, of its first seed."""
        counts = self.score.confusion
        shown = np.flatnonzero(counts.sum(axis=0)).tolist()
        rows: list[list[Cell]] = [
            [self.score.name(step), *(int(counts[step, k]) for k in shown)]
            for step in np.flatnonzero(counts.sum(axis=1)).tolist()
        ]
        found = [self._cluster(k - 1) for k in shown]
        return Table(["true step", *found], rows, f"{self.caption}; confusion, in ticks")

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
                       standard deviations. A dict from names to any of these gives a row each, scored on the videos
                       that all rows have, and says whether the first two differ over videos
    truth              a folder of annotation files, a dict, a task of a data set, or NAME:DIR of a data set
    protocol           a name of docs/protocols.md, or a `Protocol` of your own
    seeds, seed        how often `random` is drawn, and from which seed on; nothing is learned anew here
    background         "count" or "drop" frames of true background
    clock              ticks a second
    graph              the true edges (before, after) between step names, where known; left out, that of the one task
                       whose videos are scored, where its data set knows it
    engine             whose workers score; left out, this process does
    """
    check_number("seeds", seeds, 1, 10_000, whole=True)
    check_number("seed", seed, 0, SEEDS - seeds, whole=True)
    true, origin, graphs = read_truth(truth)
    chosen, random = find_protocol(protocol), range(seed, seed + seeds)
    given: Any = proc_or_timelines
    if not isinstance(given, Mapping) or all(isinstance(one, Timeline) for one in given.values()):
        given = {"ours": given}
    if taken := [name for name in given if name in NO_VIDEO]:
        raise OptionError(
            f"a row is called {taken[0]!r}, as a baseline of every table is. Give it another name."
        )
    opened = {name: _open_row(one) for name, one in given.items()}
    shared, scored_truth, left_out = share_videos(
        [one.timelines for row in opened.values() for one in row], true
    )
    own = [graphs.get(name) for name in scored_truth]
    known = (
        own[0] if graph is None and all(one == own[0] for one in own) else graph
    )  # one task has one graph
    edges = None if known is None else read_edges(known)
    timelines = iter(shared)
    found: dict[str, list[Pair]] = {}
    for name, row in opened.items():
        drop = background == "drop"
        found[name] = [
            put_on_one_clock(next(timelines), scored_truth, clock, one.steps, drop) for one in row
        ]
        left_out += _look_at_row(row, found[name])
    first = next(iter(found))
    pair, count = found[first][0], len(found[first][0].clusters)
    if not count:
        raise AnnotationError(
            "no step was found in any video, so there is nothing to score. Check the timelines."
        )
    named = chosen.name == "named"
    # What looks at no video names nothing: under `named` it is given the best names, those of strict.
    blindly = find_protocol("strict") if named else chosen
    jobs: dict[str, list[tuple[Any, ...]]] = {}
    for name, pairs in found.items():
        jobs[name] = [
            (
                one.by_name() if named else one.pred,
                one.true,
                chosen,
                background,
                one.steps,
                clock,
                len(one.clusters),
            )
            for one in pairs
        ]
    for name in NO_VIDEO:
        labels = [
            baseline(name, pair.true, count, number)
            for number in (random if name == "random" else random[:1])
        ]
        jobs[name] = [
            (of, pair.true, blindly, background, pair.steps, clock, count) for of in labels
        ]
    todo = [job for each in jobs.values() for job in each]
    answers = [_score(one) for one in todo] if engine is None else engine.map(_score, todo)
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    scored: Any = iter(answers)
    scores: dict[str, list[Score]] = {
        name: [next(scored) for _ in each] for name, each in jobs.items()
    }
    rows: list[list[Cell]] = []
    for name, each in scores.items():
        figures = [one.figures for one in each]
        if edges is not None:
            figures = [
                own | {"graph F1": graph_f1(one, edges)}
                for own, one in zip(figures, each, strict=True)
            ]
        rows.append([name, *(spread([own[figure] for own in figures]) for figure in figures[0])])
    learned = " ".join(one.seed for one in opened[first])
    caption = (
        f"protocol {chosen.name}{' without true background' if background == 'drop' else ''}, K = {count}, "
        f"{len(pair.videos)} videos, data {origin} {fingerprint(true)}, seeds {learned} (random: {random[0]} to "
        f"{random[-1]}), clock {clock:g} Hz, stepcut {__version__}"
    )
    notes = []
    for name in found:
        by_seed = [one.f1 for one in scores[name]]
        gap = above_clock(
            Spread(float(np.mean(by_seed)), float(np.std(by_seed))), scores["uniform"][0].f1
        )
        notes.append(
            f"{'This' if name == 'ours' else name} is {gap}, a clock that looks at no video."
        )
    if len(found) > 1:
        two = list(found)[:2]
        ours, theirs = (
            {
                video: each.f1
                for video, each in zip(
                    found[name][0].videos, scores[name][0].per_video, strict=True
                )
            }
            for name in two
        )
        same = match_videos(theirs, ours)
        notes.append(
            compare_videos(two, [ours, {ours: theirs[video] for video, ours in same.items()}])
        )
    if named:
        notes.append("Baselines name nothing; they are given the names that suit them best.")
    counts = {name: len(row[0].clusters) for name, row in found.items()}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{name} {number}" for name, number in counts.items())
        notes.append(f"K differs between rows ({told}); the baselines have that of {first}.")
    notes += dict.fromkeys(left_out)
    clusters = [*pair.steps, *pair.clusters] if named else pair.clusters
    return Evaluation(
        ["row", *figures[0]],
        rows,
        caption,
        notes,
        scores=scores,
        videos=pair.videos,
        clusters=clusters,
    )


class Opened(NamedTuple):
    """What one run of a method found."""

    timelines: Mapping[str, Timeline]
    steps: Sequence[str]
    """The names of all steps, those of no timeline too."""
    seed: str
    labelled: set[str]
    """The videos of which a person said something."""


def _open_row(given: Any) -> list[Opened]:
    """One thing to be scored, or the same with several seeds."""
    alone = isinstance(given, str | os.PathLike | Mapping) or hasattr(given, "timelines")
    opened = [
        _open(one) for one in (given if isinstance(given, Iterable) and not alone else [given])
    ]
    if not opened:
        raise OptionError(
            "nothing was given to evaluate; give a procedure, its path, or timelines."
        )
    return opened


def _look_at_row(opened: Sequence[Opened], pairs: Sequence[Pair]) -> list[str]:
    """What is odd about what was opened, one thing with several seeds, beside what is true."""
    sizes = sorted({len(pair.clusters) for pair in pairs})
    if len(sizes) > 1:
        what = f"the procedures have K = {sizes} steps; seeds of one method have the same K"
        raise OptionError(f"{what}. Evaluate apart.")
    notes, videos = [], pairs[0].videos
    if said := [name for name in videos if any(name in one.labelled for one in opened)]:
        notes.append(
            f"{len(said)} of the {len(videos)} videos show what a person said of them, which is no finding: "
            f"{', '.join(said[:5])}{' ...' if len(said) > 5 else ''}. Leave their truth out to score the others alone."
        )
    return notes + [note for pair in pairs for note in pair.notes]


def _score(given: tuple[Any, ...]) -> Score:
    return score(*given)


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


def _open(found: Any) -> Opened:
    if isinstance(found, str | os.PathLike):
        place = as_path(found)
        found = (
            read_outline(place) if is_procedure(place) else read_folder(found)
        )  # timelines need no model
    if isinstance(found, Mapping):
        return Opened(found, (), "unknown", set())
    if not hasattr(found, "config"):
        raise OptionError(
            f"{found!r} cannot be evaluated; give a procedure, its path, or timelines by video."
        )
    seed = str(found.config.get("seed", "unknown"))
    return Opened(found.timelines, found.steps, seed, set(found.annotations.annotated))


def read_truth(truth: Any) -> tuple[Mapping[str, Timeline], str, Mapping[str, Edges]]:
    """The timelines of `truth` by video, a word for where they come from, and true graphs by video, where known."""
    if isinstance(truth, str) and ":" in truth and not Path(truth).exists():
        kind, _, root = truth.partition(":")
        tasks: Any = find("dataset", kind, setting="data set").load(root)
        videos = [(task, name, each) for task in tasks for name, each in task.timelines.items()]
        # Two tasks may have videos of one name.
        names = short_names([f"{task.name}/{name}" for task, name, _ in videos])
        known = {name: task.graph for name, (task, _, _) in zip(names, videos, strict=True)}
        return dict(zip(names, (timeline for _, _, timeline in videos), strict=True)), kind, known
    if isinstance(truth, str | os.PathLike):
        return read_folder(truth, confirmed=True), Path(truth).name or str(truth), {}
    if not isinstance(truth, Mapping):
        if not hasattr(truth, "timelines"):
            raise OptionError(
                f"truth={truth!r} holds no timelines; give a folder, timelines by video, or a task."
            )
        graph = getattr(truth, "graph", None)
        return (
            truth.timelines,
            str(getattr(truth, "name", "given")),
            dict.fromkeys(truth.timelines, graph),
        )
    as_items("truth", truth.values(), Timeline, "a stepcut.Timeline for each video")
    return truth, "given", {}
