"""Consensus: what many segmentations of the same videos have in common."""

from collections.abc import Sequence
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.arithmetic import Floats
from stepcut.methods.inputs import Labels
from stepcut.timeline import runs


def overlap(a: Labels, b: Labels, steps: int) -> Floats:
    """F1 between every step of labels `a` and every step of labels `b`: (K, K); -1 (background) is in neither."""
    both = (a >= 0) & (b >= 0)
    counts = np.zeros((steps, steps))
    np.add.at(counts, (a[both], b[both]), 1)
    total = np.bincount(a[a >= 0], minlength=steps)[:, None] + np.bincount(
        b[b >= 0], minlength=steps
    )
    return np.asarray(2 * counts / np.maximum(total, 1))


def agreement(a: Labels, b: Labels, steps: int) -> float:
    """How alike two segmentations are, 0 to 1: mean F1 when every step of one is paired with one of the other."""
    gain = overlap(a, b, steps)
    return float(gain[pair_steps(gain)].mean())


def pairwise_agreement(segmentations: Sequence[Labels], steps: int) -> Floats:
    """(n, n): the agreement of each segmentation (T,) with each."""
    alike = np.eye(len(segmentations))
    for (i, one), (j, other) in combinations(enumerate(segmentations), 2):
        alike[i, j] = alike[j, i] = agreement(one, other, steps)
    return alike


def consensus(segmentations: Sequence[Labels], steps: int, alike: Floats) -> Labels:
    """(T,): the step with most votes, once all segmentations (T,) number their steps alike.

    They are numbered after the segmentation most like all others, by their pairwise agreement `alike` (n, n), then
    after the vote of all, up to five times.
    """
    common = segmentations[int(np.argmax(alike.sum(axis=1)))]
    for _ in range(5):
        votes = np.zeros((len(common), steps))
        for one in segmentations:
            rows, columns = pair_steps(overlap(common, one, steps))
            number = np.empty(steps, dtype=np.int64)
            number[columns] = rows
            votes[np.arange(len(one)), number[one]] += 1
        before, common = common, votes.argmax(axis=1)
        if (before == common).all():
            break
    return common


def come_again(segmentations: Sequence[Sequence[Labels]], steps: int, shortest: float) -> bool:
    """Whether most steps that a video shows for `shortest` rows come more than once there.

    `segmentations` are several of the labels of all videos.
    """
    again: list[bool] = []
    for numbers in chain.from_iterable(segmentations):
        done = runs(numbers[numbers >= 0])[:, 0]
        lasts = np.bincount(numbers[numbers >= 0], minlength=steps)
        again += (np.bincount(done, minlength=steps)[lasts >= shortest] > 1).tolist()
    return sum(again) > len(again) / 2


def first_times(labels: Sequence[Labels], steps: int) -> Floats:
    """When each step first comes, (K,): the median, over the videos that show it, of its first normalised time; or 1.

    In cyclic tasks all steps have the same mean time; their first times give the order within a cycle.
    """
    first = [
        [np.argmax(numbers == step) / len(numbers) for numbers in labels if (numbers == step).any()]
        for step in range(steps)
    ]
    return np.array([np.median(times) if times else 1.0 for times in first])


def pair_steps(gain: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns of `gain` (n, m), each row paired with one column so that the sum is highest."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(-gain)
    return rows, columns
