"""Recipes as text: the steps of a task in order, without times.

A recipe has one line per step, with optional properties after semicolons:

    cut bread; 40 s
    toast it; optional
    spread butter; 1:30
    wipe table; any time
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from stepcut.annotations import RecipeStep
from stepcut.errors import AnnotationError, OptionError, as_items
from stepcut.formats.common import decode
from stepcut.order.orders import find_alike

Recipe = str | os.PathLike[str] | Sequence[str]
"""A text file, or its lines."""

SHORTEST, LONGEST = 1e-9, 1e9
"""Allowed seconds of a step, apart from 0, which means unknown."""


def read_recipe(recipe: Recipe) -> list[RecipeStep]:
    """Read the steps of a recipe from a text file or from its lines."""
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
        raise AnnotationError("the recipe is empty; write one step per line.")
    if alike := find_alike([step.name for step in steps]):
        raise AnnotationError(f"the recipe lists {alike[0]!r} twice; list each step once.")
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
