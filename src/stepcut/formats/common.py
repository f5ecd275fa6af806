"""What all readers and writers share: options, text in any usual encoding, times, and whose labels are read."""

import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from stepcut.errors import AnnotationError, OptionError, check_kind
from stepcut.rate import Rate, as_rate
from stepcut.timeline import Segment

log = logging.getLogger("stepcut")
Item = TypeVar("Item")
Found = TypeVar("Found")
LIMIT = 256 * 2**20
"""Bytes. The label files of a whole data set stay far below; a video given by mistake does not."""
LONGEST = 1e11
"""Seconds. No time in a label file is as late, and dates reach as far; this also keeps out NaN and infinity."""
PROPOSAL = "stepcut"
"""The annotator of what stepcut itself proposes; a person's tier goes before it when a file has both."""


@dataclass(frozen=True)
class Options:
    """Most formats need none of these."""

    rate: Fraction | None = None
    """Frames per second, for formats that count frames."""
    annotator: str | None = None
    """Whose labels, for formats that hold those of several people."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """What a table calls its columns: `{"start": "t0", "end": "t1", "step": "label"}`."""
    spreadsheet: bool = False
    """Whether a table is written so that no spreadsheet takes a name for a formula."""
    confirmed: bool = False
    """Whether what a program has predicted and nobody confirmed is left out."""

    def frame_rate(self, what: str) -> Fraction:
        """The frame rate that was given, or an error that asks for it and says `what` needs it."""
        if self.rate is None:
            asked = (
                "Give it: rate=30 in Python, --rate 30 on the command line (30000/1001 for 29.97)"
            )
            other = "Where a command does not take it, first: stepcut convert LABELS FOLDER --to json --rate 30"
            raise AnnotationError(
                f"{what}: this format counts frames and no frame rate is known. {asked}. {other}."
            )
        return self.rate

    def agreed_rate(self, known: Fraction | None, what: str) -> Fraction:
        """The rate `known` from the file itself, else the one that was given; the two must not contradict each other.
        The message says `what` it is the rate of."""
        if known is None:
            return self.frame_rate(what)
        if self.rate is not None and abs(self.rate / known - 1) > Fraction(1, 1000):
            both = (
                f"it has {float(known):g} frames per second and rate={float(self.rate):g} was given"
            )
            raise AnnotationError(f"{what}: {both}; every time would be wrong. Leave the rate out.")
        return known


NONE = Options()


class Absent(AnnotationError):
    """A file, or a video in it, holds nothing by the annotator that was named, or by anybody."""


def where_present(items: Sequence[Item], read: Callable[[Item], Found]) -> list[Found]:
    """What `read` gives of each of `items`, files or videos; those that are `Absent` are left out, unless all are."""
    found, absent = [], []
    for item in items:
        try:
            found.append(read(item))
        except Absent as error:
            absent.append(error)
    if absent and not found:
        raise (
            absent[0]
            if len(absent) == 1
            else Absent(f"{absent[0]} So it is with all {len(absent)}.")
        )
    if absent:
        log.warning(
            "%d of %d are left out: nobody whose work is asked for has done them",
            len(absent),
            len(items),
        )
    return found


def frame_rate(rate: Rate | None) -> Fraction | None:
    """A frame rate that somebody gave, or a file states, as a fraction; None stays None."""
    return None if rate is None else as_rate(rate, "rate", 1_000_000)


def as_columns(columns: str | Mapping[str, str] | None) -> dict[str, str]:
    """The `columns` "start=t0,end=t1,step=label" as a dict; a dict stays one.

    >>> as_columns("start=t0,end=t1")
    {'start': 't0', 'end': 't1'}
    """
    if columns is None or isinstance(columns, Mapping):
        return dict(columns or {})
    check_kind("columns", columns, str, 'words such as "start=t0,end=t1,step=label", or a dict')
    pairs = [word.partition("=") for word in columns.split(",")]
    if not all(ours.strip() and theirs.strip() for ours, _, theirs in pairs):
        raise OptionError(
            f"columns={columns!r} does not say which is which. Write start=t0,end=t1,step=label."
        )
    return {ours.strip(): theirs.strip() for ours, _, theirs in pairs}


@contextmanager
def refusals(path: Path, what: str) -> Iterator[None]:
    """Inside, whatever a reader stumbles over is the fault of the file at `path`: it does not make sense as `what`."""
    try:
        yield
    except (AnnotationError, OptionError) as error:
        if str(path) in str(error):
            raise
        raise AnnotationError(f"{path}: {error}") from error
    except (
        LookupError,
        TypeError,
        ValueError,
        ArithmeticError,
        AttributeError,
        RecursionError,
    ) as error:
        told = f"{type(error).__name__} {str(error)[:200]}"
        raise AnnotationError(
            f"{path}: it does not make sense as {what}: {told}. Write it again."
        ) from error


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of the label file at `path`; `\\n`, `\\r\\n` and `\\r` all end a line afterwards as `\\n`.

    UTF-8 with or without a byte order mark, UTF-16 with one, and else Latin-1 as Windows writes it.
    """
    place = Path(path)
    try:
        size = place.stat().st_size
        plain = place.is_file()
        data = place.read_bytes() if plain and size <= LIMIT else b""
    except (OSError, ValueError) as error:
        fail(
            place,
            f"cannot be opened ({getattr(error, 'strerror', None) or error})",
            "Check path and permissions",
        )
    if not plain:
        what = "folder" if place.is_dir() else "pipe or a device"
        fail(
            place,
            f"is a {what}, not a label file",
            "Name a file in it, or read them all with read_folder()",
        )
    if size > LIMIT:
        fail(
            place,
            f"has {size / 2**20:,.0f} MB; a label file has at most {LIMIT / 2**20:,.0f} MB",
            "Is it a video?",
        )
    text = decode(data)
    if "\0" in text:
        fail(
            place,
            "holds zero bytes, so it is not text",
            "Give a label file in one of the formats of docs/formats.md",
        )
    if not text.strip():
        fail(place, "is empty", "Write it again, or delete it if the video has no labels")
    return re.sub("\r\n?", "\n", text)


def decode(data: bytes) -> str:
    """The bytes `data` as text by their byte order mark, else UTF-8, else Latin-1.

    >>> decode("\\ufeffcrêpe".encode("utf-8")), decode("crêpe".encode("latin-1"))
    ('crêpe', 'crêpe')
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    for encoding in ("utf-8-sig", "cp1252"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    return data.decode("latin-1")


def read_json(path: Path) -> Any:
    """The value in the JSON file at `path`; what is not JSON is refused with its line."""
    text = read_text(path)
    try:
        return json.loads(text)
    except (
        ValueError,
        RecursionError,
    ) as error:  # also a number of thousands of digits, and a thousand brackets
        line = getattr(error, "lineno", None)
        fail(
            path,
            f"is not JSON: {getattr(error, 'msg', error)}",
            "Repair it, or write the file again",
            line,
        )


def fail(path: str | os.PathLike[str], what: str, advice: str, line: int | None = None) -> NoReturn:
    """Refuse the label file at `path`: in which `line`, `what` is wrong, and `advice` what to do."""
    where = f"{path}, line {line}" if line is not None else f"{path}"
    raise AnnotationError(f"{where}: {what}. {advice}.")


def seconds(text: str) -> float | None:
    """The time in `text` as people write it, or None: `12.5`, `12,5`, `00:01:02.5`, `1:02`.

    >>> seconds("12.5"), seconds("00:01:02.5"), seconds("1,5"), seconds("start"), seconds("1e300")
    (12.5, 62.5, 1.5, None, None)
    """
    cell = text.strip().replace(",", ".")
    if _PLAIN.fullmatch(cell):
        value = float(cell)
    elif match := _CLOCK.fullmatch(cell):
        hours, minutes, rest = match.groups()
        # Fractions, so that the sum is rounded once: 00:00:03.001 is the float 3.001 and nothing beside it.
        value = float(int(hours or 0) * 3600 + int(minutes) * 60 + Fraction(rest))
    else:
        return None
    return value if abs(value) < LONGEST else None


def need_seconds(text: str, path: str | os.PathLike[str], line: int | None = None) -> float:
    """The time in `text`, as `seconds` reads it; where there is none, the `line` of the file at `path` is refused."""
    value = seconds(text)
    if value is None:
        fail(
            path, f"{text.strip()[:60]!r} is not a time", "Write seconds (12.5) or 00:00:12.5", line
        )
    return value


_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", flags=re.ASCII)
_CLOCK = re.compile(r"(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9}(?:\.\d{0,30})?|\.\d{1,30})", flags=re.ASCII)


def number(value: Any) -> float:
    """The `value` of a JSON file as a finite figure; words and NaN are refused."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LONGEST:
        raise ValueError(f"{str(value)[:40]!r} is not a number of seconds")
    return float(value)


def optional(value: Any) -> float | None:
    """The `value` of a JSON file as a figure, or nothing."""
    return None if value is None else number(value)


def build_segment(
    start: float,
    end: float,
    step: str,
    path: str | os.PathLike[str],
    line: int | None,
    sure: float | None = None,
) -> Segment:
    """A segment from `start` to `end`, in seconds, with the name of its `step` and, where there is one, its confidence
    `sure`; where it makes no sense, the error names `path` and `line`."""
    if not step.strip():
        fail(path, "the label is empty", "Name the step, or delete the label", line)
    if re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", step):  # a terminal would obey them
        fail(path, f"the step name {step!r} holds control characters", "Rename the step", line)
    if not max(abs(start), abs(end)) < LONGEST:
        fail(
            path,
            f"{step!r} lasts from {start:g} to {end:g} s; no video is that long",
            "Correct the times",
            line,
        )
    try:
        return Segment(start, end, step, sure)
    except AnnotationError as error:
        fail(path, str(error).rstrip("."), "Correct the times", line=line)


def entry(segment: Segment, sure: str, /, **said: Any) -> dict[str, Any]:
    """What is `said` of a segment in a JSON file, with its confidence under the key `sure` where there is one."""
    return said if segment.confidence is None else {**said, sure: segment.confidence}


def choose_tier(tiers: Mapping[str, Sized], options: Options, path: Path) -> str:
    """Whose of `tiers`, by annotator, of the file at `path` is read: that of the annotator whom `options` name, or of
    the only person, or else the proposal."""
    if options.annotator is not None and set(tiers) != {""}:
        if options.annotator not in tiers:
            there = ", ".join(map(repr, tiers))
            raise Absent(
                f"{path}: no tier of {options.annotator!r}; it has {there}. Name one of these."
            )
        return options.annotator
    people = [name for name, tier in tiers.items() if name != PROPOSAL and len(tier)]
    people = people or [name for name in tiers if name == PROPOSAL] or list(tiers)
    if len(people) > 1:
        fail(
            path,
            f"has tiers of several annotators: {', '.join(map(repr, people))}",
            "Say which: annotator=NAME",
        )
    return people[0]
