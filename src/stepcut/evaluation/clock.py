"""What is compared: open predictions and annotations, and sample both at the same times."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import AnnotationError, OptionError, as_items
from stepcut.evaluation.compare import NO_VIDEO
from stepcut.features.find import natural
from stepcut.features.spec import VECTORS
from stepcut.files.addresses import as_path
from stepcut.files.names import match_videos, plain, short_names
from stepcut.formats import read_folder
from stepcut.order.orders import grouped
from stepcut.plugins import find
from stepcut.procedure.folder import is_procedure
from stepcut.procedure.lengths import check_lengths
from stepcut.procedure.loading import read_outline
from stepcut.procedure.procedure import Procedure
from stepcut.rate import as_rate
from stepcut.settings import check_number
from stepcut.timeline import Timeline, is_unnamed

CLOCK = 2.0
"""Samples per second at which timelines are compared. 2 reproduces the published scores of
`random`, which fall with more samples."""
NOTHING: Mapping[str, Any] = MappingProxyType({})

Edges = Iterable[tuple[str, str]] | None
Found = Procedure | Mapping[str, Timeline] | str | os.PathLike[str]
Truth = Any | Mapping[str, Timeline] | str | os.PathLike[str]


class Known(NamedTuple):
    """The annotations to compare with."""

    timelines: Mapping[str, Timeline]
    origin: str
    """Where they come from, in a word."""
    graphs: Mapping[str, Edges] = {}
    """The graph of the task of each video, if its data set has one."""
    activities: Mapping[str, str] = {}
    """The task of each video, if the data set has tasks."""


class Opened(NamedTuple):
    """The result of one run of a method."""

    timelines: Mapping[str, Timeline]
    steps: Sequence[str]
    """Names of all steps, including unused ones."""
    seed: str
    labelled: set[str]
    """Videos annotated by a person."""
    rate: Fraction | None = None
    """Rows per second of feature files, if the user set it."""


def open_rows(source: Any, reading: Mapping[str, Any] = NOTHING) -> dict[str, list[Opened]]:
    """Open the rows to score by name, each with a run per seed; `reading` is for label files."""
    timelines = isinstance(source, Mapping) and all(
        isinstance(one, Timeline) for one in source.values()
    )
    rows = source if isinstance(source, Mapping) and not timelines else {"ours": source}
    if taken := [name for name in rows if name in NO_VIDEO]:
        raise OptionError(
            f"row {taken[0]!r} has the name of a baseline. Rename it.",
            setting="row",
            value=taken[0],
        )
    return {name: _open_row(one, reading) for name, one in rows.items()}


def _open_row(source: Any, reading: Mapping[str, Any]) -> list[Opened]:
    """Open one result, or several runs with different seeds."""
    alone = isinstance(source, str | os.PathLike | Mapping) or hasattr(source, "timelines")
    runs = source if isinstance(source, Iterable) and not alone else [source]
    opened = [_open(one, reading) for one in runs]
    if not opened:
        raise OptionError("nothing to evaluate. Pass a procedure, its path, or timelines.")
    return opened


def _open(found: Any, reading: Mapping[str, Any]) -> Opened:
    if isinstance(found, str | os.PathLike):
        place = as_path(found)
        # Timelines need no model.
        found = read_outline(place) if is_procedure(place) else read_folder(found, **reading)
    if isinstance(found, Mapping):
        return Opened(found, (), "unknown", set())
    if not hasattr(found, "config"):
        raise OptionError(
            f"{found!r} cannot be evaluated. Pass a procedure, its path, or timelines by video.",
            setting="proc_or_timelines",
            value=found,
        )
    seed = str(found.config.seed)
    labelled = set(found.annotations.annotated)
    vectors = found.config.backbone["name"] == VECTORS
    rate = as_rate(found.config.rate, "rate") if vectors else None
    return Opened(found.timelines, found.steps, seed, labelled, rate)


def read_truth(truth: Any, reading: Mapping[str, Any] = NOTHING) -> Known:
    """Read annotations; `reading` are the options of `read_folder` for folders of label files."""
    if isinstance(truth, str) and ":" in truth and not Path(truth).exists():
        kind, _, root = truth.partition(":")
        data_set: Any = find("dataset", kind, setting="data set")
        chosen = {name: value for name, value in reading.items() if name in data_set.options}
        videos = [
            (task, name, timeline)
            for task in data_set.load(root, **chosen)
            for name, timeline in task.timelines.items()
        ]
        # Two tasks may have videos of one name.
        names = short_names([f"{task.name}/{name}" for task, name, _ in videos])
        tasks = dict(zip(names, (task for task, _, _ in videos), strict=True))
        return Known(
            dict(zip(names, (timeline for _, _, timeline in videos), strict=True)),
            kind,
            {name: task.graph for name, task in tasks.items()},
            {name: task.name for name, task in tasks.items()},
        )
    if isinstance(truth, str | os.PathLike):
        read = read_folder(truth, confirmed=True, **reading)
        return Known(read, Path(truth).name or str(truth))
    if not isinstance(truth, Mapping):
        if not hasattr(truth, "timelines"):
            raise OptionError(
                f"truth={truth!r} has no timelines. Pass a folder, timelines by video, or a task.",
                setting="truth",
                value=truth,
            )
        graphs = dict.fromkeys(truth.timelines, getattr(truth, "graph", None))
        return Known(truth.timelines, str(getattr(truth, "name", "unnamed")), graphs)
    as_items("truth", truth.values(), Timeline, "a stepcut.Timeline for each video")
    return Known(truth, "unnamed")


@dataclass
class Pair:
    """Label arrays of the same videos at the same times, as `score` takes them."""

    videos: list[str]
    pred: list[NDArray[np.int64]]
    true: list[NDArray[np.int64]]
    clusters: list[str]
    """Names of the predicted steps, indexed by the labels in `pred`."""
    steps: list[str]
    """Names of the annotated steps, indexed by the labels in `true` minus one."""
    notes: list[str] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    """Samples of each video up to the end of its annotation; a prediction may be longer."""

    def by_name(self) -> list[NDArray[np.int64]]:
        """Return the predictions in the numbers of the annotated steps with the same name, from 0.

        Other names get the numbers after them.
        """
        numbered = {plain(step): number for number, step in enumerate(self.steps)}
        # A placeholder such as `step 1` only matches the very same one.
        numbers = [
            numbered.get(plain(name), len(numbered) + i)
            if name in self.steps or not is_unnamed(name)
            else len(numbered) + i
            for i, name in enumerate(self.clusters)
        ]
        translate = np.array([*numbers, -1], dtype=np.int64)
        return [translate[labels] for labels in self.pred]


def put_on_one_clock(
    found: Mapping[str, Timeline],
    true: Mapping[str, Timeline],
    clock: float = CLOCK,
    all_found: Sequence[str] = (),
    drop: bool = False,
    given_rate: Fraction | None = None,
    ignore_lengths: bool = False,
) -> Pair:
    """Sample `found` and `true` at `clock` Hz, from 0 to the later of the two ends.

    Gaps are "no step" in the prediction and background in the annotation. `all_found` names all
    predicted steps, including unused ones. `drop` excludes videos that are background only.
    `given_rate` and `ignore_lengths` are the `rate` and `ignore` of `check_lengths`.
    """
    check_number("clock", clock, 0, 1000, above=True)
    names, notes = match_names(found, true)
    canonical, more = merge_names([true[theirs] for _, theirs in names])
    notes += more
    clusters = list(
        dict.fromkeys([*all_found, *(step for ours, _ in names for step in found[ours].steps)])
    )
    steps = list(dict.fromkeys(canonical.values()))
    sizes = sorted({len(found[ours].steps) for ours, _ in names})
    if sizes != [len(clusters)]:
        notes.append(
            f"K differs between videos: the predictions have {sizes[0]} to {sizes[-1]} steps per "
            f"video and {len(clusters)} in all; K = {len(clusters)} is used."
        )
    pair = Pair([], [], [], clusters, steps, notes)
    lengths = {ours: true[theirs] for ours, theirs in names}
    refuse_clicks(list(lengths.values()))
    notes += check_lengths(found, lengths, given_rate, ignore_lengths)
    for ours, theirs in names:
        prediction, truth = found[ours], true[theirs].rename(canonical)
        notes += look_at(ours, prediction, truth)
        last = max(
            (segment.end for timeline in (prediction, truth) for segment in timeline), default=0.0
        )
        end = max(prediction.end, truth.end, last)
        ticks = int(np.floor(end * clock + 0.5))
        if not ticks:
            notes.append(f"{ours}: excluded, because it is empty ({end:g} s).")
            continue
        times = (np.arange(ticks) + 0.5) / clock
        labels = truth.labels(times, steps) + 1
        if drop and not labels.any():
            notes.append(f"{ours}: excluded, because it is background only.")
            continue
        pair.videos.append(ours)
        pair.pred.append(prediction.labels(times, clusters))
        pair.true.append(labels)
        pair.lengths.append(int(np.floor(truth.end * clock + 0.5)) or ticks)
    if not pair.videos:
        lack = "any length or annotated step" if drop else "any length"
        raise AnnotationError(
            f"none of the videos has {lack}, so there is nothing to score. Check the timelines."
        )
    return pair


def refuse_clicks(timelines: Sequence[Timeline]) -> None:
    """Refuse annotations that consist of clicks: they have no length to compare."""
    if any(one.clicks for one in timelines) and not any(one.intervals for one in timelines):
        raise AnnotationError(
            "the annotations are clicks, which have no length, so there is nothing to compare. "
            "Give labels with start and end."
        )


def match_names(
    found: Mapping[str, Timeline], true: Mapping[str, Timeline]
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return pairs of names in `found` and `true` of the same video, and notes on the others."""
    matched = match_videos(true, found)
    partner = {ours: theirs for theirs, ours in matched.items()}
    if not partner:
        raise AnnotationError(
            f"no video has both a prediction and an annotation: predicted are {_some(found)}; "
            f"annotated are {_some(true)}. Name each label file after its video."
        )
    notes = []
    if alone := [name for name in found if name not in partner]:
        notes.append(
            f"{len(alone)} predicted videos without annotation are excluded: {_some(alone)}."
        )
    if alone := [name for name in true if name not in matched]:
        notes.append(
            f"{len(alone)} annotated videos without prediction are excluded: {_some(alone)}."
        )
    return [(name, partner[name]) for name in found if name in partner], notes


def share_videos(
    rows: Sequence[Mapping[str, Timeline]], true: Mapping[str, Timeline]
) -> tuple[list[dict[str, Timeline]], dict[str, Timeline], list[str]]:
    """Restrict `rows` and `true` to their common videos, in natural order, and add notes."""
    matched = [match_names(found, true) for found in rows]
    in_all = set.intersection(*({theirs for _, theirs in names} for names, _ in matched))
    if not in_all:
        raise AnnotationError(
            "the rows have no video in common. Evaluate them separately, or use the same videos."
        )
    notes = [note for _, more in matched for note in more]
    if alone := {theirs for names, _ in matched for _, theirs in names} - in_all:
        notes.append(
            f"{len(alone)} videos are not in every row and are excluded: {_some(list(alone))}."
        )
    shared = []
    for found, (names, _) in zip(rows, matched, strict=True):
        kept = sorted(
            (pair for pair in names if pair[1] in in_all), key=lambda pair: natural(pair[1])
        )
        shared.append({ours: found[ours] for ours, _ in kept})
    return shared, {name: timeline for name, timeline in true.items() if name in in_all}, notes


def merge_names(timelines: list[Timeline]) -> tuple[dict[str, str], list[str]]:
    """Return one spelling for step names that differ only in case, spaces or underscores."""
    names = dict.fromkeys(step for timeline in timelines for step in timeline.steps)
    spellings = grouped((plain(name), name) for name in names)
    notes = [
        f"the step names {', '.join(map(repr, same))} differ only in case, spaces or underscores "
        "and are merged."
        for same in spellings.values()
        if len(same) > 1
    ]
    return {name: same[0] for same in spellings.values() for name in same}, notes


def look_at(video: str, found: Timeline, true: Timeline) -> list[str]:
    """Return notes on a `video`: what is not scored, and overlapping segments."""
    notes = []
    if true.clicks:
        notes.append(
            f"{video}: clicks have no length and are not scored ({len(true.clicks)}); the time "
            "around them counts as background."
        )
    if early := [segment for segment in true if segment.start < 0]:
        notes.append(f"{video}: {len(early)} true segments start before 0 s; that part is ignored.")
    for side, timeline in (("true", true), ("predicted", found)):
        if pairs := timeline.overlapping():
            shared = sum(min(a.end, b.end) - max(a.start, b.start) for a, b in pairs)
            what = f"{video}: {len(pairs)} pairs of {side} segments overlap ({shared:.1f} s in all)"
            notes.append(f"{what}; the one that starts later is used.")
    return notes


def _some(names: Mapping[str, Timeline] | list[str]) -> str:
    listed = sorted(names, key=natural)
    return (", ".join(listed[:5]) or "none") + (
        f" and {len(listed) - 5} more" if len(listed) > 5 else ""
    )
