"""The graph against brute force over all labellings of tiny graphs."""

import itertools

import numpy as np
import pytest

from stepcut.paper.cnc.procut import chain, energy, expand, window_links


def brute(unary, links, weights):
    frames, steps = np.shape(unary)
    labellings = itertools.product(range(steps), repeat=frames)
    return min(slow_energy(unary, links, weights, x) for x in labellings)


def slow_energy(unary, links, weights, labels):
    total = sum(float(unary[t][k]) for t, k in enumerate(labels))
    return total + sum(weights[n] for n, (a, b) in enumerate(links) if labels[a] != labels[b])


def chain_links(frames):
    return np.stack([np.arange(frames - 1), np.arange(1, frames)], axis=1)


def tiny(seed):
    """A random graph of up to 7 frames, 4 steps, any links, ties and zeros among the numbers."""
    rng = np.random.default_rng(seed)
    frames, steps, count = rng.integers(1, 8), rng.integers(1, 5), rng.integers(0, 12)
    size = (frames, steps)
    unary = rng.integers(0, 6, size=size) / 4 if seed % 2 else rng.random(size)
    links = rng.integers(0, frames, size=(count, 2))
    weights = rng.choice([0, 0.25, 0.5, 1.0], size=count) if seed % 3 else rng.random(count)
    return unary, links, weights


@pytest.mark.parametrize("seed", range(12))
def test_the_chain_is_exact(seed):
    unary, _, _ = tiny(seed)
    links = chain_links(len(unary))
    weights = np.random.default_rng(seed).choice([0, 0.3, 1.1], size=len(links))
    labels = chain(unary, weights)
    assert energy(unary, links, weights, labels) == pytest.approx(brute(unary, links, weights))


@pytest.mark.parametrize("seed", range(12))
def test_expansion_keeps_its_bound(seed):
    unary, links, weights = tiny(seed)
    reached = energy(unary, links, weights, expand(unary, links, weights))
    lowest = brute(unary, links, weights)
    assert lowest - 1e-9 <= reached <= 2 * lowest + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_expansion_with_distances_of_numbers_is_bettered_by_no_move(seed):
    rng = np.random.default_rng(seed)
    unary, links, weights = rng.random((6, 4)), rng.integers(0, 6, size=(9, 2)), rng.random(9)
    apart = np.abs(np.arange(4)[:, None] - np.arange(4)) / 4

    def slow(labels):
        data = sum(float(unary[t, k]) for t, k in enumerate(labels))
        pairs = zip(links.tolist(), weights.tolist(), strict=True)
        return data + sum(w * abs(labels[a] - labels[b]) / 4 for (a, b), w in pairs)

    labels = expand(unary, links, weights, apart=apart)
    assert energy(unary, links, weights, labels, apart) == pytest.approx(slow(labels.tolist()))
    for alpha, takes in itertools.product(range(4), itertools.product([False, True], repeat=6)):
        assert slow(np.where(takes, alpha, labels).tolist()) >= slow(labels.tolist()) - 1e-6


def test_chains_by_hand():
    unary = np.tile(np.array([[0.1, 0.4], [0.4, 0.1]], dtype=np.float32), (500_000, 1))
    assert np.array_equal(chain(unary, 0.1), np.arange(1_000_000) % 2)
    assert len(np.unique(chain(unary, 0.4))) == 1
    unary = np.random.default_rng(0).random((50, 4))
    assert np.array_equal(chain(unary, 0), unary.argmin(axis=1))
    assert set(chain(unary, np.inf).tolist()) == {int(unary.sum(axis=0).argmin())}
    unary = np.zeros((6, 2))
    unary[2:4, 0] = np.inf
    assert chain(unary, 1).tolist() == [1] * 6


@pytest.mark.parametrize(("window", "rate"), [(10, 1.0), (10, 2.0), (3, 29.97), (0.1, 30.0)])
def test_one_change_costs_the_same_whatever_the_window_and_the_rate(window, rate):
    frames = 700
    links, weights = window_links(frames, window, rate, 5.0)
    apart = links[:, 1] - links[:, 0]
    assert apart.min() == 1
    assert apart.max() == int(window * rate + 1e-9)
    labels = np.repeat([0, 1], frames // 2)
    assert energy(np.zeros((frames, 2)), links, weights, labels) == pytest.approx(5.0)
    by_distance = [weights[apart == d][0] for d in range(1, apart.max() + 1)]
    assert (np.diff(by_distance) < 0).all()


def test_a_video_shorter_than_the_window():
    assert window_links(3, 10.0, 1.0, 1.0)[0].tolist() == [[0, 1], [1, 2], [0, 2]]
    links, weights = window_links(3, 0.0, 1.0, 3.0)
    assert (links.tolist(), weights.tolist()) == ([[0, 1], [1, 2]], [3.0, 3.0])
    assert window_links(1, 10.0, 1.0, 1.0)[0].shape == (0, 2)
