"""Shared code of readers and writers: text and errors, options, times, names and tiers."""

import heapq
import json
import logging
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from stepcut.errors import AnnotationError, OptionError, check_kind
from stepcut.files.names import short_names
from stepcut.progress import warn_once
from stepcut.rate import Rate, as_rate
from stepcut.timeline import Segment, Timeline

log = logging.getLogger("stepcut")
Item = TypeVar("Item")
Found = TypeVar("Found")
LONGEST = 1e11
"""The largest time in seconds; it also excludes NaN and infinity."""
LONGEST_VIDEO = 1e7
"""The latest time of a label in seconds, 115 days; later ones are dates or mistakes."""
PROPOSAL = "stepcut"
"""The annotator name of predictions; the tier of a person takes precedence."""
NOTHING = ("background", "SIL")
"""Names of background in data sets; the first one is written."""
MILLI = 1000
LIMIT = 256 * 2**20
"""The largest label file in bytes; it excludes a video passed by mistake."""


# ---------------------------------------------------------------------- text and errors


def fail(path: str | os.PathLike[str], what: str, advice: str, line: int | None = None) -> NoReturn:
    """Raise an `AnnotationError` for the label file at `path`: problem, line and advice."""
    where = f"{path}, line {line}" if line is not None else f"{path}"
    raise AnnotationError(f"{where}: {what}. {advice}.", path=path, line=line)


@contextmanager
def refusals(path: Path, what: str) -> Iterator[None]:
    """Turn any error of a reader into an `AnnotationError` for the file at `path`."""
    try:
        yield
    except (AnnotationError, OptionError) as error:
        if str(path) in str(error):
            raise
        raise AnnotationError(f"{path}: {error}", path=path) from error
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        detail = f"{type(error).__name__} {str(error)[:200]}"
        raise AnnotationError(
            f"{path}: this is not valid as {what} ({detail}). Export it again.", path=path
        ) from error
    except RecursionError as error:
        raise AnnotationError(
            f"{path}: the file is nested too deeply. Export it again.", path=path
        ) from error


def read_text(path: str | os.PathLike[str], encoding: str | None = None) -> str:
    """Return the text of the label file at `path`, with `\\n` as line end.

    Without an `encoding`, it is detected; see `decode`.
    """
    place = Path(path)
    try:
        size = place.stat().st_size
        plain = place.is_file()
        data = place.read_bytes() if plain and size <= LIMIT else b""
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        fail(place, f"cannot be opened ({why})", "Check path and permissions")
    if not plain:
        what = "folder" if place.is_dir() else "pipe or a device"
        advice = "Give a file in it, or read all with read_folder()"
        fail(place, f"is a {what}, not a label file", advice)
    if size > LIMIT:
        most = f"the limit for label files is {LIMIT / 2**20:,.0f} MB"
        fail(place, f"has {size / 2**20:,.0f} MB; {most}", "Is it a video?")
    text = decode(data, place, encoding)
    if "\0" in text:
        advice = "Give a label file in one of the formats of docs/formats.md"
        fail(place, "contains zero bytes, so it is not text", advice)
    if not text.strip():
        fail(place, "is empty", "Export it again, or delete it if the video has no labels")
    return re.sub("\r\n?", "\n", text)


_DECLARED = re.compile(rb"""^\s*<\?xml[^>]*?encoding=["']([\w.-]+)["']""")


def decode(data: bytes, path: Path | None = None, encoding: str | None = None) -> str:
    """Return the bytes `data` of the file at `path` as text.

    The encoding is the argument, the byte order mark, UTF-8 or the XML declaration, in this order.
    Otherwise guess between Western European, Cyrillic and Japanese, with a warning.

    >>> decode("\\ufeffcrêpe".encode("utf-8")), decode("crêpe".encode("latin-1"))
    ('crêpe', 'crêpe')
    """
    if encoding:
        try:
            return data.decode(encoding).removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            fail(path or "text", f"is not {encoding}: {error.reason}", "Check --encoding", line)
        except LookupError:
            raise OptionError(
                f"encoding={encoding!r} is unknown; give utf-8, cp1252, cp1251, shift_jis, "
                "gb18030 or another encoding of Python.",
                setting="encoding",
                value=encoding,
            ) from None
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
        fail(path or "text", "is not UTF-8, and its encoding is unclear", advice)
    if path is not None:
        advice = "If names look wrong, add --encoding NAME."
        warn_once(f"{path.parent}: label files are not UTF-8; read as {guess}. {advice}")
    return data.decode(guess)


def _guess(data: bytes) -> str | None:
    """Guess the encoding of text that is not UTF-8, from words with non-ASCII letters.

    Western words have few such letters; in Russian and Japanese nearly all are. Japanese contains
    kana, and Russian capitals only at the start of words.
    """
    words = re.findall(rb"[A-Za-z\x80-\xff]{2,}", data)
    letters = b"".join(word for word in words if not word.isascii())
    high = sum(byte >= 0x80 for byte in letters)
    try:
        japanese = data.decode("cp932")
    except UnicodeDecodeError:
        japanese = ""
    if re.search("[\u3041-\u30fa]", japanese) and not re.search("[\uff61-\uff9f]", japanese):
        return "cp932"
    if 2 * high <= len(letters):
        return "latin-1" if re.search(rb"[\x81\x8d\x8f\x90\x9d]", data) else "cp1252"
    russian = re.findall(r"[^\x00-\x7f]+", data.decode("cp1251", errors="replace"))
    word = re.compile("[«„“—– ]*([А-ЯЁ]?[а-яё]+|[А-ЯЁ]+)?[»”“…—– ]*")
    return "cp1251" if all(word.fullmatch(each) for each in russian) else None


def parse_json(text: str, path: Path) -> Any:
    """Return the value of the JSON file at `path`; an error has the line."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        what = f"is not JSON: {getattr(error, 'msg', error)}"
        fail(path, what, "Correct it, or export the file again", line)


def read_json(path: Path) -> Any:
    return parse_json(read_text(path), path)


# ---------------------------------------------------------------------- options


@dataclass(frozen=True)
class Options:
    """Options of readers and writers; most formats need none."""

    rate: Fraction | None = None
    """Frames per second, for formats that count frames."""
    annotator: str | None = None
    """The annotator, for formats with several."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """The column names of a table: `{"start": "t0", "end": "t1", "step": "label"}`."""
    spreadsheet: bool = False
    """Whether to escape names that a spreadsheet would read as a formula."""
    sheet: str | None = None
    """The sheet of an Excel file; by default the first."""
    confirmed: bool = False
    """Whether to skip predictions that no person confirmed."""

    def frame_rate(self, what: str) -> Fraction:
        """Return the frame rate that `what` needs, or raise an error."""
        if self.rate is None:
            raise AnnotationError(
                f"{what}: this format counts frames, so it needs a frame rate. Give rate=30 in "
                "Python, --rate 30 on the command line (30000/1001 for 29.97; --label-rate 30 for "
                "stepcut learn).",
                setting="rate",
            )
        return self.rate

    def agreed_rate(self, stated: Fraction | None, what: str) -> Fraction:
        """Return the `stated` rate of the file, or else the option; they must agree."""
        if stated is None:
            return self.frame_rate(what)
        if self.rate is not None and abs(self.rate / stated - 1) > Fraction(1, 1000):
            raise AnnotationError(
                f"{what}: the file has {float(stated):g} frames per second, not "
                f"rate={float(self.rate):g}. Omit the rate.",
                setting="rate",
                value=self.rate,
                allowed=stated,
            )
        return stated


NONE = Options()


class Absent(AnnotationError):
    """A file or video has no labels by the wanted annotator."""


def where_present(items: Sequence[Item], read: Callable[[Item], Found]) -> list[Found]:
    """Read `items` and skip those that raise `Absent`, unless all do."""
    found, absent = [], []
    for item in items:
        try:
            found.append(read(item))
        except Absent as error:
            absent.append(error)
    if absent and not found:
        more = f" The same holds for all {len(absent)}." if len(absent) > 1 else ""
        raise Absent(f"{absent[0]}{more}")
    if absent:
        log.warning(
            "skipped %d of %d: no annotation, or none by that annotator", len(absent), len(items)
        )
    return found


def frame_rate(rate: Rate | None) -> Fraction | None:
    return None if rate is None else as_rate(rate, "rate", 1_000_000)


def as_columns(columns: str | Mapping[str, str] | None) -> dict[str, str]:
    """Return `columns` as a dict.

    >>> as_columns("start=t0,end=t1")
    {'start': 't0', 'end': 't1'}
    """
    if columns is None or isinstance(columns, Mapping):
        return dict(columns or {})
    check_kind("columns", columns, str, 'text such as "start=t0,end=t1,step=label", or a dict')
    pairs = [word.partition("=") for word in columns.split(",")]
    if not all(ours.strip() and theirs.strip() for ours, _, theirs in pairs):
        raise OptionError(
            f"columns={columns!r} is not allowed; write start=t0,end=t1,step=label.",
            setting="columns",
            value=columns,
        )
    return {ours.strip(): theirs.strip() for ours, _, theirs in pairs}


# ---------------------------------------------------------------------------------------- times

_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", flags=re.ASCII)
_CLOCK = re.compile(r"(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9}(?:\.\d{0,30})?|\.\d{1,30})", flags=re.ASCII)


def seconds(text: str) -> float | None:
    """Return the seconds in `text`, or None if it is not a time.

    >>> seconds("12.5"), seconds("00:01:02.5"), seconds("1,5"), seconds("start"), seconds("1e300")
    (12.5, 62.5, 1.5, None, None)
    """
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


def need_seconds(text: str, path: str | os.PathLike[str], line: int | None = None) -> float:
    """Return the seconds in `text`, or refuse the `line` of the file at `path`."""
    value = seconds(text)
    if value is None:
        what = f"{text.strip()[:60]!r} is not a time"
        fail(path, what, "Write seconds (12.5) or 00:00:12.5", line)
    return value


def number(value: Any) -> float:
    """Return the `value` of a JSON file as a finite number; refuse text and NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LONGEST:
        raise ValueError(f"{str(value)[:40]!r} is not a number of seconds")
    return float(value)


def plain(value: float) -> str:
    """Format a number with all digits, without a trailing `.0`.

    >>> plain(3.0), plain(0.1)
    ('3', '0.1')
    """
    return repr(int(value)) if value == int(value) else repr(float(value))


def optional(value: Any) -> float | None:
    return None if value is None else number(value)


def whole_units(segment: Segment, unit: int | Fraction) -> tuple[int, int]:
    """Return start and end in whole units of 1 / unit seconds; only a click has zero length.

    >>> whole_units(Segment(1.0004, 2.0, "stir"), 1000), whole_units(Segment(1, 1.0004, "tap"), 10)
    ((1000, 2000), (10, 11))
    """
    first, last = (round(Fraction(time) * unit) for time in (segment.start, segment.end))
    return first, first if segment.is_click else max(last, first + 1)


def rounded(timeline: Timeline, unit: int | Fraction) -> Timeline:
    """Return the `timeline` with times rounded to 1 / unit seconds."""
    segments = []
    for segment in timeline:
        first, last = whole_units(segment, unit)
        segments.append(replace(segment, start=float(first / unit), end=float(last / unit)))
    return replace(timeline, segments=tuple(segments))


def touching(timeline: Timeline, unit: int | Fraction) -> Timeline:
    """End a segment where the next one starts, if they overlap by at most 1 / unit seconds.

    Such an overlap is a rounding error; larger overlaps stay.

    >>> touching(Timeline([Segment(0, 2.04, "pour"), Segment(2, 3, "stir")]), 25).segments[0].end
    2
    """
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


# ------------------------------------------------------------------------------ segments and names

UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Control characters, which are refused in step names; XML cannot store them."""


def build_segment(
    start: float,
    end: float,
    step: str,
    path: str | os.PathLike[str],
    line: int | None = None,
    confidence: float | None = None,
) -> Segment:
    """Create a segment from a file; an error has `path` and `line`."""
    if not step.strip():
        fail(path, "the label is empty", "Name the step, or delete the label", line)
    if re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]", step):
        fail(path, f"the step name {step!r} contains control characters", "Rename the step", line)
    if not max(abs(start), abs(end)) < LONGEST_VIDEO:
        what = f"{step!r} lasts from {start:g} to {end:g} s, longer than any video"
        fail(path, what, "Write seconds from the beginning of the video", line)
    try:
        return Segment(start, end, step, confidence)
    except AnnotationError as error:
        fail(path, str(error).rstrip("."), "Correct the times", line)


def one_line(step: str) -> str:
    """Return the name of a step with single spaces; refuse line breaks.

    >>> one_line(" add  jam")
    'add jam'
    """
    if re.search("[\n\u2028\u2029]", step.strip()):
        raise ValueError(f"the name {step!r} has a line break")
    return " ".join(step.split())


def one_word(step: str) -> str:
    return one_line(step).replace(" ", "_")


def refuse_background(timeline: Timeline, path: Path) -> None:
    """Refuse a step whose name means background in a format."""
    for step in timeline.steps:
        if step in NOTHING:
            fail(path, f"the step name {step!r} means background", "Rename the step first")


def shown_videos(timelines: Sequence[Timeline]) -> list[str]:
    """Return the video names, with absolute paths shortened."""
    short = short_names([timeline.video for timeline in timelines])
    return [
        name if Path(timeline.video).is_absolute() else timeline.video
        for name, timeline in zip(short, timelines, strict=True)
    ]


def choose_tier(tiers: Mapping[str, Sized], options: Options, path: Path) -> str:
    """Choose the annotator to read: the option, else the only person, else the prediction."""
    if options.annotator is not None and set(tiers) != {""}:
        if options.annotator not in tiers:
            there = ", ".join(map(repr, tiers))
            raise Absent(
                f"{path}: found no tier of {options.annotator!r}. Choose from {there}.",
                path=path,
            )
        return options.annotator
    people = [name for name, tier in tiers.items() if name != PROPOSAL and len(tier)]
    people = people or [name for name in tiers if name == PROPOSAL] or list(tiers)
    if len(people) > 1:
        names = ", ".join(map(repr, people))
        fail(path, f"has tiers of several annotators: {names}", "Choose one: annotator=NAME")
    return people[0]
