"""Files of timelines that people already have: read and write them, the format chosen by suffix and content.

>>> import tempfile, pathlib
>>> from stepcut.timeline import Segment, Timeline
>>> path = pathlib.Path(tempfile.mkdtemp()) / "sandwich.csv"
>>> write(path, Timeline([Segment(0, 2.5, "butter bread")]))
>>> read(path).sequence()
['butter bread']
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from stepcut.errors import AnnotationError, OptionError, choose, unknown
from stepcut.formats import egoprocel, native, tables
from stepcut.formats.guess import format_to_write, guess_format, label_files
from stepcut.formats.keeps import Keeps, check_writable
from stepcut.timeline import Timeline

Reader = Callable[[Path, Fraction | None], list[Timeline]]
Writer = Callable[[Path, Sequence[Timeline], Fraction | None], None]


@dataclass(frozen=True)
class Format:
    """One format: how to read it, how to write it, and what it keeps of a timeline."""

    name: str
    title: str
    suffix: str
    read: Reader
    write: Writer
    keeps: Keeps
    many: bool = False
    """Whether one file may hold the timelines of several videos."""
    needs_rate: bool = False
    """Whether it counts frames and does not say how many there are in a second."""


FORMATS: dict[str, Format] = {
    each.name: each
    for each in [
        Format("json", "stepcut JSON", ".json", native.read_native, native.write_native, native.KEEPS, many=True),
        Format("csv", "CSV", ".csv", tables.read_csv, tables.write_csv, tables.KEEPS, many=True),
        Format("tsv", "TSV", ".tsv", tables.read_csv, tables.write_tsv, tables.KEEPS, many=True),
        Format(
            "egoprocel", "EgoProceL CSV", ".csv", egoprocel.read_egoprocel, egoprocel.write_egoprocel, egoprocel.KEEPS
        ),
    ]
}


def read(
    path: str | os.PathLike[str],
    format: str | None = None,
    rate: float | str | Fraction | None = None,
    video: str | None = None,
) -> Timeline:
    """Read the timeline in a file; in a file of many videos, `video` says which one.

    `format` is one of `FORMATS`, or None to find out; `rate` is the frame rate, for formats that count frames.
    """
    timelines = read_all(path, format, rate)
    names = [timeline.video for timeline in timelines]
    if video is not None:
        if video not in names:
            raise OptionError(f"{path}: {unknown('video', video, names)}")
        return timelines[names.index(video)]
    if len(timelines) != 1:
        raise AnnotationError(
            f"{path}: it holds {len(timelines)} videos ({', '.join(names[:5])}{', ...' if len(names) > 5 else ''}). "
            "Say which one with video=NAME, or read them all with read_folder()."
        )
    return timelines[0]


def read_all(
    path: str | os.PathLike[str], format: str | None = None, rate: float | str | Fraction | None = None
) -> list[Timeline]:
    """Read all timelines in one file."""
    place = Path(path)
    chosen = choose("format", format, FORMATS) if format else FORMATS[guess_format(place)]
    return chosen.read(place, as_rate(rate))


def read_folder(
    path: str | os.PathLike[str], format: str | None = None, rate: float | str | Fraction | None = None
) -> dict[str, Timeline]:
    """Read every label file of a folder (or one file of many videos): video name -> timeline.

    The name of a video is its file's name without the suffix. Files of other kinds are passed over; a label file
    that makes no sense is an error, as is a video with two of them.
    """
    found: dict[str, Timeline] = {}
    origin: dict[str, Path] = {}
    for file in label_files(Path(path)):
        for timeline in read_all(file, format, rate):
            name = video_name(timeline.video) or file.stem
            if name in found:
                raise AnnotationError(
                    f"{file}: the video {name!r} is in {origin[name]} already. Keep one of the two, or read one file."
                )
            found[name], origin[name] = timeline, file
    if not found:
        raise AnnotationError(f"{path}: no label file in it. Formats: {', '.join(FORMATS)} (docs/formats.md).")
    return found


def write(
    path: str | os.PathLike[str],
    timeline: Timeline | Sequence[Timeline] | Mapping[str, Timeline],
    format: str | None = None,
    rate: float | str | Fraction | None = None,
) -> None:
    """Write a timeline to a file; the suffix decides the format unless `format` names it.

    Several timelines go into one file where the format can hold them; otherwise use `write_folder`.
    """
    place = Path(path)
    timelines = as_list(timeline)
    chosen = choose("format", format, FORMATS) if format else FORMATS[format_to_write(place, rate)]
    if len(timelines) != 1 and not chosen.many:
        raise OptionError(
            f"{place}: format {chosen.name!r} holds one video and {len(timelines)} were given. "
            "Write a folder: stepcut.formats.write_folder(), or stepcut convert IN DIR/."
        )
    check_writable(timelines, chosen.keeps, chosen.name)
    chosen.write(place, timelines, as_rate(rate))


def write_folder(
    folder: str | os.PathLike[str],
    timelines: Sequence[Timeline] | Mapping[str, Timeline],
    format: str,
    rate: float | str | Fraction | None = None,
) -> list[Path]:
    """Write one file per timeline, named after its video; gives the paths."""
    chosen = choose("format", format, FORMATS)
    paths = []
    for place, timeline in enumerate(as_list(timelines)):
        path = Path(folder) / f"{video_name(timeline.video) or f'video{place + 1}'}{chosen.suffix}"
        if path in paths:
            raise OptionError(f"{path}: two timelines are of the video {timeline.video!r}. Name the videos apart.")
        write(path, timeline, format, rate)
        paths.append(path)
    return paths


def as_list(timelines: Timeline | Sequence[Timeline] | Mapping[str, Timeline]) -> list[Timeline]:
    """One timeline, a list of them, or a mapping from video names, as a list in which each has its name."""
    if isinstance(timelines, Timeline):
        return [timelines]
    if isinstance(timelines, Mapping):
        return [
            t if t.video else Timeline(t.segments, t.duration, t.steps, video=name) for name, t in timelines.items()
        ]
    return list(timelines)


def as_rate(rate: float | str | Fraction | None) -> Fraction | None:
    """A frame rate as a fraction: 30, "30000/1001", or the float 29.97, which is meant to be 30000/1001.

    >>> as_rate("30000/1001"), as_rate(29.97), as_rate(25)
    (Fraction(30000, 1001), Fraction(30000, 1001), Fraction(25, 1))
    """
    if rate is None:
        return None
    try:
        exact = Fraction(rate)
    except (ValueError, ZeroDivisionError, OverflowError, TypeError) as error:
        raise OptionError(
            f"rate={rate!r} is not a frame rate. Give frames per second: 30, 29.97, 30000/1001."
        ) from error
    if exact <= 0:
        raise OptionError(f"rate={rate!r} must be above zero. Give frames per second: 30, 29.97, 30000/1001.")
    for ntsc in (Fraction(24000, 1001), Fraction(30000, 1001), Fraction(60000, 1001)):
        if abs(exact - ntsc) < Fraction(1, 200) and exact.denominator != 1:
            return ntsc
    return exact.limit_denominator(1_000_000)


def video_name(video: str) -> str:
    """The name of a video without folder and suffix.

    >>> video_name("films/a.b.mp4"), video_name("S07_Eggs_7151062-1110"), video_name("01.tent.090617.gopro")
    ('a.b', 'S07_Eggs_7151062-1110', '01.tent.090617.gopro')
    """
    name = video.replace("\\", "/").rsplit("/", 1)[-1]
    stem, dot, suffix = name.rpartition(".")
    return stem if dot and suffix.lower() in VIDEO_SUFFIXES else name


VIDEO_SUFFIXES = frozenset(
    ("mp4", "mkv", "avi", "mov", "webm", "m4v", "mpg", "mpeg", "wmv", "flv", "ts", "mts", "m2ts", "ogv", "3gp")
)

__all__ = [
    "FORMATS",
    "Format",
    "Keeps",
    "read",
    "read_all",
    "read_folder",
    "write",
    "write_folder",
]
