"""Constraints: annotations of one video, per row of its features."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import OptionError

OPEN = -2  # label of a row that is not annotated


@dataclass(frozen=True)
class Transcript:
    """The steps of a video in order, without times; background may occur between any two."""

    steps: tuple[int, ...]
    optional: frozenset[int] = frozenset()  # places in `steps` that a video may omit
    anytime: frozenset[int] = frozenset()  # steps (not places) that may also occur at any time


@dataclass(frozen=True)
class Constraint:
    """Annotations of one video of T rows.

    Examples
    --------
    >>> one = Constraint(clicks=((3, 0), (20, 1)), complete=False)
    >>> one.labels is None
    True
    """

    labels: NDArray[np.int64] | None = None
    """(T,): a step, -1 for background, -2 for not annotated; None: nothing is annotated."""
    clicks: tuple[tuple[int, int], ...] = ()
    """(row, step), sorted by row: the step, or -1 for background, is active at this row."""
    complete: bool = True
    """Whether `clicks` has one click for every occurrence of a step. Then, between neighbouring clicks
    of steps a and b, only a, background and b may occur, in this order."""
    transcript: Transcript | None = None

    @property
    def parts(self) -> list[str]:
        there = (self.labels is not None, bool(self.clicks), self.transcript is not None)
        names = ("labels", "clicks", "transcript")
        return [name for name, present in zip(names, there, strict=True) if present]

    @property
    def is_whole(self) -> bool:
        """Whether it fixes the steps of a whole video."""
        labelled = self.labels is not None and bool((self.labels != OPEN).all())
        return labelled or (bool(self.clicks) and self.complete) or self.transcript is not None

    def as_labels(self, rows: int) -> NDArray[np.int64] | None:
        """Return the labels of all `rows`, with a click as a label of one row; None if it has none."""
        if self.labels is None and not self.clicks:
            return None
        labels = np.full(rows, OPEN) if self.labels is None else self.labels.copy()
        for row, step in self.clicks:
            labels[row] = step
        return labels


Constraints = Sequence[Constraint | None]  # one per video


def as_constraints(labels: Sequence[NDArray[np.int64] | None]) -> list[Constraint | None]:
    return [None if one is None else Constraint(labels=one) for one in labels]


def check_constraints(constraints: Constraints, lengths: Sequence[int]) -> list[Constraint | None]:
    """Refuse those that do not fit videos of so many rows; None in place of empty ones."""
    if len(constraints) != len(lengths):
        given, wanted = len(constraints), len(lengths)
        what = f"must be a list of {wanted}, one for each video; None means no annotation."
        raise OptionError(f"constraints {what}", setting="constraints", value=given, allowed=wanted)
    checked: list[Constraint | None] = []
    for number, (one, length) in enumerate(zip(constraints, lengths, strict=True)):
        if one is not None:
            _check(one, length, f"video {number}")
            labelled = one.labels is not None and bool((one.labels != OPEN).any())
            one = one if labelled or one.clicks or one.transcript is not None else None
        checked.append(one)
    return checked


def _check(one: Constraint, length: int, video: str) -> None:
    def refuse(setting: str, value: object, what: str) -> NoReturn:
        message = f"the {setting} of {video} {what}"
        raise OptionError(message, setting=setting, value=value, video=video)

    if one.labels is not None:
        labels = np.asarray(one.labels)
        if labels.shape != (length,) or labels.dtype.kind not in "iu":
            what = f"are {labels.dtype} of shape {labels.shape}; give whole numbers ({length},)"
            refuse("labels", labels.shape, f"{what}, one per row of features.")
        if labels.size and labels.min() < OPEN:
            what = f"hold {labels.min()}; give steps from 0, -1 for background, -2 for open."
            refuse("labels", int(labels.min()), what)
    rows = [row for row, _ in one.clicks]
    if rows != sorted(rows) or any(not 0 <= row < length for row in rows):
        refuse("clicks", rows, f"must lie in its {length} rows, in order of time.")
    if len(set(rows)) < len(set(one.clicks)):
        refuse("clicks", rows, "name two steps at one row; keep one of them.")
    if one.transcript is not None:
        needed = len(one.transcript.steps) - len(one.transcript.optional)
        if needed > length:
            what = f"have {needed} steps, more than its {length} rows; use a higher rate."
            refuse("transcripts", needed, what)


def named_steps(one: Constraint | None) -> set[int]:
    if one is None:
        return set()
    named = {step for _, step in one.clicks if step >= 0}
    if one.labels is not None:
        named |= {int(step) for step in np.unique(one.labels) if step >= 0}
    if one.transcript is not None:
        named |= {*one.transcript.steps, *one.transcript.anytime}
    return named
