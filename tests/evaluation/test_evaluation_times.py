"""Times of steps and recordings, and the comparison of two groups: figures by hand, the commands, and the plot."""

import io

import numpy as np
import pytest
from errors_kit import raises
from kitchen_kit import STEPS, film

from stepcut.errors import OptionError
from stepcut.evaluation.compare import adjust, compare_groups
from stepcut.evaluation.times import Spent, Times, median_range
from stepcut.formats import write
from stepcut.procedure.edits import Edits
from stepcut.procedure.learning import learn, load
from stepcut.timeline import Segment, Timeline

TWICE = Timeline([Segment(0, 1, "pour"), Segment(2, 4, "stir"), Segment(4, 7, "pour")], 10.0)
ONCE = Timeline([Segment(1, 3, "pour")], 5.0)


def test_figures_of_recordings_steps_and_groups():
    rows = Times({"": {"v": TWICE}}, ["wash", "pour"]).per_recording
    assert rows.columns[:4] == ["recording", "step", "count", "total s"]
    assert rows.rows[0] == ["v", "wash", 0, 0, 0, 0, 0, None]
    assert rows.rows[1] == ["v", "pour", 2, 4, 4, 4, 40, 100]
    assert rows.rows[2:] == [
        ["v", "(no step)", None, 4, 4, 4, 40, None],
        ["v", "(whole)", None, 10, 10, 10, 100, None],
    ]
    table = Times({"a": {"v": TWICE, "w": ONCE}, "b": {"w": ONCE}}).per_step
    assert table.columns[:5] == ["group", "step", "recordings", "count", "median s"]
    assert table.rows[0][:10] == ["a", "pour", 2, 3, 3, 2, 4, 2.5, 3.5, pytest.approx(2**0.5)]
    assert table.rows[0][-2:] == [pytest.approx(100 * 6 / 15), 100]
    assert table.rows[5][:5] == ["b", "stir", 0, 0, None]
    tapped = Timeline([Segment(0, 4, "pour"), Segment(5, 5, "pour"), Segment(6, 6, "tap")], 8.0)
    rows = Times({"": {"v": tapped}}).per_step.rows
    assert [row[:4] for row in rows[:2]] == [["pour", 1, 2, 4], ["tap", 1, 1, 0]]
    table = Times({"": {"v": Timeline([Segment(2, 4, "pour")])}}).per_step
    assert [row[0] for row in table.rows] == ["pour", "(whole)"]
    assert "unknown length" in table.notes[-1]


CHECKED = Timeline(
    [Segment(0, 2, "pour"), Segment(3, 6, "pour", 0.9), Segment(6, 8, "stir", 0.5)], 10
)
ALONE = Timeline([Segment(0, 4, "pour", 0.9)], 8)


def test_unchecked_segments_have_their_error_and_confirmed_ones_are_counted_alone():
    times = Times({"": {"v": CHECKED}})
    assert times.per_recording.rows[0][2:] == [
        2, 5, pytest.approx(2 + 0.6 * 3), pytest.approx(2 + 1.6 * 3), 50, 40
    ]  # fmt: skip
    assert "A person confirmed 29 % of the time of the steps." in times.notes
    assert "learned with a few labels, 80 % of the true seconds" in times.notes[-1]
    without = Times({"": {"w": ALONE}})
    assert without.per_recording.rows[0][4:6] == pytest.approx([0.3 * 4, 1.7 * 4])
    assert "A person confirmed 0 % of the time of the steps." in without.notes
    assert "learned without labels" in without.notes[-1]
    table = Times({"": {"v": CHECKED, "w": ALONE}}, confirmed_only=True).per_step
    assert [row[:4] for row in table.rows[:2]] == [["pour", 1, 1, 2], ["stir", 0, 0, None]]
    with raises(OptionError, "no segment is confirmed", setting="confirmed_only", value=True):
        Times({"": {"w": ALONE}}, confirmed_only=True)


def days(*seconds):
    return {
        f"box_2026-03-{1 + n // 2:02d}_{6 + 12 * (n % 2):02d}05": Timeline(
            [Segment(0, 2, "fetch"), Segment(2, end, "screw")], end
        )
        for n, end in enumerate(seconds)
    }


def test_the_run_chart_has_limits_a_takt_and_what_lies_outside():
    times = Times({"": days(40, 42, 40, 42, 40, 42, 40, 70)}, takt=45)
    ranges = (6 * 2 + 30) / 7
    assert times.run.limits == pytest.approx((44.5 - 2.66 * ranges, 44.5 + 2.66 * ranges))
    assert "outside: box_2026-03-04_1805." in times.notes[1]
    assert "Above the takt of 45 s: 1 of 8: box_2026-03-04_1805." in times.notes
    assert times.bottleneck == "screw"
    assert times.notes[0] == "Bottleneck: screw, the longest step of 8 of 8 recordings."
    back = Times({"": dict(reversed(days(40, 42, 44, 46).items()))})
    assert [point.seconds for point in back.run.points] == [40, 42, 44, 46]  # by the clock
    daily = Times({"": days(40, 42, 44, 46)}, by="day", step="screw")
    assert [point[:3] for point in daily.run.points] == [
        ("2026-03-01", 2, 39), ("2026-03-02", 2, 43)
    ]  # fmt: skip
    shifts = Times({"": days(40, 42)}, by="shift", classes={"fetch": "waste"})
    assert list(shifts.stacks) == ["2026-03-01 06:00", "2026-03-01 14:00"]
    assert shifts.stacks["2026-03-01 06:00"][:2] == [("fetch", 2, 2, 2), ("screw", 38, 38, 38)]
    assert shifts.per_step.rows[0][:2] == ["fetch", "waste"]
    one = Times({"": days(40)})
    assert one.run.limits is None
    assert "One recording only: it has no spread and no control limits." in one.notes
    one.draw()


def test_the_median_has_an_order_statistic_interval():
    done = [Spent(1, s, s, s, s) for s in range(1, 11)]
    low, high = median_range(done)  # 2 or fewer of 10 are below it with 5 %, 3 with 17 %
    assert (low, high) == (3, 8)
    assert median_range(done[:1]) == (1, 1)


@pytest.mark.parametrize(("wrong", "words"), [
    ({"takt": 0}, "takt=0 is not allowed; give a number above 0"),
    ({"by": "week"}, "recording, shift, day"),
    ({"step": "scrw"}, "did you mean 'screw'"),
    ({"by": "day", "groups": {"": {"v": TWICE}}}, "v has no wall-clock time"),
    ({"groups": {}}, "no timelines to count"),
])  # fmt: skip
def test_wrong_wishes_are_refused(wrong, words):
    with raises(OptionError, words):
        Times(**{"groups": {"": days(40, 42)}, **wrong}).run  # noqa: B018


def test_the_plot_has_every_group_and_takes_names_as_they_are():
    figure = Times({"before": {"v": TWICE}, "after": {r"$\euro5$": ONCE}}, takt=4).draw()
    above, below = figure.axes
    assert [label.get_text() for label in below.get_yticklabels()] == ["before", "after"]
    assert [label.get_text() for label in above.get_xticklabels()][1] == r"after: $\euro5$"
    figure.savefig(io.BytesIO())  # a name is no formula


def test_the_command_reads_labels_alone(tmp_path, run):
    for group, timeline in (("novices", TWICE), ("experts", ONCE)):
        (tmp_path / group).mkdir()
        write(tmp_path / group / "Fäden.json", timeline.rename({"pour": "Öl gießen"}))
    folders = [str(tmp_path / group) for group in ("novices", "experts")]
    table = tmp_path / "times.csv"
    words = ["--plot", tmp_path / "t.svg"]
    assert "Öl gießen" in run("times", *folders, "--per-recording", "-o", table, *words).out
    assert table.read_bytes().startswith(b"\xef\xbb\xbf")  # by which Excel knows UTF-8
    assert "novices,Öl gießen,1,2,4" in table.read_text(encoding="utf-8-sig")
    write(tmp_path / "new.json", ALONE)
    told = run("times", tmp_path / "new.json", "--confirmed-only", code=2).err
    assert "no segment is confirmed" in told
    assert ".xlsx" in run("times", folders[0], "-o", tmp_path / "times.xyz", code=2).err
    assert "saved in a procedure" in run("times", folders[0], "--limit", "stir=40", code=2).err
    assert "use stepcut times" in run("budget", folders[0], code=2).err


def test_classes_limits_and_notes_of_a_procedure_last(tmp_path, run):
    openpyxl = pytest.importorskip("openpyxl")
    rng, place = np.random.default_rng(0), tmp_path / "a.proc"
    rows = {str(n): np.eye(4)[np.maximum(film([0, 1, 2, 3], rng), 0)] for n in range(5)}
    learn(rows, steps=4, restarts=1, output=place)
    words = ["--class", "step 2=waste", "--limit", "step 1=3-40", "-o", tmp_path / "t.xlsx"]
    assert "A person confirmed 0 %" in run("times", place, *words).out
    sheets = openpyxl.load_workbook(tmp_path / "t.xlsx")
    assert sheets.sheetnames == ["steps", "recordings", "run chart", "stacked bars", "about"]
    assert sheets["steps"]["B3"].value == "waste"
    edits = Edits(place)
    assert [str(rule) for rule in edits.rules] == ["step 1 at least 3 s, at most 40 s"]
    edits.set_limit("step 1", "30")
    assert [str(rule) for rule in edits.rules] == ["step 1 at most 30 s"]
    report = load(place).check(np.repeat(rows["0"], 3, axis=0))
    assert any(one.reason.startswith("rule: step 1 at most 30 s") for one in report.findings)
    edits.set_limit("step 1", "")
    assert not edits.rules
    for step, text in ((1, " wear gloves "), (2, "cold water")):
        edits.do({"do": "note", "step": step, "text": text})
    edits.do({"do": "rename", "step": 1, "name": "fetch"})
    edits.do({"do": "confirm", "video": "0"})
    taught = load(place).teach(source=rows)
    assert taught.annotations.notes == {"fetch": "wear gloves", "step 3": "cold water"}
    assert taught.annotations.classes == {"fetch": "waste"}
    edits.do({"do": "merge", "step": 2, "into": 1})
    assert edits.document.said.notes == {"fetch": "wear gloves\ncold water"}
    assert edits.undo()
    edits.do({"do": "merge", "step": 2, "into": None})
    edits.do({"do": "note", "step": 1, "text": ""})
    assert not edits.document.said.notes
    for wrong, words in (("forty", "limit='forty'"), ("40-3", "give seconds")):
        with raises(OptionError, words):
            edits.set_limit("fetch", wrong)
    assert "did you mean 'waste'" in run("times", place, "--class", "fetch=wast", code=2).err
    with raises(OptionError, "value-adding, necessary, waste"):
        edits.do({"do": "classify", "step": 1, "kind": "wast"})


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
    files = ["--times", str(tmp_path / "b.csv"), "--plot", str(tmp_path / "b.svg")]
    words = ["compare", *folders, "-p", "any.proc"]
    assert "missing,spread jam,1.0,0.0,1.0" in run(*words, "--format", "csv", *files).out
    told = run(*words).out
    assert f"A is {folders[0]}, 3 videos; B is {folders[1]}" in told
    assert "learned with a few labels, 80 % of the true seconds" in told
    assert "no segment is confirmed by a person" in run(*words, "--confirmed-only", code=2).err
    lines = (tmp_path / "b.csv").read_text(encoding="utf-8-sig").splitlines()
    assert lines[0].startswith("group,step,recordings,count,median s")
    assert (tmp_path / "b.svg").stat().st_size > 1000
    same = run("compare", folders[0], folders[0], "-p", "any.proc").out
    assert "3 videos of A and B are the same, such as novices0.npy. Compare different" in same
    told = run("compare", folders[1], tmp_path / "absent", "-p", "any.proc", code=2).err
    assert "is not a folder" in told
    assert "segment" not in told  # told before the work
    assert run(*words, "--plot", tmp_path / "b.xyz", code=2).out == ""  # told before the work
