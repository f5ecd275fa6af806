"""Fuzzy c-means against a textbook version in float64, and at its edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepcut.paper.cnc.procut import fuzzy_c_means, memberships


def textbook(x: Any, centres: Any, m: float, turns: int) -> tuple[Any, Any, float]:
    """The two formulas by turns, word for word; memberships, centres and objective."""
    x, centres = x.astype(np.float64), centres.astype(np.float64)
    for turn in range(turns + 1):
        d = ((x[:, None] - centres) ** 2).sum(axis=2)
        ratio = (d[:, :, None] / d[:, None, :]) ** (1 / (m - 1))  # (T, k, j)
        u = 1 / ratio.sum(axis=2)
        if turn < turns:
            power = u**m
            centres = power.T @ x / power.sum(axis=0)[:, None]
    return u, centres, float((u**m * d).sum())


def blobs(count: int = 200, dim: int = 5, k: int = 3, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(k, dim))[rng.integers(k, size=count)] * 3 + rng.normal(
        size=(count, dim)
    )


@pytest.mark.parametrize("m", [1.3, 1.7, 2.0, 3.0])
def test_turn_by_turn_it_is_the_textbook(m: float) -> None:
    x = blobs()
    for turns in (1, 4, 20):
        u, c = fuzzy_c_means(x, 3, m, start=x[:3], iterations=turns, tolerance=0)
        true_u, true_c, _ = textbook(x, x[:3] + 1e-9, m, turns)
        np.testing.assert_allclose(c, true_c, atol=2e-3)
        np.testing.assert_allclose(u, true_u, atol=2e-3)


def test_left_alone_it_ends_no_higher_than_the_textbook_from_the_same_start() -> None:
    for seed in range(5):
        x = blobs(seed=seed)
        start = x[:4] + 0.01
        _, c = fuzzy_c_means(x, 4, 2.0, start=start)
        assert textbook(x, c, 2.0, 0)[2] <= textbook(x, start, 2.0, 300)[2] * 1.001


@pytest.mark.parametrize("m", [1.0001, 1.05, 2.0, 10.0])
@pytest.mark.parametrize("dim", [1, 2048])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_it_is_safe_at_its_edges(m: float, dim: int, dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(40, dim)) * 200).astype(dtype)
    x[5:9] = x[4]  # several frames, one place
    u, c = fuzzy_c_means(x, 6, m)
    assert np.isfinite(u).all()
    assert np.isfinite(c).all()
    np.testing.assert_allclose(u.sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-12, 1e10])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_units_and_origin_do_not_matter(scale: float, shift: float) -> None:
    x = blobs()
    plain, _ = fuzzy_c_means(x, 3, start=x[:3])
    moved, _ = fuzzy_c_means((x + shift) * scale, 3, start=(x[:3] + shift) * scale)
    np.testing.assert_allclose(moved, plain, atol=2e-3)


def test_a_frame_on_a_centre_belongs_to_it_and_to_all_centres_there() -> None:
    x = np.eye(3)
    u = memberships(x, x, 1.5)
    np.testing.assert_allclose(u, np.eye(3), atol=1e-5)
    shared = memberships(x[:1], np.stack([x[0], x[0], x[1]]), 1.5)
    np.testing.assert_allclose(shared, [[0.5, 0.5, 0]], atol=1e-5)


def test_probabilities_of_new_frames_are_those_it_learned_with() -> None:
    x = blobs()
    u, c = fuzzy_c_means(x, 3, 1.5)
    np.testing.assert_allclose(memberships(x[:20], c, 1.5), u[:20], atol=1e-3)
