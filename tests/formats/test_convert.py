"""`stepcut convert`: files, folders, procedures, and reports of lost information."""

import json
import re
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace

import numpy as np
import openpyxl
import pytest

from stepcut.cli.main import main
from stepcut.errors import AnnotationError
from stepcut.formats import FORMATS, read, read_folder, write, write_folder
from stepcut.timeline import Segment, Timeline
from stepcut.toy import toy_features

PARTS = [Segment(0, 1.00049, "pour", 0.5), Segment(1.00049, 1.00049, "stir")]
TEA = Timeline(PARTS, 9.0, ["wash"], video="tea")


def run(capsys, *words):
    code = main(["convert", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_files_and_folders_and_what_they_lose(tmp_path, capsys):
    write(tmp_path / "tea.json", TEA)
    code, out, err = run(capsys, str(tmp_path / "tea.json"), str(tmp_path / "tea.vtt"))
    assert (code, out) == (0, "")
    assert err.splitlines() == [
        "stepcut: WebVTT cannot store confidence, the length of the video, steps that do not occur.",
        f"1 video written to {tmp_path / 'tea.vtt'} as WebVTT.",
    ]
    assert read(tmp_path / "tea.vtt").segments == (Segment(0, 1, "pour"), Segment(1, 1, "stir"))
    code, _, err = run(capsys, str(tmp_path / "tea.vtt"), str(tmp_path / "again.json"))
    assert err.count("\n") == 1  # no other warning
    assert run(capsys, str(tmp_path / "tea.vtt"), str(tmp_path / "again.csv"), "--quiet")[2] == ""
    for name in ("a", "b"):
        write(tmp_path / "in" / f"{name}.csv", Timeline([Segment(0, 1, name)]))
    assert run(capsys, str(tmp_path / "in"), str(tmp_path / "all.json"))[0] == 0
    assert list(read_folder(tmp_path / "all.json")) == ["a", "b"]
    assert run(capsys, str(tmp_path / "all.json"), str(tmp_path / "out"), "--to", "srt")[0] == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.srt", "b.srt"]
    assert run(capsys, str(tmp_path / "all.json"), str(tmp_path / "b.eaf"), "--video", "b")[0] == 0
    assert read(tmp_path / "b.eaf").sequence() == ["b"]


def test_frames_and_annotators(tmp_path, capsys):
    write(tmp_path / "tea.csv", Timeline([Segment(0, 1, "pour")]))
    words = [str(tmp_path / "tea.csv"), str(tmp_path / "groundTruth" / "tea.txt")]
    code, _, err = run(capsys, *words)
    assert code == 2
    assert "Give rate=30 in Python, --rate 30 on the command line" in err
    assert run(capsys, *words, "--rate", "10")[0] == 0
    assert (tmp_path / "groundTruth" / "tea.txt").read_text() == "pour\n" * 10
    write(tmp_path / "tea.eaf", TEA, annotator="ann")
    words = [str(tmp_path / "tea.eaf"), str(tmp_path / "x.csv"), "--annotator", "bob"]
    code, _, err = run(capsys, *words)
    assert code == 2
    assert "no tier of 'bob'. Choose from 'ann'" in err


@pytest.mark.parametrize(("words", "what"), [
    (["tea.json", "out/"], "out: a folder has no suffix"),
    (["tea.json", "x.doc"], "x.doc: the suffix '.doc' is unknown"),
    (["tea.json", "x.csv", "--to", "cvs"], "format='cvs' is unknown; did you mean 'csv'?"),
    (["tea.json", "x.csv", "--video", "tee"], "video='tee' is unknown; did you mean 'tea'?"),
    (["no.json", "x.csv"], "no.json: cannot be opened (No such file or directory)"),
])  # fmt: skip
def test_mistakes(words, what, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("tea.json", TEA)
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert what in err


def test_a_table_with_names_of_its_own(tmp_path, capsys, caplog):
    source, target = tmp_path / "mine.csv", tmp_path / "tea.json"
    source.write_text("t0;t1;what;who\n0;1,5;pour;ann\n")
    code, _, err = run(capsys, str(source), str(target))
    assert code == 2
    assert "--columns start=NAME,end=NAME,step=NAME" in err
    assert run(capsys, str(source), str(target), "--columns", "start=t0,end=t1,step=what")[0] == 0
    assert read(target).segments == (Segment(0, 1.5, "pour"),)
    unknown = "column='t2' is unknown. Choose from t0, t1, what, who"
    wrong = {"start=t2": unknown, "begin=t0": "column='begin' is unknown", "t0": "start=t0,end=t1"}
    for columns, told in wrong.items():
        assert told in run(capsys, str(source), str(target), "--columns", columns)[2]
    assert run(capsys, str(target), str(tmp_path / "x.csv"), "--columns", "start=t0")[0] == 0
    assert "columns apply only to tables" in caplog.text


def test_a_table_for_spreadsheets_holds_no_formula(tmp_path, capsys):
    steps = ["=cmd|' /C calc'!A0", "-3", "x;=cmd|'/c calc'!A0", "＝1"]
    write(tmp_path / "a.json", Timeline([Segment(k, k + 1, step) for k, step in enumerate(steps)]))
    words = [str(tmp_path / "a.json"), str(tmp_path / "a.csv")]
    run(capsys, *words)
    assert ",=cmd|" in (tmp_path / "a.csv").read_text()
    run(capsys, *words, "--spreadsheet-safe")
    lines = (tmp_path / "a.csv").read_text("utf-8-sig").splitlines()
    assert lines[1:3] == ["0,1,'=cmd|' /C calc'!A0", "1,2,-3"]
    # Where semicolons separate cells, a formula may follow one.
    assert not any(cell[:1] in "=＝" for line in lines for cell in re.split("[;,]", line))
    assert read(tmp_path / "a.csv").sequence() == steps


def test_a_table_beside_its_source(tmp_path, capsys):
    write(tmp_path / "tea.xlsx", TEA)
    assert run(capsys, str(tmp_path / "tea.xlsx"), "--to", "csv")[0] == 0
    assert read(tmp_path / "tea.csv").segments == TEA.segments
    to = ["--to", "csv"]
    wrong = {"tea.xlsx": "give TARGET or --to", "tea.csv": "replace the source", ".": "give TARGET"}
    for name, what in wrong.items():
        code, _, err = run(capsys, str(tmp_path / name), *(to if name != "tea.xlsx" else []))
        assert (code, what in err) == (2, True)


@pytest.mark.parametrize("safe", [True, False])
@pytest.mark.parametrize("format", ["csv", "tsv", "boris-events"])
def test_a_name_comes_back_from_a_table_for_spreadsheets(format, safe, tmp_path):
    names = ["=SUM(1)", "-stir", "'-stir", "''@x", "'quoted'", "-3", "'-3", "+1 egg", "#1"]
    names += ["a;'=b", "a, -b"]
    parts = [[Segment(k, k + 1, name), Segment(k + 1, 99, "x")] for k, name in enumerate(names)]
    videos = {f"#{k}": Timeline(part) for k, part in enumerate(parts)}
    write(tmp_path / "a.tsv", videos, format, spreadsheet=safe)
    back = read_folder(tmp_path / "a.tsv", format)
    assert [timeline.sequence()[0] for timeline in back.values()] == names
    assert list(back) == list(videos)


def test_label_studio_takes_the_rate_of_the_video(films, tmp_path, capsys):
    write(tmp_path / "a.json", Timeline([Segment(0, 1, "pour")], video=str(films / "v0.mp4")))
    words = [str(tmp_path / "a.json"), str(tmp_path / "tasks.json"), "--to", "label-studio"]
    assert run(capsys, *words)[0] == 0
    (task,) = json.loads((tmp_path / "tasks.json").read_text())
    rate = task["data"]["fps"]
    code, _, err = run(capsys, *words, "--rate", str(2 * rate))
    assert code == 2
    assert f"has {rate:g} frames per second, not rate={2 * rate:g}" in err
    back = [str(tmp_path / "tasks.json"), str(tmp_path / "b.csv")]
    assert run(capsys, *back, "--rate", str(2 * rate))[0] == 2
    (tmp_path / "broken.mp4").write_bytes(b"no film")
    write(tmp_path / "a.json", Timeline([Segment(0, 1, "a")], video=str(tmp_path / "broken.mp4")))
    assert "needs a frame rate" in run(capsys, *words)[2]
    assert run(capsys, *words, "--rate", "12")[0] == 0


@pytest.mark.parametrize("name", [name for name, form in FORMATS.items() if form.read is not None])
def test_what_a_person_wrote_is_kept_when_the_file_is_written_again(name, tmp_path, monkeypatch):
    plain = Timeline([Segment(0, 2, "pour"), Segment(2, 4, "stir")], 4.0, video="tea")
    suffix = FORMATS[name].suffix
    write_folder(tmp_path, [plain], name, rate=10)
    for program in ("elan", "boris"):  # their files contain a date
        later = SimpleNamespace(now=lambda zone: datetime(2040, 1, 2, 3, 4, 5, tzinfo=zone))
        monkeypatch.setattr(f"stepcut.formats.{program}.datetime", later)
    write_folder(tmp_path, [plain], name, rate=10)
    # The same content makes no backup.
    assert [path.name for path in tmp_path.glob(f"tea{suffix}*")] == [f"tea{suffix}"]
    corrected = replace(plain, segments=(Segment(0, 1, "pour"), Segment(1, 4, "stir")))
    write_folder(tmp_path, [corrected], name, rate=10)
    by_hand = (tmp_path / f"tea{suffix}").read_bytes()
    for _ in range(2):
        write_folder(tmp_path, [plain], name, rate=10)
    assert (tmp_path / f"tea{suffix}.2.bak").read_bytes() == by_hand
    assert len(list(tmp_path.glob(f"tea{suffix}*"))) == 3
    assert list(read_folder(tmp_path, rate=10)) == ["tea"]


def test_a_failed_write_leaves_no_copy_and_files_without_a_video_stay_apart(tmp_path):
    write(tmp_path / "tea.csv", TEA)
    before = (tmp_path / "tea.csv").read_bytes()
    with pytest.raises(AnnotationError):
        write(tmp_path / "tea.csv", [TEA, TEA])
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]
    for name in ("soup", "tea"):
        write(tmp_path / "in" / f"{name}.json", replace(TEA, video=""))
    assert main(["convert", str(tmp_path / "in"), str(tmp_path / "all.csv"), "--quiet"]) == 0
    assert list(read_folder(tmp_path / "all.csv")) == ["soup", "tea"]


COLUMNS = ["--columns", "start=von?wann,end=bis?wann,step=was", "--encoding", "cp437"]
WHERE = {  # labels that need a word, and the words: custom columns, frames, a sheet of Excel
    "table": [word.replace("?", " ") for word in COLUMNS],
    "frames": ["--rate", "30"],
    "labels.xlsx": ["--sheet", "labels"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WHERE)
def test_columns_rate_sheet_and_encoding_wherever_labels_are_read(name, tmp_path, capsys):
    rows, timelines = toy_features(videos=3, seed=1, dim=4, rate=2)
    book = openpyxl.Workbook()
    sheet = book.create_sheet("labels")
    sheet.append(["Video", "Anfang", "Ende", "Schritt"])
    for folder in ("features", "table", "frames"):
        (tmp_path / folder).mkdir()
    for k, (row, timeline) in enumerate(zip(rows, timelines, strict=True)):
        np.save(tmp_path / "features" / f"v{k}.npy", row)
        cells = [f"{s.start};{s.end};{s.step} é\n".replace(".", ",") for s in timeline]
        text = "".join(["von wann;bis wann;was\n", *cells])
        (tmp_path / "table" / f"v{k}.csv").write_bytes(text.encode("cp437"))
        write(tmp_path / "frames" / f"v{k}.txt", timeline, "frame-ranges", rate=30)
        for s in timeline:
            sheet.append([f"v{k}", s.start, s.end, s.step])
    book.save(tmp_path / "labels.xlsx")
    features, labels, proc, json = (
        str(tmp_path / each) for each in ("features", name, "a.proc", "a.json")
    )
    learned = ["learn", features, "--rate", "2", "-o", proc, "--quiet", "--labels", labels]
    for words in (
        learned, ["teach", proc, labels, "--quiet"], ["evaluate", proc, "--truth", labels],
        ["agree", labels, proc], ["times", labels], ["convert", labels, json, "--quiet"],
    ):  # fmt: skip
        given = ["--label-rate", "30"] if words is learned and name == "frames" else WHERE[name]
        assert main(words) == 2
        told = {"table": "--columns start=NAME", "frames": "rate", "labels.xlsx": "--sheet"}[name]
        assert told in capsys.readouterr().err
        assert main([*words, *given]) == 0
    found = read_folder(json)["v1"].sequence()
    assert [step.removesuffix(" é") for step in found] == timelines[1].sequence()
    assert main(["learn", features, "--label-rate", "30", "-o", proc]) == 2
    assert "Add --labels DIR" in capsys.readouterr().err


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
