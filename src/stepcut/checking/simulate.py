"""Simulated deviations: the videos learned from with a step cut out, an end cut off, two steps exchanged.

Rows of features are left out or rearranged by the steps found, and the video that is left is cut anew, as a new one is.
How many of them the limit finds says, before any video is checked, what a check will be able to tell with these videos.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stepcut.checking.observe import Floats, some_of
from stepcut.order.graph import ProcedureGraph
from stepcut.order.orders import Labels
from stepcut.timeline import BACKGROUND, runs

Rows = NDArray[np.int64]
Recut = Callable[[int, Rows], tuple[Labels, Floats | None, Floats | None, Floats | None]]
"""From the place of a video and some of its rows to steps, memberships, novelty and embedding of the video of these."""

WITHOUT_STEP = "one step left out"
MOST = 3
"""How many steps, and how many pairs, of one video are tried."""


def change(labels: Labels, graph: ProcedureGraph) -> dict[str, list[Rows]]:
    """The rows of changed videos, by what was changed.

    Neighbours are exchanged where the graph says that one must precede the other: elsewhere it is no deviation.

    labels  the step of each row of a video, (T,), -1 for none
    graph   what must precede what
    """
    numbers = np.asarray(labels, dtype=np.int64)
    every = np.arange(len(numbers))
    parts = [run for run in runs(numbers).tolist() if run[0] != BACKGROUND]
    steps = np.unique([step for step, _, _ in parts])
    pairs = [(one, two) for one, two in pairwise(parts) if one[0] in graph.steps and two[0] in graph.after(one[0])]
    exchanged = [
        np.concatenate([every[:a], every[c:d], every[b:c], every[a:b], every[d:]]) for (_, a, b), (_, c, d) in pairs
    ]
    return {
        WITHOUT_STEP: [every[numbers != step] for step in some_of(list(steps), MOST) if len(steps) > 1],
        "half of the video": [every[: len(every) // 2]] if len(every) > 1 else [],
        "two steps exchanged": some_of(exchanged, MOST),
    }
