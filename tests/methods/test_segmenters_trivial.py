"""The baselines that ignore the video."""

from __future__ import annotations

import numpy as np

from stepcut.methods.baselines.trivial import OneCluster, Random, Uniform


def test_uniform_cuts_into_equal_parts() -> None:
    labels = Uniform(steps=3).fit([np.zeros((6, 2)), np.zeros((7, 2)), np.zeros((2, 2))]).labels_
    assert [video.tolist() for video in labels] == [
        [0, 0, 1, 1, 2, 2],
        [0, 0, 0, 1, 1, 2, 2],
        [0, 1],
    ]


def test_one_cluster_is_one() -> None:
    assert OneCluster(steps=3).fit([np.zeros((4, 2))]).labels_[0].tolist() == [0, 0, 0, 0]


def test_random_uses_all_steps_alike_and_the_seed() -> None:
    videos = [np.random.default_rng(0).normal(size=(7000, 1))]
    labels = Random(steps=7).fit(videos).labels_[0]
    assert np.abs(np.bincount(labels, minlength=7) / 1000 - 1).max() < 0.15
    assert not np.array_equal(labels, Random(steps=7, seed=1).fit(videos).labels_[0])
