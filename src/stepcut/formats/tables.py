"""Tables: CSV, TSV and Excel in all dialects, EgoProceL, and transcripts (steps without times)."""

import csv
import io
import json
import os
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from functools import cache
from pathlib import Path

from stepcut.errors import OptionError, StepcutError, unknown
from stepcut.files import path_text
from stepcut.formats.common import (
    Options,
    build_segment,
    choose_tier,
    flaw,
    need_seconds,
    plain,
    read_text,
    refusals,
    seconds,
    where_present,
)
from stepcut.plugins import needs
from stepcut.tables import guarded, to_sheets, unguarded
from stepcut.timeline import Segment, Timeline

NAMES: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("columns.toml").read_text(encoding="utf-8")
)
# names of each column after `simplify`; every table is read by this dictionary
COLUMNS = NAMES["columns"]
BARE = {"start": 0, "end": 1, "step": 2}  # the columns of a table without a header
MOST_CELLS = 20_000_000  # the largest Excel sheet that is read


@dataclass(frozen=True)
class Row:
    line: int
    cells: list[str]

    def cell(self, columns: Mapping[str, int], name: str) -> str:
        if name not in columns:
            return ""
        if columns[name] >= len(self.cells):
            what = f"{self.cells} has too few columns: {name} is missing"
            raise flaw(what, "Complete the line", self.line)
        return self.cells[columns[name]].strip()

    def time(self, columns: Mapping[str, int], name: str) -> float:
        return need_seconds(self.cell(columns, name), self.line)


# ---------- rows


def parse_rows(text: str) -> list[Row]:
    """Return the rows of a table without blank and `#` lines; detect the delimiter."""
    head = text if len(text) < 2**16 else text[: text.rfind("\n", 0, 2**16) + 1] or text
    options = {delimiter: rows for delimiter in "\t;," if (rows := _split(head, delimiter))}
    if not options:
        raise flaw("has no rows", "Export it again, or delete it if the video has no labels")

    def fit(delimiter: str) -> tuple[int, int]:
        widths = [len(row.cells) for row in options[delimiter]]
        timed = sum(is_timed(row.cells) for row in options[delimiter])
        return timed, widths.count(widths[0]) if widths[0] > 1 else 0

    best = max(options, key=fit)
    return options[best] if head is text else _split(text, best)


def _split(text: str, delimiter: str) -> list[Row]:
    lines = io.StringIO(text, newline="")
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=False)
    rows: list[Row] = []
    line = 1
    try:
        for cells in reader:
            marked = bool(cells) and cells[0].startswith("#") and not is_timed(cells)
            # A row as wide as the table is not a comment: a video may be called "#1".
            comment = marked and not (rows and len(cells) == len(rows[0].cells) > 1)
            if "".join(cells).strip() and not comment:
                rows.append(Row(line, [unguarded(cell) for cell in cells]))
            line = reader.line_num + 1
    except csv.Error as error:
        raise flaw(f"is not a table: {error}", "Check the quotes", line) from error
    return rows


def read_sheet(path: Path, sheet: str | None) -> list[Row]:
    with needs("xlsx"):
        from openpyxl import load_workbook
    rows: list[Row] = []
    count = 0
    try:
        with closing(load_workbook(path, read_only=True, data_only=True)) as book:
            if sheet is not None and sheet not in book.sheetnames:
                raise unknown("sheet", sheet, book.sheetnames, str(path))
            lines = book[sheet or book.sheetnames[0]].iter_rows(values_only=True)
            for line, cells in enumerate(lines, start=1):
                count += len(cells)
                if count > MOST_CELLS:
                    raise flaw(f"has more than {MOST_CELLS:,} cells", "Remove what is not a label")
                texts = [_cell_text(cell) for cell in cells]
                if "".join(texts).strip() and not texts[0].startswith("# "):
                    rows.append(Row(line, texts))
    except StepcutError:
        raise
    except Exception as error:  # openpyxl raises many kinds for a damaged file
        what = f"is not a readable Excel file ({type(error).__name__} {str(error)[:100]})"
        raise flaw(what, "Save it as .xlsx or .csv again") from error
    if not rows:
        raise flaw("has no rows", "Choose the sheet with the labels: --sheet NAME")
    width = max(len(row.cells) for row in rows)
    return [Row(row.line, [*row.cells, *[""] * (width - len(row.cells))]) for row in rows]


def _cell_text(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return plain(cell) if cell == cell else ""
    if isinstance(cell, timedelta):
        return plain(cell.total_seconds())
    if isinstance(cell, time) or (isinstance(cell, datetime) and cell.year == 1900):
        days = cell.day if isinstance(cell, datetime) else 0  # Excel's day 1 is 1900-01-01
        whole = 60 * (60 * (24 * days + cell.hour) + cell.minute) + cell.second
        return plain(whole + cell.microsecond / 1e6)
    return str(cell)


def to_text(rows: Iterable[Sequence[str]], delimiter: str = ",", spreadsheet: bool = False) -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(
        [guarded(cell, always=spreadsheet and seconds(cell) is None) for cell in row]
        for row in rows
    )
    return out.getvalue()


# ---------- columns


def is_header(row: Row) -> bool:
    return all(seconds(cell) is None for cell in row.cells)


def is_timed(cells: Sequence[str]) -> bool:
    return len(cells) >= 3 and sum(seconds(cell) is not None for cell in cells) >= 2


def find_columns(cells: Sequence[str]) -> dict[str, int]:
    names = [simplify(cell) for cell in cells]
    found = {}
    for ours, theirs in COLUMNS.items():
        if known := [name for name in theirs.split() if name in names]:
            found[ours] = names.index(known[0])
    return found


def header_columns(rows: Sequence[Row], options: Options) -> dict[str, int]:
    header = rows[0]
    names = [simplify(cell) for cell in header.cells]
    columns: dict[str, int] = {}
    for ours, theirs in options.columns.items():
        name = "step" if ours == "label" else ours
        if name not in COLUMNS:
            raise unknown("column", ours, COLUMNS, "columns")
        if simplify(theirs) not in names:
            there = [cell.strip() for cell in header.cells]
            raise unknown("column", theirs, there, str(options.path))
        columns[name] = names.index(simplify(theirs))
    for column, place in find_columns(header.cells).items():
        instead_of = {"start_frame": "start", "end_frame": "end"}.get(column, "")
        if instead_of not in columns:
            columns.setdefault(column, place)
    if "step" not in columns and "annotator" in columns:  # ELAN with one tier per step
        columns["step"] = columns.pop("annotator")
    missing = [] if {"start", "start_frame"} & columns.keys() else ["start"]
    # Rows without an end are clicks, unless another column may be the end.
    others = set(range(len(names))) - set(columns.values())
    timed = any(
        all(place < len(row.cells) and seconds(row.cells[place]) is not None for row in rows[1:])
        for place in others
    )
    ends = {"end", "duration", "end_frame"} & columns.keys()
    if not ends and (missing or (timed and len(rows) > 1 and not options.columns)):
        missing.append("end")
    missing += [] if "step" in columns else ["step"]
    if missing:
        advice = f"Set it: --columns {','.join(f'{name}=NAME' for name in missing)}"
        what = f"the header {header.cells} has no column for {', '.join(missing)}"
        raise flaw(what, advice, header.line)
    return columns


@cache
def simplify(name: str) -> str:
    """Return a column name for comparison, without accents, case and unit of seconds."""
    letters = unicodedata.normalize("NFKD", name.casefold())
    unit = r"\s*[(\[](s|secs?|sek|seconds?|sekunden|secondes?|segundos)[)\]]\s*$"
    letters = re.sub(unit, "", "".join(c for c in letters if not unicodedata.combining(c)))
    return "_".join(letters.split())


def bare_columns(rows: Sequence[Row]) -> dict[str, int]:
    """Find the columns of a table without a header.

    The times are start, end and perhaps length, each in up to three units, as in ELAN's
    tab-delimited export. The step follows the times or, if nothing does, precedes them.
    """
    cells = next((row.cells for row in rows if is_timed(row.cells)), None)
    if cells is None:
        return BARE
    first = next(place for place, cell in enumerate(cells) if seconds(cell) is not None)
    times: list[float] = []
    for cell in cells[first:]:
        value = seconds(cell)
        if value is None or (first == 0 and len(times) == 2):
            break
        times.append(value)
    # hh:mm:ss.ms, ss.msec and msec, without a length
    thrice = len(times) == 6 and all(abs(times[k + 2] - 1000 * times[k]) < 0.001 for k in (0, 3))
    ways = max(1, len(times) // 2 if len(times) in (2, 4) or thrice else len(times) // 3)
    columns = {"start": first, "end": first + ways, "step": first + len(times)}
    if first and columns["step"] >= len(cells):
        columns["step"] = 0
    elif first:
        columns["annotator"] = 0
    return columns


# ---------- segments


def read(rows: Sequence[Row], options: Options) -> list[Timeline]:
    """Read a table of segments; a row without an end is a click."""
    rows = _of_datavyu(_of_via(rows))
    width = len(rows[0].cells)
    if is_header(rows[0]):
        columns = header_columns(rows, options)
        rows = rows[1:]
    else:
        columns = bare_columns(rows)
        width = 3 if columns == BARE else width
        if options.columns:
            named = dict(options.columns)
            why = f"{options.path}: columns={named} need a header, but the table has none."
            raise OptionError(why, setting="columns", value=named)
    stem = options.path.stem
    many = "video" in columns
    found: dict[str, dict[str, list[Segment]]] = {} if many else {stem: {"": []}}
    for row in rows:
        video = row.cell(columns, "video") if many else stem
        if many and "".join(row.cells).strip() == video:  # a video without segments
            found.setdefault(video, {}).setdefault("", [])
            continue
        segment = _segment(row, columns, options)
        if any(cell.strip() for cell in row.cells[width:]):
            advice = "Quote names that contain the delimiter, or add a header for all columns"
            advice += ", such as start,end,step,confidence" if columns == BARE else ""
            raise flaw(f"{row.cells} has more than {width} columns", advice, row.line)
        who = row.cell(columns, "annotator")
        found.setdefault(video, {}).setdefault(who, []).append(segment)

    def of_annotator(video: str) -> Timeline:
        return Timeline(found[video][choose_tier(found[video], options)], video=video)

    return where_present(list(found), of_annotator)


def _segment(row: Row, columns: dict[str, int], options: Options) -> Segment:
    def time(name: str) -> float:
        if name in columns:
            return row.time(columns, name)
        return float(row.time(columns, f"{name}_frame") / options.needed_rate())

    if columns == BARE and len(row.cells) == 5 and None not in map(seconds, row.cells[2:4]):
        what = f"{','.join(row.cells[:4])} may be two times or four"
        raise flaw(what, "Separate the columns by semicolons", row.line)
    start = end = time("start")
    if any(row.cell(columns, name) for name in ("end", "end_frame")):
        end = time("end")
    elif row.cell(columns, "duration"):
        end = start + time("duration")
    place = columns.get("confidence", len(row.cells))
    confidence = seconds(row.cells[place]) if place < len(row.cells) else None
    return build_segment(start, end, row.cell(columns, "step"), row.line, confidence)


def _of_via(rows: Sequence[Row]) -> Sequence[Row]:
    """Return the rows of a VIA-3 export (file list, times and values in JSON) as a plain table."""
    mine = [row for row in rows if not row.cells[0].startswith("#")]
    if not mine or not all(
        len(row.cells) == 6 and row.cells[1][:1] == row.cells[3][:1] == "[" for row in mine
    ):
        return rows
    table = [Row(0, ["video", "start", "end", "step"])]
    for row in mine:
        try:
            files, times, values = (json.loads(row.cells[k]) for k in (1, 3, 5))
            step = next((str(value) for value in values.values() if value), "")
            if times:  # otherwise the values are about the file
                table.append(Row(row.line, [files[0], f"{times[0]}", f"{times[-1]}", step]))
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            what = f"{row.cells} is not a row of VIA 3"
            raise flaw(what, "Export it again", row.line) from error
    return table


_DATAVYU = re.compile(r"(.*?) \((?:MATRIX|TEXT|NOMINAL)\b")
_CLOCK = re.compile(r"\s*(\d+:\d\d:\d\d):(\d{3})\s*")


def _of_datavyu(rows: Sequence[Row]) -> Sequence[Row]:
    """Return Datavyu's cells as a plain table, a column as an annotator.

    Datavyu writes `NAME (MATRIX,true,)-code01|NOMINAL` and then rows of onset, offset and codes;
    its scripts write tables with `ordinal`, `onset` and `offset` in milliseconds.
    """
    if _DATAVYU.match(rows[0].cells[0]):
        table = [Row(0, ["annotator", "start", "end", "step"])]
        column = ""
        for row in rows:
            if match := _DATAVYU.match(row.cells[0]):
                column = match[1]
                continue
            clocks = [
                _CLOCK.sub(r"\1.\2", cell) for cell in row.cells[:2] if _CLOCK.fullmatch(cell)
            ]
            if len(clocks) < 2:
                what = f"{row.cells} does not begin with two times such as 00:00:01:500"
                raise flaw(what, "Export it again", row.line)
            codes = ",".join(row.cells[2:]).strip().removeprefix("(").removesuffix(")")
            step = ", ".join(code.strip() for code in codes.split(",") if code.strip())
            table.append(Row(row.line, [column, *clocks, step or column]))
        return table
    names = [simplify(cell) for cell in rows[0].cells]
    if not {"ordinal", "onset", "offset"} <= set(names):
        return rows
    timed = {names.index("onset"), names.index("offset")}

    def in_seconds(place: int, cell: str) -> str:
        time = seconds(cell) if place in timed else None
        return cell if time is None else plain(time / 1000)

    return [Row(row.line, [in_seconds(*each) for each in enumerate(row.cells)]) for row in rows]


def list_rows(timelines: Sequence[Timeline]) -> list[list[str]]:
    """List `start,end,step`, with confidence if present, and video if there are several."""
    many = len(timelines) != 1
    scored = any(s.confidence is not None for timeline in timelines for s in timeline)
    rows = [["video", "start", "end", "step", "confidence"]]
    for timeline in timelines:
        if many and not timeline.segments:
            rows.append([timeline.video, "", "", "", ""])
        for s in timeline:
            confidence = "" if s.confidence is None else plain(s.confidence)
            rows.append([timeline.video, plain(s.start), plain(s.end), s.step, confidence])
    return [row[0 if many else 1 : 5 if scored else 4] for row in rows]


def write_text(timelines: Sequence[Timeline], options: Options, tabs: bool = False) -> str:
    # With the byte order mark, Excel reads UTF-8.
    mark, delimiter = ("", "\t") if tabs else ("\ufeff", ",")
    return mark + to_text(list_rows(timelines), delimiter, options.spreadsheet)


def write_excel(timelines: Sequence[Timeline], _options: Options) -> bytes:
    header, *rows = list_rows(timelines)
    values = [
        [
            (cell if name in ("video", "step") else float(cell)) if cell else None
            for name, cell in zip(header, row, strict=True)
        ]
        for row in rows
    ]
    return to_sheets({"labels": [header, *values]})


# ---------- EgoProceL

_NUMBERED = re.compile(r"\s*(\d{1,9})(?:[.):]\s*|\s+)(\S.*?)\s*", flags=re.DOTALL | re.ASCII)


def read_egoprocel(rows: Sequence[Row], _options: Options) -> Timeline:
    lines = parse_numbered(rows)
    names = name_numbers(lines)
    segments = [replace(segment, step=names[number]) for number, segment in lines]
    return Timeline(segments, steps=tuple(names.values()))


def write_egoprocel(timeline: Timeline, _options: Options) -> str:
    number = {step: k for k, step in enumerate(timeline.steps, start=1)}
    return to_text([plain(s.start), plain(s.end), f"{number[s.step]} {s.step}"] for s in timeline)


def parse_numbered(rows: Sequence[Row]) -> list[tuple[int, Segment]]:
    lines = []
    for row in rows[1:] if is_header(rows[0]) else rows:
        text = _name_cell(row.cells)
        match = _NUMBERED.fullmatch(text)
        if match is None:
            what = f"{text!r} does not begin with the number of a step"
            raise flaw(what, "Write '1 break egg'", row.line)
        times = row.time(BARE, "start"), row.time(BARE, "end")
        lines.append((int(match[1]), build_segment(*times, match[2], row.line)))
    return lines


def name_numbers(lines: Iterable[tuple[int, Segment]]) -> dict[int, str]:
    """Map numbers to names, in their most common spelling; equal names get the number."""
    spellings: dict[int, Counter[str]] = {}
    for number, segment in lines:
        spellings.setdefault(number, Counter())[segment.step] += 1
    return tell_apart(
        (number, spellings[number].most_common(1)[0][0]) for number in sorted(spellings)
    )


def tell_apart(names: Iterable[tuple[int, str]]) -> dict[int, str]:
    apart: dict[int, str] = {}
    for number, name in names:
        apart[number] = f"{name} ({number})" if name in apart.values() else name
    return apart


def is_egoprocel(rows: Sequence[Row]) -> bool:
    return None not in map(seconds, rows[0].cells[:2]) and all(
        _NUMBERED.fullmatch(_name_cell(row.cells)) for row in rows
    )


def _name_cell(cells: Sequence[str]) -> str:
    """Join the cells after the times: an unquoted comma splits a name, spreadsheets add cells."""
    rest = list(cells[2:])
    while len(rest) > 1 and not rest[-1].strip():
        rest.pop()
    return ", ".join(rest).strip()


# ---------- transcripts


def read_transcripts(
    path: str | os.PathLike[str], encoding: str | None = None
) -> dict[str, list[str]]:
    """Read the steps of each video in order, without times.

    The file has one line per video: `a.mp4: cut, butter, jam, butter`. A `.csv`, `.tsv` or `.xlsx`
    table has one row per video, with its name in the first column and one step in each other
    column. Blank lines and lines that begin with `#` are skipped.

    Parameters
    ----------
    path
        The file.
    encoding
        The text encoding; by default detected.

    Returns
    -------
    dict
        Lists of steps by video name, as in the file.

    Raises
    ------
    AnnotationError
        A line has no video or no steps, or a video has two lines (`line`).

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "order.txt"
    >>> _ = file.write_text("a.mp4: cut, butter\\nb.mp4: butter, cut")
    >>> read_transcripts(file)
    {'a.mp4': ['cut', 'butter'], 'b.mp4': ['butter', 'cut']}
    """
    place = Path(path_text(path))
    found: dict[str, list[str]] = {}
    lines: dict[str, int] = {}
    example = "'a.mp4: cut, butter, jam'"
    with refusals(place):
        for line, video, steps in _listed(place, encoding):
            if not video:
                raise flaw("the line has no video", f"Write {example}", line)
            if video in found:
                what = f"the video {video!r} is already in line {lines[video]}"
                raise flaw(what, "Remove one of the two", line)
            if not steps or not all(steps):
                advice = f"Write its steps in order, separated by commas: {example}"
                raise flaw(f"the video {video!r} has no steps or an empty step", advice, line)
            if odd := next((step for step in steps if not step.isprintable()), None):
                what = f"the step name {odd!r} contains control characters"
                raise flaw(what, "Rename the step", line)
            found[video], lines[video] = steps, line
        if not found:
            raise flaw("contains no transcript", f"Write a line such as {example}")
    return found


def _listed(path: Path, encoding: str | None) -> Iterator[tuple[int, str, list[str]]]:
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv", ".xlsx"):
        excel = suffix == ".xlsx"
        rows = read_sheet(path, None) if excel else parse_rows(read_text(path, encoding))
        headed = simplify(rows[0].cells[0]) in COLUMNS["video"].split()
        for row in rows[1:] if headed else rows:
            video, *steps = (cell.strip() for cell in row.cells)
            while steps and not steps[-1]:  # spreadsheets pad all rows to one width
                steps.pop()
            if len(steps) == 1:  # one cell may contain all steps
                steps = [step.strip() for step in re.split("[,;]", steps[0])]
            yield row.line, video, steps
        return
    for line, words in enumerate(read_text(path, encoding).split("\n"), start=1):
        if not words.strip() or words.lstrip().startswith("#"):
            continue
        # The colon of a drive letter is not a separator.
        parted = re.fullmatch(r"\s*((?:\w:(?=[\\/]))?[^:]*):(.*)", words)
        if not parted:
            what = f"{words.strip()[:60]!r} has no colon after the name of the video"
            raise flaw(what, "Write 'a.mp4: cut, butter, jam'", line)
        video, rest = parted.groups()
        steps = re.split("[;\t]" if re.search("[;\t]", rest) else ",", rest)
        yield line, video.strip(), [step.strip() for step in steps] if rest.strip() else []
