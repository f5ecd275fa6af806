"""The contract of every segmenter: labels of the right shape, or a clear error."""

import numpy as np
import pytest
from errors_kit import raises

from stepcut.errors import FeatureError, NotLearned, OptionError
from stepcut.methods import METHODS
from stepcut.testing import check_method

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
