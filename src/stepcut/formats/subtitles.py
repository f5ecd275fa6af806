"""Text formats: WebVTT and SRT subtitles, Audacity labels, and frame ranges."""

import html
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

from stepcut.files.atomic import write_text
from stepcut.formats.common import (
    MILLI,
    NONE,
    NOTHING,
    Options,
    build_segment,
    need_seconds,
    refuse_background,
    seconds,
    whole_units,
)
from stepcut.formats.text import fail
from stepcut.timeline import Segment, Timeline

_TAG = re.compile(r"</?[a-zA-Z][^>]*>|<\d[\d:.]*>")
_RANGE = re.compile(r"\s*(\d+|\d*\.\d+|\d+\.\d*)(?:\s+|\s*-\s*)(\d+|\d*\.\d+|\d+\.\d*)\s+(\S.*)")


def read_vtt(text: str, path: Path, _options: Options = NONE) -> list[Timeline]:
    """Read the cues of a WebVTT file without markup."""
    if not re.match(r"WEBVTT(\s|$)", text):
        fail(path, "does not begin with WEBVTT", "Add it as the first line", line=1)
    return read_srt(text, path, plain=lambda cue: html.unescape(_TAG.sub("", cue)))


def write_vtt(path: Path, timelines: Sequence[Timeline], _options: Options = NONE) -> None:
    """Write one cue per segment; a click lasts a millisecond."""
    (timeline,) = timelines
    cues = [f"{_times(s, '.')}\n{html.escape(s.step, quote=False)}\n" for s in timeline]
    write_text(path, "\n".join(["WEBVTT\n", *cues]))


def write_srt(path: Path, timelines: Sequence[Timeline], _options: Options = NONE) -> None:
    """Write one numbered cue per segment; a click lasts a millisecond."""
    (timeline,) = timelines
    for step in timeline.steps:
        if _is_timing(step):
            fail(path, f"the step {step!r} looks like the times of a cue", "Rename the step first")
    cues = [f"{i}\n{_times(s, ',')}\n{s.step}\n" for i, s in enumerate(timeline, start=1)]
    write_text(path, "\n".join(cues))


def read_srt(
    text: str, path: Path, _options: Options = NONE, plain: Callable[[str], str] = str
) -> list[Timeline]:
    """Read the cues: blocks with a line of times; notes and styles have none."""
    segments = []
    block: list[tuple[int, str]] = []
    for number, line in enumerate([*text.split("\n"), ""], start=1):
        timing = next((i for i, (_, each) in enumerate(block[:2]) if _is_timing(each)), None)
        # The next cue may follow without a blank line before it.
        follows = timing is not None and _is_timing(line)
        if line.strip() and not follows:
            block.append((number, line))
            continue
        elsewhere = next((each for each in block[:2] if "-->" in each[1]), None)
        if timing is None and elsewhere is not None:
            need_seconds(elsewhere[1].partition("-->")[0], path, elsewhere[0])
        if timing is not None:
            if follows and len(block) > timing + 2 and block[-1][1].strip().isdecimal():
                block.pop()  # the number of the next cue
            where, times = block[timing]
            first, _, rest = times.partition("-->")
            start = need_seconds(first, path, where)
            end = need_seconds((rest.split() or [""])[0], path, where)
            step = " ".join(plain("\n".join(each for _, each in block[timing + 1 :])).split())
            segments.append(build_segment(start, end, step, path, where))
        block = [(number, line)] if follows else []
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


def read_audacity(content: str, path: Path, _options: Options = NONE) -> list[Timeline]:
    """Read a label track of Audacity; lines with a backslash are frequencies."""
    segments = []
    for line, text in enumerate(content.split("\n"), start=1):
        if not text.strip() or text.startswith("\\"):
            continue
        first, last, label, *_ = [*text.split("\t", 2), "", ""]
        start, end = need_seconds(first, path, line), need_seconds(last, path, line)
        segments.append(build_segment(start, end, label.strip(), path, line))
    return [Timeline(segments, video=path.stem)]


def write_audacity(path: Path, timelines: Sequence[Timeline], _options: Options = NONE) -> None:
    """Write a label track of Audacity: start, end and label, separated by tabs."""
    (timeline,) = timelines
    write_text(path, "".join(f"{s.start:.6f}\t{s.end:.6f}\t{s.step}\n" for s in timeline))


def is_audacity(text: str) -> bool:
    """Whether the first line of a text begins with two times and a tab."""
    cells = text.lstrip().split("\n", 1)[0].split("\t")
    return len(cells) >= 2 and all(seconds(cell) is not None for cell in cells[:2])


def read_ranges(content: str, path: Path, options: Options = NONE) -> list[Timeline]:
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
            start, end = first - shift, last - shift + (0 if in_seconds else 1)
            segments.append(
                build_segment(float(start / unit), float(end / unit), label, path, line)
            )
    return [Timeline(segments, video=path.stem)]


def write_ranges(path: Path, timelines: Sequence[Timeline], options: Options = NONE) -> None:
    """Write one line per segment: first frame, last frame, label; frames count from 1."""
    (timeline,) = timelines
    rate = options.frame_rate(str(path))
    refuse_background(timeline, path)
    lines = []
    for segment in timeline.intervals:
        first, last = whole_units(segment, rate)
        lines.append(f"{first + 1} {last} {segment.step}\n")
    write_text(path, "".join(lines))


def is_ranges(text: str) -> bool:
    """Whether every line of a text begins with two numbers."""
    lines = [line.rstrip() for line in text.split("\n") if line.strip()]
    return all(_RANGE.fullmatch(line) for line in lines)
