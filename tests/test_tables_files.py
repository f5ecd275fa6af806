"""Tables as files: the suffix selects the format, Excel reads names and numbers correctly."""

import openpyxl
import pytest

from stepcut.errors import OptionError
from stepcut.tables import SUFFIXES, Spread, Table

TABLE = Table(["row", "F1"], [["=1+1", Spread(41.5, 0.25)], ["Öl", None]], "strict", ["a note"])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_suffix_is_written(tmp_path, suffix):
    path = tmp_path / f"t{suffix.upper()}"
    TABLE.save(path)
    assert path.stat().st_size > 10


def test_excel_gets_numbers_and_no_formula(tmp_path):
    TABLE.save(tmp_path / "t.xlsx")
    book = openpyxl.load_workbook(tmp_path / "t.xlsx")
    rows = [[cell.value for cell in row] for row in book["table"].rows]
    assert rows == [["row", "F1", "F1 sd"], ["=1+1", 41.5, 0.25], ["Öl", None, None]]
    assert book["table"]["A2"].data_type == "s"
    assert [row[0].value for row in book["about"].rows] == ["strict", "a note"]


def test_csv_has_the_mark_of_utf_8(tmp_path):
    TABLE.save(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_bytes() == b"\xef\xbb\xbf" + TABLE.csv().encode()


def test_another_suffix_is_refused(tmp_path):
    with pytest.raises(OptionError) as caught:
        TABLE.save(tmp_path / "t.ods")
    assert caught.value.value == ".ods"
    assert caught.value.allowed == list(SUFFIXES)
