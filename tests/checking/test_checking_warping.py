"""Warping: the distance is that of the best path, and highest where a video deviates."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from stepcut.checking.calibrate import learn_expectations
from stepcut.checking.check import check_labels
from stepcut.checking.expectations import Expectations
from stepcut.checking.rules import Severity
from stepcut.checking.usual import FINE, SLICES, Slices, align_slices, slice_video
from stepcut.errors import ProcedureError
from stepcut.methods.method import LeftOut

LOOKS = np.eye(8)
"""Embedding of each step."""


def sliced(steps):
    """One slice per step."""
    return Slices(LOOKS[steps] * FINE, np.array(steps))


def slowly_apart(cost):
    """Mean cost of the best path, by exhaustive search."""

    @cache
    def paths(i, j):
        if i < 0 or j < 0:
            return []
        if i == j == 0:
            return [(float(cost[0, 0]), 1)]
        before = [*paths(i - 1, j - 1), *paths(i - 1, j), *paths(i, j - 1)]
        return [(total + float(cost[i, j]), length + 1) for total, length in before]

    n, m = cost.shape
    total, length = min(paths(n - 1, m - 1))
    return total / length


def test_the_distance_is_that_of_the_best_path():
    rng = np.random.default_rng(0)
    for n, m in [(1, 1), (1, 4), (5, 2), (5, 5), (6, 4)]:
        made = [rng.normal(size=(size, 3)) for size in (n, m)]
        units = [(rows / np.linalg.norm(rows, axis=1)[:, None] * FINE).round() for rows in made]
        one, other = (Slices(rows, np.zeros(len(rows), dtype=int)) for rows in units)
        laid = align_slices(one, [other])
        slowly = slowly_apart(1 - one.rows @ other.rows.T / FINE**2)
        assert laid.apart == pytest.approx(np.log(slowly))
        assert laid.along.shape == (n,)


def test_steps_that_may_be_left_out_or_come_at_any_time_do_not_set_it_apart():
    whole, short, moved = sliced([0, 1, 2, 3]), sliced([0, 1, 3]), sliced([2, 0, 1, 3])
    same = align_slices(whole, [whole]).apart
    assert align_slices(short, [whole]).apart > same
    assert align_slices(short, [whole], optional=[2]).apart == same
    assert align_slices(whole, [short, short], optional=[2]).apart > same  # it is not left out here
    assert align_slices(moved, [whole]).apart > same
    laid = align_slices(moved, [whole], free=[2])
    assert laid.apart == same
    assert laid.along.tolist() == [0, 0, 0, 0]
    # Nothing is left to compare.
    assert align_slices(sliced([2, 2]), [whole], free=[2]).apart == 0.0


def test_slices_have_their_means_and_the_nearer_half_of_the_others_counts():
    rng = np.random.default_rng(1)
    for rows in (1, 7, SLICES, SLICES + 1, 333):
        embedding, labels = rng.normal(size=(rows, 4)), rng.integers(-1, 3, rows)
        made = slice_video(embedding, labels)
        assert made.rows.shape == (SLICES, 4)
        for place in (0, 17, SLICES - 1):
            start = place * rows // SLICES
            end = max((place + 1) * rows // SLICES, start + 1)
            mean = embedding[start:end].mean(axis=0)
            assert made.rows[place] == pytest.approx(FINE * mean / np.linalg.norm(mean), abs=0.51)
            assert made.steps[place] == labels[(start + end) // 2]
    video = sliced([0, 1, 2, 3])
    near, off, far = sliced([0, 1, 2, 4]), sliced([0, 5, 6, 4]), sliced([4, 5, 6, 7])
    both = np.log(np.mean([np.exp(align_slices(video, [one]).apart) for one in (near, off)]))
    assert align_slices(video, [far, near, off]).apart == pytest.approx(both)
    assert align_slices(video, []).apart == 0.0


@pytest.fixture(scope="module")
def learned():
    """Ten videos of four steps in a fixed order."""
    labels, embeddings = zip(*(_video([0, 1, 2, 3], seed) for seed in range(10)), strict=True)
    return learn_expectations(labels, 1.0, embeddings=embeddings)


def _video(steps, seed):
    rng = np.random.default_rng(seed)
    labels = np.repeat(steps, rng.integers(28, 33, len(steps)))
    return labels, LOOKS[labels] + rng.normal(scale=0.1, size=(len(labels), 8))


def test_a_deviation_outside_the_segmentation_is_located(learned):
    labels, embedding = _video([0, 1, 2, 3], 99)
    assert check_labels(labels, 1.0, learned, embedding=embedding).ok
    embedding[labels == 2] -= LOOKS[2] - LOOKS[0]  # looks like the first step
    report = check_labels(labels, 1.0, learned, embedding=embedding)
    assert not report.ok
    (finding,) = report.findings
    assert (finding.kind, finding.step) == ("unusual", None)
    times = np.flatnonzero(labels == 2)
    assert abs(finding.start - times[0]) < 4
    assert abs(finding.end - times[-1]) < 4
    free = replace(learned, severity=Severity(free=frozenset({2})))
    assert check_labels(labels, 1.0, free, embedding=embedding).ok


@pytest.mark.parametrize("odd", [1, 4])
def test_of_two_steps_left_out_that_is_named_first_where_the_video_looks_otherwise(odd):
    cuts, embeddings = zip(*(_video([0, 1, 2, 3, 4, 5], seed) for seed in range(10)), strict=True)
    expectations = learn_expectations(cuts, 1.0, embeddings=embeddings)
    labels, embedding = _video([0, 6, 2, 3, 7, 5], 99)
    # Two pauses that look as before them,
    embedding[labels == 6], embedding[labels == 7] = LOOKS[0], LOOKS[3]
    embedding[labels == odd // 4 + 6] = LOOKS[7]  # but for one of the two
    report = check_labels(np.where(labels < 6, labels, -1), 1.0, expectations, embedding=embedding)
    assert [finding.step for finding in report.missed] == ([1, 4] if odd == 1 else [4, 1])


def test_where_only_the_whole_is_unusual_a_time_is_named_too():
    # Every video ends with a pause.
    made = [_video([0, 1, 2, 3, *[7] * 5], seed) for seed in range(10)]
    cuts = [np.where(labels < 4, labels, -1) for labels, _ in made]
    expectations = learn_expectations(cuts, 1.0, embeddings=[one for _, one in made])
    labels, embedding = _video([0, 1, 2, 3, 7], 99)
    embedding[labels == 2] -= LOOKS[2] - LOOKS[0]
    report = check_labels(np.where(labels < 4, labels, -1), 1.0, expectations, embedding=embedding)
    assert [(finding.kind, finding.step) for finding in report.findings] == [("unusual", None)] * 2
    whole, part = sorted(report.findings, key=lambda finding: finding.start)
    times = np.flatnonzero(labels == 2)
    assert (whole.start, whole.end) == (0, report.seconds)
    assert abs(part.start - times[0]) < 4
    assert abs(part.end - times[-1]) < 4


@pytest.mark.parametrize("videos", [6, pytest.param(45, marks=pytest.mark.slow)])
def test_each_video_is_laid_beside_the_others_as_a_model_sees_them_that_did_not_see_it(videos):
    made = [_video([0, 1, 2, 3], seed) for seed in range(videos)]
    labels, embeddings = [one for one, _ in made], [one for _, one in made]

    def embed(without, place, kept):
        rows = embeddings[place] if kept is None else embeddings[place][kept]
        turned, _ = np.linalg.qr(np.random.default_rng(without).normal(size=(8, 5)))
        return np.asarray(rows @ turned)

    as_new = LeftOut(labels, [None] * videos, [None] * videos, embed=embed)
    checked = learn_expectations(labels, 1.0, embeddings=embeddings, left_out=as_new)
    for place in (0, 3, videos - 1):
        group = place % 8
        others = [other for other in range(videos) if other % 8 != group]
        few = np.linspace(0, len(others) - 1, min(32, len(others))).round().astype(int)
        used = (place, *(others[at] for at in few))
        own, *beside = (slice_video(embed(group, one, None), labels[one]) for one in used)
        assert checked.amounts["apart"][place] == pytest.approx(align_slices(own, beside).apart)
        kept, half = np.arange(len(labels[place]) // 2), checked.altered["missing half"]
        own = slice_video(embed(group, place, kept), labels[place][kept])
        (apart,) = (one.amounts[3] for one in half if one.of == place)
        assert apart == pytest.approx(align_slices(own, beside).apart)
    plain = learn_expectations(labels, 1.0, embeddings=embeddings)
    assert checked.to_json()["usual"] == plain.to_json()["usual"]


def test_slices_round_trip_and_damage_is_refused(learned):
    record = json.loads(json.dumps(learned.to_json()))
    assert Expectations.from_json(record) == learned
    usual = record["usual"]
    (rows, steps), *others = usual["slices"]
    wrong_steps = ([*steps[1:]], *([wrong, *steps[1:]] for wrong in (-2, 10**9, 10**30)))
    wrong_rows = (
        [[2000] * 8] * SLICES,
        [[float("nan")] * 8] * SLICES,
        [row[1:] for row in rows],
        rows[0],
    )
    damage = [*([rows, one] for one in wrong_steps), *([one, steps] for one in wrong_rows)]
    for damaged in (*damage, [[[]], []], [rows], None):
        with pytest.raises(ProcedureError, match=r"check.json is damaged"):
            Expectations.from_json(record | {"usual": usual | {"slices": [damaged, *others]}})


def test_two_tasks_in_one_folder_are_noticed():
    looks = np.random.default_rng(8).normal(size=(8, 12))
    names = [f"v{place}" for place in range(11)]

    def learn_from(second, kitchen=0.0):
        """Videos at `second` show four other steps; `kitchen` shifts three videos."""
        rng = np.random.default_rng(9)
        offsets = kitchen * rng.normal(size=(2, 12))
        shown = [np.repeat(np.arange(4), rng.integers(8, 16, 4)) for _ in names]
        rows = []
        for place, cut in enumerate(shown):
            clean = looks[cut + 4 * (place in second)] + offsets[int(place in (1, 5, 6))]
            rows.append(clean + 0.6 * rng.normal(size=(len(cut), 12)))
        return learn_expectations(shown, 1.0, embeddings=rows, videos=names)

    assert learn_from([]).groups == learn_from([4]).groups == ()  # one that differs is a deviation
    assert learn_from([], kitchen=0.4).groups == ()  # one task in two kitchens
    two = learn_from([1, 5, 6])
    first, second = two.groups
    assert (second, {*first, *second}) == (("v1", "v5", "v6"), {*names})
    assert all(name in two.mixed for name in names[:7])
    assert "learn them separately" in two.mixed
    assert Expectations.from_json(json.loads(json.dumps(two.to_json()))).groups == two.groups
