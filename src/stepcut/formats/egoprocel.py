"""EgoProceL CSV: start and end in seconds, then number and name (`1 break egg`)."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from stepcut.formats.common import NONE, Options, build_segment, seconds
from stepcut.formats.tables import Row, is_header, plain, write_rows
from stepcut.formats.text import fail
from stepcut.timeline import Segment, Timeline

_NUMBERED = re.compile(r"\s*(\d{1,9})(?:[.):]\s*|\s+)(\S.*?)\s*", flags=re.DOTALL | re.ASCII)


def read(rows: Sequence[Row], path: Path, _options: Options = NONE) -> list[Timeline]:
    """Read the steps of one video; the vocabulary is sorted by number."""
    lines = parse(rows, path)
    names = name_numbers(lines)
    segments = [replace(segment, step=names[number]) for number, segment in lines]
    return [Timeline(segments, steps=tuple(names.values()), video=path.stem)]


def write(path: Path, timelines: Sequence[Timeline], _options: Options = NONE) -> None:
    """Write the steps of one video, numbered from 1 by the vocabulary."""
    (timeline,) = timelines
    number = {step: k for k, step in enumerate(timeline.steps, start=1)}
    rows = [[plain(s.start), plain(s.end), f"{number[s.step]} {s.step}"] for s in timeline]
    write_rows(path, rows)


def parse(rows: Sequence[Row], path: Path) -> list[tuple[int, Segment]]:
    """Return the segments in `rows`, each with the number of its step."""
    if is_header(rows[0]):
        rows = rows[1:]
    lines = []
    for row in rows:
        text = _name_cell(row.cells)
        match = _NUMBERED.fullmatch(text)
        if match is None:
            what = f"{text!r} does not begin with the number of a step"
            fail(path, what, "Write '1 break egg'", row.line)
        start, end = (row.time({"start": 0, "end": 1}, name, path) for name in ("start", "end"))
        lines.append((int(match[1]), build_segment(start, end, match[2], path, row.line)))
    return lines


def name_numbers(lines: Sequence[tuple[int, Segment]]) -> dict[int, str]:
    """Map numbers to names, in their most common spelling; equal names get the number.

    >>> name_numbers([(2, Segment(0, 1, "stir")), (1, Segment(1, 2, "pour"))])
    {1: 'pour', 2: 'stir'}
    """
    spellings: dict[int, Counter[str]] = {}
    for number, segment in lines:
        spellings.setdefault(number, Counter())[segment.step] += 1
    return tell_apart(
        (number, spellings[number].most_common(1)[0][0]) for number in sorted(spellings)
    )


def tell_apart(names: Iterable[tuple[int, str]]) -> dict[int, str]:
    """Make names unique: the second of two equal names gets its number.

    >>> tell_apart(enumerate(["stir", "pour", "stir"], start=1))
    {1: 'stir', 2: 'pour', 3: 'stir (3)'}
    """
    apart: dict[int, str] = {}
    for number, name in names:
        apart[number] = f"{name} ({number})" if name in apart.values() else name
    return apart


def matches(rows: Sequence[Row]) -> bool:
    """Whether a table has no header and all labels begin with a number."""
    if None in map(seconds, rows[0].cells[:2]):
        return False
    return all(_NUMBERED.fullmatch(_name_cell(row.cells)) for row in rows)


def _name_cell(cells: Sequence[str]) -> str:
    """Join the cells after the times: an unquoted comma splits a name, spreadsheets add cells."""
    rest = list(cells[2:])
    while len(rest) > 1 and not rest[-1].strip():
        rest.pop()
    return ", ".join(rest).strip()
