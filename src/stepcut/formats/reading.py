"""Read label files: one timeline, all of a file, or all of a folder."""

import os
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path

from stepcut.errors import AnnotationError, OptionError, unknown
from stepcut.files.addresses import path_text
from stepcut.files.names import match_videos, short_names
from stepcut.formats.common import (
    MILLI,
    NONE,
    Options,
    as_columns,
    frame_rate,
    touching,
    where_present,
)
from stepcut.formats.registry import (
    FORMATS,
    choose_format,
    is_excel,
    label_files,
    recognise,
    recognise_sheet,
    unread_folders,
)
from stepcut.formats.text import fail, read_text, refusals, warn_once
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
    excel = is_excel(place)
    text = "" if excel else read_text(place, encoding)
    with refusals(place, named.title if named else "a label file"):
        if excel:
            form, content = recognise_sheet(place, named, options)
        elif named is None:
            form, content = recognise(place, text, options)
        else:
            form, content = named, named.parse(text, place)
        # The EgoProceL reader reports the wrong line itself.
        if form.matches and form.name != "egoprocel" and not form.matches(content):
            what = f"is not {form.title}: keys or columns are missing"
            fail(place, what, "Is it another format?")
    if form.read is None:
        fail(place, f"stepcut cannot read format {form.name!r}", "Read the original file instead")
    if options.columns and form.name not in ("csv", "tsv", "xlsx"):
        warn_once(place.parent, f"columns apply only to tables; {form.title} ignores them")
    with refusals(place, form.title):
        timelines = form.read(content, place, options)
    unit = options.rate or form.unit
    if form.unit == MILLI:  # the format needs a length, so a click lasts a millisecond
        timelines = [_clicks_again(each) for each in timelines]
    return [touching(each, unit) for each in timelines] if unit else timelines


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
    files = label_files(Path(path_text(path)))
    for folder, others in unread_folders(Path(path_text(path))).items():
        warn_once(folder, f"not read: label files such as {others[0].name} ({len(others)} in all)")
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
