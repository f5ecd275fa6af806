"""Constraints: annotations of one video, per row of its features.

A method that learns from annotations receives one `Constraint` (or None) per video:

    labels      (T,) step numbers; -1 is background, -2 is not annotated
    clicks      (row, step) pairs: the step is active at this row
    complete    whether every occurrence of a step has a click: then, between neighbouring clicks of
                steps a and b, only a, background and b may occur, in this order
    transcript  the steps of the video in order, without times
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

OPEN = -2
"""Label of a row that is not annotated."""


@dataclass(frozen=True)
class Transcript:
    """The steps of a video in order, without times; background may occur between any two."""

    steps: tuple[int, ...]
    optional: frozenset[int] = frozenset()
    """Places in `steps` that a video may omit."""
    anytime: frozenset[int] = frozenset()
    """Steps (not places) that may also occur at any time."""


@dataclass(frozen=True)
class Constraint:
    """Annotations of one video of T rows."""

    labels: NDArray[np.int64] | None = None
    """(T,): a step, -1 for background, -2 for not annotated; None: nothing is annotated."""
    clicks: tuple[tuple[int, int], ...] = ()
    """(row, step), sorted by row."""
    complete: bool = True
    """Whether `clicks` has one click for every occurrence of a step."""
    transcript: Transcript | None = None


Constraints = Sequence[Constraint | None]
"""One entry per video."""


def as_constraints(labels: Sequence[NDArray[np.int64] | None]) -> list[Constraint | None]:
    """Convert labels (T,) of each video, or None, to constraints."""
    return [None if one is None else Constraint(labels=one) for one in labels]
