"""Plots for papers and notebooks: functions from a procedure to a matplotlib figure.

A step has the same colour in all plots, in the report and in the viewer.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stepcut.colours import BACKGROUND_COLOUR, colour, ink
from stepcut.errors import NotLearned, OptionError, as_items, check_kind
from stepcut.evaluation.clock import match_names, merge_names, read_truth
from stepcut.evaluation.evaluate import Evaluation, evaluate
from stepcut.procedure.procedure import Procedure
from stepcut.settings import SEEDS, check_number
from stepcut.tables import FIXED, METADATA, drawn_with, save_figure
from stepcut.timeline import Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "confusion", "embedding", "graph", "hierarchy", "loss", "orders", "save", "timelines",
]  # fmt: skip

Found = Procedure | Mapping[str, Timeline]
WANTED = "a procedure from stepcut.learn or stepcut.load"
WIDTH = 7.0  # inches: the text width of most papers
STYLE: dict[Any, Any] = {
    "font.size": 8, "axes.titlesize": 9, "axes.labelsize": 8, "xtick.labelsize": 7,
    "ytick.labelsize": 7, "legend.fontsize": 7, "legend.frameon": False,
    "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.6,
    "svg.fonttype": "none", "pdf.fonttype": 42, **FIXED,
}  # fmt: skip
styled = drawn_with(STYLE)


@styled
def save(figure: Figure, path: str | os.PathLike[str], dpi: int = 200) -> None:
    """Write a figure as PNG, SVG or PDF.

    Parameters
    ----------
    figure
        A matplotlib figure.
    path
        The target; its suffix determines the format.
    dpi
        Dots per inch of PNG files.

    Examples
    --------
    >>> from stepcut.show import plots
    >>> plots.save(plots.orders(proc), "orders.svg")
    """
    from matplotlib.figure import Figure

    check_kind("figure", figure, Figure, "a matplotlib figure, such as plots.timelines returns")
    check_number("dpi", dpi, 1, 10_000)
    save_figure(figure, path, dpi)


@styled
def to_svg(figure: Figure) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata=METADATA[".svg"])
    text = out.getvalue()
    return text[text.index("<svg") :]


@dataclass(frozen=True)
class Compared:
    evaluation: Evaluation
    timelines: dict[str, Timeline]  # true ones by the procedure's video names
    colours: dict[str, str]  # of each true step: that of its matched step, or a new one
    # of each discovered step: the true step, if no other takes more of its time
    names: dict[str, str]


def compare(found: Found, truth: Any) -> Compared:
    evaluation = evaluate(found, truth)
    true = read_truth(truth)[0]
    pairs, _ = match_names(_timelines_of(found), true)
    canonical, _ = merge_names([true[theirs] for _, theirs in pairs])
    timelines = {ours: true[theirs].rename(canonical) for ours, theirs in pairs}
    score, count = evaluation.score, len(evaluation.clusters)
    paint = colours_of(found, evaluation.clusters)
    matches = [(k, step) for k, step in score.matching.items() if k >= 0 and step > 0]
    matched = {score.name(step): paint[evaluation.clusters[k]] for k, step in matches}
    alone = [step for step in dict.fromkeys(canonical.values()) if step not in matched]
    colours = {**matched, **{step: colour(count + place) for place, step in enumerate(alone)}}
    counts = score.confusion[1:, 1:]  # without background
    most = [(k, step) for k, step in matches if counts[step - 1, k] == counts[:, k].max() > 0]
    names = {evaluation.clusters[k]: score.name(step) for k, step in most}
    return Compared(evaluation, timelines, colours, names)


def colours_of(found: Found, steps: Sequence[str]) -> dict[str, str]:
    chosen = {} if isinstance(found, Mapping) else found.colours
    return {step: chosen.get(step, colour(number)) for number, step in enumerate(steps)}


def _timelines_of(found: Found) -> Mapping[str, Timeline]:
    if not isinstance(found, Mapping):
        check_kind("found", found, Procedure, WANTED + ", or a dict from video names to timelines")
        return found.timelines
    if not as_items("found", found.values(), Timeline, "a stepcut.Timeline for each video"):
        raise OptionError("found={} has no timeline to plot.", setting="found", value=found)
    return found


def check_procedure(value: object) -> None:
    check_kind("procedure", value, Procedure, WANTED)


# ---------- plots


@styled
def timelines(found: Found, truth: Any = None) -> Figure:
    """Draw all videos on one scale, with true timelines above the predicted ones.

    Parameters
    ----------
    found
        A procedure, or timelines by video name.
    truth
        True timelines, in any form that `stepcut.evaluate` takes.

    Returns
    -------
    Figure
        A matplotlib figure.

    Examples
    --------
    >>> figure = timelines(proc, truth={"video1": labels})
    >>> [tick.get_text() for tick in figure.axes[0].get_yticklabels()][:2]
    ['video1', 'video2']
    """
    drawn = _timelines_of(found)
    steps = list(dict.fromkeys(step for timeline in drawn.values() for step in timeline.steps))
    compared = None if truth is None else compare(found, truth)
    rows = len(drawn)
    figure, axes = _new_figure(WIDTH, 0.9 + (0.34 if compared else 0.24) * rows)
    paint = colours_of(found, steps)
    for row, (name, timeline) in enumerate(drawn.items()):
        if compared and name in compared.timelines:
            _bar(axes, row - 0.25, 0.28, compared.timelines[name], compared.colours)
            _bar(axes, row + 0.14, 0.42, timeline, paint)
        else:
            _bar(axes, row, 0.62, timeline, paint)
    axes.set_yticks(range(rows), list(drawn))
    axes.set(ylim=(rows - 0.4, -0.6), xlim=(0, max(timeline.end for timeline in drawn.values())))
    axes.set(xlabel="seconds" + ("; the narrow bar is the ground truth" if compared else ""))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    if compared:
        # Each discovered step and the true step it was matched with, unless the names agree.
        named = {step: compared.names.get(step, step) for step in paint}
        alone = {
            step: fill for step, fill in compared.colours.items() if fill not in paint.values()
        }
        paint = {s if named[s] == s else f"{s} = {named[s]}": fill for s, fill in paint.items()}
        paint |= {f"not found: {step}": fill for step, fill in alone.items()}
    _legend(figure, paint)
    return figure


@styled
def embedding(
    procedure: Procedure,
    features: Sequence[NDArray[Any]] | None = None,
    most: int = 3000,
    seed: int = 0,
) -> Figure:
    """Draw frames in two dimensions, coloured by step on the left and by video on the right.

    Good steps are separate clusters on the left, and mixed on the right.

    Parameters
    ----------
    procedure
        The procedure.
    features
        Rows (T, d) of each video, in the order of `procedure.timelines`; by default those it was
        learned from.
    most
        Maximum number of frames.
    seed
        Seed of the random choice of frames.

    Returns
    -------
    Figure
        A matplotlib figure.

    Raises
    ------
    OptionError
        `features` do not fit the procedure, or a number is out of range.

    Examples
    --------
    >>> [axes.get_title() for axes in embedding(proc).axes]
    ['by step', 'by video']
    """
    from sklearn.decomposition import PCA

    check_procedure(procedure)
    check_number("most", most, 1, whole=True)
    check_number("seed", seed, 0, SEEDS, whole=True)
    names = list(procedure.timelines)
    if features is None:
        rows = [one.rows for one in procedure.learned_features()]
    else:
        rows = as_items("features", features, object, "an array of rows for each video, (T, d)")
    if len(rows) != len(names):
        what = f"features has {len(rows)} videos; this procedure has {len(names)}."
        raise OptionError(what, setting="features", value=len(rows), allowed=len(names))
    embedded = [procedure.method.read(one).embedding for one in rows]
    points = np.concatenate(embedded).astype(np.float64)
    known = zip(names, embedded, strict=True)
    steps = np.concatenate([procedure.labels[name][: len(each)] for name, each in known])
    videos = np.repeat(np.arange(len(names)), [len(each) for each in embedded])
    chosen = np.sort(np.random.default_rng(seed).permutation(len(points))[:most])
    at = PCA(2, random_state=seed).fit_transform(points[chosen])
    figure, (left, right) = _new_figure(WIDTH, 3.3, columns=2)
    paint = [*procedure.colours.values(), BACKGROUND_COLOUR]  # -1 is background
    dots = {"s": 7, "linewidths": 0, "alpha": 0.8}
    left.scatter(*at.T, c=[paint[step] for step in steps[chosen]], **dots)
    last = max(len(names) - 1, 1)
    right.scatter(*at.T, c=videos[chosen], cmap="viridis", vmin=0, vmax=last, **dots)
    for axes, title in ((left, "by step"), (right, "by video")):
        axes.set(title=title, xticks=[], yticks=[], xlabel="first two principal components")
        axes.spines[["left", "bottom"]].set_visible(False)
    _legend(figure, procedure.colours)
    return figure


@styled
def graph(procedure: Procedure) -> Figure:
    """Draw what must precede what.

    Parameters
    ----------
    procedure
        The procedure.

    Returns
    -------
    Figure
        A matplotlib figure.

    Examples
    --------
    >>> [text.get_text() for text in graph(proc).axes[0].texts][:3]
    ['cut bread', 'spread butter', 'add jam']
    """
    check_procedure(procedure)
    axes = procedure.graph.draw()
    axes.figure.patch.set_facecolor("white")
    drawn: Figure = axes.figure
    return drawn


@styled
def orders(procedure: Procedure, most: int = 10) -> Figure:
    """Draw the most frequent orders of steps, with the number of videos of each.

    Parameters
    ----------
    procedure
        The procedure.
    most
        Maximum number of orders.

    Returns
    -------
    Figure
        A matplotlib figure.

    Examples
    --------
    >>> [tick.get_text() for tick in orders(proc).axes[0].get_yticklabels()]
    ['6 videos']
    """
    check_procedure(procedure)
    check_number("most", most, 1, whole=True)
    found = procedure.orders.ranked
    ranked = found[:most]
    longest = max((len(order) for order, _ in ranked), default=1)
    figure, axes = _new_figure(WIDTH, 0.7 + 0.32 * len(ranked))
    for row, (order, _) in enumerate(ranked):
        for place, step in enumerate(order):
            fill = procedure.colours[procedure.steps[step]]
            axes.barh(row, 0.94, left=place + 0.03, height=0.72, color=fill)
            shown = _short(procedure.steps[step], 11 if longest > 6 else 16)
            where = {"ha": "center", "va": "center", "color": ink(fill), "fontsize": 6.5}
            axes.text(place + 0.5, row, shown, **where)
    counts = [f"{len(videos)} video{'' if len(videos) == 1 else 's'}" for _, videos in ranked]
    axes.set_yticks(range(len(ranked)), counts)
    places = range(longest)
    axes.set_xticks([place + 0.5 for place in places], [str(place + 1) for place in places])
    more = f"; {most} of {len(found)} orders are shown" if len(found) > most else ""
    axes.set(ylim=(len(ranked) - 0.4, -0.6), xlim=(0, longest), xlabel="place in the order" + more)
    axes.tick_params(length=0)
    axes.spines[["left", "bottom"]].set_visible(False)
    return figure


@styled
def loss(procedure: Procedure) -> Figure:
    """Draw the training loss and its parts per iteration (thin), with running means (thick).

    Parameters
    ----------
    procedure
        A procedure of a method that is trained, such as `cnc`.

    Returns
    -------
    Figure
        A matplotlib figure.

    Raises
    ------
    NotLearned
        The method has no loss.

    Examples
    --------
    >>> trained = sc.learn(videos, steps=3, method="cnc", train={"iterations": 3})
    >>> loss(trained).axes[0].get_xlabel()
    'iteration'
    """
    check_procedure(procedure)
    curve = procedure.method.curve_
    if curve is None or not curve.values:
        raise NotLearned(f"method {procedure.config.method!r} has no loss curve to plot.")
    figure, axes = _new_figure(WIDTH * 0.6, 2.6)
    values = np.asarray(curve.values, dtype=np.float64)
    span = max(1, len(values) // 50)
    for number, name in enumerate(curve.names):
        line, paint = values[:, number], colour(number)
        at = np.arange(1, len(values) + 1)
        smooth = np.convolve(line, np.ones(span) / span, mode="valid")
        axes.plot(at, line, color=paint, lw=0.4, alpha=0.35)
        axes.plot(at[span - 1 :], smooth, color=paint, lw=1.4, label=name)
    axes.set(xlabel="iteration", ylabel="loss")
    axes.legend()
    return figure


@styled
def hierarchy(procedure: Procedure) -> Figure:
    """Draw the tree in which steps merge when fewer are wanted; the most similar merge first.

    Parameters
    ----------
    procedure
        The procedure.

    Returns
    -------
    Figure
        A matplotlib figure.

    Raises
    ------
    NotLearned
        The procedure has one step.

    Examples
    --------
    >>> hierarchy(proc).axes[0].get_xlabel()
    'number of steps'
    """
    check_procedure(procedure)
    from scipy.cluster.hierarchy import dendrogram

    tree = procedure.hierarchy()
    if not tree.merges:
        raise NotLearned("a procedure of one step has no hierarchy to plot.")
    place: dict[tuple[int, ...], int] = {(step,): step for step in range(len(tree.steps))}
    links = []
    for number, merge in enumerate(tree.merges):
        joined = tuple(sorted(merge.a + merge.b))
        links.append([place[merge.a], place[merge.b], number + 1, len(joined)])
        place[joined] = len(tree.steps) + number
    figure, axes = _new_figure(WIDTH, 0.6 + 0.22 * len(tree.steps))
    names = [_short(name, 40) for name in tree.steps]
    style = {"leaf_font_size": 7, "link_color_func": lambda _: "#555555"}
    dendrogram(np.array(links, float), labels=names, orientation="left", ax=axes, **style)
    joins = range(len(links) + 1)
    axes.set_xticks(joins, [str(len(tree.steps) - count) for count in joins])
    axes.set_xlabel("number of steps")
    axes.spines["left"].set_visible(False)
    return figure


@styled
def confusion(found: Found, truth: Any) -> Figure:
    """Draw the share of each true step's time per discovered step, in percent.

    Matched pairs are framed.

    Parameters
    ----------
    found
        A procedure, or timelines by video name.
    truth
        True timelines, in any form that `stepcut.evaluate` takes.

    Returns
    -------
    Figure
        A matplotlib figure.

    Examples
    --------
    >>> confusion(proc, {"video1": labels}).axes[0].get_xlabel()
    'predicted'
    """
    from matplotlib.patches import Rectangle

    evaluation = compare(found, truth).evaluation
    score, paint = evaluation.score, colours_of(found, evaluation.clusters)
    counts = np.roll(score.confusion, -1, axis=(0, 1))  # background last
    names = [score.name(step) for step in range(1, len(counts))]
    share = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    figure, axes = _new_figure(1.8 + 0.55 * len(counts[0]), 1.2 + 0.34 * len(counts))
    axes.imshow(share, cmap="Blues", vmin=0, vmax=100, aspect="auto")
    for (row, column), value in np.ndenumerate(share):
        if value >= 0.5:
            tone = "white" if value > 55 else "#222222"
            axes.text(column, row, f"{value:.0f}", ha="center", va="center", color=tone, fontsize=7)
    for cluster, step in score.matching.items():
        if cluster >= 0 and step > 0:
            corner, line = (cluster - 0.46, step - 1.46), paint[evaluation.clusters[cluster]]
            frame = Rectangle(corner, 0.92, 0.92, fill=False, edgecolor=line, linewidth=2)
            axes.add_patch(frame)
    predicted = [*(_short(name, 16) for name in evaluation.clusters), "no step"]
    axes.set_xticks(range(len(predicted)), predicted, rotation=40, ha="right")
    axes.set_yticks(range(len(counts)), [*(_short(name, 28) for name in names), "background"])
    axes.set(xlabel="predicted", ylabel="true, % of its time")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure


def _bar(
    axes: Axes, row: float, height: float, timeline: Timeline, paint: Mapping[str, str]
) -> None:
    axes.barh(row, timeline.end, height=height, color="#efefef", linewidth=0)
    for segment in timeline:
        fill = paint.get(segment.step, BACKGROUND_COLOUR)
        axes.barh(row, segment.duration, left=segment.start, height=height, color=fill, linewidth=0)


def _new_figure(width: float, height: float, columns: int = 1) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    return figure, figure.subplots(1, columns)


def _legend(figure: Figure, entries: Mapping[str, str]) -> None:
    from matplotlib.patches import Patch

    marks = [Patch(color=fill) for fill in entries.values()]
    longest = max(map(len, entries), default=1)
    inches = 0.35 + 0.055 * longest  # the mark, and letters of 7 points
    columns = max(1, min(6, int(figure.get_figwidth() / inches)))
    figure.legend(marks, list(entries), loc="outside lower center", ncols=columns, fontsize=7)


def _short(text: str, most: int) -> str:
    """Shorten to `most` letters, and keep the end, which often distinguishes names."""
    if len(text) <= most:
        return text
    end = (most - 1) // 2
    return text[: most - 1 - end] + "…" + text[len(text) - end :]
