"""Videos learned from, seen as if they were new: a method knows its own videos better than any other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.default.em import estimate, squared_distances
from stepcut.methods.default.restarts import look
from stepcut.methods.default.slow_features import nearly_unit, refined_axes

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


def distances_as_new(slow: Sequence[Floats], cuts: Sequence[Labels], axes: Floats | None, count: int) -> list[Floats]:
    """(T,) per video: the distance of each calmed row to the nearest step, axes and centres learned from the others.

    `axes` None: they were refined by the cut, and are so again without the video.
    """
    out = []
    for i, own in enumerate(slow):
        others = [place for place in range(len(slow)) if place != i] or [i]
        rows, known = [slow[place] for place in others], [cuts[place] for place in others]
        seen = refined_axes(rows, known, count) if axes is None else axes
        usual, views = look(rows, seen)
        shares = [(cut[:, None] == np.arange(count)).astype(np.float64) for cut in known]
        centres = estimate(views, shares, least=1.0).centres
        out.append(np.sqrt(squared_distances(nearly_unit(own @ seen, usual), centres).min(axis=1)))
    return out
