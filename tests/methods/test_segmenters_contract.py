"""The contract of every segmenter: labels of the right shape, or a clear error."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from errors_kit import raises

from stepcut.errors import FeatureError, NotLearned, OptionError
from stepcut.methods import METHODS
from stepcut.methods.method import Method

LEARNED = ["procut", "kmeans", "subset", "asot"]
SEGMENTERS = [*LEARNED, "random", "uniform", "one-cluster"]
every = pytest.mark.parametrize("name", SEGMENTERS)


def make_videos(
    lengths: tuple[int, ...] = (30, 41, 35), dim: int = 6, steps: int = 4, seed: int = 0
) -> list[Any]:
    """Videos that do `steps` steps in order, each step a place in space, with noise."""
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(steps, dim)) * 3
    return [places[np.arange(n) * steps // n] + 0.3 * rng.normal(size=(n, dim)) for n in lengths]


def check(labels: list[Any], videos: list[Any], steps: int) -> None:
    assert len(labels) == len(videos)
    for per_video, rows in zip(labels, videos, strict=True):
        assert per_video.shape == (len(rows),)
        assert per_video.dtype == np.int64
        assert per_video.min() >= 0
        assert per_video.max() < steps


def same(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@every
def test_labels_have_the_right_shape_and_range(name: str) -> None:
    videos = make_videos()
    check(METHODS[name](steps=4).fit(videos).labels_, videos, 4)


@every
def test_fit_returns_the_segmenter_and_init_only_stores(name: str) -> None:
    segmenter = METHODS[name](steps=4, rate=2.0, seed=3)
    assert (segmenter.steps, segmenter.rate, segmenter.seed) == (4, 2.0, 3)
    assert not [key for key in vars(segmenter) if key.endswith("_")]
    assert segmenter.fit(make_videos()) is segmenter


@every
def test_same_seed_same_labels_and_fit_twice_is_fit_once(name: str) -> None:
    videos = make_videos()
    first = METHODS[name](steps=4, seed=5)
    once = first.fit(videos).labels_
    assert same(once, METHODS[name](steps=4, seed=5).fit(videos).labels_)
    assert same(once, first.fit(videos).predict(videos))


@every
def test_the_order_of_the_videos_does_not_matter(name: str) -> None:
    videos = make_videos((30, 41, 35, 30))
    labels = METHODS[name](steps=4).fit(videos).labels_
    turned = METHODS[name](steps=4).fit(videos[::-1]).labels_[::-1]
    assert same(labels, turned)


@every
def test_fit_does_not_change_what_it_is_given(name: str) -> None:
    videos = [video.astype(np.float32) for video in make_videos()]
    kept = [video.copy() for video in videos]
    METHODS[name](steps=4).fit(videos)
    assert same(videos, kept)


@every
def test_probabilities_are_shares(name: str) -> None:
    videos = make_videos()
    segmenter = METHODS[name](steps=4).fit(videos)
    for shares, rows in zip(segmenter.probabilities(videos), videos, strict=True):
        assert shares.shape == (len(rows), 4)
        assert shares.dtype == np.float32
        assert shares.min() >= 0
        np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-5)


@every
@pytest.mark.parametrize("rate", [1.0, Fraction(30000, 1001)])
def test_kept_and_restored_it_cuts_alike(name: str, rate: float | Fraction) -> None:
    videos = make_videos()
    segmenter = METHODS[name](steps=4, rate=rate).fit(videos)
    settings = json.loads(json.dumps(segmenter.settings()))
    again = METHODS[name].restore(settings, segmenter.state())
    fresh = make_videos((17, 50), seed=0)
    assert same(segmenter.predict(fresh), again.predict(fresh))
    assert again.settings() == settings


@every
def test_one_step(name: str) -> None:
    videos = make_videos()
    assert all((labels == 0).all() for labels in METHODS[name](steps=1).fit(videos).labels_)


@every
@pytest.mark.parametrize("lengths", [(12,), (5, 4, 3)])
def test_as_many_steps_as_frames(name: str, lengths: tuple[int, ...]) -> None:
    videos = make_videos(lengths)
    check(METHODS[name](steps=12).fit(videos).labels_, videos, 12)


@every
def test_one_video(name: str) -> None:
    videos = make_videos((50,))
    check(METHODS[name](steps=4).fit(videos).labels_, videos, 4)


@every
def test_one_frame(name: str) -> None:
    one = make_videos((1,))
    check(METHODS[name](steps=1).fit(one).labels_, one, 1)
    many = make_videos((1, 40, 1))
    check(METHODS[name](steps=4).fit(many).labels_, many, 4)
    check(METHODS[name](steps=4).fit(many).predict(one), one, 4)


@every
@pytest.mark.parametrize("value", [0.0, 3.5])
def test_constant_features(name: str, value: float) -> None:
    videos = [np.full((n, 5), value) for n in (20, 13)]
    segmenter = METHODS[name](steps=4).fit(videos)
    check(segmenter.predict(videos), videos, 4)
    assert all(np.isfinite(shares).all() for shares in segmenter.probabilities(videos))


@every
def test_duplicated_frames(name: str) -> None:
    base = make_videos((4,))[0]
    videos = [np.repeat(base, 9, axis=0), np.repeat(base[:2], 5, axis=0)]
    check(METHODS[name](steps=6).fit(videos).labels_, videos, 6)


@every
def test_very_unequal_lengths(name: str) -> None:
    videos = make_videos((2000, 3, 1, 70))
    check(METHODS[name](steps=4).fit(videos).labels_, videos, 4)


@every
def test_one_dimension(name: str) -> None:
    videos = make_videos(dim=1)
    check(METHODS[name](steps=4).fit(videos).labels_, videos, 4)


@every
@pytest.mark.parametrize("dtype", ["float16", "float64", "int32"])
def test_other_number_types(name: str, dtype: str) -> None:
    videos = [(video * 100).astype(dtype) for video in make_videos()]
    check(METHODS[name](steps=4).fit(videos).labels_, videos, 4)


@every
def test_arrays_that_cannot_be_written(name: str) -> None:
    videos = [video.astype(np.float32) for video in make_videos()]
    for video in videos:
        video.setflags(write=False)
    check(METHODS[name](steps=4).fit(videos).labels_, videos, 4)


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("prior", [0.0, 0.2])
def test_well_separated_steps_are_found_and_numbered_in_time(name: str, prior: float) -> None:
    rng = np.random.default_rng(1)
    videos = [
        np.repeat(np.eye(4, 9), 25, axis=0) + 0.05 * rng.normal(size=(100, 9)) for _ in range(3)
    ]
    for labels in METHODS[name](steps=4, prior=prior).fit(videos).labels_:
        assert np.array_equal(labels, np.repeat(np.arange(4), 25))


@pytest.mark.parametrize("name", LEARNED)
def test_a_strong_prior_is_the_uniform_baseline(name: str) -> None:
    videos = [
        video[np.random.default_rng(n).permutation(60)]
        for n, video in enumerate(make_videos((60,) * 3))
    ]
    labels = METHODS[name](steps=4, prior=1000.0).fit(videos).labels_
    assert all((np.diff(video) >= 0).all() and len(set(video.tolist())) == 4 for video in labels)
    plain = METHODS[name](steps=4).fit(videos).labels_
    assert not same(plain, labels)


# ---------------------------------------------------------------------- errors


@every
def test_predict_before_fit(name: str) -> None:
    for call in ("predict", "probabilities"):
        with pytest.raises(NotLearned, match=r"call fit\(features\) first"):
            getattr(METHODS[name](), call)(make_videos())
    with pytest.raises(NotLearned):
        METHODS[name]().state()


@every
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_a_value_that_is_no_number(name: str, value: float) -> None:
    videos = make_videos()
    videos[1][17, 2] = value
    with raises(FeatureError, "video 1: row 17"):
        METHODS[name](steps=4).fit(videos)
    good = make_videos()
    with raises(FeatureError, "video 1: row 17"):
        METHODS[name](steps=4).fit(good).predict(videos)


@every
def test_more_steps_than_frames(name: str) -> None:
    with raises(OptionError, "steps=9", "5 frames"):
        METHODS[name](steps=9).fit(make_videos((3, 2)))


@every
@pytest.mark.parametrize(
    ("videos", "word"),
    [
        ([], "empty"),
        (np.zeros((5, 3)), "(5, 3)"),
        ([np.zeros((5, 3)), np.zeros((5, 4))], "video 1 has 4 "),
        ([np.zeros((5, 3)), np.zeros((0, 3))], "video 1: empty, shape (0, 3)"),
        ([np.zeros((5, 3, 2))], "video 0: shape (5, 3, 2)"),
        ([np.array([["a"]])], "<U1"),
    ],
)
def test_invalid_videos_are_refused(name: str, videos: Any, word: str) -> None:
    with raises(FeatureError, word):
        METHODS[name](steps=2).fit(videos)


@every
def test_a_new_video_of_another_dimension(name: str) -> None:
    segmenter = METHODS[name](steps=2).fit(make_videos(dim=6))
    with raises(FeatureError, "video 0", "5", "6"):
        segmenter.predict(make_videos(dim=5))


@every
@pytest.mark.parametrize(
    ("setting", "value"),
    [("steps", 0), ("steps", 2.5), ("rate", 0), ("rate", "fast"), ("seed", -1), ("seed", 10**30)],
)
def test_invalid_settings_are_refused(name: str, setting: str, value: Any) -> None:
    with raises(OptionError, f"{setting}={value!r}"):
        METHODS[name](**{setting: value}).fit(make_videos())


@pytest.mark.parametrize(
    ("name", "setting", "value", "bound"),
    [
        ("procut", "m", 1, "1"),
        ("procut", "smoothness", -1, "0"),
        ("procut", "window", float("nan"), ""),
        ("procut", "normalise", "False", ""),
        ("kmeans", "prior", -0.1, ""),
        ("procut", "window", 1e300, "3600"),
        ("kmeans", "restarts", 0, "1"),
        ("kmeans", "restarts", 10**11, "10000"),
        ("subset", "states", 3, "4"),
        ("asot", "radius", 2, "1"),
        ("asot", "entropy", 0, "0"),
    ],
)
def test_settings_of_its_own(name: str, setting: str, value: Any, bound: str) -> None:
    with raises(OptionError, setting=setting) as caught:
        METHODS[name](steps=4, **{setting: value}).fit(make_videos())
    assert f"{setting}={value}" in str(caught.value).replace("'", "")
    assert bound in str(caught.value.allowed)


class Own(Method):
    """A segmenter of one's own whose probabilities are what a test says."""

    def shares(self, rows: Any) -> Any:
        return np.ones((len(rows), self.count + 1))


def test_a_wrong_custom_segmenter_is_refused() -> None:
    with raises(OptionError, "(30, 4)", "(30, 3)"):
        Own(steps=3).fit(make_videos())


@every
def test_the_same_numbers_of_another_type_give_the_same_labels(name: str) -> None:
    videos = [rows.astype(np.float16).astype(np.float32) for rows in make_videos()]
    once = METHODS[name](steps=4, seed=1).fit(videos).labels_
    for kind in (np.float16, np.float64, ">f4"):
        assert same(
            once, METHODS[name](steps=4, seed=1).fit([rows.astype(kind) for rows in videos]).labels_
        ), kind
    assert same(
        once, METHODS[name](steps=4, seed=1).fit([rows.tolist() for rows in videos]).labels_
    )
