"""The default method keeps its contract and finds the steps of toy kitchens, and of real recordings."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from stepcut.errors import FeatureError, OptionError
from stepcut.evaluation import score
from stepcut.methods import METHODS, StepCut
from stepcut.paper.datasets import load
from stepcut.toy import toy_features

RATE = 2.0


def kitchen(seed=3, **plan):
    rows, timelines = toy_features(videos=8, rate=RATE, seed=seed, **plan)
    pairs = zip(timelines, rows, strict=True)
    return rows, [one.labels(np.arange(len(video)) / RATE) + 1 for one, video in pairs]


def strict_f1(method, true):
    return score(method.labels_, true, protocol="strict").f1


@pytest.fixture(scope="module")
def plain():
    return kitchen()


@pytest.fixture(scope="module")
def learned(plain):
    return StepCut(steps=6, rate=RATE, restarts=9).fit(plain[0])


def test_the_steps_of_a_toy_kitchen_are_found_whatever_the_order_of_videos(plain, learned):
    assert strict_f1(learned, plain[1]) > 78
    again = StepCut(steps=6, rate=RATE, restarts=9).fit(plain[0][::-1])
    assert all((a == b).all() for a, b in zip(again.labels_[::-1], learned.labels_, strict=True))
    times = np.concatenate([(np.arange(len(one)) + 0.5) / len(one) for one in learned.discovered_])
    steps = np.concatenate(learned.discovered_)
    means = [times[steps == step].mean() for step in range(6)]
    assert all(a < b + 0.05 for a, b in pairwise(means))


def test_videos_learned_from_look_as_strange_as_new_ones_when_seen_as_if_new():
    features = list(toy_features(videos=24, seed=101, duration=120)[0])
    method = StepCut(steps=6, restarts=12).fit(features[:8])
    odd = [method.read(video).novelty for video in features]
    new, again = np.concatenate(odd[8:]), np.concatenate(odd[:8])
    as_new = np.concatenate(method.left_out_.novelty)
    assert [len(one) for one in method.left_out_.novelty] == [len(one) for one in features[:8]]
    for share in (0.5, 0.99):
        assert np.quantile(as_new, share) == pytest.approx(np.quantile(new, share), rel=0.1)
    assert np.median(again) < 0.9 * np.median(new)


def test_online_depends_on_the_past_alone_and_follows_well(plain, learned):
    video = plain[0][0]
    whole, part = learned.online(), learned.online()
    first = [whole.push(row) for row in video][:40]
    other = [part.push(row) for row in [*video[:40], *(100 + video[40:])]][:40]
    assert np.array_equal(first, other)
    assert np.allclose(np.sum(first, axis=1), 1)
    online = []
    for video in plain[0]:
        follower = learned.online()
        online.append(np.array([follower.push(row).argmax() for row in video]))
    assert score(online, plain[1]).f1 > 45


def make_rounds(rounds, noise, seed=0, videos=10):
    """Some videos of a start, `rounds` of four short actions and an end; four seconds each, two rows a second."""
    rng = np.random.default_rng(seed)
    looks, rows, true = rng.normal(size=(6, 48)), [], []
    for _ in range(videos):
        walk = [0, *[1, 2, 3, 4] * rounds, 5]
        labels = np.repeat(walk, rng.integers(6, 11, size=len(walk)))
        video = looks[labels] + rng.normal(size=48) + noise * rng.normal(size=(len(labels), 48))
        rows.append(video.astype(np.float32))
        true.append(labels + 1)
    return rows, true


def test_short_actions_come_to_light_in_few_videos():
    rows, true = make_rounds(rounds=6, noise=2.0, videos=5)
    method = StepCut(steps=6, rate=2.0, restarts=6).fit(rows)
    assert strict_f1(method, true) > 85
    assert method.width_ / method.rate < 4 / 2
    found, true_steps = np.concatenate(method.labels_), np.concatenate(true) - 1
    each = [found[(true_steps == step) & (found >= 0)] for step in range(6)]
    most = [np.bincount(one, minlength=6).argmax() for one in each]
    assert most == list(range(6))  # numbered as they come in a round


def repeated(labels):
    bounds = [0, *(np.flatnonzero(np.diff(labels)) + 1), len(labels)]
    seen, out = set(), []
    for first, last in pairwise(bounds):
        if labels[first] and labels[first] in seen:
            out.append((int(first), int(last)))
        seen.add(labels[first])
    return out


def test_the_number_of_steps_is_chosen_or_bounded_and_explained(plain):
    method = StepCut(rate=RATE, restarts=6).fit(plain[0])
    assert 4.2 <= method.steps_ <= 7.8
    assert str(method.steps_) in method.why_steps_
    back = StepCut.restore(method.settings(), method.state())
    assert back.why_steps_ == method.why_steps_
    rows = plain[0][:4]
    method = StepCut(steps=(7, 9), rate=RATE, restarts=1).fit(rows)
    assert method.steps_ == 7
    assert "6" in method.why_steps_  # what is usual, whatever was asked for
    for wrong in ((9, 7), (0, 3), (3, 4, 5), "7-9", 2.5):
        with pytest.raises(OptionError, match="a range such as"):
            StepCut(steps=wrong).fit(rows)


def test_odd_videos_and_settings_do_not_break_it():
    rng = np.random.default_rng(0)
    still = np.ones((12, 5), dtype=np.float32)
    short = [rng.normal(size=(length, 5)).astype(np.float32) for length in (1, 2, 7)]
    cut = StepCut(steps=3, restarts=3).fit([still, *short])
    assert [len(labels) for labels in cut.labels_] == [12, 1, 2, 7]
    maps = [rng.normal(size=(20, 4, 2, 2)).astype(np.float32) for _ in range(2)]
    assert len(StepCut(steps=2, restarts=3).fit(maps).labels_[0]) == 20
    rows, _ = toy_features(videos=4, seed=1)
    for given in ({"seed": 20_261_117, "seconds": 1e-300}, {"seed": 2**32 - 1}):
        method = StepCut(steps=3, restarts=3, **given).fit(rows)
        assert method.steps_ == 3


@pytest.mark.parametrize("prior", [0.0, 1.0])
def test_repeated_and_reordered_steps_are_found_with_and_without_time(prior):
    rows, true = kitchen(repeat=0.5, shuffle=1.0)
    method = StepCut(steps=6, rate=RATE, restarts=9, prior=prior).fit(rows)
    assert strict_f1(method, true) > 65
    found = score(method.labels_, true, protocol="strict").matching
    # A step done twice in a video is the same step both times.
    both = [
        (found.get(int(np.bincount(cut[a:b][cut[a:b] >= 0], minlength=6).argmax())), labels[a])
        for cut, labels in zip(method.labels_, true, strict=True)
        for a, b in repeated(labels)
    ]
    assert len(both) >= 4
    assert np.mean([guess == step for guess, step in both]) > 0.6


def test_videos_left_out_together_are_never_seen_by_a_model_learned_from_them():
    rows, _ = toy_features(videos=22, rate=RATE, seed=3)
    method = StepCut(steps=4, rate=RATE, restarts=1).fit([video[::4] for video in rows])
    some = method.left_out_.of(range(1, 22))
    assert len(set(method.left_out_.groups)) == 20
    for at in (0, 19, 20):
        np.testing.assert_array_equal(some.embed(some.groups[at], at, None), some.looks[at][0])


@pytest.mark.slow
def test_the_share_of_background_is_a_setting():
    gains = []
    for seed in range(3, 7):
        rows, true = kitchen(seed, background=0.5)
        none = StepCut(steps=6, rate=RATE, restarts=9, background=0.0).fit(rows)
        half = StepCut(steps=6, rate=RATE, restarts=9, background=0.5).fit(rows)
        assert (np.concatenate(none.labels_) >= 0).all()
        gains.append(strict_f1(half, true) - strict_f1(none, true))
    assert np.mean(gains) > 5


@pytest.mark.parametrize(("steps", "found"), [("auto", 3), ((5, 14), 6)])
def test_fewer_rows_than_steps_are_usual(steps, found):
    videos = [np.random.default_rng(seed).normal(size=(3, 8)).astype(np.float32) for seed in (0, 1)]
    assert StepCut(steps=steps, rate=0.001, restarts=3).fit(videos).steps_ <= found


def test_the_rate_changes_no_step_and_many_videos_join_later(plain, learned, monkeypatch):
    times = 3
    rows = [np.repeat(video, times, axis=0) for video in plain[0]]
    often = StepCut(steps=6, rate=times * RATE, restarts=9).fit(rows)
    pairs = zip(learned.labels_, often.labels_, strict=True)
    same = [adjusted_rand_score(a, b[times // 2 :: times]) for a, b in pairs]
    assert np.mean(same) > 0.85  # another seed agrees by 0.81 to 1
    rows, _timelines = toy_features(videos=12, rate=1.0, seed=3)
    every = StepCut(steps=6, restarts=6).fit(rows)
    monkeypatch.setattr("stepcut.methods.stepcut.learning.MANY", 8)
    some = StepCut(steps=6, restarts=6).fit(rows)
    assert adjusted_rand_score(np.concatenate(every.labels_), np.concatenate(some.labels_)) > 0.7


@pytest.mark.parametrize(("given", "videos", "error", "words"), [
    ({"seconds": 1000}, [np.eye(30)] * 2, OptionError, "seconds=1000"),
    ({"steps": 9}, [np.zeros((3, 2))], OptionError, "steps=9 is more than the 3 rows"),
    ({"steps": 1}, 5, FeatureError, "videos is 5"),
    ({"steps": 1}, "ab", FeatureError, "video 0"),
    ({"steps": 1}, [[1, 2], [3]], FeatureError, "video 0"),
])  # fmt: skip
def test_what_cannot_be_learned_from_is_refused(given, videos, error, words):
    with pytest.raises(error, match=words):
        StepCut(**{"steps": 2, **given}).fit(videos)


def recipe(root, name, backbone):
    task = next(task for task in load("captaincook4d", root / "captaincook4d") if task.name == name)
    rows, true = [], []
    for video in task.with_features(backbone):
        if video.timeline is not None:
            rows.append(video.read_features(backbone))
            labels = np.zeros(len(rows[-1]), dtype=np.int64)
            for s in video.timeline:
                labels[round(s.start) : round(s.end)] = task.steps.index(s.step) + 1
            true.append(labels)
    return rows, true, len(set(np.concatenate(true)) - {0})


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "backbone", "least"),
    [("Microwave Egg Sandwich", "pe_core_b16", 55), ("Spiced Hot Chocolate", "omnivore", 57)],
)
def test_far_above_the_clock(shared_data, name, backbone, least):
    rows, true, steps = recipe(shared_data, name, backbone)
    uniform = score(METHODS["uniform"](steps=steps).fit(rows).labels_, true).f1
    found = score(StepCut(steps=steps).fit(rows).labels_, true).f1
    assert found > least
    assert found > uniform + 10


@pytest.mark.data
def test_the_number_of_steps_by_itself(shared_data):
    rows, _, steps = recipe(shared_data, "Tomato Mozzarella Salad", "pe_core_b16")
    assert abs(StepCut().fit(rows).steps_ - steps) <= 0.3 * steps
