"""The script of a toy video: steps, order and durations."""

import itertools

import numpy as np
import pytest
from errors_kit import raises

from stepcut.errors import OptionError
from stepcut.toy import EDGES, STEPS, Flaw, toy_features, write_script
from stepcut.toy.script import BEFORE


def many(count=60, **plan):
    return [write_script(seed, 0, **plan).timeline.sequence() for seed in range(count)]


def test_same_seed_same_script_and_another_seed_another():
    assert write_script(3, 1) == write_script(3, 1)
    pairs = itertools.product(range(4), repeat=2)
    assert len({write_script(*pair).timeline.segments for pair in pairs}) == 16


def test_without_freedom_the_order_is_the_careful_cooks():
    assert all(sequence == list(STEPS) for sequence in many(shuffle=0, skip=0, repeat=0))
    assert all(len(sequence) == 3 for sequence in many(skip=1, repeat=0))  # the shortest


def test_every_allowed_order_and_no_other_occurs():
    orders = itertools.permutations(STEPS)
    allowed = {each for each in orders if all(each.index(a) < each.index(b) for a, b in EDGES)}
    seen = {tuple(sequence) for sequence in many(400, shuffle=1, skip=0, repeat=0)}
    assert seen == allowed
    assert {(a, c) for a, b in EDGES for d, c in EDGES if b == d} <= BEFORE - EDGES  # reduced


def test_shots_fill_the_video_and_lie_on_frames():
    script = write_script(1, 0, duration=30)
    assert script.shots[0].start == 0
    assert all(a.end == b.start for a, b in itertools.pairwise(script.shots))
    assert all(round(shot.end * 15, 6) % 3 == 0 for shot in script.shots)
    assert 0.84 * 30 <= script.duration <= 1.16 * 30
    assert script.timeline.steps == STEPS


@pytest.mark.parametrize("background", [0.0, 0.2, 0.5])
def test_background_has_the_share_asked_for(background):
    timeline = write_script(4, 0, background=background).timeline
    idle = sum(end - start for start, end in timeline.gaps())
    assert idle / timeline.end == pytest.approx(background, abs=0.01)


def test_skips_and_repeats_are_as_frequent_as_asked():
    none, some = many(skip=0, repeat=0), many(200, skip=0.3, repeat=0.4)
    assert all(sorted(sequence) == sorted(STEPS) for sequence in none)
    assert np.mean([len(set(sequence)) for sequence in some]) == pytest.approx(0.7 * 6, abs=0.3)
    assert np.mean([len(sequence) > len(set(sequence)) for sequence in some]) > 0.5
    assert all(a != b for sequence in some for a, b in itertools.pairwise(sequence))


def test_a_missed_step_is_missing_and_described():
    script = write_script(7, 0, flaw="skip:add jam")
    assert sorted(script.timeline.sequence()) == sorted(set(STEPS) - {"add jam"})
    (flaw,) = script.flaws
    assert flaw == Flaw("skip", "add jam", (), "'add jam' is missing")


@pytest.mark.parametrize("step", ["spread butter", "add jam", "stir tea", "wash dish"])
def test_a_swapped_step_comes_before_what_it_needs(step):
    script = write_script(7, 0, flaw=f"swap:{step}")
    sequence = script.timeline.sequence()
    assert sorted(sequence) == sorted(STEPS)
    broken = {(a, b) for a, b in BEFORE if sequence.index(a) > sequence.index(b)}
    assert {b for _, b in broken} == {step}
    (segment,) = [s for s in script.timeline if s.step == step]
    assert script.flaws[0].times == ((segment.start, segment.end),)


@pytest.mark.parametrize("step", STEPS)
def test_a_step_repeated_too_often_breaks_no_order(step):
    script = write_script(7, 0, flaw=f"repeat:{step}")
    sequence = script.timeline.sequence()
    assert sequence.count(step) == 3
    assert len(script.flaws[0].times) == 3
    assert len(sequence) == 8
    assert all(sequence.index(a) < sequence.index(b) for a, b in EDGES)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"seed": -1}, "seed=-1 is not allowed"),
        ({"duration": 2}, "duration=2 is not allowed; give a number of at least 4 and at most"),
        ({"background": 1.0}, "background=1.0 is not allowed; give a number of at least 0 and at"),
        ({"skip": -0.1}, "skip=-0.1 is not allowed"),
        ({"repeat": 2}, "repeat=2 is not allowed"),
        ({"shuffle": float("nan")}, "shuffle=nan is not allowed"),
        ({"flaw": "skop:add jam"}, "flaw='skop' is unknown; did you mean 'skip'?"),
        ({"flaw": "skip:add jm"}, "flaw='skip:add jm': step='add jm' is unknown; did you mean"),
        ({"flaw": "swap:cut bread"}, "Choose from spread butter, add jam, stir tea, wash dish"),
    ],
)
def test_bad_settings_are_answered_with_what_is_allowed(plan, words):
    with raises(OptionError, words):
        write_script(**plan)
    for wrong in ("videos", "dim", "rate"):
        with raises(OptionError, "is not allowed", setting=wrong):
            toy_features(**{wrong: 0})


# ---------------------------------------------------------------------- features without videos


def test_toy_features_follow_the_script_of_the_videos():
    rows, timelines = toy_features(videos=3, seed=2, dim=16, rate=2)
    assert timelines == [write_script(2, video).timeline for video in range(3)]
    for array, timeline in zip(rows, timelines, strict=True):
        assert array.shape == (round(2 * timeline.end), 16)
        assert array.dtype == np.float32
    again, _ = toy_features(videos=3, seed=2, dim=16, rate=2)
    assert all(np.array_equal(a, b) for a, b in zip(rows, again, strict=True))


def test_without_nuisance_a_step_is_the_same_vector_in_all_videos_and_background_is_not():
    rows, timelines = toy_features(videos=3, rate=5, noise=0, offset=0, drift=0)
    pairs = zip(rows, timelines, strict=True)
    labels = [timeline.labels(np.arange(len(array)) / 5) for array, timeline in pairs]
    stacked, step = np.concatenate(rows), np.concatenate(labels)
    for number in range(6):
        assert len(np.unique(stacked[step == number], axis=0)) == 1
    gaps = sum(len(timeline.gaps()) for timeline in timelines)
    assert len(np.unique(stacked, axis=0)) == 6 + gaps
