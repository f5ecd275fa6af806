"""Compare: what differs between two groups is found, what does not is left alone, many steps are corrected for."""

import numpy as np
import pytest
from errors_kit import raises
from kitchen_kit import STEPS, film

from stepcut.cli.main import main
from stepcut.errors import OptionError
from stepcut.evaluation.compare import adjust, compare_groups
from stepcut.procedure.learning import learn
from stepcut.timeline import Segment, Timeline


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


def test_rows_without_variation_do_not_weaken_the_others():
    """Nobody leaves a step out or repeats one: only the times of the steps are tested."""
    experts, novices = group([[0, 1, 2, 3]] * 6, 20, 1), group([[0, 1, 2, 3]] * 6, 25, 2)
    table = compare_groups(experts, novices, STEPS)
    tested = [row for row in table.rows if row[5] is not None]
    assert {row[0] for row in table.rows if row[5] is None} >= {"missing", "repeated"}
    assert len(tested) == 1 + len(STEPS)
    assert [row[6] for row in tested] == adjust([row[5] for row in tested])
    assert adjust([0.01, 0.04, 0.03]) == [0.03, 0.06, 0.06]  # Holm, by hand
    assert "5 rows" in table.notes[-1]


def test_groups_that_do_the_same_are_told():
    same = group([[0, 1]], 20, 1) * 2
    table = compare_groups(same, same, STEPS[:2])
    assert all(row[5] is None for row in table.rows)
    assert "are equal" in table.caption


def test_seconds_of_unchecked_segments_have_an_interval():
    def unchecked(timeline):
        return Timeline([Segment(s.start, s.end, s.step, 0.9) for s in timeline], timeline.duration)

    experts, novices = group([[0, 1]] * 3, 20, 1), group([[0, 1]] * 3, 40, 2)
    columns = ["A from", "A to", "B from", "B to"]
    assert compare_groups(experts, novices, STEPS[:2]).columns[-1] == "p corrected"
    table = compare_groups(experts, [*map(unchecked, novices)], STEPS[:2])
    assert table.columns[-4:] == columns
    row = next(row for row in table.rows if row[:2] == ["seconds", STEPS[0]])
    a, b = row[2:4]
    assert row[-4:] == pytest.approx([a, a, 0.3 * b, 1.7 * b])
    assert next(row for row in table.rows if row[1] == "(order)")[-4:] == [None] * 4
    taught = compare_groups(experts, [*map(unchecked, novices)], STEPS[:2], labelled=True)
    again = next(one for one in taught.rows if one[:2] == row[:2])
    assert again[-2:] == pytest.approx([0.6 * b, 1.6 * b])
    assert "learned with a few labels" in taught.notes[-1]


def test_too_few_videos_are_told():
    with raises(OptionError, setting="group A", value=1):
        compare_groups(group([[0]], 20, 1), group([[0], [0]], 20, 2), STEPS)


def test_the_command_compares_folders(tmp_path, monkeypatch, capsys):
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
    assert main([*words, "--format", "csv", *files]) == 0
    assert "missing,spread jam,1.0,0.0,1.0" in capsys.readouterr().out
    assert main(words) == 0
    told = capsys.readouterr().out
    assert f"A is {folders[0]}, 3 videos; B is {folders[1]}" in told
    assert "learned with a few labels, 80 % of the true seconds" in told
    assert main([*words, "--confirmed-only"]) == 2
    assert "no segment is confirmed by a person" in capsys.readouterr().err
    lines = (tmp_path / "b.csv").read_text(encoding="utf-8-sig").splitlines()
    assert lines[0].startswith("group,video,step,count,total s")
    assert lines[1].startswith("novices,novices0,")  # the name, not the path
    assert (tmp_path / "b.svg").stat().st_size > 1000
    capsys.readouterr()
    assert main(["compare", folders[1], str(tmp_path / "absent"), "-p", "any.proc"]) == 2
    told = capsys.readouterr().err
    assert "is not a folder" in told
    assert "segment" not in told  # told before the work
    assert main([*words, "--plot", str(tmp_path / "b.xyz")]) == 2
    out, err = capsys.readouterr()
    assert out == ""  # told before the work
    assert "Choose from .png, .svg, .pdf" in err
