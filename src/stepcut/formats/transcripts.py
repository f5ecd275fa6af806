"""Transcripts: the steps of each video in order, without times."""

import os
import re
from pathlib import Path

from stepcut.files.addresses import path_text
from stepcut.formats.tables import COLUMNS, parse_rows, simplify
from stepcut.formats.text import fail, read_text


def read_transcripts(
    path: str | os.PathLike[str], encoding: str | None = None
) -> dict[str, list[str]]:
    """Read the steps of each video in order, without times.

    The file has one line per video: `a.mp4: cut, butter, jam, butter`. A `.csv` or `.tsv` file has
    one row per video, with its name in the first column and one step in each other column. Blank
    lines and lines that begin with `#` are skipped.

    Parameters
    ----------
    path
        The file.
    encoding
        The text encoding; by default detected.

    Returns
    -------
    dict
        Lists of steps by video name, as in the file.

    Raises
    ------
    AnnotationError
        A line has no video or no steps, or a video has two lines (`line`).

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "order.txt"
    >>> _ = file.write_text("a.mp4: cut, butter\\nb.mp4: butter, cut")
    >>> read_transcripts(file)
    {'a.mp4': ['cut', 'butter'], 'b.mp4': ['butter', 'cut']}
    """
    place = Path(path_text(path))
    text = read_text(place, encoding)
    found: dict[str, list[str]] = {}
    lines: dict[str, int] = {}
    split = _table if place.suffix.lower() in (".csv", ".tsv") else _lines
    for line, video, steps in split(text, place):
        if not video:
            fail(place, "the line has no video", "Write 'a.mp4: cut, butter, jam'", line)
        if video in found:
            what = f"the video {video!r} is already in line {lines[video]}"
            fail(place, what, "Remove one of the two", line)
        if not steps or not all(steps):
            advice = "Write its steps in order, separated by commas: 'a.mp4: cut, butter, jam'"
            fail(place, f"the video {video!r} has no steps or an empty step", advice, line)
        if wrong := next((step for step in steps if not step.isprintable()), None):
            what = f"the step name {wrong!r} contains control characters"
            fail(place, what, "Rename the step", line)
        found[video], lines[video] = steps, line
    if not found:
        fail(place, "contains no transcript", "Write a line such as 'a.mp4: cut, butter, jam'")
    return found


def _lines(text: str, path: Path) -> list[tuple[int, str, list[str]]]:
    """Split lines `video: step, step`; the colon of a drive letter is not a separator."""
    found = []
    for line, words in enumerate(text.split("\n"), start=1):
        if not words.strip() or words.lstrip().startswith("#"):
            continue
        video, colon, rest = re.sub(r"^(\s*\w):([\\/])", "\\1\0\\2", words).partition(":")
        if not colon:
            what = f"{words.strip()[:60]!r} has no colon after the name of the video"
            fail(path, what, "Write 'a.mp4: cut, butter, jam'", line)
        parted = re.split("[;\t]", rest) if re.search("[;\t]", rest) else rest.split(",")
        steps = [step.strip() for step in parted]
        found.append((line, video.replace("\0", ":").strip(), steps if rest.strip() else []))
    return found


def _table(text: str, path: Path) -> list[tuple[int, str, list[str]]]:
    """Split rows of a video and its steps; the first row may be a header."""
    rows = parse_rows(text, path)
    if simplify(rows[0].cells[0]) in COLUMNS["video"].split():
        rows = rows[1:]
    found = []
    for row in rows:
        video, *steps = (cell.strip() for cell in row.cells)
        while steps and not steps[-1]:  # spreadsheets pad all rows to one width
            steps.pop()
        if len(steps) == 1:  # one cell may contain all steps
            steps = [step.strip() for step in re.split("[,;]", steps[0])]
        found.append((row.line, video, steps))
    return found
