"""`stepcut data`: list, info, check, stats, cite; the statistics against a slow count."""

import random
from pathlib import Path

import datasets_trees as trees
import pytest

from stepcut.cli.main import main
from stepcut.paper.datasets import DATASETS, Task, TaskVideo
from stepcut.paper.datasets.dataset import count, leaderboard, statistics
from stepcut.paper.experiments.results import read_published
from stepcut.timeline import Segment, Timeline


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


@pytest.mark.parametrize(("words", "what"), [
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
])  # fmt: skip
def test_errors_are_one_line(words, what, capsys):
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert what in err
    assert err.count("\n") == 1


ROOT = Path(__file__).parents[3]


def make_task(seed, name="tea"):
    """A task with overlaps, repeats, missing steps and, in one video, no segment at all; whole seconds."""
    rng = random.Random(seed)
    steps = tuple(f"step {k}" for k in range(rng.randint(1, 6)))
    videos = []
    for n in range(rng.randint(1, 5)):
        length = rng.randint(20, 60)
        starts = [rng.randint(0, 15) for _ in range(rng.randint(0, 7))]
        segments = [Segment(at, at + rng.randint(0, 5), rng.choice(steps)) for at in starts]
        videos.append(
            TaskVideo(f"v{n}", duration=length, timeline=Timeline(segments, length, steps, f"v{n}"))
        )
    return Task(name, videos, steps)


def by_hand(task):
    ratios, distinct, segments = [], 0, 0
    for timeline in task.timelines.values():
        seconds = range(int(timeline.duration))
        ratios.append(
            sum(any(s.start <= t < s.end for s in timeline) for t in seconds) / timeline.duration
        )
        distinct += sum(any(s.step == step for s in timeline) for step in task.steps)
        segments += len(timeline.segments)
    missing = 1 - distinct / (len(task.steps) * len(task))
    return sum(ratios) / len(ratios), missing, 1 - distinct / segments if segments else None


@pytest.mark.parametrize("seed", range(12))
def test_figures_equal_the_count_by_hand(seed):
    task = make_task(seed)
    counted = count([task])
    assert (counted.foreground, counted.missing, counted.repeated) == pytest.approx(by_hand(task))


def test_means_over_tasks_and_videos_and_what_is_unknown():
    def task(name, videos, steps, seconds):
        timeline = Timeline([Segment(0, 1, steps[0])], seconds, steps)
        each = [TaskVideo(f"{name}{n}", timeline=timeline) for n in range(videos)]
        return Task(name, each, steps)

    tasks = [task("a", 3, ("x", "y"), 10.0), task("b", 1, ("x", "y", "z", "w"), 50.0)]
    shown = {str(row[0]): row for row in statistics(tasks, more=True).rows}
    for name, steps, seconds in (("mean over tasks", 3.0, 30.0), ("mean over videos", 2.5, 20.0)):
        assert shown[name][2] == pytest.approx(steps)
        assert shown[name][8] == pytest.approx(seconds / 60)
    videos = [TaskVideo("a", timeline=Timeline([Segment(0, 1, "x")])), TaskVideo("b")]
    task = Task("t", videos, ("x",), defects=("odd",))
    table = statistics([task])
    assert table.rows[0] == ["t", 1, 1, None, 0.0, 0.0]
    unknown = "1 videos have no known length; foreground and hours exclude them."
    assert table.notes == ["t: odd.", unknown]
    bare = statistics([Task("t", [], ())], more=True).rows[0]
    assert bare[3:] == [None, None, None, 0, 0.0, None, None]


def test_the_leaderboard_has_only_figures_that_are_found_at_their_source():
    table = leaderboard()
    parts = table.columns[5:11]
    reported = (ROOT / "benchmarks" / "reports" / "protocols.md").read_text(encoding="utf-8")
    names = {"uniform": "uniform", "random": "random", "one cluster": "one-cluster"}
    for row in table.rows:
        cells = dict(zip(table.columns, row, strict=True))
        assert cells["matching"] in ("all videos", "per video")
        assert all(cells[name] for name in ("K", "features", "source", "mean"))
        system, _, blind = str(cells["system"]).partition(" (ignores")
        if blind:
            protocol = "paper" if cells["matching"] == "all videos" else "paper-per-video"
            figures = [str(cells[name]).replace("/", " / ") for name in (*parts, "mean")]
            assert f"| {names[system]}, `{protocol}` | {' | '.join(figures)} |" in reported
    ours = [each for each in read_published() if each["row"] == "tc3i + procut"]
    known = {one["column"]: f"{one['F1']}/{one['IoU']}" for one in ours if one["table"] == "main"}
    (shown,) = [row for row in table.rows if row[0] == "CnC"]
    assert shown[5:11] == [known[part] for part in parts]


def test_the_leaderboard_is_that_of_one_data_set(run):
    assert "HiERO" in run("data", "leaderboard", "egoprocel", "--format", "csv").out
    assert "egoprocel" in run("data", "leaderboard", "procel", code=2).err
