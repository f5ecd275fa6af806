"""`stepcut data`: list, info, check, stats, cite."""

import datasets_trees as trees
import pytest

from stepcut.cli.main import main
from stepcut.paper.datasets import DATASETS


def run(capsys, *words):
    code = main(["data", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_list(capsys):
    code, out, _ = run(capsys, "list", "--format", "csv")
    assert code == 0
    assert out.startswith("name,title,tasks,licence\negoprocel,EgoProceL,16,")
    assert [line.split(",")[0] for line in out.splitlines()[1:]] == list(DATASETS)


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
    assert "2 of 16 tasks, 4 recordings:\n  4 with a timeline, 0 with a video, 0 with feat" in out
    assert "  known defect: Eggs: 6 lists of camera views were collapsed to 2 recordings.\n" in out
    assert "the task 'tent' (Tent) is missing." in out.partition("  missing: ")[2]
    code, out, _ = run(capsys, "check", "captaincook4d", "--root", str(tmp_path))
    assert code == 1
    assert "complete_step_annotations.json: absent. Copy it from https://github.com/Captain" in out


def test_stats(capsys, tmp_path):
    words = ["stats", "egoprocel", "--root", str(trees.egoprocel_json(tmp_path))]
    code, out, err = run(capsys, *words, "--format", "csv")
    assert code == 0
    assert out.splitlines()[0] == "task,videos,steps,foreground,missing,repeated"
    assert out.splitlines()[2].startswith("Eggs,2,2,0.")
    assert "stepcut: Eggs: 6 lists of camera views were collapsed to 2 recordings." in err
    code, out, _ = run(capsys, *words, "--all", "--plot", str(tmp_path / "p.svg"))
    assert "mean over tasks (published)" in out
    assert "Eggs (published)" in out
    assert (tmp_path / "p.svg").stat().st_size > 1000
    assert run(capsys, *words, "-o", str(tmp_path / "stats.csv"))[0] == 0
    assert "\nEggs,2,2,0." in (tmp_path / "stats.csv").read_text(encoding="utf-8-sig")
    words = ["check", *words[1:], "-o", str(tmp_path / "c.csv")]
    assert "use -o with list, stats or leaderboard" in run(capsys, *words)[2]


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
