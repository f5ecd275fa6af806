"""The table of formats, and reading; suffix and content select the format."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from stepcut.errors import (
    AnnotationError,
    OptionError,
    choose,
    unknown,
)
from stepcut.files import path_text
from stepcut.files.names import match_videos, short_names
from stepcut.formats import boris, elan, lines, records, tables
from stepcut.formats.common import (
    LIMIT,
    MILLI,
    Options,
    as_columns,
    flaw,
    frame_rate,
    one_line,
    one_word,
    parse_json,
    read_text,
    refusals,
    touching,
    where_present,
)
from stepcut.progress import warn_once
from stepcut.settings import Rate
from stepcut.timeline import Timeline


@dataclass(frozen=True)
class Format:
    """One format: its reader and writer, and the information that it stores.

    `parse` makes text, JSON or rows of a text. `keeps` is what survives a round trip: `confidence`,
    `duration`, `steps` (unused ones), `clicks`, `video` and `empty` (timelines without segments).
    `names` and `video` map names of steps and videos to those in the format; a file of `many`
    videos is a list. Times are rounded to 1 / `unit` seconds; `frames` need a rate. `links` keeps
    the path of the video. `matches` recognises the content, unless the suffix decides; `beside` is
    the suffix of a second file.
    """

    name: str
    title: str
    suffix: str
    read: Callable[[Any, Options], Any] | None  # None for write-only formats
    write: Callable[[Any, Options], Any]
    keeps: str = ""
    names: Callable[[str], str] = str
    video: Callable[[str], str] = str
    many: bool = False
    frames: bool = False
    unit: int | None = None
    links: bool = False
    parse: Callable[[str], Any] = str
    matches: Callable[[Any], bool] | None = None
    beside: str | None = None


def _no_text(_text: str) -> Any:
    raise flaw("is an Excel file by name, but not by content", "Save it as .xlsx again")


_Json = partial(Format, suffix=".json", many=True, parse=parse_json)
_Table = partial(Format, parse=tables.parse_rows, names=str.strip, video=str.strip)
_Lines = partial(Format, names=one_line)

FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        _Json("json", "stepcut JSON", read=records.read_native, write=records.write_native,
              keeps="confidence duration steps clicks video empty", links=True,
              matches=records.is_native),
        _Table("csv", "CSV", ".csv", tables.read, tables.write_text, "confidence clicks empty",
               many=True),
        Format("xlsx", "Excel", ".xlsx", tables.read, tables.write_excel, "confidence clicks empty",
               str.strip, str.strip, many=True, parse=_no_text),
        _Table("tsv", "TSV, and ELAN's tab-delimited text", ".tsv", tables.read,
               partial(tables.write_text, tabs=True),
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

# Formats of version 0.3 that are gone, and what replaces each.
REMOVED = {"fiftyone": "write a table with the columns video,start,end,step (csv)"}
# the default format of a suffix; when reading, the content may select another
SUFFIXES: dict[str, str] = {}
for _form in FORMATS.values():
    SUFFIXES.setdefault(_form.suffix.lower(), _form.name)
FRAMES = "groundTruth"  # the folder of MS-TCN's files
_NO_LABELS = re.compile(
    r"(readme|licen[cs]e|requirements|mapping|notice)\.txt|(durations|index|time-budget|times|transcripts)\.csv",
    re.IGNORECASE,
)


def choose_format(name: str) -> Format:
    if isinstance(name, str) and name in REMOVED:
        why = f"format={name!r} was removed in 0.4.0; {REMOVED[name]}."
        raise OptionError(why, setting="format", value=name, allowed=list(FORMATS))
    return choose("format", name, FORMATS)


def format_to_write(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        with refusals(path):
            advice = f"Use one of {', '.join(SUFFIXES)}, or set the format"
            raise flaw(f"the suffix {path.suffix!r} is unknown", advice)
    return "mstcn" if suffix == ".txt" and path.parent.name == FRAMES else SUFFIXES[suffix]


def label_files(path: Path) -> list[Path]:
    return _files_in(_labels_folder(path)) if path.is_dir() else [path]


def _labels_folder(path: Path) -> Path:
    return path / FRAMES if (path / FRAMES).is_dir() else path


def _files_in(folder: Path) -> list[Path]:
    suffixes = SUFFIXES.keys() - {".xes"}
    files = [p for p in folder.iterdir() if p.is_file() and p.suffix.lower() in suffixes]
    return sorted(p for p in files if p.name[0] != "." and not _NO_LABELS.fullmatch(p.name))


# ---------------------------------------------------------------------- reading


def read(
    path: str | os.PathLike[str],
    format: str | None = None,
    rate: Rate | None = None,
    annotator: str | None = None,
    video: str | None = None,
    columns: str | Mapping[str, str] | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
) -> Timeline:
    """Read the timeline in a label file.

    Overlaps of at most one frame, or of the rounding of the format, are removed. Point events
    become clicks.

    Parameters
    ----------
    path
        The label file.
    format
        One of `FORMATS`; by default detected from suffix and content.
    rate
        Frames per second, for formats that count frames.
    annotator
        The annotator to read, if a file contains several.
    video
        The video to read, if a file contains several.
    columns
        The column names of a table: "start=t0,end=t1,step=label", or a dict.
    encoding
        The text encoding; by default detected: UTF-8, UTF-16, cp1252, cp1251 or Shift-JIS.
    sheet
        The sheet of an Excel file; by default the first.

    Returns
    -------
    Timeline
        The segments and clicks of the video.

    Raises
    ------
    AnnotationError
        The file cannot be read, or contains several videos and `video` is missing.
    OptionError
        `format`, `video` or `encoding` is unknown.

    Examples
    --------
    >>> sc.write("sandwich.csv", labels)
    >>> sc.read("sandwich.csv").sequence()
    ['cut bread', 'spread butter', 'add jam']
    """
    options = Options(frame_rate(rate), annotator, as_columns(columns), sheet=sheet)
    timelines = read_all(path, format, encoding, options)
    names = [timeline.video for timeline in timelines]
    if video is not None:
        chosen = match_videos([str(video)], names, OptionError).get(str(video))
        if chosen is None or names.count(chosen) > 1:
            raise unknown("video", video, names, str(path))
        return timelines[names.index(chosen)]
    with refusals(Path(path)):
        if len(timelines) != 1:
            some = ", ".join([*names[:5], "..."] if len(names) > 5 else names)
            advice = "Choose one with video=NAME, or read all with read_folder()"
            raise flaw(f"the file contains {len(names)} videos ({some})", advice)
    return timelines[0]


def read_all(
    path: str | os.PathLike[str],
    format: str | None = None,
    encoding: str | None = None,
    options: Options | None = None,
) -> list[Timeline]:
    """Return all timelines in one file, without those that have no labels by the annotator."""
    place = Path(path_text(path))
    options = replace(options or Options(), path=place)
    named = choose_format(format) if format else None
    text = None if _is_excel(place) else read_text(place, encoding)
    with refusals(place, named.title if named else "a label file"):
        form, content = _parse(place, named, text, options)
        # The EgoProceL reader reports the wrong line itself.
        if form.matches and form.name != "egoprocel" and not form.matches(content):
            what = f"is not {form.title}: keys or columns are missing"
            raise flaw(what, "Is it another format?")
    with refusals(place, form.title):
        if form.read is None:
            what = f"stepcut cannot read format {form.name!r}"
            raise flaw(what, "Read the original file instead")
        if options.columns and form.name not in ("csv", "tsv", "xlsx"):
            warn_once(f"{place.parent}: columns apply only to tables; {form.title} ignores them")
        found = form.read(content, options)
    timelines: list[Timeline] = found if form.many else [found]
    if not form.many and "video" not in form.keeps:
        timelines = [replace(each, video=place.stem) for each in timelines]
    if form.unit == MILLI:  # the format needs a length, so a click lasts a millisecond
        timelines = [_clicks_again(each) for each in timelines]
    unit = options.rate or form.unit
    return [touching(each, unit) for each in timelines] if unit else timelines


def _parse(
    path: Path, named: Format | None, text: str | None, options: Options
) -> tuple[Format, Any]:
    suffix = path.suffix.lower()
    parse: Callable[[str], Any] = tables.parse_rows
    if text is None:  # Excel
        kind = named or FORMATS["xlsx"]
        if named and named.name != "xlsx" and named.parse != parse:
            raise flaw(f"is an Excel file, not {named.title}", "Choose another format, or none")
        content: Any = tables.read_sheet(path, options.sheet)
    else:
        if not named and suffix == ".txt":
            named = FORMATS[_text_format(path, text, options)]
        kind = named or FORMATS[format_to_write(path)]
        parse, content = kind.parse, kind.parse(text)
    if named:
        return named, content
    alike = [form for form in FORMATS.values() if form.matches and form.parse == parse]
    if parse == tables.parse_rows:
        alike = [f for f in alike if not options.columns and suffix in (".xlsx", f.suffix, ".csv")]
    found = next((form for form in alike if form.matches and form.matches(content)), None)
    if found is None and parse == parse_json:
        if isinstance(content, dict) and {"labels", "samples"} & content.keys():
            what = "looks like FiftyOne, which stepcut no longer reads"
            raise flaw(what, REMOVED["fiftyone"].capitalize())
        supported = f"Supported: {', '.join(form.name for form in alike)} (docs/formats.md)"
        raise flaw("is JSON of an unknown format", supported)
    return found or kind, content


def _is_excel(path: Path) -> bool:
    if path.suffix.lower() != ".xlsx" or not path.is_file() or path.stat().st_size > LIMIT:
        return False  # `read_text` refuses what is too large
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _text_format(path: Path, text: str, options: Options) -> str:
    if lines.is_audacity(text):
        return "audacity"
    if "\t" in text.split("\n", 1)[0]:
        table = tables.parse_rows(text)
        if boris.matches_events(table):
            return "boris-events"
        if any(tables.is_timed(row.cells) for row in table[:2]):
            return "tsv"
    if lines.is_ranges(text):
        return "frame-ranges"
    if path.parent.name != FRAMES and options.rate is None and lines.find_mapping(path) is None:
        what = "is not a label track of Audacity, not a table and not in a folder 'groundTruth'"
        raise flaw(what, "Set its format")
    return "mstcn"


def _clicks_again(timeline: Timeline) -> Timeline:
    segments = [replace(s, end=s.start) if s.end - s.start < 1.5 / MILLI else s for s in timeline]
    return replace(timeline, segments=tuple(segments))


def read_folder(
    path: str | os.PathLike[str],
    format: str | None = None,
    rate: Rate | None = None,
    annotator: str | None = None,
    columns: str | Mapping[str, str] | None = None,
    confirmed: bool = False,
    encoding: str | None = None,
    sheet: str | None = None,
) -> dict[str, Timeline]:
    """Read every label file of a folder, or one file with many videos.

    Files of other types are skipped; sub-folders with label files are named in a warning.

    Parameters
    ----------
    path
        The folder, or one label file.
    format, rate, annotator, columns, encoding, sheet
        As for `read`.
    confirmed
        Refuse Label Studio tasks if all have only predictions.

    Returns
    -------
    dict
        Timelines by video name, without suffix and with the fewest folders that distinguish them.

    Raises
    ------
    AnnotationError
        A label file cannot be read, or a video has two label files.

    Examples
    --------
    >>> from stepcut.formats import write_folder
    >>> files = write_folder("labels", {"video1": labels}, "csv")
    >>> read_folder("labels")
    {'video1': <Timeline video1: 3 segments of 3 steps, 60.0 s>}
    """
    place = Path(path_text(path))
    files = label_files(place)
    _warn_of_others(place, files)
    named = as_columns(columns)
    options = Options(frame_rate(rate), annotator, named, sheet=sheet, confirmed=confirmed)

    def read_one(file: Path) -> list[tuple[Timeline, Path]]:
        return [(each, file) for each in read_all(file, format, encoding, options)]

    loaded = list(chain.from_iterable(where_present(files, read_one)))
    with refusals(place):
        if not loaded:
            readable = ", ".join(name for name, form in FORMATS.items() if form.read is not None)
            what = "no readable label file in this folder"
            raise flaw(what, f"Formats: {readable} (docs/formats.md)")
    names = short_names([timeline.video or file.stem for timeline, file in loaded])
    found: dict[str, tuple[Timeline, Path]] = {}
    for name, (timeline, file) in zip(names, loaded, strict=True):
        if name in found:
            what = f"{file}: the video {name!r} is already in {found[name][1]}"
            raise AnnotationError(f"{what}. Remove one of them.", path=file, video=name)
        found[name] = timeline, file
    return {name: timeline for name, (timeline, _) in found.items()}


def _warn_of_others(path: Path, files: Sequence[Path]) -> None:
    for folder in sorted([path, *_labels_folder(path).iterdir()]) if path.is_dir() else ():
        skipped = folder.name.startswith(".") or folder.suffix == ".proc" or not folder.is_dir()
        others = [] if skipped else _files_in(folder)
        if others and others != files:
            some = f"{others[0].name} ({len(others)} in all)"
            warn_once(f"{folder}: not read: label files such as {some}")
