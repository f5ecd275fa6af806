"""Large sets: some videos stand for all in what would otherwise take too long."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import stepcut
from stepcut.methods import StepCut
from stepcut.toy import toy_features

VIDEOS = 12
SAMPLED = ("stepcut.methods.stepcut.learning", "stepcut.checking.calibrate")


def learn(monkeypatch, many):
    """Learn from twelve videos as if so `many` were many; also the number of videos of each fit."""
    rows, _ = toy_features(videos=VIDEOS, rate=1.0, duration=60, seed=3)
    fitted: list[int] = []
    fit = StepCut.fit

    def counted(self, features, *args, **kwargs):
        fitted.append(len(features))
        return fit(self, features, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(StepCut, "fit", counted)
        for module in SAMPLED:
            patch.setattr(f"{module}.MANY", many)
        return stepcut.learn(rows, steps=6, rate=1, restarts=8), fitted


@pytest.mark.slow
def test_beyond_that_many_videos_some_stand_for_all_and_up_to_it_nothing_changes(monkeypatch):
    whole, all_fitted = learn(monkeypatch, 1000)
    same, fitted = learn(monkeypatch, VIDEOS)
    state, expected = same.method.state(), whole.method.state()
    assert state.keys() == expected.keys()
    for name, values in expected.items():
        assert state[name].dtype == values.dtype
        np.testing.assert_array_equal(state[name], values)
    shown, wanted = same.expectations.to_json(), whole.expectations.to_json()
    for sampled in ("task", "altered"):  # with fewer videos, more copies of each
        del shown[sampled], wanted[sampled]
    assert shown == wanted
    assert fitted == [VIDEOS]
    some, fitted = learn(monkeypatch, 8)
    assert all_fitted == fitted == [VIDEOS]  # no refits
    altered = {one.of for copies in some.expectations.altered.values() for one in copies}
    assert len(altered) == 8
    assert {len(values) for values in some.expectations.amounts.values()} == {VIDEOS}
    labels, expected = ([one.labels[name] for name in one.samples] for one in (some, whole))
    assert adjusted_rand_score(np.concatenate(expected), np.concatenate(labels)) > 0.7
