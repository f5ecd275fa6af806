"""Baselines against plain implementations of their formulas."""

import numpy as np
import pytest
from sklearn.cluster import SpectralClustering
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from stepcut.evaluation import score
from stepcut.methods.arithmetic import squared_distances
from stepcut.methods.baselines import (
    KMeans,
    OneCluster,
    Random,
    Spectral,
    TwFinch,
    Uniform,
    append_time,
    find_means,
    smooth_embedding,
    time_cost,
    time_order,
    transport,
)
from stepcut.paper.cnc.procut import choose_subset


def test_choices_distances_costs_and_orders_by_hand():
    # Three frames at 0, 1 and 10, states at 0, 1, 9: the middle one first (it serves two), then the far one.
    apart = np.abs(np.array([[0.0], [1.0], [9.0]]) - np.array([0.0, 1.0, 10.0])).astype(np.float32)
    assert choose_subset(apart, 1) == [1]
    assert choose_subset(apart, 2) == [1, 2]
    assert sorted(choose_subset(apart, 3)) == [0, 1, 2]
    rng = np.random.default_rng(0)
    rows, states = (rng.normal(size=(n, 3)).astype(np.float32) for n in (20, 4))
    true = np.linalg.norm(rows[:, None] - states, axis=2) ** 2
    np.testing.assert_allclose(squared_distances(rows, states), true, atol=1e-5)
    assert (squared_distances(rows, rows) >= 0).all()
    cost = time_cost(4, 2)
    np.testing.assert_allclose(cost[:, 0], [0.125, 0.125, 0.375, 0.625])
    np.testing.assert_allclose(cost, cost[::-1, ::-1])
    assert time_order([np.array([3, 3, 0, 0]), np.array([3, 0])], 5).tolist() == [3, 0, 1, 2, 4]


def test_k_means_is_the_same_on_many_cores_and_its_time_prior_a_dimension(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(6000, 16)).astype(np.float32)
    find_means(rows[:9], 9, 0, 1)  # what is to be limited is loaded
    monkeypatch.setenv("OMP_NUM_THREADS", "8")  # as many as that, also on a machine of two cores
    with threadpool_limits(8, user_api="openmp"):
        assert len({find_means(rows, 9, 0, 1).tobytes() for _ in range(4)}) == 1
    rows = np.ones((10, 3), dtype=np.float32)
    timed = append_time(rows, 2.0)
    np.testing.assert_allclose(timed[:, 3], 2 * (np.arange(10) + 0.5) / 10)
    # Nothing but the clock tells these frames apart.
    labels = KMeans(steps=5, prior=1.0).fit([np.ones((50, 3))] * 2).labels_
    assert all(np.array_equal(video, np.repeat(np.arange(5), 10)) for video in labels)
    rng = np.random.default_rng(0)
    videos = [rng.normal(size=(40, 3)) for _ in range(2)]
    assert KMeans(steps=2, prior=1.5).fit(videos).clock_ == pytest.approx(1.5)  # frames of length 1
    scaled = KMeans(steps=2, prior=1.5, normalise=False)
    small, large = scaled.fit(videos).labels_, scaled.fit([10 * video for video in videos]).labels_
    assert all(np.array_equal(a, b) for a, b in zip(small, large, strict=True))


def slow_transport(cost, radius, alpha, entropy, balance):
    """The formula with its matrices written out; T is the plan whose rows sum to p = 1/N, q = 1/K."""
    n, k = cost.shape
    p, q = 1 / n, 1 / k
    plan = np.full((n, k), p * q)
    apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    structure = np.where((apart >= 1) & (apart <= radius * n), 1 / radius, 0)
    size = None
    for _ in range(25):
        g = alpha * structure @ plan @ (1 - np.eye(k)) + (1 - alpha) * cost
        g = g + entropy * np.log(plan / p) + balance * (np.log(plan.sum(axis=0) / q) + 1)
        size = 4 / np.abs(g).max() if size is None else size
        plan = plan * np.exp(-size * g)
        plan = plan / plan.sum(axis=1, keepdims=True) * p
    return plan / p


@pytest.mark.parametrize(
    ("frames", "radius"), [(60, 0.04), (60, 0.2), (10, 0.04), (1, 0.5), (33, 1.0)]
)
def test_transport_is_its_formula(frames, radius):
    cost = np.random.default_rng(0).random((frames, 4))
    fast, slow = (made(cost, radius, 0.3, 0.07, 0.1) for made in (transport, slow_transport))
    np.testing.assert_allclose(fast, slow, atol=1e-5)


def test_the_smooth_row_is_what_its_description_says():
    # Centred per video, a Gaussian of 12 s, principal components, length 1, 1.5 x normalised time.
    rate, rng = 2.0, np.random.default_rng(0)
    videos = [np.cumsum(rng.normal(size=(n, 5)), axis=0) for n in (300, 240)]
    reach = round(4 * 12 * rate)
    away = np.arange(-reach, reach + 1) / rate
    bell = np.exp(-0.5 * (away / 12) ** 2)
    bell /= bell.sum()
    smoothed = []
    for rows in videos:
        wide = np.pad(rows - rows.mean(axis=0), ((reach, reach), (0, 0)), mode="edge")
        columns = [np.convolve(column, bell, mode="valid") for column in wide.T]
        smoothed.append(np.stack(columns, axis=1))
    middle = np.concatenate(smoothed).mean(axis=0)
    for found, rows in zip(smooth_embedding(videos, rate), smoothed, strict=True):
        lengths = np.linalg.norm(rows - middle, axis=1, keepdims=True)
        alike = ((rows - middle) / lengths) @ ((rows - middle) / lengths).T
        # Five numbers a row are fewer than 32 components, so nothing but a rotation has happened.
        np.testing.assert_allclose(found[:, :-1] @ found[:, :-1].T, alike, atol=2e-3)
        np.testing.assert_allclose(found[:, -1], 1.5 * np.arange(len(rows)) / len(rows), atol=1e-6)


def test_the_trivial_baselines():
    labels = Uniform(steps=3).fit([np.zeros((6, 2)), np.zeros((7, 2)), np.zeros((2, 2))]).labels_
    equal = [[0, 0, 1, 1, 2, 2], [0, 0, 0, 1, 1, 2, 2], [0, 1]]
    assert [video.tolist() for video in labels] == equal
    assert OneCluster(steps=3).fit([np.zeros((4, 2))]).labels_[0].tolist() == [0, 0, 0, 0]
    videos = [np.random.default_rng(0).normal(size=(7000, 1))]
    labels = Random(steps=7).fit(videos).labels_[0]
    assert np.abs(np.bincount(labels, minlength=7) / 1000 - 1).max() < 0.15
    assert not np.array_equal(labels, Random(steps=7, seed=1).fit(videos).labels_[0])


def video(seed, steps=4, noise=0.4):
    rng = np.random.default_rng(seed)
    order = [*rng.permutation(steps), int(rng.integers(steps))]
    labels = np.repeat(order, rng.integers(6, 16, len(order)))
    return np.eye(steps, 12)[labels] + noise * rng.normal(size=(len(labels), 12)), labels


def plain_tw_finch(rows, count):
    times = [(n + 1) / len(rows) for n in range(len(rows))]
    groups = [{n} for n in range(len(rows))]

    def distance(a, b):
        x, y = (np.mean([rows[n] for n in group], axis=0) for group in (a, b))
        cosine = x @ y / np.linalg.norm(x) / np.linalg.norm(y)
        return (1 - cosine) * abs(np.mean([times[n] for n in a]) - np.mean([times[n] for n in b]))

    while len(groups) > count:
        apart = [[distance(a, b) if a is not b else np.inf for b in groups] for a in groups]
        links = [(i, int(np.argmin(row))) for i, row in enumerate(apart)]
        joined = join(groups, links)
        if len(joined) < count:
            joined = join(groups, [min(links, key=lambda link: apart[link[0]][link[1]])])
        groups = joined
    labels = np.empty(len(rows), dtype=int)
    for number, group in enumerate(groups):
        labels[list(group)] = number
    return labels


def join(groups, links):
    merged = [set(group) for group in groups]
    for i, j in links:
        a, b = (next(g for g in merged if groups[k] <= g) for k in (i, j))
        if a is not b:
            merged.remove(b)
            a |= b
    return merged


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("count", [2, 4, 7])
def test_tw_finch_is_its_formula(seed, count):
    rows, _ = video(seed)
    labels = TwFinch(steps=count).fit([rows]).labels_[0]
    assert adjusted_rand_score(plain_tw_finch(rows, count), labels) == pytest.approx(1)
    assert len(np.unique(labels)) == count


@pytest.mark.parametrize("seed", range(3))
def test_spectral_is_the_zero_shot_row_of_hiero(seed):
    rows, _ = video(seed)
    directions = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    affinity = np.exp(directions @ directions.T / 0.5)
    theirs = SpectralClustering(4, affinity="precomputed", random_state=0).fit_predict(affinity)
    labels = Spectral(steps=4, window=0).fit([rows]).labels_[0]
    assert adjusted_rand_score(theirs, labels) == pytest.approx(1)


@pytest.mark.parametrize("method", [TwFinch, Spectral])
def test_steps_are_found_in_each_video_and_numbered_in_time(method):
    pairs = [video(seed, noise=0.1) for seed in range(3)]
    labels = method(steps=4).fit([rows for rows, _ in pairs]).labels_
    true = [steps + 1 for _, steps in pairs]
    assert score(labels, true, "segmentation-per-video", clusters=4).mof_all > 85
    for one in labels:
        times = [np.flatnonzero(one == step).mean() for step in np.unique(one)]
        assert times == sorted(times)


def test_spectral_clusters_seconds_not_rows():
    rows, _ = video(0, noise=0.1)
    labels = Spectral(steps=4, rate=10, window=0.5).fit([np.repeat(rows, 5, axis=0)]).labels_[0]
    assert np.array_equal(labels[::5], labels[4::5])
