"""What a user hands over, as features; and every way in which it can make no sense."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from features_films import make_film

from stepcut.errors import FeatureError, OptionError, VideoError
from stepcut.features.extract import read_like, read_source
from stepcut.features.features import Features
from stepcut.features.spec import as_spec


def rows(seed: int, length: int = 5, width: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(length, width)).astype(np.float32)


def test_arrays_by_name_keep_their_names() -> None:
    features, failures = read_source({"a": rows(0), "b": rows(1)}, rate=2)
    assert [one.name for one in features] == ["a", "b"]
    assert features[0].rate == Fraction(2)
    assert features[0].duration == 2.5
    assert failures == []


def test_arrays_in_a_list_are_numbered() -> None:
    assert [one.name for one in read_source([rows(0), rows(1)])[0]] == ["0", "1"]


def test_a_folder_of_feature_files(tmp_path: Path) -> None:
    for name in ("b", "a"):
        np.save(tmp_path / f"{name}.npy", rows(0))
    features, _ = read_source(tmp_path, rate=1)
    assert [one.name for one in features] == ["a", "b"]


def test_a_glob(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", rows(0))
    np.save(tmp_path / "b.npy", rows(1))
    assert len(read_source([str(tmp_path / "*.npy")])[0]) == 2


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ([rows(0), rows(1, width=5)], r"0 has .* 1 has .* rows of shape \(5,\) .* one backbone"),
        ([rows(0), np.full((3, 4), np.nan)], "1: row 0 contains NaN, infinity"),
        ([rows(0), np.zeros(4)], r"1: shape \(4,\); features are \(T, d\) vectors"),
        ([rows(0), np.zeros((0, 4))], "1: empty"),
        ([rows(0), np.array([["x"]])], "1: values of type <U1, not numbers"),
    ],
)
def test_features_that_make_no_sense(bad: list[np.ndarray], sentence: str) -> None:
    with pytest.raises(FeatureError, match=sentence):
        read_source(bad)


def test_a_rate_must_be_above_zero() -> None:
    with pytest.raises(OptionError, match="rate=0"):
        read_source([rows(0)], rate=0)


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(VideoError, match="no such file or folder"):
        read_source(tmp_path / "nowhere")


def test_features_below_folders_but_not_the_tensors_of_a_procedure(tmp_path: Path) -> None:
    for place in ("cam1/a", "cam2/a"):
        (tmp_path / place).parent.mkdir()
        np.save(tmp_path / f"{place}.npy", rows(0))
    proc = tmp_path / "task.proc"
    proc.mkdir()
    for name in ("config.json", "steps.json", "model.safetensors"):
        (proc / name).write_text("{}")
    found, _ = read_source(tmp_path)
    assert [one.name for one in found] == ["cam1/a", "cam2/a"]


def test_a_folder_without_videos_names_the_suffixes(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(VideoError, match=r"no video in this folder \(only 1 x \.txt\).*\.mp4"):
        read_source(tmp_path)


def test_a_pattern_that_matches_nothing(tmp_path: Path) -> None:
    with pytest.raises(VideoError, match="nothing matches"):
        read_source([str(tmp_path / "*.mp4")])


def test_nothing_given() -> None:
    with pytest.raises(VideoError, match="the list is empty"):
        read_source([])


def test_videos_and_features_are_not_mixed(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", rows(0))
    (tmp_path / "b.mp4").write_bytes(b"x")
    with pytest.raises(OptionError, match=r"b\.mp4 contains a video, but .*a\.npy a feature file"):
        read_source([tmp_path / "a.npy", tmp_path / "b.mp4"])


def test_when_no_video_can_be_used_every_reason_is_given(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.mp4").write_bytes(b"")
    with pytest.raises(VideoError, match=r"none of the 2 videos can be used; .*a\.mp4.*b\.mp4"):
        read_source(tmp_path)


def test_rows_of_another_rate_are_refused_with_how_to_make_them() -> None:
    other = Features(rows(0), Fraction(1), 5.0, "b")
    with pytest.raises(
        FeatureError, match=r"^b: 1 rows .* stepcut features VIDEO -o DIR --fps 5/2$"
    ):
        read_like(other, Fraction(5, 2), [4], None)


def test_a_video_for_a_procedure_of_features(tmp_path: Path) -> None:
    (tmp_path / "new.mp4").write_bytes(b"film")
    with pytest.raises(OptionError, match=r"learned from feature files.* Use a feature file"):
        read_like(tmp_path / "new.mp4", Fraction(1), [3], None)


def test_a_backbone_object_makes_rows_at_the_rate_of_the_spec(tmp_path: Path) -> None:
    class Grey:
        name, dim, size, fingerprint = "grey", 1, 16, "grey"

        def extract(self, frames: Any) -> Any:
            return frames.mean(axis=(1, 2, 3))[:, None]

    film = make_film(tmp_path / "film.mp4", frames=40, rate=20)
    own: Any = Grey()
    [one], _ = read_source(film, spec=as_spec(own, fps=5), cache=tmp_path, backbone=own)
    assert (one.rate, len(one.rows)) == (5, 10)
