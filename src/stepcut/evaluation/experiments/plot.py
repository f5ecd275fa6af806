"""The plot of an experiment: bars with deviations, or lines over K."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

from stepcut.colours import colour
from stepcut.files.atomic import write_bytes
from stepcut.tables import Spread


def draw(path: Path, title: str, figures: Mapping[str, Spread | Mapping[int, Spread]]) -> None:
    """Draw a figure with its deviation for every row, or a line over K where a row has several.

    The suffix of `path` chooses the kind of picture (png, svg, pdf).
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    bars = {row: values for row, values in figures.items() if isinstance(values, Spread)}
    for number, (row, values) in enumerate(figures.items()):
        if not isinstance(values, Spread):
            means, deviations = [v.mean for v in values.values()], [v.sd for v in values.values()]
            paint = colour(number)
            axes.errorbar(list(values), means, yerr=deviations, label=row, color=paint, marker="o", capsize=3)
            axes.set_xticks(list(values))
            axes.set_xlabel("K")
            axes.legend(fontsize="small")
    if bars:
        places, colours = range(len(bars)), [colour(number) for number in range(len(bars))]
        deviations = [v.sd for v in bars.values()]
        axes.barh(places, [v.mean for v in bars.values()], xerr=deviations, color=colours, capsize=3)
        axes.set_yticks(places, list(bars))
        axes.invert_yaxis()
    axes.set_title(title)
    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix.lstrip(".") or "png", dpi=150)
    write_bytes(path, picture.getvalue())
