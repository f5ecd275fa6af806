"""Formats of plain text: WebVTT, SRT, Audacity, frame ranges, MS-TCN, Praat TextGrid and XES."""

import html
import math
import re
import xml.etree.ElementTree as etree
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise, takewhile
from pathlib import Path

import numpy as np

from stepcut.files.atomic import write_text
from stepcut.files.names import video_name
from stepcut.formats.common import (
    MILLI,
    NOTHING,
    PROPOSAL,
    Options,
    build_segment,
    choose_tier,
    fail,
    need_seconds,
    read_text,
    refuse_background,
    seconds,
    whole_units,
    without_overlap,
)
from stepcut.timeline import BACKGROUND, Segment, Timeline

# ---------------------------------------------------------------------- subtitles

_TAG = re.compile(r"</?[a-zA-Z][^>]*>|<\d[\d:.]*>")


def read_vtt(text: str, path: Path, options: Options) -> list[Timeline]:
    """Read the cues of a WebVTT file without markup."""
    if not re.match(r"WEBVTT(\s|$)", text):
        fail(path, "does not begin with WEBVTT", "Add it as the first line", line=1)
    return read_srt(text, path, options, plain=lambda cue: html.unescape(_TAG.sub("", cue)))


def write_vtt(path: Path, timelines: Sequence[Timeline], _options: Options) -> None:
    """Write one cue per segment; a click lasts a millisecond."""
    (timeline,) = timelines
    cues = [f"{_times(s, '.')}\n{html.escape(s.step, quote=False)}\n" for s in timeline]
    write_text(path, "\n".join(["WEBVTT\n", *cues]))


def write_srt(path: Path, timelines: Sequence[Timeline], _options: Options) -> None:
    """Write one numbered cue per segment; a click lasts a millisecond."""
    (timeline,) = timelines
    for step in timeline.steps:
        if _is_timing(step):
            fail(path, f"the step {step!r} looks like the times of a cue", "Rename the step first")
    cues = [f"{i}\n{_times(s, ',')}\n{s.step}\n" for i, s in enumerate(timeline, start=1)]
    write_text(path, "\n".join(cues))


def read_srt(
    text: str, path: Path, _options: Options, plain: Callable[[str], str] = str
) -> list[Timeline]:
    """Read the cues: blocks with a line of times; notes and styles have none."""
    segments = []
    lines = ["", *text.split("\n"), ""]
    for number, line in enumerate(lines[1:], start=1):
        first, arrow, rest = line.partition("-->")
        if arrow and not (lines[number - 1].strip() and lines[max(number - 2, 0)].strip()):
            need_seconds(first, path, number)  # the first or second line of a block
        if not _is_timing(line):
            continue
        after = (lines[place] for place in range(number + 1, len(lines)))
        body = list(takewhile(lambda each: each.strip() and not _is_timing(each), after))
        follows = _is_timing(lines[number + 1 + len(body)])  # no blank line before the next cue
        if follows and len(body) > 1 and body[-1].strip().isdecimal():
            body.pop()  # the number of the next cue
        start = need_seconds(first, path, number)
        end = need_seconds((rest.split() or [""])[0], path, number)
        step = " ".join(plain("\n".join(body)).split())
        segments.append(build_segment(start, end, step, path, number))
    return [Timeline(segments, video=path.stem)]


def _is_timing(line: str) -> bool:
    """Whether a line has the times of a cue, or at least its start and the arrow."""
    first, arrow, _ = line.partition("-->")
    return bool(arrow) and seconds(first) is not None


def _times(segment: Segment, mark: str) -> str:
    first, last = whole_units(segment, MILLI)
    parted = [divmod(time, MILLI) for time in (first, max(last, first + 1))]
    return " --> ".join(
        f"{s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d}{mark}{rest:03d}" for s, rest in parted
    )


# ---------------------------------------------------------------------- Audacity, frame ranges

_RANGE = re.compile(r"\s*(\d+|\d*\.\d+|\d+\.\d*)(?:\s+|\s*-\s*)(\d+|\d*\.\d+|\d+\.\d*)\s+(\S.*)")


def read_audacity(content: str, path: Path, _options: Options) -> list[Timeline]:
    """Read a label track of Audacity; lines with a backslash are frequencies."""
    segments = []
    for line, text in enumerate(content.split("\n"), start=1):
        if not text.strip() or text.startswith("\\"):
            continue
        first, last, label, *_ = [*text.split("\t", 2), "", ""]
        start, end = need_seconds(first, path, line), need_seconds(last, path, line)
        segments.append(build_segment(start, end, label.strip(), path, line))
    return [Timeline(segments, video=path.stem)]


def write_audacity(path: Path, timelines: Sequence[Timeline], _options: Options) -> None:
    """Write a label track of Audacity: start, end and label, separated by tabs."""
    rows = (f"{s.start:.6f}\t{s.end:.6f}\t{s.step}\n" for s in timelines[0])
    write_text(path, "".join(rows))


def is_audacity(text: str) -> bool:
    """Whether the first line of a text begins with two times and a tab."""
    cells = text.lstrip().split("\n", 1)[0].split("\t")
    return len(cells) >= 2 and all(seconds(cell) is not None for cell in cells[:2])


def read_ranges(content: str, path: Path, options: Options) -> list[Timeline]:
    """Read lines of first frame, last frame and label (`5 78 G1`, `1-30 pour`).

    Frames count from 1, or from 0 if a range starts at 0; the last frame is part of the step. If
    any number has a decimal point, all are seconds.
    """
    lines: list[tuple[int, Fraction, Fraction, str]] = []
    for line, text in enumerate(content.split("\n"), start=1):
        match = _RANGE.fullmatch(text.rstrip())
        if match:
            lines.append((line, Fraction(match[1]), Fraction(match[2]), match[3]))
        elif text.strip():
            what = f"{text.strip()[:60]!r} is not 'first frame, last frame, label'"
            fail(path, what, "Write a line such as: 5 78 pour", line)
    in_seconds = "." in "".join("".join(text.split()[:2]) for text in content.split("\n"))
    unit = Fraction(1) if in_seconds else options.frame_rate(str(path))
    from_zero = any(first == 0 for _, first, _, _ in lines)
    shift = 0 if in_seconds or from_zero else 1
    segments = []
    for line, first, last, label in lines:
        if last < first:
            fail(path, f"the end {last} is before the start {first}", "Correct the line", line)
        if label not in NOTHING:
            start, end = (first - shift) / unit, (last - shift + (not in_seconds)) / unit
            segments.append(build_segment(float(start), float(end), label, path, line))
    return [Timeline(segments, video=path.stem)]


def write_ranges(path: Path, timelines: Sequence[Timeline], options: Options) -> None:
    """Write one line per segment: first frame, last frame, label; frames count from 1."""
    (timeline,) = timelines
    rate = options.frame_rate(str(path))
    refuse_background(timeline, path)
    units = [(*whole_units(segment, rate), segment.step) for segment in timeline.intervals]
    write_text(path, "".join(f"{first + 1} {last} {step}\n" for first, last, step in units))


def is_ranges(text: str) -> bool:
    """Whether every line of a text begins with two numbers."""
    return all(_RANGE.fullmatch(line.rstrip()) for line in text.split("\n") if line.strip())


# ---------------------------------------------------------------------- MS-TCN


def read_mstcn(content: str, path: Path, options: Options) -> list[Timeline]:
    """Read the frames of one video; `mapping.txt`, if present, has the order of the steps."""
    rate = options.frame_rate(str(path))
    frames = [line.strip() for line in content.rstrip("\n").split("\n")]
    mapping = find_mapping(path)
    occurring = list(dict.fromkeys(f for f in frames if f and f not in NOTHING))
    steps = read_mapping(mapping) if mapping else occurring
    place = {step: k for k, step in enumerate(steps)} | dict.fromkeys(NOTHING, BACKGROUND)
    for line, frame in enumerate(frames, start=1):
        if not frame:
            fail(path, "the line is empty", f"Write a step, or {NOTHING[0]!r} for none", line)
        if frame not in place:
            what = f"the step {frame!r} is not in {mapping}"
            fail(path, what, "Add it to that file, or correct the name", line)
    numbers = [place[frame] for frame in frames]
    return [Timeline.from_labels(numbers, float(rate), steps, video=path.stem)]


def write_mstcn(path: Path, timelines: Sequence[Timeline], options: Options) -> None:
    """Write the frames of one video, and add its steps to `mapping.txt`."""
    (timeline,) = timelines
    rate = options.frame_rate(str(path))
    refuse_background(timeline, path)
    count = math.ceil(Fraction(timeline.end) * rate - Fraction(1, 1000))
    if not count:
        fail(path, "the timeline has no length, so it has no frames", "Set its duration")
    if count > MOST_FRAMES:
        what = f"{timeline.end:g} s at {float(rate):g} frames per second are {count:,} lines"
        fail(path, what, "Correct the times or the rate, or choose another format")
    middles = (np.arange(count) + 0.5) / float(rate)  # a frame has the label of its middle
    numbers = timeline.labels(middles).tolist()
    folder = path.parent.parent if path.parent.name == "groundTruth" else path.parent
    mapping = find_mapping(path) or folder / "mapping.txt"
    old = read_numbered_names(mapping) if mapping.is_file() else []
    names = {name for _, name in old}
    nothing = next((name for name in NOTHING if name in names), NOTHING[0])
    new = [name for name in (nothing, *timeline.steps) if name not in names]
    every = [*old, *enumerate(new, start=old[-1][0] + 1 if old else 0)]
    write_text(mapping, "".join(f"{number} {name}\n" for number, name in every))
    lines = [nothing if k == BACKGROUND else timeline.steps[k] for k in numbers]
    write_text(path, "".join(f"{line}\n" for line in lines))


MOST_FRAMES = 50_000_000
"""The most lines of a file of frames: nine days at 60 frames per second."""


def read_mapping(path: Path) -> list[str]:
    """Return the steps of a `mapping.txt` by number, without background."""
    return [step for _, step in read_numbered_names(path) if step not in NOTHING]


def read_numbered_names(path: Path) -> list[tuple[int, str]]:
    """Return the numbers and names of lines `NUMBER name`, sorted by number."""
    numbered = []
    for line, text in enumerate(read_text(path).split("\n"), start=1):
        number, _, step = text.strip().partition(" ")
        if not text.strip():
            continue
        if not re.fullmatch("[0-9]{1,9}", number) or not step.strip():
            fail(path, f"{text!r} is not 'NUMBER step'", "Correct the line", line)
        numbered.append((int(number), step.strip()))
    return sorted(numbered)


def find_mapping(path: Path) -> Path | None:
    """Find the `mapping.txt` beside a file of frames or one folder up, or in `mapping/` there."""
    for name in ("mapping.txt", "mapping/mapping.txt"):
        for folder in (path.parent, path.parent.parent):
            if (folder / name).is_file():
                return folder / name
    return None


# ---------------------------------------------------------------------- Praat TextGrid

_MORE = re.compile(r"(.+) \((?:\d+|points)\)")
"""Further tiers of an annotator, for overlapping segments and clicks."""
_TOKEN = re.compile(
    r'"([^"]*(?:""[^"]*)*)"|(?<!\S)(-?\d[\d.]*(?:[eE][+-]?\d+)?)(?!\S)|(<exists>|<absent>)'
)


def read_textgrid(content: str, path: Path, options: Options) -> list[Timeline]:
    """Read the tier of the annotator, or the only one, in the long or short form."""
    values = _values(content, path)
    if not next(values).startswith("ooTextFile") or next(values) != "TextGrid":
        fail(path, "does not begin like a Praat TextGrid", "Save it in Praat as a text file")
    _, length, there = (next(values) for _ in range(3))
    found: dict[str, list[Segment]] = {}
    for _ in range(int(next(values)) if there == "<exists>" else 0):
        kind, name = next(values), next(values)
        base = _MORE.fullmatch(name)
        segments = found.setdefault(base[1] if base and base[1] in found else name, [])
        _, _, size = (next(values) for _ in range(3))
        for _ in range(int(size)):
            start = need_seconds(next(values), path)
            end = start if kind == "TextTier" else need_seconds(next(values), path)
            step = next(values).strip()
            if step:
                segments.append(build_segment(start, end, step, path))
    if not found:
        fail(path, "has no tier", "Add one in Praat and annotate in it")
    duration = need_seconds(length, path)
    return [Timeline(found[choose_tier(found, options, path)], duration, video=path.stem)]


def write_textgrid(path: Path, timelines: Sequence[Timeline], options: Options) -> None:
    """Write an interval tier without gaps, further ones for overlaps, and a tier of clicks."""
    (timeline,) = timelines
    name, length = options.annotator or PROPOSAL, max([timeline.end, *(s.end for s in timeline)])
    tiers = []
    for place, row in enumerate(without_overlap(timeline.intervals)):
        title = name if place == 0 else f"{name} ({place + 1})"
        tiers.append(_tier("IntervalTier", title, length, _intervals(row, length)))
    points = [f"number = {s.start!r}\nmark = {_quoted(s.step)}" for s in timeline.clicks]
    if points:
        tiers.append(_tier("TextTier", f"{name} (points)", length, points))
    head = f'File type = "ooTextFile"\nObject class = "TextGrid"\n\nxmin = 0\nxmax = {length!r}\n'
    body = "".join(f"item [{i}]:\n{tier}" for i, tier in enumerate(tiers, start=1))
    write_text(path, f"{head}tiers? <exists>\nsize = {len(tiers)}\nitem []:\n{body}")


def _tier(kind: str, name: str, length: float, entries: Sequence[str]) -> str:
    word = "intervals" if kind == "IntervalTier" else "points"
    body = "".join(f"{word} [{i}]:\n{entry}\n" for i, entry in enumerate(entries, start=1))
    head = f'class = "{kind}"\nname = {_quoted(name)}\nxmin = 0\nxmax = {length!r}\n'
    return f"{head}{word}: size = {len(entries)}\n{body}"


def _intervals(row: Sequence[Segment], length: float) -> list[str]:
    """List the segments, with empty intervals between them."""
    steps = {(s.start, s.end): s.step for s in row}
    edges = sorted({0.0, float(length), *(float(time) for s in row for time in (s.start, s.end))})
    pairs = list(pairwise(edges)) or [(0.0, 0.0)]
    return [
        f"xmin = {a!r}\nxmax = {b!r}\ntext = {_quoted(steps.get((a, b), ''))}" for a, b in pairs
    ]


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _values(content: str, path: Path) -> Iterator[str]:
    """Yield the texts and numbers of a file in order; refuse a truncated file."""
    for match in _TOKEN.finditer(content):
        yield match[1].replace('""', '"') if match[1] is not None else match[2] or match[3]
    fail(path, "is truncated", "Save it again in Praat")


# ---------------------------------------------------------------------- XES

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""The date of the first frame, because a video has none."""


def write_xes(path: Path, timelines: Sequence[Timeline], _options: Options) -> None:
    """Write an event log (IEEE 1849): one trace per video.

    A segment is a start and a complete event, a click only the latter.
    """
    log = etree.Element("log", {"xes.version": "1.0", "xmlns": "http://www.xes-standard.org/"})
    for name in ("Concept", "Time", "Lifecycle"):
        uri = f"http://www.xes-standard.org/{name.lower()}.xesext"
        etree.SubElement(log, "extension", name=name, prefix=name.lower(), uri=uri)
    etree.SubElement(log, "classifier", name="Activity", keys="concept:name")
    for place, timeline in enumerate(timelines, start=1):
        trace = etree.SubElement(log, "trace")
        name = video_name(timeline.video) or f"video{place}"
        etree.SubElement(trace, "string", key="concept:name", value=name)
        # At one time, segments end before others start.
        events = [(s.end, -1, "complete", n) for n, s in enumerate(timeline)]
        events += [(s.start, n, "start", n) for n, s in enumerate(timeline) if not s.is_click]
        for time, _, transition, number in sorted(events):
            segment, event = timeline.segments[number], etree.SubElement(trace, "event")
            values = [
                ("string", "concept:name", segment.step),
                ("string", "lifecycle:transition", transition),
                ("date", "time:timestamp", (EPOCH + timedelta(seconds=time)).isoformat()),
                ("string", "concept:instance", str(number)),
            ]
            if segment.confidence is not None:
                values.append(("float", "confidence", repr(segment.confidence)))
            for kind, key, value in values:
                etree.SubElement(event, kind, key=key, value=value)
    etree.indent(log, "")
    head = '<?xml version="1.0" encoding="UTF-8"?>'
    write_text(path, f"{head}\n{etree.tostring(log, 'unicode')}\n")
