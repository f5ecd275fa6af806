"""Time budgets: count and time every step, per video, per group and in all, with their error.

A segment with a confidence is predicted and unchecked; one without was annotated by a person.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stepcut.errors import OptionError
from stepcut.files.figures import FIXED, drawn_with
from stepcut.tables import Cell, Table
from stepcut.timeline import Segment, Timeline

Groups = Mapping[str, Mapping[str, Timeline]]
"""Group -> video -> timeline; a single group may be called ""."""
NO_STEP = "(no step)"
TRUE_SHARES = {False: (0.3, 1.7), True: (0.6, 1.6)}
"""80 % of the true seconds of a step were between these multiples of the predicted ones.

Without and with three labelled videos, on seven recorded tasks (boxes of OpenPack, six recipes of
CaptainCook4D).
"""


def is_unchecked(segment: Segment) -> bool:
    """Whether a segment is a prediction that no person has confirmed."""
    return segment.confidence is not None


def only_confirmed(groups: Groups) -> dict[str, dict[str, Timeline]]:
    """Return the groups without unchecked segments, and without videos that have no other."""
    kept = {
        group: {
            name: replace(timeline, segments=tuple(s for s in timeline if not is_unchecked(s)))
            for name, timeline in videos.items()
            if not all(map(is_unchecked, timeline)) or not len(timeline)
        }
        for group, videos in groups.items()
    }
    if not any(kept.values()):
        raise OptionError(
            "no segment is confirmed by a person. Label videos in stepcut view, or count all "
            "segments without --confirmed-only.",
            setting="confirmed_only",
            value=True,
        )
    return kept


def true_range(segments: Iterable[Segment], labelled: bool) -> tuple[float, float]:
    """Return the 80 % interval of the true seconds of a step, given its segments.

    `labelled` is whether the steps were learned with labels.
    """
    seconds = {False: 0.0, True: 0.0}
    for segment in segments:
        seconds[is_unchecked(segment)] += segment.duration
    low, high = TRUE_SHARES[labelled]
    return seconds[False] + low * seconds[True], seconds[False] + high * seconds[True]


def time_budget(
    groups: Groups,
    steps: Sequence[str] | None = None,
    per_video: bool = False,
    confirmed_only: bool = False,
) -> Table:
    """Count and time every step, or these `steps` in this order; a group called "" has no column.

    The table has a row for each group and step or, `per_video`, for each video and step: `count` of
    segments and point events, the `total`, `mean` and standard deviation (`SD`) of the segments in
    seconds, and their `share` of the video time in percent. `(no step)` needs the lengths of all
    videos. If segments are unchecked predictions, `from` and `to` are an 80 % interval of the true
    total, and `unchecked` is their share of it; `confirmed_only` leaves such segments out.

    >>> from stepcut.timeline import Segment
    >>> tea = Timeline([Segment(0, 2, "pour"), Segment(4, 8, "pour")], duration=10)
    >>> print(time_budget({"": {"tea": tea}}))
    step       videos  count  total s  mean s  SD s  share %
    ---------  ------  -----  -------  ------  ----  -------
    pour            1      2      6.0     3.0   1.4     60.0
    (no step)       1      –      4.0       –     –     40.0
    """
    if not any(groups.values()):
        raise OptionError("no timelines to count. Use label files or a procedure.")
    if confirmed_only:
        groups = only_confirmed(groups)
    everything = [timeline for videos in groups.values() for timeline in videos.values()]
    if steps is None:
        steps = list(dict.fromkeys(step for timeline in everything for step in timeline.steps))
    segments = [segment for timeline in everything for segment in timeline]
    unchecked = any(map(is_unchecked, segments))
    labelled = not all(map(is_unchecked, segments))
    rows: list[list[Cell]] = []
    for group, videos in groups.items():
        parts = {name: {name: one} for name, one in videos.items()} if per_video else {"": videos}
        for name, part in parts.items():
            for step, cells in _count(list(part.values()), steps, labelled):
                if step == NO_STEP and confirmed_only:
                    continue
                place = name if per_video else sum(_does(one, step) for one in part.values())
                row: list[Cell] = [place, step] if per_video else [step, place]
                shown = cells if unchecked else [*cells[:2], *cells[4:-1]]
                rows.append([*([group] if group else []), *row, *shown])
    figures = ["count", "total s", "mean s", "SD s", "share %"]
    if unchecked:
        figures = [*figures[:2], "from s", "to s", *figures[2:], "unchecked %"]
    about = ["video", "step"] if per_video else ["step", "videos"]
    notes = [error_note(labelled)] if unchecked else []
    if any(timeline.duration is None for timeline in everything):
        notes.append("A video of unknown length is assumed to end with its last label.")
    return Table([*(["group"] if any(groups) else []), *about, *figures], rows, notes=notes)


def error_note(labelled: bool) -> str:
    """Describe the error of figures from unchecked segments."""
    low, high = TRUE_SHARES[labelled]
    learned = "with a few labels" if labelled else "without labels"
    return (
        f"Figures from unchecked segments: on recorded tasks learned {learned}, 80 % of the true "
        f"seconds of a step were {low:g} to {high:g} times the measured ones (from, to); counts, "
        "means and shares have similar errors. Correct the segments in stepcut view, or use "
        "--confirmed-only."
    )


def _count(
    timelines: Sequence[Timeline], steps: Sequence[str], labelled: bool
) -> Iterator[tuple[str, list[Cell]]]:
    """Yield the figures of each step over these timelines, and of the time without a step."""
    whole = sum(timeline.end for timeline in timelines)
    for step in steps:
        done = [one for timeline in timelines for one in timeline if one.step == step]
        spent = [one.duration for one in done if not one.is_click]
        total = float(sum(spent))
        mean = float(np.mean(spent)) if spent else None
        spread = float(np.std(spent, ddof=1)) if len(spent) > 1 else None
        share = 100 * total / whole if whole else None
        predicted = sum(one.duration for one in done if is_unchecked(one))
        unchecked = 100 * predicted / total if total else None
        yield (
            step,
            [len(done), total, *true_range(done, labelled), mean, spread, share, unchecked],
        )
    if all(timeline.duration is not None for timeline in timelines) and whole:
        idle = sum(_idle(timeline) for timeline in timelines)
        yield NO_STEP, [None, idle, None, None, None, None, 100 * idle / whole, None]


def _idle(timeline: Timeline) -> float:
    """Return the seconds of the video without a step."""
    return float(sum(end - start for start, end in timeline.crop(0, timeline.end).gaps()))


def _does(timeline: Timeline, step: str) -> bool:
    if step == NO_STEP:
        return _idle(timeline) > 0
    return any(segment.step == step for segment in timeline)


@drawn_with(FIXED)
def draw_budget(groups: Groups, steps: Sequence[str]) -> Any:
    """Draw the seconds of each step as a box per group; return the matplotlib axes."""
    from matplotlib.figure import Figure

    ax: Any = Figure(figsize=(7, 1 + 0.5 * len(steps)), layout="constrained").add_subplot()
    width = 0.8 / max(len(groups), 1)
    for place, (name, videos) in enumerate(groups.items()):
        spent = [
            [
                sum(one.duration for one in timeline if one.step == step)
                for timeline in videos.values()
            ]
            for step in steps
        ]
        at = np.arange(len(steps)) + (place - (len(groups) - 1) / 2) * width
        boxes = ax.boxplot(
            spent,
            positions=at,
            widths=0.9 * width,
            orientation="horizontal",
            patch_artist=True,
            medianprops={"color": "black", "linewidth": 2},
        )
        for box in boxes["boxes"]:
            box.set_facecolor(f"C{place}")
        ax.plot([], [], color=f"C{place}", linewidth=6, label=name)
    ax.plot([], [], color="black", linewidth=2, label="median")
    ax.set_yticks(np.arange(len(steps)), steps)
    ax.invert_yaxis()
    ax.set_xlabel("seconds")
    ax.legend()
    return ax
