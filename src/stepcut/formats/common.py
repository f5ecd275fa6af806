"""Shared by readers and writers: text and errors, options, times, segments, names and tiers."""

import heapq
import json
import logging
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from stepcut.errors import AnnotationError, OptionError, check_kind, wrong
from stepcut.files.names import short_names
from stepcut.progress import warn_once
from stepcut.settings import Rate, as_rate
from stepcut.timeline import Segment, Timeline

log = logging.getLogger("stepcut")
Item = TypeVar("Item")
Found = TypeVar("Found")
LONGEST = 1e11  # seconds; it also excludes NaN and infinity
LONGEST_VIDEO = 1e7  # seconds, 115 days; later labels are dates or mistakes
PROPOSAL = "stepcut"  # the annotator of predictions; the tier of a person takes precedence
NOTHING = ("background", "SIL")  # background in data sets; the first one is written
MILLI = 1000
LIMIT = 256 * 2**20  # bytes of the largest label file; it excludes a video passed by mistake
# control characters, which are refused in step names; XML cannot store them
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

# ---------- text and errors


def flaw(what: str, advice: str, line: int | None = None) -> AnnotationError:
    """Return the error of a label file; `refusals` adds the path."""
    return AnnotationError(f"{what}. {advice}.", line=line)


@contextmanager
def refusals(path: Path, title: str = "") -> Iterator[None]:
    """Add the `path` to errors of the block; with a `title`, those of Python become ours, too."""
    try:
        yield
    except (AnnotationError, OptionError) as error:
        ours = isinstance(error, AnnotationError)
        if error.path or str(path) in str(error) or not (ours or title):
            raise
        where = f"{path}, line {error.line}" if error.line is not None else f"{path}"
        kind = type(error) if ours else AnnotationError
        raise kind(f"{where}: {error}", **{**vars(error), "path": path}) from error
    except (
        LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError,
    ) as error:  # fmt: skip
        if not title:
            raise
        what = f"this is not valid as {title} ({type(error).__name__} {str(error)[:200]})"
        what = "the file is nested too deeply" if isinstance(error, RecursionError) else what
        raise AnnotationError(f"{path}: {what}. Export it again.", path=path) from error


def fail(path: Path, what: str, advice: str, line: int | None = None) -> NoReturn:
    with refusals(path):
        raise flaw(what, advice, line)


def read_text(path: str | os.PathLike[str], encoding: str | None = None) -> str:
    """Return the text of the label file at `path`, with line feeds as line ends."""
    place = Path(path)
    with refusals(place):
        try:
            size, plain = place.stat().st_size, place.is_file()
            data = place.read_bytes() if plain and size <= LIMIT else b""
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise flaw(f"cannot be opened ({why})", "Check path and permissions") from error
        if not plain:
            what = "folder" if place.is_dir() else "pipe or a device"
            advice = "Give a file in it, or read all with read_folder()"
            raise flaw(f"is a {what}, not a label file", advice)
        if size > LIMIT:
            most = f"the limit for label files is {LIMIT / 2**20:,.0f} MB"
            raise flaw(f"has {size / 2**20:,.0f} MB; {most}", "Is it a video?")
        text = decode(data, place, encoding)
        if "\0" in text:
            advice = "Give a label file in one of the formats of docs/formats.md"
            raise flaw("contains zero bytes, so it is not text", advice)
        if not text.strip():
            raise flaw("is empty", "Export it again, or delete it if the video has no labels")
    return re.sub("\r\n?", "\n", text)


_DECLARED = re.compile(rb"""^\s*<\?xml[^>]*?encoding=["']([\w.-]+)["']""")


def decode(data: bytes, path: Path | None = None, encoding: str | None = None) -> str:
    """Return the bytes of the file at `path` as text.

    The encoding is the argument, the byte order mark, UTF-8 or the XML declaration, in this order;
    otherwise Western European, Cyrillic or Japanese, guessed with a warning.
    """
    if encoding:
        try:
            return data.decode(encoding).removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise flaw(f"is not {encoding}: {error.reason}", "Check --encoding", line) from error
        except LookupError:
            some = "utf-8, cp1252, cp1251, shift_jis, gb18030 or another encoding of Python"
            raise wrong("encoding", encoding, f"is unknown; give {some}.") from None
    marked = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    declared = _DECLARED.match(data)
    for name in [marked, declared[1].decode()] if declared else [marked]:
        with suppress(UnicodeDecodeError, LookupError):
            return data.decode(name).removeprefix("\ufeff")
    if b"\0" in data:
        return data.decode("latin-1")  # the caller reports that this is not text
    guess = _guess(data)
    if guess is None:
        advice = "Set it: encoding='gb18030' in Python, --encoding gb18030 on the command line"
        raise flaw("is not UTF-8, and its encoding is unclear", advice)
    if path is not None:
        advice = "If names look wrong, add --encoding NAME."
        warn_once(f"{path.parent}: label files are not UTF-8; read as {guess}. {advice}")
    return data.decode(guess)


def _guess(data: bytes) -> str | None:
    # Western words have few such letters; in Russian and Japanese nearly all are. Japanese
    # contains kana, and Russian capitals only at the start of words.
    words = re.findall(rb"[A-Za-z\x80-\xff]{2,}", data)
    letters = b"".join(word for word in words if not word.isascii())
    japanese = data.decode("cp932", errors="replace")
    if re.search("[\u3041-\u30fa]", japanese) and not re.search("[\uff61-\uff9f\ufffd]", japanese):
        return "cp932"
    if 2 * sum(byte >= 0x80 for byte in letters) <= len(letters):
        return "latin-1" if re.search(rb"[\x81\x8d\x8f\x90\x9d]", data) else "cp1252"
    russian = re.findall(r"[^\x00-\x7f]+", data.decode("cp1251", errors="replace"))
    word = re.compile("[«„“—– ]*([А-ЯЁ]?[а-яё]+|[А-ЯЁ]+)?[»”“…—– ]*")
    return "cp1251" if all(word.fullmatch(each) for each in russian) else None


def parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        what = f"is not JSON: {getattr(error, 'msg', error)}"
        line = getattr(error, "lineno", None)
        raise flaw(what, "Correct it, or export the file again", line) from error


def read_json(path: Path) -> Any:
    with refusals(path):
        return parse_json(read_text(path))


# ---------- options


@dataclass(frozen=True)
class Options:
    rate: Fraction | None = None  # frames per second, for formats that count frames
    annotator: str | None = None
    # the names of a table: {"start": "t0", "end": "t1", "step": "label"}
    columns: Mapping[str, str] = field(default_factory=dict)
    spreadsheet: bool = False  # escape names that a spreadsheet would read as a formula
    sheet: str | None = None
    confirmed: bool = False  # skip predictions that no person confirmed
    path: Path = Path()  # the label file; its stem names the video if nothing else does

    def needed_rate(self) -> Fraction:
        if self.rate is None:
            raise AnnotationError(
                "this format counts frames, so it needs a frame rate. Give rate=30 in Python, "
                "--rate 30 on the command line (30000/1001 for 29.97; --label-rate 30 for stepcut "
                "learn).",
                setting="rate",
            )
        return self.rate

    def agreed_rate(self, stated: Fraction | None, video: str) -> Fraction:
        if stated is None:
            return self.needed_rate()
        if self.rate is not None and abs(self.rate / stated - 1) > Fraction(1, 1000):
            raise AnnotationError(
                f"{video}: the file has {float(stated):g} frames per second, not "
                f"rate={float(self.rate):g}. Omit the rate.",
                setting="rate",
                value=self.rate,
                allowed=stated,
            )
        return stated


class Absent(AnnotationError):
    """A file or video has no labels by the wanted annotator."""


def where_present(items: Sequence[Item], read: Callable[[Item], Found]) -> list[Found]:
    found, absent = [], []
    for item in items:
        try:
            found.append(read(item))
        except Absent as error:
            absent.append(error)
    if absent and not found:
        more = f" The same holds for all {len(absent)}." if len(absent) > 1 else ""
        raise Absent(f"{absent[0]}{more}", path=absent[0].path)
    if absent:
        what = "no annotation, or none by that annotator"
        log.warning("skipped %d of %d: %s", len(absent), len(items), what)
    return found


def frame_rate(rate: Rate | None) -> Fraction | None:
    return None if rate is None else as_rate(rate, "rate", 1_000_000)


def all_steps(timelines: Iterable[Timeline]) -> list[str]:
    return list(dict.fromkeys(step for timeline in timelines for step in timeline.steps))


def as_columns(columns: str | Mapping[str, str] | None) -> dict[str, str]:
    if columns is None or isinstance(columns, Mapping):
        return dict(columns or {})
    check_kind("columns", columns, str, 'text such as "start=t0,end=t1,step=label", or a dict')
    pairs = [word.partition("=") for word in columns.split(",")]
    if not all(ours.strip() and theirs.strip() for ours, _, theirs in pairs):
        raise wrong("columns", columns, "is not allowed; write start=t0,end=t1,step=label.")
    return {ours.strip(): theirs.strip() for ours, _, theirs in pairs}


# ---------- times

_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", flags=re.ASCII)
_CLOCK = re.compile(r"(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9}(?:\.\d{0,30})?|\.\d{1,30})", flags=re.ASCII)


def seconds(text: str) -> float | None:
    """Return the seconds in "12.5", "1,5" or "00:01:02.5", or None if it is not a time."""
    cell = text.strip().replace(",", ".")
    if _PLAIN.fullmatch(cell):
        value = float(cell)
    elif match := _CLOCK.fullmatch(cell):
        hours, minutes, rest = match.groups()
        # A fraction is rounded only once: 00:00:03.001 is the float 3.001.
        value = float(int(hours or 0) * 3600 + int(minutes) * 60 + Fraction(rest))
    else:
        return None
    return value if abs(value) < LONGEST else None


def need_seconds(text: str, line: int | None = None) -> float:
    value = seconds(text)
    if value is None:
        what = f"{text.strip()[:60]!r} is not a time"
        raise flaw(what, "Write seconds (12.5) or 00:00:12.5", line)
    return value


def plain(value: float) -> str:
    return repr(int(value)) if value == int(value) else repr(float(value))


def whole_units(segment: Segment, unit: int | Fraction) -> tuple[int, int]:
    """Return start and end in whole units of 1 / unit seconds; only a click has zero length."""
    first, last = (round(Fraction(time) * unit) for time in (segment.start, segment.end))
    return first, first if segment.is_click else max(last, first + 1)


def rounded(timeline: Timeline, unit: int | Fraction) -> Timeline:
    segments = []
    for segment in timeline:
        first, last = whole_units(segment, unit)
        segments.append(replace(segment, start=float(first / unit), end=float(last / unit)))
    return replace(timeline, segments=tuple(segments))


def touching(timeline: Timeline, unit: int | Fraction) -> Timeline:
    """End a segment where the next one starts, if they overlap by a rounding error, 1 / unit s."""
    starts = sorted({segment.start for segment in timeline.intervals})
    following = dict(pairwise([*starts, math.inf]))
    segments = [
        replace(s, end=following[s.start])
        if not s.is_click and 0 < (s.end - following[s.start]) * unit < 1.001
        else s
        for s in timeline
    ]
    return replace(timeline, segments=tuple(segments))


def without_overlap(segments: Sequence[Segment]) -> list[list[Segment]]:
    """Distribute sorted `segments` over the fewest rows without overlap; at least one row."""
    rows: list[list[Segment]] = [[]]
    busy: list[tuple[float, int]] = [(-math.inf, 0)]  # (end, row)
    for segment in segments:
        if busy[0][0] <= segment.start:
            row = heapq.heappop(busy)[1]
        else:
            row = len(rows)
            rows.append([])
        rows[row].append(segment)
        heapq.heappush(busy, (segment.end, row))
    return rows


# ---------- segments and names


def build_segment(
    start: float, end: float, step: str, line: int | None = None, confidence: float | None = None
) -> Segment:
    if not step.strip():
        raise flaw("the label is empty", "Name the step, or delete the label", line)
    if re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]", step):
        what = f"the step name {step!r} contains control characters"
        raise flaw(what, "Rename the step", line)
    if not max(abs(start), abs(end)) < LONGEST_VIDEO:
        what = f"{step!r} lasts from {start:g} to {end:g} s, longer than any video"
        raise flaw(what, "Write seconds from the beginning of the video", line)
    try:
        return Segment(start, end, step, confidence)
    except AnnotationError as error:
        raise flaw(str(error).rstrip("."), "Correct the times", line) from error


def one_line(step: str) -> str:
    if re.search("[\n\u2028\u2029]", step.strip()):
        raise ValueError(f"the name {step!r} has a line break")
    return " ".join(step.split())


def one_word(step: str) -> str:
    return one_line(step).replace(" ", "_")


def shown_videos(timelines: Sequence[Timeline]) -> list[str]:
    videos = [timeline.video for timeline in timelines]
    return [
        short if Path(video).is_absolute() else video
        for video, short in zip(videos, short_names(videos), strict=True)
    ]


def choose_tier(tiers: Mapping[str, Sized], options: Options) -> str:
    """Choose the annotator to read: the option, else the only person, else the prediction."""
    if options.annotator is not None and set(tiers) != {""}:
        if options.annotator not in tiers:
            there = ", ".join(map(repr, tiers))
            raise Absent(f"found no tier of {options.annotator!r}. Choose from {there}.")
        return options.annotator
    people = [name for name, tier in tiers.items() if name != PROPOSAL and len(tier)]
    people = people or [name for name in tiers if name == PROPOSAL] or list(tiers)
    if len(people) > 1:
        names = ", ".join(map(repr, people))
        raise flaw(f"has tiers of several annotators: {names}", "Choose one: annotator=NAME")
    return people[0]
