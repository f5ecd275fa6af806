"""A recipe: the names of the steps in their order, from a person; it names the steps found where it is sure.

A text file has a line for each step, with a usual duration or "any time" after a semicolon:

    cut bread; 40 s
    spread butter; 1:30
    wipe table; any time
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import AnnotationError, OptionError
from stepcut.methods.contract import Labels
from stepcut.procedure.lesson import find_alike

Floats = NDArray[np.float64]
NOTHING = 1e6
"""What it costs to pair a step with no name, or a name with no step: more than any real pair."""


@dataclass(frozen=True)
class Ingredient:
    """One line of a recipe."""

    name: str
    seconds: float | None = None
    """How long it usually takes."""
    any_time: bool = False
    """Whether it may come at any place of the order."""


def read_recipe(given: str | os.PathLike[str] | Sequence[str]) -> list[Ingredient]:
    """The steps of the recipe that was `given`: a text file, or its lines."""
    if isinstance(given, str | os.PathLike):
        try:
            lines = Path(given).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f"recipe={str(given)!r}: {error}. Give a text file with a step on each line.") from error
    else:
        lines = list(given)
    steps = [_line(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not steps:
        raise AnnotationError("the recipe has no step in it.")
    if alike := find_alike([step.name for step in steps]):
        raise AnnotationError(f"the recipe names {alike[0]!r} twice; write each step once.")
    return steps


def _line(number: int, line: str) -> Ingredient:
    name, *marks = [part.strip() for part in line.split(";")]
    seconds, any_time = None, False
    for mark in marks:
        clock = re.fullmatch(r"(?:(\d+):)?(\d+(?:\.\d+)?)\s*(s|sec|seconds|m|min|minutes|h|hours)?", mark)
        if mark.casefold() == "any time":
            any_time = True
        elif clock:
            unit = {"m": 60.0, "h": 3600.0}.get((clock[3] or "s")[0], 1.0)
            seconds = float(clock[2]) * unit
            if clock[1]:  # 1:30 and 1:30 min are a minute and a half, 1:30 h are an hour and a half
                seconds = (60 * float(clock[1]) + float(clock[2])) * max(unit / 60, 1.0)
        else:
            raise AnnotationError(
                f"recipe, line {number}: {mark!r} is neither a duration (40 s, 1:30, 2 min) nor 'any time'."
            )
    if not name:
        raise AnnotationError(f"recipe, line {number}: a step has no name; write it before the semicolon.")
    return Ingredient(name, seconds, any_time)


def fit_recipe(
    steps: Sequence[Ingredient], labels: Mapping[str, Labels], count: int, rate: float
) -> tuple[dict[int, str], dict[int, list[str]]]:
    """Which name is which step: those that order and durations decide, and for the other steps the likeliest names.

    steps   the recipe
    labels  the step of every row of every video, -1 for none
    count   how many steps were found
    rate    rows per second

    Steps and names are paired for the least cost; a name's place is its rank in the recipe, a step's the median of its
    mean times (as shares of the video), and a duration counts by the logarithm of the ratio. A pair is sure when the
    best pairing without it costs more by the spread of the step's place between videos.
    """
    from scipy.optimize import linear_sum_assignment

    places, spread, seconds = _measure(list(labels.values()), count, rate)
    fixed = [step for step in steps if not step.any_time]
    cost = np.zeros((count, len(steps)))
    for column, step in enumerate(steps):
        if not step.any_time:
            cost[:, column] += np.abs(places - (fixed.index(step) + 0.5) / len(fixed))
        if step.seconds:
            cost[:, column] += np.abs(np.log(np.maximum(seconds, 1e-3) / step.seconds)) / len(steps)
    rows, columns = linear_sum_assignment(cost)
    best = cost[rows, columns].sum()
    sure: dict[int, str] = {}
    likely: dict[int, list[str]] = {}
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        without = cost.copy()
        without[row, column] = NOTHING
        other = without[linear_sum_assignment(without)].sum()
        if other - best > spread[row]:
            sure[row] = steps[column].name
        else:
            likely[row] = [steps[k].name for k in np.argsort(cost[row], kind="stable")[:3]]
    left = [step.name for step in steps if step.name not in sure.values()]
    for row in range(count):
        if row not in sure:
            mine = [name for name in likely.get(row, []) if name in left]
            likely[row] = mine or left[:3]
    return sure, {row: names for row, names in likely.items() if names}


def _measure(labels: Sequence[Labels], count: int, rate: float) -> tuple[Floats, Floats, Floats]:
    """For every step: its place in a video (the median of its ranks among the steps), how much that varies between
    videos, and how many seconds it takes."""
    times = np.full((len(labels), count), np.nan)
    lengths = np.full((len(labels), count), np.nan)
    for video, numbers in enumerate(labels):
        for step in np.unique(numbers[numbers >= 0]):
            where = np.flatnonzero(numbers == step)
            times[video, step], lengths[video, step] = where.mean(), len(where) / rate
    ranks = np.full_like(times, np.nan)
    for video, row in enumerate(times):
        seen = np.flatnonzero(~np.isnan(row))
        ranks[video, seen] = (np.argsort(np.argsort(row[seen])) + 0.5) / max(len(seen), 1)
    ranks[:, np.isnan(ranks).all(axis=0)] = 0.5
    lengths[:, np.isnan(lengths).all(axis=0)] = 1.0
    return np.nanmedian(ranks, axis=0), np.nanstd(ranks, axis=0), np.nanmedian(lengths, axis=0)
