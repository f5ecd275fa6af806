"""Leave-one-out: how far the videos learned from lie from the steps when each is left out of learning in turn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.arithmetic import squared_distances
from stepcut.methods.default.em import estimate
from stepcut.methods.default.slow_features import project, refined_axes, soft_normalise

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


def leave_one_out_distances(
    slow: Sequence[Floats], labels: Sequence[Labels], axes: Floats | None, count: int
) -> list[Floats]:
    """(T,) per video: the distance of each row to the nearest step, with axes and centres learned from the others.

    slow    smoothed, centred videos (T, d)
    labels  the step of each row, -1 for background
    axes    the axes (d, p); None learns them from the labels of the other videos
    count   the number of steps
    """
    out = []
    for i, own in enumerate(slow):
        others = [place for place in range(len(slow)) if place != i] or [i]
        rows, known = [slow[place] for place in others], [labels[place] for place in others]
        seen = refined_axes(rows, known, count) if axes is None else axes
        norm, views = project(rows, seen)
        memberships = [(cut[:, None] == np.arange(count)).astype(np.float64) for cut in known]
        centres = estimate(views, memberships, shortest=1.0).centres
        out.append(np.sqrt(squared_distances(soft_normalise(own @ seen, norm), centres).min(axis=1)))
    return out
