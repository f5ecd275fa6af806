"""Figures of the paper on your data: segmentations of videos, and correspondences between them."""

import io
import os
from collections.abc import Mapping, Sequence
from typing import Any

from stepcut.colours import BACKGROUND_COLOUR, colour
from stepcut.errors import DataError, choose
from stepcut.features.backbones.runtime import choose_device
from stepcut.order.orders import grouped
from stepcut.paper.cnc.settings import choose_preset
from stepcut.paper.experiments.material import Source
from stepcut.paper.experiments.run import Cell, Work, predict, read_row, score_pair, segment
from stepcut.show import plots
from stepcut.show.clips import picture_at
from stepcut.show.plots import save, styled
from stepcut.timeline import Segment, Timeline

CUTS = {
    "k-means (HC)": "tc3i + kmeans",
    "subset selection (SS)": "tc3i + subset",
    "ProCut (PCM)": "tc3i + procut",
}
SHOWN = 4  # Videos of a correspondence figure, and at most so many steps


def draw_figure(
    path: str | os.PathLike[str],
    data: str | os.PathLike[str],
    video: str | Sequence[str] | None = None,
    rows: Sequence[str] | None = None,
    correspond: bool = False,
    steps: int | str = 7,
    seed: int = 0,
    train: Mapping[str, Any] | None = None,
    cut: Mapping[str, Any] | None = None,
    as_published: bool = False,
    as_released: bool = False,
    **settings: Any,
) -> str:
    """Draw true and predicted steps of videos, or the same steps across four videos.

    Clusters take the names of the annotated steps that they match under `strict` over all videos
    of the task. A cluster without a match keeps its number.

    Parameters
    ----------
    path
        The PNG, SVG or PDF file to write.
    video
        The videos to draw; by default the first one, or the first four with `correspond`.
    rows
        The rows that segment, as in `run_experiment`; by default k-means, subset selection and
        ProCut after TC3I, and only ProCut with `correspond`.
    correspond
        Draw the figure of correspondences: the timeline of each video with a frame of each shared
        step, and lines between the segments of a step.
    data, steps, seed, train, cut, as_published, as_released, **settings
        As for `run_experiment`: features, tasks, folder, fps, toy, progress, spec, device.

    Returns
    -------
    str
        A description of the figure, with the F1 of every row.

    Raises
    ------
    DataError
        No video has features and an annotated timeline.

    Examples
    --------
    >>> from stepcut.formats import write_folder
    >>> files = write_folder("kitchen/sandwich", dict.fromkeys(videos, labels), "csv")
    >>> from pathlib import Path
    >>> Path("kitchen/sandwich/features/toy").mkdir(parents=True)
    >>> for name, rows in videos.items():
    ...     np.save(f"kitchen/sandwich/features/toy/{name}.npy", rows)
    >>> text = draw_figure(
    ...     "cuts.svg", "kitchen", steps=3, folder="cells", train={"iterations": 3}, fps=1
    ... )
    >>> text[:35]
    'video1 of sandwich, K = 3, seed 0, '
    """
    preset = choose_preset(as_published, as_released)
    train = dict(train or {})
    settings["device"] = device = choose_device(
        str(train.pop("device", settings.get("device", "auto")))
    )
    source = Source(data, **settings)
    view, task = source.found[0]
    material = source.material(view, task)
    if material is None or not material.features:
        raise DataError(f"{task.name}: no video has features and an annotated timeline.")
    shared = (material, source.place, train, cut or {}, device, preset)
    asked = [video] if isinstance(video, str) else video
    there = {each: each for each in material.features}
    default = list(there)[: SHOWN if correspond else 1]
    names = [choose("video", each, there) for each in asked or default]
    count = material.steps if steps == "true" else int(steps)
    wanted = dict(zip(rows, rows, strict=True)) if rows else dict(CUTS)
    if correspond and not rows:
        wanted = dict([*CUTS.items()][-1:])
    found, scores = dict[str, Mapping[str, Timeline]](), list[str]()
    for title, row in wanted.items():
        cell = Cell(task.name, read_row(row), count, seed, view)
        found[title], f1 = _segment(Work(cell, *shared), names)
        scores.append(f"{title} {f1:.1f}")
    if correspond:
        films = {each.name: each.path for each in task if each.name in names}
        figure = draw_correspondences(next(iter(found.values())), films)
    else:
        drawn = {
            title if len(names) == 1 else f"{name}: {title}": timelines[name]
            for name in names
            for title, timelines in {"truth": material.truth, **found}.items()
        }
        figure = plots.timelines(drawn)
    save(figure, path)
    return (
        f"{', '.join(names)} of {task.name}, K = {count}, seed {seed}, features "
        f"{material.described}; strict F1 over {len(material.features)} videos: {', '.join(scores)}"
    )


def _segment(work: Work, names: Sequence[str]) -> tuple[dict[str, Timeline], float]:
    """The timelines of videos, in the names of the annotated steps, and F1 over all videos."""
    pair, material = predict(work), work.material
    result = score_pair(pair, "strict", work.cell.steps)
    steps = [f"step {number}" for number in range(work.cell.steps)]
    matched = {steps[cluster]: pair.steps[step - 1] for cluster, step in result.matching.items()}
    labels = segment(work)
    lines = {
        name: Timeline.from_labels(labels[name], material.rate, steps, material.durations[name])
        for name in names
    }
    return {name: line.rename(matched) for name, line in lines.items()}, result.f1


@styled
def draw_correspondences(
    timelines: Mapping[str, Timeline], films: Mapping[str, str | os.PathLike[str] | None]
) -> Any:
    """Timelines with lines between the segments of a step, and frames of shared steps."""
    from matplotlib.figure import Figure
    from matplotlib.image import imread
    from matplotlib.patches import ConnectionPatch, Patch

    first = grouped(
        (step, longest.start / timeline.end)
        for timeline in timelines.values()
        for step in timeline.steps
        if (longest := _longest(timeline, step))
    )
    often = sorted(first, key=lambda step: -len(first[step]))[:SHOWN]
    shared = sorted(often, key=lambda step: sum(first[step]) / len(first[step]))
    paint = {step: colour(number) for number, step in enumerate(shared)}
    high = 1.2 if any(films.values()) else 0.1  # inches of the pictures
    count, size = len(timelines), (plots.WIDTH, (high + 0.6) * len(timelines) + 0.4)
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    grid = figure.add_gridspec(2 * count, max(1, len(shared)), height_ratios=[high, 0.4] * count)
    before: tuple[Any, Timeline] | None = None
    for number, (name, timeline) in enumerate(timelines.items()):
        axes = figure.add_subplot(grid[2 * number + 1, :], ylabel=name, xlim=(0, timeline.end))
        axes.set_yticks([])
        axes.set_xlabel("seconds" if number == len(timelines) - 1 else "")
        for part in timeline:
            fill = paint.get(part.step, BACKGROUND_COLOUR)
            axes.barh(0, part.duration, left=part.start, height=1, color=fill)
        axes.set_ylim(-0.5, 0.5)
        for place, step in enumerate(shared):
            middle = _longest(timeline, step)
            if middle is None:
                continue
            if before is not None and (other := _longest(before[1], step)):
                ends = (_centre(other), -0.5), (_centre(middle), 0.5)
                data = before[0].transData, axes.transData
                line = ConnectionPatch(*ends, *data, color=paint[step])
                line.set_in_layout(False)
                figure.add_artist(line)
            if film := films.get(name):
                picture = figure.add_subplot(grid[2 * number, place])
                jpeg = io.BytesIO(picture_at(str(film), _centre(middle), 240))
                picture.imshow(imread(jpeg, format="jpeg"))
                picture.set_title(f"{_centre(middle):.0f} s", fontsize=7, color=paint[step])
                picture.axis("off")
        before = (axes, timeline)
    marks = [Patch(color=fill) for fill in paint.values()]
    figure.legend(marks, list(paint), loc="outside lower center", ncols=len(paint) or 1)
    return figure


def _longest(timeline: Timeline, step: str) -> Segment | None:
    segments = [segment for segment in timeline if segment.step == step]
    return max(segments, key=lambda segment: segment.duration) if segments else None


def _centre(segment: Segment) -> float:
    return (segment.start + segment.end) / 2
