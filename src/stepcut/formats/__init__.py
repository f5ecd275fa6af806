"""Files of timelines that people already have: read and write them, the format chosen by suffix and
content.

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
"""When an ELAN file or a BORIS project was written: the same timeline written again is the same."""

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
    """Read the timeline in a file.

    Segments that overlap by no more than a frame, or than the millisecond to which a format rounds,
    touch afterwards. Point events are segments of zero length: clicks.

    Parameters
    ----------
    path
        The label file.
    format
        One of `FORMATS`; left out, found out by suffix and content.
    rate
        Frames per second, for formats that count frames, and to say how long a frame is.
    annotator
        Whose labels, where a file holds several people's.
    video
        Which video, where a file holds several.
    columns
        What a table calls its columns: "start=t0,end=t1,step=label", or a dict.
    encoding
        Of the text; left out, found out: UTF-8, UTF-16, cp1252, cp1251 or Shift-JIS.

    Returns
    -------
    Timeline

    Raises
    ------
    AnnotationError
        The file makes no sense, or holds several videos and none was named.
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
            f"{path}: it holds {len(names)} videos ({', '.join(names[:5])}{more}). Say which one "
            "with video=NAME, or read all with read_folder()."
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
    """Read all timelines in one file; parameters are those of `read`.

    Videos without anything by the `annotator` are left out, and with `confirmed` those of Label
    Studio that have predictions alone; where none is left, that is an error.
    """
    options = Options(frame_rate(rate), annotator, as_columns(columns), confirmed=confirmed)
    place = Path(path_text(path))
    named = choose("format", format, FORMATS) if format else None
    text = read_text(place, encoding)
    with refusals(place, named.title if named else "a label file"):
        form, content = (
            (named, named.parse(text, place)) if named else recognise(place, text, options)
        )
        # The reader of EgoProceL names the line that is wrong.
        if form.matches and form.name != "egoprocel" and not form.matches(content):
            what = f"is not {form.title}: its names or its shape are others"
            fail(place, what, "Is it another format?")
    if form.read is None:
        fail(place, f"the format {form.name!r} is only written", "Read what it was made from")
    if options.columns and form.name not in ("csv", "tsv"):
        warn_once(place.parent, f"columns are those of tables; {form.title} has none")
    with refusals(place, form.title):
        timelines = form.read(content, place, options)
    unit = options.rate or form.unit
    if form.unit == MILLI:  # which wants a length, so a click lasts a millisecond
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
    """Read every label file of a folder, or one file of many videos: video name -> timeline.

    The name of a video is without suffix, and with no more folders than tell it from the others.
    Files of other kinds are passed over; a label file that makes no sense is an error, as is a
    video with two of them. Parameters are those of `read` and `read_all`.
    """
    files = label_files(Path(path_text(path)))

    def read_one(file: Path) -> list[tuple[Timeline, Path]]:
        found = read_all(file, format, rate, annotator, columns, confirmed, encoding)
        return [(each, file) for each in found]

    loaded = list(chain.from_iterable(where_present(files, read_one)))
    if not loaded:
        known = ", ".join(name for name, form in FORMATS.items() if form.read is not None)
        raise AnnotationError(
            f"{path}: no label file in it that can be read. Formats: {known} (docs/formats.md)."
        )
    names = short_names([timeline.video or file.stem for timeline, file in loaded])
    found: dict[str, tuple[Timeline, Path]] = {}
    for name, (timeline, file) in zip(names, loaded, strict=True):
        if name in found:
            raise AnnotationError(
                f"{file}: the video {name!r} is in {found[name][1]} already. Keep one of the two."
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
    """Write a timeline to a file; several where the format can hold them, else use `write_folder`.

    What the file held before may be somebody's work: unless it is the same, it is kept beside it,
    as `NAME.1.bak`. Where the format cannot hold clicks, a warning says how many were left out.

    Parameters
    ----------
    path
        The file to write.
    timeline
        One timeline, a list, or a mapping from video names.
    format
        One of `FORMATS`; left out, by the suffix.
    rate
        Frames per second, for formats that count frames.
    annotator
        Whose tier it becomes, for formats that have tiers.
    spreadsheet
        Tables: a name that a spreadsheet would take for a formula gets a leading apostrophe.

    Raises
    ------
    AnnotationError
        The format cannot hold a name, or there is nothing that it could hold.
    """
    place = Path(path_text(path))
    timelines = [
        replace(each, video=printable(each.video)) for each in _named_apart(as_list(timeline))
    ]
    form = choose("format", format, FORMATS) if format else FORMATS[format_to_write(place)]
    if len(timelines) != 1 and not form.many:
        raise OptionError(
            f"{place}: format {form.name!r} holds one video and {len(timelines)} were given. "
            "Write a folder instead: write_folder(), stepcut convert IN FOLDER."
        )
    videos = Counter(each.video for each in timelines)
    if twice := [video for video, times in videos.items() if times > 1]:
        raise AnnotationError(
            f"{place}: two timelines are of the video {twice[0]!r}. Name the videos apart."
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
        what = "1 click is" if points == 1 else f"{points} clicks are"
        log.warning("%s: %s left out, which format %r cannot hold", place, what, form.name)


def _as_written(timeline: Timeline, form: Format) -> Timeline:
    """Return the `timeline` with the names and times that it has in a format, or refuse it."""
    where = timeline.video or "timeline"
    keeps = form.keeps.split()
    held = timeline.segments if "clicks" in keeps else timeline.intervals
    if not held and "empty" not in keeps:
        raise AnnotationError(
            f"{where}: it has no segments; format {form.name!r} cannot say so. Write JSON."
        )
    for segment in timeline:
        if not 0 <= segment.start <= segment.end < LONGEST:
            raise AnnotationError(
                f"{where}: {segment.step!r} starts at {segment.start:g} s and ends at "
                f"{segment.end:g} s; a label file begins at 0, and no video is that long. "
                "Use timeline.crop(0, timeline.end)."
            )
    names: dict[str, str] = {}
    for step in timeline.steps:
        if not step.strip() or UNPRINTABLE.search(step):
            raise AnnotationError(
                f"{where}: the name {step!r} is empty or holds control characters. Rename it."
            )
        try:
            name = form.names(step)
        except ValueError as error:
            raise AnnotationError(
                f"{where}: {error}, which format {form.name!r} cannot hold. Rename the step."
            ) from error
        if name in names.values():
            raise AnnotationError(
                f"{where}: in {form.name!r} two steps would be named {name!r}. Rename one."
            )
        names[step] = name
    if any(step != name for step, name in names.items()):
        timeline = timeline.rename(names)
    return rounded(timeline, form.unit) if form.unit else timeline


def left_out(timelines: AnyTimelines, format: str) -> list[str]:
    """List what `timelines` have and a `format` does not hold.

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
    """Keep a copy of a file while it is written; for good, if it held something else."""
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
            log.warning("%s held something else, which is kept as %s", place, kept.name)


def write_folder(
    folder: str | os.PathLike[str],
    timelines: Sequence[Timeline] | Mapping[str, Timeline],
    format: str,
    rate: Rate | None = None,
    annotator: str | None = None,
    spreadsheet: bool = False,
) -> list[Path]:
    """Write one file for each of `timelines` into `folder`, named after its video.

    Parameters are those of `write`.

    Returns
    -------
    list of Path
        The files.
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
        # Where the file's name alone says which video it is, folders would be lost.
        if taken[path] > 1 or ("/" in name and "video" not in form.keeps.split()):
            raise OptionError(
                f"{path}: two timelines are of the video {video_name(name)!r}, folders aside. "
                "Name them apart, or use one file (.json, .csv) for all."
            )
    for path, timeline in zip(paths, listed, strict=True):
        write(path, timeline, format, rate, annotator, spreadsheet)
    return paths


def _named_apart(timelines: list[Timeline]) -> list[Timeline]:
    """Name the videos that have no name, where there are several: video1, video2, ..."""
    if len(timelines) < 2:
        return timelines
    return [
        each if each.video else replace(each, video=f"video{n}")
        for n, each in enumerate(timelines, start=1)
    ]


def as_list(timelines: AnyTimelines) -> list[Timeline]:
    """Return `timelines` as a list in which each has its name."""
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
