"""Guide: strictly causal, constant in memory, and it knows where somebody is."""

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from errors_kit import raises
from kitchen_kit import STEPS, Echo, Plain, film, shares

import stepcut as sc
from stepcut.checking.calibrate import learn_expectations
from stepcut.checking.gate import TaskModel
from stepcut.checking.guide import Guide
from stepcut.checking.rules import Severity, parse_rules
from stepcut.cli.checking import Screen
from stepcut.errors import FeatureError, OptionError
from stepcut.methods.method import Reading
from stepcut.testing import made_up_videos
from stepcut.toy import toy_features


def guide(tiny_task):
    return tiny_task.procedure.guide()


def new_guide(expectations, start=Echo, rate=1.0, read=None, **marks):
    return Guide(start, rate, replace(expectations, **marks), STEPS, read or Plain().read)


def walk(guide, rows, rate=1.0):
    return [guide.push(number / rate, row) for number, row in enumerate(rows)]


def alerts_at(guide, rows):
    return [(state.time, alert) for state in walk(guide, rows) for alert in state.alerts]


def alerts_of(guide, rows):
    return [alert for _, alert in alerts_at(guide, rows)]


def test_it_knows_the_step_what_is_done_and_what_comes_next(tiny_task):
    labels = film([0, 2, 1, 3], np.random.default_rng(3))
    states = walk(guide(tiny_task), shares(labels))
    found = np.array([state.step for state in states])
    assert (found == labels)[labels >= 0].mean() > 0.9
    first = states[10]
    assert first.name == "open jar"
    assert {step for step, _ in first.next[:2]} == {1, 2}
    assert states[-1].done == (0, 2, 1, 3)
    assert all(state.alerts == () for state in states)
    assert sum(chance for _, chance in states[-1].next) < 0.1  # nothing is left
    again = guide(tiny_task)
    walk(again, shares(labels)[::-1])
    again.reset()
    assert walk(again, shares(labels)) == states


def test_a_step_is_done_after_a_quarter_and_firm_after_half_of_its_usual_time(tiny_task):
    runner = guide(tiny_task)
    states = walk(runner, shares(np.full(20, 3)))  # the last step first: it is misordered
    done = next(number for number, state in enumerate(states) if 3 in state.done)
    alarm = next(number for number, state in enumerate(states) if state.alerts)
    assert abs(done - runner.usual[3] / 4) <= 1.5
    assert abs(alarm - runner.usual[3] / 2) <= 1.5
    runner = guide(tiny_task)
    runner.usual[:] = 2.0  # a row is half of it
    alerts = alerts_of(runner, shares(np.repeat([0, 1, 0], 3)))
    assert [alert.kind for alert in alerts if alert.step == 0] == ["extra"]


def test_a_broken_rule_is_reported_once_and_as_soon_as_nothing_can_mend_it(tiny_task):
    rules = ["serve before cut bread", "spread jam is first", "serve is last",
             "open jar at most 12 s", "serve at least 99 s", "serve once"]  # fmt: skip
    runner = guide(tiny_task)
    made = parse_rules(rules, STEPS)
    runner.expectations = replace(runner.expectations, rules=made)
    states = walk(runner, shares(np.repeat([0, 1, 2, 3], 20)))
    alerts = [(s.time, alert) for s in [*states, runner.end()] for alert in s.alerts]
    found = [(time, one.reason.partition(";")[0][6:]) for time, one in alerts if one.kind == "rule"]
    assert [text for _, text in found] == [rules[1], rules[3], rules[0], rules[4]]
    assert [time < 20 for time, _ in found] == [True, True, False, False]
    assert 40 < found[2][0] < 60
    assert found[3][0] == states[-1].time
    runner.reset()
    assert runner.parts == []


@pytest.mark.parametrize("rounds", [2, 8])
def test_it_counts_rounds_and_says_when_they_end(rounds):
    rng, order = np.random.default_rng(0), [0, *[1, 2] * rounds, 3]
    videos = [film(order, rng) for _ in range(12)]
    expectations = learn_expectations(videos, 1.0, [shares(labels) for labels in videos])
    runner = new_guide(expectations)
    labels = film(order, rng)
    states = walk(runner, shares(labels))
    assert runner.counts.tolist() == [1, rounds, rounds, 1]
    ends = [at for at in np.flatnonzero(np.diff(labels)) if labels[at] == 2]
    assert [states[at].next[0][0] for at in ends] == [1] * (rounds - 1) + [3]
    assert all(state.alerts == () for state in states)


def test_the_past_alone_decides_and_an_array_may_be_used_again(tiny_task):
    rng = np.random.default_rng(0)
    beginning = shares(film([0, 2], rng))
    one = np.concatenate([beginning, shares(film([1, 3], rng))])
    other = np.concatenate([beginning, rng.dirichlet(np.ones(4), size=60)])
    common = len(beginning)
    assert walk(guide(tiny_task), one)[:common] == walk(guide(tiny_task), other)[:common]
    assert walk(guide(tiny_task), one)[:common] == walk(guide(tiny_task), beginning)
    videos = made_up_videos()
    procedure = sc.learn(videos[:-1], 3, restarts=2)
    rows, again = videos[-1], np.empty(8)
    follower, states = procedure.guide(), []
    for time, row in enumerate(rows):
        again[:] = row
        states.append(follower.push(time, again))
    assert states == walk(procedure.guide(), rows)


def test_memory_does_not_grow(tiny_task):
    runner, rng = guide(tiny_task), np.random.default_rng(0)
    rows = rng.dirichlet(0.3 * np.ones(4), size=150)
    sizes = []
    tracemalloc.start()
    for turn in range(4):
        for number, row in enumerate(rows):
            runner.push(turn * 150.0 + number, row)
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert sizes[-1] - sizes[1] < 20_000  # bytes, over three hundred frames
    assert len(runner.done) <= 4
    runner = guide(tiny_task)
    walk(runner, shares(np.repeat([0, 1], 20)))
    runner.counts *= 1_000_000
    tracemalloc.start()
    state = runner.push(40.0, shares(np.array([1]))[0])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert state.next[0][0] == 2
    assert most < 100_000


def test_idle_time_is_of_no_step_and_a_slow_source_keeps_the_state(tiny_task):
    runner = guide(tiny_task)
    idle = np.tile([0.22, 0.26, 0.28, 0.24], (40, 1))  # all steps share what background has
    states = walk(runner, idle)
    assert runner.done == []
    assert not any(state.alerts for state in states)
    assert {(state.step, state.name) for state in states} == {(-1, "background")}
    assert runner.push(40.0, shares(np.array([0]))[0]).step == 0
    runner = guide(tiny_task)
    walk(runner, shares(np.repeat([0], [20])))
    state = runner.push(500.0, shares(np.array([1]))[0], skipped=3)
    assert (state.done, state.skipped, state.step) == ((0,), 3, 1)


def test_it_says_once_what_is_out_of_order_again_or_too_long(tiny_task):
    labels = np.repeat([1, 0, 2, 0, 3], [20, 20, 20, 20, 200])
    alerts = alerts_at(guide(tiny_task), shares(labels))
    kinds = [alert.kind for _, alert in alerts]
    assert sorted(set(kinds)) == ["extra", "misordered", "missed", "unusual"]
    assert len(kinds) == len({(alert.kind, alert.step) for _, alert in alerts})
    said = {alert.kind: (time, alert) for time, alert in alerts}
    # The words are those of a check.
    assert said["missed"][1].reason == (
        "open jar was not seen (probability 0 %); 24 of 24 videos do it, before spread jam"
    )
    assert said["missed"][0] < 15
    assert said["misordered"][1].reason.startswith("spread jam was done before open jar")
    assert said["extra"][1].reason == "open jar was done 2 times; 24 of 24 videos do it less often"
    assert 60 <= said["extra"][0] < 80
    assert " s, unusually long; 2" in said["unusual"][1].reason


def test_critical_steps_are_always_said_and_optional_ones_still_wait(tiny_task):
    rng = np.random.default_rng(0)
    # Too few to call anything rare.
    few = learn_expectations([film([0, 1, 2, 3], rng) for _ in range(5)], 1.0)
    rows = shares(np.repeat([0, 2, 3], 20))
    for critical, said in ((frozenset[int](), []), (frozenset({1}), [1])):
        alerts = alerts_of(new_guide(few, severity=Severity(critical=critical)), rows)
        assert [alert.step for alert in alerts if alert.kind == "missed"] == said
        assert all("and is critical" in alert.reason for alert in alerts)
    # It may be left out; where it is done, its place in the order is the usual one, as for a check.
    for severity, said in (
        (Severity(optional=frozenset({1})), [1]),
        (Severity(free=frozenset({1})), []),
    ):
        runner = new_guide(tiny_task.expectations, severity=severity)
        alerts = alerts_of(runner, shares(np.repeat([1, 0, 2, 3], 20)))
        assert [alert.step for alert in alerts if alert.kind == "misordered"] == said


def test_the_end_names_what_every_video_does_and_what_is_critical(tiny_task):
    whole = guide(tiny_task)
    walk(whole, shares(film([0, 2, 1, 3], np.random.default_rng(3))))
    assert whole.end().alerts == ()
    rows = shares(np.repeat([0, 1], 20))
    short = guide(tiny_task)
    walk(short, rows)
    told = [(alert.kind, alert.step) for alert in short.end().alerts]
    assert told == [("missed", 2), ("missed", 3)]
    assert short.end().alerts == ()  # once
    loose = replace(tiny_task.expectations, invariant=())
    for severity, steps in ((Severity(), []), (Severity(critical=frozenset({3})), [3])):
        runner = new_guide(loose, severity=severity)
        walk(runner, rows)
        alerts = runner.end().alerts
        assert [alert.step for alert in alerts] == steps
        assert all("serve was not seen" in alert.reason for alert in alerts)
        assert all("and is critical" in alert.reason for alert in alerts)


def test_a_person_may_correct_the_guide_or_say_that_a_step_is_done(tiny_task):
    runner = guide(tiny_task)
    rows = shares(np.repeat([0, 2, 3], 20))
    for number in range(3):
        runner.push(float(number), rows[number])
    runner.finish()
    assert runner.push(3.0, rows[3]).done == (0,)
    runner.finish()
    assert runner.counts.tolist() == [1, 0, 0, 0]
    for number in range(4, 25):
        runner.push(float(number), rows[number])
    runner.correct("Spread jam")
    states = [runner.push(float(number), rows[number]) for number in range(25, 60)]
    assert {state.step for state in states[:15]} == {1}  # the method goes on seeing step 2
    assert states[-1].step == 3  # another step is seen again
    with pytest.raises(OptionError, match="step='stir'"):
        runner.correct("stir")
    runner.reset()
    runner.correct(1)  # before anything is seen
    states = walk(runner, rows)
    assert {state.step for state in states[:15]} == {1}
    assert states[-1].step == 3


def test_another_task_is_told_once_when_as_much_was_seen_as_a_usual_video_shows(tiny_task):
    task, length = TaskModel(np.eye(4), 0.3), math.exp(tiny_task.expectations.usual.length.middle)
    normal = shares(np.resize(np.repeat([0, 1, 2, 3], 20), 400))

    def read_nothing(rows):
        return Reading(np.full(len(rows), -1), rows, np.zeros(len(rows)), rows)

    for rows, said in ((normal, []), (np.full((400, 4), 0.25), ["unknown"])):
        runner = new_guide(tiny_task.expectations, read=read_nothing, task=task)
        told = [(time, one) for time, one in alerts_at(runner, rows) if one.kind == "unknown"]
        assert [alert.kind for _, alert in told] == said
        assert all(length - 2 <= time <= length for time, _ in told)


def test_wrong_input_is_refused_in_words(tiny_task):
    runner = guide(tiny_task)
    runner.push(1.0, np.ones(4) / 4)
    with raises(OptionError, "time=1.0"):
        runner.push(1.0, np.ones(4) / 4)
    for endless in (math.nan, math.inf, 10**400):
        with raises(OptionError, setting="time"):
            runner.push(endless, np.ones(4) / 4)
    with raises(FeatureError, "2 s"):
        runner.push(2.0, np.full(4, np.nan))


def test_the_terminal_view_shows_now_next_done_and_alerts_and_never_wraps(tiny_task, monkeypatch):
    screen = Screen("camera")
    drawn = [screen.draw(s) for s in walk(guide(tiny_task), shares(np.repeat([1, 0], 20)))]
    assert drawn[0].startswith("\x1b[?25l\x1b[2J\x1b[H")
    assert drawn[-1].startswith("\x1b[H")
    for words in ("! 00:00:0", "open jar was not seen", "done  spread jam, open jar"):
        assert words in drawn[-1]
    assert "skipped" not in drawn[-1]
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "8")
    screen = Screen("rtsp://10.0.0.5/a/rather/long/address/of/a/camera")
    states = walk(guide(tiny_task), shares(np.repeat([1, 0, 2, 3], 20)))
    for state in states:
        lines = screen.draw(state).split("\x1b[K\n")[:-1]
        assert len(lines) <= 7
        assert all(len(line.split("\x1b[H")[-1]) <= 40 for line in lines)
    assert "  next  all steps are done" in screen.lines(replace(states[-1], next=()))
    assert "1 sample skipped" in "".join(screen.lines(replace(states[-1], skipped=1)))


def test_it_says_how_many_false_alarms_to_expect_and_what_so_few_videos_give_none_about(tiny_task):
    runner = guide(tiny_task)
    expected = f"Expect about {runner.expected_alarms:.2g} false alarms per normal video."
    assert runner.note == expected
    assert 0.05 < runner.expected_alarms < 0.15
    usual = runner.expectations.usual
    few = replace(usual, never={"missed": 0.02, "fewer": 1.0, "extra": 0.001})
    runner.expectations = replace(runner.expectations, usual=few)
    assert "24 videos are too few for an alarm about a missing step" in runner.note
    assert "repeated" not in runner.note
    alone = learn_expectations([tiny_task.labels["video0"]], 1.0)
    assert "1 video is too few" in new_guide(alone).note
    late = alerts_of(runner, shares(np.repeat([1, 0, 2], 20)))
    assert "missed" not in {alert.kind for alert in late}


@pytest.mark.slow
def test_a_hundred_videos_are_followed_as_they_are_segmented():
    videos, same = toy_features(videos=100, seed=1, dim=16)[0], []
    procedure = sc.learn(videos[:12], steps=6, restarts=2)
    for rows in videos:
        steps = [state.step for state in walk(procedure.guide(), rows)]
        whole = procedure.segment(rows).labels(np.arange(len(rows)) + 0.5)
        same.append(np.mean(steps == whole))
    assert np.mean(same) > 0.7  # a rule that called softened probabilities background: 0.3
