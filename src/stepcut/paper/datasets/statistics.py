"""Statistics of a data set: foreground, missing and repeated steps, counts and hours, per task and in total."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from stepcut.files.figures import FIXED, drawn_with, save_figure
from stepcut.paper.datasets.dataset import Task, TaskInfo
from stepcut.tables import Cell, Table
from stepcut.timeline import Timeline

COLUMNS = ["task", "videos", "steps", "foreground", "missing", "repeated"]
MORE = ["segments", "hours", "video minutes", "segment seconds"]


class Figures(NamedTuple):
    """A row of the table: what is counted in the videos of a task, or of several, that have a timeline."""

    task: str
    videos: int
    steps: int
    foreground: float | None
    """F = mean_n(key-step duration / video duration), over the videos whose length is known."""
    missing: float | None
    """M = 1 - sum_n u_n / sum_n K, with u_n the distinct steps in video n, and K those of its task."""
    repeated: float | None
    """R = 1 - sum_n u_n / sum_n g_n, with g_n the segments in video n."""
    segments: int
    hours: float
    video_minutes: float | None
    """The mean length of the videos whose length is known."""
    segment_seconds: float | None


def count(tasks: Sequence[Task], name: str = "total") -> Figures:
    """The figures of `tasks` together, as a row of this `name`."""
    timelines = [timeline for task in tasks for timeline in task.timelines.values()]
    lengths = [timeline.duration for timeline in timelines if timeline.duration]
    ratios = [covered(timeline) / timeline.duration for timeline in timelines if timeline.duration]
    distinct = sum(len(set(timeline.sequence())) for timeline in timelines)
    possible = sum(len(task.steps) * len(task.timelines) for task in tasks)
    segments = [segment for timeline in timelines for segment in timeline]
    return Figures(
        name,
        len(timelines),
        sum(len(task.steps) for task in tasks),
        foreground=sum(ratios) / len(ratios) if ratios else None,
        missing=1 - distinct / possible if possible else None,
        repeated=1 - distinct / len(segments) if segments else None,
        segments=len(segments),
        hours=sum(lengths) / 3600,
        video_minutes=sum(lengths) / 60 / len(lengths) if lengths else None,
        segment_seconds=sum(segment.duration for segment in segments) / len(segments)
        if segments
        else None,
    )


def covered(timeline: Timeline) -> float:
    """Seconds of a `timeline` that at least one segment covers; what two share counts once."""
    last = max((segment.end for segment in timeline), default=0.0)
    return max(timeline.end, last) - sum(end - start for start, end in timeline.gaps())


def statistics(
    tasks: Sequence[Task],
    title: str = "",
    more: bool = False,
    published: Mapping[str, TaskInfo] | None = None,
) -> Table:
    """The table of section 6 of the paper's method for `tasks` of a data set, under a `title`; what is known to be
    wrong with the files stands in the notes. `more` adds counts, hours, lengths and the `published` figures by task."""
    counted, total = [count([task], task.name) for task in tasks], count(tasks)
    columns = [*COLUMNS, *(MORE if more else [])]
    rows: list[list[Cell]] = [list(figures[: len(columns)]) for figures in [*counted, total]]
    if more and published:
        columns += ["published F", "published M", "published R"]
        for row in rows:
            info = published.get(str(row[0]), TaskInfo())
            row += [info.foreground, info.missing, info.repeated]
    notes = [f"{task.name}: {defect}." for task in tasks for defect in task.defects]
    if more and counted:
        notes.append(_means(counted, total))
    unknown = sum(not timeline.duration for task in tasks for timeline in task.timelines.values())
    if unknown:
        notes.append(
            f"{unknown} videos have no known length and are left out of the foreground and the hours."
        )
    return Table(columns, rows, caption=title, notes=notes, digits=2)


@drawn_with(FIXED)
def plot_statistics(table: Table, path: str | Path) -> None:
    """Draw foreground, missing and repeated of a `table` as bars; the suffix of `path` decides PNG, SVG or PDF."""
    from matplotlib.figure import Figure

    names = [str(name) for name in table.column("task")]
    figure = Figure(figsize=(8, 0.6 + 0.32 * len(names)), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    for each, what, fill in zip(axes, COLUMNS[3:], ("#4477aa", "#ee6677", "#228833"), strict=True):
        values = [value if isinstance(value, float) else 0.0 for value in table.column(what)]
        each.barh(range(len(names)), values, color=fill)
        each.set_xlim(0, 1)
        each.set_title(what)
        each.set_yticks(range(len(names)), names)
    axes[0].invert_yaxis()
    figure.suptitle(table.caption)
    save_figure(figure, path)


def _means(counted: Sequence[Figures], total: Figures) -> str:
    """Steps and length in two means: every task counts once, or every video."""
    minutes = [each.video_minutes for each in counted if each.video_minutes is not None]
    by_task = f"{sum(each.steps for each in counted) / len(counted):.1f} steps"
    by_video = (
        f"{sum(each.steps * each.videos for each in counted) / max(1, total.videos):.1f} steps"
    )
    if total.video_minutes is not None:
        by_task += f" and {60 * sum(minutes) / len(minutes):.1f} s a video"
        by_video += f" and {60 * total.video_minutes:.1f} s a video"
    return f"Means over tasks: {by_task}. Means over videos: {by_video}."
