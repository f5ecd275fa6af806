"""ProCut, and fuzzy c-means against a textbook version in float64."""

import numpy as np
import pytest

from stepcut.methods.baselines import KMeans
from stepcut.paper.cnc.procut import ProCut, chain, fuzzy_c_means, memberships


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


def test_smoother_means_fewer_changes_and_the_cut_is_the_lowest_energy():
    videos, changes = kitchen(1), []
    for smoothness in (0.0, 1.0, 5.0, 1000.0):
        segmenter = ProCut(steps=5, smoothness=smoothness).fit(videos)
        for (labels, shares, *_), own in zip(
            map(segmenter.read, videos), segmenter.labels_, strict=True
        ):
            assert np.array_equal(labels, chain(1 - shares, smoothness))
            assert np.array_equal(labels, own)  # alone and in company
        changes.append(sum(np.count_nonzero(np.diff(one)) for one in segmenter.labels_))
    assert changes == sorted(changes, reverse=True)
    assert changes[0] > changes[2] > changes[3] == 0


def test_direction_alone_counts_when_normalised():
    rng = np.random.default_rng(0)
    videos = kitchen(1, noise=0.3)
    louder = [video * rng.uniform(0.1, 10, size=(len(video), 1)) for video in videos]
    for kind in (ProCut, KMeans):
        plain, loud = (kind(steps=5, normalise=True).fit(v).labels_ for v in (videos, louder))
        assert min(np.mean(a == b) for a, b in zip(plain, loud, strict=True)) > 0.99
        unscaled = kind(steps=5, normalise=False).fit(louder).labels_
        assert max(np.mean(a == b) for a, b in zip(plain, unscaled, strict=True)) < 0.99


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


def textbook(x, centres, m, turns):
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


def blobs(count=200, dim=5, k=3, seed=0):
    rng = np.random.default_rng(seed)
    places = 3 * rng.normal(size=(k, dim))[rng.integers(k, size=count)]
    return places + rng.normal(size=(count, dim))


@pytest.mark.parametrize("m", [1.3, 1.7, 2.0, 3.0])
def test_turn_by_turn_it_is_the_textbook(m):
    x = blobs()
    for turns in (1, 4, 20):
        u, c = fuzzy_c_means(x, 3, m, start=x[:3], iterations=turns, tolerance=0)
        true_u, true_c, _ = textbook(x, x[:3] + 1e-9, m, turns)
        np.testing.assert_allclose(c, true_c, atol=2e-3)
        np.testing.assert_allclose(u, true_u, atol=2e-3)


@pytest.mark.parametrize("m", [1.0001, 2.0, 10.0])
@pytest.mark.parametrize("dim", [1, 2048])
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_it_is_safe_at_its_edges(m, dim, dtype):
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(40, dim)) * 200).astype(dtype)
    x[5:9] = x[4]  # several frames, one place
    u, c = fuzzy_c_means(x, 6, m)
    assert np.isfinite(u).all()
    assert np.isfinite(c).all()
    np.testing.assert_allclose(u.sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-12, 1e10])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_units_and_origin_do_not_matter(scale, shift):
    x = blobs()
    plain, _ = fuzzy_c_means(x, 3, start=x[:3])
    moved, _ = fuzzy_c_means((x + shift) * scale, 3, start=(x[:3] + shift) * scale)
    np.testing.assert_allclose(moved, plain, atol=2e-3)


def test_memberships_on_centres_and_of_new_frames():
    x = np.eye(3)
    u = memberships(x, x, 1.5)
    np.testing.assert_allclose(u, np.eye(3), atol=1e-5)
    shared = memberships(x[:1], np.stack([x[0], x[0], x[1]]), 1.5)
    np.testing.assert_allclose(shared, [[0.5, 0.5, 0]], atol=1e-5)
    x = blobs()
    u, c = fuzzy_c_means(x, 3, 1.5)
    np.testing.assert_allclose(memberships(x[:20], c, 1.5), u[:20], atol=1e-3)
