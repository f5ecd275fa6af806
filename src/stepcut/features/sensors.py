"""Sensor files: a CSV file per recording becomes rows of means and standard deviations."""

import csv
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import FeatureError, OptionError
from stepcut.features.features import Failure, Features, check_alike, check_rows
from stepcut.features.find import Source, find_files
from stepcut.features.spec import SENSORS, FeatureSpec
from stepcut.files import Address, local
from stepcut.progress import warn_once
from stepcut.settings import Rate, as_rate

FASTEST = 1_000_000  # samples per second
SLOW = 1.1  # fewer samples per second are read with a sentence about what they cannot show
LONGEST_GAP = 1.0  # seconds without a value that are interpolated, or two samples of a slow sensor
FLOOR = 1e-3  # added to a standard deviation before its logarithm is taken
# names of time columns, and their units in seconds
TIME_COLUMNS = dict.fromkeys(("time", "t", "timestamp", "seconds", "sec", "s"), 1.0) | {
    "time_s": 1.0, "time (s)": 1.0, "milliseconds": 1e-3, "ms": 1e-3, "time_ms": 1e-3,
    "datetime": 1.0, "timestamp_ms": 1e-3, "time (ms)": 1e-3, "unixtime": 1e-3,
}  # fmt: skip
# columns of SLEAP: the number of the frame, and the name of the animal or person
FRAME, TRACK = "frame_idx", "track"
# a cell such as 0,5; or 5;0 from a line 0,5;0,3 that was split at its commas
DECIMAL_COMMA = re.compile(r"[+-]?\d*[,;][+-]?\d+(e[+-]?\d+)?", re.IGNORECASE)

Array = NDArray[np.float64]
Line = tuple[int, list[str]]  # the number of a line and its cells


def load_sensors(
    sensors: Source, rate: Rate | None = None, fps: Rate | None = None, strict: bool = False
) -> tuple[list[Features], list[Failure]]:
    """Compute features of CSV files, also of DeepLabCut and SLEAP: a column per sensor.

    A row contains the mean of every column over its time, then the logarithm of every standard
    deviation. `rate` is that of files without times; `fps` is 2 by default, and fewer if slow.
    """
    given = None if rate is None else as_rate(rate, "rate", FASTEST)
    wanted = None if fps is None else as_rate(fps)
    inputs = find_files(sensors, "sensor file")
    loaded: list[Features] = []
    failures: list[Failure] = []
    first: _Table | None = None
    for file, name in zip(inputs.files, inputs.names, strict=True):
        try:
            table = _named_like(first, _read_table(file))
            loaded.append(_rows_of(table, name, given, wanted))
            first = first or table
        except (FeatureError, OptionError) as error:
            error.args, error.path, error.video = (f"{file}: {error}",), str(file), name
            if strict or isinstance(error, OptionError):
                raise
            failures.append(Failure(name, str(file), error))
    if failures and not loaded:
        raise failures[0].error
    check_alike(loaded)
    return loaded, failures


class _Table(NamedTuple):
    file: Path | Address
    header: list[str]
    named: bool
    values: Array  # NaN where a value is missing
    lines: list[int]  # the line of each sample in the file


def _named_like(first: _Table | None, table: _Table) -> _Table:
    if first is None or not first.named:
        return table
    if not table.named:
        same = len(table.header) == len(first.header)
        return table._replace(header=first.header, named=True) if same else table
    names, wanted = ({*each.header} - TIME_COLUMNS.keys() for each in (table, first))
    if names != wanted:
        differ = {"missing": sorted(wanted - names), "unknown": sorted(names - wanted)}
        what = "; ".join(f"{kind}: {', '.join(some[:8])}" for kind, some in differ.items() if some)
        text = f"its columns differ from those of {first.file} ({what}). Rename, add "
        raise FeatureError(f"{text}or remove columns.", value=table.header, allowed=first.header)
    return table


def _rows_of(table: _Table, name: str, given: Fraction | None, fps: Fraction | None) -> Features:
    header, values = table.header, table.values
    timed = next((title for title in header if title in TIME_COLUMNS), None)
    if timed is None and given is None:
        what = "no time column. Set the samples per second, for example --rate 50, or add a column "
        raise OptionError(f"{what}called time, in seconds.", setting="rate")
    if timed is not None:
        seconds = _seconds(table, timed, TIME_COLUMNS[timed])
    elif FRAME in header:
        seconds = _seconds(table, FRAME, 1 / float(given or 1))
    else:
        seconds = np.arange(len(values)) / float(given or 1)
    clocks: Any = (values[1:] > values[:-1]).all(axis=0)  # there may be several columns of times
    sensors = [
        at
        for at, title in enumerate(header)
        if title != FRAME and not (title in TIME_COLUMNS and clocks[at])
    ]
    if not sensors:
        raise FeatureError("has only a time column. Add a column per sensor.")
    # Times may come in bursts, so those of single samples say little.
    rate = (len(seconds) - 1) / float(seconds[-1])
    if not 0 < rate <= FASTEST:
        what = f"its times are {1 / rate if rate else math.inf:.3g} s apart, at most {FASTEST:,} "
        what += "samples per second can be read. Check the unit of the time column (seconds; ms "
        what += "for milliseconds)."
        raise FeatureError(what, setting="rate", value=rate, allowed=FASTEST)
    if rate < SLOW:
        unit = " Check the unit of the time column." if rate < SLOW / 10 and timed else ""
        what = f"{rate:.3g} samples per second; what takes less than {2 / rate:.3g} s is too fast"
        warn_once(f"{table.file}: {what} to see.{unit}")
    # 2, or a power of two that the sensor reaches, though a clock is up to a tenth too slow.
    fps = fps or min(Fraction(2), Fraction(2) ** math.floor(math.log2(1.1 * rate)))
    duration, every = float(seconds[-1]) + 1 / rate, max(rate, float(fps))
    grid = np.arange(max(1, round(duration * every))) / every
    if table.named:
        sensors.sort(key=lambda at: header[at])
    gap = max(LONGEST_GAP, 3 / rate)
    filled = [np.interp(grid, *_filled(table, seconds, at, gap)) for at in sensors]
    rows = window(np.column_stack(filled), every, fps)
    check_rows(rows, "its rows")
    columns = tuple(header[at] for at in sensors) if table.named else None
    return Features(rows, fps, duration, name, spec=FeatureSpec(SENSORS, fps, columns=columns))


def window(samples: Array, rate: float, fps: Fraction) -> NDArray[np.float32]:
    """Convert regular `samples` (n, d) to rows (T, 2 d): mean and log deviation at `fps`."""
    count = max(1, math.ceil(len(samples) * float(fps) / rate - 1e-6))
    borders = [round(row * rate / float(fps)) for row in range(1, count)]
    parts = [part for part in np.split(samples, borders) if len(part)]
    rows = [np.concatenate([part.mean(axis=0), np.log(part.std(axis=0) + FLOOR)]) for part in parts]
    return np.asarray(rows, np.float32)


def _read_table(file: Path | Address) -> _Table:
    try:
        with open(local(file), encoding="utf-8-sig", errors="replace", newline="") as opened:
            most = max(",;\t", key=opened.read(4096).partition("\n")[0].count)
            opened.seek(0)
            reader = enumerate(csv.reader(opened, delimiter=most), start=1)
            # A line of delimiters alone is a missing sample.
            lines = [(number, [cell.strip() for cell in line]) for number, line in reader if line]
    except (OSError, csv.Error) as error:
        raise FeatureError(f"cannot be read as a CSV file ({error}).") from error
    if not lines:
        raise FeatureError("the file is empty. Write one line of numbers per sample.")
    first = lines[0][1]
    named = any(_number(cell) is None for cell in first)
    header, samples = [cell.casefold() for cell in first], lines[1:]
    if header[0] == "scorer":
        header, samples = _deeplabcut(lines)
    elif not named:
        header, samples = [str(at + 1) for at in range(len(first))], lines
    if TRACK in header:
        at = header.index(TRACK)
        tracks = list(dict.fromkeys(line[at] for _, line in samples if at < len(line)))
        if len(tracks) > 1:
            what = f"{len(tracks)} tracks ({', '.join(tracks[:8])}). Write one file per track."
            raise FeatureError(what, value=tracks)
        header = header[:at] + header[at + 1 :]
        samples = [(number, line[:at] + line[at + 1 :]) for number, line in samples]
    if len(samples) < 2:
        raise FeatureError(f"has {len(samples)} samples; at least two are needed.")
    named = named and len(set(header)) == len(header)  # repeated names tell nothing apart
    return _Table(file, header, named, _numbers(header, samples), [at for at, _ in samples])


def _deeplabcut(lines: Sequence[Line]) -> tuple[list[str], list[Line]]:
    last = next((at for at, (_, line) in enumerate(lines[:4]) if line[0] == "coords"), None)
    if last is None:
        what = "begins with a line 'scorer' as of DeepLabCut, but none of the next three begins "
        raise FeatureError(f"{what}with 'coords'. Export the table again.", line=1)
    titles = zip(*(line[1:] for _, line in lines[1 : last + 1]), strict=False)
    return [FRAME, *(".".join(parts).casefold() for parts in titles)], list(lines[last + 1 :])


def _numbers(header: Sequence[str], samples: Sequence[Line]) -> Array:
    values = np.empty((len(samples), len(header)))
    for place, (line, cells) in enumerate(samples):
        if len(cells) != len(header):
            what = f"line {line} has {len(cells)} columns, but the first has {len(header)}."
            raise FeatureError(what, line=line)
        for column, cell in enumerate(cells):
            number = _number(cell)
            if number is None and header[column] in TIME_COLUMNS:
                number = _moment(cell)
            if number is None:
                advice = "Remove columns of text. Label files belong to learn --labels or teach."
                if DECIMAL_COMMA.fullmatch(cell):
                    advice = "Use decimal points instead of decimal commas."
                what = f"line {line}, column {header[column]!r} contains {cell!r}, not a number."
                raise FeatureError(f"{what} {advice}", line=line)
            values[place, column] = number
    return values


def _number(cell: str) -> float | None:
    """Return the number in a cell, NaN if it is empty, None if it is text."""
    try:
        number = math.nan if cell.casefold() in ("", "na", "null", "none") else float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) else math.nan


def _moment(cell: str) -> float | None:
    """Seconds of a date and time such as 2026-03-31 06:05:00, as loggers write it.

    >>> _moment("1970-01-02 00:00:01"), _moment("tomorrow")
    (86401.0, None)
    """
    with suppress(ValueError):
        when = datetime.fromisoformat(cell)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    return None


def _seconds(table: _Table, title: str, unit: float) -> Array:
    times = table.values[:, table.header.index(title)]
    with np.errstate(over="ignore"):  # whose rate is refused
        seconds: Array = (times - times[0]) * unit
    for wrong, what in (
        (~np.isfinite(times), f"has no time in column {title!r}."),
        (np.diff(seconds, prepend=-1) <= 0, "is not later than the line before. Sort by time."),
    ):
        if wrong.any():
            line = table.lines[int(wrong.argmax())]
            raise FeatureError(f"line {line} {what}", line=line)
    return seconds


def _filled(table: _Table, seconds: Array, place: int, longest: float) -> tuple[Any, Any]:
    column, title = table.values[:, place], table.header[place]
    there = np.flatnonzero(np.isfinite(column))
    if not len(there):
        raise FeatureError(f"column {title!r} has no numbers. Remove the column.")
    ends = np.concatenate([[0], there, [len(column) - 1]])
    gaps = np.diff(seconds[ends])
    worst = int(gaps.argmax())
    if gaps[worst] > longest:
        line = table.lines[int(ends[worst])]
        what = f"column {title!r} has no value for {gaps[worst]:.1f} s after line {line}; only gaps"
        what += f" of up to {longest:.3g} s are interpolated. Remove the column, or split the "
        raise FeatureError(f"{what}recording there.", line=line)
    return seconds[there], column[there]
