"""Read label files: one timeline, all of a file, or all of a folder."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from stepcut.errors import AnnotationError, OptionError, unknown
from stepcut.files.addresses import path_text
from stepcut.files.names import match_videos, short_names
from stepcut.formats import boris, lines, rows
from stepcut.formats.common import (
    LIMIT,
    MILLI,
    NONE,
    Options,
    as_columns,
    fail,
    frame_rate,
    parse_json,
    read_text,
    refusals,
    touching,
    where_present,
)
from stepcut.formats.registry import (
    FORMATS,
    FRAMES,
    REMOVED,
    Format,
    choose_format,
    format_to_write,
    label_files,
    label_files_in,
    labels_folder,
)
from stepcut.progress import warn_once
from stepcut.rate import Rate
from stepcut.timeline import Timeline

Columns = str | Mapping[str, str] | None


def read(
    path: str | os.PathLike[str],
    format: str | None = None,
    rate: Rate | None = None,
    annotator: str | None = None,
    video: str | None = None,
    columns: Columns = None,
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
    if len(timelines) != 1:
        more = ", ..." if len(names) > 5 else ""
        raise AnnotationError(
            f"{path}: the file contains {len(names)} videos ({', '.join(names[:5])}{more}). "
            "Choose one with video=NAME, or read all with read_folder().",
            path=path,
        )
    return timelines[0]


def read_all(
    path: str | os.PathLike[str],
    format: str | None = None,
    encoding: str | None = None,
    options: Options = NONE,
) -> list[Timeline]:
    """Return all timelines in one file, without those that have no labels by the annotator."""
    place = Path(path_text(path))
    named = choose_format(format) if format else None
    text = None if _is_excel(place) else read_text(place, encoding)
    with refusals(place, named.title if named else "a label file"):
        form, content = _parse(place, text, named, options)
        # The EgoProceL reader reports the wrong line itself.
        if form.matches and form.name != "egoprocel" and not form.matches(content):
            what = f"is not {form.title}: keys or columns are missing"
            fail(place, what, "Is it another format?")
    if form.read is None:
        fail(place, f"stepcut cannot read format {form.name!r}", "Read the original file instead")
    if options.columns and form.name not in ("csv", "tsv", "xlsx"):
        warn_once(f"{place.parent}: columns apply only to tables; {form.title} ignores them")
    with refusals(place, form.title):
        timelines = form.read(content, place, options)
    unit = options.rate or form.unit
    if form.unit == MILLI:  # the format needs a length, so a click lasts a millisecond
        timelines = [_clicks_again(each) for each in timelines]
    return [touching(each, unit) for each in timelines] if unit else timelines


def _parse(
    path: Path, text: str | None, named: Format | None, options: Options
) -> tuple[Format, Any]:
    """Return the format of a file, which suffix and content select if none is `named`, and its content.

    A table with `options.columns` is a plain table, not one of another program.
    """
    suffix = path.suffix.lower()
    parse: Callable[[str, Path], Any] = rows.parse_rows
    if text is None:  # Excel
        kind = named or FORMATS["xlsx"]
        if named and named.name != "xlsx" and named.parse != parse:
            fail(path, f"is an Excel file, not {named.title}", "Choose another format, or none")
        content: Any = rows.read_sheet(path, options.sheet)
    else:
        if not named and suffix == ".txt":
            named = FORMATS[_text_format(path, text, options)]
        kind = named or FORMATS[format_to_write(path)]
        parse, content = kind.parse, kind.parse(text, path)
    if named:
        return named, content
    alike = [form for form in FORMATS.values() if form.matches and form.parse == parse]
    if parse == rows.parse_rows:
        alike = [f for f in alike if not options.columns and suffix in (".xlsx", f.suffix, ".csv")]
    found = next((form for form in alike if form.matches and form.matches(content)), None)
    if found is None and parse == parse_json:
        if isinstance(content, dict) and {"labels", "samples"} & content.keys():
            what = "looks like FiftyOne, which stepcut no longer reads"
            fail(path, what, REMOVED["fiftyone"].capitalize())
        names = ", ".join(form.name for form in alike)
        fail(path, "is JSON of an unknown format", f"Supported: {names} (docs/formats.md)")
    return found or kind, content


def _is_excel(path: Path) -> bool:
    """Whether `path` is an Excel file by its suffix and its first bytes, those of a zip file."""
    if path.suffix.lower() != ".xlsx" or not path.is_file() or path.stat().st_size > LIMIT:
        return False  # `read_text` refuses what is too large
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _text_format(path: Path, text: str, options: Options) -> str:
    if lines.is_audacity(text):
        return "audacity"
    if "\t" in text.split("\n", 1)[0]:
        table = rows.parse_rows(text, path)
        if boris.matches_events(table):
            return "boris-events"
        if any(rows.is_timed(row.cells) for row in table[:2]):
            return "tsv"
    if lines.is_ranges(text):
        return "frame-ranges"
    if path.parent.name != FRAMES and options.rate is None and lines.find_mapping(path) is None:
        what = "is not a label track of Audacity, not a table and not in a folder 'groundTruth'"
        fail(path, what, "Set its format")
    return "mstcn"


def _clicks_again(timeline: Timeline) -> Timeline:
    segments = [replace(s, end=s.start) if s.end - s.start < 1.5 / MILLI else s for s in timeline]
    return replace(timeline, segments=tuple(segments))


def read_folder(
    path: str | os.PathLike[str],
    format: str | None = None,
    rate: Rate | None = None,
    annotator: str | None = None,
    columns: Columns = None,
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
    columns = as_columns(columns)
    options = Options(frame_rate(rate), annotator, columns, sheet=sheet, confirmed=confirmed)

    def read_one(file: Path) -> list[tuple[Timeline, Path]]:
        return [(each, file) for each in read_all(file, format, encoding, options)]

    loaded = list(chain.from_iterable(where_present(files, read_one)))
    if not loaded:
        readable = ", ".join(name for name, form in FORMATS.items() if form.read is not None)
        raise AnnotationError(
            f"{path}: no readable label file in this folder. Formats: {readable} "
            "(docs/formats.md).",
            path=path,
        )
    names = short_names([timeline.video or file.stem for timeline, file in loaded])
    found: dict[str, tuple[Timeline, Path]] = {}
    for name, (timeline, file) in zip(names, loaded, strict=True):
        if name in found:
            raise AnnotationError(
                f"{file}: the video {name!r} is already in {found[name][1]}. Remove one of them.",
                path=file,
                video=name,
            )
        found[name] = timeline, file
    return {name: timeline for name, (timeline, _) in found.items()}


def _warn_of_others(path: Path, files: Sequence[Path]) -> None:
    """Warn of folders near `files` whose label files are not read."""
    for folder in sorted([path, *labels_folder(path).iterdir()]) if path.is_dir() else ():
        skipped = folder.name.startswith(".") or folder.suffix == ".proc" or not folder.is_dir()
        others = [] if skipped else label_files_in(folder)
        if others and others != files:
            some = f"{others[0].name} ({len(others)} in all)"
            warn_once(f"{folder}: not read: label files such as {some}")
