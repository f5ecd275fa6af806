"""Generic CSV and TSV: start, end, step in any common dialect, with or without a header, for one video or many."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stepcut.errors import OptionError, unknown
from stepcut.files.atomic import write_text
from stepcut.formats.capabilities import Capabilities
from stepcut.formats.common import (
    NONE,
    Options,
    build_segment,
    choose_tier,
    fail,
    need_seconds,
    read_text,
    seconds,
    where_present,
)
from stepcut.tables import GUARDED, guarded
from stepcut.timeline import Segment, Timeline

CAN = Capabilities(names="trimmed", steps="none", duration=False, video="file")

# What people call the columns, in lower case and with underscores; docs/formats.md lists these.
COLUMNS = {
    "start": (
        "start", "start_time", "starttime", "start_sec", "start_seconds", "start_(s)", "begin", "begin_time", "from",
        "onset", "t_start", "tmin", "begin_time_-_ss.msec", "begin_time_-_hh:mm:ss.ms",
    ),
    "end": (
        "end", "end_time", "endtime", "end_sec", "end_seconds", "stop", "stop_time", "stop_(s)", "to", "offset",
        "t_end", "tmax", "end_time_-_ss.msec", "end_time_-_hh:mm:ss.ms",
    ),
    "duration": ("duration", "duration_(s)", "duration_-_ss.msec", "length"),
    "start_frame": ("frame_start", "start_frame", "first_frame"),
    "end_frame": ("frame_end", "end_frame", "stop_frame", "last_frame"),
    "step": (
        "label", "step", "step_name", "name", "action", "behavior", "behaviour", "annotation", "description", "text",
        "class", "activity", "value",
    ),
    "confidence": ("confidence", "score", "probability", "conf"),
    "video": (
        "video", "video_id", "video_name", "media_file_name", "media_file", "file", "filename", "recording",
        "recording_id",
    ),
    "annotator": ("annotator", "tier"),
}  # fmt: skip
BARE = {"start": 0, "end": 1, "step": 2}
"""Where the columns are that a table without a header has."""


@dataclass(frozen=True)
class Row:
    """The cells of one line and its number in the file."""

    line: int
    cells: list[str]

    def cell(self, columns: Mapping[str, int], name: str, path: Path) -> str:
        """What stands in the column `name`, by its place in `columns`, where there is one; a line of `path` that is too
        short for it is refused."""
        if name not in columns:
            return ""
        if columns[name] >= len(self.cells):
            fail(
                path,
                f"{self.cells} has too few columns: {name} is absent",
                "Complete the line",
                self.line,
            )
        return self.cells[columns[name]].strip()

    def time(self, columns: Mapping[str, int], name: str, path: Path) -> float:
        """The time in the column `name`, by its place in `columns`; anything else in that line of `path` is refused."""
        return need_seconds(self.cell(columns, name, path), path, self.line)


def read(rows: Sequence[Row], path: Path, options: Options = NONE) -> list[Timeline]:
    """Read a table of segments: comma, semicolon or tab; decimal point or comma; seconds or h:m:s."""
    width = len(rows[0].cells)
    if not is_header(rows[0]):
        columns = bare_columns(rows[0].cells)
        width = 3 if columns == BARE else width
        if options.columns:
            raise OptionError(
                f"{path}: columns={dict(options.columns)} were named, but the table has no header."
            )
    else:
        columns = header_columns(rows[0], path, options)
        rows = rows[1:]
    stem = path.stem
    found: dict[str, dict[str, list[Segment]]] = {} if "video" in columns else {stem: {"": []}}
    for row in rows:
        video = row.cell(columns, "video", path) if "video" in columns else stem
        if "".join(row.cells).strip() == video and "video" in columns:  # a video without segments
            found.setdefault(video, {}).setdefault("", [])
            continue
        segment = _segment(row, columns, path, options)
        if any(cell.strip() for cell in row.cells[width:]):
            advice = "Quote a name that has the delimiter in it, or name all columns in a header"
            if columns == BARE:
                advice += ": a first line such as start,end,label,confidence (other columns are passed over)"
            fail(path, f"{row.cells} has more than {width} columns", advice, row.line)
        found.setdefault(video, {}).setdefault(row.cell(columns, "annotator", path), []).append(
            segment
        )
    tiers = [
        {name: Timeline(each, video=video) for name, each in found[video].items()}
        for video in found
    ]
    return where_present(tiers, lambda each: each[choose_tier(each, options, path)])


def read_rows(path: Path) -> list[Row]:
    """The rows of the table at `path`; the delimiter is the one that finds the most times. Blank and `#` lines go."""
    text = read_text(path)
    head = text if len(text) < 2**16 else text[: text.rfind("\n", 0, 2**16) + 1] or text
    options = {delimiter: rows for delimiter in "\t;," if (rows := _split(head, delimiter, path))}
    if not options:
        fail(
            path,
            "has no line with words in it",
            "Write it again, or delete it if the video has no labels",
        )
    # Where no row has times there is but a header, and the delimiter is the one that gives the most columns.
    best = max(
        options,
        key=lambda d: (
            sum(is_timed(r.cells) for r in options[d]),
            max(len(r.cells) for r in options[d]),
        ),
    )
    return options[best] if head is text else _split(text, best, path)


def is_header(row: Row) -> bool:
    """Whether a row names the columns: no cell of it is a time."""
    return not any(seconds(cell) is not None for cell in row.cells)


def header_columns(row: Row, path: Path, options: Options = NONE) -> dict[str, int]:
    """Where the columns are: by the names in `options`, else by what people call them in the header `row` of `path`."""
    names = [simplify(cell) for cell in row.cells]
    columns: dict[str, int] = {}
    for ours, theirs in options.columns.items():
        name = "step" if ours == "label" else ours
        if name not in COLUMNS:
            raise unknown("column", ours, COLUMNS, "columns")
        if simplify(theirs) not in names:
            raise unknown("column", theirs, [cell.strip() for cell in row.cells], str(path))
        columns[name] = names.index(simplify(theirs))
    for column, known in COLUMNS.items():
        there = [names.index(name) for name in known if name in names]
        if there and {"start_frame": "start", "end_frame": "end"}.get(column, "") not in columns:
            columns.setdefault(column, there[0])
    if "step" not in columns and "annotator" in columns:  # a tier for each step, as some use ELAN
        columns["step"] = columns.pop("annotator")
    needed = {
        "start": {"start", "start_frame"},
        "end": {"end", "duration", "end_frame"},
        "step": {"step"},
    }
    missing = [name for name, ways in needed.items() if not ways & columns.keys()]
    if missing:
        advice = f"Say which it is: --columns {','.join(f'{name}=NAME' for name in missing)}"
        fail(
            path,
            f"the header {row.cells} has no column for {', '.join(missing)}",
            advice,
            line=row.line,
        )
    return columns


def simplify(name: str) -> str:
    """A column's name for comparing."""
    return "_".join(name.lower().split())


def bare_columns(cells: Sequence[str]) -> dict[str, int]:
    """The columns of a file without a header, by the `cells` of its first line.

    The times come as start, end and perhaps length, each in up to three ways, as in ELAN's tab-delimited export; the
    step follows them or, where nothing does, stands before them.

    >>> bare_columns(["0", "1.5", "pour"]) == {"start": 0, "end": 1, "step": 2}
    True
    >>> bare_columns(["ann", "", "00:00:01.5", "1.5", "00:00:02", "2.0", "pour"])
    {'start': 2, 'end': 4, 'step': 6, 'annotator': 0}
    """
    first = next((place for place, cell in enumerate(cells) if seconds(cell) is not None), 0)
    times: list[float] = []
    for cell in cells[first:]:
        value = seconds(cell)
        if value is None or (first == 0 and len(times) == 2):
            break
        times.append(value)
    # hh:mm:ss.ms, ss.msec and msec, and no length
    thrice = len(times) == 6 and all(abs(times[k + 2] - 1000 * times[k]) < 0.001 for k in (0, 3))
    ways = max(1, len(times) // 2 if len(times) in (2, 4) or thrice else len(times) // 3)
    columns = {"start": first, "end": first + ways, "step": first + len(times)}
    if first and columns["step"] >= len(cells):
        columns["step"] = 0
    elif first:
        columns["annotator"] = 0
    return columns


def _segment(row: Row, columns: dict[str, int], path: Path, options: Options) -> Segment:
    def time(name: str) -> float:
        if name in columns:
            return row.time(columns, name, path)
        return float(row.time(columns, f"{name}_frame", path) / options.frame_rate(str(path)))

    start = time("start")
    end = time("end") if {"end", "end_frame"} & columns.keys() else start + time("duration")
    step = row.cell(columns, "step", path)
    if columns == BARE and len(row.cells) == 5 and None not in map(seconds, row.cells[2:4]):
        fail(
            path,
            f"are {','.join(row.cells[:4])} two times or four?",
            "Part the columns by semicolons",
            line=row.line,
        )
    sure = (
        row.cells[columns["confidence"]]
        if columns.get("confidence", len(row.cells)) < len(row.cells)
        else ""
    )
    return build_segment(start, end, step, path, row.line, seconds(sure))


def is_timed(cells: Sequence[str]) -> bool:
    """Whether the `cells` of a row hold two times and something else."""
    return len(cells) >= 3 and sum(seconds(cell) is not None for cell in cells) >= 2


def _split(text: str, delimiter: str, path: Path) -> list[Row]:
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=False
    )
    rows = []
    line = 1
    try:
        for cells in reader:
            comment = bool(cells) and cells[0].startswith("#") and not is_timed(cells)
            if "".join(cells).strip() and not comment:
                rows.append(
                    Row(line, [cell[1:] if GUARDED.match(cell) else cell for cell in cells])
                )
            line = reader.line_num + 1
    except csv.Error as error:
        fail(path, f"is not a table: {error}", "Check the quotes", line=line)
    return rows


def write(
    path: Path, timelines: Sequence[Timeline], options: Options = NONE, delimiter: str = ","
) -> None:
    """Write the `timelines` to `path`: `start,end,label` parted by the `delimiter` (and confidence where there is one,
    and video where there are several: one without segments has a line of its own, with nothing else in it). `options`
    may ask for a table that is safe in a spreadsheet."""
    many = len(timelines) != 1
    sure = any(segment.confidence is not None for timeline in timelines for segment in timeline)
    header = [
        *(["video"] if many else []),
        "start",
        "end",
        "label",
        *(["confidence"] if sure else []),
    ]
    rows = [header]
    for timeline in timelines:
        if many and not timeline.segments:
            rows.append([timeline.video, *[""] * (len(header) - 1)])
        for segment in timeline:
            confidence = "" if segment.confidence is None else plain(segment.confidence)
            cells = [
                timeline.video,
                plain(segment.start),
                plain(segment.end),
                segment.step,
                confidence,
            ]
            rows.append(cells[0 if many else 1 : 5 if sure else 4])
    write_rows(path, rows, delimiter, options.spreadsheet)


def write_rows(
    path: Path, rows: Iterable[Sequence[str]], delimiter: str = ",", spreadsheet: bool = False
) -> None:
    """Write the cells of `rows` to `path`; one with the `delimiter`, a quote or a line break is quoted.

    `spreadsheet`: whether a cell that a spreadsheet would take for a formula gets a leading apostrophe.
    """

    def guard(cell: str) -> str:
        return (
            guarded(cell)
            if (spreadsheet and seconds(cell) is None) or GUARDED.match(cell)
            else cell
        )

    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(
        [guard(cell) for cell in row] for row in rows
    )
    write_text(path, out.getvalue())


def plain(value: float) -> str:
    """The figure `value` in full but without a needless `.0`.

    >>> plain(3.0), plain(0.1)
    ('3', '0.1')
    """
    return repr(int(value)) if value == int(value) else repr(float(value))
