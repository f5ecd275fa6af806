"""Shared parts of plots: style, comparison with the truth, colours, and writing figures."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepcut.colours import colour
from stepcut.errors import OptionError, as_items, check_kind
from stepcut.evaluation.clock import match_names, merge_names, read_truth
from stepcut.evaluation.evaluate import Evaluation, evaluate
from stepcut.files.figures import FIXED, METADATA, drawn_with, save_figure
from stepcut.procedure.procedure import Procedure
from stepcut.settings import check_number
from stepcut.timeline import Timeline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Found = Procedure | Mapping[str, Timeline]

WANTED = "a procedure from stepcut.learn or stepcut.load"
STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    **FIXED,
}


styled = drawn_with(STYLE)
"""Decorator that draws in the style of all plots."""


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

    Raises
    ------
    OptionError
        If the suffix is unknown.

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
    """Evaluation of a procedure against the truth, for plots."""

    evaluation: Evaluation
    timelines: dict[str, Timeline]
    """True timelines by the procedure's video names."""
    colours: dict[str, str]
    """Colour of each true step: that of its matched step, or a new one."""
    names: dict[str, str]
    """True step of each discovered step, if no other true step takes more of its time."""


def compare(found: Found, truth: Any) -> Compared:
    """Evaluate and match; `truth` is in any form that `stepcut.evaluate` takes."""
    evaluation = evaluate(found, truth)
    true = read_truth(truth)[0]
    pairs, _ = match_names(timelines_of(found), true)
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
    """Colours of the steps: chosen by a person, or those of their numbers."""
    chosen = {} if isinstance(found, Mapping) else found.colours
    return {step: chosen.get(step, colour(number)) for number, step in enumerate(steps)}


def timelines_of(found: Found) -> Mapping[str, Timeline]:
    """Timelines of a procedure, or the mapping itself."""
    if not isinstance(found, Mapping):
        check_kind("found", found, Procedure, WANTED + ", or a dict from video names to timelines")
        return found.timelines
    if not as_items("found", found.values(), Timeline, "a stepcut.Timeline for each video"):
        raise OptionError("found={} has no timeline to plot.", setting="found", value=found)
    return found


def check_procedure(value: object) -> None:
    """Refuse values that are not a procedure, such as the path of one."""
    check_kind("procedure", value, Procedure, WANTED)
