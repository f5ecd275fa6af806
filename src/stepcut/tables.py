"""Table: rows of figures with a caption, as text, CSV, Excel, LaTeX, JSON, Markdown or HTML."""

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from typing import Any, NamedTuple

from stepcut.errors import ExtraNeeded, choose, printable
from stepcut.files.addresses import AnyPath, as_path
from stepcut.files.atomic import write_bytes
from stepcut.plugins import pip_install

_SPOT = re.compile("(^|[;,\t\r\n])('*)(?=\"*[-=+@＝＋－＠\t\r])")
"""Where a spreadsheet may read a formula, with the apostrophes that escape it: the start of a cell
and, because other countries separate cells by semicolons or tabs, what follows one."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_NUMBER = re.compile(r"[-+]\d+(\.\d+)?\s*(?=[;,\t\r\n]|\Z)")


class Spread(NamedTuple):
    """Mean and sample standard deviation: one cell in text and LaTeX, two in CSV and JSON."""

    mean: float
    sd: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Return the spread of some values; that of a single value is 0.

        >>> Spread.of([1.0, 3.0])
        Spread(mean=2.0, sd=1.4142135623730951)
        """
        mean = math.fsum(values) / len(values)
        squares = math.fsum((value - mean) ** 2 for value in values)
        return cls(mean, math.sqrt(squares / max(1, len(values) - 1)))


Cell = str | int | float | Spread | None


@dataclass(repr=False)
class Table:
    """Rows of results with a caption above and notes below.

    A `Spread` in a cell is a mean with its standard deviation. `digits` are the decimals of floats
    in text and LaTeX; CSV and JSON keep all. LaTeX and Markdown show the cells in `bold`, pairs of
    row and column, in bold. In LaTeX, `groups` are the heads of adjacent columns, each with its
    number of columns, and `label` is what `\\ref` finds.

    Examples
    --------
    >>> print(Table(["row", "F1"], [["uniform", 26.44]], caption="strict, K=7"))
    strict, K=7
    row        F1
    -------  ----
    uniform  26.4
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
        """Return the cells of a column.

        Parameters
        ----------
        name
            Name of the column.

        Returns
        -------
        list
            One cell per row.

        Raises
        ------
        OptionError
            The table has no such column.

        Examples
        --------
        >>> Table(["row", "F1"], [["uniform", 26.44]]).column("F1")
        [26.44]
        """
        place = choose("column", name, {each: place for place, each in enumerate(self.columns)})
        return [row[place] for row in self.rows]

    def show(self, cell: Cell) -> str:
        """Format one cell for reading."""
        if isinstance(cell, Spread):
            return f"{self.show(cell.mean)} ± {self.show(cell.sd)}"
        if cell is None or (isinstance(cell, float) and math.isnan(cell)):
            return "–"
        return f"{cell:.{self.digits}f}" if isinstance(cell, float) else str(cell)

    def text(self) -> str:
        """Return aligned columns: text to the left, numbers to the right."""
        body = [[self.show(cell) for cell in row] for row in self.rows]
        widths = [
            max(len(line[i]) for line in [self.columns, *body]) for i in range(len(self.columns))
        ]
        right = [self._numeric(i) for i in range(len(self.columns))]

        def line(cells: Sequence[str]) -> str:
            parts = [
                c.rjust(w) if r else c.ljust(w)
                for c, w, r in zip(cells, widths, right, strict=True)
            ]
            return "  ".join(parts).rstrip()

        lines = [
            line(self.columns),
            line(["-" * w for w in widths]),
            *(line(cells) for cells in body),
        ]
        return "\n".join([*([self.caption] if self.caption else []), *lines, *self.notes])

    def csv(self) -> str:
        """Return CSV with a header and all digits; cells that look like formulas are escaped."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        columns, rows = self._plain()
        writer.writerow(map(guarded, columns))
        writer.writerows(
            [guarded(cell) if isinstance(cell, str) else cell for cell in row] for row in rows
        )
        return out.getvalue()

    def latex(self) -> str:
        """Return a LaTeX booktabs table with its caption."""
        aligned = "".join("r" if self._numeric(i) else "l" for i in range(len(self.columns)))
        lines = ["\\begin{table}", "\\centering", f"\\begin{{tabular}}{{{aligned}}}", "\\toprule"]
        lines += [*self._tex_heads(), "\\midrule"]
        for number, row in enumerate(self.rows):
            cells = [_tex(self.show(cell)) for cell in row]
            for place in range(len(cells)):
                if (number, place) in self.bold:
                    cells[place] = f"\\textbf{{{cells[place]}}}"
            lines.append(" & ".join(cells) + " \\\\")
        lines += ["\\bottomrule", "\\end{tabular}"]
        if self.caption:
            lines.append(f"\\caption{{{_tex(self.caption)}}}")
        if self.label:
            lines.append(f"\\label{{{self.label}}}")
        return "\n".join([*lines, "\\end{table}", *(f"% {note}" for note in self.notes)]) + "\n"

    def _tex_heads(self) -> list[str]:
        """The names of the columns, below those of their groups."""
        if not self.groups:
            return [_tex_line(self.columns)]
        above, rules, below, first = list[str](), list[str](), list[str](), 0
        for title, span in self.groups:
            if title:
                above.append(f"\\multicolumn{{{span}}}{{c}}{{{_tex(title)}}}")
                rules.append(f"\\cmidrule(lr){{{first + 1}-{first + span}}}")
            else:
                above += [""] * span
            names = self.columns[first : first + span]
            below += [name.removeprefix(f"{title} ") if title else name for name in names]
            first += span
        return [" & ".join(above) + " \\\\", " ".join(rules), _tex_line(below)]

    def markdown(self) -> str:
        """Return a Markdown table with the caption above and the notes below."""
        rule = ["---:" if self._numeric(i) else "---" for i in range(len(self.columns))]
        head = [f"| {' | '.join(map(_md, self.columns))} |", f"|{'|'.join(rule)}|"]
        body = []
        for number, row in enumerate(self.rows):
            cells = [_md(self.show(cell)) for cell in row]
            marked = [
                f"**{text}**" if (number, place) in self.bold else text
                for place, text in enumerate(cells)
            ]
            body.append(f"| {' | '.join(marked)} |")
        caption = [f"{_md(self.caption)}", ""] if self.caption else []
        notes = ["", *(f"- {_md(note)}" for note in self.notes)] if self.notes else []
        return "\n".join([*caption, *head, *body, *notes]) + "\n"

    def json(self) -> str:
        """Return a JSON object: caption, columns, rows as objects, notes."""
        columns, plain = self._plain()
        finite = [
            [None if isinstance(c, float) and not math.isfinite(c) else c for c in row]
            for row in plain
        ]
        rows = [dict(zip(columns, row, strict=True)) for row in finite]
        record: dict[str, Any] = {
            "caption": self.caption,
            "columns": columns,
            "rows": rows,
            "notes": self.notes,
        }
        return json.dumps(record, indent=1, ensure_ascii=False) + "\n"

    def format(self, name: str) -> str:
        """Return the table in a text format.

        Parameters
        ----------
        name
            text, csv, latex, json or markdown.

        Returns
        -------
        str
            The table.

        Raises
        ------
        OptionError
            The format is unknown.

        Examples
        --------
        >>> Table(["row", "F1"], [["uniform", 26.44]]).format("csv").split()[0]
        'row,F1'
        """
        forms = (self.text, self.csv, self.latex, self.json, self.markdown)
        return choose("format", name, {form.__name__: form for form in forms})()

    def save(self, path: AnyPath) -> None:
        """Save the table; the suffix selects the format, see `SUFFIXES`.

        CSV files start with a byte order mark, so that Excel reads UTF-8.

        Parameters
        ----------
        path
            The file to write.

        Raises
        ------
        OptionError
            The suffix is unknown (`value`, `allowed`).

        Examples
        --------
        >>> Table(["row", "F1"], [["uniform", 26.44]]).save("scores.csv")
        """
        name = check_table(path)
        if name == "xlsx":
            about = [[text] for text in (self.caption, *self.notes) if text]
            columns, rows = self._plain()
            sheets: dict[str, list[Any]] = {"table": [columns, *rows], "about": about}
            write_bytes(path, to_sheets({title: rows for title, rows in sheets.items() if rows}))
            return
        text = self._guarded().text() if name == "text" else self.format(name)
        text = text.rstrip("\n") + "\n"
        write_bytes(path, text.encode("utf-8-sig" if name == "csv" else "utf-8", "replace"))

    def _guarded(self) -> "Table":
        """The table with escaped texts, for files that a spreadsheet may open."""
        rows: list[list[Cell]] = [
            [guarded(cell) if isinstance(cell, str) else cell for cell in row] for row in self.rows
        ]
        texts = [[guarded(text) for text in part] for part in (self.columns, self.notes)]
        return Table(texts[0], rows, guarded(self.caption), texts[1], self.digits)

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with all digits.

        Returns
        -------
        DataFrame
            One row per row of the table.

        Raises
        ------
        ExtraNeeded
            pandas is not installed.

        Examples
        --------
        >>> Table(["row", "F1"], [["uniform", 26.44]]).to_pandas()["F1"].tolist()
        [26.44]
        """
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
        spread = [
            any(isinstance(row[i], Spread) for row in self.rows) for i in range(len(self.columns))
        ]
        columns = [
            c
            for name, two in zip(self.columns, spread, strict=True)
            for c in ([name, f"{name} sd"][: 1 + two])
        ]
        rows: list[list[str | int | float | None]] = []
        for row in self.rows:
            pairs = [cell if isinstance(cell, Spread) else (cell, None) for cell in row]
            rows.append(
                [part for pair, two in zip(pairs, spread, strict=True) for part in pair[: 1 + two]]
            )
        return columns, rows

    def _numeric(self, place: int) -> bool:
        cells = [row[place] for row in self.rows if row[place] is not None]
        # Text such as `41.1 ± 0.3` is aligned to the right as well.
        shown = [str(cell) for cell in cells if not isinstance(cell, int | float | Spread)]
        return bool(cells) and all(text[:1].isdigit() or text in ("–", "") for text in shown)


SUFFIXES = {
    ".csv": "csv",
    ".xlsx": "xlsx",
    ".json": "json",
    ".tex": "latex",
    ".md": "markdown",
    ".txt": "text",
}
"""The formats of a saved table, by suffix."""


def check_table(path: AnyPath) -> str:
    """Return the format of a table at `path`; refuse one that cannot be written."""
    return choose("suffix", as_path(path).suffix.lower(), SUFFIXES)


def guarded(cell: str, always: bool = True) -> str:
    """Return a `cell` with apostrophes where a spreadsheet would read a formula.

    Escapes that are there get one more apostrophe, so `unguarded` returns the cell; without
    `always`, only they do.

    >>> guarded("=1+1"), guarded("-0.5"), guarded("a=b"), guarded("x;＝1")
    ("'=1+1", '-0.5', 'a=b', "x;'＝1")
    """

    def escape(match: re.Match[str]) -> str:
        risky = always and not _NUMBER.match(cell, match.end())
        return f"{match[0]}'" if match[2] or risky else match[0]

    return _SPOT.sub(escape, cell)


def unguarded(cell: str) -> str:
    """Return the `cell` that `guarded` escaped."""
    return _SPOT.sub(lambda match: match[1] + match[2][1:], cell)


def to_sheets(sheets: Mapping[str, Sequence[Sequence[Any]]]) -> bytes:
    """Return an Excel file with the rows of each sheet; the first row is a header, None is empty."""
    import xlsxwriter

    out = io.BytesIO()
    with xlsxwriter.Workbook(out) as book:
        book.set_properties({"created": datetime(2000, 1, 1)})  # the same content, the same file
        bold = book.add_format({"bold": True})
        for title, rows in sheets.items():
            sheet = book.add_worksheet(title)
            first = title == next(iter(sheets))
            if first:
                sheet.freeze_panes(1, 0)
            for number, row in enumerate(rows):
                for place, value in enumerate(row):
                    style = bold if first and number == 0 else None
                    if isinstance(value, str):  # a name that begins with = is not a formula
                        text = _CONTROL.sub(lambda mark: printable(mark[0]), value)
                        sheet.write_string(number, place, text, style)
                    elif value is not None and math.isfinite(value):
                        sheet.write_number(number, place, value, style)
    return out.getvalue()


def data_frame(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Any:
    """Return a pandas DataFrame; raise `ExtraNeeded` without pandas."""
    try:
        import pandas
    except ImportError as error:
        raise ExtraNeeded(
            f"to_pandas() needs pandas, which is not installed. Run: {pip_install('pandas')}"
        ) from error
    return pandas.DataFrame(list(rows), columns=list(columns))


def _md(text: str) -> str:
    return "".join("\\" + c if c in "\\|*_<>`" else c for c in text)


def _tex_line(cells: Iterable[str]) -> str:
    return " & ".join(_tex(cell) for cell in cells) + " \\\\"


_TEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
    **{mark: "\\" + mark for mark in "&%$#_{}"},
}


def _tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in text)
