"""Metrics against scikit-learn, SciPy, loops and hand-worked examples, and on empty, constant and missing classes."""

import math
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.metrics import jaccard_score, precision_recall_fscore_support

from stepcut.evaluation import metrics
from stepcut.evaluation.protocols import each_step

labels = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40)


@given(labels)
@settings(max_examples=30, deadline=None)
def test_per_step_agrees_with_scikit_learn(pairs):
    pred, true = map(list, zip(*pairs, strict=True))
    classes = sorted(set(pred) | set(true))
    p, r, f, _ = precision_recall_fscore_support(true, pred, labels=classes, zero_division=0)
    j = jaccard_score(true, pred, labels=classes, average=None, zero_division=0)
    ours = each_step(metrics.count(pred, true, 5, 5), {step: step for step in classes})
    for i, step in enumerate(classes):
        assert ours[step] == pytest.approx((p[i], r[i], f[i], j[i]))


def distance(a, b):
    """Levenshtein's own definition: slow and obvious."""
    if not a or not b:
        return len(a) + len(b)
    return min(
        distance(a[1:], b) + 1, distance(a, b[1:]) + 1, distance(a[1:], b[1:]) + (a[0] != b[0])
    )


@given(st.text("abc", max_size=5), st.text("abc", max_size=5))
def test_levenshtein_agrees_with_its_definition(a, b):
    assert metrics.levenshtein(a, b) == distance(a, b) == metrics.levenshtein(b, a)


def test_edit_kendall_and_edges_by_hand():
    # segments 1 2 3 against 1 3: one deletion over the longer of the two
    assert metrics.edit([1, 1, 2, 3, 3], [1, 1, 1, 0, 3]) == pytest.approx(1 - 1 / 3)
    assert metrics.edit([0, 0], [0, 0]) == 1.0
    assert metrics.edit([1, 1], [0, 0]) == 0.0
    assert metrics.edit([7, 7], [7, 7]) == 1.0
    assert metrics.kendall(["x", "a", "b"], ["b", "y", "a"]) == -1.0
    assert math.isnan(metrics.kendall(["a"], ["a", "b"]))
    found = [("a", "b"), ("b", "c"), ("a", "c")]
    true = [("a", "b"), ("c", "b"), ("a", "c"), ("c", "d")]
    assert metrics.edge_rates(found, true) == pytest.approx((2 / 3, 2 / 4, 4 / 7, 2 / 5))
    assert metrics.edge_rates([], []) == (0.0, 0.0, 0.0, 0.0)


def stretches(labels):
    """(step, its frames) of every segment that is not background."""
    found, at = [], 0
    for step, group in groupby(labels):
        n = len(list(group))
        if step:
            found.append((step, set(range(at, at + n))))
        at += n
    return found


def hits_by_sets(pred, true, overlap):
    """The definition, segment by segment with sets of frames: slow and obvious."""
    actual, taken = stretches(true), set()
    for step, frames in stretches(pred):
        ious = [
            len(frames & other) / len(frames | other) if same == step else 0.0
            for same, other in actual
        ]
        if ious and max(ious) >= overlap and max(ious) > 0:
            taken.add(ious.index(max(ious)))
    return len(taken)


@given(labels)
def test_segment_hits_agree_with_sets_of_frames(pairs):
    pred, true = ([min(value, 2) for value in side] for side in zip(*pairs, strict=True))
    hits, found, actual = metrics.segment_hits(pred, true, [0.1, 0.25, 0.5])
    assert hits == [hits_by_sets(pred, true, overlap) for overlap in (0.1, 0.25, 0.5)]
    assert (found, actual) == (len(stretches(pred)), len(stretches(true)))


@given(st.permutations(range(6)), st.permutations(range(6)))
def test_kendall_agrees_with_scipy(a, b):
    ranks_a, ranks_b = np.argsort(a), np.argsort(b)
    assert metrics.kendall(a, b) == pytest.approx(kendalltau(ranks_a, ranks_b).statistic)
    assert metrics.kendall(a, b) == metrics.kendall(b, a)
