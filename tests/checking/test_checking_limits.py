"""Limits: the share of normal videos beyond them is the one promised, and kinds do not spoil each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepcut.checking.evidence import KINDS
from stepcut.checking.limits import FLOORS, find_limits, promised_rate, rarity

FLOOR_ROW = np.array([FLOORS[kind] for kind in KINDS])


def draw(rng: np.random.Generator, videos: int) -> list[dict[str, float]]:
    """Amounts as normal videos have them: two kinds vary, one is rare, two never occur."""
    many = np.zeros((videos, len(KINDS)))
    many[:, 3] = 4 * rng.exponential(size=videos)
    many[:, 4] = 9 * rng.exponential(size=videos) * (rng.random(videos) < 0.5)
    many[:, 1] = 3.5 * (rng.random(videos) < 0.1)
    return [dict(zip(KINDS, row, strict=True)) for row in many.tolist()]


def beyond(amount: dict[str, float], limits: dict[str, float]) -> bool:
    return any(amount[kind] > limits[kind] for kind in KINDS)


@pytest.mark.parametrize(("videos", "asked"), [(4, 0.05), (8, 0.05), (8, 0.3), (20, 0.05), (20, 0.12)])
def test_normal_videos_are_called_wrong_as_often_as_promised(videos: int, asked: float) -> None:
    rng = np.random.default_rng(videos)
    alarms = []
    for _ in range(50):
        limits = find_limits(draw(rng, videos), asked)
        alarms += [beyond(amount, limits) for amount in draw(rng, 50)]
    promised = promised_rate(videos, asked)
    assert promised == pytest.approx(max(asked, 1 / (videos + 1)))
    assert promised - 0.08 < np.mean(alarms) < promised + 0.04


def test_a_kind_that_varies_does_not_hide_one_that_never_occurs() -> None:
    rng = np.random.default_rng(0)
    calm = [{**amount, "misordered": 0.0} for amount in draw(rng, 12)]
    loud = [{**amount, "unusual": 5 * amount["unusual"]} for amount in calm]
    for amounts in (calm, loud):
        assert find_limits(amounts, 0.1)["missed"] < 4  # what one missing step says, with a dozen videos
    assert find_limits(loud, 0.1)["unusual"] > 2 * find_limits(calm, 0.1)["unusual"]


def test_a_limit_is_where_a_video_becomes_one_of_the_most_deviant() -> None:
    amounts = draw(np.random.default_rng(3), 9)
    known = np.array([[amount[kind] for kind in KINDS] for amount in amounts])
    limits = find_limits(amounts, 0.2)  # of ten videos, two
    for column, kind in enumerate(KINDS):
        for factor, among in ((0.999, False), (1.001, True)):
            new = np.zeros((1, len(KINDS)))
            new[0, column] = factor * limits[kind]
            if not among and limits[kind] == FLOORS[kind]:
                continue
            chances = rarity(np.concatenate([known, new]), FLOOR_ROW)
            assert (np.sum(chances <= chances[-1]) <= 2) == among


@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(st.floats(0, 50), min_size=5, max_size=5), max_size=6), st.floats(0.01, 0.9))
def test_limits_never_lie_below_their_floors_and_fall_as_more_alarms_are_allowed(
    rows: list[list[float]], asked: float
) -> None:
    amounts = [dict(zip(KINDS, row, strict=True)) for row in rows]
    strict, lax = find_limits(amounts, asked), find_limits(amounts, min(1.2 * asked, 0.99))
    for kind in KINDS:
        assert FLOORS[kind] <= lax[kind] <= strict[kind] * (1 + 1e-6)


def test_without_any_video_the_floors_are_the_limits() -> None:
    assert find_limits([], 0.05) == pytest.approx(FLOORS)
    assert promised_rate(0, 0.05) == 1
