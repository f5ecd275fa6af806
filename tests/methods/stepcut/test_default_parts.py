"""Every part of the default method against a slow oracle that is plainly right."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise, permutations, product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from stepcut.errors import OptionError
from stepcut.methods.arithmetic import normalised_times
from stepcut.methods.stepcut.change_points import find_change_points
from stepcut.methods.stepcut.consensus import (
    agreement,
    come_again,
    common_energy,
    consensus,
    first_times,
    overlap,
    silhouette,
    time_regularity,
)
from stepcut.methods.stepcut.em import Joined, Steps, estimate, log_likelihood, run_em
from stepcut.methods.stepcut.forward_backward import forward, forward_backward
from stepcut.methods.stepcut.found import Found, found_of_labels, leave_one_out
from stepcut.methods.stepcut.restarts import Search, choose_sigma, count_segments
from stepcut.methods.stepcut.slow_features import (
    centre,
    refined_axes,
    slow_axes,
    smooth,
    soft_normalise,
)
from stepcut.methods.stepcut.step_count import score_counts, usual_count

LIKE = Found(
    np.zeros((2, 4)),
    np.zeros(2),
    1.0,
    plane=np.eye(4),
    norm=1.0,
    sigma=0.0,
    prior=2.0,
    background=0.7,
)
"""Any model of two steps, with the settings of others."""


@pytest.mark.parametrize("seed", range(5))
def test_change_points_are_the_best_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(11, 2))
    shortest, longest, count = 2, 6, 3

    def cost(bounds: tuple[int, ...]) -> float:
        return sum(((rows[a:b] - rows[a:b].mean(0)) ** 2).sum() for a, b in pairwise(bounds))

    every = [
        (0, *inner, 11)
        for inner in combinations(range(1, 11), count - 1)
        if all(shortest <= b - a <= longest for a, b in zip((0, *inner), (*inner, 11), strict=True))
    ]
    best = min(every, key=cost)
    assert tuple(find_change_points(rows, count, shortest, longest)) == best


def test_change_points_that_cannot_be_are_refused() -> None:
    with pytest.raises(OptionError, match="3 rows cannot be cut into 4 segments"):
        find_change_points(np.zeros((3, 1)), 4)


def test_smoothed_is_the_sum_over_all_paths() -> None:
    rng = np.random.default_rng(1)
    seen, stay = rng.normal(size=(5, 3)) * 2, 0.7
    total = np.zeros((5, 3))
    for path in product(range(3), repeat=5):
        weight = np.exp(sum(seen[t, k] for t, k in enumerate(path))) / 3
        for a, b in pairwise(path):
            weight *= stay * (a == b) + (1 - stay) / 3
        for t, k in enumerate(path):
            total[t, k] += weight
    assert np.allclose(forward_backward(seen, stay), total / total.sum(axis=1, keepdims=True))


def test_forward_ends_where_forward_backward_ends() -> None:
    rng = np.random.default_rng(2)
    seen = rng.normal(size=(9, 4)) * 3
    belief = None
    for t in range(9):
        belief = forward(belief, seen[t], 0.9)
        assert np.allclose(belief, forward_backward(seen[: t + 1], 0.9)[-1])


def test_smoothed_stands_evidence_of_any_size() -> None:
    seen = np.zeros((50, 3))
    seen[:25, 0], seen[25:, 2] = 1e6, 1e6
    shares = forward_backward(seen)
    assert np.isfinite(shares).all()
    assert shares.argmax(axis=1).tolist() == [0] * 25 + [2] * 25


def test_slow_axes_find_what_is_slow_under_strong_flicker() -> None:
    rng = np.random.default_rng(3)
    videos = []
    for _ in range(3):
        slow = np.repeat(rng.normal(size=8), 40)
        rows = np.column_stack([slow, *(2 * rng.normal(size=(3, 320)))])
        videos.append(centre(rows))
    axis = slow_axes(videos, 10.0, 1)[:, 0]
    assert abs(axis[0]) > 0.9 * np.linalg.norm(axis)
    # The principal direction would be one of the three that flicker.
    assert videos[0].std(axis=0).argmax() != 0


def test_refined_axes_leave_out_what_differs_between_videos() -> None:
    rng = np.random.default_rng(4)
    labels = [np.repeat([0, 1, 2], 30) for _ in range(6)]
    videos = []
    for cut in labels:
        particular = np.repeat(rng.normal(size=3), 30)  # as slow as a step, other in every video
        videos.append(centre(np.column_stack([np.array([-1.0, 0.0, 1.0])[cut], particular])))
    axis = refined_axes(videos, labels, 3, 1)[:, 0]
    assert abs(axis[0]) > abs(axis[1])


def test_a_video_is_seen_beside_others_that_show_no_step_at_all() -> None:
    rng = np.random.default_rng(0)
    slow = [rng.normal(size=(40, 6)), rng.normal(size=(30, 6))]
    labels = [np.repeat([0, 1], 20), np.full(30, -1)]
    seen = leave_one_out(slow, labels, LIKE, None)
    for cut, share, novelty, rows in zip(
        seen.labels, seen.probabilities, seen.novelty, slow, strict=True
    ):
        assert np.isfinite(share).all()
        assert np.isfinite(novelty).all()
        assert len(cut) == len(rows)


def test_a_step_that_one_video_alone_shows_leaves_its_other_steps_what_they_are() -> None:
    """Left out, it is cut by steps one of which no other video shows: that one is nowhere, and all else as it was."""
    rng = np.random.default_rng(0)
    looks = np.eye(6)[:5]
    labels = [np.repeat([0, 1, 2, 3], 20) for _ in range(4)] + [np.repeat([0, 1, 4, 2, 3], 20)]
    videos = [centre(looks[cut] + 0.2 * rng.normal(size=(len(cut), 6))) for cut in labels]
    like = replace(LIKE, centres=np.zeros((5, 4)), times=np.zeros(5), sigma=1.0)
    seen = leave_one_out(videos, labels, like, None)
    shared = labels[4] != 4
    assert (seen.labels[4] == labels[4])[shared].mean() > 0.9
    assert not (seen.labels[4] == 4).any()
    assert seen.looks is not None
    assert [len(centres) for _, centres in seen.looks] == [5, 5, 5, 5, 4]


@pytest.mark.parametrize("videos", [5, 45])
def test_no_video_is_judged_by_itself_and_many_are_left_out_in_groups(videos: int) -> None:
    rng = np.random.default_rng(8)
    slow = [rng.normal(size=(12, 4)) for _ in range(videos)]
    labels = [np.repeat([0, 1], 6)] * videos
    before = [centres for _, centres in leave_one_out(slow, labels, LIKE, None).looks]
    slow[3] = slow[3] * 5 + rng.normal(size=(12, 4))
    after = [centres for _, centres in leave_one_out(slow, labels, LIKE, None).looks]
    assert [place for place in range(videos) if np.array_equal(before[place], after[place])] == [
        *range(3, videos, 20)
    ]
    assert len({centres.tobytes() for centres in after}) == min(videos, 20)


def test_other_videos_are_embedded_by_what_was_learned_without_one() -> None:
    rng = np.random.default_rng(3)
    videos = [centre(rng.normal(size=(40, 4))) for _ in range(5)]
    labels, sigma = [np.repeat([0, 1], 20)] * 5, 1.5

    def embedded(kept: NDArray[np.int64] | None) -> list[NDArray[np.float64]]:
        embed = leave_one_out(videos, labels, replace(LIKE, sigma=sigma), None).of([4, 1, 3]).embed
        assert embed is not None
        return [
            embed(4, 1, kept),
            embed(3, 1, kept),
        ]  # without videos 4 and 3, each a group of its own

    half = np.arange(20)
    for kept in (None, half):
        model = found_of_labels([smooth(one, sigma) for one in videos[:4]], labels[:4], LIKE)
        by_hand = model.view(smooth(videos[1] if kept is None else centre(videos[1][kept]), sigma))
        np.testing.assert_allclose(embedded(kept)[0], by_hand, atol=1e-12)
    before = embedded(half)
    videos[4] = videos[4] * 3 + rng.normal(size=(40, 4))
    after = embedded(half)
    assert [np.array_equal(one, other) for one, other in zip(before, after, strict=True)] == [
        True,
        False,
    ]


def test_overlap_and_agreement() -> None:
    a, b = np.array([0, 0, 1, 1, -1]), np.array([1, 1, 1, 0, 0])
    slow = [
        [2 * sum((a == i) & (b == j)) / (sum(a == i) + sum(b == j)) for j in range(2)]
        for i in range(2)
    ]
    assert np.allclose(overlap(a, b, 2), slow)
    best = max(np.mean([slow[i][p[i]] for i in range(2)]) for p in permutations(range(2)))
    assert agreement(a, b, 2) == pytest.approx(best)


def test_consensus_whatever_their_numbers() -> None:
    rng = np.random.default_rng(5)
    true = np.repeat(np.arange(4), 25)
    cuts = []
    for _ in range(7):
        noisy = np.where(rng.random(100) < 0.3, rng.integers(0, 4, 100), true)
        cuts.append(rng.permutation(4)[noisy])
    votes = consensus(cuts, 4)
    assert agreement(votes.argmax(axis=1), true, 4) > max(agreement(cut, true, 4) for cut in cuts)


def test_silhouette_prefers_the_true_cut() -> None:
    rng = np.random.default_rng(6)
    true = [np.repeat([0, 1, 2], [10, 60, 10]) for _ in range(4)]
    places = np.eye(3)
    videos = [places[cut] + 0.2 * rng.normal(size=(80, 3)) for cut in true]
    # The long step split in two, the two short ones taken together: smaller squared error per frame is not the aim.
    split = [np.where(cut == 1, np.where(np.arange(80) < 40, 1, 2), 0) for cut in true]
    assert silhouette(videos, true, 3, 3) > silhouette(videos, split, 3, 3)
    assert silhouette(videos, [np.zeros(80, dtype=np.int64)] * 4, 1, 3) == -1


def test_time_regularity_is_one_for_a_fixed_order_and_nothing_for_any_order() -> None:
    fixed = [np.repeat([0, 1, 2, 3], length) for length in (3, 5, 9)]
    assert time_regularity(fixed, 4, 1) == pytest.approx(1)
    free = [np.repeat(order, 4) for order in permutations(range(4))]
    assert time_regularity(free, 4, 1) == pytest.approx(0, abs=1e-9)
    one_late = [*fixed, np.repeat([1, 2, 3, 0], 4)]
    assert 0.2 < time_regularity(one_late, 4, 1) < 1


def test_whether_most_steps_come_again() -> None:
    rounds = [np.repeat([0, 1, 2, 1, 2, 3, 3], length) for length in (3, 5, 9)]
    assert not come_again([rounds], 4, 1)  # two of four
    assert come_again([rounds, [cut[len(cut) // 7 :] for cut in rounds]], 4, 1)  # and two of three
    assert not come_again([[np.array([0, 0, -1, 0, 0])]], 1, 1)  # a pause is no end
    assert come_again(
        [[np.array([0, 0, 1, 0, 0])]], 2, 2
    )  # what is hardly there does not count, but ends a step
    assert not come_again([[np.array([-1])]], 2, 1)


def test_what_videos_have_in_common_is_that_of_a_plain_loop() -> None:
    rng = np.random.default_rng(0)
    videos = [rng.normal(size=(rows, 3)) for rows in (7, 4, 9)]
    labels = [rng.integers(-1, 3, len(rows)) for rows in videos]
    common = 0.0
    for mine, (rows, cut) in enumerate(zip(videos, labels, strict=True)):
        for row, step in zip(rows, cut, strict=True):
            others = [videos[n][labels[n] == step] for n in range(3) if n != mine]
            if step >= 0 and sum(map(len, others)):
                common += row @ np.concatenate(others).mean(axis=0)
    whole = sum(float((rows**2).sum()) for rows in videos)
    assert common_energy(videos, labels, 3) == pytest.approx(common / whole)
    assert common_energy([np.zeros((2, 3))] * 2, [np.zeros(2, dtype=np.int64)] * 2, 1) == 0


def test_noise_has_nothing_in_common_and_what_all_show_is_all_of_it() -> None:
    rng = np.random.default_rng(0)
    labels = [np.repeat([0, 1], 200)] * 3
    assert common_energy([rng.normal(size=(400, 4)) for _ in labels], labels, 2) == pytest.approx(
        0, abs=0.01
    )
    assert common_energy(
        [np.where(cut[:, None] == 0, 1.0, -1.0) for cut in labels], labels, 2
    ) == pytest.approx(1)


def test_when_steps_first_come() -> None:
    cuts = [np.array([2, 0, 1, 0, 1]), np.array([-1, 0, 1, 0]), np.array([0, 2, 1, 0, 1])]
    np.testing.assert_allclose(first_times(cuts, 4), [0.2, 0.4, 0.1, 1.0])


def edge_videos(edges: bool, seed: int = 0) -> list[NDArray[np.float64]]:
    """Six centred videos of 480 rows: of eight looks in turn, 20 rows each, or of what wanders, slowly and fast; with a
    little noise."""
    rng = np.random.default_rng(seed)
    looks, videos = rng.normal(size=(8, 16)), []
    for _ in range(6):
        scales = [np.exp(-1 / rows) for rows in (2, 4, 8, 16, 32)]
        wander = sum(
            lfilter([np.sqrt(1 - a * a)], [1, -a], rng.normal(size=(480, 16)), axis=0)
            for a in scales
        )
        rows = np.repeat(looks[np.arange(24) % 8], 20, axis=0) if edges else wander
        videos.append(centre(rows + 0.3 * rng.normal(size=(480, 16))))
    return videos


def test_segments_with_edges_are_as_many_however_little_is_smoothed() -> None:
    search, videos = Search(count=8, sigma=15.0), edge_videos(edges=True)
    width = search.find_edges(videos)
    assert width == 15 / 2
    for narrow in (width, width / 4):
        found = replace(search, sigma=narrow).probe_quickly(videos)
        assert count_segments(found) == pytest.approx(6 * 24, rel=0.05)
    assert search.find_edges([centre(rows[: 8 * 20]) for rows in videos]) is None  # each comes once
    assert search.find_edges(edge_videos(edges=False)) is None
    assert Search(count=8, sigma=1.4).find_edges(videos) is None  # nothing narrower is tried


def test_time_regularity_of_steps_that_no_two_videos_share_is_nothing() -> None:
    assert time_regularity([np.array([0, 0]), np.array([1, 1])], 2, 1) == 0
    assert time_regularity([np.array([-1, -1])], 2, 1) == 0
    assert (
        time_regularity([np.array([0, 0, 1]), np.array([0, 0, 0])], 2, 2) == 0
    )  # a step of one row is not there


def test_estimate_counts_every_video_once() -> None:
    videos = [np.full((100, 1), 1.0), np.full((10, 1), 3.0)]
    steps = estimate(Joined.of(videos), np.ones((110, 1)), 2)
    assert steps.centres[0, 0] == pytest.approx(2.0)
    assert steps.times[0] == pytest.approx(0.5)


def test_em_over_all_rows_at_once_is_em_video_by_video() -> None:
    def estimate_slowly(shares: list[NDArray[np.float64]]) -> Steps:
        centres, times, off = np.zeros((3, 4)), np.zeros(3), 0.0
        for step in range(3):
            own = [
                share[:, step] / max(share[:, step].sum(), 2.0) for share in shares
            ]  # two rows count fully
            weight = sum(one.sum() for one in own)
            centres[step] = sum(one @ rows for one, rows in zip(own, videos, strict=True)) / weight
            times[step] = sum(one @ clock for one, clock in zip(own, clocks, strict=True)) / weight
            for rows, share in zip(videos, shares, strict=True):
                off += sum(
                    part * ((row - centres[step]) ** 2).sum()
                    for row, part in zip(rows, share[:, step], strict=True)
                )
        return Steps(centres, times, off / sum(share.sum() for share in shares) / 4)

    rng = np.random.default_rng(3)
    videos = [rng.normal(size=(length, 4)) for length in (1, 7, 30, 12, 25)]
    clocks = [normalised_times(len(rows)) for rows in videos]
    starts = [rng.dirichlet(np.ones(3), size=len(rows)) for rows in videos]
    bonus, shares = np.zeros((5, 3)), starts
    for _ in range(4):
        steps = estimate_slowly(shares)
        seen = [
            log_likelihood(rows, clock, steps, 2.0, 0.7)
            for rows, clock in zip(videos, clocks, strict=True)
        ]
        extra = np.column_stack([bonus, np.zeros(5)])  # none for background
        shares = [forward_backward(rows + extra[video])[:, :3] for video, rows in enumerate(seen)]
        for video, share in enumerate(shares):
            wanted = max(share.sum(), 1) / 3
            bonus[video] = (
                bonus[video] + 0.2 * np.log(wanted / (share.sum(axis=0) + 0.01 * wanted))
            ).clip(-3, 3)
    joined = Joined.of(videos)
    found, at_once = run_em(joined, np.concatenate(starts), 4, 2.0, 0.7, 2.0, 0.2)
    assert all(map(np.allclose, joined.split(at_once), shares))
    slowly = estimate_slowly(shares)
    assert np.allclose(found.centres, slowly.centres)
    assert np.allclose(found.times, slowly.times)
    assert found.spread == pytest.approx(slowly.spread)


def test_the_prior_never_forbids_a_step() -> None:
    steps = Steps(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0.1, 0.9]), 0.05)
    late = np.array([[1.0, 0.0]])
    seen = log_likelihood(late, np.array([0.99]), steps, 2.0, 0.0)
    assert seen[0, 0] > seen[0, 1]  # looks like step 0 at the time of step 1: step 0, done late
    alike = log_likelihood(np.array([[0.5, 0.5]]), np.array([0.99]), steps, 2.0, 0.0)
    assert alike[0, 1] > alike[0, 0]  # looks like both: the time decides


def test_background_is_nearer_to_nothing_than_to_any_step() -> None:
    steps = Steps(np.array([[1.0, 0.0]]), np.array([0.5]), 0.05)
    rows = np.array([[0.9, 0.1], [-0.9, 0.1], [0.2, 0.9]])
    seen = log_likelihood(rows, np.full(3, 0.5), steps, 0.0, 2 / 3)
    assert seen.argmax(axis=1).tolist() == [0, 1, 1]


def test_learning_moves_a_bad_start_to_the_steps() -> None:
    rng = np.random.default_rng(7)
    true = [np.repeat(rng.permutation(3), 20) for _ in range(6)]
    videos = [np.eye(3)[cut] + 0.3 * rng.normal(size=(60, 3)) for cut in true]
    bad = [np.eye(3)[np.where(rng.random(60) < 0.5, rng.integers(0, 3, 60), cut)] for cut in true]
    _, shares = run_em(Joined.of(videos), np.concatenate(bad), 10, 0.0, 0.0, 2.0)
    assert agreement(shares.argmax(axis=1), np.concatenate(true), 3) > 0.95


def test_the_usual_number_of_steps_grows_slowly_with_the_length() -> None:
    minute, quarter = ([np.zeros((seconds, 1))] * 3 for seconds in (60, 900))
    assert 5 <= usual_count(minute, 1.0) <= 7
    assert 12 <= usual_count(quarter, 1.0) <= 16
    assert usual_count(minute, 0.5) == pytest.approx(usual_count([np.zeros((120, 1))], 1.0))
    assert usual_count([np.zeros((1, 1))], 1.0) == 3


def test_the_score_of_a_number_doubts_what_is_unusual() -> None:
    scores = score_counts(np.array([5.0, 10.0, 20.0]), np.array([0.4, 0.4, 0.4]), 10.0)
    assert scores.argmax() == 1
    assert scores[0] == pytest.approx(scores[2])
    sharp = score_counts(np.array([9.0, 10.0]), np.array([0.5, 0.3]), 10.0)
    assert sharp.argmax() == 0


def test_soft_normalise_keeps_short_rows_short() -> None:
    rows = soft_normalise(np.array([[10.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), 1.0)
    assert np.allclose(np.linalg.norm(rows, axis=1), [10 / 10.3, 1 / 1.3, 0])


def test_smoothing_a_short_video_is_its_mean_at_most() -> None:
    assert np.isfinite(smooth(np.ones((2, 1)), 1000.0)).all()


def _made(noise: float, rows: int) -> list[np.ndarray]:
    """Five steps of so many rows each, and noise on every row."""
    rng = np.random.default_rng(7)
    videos = [np.repeat(rng.normal(size=(5, 4)), rows, axis=0) for _ in range(4)]
    return [centre(video + noise * rng.normal(size=video.shape)) for video in videos]


def test_noisy_features_are_smoothed_over_a_quarter_of_a_step_and_others_over_less() -> None:
    assert choose_sigma(_made(3.0, 80), 5, 0.7) == 20
    little, less = choose_sigma(_made(0.7, 80), 5, 0.7), choose_sigma(_made(0.3, 80), 5, 0.7)
    # Where smoothing takes n and leaves s, sqrt(n / s): the noise is 0.49, then 0.09, against steps of about 1.
    assert 10 < little < 20
    assert less == pytest.approx(little * 0.3 / 0.7, rel=0.25)
    assert choose_sigma([np.zeros((400, 4))], 5, 0.7) == 20


def test_where_half_is_background_steps_are_half_as_long() -> None:
    videos = _made(0.7, 80)
    assert choose_sigma(videos, 5, 1.0) == pytest.approx(choose_sigma(videos, 5, 0.0) / 2)
