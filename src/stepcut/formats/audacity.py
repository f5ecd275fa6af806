"""Audacity labels: start, end and label in seconds, parted by tabs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stepcut.files.atomic import write_text
from stepcut.formats.capabilities import Capabilities
from stepcut.formats.common import NONE, Options, build_segment, fail, seconds
from stepcut.timeline import Timeline

CAN = Capabilities(
    times="micro", names="line", steps="none", duration=False, video="file", confidence=False, empty=False
)


def read(content: str, path: Path, _options: Options = NONE) -> list[Timeline]:
    """Read a label track; lines that begin with a backslash hold frequencies and are passed over."""
    segments = []
    for line, text in enumerate(content.split("\n"), start=1):
        if not text.strip() or text.startswith("\\"):
            continue
        cells = text.split("\t", 2)
        times = [seconds(cell) for cell in cells[:2]]
        start, end = (*times, None, None)[:2]
        if start is None or end is None:
            fail(path, f"{text!r} does not begin with two times", "Audacity writes START<tab>END<tab>LABEL", line)
        label = cells[2].strip() if len(cells) > 2 else ""
        if not label:
            fail(path, "the label is empty", "Name the step, or delete the line", line)
        segments.append(build_segment(start, end, label, path, line))
    return [Timeline(segments, video=path.stem)]


def write(path: Path, timelines: Sequence[Timeline], _options: Options = NONE) -> None:
    """Write a label track."""
    (timeline,) = timelines
    write_text(path, "".join(f"{s.start:.6f}\t{s.end:.6f}\t{s.step}\n" for s in timeline))


def matches(text: str) -> bool:
    """Whether the first line of a text begins with two times and a tab."""
    cells = text.lstrip().split("\n", 1)[0].split("\t")
    return len(cells) >= 2 and all(seconds(cell) is not None for cell in cells[:2])
