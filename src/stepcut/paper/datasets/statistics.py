"""Tables of a data set: foreground, missing and repeated steps, hours; published results."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from stepcut.files.figures import FIXED, drawn_with, save_figure
from stepcut.paper.datasets.dataset import DataSet, Task
from stepcut.tables import Cell, Table
from stepcut.timeline import Timeline

COLUMNS = ["task", "videos", "steps", "foreground", "missing", "repeated"]
MORE = ["segments", "hours", "video minutes", "segment seconds"]


class Figures(NamedTuple):
    """Of the annotated videos of one task or several: a row of the table."""

    task: str
    videos: int
    steps: int
    # F = mean_n(annotated duration / video duration), over videos of known length
    foreground: float | None
    # M = 1 - sum_n u_n / sum_n K, with u_n distinct steps in video n, K steps of its task
    missing: float | None
    repeated: float | None  # R = 1 - sum_n u_n / sum_n g_n, with g_n the segments in video n
    segments: int
    hours: float
    video_minutes: float | None  # Mean length of videos of known length
    segment_seconds: float | None


def count(tasks: Sequence[Task], name: str = "total") -> Figures:
    """Of `tasks` together, as a row called `name`."""
    timelines = [timeline for task in tasks for timeline in task.timelines.values()]
    lengths = [timeline.duration for timeline in timelines if timeline.duration]
    ratios = [covered(timeline) / timeline.duration for timeline in timelines if timeline.duration]
    distinct = sum(len(set(timeline.sequence())) for timeline in timelines)
    possible = sum(len(task.steps) * len(task.timelines) for task in tasks)
    parts = [segment.duration for timeline in timelines for segment in timeline]
    return Figures(
        name,
        len(timelines),
        sum(len(task.steps) for task in tasks),
        foreground=sum(ratios) / len(ratios) if ratios else None,
        missing=1 - distinct / possible if possible else None,
        repeated=1 - distinct / len(parts) if parts else None,
        segments=len(parts),
        hours=sum(lengths) / 3600,
        video_minutes=sum(lengths) / 60 / len(lengths) if lengths else None,
        segment_seconds=sum(parts) / len(parts) if parts else None,
    )


def covered(timeline: Timeline) -> float:
    """Seconds that at least one segment covers; overlaps count once."""
    last = max((segment.end for segment in timeline), default=0.0)
    return max(timeline.end, last) - sum(end - start for start, end in timeline.gaps())


def statistics(
    tasks: Sequence[Task], title: str = "", more: bool = False, published: DataSet | None = None
) -> Table:
    """`more` adds counts, hours, lengths, means over tasks, and the published figures."""
    counted, total = [count([task], task.name) for task in tasks], count(tasks)
    columns = [*COLUMNS, *(MORE if more else [])]
    rows: list[list[Cell]] = []
    for figures in counted:
        rows.append(list(figures[: len(columns)]))
        info = published.tasks.get(figures.task) if more and published else None
        if info is not None and info.foreground is not None:
            theirs = [info.videos, info.steps, info.foreground, info.missing, info.repeated]
            rows.append([f"{figures.task} (published)", *theirs, *[None] * len(MORE)])
    rows.append(list(total[: len(columns)]))
    if more and counted:
        rows += _means(counted, total, published)
    notes = [f"{task.name}: {defect}." for task in tasks for defect in task.defects]
    unknown = sum(not timeline.duration for task in tasks for timeline in task.timelines.values())
    if unknown:
        notes.append(f"{unknown} videos have no known length; foreground and hours exclude them.")
    return Table(columns, rows, caption=title, notes=notes, digits=2)


def leaderboard() -> Table:
    """Published results on EgoProceL, each with its matching, K and source, as read there.

    Baselines that ignore the video are scored on the true annotations, under the same matching.
    """
    text = (Path(__file__).parent / "leaderboard.csv").read_text(encoding="utf-8")
    head, *rows = csv.reader(text.splitlines())
    return Table(
        head,
        [[cell or None for cell in row] for row in rows],
        "EgoProceL, F1/IoU in percent",
        [
            "Compare rows of one matching only. Per-video matching does not ask whether a step is the "
            "same in all videos, and gives every row a higher score.",
            "Without a figure that could be read at its source: STEPs (ICCV 2023), GPL (WACV 2024), "
            "OPEL (NeurIPS 2024), RGWOT (2025), REALIGN (2025).",
        ],
    )


@drawn_with(FIXED)
def plot_statistics(table: Table, path: str | Path) -> None:
    """Foreground, missing and repeated as bars, to a PNG, SVG or PDF `path`."""
    from matplotlib.figure import Figure

    rows = [row for row in table.rows if isinstance(row[3], float)]
    names = [str(row[0]) for row in rows]
    figure = Figure(figsize=(8, 0.6 + 0.32 * len(names)), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    for place, each in enumerate(axes, start=3):
        what, fill = COLUMNS[place], ("#4477aa", "#ee6677", "#228833")[place - 3]
        values = [value if isinstance(value := row[place], float) else 0.0 for row in rows]
        each.barh(range(len(names)), values, color=fill)
        each.set_xlim(0, 1)
        each.set_title(what)
        each.set_yticks(range(len(names)), names)
    axes[0].invert_yaxis()
    figure.suptitle(table.caption)
    save_figure(figure, path)


def _means(
    counted: Sequence[Figures], total: Figures, published: DataSet | None
) -> list[list[Cell]]:
    """Mean steps and length over tasks, as in the paper, and over videos."""
    minutes = [each.video_minutes for each in counted if each.video_minutes is not None]
    by_task = sum(each.steps for each in counted) / len(counted)
    by_video = sum(each.steps * each.videos for each in counted) / max(1, total.videos)

    def row(name: str, videos: Cell, steps: Cell, hours: Cell, length: Cell) -> list[Cell]:
        return [name, videos, steps, None, None, None, None, hours, length, None]

    mean = sum(minutes) / len(minutes) if minutes else None
    rows = [
        row("mean over tasks", None, by_task, None, mean),
        row("mean over videos", None, by_video, None, total.video_minutes),
    ]
    known = {} if published is None else published.published
    if known:
        videos = sum(info.videos or 0 for info in published.tasks.values()) if published else None
        rows.append(row("total (published)", videos, None, known["hours"], None))
        minute = known["seconds"] / 60
        rows.append(row("mean over tasks (published)", None, known["steps"], None, minute))
    return rows
