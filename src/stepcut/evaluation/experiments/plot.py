"""The plot of an experiment: bars with deviations, or lines over K."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from stepcut.colours import colour
from stepcut.files.atomic import write_bytes

if TYPE_CHECKING:
    from stepcut.evaluation.experiments.results import Results


def draw(results: Results, path: Path, protocol: str) -> None:
    """Draw the mean F1 of every row; the suffix of `path` chooses the kind of picture (png, svg, pdf)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    keys = results.rows()
    if results.experiment.steps is not None:
        rows = list(dict.fromkeys(str(key[0]) for key in keys))
        for number, row in enumerate(rows):
            numbers = [int(key[1]) for key in keys if key[0] == row]
            means = [results.mean(row, "F1", protocol, steps=k) for k in numbers]
            height, spread = [m.mean for m in means], [m.sd for m in means]
            axes.errorbar(numbers, height, yerr=spread, label=row, color=colour(number), marker="o", capsize=3)
        axes.set_xlabel("K")
        axes.set_xticks(results.experiment.steps)
        axes.legend(fontsize="small")
    else:
        names = [", ".join(map(str, key)) for key in keys]
        where = [{"view": key[1]} if results.experiment.views else {} for key in keys]
        means = [results.mean(str(key[0]), "F1", protocol, **w) for key, w in zip(keys, where, strict=True)]
        places = range(len(names))
        colours = [colour(number) for number in places]
        axes.barh(places, [m.mean for m in means], xerr=[m.sd for m in means], color=colours, capsize=3)
        axes.set_yticks(places, names)
        axes.invert_yaxis()
    axes.set_title(f"{results.experiment.name} on {results.record['data']}: mean F1, protocol {protocol}")
    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix.lstrip(".") or "png", dpi=150)
    write_bytes(path, picture.getvalue())
