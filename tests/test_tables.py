"""Table in all its formats, and as files: the suffix selects the format."""

import csv
import io
import json

import openpyxl
import pytest
from errors_kit import raises

from stepcut.errors import OptionError
from stepcut.tables import SUFFIXES, Spread, Table

ROWS = [["uniform & more", 26.44, 7], ["50 % <b>", None, 12]]
TABLE = Table(["row", "F1", "steps"], ROWS, "strict, K_7", ["A note."])


def test_every_form_of_a_table():
    assert TABLE.text().splitlines() == [
        "strict, K_7", "row               F1  steps", "--------------  ----  -----",
        "uniform & more  26.4      7", "50 % <b>           –     12", "A note.",
    ]  # fmt: skip
    text = TABLE.latex()
    assert r"uniform \& more & 26.4 & 7 \\" in text
    assert r"50 \% <b> & -- & 12 \\" in text
    assert r"\toprule" in text
    assert r"\caption{strict, K\_7}" in text
    record = json.loads(Table(["F1"], [[float("nan")]], "c").json())
    assert record == {"caption": "c", "columns": ["F1"], "rows": [{"F1": None}], "notes": []}
    assert "&lt;b&gt;" in TABLE._repr_html_()
    table = Table(["row", "F1"], [["a", Spread(41.12, 0.31)], ["b", 2.0]])
    assert "41.1 ± 0.3" in table.text()
    assert r"41.1 $\pm$ 0.3" in table.latex()
    assert table.csv() == "row,F1,F1 sd\na,41.12,0.31\nb,2.0,\n"
    assert json.loads(table.json())["rows"][1] == {"row": "b", "F1": 2.0, "F1 sd": None}
    table = Table(["row", "F1"], [["a|b_c", Spread(41.12, 0.31)]], "K = 7", ["note *1*"])
    assert table.format("markdown").splitlines() == [
        "K = 7", "", "| row | F1 |", "|---|---:|", "| a\\|b\\_c | 41.1 ± 0.3 |", "",
        "- note \\*1\\*",
    ]  # fmt: skip


def test_csv_has_all_digits_and_the_mark_of_utf_8(tmp_path):
    assert list(csv.reader(io.StringIO(TABLE.csv())))[1] == ["uniform & more", "26.44", "7"]
    SHEET.save(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_bytes() == b"\xef\xbb\xbf" + SHEET.csv().encode()


def test_csv_holds_no_formula():
    lines = list(
        csv.reader(io.StringIO(Table(["@a", "F1"], [["=HYPERLINK(1)", -1.5], ["'=1", None]]).csv()))
    )
    assert lines == [["'@a", "F1"], ["'=HYPERLINK(1)", "-1.5"], ["''=1", ""]]


def test_suffixes_and_forms_that_are_unknown_are_refused(tmp_path):
    with raises(OptionError, "'latex'?", "text, csv, latex, json"):
        TABLE.format("latx")
    with raises(OptionError, value=".ods", allowed=list(SUFFIXES)):
        SHEET.save(tmp_path / "t.ods")


SHEET = Table(["row", "F1"], [["=1+1", Spread(41.5, 0.25)], ["Öl", None]], "strict", ["a note"])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_suffix_is_written(tmp_path, suffix):
    path = tmp_path / f"t{suffix.upper()}"
    SHEET.save(path)
    assert path.stat().st_size > 10


def test_excel_gets_numbers_and_no_formula(tmp_path):
    SHEET.save(tmp_path / "t.xlsx")
    book = openpyxl.load_workbook(tmp_path / "t.xlsx")
    rows = [[cell.value for cell in row] for row in book["table"].rows]
    assert rows == [["row", "F1", "F1 sd"], ["=1+1", 41.5, 0.25], ["Öl", None, None]]
    assert book["table"]["A2"].data_type == "s"
    assert [row[0].value for row in book["about"].rows] == ["strict", "a note"]
