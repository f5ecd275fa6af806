"""From a learned procedure and a new video to the files of other programs, on the command line."""

import numpy as np
import openpyxl
import pytest

from stepcut.cli.main import main
from stepcut.formats import read_folder, write, write_folder
from stepcut.procedure.loading import load
from stepcut.timeline import Segment, Timeline
from stepcut.toy import toy_features


@pytest.mark.slow
def test_columns_rate_and_encoding_wherever_labels_are_read(tmp_path, capsys):
    """A table with custom column names, in cp1251 or in frames, for every command that reads labels."""
    rows, timelines = toy_features(videos=3, seed=1, dim=4, rate=2)
    for folder in ("features", "table", "frames"):
        (tmp_path / folder).mkdir()
    for k, (row, timeline) in enumerate(zip(rows, timelines, strict=True)):
        np.save(tmp_path / "features" / f"v{k}.npy", row)
        cells = [f"{s.start};{s.end};{s.step} é\n".replace(".", ",") for s in timeline]
        text = "".join(["von wann;bis wann;was\n", *cells])
        (tmp_path / "table" / f"v{k}.csv").write_bytes(text.encode("cp437"))
        write(tmp_path / "frames" / f"v{k}.txt", timeline, "frame-ranges", rate=30)
    features, table, frames = (str(tmp_path / name) for name in ("features", "table", "frames"))
    columns = ["--columns", "start=von wann,end=bis wann,step=was", "--encoding", "cp437"]
    proc, json = str(tmp_path / "a.proc"), str(tmp_path / "a.json")
    learned = [features, "--rate", "2", "-o", proc, "--quiet", "--labels"]
    assert main(["learn", *learned, table]) == 2
    assert "--columns start=NAME,end=NAME,step=NAME" in capsys.readouterr().err
    assert main(["learn", *learned, table, *columns]) == 0
    assert "add jam é" in load(proc).steps
    assert main(["teach", proc, table, *columns, "--quiet"]) == 0
    assert main(["evaluate", proc, "--truth", table, *columns]) == 0
    assert main(["evaluate", table, "--truth", table, *columns]) == 0
    assert main(["agree", table, proc, *columns]) == 0
    assert main(["budget", table, *columns]) == 0
    assert main(["convert", table, json, *columns]) == 0
    assert "stir tea é" in read_folder(json)["v0"].steps
    rate = ["--rate", "30"]
    proc = learned[4] = str(tmp_path / "b.proc")
    assert main(["learn", *learned, frames, "--label-rate", "30"]) == 0
    assert main(["teach", proc, frames, *rate, "--quiet"]) == 0
    assert main(["evaluate", proc, "--truth", frames, *rate]) == 0
    assert main(["agree", frames, proc, *rate]) == 0
    assert main(["budget", frames, *rate]) == 0
    assert main(["budget", frames]) == 2
    assert main(["learn", features, "--label-rate", "30", "-o", proc]) == 2
    assert "Add --labels DIR" in capsys.readouterr().err


@pytest.mark.slow
def test_a_sheet_of_excel_wherever_labels_are_read(tmp_path):
    rows, timelines = toy_features(videos=2, seed=1, dim=4, rate=2)
    book = openpyxl.Workbook()
    book.active.append(["notes"])
    sheet = book.create_sheet("labels")
    sheet.append(["Video", "Anfang", "Ende", "Schritt"])
    for k, timeline in enumerate(timelines):
        np.save(tmp_path / f"v{k}.npy", rows[k])
        for s in timeline:
            sheet.append([f"v{k}", s.start, s.end, s.step])
    book.save(tmp_path / "labels.xlsx")
    table, proc = str(tmp_path / "labels.xlsx"), str(tmp_path / "a.proc")
    for words in (
        ["learn", str(tmp_path), "--rate", "2", "--quiet", "-o", proc, "--labels", table],
        ["teach", proc, table, "--quiet"], ["evaluate", proc, "--truth", table], ["agree", table, proc],
        ["budget", table], ["convert", table, "--to", "csv", "--quiet"],
    ):  # fmt: skip
        assert main(words) == 2
        assert main([*words, "--sheet", "labels"]) == 0
    assert read_folder(tmp_path / "labels.csv")["v1"].sequence() == timelines[1].sequence()


def test_label_files_that_are_not_read_are_named(tmp_path, caplog):
    one = Timeline([Segment(0, 2, "pour")])
    named = {"mapping the desk": one, "noticeboard": one, "readme1": one}
    write_folder(tmp_path, named, "audacity")
    write_folder(tmp_path / "more", {"b": one}, "csv")
    (tmp_path / "README.txt").write_text("About these labels.")
    assert sorted(read_folder(tmp_path)) == sorted(named)
    assert str(tmp_path / "more") in caplog.text
    caplog.clear()
    assert list(read_folder(tmp_path / "more")) == ["b"]
    assert not caplog.text
