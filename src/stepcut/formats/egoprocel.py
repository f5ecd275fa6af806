"""The CSV of the EgoProceL annotations: start and end in seconds, then number and name (`1 break egg`)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stepcut.formats.capabilities import Capabilities
from stepcut.formats.common import NONE, Options, build_segment, fail, seconds
from stepcut.formats.tables import Row, is_header, parse_time, plain, read_rows, write_rows
from stepcut.timeline import Segment, Timeline

CAN = Capabilities(names="trimmed", steps="order", duration=False, video="file", confidence=False, empty=False)
_NUMBERED = re.compile(r"\s*(\d{1,9})(?:[.):]\s*|\s+)(\S.*?)\s*", flags=re.DOTALL | re.ASCII)


@dataclass(frozen=True)
class Numbered:
    """One line of such a file: a segment whose step has a number beside its name."""

    start: float
    end: float
    number: int
    name: str


def read(rows: Sequence[Row], path: Path, _options: Options = NONE) -> list[Timeline]:
    """Read one video's steps; the vocabulary is in the order of the numbers."""
    lines = parse(path, rows)
    names = name_numbers(lines)
    segments = [Segment(line.start, line.end, names[line.number]) for line in lines]
    return [Timeline(segments, steps=tuple(names.values()), video=path.stem)]


def write(path: Path, timelines: Sequence[Timeline], _options: Options = NONE) -> None:
    """Write one video's steps; a step's number is its place in the vocabulary, counted from 1."""
    (timeline,) = timelines
    number = {step: k for k, step in enumerate(timeline.steps, start=1)}
    rows = [[plain(s.start), plain(s.end), f"{number[s.step]} {s.step}"] for s in timeline]
    write_rows(path, rows)


def parse(path: Path, given: Sequence[Row] | None = None) -> list[Numbered]:
    """The lines of the file at `path`, names without their numbers; `given`: its rows, where they are read already."""
    rows = read_rows(path) if given is None else given
    if is_header(rows[0]):
        rows = rows[1:]
    lines = []
    for row in rows:
        if len(row.cells) < 3:
            fail(path, f"{row.cells} has too few columns", "Each line needs start, end and step", line=row.line)
        text = _name_cell(row.cells)
        match = _NUMBERED.fullmatch(text)
        if match is None:
            fail(path, f"{text!r} does not begin with the step's number", "Write '1 break egg'", line=row.line)
        start, end = (parse_time(row, cell, path) for cell in row.cells[:2])
        build_segment(start, end, text, path, row.line)
        lines.append(Numbered(start, end, int(match[1]), match[2]))
    return lines


def name_numbers(lines: Sequence[Numbered]) -> dict[int, str]:
    """Number -> name of `lines`, by number: the commonest spelling; equal names of two numbers are told apart.

    >>> name_numbers([Numbered(0, 1, 2, "stir"), Numbered(1, 2, 1, "pour"), Numbered(2, 3, 4, "stir")])
    {1: 'pour', 2: 'stir', 4: 'stir (4)'}
    """
    spellings: dict[int, Counter[str]] = {}
    for line in lines:
        spellings.setdefault(line.number, Counter())[line.name] += 1
    names: dict[int, str] = {}
    taken: set[str] = set()
    for number in sorted(spellings):
        name = spellings[number].most_common(1)[0][0]
        names[number] = f"{name} ({number})" if name in taken else name
        taken.add(names[number])
    return names


def matches(rows: Sequence[Row]) -> bool:
    """Whether a table has no header and every label in it begins with a number."""
    if None in map(seconds, rows[0].cells[:2]):
        return False
    return all(_NUMBERED.fullmatch(_name_cell(row.cells)) for row in rows)


def _name_cell(cells: Sequence[str]) -> str:
    """What follows the times: an unquoted comma splits a name in two, and spreadsheets add empty cells."""
    rest = list(cells[2:])
    while len(rest) > 1 and not rest[-1].strip():
        rest.pop()
    return ", ".join(rest).strip()
