"""Time budgets and the comparison of two groups: figures by hand, the commands, and the plot."""

import io

import numpy as np
import pytest
from errors_kit import raises
from kitchen_kit import STEPS, film

from stepcut.errors import OptionError
from stepcut.evaluation.budget import draw_budget, time_budget
from stepcut.evaluation.compare import adjust, compare_groups
from stepcut.formats import write
from stepcut.procedure.learning import learn
from stepcut.timeline import Segment, Timeline

TWICE = Timeline([Segment(0, 1, "pour"), Segment(2, 4, "stir"), Segment(4, 7, "pour")], 10.0)
ONCE = Timeline([Segment(1, 3, "pour")], 5.0)


def test_figures_of_videos_and_groups():
    table = time_budget({"": {"v": TWICE}}, ["wash", "pour"], per_video=True)
    assert table.columns == ["video", "step", "count", "total s", "mean s", "SD s", "share %"]
    assert table.rows[0] == ["v", "wash", 0, 0, None, None, 0]
    assert table.rows[1] == ["v", "pour", 2, 4, 2, pytest.approx(2**0.5), 40]
    assert table.rows[2] == ["v", "(no step)", None, 4, None, None, 40]
    table = time_budget({"a": {"v": TWICE, "w": ONCE}, "b": {"w": ONCE}})
    assert table.columns[:3] == ["group", "step", "videos"]
    assert table.rows[0][:6] == ["a", "pour", 2, 3, 6, 2]
    assert table.rows[0][-1] == pytest.approx(100 * 6 / 15)
    assert table.rows[3][:5] == ["b", "pour", 1, 1, 2]
    assert table.rows[4][:5] == ["b", "stir", 0, 0, 0]
    tapped = Timeline([Segment(0, 4, "pour"), Segment(5, 5, "pour"), Segment(6, 6, "tap")], 8.0)
    rows = time_budget({"": {"v": tapped}}).rows
    assert rows[0][2:5] == [2, 4, 4]
    assert rows[1][2:5] == [1, 0, None]
    assert rows[2][3] == 4
    table = time_budget({"": {"v": Timeline([Segment(2, 4, "pour")])}})
    assert [row[0] for row in table.rows] == ["pour"]
    assert table.rows[0][-1] == 50
    assert len(table.notes) == 1


CHECKED = Timeline(
    [Segment(0, 2, "pour"), Segment(3, 6, "pour", 0.9), Segment(6, 8, "stir", 0.5)], 10
)
ALONE = Timeline([Segment(0, 4, "pour", 0.9)], 8)


def test_unchecked_segments_have_their_error_and_confirmed_ones_are_counted_alone():
    table = time_budget({"": {"v": CHECKED}})
    assert table.columns[2:] == [
        "count", "total s", "from s", "to s", "mean s", "SD s", "share %", "unchecked %"
    ]  # fmt: skip
    assert table.rows[0][2:6] == [2, 5, pytest.approx(2 + 0.6 * 3), pytest.approx(2 + 1.6 * 3)]
    assert [row[-1] for row in table.rows] == [60, 100, None]
    assert "learned with a few labels, 80 % of the true seconds" in table.notes[0]
    without = time_budget({"": {"w": ALONE}})
    assert without.rows[0][4:6] == pytest.approx([0.3 * 4, 1.7 * 4])
    assert "learned without labels" in without.notes[0]
    table = time_budget({"": {"v": CHECKED, "w": ALONE}}, confirmed_only=True)
    assert table.columns[2:4] == ["count", "total s"]
    assert [row[:4] for row in table.rows] == [["pour", 1, 1, 2], ["stir", 0, 0, 0]]
    with raises(OptionError, "no segment is confirmed", setting="confirmed_only", value=True):
        time_budget({"": {"w": ALONE}}, confirmed_only=True)


def test_the_plot_has_every_step_and_a_median_that_is_seen_in_both_groups():
    videos = {"v": TWICE, "w": ONCE}
    axes = draw_budget({"before": videos, "after": videos}, ["pour", "stir"])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["pour", "stir"]
    boxes = {patch.get_facecolor()[:3] for patch in axes.patches}
    assert len(boxes) == 2
    black = [line for line in axes.lines if line.get_color() == "black"]
    assert sum(line.get_linewidth() == 2 for line in black) == 2 * 2 + 1  # and the legend
    assert (0.0, 0.0, 0.0) not in boxes
    axes = draw_budget({r"$\euro5$": videos}, [r"pay $\euro5$", "stir"])
    axes.figure.savefig(io.BytesIO())  # a name is no formula


def test_the_command_reads_labels_alone(tmp_path, run):
    for group, timeline in (("novices", TWICE), ("experts", ONCE)):
        (tmp_path / group).mkdir()
        write(tmp_path / group / "Fäden.json", timeline.rename({"pour": "Öl gießen"}))
    folders = [str(tmp_path / group) for group in ("novices", "experts")]
    table = tmp_path / "times.csv"
    assert "Öl gießen" in run("budget", *folders, "--per-video", "-o", table).out
    assert table.read_bytes().startswith(b"\xef\xbb\xbf")  # by which Excel knows UTF-8
    assert "novices,Fäden,Öl gießen,2,4" in table.read_text(encoding="utf-8-sig")
    write(tmp_path / "new.json", ALONE)
    told = run("budget", tmp_path / "new.json", "--confirmed-only", code=2).err
    assert "no segment is confirmed" in told
    assert ".xlsx" in run("budget", folders[0], "-o", tmp_path / "times.xyz", code=2).err


def group(orders, seconds, seed):
    rng = np.random.default_rng(seed)
    return [
        Timeline.from_labels(film(order, rng, seconds), 1.0, STEPS, video=f"{seed}-{n}")
        for n, order in enumerate(orders)
    ]


def test_slow_and_forgetful_people_are_told_from_the_others():
    experts = group([[0, 1, 2, 3]] * 10, 20, 1)
    novices = group([[0, 2, 1, 3]] * 5 + [[0, 2, 3]] * 5, 40, 2)
    table = compare_groups(experts, novices, STEPS)
    rows = {(row[0], row[1]): row for row in table.rows}
    assert rows["seconds", "open jar"][4] == -1  # every expert is quicker
    assert rows["seconds", "open jar"][6] < 0.05
    assert rows["missing", "spread jam"][2:4] == [0.0, 0.5]
    assert rows["repeated", "serve"][5] is rows["repeated", "serve"][6] is None  # nobody does
    assert rows["exchanged pairs", "(order)"][4] != 0
    tested = [row[6] for row in table.rows if row[6] is not None]
    assert tested == sorted(tested) == [row[6] for row in table.rows][: len(tested)]
    assert "B take longer" in table.caption


def test_rows_without_variation_do_not_weaken_the_others_and_equal_or_small_groups_are_told():
    # Nobody leaves a step out or repeats one: only the times of the steps are tested.
    experts, novices = group([[0, 1, 2, 3]] * 6, 20, 1), group([[0, 1, 2, 3]] * 6, 25, 2)
    table = compare_groups(experts, novices, STEPS)
    tested = [row for row in table.rows if row[5] is not None]
    assert {row[0] for row in table.rows if row[5] is None} >= {"missing", "repeated"}
    assert len(tested) == 1 + len(STEPS)
    assert [row[6] for row in tested] == adjust([row[5] for row in tested])
    assert adjust([0.01, 0.04, 0.03]) == [0.03, 0.06, 0.06]  # Holm, by hand
    assert "5 rows" in table.notes[-1]
    same = group([[0, 1]], 20, 1) * 2
    table = compare_groups(same, same, STEPS[:2])
    assert all(row[5] is None for row in table.rows)
    assert "are equal" in table.caption
    with raises(OptionError, setting="group A", value=1):
        compare_groups(group([[0]], 20, 1), group([[0], [0]], 20, 2), STEPS)


def test_seconds_of_unchecked_segments_have_an_interval():
    experts, novices = group([[0, 1]] * 3, 20, 1), group([[0, 1]] * 3, 40, 2)
    assert compare_groups(experts, novices, STEPS[:2]).columns[-1] == "p corrected"
    unchecked = [
        Timeline([Segment(s.start, s.end, s.step, 0.9) for s in each], each.duration)
        for each in novices
    ]
    for labelled, low, high in ((False, 0.3, 1.7), (True, 0.6, 1.6)):
        table = compare_groups(experts, unchecked, STEPS[:2], labelled=labelled)
        assert table.columns[-4:] == ["A from", "A to", "B from", "B to"]
        rows = {tuple(row[:2]): row[2:] for row in table.rows}
        a, b, *_ = found = rows["seconds", STEPS[0]]
        assert found[-4:] == pytest.approx([a, a, low * b, high * b])
        assert rows["exchanged pairs", "(order)"][-4:] == [None] * 4
    assert "learned with a few labels" in table.notes[-1]


def test_the_command_compares_folders(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    labels = [film([0, 1, 2, 3], rng) for _ in range(4)]
    true = {str(n): Timeline.from_labels(one, 1.0, STEPS) for n, one in enumerate(labels)}
    rows = {str(n): np.eye(4)[np.maximum(one, 0)] for n, one in enumerate(labels)}
    learn(rows, steps=4, labels=true, restarts=1, output="any.proc")
    for name, order in (("novices", [0, 2, 3]), ("experts", [0, 1, 2, 3])):
        (tmp_path / name).mkdir()
        for number in range(3):
            rows = np.eye(4)[np.maximum(film(order, rng), 0)]
            np.save(tmp_path / name / f"{name}{number}.npy", rows)
    folders = [str(tmp_path / "novices"), str(tmp_path / "experts")]
    files = ["--budget", str(tmp_path / "b.csv"), "--plot", str(tmp_path / "b.svg")]
    words = ["compare", *folders, "-p", "any.proc"]
    assert "missing,spread jam,1.0,0.0,1.0" in run(*words, "--format", "csv", *files).out
    told = run(*words).out
    assert f"A is {folders[0]}, 3 videos; B is {folders[1]}" in told
    assert "learned with a few labels, 80 % of the true seconds" in told
    assert "no segment is confirmed by a person" in run(*words, "--confirmed-only", code=2).err
    lines = (tmp_path / "b.csv").read_text(encoding="utf-8-sig").splitlines()
    assert lines[0].startswith("group,video,step,count,total s")
    assert lines[1].startswith("novices,novices0,")  # the name, not the path
    assert (tmp_path / "b.svg").stat().st_size > 1000
    told = run("compare", folders[1], tmp_path / "absent", "-p", "any.proc", code=2).err
    assert "is not a folder" in told
    assert "segment" not in told  # told before the work
    assert run(*words, "--plot", tmp_path / "b.xyz", code=2).out == ""  # told before the work
