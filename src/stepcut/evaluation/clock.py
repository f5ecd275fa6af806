"""What is compared: open predictions and annotations, and sample both at the same times."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from stepcut.errors import AnnotationError, OptionError, as_items, wrong
from stepcut.features.find import natural
from stepcut.features.spec import VECTORS
from stepcut.files import as_path
from stepcut.files.names import match_videos, plain, short_names
from stepcut.formats import read_folder
from stepcut.methods.inputs import Labels
from stepcut.order.orders import grouped
from stepcut.plugins import find
from stepcut.procedure.folder import is_procedure
from stepcut.procedure.learning import read_outline
from stepcut.procedure.lengths import check_lengths
from stepcut.procedure.procedure import Procedure
from stepcut.settings import as_rate, check_number
from stepcut.timeline import Timeline, is_unnamed

# Samples per second at which timelines are compared; 2 reproduces the published `random`
CLOCK = 2.0
NO_VIDEO = ("random", "uniform", "one-cluster")  # baselines that ignore the video
NOTHING: Mapping[str, Any] = MappingProxyType({})

Edges = Iterable[tuple[str, str]] | None
Timelines = Mapping[str, Timeline]
Found = Procedure | Timelines | str | os.PathLike[str]
Truth = Any | Timelines | str | os.PathLike[str]


class Known(NamedTuple):
    """The annotations; graph and task of each video if a data set has them."""

    timelines: Timelines
    origin: str
    graphs: Mapping[str, Edges] = {}
    activities: Mapping[str, str] = {}


class Opened(NamedTuple):
    timelines: Timelines
    steps: Sequence[str] = ()  # of all steps, including unused ones
    seed: str = "unknown"
    labelled: frozenset[str] = frozenset()  # videos annotated by a person
    rate: Fraction | None = None  # rows per second of feature files, if the user set it


def open_rows(source: Any, reading: Mapping[str, Any] = NOTHING) -> dict[str, list[Opened]]:
    """Open each row by name, with a run per seed; `reading` is for label files."""
    timelines = isinstance(source, Mapping) and all(
        isinstance(one, Timeline) for one in source.values()
    )
    rows = source if isinstance(source, Mapping) and not timelines else {"ours": source}
    opened = {}
    for name, runs in rows.items():
        if name in NO_VIDEO:
            what = f"row {name!r} has the name of a baseline. Rename it."
            raise OptionError(what, setting="row", value=name)
        alone = isinstance(runs, str | os.PathLike | Mapping) or hasattr(runs, "timelines")
        several = isinstance(runs, Iterable) and not alone
        opened[name] = [_open(one, reading) for one in (runs if several else [runs])]
        if not opened[name]:
            raise OptionError("nothing to evaluate. Pass a procedure, its path, or timelines.")
    return opened


def _open(found: Any, reading: Mapping[str, Any]) -> Opened:
    if isinstance(found, str | os.PathLike):
        place = as_path(found)
        # Timelines need no model.
        found = read_outline(place) if is_procedure(place) else read_folder(found, **reading)
    if isinstance(found, Mapping):
        return Opened(found)
    if not hasattr(found, "config"):
        what = "cannot be evaluated. Pass a procedure, its path, or timelines by video."
        raise OptionError(f"{found!r} {what}", setting="proc_or_timelines", value=found)
    vectors = found.config.backbone["name"] == VECTORS
    rate = as_rate(found.config.rate, "rate") if vectors else None
    labelled = frozenset(found.annotations.annotated)
    return Opened(found.timelines, found.steps, str(found.config.seed), labelled, rate)


def read_truth(truth: Any, reading: Mapping[str, Any] = NOTHING) -> Known:
    """`reading` are the options of `read_folder` for folders of label files."""
    if isinstance(truth, str) and ":" in truth and not Path(truth).exists():
        kind, _, root = truth.partition(":")
        data_set: Any = find("dataset", kind, setting="data set")
        chosen = {name: value for name, value in reading.items() if name in data_set.options}
        videos = [(task, name) for task in data_set.load(root, **chosen) for name in task.timelines]
        # Two tasks may have videos of one name.
        names = short_names([f"{task.name}/{name}" for task, name in videos])
        lines = [task.timelines[name] for task, name in videos]
        about = lines, [task.graph for task, _ in videos], [task.name for task, _ in videos]
        known, graphs, activities = (dict(zip(names, each, strict=True)) for each in about)
        return Known(known, kind, graphs, activities)
    if isinstance(truth, str | os.PathLike):
        read = read_folder(truth, confirmed=True, **reading)
        return Known(read, Path(truth).name or str(truth))
    if isinstance(truth, Mapping):
        as_items("truth", truth.values(), Timeline, "a stepcut.Timeline for each video")
        return Known(truth, "unnamed")
    if not hasattr(truth, "timelines"):
        why = "has no timelines. Pass a folder, timelines by video, or a task."
        raise wrong("truth", truth, why)
    graphs = dict.fromkeys(truth.timelines, getattr(truth, "graph", None))
    return Known(truth.timelines, str(getattr(truth, "name", "unnamed")), graphs)


@dataclass
class Pair:
    videos: list[str]
    pred: list[Labels]
    true: list[Labels]
    clusters: list[str]  # of the predicted steps, indexed by `pred`
    steps: list[str]  # of the annotated steps, indexed by `true` minus one
    notes: list[str] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)  # samples up to the end of each annotation

    def by_name(self) -> list[Labels]:
        """The predictions in the numbers of the annotated steps with the same name, from 0.

        Other names get the numbers after them; `step 1` only matches the very same placeholder.
        """
        numbered = {plain(step): number for number, step in enumerate(self.steps)}
        numbers = [
            numbered[plain(name)]
            if name in self.steps or (plain(name) in numbered and not is_unnamed(name))
            else len(numbered) + place
            for place, name in enumerate(self.clusters)
        ]
        translate = np.array([*numbers, -1], dtype=np.int64)
        return [translate[labels] for labels in self.pred]


def put_on_one_clock(
    found: Timelines,
    true: Timelines,
    clock: float = CLOCK,
    all_found: Sequence[str] = (),
    drop: bool = False,
    given_rate: Fraction | None = None,
    ignore_lengths: bool = False,
) -> Pair:
    """Sample `found` and `true` at `clock` Hz, from 0 to the later of the two ends.

    Gaps are "no step" in the prediction and background in the annotation. `all_found` names unused
    steps too; `drop` excludes videos that are background only.
    """
    check_number("clock", clock, 0, 1000, above=True)
    names, notes = match_names(found, true)
    canonical, more = merge_names([true[theirs] for _, theirs in names])
    notes += more
    steps = list(dict.fromkeys(canonical.values()))
    used = [found[ours].steps for ours, _ in names]
    clusters = list(dict.fromkeys([*all_found, *(step for some in used for step in some)]))
    sizes = sorted({len(some) for some in used})
    if sizes != [len(clusters)]:
        notes.append(
            f"K differs between videos: the predictions have {sizes[0]} to {sizes[-1]} steps per "
            f"video and {len(clusters)} in all; K = {len(clusters)} is used."
        )
    pair = Pair([], [], [], clusters, steps, notes)
    annotated = {ours: true[theirs] for ours, theirs in names}
    refuse_clicks(list(annotated.values()))
    notes += check_lengths(found, annotated, given_rate, ignore_lengths)
    for video, named in annotated.items():
        prediction, truth = found[video], named.rename(canonical)
        notes += _notes_on(video, prediction, truth)
        ends = (segment.end for timeline in (prediction, truth) for segment in timeline)
        end = max(prediction.end, truth.end, *ends)
        ticks = _ticks(end, clock)
        if not ticks:
            notes.append(f"{video}: excluded, because it is empty ({end:g} s).")
            continue
        times = (np.arange(ticks) + 0.5) / clock
        labels = truth.labels(times, steps) + 1
        if drop and not labels.any():
            notes.append(f"{video}: excluded, because it is background only.")
            continue
        pair.videos.append(video)
        pair.pred.append(prediction.labels(times, clusters))
        pair.true.append(labels)
        pair.lengths.append(_ticks(truth.end, clock) or ticks)
    if not pair.videos:
        lack = "any length or annotated step" if drop else "any length"
        raise AnnotationError(
            f"none of the videos has {lack}, so there is nothing to score. Check the timelines."
        )
    return pair


def _ticks(end: float, clock: float) -> int:
    return int(np.floor(end * clock + 0.5))


def refuse_clicks(timelines: Sequence[Timeline]) -> None:
    if any(one.clicks for one in timelines) and not any(one.intervals for one in timelines):
        raise AnnotationError(
            "the annotations are clicks, which have no length, so there is nothing to compare. "
            "Give labels with start and end."
        )


def match_names(found: Timelines, true: Timelines) -> tuple[list[tuple[str, str]], list[str]]:
    """Pairs of names in `found` and `true` of the same video, and notes on the others."""
    matched = match_videos(true, found)
    partner = {ours: theirs for theirs, ours in matched.items()}
    if not partner:
        raise AnnotationError(
            f"no video has both a prediction and an annotation: predicted are {some_names(found)}; "
            f"annotated are {some_names(true)}. Name each label file after its video."
        )
    alone = {
        "predicted videos without annotation": [name for name in found if name not in partner],
        "annotated videos without prediction": [name for name in true if name not in matched],
    }
    notes = [
        f"{len(some)} {what} are excluded: {some_names(some)}."
        for what, some in alone.items()
        if some
    ]
    return [(name, partner[name]) for name in found if name in partner], notes


def share_videos(
    rows: Sequence[Timelines], true: Timelines
) -> tuple[list[dict[str, Timeline]], dict[str, Timeline], list[str]]:
    """Their common videos, in natural order, with notes."""
    matched = [match_names(found, true) for found in rows]
    sides = [{theirs for _, theirs in names} for names, _ in matched]
    in_all = set.intersection(*sides)
    if not in_all:
        raise AnnotationError(
            "the rows have no video in common. Evaluate them separately, or use the same videos."
        )
    notes = [note for _, more in matched for note in more]
    if alone := set.union(*sides) - in_all:
        notes.append(
            f"{len(alone)} videos are not in every row and are excluded: {some_names(alone)}."
        )
    shared = []
    for found, (names, _) in zip(rows, matched, strict=True):
        ordered = sorted(names, key=lambda pair: natural(pair[1]))
        shared.append({ours: found[ours] for ours, theirs in ordered if theirs in in_all})
    return shared, {name: timeline for name, timeline in true.items() if name in in_all}, notes


def merge_names(timelines: Iterable[Timeline]) -> tuple[dict[str, str], list[str]]:
    """One spelling for step names that differ only in case, spaces or underscores."""
    names = dict.fromkeys(step for timeline in timelines for step in timeline.steps)
    spellings = grouped((plain(name), name) for name in names)
    notes = [
        f"the step names {', '.join(map(repr, same))} differ only in case, spaces or underscores "
        "and are merged."
        for same in spellings.values()
        if len(same) > 1
    ]
    return {name: same[0] for same in spellings.values() for name in same}, notes


def _notes_on(video: str, found: Timeline, true: Timeline) -> list[str]:
    notes = []
    if true.clicks:
        notes.append(
            f"{video}: clicks have no length and are not scored ({len(true.clicks)}); the time "
            "around them counts as background."
        )
    if early := sum(segment.start < 0 for segment in true):
        notes.append(f"{video}: {early} true segments start before 0 s; that part is ignored.")
    for side, timeline in (("true", true), ("predicted", found)):
        if pairs := timeline.overlapping():
            shared = sum(min(a.end, b.end) - max(a.start, b.start) for a, b in pairs)
            what = f"{video}: {len(pairs)} pairs of {side} segments overlap ({shared:.1f} s in all)"
            notes.append(f"{what}; the one that starts later is used.")
    return notes


def some_names(names: Iterable[str]) -> str:
    listed = sorted(names, key=natural)
    more = f" and {len(listed) - 5} more" if len(listed) > 5 else ""
    return (", ".join(listed[:5]) or "none") + more
