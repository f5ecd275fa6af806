"""Quality is measured on labelled videos only, and the hierarchy joins what belongs together."""

import json

import numpy as np
import pytest

import stepcut as sc
from stepcut.errors import OptionError
from stepcut.methods.hierarchy import Hierarchy, build_hierarchy
from stepcut.methods.quality import NOT_MEASURED, Quality, cross_validated
from stepcut.toy import toy_features

ESTIMATE = {
    "kind": "estimate",
    "now": [0.5, 0.3, 0.7],
    "after": {"3": [0.7, 0.5, 0.8]},
    "why": "",
    "evidence": {"runs": 0.8},
}
MEASURED = {
    "kind": "labels",
    "now": [0.5, 0.4, 0.6],
    "after": {},
    "why": "cross-validated on 3 labelled videos",
    "evidence": None,
}


@pytest.mark.parametrize(
    "saved",
    [{}, {"grade": "good", "reason": "runs agree"}, ESTIMATE, ESTIMATE | {"kind": "uniform"}],
)
def test_an_estimate_of_an_earlier_version_is_unknown(saved):
    assert Quality.from_json(saved) == Quality()
    assert (Quality().kind, Quality().right, str(Quality())) == ("unknown", None, NOT_MEASURED)


def test_what_an_earlier_version_measured_on_labels_stays():
    kept = Quality.from_json(MEASURED)
    assert (kept.kind, kept.now) == ("labels", (0.5, 0.4, 0.6))
    assert str(kept) == (
        "Estimated: 50 % (40–60 %) of the unlabelled time is right, "
        "cross-validated on 3 labelled videos."
    )
    assert Quality.from_json(json.loads(json.dumps(kept.to_json()))) == kept


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


def test_a_procedure_keeps_its_quality_and_its_tree(tmp_path):
    rows, _ = toy_features(videos=5, seed=3)
    procedure = sc.learn(list(rows), steps=(4, 6), restarts=6)
    procedure.rename({0: "wash"})
    procedure.save(tmp_path / "p.proc")
    back = sc.load(tmp_path / "p.proc")
    assert back == procedure
    assert back.quality == procedure.quality == Quality()
    assert 4 <= len(back.steps) <= 6
    assert back.hierarchy() == procedure.hierarchy()
    assert back.hierarchy().steps[0] == "wash"


def test_labelled_steps_are_compared_with_the_uniform_baseline_in_their_usual_order():
    """Labels 1 0 2 in thirds: the uniform baseline is right everywhere, whatever the numbers are."""
    labels = [np.repeat([1, 0, 2], 10), None, np.repeat([1, 0, 2], 12)]
    zeros = [np.zeros(length, dtype=np.int64) for length in (30, 5, 36)]
    poor = cross_validated(labels, zeros, 3)
    assert (poor.kind, poor.right) == ("labels", pytest.approx(1 / 3))
    assert "uniform baseline: 100 %" in str(poor)
    whole = [zeros[1] if one is None else one for one in labels]
    fair = cross_validated(labels, whole, 4)
    assert (fair.kind, fair.right) == ("labels", 1.0)
    assert fair.now is not None
    assert fair.now.low < 1
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
