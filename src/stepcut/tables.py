"""Results in files: `Table` as text, CSV, Excel, LaTeX, JSON, Markdown or HTML, and figures."""

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from typing import Any, NamedTuple

from stepcut.errors import ExtraNeeded, choose, printable
from stepcut.files import AnyPath, as_path, whole_file, write_bytes
from stepcut.plugins import pip_install

# Where a spreadsheet may read a formula: the start of a cell, and what follows a separator.
_SPOT = re.compile("(^|[;,\t\r\n])('*)(?=\"*[-=+@＝＋－＠\t\r])")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_NUMBER = re.compile(r"[-+]\d+(\.\d+)?\s*(?=[;,\t\r\n]|\Z)")


class Spread(NamedTuple):
    """Mean and sample standard deviation: one cell in text and LaTeX, two in CSV and JSON."""

    mean: float
    sd: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        mean = math.fsum(values) / len(values)
        squares = math.fsum((value - mean) ** 2 for value in values)
        return cls(mean, math.sqrt(squares / max(1, len(values) - 1)))


Cell = str | int | float | Spread | None


@dataclass(repr=False)
class Table:
    """Rows of results with a caption above and notes below.

    `digits` are the decimals of floats in text and LaTeX; CSV and JSON keep all. `bold` are pairs
    of row and column. In LaTeX, `groups` are the heads of adjacent columns, each with its number of
    columns, and `label` is what `\\ref` finds.
    """

    columns: list[str]
    rows: list[list[Cell]]
    caption: str = ""
    notes: list[str] = field(default_factory=list)
    digits: int = 1
    bold: frozenset[tuple[int, int]] = frozenset()
    groups: Sequence[tuple[str, int]] = ()
    label: str = ""

    def column(self, name: str) -> list[Cell]:
        """Return the cells of a column; an unknown name raises `OptionError`."""
        place = choose("column", name, {each: place for place, each in enumerate(self.columns)})
        return [row[place] for row in self.rows]

    def show(self, cell: Cell) -> str:
        if isinstance(cell, Spread):
            return f"{self.show(cell.mean)} ± {self.show(cell.sd)}"
        if cell is None or (isinstance(cell, float) and math.isnan(cell)):
            return "–"
        return f"{cell:.{self.digits}f}" if isinstance(cell, float) else str(cell)

    def text(self) -> str:
        body = [[self.show(cell) for cell in row] for row in self.rows]
        widths = [max(map(len, cells)) for cells in zip(self.columns, *body, strict=True)]
        marks = [">" if numeric else "<" for numeric in self._numeric()]
        lines = [
            "  ".join(f"{c:{m}{w}}" for c, m, w in zip(cells, marks, widths, strict=True)).rstrip()
            for cells in (self.columns, ["-" * width for width in widths], *body)
        ]
        return "\n".join([*([self.caption] if self.caption else []), *lines, *self.notes])

    def csv(self) -> str:
        out = io.StringIO()
        columns, rows = self._plain()
        lines = [_guarded_row(columns), *map(_guarded_row, rows)]
        csv.writer(out, lineterminator="\n").writerows(lines)
        return out.getvalue()

    def latex(self) -> str:
        aligned = "".join("r" if numeric else "l" for numeric in self._numeric())
        lines = ["\\begin{table}", "\\centering", f"\\begin{{tabular}}{{{aligned}}}", "\\toprule"]
        above, rules, below, first = list[str](), list[str](), list[str](), 0
        for title, span in self.groups or [("", len(self.columns))]:
            if title:
                above.append(f"\\multicolumn{{{span}}}{{c}}{{{_tex(title)}}}")
                rules.append(f"\\cmidrule(lr){{{first + 1}-{first + span}}}")
            else:
                above += [""] * span
            names = self.columns[first : first + span]
            below += [name.removeprefix(f"{title} ") if title else name for name in names]
            first += span
        lines += [_tex_line(above), " ".join(rules)] if self.groups else []
        lines += [_tex_line(map(_tex, below)), "\\midrule"]
        for number, row in enumerate(self.rows):
            cells = [_tex(self.show(cell)) for cell in row]
            for place in range(len(cells)):
                if (number, place) in self.bold:
                    cells[place] = f"\\textbf{{{cells[place]}}}"
            lines.append(_tex_line(cells))
        lines += ["\\bottomrule", "\\end{tabular}"]
        lines += [f"\\caption{{{_tex(self.caption)}}}"] if self.caption else []
        lines += [f"\\label{{{self.label}}}"] if self.label else []
        return "\n".join([*lines, "\\end{table}", *(f"% {note}" for note in self.notes)]) + "\n"

    def markdown(self) -> str:
        rule = ["---:" if numeric else "---" for numeric in self._numeric()]
        head = [f"| {' | '.join(map(markdown_text, self.columns))} |", f"|{'|'.join(rule)}|"]
        body = []
        for number, row in enumerate(self.rows):
            cells = [markdown_text(self.show(cell)) for cell in row]
            for place in range(len(cells)):
                if (number, place) in self.bold:
                    cells[place] = f"**{cells[place]}**"
            body.append(f"| {' | '.join(cells)} |")
        caption = [markdown_text(self.caption), ""] if self.caption else []
        notes = ["", *(f"- {markdown_text(note)}" for note in self.notes)] if self.notes else []
        return "\n".join([*caption, *head, *body, *notes]) + "\n"

    def json(self) -> str:
        columns, plain = self._plain()
        cells = [
            [None if isinstance(c, float) and not math.isfinite(c) else c for c in row]
            for row in plain
        ]
        rows = [dict(zip(columns, row, strict=True)) for row in cells]
        record = {"caption": self.caption, "columns": columns, "rows": rows, "notes": self.notes}
        return json.dumps(record, indent=1, ensure_ascii=False) + "\n"

    def format(self, name: str) -> str:
        """Return the table as "text", "csv", "latex", "json" or "markdown"."""
        forms = (self.text, self.csv, self.latex, self.json, self.markdown)
        return choose("format", name, {form.__name__: form for form in forms})()

    def save(self, path: AnyPath) -> None:
        """Save the table; the suffix selects the format: .csv, .xlsx, .json, .tex, .md or .txt."""
        name = check_table(path)
        if name == "xlsx":
            about = [[text] for text in (self.caption, *self.notes) if text]
            columns, rows = self._plain()
            sheets: dict[str, list[Any]] = {"table": [columns, *rows], "about": about}
            write_bytes(path, to_sheets({title: rows for title, rows in sheets.items() if rows}))
            return
        # A spreadsheet may open text, and reads CSV as UTF-8 if it begins with a byte order mark.
        text = self._guarded().text() if name == "text" else self.format(name)
        text = text.rstrip("\n") + "\n"
        write_bytes(path, text.encode("utf-8-sig" if name == "csv" else "utf-8", "replace"))

    def _guarded(self) -> "Table":
        rows = [_guarded_row(row) for row in self.rows]
        columns, notes = _guarded_row(self.columns), _guarded_row(self.notes)
        return Table(columns, rows, guarded(self.caption), notes, self.digits)

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with all digits; without pandas, raise `ExtraNeeded`."""
        return data_frame(*self._plain())

    def __repr__(self) -> str:
        size = f"{len(self.rows)} rows and {len(self.columns)} columns"
        return f"<{type(self).__name__} of {size}: {self.caption}>"

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(self.show(cell))}</td>" for cell in row) + "</tr>"
            for row in self.rows
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        caption = f"<caption>{escape(self.caption)}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"

    def _plain(self) -> tuple[list[str], list[list[str | int | float | None]]]:
        """Columns and rows for programs; a column of spreads becomes two, `F1` and `F1 sd`."""
        places = range(len(self.columns))
        spread = [any(isinstance(row[place], Spread) for row in self.rows) for place in places]
        columns: list[str] = []
        rows: list[list[str | int | float | None]] = [[] for _ in self.rows]
        for place, name in enumerate(self.columns):
            columns += [name, f"{name} sd"][: 1 + spread[place]]
            for cells, row in zip(rows, self.rows, strict=True):
                cell = row[place]
                parts = cell if isinstance(cell, Spread) else (cell, None)
                cells += parts[: 1 + spread[place]]
        return columns, rows

    def _numeric(self) -> list[bool]:
        """Whether each column is aligned to the right, as is text such as `41.1 ± 0.3`."""
        found = []
        for place in range(len(self.columns)):
            cells = [row[place] for row in self.rows if row[place] is not None]
            texts = [str(cell) for cell in cells if not isinstance(cell, int | float | Spread)]
            plain = all(text[:1].isdigit() or text in ("–", "") for text in texts)
            found.append(bool(cells) and plain)
        return found


SUFFIXES = {
    ".csv": "csv", ".xlsx": "xlsx", ".json": "json", ".tex": "latex", ".md": "markdown",
    ".txt": "text",
}  # fmt: skip


def check_table(path: AnyPath) -> str:
    return choose("suffix", as_path(path).suffix.lower(), SUFFIXES)


def guarded(cell: str, always: bool = True) -> str:
    """Return a `cell` with apostrophes where a spreadsheet would read a formula.

    Escapes that are there get one more, so `unguarded` returns the cell; without `always`, only
    they do.
    """

    def escape(match: re.Match[str]) -> str:
        risky = always and not _NUMBER.match(cell, match.end())
        return f"{match[0]}'" if match[2] or risky else match[0]

    return _SPOT.sub(escape, cell)


def unguarded(cell: str) -> str:
    return _SPOT.sub(lambda match: match[1] + match[2][1:], cell)


def _guarded_row(row: Iterable[Any]) -> list[Any]:
    return [guarded(cell) if isinstance(cell, str) else cell for cell in row]


def to_sheets(sheets: Mapping[str, Sequence[Sequence[Any]]]) -> bytes:
    import xlsxwriter

    out = io.BytesIO()
    with xlsxwriter.Workbook(out) as book:
        book.set_properties({"created": datetime(2000, 1, 1)})  # the same content, the same file
        bold = book.add_format({"bold": True})
        for title, rows in sheets.items():
            sheet = book.add_worksheet(title)
            headed = title != "about"
            if headed:
                sheet.freeze_panes(1, 0)
            for number, row in enumerate(rows):
                for place, value in enumerate(row):
                    style = bold if headed and number == 0 else None
                    if isinstance(value, str):  # a name that begins with = is not a formula
                        text = _CONTROL.sub(lambda mark: printable(mark[0]), value)
                        sheet.write_string(number, place, text, style)
                    elif value is not None and math.isfinite(value):
                        sheet.write_number(number, place, value, style)
    return out.getvalue()


def data_frame(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Any:
    try:
        import pandas
    except ImportError as error:
        what = "to_pandas() needs pandas, which is not installed"
        raise ExtraNeeded(f"{what}. Run: {pip_install('pandas')}") from error
    return pandas.DataFrame(list(rows), columns=list(columns))


def markdown_text(text: str) -> str:
    return "".join("\\" + c if c in "\\|*_<>`" else c for c in text)


def _tex_line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + " \\\\"


_TEX = str.maketrans({
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "–": "--", **{mark: "\\" + mark for mark in "&%$#_{}"},
})  # fmt: skip


def _tex(text: str) -> str:
    return text.translate(_TEX)


# ---------------------------------------------------------------------- figures

# reproducible files, and `$` in names as plain text
FIXED: dict[Any, Any] = {"svg.hashsalt": "stepcut", "text.parse_math": False}
# the supported suffixes, and the metadata to omit for reproducible files
METADATA = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


@contextmanager
def drawn_with(settings: dict[Any, Any]) -> Iterator[None]:
    """Draw with these matplotlib `settings`, as a context or a decorator."""
    import matplotlib

    with matplotlib.rc_context(settings):
        yield


def check_picture(path: AnyPath) -> str:
    suffix: str = as_path(path).suffix.lower()
    choose("suffix", suffix, METADATA)
    return suffix


@drawn_with(FIXED)
def save_figure(figure: Any, path: AnyPath, dpi: int = 150) -> None:
    suffix = check_picture(path)
    with whole_file(path) as temporary:
        figure.savefig(temporary, format=suffix[1:], dpi=dpi, metadata=METADATA[suffix])
