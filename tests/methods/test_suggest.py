"""Suggestions of videos to label next, and the arithmetic of wide rows."""

import numpy as np
import pytest

from stepcut.methods import arithmetic
from stepcut.methods.arithmetic import strongest_directions
from stepcut.methods.similar import MEDIAN, distances, suggest


def test_typical_videos_come_first_and_what_happens_at_another_time_is_not_alike():
    views = [np.full((4, 1), place, dtype=np.float32) for place in (0.0, 0.1, 0.2, 9.0)]
    (first, why), (second, then), *others = suggest(views, [], 9)
    assert sorted([first, second, *(place for place, _ in others)]) == [0, 1, 2, 3]
    assert suggest(views, [], 0) == []
    assert sorted(place for place, _ in suggest(views, [2], 9)) == [0, 1, 3]
    assert first < 3
    assert second == 3
    assert "typical" in why
    assert "moments" in then
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


def test_iteration_finds_the_eigenvectors_of_the_scatter_matrix_also_of_few_rows(monkeypatch):
    rng = np.random.default_rng(3)
    spreads = 0.9 ** np.arange(200)
    videos = [rng.normal(size=(rows, 200)) * spreads for rows in (300, 180)]
    exact, variances = strongest_directions(videos, 20)
    monkeypatch.setattr(arithmetic, "EXACT", 100)
    found, strength = strongest_directions(videos, 20)
    assert np.abs((exact * found).sum(axis=0)).min() > 0.999
    assert (exact * found).sum(axis=0).min() > 0  # of the same sign
    np.testing.assert_allclose(strength, variances, rtol=1e-3)
    np.testing.assert_allclose(found.T @ found, np.eye(20), atol=1e-9)
    monkeypatch.setattr(arithmetic, "EXACT", 10)
    rows = np.random.default_rng(0).normal(size=(3, 40))
    axes, strength = strongest_directions([rows - rows.mean(axis=0)], 12)
    assert axes.shape == (40, 12)
    assert (strength[:2] > 0.1).all()
    assert np.abs(strength[2:]).max() < 1e-9
    assert np.isfinite(axes).all()
