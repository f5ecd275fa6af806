"""The formats by name, and which of them a file has: by its suffix and, where that is not enough, by its content."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from stepcut.errors import choose
from stepcut.formats import (
    boris,
    egoprocel,
    elan,
    label_studio,
    mstcn,
    records,
    subtitles,
    tables,
    textgrid,
    xes,
)
from stepcut.formats.capabilities import Capabilities
from stepcut.formats.common import Options, fail, read_json, read_text
from stepcut.timeline import Timeline

Reader = Callable[[Any, Path, Options], list[Timeline]]
"""`read(content, path, options)`: what was loaded of a file (text, JSON or rows), where it is, what the user said."""
Writer = Callable[[Path, Sequence[Timeline], Options], None]
"""`write(path, timelines, options)`: the file to write, one timeline or, where `many`, several, what the user said."""


@dataclass(frozen=True)
class Format:
    """One format: how to read it (None: it is only written), how to write it, and what survives that."""

    name: str
    title: str
    suffix: str
    read: Reader | None
    write: Writer
    capabilities: Capabilities
    many: bool = False
    """Whether one file may hold the timelines of several videos."""
    load: Callable[[Path], Any] = read_text
    """What its reader is given of the file: text, the value of a JSON file, or the rows of a table."""
    matches: Callable[[Any], bool] | None = None
    """Whether what was loaded is of this format; None: whatever has its suffix is."""
    beside: str | None = None
    """The suffix of a second file, which is written with it."""


_Json, _Table = partial(Format, many=True, load=read_json), partial(Format, load=tables.read_rows)
_TSV = partial(tables.write, delimiter="\t")

FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        _Json("json", "stepcut JSON", ".json", records.read_native, records.write_native, records.NATIVE,
              matches=records.is_native),
        _Table("csv", "CSV", ".csv", tables.read, tables.write, tables.CAN, True),
        _Table("tsv", "TSV, and ELAN's tab-delimited text", ".tsv", tables.read, _TSV, tables.CAN, True),
        Format("elan", "ELAN", ".eaf", elan.read, elan.write, elan.CAN),
        _Json("boris", "BORIS project", ".boris", boris.read, boris.write, boris.CAN, matches=boris.matches),
        _Table("boris-events", "BORIS tabular events", ".tsv", boris.read_events, boris.write_events, boris.EVENTS,
               True, matches=boris.matches_events),
        _Json("label-studio", "Label Studio tasks with predictions, and its export", ".json", label_studio.read,
              label_studio.write, label_studio.CAN, matches=label_studio.matches, beside=label_studio.CONFIG),
        Format("textgrid", "Praat TextGrid", ".TextGrid", textgrid.read, textgrid.write, textgrid.CAN),
        Format("xes", "XES event log, for process mining", ".xes", None, xes.write, xes.CAN, True),
        _Table("egoprocel", "EgoProceL CSV", ".csv", egoprocel.read, egoprocel.write, egoprocel.CAN,
               matches=egoprocel.matches),
        _Json("activitynet", "ActivityNet JSON", ".json", records.read_activitynet, records.write_activitynet,
              records.ACTIVITYNET, matches=records.is_activitynet),
        Format("audacity", "Audacity labels", ".txt", subtitles.read_audacity, subtitles.write_audacity,
               subtitles.AUDACITY),
        Format("mstcn", "MS-TCN frames", ".txt", mstcn.read, mstcn.write, mstcn.CAN),
        Format("vtt", "WebVTT", ".vtt", subtitles.read_vtt, subtitles.write_vtt, subtitles.VTT),
        Format("srt", "SRT", ".srt", subtitles.read_srt, subtitles.write_srt, subtitles.SRT),
        _Json("fiftyone", "FiftyOne temporal detections", ".json", records.read_fiftyone, records.write_fiftyone,
              records.FIFTYONE, matches=records.is_fiftyone),
    )
}  # fmt: skip

SUFFIXES: dict[str, str] = {}
for _form in FORMATS.values():
    SUFFIXES.setdefault(_form.suffix.lower(), _form.name)
"""What a suffix is when a file is written; what the content may change when it is read."""
FRAMES = "groundTruth"  # the folder of MS-TCN's files
_NO_LABELS = re.compile(
    r"(readme|licen[cs]e|requirements|mapping|notice).*\.txt|durations\.csv|index\.csv|time-budget\.csv",
    re.IGNORECASE,
)


def load(path: Path, options: Options, name: str | None = None) -> tuple[Format, Any]:
    """The format of the file at `path`, and what it holds. The `name` of the format: left out, by suffix and content.

    Where `options` name the columns of a table, it is read as a plain table, not as one of another program.
    """
    suffix = path.suffix.lower()
    if name is None and suffix not in SUFFIXES:
        read_text(
            path
        )  # a folder, a missing or an empty file is told as such before the suffix is refused
    if name is None and suffix == ".txt":
        name = _text_format(path, options)
    kind = choose("format", name or format_to_write(path), FORMATS)
    if kind.read is None:
        fail(path, f"the format {kind.name!r} is only written", "Read what it was made from")
    content = kind.load(path)
    if name is not None:
        # The reader of EgoProceL names the line that is none.
        if kind.matches is not None and kind.name != "egoprocel" and not kind.matches(content):
            fail(
                path,
                f"is not {kind.title}: its names or its shape are others",
                "Is it another format?",
            )
        return kind, content
    alike = [
        form for form in FORMATS.values() if form.matches is not None and form.load == kind.load
    ]
    if kind.load == tables.read_rows:
        alike = (
            [] if options.columns else [form for form in alike if form.suffix in (suffix, ".tsv")]
        )
    found = next(
        (form for form in alike if form.matches is not None and form.matches(content)), None
    )
    if found is None and kind.load == read_json:
        names = ", ".join(form.name for form in alike)
        fail(path, "is JSON of no kind that is known here", f"Known are {names} (docs/formats.md)")
    return found or kind, content


def format_to_write(path: Path) -> str:
    """The format that a new file at `path` gets."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        fail(
            path,
            f"the suffix {path.suffix!r} is unknown",
            f"Known are {', '.join(SUFFIXES)}; or name the format",
        )
    return "mstcn" if suffix == ".txt" and path.parent.name == FRAMES else SUFFIXES[suffix]


def label_files(path: Path) -> list[Path]:
    """The label files of the folder `path` (of `groundTruth/` where there is one), or `path` itself, a file."""
    if not path.is_dir():
        return [path]
    folder = path / FRAMES if (path / FRAMES).is_dir() else path
    known = [
        p
        for p in folder.iterdir()
        if p.is_file() and p.suffix.lower() in SUFFIXES.keys() - {".xes"}
    ]
    return sorted(p for p in known if p.name[0] != "." and not _NO_LABELS.fullmatch(p.name))


def _text_format(path: Path, options: Options) -> str:
    """A label track of Audacity, a tab-delimited export of ELAN or BORIS, or frames of MS-TCN."""
    text = read_text(path)
    if subtitles.is_audacity(text):
        return "audacity"
    if "\t" in text.split("\n", 1)[0]:
        rows = tables.read_rows(path)
        if boris.matches_events(rows):
            return "boris-events"
        if any(tables.is_timed(row.cells) for row in rows[:2]):
            return "tsv"
    if path.parent.name != FRAMES and options.rate is None and mstcn.find_mapping(path) is None:
        what = (
            "is neither a label track of Audacity nor tab-delimited, nor in a folder 'groundTruth'"
        )
        fail(path, what, "Name its format")
    return "mstcn"
