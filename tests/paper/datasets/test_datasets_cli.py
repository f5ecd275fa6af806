"""`stepcut data`: list, info, check, stats, cite."""

import datasets_trees as trees
import pytest
from openpyxl import load_workbook

from stepcut.cli.main import main
from stepcut.paper.datasets import DATASETS


def run(capsys, *words):
    code = main(["data", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_list(capsys):
    code, out, _ = run(capsys, "list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[2:]] == list(DATASETS)
    assert run(capsys, "list", "--format", "csv")[1].startswith(
        "name,title,tasks,licence\negoprocel,EgoProceL,16,"
    )


@pytest.mark.parametrize("name", list(DATASETS))
def test_info_and_cite(name, capsys):
    code, out, _ = run(capsys, "info", name)
    assert code == 0
    for part in (DATASETS[name].title, "Licence: ", "How to obtain it: ", "Folder tree:\nROOT/"):
        assert part in out
    code, out, _ = run(capsys, "cite", name)
    assert code == 0
    assert out.startswith(("@inproceedings{", "% "))


def test_check_says_exactly_what_is_missing(capsys, tmp_path):
    root = str(trees.egoprocel_json(tmp_path))
    code, out, _ = run(capsys, "check", "egoprocel", "--root", root)
    assert code == 1
    assert (
        "  2 of 16 tasks, 4 recordings:\n  4 with a timeline, 0 with a video, 0 with features\n"
        in out
    )
    assert "  known defect: Eggs: 6 lists of camera views were collapsed to 2 recordings.\n" in out
    assert "  missing: " in out
    assert "the task 'tent' (Tent) is missing." in out
    code, out, _ = run(capsys, "check", "captaincook4d", "--root", str(tmp_path))
    assert code == 1
    assert (
        "complete_step_annotations.json: absent. Copy it from https://github.com/CaptainCook4D/annotations."
        in out
    )


def test_stats(capsys, tmp_path):
    root = str(trees.egoprocel_json(tmp_path))
    code, out, err = run(capsys, "stats", "egoprocel", "--root", root, "--format", "csv")
    assert code == 0
    assert out.splitlines()[0] == "task,videos,steps,foreground,missing,repeated"
    assert out.splitlines()[2].startswith("Eggs,2,2,0.")
    assert "stepcut: Eggs: 6 lists of camera views were collapsed to 2 recordings." in err
    code, out, _ = run(
        capsys, "stats", "egoprocel", "--root", root, "--all", "--plot", str(tmp_path / "p.png")
    )
    assert "mean over tasks (published)" in out
    assert "Eggs (published)" in out
    assert (tmp_path / "p.png").stat().st_size > 1000
    code, _, err = run(
        capsys, "stats", "egoprocel", "--root", root, "--plot", str(tmp_path / "p.xyz")
    )
    assert code == 2
    assert "Choose from .png, .svg, .pdf" in err
    assert "\\toprule" in run(capsys, "stats", "egoprocel", "--root", root, "--format", "latex")[1]


def test_tables_are_written_by_suffix(capsys, tmp_path):
    root = str(trees.egoprocel_json(tmp_path))
    sheet, text = tmp_path / "stats.xlsx", tmp_path / "list.csv"
    assert run(capsys, "stats", "egoprocel", "--root", root, "-o", str(sheet))[0] == 0
    written = list(load_workbook(sheet)["table"].values)
    assert written[0] == ("task", "videos", "steps", "foreground", "missing", "repeated")
    assert written[2][:3] == ("Eggs", 2, 2)
    code, out, _ = run(capsys, "list", "--format", "csv", "-o", str(text))
    assert (code, text.read_text(encoding="utf-8-sig")) == (0, out)
    code, _, err = run(capsys, "check", "egoprocel", "--root", root, "-o", str(tmp_path / "c.csv"))
    assert code == 2
    assert "use -o with list, stats or leaderboard" in err


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["info"], "data info needs the name of a data set: egoprocel, crosstask"),
        (["info", "egoprocl"], "data set='egoprocl' is unknown; did you mean 'egoprocel'?"),
        (["stats", "egoprocel"], "data stats egoprocel needs --root DIR"),
        (["check", "egoprocel", "--root", "/nowhere/at/all"], "/nowhere/at/all: no such folder"),
        (
            ["stats", "procel", "--root", ".", "--view", "top"],
            "--view: procel does not have this option",
        ),
        (["stats", "procel", "--root", "."], ".: nothing to count."),
        (["list", "--format", "tex"], "format='tex' is unknown; did you mean 'text'?"),
    ],
)
def test_errors_are_one_line(words, what, capsys):
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert what in err
    assert err.count("\n") == 1
