"""Names of steps: recipes, the words of a custom image-text model, and names after teaching.

A recipe lists the steps of a task in order, one per line, with optional properties:

    cut bread; 40 s
    toast it; optional
    spread butter; 1:30
    wipe table; any time
"""

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from stepcut.annotations import RecipeStep
from stepcut.errors import AnnotationError, OptionError, as_items
from stepcut.features.video.sample import frame_at
from stepcut.formats.common import decode
from stepcut.methods.inputs import Labels
from stepcut.order.orders import find_alike
from stepcut.timeline import unnamed

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


Namer = Callable[[list[NDArray[np.uint8]]], str | Sequence[str]]
"""Function from pictures (H, W, 3) of one step to names, best first; a custom image-text model."""
WORDS, PICTURES = 2, 3
"""The number of suggestions per step, and of pictures that a namer gets."""


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


def nameless(number: int) -> str:
    """Return the placeholder name of an unnamed step beside named ones.

    >>> nameless(4)
    'step 5 (no name yet)'
    """
    return f"{unnamed(number)} (no name yet)"


def carry_names(
    names: Sequence[str],
    annotated: Collection[str],
    before: Mapping[str, Labels],
    after: Mapping[str, Labels],
) -> list[str]:
    """Name the steps after teaching.

    The `annotated` ones of `names` stay. The others go to the steps that share most rows with the
    steps of that name `before`; the rest get placeholders.
    """
    count = len(names)
    free = [number for number, name in enumerate(names) if name not in annotated]
    old = [number for number in free if names[number]]
    kept = [name if name in annotated else "" for name in names]
    alike = shared_rows(before, after, count, count)[:-1, :-1] + 0.5 * np.eye(count)
    shared = alike[np.ix_(old, free)]
    for i, j in zip(*linear_sum_assignment(shared, maximize=True), strict=True):
        if before:
            kept[free[j]] = names[old[i]]
    return [name or nameless(number) for number, name in enumerate(kept)]


def shared_rows(
    before: Mapping[str, Labels], after: Mapping[str, Labels], rows: int, columns: int
) -> Labels:
    """Count rows by step `before` and `after`, (rows + 1, columns + 1); background is last."""
    shared = np.zeros((rows + 1, columns + 1), dtype=np.int64)
    for name in after:
        if name in before:
            np.add.at(shared, (before[name], after[name]), 1)  # -1 is the last
    return shared
