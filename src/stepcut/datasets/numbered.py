"""Annotation files of `step number, start, end` lines, as CrossTask and ProceL have them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from stepcut.datasets.dataset import Loaded
from stepcut.errors import AnnotationError
from stepcut.formats.text import build_segment, fail, read_text, seconds
from stepcut.timeline import Segment


def read_numbered(path: Path, steps: Sequence[str], loaded: Loaded) -> list[Segment]:
    """The segments of one file; a number that no step has, and times that make no sense, are reported and left out."""
    segments = []
    for line, text in enumerate(read_text(path).split("\n"), start=1):
        if not text.strip():
            continue
        cells = [cell.strip() for cell in text.split(",")]
        times = [seconds(cell) for cell in cells[1:3]]
        if len(times) != 2 or None in times or not re.fullmatch("[0-9]{1,9}", cells[0]):
            fail(path, f"{text!r} is not 'step number,start,end'", "Copy the file again", line)
        number = int(cells[0])
        if not 1 <= number <= len(steps):
            loaded.problems.append(f"{path}, line {line}: step {number} is not known; the task has {len(steps)}.")
            continue
        try:
            segments.append(build_segment(times[0] or 0.0, times[1] or 0.0, steps[number - 1], path, line))
        except AnnotationError as error:
            loaded.problems.append(str(error))
    return segments


def tell_apart(names: Sequence[str]) -> tuple[str, ...]:
    """Names that differ: the second of two equal ones gets its number.

    >>> tell_apart(["stir", "pour", "stir"])
    ('stir', 'pour', 'stir (3)')
    """
    apart: list[str] = []
    for number, name in enumerate(names, start=1):
        apart.append(f"{name} ({number})" if name in apart else name)
    return tuple(apart)
