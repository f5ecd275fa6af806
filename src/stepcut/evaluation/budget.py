"""Time budgets: count and time every step, per video, per group and in all, with their error.

A segment with a confidence is predicted and unchecked; one without was annotated by a person.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stepcut.errors import OptionError
from stepcut.tables import FIXED, Cell, Table, drawn_with
from stepcut.timeline import Segment, Timeline

# group -> video -> timeline; a single group may be called ""
Groups = Mapping[str, Mapping[str, Timeline]]
# 80 % of the true seconds of a step were between these multiples of the predicted ones, without
# and with three labelled videos: on OpenPack and six recipes of CaptainCook4D
TRUE_SHARES = {False: (0.3, 1.7), True: (0.6, 1.6)}


def is_unchecked(segment: Segment) -> bool:
    return segment.confidence is not None


def only_confirmed(groups: Groups) -> dict[str, dict[str, Timeline]]:
    kept = {
        group: {
            name: replace(timeline, segments=tuple(s for s in timeline if not is_unchecked(s)))
            for name, timeline in videos.items()
            if not all(map(is_unchecked, timeline)) or not len(timeline)
        }
        for group, videos in groups.items()
    }
    if not any(kept.values()):
        fix = "Label videos in stepcut view, or count all segments without --confirmed-only."
        what = f"no segment is confirmed by a person. {fix}"
        raise OptionError(what, setting="confirmed_only", value=True)
    return kept


def true_range(segments: Iterable[Segment], labelled: bool) -> tuple[float, float]:
    """80 % interval of the true seconds of a step."""
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
    """Count and time every step, or these `steps`; a group called "" has no column.

    Seconds are those of segments, `share` is of the video time in percent. `(no step)` needs the
    lengths of all videos. Of unchecked predictions, `from` and `to` are an 80 % interval of the
    true total, `unchecked` their share; `confirmed_only` leaves them out.

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
    checks = [is_unchecked(segment) for timeline in everything for segment in timeline]
    unchecked, labelled = any(checks), not all(checks)
    rows: list[list[Cell]] = []
    for group, videos in groups.items():
        parts = (
            {name: [one] for name, one in videos.items()} if per_video else {"": videos.values()}
        )
        for name, part in parts.items():
            counted = list(_count(list(part), steps, labelled))
            for step, number, cells in counted[: len(steps)] if confirmed_only else counted:
                row: list[Cell] = [name, step] if per_video else [step, number]
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
) -> Iterator[tuple[str, int, list[Cell]]]:
    whole = sum(timeline.end for timeline in timelines)
    for step in steps:
        each = [[one for one in timeline if one.step == step] for timeline in timelines]
        done = [one for some in each for one in some]
        spent = [one.duration for one in done if not one.is_click]
        total = float(sum(spent))
        mean = float(np.mean(spent)) if spent else None
        deviation = float(np.std(spent, ddof=1)) if len(spent) > 1 else None
        share = 100 * total / whole if whole else None
        predicted = sum(one.duration for one in done if is_unchecked(one))
        unchecked = 100 * predicted / total if total else None
        cells: list[Cell] = [len(done), total, *true_range(done, labelled)]
        yield step, sum(map(bool, each)), [*cells, mean, deviation, share, unchecked]
    if all(timeline.duration is not None for timeline in timelines) and whole:
        idle = [
            float(sum(end - start for start, end in timeline.crop(0, timeline.end).gaps()))
            for timeline in timelines
        ]
        total, share = sum(idle), 100 * sum(idle) / whole
        videos = sum(one > 0 for one in idle)
        yield "(no step)", videos, [None, total, None, None, None, None, share, None]


@drawn_with(FIXED)
def draw_budget(groups: Groups, steps: Sequence[str]) -> Any:
    """Seconds of each step as a box per group; returns the matplotlib axes."""
    from matplotlib.figure import Figure

    ax: Any = Figure(figsize=(7, 1 + 0.5 * len(steps)), layout="constrained").add_subplot()
    width = 0.8 / max(len(groups), 1)
    for place, (name, videos) in enumerate(groups.items()):
        spent = [
            [sum(one.duration for one in t if one.step == step) for t in videos.values()]
            for step in steps
        ]
        boxes = ax.boxplot(
            spent,
            positions=np.arange(len(steps)) + (place - (len(groups) - 1) / 2) * width,
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
