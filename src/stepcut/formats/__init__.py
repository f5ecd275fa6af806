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
from stepcut.formats import (
    activitynet,
    audacity,
    egoprocel,
    elan,
    fiftyone,
    label_studio,
    mstcn,
    native,
    subtitles,
    tables,
)
from stepcut.formats.capabilities import Keeps, actual_losses, check_writable, kept, stated_losses
from stepcut.formats.guess import format_to_write, guess_format, label_files
from stepcut.formats.names import VIDEO_SUFFIXES, video_name
from stepcut.formats.options import Options, as_rate
from stepcut.timeline import Timeline

Rate = float | str | Fraction | None


@dataclass(frozen=True)
class Format:
    """One format: how to read it, how to write it, and what it keeps of a timeline."""

    name: str
    title: str
    suffix: str
    read: Callable[[Path, Options], list[Timeline]]
    write: Callable[[Path, Sequence[Timeline], Options], None]
    keeps: Keeps
    many: bool = False
    """Whether one file may hold the timelines of several videos."""

    @property
    def losses(self) -> list[str]:
        """What it does not keep, in words."""
        return stated_losses(self.keeps)


FORMATS: dict[str, Format] = {
    each.name: each
    for each in [
        Format("json", "stepcut JSON", ".json", native.read_native, native.write_native, native.KEEPS, True),
        Format("csv", "CSV", ".csv", tables.read_csv, tables.write_csv, tables.KEEPS, True),
        Format("tsv", "TSV", ".tsv", tables.read_csv, tables.write_tsv, tables.KEEPS, True),
        Format("elan", "ELAN", ".eaf", elan.read_elan, elan.write_elan, elan.KEEPS),
        Format(
            "label-studio",
            "Label Studio tasks with predictions, and its export",
            ".json",
            label_studio.read_label_studio,
            label_studio.write_label_studio,
            label_studio.KEEPS,
            True,
        ),
        Format(
            "egoprocel", "EgoProceL CSV", ".csv", egoprocel.read_egoprocel, egoprocel.write_egoprocel, egoprocel.KEEPS
        ),
        Format(
            "activitynet",
            "ActivityNet JSON",
            ".json",
            activitynet.read_activitynet,
            activitynet.write_activitynet,
            activitynet.KEEPS,
            True,
        ),
        Format("mstcn", "MS-TCN frames", ".txt", mstcn.read_mstcn, mstcn.write_mstcn, mstcn.KEEPS),
        Format("vtt", "WebVTT", ".vtt", subtitles.read_vtt, subtitles.write_vtt, subtitles.VTT),
        Format("srt", "SRT", ".srt", subtitles.read_srt, subtitles.write_srt, subtitles.SRT),
        Format(
            "fiftyone",
            "FiftyOne temporal detections",
            ".json",
            fiftyone.read_fiftyone,
            fiftyone.write_fiftyone,
            fiftyone.KEEPS,
            True,
        ),
        Format("audacity", "Audacity labels", ".txt", audacity.read_audacity, audacity.write_audacity, audacity.KEEPS),
    ]
}


def read(
    path: str | os.PathLike[str],
    format: str | None = None,
    rate: Rate = None,
    annotator: str | None = None,
    video: str | None = None,
) -> Timeline:
    """Read the timeline in a file.

    `format` is one of `FORMATS`, or None to find out. `rate` is the frame rate, for formats that count frames;
    `annotator` and `video` say whose labels and which video, where a file holds several.
    """
    timelines = read_all(path, format, rate, annotator)
    names = [timeline.video for timeline in timelines]
    if video is not None:
        matches = [t for t in timelines if video in (t.video, video_name(t.video))]
        if not matches:
            raise OptionError(f"{path}: {unknown('video', video, names)}")
        return matches[0]
    if len(timelines) != 1:
        raise AnnotationError(
            f"{path}: it holds {len(timelines)} videos ({', '.join(names[:5])}{', ...' if len(names) > 5 else ''}). "
            "Say which one with video=NAME, or read them all with read_folder()."
        )
    return timelines[0]


def read_all(
    path: str | os.PathLike[str], format: str | None = None, rate: Rate = None, annotator: str | None = None
) -> list[Timeline]:
    """Read all timelines in one file."""
    place, options = Path(path), Options(as_rate(rate), annotator)
    chosen = choose("format", format, FORMATS) if format else FORMATS[guess_format(place, options)]
    return chosen.read(place, options)


def read_folder(
    path: str | os.PathLike[str], format: str | None = None, rate: Rate = None, annotator: str | None = None
) -> dict[str, Timeline]:
    """Read every label file of a folder, or one file of many videos: video name -> timeline.

    The name of a video is without folder and suffix. Files of other kinds are passed over; a label file that makes
    no sense is an error, as is a video with two of them.
    """
    found: dict[str, Timeline] = {}
    origin: dict[str, Path] = {}
    for file in label_files(Path(path)):
        for timeline in read_all(file, format, rate, annotator):
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
    rate: Rate = None,
    annotator: str | None = None,
) -> None:
    """Write a timeline to a file; the suffix decides the format unless `format` names it.

    Several timelines go into one file where the format can hold them; otherwise use `write_folder`.
    """
    place, timelines = Path(path), as_list(timeline)
    chosen = choose("format", format, FORMATS) if format else FORMATS[format_to_write(place)]
    if len(timelines) != 1 and not chosen.many:
        raise OptionError(
            f"{place}: format {chosen.name!r} holds one video and {len(timelines)} were given. "
            "Write a folder instead: stepcut.formats.write_folder(), or stepcut convert IN FOLDER --to FORMAT."
        )
    check_writable(timelines, chosen.keeps, chosen.name)
    chosen.write(place, timelines, Options(as_rate(rate), annotator))


def write_folder(
    folder: str | os.PathLike[str],
    timelines: Sequence[Timeline] | Mapping[str, Timeline],
    format: str,
    rate: Rate = None,
    annotator: str | None = None,
) -> list[Path]:
    """Write one file per timeline, named after its video; gives the paths."""
    chosen = choose("format", format, FORMATS)
    paths: list[Path] = []
    for place, timeline in enumerate(as_list(timelines)):
        path = Path(folder) / f"{video_name(timeline.video) or f'video{place + 1}'}{chosen.suffix}"
        if path in paths:
            raise OptionError(f"{path}: two timelines are of the video {timeline.video!r}. Name the videos apart.")
        write(path, timeline, format, rate, annotator)
        paths.append(path)
    return paths


def losses(timelines: Sequence[Timeline], format: str, rate: Rate = None) -> list[str]:
    """What these timelines would lose in a format, in words; nothing where it can hold all they have.

    >>> from stepcut.timeline import Segment
    >>> losses([Timeline([Segment(0, 1.0004, "pour")])], "vtt")
    ['times are rounded to a millisecond']
    """
    keeps, options = choose("format", format, FORMATS).keeps, Options(as_rate(rate))
    return list(dict.fromkeys(text for each in timelines for text in actual_losses(each, keeps, options)))


def as_list(timelines: Timeline | Sequence[Timeline] | Mapping[str, Timeline]) -> list[Timeline]:
    """One timeline, a list of them, or a mapping from video names, as a list in which each has its name."""
    if isinstance(timelines, Timeline):
        return [timelines]
    if isinstance(timelines, Mapping):
        named = timelines.items()
        return [t if t.video else Timeline(t.segments, t.duration, t.steps, video=name) for name, t in named]
    return list(timelines)


__all__ = [
    "FORMATS",
    "VIDEO_SUFFIXES",
    "Format",
    "Keeps",
    "kept",
    "losses",
    "read",
    "read_all",
    "read_folder",
    "video_name",
    "write",
    "write_folder",
]
