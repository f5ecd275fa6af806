"""Check: every kind of deviation is found at its time and reported; normal videos pass."""

import copy
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from kitchen_kit import STEPS, film, shares

from stepcut.checking.calibrate import alterations, learn_expectations
from stepcut.checking.check import check_labels
from stepcut.checking.gate import TaskModel
from stepcut.checking.report import KINDS, word_for
from stepcut.checking.rules import Severity, parse_severity
from stepcut.checking.usual import Presence, evidence_of, learn_presence, observe
from stepcut.errors import OptionError
from stepcut.procedure.learning import learn
from stepcut.toy import toy_features


def checked(tiny_task, labels, strange=None):
    calm = np.ones(len(labels)) if strange is None else strange
    return check_labels(labels, 1.0, tiny_task.expectations, shares(labels), calm, STEPS, "new.mp4")


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def test_a_normal_video_is_fine_and_a_missed_step_is_named(tiny_task, rng):
    report = checked(tiny_task, film([0, 2, 1, 3], rng))
    assert report.ok
    assert report.findings == []
    assert 0 <= report.score <= 1
    assert str(report).startswith("new.mp4: no deviation found. A missing step would be found in ")
    assert {(step.name, step.seen, step.share_of_videos) for step in report.steps} == {
        (n, "seen", 1.0) for n in STEPS
    }
    labels = film([0, 2, 3], rng)
    report = checked(tiny_task, labels)
    (finding,) = report.missed
    assert (finding.step, finding.name) == (1, "spread jam")
    # It was due once the bread was cut, and when serving began, it was too late.
    assert finding.start == np.flatnonzero(labels == 0)[-1] + 1
    assert finding.end == np.flatnonzero(labels == 3)[0]
    assert finding.reason.startswith("spread jam was not seen (probability ")
    assert finding.reason.endswith("%); 24 of 24 videos do it, before serve")
    assert finding.confidence > 0.9
    assert not report.ok


@pytest.mark.parametrize(("order", "lengths", "kind", "step", "at", "reason"), [
    ([0, 1, 2], 20, "missed", 3, (60, 60), r"serve was not seen .*; 24 of 24 videos do it"),
    ([1, 0, 2, 3], 20, "misordered", 1, (0, 20), r"spread jam was done before open jar, which must "
     r"precede it \(24 of 24 videos keep to this\)"),
    ([1, 2, 3, 0], 20, "misordered", 0, (60, 80), r"open jar was done only after spread jam and cut "
     r"bread, which it must precede .*"),
    ([0, 1, 2, 1, 3], [20, 40, 20, 40, 20], "extra", 1, (80, 120),
     r"spread jam was done 2 times; 24 of 24 videos do it less often"),
    ([0, 1, 2, 3], [20, 3, 20, 20], "unusual", 1, (20, 23),
     r"spread jam took 3.0 s, unusually short; 20 s is usual"),
    ([0, 1, 2, 3], [20, 120, 20, 20], "unusual", 1, (20, 140),
     r"spread jam took 120 s, unusually long; 20 s is usual"),
    ([0, 1, 2, 1, 3], [20, 60, 20, 60, 20], "unusual", 1, (20, 80),
     r"spread jam took 120 s in 2 parts, unusually long; .*"),
    ([0, 1, 2, 3, -1], [20, 20, 20, 20, 400], "unusual", None, (0, 480),
     r"the video took 480 s, unusually long; 8\d s is usual"),
])  # fmt: skip
def test_a_deviation_is_named_once_with_its_time(tiny_task, order, lengths, kind, step, at, reason):
    report = checked(tiny_task, np.repeat(order, lengths))
    (finding,) = [
        one for one in report.findings if one.kind == kind and (one.step is None) == (step is None)
    ]
    assert (finding.step, finding.start, finding.end) == (step, *at)
    assert re.fullmatch(reason, finding.reason)
    assert kind != "misordered" or report.missed == []


def test_no_time_lies_beyond_the_end_of_the_video(tiny_task):
    """The last row is shorter if the video ends within it."""
    labels, end = np.repeat([0, 1], 20), 39.1
    report = check_labels(
        labels, 1.0, tiny_task.expectations, shares(labels), None, STEPS, seconds=end
    )
    assert {finding.kind for finding in report.findings} >= {"missed", "unusual"}
    assert all(0 <= finding.start <= finding.end <= end for finding in report.findings)
    (short,) = [finding for finding in report.unusual if finding.step is None]
    assert short.reason.startswith("the video took 39 s")


CYCLES = [0, *[1, 2, 3] * 4]
"""A cyclic task: three steps, four times each."""
LESS = CYCLES[:2] + CYCLES[3:]
"""The same with one step 2 removed."""


@pytest.fixture(scope="module")
def cycles():
    rng = np.random.default_rng(0)
    videos = [film(CYCLES, rng) for _ in range(16)]
    return learn_expectations(videos, 1.0, [shares(labels) for labels in videos])


def test_a_step_done_less_often_than_is_usual(cycles, rng):
    for order, steps in ((CYCLES[:-3], [1, 2, 3]), (LESS, [2])):
        labels = film(order, rng)
        report = check_labels(labels, 1.0, cycles, shares(labels), names=STEPS)
        assert not report.ok
        assert sorted(finding.step for finding in report.missed) == steps
        for one in report.missed:
            assert one.reason == f"{one.name} was done 3 times; 16 of 16 videos do it more often"
            assert labels[int(one.start)] == labels[int(one.end) - 1] == one.step
            assert {step.seen for step in report.steps if step.step == one.step} == {"seen"}
    once = film([0, 1, 2, 3], rng)
    missed = check_labels(once, 1.0, cycles, shares(once), names=STEPS).missed
    assert all(finding.reason.split("; ")[0].endswith(" was done once") for finding in missed)
    assert len(missed) == 3


def test_one_more_cycle_is_extra_and_an_optional_step_may_be_done_less_often(cycles, rng):
    videos = [film(CYCLES, rng) for _ in range(16)]
    reports = [check_labels(labels, 1.0, cycles, shares(labels)) for labels in videos]
    assert sum(report.ok for report in reports) >= 14  # one false alarm in 17 is allowed
    assert not any(report.missed or report.extra for report in reports)
    labels = film([*CYCLES, 1, 2, 3], rng)
    report = check_labels(labels, 1.0, cycles, shares(labels), names=STEPS)
    assert not report.ok
    reasons = {finding.reason for finding in report.extra}
    for name in ("spread jam", "cut bread"):
        assert f"{name} was done 5 times; 16 of 16 videos do it less often" in reasons
    wishes = replace(cycles, severity=Severity(optional=frozenset({2})))
    labels = film(LESS, rng)
    assert not check_labels(labels, 1.0, wishes, shares(labels)).missed


def test_a_stretch_that_matches_nothing(tiny_task, rng):
    labels = np.concatenate([film([0, 1], rng), np.full(40, -1), film([2, 3], rng)])
    first = len(film([0, 1], np.random.default_rng(7)))
    strange = np.ones(len(labels))
    strange[first : first + 40] = 8.0
    report = checked(tiny_task, labels, strange)
    (finding,) = report.unknown
    assert abs(finding.start - first) <= 4
    assert abs(finding.end - first - 40) <= 4
    assert finding.step is None
    assert "s match no known step" in finding.reason
    assert report.missed == report.misordered == []


@pytest.fixture(scope="module")
def toy():
    videos, _ = toy_features(videos=14, seed=3, duration=90, skip=0.0, repeat=0.0)
    return learn(videos[:10], steps=6, restarts=4), videos[10:]


def test_the_default_method_detects_another_task(toy):
    procedure, videos = toy
    assert not procedure.check(videos[0]).other_task
    for other in toy_features(videos=2, seed=5, duration=90)[0]:
        report = procedure.check(other)
        assert report.other_task
        assert report.exit_code == 3
        assert "not the task that was learned" in report.summary
    wall = procedure.check(np.zeros_like(videos[0]))
    assert wall.other_task
    two = procedure.check(videos[0][:2])
    assert not two.ok
    assert all(0 <= finding.start <= finding.end <= 2 for finding in two.findings)


def test_a_part_of_the_task_is_no_other_task():
    """A video with missing steps has another mean, but shows this task and deviates."""
    rng = np.random.default_rng(0)
    looks = rng.normal(size=(5, 32))
    cuts = [film([0, 1, 2, 3, 4], rng) for _ in range(12)]
    clear = [looks[cut] + 0.1 * rng.normal(size=(len(cut), 32)) for cut in cuts]
    procedure = learn(clear[:8], steps=5, restarts=4)
    for video, cut in zip(clear[8:], cuts[8:], strict=True):
        assert not any(procedure.check(video[cut != step]).other_task for step in range(5))


def test_a_step_that_no_video_is_found_to_do_is_shown_and_may_be_critical(rng):
    few = learn_expectations([film([0, 2, 3], rng) for _ in range(12)], 1.0)
    labels = film([0, 2, 3], rng)
    report = check_labels(labels, 1.0, few, names=STEPS)
    assert report.ok
    (never,) = [one for one in report.steps if one.step == 1]
    assert (never.seen, never.share_of_videos) == ("not seen", 0.0)
    whole = check_labels(film([0, 1, 2, 3], rng), 1.0, few, names=STEPS)
    assert {one.seen for one in whole.steps} == {"seen"}
    critical = replace(few, severity=Severity(critical=frozenset({1})))
    alarm = check_labels(labels, 1.0, critical, names=STEPS)
    assert not alarm.ok
    reason = alarm.missed[0].reason
    assert reason.startswith("spread jam was not seen")
    assert reason.endswith(", and is critical; 0 of 12 videos do it")


def test_optional_critical_and_free_steps(tiny_task, rng):
    def report(order, **wishes):
        expectations = replace(tiny_task.expectations, severity=parse_severity(wishes, STEPS))
        return check_labels(film(order, np.random.default_rng(1)), 1.0, expectations, names=STEPS)

    assert report([0, 2, 3]).missed
    assert not report([0, 2, 3], optional=["Spread  jam"]).missed
    assert report([1, 0, 2, 3]).misordered
    assert not report([1, 0, 2, 3], free=[1]).misordered
    loose = learn_expectations([film(order, rng) for order in [[0, 1, 2, 3], [0, 2, 3]] * 6], 1.0)
    gone, critical = film([0, 2, 3], rng), Severity(critical=frozenset({1}))
    assert check_labels(gone, 1.0, loose).ok
    assert not check_labels(gone, 1.0, replace(loose, severity=critical)).ok


@pytest.mark.parametrize(
    "wrong",
    [{"critical": ["nothing"]}, {"must": []}, {"free": 1}, {"optional": [0], "critical": [0]}, 3],
)
def test_a_wrong_severity_is_refused(wrong):
    with pytest.raises(OptionError, match=r"severity\.json"):
        parse_severity(wrong, STEPS)


@pytest.mark.parametrize("step", range(4))
def test_leaving_out_an_optional_step_is_fine_and_hides_nothing_else(step, rng):
    usual = learn_expectations([film([0, 1, 2, 3], rng) for _ in range(20)], 1.0)
    marked = replace(usual, severity=Severity(optional=frozenset({step})))
    rest = [one for one in range(4) if one != step]
    results = [check_labels(film(rest, rng), 1.0, marked) for _ in range(20)]
    assert sum(not report.ok for report in results) <= 3  # 5 % false alarms
    assert not any(report.missed for report in results)
    assert not check_labels(film(rest, rng), 1.0, usual).ok
    for wrong in ([rest[1], rest[0], rest[2]], rest[:2]):
        assert not check_labels(film(wrong, rng), 1.0, marked).ok
    hurried = check_labels(film(rest, rng, seconds=8), 1.0, marked)
    assert not hurried.ok
    assert all(finding.end <= hurried.seconds for finding in hurried.findings)


@pytest.mark.parametrize("length", [0, 50])
def test_a_video_with_none_of_the_steps(tiny_task, length):
    labels = np.full(length, -1)
    report = check_labels(labels, 1.0, tiny_task.expectations, names=STEPS)
    assert [finding.step for finding in report.missed] == [0, 1, 2, 3]
    assert report.misordered == report.extra == report.unknown == []
    assert [step.seen for step in report.steps] == ["not seen"] * 4


def test_a_step_that_shows_in_the_probabilities_is_not_called_missed(tiny_task, rng):
    labels = film([0, 2, 3], rng)
    seen = shares(labels)
    seen[40:50] = [0.02, 0.94, 0.02, 0.02]  # visible in the probabilities only
    report = check_labels(labels, 1.0, tiny_task.expectations, seen, np.ones(len(labels)), STEPS)
    assert report.missed == []
    (found,) = [one for one in report.steps if one.step == 1]
    assert (found.times, found.seen) == ((), "seen")


def test_the_false_alarm_rate_is_near_the_one_asked_for():
    rng = np.random.default_rng(1)
    orders = [[0, 1, 2, 3], [0, 2, 1, 3]]
    learned = [film(orders[n % 2], rng) for n in range(40)]
    for asked in (0.05, 0.3):
        expectations = learn_expectations(learned, 1.0, false_alarms=asked)
        fresh = [film(orders[n % 2], rng) for n in range(100)]
        alarms = np.mean([not check_labels(labels, 1.0, expectations).ok for labels in fresh])
        assert alarms <= asked + 0.07


@pytest.mark.parametrize(("videos", "promised"), [(1, 1), (2, 1 / 3), (8, 1 / 9)])
def test_few_videos_limit_the_false_alarm_rate(videos, promised, rng):
    learned = [film([0, 1, 2, 3], rng) for _ in range(videos)]
    expectations = learn_expectations(learned, 1.0, false_alarms=0.05)
    report = check_labels(film([0, 1, 2, 3], rng), 1.0, expectations, video="new.mp4")
    assert report.promised == expectations.promised == pytest.approx(promised)
    assert not report.deviates
    assert videos > 1 or report.verdict == "inconclusive"
    if videos > 1:
        few = f"With {videos} videos the rate of false alarms cannot be set below {promised:.0%}"
        assert few in report.note
        assert str(report).endswith(f"({report.note})")
        assert report.note in report._repr_html_()
        record = report.to_json()
        figures = record["false_alarms"], record["promised"], record["note"]
        assert figures == (0.05, round(promised, 4), report.note)
    else:  # without data, the spread of a step is that of a whole video
        usual = expectations.usual
        assert {pace.spread for pace in usual.paces.values()} == {usual.length.spread}


def test_without_labels_the_limit_is_stricter_and_twice_the_rate_is_stated(rng):
    learned = [film([0, 1, 2, 3], rng) for _ in range(40)]
    known, unknown = (learn_expectations(learned, 1.0, labelled=each) for each in (True, False))
    assert (known.promised, unknown.promised) == (0.05, 0.1)
    assert unknown.limit > known.limit
    assert unknown.few.startswith("With 40 videos and no labels the rate of false alarms cannot")
    assert unknown.few.endswith("be set below 10% (5% was requested); label three videos.")
    assert not known.few
    with pytest.raises(OptionError, match="labels is empty"):
        learn_expectations([], 1.0)


def test_a_step_at_an_unusual_time_is_named_where_nothing_else_is_wrong(rng):
    pause = np.full(30, -1)
    videos = [np.append(film([0, 1, 2, 3], rng), pause) for _ in range(12)]
    expectations = learn_expectations(videos, 1.0)
    idle = np.append(pause, film([0, 1, 2, 3], rng))
    report = check_labels(idle, 1.0, expectations, names=STEPS)
    (finding,) = report.misordered
    assert " was done late, at " in finding.reason


def test_a_video_that_shows_all_usual_steps_is_never_another_task(rng):
    usual = learn_expectations([film([0, 1, 2, 3], rng) for _ in range(12)], 1.0)
    strict = replace(usual, task=TaskModel(np.eye(4), 1e-6))
    for order, other in (([0, 1, 2, 3], False), ([0, 1, 2], True)):
        labels = film(order, rng)
        looks = np.random.default_rng(0).normal(size=(len(labels), 4))
        report = check_labels(labels, 1.0, strict, shares(labels), embedding=looks)
        assert report.other_task is other
        assert report.exit_code == (3 if other else 0)


def test_a_report_is_readable_by_people_machines_and_notebooks(tiny_task, rng):
    report = checked(tiny_task, film([1, 0, 3], rng))
    record = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert record["ok"] is False
    assert {"video", "score", *KINDS} <= record.keys()
    assert record["missed"][0]["name"] == "cut bread"
    keys = {"kind", "start", "end", "step", "name", "confidence", "reason"}
    assert record["missed"][0].keys() == keys
    likely = [one.probability for one in report.steps]
    assert likely == sorted(likely)
    first = record["steps"][0]
    assert (first["step"], first["seen"], first["probability"] < 0.25) == (2, "not seen", True)
    assert "1 missed, 1 misordered" in str(report)
    assert re.search(r"00:00:00\.0 to 00:00:\d\d\.\d  misordered", str(report))


def test_a_report_as_a_table_has_a_row_for_every_step(tiny_task, rng):
    pytest.importorskip("pandas")
    labels = film([0, 2, 3], rng)
    frame = checked(tiny_task, labels).to_pandas()
    columns = "video step probability seen times seconds share_of_videos findings"
    assert list(frame.columns) == columns.split()
    assert sorted(frame["step"]) == sorted(STEPS)
    assert frame["probability"].is_monotonic_increasing
    missed = frame[frame["step"] == "spread jam"].iloc[0]
    assert (missed["seen"], missed["times"], missed["findings"]) == ("not seen", 0, "missed")
    assert frame["seconds"].sum() == pytest.approx((labels >= 0).sum())


def test_probabilities_are_calibrated():
    # With overlapping evidence, a share p of the steps with probability p were done.
    rng = np.random.default_rng(4)
    usual = rng.normal(2.5, 0.5, size=6)
    done, absent = (mean + rng.normal(0, 0.8, size=(40, 6)) for mean in (usual, usual - 1.2))
    done[:, 5] = absent[:, 5] = np.nan  # no video shows it
    model = learn_presence(done, absent)
    new = usual + rng.normal(0, 0.8, size=(4000, 6)), usual - 1.2 + rng.normal(0, 0.8, (4000, 6))
    shares, truth = [], []
    for true, rows in zip((1, 0), new, strict=True):
        for row in rows:
            shares += model.probabilities(row)[:5].tolist()
            truth += [true] * 5
    level = np.digitize(shares, [0.2, 0.4, 0.6, 0.8])
    for one in range(5):
        promised, right = (np.mean(np.array(each)[level == one]) for each in (shares, truth))
        assert promised == pytest.approx(right, abs=0.08)
    # A step without evidence keeps a probability of one half.
    rng = np.random.default_rng(5)
    same = rng.normal(2.0, 0.5, size=(30, 2))
    model = learn_presence(same, same + rng.normal(0, 0.5, size=(30, 2)))
    assert np.abs(model.probabilities(np.array([0.0, 4.0])) - 0.5).max() < 0.25


def test_evidence_odds_words_and_novelty_by_hand():
    rows = np.array([[1.0, 0.0], [0.5, 0.5], [0.5, 0.5], [0.0, 1.0]])
    np.testing.assert_allclose(evidence_of(rows, 2.0, rows), np.log([1.5, 1.5]))
    np.testing.assert_allclose(evidence_of(rows, 1.0, np.array([[0.8, 0.2]])), np.log([1.36, 1.0]))
    assert observe(np.array([0, 0, -1, 1]), 1.0).evidence.tolist() == np.log([3.0, 2.0]).tolist()
    model = Presence((2.0,), (1.0,), spread=1.0, slope=2.0, bias=0.5)
    assert model.probabilities(np.array([2.0])) == pytest.approx([1 / (1 + np.exp(-1.5))])
    words = [word_for(share) for share in (0.75, 0.74, 0.25, 0.24)]
    assert words == ["seen", "not sure", "not sure", "not seen"]
    peak = np.zeros(40)
    peak[20] = 1.0
    shown = observe(np.zeros(40, dtype=int), 2.0, novelty=peak).novelty
    assert shown is not None
    assert np.flatnonzero(shown).tolist() == list(range(17, 25))
    assert shown[20] == pytest.approx(1 / 8)


def test_alarm_at_is_an_alarm_for_one_step_whatever_the_rest(rng):
    orders = [[0, 1, 2, 3], [0, 2, 3], [0, 1, 2, 3], [0, 1, 3]] * 4
    usual = learn_expectations([film(order, rng) for order in orders], 1.0)
    labels = film([0, 2, 3], rng)
    assert check_labels(labels, 1.0, usual).ok
    results = check_labels(labels, 1.0, usual, alarm_at=0.9)
    assert (results.ok, results.verdict, results.exit_code) == (False, "deviations", 1)
    assert [finding.step for finding in results.missed] == [1]
    for limit, fine in ((0.5, False), (1.0, True)):
        own = replace(usual, severity=parse_severity({"alarm_at": {"spread jam": limit}}, STEPS))
        assert check_labels(labels, 1.0, own, alarm_at=0.9).ok is fine
    optional = replace(usual, severity=Severity(optional=frozenset({1})))
    assert check_labels(labels, 1.0, optional, alarm_at=0.9).ok
    names = ["wash", "spread jam"]
    kept = own.severity.moved(STEPS, names)
    assert (kept.to_json(names)["alarm_at"], kept.alarm_limit(0, 0.9)) == ({"spread jam": 1.0}, 0.9)
    with pytest.raises(OptionError, match="alarm_at=2"):
        check_labels(labels, 1.0, usual, alarm_at=2)


def test_an_accepted_finding_raises_no_alarm_any_more(tiny_task, rng):
    procedure = copy.copy(tiny_task.procedure)
    flawed = shares(film([0, 1, 3], rng))
    report = procedure.check(flawed)
    assert not report.ok
    for finding in report.findings:
        edit = {"do": "fine", "kind": finding.kind, "step": finding.step, "video": report.video}
        procedure = procedure.corrected(edit)
    assert procedure.check(flawed).ok
    assert not procedure.check(shares(film([3, 2, 1], rng))).ok  # other deviations still count


def test_altered_copies_are_rows_left_out_repeated_or_rearranged(tiny_task):
    labels = np.array([-1, 0, 0, 1, 1, -1, 2, 2, 3, 3])
    changed = {}
    for kind, gone, rows in alterations(labels, tiny_task.expectations.graph):
        changed.setdefault(kind, []).append((gone, rows))
    ((_, half),) = changed["missing half"]
    assert labels[half].tolist() == [-1, 0, 0, 1, 1]
    assert [gone for gone, _ in changed["missing step"]] == [0, 2, 3]
    for gone, rows in changed["missing step"]:
        assert sorted(set(labels[rows])) == sorted({-1, 0, 1, 2, 3} - {gone})
    before = tiny_task.expectations.graph.edges
    for _, rows in changed["exchanged steps"]:
        assert sorted(rows) == list(range(10))
        done = [int(step) for step in labels[rows] if step >= 0]
        assert any(done.index(b) < done.index(a) for a, b in before)
    ((_, slow),), ((_, still),) = changed["half speed"], changed["frozen picture"]
    assert slow.tolist() == sorted([*range(10)] * 2)
    assert still.tolist() == [0, 1, 2, 3, 3, 3, 6, 7, 8, 9]
