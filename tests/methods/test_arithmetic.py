"""Principal directions of wide rows: the iteration against exact eigenvectors."""

import numpy as np

from stepcut.methods import arithmetic
from stepcut.methods.arithmetic import strongest_directions


def test_iteration_finds_the_eigenvectors_of_the_scatter_matrix(monkeypatch):
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


def test_wide_rows_that_are_few_have_the_directions_that_they_span(monkeypatch):
    monkeypatch.setattr(arithmetic, "EXACT", 10)
    rows = np.random.default_rng(0).normal(size=(3, 40))
    axes, strength = strongest_directions([rows - rows.mean(axis=0)], 12)
    assert axes.shape == (40, 12)
    assert (strength[:2] > 0.1).all()
    assert np.abs(strength[2:]).max() < 1e-9
    assert np.isfinite(axes).all()
