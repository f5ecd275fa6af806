"""What a user hands over, as features; and every way in which it can make no sense."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from errors_kit import raises
from features_films import make_film

from stepcut.errors import FeatureError, OptionError, VideoError
from stepcut.features.extract import read_like, read_source
from stepcut.features.features import Features
from stepcut.features.spec import as_spec


def rows(seed, length=5, width=4):
    return np.random.default_rng(seed).normal(size=(length, width)).astype(np.float32)


def test_arrays_by_name_keep_their_names():
    features, failures = read_source({"a": rows(0), "b": rows(1)}, rate=2)
    assert [one.name for one in features] == ["a", "b"]
    assert features[0].rate == Fraction(2)
    assert features[0].duration == 2.5
    assert failures == []


def test_arrays_in_a_list_are_numbered():
    assert [one.name for one in read_source([rows(0), rows(1)])[0]] == ["0", "1"]


def test_a_folder_of_feature_files(tmp_path):
    for name in ("b", "a"):
        np.save(tmp_path / f"{name}.npy", rows(0))
    features, _ = read_source(tmp_path, rate=1)
    assert [one.name for one in features] == ["a", "b"]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (rows(1, width=5), "(5,)"),
        (np.full((3, 4), np.nan), "1: row 0"),
        (np.zeros(4), "1: shape (4,)"),
        (np.zeros((0, 4)), "1: empty"),
        (np.array([["x"]]), "<U1"),
    ],
)
def test_features_that_make_no_sense(bad, says):
    with raises(FeatureError, says):
        read_source([rows(0), bad])


def test_a_rate_must_be_above_zero():
    with raises(OptionError, setting="rate", value=0):
        read_source([rows(0)], rate=0)


def test_features_below_folders_but_not_the_tensors_of_a_procedure(tmp_path):
    for place in ("cam1/a", "cam2/a"):
        (tmp_path / place).parent.mkdir()
        np.save(tmp_path / f"{place}.npy", rows(0))
    proc = tmp_path / "task.proc"
    proc.mkdir()
    for name in ("config.json", "steps.json", "model.safetensors"):
        (proc / name).write_text("{}")
    found, _ = read_source(tmp_path)
    assert [one.name for one in found] == ["cam1/a", "cam2/a"]


def test_videos_and_features_are_not_mixed(tmp_path):
    np.save(tmp_path / "a.npy", rows(0))
    (tmp_path / "b.mp4").write_bytes(b"x")
    with raises(OptionError, "b.mp4", "a.npy"):
        read_source([tmp_path / "a.npy", tmp_path / "b.mp4"])


def test_when_no_video_can_be_used_every_reason_is_given(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.mp4").write_bytes(b"")
    with raises(VideoError, "a.mp4", "b.mp4"):
        read_source(tmp_path)


def test_rows_of_another_rate_are_refused_with_how_to_make_them():
    other = Features(rows(0), Fraction(1), 5.0, "b")
    with raises(FeatureError, "stepcut features VIDEO -o DIR --fps 5/2"):
        read_like(other, Fraction(5, 2), [4], None)


def test_a_backbone_object_makes_rows_at_the_rate_of_the_spec(tmp_path):
    class Grey:
        name, dim, size, fingerprint = "grey", 1, 16, "grey"

        def extract(self, frames):
            return frames.mean(axis=(1, 2, 3))[:, None]

    film = make_film(tmp_path / "film.mp4", frames=40, rate=20)
    own: Any = Grey()
    [one], _ = read_source(film, spec=as_spec(own, fps=5), cache=tmp_path, backbone=own)
    assert (one.rate, len(one.rows)) == (5, 10)
