"""Reading a label file as text whatever wrote it, and refusing one with its name and line."""

from __future__ import annotations

import json
import os
import re
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

from stepcut.errors import AnnotationError

LIMIT = 256 * 2**20
"""Bytes. The label files of a whole data set stay far below; a video given by mistake does not."""


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a label file; `\\n`, `\\r\\n` and `\\r` all end a line afterwards as `\\n`.

    UTF-8 with or without a byte order mark, UTF-16 with one, and else Latin-1 as Windows writes it.
    """
    place = Path(path)
    if place.is_dir():
        fail(place, "is a folder, not a label file", "Name a file in it, or read them all with read_folder()")
    try:
        size = place.stat().st_size
    except OSError as error:
        fail(place, f"cannot be opened ({error.strerror})", "Check the path")
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
    """Bytes as text by their byte order mark, else UTF-8, else Latin-1.

    >>> decode("\\ufeffcrêpe".encode("utf-8")), decode("crêpe".encode("latin-1"))
    ('crêpe', 'crêpe')
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def read_json(path: Path) -> Any:
    """The value in a JSON file; what is not JSON is refused with its line."""
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
    """Refuse a label file: which file, which line, what is wrong, what to do."""
    where = f"{path}, line {line}" if line is not None else f"{path}"
    raise AnnotationError(f"{where}: {what}. {advice}.")


def seconds(text: str) -> float | None:
    """A time as people write it, or None: `12.5`, `12,5`, `00:01:02.5`, `1:02`.

    >>> seconds("12.5"), seconds("00:01:02.5"), seconds("1,5"), seconds("start")
    (12.5, 62.5, 1.5, None)
    """
    cell = text.strip().replace(",", ".")
    match = re.fullmatch(r"(?:(?:(\d+):)?(\d+):)?(\d+(?:\.\d*)?|\.\d+)", cell, flags=re.ASCII)
    if match:
        hours, minutes, rest = match.groups()
        # Fractions, so that the sum is rounded once: 00:00:03.001 is the float 3.001 and nothing beside it.
        return float(int(hours or 0) * 3600 + int(minutes or 0) * 60 + Fraction(rest))
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", cell, flags=re.ASCII):
        return float(cell)
    return None
