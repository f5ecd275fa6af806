"""Suggestions: which videos to label next, with the reason."""

import numpy as np
import pytest

from stepcut.methods.similar import MEDIAN, distances, suggest


def test_the_typical_video_comes_first_then_the_one_of_another_kind():
    views = [np.full((4, 1), place, dtype=np.float32) for place in (0.0, 0.1, 0.2, 9.0)]
    (first, why), (second, then), *others = suggest(views, [], 9)
    assert sorted([first, second, *(place for place, _ in others)]) == [0, 1, 2, 3]
    assert suggest(views, [], 0) == []
    assert sorted(place for place, _ in suggest(views, [2], 9)) == [0, 1, 3]
    assert first < 3
    assert second == 3
    assert "typical" in why
    assert "moments" in then


def test_what_happens_at_another_time_is_not_alike():
    early, late = np.zeros((30, 2), dtype=np.float32), np.zeros((30, 2), dtype=np.float32)
    early[:10], late[20:] = 1, 1
    apart = distances([early, early, late])
    assert apart[0, 1] == pytest.approx(0, abs=1e-9)
    assert apart[0, 2] > 0.1


def test_distances_are_those_of_a_plain_loop():
    random = np.random.default_rng(0)
    views = [random.normal(size=(length, 3)).astype(np.float32) for length in (60, 90, 7)]
    times = (np.arange(60) + 0.5) / 60
    moments = [[view[int(time * len(view))].astype(float) for time in times] for view in views]
    every = [row for rows in moments for row in rows]
    usual = np.median([np.sum((x - y) ** 2) for x in every for y in every])
    for i, j in ((0, 1), (1, 0), (2, 0)):
        nearest = [
            min(
                np.sum((x - y) ** 2) / usual + (t - u) ** 2 / MEDIAN
                for y, u in zip(moments[j], times, strict=True)
            )
            for x, t in zip(moments[i], times, strict=True)
        ]
        assert distances(views)[i, j] == pytest.approx(np.mean(nearest))
