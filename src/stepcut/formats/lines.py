"""Formats of plain text: WebVTT, SRT, Audacity, frame ranges, MS-TCN, Praat TextGrid and XES."""

import html
import math
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise, takewhile
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np

from stepcut.files import write_text
from stepcut.files.names import video_name
from stepcut.formats.common import (
    MILLI,
    NOTHING,
    PROPOSAL,
    Options,
    build_segment,
    choose_tier,
    flaw,
    need_seconds,
    read_text,
    refusals,
    seconds,
    whole_units,
    without_overlap,
)
from stepcut.timeline import BACKGROUND, Segment, Timeline

# ---------- subtitles

_TAG = re.compile(r"</?[a-zA-Z][^>]*>|<\d[\d:.]*>")


def read_vtt(text: str, options: Options) -> Timeline:
    if not re.match(r"WEBVTT(\s|$)", text):
        raise flaw("does not begin with WEBVTT", "Add it as the first line", line=1)
    return read_srt(text, options, plain=lambda cue: html.unescape(_TAG.sub("", cue)))


def write_vtt(timeline: Timeline, _options: Options) -> str:
    cues = (f"{_times(s, '.')}\n{html.escape(s.step, quote=False)}\n" for s in timeline)
    return "\n".join(["WEBVTT\n", *cues])


def write_srt(timeline: Timeline, _options: Options) -> str:
    if wrong := next((step for step in timeline.steps if _is_timing(step)), None):
        raise flaw(f"the step {wrong!r} looks like the times of a cue", "Rename the step first")
    return "\n".join(f"{i}\n{_times(s, ',')}\n{s.step}\n" for i, s in enumerate(timeline, start=1))


def read_srt(text: str, _options: Options, plain: Callable[[str], str] = str) -> Timeline:
    """Read the cues: blocks with a line of times; notes and styles have none."""
    segments = []
    lines = ["", *text.split("\n"), ""]
    for number, line in enumerate(lines[1:], start=1):
        first, arrow, rest = line.partition("-->")
        if arrow and not (lines[number - 1].strip() and lines[max(number - 2, 0)].strip()):
            need_seconds(first, number)  # the first or second line of a block
        if not _is_timing(line):
            continue
        after = (lines[place] for place in range(number + 1, len(lines)))
        body = list(takewhile(lambda each: each.strip() and not _is_timing(each), after))
        follows = _is_timing(lines[number + 1 + len(body)])  # no blank line before the next cue
        if follows and len(body) > 1 and body[-1].strip().isdecimal():
            body.pop()  # the number of the next cue
        start, end = (need_seconds(time, number) for time in (first, (rest.split() or [""])[0]))
        step = " ".join(plain("\n".join(body)).split())
        segments.append(build_segment(start, end, step, number))
    return Timeline(segments)


def _is_timing(line: str) -> bool:
    first, arrow, _ = line.partition("-->")
    return bool(arrow) and seconds(first) is not None


def _times(segment: Segment, mark: str) -> str:
    first, last = whole_units(segment, MILLI)
    parted = [divmod(time, MILLI) for time in (first, max(last, first + 1))]
    return " --> ".join(
        f"{s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d}{mark}{rest:03d}" for s, rest in parted
    )


# ---------- Audacity, frame ranges

_RANGE = re.compile(r"\s*(\d+|\d*\.\d+|\d+\.\d*)(?:\s+|\s*-\s*)(\d+|\d*\.\d+|\d+\.\d*)\s+(\S.*)")


def read_audacity(text: str, _options: Options) -> Timeline:
    """Read a label track of Audacity; lines with a backslash are frequencies."""
    segments = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip() and not line.startswith("\\"):
            first, last, label, *_ = [*line.split("\t", 2), "", ""]
            times = need_seconds(first, number), need_seconds(last, number)
            segments.append(build_segment(*times, label.strip(), number))
    return Timeline(segments)


def write_audacity(timeline: Timeline, _options: Options) -> str:
    return "".join(f"{s.start:.6f}\t{s.end:.6f}\t{s.step}\n" for s in timeline)


def is_audacity(text: str) -> bool:
    cells = text.lstrip().split("\n", 1)[0].split("\t")
    return len(cells) >= 2 and None not in map(seconds, cells[:2])


def read_ranges(text: str, options: Options) -> Timeline:
    """Read lines of first frame, last frame and label (`5 78 G1`, `1-30 pour`).

    Frames count from 1, or from 0 if a range starts at 0; the last frame is part of the step. If
    any number has a decimal point, all are seconds.
    """
    ranges: list[tuple[int, Fraction, Fraction, str]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if match := _RANGE.fullmatch(line.rstrip()):
            ranges.append((number, Fraction(match[1]), Fraction(match[2]), match[3]))
        elif line.strip():
            what = f"{line.strip()[:60]!r} is not 'first frame, last frame, label'"
            raise flaw(what, "Write a line such as: 5 78 pour", number)
    in_seconds = any("." in "".join(line.split()[:2]) for line in text.split("\n"))
    unit = Fraction(1) if in_seconds else options.needed_rate()
    shift = 0 if in_seconds or any(first == 0 for _, first, _, _ in ranges) else 1
    segments = []
    for number, first, last, label in ranges:
        if last < first:
            raise flaw(f"the end {last} is before the start {first}", "Correct the line", number)
        if label not in NOTHING:
            ends = float((first - shift) / unit), float((last - shift + (not in_seconds)) / unit)
            segments.append(build_segment(*ends, label, number))
    return Timeline(segments)


def write_ranges(timeline: Timeline, options: Options) -> str:
    rate = options.needed_rate()
    _refuse_background(timeline)
    units = [(*whole_units(segment, rate), segment.step) for segment in timeline.intervals]
    return "".join(f"{first + 1} {last} {step}\n" for first, last, step in units)


def is_ranges(text: str) -> bool:
    return all(_RANGE.fullmatch(line.rstrip()) for line in text.split("\n") if line.strip())


def _refuse_background(timeline: Timeline) -> None:
    if wrong := next((step for step in timeline.steps if step in NOTHING), None):
        raise flaw(f"the step name {wrong!r} means background", "Rename the step first")


# ---------- MS-TCN

MOST_FRAMES = 50_000_000  # nine days at 60 frames per second


def read_mstcn(text: str, options: Options) -> Timeline:
    """Read a step per line and frame; `mapping.txt`, if present, has the order of the steps."""
    rate = options.needed_rate()
    frames = [line.strip() for line in text.rstrip("\n").split("\n")]
    mapping = find_mapping(options.path)
    occurring = list(dict.fromkeys(f for f in frames if f and f not in NOTHING))
    numbered = read_numbered_names(mapping) if mapping else list(enumerate(occurring))
    nothing = [*NOTHING, *(name for number, name in numbered if number < 0)]
    steps = [name for _, name in numbered if name not in nothing]
    place = {step: k for k, step in enumerate(steps)} | dict.fromkeys(nothing, BACKGROUND)
    for line, frame in enumerate(frames, start=1):
        if not frame:
            raise flaw("the line is empty", f"Write a step, or {NOTHING[0]!r} for none", line)
        if frame not in place:
            what = f"the step {frame!r} is not in {mapping}"
            raise flaw(what, "Add it to that file, or correct the name", line)
    return Timeline.from_labels([place[frame] for frame in frames], float(rate), steps)


def write_mstcn(timeline: Timeline, options: Options) -> str:
    """Write the frames of one video, and add its steps to `mapping.txt`."""
    rate, path = options.needed_rate(), options.path
    _refuse_background(timeline)
    count = math.ceil(Fraction(timeline.end) * rate - Fraction(1, 1000))
    if not count:
        raise flaw("the timeline has no length, so it has no frames", "Set its duration")
    if count > MOST_FRAMES:
        what = f"{timeline.end:g} s at {float(rate):g} frames per second are {count:,} lines"
        raise flaw(what, "Correct the times or the rate, or choose another format")
    middles = (np.arange(count) + 0.5) / float(rate)  # a frame has the label of its middle
    folder = path.parent.parent if path.parent.name == "groundTruth" else path.parent
    mapping = find_mapping(path) or folder / "mapping.txt"
    old = read_numbered_names(mapping) if mapping.is_file() else []
    names = {name for _, name in old}
    nothing = next((name for name in NOTHING if name in names), NOTHING[0])
    new = [name for name in (nothing, *timeline.steps) if name not in names]
    every = [*old, *enumerate(new, start=old[-1][0] + 1 if old else 0)]
    write_text(mapping, "".join(f"{number} {name}\n" for number, name in every))
    words = [*timeline.steps, nothing]  # background is -1
    return "".join(f"{words[k]}\n" for k in timeline.labels(middles).tolist())


def read_mapping(path: Path) -> list[str]:
    return [step for _, step in read_numbered_names(path) if step not in NOTHING]


def read_numbered_names(path: Path) -> list[tuple[int, str]]:
    numbered = []
    for line, text in enumerate(read_text(path).split("\n"), start=1):
        number, _, step = text.strip().partition(" ")
        if not text.strip():
            continue
        if not re.fullmatch("-1|[0-9]{1,9}", number) or not step.strip():
            with refusals(path):
                raise flaw(f"{text!r} is not 'NUMBER step'", "Correct the line", line)
        numbered.append((int(number), step.strip()))
    return sorted(numbered)


def find_mapping(path: Path) -> Path | None:
    names, folders = ("mapping.txt", "mapping/mapping.txt"), (path.parent, path.parent.parent)
    places = (folder / name for name in names for folder in folders)
    return next((place for place in places if place.is_file()), None)


# ---------- Praat TextGrid

# Further tiers of an annotator, for overlapping segments and clicks.
_MORE = re.compile(r"(.+) \((?:\d+|points)\)")
_TOKEN = re.compile(
    r'"([^"]*(?:""[^"]*)*)"|(?<!\S)(-?\d[\d.]*(?:[eE][+-]?\d+)?)(?!\S)|(<exists>|<absent>)'
)


def read_textgrid(text: str, options: Options) -> Timeline:
    values = _values(text)
    if not next(values).startswith("ooTextFile") or next(values) != "TextGrid":
        raise flaw("does not begin like a Praat TextGrid", "Save it in Praat as a text file")
    _, length, there = (next(values) for _ in range(3))
    found: dict[str, list[Segment]] = {}
    for _ in range(int(next(values)) if there == "<exists>" else 0):
        kind, name = next(values), next(values)
        base = _MORE.fullmatch(name)
        segments = found.setdefault(base[1] if base and base[1] in found else name, [])
        _, _, size = (next(values) for _ in range(3))
        for _ in range(int(size)):
            start = need_seconds(next(values))
            end = start if kind == "TextTier" else need_seconds(next(values))
            if step := next(values).strip():
                segments.append(build_segment(start, end, step))
    if not found:
        raise flaw("has no tier", "Add one in Praat and annotate in it")
    return Timeline(found[choose_tier(found, options)], need_seconds(length))


def write_textgrid(timeline: Timeline, options: Options) -> str:
    name, length = options.annotator or PROPOSAL, max([timeline.end, *(s.end for s in timeline)])
    tiers = []
    for place, row in enumerate(without_overlap(timeline.intervals), start=1):
        steps = {(s.start, s.end): s.step for s in row}
        edges = sorted({0.0, float(length), *(float(t) for s in row for t in (s.start, s.end))})
        intervals = [
            f"xmin = {a!r}\nxmax = {b!r}\ntext = {_quoted(steps.get((a, b), ''))}"
            for a, b in list(pairwise(edges)) or [(0.0, 0.0)]
        ]
        title = name if place == 1 else f"{name} ({place})"
        tiers.append(("IntervalTier", title, "intervals", intervals))
    points = [f"number = {s.start!r}\nmark = {_quoted(s.step)}" for s in timeline.clicks]
    if points:
        tiers.append(("TextTier", f"{name} (points)", "points", points))
    ends = f"xmin = 0\nxmax = {length!r}\n"
    text = f'File type = "ooTextFile"\nObject class = "TextGrid"\n\n{ends}'
    text += f"tiers? <exists>\nsize = {len(tiers)}\nitem []:\n"
    for number, (kind, title, word, entries) in enumerate(tiers, start=1):
        text += f'item [{number}]:\nclass = "{kind}"\nname = {_quoted(title)}\n{ends}'
        text += f"{word}: size = {len(entries)}\n"
        text += "".join(f"{word} [{i}]:\n{entry}\n" for i, entry in enumerate(entries, start=1))
    return text


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _values(text: str) -> Iterator[str]:
    """Yield the texts and numbers of a file in order; refuse a truncated file."""
    for match in _TOKEN.finditer(text):
        yield match[1].replace('""', '"') if match[1] is not None else match[2] or match[3]
    raise flaw("is truncated", "Save it again in Praat")


# ---------- XES

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)  # the date of the first frame, because a video has none
XES = """<?xml version="1.0" encoding="UTF-8"?>
<log xes.version="1.0" xmlns="http://www.xes-standard.org/">
<extension name="Concept" prefix="concept" uri="http://www.xes-standard.org/concept.xesext"/>
<extension name="Time" prefix="time" uri="http://www.xes-standard.org/time.xesext"/>
<extension name="Lifecycle" prefix="lifecycle" uri="http://www.xes-standard.org/lifecycle.xesext"/>
<classifier name="Activity" keys="concept:name"/>"""


def write_xes(timelines: Sequence[Timeline], _options: Options) -> str:
    """Write an event log (IEEE 1849): a trace per video; a click has only a complete event."""
    lines = [XES]
    for place, timeline in enumerate(timelines, start=1):
        name = video_name(timeline.video) or f"video{place}"
        lines.append(f'<trace>\n<string key="concept:name" value={quoteattr(name)}/>')
        # At one time, segments end before others start.
        events = [(s.end, -1, "complete", n) for n, s in enumerate(timeline)]
        events += [(s.start, n, "start", n) for n, s in enumerate(timeline) if not s.is_click]
        for time, _, transition, number in sorted(events):
            segment = timeline.segments[number]
            values = [
                ("string", "concept:name", segment.step),
                ("string", "lifecycle:transition", transition),
                ("date", "time:timestamp", (EPOCH + timedelta(seconds=time)).isoformat()),
                ("string", "concept:instance", str(number)),
            ]
            if segment.confidence is not None:
                values.append(("float", "confidence", repr(segment.confidence)))
            rows = [f'<{kind} key="{key}" value={quoteattr(text)}/>' for kind, key, text in values]
            lines += ["<event>", *rows, "</event>"]
        lines.append("</trace>")
    return "\n".join([*lines, "</log>\n"])
