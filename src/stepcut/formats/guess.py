"""Which format a file has, by its suffix and, where that is not enough, by its content."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from stepcut.formats import egoprocel, native
from stepcut.formats.source import fail, read_json, read_text

SUFFIXES = {".json": "json", ".csv": "csv", ".tsv": "tsv"}
"""What a suffix is when a file is written; what the content may change when it is read."""


def guess_format(path: Path) -> str:
    """The name of the format of a file that exists."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        read_text(path)  # a folder, a missing or an empty file is told as such first
        fail(path, f"the suffix {suffix!r} is unknown", f"Known are {', '.join(SUFFIXES)}; or name the format")
    if suffix == ".json":
        return _json_format(path)
    if suffix == ".csv" and egoprocel.looks_like(path):
        return "egoprocel"
    return SUFFIXES[suffix]


def format_to_write(path: Path, _rate: float | str | Fraction | None = None) -> str:
    """The format that a new file of this name gets."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        fail(path, f"the suffix {suffix!r} is unknown", f"Known are {', '.join(SUFFIXES)}; or name the format")
    return SUFFIXES[suffix]


def label_files(path: Path) -> list[Path]:
    """The label files of a folder, or the one file that was given."""
    if not path.is_dir():
        return [path]
    return sorted(p for p in path.iterdir() if p.is_file() and p.suffix.lower() in SUFFIXES and p.name[0] != ".")


def _json_format(path: Path) -> str:
    record = read_json(path)
    kind = "json" if native.is_native(record) else None
    if kind is None:
        fail(path, "is JSON of no kind that is known here", "Name its format; see docs/formats.md")
    return kind
