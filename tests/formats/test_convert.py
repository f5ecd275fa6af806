"""`stepcut convert`: files, folders, procedures, and what it says of losses."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepcut.cli.main import main
from stepcut.formats import losses, read, read_folder, write
from stepcut.timeline import Segment, Timeline

TEA = Timeline([Segment(0, 1.00049, "pour", 0.5), Segment(1.00049, 1.00049, "stir")], 9.0, ["wash"], video="tea")


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["convert", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_one_file_and_what_it_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "tea.json", TEA)
    code, out, err = run(capsys, str(tmp_path / "tea.json"), str(tmp_path / "tea.vtt"))
    assert (code, out) == (0, "")
    assert err.splitlines() == [
        "stepcut: vtt: times are rounded to a millisecond.",
        "stepcut: vtt: the order of the vocabulary and steps that do not occur are lost.",
        "stepcut: vtt: zero-length segments get the shortest length.",
        "stepcut: vtt: the length of the video is lost.",
        "stepcut: vtt: confidence is lost.",
        f"1 video written to {tmp_path / 'tea.vtt'} as WebVTT.",
    ]
    assert read(tmp_path / "tea.vtt").segments == (Segment(0, 1.0, "pour"), Segment(1.0, 1.001, "stir"))
    code, _, err = run(capsys, str(tmp_path / "tea.vtt"), str(tmp_path / "again.json"))
    assert err.count("\n") == 1  # nothing more is lost
    assert run(capsys, str(tmp_path / "tea.vtt"), str(tmp_path / "again.csv"), "--quiet")[2] == ""


def test_folders_both_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        write(tmp_path / "in" / f"{name}.csv", Timeline([Segment(0, 1, name)]))
    assert run(capsys, str(tmp_path / "in"), str(tmp_path / "all.json"))[0] == 0
    assert list(read_folder(tmp_path / "all.json")) == ["a", "b"]
    assert run(capsys, str(tmp_path / "all.json"), str(tmp_path / "out"), "--to", "srt")[0] == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.srt", "b.srt"]
    assert run(capsys, str(tmp_path / "all.json"), str(tmp_path / "b.eaf"), "--video", "b")[0] == 0
    assert read(tmp_path / "b.eaf").sequence() == ["b"]


def test_frames_and_annotators(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "tea.csv", Timeline([Segment(0, 1, "pour")]))
    words = [str(tmp_path / "tea.csv"), str(tmp_path / "groundTruth" / "tea.txt")]
    code, _, err = run(capsys, *words)
    assert code == 2
    assert "no frame rate is known. Give it: rate=30 in Python, --rate 30 on the command line" in err
    assert run(capsys, *words, "--rate", "10")[0] == 0
    assert (tmp_path / "groundTruth" / "tea.txt").read_text() == "pour\n" * 10
    write(tmp_path / "tea.eaf", TEA, annotator="ann")
    code, _, err = run(capsys, str(tmp_path / "tea.eaf"), str(tmp_path / "x.csv"), "--annotator", "bob")
    assert code == 2
    assert "no tier of 'bob'; it has 'ann'" in err


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["tea.json", "out/"], "out: a folder has no suffix to tell the format by. Add --to, one of json, csv"),
        (["tea.json", "x.doc"], "x.doc: the suffix '.doc' is unknown"),
        (["tea.json", "x.csv", "--to", "cvs"], "format='cvs' is unknown; did you mean 'csv'?"),
        (["tea.json", "x.csv", "--video", "tee"], "video='tee' is unknown; did you mean 'tea'?"),
        (["no.json", "x.csv"], "no.json: cannot be opened (No such file or directory)"),
    ],
)
def test_mistakes(
    words: list[str], what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write("tea.json", TEA)
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert what in err


def test_losses_where_the_rate_is_not_known_are_those_of_any_rate() -> None:
    assert losses([TEA], "label-studio") == ["times are rounded to a frame"]
    assert losses([Timeline([Segment(0, 1, "a")])], "label-studio", rate=10) == []
    assert losses([TEA], "json") == []
