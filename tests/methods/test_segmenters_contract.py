"""The contract of every segmenter; quality is measured on labelled videos only; hierarchy, suggestions."""

import json

import numpy as np
import pytest
from errors_kit import raises

import stepcut as sc
from stepcut.errors import FeatureError, NotLearned, OptionError
from stepcut.methods import METHODS, arithmetic
from stepcut.methods.arithmetic import strongest_directions
from stepcut.methods.hierarchy import Hierarchy, build_hierarchy
from stepcut.methods.quality import DRAWS, NOT_MEASURED, NOTHING_SHARED, Quality, measure
from stepcut.methods.similar import MEDIAN, distances, suggest
from stepcut.testing import check_method
from stepcut.toy import toy_features

LEARNED = ["procut", "kmeans", "subset", "asot"]
SEGMENTERS = [*LEARNED, "random", "uniform", "one-cluster", "tw-finch", "spectral"]
every = pytest.mark.parametrize("name", SEGMENTERS)


def make_videos(lengths=(30, 41, 35), dim=6, steps=4, seed=0):
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(steps, dim)) * 3
    return [places[np.arange(n) * steps // n] + 0.3 * rng.normal(size=(n, dim)) for n in lengths]


def same(a, b):
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def read_only(videos):
    for video in videos:
        video.setflags(write=False)
    return videos


TWICE = make_videos((4,))[0]
CASES = {
    "three videos": (make_videos(), 4),
    "one step": (make_videos(), 1),
    "as many steps as frames of one video": (make_videos((12,)), 12),
    "as many steps as frames": (make_videos((5, 4, 3)), 12),
    "one video": (make_videos((50,)), 4),
    "one frame": (make_videos((1,)), 1),
    "videos of one frame": (make_videos((1, 40, 1)), 4),
    "zeros": ([np.zeros((20, 5)), np.zeros((13, 5))], 4),
    "constant": ([np.full((20, 5), 3.5), np.full((13, 5), 3.5)], 4),
    "duplicated frames": ([np.repeat(TWICE, 9, axis=0), np.repeat(TWICE[:2], 5, axis=0)], 6),
    "very unequal lengths": (make_videos((400, 3, 1, 70)), 4),
    "one dimension": (make_videos(dim=1), 4),
    "whole numbers": ([(video * 100).astype(np.int32) for video in make_videos()], 4),
    "read-only": (read_only([video.astype(np.float32) for video in make_videos()]), 4),
}


@pytest.mark.parametrize("case", CASES)
def test_the_contract_holds_for_odd_videos_too(case):
    videos, steps = CASES[case]
    for name in SEGMENTERS:
        method = METHODS[name](steps=steps)
        check_method(method, [*videos, videos[0]])
        assert min(labels.min() for labels in method.labels_) >= 0, name


@every
def test_the_same_videos_in_any_order_and_again_give_the_same_labels(name):
    videos = make_videos()
    first = METHODS[name](steps=4, seed=5)
    once = first.fit(videos).labels_
    assert same(once, METHODS[name](steps=4, seed=5).fit(videos).labels_)
    first.fit(videos)
    assert same(once, [first.read(rows).labels for rows in videos])
    videos = make_videos((30, 41, 35, 30))
    labels = METHODS[name](steps=4).fit(videos).labels_
    turned = METHODS[name](steps=4).fit(videos[::-1]).labels_[::-1]
    assert same(labels, turned)


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("prior", [0.0, 0.2])
def test_well_separated_steps_are_found_and_numbered_in_time(name, prior):
    rng = np.random.default_rng(1)
    videos = np.repeat(np.eye(4, 9), 25, axis=0) + 0.05 * rng.normal(size=(3, 100, 9))
    for labels in METHODS[name](steps=4, prior=prior).fit(videos).labels_:
        assert np.array_equal(labels, np.repeat(np.arange(4), 25))


@every
def test_reading_before_fit_and_values_that_are_no_numbers(name):
    with pytest.raises(NotLearned, match=r"call fit\(features\) first"):
        METHODS[name]().read(make_videos()[0])
    with pytest.raises(NotLearned):
        METHODS[name]().state()
    videos, fitted = make_videos(), METHODS[name](steps=4).fit(make_videos())
    for value in (np.nan, np.inf, 1e30):
        videos[1][17, 2] = value
        with raises(FeatureError, "video 1: row 17"):
            METHODS[name](steps=4).fit(videos)
        with raises(FeatureError, "row 17"):
            fitted.read(videos[1])


@every
def test_the_same_numbers_of_another_type_give_the_same_labels(name):
    def labels_of(videos):
        return METHODS[name](steps=4, seed=1).fit(videos).labels_

    videos = [rows.astype(np.float16).astype(np.float32) for rows in make_videos()]
    once = labels_of(videos)
    for kind in (np.float16, np.float64, ">f4"):
        assert same(once, labels_of([rows.astype(kind) for rows in videos])), kind
    assert same(once, labels_of([rows.tolist() for rows in videos]))


@pytest.mark.parametrize(("steps", "videos", "new", "words"), [
    (2, [], None, ["empty"]),
    (2, np.zeros((5, 3)), None, ["(5, 3)"]),
    (2, [np.zeros((5, 3)), np.zeros((5, 4))], None, ["video 1 has 4 "]),
    (2, [np.zeros((5, 3)), np.zeros((0, 3))], None, ["video 1: empty, shape (0, 3)"]),
    (2, [np.zeros((5, 3, 2))], None, ["video 0: shape (5, 3, 2)"]),
    (2, [np.array([["a"]])], None, ["<U1"]),
    (2, make_videos(), make_videos(dim=5)[0], ["video 0", "5", "6"]),
    (9, make_videos((3, 2)), None, ["steps=9", "5 frames"]),
])  # fmt: skip
def test_what_cannot_be_segmented_is_refused(steps, videos, new, words):
    for name in SEGMENTERS:
        with raises((FeatureError, OptionError), *words):
            METHODS[name](steps=steps).fit(videos).read(new)


def test_the_states_of_a_subset_are_as_many_as_the_steps():
    with raises(OptionError, setting="states", value=3):
        METHODS["subset"](steps=4, states=3).fit(make_videos())


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
