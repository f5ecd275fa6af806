"""evaluate(): score a procedure against annotations, in a table with baselines."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import numpy as np

from stepcut.errors import AnnotationError, OptionError, as_items
from stepcut.evaluation.clock import (
    CLOCK,
    NO_VIDEO,
    NOTHING,
    Found,
    Known,
    Opened,
    Pair,
    Timelines,
    Truth,
    open_rows,
    put_on_one_clock,
    read_truth,
    share_videos,
    some_names,
)
from stepcut.evaluation.compare import above_uniform, adjust, baseline, compare_videos
from stepcut.evaluation.metrics import edge_rates
from stepcut.evaluation.protocols import PROTOCOLS, Protocol, find_protocol
from stepcut.evaluation.score import Array, Score, score
from stepcut.files.names import match_videos, plain
from stepcut.order import graph_of_labels
from stepcut.order.learn import close_order, reduce_order
from stepcut.settings import SEEDS, check_number
from stepcut.tables import Cell, Spread, Table
from stepcut.timeline import Timeline
from stepcut.version import __version__

# Shares of all frames of all activities, and the first class that counts
POOLED = {"MoF": 1, "MoF all": 0}


@dataclass(repr=False)
class Evaluation(Table):
    """A table of figures in percent (tau -1 to 1), with the scores of each row.

    The column `used` counts the clusters with frames. Scored per activity, the scores and
    breakdowns are those of each evaluation in `activities`.

    Examples
    --------
    >>> table = sc.evaluate(proc, {"video1": labels})
    >>> table.column("row")
    ['ours', 'random', 'uniform', 'one-cluster']
    >>> table.per_step().column("step")
    ['cut bread', 'spread butter', 'add jam']
    >>> table.per_video().column("video")
    ['video1']
    >>> table.confusion().columns[0]
    'true step'
    """

    scores: dict[str, list[Score]] = field(default_factory=dict)
    """Row -> one score per seed."""
    videos: list[str] = field(default_factory=list)
    clusters: list[str] = field(default_factory=list)
    """Names of the predicted steps, by their numbers; under `named` the true steps come first."""
    activities: dict[str, Evaluation] = field(default_factory=dict)
    """Activity -> its evaluation, if each is scored on its own."""

    @property
    def score(self) -> Score:
        """The score of the first row and its first seed."""
        if self.activities:
            names = ", ".join(self.activities)
            why = f"each activity has its own score; use .activities[NAME] ({names})."
            raise OptionError(why, setting="per_activity", value=True)
        return next(iter(self.scores.values()))[0]

    @property
    def matching(self) -> str:
        """Which predicted step matches which true step."""
        if self.activities:
            each = (f"{name}:\n{part.matching}" for name, part in self.activities.items())
            return "\n\n".join(each)
        if self.score.protocol == "named":
            return "steps are compared by name, without matching"
        return self.score.explain(self.clusters)

    def json(self) -> str:
        """Return the table and the matching as JSON."""
        record = json.loads(super().json())
        if self.activities:
            parts = self.activities.items()
            record["activities"] = {name: json.loads(part.json()) for name, part in parts}
        elif self.score.has_one_matching and self.score.protocol != "named":
            matches = self.score.matching.items()
            record["matching"] = {self._cluster(k): self.score.name(s) for k, s in matches}
        return json.dumps(record, indent=1, ensure_ascii=False) + "\n"

    def per_activity(self) -> Table:
        """Return the figures of every activity, one row for each activity and row."""
        return self._stack("per activity", self.activities or {"all": self})

    def per_step(self) -> Table:
        """Return the scores of every true step, one row per step."""
        if self.activities:
            return self._stack("per step", {n: e.per_step() for n, e in self.activities.items()})
        uniform = {s.name: s.f1 for s in self.scores["uniform"][0].per_step}
        rows: list[list[Cell]] = []
        for s in self.score.per_step:
            found = None if s.cluster is None else self._cluster(s.cluster)
            figures = [s.f1, s.iou, s.precision, s.recall, uniform.get(s.name), s.frames]
            rows.append([s.name, found, *figures])
        columns = ["step", "found as", "F1", "IoU", "precision", "recall", "uniform F1", "samples"]
        return Table(columns, rows, f"{self.caption}; per step")

    def per_video(self) -> Table:
        """Return the scores of every video, one row per video."""
        if self.activities:
            return self._stack("per video", {n: e.per_video() for n, e in self.activities.items()})
        uniform = self.scores["uniform"][0].per_video
        rows: list[list[Cell]] = [
            [name, v.f1, v.iou, v.precision, v.recall, v.mof, v.edit, v.tau, blind.f1]
            for name, v, blind in zip(self.videos, self.score.per_video, uniform, strict=True)
        ]
        columns = ["video", "F1", "IoU", "precision", "recall", "MoF", "edit", "tau", "uniform F1"]
        return Table(columns, rows, f"{self.caption}; per video")

    def confusion(self) -> Table:
        """Return the samples by true and predicted step, of the first row and its first seed."""
        counts = self.score.confusion
        shown = np.flatnonzero(counts.sum(axis=0)).tolist()
        rows: list[list[Cell]] = [
            [self.score.name(step), *counts[step, shown].tolist()]
            for step in np.flatnonzero(counts.sum(axis=1)).tolist()
        ]
        found = [self._cluster(k - 1) for k in shown]
        return Table(["true step", *found], rows, f"{self.caption}; confusion, in samples")

    def _stack(self, what: str, tables: Mapping[str, Table]) -> Table:
        columns = next(iter(tables.values())).columns
        rows = [[name, *row] for name, table in tables.items() for row in table.rows]
        return Table(["activity", *columns], rows, f"{self.caption}; {what}")

    def _cluster(self, number: int) -> str:
        return "no step" if number < 0 else self.clusters[number]


class _Rules(NamedTuple):
    protocol: Protocol
    background: str
    clock: float
    random: range
    graph: Iterable[tuple[str, str]] | None
    ignore_lengths: bool

    @property
    def named(self) -> bool:
        return self.protocol.name == "named"

    def score(self, pred: Sequence[Array], pair: Pair, protocol: Protocol) -> Score:
        count = len(pair.clusters)
        return score(pred, pair.true, protocol, self.background, pair.steps, self.clock, count)


def evaluate(
    proc_or_timelines: Found | Sequence[Found] | Mapping[str, Found | Sequence[Found]],
    truth: Truth,
    protocol: str | Protocol = "strict",
    seeds: int = 5,
    background: str = "count",
    clock: float = CLOCK,
    seed: int = 0,
    graph: Iterable[tuple[str, str]] | None = None,
    ignore_lengths: bool = False,
    per_activity: bool = False,
    reading: Mapping[str, Any] = NOTHING,
) -> Evaluation:
    """Score a procedure, or timelines of any other program, against annotations.

    The baselines `random`, `uniform` and `one-cluster`, which ignore the videos, are scored beside
    it.

    Parameters
    ----------
    proc_or_timelines
        A `Procedure`, the path of one, a folder of timeline files, or a dict from video names to
        timelines. A list of these is one method with several seeds: its figures are means and
        standard deviations. A dict from names to any of these gives a row for each, scored on the
        videos that all rows have, and a test of whether the first two differ.
    truth
        A folder of annotation files, timelines by video, a task of a data set, or `NAME:DIR`.
    protocol
        A name of docs/evaluate.md, or a custom `Protocol`.
    seeds, seed
        How often `random` is drawn, and the first seed.
    background
        `"count"` or `"drop"` frames annotated as background.
    clock
        Samples per second at which timelines are compared.
    graph
        True edges (before, after) between step names; by default those of the data set, if any.
    ignore_lengths
        Warn, instead of raising an error, if annotations and videos differ in length by over 10 %.
    per_activity
        Match and score each task of a data set on its own. Figures are means over the activities;
        MoF is the share of all frames.
    reading
        Options of `read_folder` for folders of label files; `rate` also goes to a data set.

    Returns
    -------
    Evaluation
        A table, and the scores behind each row.

    Raises
    ------
    AnnotationError
        If there is nothing to score, or annotations do not fit the videos (`video`).
    OptionError
        If a setting is wrong.

    Examples
    --------
    >>> from stepcut.timeline import Segment
    >>> tea = {"tea": Timeline([Segment(0, 4, "pour"), Segment(4, 10, "stir")], duration=10)}
    >>> evaluate(tea, tea).score.f1
    100.0
    """
    check_number("seeds", seeds, 1, 10_000, whole=True)
    check_number("seed", seed, 0, SEEDS - seeds, whole=True)
    random = range(seed, seed + seeds)
    rules = _Rules(find_protocol(protocol), background, clock, random, graph, ignore_lengths)
    known = read_truth(truth, reading)
    opened = open_rows(proc_or_timelines, reading)
    shared, true, notes = share_videos(
        [one.timelines for row in opened.values() for one in row], known.timelines
    )
    timelines = iter(shared)
    rows = {
        name: [one._replace(timelines=next(timelines)) for one in row]
        for name, row in opened.items()
    }
    if not per_activity:
        return _evaluate(rows, known, true, rules, notes)
    members: dict[str, dict[str, Timeline]] = {}
    for name, timeline in true.items():
        members.setdefault(known.activities.get(name, known.origin), {})[name] = timeline
    parts = {}
    for activity, some in members.items():
        own = {name: [_only(one, some) for one in row] for name, row in rows.items()}
        parts[activity] = _evaluate(own, known, some, rules, [])
    return _average(parts, notes)


def _only(opened: Opened, true: Timelines) -> Opened:
    ours = match_videos(true, opened.timelines).values()
    return opened._replace(timelines={name: opened.timelines[name] for name in ours})


def _evaluate(
    opened: Mapping[str, Sequence[Opened]],
    known: Known,
    true: Timelines,
    rules: _Rules,
    notes: Sequence[str],
) -> Evaluation:
    found: dict[str, list[Pair]] = {}
    warnings = list(notes)
    clock, drop, ignore = rules.clock, rules.background == "drop", rules.ignore_lengths
    for name, row in opened.items():
        found[name] = [
            put_on_one_clock(one.timelines, true, clock, one.steps, drop, one.rate, ignore)
            for one in row
        ]
        warnings += _notes_on_row(row, found[name])
    first, (pair, *_) = next(iter(found.items()))
    if not pair.clusters:
        raise AnnotationError(
            "the predictions contain no step, so there is nothing to score. Check the timelines."
        )
    scores = _score_rows(found, rules)
    graphs = [known.graphs.get(name) for name in true]
    graph = rules.graph
    if graph is None and all(one == graphs[0] for one in graphs):
        graph = graphs[0]
    edges = None if graph is None else read_edges(graph)
    rows: list[list[Cell]] = []
    for name, each in scores.items():
        figures = [one.figures for one in each]
        if edges is not None:
            for own, one in zip(figures, each, strict=True):
                own["graph F1"] = graph_f1(one, edges)
        rows.append([name, *(_spread([own[figure] for own in figures]) for figure in figures[0])])
    caption = (
        f"protocol {rules.protocol.name}"
        f"{' without true background' if drop else ''}, "
        f"K = {len(pair.clusters)}, {len(pair.videos)} videos, data {known.origin} "
        f"{fingerprint(known.timelines)}, "
        f"seeds {' '.join(one.seed for one in opened[first])} "
        f"(random: {rules.random[0]} to {rules.random[-1]}), ± sample deviation over seeds, "
        f"sampled at {rules.clock:g} Hz, stepcut {__version__}"
    )
    return Evaluation(
        ["row", *figures[0]],
        rows,
        caption,
        [*_explain(found, scores, rules.named), *dict.fromkeys(warnings)],
        scores=scores,
        videos=pair.videos,
        clusters=[*pair.steps, *pair.clusters] if rules.named else pair.clusters,
    )


def _average(parts: dict[str, Evaluation], notes: Sequence[str]) -> Evaluation:
    """Means over the activities, and MoF over all frames."""
    first = next(iter(parts.values()))
    scores = {name: [part.scores[name] for part in parts.values()] for name in first.scores}
    pooled = {name: list(map(_pool, zip(*each, strict=True))) for name, each in scores.items()}
    columns = list(pooled["uniform"][0])
    rows: list[list[Cell]] = [
        [name, *(_spread([own[figure] for own in runs]) for figure in columns)]
        for name, runs in pooled.items()
    ]
    explained = []
    for name, runs in pooled.items():
        if name not in NO_VIDEO:
            mine = Spread.of([own["F1"] for own in runs])
            explained.append(f"F1 of {name} is {above_uniform(mine, pooled['uniform'][0]['F1'])}.")
    explained.append(f"Means over {len(parts)} activities; MoF is the share of all their frames.")
    each = [f"{name}: {note}" for name, part in parts.items() for note in part.notes]
    caption = f"{len(parts)} activities; {next(iter(parts))}: {first.caption}"
    notes = [*explained, *notes, *each]
    return Evaluation(["row", *columns], rows, caption, notes, activities=parts)


def _pool(scores: Sequence[Score]) -> dict[str, float]:
    """Mean over the activities that have a figure; those in `POOLED` weigh their frames."""
    pooled = {}
    for name in scores[0].figures:
        frames = [one.confusion[POOLED.get(name, 0) :].sum() for one in scores]
        values = np.ma.masked_invalid([one.figures[name] for one in scores])
        mean = np.ma.average(values, weights=frames if name in POOLED else None)
        pooled[name] = math.nan if np.ma.is_masked(mean) else float(mean)
    return pooled


def _score_rows(found: Mapping[str, Sequence[Pair]], rules: _Rules) -> dict[str, list[Score]]:
    scores = {}
    for name, row in found.items():
        seen = [one.by_name() if rules.named else one.pred for one in row]
        pairs = zip(seen, row, strict=True)
        scores[name] = [rules.score(pred, pair, rules.protocol) for pred, pair in pairs]
    # Baselines have no step names, so under `named` they use the matching of `strict`.
    protocol = PROTOCOLS["strict"] if rules.named else rules.protocol
    pair = next(iter(found.values()))[0]
    # Of the annotation's length, so that the stated length of a prediction does not change them.
    annotated = [labels[:n] for labels, n in zip(pair.true, pair.lengths, strict=True)]
    for name in NO_VIDEO:
        scores[name] = []
        for seed in rules.random if name == "random" else rules.random[:1]:
            labels = baseline(name, annotated, len(pair.clusters), seed)
            padded = [
                np.pad(short, (0, len(whole) - len(short)), constant_values=-1)
                for short, whole in zip(labels, pair.true, strict=True)
            ]
            scores[name].append(rules.score(padded, pair, protocol))
    return scores


# ---------- notes


def _explain(
    found: Mapping[str, Sequence[Pair]], scores: Mapping[str, Sequence[Score]], named: bool
) -> list[str]:
    notes = []
    for name in found:
        mine = Spread.of([one.f1 for one in scores[name]])
        place = above_uniform(mine, scores["uniform"][0].f1)
        notes.append(f"{'F1' if name == 'ours' else f'F1 of {name}'} is {place}.")
        used, count = float(np.mean([one.used for one in scores[name]])), scores[name][0].clusters
        if 2 * used < count:
            notes.append(f"{name} uses {used:.3g} of its {count} clusters, fewer than half.")
    notes += _compare_rows({name: _by_video(found[name], scores[name]) for name in found})
    if named:
        notes.append("Baselines have no step names; they are matched in the best way.")
    counts = {name: len(row[0].clusters) for name, row in found.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {number}" for name, number in counts.items())
        first = next(iter(found))
        notes.append(f"K differs between rows ({listed}); the baselines have that of {first}.")
    return notes


def _by_video(pairs: Sequence[Pair], scores: Sequence[Score]) -> dict[str, float]:
    seeds = np.array([[video.f1 for video in one.per_video] for one in scores])
    return dict(zip(pairs[0].videos, seeds.mean(axis=0).tolist(), strict=True))


def _compare_rows(f1: Mapping[str, Mapping[str, float]]) -> list[str]:
    first, *others = f1
    gaps = {}
    for other in others:
        same = match_videos(f1[other], f1[first])
        theirs = {ours: f1[other][its] for its, ours in same.items()}
        gaps[other] = compare_videos(f1[first], theirs)
    notes = [f"{first} against {other}: {gap}." for other, gap in gaps.items()]
    if len(gaps) > 1:
        listed = zip(gaps, adjust([gap.p for gap in gaps.values()]), strict=True)
        words = ", ".join(f"{other} {p:.3g}" for other, p in listed)
        notes.append(f"p of {first} against each row, adjusted for {len(gaps)} tests: {words}.")
    return notes


def _notes_on_row(opened: Sequence[Opened], pairs: Sequence[Pair]) -> list[str]:
    sizes = sorted({len(pair.clusters) for pair in pairs})
    if len(sizes) > 1:
        what = f"the procedures have K = {sizes} steps; seeds of one method have the same K"
        raise OptionError(f"{what}. Evaluate them separately.", setting="steps", value=sizes)
    notes, videos = [], pairs[0].videos
    if labelled := [name for name in videos if any(name in one.labelled for one in opened)]:
        notes.append(
            f"{len(labelled)} of the {len(videos)} videos are scored on their own training labels; "
            f"exclude them for a fair score: {some_names(labelled)}."
        )
    return notes + [note for pair in pairs for note in pair.notes]


def fingerprint(timelines: Timelines) -> str:
    content = {n: [(s.start, s.end, s.step) for s in t] for n, t in sorted(timelines.items())}
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:8]


def _spread(values: Sequence[float]) -> Cell:
    numbers = [value for value in values if not math.isnan(value)]
    return Spread.of(numbers) if len(values) > 1 and numbers else float(values[0])


def graph_f1(one: Score, edges: Iterable[tuple[str, str]]) -> float:
    """F1 in percent against the true `edges`, both transitively reduced, after matching `one`."""
    mapped = {str(i): one.mapped(i) for i in range(len(one.matchings))}
    labels = {name: np.where(steps > 0, steps - 1, -1) for name, steps in mapped.items()}
    if not any((steps >= 0).any() for steps in labels.values()):
        return 0.0
    found = graph_of_labels(labels, one.rate).edges
    ours = {(plain(one.name(a + 1)), plain(one.name(b + 1))) for a, b in found}
    return 100 * edge_rates(ours, reduce_edges((plain(a), plain(b)) for a, b in edges)).f1


def read_edges(graph: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    wanted = "pairs of step names, (before, after)"
    pairs = as_items("graph", graph, (tuple, list), wanted)
    if wrong := [pair for pair in pairs if len(pair) != 2]:
        raise OptionError(f"graph contains {wrong[0]!r}, not {wanted}.", setting="graph")
    edges, order = {(str(before), str(after)) for before, after in pairs}, TopologicalSorter[str]()
    for before, after in edges:
        order.add(after, before)
    try:
        order.prepare()
    except CycleError as error:
        what = f"graph has a cycle: {', '.join(error.args[1])}. Remove one of its edges."
        raise OptionError(what, setting="graph") from error
    return edges


def reduce_edges(edges: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """The edges that no path of other edges replaces."""
    all_edges = set(edges)
    steps = sorted({step for edge in all_edges for step in edge})
    matrix = np.zeros((len(steps), len(steps)), dtype=bool)
    for before, after in all_edges:
        matrix[steps.index(before), steps.index(after)] = True
    kept = reduce_order(close_order(matrix))
    return {(steps[a], steps[b]) for a, b in np.argwhere(kept).tolist()}
