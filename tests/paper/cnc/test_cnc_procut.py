"""ProCut: settings in seconds, steps shared by all videos, no links between videos."""

import numpy as np
import pytest
from errors_kit import raises

from stepcut.errors import OptionError
from stepcut.methods.baselines import KMeans
from stepcut.paper.cnc.procut import ProCut, Subset, chain, energy, window_links


def kitchen(rate, seed=0, noise=0.9):
    """Three videos of five steps of 20 to 40 seconds in differing orders; the signal is the same at every rate."""
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(5, 16))
    videos = []
    for _ in range(3):
        seconds = np.concatenate([np.full(rng.integers(20, 41), k) for k in rng.permutation(5)])
        rows = places[seconds] + noise * rng.normal(size=(len(seconds), 16))
        videos.append(np.repeat(rows, rate, axis=0))
    return videos


@pytest.mark.parametrize("window", [0.0, 4.0])
def test_the_same_setting_means_the_same_at_every_rate(window):
    slow = ProCut(steps=5, rate=1, window=window).fit(kitchen(1)).labels_
    fast = ProCut(steps=5, rate=10, window=window).fit(kitchen(10)).labels_
    agree = [np.mean(np.repeat(a, 10) == b) for a, b in zip(slow, fast, strict=True)]
    assert min(agree) > 0.97


def test_the_cut_is_the_lowest_energy_of_its_probabilities():
    videos = kitchen(1)
    segmenter = ProCut(steps=5, smoothness=3.0).fit(videos)
    for labels, shares, *_ in map(segmenter.read, videos):
        assert np.array_equal(labels, chain(1 - shares, 3.0))


def test_with_a_window_the_energy_is_no_higher_than_the_chains():
    videos = kitchen(2, noise=3.0)
    wide = ProCut(steps=5, rate=2, smoothness=0.5, window=5.0).fit(videos)
    narrow = ProCut(steps=5, rate=2, smoothness=0.5).fit(videos)
    better = 0
    for video in videos:
        (a, shares, *_), (b, *_) = wide.read(video), narrow.read(video)
        links, weights = window_links(len(a), 5.0, 2.0, 1.0)
        assert energy(1 - shares, links, weights, a) <= energy(1 - shares, links, weights, b)
        better += not np.array_equal(a, b)
    assert better > 0


def test_smoother_means_fewer_changes_and_none_means_the_nearest_step():
    videos = kitchen(1)
    changes = []
    for smoothness in (0.0, 1.0, 5.0, 1000.0):
        segmenter = ProCut(steps=5, smoothness=smoothness).fit(videos)
        readings = [segmenter.read(video) for video in videos]
        changes.append(sum(int(np.count_nonzero(np.diff(one.labels))) for one in readings))
        if smoothness == 0:
            assert all(
                np.array_equal(one.labels, one.probabilities.argmax(axis=1)) for one in readings
            )
    assert changes == sorted(changes, reverse=True)
    assert changes[0] > changes[2] > changes[3] == 0


def test_a_video_is_cut_alike_alone_and_in_company():
    videos = kitchen(1)
    segmenter = ProCut(steps=5).fit(videos)
    assert all(
        np.array_equal(segmenter.read(video).labels, cut)
        for video, cut in zip(videos, segmenter.labels_, strict=True)
    )


def test_a_repeated_step_keeps_its_number():
    rows = np.repeat(np.eye(3)[[0, 1, 0, 2]], 30, axis=0)
    labels = ProCut(steps=3).fit([rows]).labels_[0].reshape(4, 30)
    assert (labels == labels[:, :1]).all()
    assert labels[0, 0] == labels[2, 0]
    assert len(set(labels[:, 0].tolist())) == 3


def test_direction_alone_counts_when_normalised():
    rng = np.random.default_rng(0)
    videos = kitchen(1, noise=0.3)
    louder = [video * rng.uniform(0.1, 10, size=(len(video), 1)) for video in videos]
    for kind in (ProCut, KMeans):
        plain, loud = (kind(steps=5, normalise=True).fit(v).labels_ for v in (videos, louder))
        assert min(np.mean(a == b) for a, b in zip(plain, loud, strict=True)) > 0.99
        unscaled = kind(steps=5, normalise=False).fit(louder).labels_
        assert max(np.mean(a == b) for a, b in zip(plain, unscaled, strict=True)) < 0.99


def test_alpha_expansion_on_the_chain_is_never_below_the_exact_cut():
    rng = np.random.default_rng(0)
    videos = [rng.normal(size=(40, 3)) for _ in range(2)]
    exact = ProCut(steps=3, smoothness=1.5).fit(videos)
    moved = ProCut(steps=3, smoothness=1.5, solver="expansion").fit(videos)
    links = np.stack([np.arange(39), np.arange(1, 40)], axis=1)
    for rows in videos:
        best, shares, *_ = exact.read(rows)
        cost, other = 1 - shares, moved.read(rows).labels
        assert energy(cost, links, 1.5, best) <= energy(cost, links, 1.5, other) + 1e-6
    with raises(OptionError, "'expansion'"):
        ProCut(solver="expansio").fit(videos)


def test_as_the_authors_code_numbers_have_an_order_and_videos_are_joined():
    rows = np.repeat(np.eye(2), [3, 4], axis=0)
    videos = [rows, rows[::-1]]  # 0 0 0 1 1 1 1 and back: one change in each, none at the join
    smooth = {"smoothness": 3.5, "m": 2.0, "solver": "expansion"}
    alone = ProCut(steps=2, **smooth).fit(videos)
    assert [len(set(labels.tolist())) for labels in alone.labels_] == [1, 1]  # 3.5 is too dear
    joined = ProCut(steps=2, join_videos=True, **smooth).fit(videos)
    assert joined.labels_[0].tolist() == joined.labels_[1][::-1].tolist()
    half = ProCut(steps=2, change="numbers", **smooth).fit(videos)  # |k - l| / K is a half
    assert [len(set(labels.tolist())) for labels in half.labels_] == [2, 2]
    with raises(OptionError, "'numbers'"):
        ProCut(change="number").fit(videos)


def test_the_default_of_subset_selection_is_ten_states_per_step():
    rng = np.random.default_rng(0)
    videos = [rng.normal(size=(60, 4)).astype(np.float32) for _ in range(2)]
    plain, ten, five = (
        Subset(steps=3, states=states).fit(videos).state() for states in (None, 30, 15)
    )
    assert all(np.array_equal(plain[key], ten[key]) for key in plain)
    assert any(not np.array_equal(plain[key], five[key]) for key in plain)
