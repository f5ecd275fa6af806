"""Discovery without labels: every part against a slow oracle that is plainly right."""

from itertools import combinations, pairwise, permutations

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter1d

from stepcut.errors import OptionError
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
    centre,
    refined_axes,
    slow_axes,
    smooth,
    soft_normalise,
)


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
    slow = [
        [2 * sum((a == i) & (b == j)) / (sum(a == i) + sum(b == j)) for j in range(2)]
        for i in range(2)
    ]
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


def test_noisy_features_are_smoothed_over_a_quarter_of_a_step_and_many_short_videos_over_less():
    assert choose_width(_made(3.0, 80), 5) == 20
    little, less = choose_width(_made(0.7, 80), 5), choose_width(_made(0.3, 80), 5)
    # Where smoothing takes n and leaves s, sqrt(n / s): the noise is 0.49, then 0.09, against steps of about 1.
    assert 10 < little < 20
    assert less == pytest.approx(little * 0.3 / 0.7, rel=0.25)
    assert choose_width([np.zeros((400, 4))], 5) == 20
    centres = np.random.default_rng(0).normal(size=(6, 16))
    rows = centre(centres[np.arange(12) // 2]).astype(np.float32)
    assert 0.25 <= choose_width([rows] * 100, 6) <= 0.5


def test_steps_that_come_once_are_ordered_by_their_mean_time_and_cycles_by_their_first():
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
