"""Sensor files: a CSV file per recording becomes rows of means and standard deviations."""

import csv
import math
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import FeatureError, OptionError
from stepcut.features.features import Features, check_rows
from stepcut.features.spec import SENSORS, FeatureSpec
from stepcut.files.addresses import Address
from stepcut.files.cache import local

ROWS_PER_SECOND = Fraction(2)
LONGEST_GAP = 1.0
"""Seconds without a value that are interpolated; a longer gap is refused."""
FLOOR = 1e-3
"""Added to a standard deviation before its logarithm is taken, for sensors that do not change."""
TIME_COLUMNS = {
    "time": 1.0, "t": 1.0, "timestamp": 1.0, "seconds": 1.0, "sec": 1.0, "s": 1.0, "time_s": 1.0,
    "time (s)": 1.0, "milliseconds": 1e-3, "ms": 1e-3, "time_ms": 1e-3, "timestamp_ms": 1e-3,
    "time (ms)": 1e-3, "unixtime": 1e-3,
}  # fmt: skip
"""Names of time columns, and their units in seconds."""
DECIMAL_COMMA = re.compile(r"[+-]?\d*[,;][+-]?\d+(e[+-]?\d+)?", re.IGNORECASE)
"""A cell such as 0,5; or 5;0 from a line 0,5;0,3 that was split at its commas."""
MOST_PER_SECOND = 1_000_000
"""The highest sample rate that times may have."""
FASTEST = 1000
"""The highest sample rate that a `FeatureSpec` can store."""

Array = NDArray[np.float64]


def read_sensors(file: Path | Address, name: str, rate: Fraction | None) -> Features:
    """Read a CSV `file`, a column per sensor and a line per sample, as two rows per second.

    A row contains the mean of each column over half a second, then the logarithm of each standard
    deviation. The first line may name the columns. Without a time column (time, t, timestamp,
    ms ...) there are `rate` samples per second; None if the procedure does not know them. Gaps of
    up to a second are interpolated.
    """
    header, named, values, lines = _read_numbers(file)
    times = next((at for at, title in enumerate(header) if title in TIME_COLUMNS), None)
    if times is None:
        if rate is None:
            raise OptionError(
                f"{file}: no time column, and this procedure does not store a sample rate. "
                "Add a column called time, in seconds.",
                setting="rate",
            )
        seconds = np.arange(len(values)) / float(rate)
    else:
        seconds = _seconds(file, values[:, times], header[times], lines)
        sensors = [at for at in range(len(header)) if not _tells_time(header[at], values[:, at])]
        values, header = values[:, sensors], [header[at] for at in sensors]
        rate = _measured_rate(file, seconds)
    if not values.shape[1]:
        raise FeatureError(f"{file}: has only a time column. Add a column per sensor.")
    if rate < 2 * ROWS_PER_SECOND:
        advice = (
            "Set the rate with --rate, for example --rate 50, or add a time column."
            if times is None
            else "Check the unit of the time column (seconds; ms for milliseconds)."
        )
        raise FeatureError(
            f"{file}: {float(rate):.3g} samples per second, at least {2 * ROWS_PER_SECOND} are "
            f"needed. {advice}",
            setting="rate",
            value=rate,
            allowed=2 * ROWS_PER_SECOND,
        )
    duration = float(seconds[-1] + 1 / rate)
    grid = np.arange(max(1, round(duration * rate))) / float(rate)
    regular = np.column_stack(
        [
            np.interp(grid, *_filled(file, seconds, column, title, lines))
            for column, title in zip(values.T, header, strict=True)
        ]
    )
    rows = window(regular, rate)
    check_rows(rows, str(file))
    spec = FeatureSpec(
        SENSORS,
        ROWS_PER_SECOND,
        clip_fps=rate if rate <= FASTEST else None,
        # Repeated names cannot tell columns apart.
        columns=tuple(header) if named and len(set(header)) == len(header) else None,
    )
    return Features(rows, ROWS_PER_SECOND, duration, name, spec=spec)


def match_columns(
    features: Features, columns: tuple[str, ...], file: object, whose: str
) -> Features:
    """Return `features` with the order of `columns`; without names, they are in this order.

    Refuse other names; the error names the `file`, and `whose` columns are expected.
    """
    if features.spec is None or features.spec.columns == columns:
        return features
    spec = replace(features.spec, columns=columns)
    names = features.spec.columns
    if names is None:
        return replace(features, spec=spec)
    differ = {
        "missing": [name for name in columns if name not in names],
        "unknown": [name for name in names if name not in columns],
    }
    if sorted(names) != sorted(columns):
        what = "; ".join(f"{kind}: {', '.join(some[:8])}" for kind, some in differ.items() if some)
        raise FeatureError(
            f"{file}: its columns differ from those of {whose} ({what}). "
            "Rename, add or remove columns.",
            path=file,
            video=features.name,
            value=list(names),
            allowed=list(columns),
        )
    means = [names.index(name) for name in columns]
    order = [*means, *(len(names) + place for place in means)]
    if features.rows.shape[1:] != (len(order),):  # which the caller refuses
        return features
    return replace(features, rows=np.ascontiguousarray(features.rows[:, order]), spec=spec)


def window(samples: Array, rate: Fraction) -> NDArray[np.float32]:
    """Convert regular `samples` (n, d) to rows (T, 2 d): mean and log deviation per half second.

    >>> window(np.array([[1.0], [3.0], [5.0], [5.0]]), Fraction(4)).round(2).tolist()
    [[2.0, 0.0], [5.0, -6.909999847412109]]
    """
    count = max(1, math.ceil(len(samples) * ROWS_PER_SECOND / rate))
    borders = [round(row * rate / ROWS_PER_SECOND) for row in range(count)]
    parts = np.split(samples, borders[1:])
    rows = [
        np.concatenate([part.mean(axis=0), np.log(part.std(axis=0) + FLOOR)])
        for part in parts
        if len(part)
    ]
    return np.asarray(rows, np.float32)


def _read_numbers(file: Path | Address) -> tuple[list[str], bool, Array, list[int]]:
    """Return column names, whether the file states them, values (NaN if missing) and lines."""
    try:
        with open(local(file), encoding="utf-8-sig", errors="replace", newline="") as opened:
            sample = opened.read(4096)
            opened.seek(0)
            most = max(",;\t", key=sample.partition("\n")[0].count)
            table = [
                (number, [cell.strip() for cell in line])
                for number, line in enumerate(csv.reader(opened, delimiter=most), start=1)
                if line  # a line of delimiters alone is a missing sample
            ]
    except (OSError, csv.Error) as error:
        raise FeatureError(f"{file}: cannot be read as a CSV file ({error}).") from error
    if not table:
        raise FeatureError(f"{file}: the file is empty. Write one line of numbers per sample.")
    first = table[0][1]
    named = any(_number(cell) is None for cell in first)
    header = (
        [cell.casefold() for cell in first] if named else [str(at + 1) for at in range(len(first))]
    )
    samples = table[1:] if named else table
    if len(samples) < 2:
        raise FeatureError(f"{file}: has {len(samples)} samples; at least two are needed.")
    values = np.empty((len(samples), len(header)))
    for place, (line, cells) in enumerate(samples):
        if len(cells) != len(header):
            raise FeatureError(
                f"{file}: line {line} has {len(cells)} columns, but the first has {len(header)}.",
                line=line,
            )
        for column, cell in enumerate(cells):
            number = _number(cell)
            if number is None:
                advice = (
                    "Use decimal points instead of decimal commas."
                    if DECIMAL_COMMA.fullmatch(cell)
                    else "Remove columns of text. Label files belong to learn --labels or teach."
                )
                raise FeatureError(
                    f"{file}: line {line}, column {header[column]!r} contains {cell!r}, "
                    f"not a number. {advice}",
                    line=line,
                )
            values[place, column] = number
    return header, named, values, [line for line, _ in samples]


def _number(cell: str) -> float | None:
    """Return the number in a cell, NaN if it is empty, None if it is text."""
    if cell.casefold() in ("", "nan", "na", "null", "none"):
        return math.nan
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) else math.nan


def _seconds(file: Any, times: Array, title: str, lines: list[int]) -> Array:
    """Return the times of samples in seconds after the first; they must be complete and grow."""
    if not np.isfinite(times).all():
        line = lines[int(np.flatnonzero(~np.isfinite(times))[0])]
        raise FeatureError(f"{file}: line {line} has no time in column {title!r}.", line=line)
    with np.errstate(over="ignore"):  # whose rate is refused
        seconds: Array = (times - times[0]) * TIME_COLUMNS[title]
    back = np.flatnonzero(seconds[1:] <= seconds[:-1])
    if len(back):
        raise FeatureError(
            f"{file}: line {lines[int(back[0]) + 1]} is not later than the line before. "
            "Sort the samples by time.",
            line=lines[int(back[0]) + 1],
        )
    return seconds


def _tells_time(title: str, column: Array) -> bool:
    """Whether a column is one of times, of which a file may have several."""
    return title in TIME_COLUMNS and bool((column[1:] > column[:-1]).all())


def _measured_rate(file: Any, seconds: Array) -> Fraction:
    """Return the samples per second: the usual ones, or the mean if times come in bursts."""
    mean = float(seconds[-1]) / (len(seconds) - 1)
    usual = float(np.median(np.diff(seconds))) if math.isfinite(mean) else 0.0
    step = usual if mean < 2 * usual else mean
    if not 1 / MOST_PER_SECOND <= step < math.inf:
        raise FeatureError(
            f"{file}: its times are {step:.3g} s apart, at most {MOST_PER_SECOND:,} samples per "
            "second can be read. Check the unit of the time column (seconds; ms for milliseconds).",
            setting="rate",
            value=step,
            allowed=MOST_PER_SECOND,
        )
    return Fraction(1 / step).limit_denominator(1000)


def _filled(
    file: Any, seconds: Array, column: Array, title: str, lines: list[int]
) -> tuple[Array, Array]:
    """Return times and values of the samples of a column that exist; refuse long gaps."""
    there = np.flatnonzero(np.isfinite(column))
    if not len(there):
        raise FeatureError(f"{file}: column {title!r} has no numbers. Remove the column.")
    ends = np.concatenate([[0], there, [len(column) - 1]])
    gaps = np.diff(seconds[ends])
    longest = int(gaps.argmax())
    if gaps[longest] > LONGEST_GAP:
        raise FeatureError(
            f"{file}: column {title!r} has no value for {gaps[longest]:.1f} s after line "
            f"{lines[int(ends[longest])]}; only gaps of up to {LONGEST_GAP:g} s are interpolated. "
            "Remove the column, or split the recording there.",
            line=lines[int(ends[longest])],
        )
    return seconds[there], column[there]
