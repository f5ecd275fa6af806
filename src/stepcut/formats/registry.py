"""The table of formats, and which files have them."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from stepcut.errors import OptionError, choose
from stepcut.formats import boris, elan, lines, records, rows, tables
from stepcut.formats.common import MILLI, Options, fail, one_line, one_word, parse_json
from stepcut.timeline import Timeline


@dataclass(frozen=True)
class Format:
    """One format: its reader and writer, and the information that it stores."""

    name: str
    title: str
    suffix: str
    read: Callable[[Any, Path, Options], list[Timeline]] | None
    """Function of the parsed content, the path and the options; None for write-only formats."""
    write: Callable[[Path, Sequence[Timeline], Options], None]
    keeps: str = ""
    """The information that survives a round trip: `confidence`, `duration`, `steps` (unused ones),
    `clicks`, `video` and `empty` (timelines without segments)."""
    names: Callable[[str], str] = str
    """Function from a step to its name in the format; ValueError if it is not supported."""
    video: Callable[[str], str] = str
    """Function from the name of a video to that in the format."""
    many: bool = False
    """Whether one file can store several videos."""
    frames: bool = False
    """Whether it counts frames and needs a rate."""
    unit: int | None = None
    """The number of units per second to which times are rounded."""
    links: bool = False
    """Whether it links the video file, so that other programs open it."""
    parse: Callable[[str, Path], Any] = lambda text, _: text
    """Function from the text of a file to the content: text, JSON or the rows of a table."""
    matches: Callable[[Any], bool] | None = None
    """Whether the content has this format; None if the suffix decides."""
    beside: str | None = None
    """The suffix of a second file."""


def _no_text(_text: str, path: Path) -> Any:
    fail(path, "is an Excel file by name, but not by content", "Save it as .xlsx again")


_Json = partial(Format, suffix=".json", many=True, parse=parse_json)
_Table = partial(Format, parse=rows.parse_rows, names=str.strip, video=str.strip)
_Lines = partial(Format, names=one_line)
_TSV = partial(tables.write, delimiter="\t")

FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        _Json("json", "stepcut JSON", read=records.read_native, write=records.write_native,
              keeps="confidence duration steps clicks video empty", links=True,
              matches=records.is_native),
        _Table("csv", "CSV", ".csv", tables.read, tables.write, "confidence clicks empty",
               many=True),
        Format("xlsx", "Excel", ".xlsx", tables.read, tables.write_excel, "confidence clicks empty",
               str.strip, str.strip, many=True, parse=_no_text),
        _Table("tsv", "TSV, and ELAN's tab-delimited text", ".tsv", tables.read, _TSV,
               "confidence clicks empty", many=True),
        _Lines("elan", "ELAN", ".eaf", elan.read, elan.write, "duration steps clicks video empty",
               unit=MILLI, links=True),
        _Json("boris", "BORIS project", suffix=".boris", read=boris.read, write=boris.write,
              keeps="duration steps clicks video empty", links=True, matches=boris.matches),
        _Table("boris-events", "BORIS tabular events", ".tsv", boris.read_events,
               boris.write_events, "clicks video", many=True, matches=boris.matches_events),
        _Json("label-studio", "Label Studio tasks with predictions, and its export",
              read=records.read_label_studio, write=records.write_label_studio, frames=True,
              links=True, keeps="confidence duration steps clicks video empty",
              matches=records.is_label_studio, beside=records.CONFIG),
        Format("textgrid", "Praat TextGrid", ".TextGrid", lines.read_textgrid,
               lines.write_textgrid, "duration clicks empty", str.strip),
        Format("xes", "XES event log, for process mining", ".xes", None, lines.write_xes,
               "confidence clicks video empty", many=True),
        _Table("egoprocel", "EgoProceL CSV", ".csv", tables.read_egoprocel,
               tables.write_egoprocel, "clicks", matches=tables.is_egoprocel),
        _Json("activitynet", "ActivityNet JSON", read=records.read_activitynet,
              write=records.write_activitynet, keeps="confidence duration clicks video empty",
              matches=records.is_activitynet),
        _Lines("audacity", "Audacity labels", ".txt", lines.read_audacity,
               lines.write_audacity, "clicks", unit=1_000_000),
        Format("mstcn", "MS-TCN frames", ".txt", lines.read_mstcn, lines.write_mstcn, "duration steps empty",
               one_word, frames=True),
        _Lines("frame-ranges", "Frame ranges: first frame, last frame, label", ".txt",
               lines.read_ranges, lines.write_ranges, frames=True),
        _Lines("vtt", "WebVTT", ".vtt", lines.read_vtt, lines.write_vtt, "clicks empty",
               unit=MILLI),
        _Lines("srt", "SRT", ".srt", lines.read_srt, lines.write_srt, "clicks",
               unit=MILLI),
    )
}  # fmt: skip

REMOVED = {"fiftyone": "write a table with the columns video,start,end,label (csv)"}
"""Formats of version 0.3 that are gone, and what replaces each."""

SUFFIXES: dict[str, str] = {}
"""The default format of a suffix; when reading, the content may select another."""
for _form in FORMATS.values():
    SUFFIXES.setdefault(_form.suffix.lower(), _form.name)
FRAMES = "groundTruth"  # the folder of MS-TCN's files
_NO_LABELS = re.compile(
    r"(readme|licen[cs]e|requirements|mapping|notice)\.txt|(durations|index|time-budget|transcripts)\.csv",
    re.IGNORECASE,
)


def choose_format(name: str) -> Format:
    """Return the format called `name`, or refuse it."""
    if isinstance(name, str) and name in REMOVED:
        raise OptionError(
            f"format={name!r} was removed in 0.4.0; {REMOVED[name]}.",
            setting="format",
            value=name,
            allowed=list(FORMATS),
        )
    return choose("format", name, FORMATS)


def format_to_write(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        advice = f"Use one of {', '.join(SUFFIXES)}, or set the format"
        fail(path, f"the suffix {path.suffix!r} is unknown", advice)
    return "mstcn" if suffix == ".txt" and path.parent.name == FRAMES else SUFFIXES[suffix]


def label_files(path: Path) -> list[Path]:
    """List the label files of a folder (or its `groundTruth/`), or a single file."""
    return label_files_in(labels_folder(path)) if path.is_dir() else [path]


def labels_folder(path: Path) -> Path:
    return path / FRAMES if (path / FRAMES).is_dir() else path


def label_files_in(folder: Path) -> list[Path]:
    suffixes = SUFFIXES.keys() - {".xes"}
    files = [p for p in folder.iterdir() if p.is_file() and p.suffix.lower() in suffixes]
    return sorted(p for p in files if p.name[0] != "." and not _NO_LABELS.fullmatch(p.name))
