"""Quality without labels orders what is found, and the hierarchy joins what belongs together."""

import copy
import json

import numpy as np
import pytest

import stepcut as sc
from stepcut.errors import OptionError
from stepcut.methods import StepCut
from stepcut.methods.hierarchy import Hierarchy, build_hierarchy, find_split
from stepcut.methods.quality import (
    Evidence,
    Quality,
    cross_validated,
    estimate,
    gather_evidence,
    measure_quality,
    measure_sharpness,
)
from stepcut.toy import toy_features


@pytest.mark.slow
def test_steps_of_a_toy_kitchen_are_trusted_more_than_those_of_noise():
    rows, _ = toy_features(videos=8, rate=2.0, seed=3)
    found = measure_quality(StepCut(steps=6, rate=2.0, restarts=9).fit(rows), rows)
    rng = np.random.default_rng(0)
    noise = [rng.normal(size=(140, 8)) for _ in range(8)]
    nothing = measure_quality(StepCut(steps=6, rate=2.0, restarts=9).fit(noise), noise)
    assert (found.kind, nothing.kind) == ("estimate", "uniform")
    assert found.right > nothing.right
    assert Quality.from_json(json.loads(json.dumps(found.to_json()))) == found


@pytest.mark.slow
@pytest.mark.parametrize("seed", [6, 7, 8])
def test_noise_of_many_dimensions_is_no_better_than_equal_parts(seed):
    rng = np.random.default_rng(seed)
    rows = [rng.normal(size=(300 + 20 * k, 64)) for k in range(8)]
    found = measure_quality(StepCut(steps=8, restarts=12).fit(rows), rows)
    assert (found.kind, found.after) == ("uniform", {})


def test_the_estimate_and_its_interval_are_those_of_the_report():
    found = estimate(evidence(runs=0.6, irregularity=0.5, sharpness=0.3))
    assert found.now == pytest.approx((0.512, 0.335, 0.740), abs=0.001)


def test_slices_of_time_are_called_so():
    rows = [
        np.column_stack([np.linspace(0, 1, n), np.linspace(0, 1, n) ** 2])
        for n in (60, 70, 80, 90, 100)
    ]
    found = measure_quality(StepCut(steps=4, restarts=3).fit(rows), rows)
    assert found.kind == "uniform"
    assert str(found).startswith("No better than cutting every video into equal parts.")


def evidence(**changes):
    some = {"runs": 0.8, "halves": 0.7, "beyond": 0.5, "stable": 0.9, "uniform": 0.4}
    return Evidence(
        **{**some, "irregularity": 0.5, "sharpness": 0.3, "steps": 8, "videos": 9, **changes}
    )


def test_an_estimate_is_a_sentence_with_an_interval():
    found = estimate(evidence())
    assert found.now is not None
    assert 0 <= found.now.low < found.now.right < found.now.high <= 1
    share = f"{100 * found.right:.0f} % of the time"
    assert str(found).startswith(f"Expect {share} to be right (")
    assert set(found.after) == {3, 5}
    for one in found.after.values():
        assert one.right >= found.now.right
        assert f"{100 * one.right:.0f} %" in str(found)
    assert Quality.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_more_agreement_never_means_less_is_right():
    least = estimate(evidence()).right
    for name in ("runs", "halves", "stable", "irregularity"):
        assert estimate(evidence(**{name: 1.0})).right >= least


@pytest.mark.parametrize("weak", [{"beyond": 0.05}, {"sharpness": -0.01}, {"runs": 0.3}])
def test_what_is_no_better_than_equal_parts_is_not_estimated_higher(weak):
    found = estimate(evidence(**{"runs": 1.0, "halves": 1.0, "stable": 1.0, **weak}))
    assert found.kind == "uniform"
    assert found.right <= estimate(evidence(runs=1.0, halves=1.0, stable=1.0)).right
    assert "No better than cutting every video into equal parts" in str(found)
    assert found.after == {}


def test_a_grade_of_version_0_2_0_is_not_an_estimate():
    old = Quality.from_json({"grade": "good", "reason": "runs agree"})
    assert (old.kind, old.right, old.reliability) == ("unknown", None, 1.0)
    assert "cannot be estimated" in str(old)


@pytest.mark.slow
def test_names_and_order_of_videos_do_not_change_the_evidence():
    rows, _ = toy_features(videos=6, rate=1.0, seed=3)
    one = StepCut(steps=5, restarts=3).fit(rows)
    turned = copy.copy(one)
    order = [3, 0, 5, 1, 4, 2]
    turned.labels_ = [one.labels_[place] for place in order]
    new = one.left_out_
    assert new is not None
    turned._left_out = new.of(order)
    said = gather_evidence(one, rows), gather_evidence(turned, [rows[place] for place in order])
    assert said[0] == said[1]


def test_steps_in_one_order_are_no_slices_of_time():
    looks, rng = np.random.default_rng(0).normal(size=(4, 8)), np.random.default_rng(1)
    cuts = [np.repeat(np.arange(4), rng.integers(18, 22, 4)) for _ in range(6)]
    rows = [looks[cut] + 0.2 * rng.normal(size=(len(cut), 8)) for cut in cuts]
    found = measure_quality(StepCut(steps=4, restarts=3).fit(rows), rows)
    assert found.evidence is not None
    assert found.evidence.irregularity < 0.05
    assert found.evidence.sharpness > 0.3
    assert found.kind == "estimate"


def test_sharpness_is_what_moved_boundaries_lose():
    rows = np.array([[1.0], [1], [1], [1], [-1], [-1], [-1], [-1]])
    cut = np.repeat([0, 1], 4)
    # Means of the halves explain all 8; boundaries after rows 2 and 6 explain 2 + 0 + 2.
    assert measure_sharpness([rows], [cut]) == pytest.approx(0.5)
    drift = np.linspace(-1, 1, 60)[:, None]
    assert measure_sharpness([drift], [np.arange(60) * 4 // 60]) < 0
    assert measure_sharpness([np.zeros((8, 1))], [cut]) == 0


def test_what_cannot_be_measured_is_not():
    rows, _ = toy_features(videos=3, seed=3)
    assert measure_quality(StepCut(steps=3, restarts=3).fit(rows), rows).kind == "unknown"
    more, _ = toy_features(videos=5, seed=3)
    assert measure_quality(StepCut(steps=1, restarts=3).fit(more), more).kind == "unknown"
    procedure = sc.learn(list(rows), steps=3, restarts=3)
    assert procedure.quality.right is None
    assert "cannot be estimated" in str(procedure.quality)


def test_phases_of_one_step_join_first():
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


def test_the_step_that_parts_is_found():
    coarse = np.repeat([0, 1, 2], 10)
    finer = np.array([0] * 10 + [1] * 5 + [2] * 5 + [3] * 10)
    assert find_split([coarse], [finer], 3) == 1


def test_a_procedure_keeps_its_quality_and_its_tree(tmp_path):
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


def test_labelled_steps_are_cross_validated_against_equal_parts_in_their_usual_order():
    """Labels 1 0 2 in thirds: equal parts in that order are right everywhere, whatever the numbers are."""
    labels = [np.repeat([1, 0, 2], 10), None, np.repeat([1, 0, 2], 12)]
    wrong = [
        np.zeros(30, dtype=np.int64),
        np.zeros(5, dtype=np.int64),
        np.zeros(36, dtype=np.int64),
    ]
    poor = cross_validated(labels, wrong, 3)
    assert (poor.kind, poor.right) == ("uniform", pytest.approx(1 / 3))
    assert "100 %" in str(poor)
    whole = [np.zeros(5, dtype=np.int64) if one is None else one for one in labels]
    fair = cross_validated(labels, whole, 4)  # equal parts of four steps are wrong in part
    assert (fair.kind, fair.right) == ("labels", 1.0)
    assert fair.now is not None
    assert fair.now.low < 1
    assert fair.reliability == 1
    alone = cross_validated(labels[:2], whole[:2], 3)
    assert (alone.kind, alone.right) == ("unknown", None)
    open_rows = [np.where(np.arange(30) < 15, labels[0], -2), labels[2]]
    assert cross_validated(open_rows, [labels[0], labels[2]], 4).right == 1.0


@pytest.mark.parametrize("wrong", [-2, 3])
def test_a_hierarchy_refuses_numbers_that_are_not_steps(wrong):
    rng = np.random.default_rng(0)
    labels = [np.repeat([0, 1, 2], 4), np.repeat([0, 1, 2], 5)]
    tree = build_hierarchy([rng.normal(size=(len(one), 3)) for one in labels], labels, list("abc"))
    assert set(tree.labels(np.array([-1, 0, 1, 2]), 2).tolist()) == {-1, 0, 1}
    with pytest.raises(OptionError, match=f"step {wrong}"):
        tree.labels(np.array([0, wrong]), 2)
