"""Read the text of a label file in any usual encoding, and say which file and line is wrong."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

from stepcut.errors import AnnotationError, OptionError
from stepcut.timeline import Segment

LIMIT = 256 * 2**20
"""Bytes. The label files of a whole data set stay far below; a video given by mistake does not."""
LONGEST = 1e11
"""Seconds. No time in a label file is as late, and dates reach as far; this also keeps out NaN and infinity."""


@contextmanager
def refusals(path: Path, what: str) -> Iterator[None]:
    """Inside, whatever a reader stumbles over is the file's fault and told as such, with the file's name.

    path  the label file
    what  the title of the format, for the message
    """
    try:
        yield
    except (AnnotationError, OptionError) as error:
        if str(path) in str(error):
            raise
        raise AnnotationError(f"{path}: {error}") from error
    except RecursionError as error:
        raise AnnotationError(f"{path}: it is nested too deep to be a label file. Write it again.") from error
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise AnnotationError(
            f"{path}: it does not make sense as {what}: {type(error).__name__} {str(error)[:200]}. "
            "Write it again, or name its format."
        ) from error


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of the label file at `path`; `\\n`, `\\r\\n` and `\\r` all end a line afterwards as `\\n`.

    UTF-8 with or without a byte order mark, UTF-16 with one, and else Latin-1 as Windows writes it.
    """
    place = Path(path)
    if place.is_dir():
        fail(place, "is a folder, not a label file", "Name a file in it, or read them all with read_folder()")
    try:
        size = place.stat().st_size
    except (OSError, ValueError) as error:
        fail(place, f"cannot be opened ({getattr(error, 'strerror', None) or error})", "Check the path")
    if not place.is_file():
        fail(place, "is a pipe or a device, not a label file", "Check the path")
    if size > LIMIT:
        fail(place, f"has {size / 2**20:,.0f} MB; a label file has at most {LIMIT / 2**20:,.0f} MB", "Is it a video?")
    try:
        text = decode(place.read_bytes())
    except OSError as error:
        fail(place, f"cannot be read ({error.strerror})", "Check its permissions")
    if "\0" in text:
        fail(place, "holds zero bytes, so it is not text", "Give a label file in one of the formats of docs/formats.md")
    if not text.strip():
        fail(place, "is empty", "Write it again, or delete it if the video has no labels")
    return re.sub("\r\n?", "\n", text)


def decode(data: bytes) -> str:
    """The bytes `data` as text by their byte order mark, else UTF-8, else Latin-1.

    >>> decode("\\ufeffcrêpe".encode("utf-8")), decode("crêpe".encode("latin-1"))
    ('crêpe', 'crêpe')
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    for encoding in ("utf-8-sig", "cp1252"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    return data.decode("latin-1")


def read_json(path: Path) -> Any:
    """The value in the JSON file at `path`; what is not JSON is refused with its line."""
    text = read_text(path)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        fail(path, f"is not JSON: {error.msg}", "Repair that line, or write the file again", line=error.lineno)
    except ValueError as error:  # a number of thousands of digits
        fail(path, f"is not JSON that can be read: {error}", "Write the file again")
    except RecursionError:
        fail(path, "is JSON nested too deep to be a label file", "Write the file again")


def fail(path: str | os.PathLike[str], what: str, advice: str, line: int | None = None) -> NoReturn:
    """Refuse the label file at `path`: in which `line`, `what` is wrong, and `advice` what to do."""
    where = f"{path}, line {line}" if line is not None else f"{path}"
    raise AnnotationError(f"{where}: {what}. {advice}.")


def seconds(text: str) -> float | None:
    """The time in `text` as people write it, or None: `12.5`, `12,5`, `00:01:02.5`, `1:02`.

    >>> seconds("12.5"), seconds("00:01:02.5"), seconds("1,5"), seconds("start"), seconds("1e300")
    (12.5, 62.5, 1.5, None, None)
    """
    cell = text.strip().replace(",", ".")
    if _PLAIN.fullmatch(cell):
        value = float(cell)
    elif match := _CLOCK.fullmatch(cell):
        hours, minutes, rest = match.groups()
        # Fractions, so that the sum is rounded once: 00:00:03.001 is the float 3.001 and nothing beside it.
        value = float(int(hours or 0) * 3600 + int(minutes) * 60 + Fraction(rest))
    else:
        return None
    return value if abs(value) < LONGEST else None


_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", flags=re.ASCII)
_CLOCK = re.compile(r"(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9}(?:\.\d{0,30})?|\.\d{1,30})", flags=re.ASCII)


def number(value: Any) -> float:
    """The `value` of a JSON file as a finite figure; words and NaN are refused."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LONGEST:
        raise ValueError(f"{str(value)[:40]!r} is not a number of seconds")
    return float(value)


def optional(value: Any) -> float | None:
    """The `value` of a JSON file as a figure, or nothing."""
    return None if value is None else number(value)


def build_segment(
    start: float, end: float, step: str, path: str | os.PathLike[str], line: int | None, sure: float | None = None
) -> Segment:
    """A segment; where it makes no sense, the error names file and line.

    start, end  seconds
    step        its name; must not be blank
    path, line  where it stands, for the error
    sure        its confidence, where there is one
    """
    if not step.strip():
        fail(path, "a segment has no name", "Name the step, or delete it", line)
    if not max(abs(start), abs(end)) < LONGEST:
        fail(path, f"{step!r} lasts from {start:g} to {end:g} s; no video is that long", "Correct the times", line)
    try:
        return Segment(start, end, step, sure)
    except AnnotationError as error:
        fail(path, str(error).rstrip("."), "Correct the times", line=line)
