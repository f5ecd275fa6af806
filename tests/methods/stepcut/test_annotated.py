"""The default method learns from what people know: labels, partial labels, clicks, transcripts, recipes."""

import itertools

import numpy as np
import pytest

from stepcut.errors import OptionError
from stepcut.methods import BACKGROUND, OPEN, StepCut
from stepcut.methods.constraints import Constraint, Transcript, as_constraints
from stepcut.toy import STEPS, toy_features

RATE = 2.0


@pytest.fixture(scope="module")
def kitchen():
    return make_kitchen()


def make_kitchen(**plan):
    rows, timelines = toy_features(videos=6, rate=RATE, seed=3, **plan)
    pairs = zip(timelines, rows, strict=True)
    return rows, [one.labels(np.arange(len(video)) / RATE) for one, video in pairs]


def some(true, count):
    return [labels if number < count else None for number, labels in enumerate(true)]


@pytest.fixture(scope="module")
def taught(kitchen):
    return StepCut(steps=len(STEPS), rate=RATE, restarts=9).fit(
        kitchen[0], constraints=as_constraints(some(kitchen[1], 2))
    )


def test_labels_stay_name_the_steps_of_the_others_and_are_stored(kitchen, taught):
    for found, true in zip(taught.labels_[:2], kitchen[1][:2], strict=True):
        np.testing.assert_array_equal(found, true)
    found, true = np.concatenate(taught.labels_[2:]), np.concatenate(kitchen[1][2:])
    busy = true >= 0
    assert (found == true)[busy].mean() > 0.7
    again = StepCut.restore(taught.settings(), taught.state())
    for video in kitchen[0]:
        for first, second in zip(taught.read(video), again.read(video), strict=True):
            np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(
        again.online().push(kitchen[0][0][0]), taught.online().push(kitchen[0][0][0])
    )


def test_labels_set_the_number_of_steps(kitchen):
    labels = np.full(len(kitchen[0][0]), OPEN)
    labels[:20] = 4
    learned = StepCut(steps=3, rate=RATE, restarts=3).fit(
        kitchen[0], constraints=as_constraints([labels, None, None, None, None, None])
    )
    assert learned.steps_ == 5
    assert (learned.labels_[0][:20] == 4).all()
    assert StepCut(rate=RATE, restarts=4).fit(
        kitchen[0], constraints=as_constraints(some(kitchen[1], 1))
    ).steps_ == len(STEPS)


def test_labelled_videos_are_seen_less_surely_when_they_are_left_out():
    rows, true = make_kitchen(noise=3.0)
    method = StepCut(steps=len(STEPS), rate=RATE, restarts=4).fit(
        rows, constraints=as_constraints(some(true, 3))
    )
    assert [len(cut) for cut in method.left_out_.labels] == [len(video) for video in rows]
    sure = []
    inside = [method.read(video).probabilities for video in rows]
    for seen in (method.left_out_.probabilities, inside):
        np.testing.assert_allclose(np.concatenate(seen).sum(axis=1), 1)
        whole, known = np.concatenate(seen[:3]), np.concatenate(true[:3])
        sure.append(whole[known >= 0][np.arange((known >= 0).sum()), known[known >= 0]].mean())
    assert sure[0] < sure[1] - 0.05  # 0.78 and 0.88


def test_background_as_called_and_steps_of_other_motion_are_taught(kitchen):
    rows, true = kitchen
    without = [np.where(labels == 2, BACKGROUND, labels) for labels in true]
    learned = StepCut(steps=len(STEPS), rate=RATE, restarts=4).fit(
        rows, constraints=as_constraints(some(without, 4))
    )
    there = true[5] == 2
    assert (learned.labels_[5][there] == BACKGROUND).mean() > 0.5
    """Pictures that go 0 to 1 and back to 0: the same pictures in both steps, in opposite order."""
    rng = np.random.default_rng(0)
    swing = np.concatenate([np.linspace(0, 1, 12), np.linspace(1, 0, 12)])
    rows = np.tile(swing, 5)[:, None] + 0.02 * rng.normal(size=(4, 120, 4))
    true = np.tile(np.repeat([0, 1], 12), 5)
    method = StepCut(steps=2, rate=4.0, restarts=3, background=0.0)
    found = method.fit(rows, constraints=as_constraints([true, true, true, None])).labels_[3]
    assert (found == true).mean() > 0.9


def occurrences(labels):
    edges = [0, *(np.flatnonzero(np.diff(labels)) + 1), len(labels)]
    middles = [(a + b) // 2 for a, b in itertools.pairwise(edges)]
    return [(row, int(labels[row])) for row in middles if labels[row] >= 0]


def right(method, true, first):
    found, steps = np.concatenate(method.labels_[first:]), np.concatenate(true[first:])
    return float((found == steps)[steps >= 0].mean())


def fit_toys(kitchen, constraints):
    method = StepCut(steps=len(STEPS), rate=RATE, restarts=3)
    return method.fit(kitchen[0], constraints=constraints)


def test_clicks_hold_and_name_the_steps_of_the_other_videos(kitchen):
    clicks = [Constraint(clicks=tuple(occurrences(one))) for one in kitchen[1][:2]]
    method = fit_toys(kitchen, [*clicks, *[None] * 4])
    for labels, one in zip(method.labels_[:2], clicks, strict=True):
        assert [labels[row] for row, _ in one.clicks] == [step for _, step in one.clicks]
        steps = labels[labels >= 0]
        order = [int(step) for step in steps[np.append(True, np.diff(steps) != 0)]]
        merged = [step for _, step in one.clicks]
        assert order == [s for n, s in enumerate(merged) if n == 0 or merged[n - 1] != s]
    assert right(method, kitchen[1], 2) > 0.7


def test_a_few_clicks_or_rows_say_no_more_than_they_are(kitchen):
    [first, *_] = occurrences(kitchen[1][0])
    whole = fit_toys(kitchen, [Constraint(clicks=(first,)), *[None] * 5])
    part = fit_toys(kitchen, [Constraint(clicks=(first,), complete=False), *[None] * 5])
    assert set(whole.labels_[0]) <= {first[1], BACKGROUND}
    assert len(set(part.labels_[0])) > 3
    assert part.labels_[0][first[0]] == first[1]
    # One second of one step is little evidence; it is used, and the other steps stay where they were.
    labels = np.full(len(kitchen[0][0]), OPEN)
    there = np.flatnonzero(kitchen[1][0] == 3)[:2]
    labels[there] = 3
    method = fit_toys(kitchen, as_constraints([labels, *[None] * 5]))
    assert (method.labels_[0][there] == 3).all()
    assert len(set(np.concatenate(method.labels_)) - {BACKGROUND}) == len(STEPS)


def test_transcripts_without_times_name_the_steps(kitchen):
    scripts = [Transcript(tuple(step for _, step in occurrences(one))) for one in kitchen[1]]
    method = fit_toys(kitchen, [Constraint(transcript=one) for one in scripts])
    for labels, one in zip(method.labels_, scripts, strict=True):
        steps = labels[labels >= 0]
        done = [int(step) for step in steps[np.append(True, np.diff(steps) != 0)]]
        assert set(done) == set(one.steps)
    assert right(method, kitchen[1], 0) > 0.7


@pytest.mark.parametrize("wrong", [
    [None, None],
    [Constraint(labels=np.zeros(3, dtype=np.int64))],
    [Constraint(labels=np.zeros(9, dtype=np.float64))],
    [Constraint(labels=np.full(9, -3))],
    [Constraint(clicks=((5, 0), (3, 1)))],
    [Constraint(clicks=((3, 0), (3, 1)))],
    [Constraint(clicks=((10, 0),))],
    [Constraint(transcript=Transcript((0, 1) * 5))],
])  # fmt: skip
def test_annotations_that_make_no_sense_are_refused(wrong):
    with pytest.raises(OptionError):
        StepCut(steps=2).fit([np.eye(9)], constraints=wrong)
