"""Generic CSV and TSV: start, end, label in any common dialect, with or without a header, for one video or many."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stepcut.errors import AnnotationError
from stepcut.files.atomic import write_text
from stepcut.formats.capabilities import Keeps, kept_name
from stepcut.formats.options import NONE, Options
from stepcut.formats.text import fail, read_text, seconds
from stepcut.timeline import Segment, Timeline

KEEPS = Keeps(names="trimmed", steps="none", duration=False, video="file")

# What people call the columns; the first is what stepcut writes.
COLUMNS = {
    "start": ("start", "start_time", "starttime", "start_sec", "start_seconds", "begin", "from", "onset", "t_start"),
    "end": ("end", "end_time", "endtime", "end_sec", "end_seconds", "stop", "stop_time", "to", "offset", "t_end"),
    "label": ("label", "step", "step_name", "name", "action", "annotation", "description", "text", "class", "activity"),
    "confidence": ("confidence", "score", "probability", "conf"),
    "video": ("video", "video_id", "video_name", "file", "filename", "recording", "recording_id"),
}

BARE = {"start": 0, "end": 1, "label": 2}
"""The columns of a file without a header."""


@dataclass(frozen=True)
class Row:
    """The cells of one line and its number in the file."""

    line: int
    cells: list[str]


def read_csv(path: Path, _options: Options = NONE) -> list[Timeline]:
    """Read a table of segments: comma, semicolon or tab; decimal point or comma; seconds or h:m:s."""
    rows = read_rows(path)
    columns = BARE
    if rows and is_header(rows[0]):
        columns = header_columns(rows[0], path)
        rows = rows[1:]
    videos: dict[str, list[Segment]] = {} if "video" in columns else {path.stem: []}
    for row in rows:
        segment = _segment(row, columns, path)
        video = row.cells[columns["video"]].strip() if "video" in columns else path.stem
        videos.setdefault(video, []).append(segment)
    return [Timeline(segments, video=video) for video, segments in videos.items()]


def write_csv(path: Path, timelines: Sequence[Timeline], _options: Options = NONE) -> None:
    """Write `start,end,label` (and confidence where there is one, and video where there are several)."""
    _write(path, timelines, ",")


def write_tsv(path: Path, timelines: Sequence[Timeline], _options: Options = NONE) -> None:
    """Write the same table with tabs."""
    _write(path, timelines, "\t")


def read_rows(path: Path) -> list[Row]:
    """The rows of a delimited file; the delimiter is the one that finds the most times. Blank and `#` lines go."""
    text = read_text(path)
    options = [rows for rows in (_split(text, delimiter, path) for delimiter in "\t;,") if rows]
    if not options:
        fail(path, "has no line with words in it", "Write it again, or delete it if the video has no labels")
    # Where no row has times there is but a header, and the delimiter is the one that gives the most columns.
    return max(options, key=lambda rows: (sum(_is_timed(row.cells) for row in rows), max(len(r.cells) for r in rows)))


def is_header(row: Row) -> bool:
    """Whether a row names the columns: no cell of it is a time."""
    return not any(seconds(cell) is not None for cell in row.cells)


def header_columns(row: Row, path: Path) -> dict[str, int]:
    """Where the columns are, by what the header calls them."""
    names = [cell.strip().lower().replace(" ", "_") for cell in row.cells]
    columns: dict[str, int] = {}
    for column, known in COLUMNS.items():
        for name in known:
            if name in names:
                columns.setdefault(column, names.index(name))
    missing = [column for column in ("start", "end", "label") if column not in columns]
    if missing:
        fail(
            path,
            f"the header {row.cells} has no column for {', '.join(missing)}",
            f"Call it {', '.join(repr(COLUMNS[column][0]) for column in missing)}, or leave out the header and order "
            "the columns start, end, label",
            line=row.line,
        )
    return columns


def _segment(row: Row, columns: dict[str, int], path: Path) -> Segment:
    if len(row.cells) <= max(columns[c] for c in ("start", "end", "label")):
        fail(path, f"{row.cells} has too few columns", "Each line needs start, end and label", line=row.line)
    start, end = (parse_time(row, columns[c], path) for c in ("start", "end"))
    label = row.cells[columns["label"]].strip()
    if columns == BARE and len(row.cells) == 5 and seconds(label) is not None and seconds(row.cells[3]) is not None:
        fail(path, f"are {','.join(row.cells[:4])} two times or four?", "Part the columns by semicolons", line=row.line)
    if not label:
        fail(path, "the label is empty", "Name the step, or delete the line", line=row.line)
    confidence = None
    if "confidence" in columns and columns["confidence"] < len(row.cells):
        cell = row.cells[columns["confidence"]]
        confidence = seconds(cell) if cell.strip() else None
    return build_segment(start, end, label, path, row.line, confidence)


def parse_time(row: Row, column: int, path: Path) -> float:
    """The time in one cell; anything else is refused with its line."""
    value = seconds(row.cells[column])
    if value is None:
        fail(path, f"{row.cells[column]!r} is not a time", "Write seconds (12.5) or 00:00:12.5", line=row.line)
    return value


def build_segment(
    start: float, end: float, step: str, path: Path, line: int | None, confidence: float | None = None
) -> Segment:
    """A segment; when its times make no sense, the error names file and line."""
    try:
        return Segment(start, end, step, confidence)
    except AnnotationError as error:
        fail(path, str(error).rstrip("."), "Correct the times", line=line)


def _is_timed(cells: Sequence[str]) -> bool:
    return len(cells) >= 3 and sum(seconds(cell) is not None for cell in cells) >= 2


def _split(text: str, delimiter: str, path: Path) -> list[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=False)
    rows = []
    line = 1
    try:
        for cells in reader:
            comment = bool(cells) and cells[0].startswith("#") and not _is_timed(cells)
            if any(cell.strip() for cell in cells) and not comment:
                rows.append(Row(line, cells))
            line = reader.line_num + 1
    except csv.Error as error:
        fail(path, f"is not a table: {error}", "Check the quotes", line=line)
    return rows


def _write(path: Path, timelines: Sequence[Timeline], delimiter: str) -> None:
    many = len(timelines) != 1
    sure = any(segment.confidence is not None for timeline in timelines for segment in timeline)
    header = [*(["video"] if many else []), "start", "end", "label", *(["confidence"] if sure else [])]
    write_rows(path, [header, *_rows(timelines, many, sure)], delimiter)


def _rows(timelines: Iterable[Timeline], many: bool, sure: bool) -> Iterable[list[str]]:
    for timeline in timelines:
        for segment in timeline:
            row = [plain(segment.start), plain(segment.end), kept_name(segment.step, KEEPS)]
            if many:
                row.insert(0, timeline.video)
            if sure:
                row.append("" if segment.confidence is None else plain(segment.confidence))
            yield row


def write_rows(path: Path, rows: Iterable[Sequence[str]], delimiter: str = ",") -> None:
    """Write a delimited file; a cell with the delimiter, a quote or a line break is quoted."""
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(rows)
    write_text(path, out.getvalue())


def plain(value: float) -> str:
    """A figure in full but without a needless `.0`.

    >>> plain(3.0), plain(0.1)
    ('3', '0.1')
    """
    return repr(int(value)) if value == int(value) else repr(float(value))
