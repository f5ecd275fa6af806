"""Alignment: videos that go through the same steps in one order."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from stepcut.evaluation import score
from stepcut.methods import StepCut
from stepcut.methods.arithmetic import squared_distances
from stepcut.methods.stepcut.alignment import align, cut_in_order
from stepcut.methods.stepcut.restarts import REGULAR, Search
from stepcut.methods.stepcut.slow_features import smooth


def in_order(
    videos: int = 8, steps: int = 5, seed: int = 0
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Videos that pass slowly from each step to the next, all in one order, for times of their own; and the truth."""
    random = np.random.default_rng(seed)
    looks = random.normal(size=(steps, 16))
    rows, true = [], []
    for _ in range(videos):
        lengths = np.maximum(120 * random.dirichlet(np.full(steps, 4.0)), 4).astype(int)
        cut = np.repeat(np.arange(steps), lengths)
        wide = smooth(looks[cut], 4.0)
        rows.append(
            (wide + 0.3 * random.normal(size=wide.shape) + random.normal(size=16)).astype(
                np.float32
            )
        )
        true.append(cut)
    return rows, true


def test_the_cheapest_way_is_that_of_trying_all() -> None:
    random = np.random.default_rng(0)
    for frames, steps in ((7, 3), (6, 1), (5, 5), (8, 4)):
        costs = random.random((frames, steps))
        ways = [
            np.repeat(np.arange(steps), np.diff([0, *bounds, frames]))
            for bounds in combinations(range(1, frames), steps - 1)
        ]
        cheapest = min(ways, key=lambda way: costs[np.arange(frames), way].sum())
        assert cut_in_order(costs).tolist() == cheapest.tolist()


def test_a_video_of_fewer_rows_than_steps_is_cut_into_what_there_is() -> None:
    assert cut_in_order(np.zeros((2, 4))).tolist() == [0, 2]
    assert [len(cut) for cut in align([np.zeros((2, 3)), np.zeros((9, 3))], 4)] == [2, 9]


def test_videos_of_different_pace_are_aligned() -> None:
    rows, true = in_order()
    centred = [smooth(video - video.mean(axis=0), 2.0) for video in rows]
    aligned = score(align(centred, 5), true).f1
    clock = score([np.arange(len(cut)) * 5 // len(cut) for cut in true], true).f1
    assert aligned > 90
    assert aligned > clock + 15


def test_where_steps_are_slices_of_time_restarts_have_no_say() -> None:
    rows, true = in_order(seed=1)
    videos = [video.astype(np.float64) - video.mean(axis=0) for video in rows]
    search = Search(5, sigma=4.0, restarts=3)
    tried = search.run_restarts(videos)
    nonsense = np.zeros(sum(map(len, tried.views)), dtype=np.int64)
    tried = replace(tried, labels=[nonsense] * 3)

    def cut(regularity: float) -> float:
        model = search.combine(replace(tried, regularity=regularity))
        found = [
            squared_distances(model.view(video), model.centres).argmin(axis=1) for video in videos
        ]
        return score(found, true).f1

    assert cut(REGULAR + 0.01) > 80
    assert cut(REGULAR - 0.01) < 70


def test_learning_finds_steps_that_come_in_one_order() -> None:
    rows, true = in_order(seed=2)
    assert score(StepCut(steps=5, restarts=3).fit(rows).labels_, true).f1 > 85


@pytest.mark.parametrize("prior", [0.0, 2.0])
def test_without_a_time_prior_nothing_is_aligned(prior: float) -> None:
    rows, _ = in_order(seed=3)
    videos = [video.astype(np.float64) - video.mean(axis=0) for video in rows]
    regularity = Search(5, sigma=4.0, restarts=1, prior=prior).run_restarts(videos).regularity
    assert (regularity > REGULAR) == (prior > 0)
