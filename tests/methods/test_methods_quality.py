"""Quality is measured on labelled videos only; hierarchy, suggestions, and the arithmetic of wide rows."""

import json

import numpy as np
import pytest

import stepcut as sc
from stepcut.errors import OptionError
from stepcut.methods import arithmetic
from stepcut.methods.arithmetic import strongest_directions
from stepcut.methods.hierarchy import Hierarchy, build_hierarchy
from stepcut.methods.quality import DRAWS, NOT_MEASURED, NOTHING_SHARED, Quality, measure
from stepcut.methods.similar import MEDIAN, distances, suggest
from stepcut.toy import toy_features

FIGURES = {"now": [0.5, 0.4, 0.6], "after": {}, "evidence": None}
ESTIMATE = {"kind": "estimate", "why": "", **FIGURES}
MEASURED = {"kind": "labels", "why": "cross-validated on 3 labelled videos", **FIGURES}


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
    assert Hierarchy.from_json(json.loads(json.dumps(tree.to_json())), tree.steps) == tree
    with pytest.raises(OptionError, match="count=5"):
        tree.groups(5)


def test_a_procedure_keeps_its_quality_and_its_tree(tmp_path):
    rows, _ = toy_features(videos=5, seed=3)
    procedure = sc.learn(list(rows), steps=(4, 6), restarts=2).rename({0: "wash"})
    procedure.save(tmp_path / "p.proc")
    back = sc.load(tmp_path / "p.proc")
    assert back == procedure
    assert back.quality == procedure.quality == Quality()
    assert 4 <= len(back.steps) <= 6
    assert back.hierarchy() == procedure.hierarchy()
    assert back.hierarchy().steps[0] == "wash"


def test_labels_are_compared_where_they_are_and_background_counts():
    # Labels 1 0 2 in thirds: the uniform baseline is right everywhere, whatever the numbers are.
    labels = [np.repeat([1, 0, 2], 10), None, np.repeat([1, 0, 2], 12)]
    zeros = [np.zeros(length, dtype=np.int64) for length in (30, 5, 36)]
    poor = measure(labels, zeros, 3)
    assert (poor.kind, poor.right) == ("labels", pytest.approx(1 / 3))
    assert "uniform baseline: 100 %" in str(poor)
    true = np.repeat([-1, 0, 1, -1], 10)
    seen = np.repeat([0, 0, 1, 1], 10)
    two, five = (measure([true] * n, [seen] * n, 2).now for n in (2, 5))
    assert two.right == five.right == pytest.approx(0.5)
    assert two.high - two.low > five.high - five.low > 2 * 1.3 * DRAWS
    labels = [np.array([0, 0, -2, -2]), np.array([-2, 1, 1, 1])]
    found = measure(labels, [np.array([0, 0, 5, 5]), np.array([5, 1, 1, 1])], 2)
    assert found.right == pytest.approx(1)


@pytest.mark.parametrize(("labels", "says"), [
    ([None, None], "clicks and transcripts do not show"),
    ([np.array([-2, 0, -2, -2]), np.array([0, -2, -2, -2])], "clicks and transcripts"),
    ([np.array([0, 0, 1, 1]), None], "only one video is labelled"),
    ([np.array([0, 0, 1, 1]), np.array([-2, -2, -2, 1])], "only one video is labelled"),
])  # fmt: skip
def test_what_does_not_show_the_quality(labels, says):
    found = measure(labels, [np.array([0, 0, 1, 1])] * 2, 2)
    assert (found.kind, found.right) == ("unknown", None)
    assert says in str(found)


def test_videos_of_noise_seem_to_share_no_steps_and_a_toy_kitchen_does_not():
    rng = np.random.default_rng(6)
    noise = [rng.normal(size=(60 + 10 * n, 16)) for n in range(5)]
    found = sc.learn(noise, steps=6, restarts=4).quality
    assert (found.kind, found.warning) == ("unknown", NOTHING_SHARED)
    assert str(found) == f"{NOTHING_SHARED} {NOT_MEASURED}"
    kitchen, _ = toy_features(videos=5, rate=1.0, duration=60, seed=3)
    assert sc.learn(kitchen, steps=6, restarts=4).quality == Quality()


@pytest.mark.parametrize("wrong", [-2, 3])
def test_a_hierarchy_refuses_numbers_that_are_not_steps(wrong):
    rng = np.random.default_rng(0)
    labels = [np.repeat([0, 1, 2], 4), np.repeat([0, 1, 2], 5)]
    tree = build_hierarchy([rng.normal(size=(len(one), 3)) for one in labels], labels, list("abc"))
    assert set(tree.labels(np.array([-1, 0, 1, 2]), 2).tolist()) == {-1, 0, 1}
    with pytest.raises(OptionError, match=f"step {wrong}"):
        tree.labels(np.array([0, wrong]), 2)


def test_typical_videos_come_first_and_what_happens_at_another_time_is_not_alike():
    views = [np.full((4, 1), place, dtype=np.float32) for place in (0.0, 0.1, 0.2, 9.0)]
    (first, why), (second, then), *others = suggest(views, [], 9)
    assert sorted([first, second, *(place for place, _ in others)]) == [0, 1, 2, 3]
    assert suggest(views, [], 0) == []
    assert sorted(place for place, _ in suggest(views, [2], 9)) == [0, 1, 3]
    assert first < 3
    assert second == 3
    assert "typical" in why
    assert "moments" in then
    early, late = np.zeros((30, 2), dtype=np.float32), np.zeros((30, 2), dtype=np.float32)
    early[:10], late[20:] = 1, 1
    apart = distances([early, early, late])
    assert apart[0, 1] == pytest.approx(0, abs=1e-9)
    assert apart[0, 2] > 0.1


def test_distances_are_those_of_a_plain_loop():
    random = np.random.default_rng(0)
    views = [random.normal(size=(length, 3)).astype(np.float32) for length in (60, 90, 7)]
    times = (np.arange(60) + 0.5) / 60
    moments = [[view[int(time * len(view))].astype(float) for time in times] for view in views]
    every = [row for rows in moments for row in rows]
    usual = np.median([np.sum((x - y) ** 2) for x in every for y in every])
    for i, j in ((0, 1), (1, 0), (2, 0)):
        nearest = [
            min(
                np.sum((x - y) ** 2) / usual + (t - u) ** 2 / MEDIAN
                for y, u in zip(moments[j], times, strict=True)
            )
            for x, t in zip(moments[i], times, strict=True)
        ]
        assert distances(views)[i, j] == pytest.approx(np.mean(nearest))


def test_iteration_finds_the_eigenvectors_of_the_scatter_matrix_also_of_few_rows(monkeypatch):
    rng = np.random.default_rng(3)
    spreads = 0.9 ** np.arange(200)
    videos = [rng.normal(size=(rows, 200)) * spreads for rows in (300, 180)]
    exact, variances = strongest_directions(videos, 20)
    monkeypatch.setattr(arithmetic, "EXACT", 100)
    found, strength = strongest_directions(videos, 20)
    assert np.abs((exact * found).sum(axis=0)).min() > 0.999
    assert (exact * found).sum(axis=0).min() > 0  # of the same sign
    np.testing.assert_allclose(strength, variances, rtol=1e-3)
    np.testing.assert_allclose(found.T @ found, np.eye(20), atol=1e-9)
    monkeypatch.setattr(arithmetic, "EXACT", 10)
    rows = np.random.default_rng(0).normal(size=(3, 40))
    axes, strength = strongest_directions([rows - rows.mean(axis=0)], 12)
    assert axes.shape == (40, 12)
    assert (strength[:2] > 0.1).all()
    assert np.abs(strength[2:]).max() < 1e-9
    assert np.isfinite(axes).all()
