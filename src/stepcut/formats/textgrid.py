"""Praat TextGrid: interval tiers without gaps, one per annotator; clicks are points."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from stepcut.files.atomic import write_text
from stepcut.formats.common import (
    NONE,
    PROPOSAL,
    Options,
    build_segment,
    choose_tier,
    need_seconds,
    without_overlap,
)
from stepcut.formats.text import fail
from stepcut.timeline import Segment, Timeline

MORE = re.compile(r"(.+) \((?:\d+|points)\)")
"""Further tiers of an annotator, for overlapping segments and clicks."""
_TOKEN = re.compile(
    r'"([^"]*(?:""[^"]*)*)"|(?<!\S)(-?\d[\d.]*(?:[eE][+-]?\d+)?)(?!\S)|(<exists>|<absent>)'
)


def read(content: str, path: Path, options: Options = NONE) -> list[Timeline]:
    """Read the tier of the annotator, or the only one, in the long or short form."""
    values = _values(content, path)
    if not next(values).startswith("ooTextFile") or next(values) != "TextGrid":
        fail(path, "does not begin like a Praat TextGrid", "Save it in Praat as a text file")
    _, length, there = (next(values) for _ in range(3))
    found: dict[str, list[Segment]] = {}
    for _ in range(int(next(values)) if there == "<exists>" else 0):
        kind, name = next(values), next(values)
        base = MORE.fullmatch(name)
        segments = found.setdefault(base[1] if base and base[1] in found else name, [])
        _, _, size = (next(values) for _ in range(3))
        for _ in range(int(size)):
            start = need_seconds(next(values), path)
            end = start if kind == "TextTier" else need_seconds(next(values), path)
            step = next(values).strip()
            if step:
                segments.append(build_segment(start, end, step, path))
    if not found:
        fail(path, "has no tier", "Add one in Praat and annotate in it")
    tiers = {
        name: Timeline(each, need_seconds(length, path), video=path.stem)
        for name, each in found.items()
    }
    return [tiers[choose_tier(tiers, options, path)]]


def write(path: Path, timelines: Sequence[Timeline], options: Options = NONE) -> None:
    (timeline,) = timelines
    name, length = options.annotator or PROPOSAL, max([timeline.end, *(s.end for s in timeline)])
    tiers = []
    for place, row in enumerate(without_overlap(timeline.intervals)):
        title = name if place == 0 else f"{name} ({place + 1})"
        tiers.append(_tier("IntervalTier", title, length, _intervals(row, length)))
    points = [f"number = {s.start!r}\nmark = {_quoted(s.step)}" for s in timeline.clicks]
    if points:
        tiers.append(_tier("TextTier", f"{name} (points)", length, points))
    head = f'File type = "ooTextFile"\nObject class = "TextGrid"\n\nxmin = 0\nxmax = {length!r}\n'
    body = "".join(f"item [{i}]:\n{tier}" for i, tier in enumerate(tiers, start=1))
    write_text(path, f"{head}tiers? <exists>\nsize = {len(tiers)}\nitem []:\n{body}")


def _tier(kind: str, name: str, length: float, entries: Sequence[str]) -> str:
    word = "intervals" if kind == "IntervalTier" else "points"
    body = "".join(f"{word} [{i}]:\n{entry}\n" for i, entry in enumerate(entries, start=1))
    head = f'class = "{kind}"\nname = {_quoted(name)}\nxmin = 0\nxmax = {length!r}\n'
    return f"{head}{word}: size = {len(entries)}\n{body}"


def _intervals(row: Sequence[Segment], length: float) -> list[str]:
    """List the segments, with empty intervals between them."""
    steps = {(s.start, s.end): s.step for s in row}
    edges = sorted({0.0, float(length), *(float(time) for s in row for time in (s.start, s.end))})
    pairs = list(pairwise(edges)) or [(0.0, 0.0)]
    return [
        f"xmin = {a!r}\nxmax = {b!r}\ntext = {_quoted(steps.get((a, b), ''))}" for a, b in pairs
    ]


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _values(content: str, path: Path) -> Iterator[str]:
    """Yield the texts and numbers of a file in order; refuse a truncated file."""
    for match in _TOKEN.finditer(content):
        yield match[1].replace('""', '"') if match[1] is not None else match[2] or match[3]
    fail(path, "is truncated", "Save it again in Praat")
