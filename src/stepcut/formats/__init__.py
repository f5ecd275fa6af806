"""Files of timelines that people already have: read and write them, the format chosen by suffix and content.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

from stepcut.errors import AnnotationError, OptionError, as_items, choose, printable, unknown
from stepcut.files.addresses import path_text
from stepcut.files.atomic import write_bytes
from stepcut.files.names import match_videos, safe_name, short_names, video_name
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
from stepcut.formats.common import (
    LONGEST,
    MILLI,
    UNPRINTABLE,
    Options,
    as_columns,
    fail,
    frame_rate,
    one_line,
    one_word,
    parse_json,
    read_text,
    refusals,
    rounded,
    shown_videos,
    touching,
    trimmed,
    warn_once,
    where_present,
)
from stepcut.formats.transcripts import read_transcripts
from stepcut.rate import Rate
from stepcut.timeline import Timeline

log = logging.getLogger("stepcut")
_DATE = re.compile(rb'date"?[=:]\s*"[^"]*"', re.IGNORECASE)
"""When an ELAN file or a BORIS project was written: the same timeline written again is the same."""

AnyTimelines = Timeline | Sequence[Timeline] | Mapping[str, Timeline]
Columns = str | Mapping[str, str] | None


# ------------------------------------------------------------------------------------ the formats


@dataclass(frozen=True)
class Format:
    """One format: how to read and write it, and what it keeps."""

    name: str
    title: str
    suffix: str
    read: Callable[[Any, Path, Options], list[Timeline]] | None
    """From what `parse` gave, the path and the options; None: the format is only written."""
    write: Callable[[Path, Sequence[Timeline], Options], None]
    keeps: str = ""
    """Which of `confidence`, `duration`, `steps` (that do not occur), `clicks`, `video` and `empty`
    (timelines without segments) survive being written and read again."""
    names: Callable[[str], str] = str
    """The name of a step as it is written; a ValueError where the format cannot hold it."""
    many: bool = False
    """Whether one file may hold the timelines of several videos."""
    frames: bool = False
    """Whether it counts frames, so that it needs a rate."""
    unit: int | None = None
    """Into how many parts a second is divided, where times are rounded."""
    links: bool = False
    """Whether it links the video file, so that other programs open it."""
    parse: Callable[[str, Path], Any] = lambda text, _: text
    """From the text of a file to what `read` is given: text, JSON or the rows of a table."""
    matches: Callable[[Any], bool] | None = None
    """Whether what was parsed is of this format; None: whatever has its suffix is."""
    beside: str | None = None
    """The suffix of a second file, which is written with it."""


_Json = partial(Format, suffix=".json", many=True, parse=parse_json)
_Table = partial(Format, parse=tables.parse_rows, names=trimmed)
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
        _Table("tsv", "TSV, and ELAN's tab-delimited text", ".tsv", tables.read, _TSV,
               "confidence clicks empty", many=True),
        _Lines("elan", "ELAN", ".eaf", elan.read, elan.write, "duration steps clicks video empty",
               unit=MILLI, links=True),
        _Json("boris", "BORIS project", suffix=".boris", read=boris.read, write=boris.write,
              keeps="duration steps clicks video empty", links=True, matches=boris.matches),
        _Table("boris-events", "BORIS tabular events", ".tsv", boris.read_events,
               boris.write_events, "clicks video", many=True, matches=boris.matches_events),
        _Json("label-studio", "Label Studio tasks with predictions, and its export",
              read=label_studio.read, write=label_studio.write, frames=True, links=True,
              keeps="confidence duration steps clicks video empty", matches=label_studio.matches,
              beside=label_studio.CONFIG),
        Format("textgrid", "Praat TextGrid", ".TextGrid", textgrid.read, textgrid.write,
               "duration clicks empty", trimmed),
        Format("xes", "XES event log, for process mining", ".xes", None, xes.write,
               "confidence clicks video empty", many=True),
        _Table("egoprocel", "EgoProceL CSV", ".csv", egoprocel.read, egoprocel.write, "clicks",
               matches=egoprocel.matches),
        _Json("activitynet", "ActivityNet JSON", read=records.read_activitynet,
              write=records.write_activitynet, keeps="confidence duration clicks video empty",
              matches=records.is_activitynet),
        _Lines("audacity", "Audacity labels", ".txt", subtitles.read_audacity,
               subtitles.write_audacity, "clicks", unit=1_000_000),
        Format("mstcn", "MS-TCN frames", ".txt", mstcn.read, mstcn.write, "duration steps empty",
               one_word, frames=True),
        _Lines("frame-ranges", "Frame ranges: first frame, last frame, label", ".txt",
               subtitles.read_ranges, subtitles.write_ranges, frames=True),
        _Lines("vtt", "WebVTT", ".vtt", subtitles.read_vtt, subtitles.write_vtt, "clicks empty",
               unit=MILLI),
        _Lines("srt", "SRT", ".srt", subtitles.read_srt, subtitles.write_srt, "clicks",
               unit=MILLI),
        _Json("fiftyone", "FiftyOne temporal detections", read=records.read_fiftyone,
              write=records.write_fiftyone, keeps="confidence steps clicks video empty",
              matches=records.is_fiftyone),
    )
}  # fmt: skip

SUFFIXES: dict[str, str] = {}
"""What a suffix is when a file is written; what the content may change when it is read."""
for _form in FORMATS.values():
    SUFFIXES.setdefault(_form.suffix.lower(), _form.name)
FRAMES = "groundTruth"  # the folder of MS-TCN's files
_NO_LABELS = re.compile(
    r"(readme|licen[cs]e|requirements|mapping|notice).*\.txt"
    r"|(durations|index|time-budget|transcripts)\.csv",
    re.IGNORECASE,
)


def _recognise(path: Path, text: str, options: Options) -> tuple[Format, Any]:
    """Find the format of a file by its suffix and its `text`, and parse it.

    Where `options` name the columns of a table, it is a plain table, not one of another program.
    """
    suffix = path.suffix.lower()
    if suffix == ".txt":
        form = FORMATS[_text_format(path, text, options)]
        return form, form.parse(text, path)
    kind = FORMATS[format_to_write(path)]
    content = kind.parse(text, path)
    alike = [form for form in FORMATS.values() if form.matches and form.parse == kind.parse]
    if kind.parse == tables.parse_rows:
        alike = [f for f in alike if f.suffix in (suffix, ".tsv") and not options.columns]
    found = next((form for form in alike if form.matches and form.matches(content)), None)
    if found is None and kind.parse == parse_json:
        advice = f"Known are {', '.join(form.name for form in alike)} (docs/formats.md)"
        fail(path, "is JSON of no kind that is known here", advice)
    return found or kind, content


def format_to_write(path: Path) -> str:
    """Return the format that a new file at `path` gets."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        advice = f"Known are {', '.join(SUFFIXES)}; or name the format"
        fail(path, f"the suffix {path.suffix!r} is unknown", advice)
    return "mstcn" if suffix == ".txt" and path.parent.name == FRAMES else SUFFIXES[suffix]


def label_files(path: Path) -> list[Path]:
    """List the label files of a folder (of `groundTruth/` where there is one), or a single file."""
    if not path.is_dir():
        return [path]
    folder = path / FRAMES if (path / FRAMES).is_dir() else path
    suffixes = SUFFIXES.keys() - {".xes"}
    known = [p for p in folder.iterdir() if p.is_file() and p.suffix.lower() in suffixes]
    return sorted(p for p in known if p.name[0] != "." and not _NO_LABELS.fullmatch(p.name))


def _text_format(path: Path, text: str, options: Options) -> str:
    """Tell the formats of text files apart."""
    if subtitles.is_audacity(text):
        return "audacity"
    if "\t" in text.split("\n", 1)[0]:
        rows = tables.parse_rows(text, path)
        if boris.matches_events(rows):
            return "boris-events"
        if any(tables.is_timed(row.cells) for row in rows[:2]):
            return "tsv"
    if subtitles.is_ranges(text):
        return "frame-ranges"
    if path.parent.name != FRAMES and options.rate is None and mstcn.find_mapping(path) is None:
        what = "is not a label track of Audacity, not a table and not in a folder 'groundTruth'"
        fail(path, what, "Name its format")
    return "mstcn"


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
            (named, named.parse(text, place)) if named else _recognise(place, text, options)
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
    "left_out",
    "read",
    "read_all",
    "read_folder",
    "read_transcripts",
    "write",
    "write_folder",
]
