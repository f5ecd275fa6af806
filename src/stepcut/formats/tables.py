"""CSV and TSV: start, end and step in any common dialect, with or without a header."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from stepcut.errors import OptionError, unknown
from stepcut.files.atomic import write_text
from stepcut.formats.common import (
    NONE,
    Options,
    build_segment,
    choose_tier,
    need_seconds,
    seconds,
    where_present,
)
from stepcut.formats.text import fail, read_text
from stepcut.tables import GUARDED, guarded
from stepcut.timeline import Segment, Timeline

# Column names after `simplify`, in English, German, French and Spanish; the first match counts.
# docs/formats.md lists them.
COLUMNS = {
    "start": """start start_time starttime start_sec start_seconds begin begin_time from onset
        t_start tmin begin_time_-_ss.msec begin_time_-_hh:mm:ss.ms anfang anfangszeit beginn
        startzeit von debut temps_de_debut heure_de_debut inicio comienzo tiempo_inicial
        tiempo_de_inicio hora_de_inicio desde time timestamp zeit zeitpunkt temps tiempo""",
    "end": """end end_time endtime end_sec end_seconds stop stop_time to offset t_end tmax
        end_time_-_ss.msec end_time_-_hh:mm:ss.ms ende endzeit stopp bis fin temps_de_fin
        heure_de_fin final tiempo_final tiempo_de_fin hora_de_fin hasta""",
    "duration": """duration duration_-_ss.msec length dauer lange duree duracion""",
    "start_frame": "frame_start start_frame first_frame",
    "end_frame": "frame_end end_frame stop_frame last_frame",
    "step": """label step step_name name action behavior behaviour annotation description text
        class activity value schritt arbeitsschritt verhalten handlung aktion tatigkeit vorgang
        bezeichnung beschreibung etape comportement activite libelle etiquette nom paso accion
        actividad comportamiento conducta etiqueta nombre descripcion""",
    "confidence": "confidence score probability conf konfidenz confiance confianza",
    "video": """video video_id video_name media_file_name media_file file filename recording
        recording_id datei dateiname mediendatei aufnahme fichier nom_du_fichier enregistrement
        archivo nombre_de_archivo fichero grabacion""",
    "annotator": "annotator tier annotateur anotador",
}
BARE = {"start": 0, "end": 1, "step": 2}
"""The columns of a table without a header."""


@dataclass(frozen=True)
class Row:
    line: int
    cells: list[str]

    def cell(self, columns: Mapping[str, int], name: str, path: Path) -> str:
        """Return the cell in the column `name`, or "" without such a column."""
        if name not in columns:
            return ""
        if columns[name] >= len(self.cells):
            what = f"{self.cells} has too few columns: {name} is missing"
            fail(path, what, "Complete the line", self.line)
        return self.cells[columns[name]].strip()

    def time(self, columns: Mapping[str, int], name: str, path: Path) -> float:
        return need_seconds(self.cell(columns, name, path), path, self.line)


def read(rows: Sequence[Row], path: Path, options: Options = NONE) -> list[Timeline]:
    """Read a table of segments; a row without an end is a click."""
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
    tiers = [
        {name: Timeline(each, video=video) for name, each in found[video].items()}
        for video in found
    ]
    return where_present(tiers, lambda each: each[choose_tier(each, options, path)])


def read_rows(path: Path) -> list[Row]:
    return parse_rows(read_text(path), path)


def parse_rows(text: str, path: Path) -> list[Row]:
    """Return the rows of a table without blank and `#` lines; detect the delimiter."""
    head = text if len(text) < 2**16 else text[: text.rfind("\n", 0, 2**16) + 1] or text
    options = {delimiter: rows for delimiter in "\t;," if (rows := _split(head, delimiter, path))}
    if not options:
        advice = "Export it again, or delete it if the video has no labels"
        fail(path, "has no rows", advice)

    def fit(delimiter: str) -> tuple[int, int]:
        """Count the rows with times, and those as wide as the first one."""
        widths = [len(row.cells) for row in options[delimiter]]
        timed = sum(is_timed(row.cells) for row in options[delimiter])
        return timed, widths.count(widths[0]) if widths[0] > 1 else 0

    best = max(options, key=fit)
    return options[best] if head is text else _split(text, best, path)


def is_header(row: Row) -> bool:
    """Whether a row is a header: none of its cells is a time."""
    return not any(seconds(cell) is not None for cell in row.cells)


def header_columns(rows: Sequence[Row], path: Path, options: Options = NONE) -> dict[str, int]:
    """Find the columns by the names in `options`, or else by common names."""
    header = rows[0]
    names = [simplify(cell) for cell in header.cells]
    columns: dict[str, int] = {}
    for ours, theirs in options.columns.items():
        name = "step" if ours == "label" else ours
        if name not in COLUMNS:
            raise unknown("column", ours, COLUMNS, "columns")
        if simplify(theirs) not in names:
            there = [cell.strip() for cell in header.cells]
            raise unknown("column", theirs, there, str(path))
        columns[name] = names.index(simplify(theirs))
    for column, common in COLUMNS.items():
        place = next((names.index(name) for name in common.split() if name in names), None)
        instead_of = {"start_frame": "start", "end_frame": "end"}.get(column, "")
        if place is not None and instead_of not in columns:
            columns.setdefault(column, place)
    if "step" not in columns and "annotator" in columns:  # ELAN with one tier per step
        columns["step"] = columns.pop("annotator")
    missing = [] if {"start", "start_frame"} & columns.keys() else ["start"]
    # Rows without an end are clicks, unless another column may be the end.
    others = set(range(len(names))) - set(columns.values())
    timed = any(all(_has_time(row, place) for row in rows[1:]) for place in others)
    ends = {"end", "duration", "end_frame"} & columns.keys()
    if not ends and (missing or (timed and len(rows) > 1 and not options.columns)):
        missing.append("end")
    missing += [] if "step" in columns else ["step"]
    if missing:
        advice = f"Set it: --columns {','.join(f'{name}=NAME' for name in missing)}"
        what = f"the header {header.cells} has no column for {', '.join(missing)}"
        fail(path, what, advice, header.line)
    return columns


def _has_time(row: Row, place: int) -> bool:
    return place < len(row.cells) and seconds(row.cells[place]) is not None


@cache
def simplify(name: str) -> str:
    """Return a column name for comparison, without accents, case and unit of seconds.

    >>> simplify("Début  (s)"), simplify("Start Time [sec]"), simplify("Time (ms)")
    ('debut', 'start_time', 'time_(ms)')
    """
    plain = unicodedata.normalize("NFKD", name.casefold())
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    plain = re.sub(
        r"\s*[(\[](s|secs?|sek|seconds?|sekunden|secondes?|segundos)[)\]]\s*$", "", plain
    )
    return "_".join(plain.split())


def bare_columns(rows: Sequence[Row]) -> dict[str, int]:
    """Find the columns of a table without a header.

    The times are start, end and perhaps length, each in up to three units, as in ELAN's
    tab-delimited export. The step follows the times or, if nothing does, precedes them.

    >>> bare_columns([Row(1, ["0", "1.5", "pour"])]) == BARE
    True
    >>> bare_columns([Row(1, ["ann", "", "00:00:01.5", "1.5", "00:00:02", "2.0", "pour"])])
    {'start': 2, 'end': 4, 'step': 6, 'annotator': 0}
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


def is_timed(cells: Sequence[str]) -> bool:
    """Whether the `cells` of a row contain two times and something else."""
    return len(cells) >= 3 and sum(seconds(cell) is not None for cell in cells) >= 2


def _split(text: str, delimiter: str, path: Path) -> list[Row]:
    lines = io.StringIO(text, newline="")
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=False)
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
        fail(path, f"is not a table: {error}", "Check the quotes", line)
    return rows


def write(
    path: Path, timelines: Sequence[Timeline], options: Options = NONE, delimiter: str = ","
) -> None:
    """Write `start,end,label`, plus confidence if present, and video if there are several.

    A video without segments has a line with its name only.
    """
    many = len(timelines) != 1
    scored = any(segment.confidence is not None for timeline in timelines for segment in timeline)
    header = ["video", "start", "end", "label", "confidence"]
    rows = [header]
    for timeline in timelines:
        if many and not timeline.segments:
            rows.append([timeline.video, "", "", "", ""])
        for s in timeline:
            confidence = "" if s.confidence is None else plain(s.confidence)
            rows.append([timeline.video, plain(s.start), plain(s.end), s.step, confidence])
    part = slice(0 if many else 1, 5 if scored else 4)
    write_rows(path, [row[part] for row in rows], delimiter, options.spreadsheet, delimiter == ",")


def write_rows(
    path: Path,
    rows: Iterable[Sequence[str]],
    delimiter: str = ",",
    spreadsheet: bool = False,
    mark: bool = False,
) -> None:
    """Write `rows` to `path`, quoted where necessary.

    `spreadsheet` escapes cells that a spreadsheet would read as a formula. `mark` adds a byte order
    mark, so that Excel reads UTF-8.
    """

    def guard(cell: str) -> str:
        risky = (spreadsheet and seconds(cell) is None) or GUARDED.match(cell)
        return guarded(cell) if risky else cell

    out = io.StringIO()
    out.write("\ufeff" if mark else "")
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(
        [guard(cell) for cell in row] for row in rows
    )
    write_text(path, out.getvalue())


def plain(value: float) -> str:
    """Format a number with all digits, without a trailing `.0`.

    >>> plain(3.0), plain(0.1)
    ('3', '0.1')
    """
    return repr(int(value)) if value == int(value) else repr(float(value))
