"""Which format a file has, by its suffix and, where that is not enough, by its content."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NoReturn

from stepcut.formats import activitynet, audacity, boris, egoprocel, fiftyone, label_studio, mstcn, native
from stepcut.formats.options import Options
from stepcut.formats.tables import is_timed, read_rows
from stepcut.formats.text import fail, read_json, read_text

SUFFIXES = {
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".eaf": "elan",
    ".boris": "boris",
    ".textgrid": "textgrid",
    ".xes": "xes",
    ".vtt": "vtt",
    ".srt": "srt",
    ".txt": "audacity",
}
"""What a suffix is when a file is written; what the content may change when it is read."""

JSON_KINDS = {
    "json": native.is_native,
    "label-studio": label_studio.is_label_studio,
    "boris": boris.is_boris,
    "activitynet": activitynet.is_activitynet,
    "fiftyone": fiftyone.is_fiftyone,
}
FRAMES = "groundTruth"  # the folder of MS-TCN's files
_NO_LABELS = re.compile(
    r"(readme|licen[cs]e|requirements|mapping|notice).*\.txt|durations\.csv|index\.csv|time-budget\.csv", re.IGNORECASE
)


def guess_format(path: Path, options: Options) -> str:
    """The name of the format of a file that exists."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        read_text(path)  # a folder, a missing or an empty file is told as such first
        refuse_suffix(path)
    if suffix == ".json":
        return _json_format(path)
    if suffix == ".txt":
        return _text_format(path, options)
    if suffix in (".csv", ".tsv"):
        rows = read_rows(path)
        if boris.header_place(rows) is not None and not options.columns:
            return "boris-events"
        if suffix == ".csv" and egoprocel.looks_like(rows):
            return "egoprocel"
    return SUFFIXES[suffix]


def format_to_write(path: Path) -> str:
    """The format that a new file of this name gets."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        refuse_suffix(path)
    return "mstcn" if suffix == ".txt" and path.parent.name == FRAMES else SUFFIXES[suffix]


def refuse_suffix(path: Path) -> NoReturn:
    """Say that no format has this suffix."""
    fail(path, f"the suffix {path.suffix!r} is unknown", f"Known are {', '.join(SUFFIXES)}; or name the format")


def label_files(path: Path) -> list[Path]:
    """The label files of a folder (of `groundTruth/` where there is one), or the one file that was given."""
    if not path.is_dir():
        return [path]
    folder = path / FRAMES if (path / FRAMES).is_dir() else path
    return sorted(p for p in folder.iterdir() if p.is_file() and _may_hold_labels(p))


def _may_hold_labels(path: Path) -> bool:
    known = path.suffix.lower() in SUFFIXES and path.suffix.lower() != ".xes"
    return known and path.name[0] != "." and not _NO_LABELS.fullmatch(path.name)


def _text_format(path: Path, options: Options) -> str:
    """A label track of Audacity, a tab-delimited export of ELAN or BORIS, or frames of MS-TCN."""
    text = read_text(path)
    if audacity.looks_like(text):
        return "audacity"
    if "\t" in text.split("\n", 1)[0]:
        rows = read_rows(path)
        if boris.header_place(rows) is not None:
            return "boris-events"
        if any(is_timed(row.cells) for row in rows[:2]):
            return "tsv"
    if path.parent.name != FRAMES and options.rate is None and mstcn.find_mapping(path) is None:
        fail(
            path,
            "is neither a label track of Audacity nor tab-delimited, nor in a folder 'groundTruth'",
            "Name its format",
        )
    return "mstcn"


def _json_format(path: Path) -> str:
    record = read_json(path)
    kind = next((name for name, matches in JSON_KINDS.items() if matches(record)), None)
    if kind is None:
        fail(path, "is JSON of no kind that is known here", f"Known are {', '.join(JSON_KINDS)} (docs/formats.md)")
    return kind
