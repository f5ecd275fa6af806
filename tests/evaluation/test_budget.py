"""Time budgets: figures by hand, groups and videos, files for spreadsheets, and the plot."""

import io

import pytest
from errors_kit import raises

from stepcut.cli.main import main
from stepcut.errors import OptionError
from stepcut.evaluation.budget import draw_budget, time_budget
from stepcut.formats import write
from stepcut.timeline import Segment, Timeline

TWICE = Timeline([Segment(0, 1, "pour"), Segment(2, 4, "stir"), Segment(4, 7, "pour")], 10.0)
ONCE = Timeline([Segment(1, 3, "pour")], 5.0)


def test_figures_of_one_video():
    table = time_budget({"": {"v": TWICE}}, ["wash", "pour"], per_video=True)
    assert table.columns == ["video", "step", "count", "total s", "mean s", "SD s", "share %"]
    assert table.rows[0] == ["v", "wash", 0, 0, None, None, 0]
    assert table.rows[1] == ["v", "pour", 2, 4, 2, pytest.approx(2**0.5), 40]
    assert table.rows[2] == ["v", "(no step)", None, 4, None, None, 40]


def test_figures_of_groups():
    table = time_budget({"a": {"v": TWICE, "w": ONCE}, "b": {"w": ONCE}})
    assert table.columns[:3] == ["group", "step", "videos"]
    assert table.rows[0][:6] == ["a", "pour", 2, 3, 6, 2]
    assert table.rows[0][-1] == pytest.approx(100 * 6 / 15)
    assert table.rows[3][:5] == ["b", "pour", 1, 1, 2]
    assert table.rows[4][:5] == ["b", "stir", 0, 0, 0]


def test_clicks_count_and_take_no_time():
    tapped = Timeline([Segment(0, 4, "pour"), Segment(5, 5, "pour"), Segment(6, 6, "tap")], 8.0)
    rows = time_budget({"": {"v": tapped}}).rows
    assert rows[0][2:5] == [2, 4, 4]
    assert rows[1][2:5] == [1, 0, None]
    assert rows[2][3] == 4


def test_a_video_of_unknown_length_has_no_time_without_a_step():
    table = time_budget({"": {"v": Timeline([Segment(2, 4, "pour")])}})
    assert [row[0] for row in table.rows] == ["pour"]
    assert table.rows[0][-1] == 50
    assert len(table.notes) == 1


CHECKED = Timeline(
    [Segment(0, 2, "pour"), Segment(3, 6, "pour", 0.9), Segment(6, 8, "stir", 0.5)], 10
)
ALONE = Timeline([Segment(0, 4, "pour", 0.9)], 8)


def test_figures_from_unchecked_segments_have_their_error():
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


def test_only_confirmed_segments_are_counted_where_asked():
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


def test_the_command_reads_labels_alone(tmp_path, capsys):
    for group, timeline in (("novices", TWICE), ("experts", ONCE)):
        (tmp_path / group).mkdir()
        write(tmp_path / group / "Fäden.json", timeline.rename({"pour": "Öl gießen"}))
    folders = [str(tmp_path / group) for group in ("novices", "experts")]
    table = tmp_path / "times.csv"
    assert main(["budget", *folders, "--per-video", "-o", str(table)]) == 0
    assert "Öl gießen" in capsys.readouterr().out
    assert table.read_bytes().startswith(b"\xef\xbb\xbf")  # by which Excel knows UTF-8
    assert "novices,Fäden,Öl gießen,2,4" in table.read_text(encoding="utf-8-sig")
    write(tmp_path / "new.json", ALONE)
    assert main(["budget", str(tmp_path / "new.json"), "--confirmed-only"]) == 2
    assert "no segment is confirmed" in capsys.readouterr().err
    assert main(["budget", folders[0], "-o", str(tmp_path / "times.xyz")]) == 2
    assert ".xlsx" in capsys.readouterr().err
