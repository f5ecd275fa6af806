"""Read and write label files; suffix and content select the format.

>>> import tempfile, pathlib
>>> from stepcut.timeline import Segment, Timeline
>>> path = pathlib.Path(tempfile.mkdtemp()) / "sandwich.csv"
>>> write(path, Timeline([Segment(0, 2.5, "butter bread")]))
>>> read(path).sequence()
['butter bread']
"""

import logging
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import chain, count
from pathlib import Path

from stepcut.errors import AnnotationError, OptionError, as_items, choose, printable, unknown
from stepcut.files.addresses import path_text
from stepcut.files.atomic import write_bytes
from stepcut.files.names import match_videos, safe_name, short_names, video_name
from stepcut.formats.common import (
    LONGEST,
    MILLI,
    UNPRINTABLE,
    Options,
    as_columns,
    fail,
    frame_rate,
    read_text,
    refusals,
    rounded,
    shown_videos,
    touching,
    warn_once,
    where_present,
)
from stepcut.formats.registry import FORMATS, Format, format_to_write, label_files, recognise
from stepcut.formats.transcripts import read_transcripts
from stepcut.rate import Rate
from stepcut.timeline import Timeline

log = logging.getLogger("stepcut")
_DATE = re.compile(rb'date"?[=:]\s*"[^"]*"', re.IGNORECASE)
"""The date of an ELAN file or a BORIS project, which is ignored when files are compared."""

AnyTimelines = Timeline | Sequence[Timeline] | Mapping[str, Timeline]
Columns = str | Mapping[str, str] | None


# ------------------------------------------------------------------------------------ reading


def read(
    path: str | os.PathLike[str],
    format: str | None = None,
    rate: Rate | None = None,
    annotator: str | None = None,
    video: str | None = None,
    columns: Columns = None,
    encoding: str | None = None,
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
    """
    timelines = read_all(path, format, rate, annotator, columns, encoding=encoding)
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
    rate: Rate | None = None,
    annotator: str | None = None,
    columns: Columns = None,
    confirmed: bool = False,
    encoding: str | None = None,
) -> list[Timeline]:
    """Read all timelines in one file.

    Videos without labels by the `annotator` are skipped; if none is left, that is an error.

    Parameters
    ----------
    path, format, rate, annotator, columns, encoding
        As for `read`.
    confirmed
        Skip Label Studio tasks that have only predictions.

    Returns
    -------
    list of Timeline
        One per video.
    """
    options = Options(frame_rate(rate), annotator, as_columns(columns), confirmed=confirmed)
    place = Path(path_text(path))
    named = choose("format", format, FORMATS) if format else None
    text = read_text(place, encoding)
    with refusals(place, named.title if named else "a label file"):
        form, content = (
            (named, named.parse(text, place)) if named else recognise(place, text, options)
        )
        # The EgoProceL reader reports the wrong line itself.
        if form.matches and form.name != "egoprocel" and not form.matches(content):
            what = f"is not {form.title}: keys or columns are missing"
            fail(place, what, "Is it another format?")
    if form.read is None:
        fail(place, f"stepcut cannot read format {form.name!r}", "Read the original file instead")
    if options.columns and form.name not in ("csv", "tsv"):
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
) -> dict[str, Timeline]:
    """Read every label file of a folder, or one file with many videos.

    Files of other types are skipped.

    Parameters
    ----------
    path
        The folder, or one label file.
    format, rate, annotator, columns, confirmed, encoding
        As for `read_all`.

    Returns
    -------
    dict
        Timelines by video name, without suffix and with the fewest folders that distinguish them.

    Raises
    ------
    AnnotationError
        A label file cannot be read, or a video has two label files.
    """
    files = label_files(Path(path_text(path)))

    def read_one(file: Path) -> list[tuple[Timeline, Path]]:
        found = read_all(file, format, rate, annotator, columns, confirmed, encoding)
        return [(each, file) for each in found]

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


# ------------------------------------------------------------------------------------ writing


def write(
    path: str | os.PathLike[str],
    timeline: AnyTimelines,
    format: str | None = None,
    rate: Rate | None = None,
    annotator: str | None = None,
    spreadsheet: bool = False,
) -> None:
    """Write one or more timelines to a file.

    A different file of the same name is kept as `NAME.1.bak`. If the format does not support
    clicks, a warning reports how many were dropped.

    Parameters
    ----------
    path
        The file to write.
    timeline
        One timeline, a list, or a mapping from video names.
    format
        One of `FORMATS`; by default selected by the suffix.
    rate
        Frames per second, for formats that count frames.
    annotator
        The name of the tier, for formats with tiers.
    spreadsheet
        Tables only: escape names that a spreadsheet would read as a formula.

    Raises
    ------
    AnnotationError
        The format does not support a name or an empty timeline.
    OptionError
        The format stores one video per file; use `write_folder`.
    """
    place = Path(path_text(path))
    timelines = [
        replace(each, video=printable(each.video)) for each in _named_apart(as_list(timeline))
    ]
    form = choose("format", format, FORMATS) if format else FORMATS[format_to_write(place)]
    if len(timelines) != 1 and not form.many:
        raise OptionError(
            f"{place}: format {form.name!r} stores one video per file, but there are "
            f"{len(timelines)}. Write a folder: write_folder(), stepcut convert IN FOLDER.",
            path=place,
        )
    videos = Counter(each.video for each in timelines)
    if twice := [video for video, times in videos.items() if times > 1]:
        raise AnnotationError(
            f"{place}: two timelines have the video name {twice[0]!r}. Rename one of them.",
            path=place,
            video=twice[0],
        )
    if not form.links:
        named = zip(timelines, shown_videos(timelines), strict=True)
        timelines = [replace(each, video=name) for each, name in named]
    written = [_as_written(each, form) for each in timelines]
    options = Options(frame_rate(rate), annotator, spreadsheet=spreadsheet)
    beside = _keeping(place.with_suffix(form.beside)) if form.beside else nullcontext()
    with _keeping(place), beside:
        form.write(place, written, options)
    points = sum(len(each.clicks) for each in timelines)
    if points and "clicks" not in form.keeps.split():
        what = "1 click" if points == 1 else f"{points} clicks"
        log.warning("%s: format %r does not support clicks; %s dropped", place, form.name, what)


def _as_written(timeline: Timeline, form: Format) -> Timeline:
    """Return the `timeline` with the names and times of a format, or refuse it."""
    where = timeline.video or "timeline"
    keeps = form.keeps.split()
    held = timeline.segments if "clicks" in keeps else timeline.intervals
    if not held and "empty" not in keeps:
        raise AnnotationError(
            f"{where}: format {form.name!r} cannot store a timeline without segments. Use JSON."
        )
    for segment in timeline:
        if not 0 <= segment.start <= segment.end < LONGEST:
            raise AnnotationError(
                f"{where}: {segment.step!r} from {segment.start:g} s to {segment.end:g} s is "
                "outside the video. Use timeline.crop(0, timeline.end)."
            )
    names: dict[str, str] = {}
    for step in timeline.steps:
        if not step.strip() or UNPRINTABLE.search(step):
            raise AnnotationError(
                f"{where}: the name {step!r} is empty or contains control characters. Rename it."
            )
        try:
            name = form.names(step)
        except ValueError as error:
            raise AnnotationError(
                f"{where}: {error}, which format {form.name!r} does not support. Rename the step."
            ) from error
        if name in names.values():
            raise AnnotationError(
                f"{where}: two steps have the name {name!r} in format {form.name!r}. Rename one."
            )
        names[step] = name
    if any(step != name for step, name in names.items()):
        timeline = timeline.rename(names)
    return rounded(timeline, form.unit) if form.unit else timeline


def left_out(timelines: AnyTimelines, format: str) -> list[str]:
    """List the information in `timelines` that a `format` does not store.

    >>> from stepcut.timeline import Segment
    >>> left_out([Timeline([Segment(0, 1, "pour", 0.5)], duration=3)], "vtt")
    ['confidence', 'the length of the video']
    """
    form, listed = choose("format", format, FORMATS), as_list(timelines)
    have = {
        "confidence": any(s.confidence is not None for each in listed for s in each),
        "duration": any(each.duration is not None for each in listed),
        "steps": any(set(each.steps) != set(each.sequence()) for each in listed),
    }
    words = {"duration": "the length of the video", "steps": "steps that do not occur"}
    lost = [what for what, there in have.items() if there and what not in form.keeps.split()]
    return [words.get(what, what) for what in lost]


@contextmanager
def _keeping(place: Path) -> Iterator[None]:
    """Back up a file while it is written; keep the backup if the content changes."""
    if not place.is_file() or not place.stat().st_size:
        yield
        return
    names = (place.with_name(f"{place.name}.{number}.bak") for number in count(1))
    kept = next(name for name in names if not name.exists())
    write_bytes(kept, place.read_bytes())
    try:
        yield
    finally:
        before, after = (_DATE.sub(b"", file.read_bytes()) for file in (kept, place))
        if before == after:
            kept.unlink()
        else:
            log.warning("%s: replaced; the previous file is %s", place, kept.name)


def write_folder(
    folder: str | os.PathLike[str],
    timelines: Sequence[Timeline] | Mapping[str, Timeline],
    format: str,
    rate: Rate | None = None,
    annotator: str | None = None,
    spreadsheet: bool = False,
) -> list[Path]:
    """Write one file per timeline into `folder`, named after its video.

    Parameters
    ----------
    folder
        The folder, which is created.
    timelines
        A list, or a mapping from video names.
    format, rate, annotator, spreadsheet
        As for `write`.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    OptionError
        Two timelines would get the same file name.
    """
    form = choose("format", format, FORMATS)
    listed = as_list(timelines)
    names = short_names([timeline.video or "video1" for timeline in _named_apart(listed)])
    paths = [
        Path(path_text(folder)) / f"{safe_name(name.replace('/', '_')).name}{form.suffix}"
        for name in names
    ]
    taken = Counter(paths)
    for name, path in zip(names, paths, strict=True):
        # If only the file name identifies the video, its folders would be lost.
        if taken[path] > 1 or ("/" in name and "video" not in form.keeps.split()):
            raise OptionError(
                f"{path}: two timelines have the video name {video_name(name)!r} in different "
                "folders. Rename one, or write one file (.json, .csv) for all.",
                path=path,
                video=name,
            )
    for path, timeline in zip(paths, listed, strict=True):
        write(path, timeline, format, rate, annotator, spreadsheet)
    return paths


def _named_apart(timelines: list[Timeline]) -> list[Timeline]:
    """Name unnamed videos video1, video2, ..., if there are several."""
    if len(timelines) < 2:
        return timelines
    return [
        each if each.video else replace(each, video=f"video{n}")
        for n, each in enumerate(timelines, start=1)
    ]


def as_list(timelines: AnyTimelines) -> list[Timeline]:
    """Return `timelines` as a list, with the names of a mapping."""
    wanted = "a Timeline, a list of them, or a dict from video names"
    if isinstance(timelines, Mapping):
        each = as_items("timelines", timelines.values(), Timeline, wanted)
        return [
            t if t.video else replace(t, video=str(name))
            for name, t in zip(timelines, each, strict=True)
        ]
    return as_items(
        "timelines", [timelines] if isinstance(timelines, Timeline) else timelines, Timeline, wanted
    )


__all__ = [
    "FORMATS",
    "Format",
    "format_to_write",
    "label_files",
    "left_out",
    "read",
    "read_all",
    "read_folder",
    "read_transcripts",
    "write",
    "write_folder",
]
