"""Statistics of a data set: foreground, missing and repeated steps, counts and hours, per task and in total."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from stepcut.datasets.dataset import TaskInfo
from stepcut.datasets.task import Task
from stepcut.files.figures import save_figure
from stepcut.tables import Cell, Table
from stepcut.timeline import Timeline

COLUMNS = ["task", "videos", "steps", "foreground", "missing", "repeated"]
MORE = ["segments", "hours", "video minutes", "segment seconds"]


@dataclass(frozen=True)
class Counts:
    """What is counted in some videos; sums, so that tasks add up to a total."""

    videos: int = 0
    steps: int = 0
    ratios: tuple[float, ...] = ()
    """Foreground per video, for those whose length is known."""
    distinct: int = 0
    """Sum over videos of u_n, the distinct steps in video n."""
    possible: int = 0
    """Sum over videos of K, the steps of the task."""
    segments: int = 0
    """Sum over videos of g_n, the segments in video n."""
    seconds: float = 0.0
    """Length of the videos whose length is known."""
    active: float = 0.0
    """Summed length of the segments."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(*map(operator.add, astuple(self), astuple(other)))

    @property
    def foreground(self) -> float | None:
        """F = mean_n(key-step duration / video duration)."""
        return sum(self.ratios) / len(self.ratios) if self.ratios else None

    @property
    def missing(self) -> float | None:
        """M = 1 - sum_n u_n / (K N)."""
        return 1 - self.distinct / self.possible if self.possible else None

    @property
    def repeated(self) -> float | None:
        """R = 1 - sum_n u_n / sum_n g_n."""
        return 1 - self.distinct / self.segments if self.segments else None


def count(task: Task) -> Counts:
    """Count one task over its videos that have a timeline."""
    timelines = list(task.timelines.values())
    known = [t for t in timelines if t.duration]
    return Counts(
        videos=len(timelines),
        steps=len(task.steps),
        ratios=tuple(covered(t) / t.duration for t in known if t.duration),
        distinct=sum(len(set(t.sequence())) for t in timelines),
        possible=len(task.steps) * len(timelines),
        segments=sum(len(t) for t in timelines),
        seconds=sum(t.duration or 0.0 for t in known),
        active=sum(segment.duration for t in timelines for segment in t),
    )


def covered(timeline: Timeline) -> float:
    """Seconds of a `timeline` that at least one segment covers; what two share counts once."""
    last = max((segment.end for segment in timeline), default=0.0)
    return max(timeline.end, last) - sum(end - start for start, end in timeline.gaps())


def statistics(
    tasks: Sequence[Task], title: str = "", more: bool = False, published: Mapping[str, TaskInfo] | None = None
) -> Table:
    """The table of section 6 of the paper's method; what is known to be wrong with the files stands in the notes.

    tasks      of a data set
    title      the caption
    more       whether to add counts, hours and lengths, and the published figures
    published  those figures, by task
    """
    counted = [(task.name, count(task)) for task in tasks]
    rows = [_row(name, c, more) for name, c in [*counted, ("total", sum((c for _, c in counted), Counts()))]]
    columns = [*COLUMNS, *(MORE if more else [])]
    if more and published:
        columns += ["published F", "published M", "published R"]
        for row in rows:
            info = published.get(str(row[0]), TaskInfo())
            row += [info.foreground, info.missing, info.repeated]
    notes = [f"{task.name}: {defect}." for task in tasks for defect in task.defects]
    if more and counted:
        notes.append(_means([c for _, c in counted]))
    unknown = sum(c.videos - len(c.ratios) for _, c in counted)
    if unknown:
        notes.append(f"{unknown} videos have no known length and are left out of the foreground and the hours.")
    return Table(columns, rows, caption=title, notes=notes, digits=2)


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


def _means(counts: Sequence[Counts]) -> str:
    """Steps and length in two means: every task counts once, or every video."""
    timed = [c for c in counts if c.ratios]
    lengths = [c.seconds / len(c.ratios) for c in timed]
    by_task = f"{sum(c.steps for c in counts) / len(counts):.1f} steps"
    by_video = f"{sum(c.possible for c in counts) / max(1, sum(c.videos for c in counts)):.1f} steps"
    if timed:
        by_task += f" and {sum(lengths) / len(lengths):.1f} s a video"
        by_video += f" and {sum(c.seconds for c in timed) / sum(len(c.ratios) for c in timed):.1f} s a video"
    return f"Means over tasks: {by_task}. Means over videos: {by_video}."


def _row(name: str, counts: Counts, more: bool) -> list[Cell]:
    row: list[Cell] = [name, counts.videos, counts.steps, counts.foreground, counts.missing, counts.repeated]
    if more:
        with_length = len(counts.ratios)
        row += [
            counts.segments,
            counts.seconds / 3600,
            counts.seconds / 60 / with_length if with_length else None,
            counts.active / counts.segments if counts.segments else None,
        ]
    return row
