"""Names of steps: recipes, read and matched to discovered steps, and custom models.

A recipe lists the steps of a task in order, one per line, with optional properties:

    cut bread; 40 s
    toast it; optional
    spread butter; 1:30
    wipe table; any time
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from stepcut.annotations import RecipeStep
from stepcut.errors import AnnotationError, OptionError, as_items
from stepcut.features.video.sample import frame_at
from stepcut.formats.text import decode
from stepcut.methods.arithmetic import Floats
from stepcut.methods.inputs import Labels
from stepcut.order.orders import find_alike

Recipe = str | os.PathLike[str] | Sequence[str]
"""A text file, or its lines."""

SHORTEST, LONGEST = 1e-9, 1e9
"""Allowed seconds of a step, apart from 0, which means unknown."""


def read_recipe(recipe: Recipe | None) -> list[RecipeStep]:
    """Read the steps of a recipe from a text file or from its lines; none without a recipe."""
    if recipe is None:
        return []
    if isinstance(recipe, str | os.PathLike):
        try:
            lines = decode(Path(recipe).read_bytes()).splitlines()
        except OSError as error:
            raise OptionError(
                f"recipe={str(recipe)!r} cannot be read ({error.strerror}). "
                "Give a text file with one step per line.",
                setting="recipe",
                value=recipe,
            ) from error
    else:
        lines = as_items(
            "recipe", recipe, str, "a text file or a list of lines, each the name of a step"
        )
    steps = [_line(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not steps:
        raise AnnotationError("the recipe is empty; write one step per line.", setting="recipe")
    if alike := find_alike([step.name for step in steps]):
        raise AnnotationError(
            f"the recipe lists {alike[0]!r} twice; list each step once.",
            setting="recipe",
            value=alike[0],
        )
    return steps


def _line(number: int, line: str) -> RecipeStep:
    name, *marks = [part.strip() for part in line.split(";")]
    seconds, any_time, optional = None, False, False
    for mark in marks:
        clock = re.fullmatch(
            r"(?:(\d+):)?(\d+(?:\.\d+)?)\s*(s|sec|seconds|m|min|minutes|h|hours)?", mark
        )
        if mark.casefold() == "any time":
            any_time = True
        elif mark.casefold() == "optional":
            optional = True
        elif clock:
            unit = {"m": 60.0, "h": 3600.0}.get((clock[3] or "s")[0], 1.0)
            seconds = float(clock[2]) * unit
            if clock[1]:  # 1:30 and 1:30 min are a minute and a half, 1:30 h are an hour and a half
                seconds = (60 * float(clock[1]) + float(clock[2])) * max(unit / 60, 1.0)
            if seconds and not SHORTEST <= seconds <= LONGEST:
                raise AnnotationError(
                    f"recipe, line {number}: the duration {mark[:40]!r} is out of range; "
                    "write 40 s, 1:30 or 2 min.",
                    line=number,
                )
        else:
            raise AnnotationError(
                f"recipe, line {number}: {mark!r} is not a duration (40 s, 1:30, 2 min), "
                "'optional' or 'any time'.",
                line=number,
            )
    if not name:
        raise AnnotationError(
            f"recipe, line {number}: a step has no name; write it before the semicolon.",
            line=number,
        )
    return RecipeStep(name, seconds, any_time, optional)


NOTHING = 1e6
"""The cost of a forbidden pair, higher than any real one."""
Namer = Callable[[list[NDArray[np.uint8]]], str | Sequence[str]]
"""Function from pictures (H, W, 3) of one step to names, best first; a custom image-text model."""
WORDS, PICTURES = 2, 3
"""The number of suggestions per step, and of pictures that a namer gets."""


def fit_recipe(
    steps: Sequence[RecipeStep], labels: Mapping[str, Labels], count: int, rate: float
) -> tuple[dict[int, str], dict[int, list[str]]]:
    """Match recipe names to steps by order and duration.

    Returns the certain names, and the likeliest names of the other steps, by step number.

    The matching has the least total cost. The cost of a pair is |rank of the step - rank in the
    recipe|, both as shares, plus |log(duration / recipe duration)| / number of names. The rank of a
    step is its median over videos; "any time" steps widen the rank in the recipe to an interval.
    A pair is certain if the best matching without it costs more than the spread of the step's rank.
    """
    places, spread, seconds = _measure(list(labels.values()), count, rate)
    fixed = [step for step in steps if not step.any_time]
    cost = np.zeros((count, len(steps)))
    for column, step in enumerate(steps):
        if not step.any_time:
            # Each "any time" step may come before this one and shift it by one rank.
            rank, free = fixed.index(step) + 0.5, len(steps) - len(fixed)
            cost[:, column] += np.abs(
                places - np.clip(places, rank / len(steps), (rank + free) / len(steps))
            )
        if step.seconds:
            cost[:, column] += np.abs(np.log(np.maximum(seconds, 1e-3) / step.seconds)) / len(steps)
    rows, columns = linear_sum_assignment(cost)
    best = cost[rows, columns].sum()
    certain: dict[int, str] = {}
    likely: dict[int, list[str]] = {}
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        without = cost.copy()
        without[row, column] = NOTHING
        other = without[linear_sum_assignment(without)].sum()
        if other - best > spread[row] + 1e-9:  # not by rounding alone
            certain[row] = steps[column].name
        else:
            likely[row] = [steps[k].name for k in np.argsort(cost[row], kind="stable")[:3]]
    left = [step.name for step in steps if step.name not in certain.values()]
    for row in range(count):
        if row not in certain:
            mine = [name for name in likely.get(row, []) if name in left]
            likely[row] = mine or left[:3]
    return certain, {row: names for row, names in likely.items() if names}


def _measure(labels: Sequence[Labels], count: int, rate: float) -> tuple[Floats, Floats, Floats]:
    """For every step: the median and spread of its rank in a video, and its median seconds."""
    ranks, lengths = np.full((2, len(labels), count), np.nan)
    for video, numbers in enumerate(labels):
        seen = np.unique(numbers[numbers >= 0])
        where = [np.flatnonzero(numbers == step) for step in seen]
        ranks[video, seen] = (np.argsort(np.argsort([each.mean() for each in where])) + 0.5) / max(
            len(seen), 1
        )
        lengths[video, seen] = [len(each) / rate for each in where]
    ranks[:, np.isnan(ranks).all(axis=0)] = 0.5
    lengths[:, np.isnan(lengths).all(axis=0)] = 1.0
    return np.nanmedian(ranks, axis=0), np.nanstd(ranks, axis=0), np.nanmedian(lengths, axis=0)


def words_of_namer(
    namer: Namer,
    videos: Mapping[str, str | None],
    labels: Mapping[str, Labels],
    count: int,
    rate: float,
) -> dict[int, list[str]]:
    """Suggest names with a `namer`; names that it gives to most steps are dropped."""
    found: dict[int, list[str]] = {}
    for step in range(count):
        places = [
            (videos[name], np.flatnonzero(numbers == step)) for name, numbers in labels.items()
        ]
        frames = (
            frame_at(path, (float(where[len(where) // 2]) + 0.5) / rate)
            for path, where in places
            if path and Path(path).is_file() and len(where)
        )
        pictures = list(islice((frame for frame in frames if frame is not None), PICTURES))
        if pictures:
            names = namer(pictures)
            found[step] = [names] if isinstance(names, str) else [str(name) for name in names]
    words = [word for mine in found.values() for word in set(mine)]
    common = {word for word in words if words.count(word) > max(1, len(found) / 2)}
    return {
        step: [word for word in mine if word not in common][:WORDS] for step, mine in found.items()
    }
