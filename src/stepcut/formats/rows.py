"""Rows of tables: any delimiter, Excel, and the names that people and programs give to columns."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from functools import cache
from pathlib import Path

from stepcut.errors import StepcutError, unknown
from stepcut.files.atomic import write_text
from stepcut.formats.common import NONE, Options, fail, need_seconds, plain, read_text, seconds
from stepcut.plugins import needs
from stepcut.tables import guarded, unguarded

TIME = "time zeit temps tiempo time_relative_sf time_relative_hmsf time_relative_hms"
BEHAVIOR = "behavior behaviour verhalten comportement comportamiento conducta"
# Column names after `simplify`, in English, German, French and Spanish, of people and of programs;
# the first match counts. docs/formats.md lists them. Every table is read by this dictionary.
COLUMNS = {
    "start": f"""start start_time starttime start_sec start_seconds begin begin_time from onset
        t_start tmin begin_time_-_ss.msec begin_time_-_hh:mm:ss.ms anfang anfangszeit beginn
        startzeit von debut temps_de_debut heure_de_debut inicio comienzo tiempo_inicial
        tiempo_de_inicio hora_de_inicio desde {TIME} timestamp zeitpunkt""",
    "end": """end end_time endtime end_sec end_seconds stop stop_time to offset t_end tmax
        end_time_-_ss.msec end_time_-_hh:mm:ss.ms ende endzeit stopp bis fin temps_de_fin
        heure_de_fin final tiempo_final tiempo_de_fin hora_de_fin hasta""",
    "duration": "duration duration_-_ss.msec length dauer lange duree duracion",
    "start_frame": "frame_start start_frame first_frame",
    "end_frame": "frame_end end_frame stop_frame last_frame",
    "step": f"""{BEHAVIOR} label step step_name name action annotation description text class
        activity value schritt arbeitsschritt handlung aktion tatigkeit vorgang bezeichnung
        beschreibung etape activite libelle etiquette nom paso accion actividad etiqueta nombre
        descripcion code01 code1""",
    "confidence": "confidence score probability conf konfidenz confiance confianza",
    "video": """video video_id video_name media_file_name media_file_path media_file file filename
        recording recording_id datei dateiname mediendatei name_der_mediendatei aufnahme fichier
        nom_du_fichier fichier_media nom_du_fichier_media enregistrement archivo nombre_de_archivo
        archivo_multimedia nombre_del_archivo_multimedia fichero grabacion""",
    "annotator": "annotator tier annotateur anotador",
    "observation": """observation_id observation beobachtung beobachtungs-id id_observation
        id_d'observation id_de_l'observation observacion id_de_observacion
        id_de_la_observacion""",
    "subject": "subject subjekt sujet sujeto",
    "status": """status behavior_type behaviour_type event_type verhaltenstyp statut
        type_de_comportement estado tipo_de_comportamiento tipo_de_conducta""",
    "time_offset": "time_offset zeitversatz decalage_temporel desfase_temporal",
    "source": "source quelle fuente",
    "media_duration": "media_duration mediendauer duree_du_media duracion_del_medio",
}
BARE = {"start": 0, "end": 1, "step": 2}
"""The columns of a table without a header."""
MOST_CELLS = 20_000_000
"""The largest Excel sheet that is read."""


@dataclass(frozen=True)
class Row:
    """A row of a table, and its line in the file."""

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


# ---------------------------------------------------------------------- rows


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


def _split(text: str, delimiter: str, path: Path) -> list[Row]:
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
        fail(path, f"is not a table: {error}", "Check the quotes", line)
    return rows


def read_sheet(path: Path, sheet: str | None) -> list[Row]:
    """Return the rows of an Excel file: of the first sheet, or of the one called `sheet`."""
    with needs("xlsx"):
        from openpyxl import load_workbook
    rows: list[Row] = []
    count = 0
    try:
        book = load_workbook(path, read_only=True, data_only=True)
        with closing(book):
            names = book.sheetnames
            if sheet is not None and sheet not in names:
                raise unknown("sheet", sheet, names, str(path))
            lines = book[sheet or names[0]].iter_rows(values_only=True)
            for line, cells in enumerate(lines, start=1):
                count += len(cells)
                if count > MOST_CELLS:
                    fail(path, f"has more than {MOST_CELLS:,} cells", "Remove what is not a label")
                texts = [_cell_text(cell) for cell in cells]
                if "".join(texts).strip() and not texts[0].startswith("# "):
                    rows.append(Row(line, texts))
    except StepcutError:
        raise
    except Exception as error:  # openpyxl raises many kinds for a damaged file
        what = f"is not a readable Excel file ({type(error).__name__} {str(error)[:100]})"
        fail(path, what, "Save it as .xlsx or .csv again")
    if not rows:
        fail(path, "has no rows", "Choose the sheet with the labels: --sheet NAME")
    width = max(len(row.cells) for row in rows)
    return [Row(row.line, [*row.cells, *[""] * (width - len(row.cells))]) for row in rows]


def _cell_text(cell: object) -> str:
    """Return the value of an Excel cell as text; times of day and durations as seconds."""
    if cell is None:
        return ""
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return plain(cell) if cell == cell else ""
    if isinstance(cell, timedelta):
        return plain(cell.total_seconds())
    if isinstance(cell, time) or (isinstance(cell, datetime) and cell.year == 1900):
        days = cell.day if isinstance(cell, datetime) else 0  # Excel's day 1 is 1900-01-01
        seconds = 60 * (60 * (24 * days + cell.hour) + cell.minute) + cell.second
        return plain(seconds + cell.microsecond / 1e6)
    return str(cell)


# ---------------------------------------------------------------------- columns


def is_header(row: Row) -> bool:
    """Whether a row is a header: none of its cells is a time."""
    return not any(seconds(cell) is not None for cell in row.cells)


def find_columns(cells: Sequence[str]) -> dict[str, int]:
    """Find the columns of a header by the names of `COLUMNS`.

    >>> find_columns(["Label", "Début (s)", "Fin"])
    {'start': 1, 'end': 2, 'step': 0}
    """
    names = [simplify(cell) for cell in cells]
    found = {
        ours: next((names.index(name) for name in theirs.split() if name in names), -1)
        for ours, theirs in COLUMNS.items()
    }
    return {ours: place for ours, place in found.items() if place >= 0}


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
    for column, place in find_columns(header.cells).items():
        instead_of = {"start_frame": "start", "end_frame": "end"}.get(column, "")
        if instead_of not in columns:
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
    letters = unicodedata.normalize("NFKD", name.casefold())
    letters = "".join(letter for letter in letters if not unicodedata.combining(letter))
    letters = re.sub(
        r"\s*[(\[](s|secs?|sek|seconds?|sekunden|secondes?|segundos)[)\]]\s*$", "", letters
    )
    return "_".join(letters.split())


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


def is_timed(cells: Sequence[str]) -> bool:
    """Whether the `cells` of a row contain two times and something else."""
    return len(cells) >= 3 and sum(seconds(cell) is not None for cell in cells) >= 2


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
        return guarded(cell, always=spreadsheet and seconds(cell) is None)

    out = io.StringIO()
    out.write("\ufeff" if mark else "")
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(
        [guard(cell) for cell in row] for row in rows
    )
    write_text(path, out.getvalue())
