"""What all plots share: the style, the size, the legend, and how a figure is written."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from stepcut.files.figures import FIXED, METADATA, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P = ParamSpec("P")
T = TypeVar("T")

WIDTH = 7.0
"""Inches: the text width of most papers."""
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


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Draw in the style of all plots, and leave the user's own settings alone."""

    @functools.wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> T:
        import matplotlib

        with matplotlib.rc_context(STYLE):
            return draw(*args, **kwargs)

    return drawn


def new_figure(width: float, height: float, columns: int = 1) -> tuple[Figure, Any]:
    """A figure that belongs to no window, so that a server may draw as well as a notebook."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    return figure, figure.subplots(1, columns)


def legend(figure: Figure, entries: Mapping[str, str]) -> None:
    """Names under the figure, none of them cut: as many columns as the longest one leaves room for."""
    from matplotlib.patches import Patch

    marks = [Patch(color=fill) for fill in entries.values()]
    longest = max(map(len, entries), default=1)
    width = figure.get_figwidth() / (0.35 + 0.055 * longest)  # inches: the mark, and a letter at 7 points
    columns = max(1, min(6, int(width)))
    figure.legend(marks, list(entries), loc="outside lower center", ncols=columns, fontsize=7)


def short(text: str, most: int) -> str:
    """At most `most` letters; the end stays, which tells names apart that begin alike."""
    if len(text) <= most:
        return text
    end = (most - 1) // 2
    return text[: most - 1 - end] + "…" + text[len(text) - end :]


@styled
def save(figure: Figure, path: str | os.PathLike[str], dpi: int = 200) -> None:
    """Write a figure whole or not at all; the suffix decides between PNG, SVG and PDF."""
    save_figure(figure, path, dpi)


@styled
def to_svg(figure: Figure) -> str:
    """A figure as SVG text, for a page that needs no other file."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata=METADATA[".svg"])
    text = out.getvalue()
    return text[text.index("<svg") :]
