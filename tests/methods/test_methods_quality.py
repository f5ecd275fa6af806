"""Quality without labels orders what is found, and the hierarchy joins what belongs together."""

from __future__ import annotations

import itertools
import json
import re

import numpy as np
import pytest

import stepcut as sc
from stepcut.errors import OptionError
from stepcut.methods import StepCut
from stepcut.methods.hierarchy import Hierarchy, build_hierarchy, find_split
from stepcut.methods.quality import Quality, grade, grade_taught, measure_quality, measure_sharpness
from stepcut.toy import toy_features


@pytest.mark.slow
def test_steps_of_a_toy_kitchen_are_trusted_more_than_those_of_noise() -> None:
    rows, _ = toy_features(videos=8, rate=2.0, seed=3)
    found = measure_quality(StepCut(steps=6, rate=2.0, restarts=9).fit(rows), rows)
    rng = np.random.default_rng(0)
    noise = [rng.normal(size=(140, 8)) for _ in range(8)]
    nothing = measure_quality(StepCut(steps=6, rate=2.0, restarts=9).fit(noise), noise)
    assert found is not None
    assert nothing is not None
    assert found.grade == "good"
    assert nothing.grade == "clock"
    assert nothing.score == 0
    assert len(found.shared) == 6
    assert Quality.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_slices_of_time_are_called_so() -> None:
    rows = [
        np.column_stack([np.linspace(0, 1, n), np.linspace(0, 1, n) ** 2])
        for n in (60, 70, 80, 90, 100)
    ]
    found = measure_quality(StepCut(steps=4, restarts=3).fit(rows), rows)
    assert found is not None
    assert found.grade == "clock"
    assert "slices of time" in found.reason


def test_a_grade_says_why() -> None:
    weak = grade(
        runs=0.55, halves=0.5, beyond=0.4, clock=0.3, regularity=0.7, shared=(), sharpness=0.2
    )
    assert weak.grade == "doubtful"
    for figure in ("50%", "70%", "teach"):
        assert figure in weak.reason
    even = grade(
        runs=0.9, halves=0.9, beyond=0.5, clock=0.5, regularity=0.95, shared=(1.0,), sharpness=-0.01
    )
    assert even.grade == "clock"
    assert 0.05 <= even.reliability < 0.4


def test_the_reason_for_doubt_is_what_is_weak() -> None:
    """A high figure is no reason: what agrees by 99 % is not what keeps the grade from being good."""
    shares = (0.1, 0.5, 0.69, 0.71, 0.85, 0.99, 1.0)
    for runs, halves, regularity in itertools.product(
        shares, shares, (0.0, 0.5, 0.58, 0.75, 0.9, 1.0)
    ):
        found = grade(
            runs, halves, beyond=0.5, clock=0.5, regularity=regularity, shared=(), sharpness=0.5
        )
        if found.grade == "doubtful":
            told = [int(figure) for figure in re.findall(r"by (\d+)% only", found.reason)]
            assert told == [round(100 * share) for share in (runs, halves) if share < 0.7]
            assert told or f"regularity {regularity:.0%}" in found.reason
    doubtful = grade(0.99, 0.98, beyond=0.5, clock=0.5, regularity=1.0, shared=(), sharpness=0.5)
    assert doubtful.reason.startswith(
        "the time of the video explains much of them (regularity 100%)"
    )


def test_steps_in_one_order_are_no_slices_of_time() -> None:
    looks, rng = np.random.default_rng(0).normal(size=(4, 8)), np.random.default_rng(1)
    cuts = [np.repeat(np.arange(4), rng.integers(18, 22, 4)) for _ in range(6)]
    rows = [looks[cut] + 0.2 * rng.normal(size=(len(cut), 8)) for cut in cuts]
    found = measure_quality(StepCut(steps=4, restarts=3).fit(rows), rows)
    assert found is not None
    assert found.regularity > 0.95
    assert found.sharpness > 0.3
    assert found.grade != "clock"


def test_sharpness_is_what_moved_boundaries_lose() -> None:
    rows = np.array([[1.0], [1], [1], [1], [-1], [-1], [-1], [-1]])
    cut = np.repeat([0, 1], 4)
    # Means of the halves explain all 8; boundaries after rows 2 and 6 explain 2 + 0 + 2.
    assert measure_sharpness([rows], [cut]) == pytest.approx(0.5)
    drift = np.linspace(-1, 1, 60)[:, None]
    assert measure_sharpness([drift], [np.arange(60) * 4 // 60]) < 0
    assert measure_sharpness([np.zeros((8, 1))], [cut]) == 0


def test_what_cannot_be_measured_is_not() -> None:
    rows, _ = toy_features(videos=3, seed=3)
    assert measure_quality(StepCut(steps=3, restarts=3).fit(rows), rows) is None
    more, _ = toy_features(videos=5, seed=3)
    assert measure_quality(StepCut(steps=1, restarts=3).fit(more), more) is None
    procedure = sc.learn(list(rows), steps=3, restarts=3)
    assert procedure.quality.grade == "doubtful"
    assert "cannot be measured" in procedure.quality.reason


def test_phases_of_one_step_join_first() -> None:
    rng = np.random.default_rng(1)
    places = np.array([[0.0, 0], [0.3, 0], [4, 0], [0, 4]])  # the first two look alike
    labels = [np.repeat([0, 1, 2, 3], rng.integers(5, 15, 4)) for _ in range(5)]
    rows = [places[cut] + 0.05 * rng.normal(size=(len(cut), 2)) for cut in labels]
    tree = build_hierarchy(rows, labels, ["a", "b", "c", "d"])
    assert (tree.merges[0].a, tree.merges[0].b) == ((0,), (1,))
    assert tree.groups(3) == [(0, 1), (2,), (3,)]
    assert tree.groups(1) == [(0, 1, 2, 3)]
    assert tree.labels(np.array([0, 1, 2, -1]), 3).tolist() == [0, 0, 1, -1]
    assert sum(merge.cost for merge in tree.merges) == pytest.approx(1, abs=1e-3)
    assert Hierarchy.from_json(json.loads(json.dumps(tree.to_json())), tree.steps) == tree
    with pytest.raises(OptionError, match="count=5"):
        tree.groups(5)


def test_the_step_that_parts_is_found() -> None:
    coarse = np.repeat([0, 1, 2], 10)
    finer = np.array([0] * 10 + [1] * 5 + [2] * 5 + [3] * 10)
    assert find_split([coarse], [finer], 3) == 1


def test_a_procedure_keeps_its_quality_and_its_tree(tmp_path) -> None:
    rows, _ = toy_features(videos=5, seed=3)
    procedure = sc.learn(list(rows), steps=(4, 6), restarts=6)
    procedure.rename({0: "wash"})
    procedure.save(tmp_path / "p.proc")
    back = sc.load(tmp_path / "p.proc")
    assert back == procedure
    assert back.quality == procedure.quality
    assert 4 <= len(back.steps) <= 6
    assert back.hierarchy() == procedure.hierarchy()
    surest = max(segment.confidence for timeline in back.timelines.values() for segment in timeline)
    assert surest <= back.quality.reliability
    assert max(s.confidence for s in back.segment(rows[0])) <= back.quality.reliability
    assert back.hierarchy().steps[0] == "wash"
    assert 0 <= back.hierarchy().split < len(back.steps)


def test_taught_steps_are_graded_by_left_out_labels_against_equal_parts_in_their_usual_order() -> (
    None
):
    """Labels 1 0 2 in thirds: equal parts in that order are right everywhere, whatever the numbers are."""
    labels = [np.repeat([1, 0, 2], 10), None, np.repeat([1, 0, 2], 12)]
    poor, fair = grade_taught(0.5, labels, 3), grade_taught(1.0, labels, 4)
    assert poor.grade == "clock"
    assert "100%" in poor.reason
    assert fair.grade == "good"
    assert "label" in grade_taught(None, labels[:1], 3).reason.lower()


@pytest.mark.parametrize("wrong", [-2, 3])
def test_a_hierarchy_refuses_numbers_that_are_not_steps(wrong: int) -> None:
    rng = np.random.default_rng(0)
    labels = [np.repeat([0, 1, 2], 4), np.repeat([0, 1, 2], 5)]
    tree = build_hierarchy([rng.normal(size=(len(one), 3)) for one in labels], labels, list("abc"))
    assert set(tree.labels(np.array([-1, 0, 1, 2]), 2).tolist()) == {-1, 0, 1}
    with pytest.raises(OptionError, match=f"step {wrong}"):
        tree.labels(np.array([0, wrong]), 2)
