"""Write timelines to label files, in the names and times of each format."""

import logging
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path
from unicodedata import normalize

from stepcut.errors import (
    AnnotationError,
    OptionError,
    as_items,
    placed,
    printable,
)
from stepcut.files import path_text, write_bytes, write_json
from stepcut.files.names import safe_name, short_names, video_name
from stepcut.formats.common import (
    LONGEST_VIDEO,
    UNPRINTABLE,
    Options,
    frame_rate,
    refusals,
    rounded,
    shown_videos,
)
from stepcut.formats.registry import FORMATS, Format, choose_format, format_to_write
from stepcut.settings import Rate
from stepcut.timeline import Timeline

log = logging.getLogger("stepcut")
# The date of an ELAN file or a BORIS project, which is ignored when files are compared.
_DATE = re.compile(rb'date"?[=:]\s*"[^"]*"', re.IGNORECASE)
AnyTimelines = Timeline | Sequence[Timeline] | Mapping[str, Timeline]


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

    Examples
    --------
    >>> sc.write("sandwich.vtt", labels)
    >>> Path("sandwich.vtt").read_text().split()[0]
    'WEBVTT'
    """
    place = Path(path_text(path))
    form = choose_format(format) if format else FORMATS[format_to_write(place)]
    timelines = [
        replace(each, video=printable(each.video)) for each in _named_apart(in_files(timeline))
    ]
    if len(timelines) != 1 and not form.many:
        what = f"{place}: format {form.name!r} stores one video per file, but there are"
        advice = "Write a folder: write_folder(), stepcut convert IN FOLDER."
        raise OptionError(f"{what} {len(timelines)}. {advice}", path=place)
    videos = Counter(form.video(each.video) for each in timelines)
    if twice := [video for video, times in videos.items() if times > 1]:
        what = f"{place}: two timelines have the video name {twice[0]!r}"
        raise AnnotationError(f"{what}. Rename one of them.", path=place, video=twice[0])
    if not form.links:
        named = zip(timelines, shown_videos(timelines), strict=True)
        timelines = [replace(each, video=name) for each, name in named]
    written = []
    for each in timelines:
        with placed(path=str(place), video=each.video):
            written.append(_as_written(each, form))
    options = Options(frame_rate(rate), annotator, spreadsheet=spreadsheet, path=place)
    beside = _keeping(place.with_suffix(form.beside)) if form.beside else nullcontext()
    with _keeping(place), beside, refusals(place):
        content = form.write(written if form.many else written[0], options)
        if isinstance(content, str | bytes):
            write_bytes(place, content.encode() if isinstance(content, str) else content)
        else:
            write_json(place, content)
    points = sum(len(each.clicks) for each in timelines)
    if points and "clicks" not in form.keeps.split():
        what = "1 click" if points == 1 else f"{points} clicks"
        log.warning("%s: format %r does not support clicks; %s dropped", place, form.name, what)


def _as_written(timeline: Timeline, form: Format) -> Timeline:
    where = timeline.video or "timeline"
    keeps = form.keeps.split()

    def refusal(what: str, advice: str) -> AnnotationError:
        return AnnotationError(f"{where}: {what}. {advice}.")

    held = timeline.segments if "clicks" in keeps else timeline.intervals
    if not held and "empty" not in keeps:
        raise refusal(f"format {form.name!r} cannot store a timeline without segments", "Use JSON")
    for segment in timeline:
        if not 0 <= segment.start <= segment.end < LONGEST_VIDEO:
            times = f"{segment.step!r} from {segment.start:g} s to {segment.end:g} s"
            raise refusal(f"{times} is outside the video", "Use timeline.crop(0, timeline.end)")
    names: dict[str, str] = {}
    for step in timeline.steps:
        if not step.strip() or UNPRINTABLE.search(step):
            what = f"the name {step!r} is empty or contains control characters"
            raise refusal(what, "Rename it")
        try:
            name = form.names(step)
        except ValueError as error:
            what = f"{error}, which format {form.name!r} does not support"
            raise refusal(what, "Rename the step") from error
        if name in names.values():
            what = f"two steps have the name {name!r} in format {form.name!r}"
            raise refusal(what, "Rename one")
        names[step] = name
    if any(step != name for step, name in names.items()):
        timeline = timeline.rename(names)
    return rounded(timeline, form.unit) if form.unit else timeline


def left_out(timelines: AnyTimelines, format: str) -> list[str]:
    form, listed = choose_format(format), as_list(timelines)
    have = {
        "confidence": any(s.confidence is not None for each in listed for s in each),
        "duration": any(each.duration is not None for each in listed),
        "steps": any(set(each.steps) != set(each.sequence()) for each in listed),
    }
    words = {"duration": "the length of the video", "steps": "steps that do not occur"}
    keeps = form.keeps.split()
    return [words.get(what, what) for what, there in have.items() if there and what not in keeps]


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

    Examples
    --------
    >>> [file.name for file in write_folder("labels", {"video1": labels}, "elan")]
    ['video1.eaf']
    """
    form = choose_format(format)
    listed = in_files(timelines)
    names = short_names([timeline.video or "video1" for timeline in _named_apart(listed)])
    paths = [
        Path(path_text(folder)) / f"{safe_name(name.replace('/', '_')).name}{form.suffix}"
        for name in names
    ]
    # Some disks ignore case and the form of Unicode.
    taken = Counter(normalize("NFC", str(path)).casefold() for path in paths)
    for name, path in zip(names, paths, strict=True):
        alike = taken[normalize("NFC", str(path)).casefold()] > 1
        # If only the file name identifies the video, its folders would be lost.
        if alike or ("/" in name and "video" not in form.keeps.split()):
            what = f"{path}: two timelines have the video name {video_name(name)!r} in different"
            advice = "Rename one, or write one file (.json, .csv) for all."
            raise OptionError(f"{what} folders or spellings. {advice}", path=path, video=name)
    for path, timeline in zip(paths, listed, strict=True):
        write(path, timeline, format, rate, annotator, spreadsheet)
    return paths


def _named_apart(timelines: list[Timeline]) -> list[Timeline]:
    several = len(timelines) > 1
    return [
        replace(each, video=f"video{n}") if several and not each.video else each
        for n, each in enumerate(timelines, start=1)
    ]


def in_files(timelines: AnyTimelines) -> list[Timeline]:
    """The timelines, with all parts of a file as one, in the time of the file."""
    found: dict[str, Timeline] = {}
    listed = as_list(timelines)
    for place, each in enumerate(listed):
        whole = each.in_file()
        key = whole.video if whole is not each else f"{place}#"
        before = found.get(key, whole)
        segments = before.segments if before is whole else (*before, *whole)
        steps = tuple(dict.fromkeys((*before.steps, *whole.steps)))
        found[key] = replace(whole, segments=segments, steps=steps) if key in found else whole
    return list(found.values())


def as_list(timelines: AnyTimelines) -> list[Timeline]:
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
