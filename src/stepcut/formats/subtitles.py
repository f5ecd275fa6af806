"""Steps in lines of text: WebVTT and SRT subtitles, which any player shows over the video, and Audacity labels."""

import html
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from stepcut.files.atomic import write_text
from stepcut.formats.capabilities import Capabilities
from stepcut.formats.common import NONE, Options, build_segment, fail, need_seconds, seconds
from stepcut.timeline import Segment, Timeline

VTT = Capabilities(
    times="milli",
    names="line",
    steps="none",
    video="file",
    instants=False,
    duration=False,
    confidence=False,
)
SRT = replace(VTT, empty=False)
AUDACITY = replace(SRT, times="micro", instants=True)
_TAG = re.compile(r"</?[a-zA-Z][^>]*>|<\d[\d:.]*>")


def read_vtt(text: str, path: Path, _options: Options = NONE) -> list[Timeline]:
    """Read the cues of a WebVTT file; markup within them is left out."""
    if not re.match(r"WEBVTT(\s|$)", text):
        fail(path, "does not begin with WEBVTT", "Write that as its first line", line=1)
    return read_srt(text, path, plain=lambda cue: html.unescape(_TAG.sub("", cue)))


def write_vtt(path: Path, timelines: Sequence[Timeline], _options: Options = NONE) -> None:
    """Write a cue per segment."""
    (timeline,) = timelines
    cues = [f"{_times(s, '.')}\n{html.escape(s.step, quote=False)}\n" for s in timeline]
    write_text(path, "\n".join(["WEBVTT\n", *cues]))


def write_srt(path: Path, timelines: Sequence[Timeline], _options: Options = NONE) -> None:
    """Write a numbered cue per segment."""
    (timeline,) = timelines
    cues = [f"{i}\n{_times(s, ',')}\n{s.step}\n" for i, s in enumerate(timeline, start=1)]
    write_text(path, "\n".join(cues))


def read_srt(
    text: str, path: Path, _options: Options = NONE, plain: Callable[[str], str] = str
) -> list[Timeline]:
    """Read the cues: blocks that have a line of times; notes and styles have none. `plain` takes markup out."""
    segments = []
    block: list[tuple[int, str]] = []
    for number, line in enumerate([*text.split("\n"), ""], start=1):
        timing = next((i for i, (_, each) in enumerate(block[:2]) if "-->" in each), None)
        follows = (
            timing is not None and "-->" in line
        )  # the next cue, without a blank line before it
        if line.strip() and not follows:
            block.append((number, line))
            continue
        if timing is not None:
            if follows and len(block) > timing + 2 and block[-1][1].strip().isdecimal():
                block.pop()  # the number of the next cue
            where, times = block[timing]
            first, _, rest = times.partition("-->")
            start, end = (
                need_seconds((part.split() or [""])[0], path, where) for part in (first, rest)
            )
            step = " ".join(plain("\n".join(each for _, each in block[timing + 1 :])).split())
            segments.append(build_segment(start, end, step, path, where))
        block = [(number, line)] if follows else []
    return [Timeline(segments, video=path.stem)]


def _times(segment: Segment, mark: str) -> str:
    parted = [divmod(round(1000 * time), 1000) for time in (segment.start, segment.end)]
    return " --> ".join(
        f"{s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d}{mark}{rest:03d}" for s, rest in parted
    )


def read_audacity(content: str, path: Path, _options: Options = NONE) -> list[Timeline]:
    """Read a label track of Audacity; lines that begin with a backslash hold frequencies and are passed over."""
    segments = []
    for line, text in enumerate(content.split("\n"), start=1):
        if not text.strip() or text.startswith("\\"):
            continue
        first, last, label, *_ = [*text.split("\t", 2), "", ""]
        start, end = need_seconds(first, path, line), need_seconds(last, path, line)
        segments.append(build_segment(start, end, label.strip(), path, line))
    return [Timeline(segments, video=path.stem)]


def write_audacity(path: Path, timelines: Sequence[Timeline], _options: Options = NONE) -> None:
    """Write a label track of Audacity: start, end and label in seconds, parted by tabs."""
    (timeline,) = timelines
    write_text(path, "".join(f"{s.start:.6f}\t{s.end:.6f}\t{s.step}\n" for s in timeline))


def is_audacity(text: str) -> bool:
    """Whether the first line of a text begins with two times and a tab."""
    cells = text.lstrip().split("\n", 1)[0].split("\t")
    return len(cells) >= 2 and all(seconds(cell) is not None for cell in cells[:2])
