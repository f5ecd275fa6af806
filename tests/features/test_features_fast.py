"""Fast sampling: samples stay within two rows, as many as before, and parts still join to the whole."""

from typing import Any

import av
import numpy as np
import pytest
from features_films import make_film, number_of

from stepcut.features.extract import extract
from stepcut.features.files import read_rows
from stepcut.features.spec import FeatureSpec
from stepcut.features.video import sample
from stepcut.features.video.sample import sample_frames

FILMS: dict[str, dict[str, Any]] = {
    "b-frames": {"preset": "medium", "bf": "3", "g": "100"},
    "dense key frames": {"g": "2"},
    "a key frame a second": {"g": "20", "bf": "2", "preset": "medium"},
    "open groups": {"preset": "medium", "bf": "3", "g": "10", "x264-params": "open-gop=1"},
    "many b-frames that nothing refers to": {
        "bf": "8",
        "g": "100",
        "x264-params": "b-pyramid=none:b-adapt=0",
    },
}


@pytest.mark.parametrize("fps", [2, 5])
@pytest.mark.parametrize("kind", FILMS)
def test_samples_stay_within_two_rows_and_parts_join_to_the_whole(tmp_path, kind, fps):
    film = make_film(tmp_path / "film.mp4", frames=200, rate=20, **FILMS[kind])
    exact, samples = sample_frames(film, fps), sample_frames(film, fps, fast=True)
    right = [(time, number_of(image)) for time, image in exact]
    less = [(time, number_of(image)) for time, image in samples]
    assert [time for time, _ in less] == [time for time, _ in right]
    assert (samples.duration, samples.corrupt) == (exact.duration, 0)
    late = [(one - other) / 20 for (_, one), (_, other) in zip(right, less, strict=True)]
    assert 0 <= min(late) <= max(late) <= 2 / fps
    if kind == "a key frame a second":
        parts = [
            number_of(image)
            for start, end in ((0, 2), (2, 7), (7, None))
            for _, image in sample_frames(film, fps, start=start, end=end, fast=True)
        ]
        assert parts == [number for _, number in less]


def decoded(film, fps, monkeypatch):
    """How many frames the decoder gave for samples that are fast."""
    frames = 0
    decode = sample._decode

    def count(*given):
        nonlocal frames
        for frame in decode(*given):
            frames += 1
            yield frame

    with monkeypatch.context() as patch:
        patch.setattr(sample, "_decode", count)
        list(sample_frames(film, fps, fast=True))
    return frames


def test_less_is_decoded(tmp_path, monkeypatch):
    film = make_film(tmp_path / "keys.mp4", frames=200, rate=20, g="10")
    assert decoded(film, 2, monkeypatch) == 20  # key frames alone, two a second
    assert decoded(film, 8, monkeypatch) == 200  # they are too far apart, and others refer to all
    film = make_film(tmp_path / "b.mp4", frames=200, rate=20, **FILMS["b-frames"])
    assert decoded(film, 2, monkeypatch) < 150
    film = make_film(tmp_path / "dense.mp4", frames=200, rate=20, g="2")
    assert decoded(film, 2, monkeypatch) == 21  # those that a row shows, and the last


def make_moving_film(path, codec, options):
    """A film in which all that is seen moves, so that frames are told by others."""
    noise = np.random.default_rng(0).integers(0, 256, (15, 60), np.uint8)
    wall = np.repeat(np.kron(noise, np.ones((8, 8), np.uint8))[:, :, None], 3, axis=2)
    with av.open(str(path), "w") as out:
        stream = out.add_stream(codec, rate=20, options=options)
        stream.width, stream.height = 160, 120
        stream.pix_fmt = (av.Codec(codec, "w").video_formats or [av.VideoFormat("yuv420p")])[0].name
        for number in range(90):
            picture = wall[:, 3 * number : 3 * number + 160]
            out.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        out.mux(stream.encode(None))


UNSURE = {"qtrle": ".mov", "svq1": ".mov", "cfhd": ".mov",
          "h263p": ".avi", "msvideo1": ".avi", "flashsv": ".flv"}  # fmt: skip
"""Codecs whose packets or frames do not say which are key frames, or say it of all."""


@pytest.mark.parametrize("codec", UNSURE)
def test_codecs_that_do_not_name_their_key_frames(tmp_path, codec):
    film = tmp_path / f"film{UNSURE[codec]}"
    make_moving_film(film, codec, {"g": "10"})
    exact, samples = sample_frames(film, 2), sample_frames(film, 2, fast=True)
    assert [time for time, _ in samples] == [time for time, _ in exact]
    assert samples.duration == exact.duration
    assert samples.corrupt == 0


def test_without_a_gpu_the_frames_are_the_same(tmp_path):
    film = make_film(
        tmp_path / "film.mp4", frames=12, rate=20, scale=20, **FILMS["a key frame a second"]
    )
    here = [image for _, image in sample_frames(film, 2, 64, fast=True)]
    there = [image for _, image in sample_frames(film, 2, 64, fast=True, gpu="cuda")]
    np.testing.assert_array_equal(here, there)


def test_fast_rows_are_features_of_their_own(tmp_path):
    class Grey:
        name, dim, size, fingerprint = "grey", 1, 16, "grey"

        def extract(self, frames):
            return frames.mean(axis=(1, 2, 3))[:, None]

    film = make_film(tmp_path / "film.mp4", frames=60, rate=20, **FILMS["dense key frames"])
    backbone: Any = Grey()
    backbone.spec = FeatureSpec("tests:Grey", fast=True)
    fast, _ = extract(film, backbone, cache=tmp_path)
    backbone.spec = FeatureSpec("tests:Grey")
    exact, _ = extract(film, backbone, cache=tmp_path)
    assert len(fast[0].rows) == len(exact[0].rows)
    said = [read_rows(file)[1] for file in (tmp_path / "features").iterdir()]
    assert sorted(one.get("fast", "") for one in said) == ["", "true"]
