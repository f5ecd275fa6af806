"""Suggestions: which videos to label next, with the reason."""

from __future__ import annotations

import numpy as np
import pytest

from stepcut.datasets.toy import toy_features
from stepcut.methods import StepCut
from stepcut.methods.default.suggest import bias, step_means, suggest


@pytest.fixture(scope="module")
def learned() -> tuple[StepCut, list[np.ndarray]]:
    rows, _ = toy_features(videos=6, rate=2.0, seed=3)
    return StepCut(steps=6, rate=2.0, restarts=3).fit(rows), rows


def test_videos_are_named_once_and_never_a_labelled_one(learned) -> None:
    method, rows = learned
    told = suggest(method, rows, [2], 9)
    assert sorted(place for place, _ in told) == [0, 1, 3, 4, 5]
    assert all("segments" in reason for _, reason in told)


def test_the_first_ones_do_not_depend_on_how_many_are_asked_for(learned) -> None:
    method, rows = learned
    assert suggest(method, rows, [], 2) == suggest(method, rows, [], 4)[:2]
    assert suggest(method, rows, [], 0) == []


def test_a_typical_video_stands_for_all_better_than_an_odd_one() -> None:
    views = [np.full((4, 1), place, dtype=np.float32) for place in (0.0, 0.1, 0.2, 9.0)]
    means, seen = step_means(views, [np.zeros(4, dtype=np.int64)] * 4, 1)
    assert bias(means, seen, [1]) < bias(means, seen, [3])
    assert bias(means, seen, [0, 3]) < bias(means, seen, [0, 1])


def test_a_step_that_is_not_shown_counts_as_the_farthest() -> None:
    views = [np.array(rows, dtype=np.float32)[:, None] for rows in ([0, 1], [0, 0], [6, 6])]
    means, seen = step_means(views, [np.array([0, 1]), np.array([0, 0]), np.array([0, 0])], 2)
    assert bias(means, seen, [0]) == pytest.approx((4 + 0) / 2)
    assert bias(means, seen, [1]) == pytest.approx((4 + 16) / 2)
