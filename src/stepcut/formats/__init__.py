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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import chain, count
from pathlib import Path

from stepcut.errors import AnnotationError, OptionError, as_items, choose, printable, unknown
from stepcut.files.addresses import path_text
from stepcut.files.atomic import write_bytes
from stepcut.files.names import match_videos, safe_name, short_names, video_name
from stepcut.formats.capabilities import UNIT, as_written, check_writable, stated_losses, touching
from stepcut.formats.common import Options, as_columns, frame_rate, refusals, where_present
from stepcut.formats.kinds import FORMATS, Format, format_to_write, label_files, load
from stepcut.rate import Rate
from stepcut.timeline import Timeline

log = logging.getLogger("stepcut")
_DATE = re.compile(rb'date"?[=:]\s*"[^"]*"', re.IGNORECASE)
"""When an ELAN file or a BORIS project was written: the same timeline written again is the same."""

AnyTimelines = Timeline | Sequence[Timeline] | Mapping[str, Timeline]
Columns = str | Mapping[str, str] | None


def read(
    path: str | os.PathLike[str],
    format: str | None = None,
    rate: Rate | None = None,
    annotator: str | None = None,
    video: str | None = None,
    columns: Columns = None,
) -> Timeline:
    """Read the timeline in a file.

    Segments that overlap by no more than a frame, or than the millisecond to which a format rounds, touch afterwards.

    path       the label file
    format     one of `FORMATS`; None: found out by suffix and content
    rate       frames per second, for formats that count frames, and to say how long a frame is
    annotator  whose labels, where a file holds several people's
    video      which video, where a file holds several
    columns    what a table calls its columns: "start=t0,end=t1,step=label", or a dict
    """
    timelines = read_all(path, format, rate, annotator, columns)
    names = [timeline.video for timeline in timelines]
    if video is not None:
        chosen = match_videos([str(video)], names, OptionError).get(str(video))
        if chosen is None or names.count(chosen) > 1:
            raise unknown("video", video, names, str(path))
        return timelines[names.index(chosen)]
    if len(timelines) != 1:
        what = f"it holds {len(names)} videos ({', '.join(names[:5])}{', ...' if len(names) > 5 else ''})"
        raise AnnotationError(
            f"{path}: {what}. Say which one with video=NAME, or read all with read_folder()."
        )
    return timelines[0]


def read_all(
    path: str | os.PathLike[str],
    format: str | None = None,
    rate: Rate | None = None,
    annotator: str | None = None,
    columns: Columns = None,
    confirmed: bool = False,
) -> list[Timeline]:
    """Read all timelines in one file; `path`, `format`, `rate`, `annotator` and `columns` are those of `read`.

    Videos without anything by the `annotator` are left out, and with `confirmed` those of Label Studio that have
    predictions alone; where none is left, that is an error.
    """
    options = Options(frame_rate(rate), annotator, as_columns(columns), confirmed=confirmed)
    place = Path(path_text(path))
    named = choose("format", format, FORMATS) if format else None
    with refusals(place, named.title if named else "a label file"):
        chosen, content = load(place, options, format)
    if options.columns and chosen.name not in ("csv", "tsv"):
        raise OptionError(
            f"{place}: columns={columns!r} is for tables, and this is {chosen.title}. Leave it out."
        )
    with refusals(place, chosen.title):
        assert chosen.read is not None
        timelines = chosen.read(content, place, options)
        unit = options.rate or UNIT.get(chosen.capabilities.times)
        return [touching(each, unit) for each in timelines] if unit else timelines


def read_folder(
    path: str | os.PathLike[str],
    format: str | None = None,
    rate: Rate | None = None,
    annotator: str | None = None,
    columns: Columns = None,
    confirmed: bool = False,
) -> dict[str, Timeline]:
    """Read every label file of a folder, or one file of many videos: video name -> timeline.

    The name of a video is without suffix, and with no more folders than tell it from the others. Files of other kinds
    are passed over; a label file that makes no sense is an error, as is a video with two of them. `path` is the folder
    or the file; `format`, `rate`, `annotator` and `columns` are those of `read`, `confirmed` is that of `read_all`.
    """
    files = label_files(Path(path_text(path)))

    def read_one(file: Path) -> list[tuple[Timeline, Path]]:
        return [
            (each, file) for each in read_all(file, format, rate, annotator, columns, confirmed)
        ]

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


def write(
    path: str | os.PathLike[str],
    timeline: AnyTimelines,
    format: str | None = None,
    rate: Rate | None = None,
    annotator: str | None = None,
    spreadsheet: bool = False,
) -> None:
    """Write a timeline to a file; several where the format can hold them, otherwise use `write_folder`.

    What the file held before may be somebody's work: unless it is the same, it is kept beside it, as `NAME.1.bak`; so
    is the labelling configuration beside tasks of Label Studio.

    path         the file to write
    timeline     one timeline, a list, or a mapping from video names
    format       one of `FORMATS`; None: by the suffix
    rate         frames per second, for formats that count frames
    annotator    whose tier it becomes, for formats that have tiers
    spreadsheet  tables: a name that a spreadsheet would take for a formula gets a leading apostrophe
    """
    place = Path(path_text(path))
    timelines = [
        replace(each, video=printable(each.video)) for each in _named_apart(as_list(timeline))
    ]
    chosen = choose("format", format, FORMATS) if format else FORMATS[format_to_write(place)]
    if len(timelines) != 1 and not chosen.many:
        what = f"format {chosen.name!r} holds one video and {len(timelines)} were given"
        raise OptionError(
            f"{place}: {what}. Write a folder instead: write_folder(), stepcut convert IN FOLDER."
        )
    if twice := [
        video for video, count in Counter(each.video for each in timelines).items() if count > 1
    ]:
        raise AnnotationError(
            f"{place}: two timelines are of the video {twice[0]!r}. Name the videos apart."
        )
    check_writable(timelines, chosen.capabilities, chosen.name)
    written = [as_written(each, chosen.capabilities) for each in timelines]
    with (
        _keeping(place),
        _keeping(place.with_suffix(chosen.beside)) if chosen.beside else nullcontext(),
    ):
        chosen.write(place, written, Options(frame_rate(rate), annotator, spreadsheet=spreadsheet))


@contextmanager
def _keeping(place: Path) -> Iterator[None]:
    """Keep a copy of the file at `place` while it is written; for good, where it then holds something else."""
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
    """Write one file for each of `timelines` into `folder`, named after its video; gives the paths.

    `format`, `rate`, `annotator` and `spreadsheet` are those of `write`.
    """
    chosen = choose("format", format, FORMATS)
    listed = as_list(timelines)
    names = short_names([timeline.video or "video1" for timeline in _named_apart(listed)])
    paths = [
        Path(path_text(folder)) / f"{safe_name(name.replace('/', '_')).name}{chosen.suffix}"
        for name in names
    ]
    taken = Counter(paths)
    for name, path in zip(names, paths, strict=True):
        # Where the file alone says which video it is, two that differ by their folders would not be found again.
        if taken[path] > 1 or ("/" in name and chosen.capabilities.video == "file"):
            what = f"two timelines are of the video {video_name(name)!r}, folders aside"
            raise OptionError(
                f"{path}: {what}. Name them apart, or use one file (.json, .csv) for all."
            )
    for path, timeline in zip(paths, listed, strict=True):
        write(path, timeline, format, rate, annotator, spreadsheet)
    return paths


def _named_apart(timelines: list[Timeline]) -> list[Timeline]:
    """The `timelines`; of several, one of a video without a name has its place as a name: video1, video2, ..."""
    if len(timelines) < 2:
        return timelines
    return [
        each if each.video else replace(each, video=f"video{n}")
        for n, each in enumerate(timelines, start=1)
    ]


def losses(timelines: AnyTimelines, format: str, rate: Rate | None = None) -> list[str]:
    """What `timelines` would lose in a `format` (of `rate` frames a second), in words; nothing where it holds all.

    >>> from stepcut.timeline import Segment
    >>> losses([Timeline([Segment(0, 1.0004, "pour")])], "vtt")
    ['times are rounded to a millisecond']
    """
    can, frames = choose("format", format, FORMATS).capabilities, frame_rate(rate)
    return list(
        dict.fromkeys(
            text for each in as_list(timelines) for text in stated_losses(can, each, frames)
        )
    )


def as_list(timelines: AnyTimelines) -> list[Timeline]:
    """The `timelines`, one, a list or a mapping from video names, as a list in which each has its name."""
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
    "losses",
    "read",
    "read_all",
    "read_folder",
    "write",
    "write_folder",
]
