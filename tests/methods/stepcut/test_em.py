"""EM: the M-step and the E-step against plain loops, and what they are for."""

import numpy as np
import pytest

from stepcut.methods.stepcut.chain import build_chain
from stepcut.methods.stepcut.em import ANYTIME, BALANCE, BINS, EM, MOST, WIDTH, Emission, Joined
from stepcut.methods.stepcut.learning import correlated_rows
from stepcut.methods.stepcut.model import motion
from stepcut.methods.stepcut.slow_features import SHRINK

STATES, DIM = 3, 4
SETTINGS = {"stay": 0.8, "observation": 2.0, "shortest": 2.0, "prior": 1.5, "origin": 1.0}
SETTINGS["share"] = np.array([0.5, 0.3, 0.2])


def make(seed=0):
    rng = np.random.default_rng(seed)
    videos = [rng.normal(size=(length, DIM)) for length in (1, 7, 30, 12)]
    rows = sum(map(len, videos))
    return EM(
        Joined.of(videos),
        [build_chain(None, len(one), STATES) for one in videos],
        rng.dirichlet(np.ones(STATES), size=rows),
        rng.random(rows),
        **SETTINGS,
    )


def maximise_slowly(em):
    """Row by row, state by state."""
    videos = em.videos.split(np.arange(len(em.videos.rows)))
    means, times = np.zeros((STATES, DIM)), [[] for _ in range(STATES)]
    within, total = np.zeros((DIM, DIM)), 0.0
    for state in range(STATES):
        weight = em.origin if state == STATES - 1 else 0.0
        for rows in videos:
            lasts = max(em.posterior[rows, state].sum(), em.shortest)
            for row in rows:
                once = em.trust[row] * em.posterior[row, state] / lasts
                means[state] += once * em.videos.rows[row]
                weight += once
                times[state].append((once, em.videos.times[row]))
        means[state] /= weight
    for row in range(len(em.videos.rows)):
        for state in range(STATES):
            share = em.trust[row] * em.posterior[row, state]
            off = em.videos.rows[row] - means[state]
            within += share * np.outer(off, off)
            total += share
    within /= total
    inverse = np.linalg.inv(within + SHRINK * np.trace(within) / DIM * np.eye(DIM))
    clock = np.zeros((BINS, STATES))
    middles = (np.arange(BINS) + 0.5) / BINS
    for state in range(STATES):
        for once, time in times[state]:
            middle = middles[min(int(time * BINS), BINS - 1)]
            clock[:, state] += once * np.exp(-((middles - middle) ** 2) / (2 * WIDTH**2))
        density = clock[:, state] * BINS / clock[:, state].sum()
        clock[:, state] = em.prior * np.log((1 - ANYTIME) * density + ANYTIME)
    bias = np.array([-0.5 * mean @ inverse @ mean for mean in means])
    return Emission(inverse @ means.T, bias, clock)


def test_the_m_step_is_that_of_a_plain_loop_also_without_some_rows():
    em = make()
    fast, slow = em.maximise(), maximise_slowly(em)
    np.testing.assert_allclose(fast.weights, slow.weights, atol=1e-9)
    np.testing.assert_allclose(fast.bias, slow.bias, atol=1e-9)
    np.testing.assert_allclose(fast.timing, slow.timing, atol=1e-9)
    em = make()
    gone = em.videos.video == 2
    kept = em.videos.split(em.videos.rows)
    alone = EM(
        Joined.of([rows for place, rows in enumerate(kept) if place != 2]),
        [em.chains[place] for place in (0, 1, 3)],
        em.posterior[~gone],
        em.trust[~gone],
        **SETTINGS,
    )
    np.testing.assert_allclose(em.maximise(gone).weights, alone.maximise().weights)


def test_the_e_step_is_forward_backward_with_a_bonus_for_what_is_rare():
    em = make()
    emission = em.maximise()
    bonus = np.zeros((4, STATES))
    for _ in range(3):
        em.expect(emission)
        posteriors = []
        for place, rows in enumerate(em.videos.split(em.videos.rows)):
            times = (np.arange(len(rows)) + 0.5) / len(rows)
            clock = emission.timing[np.minimum((times * BINS).astype(int), BINS - 1)]
            evidence = rows @ emission.weights + emission.bias + clock + em.prior * bonus[place]
            posteriors.append(em.chains[place].posterior(evidence / em.observation, em.stay))
            lasts = posteriors[-1].mean(axis=0)
            rare = np.log((em.share + 1e-3) / (lasts + 0.1 * em.share + 1e-3))
            bonus[place] = np.clip(bonus[place] + BALANCE * rare, -MOST, MOST)
        np.testing.assert_allclose(em.posterior, np.concatenate(posteriors))


def test_em_moves_a_bad_start_to_the_steps():
    rng = np.random.default_rng(7)
    true = [np.repeat(rng.permutation(3), 20) for _ in range(6)]
    videos = [np.eye(3)[cut] + 0.3 * rng.normal(size=(60, 3)) for cut in true]
    bad = [np.eye(3)[np.where(rng.random(60) < 0.5, rng.integers(0, 3, 60), cut)] for cut in true]
    em = EM(
        Joined.of(videos),
        [build_chain(None, 60, 3)] * 6,
        np.concatenate(bad),
        np.ones(360),
        stay=0.95,
        observation=1.0,
        shortest=2.0,
        share=np.full(3, 1 / 3),
        prior=0.0,
        isotropic=True,
    )
    em.run(10)
    assert (em.posterior.argmax(axis=1) == np.concatenate(true)).mean() > 0.95


def test_time_decides_between_look_alikes_and_motion_is_a_difference():
    early, late = np.log([1.9, 0.1]), np.log([0.1, 1.9])
    clock = np.array([early] * (BINS // 2) + [late] * (BINS - BINS // 2))
    emission = Emission(20 * np.eye(2), np.array([-10.0, -10.0]), clock)
    rows = np.array([[1.0, 0.0], [0.5, 0.5]])
    seen = emission.evidence(rows, np.array([0.99, 0.99]), 1.0)
    assert seen[0, 0] > seen[0, 1]
    assert seen[1, 1] > seen[1, 0]
    rows = np.array([[0.0], [1.0], [3.0], [6.0]])
    np.testing.assert_array_equal(motion(rows, 1), [[1.0], [3.0], [5.0], [3.0]])
    np.testing.assert_array_equal(motion(rows, 9), [[6.0]] * 4)


def test_rows_repeated_count_as_many_rows_per_observation():
    rng = np.random.default_rng(0)
    steps = [np.repeat(rng.normal(size=(8, 5)), 6, axis=0) for _ in range(3)]
    videos = [one + 0.1 * rng.normal(size=one.shape) for one in steps]
    once = correlated_rows(videos, 12)
    often = correlated_rows([np.repeat(one, 4, axis=0) for one in videos], 48)
    assert once > 1
    assert often == pytest.approx(4 * once, rel=0.05)
    noise = [rng.normal(size=(400, 5))]
    assert correlated_rows(noise, 20) <= 1
    assert correlated_rows([np.ones((1, 5))], 20) > 0
