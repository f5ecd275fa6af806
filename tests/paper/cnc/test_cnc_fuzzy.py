"""Fuzzy c-means against a textbook version in float64, and at its edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from errors_kit import raises

from stepcut.errors import FeatureError, OptionError
from stepcut.paper.cnc import fuzzy
from stepcut.paper.cnc.fuzzy import fuzzy_c_means, memberships


def textbook(
    x: Any, centres: Any, m: float, turns: int, weights: Any = None
) -> tuple[Any, Any, float]:
    """The two formulas by turns, word for word; memberships, centres and objective."""
    x, centres = x.astype(np.float64), centres.astype(np.float64)
    weights = np.ones(len(x)) if weights is None else weights
    for turn in range(turns + 1):
        d = ((x[:, None] - centres) ** 2).sum(axis=2)
        ratio = (d[:, :, None] / d[:, None, :]) ** (1 / (m - 1))  # (T, k, j)
        u = 1 / ratio.sum(axis=2)
        if turn < turns:
            power = weights[:, None] * u**m
            centres = power.T @ x / power.sum(axis=0)[:, None]
    return u, centres, float((weights[:, None] * u**m * d).sum())


def blobs(count: int = 200, dim: int = 5, k: int = 3, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(k, dim))[rng.integers(k, size=count)] * 3 + rng.normal(
        size=(count, dim)
    )


@pytest.mark.parametrize("m", [1.3, 1.7, 2.0, 3.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_turn_by_turn_it_is_the_textbook(m: float, weighted: bool) -> None:
    x = blobs()
    weights = np.random.default_rng(1).random(len(x)) if weighted else None
    for turns in (1, 4, 20):
        u, c = fuzzy_c_means(x, 3, m, start=x[:3], iterations=turns, tolerance=0, weights=weights)
        true_u, true_c, _ = textbook(x, x[:3] + 1e-9, m, turns, weights)
        np.testing.assert_allclose(c, true_c, atol=2e-3)
        np.testing.assert_allclose(u, true_u, atol=2e-3)


def test_left_alone_it_ends_no_higher_than_the_textbook_from_the_same_start() -> None:
    for seed in range(5):
        x = blobs(seed=seed)
        start = x[:4] + 0.01
        _, c = fuzzy_c_means(x, 4, 2.0, start=start)
        assert textbook(x, c, 2.0, 0)[2] <= textbook(x, start, 2.0, 300)[2] * 1.001


def test_weights_count_a_frame_that_many_times() -> None:
    x = blobs(60)
    times = np.random.default_rng(2).integers(0, 4, size=60)
    _, weighted = fuzzy_c_means(x, 3, start=x[:3], weights=times)
    _, repeated = fuzzy_c_means(np.repeat(x, times, axis=0), 3, start=x[:3])
    np.testing.assert_allclose(weighted, repeated, atol=1e-3)


def test_more_restarts_are_never_worse() -> None:
    x = blobs(k=6, count=300)
    reached = [
        textbook(x, fuzzy_c_means(x, 6, 1.2, seed=4, restarts=n)[1], 1.2, 0)[2] for n in (1, 4)
    ]
    assert reached[1] <= reached[0] * (1 + 1e-6)


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    x = blobs(500)
    whole = fuzzy_c_means(x, 3, start=x[:3])
    monkeypatch.setattr(fuzzy, "CHUNK", 37)
    parts = fuzzy_c_means(x, 3, start=x[:3])
    np.testing.assert_allclose(parts[1], whole[1], atol=1e-3)
    np.testing.assert_allclose(parts[0], whole[0], atol=1e-3)


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


def test_overwrite_gives_the_same_and_without_it_the_input_stays() -> None:
    x = blobs().astype(np.float32)
    kept = x.copy()
    plain = fuzzy_c_means(x, 3)
    assert np.array_equal(x, kept)
    np.testing.assert_allclose(fuzzy_c_means(x, 3, overwrite=True)[1], plain[1], atol=1e-5)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("k", 0), ("k", 21), ("m", 1.0), ("restarts", 0), ("iterations", 0), ("tolerance", -1)],
)
def test_invalid_settings_are_refused(setting: str, value: Any) -> None:
    with raises(OptionError, setting=setting, value=value):
        fuzzy_c_means(blobs(20), **{"k": 2, setting: value})


@pytest.mark.parametrize("weights", [np.ones(3), -np.ones(20), np.zeros(20), np.full(20, np.nan)])
def test_invalid_weights_are_refused(weights: Any) -> None:
    with pytest.raises(FeatureError, match="expected 20 numbers"):
        fuzzy_c_means(blobs(20), 2, weights=weights)


def test_a_start_of_the_wrong_shape() -> None:
    with raises(FeatureError, "(3, 5)", "(2, 5)"):
        fuzzy_c_means(blobs(20), 2, start=blobs(3))


def test_probabilities_around_centres_that_do_not_fit() -> None:
    with raises(FeatureError, "(3, 4)", "(k, 5)"):
        memberships(blobs(20), blobs(3)[:, :4])
    with raises(FeatureError, "centres", "NaN"):
        memberships(blobs(20), np.full((3, 5), np.nan))
    with raises(FeatureError, "x", "NaN"):
        memberships(np.full((3, 5), np.nan), blobs(3))
    with raises(OptionError, setting="m", value=1):
        memberships(blobs(20), blobs(3), 1)
