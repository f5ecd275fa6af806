"""Discovery, the chain of states and EM: every part against a slow oracle that is plainly right."""

from itertools import combinations, pairwise, permutations, product

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter1d

from stepcut.errors import AnnotationError, OptionError
from stepcut.methods.constraints import OPEN, Constraint, Transcript
from stepcut.methods.stepcut.chain import build_chain, forward, stride_labels
from stepcut.methods.stepcut.em import ANYTIME, BALANCE, BINS, EM, MOST, WIDTH, Emission, Joined
from stepcut.methods.stepcut.learning import correlated_rows
from stepcut.methods.stepcut.model import motion
from stepcut.methods.stepcut.restarts import (
    agreement,
    choose_count,
    choose_width,
    come_again,
    consensus,
    find_change_points,
    find_segments,
    first_times,
    overlap,
    pairwise_agreement,
    usual_times,
)
from stepcut.methods.stepcut.slow_features import (
    SHRINK,
    centre,
    refined_axes,
    slow_axes,
    smooth,
    soft_normalise,
)

STAY = 0.7
BACK = 2
"""The state of background beside steps 0 and 1."""
ROWS = 6


def fits_transcript(path, script):
    """Whether the steps of a path, repeats of one state apart, are those of the transcript."""
    done = [a for a, _ in zip(path, (*path[1:], -1), strict=True) if _ != a]
    done = [state for state in done if state != BACK and state not in script.anytime]
    for skip in product([True, False], repeat=len(script.optional)):
        dropped = {place for place, gone in zip(sorted(script.optional), skip, strict=True) if gone}
        if done == [step for place, step in enumerate(script.steps) if place not in dropped]:
            return True
    return False


def fits(path, one):
    if one.labels is not None:
        for state, label in zip(path, one.labels, strict=True):
            if label != OPEN and state != (BACK if label == -1 else label):
                return False
    if any(path[row] != step for row, step in one.clicks):
        return False
    if one.clicks and one.complete and one.transcript is None:
        first, last = one.clicks[0], one.clicks[-1]
        if not _in_order(path[: first[0] + 1], [BACK, first[1]]):
            return False
        if not _in_order(path[last[0] :], [last[1], BACK]):
            return False
        for (row, a), (later, b) in pairwise(one.clicks):
            if not _in_order(path[row : later + 1], [a, BACK, b]):
                return False
    return one.transcript is None or fits_transcript(path, one.transcript)


def _in_order(path, states):
    place = 0
    for state in path:
        while place < len(states) and states[place] != state:
            place += 1
        if place == len(states):
            return False
    return True


CONSTRAINTS = {
    "nothing": Constraint(),
    "labels": Constraint(labels=np.array([0, 0, -1, -1, 1, 1])),
    "partial labels": Constraint(labels=np.array([OPEN, 0, OPEN, OPEN, -1, OPEN])),
    "incomplete clicks": Constraint(clicks=((1, 0), (4, 1)), complete=False),
    "complete clicks": Constraint(clicks=((1, 0), (4, 1))),
    "clicks at the ends": Constraint(clicks=((0, 1), (5, 0))),
    "transcript": Constraint(transcript=Transcript((0, 1))),
    "transcript and a click": Constraint(clicks=((3, 1),), transcript=Transcript((0, 1))),
    "optional first step": Constraint(transcript=Transcript((0, 1), optional=frozenset({0}))),
    "optional last step": Constraint(transcript=Transcript((0, 1), optional=frozenset({1}))),
}


def oracle(evidence, one):
    """The share (T, S) of all paths that keep to the constraint, each of equal prior but for stays."""
    total = np.zeros(evidence.shape)
    for path in product(range(evidence.shape[1]), repeat=len(evidence)):
        if fits(path, one):
            weight = np.exp(sum(evidence[row, state] for row, state in enumerate(path)))
            for a, b in pairwise(path):
                weight *= STAY + (1 - STAY) / 3 if a == b else (1 - STAY) / 3
            for row, state in enumerate(path):
                total[row, state] += weight
    return total / total.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("name", ["nothing", "labels", "partial labels", "incomplete clicks"])
def test_where_any_state_may_follow_any_other_it_is_the_sum_over_paths(name):
    evidence = np.random.default_rng(0).normal(size=(ROWS, 3))
    chain = build_chain(CONSTRAINTS[name], ROWS, 3)
    np.testing.assert_allclose(chain.posterior(evidence, STAY), oracle(evidence, CONSTRAINTS[name]))


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_state_is_possible_exactly_where_some_path_that_fits_has_it(name):
    evidence = np.random.default_rng(1).normal(size=(ROWS, 3))
    found = build_chain(CONSTRAINTS[name], ROWS, 3).posterior(evidence, STAY)
    np.testing.assert_array_equal(found > 0, oracle(evidence, CONSTRAINTS[name]) > 0)
    np.testing.assert_allclose(found.sum(axis=1), 1)


@pytest.mark.parametrize("name", ["complete clicks", "clicks at the ends", "transcript"])
def test_a_left_right_chain_is_the_sum_over_paths_of_its_nodes(name):
    evidence = np.random.default_rng(2).normal(size=(ROWS, 3))
    chain = build_chain(CONSTRAINTS[name], ROWS, 3)
    begin, end = chain.ends
    leave = np.bincount(chain.edges[:, 0], minlength=len(chain.states))
    step = {(a, b): (1 - STAY) / leave[a] for a, b in chain.edges.tolist()}
    total = np.zeros((ROWS, 3))
    for path in product(range(len(chain.states)), repeat=ROWS):
        weight = begin[path[0]] * end[path[-1]]
        for a, b in pairwise(path):
            weight *= STAY if a == b else step.get((a, b), 0.0)
        if weight and (not len(chain.allowed) or chain.allowed[range(ROWS), path].all()):
            weight *= np.exp(sum(evidence[row, chain.states[n]] for row, n in enumerate(path)))
            for row, node in enumerate(path):
                total[row, chain.states[node]] += weight
    found = chain.posterior(evidence, STAY)
    np.testing.assert_allclose(found, total / total.sum(axis=1, keepdims=True))


def test_steps_of_any_time_the_forward_pass_and_evidence_of_any_size():
    chain = build_chain(Constraint(transcript=Transcript((0,), anytime=frozenset({1}))), 3, 3)
    evidence = np.zeros((3, 3))
    evidence[0, 1] = evidence[1, 0] = evidence[2, 1] = 50
    assert chain.posterior(evidence, STAY).argmax(axis=1).tolist() == [1, 0, 1]
    evidence[1, 0] = 0
    assert chain.posterior(evidence, STAY)[:, 0].sum() >= 1  # step 0 is done somewhere
    evidence = np.random.default_rng(2).normal(size=(9, 4)) * 3
    free, belief = build_chain(None, 9, 4), None
    for row in range(9):
        belief = forward(belief, evidence[row], 0.9)
        np.testing.assert_allclose(belief, free.posterior(evidence[: row + 1], 0.9)[-1])
    evidence = np.zeros((50, 3))
    evidence[:25, 0], evidence[25:, 2] = 1e6, 1e6
    found = build_chain(None, 50, 3).posterior(evidence, 0.9)
    assert np.isfinite(found).all()
    assert found.argmax(axis=1).tolist() == [0] * 25 + [2] * 25


@pytest.mark.parametrize("one", [
    Constraint(clicks=((0, 1), (3, 0)), transcript=Transcript((0, 1))),
    Constraint(labels=np.array([1, 1, 0, 0, 0, 0]), transcript=Transcript((0, 1))),
    Constraint(labels=np.array([1, 1, 1, 0, 0, 0]), clicks=((1, 0),), complete=False),
])  # fmt: skip
def test_annotations_that_contradict_each_other_are_refused(one):
    with pytest.raises(AnnotationError, match="contradict"):
        build_chain(one, ROWS, 3).posterior(np.zeros((ROWS, 3)), STAY)


def test_clicks_beyond_the_rows_are_refused_and_every_second_label_keeps_a_row():
    with pytest.raises(AnnotationError, match="4 clicks"):
        build_chain(Constraint(clicks=((0, 0), (1, 1), (2, 0), (2, 1))), 3, 3)
    labels = np.array([0, 0, 0, 1, 0, 0, OPEN, OPEN])
    assert stride_labels(labels, 2).tolist() == [0, 1, 0, OPEN]
    assert stride_labels(labels, 1).tolist() == labels.tolist()


STATES, DIM = 3, 4
SETTINGS = {"stay": 0.8, "observation": 2.0, "shortest": 2.0, "prior": 1.5, "origin": 1.0}
SETTINGS["share"] = np.array([0.5, 0.3, 0.2])


def make(seed=0):
    rng = np.random.default_rng(seed)
    videos = [rng.normal(size=(length, DIM)) for length in (1, 7, 30, 12)]
    rows = sum(map(len, videos))
    chains = [build_chain(None, len(one), STATES) for one in videos]
    posterior, trust = rng.dirichlet(np.ones(STATES), size=rows), rng.random(rows)
    return EM(Joined.of(videos), chains, posterior, trust, **SETTINGS)


def maximise_slowly(em):
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
    some, chains = ([all_of[place] for place in (0, 1, 3)] for all_of in (kept, em.chains))
    alone = EM(Joined.of(some), chains, em.posterior[~gone], em.trust[~gone], **SETTINGS)
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
    chosen = {"stay": 0.95, "observation": 1.0, "shortest": 2.0, "prior": 0.0, "isotropic": True}
    chains, chosen["share"] = [build_chain(None, 60, 3)] * 6, np.full(3, 1 / 3)
    em = EM(Joined.of(videos), chains, np.concatenate(bad), np.ones(360), **chosen)
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


@pytest.mark.parametrize("seed", range(5))
def test_change_points_are_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(11, 2))
    shortest, longest, count = 2, 6, 3

    def cost(bounds):
        return sum(((rows[a:b] - rows[a:b].mean(0)) ** 2).sum() for a, b in pairwise(bounds))

    every = [(0, *inner, 11) for inner in combinations(range(1, 11), count - 1)]
    allowed = [b for b in every if all(shortest <= y - x <= longest for x, y in pairwise(b))]
    best = min(allowed, key=cost)
    assert tuple(find_change_points(rows, count, shortest, longest)) == best


@pytest.mark.parametrize("frames", [60, 20_000])
def test_segments_of_a_video_of_any_length_end_where_the_rows_change(frames):
    ends = np.array([0, 0.1, 0.35, 0.5, 0.6, 0.85, 1]) * frames
    rows = np.repeat(np.eye(6), np.diff(ends).astype(int), axis=0)
    assert np.abs(find_segments(rows, 4, shortest=2) - ends).max() <= max(0, frames // 300)


def test_slow_axes_beat_flicker_and_refined_ones_leave_out_what_differs_between_videos():
    rng = np.random.default_rng(3)
    videos = []
    for _ in range(3):
        slow = np.repeat(rng.normal(size=8), 40)
        rows = np.column_stack([slow, *(2 * rng.normal(size=(3, 320)))])
        videos.append(centre(rows))
    axis = slow_axes(videos, 10.0)[:, 0]
    assert abs(axis[0]) > 0.9 * np.linalg.norm(axis)
    # The principal direction would be one of the three that flicker.
    assert videos[0].std(axis=0).argmax() != 0
    rng = np.random.default_rng(4)
    labels = [np.repeat([0, 1, 2], 30) for _ in range(6)]
    videos = []
    for cut in labels:
        particular = np.repeat(rng.normal(size=3), 30)  # as slow as a step, other in every video
        videos.append(centre(np.column_stack([np.array([-1.0, 0.0, 1.0])[cut], particular])))
    axis = refined_axes(videos, labels, 3)[:, 0]
    assert abs(axis[0]) > abs(axis[1])


def test_overlap_agreement_and_consensus():
    a, b = np.array([0, 0, 1, 1, -1]), np.array([1, 1, 1, 0, 0])
    slow = np.zeros((2, 2))
    for i, j in product(range(2), repeat=2):
        slow[i, j] = 2 * sum((a == i) & (b == j)) / (sum(a == i) + sum(b == j))
    assert np.allclose(overlap(a, b, 2), slow)
    best = max(np.mean([slow[i][p[i]] for i in range(2)]) for p in permutations(range(2)))
    assert agreement(a, b, 2) == pytest.approx(best)
    rng = np.random.default_rng(5)
    true = np.repeat(np.arange(4), 25)
    cuts = []
    for _ in range(7):
        noisy = np.where(rng.random(100) < 0.3, rng.integers(0, 4, 100), true)
        cuts.append(rng.permutation(4)[noisy])
    together = consensus(cuts, 4, pairwise_agreement(cuts, 4))
    assert agreement(together, true, 4) > max(agreement(cut, true, 4) for cut in cuts)


def test_first_times_cycles_lengths_and_wide_gaussians():
    rounds = [np.repeat([0, 1, 2, 1, 2, 3, 3], length) for length in (3, 5, 9)]
    assert not come_again(rounds, 4, 1)  # two of four
    assert come_again([*rounds, *(cut[len(cut) // 7 :] for cut in rounds)], 4, 1)  # two of three
    assert not come_again([np.array([0, 0, -1, 0, 0])], 1, 1)  # a pause is no end
    # What is hardly there does not count, but ends a step.
    assert come_again([np.array([0, 0, 1, 0, 0])], 2, 2)
    assert not come_again([np.array([-1])], 2, 1)
    cuts = [np.array([2, 0, 1, 0, 1]), np.array([-1, 0, 1, 0]), np.array([0, 2, 1, 0, 1])]
    np.testing.assert_allclose(first_times(cuts, 4), [0.2, 0.4, 0.1, 1.0])
    rows = soft_normalise(np.array([[10.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), 1.0)
    assert np.allclose(np.linalg.norm(rows, axis=1), [10 / 10.3, 1 / 1.3, 0])
    with pytest.raises(OptionError, match="3 rows cannot be divided into 4 segments"):
        find_change_points(np.zeros((3, 1)), 4)
    rows = np.random.default_rng(0).normal(size=(2000, 3)).cumsum(axis=0)
    np.testing.assert_allclose(smooth(rows, 150), gaussian_filter1d(rows, 150, axis=0), atol=1e-2)
    assert np.isfinite(smooth(np.ones((2, 1)), 1000.0)).all()


def _made(noise, rows):
    rng = np.random.default_rng(7)
    videos = [np.repeat(rng.normal(size=(5, 4)), rows, axis=0) for _ in range(4)]
    return [centre(video + noise * rng.normal(size=video.shape)) for video in videos]


def test_noise_is_smoothed_less_in_many_short_videos_and_steps_are_ordered():
    assert choose_width(_made(3.0, 80), 5) == 20
    little, less = choose_width(_made(0.7, 80), 5), choose_width(_made(0.3, 80), 5)
    # Where smoothing takes n and leaves s, sqrt(n / s): the noise is 0.49, then 0.09, against steps of about 1.
    assert 10 < little < 20
    assert less == pytest.approx(little * 0.3 / 0.7, rel=0.25)
    assert choose_width([np.zeros((400, 4))], 5) == 20
    centres = np.random.default_rng(0).normal(size=(6, 16))
    rows = centre(centres[np.arange(12) // 2]).astype(np.float32)
    assert 0.25 <= choose_width([rows] * 100, 6) <= 0.5
    once = [np.repeat([1, 0, 2], 10)] * 3
    assert usual_times(once, 3, 1).argsort().tolist() == [1, 0, 2]
    cycles = [np.array([2, 0, 1, 2, 0, 1, 2, 0])] * 3
    assert usual_times(cycles, 3, 1).argsort().tolist() == [2, 0, 1]
    assert usual_times([np.array([0, -1])], 2, 1)[1] == 1  # a step that nobody shows comes last


@pytest.mark.parametrize(("lengths", "rate", "limits", "low", "high"), [
    ([60] * 3, 1.0, None, 5, 7),
    ([900] * 3, 1.0, None, 12, 16),
    ([60], 0.5, None, 7, 8),
    ([120], 1.0, None, 7, 8),
    ([5], 1.0, None, 3, 3),
    ([1, 1], 1.0, None, 2, 2),  # never more than there are rows
    ([60] * 3, 1.0, (8, 12), 8, 8),
])  # fmt: skip
def test_the_usual_number_of_steps_grows_slowly_with_the_length(lengths, rate, limits, low, high):
    count, why = choose_count(lengths, rate, limits)
    assert low <= count <= high
    assert why.startswith(f"{count} steps")
