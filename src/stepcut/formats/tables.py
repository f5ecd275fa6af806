"""Tables of segments, also of EgoProceL, VIA 3 and Datavyu, and of transcripts."""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from stepcut.errors import OptionError
from stepcut.files.addresses import path_text
from stepcut.files.atomic import whole_file
from stepcut.formats.common import (
    NONE,
    Options,
    build_segment,
    choose_tier,
    fail,
    plain,
    read_text,
    seconds,
    where_present,
)
from stepcut.formats.rows import (
    BARE,
    COLUMNS,
    Row,
    bare_columns,
    header_columns,
    is_header,
    parse_rows,
    read_sheet,
    simplify,
    write_rows,
)
from stepcut.tables import write_sheet
from stepcut.timeline import Segment, Timeline

# ---------------------------------------------------------------------- segments


def read(rows: Sequence[Row], path: Path, options: Options = NONE) -> list[Timeline]:
    """Read a table of segments; a row without an end is a click."""
    rows = _of_datavyu(_of_via(rows, path), path)
    width = len(rows[0].cells)
    if is_header(rows[0]):
        columns = header_columns(rows, path, options)
        rows = rows[1:]
    else:
        columns = bare_columns(rows)
        width = 3 if columns == BARE else width
        if options.columns:
            raise OptionError(
                f"{path}: columns={dict(options.columns)} need a header, but the table has none.",
                setting="columns",
                value=dict(options.columns),
            )
    stem = path.stem
    found: dict[str, dict[str, list[Segment]]] = {} if "video" in columns else {stem: {"": []}}
    for row in rows:
        video = row.cell(columns, "video", path) if "video" in columns else stem
        if "".join(row.cells).strip() == video and "video" in columns:  # a video without segments
            found.setdefault(video, {}).setdefault("", [])
            continue
        segment = _segment(row, columns, path, options)
        if any(cell.strip() for cell in row.cells[width:]):
            advice = "Quote names that contain the delimiter, or add a header for all columns"
            if columns == BARE:
                advice += ", such as start,end,label,confidence"
            fail(path, f"{row.cells} has more than {width} columns", advice, row.line)
        who = row.cell(columns, "annotator", path)
        found.setdefault(video, {}).setdefault(who, []).append(segment)

    def of_annotator(video: str) -> Timeline:
        tiers = found[video]
        return Timeline(tiers[choose_tier(tiers, options, path)], video=video)

    return where_present(list(found), of_annotator)


def _segment(row: Row, columns: dict[str, int], path: Path, options: Options) -> Segment:
    def time(name: str) -> float:
        if name in columns:
            return row.time(columns, name, path)
        return float(row.time(columns, f"{name}_frame", path) / options.frame_rate(str(path)))

    if columns == BARE and len(row.cells) == 5 and None not in map(seconds, row.cells[2:4]):
        what = f"{','.join(row.cells[:4])} may be two times or four"
        fail(path, what, "Separate the columns by semicolons", row.line)
    start = end = time("start")
    if any(row.cell(columns, name, path) for name in ("end", "end_frame")):
        end = time("end")
    elif row.cell(columns, "duration", path):
        end = start + time("duration")
    place = columns.get("confidence", len(row.cells))
    confidence = seconds(row.cells[place]) if place < len(row.cells) else None
    return build_segment(start, end, row.cell(columns, "step", path), path, row.line, confidence)


def _of_via(rows: Sequence[Row], path: Path) -> Sequence[Row]:
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
        except (ValueError, LookupError, AttributeError, TypeError):
            fail(path, f"{row.cells} is not a row of VIA 3", "Export it again", row.line)
    return table


_DATAVYU = re.compile(r"(.*?) \((?:MATRIX|TEXT|NOMINAL)\b")
_CLOCK = re.compile(r"(\d+:\d\d:\d\d):(\d{3})")


def _of_datavyu(rows: Sequence[Row], path: Path) -> Sequence[Row]:
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
            times = [_CLOCK.fullmatch(cell.strip()) for cell in row.cells[:2]]
            if len(times) < 2 or None in times:
                what = f"{row.cells} does not begin with two times such as 00:00:01:500"
                fail(path, what, "Export it again", row.line)
            codes = ",".join(row.cells[2:]).strip().removeprefix("(").removesuffix(")")
            step = ", ".join(code.strip() for code in codes.split(",") if code.strip())
            clocks = [f"{each[1]}.{each[2]}" for each in times if each]
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


# ---------------------------------------------------------------------- writing


def list_rows(timelines: Sequence[Timeline]) -> list[list[str]]:
    """List `start,end,label`, plus confidence if present, and video if there are several.

    A video without segments has a row with its name only.
    """
    many = len(timelines) != 1
    scored = any(segment.confidence is not None for timeline in timelines for segment in timeline)
    rows = [["video", "start", "end", "label", "confidence"]]
    for timeline in timelines:
        if many and not timeline.segments:
            rows.append([timeline.video, "", "", "", ""])
        for s in timeline:
            confidence = "" if s.confidence is None else plain(s.confidence)
            rows.append([timeline.video, plain(s.start), plain(s.end), s.step, confidence])
    return [row[0 if many else 1 : 5 if scored else 4] for row in rows]


def write(
    path: Path, timelines: Sequence[Timeline], options: Options = NONE, delimiter: str = ","
) -> None:
    write_rows(path, list_rows(timelines), delimiter, options.spreadsheet, delimiter == ",")


def write_excel(path: Path, timelines: Sequence[Timeline], _options: Options) -> None:
    """Write the rows of `list_rows` as a sheet; times and confidence are numbers."""
    header, *rows = list_rows(timelines)
    texts = {header.index("label"), 0 if "video" in header else -1}
    values = [
        [(cell if i in texts else float(cell)) if cell else None for i, cell in enumerate(row)]
        for row in rows
    ]
    with whole_file(path) as temporary:
        write_sheet(temporary, {"labels": [header, *values]})


# ---------------------------------------------------------------------- EgoProceL

_NUMBERED = re.compile(r"\s*(\d{1,9})(?:[.):]\s*|\s+)(\S.*?)\s*", flags=re.DOTALL | re.ASCII)


def read_egoprocel(rows: Sequence[Row], path: Path, _options: Options) -> list[Timeline]:
    """Read start, end, and number and name (`1 break egg`); numbers sort the vocabulary."""
    lines = parse_numbered(rows, path)
    names = name_numbers(lines)
    segments = [replace(segment, step=names[number]) for number, segment in lines]
    return [Timeline(segments, steps=tuple(names.values()), video=path.stem)]


def write_egoprocel(path: Path, timelines: Sequence[Timeline], _options: Options) -> None:
    """Write the steps of one video, numbered from 1 by the vocabulary."""
    (timeline,) = timelines
    number = {step: k for k, step in enumerate(timeline.steps, start=1)}
    write_rows(
        path, [[plain(s.start), plain(s.end), f"{number[s.step]} {s.step}"] for s in timeline]
    )


def parse_numbered(rows: Sequence[Row], path: Path) -> list[tuple[int, Segment]]:
    """Return the segments in `rows`, each with the number of its step."""
    lines = []
    for row in rows[1:] if is_header(rows[0]) else rows:
        text = _name_cell(row.cells)
        match = _NUMBERED.fullmatch(text)
        if match is None:
            what = f"{text!r} does not begin with the number of a step"
            fail(path, what, "Write '1 break egg'", row.line)
        start, end = (row.time(BARE, name, path) for name in ("start", "end"))
        lines.append((int(match[1]), build_segment(start, end, match[2], path, row.line)))
    return lines


def name_numbers(lines: Sequence[tuple[int, Segment]]) -> dict[int, str]:
    """Map numbers to names, in their most common spelling; equal names get the number.

    >>> name_numbers([(2, Segment(0, 1, "stir")), (1, Segment(1, 2, "pour"))])
    {1: 'pour', 2: 'stir'}
    """
    spellings: dict[int, Counter[str]] = {}
    for number, segment in lines:
        spellings.setdefault(number, Counter())[segment.step] += 1
    return tell_apart(
        (number, spellings[number].most_common(1)[0][0]) for number in sorted(spellings)
    )


def tell_apart(names: Iterable[tuple[int, str]]) -> dict[int, str]:
    """Make names unique: the second of two equal names gets its number.

    >>> tell_apart(enumerate(["stir", "pour", "stir"], start=1))
    {1: 'stir', 2: 'pour', 3: 'stir (3)'}
    """
    apart: dict[int, str] = {}
    for number, name in names:
        apart[number] = f"{name} ({number})" if name in apart.values() else name
    return apart


def is_egoprocel(rows: Sequence[Row]) -> bool:
    """Whether a table has no header and all labels begin with a number."""
    if None in map(seconds, rows[0].cells[:2]):
        return False
    return all(_NUMBERED.fullmatch(_name_cell(row.cells)) for row in rows)


def _name_cell(cells: Sequence[str]) -> str:
    """Join the cells after the times: an unquoted comma splits a name, spreadsheets add cells."""
    rest = list(cells[2:])
    while len(rest) > 1 and not rest[-1].strip():
        rest.pop()
    return ", ".join(rest).strip()


# ---------------------------------------------------------------------- transcripts


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
    suffix = place.suffix.lower()
    if suffix == ".xlsx":
        listed = _listed_rows(read_sheet(place, None))
    elif suffix in (".csv", ".tsv"):
        listed = _listed_rows(parse_rows(read_text(place, encoding), place))
    else:
        listed = _listed_lines(read_text(place, encoding), place)
    example = "'a.mp4: cut, butter, jam'"
    found: dict[str, list[str]] = {}
    lines: dict[str, int] = {}
    for line, video, steps in listed:
        if not video:
            fail(place, "the line has no video", f"Write {example}", line)
        if video in found:
            what = f"the video {video!r} is already in line {lines[video]}"
            fail(place, what, "Remove one of the two", line)
        if not steps or not all(steps):
            advice = f"Write its steps in order, separated by commas: {example}"
            fail(place, f"the video {video!r} has no steps or an empty step", advice, line)
        if wrong := next((step for step in steps if not step.isprintable()), None):
            what = f"the step name {wrong!r} contains control characters"
            fail(place, what, "Rename the step", line)
        found[video], lines[video] = steps, line
    if not found:
        fail(place, "contains no transcript", f"Write a line such as {example}")
    return found


Listed = Iterator[tuple[int, str, list[str]]]
"""The line, the video and the steps of each transcript."""


def _listed_lines(text: str, path: Path) -> Listed:
    """Split lines `video: step, step`; the colon of a drive letter is not a separator."""
    for line, words in enumerate(text.split("\n"), start=1):
        if not words.strip() or words.lstrip().startswith("#"):
            continue
        parted = re.fullmatch(r"\s*((?:\w:(?=[\\/]))?[^:]*):(.*)", words)
        if not parted:
            what = f"{words.strip()[:60]!r} has no colon after the name of the video"
            fail(path, what, "Write 'a.mp4: cut, butter, jam'", line)
        video, rest = parted.groups()
        steps = re.split("[;\t]" if re.search("[;\t]", rest) else ",", rest)
        yield line, video.strip(), [step.strip() for step in steps] if rest.strip() else []


def _listed_rows(rows: Sequence[Row]) -> Listed:
    """Split rows of a video and its steps; the first row may be a header."""
    headed = simplify(rows[0].cells[0]) in COLUMNS["video"].split()
    for row in rows[1:] if headed else rows:
        video, *steps = (cell.strip() for cell in row.cells)
        while steps and not steps[-1]:  # spreadsheets pad all rows to one width
            steps.pop()
        if len(steps) == 1:  # one cell may contain all steps
            steps = [step.strip() for step in re.split("[,;]", steps[0])]
        yield row.line, video, steps
