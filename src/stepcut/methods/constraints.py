"""Constraints: what is known about the steps of one video, per row of its features, whoever said it.

A method that learns from people receives one `Constraint` (or None) per video:

    labels      (T,) step numbers; -1 is background, -2 is open
    clicks      (row, step) pairs: the step holds at this row
    complete    whether every occurrence of a step was clicked: then, between two neighbouring clicks of steps a
                and b, only a, background and b may occur, in this order
    transcript  the steps of the video in order, without times
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

OPEN = -2
"""In labels: this row is not annotated."""


@dataclass(frozen=True)
class Transcript:
    """The steps of a video in order, without times; background may come between any two."""

    steps: tuple[int, ...]
    optional: frozenset[int] = frozenset()
    """Places in `steps` that a video may leave out."""
    anytime: frozenset[int] = frozenset()
    """Steps (not places) that may occur at any time, beside those in order."""


@dataclass(frozen=True)
class Constraint:
    """What is known about one video of T rows."""

    labels: NDArray[np.int64] | None = None
    """(T,): a step, -1 for background, -2 for open; None is open everywhere."""
    clicks: tuple[tuple[int, int], ...] = ()
    """(row, step), by row."""
    complete: bool = True
    """Whether `clicks` has one click for every occurrence of a step."""
    transcript: Transcript | None = None


Constraints = Sequence[Constraint | None]
"""One entry per video."""


def as_constraints(labels: Sequence[NDArray[np.int64] | None]) -> list[Constraint | None]:
    """Labels (T,) of each video, or None, as constraints."""
    return [None if one is None else Constraint(labels=one) for one in labels]
