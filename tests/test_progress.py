"""Progress hooks: reports, timing and cancelling; tables in all their formats, and as files."""

import csv
import io
import json
import re

import openpyxl
import pytest
from errors_kit import raises

from stepcut.errors import OptionError
from stepcut.progress import Bar, Event, JsonLog, Stage, describe, duration
from stepcut.tables import SUFFIXES, Spread, Table


def test_a_stage_tells_its_hook_from_start_to_end():
    events = []
    with Stage(events.append, "features", total=2, unit="videos") as stage:
        stage.advance(item="a.mp4", loss=0.5)
        stage.advance(item="b.mp4")
    told = [(0, "", False), (1, "a.mp4", False), (2, "b.mp4", False), (2, "", True)]
    assert [(e.done, e.item, e.finished) for e in events] == told
    assert events[1].values == {"loss": 0.5}


def test_an_exception_stops_the_work_and_is_not_called_finished():
    def cancel(event):
        if event.done == 1:
            raise KeyboardInterrupt

    done = []
    with pytest.raises(KeyboardInterrupt), Stage(cancel, "cut", total=3) as stage:
        for item in range(3):
            stage.advance()
            done.append(item)
    assert done == []
    events = []
    with pytest.raises(ValueError, match="no"), Stage(events.append, "cut"):
        raise ValueError("no")
    assert not any(e.finished for e in events)


def test_lines_have_rate_time_left_and_safe_names_also_off_a_terminal():
    text = describe(Event("train", 50, 100, "steps", values={"loss": 0.25}, elapsed=10))
    assert text == "train       50 %  50/100 steps  5.0/s  10 s left  loss 0.25"
    assert describe(Event("cut", 1, 2, item="a\nb\x1b[2J.mp4")).endswith("a%0Ab%1B[2J.mp4")
    stream = io.StringIO()
    with Stage(JsonLog(stream), "cut", total=500) as stage:
        for _ in range(500):
            stage.advance()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert lines[-1]["finished"] is True
    assert lines[-1]["done"] == 500
    assert len(lines) < 100
    stream = io.StringIO()
    with Stage(Bar(stream), "cut", total=2, unit="videos") as stage:
        stage.advance(2)
    assert "\r" not in stream.getvalue()
    assert "2/2 videos" in stream.getvalue()


def test_a_bar_on_a_terminal_redraws_its_line(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    with Stage(Bar(stream), "cut", total=2) as stage:
        stage.advance(2)
    assert stream.getvalue().count("\n") == 1
    assert "\r" in stream.getvalue()
    with pytest.raises(OSError, match="full"), Stage(Bar(stream := Terminal()), "cut", total=2):
        raise OSError("full")
    assert stream.getvalue().endswith("0/2 ")
    Bar.clear()  # the next output starts a new line
    assert re.search("\r +\r$", stream.getvalue())
    narrow = Terminal()
    monkeypatch.setenv("COLUMNS", "40")
    Bar(narrow)(Event("features", 5, 9, "frames", item="a very long name of a video.mp4"))
    assert len(narrow.getvalue().strip("\r")) == 39  # a wrapped line cannot be redrawn
    bar = Bar(stream := Terminal())
    bar(Event("check", 1, 2))
    bar.clear()
    assert stream.getvalue().rstrip("\r ").endswith("1/2")
    assert stream.getvalue().endswith(" \r")


@pytest.mark.parametrize(("seconds", "text"), [(3.14, "3.1 s"), (42, "42 s"), (3600, "1 h 0 min")])
def test_duration(seconds, text):
    assert duration(seconds) == text


def test_no_rate_or_estimate_is_shown_before_it_is_measured():
    slow_start = Event("features", 2, 102, elapsed=33.0, begun=(1, 31.0))
    assert slow_start.left == 200
    assert Event("features", 1, 102, elapsed=31.0, begun=(1, 31.0)).left is None  # no estimate yet
    assert "/s" not in describe(Event("film", 0, 10, "videos", elapsed=5.0))
    assert "/s" not in describe(Event("film", 1, 10, "videos", elapsed=60.0))
    assert "2.0/s" in describe(Event("film", 10, 10, "videos", elapsed=5.0))


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
