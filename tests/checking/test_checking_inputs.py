"""Inputs: a frozen or black picture, a moved camera and damaged frames are found at their time."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from stepcut.checking.gate import learn_inputs, look
from stepcut.features.features import Features
from stepcut.features.spec import FeatureSpec
from stepcut.procedure.learning import learn, load
from stepcut.toy import toy_features

RNG = np.random.default_rng(0)
SPEC = FeatureSpec("efficientnet-lite0")


def film(rows, name="new", corrupt=0):
    end = len(rows) / 2
    return Features(rows, Fraction(2), end, name, f"{name}.mp4", corrupt, SPEC)


@pytest.fixture(scope="module")
def normal():
    return toy_features(videos=18, rate=2, dim=96, offset=0.3)[0]


@pytest.fixture(scope="module")
def inputs(normal):
    made = learn_inputs([film(rows) for rows in normal[:12]])
    assert made is not None
    return made


def frozen(rows):
    return np.concatenate([rows[:40], np.repeat(rows[40:41], 20, axis=0), rows[60:]])


def black(rows):
    return np.concatenate([rows[:40], 0 * rows[40:]])


def covered(rows):
    noise = 0.2 * np.std(rows, axis=0) * RNG.normal(size=rows.shape)
    return np.concatenate([rows[:40], noise[40:]])


def moved(rows):
    return rows + 0.5 * np.cos(np.arange(rows.shape[1]))


def test_normal_videos_with_a_few_damaged_frames_raise_nothing(inputs, normal):
    assert not any(look(film(rows), inputs).findings for rows in normal[12:])
    assert not look(film(normal[12], corrupt=9), inputs).findings
    [found] = look(film(normal[12], corrupt=900), inputs).findings
    assert found.reason == "900 frames are damaged"


@pytest.mark.parametrize(("alter", "words", "start"), [
    (frozen, "the picture stands still", 20),
    (black, "the picture stands still", 20),
    (covered, "as if the lens were covered", 20),
    (moved, "the scene is unlike that of all reference videos", 0),
])  # fmt: skip
def test_what_the_camera_did_not_see_is_found_at_its_time(alter, words, start, inputs, normal):
    for rows in normal[12:]:
        found = look(film(alter(rows)), inputs).findings
        assert any(words in one.reason and abs(one.start - start) <= 2.5 for one in found)
        assert all(one.kind == "input" and one.end <= len(rows) / 2 for one in found)


def test_pauses_and_one_odd_reference_video_change_nothing(normal):
    inputs = learn_inputs([film(frozen(rows)) for rows in normal[:12]])
    assert not look(film(frozen(normal[12])), inputs).findings
    assert look(film(black(normal[12])), inputs).findings  # much longer
    odd = [film(black(moved(normal[0]))), *(film(rows) for rows in normal[1:12])]
    inputs = learn_inputs(odd)
    assert all(look(film(black(rows)), inputs).findings for rows in normal[12:])


def test_what_it_cannot_see_is_said_and_maps_and_single_rows_are_looked_at(inputs, normal):
    one = film(normal[12])
    assert look(one, inputs).unchecked == ""
    assert "Damaged frames" in look(replace(one, spec=None), inputs).unchecked
    assert learn_inputs([one, one]) is None
    assert look(one, None).findings == []
    assert "learn from three videos" in look(one, None).unchecked
    maps = [np.repeat(rows[:, :, None, None], 2, axis=3) for rows in normal[:12]]
    same = learn_inputs([film(rows) for rows in maps])
    assert same == learn_inputs([film(rows) for rows in normal[:12]])
    assert learn_inputs([film(rows[:1]) for rows in normal[:3]]) is not None
    assert look(film(normal[12][:1]), same).findings is not None


@pytest.fixture(scope="module")
def task(normal):
    _, timelines = toy_features(videos=6, rate=2, dim=96, offset=0.3)
    named, labels = ({str(n): x for n, x in enumerate(each)} for each in (normal[:6], timelines))
    return learn(named, rate=2, labels=labels)


def test_no_such_video_is_fine_in_a_check(task, normal, tmp_path):
    task.save(tmp_path / "p")
    assert load(tmp_path / "p") == task
    assert task.check(normal[12]).to_json()["input"] == []
    begun = np.concatenate([np.zeros((12, 96)), normal[12]])  # six black seconds
    assert min(segment.start for segment in task.segment(begun)) >= 6
    for rows in normal[12:16]:
        for alter in (frozen, black, covered):
            report = task.check(alter(rows), min_detection=0)
            assert report.exit_code in (1, 3, 4)
            assert report.to_json()["input"][0]["kind"] == "input"
            assert not report.to_json()["conclusive"]
            assert report.deviates or ": inconclusive, the picture " in str(report)


def test_the_guide_says_once_that_the_camera_sees_nothing(task, normal):
    for rows, words in ((normal[12], []), (black(normal[12]), ["the picture stands still from"])):
        guide = task.guide()
        states = [guide.push(n / 2, row) for n, row in enumerate(rows)] + [guide.end()]
        alerts = [alert for state in states for alert in state.alerts if alert.kind == "input"]
        assert len(alerts) == len(words)
        assert all(one.reason.startswith(why) for one, why in zip(alerts, words, strict=True))
