"""Sampling on true time, against a slow oracle that looks up each time; fast samples stay within two rows."""

import gc
import itertools
import math
import random
from fractions import Fraction

import av
import numpy as np
import pytest
from errors_kit import raises
from features_films import HEIGHT, WIDTH, make_film, number_of, picture
from parallel_kit import Grey
from PIL import Image

from stepcut.errors import OptionError
from stepcut.features.extract import extract
from stepcut.features.features import read_rows
from stepcut.features.spec import FeatureSpec
from stepcut.features.video import sample
from stepcut.features.video.container import key_times, probe
from stepcut.features.video.sample import sample_frames
from stepcut.settings import as_rate

FILMS = {
    "plain.mp4": {},
    "b-frames.mp4": {"bf": "3", "g": "12"},
    "open-gop.mp4": {"bf": "3", "g": "10", "x264-params": "open-gop=1:scenecut=0"},
    "b-frames.avi": {"codec": "mpeg4", "bf": "2", "g": "9"},
    "vp9.webm": {"codec": "libvpx-vp9", "g": "10", "deadline": "realtime", "cpu-used": "8"},
    "stream.ts": {"bf": "2", "g": "8"},
    "film.mkv": {"bf": "2", "g": "8"},
    "sound.mp4": {"sound": True},
}


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    folder = tmp_path_factory.mktemp("films")
    films = {name: make_film(folder / name, **options) for name, options in FILMS.items()}
    steps = random.Random(0)
    times = [170]
    for _ in range(39):
        times.append(times[-1] + steps.choice([1, 20, 33, 50, 240]))
    how = {"clock": Fraction(1, 1000)}
    films["variable.mp4"] = make_film(folder / "variable.mp4", times=times, bf="2", g="10", **how)
    films["late.mkv"] = make_film(folder / "late.mkv", times=[t + 5000 for t in times], **how)
    return films


def oracle(path, fps):
    with av.open(str(path)) as container:
        frames = sorted(
            (f.pts * f.time_base, f.duration * f.time_base, number_of(f.to_ndarray(format="rgb24")))
            for f in container.decode(video=0)
        )
    zero, end = frames[0][0], frames[-1][0] + frames[-1][1]
    rows = range(math.ceil((end - zero) * fps))
    return [[n for time, _, n in frames if time - zero <= i / fps][-1] for i in rows], end - zero


ALL = [*FILMS, "variable.mp4", "late.mkv"]


@pytest.mark.parametrize("fps", [Fraction(30000, 1001), Fraction(7, 3), 20])
@pytest.mark.parametrize("name", ALL)
def test_samples_are_the_frames_shown_then(films, name, fps):
    expected, length = oracle(films[name], Fraction(fps))
    samples = sample_frames(films[name], fps)
    got = list(samples)
    assert [number_of(image) for _, image in got] == expected
    assert [time for time, _ in got] == [float(i / Fraction(fps)) for i in range(len(got))]
    assert (samples.duration, samples.corrupt) == (pytest.approx(float(length)), 0)
    if name in FILMS and fps == 20:  # that of the films: so the oracle itself is right
        assert expected == list(range(40))


@pytest.mark.parametrize("name", ALL)
def test_parts_give_the_samples_of_one_pass(films, name):
    whole = list(sample_frames(films[name], 7, size=(24, 32)))
    for borders in ([0, 0.5, None], [0, Fraction(3, 7), Fraction(4, 7), 1.3, None], [0, 1.9, 500]):
        spans = [{"start": start or 0, "end": end} for start, end in itertools.pairwise(borders)]
        made = [sample_frames(films[name], 7, size=(24, 32), **span) for span in spans]
        parts = [sample for one in made for sample in one]
        assert [time for time, _ in parts] == [time for time, _ in whole]
        assert all(np.array_equal(a, b) for (_, a), (_, b) in zip(parts, whole, strict=True))


def test_streams_without_timestamps_or_a_stated_length_and_two_recordings_in_one_file(tmp_path):
    film = make_film(tmp_path / "raw.h264", container="h264", bf="2")
    samples = sample_frames(film, 10)
    assert [number_of(image) for _, image in samples] == list(range(0, 40, 2))
    assert samples.duration == pytest.approx(2.0)
    assert probe(film).duration == pytest.approx(2.0)
    assert key_times(film) == []
    late = [number_of(image) for _, image in sample_frames(film, 10, start=1.0)]
    assert late == list(range(20, 40, 2))
    film = make_film(tmp_path / "live.mkv", muxer={"live": "1"})
    with av.open(str(film)) as container:
        assert not container.duration
    assert probe(film).duration == pytest.approx(2.0)
    assert [number_of(image) for _, image in sample_frames(film, 4)] == list(range(0, 40, 5))
    film = make_film(tmp_path / "one.mp4", frames=1)
    assert [number_of(image) for _, image in sample_frames(film, 2)] == [0]
    one = make_film(tmp_path / "one.ts", g="10")
    both = tmp_path / "both.ts"
    both.write_bytes(one.read_bytes() * 2)
    numbers = [number_of(image) for _, image in sample_frames(both, 20)]
    assert numbers.count(39) == 2
    assert 75 <= len(numbers) <= 82


@pytest.mark.parametrize("degrees", [0, 90, 180, -90])
def test_rotation_is_applied(tmp_path, degrees):
    film = make_film(tmp_path / "turned.mp4", frames=2, rotation=degrees)
    # A positive display rotation turns against the clock.
    expected = np.rot90(picture(1), degrees // 90)
    info = probe(film)
    assert (info.height, info.width) == expected.shape[:2]
    image = [image for _, image in sample_frames(film, 20)][1]
    assert image.shape == expected.shape
    assert np.abs(image.astype(int) - expected).mean() < 8
    small = [image for _, image in sample_frames(film, 20, size=(24, 16))][1]
    assert small.shape == (24, 16, 3)
    assert np.abs(small[::3, ::3].mean() - expected.mean()) < 8


def test_probe_tells_what_the_film_is_and_scaled_pictures_look_alike(films):
    info = probe(films["sound.mp4"])
    told = (info.width, info.height, info.codec, info.rate, info.frames)
    assert told == (WIDTH, HEIGHT, "h264", Fraction(20), 40)
    assert info.duration == pytest.approx(2.0, abs=0.01)
    keys = key_times(films["b-frames.mp4"])
    assert (keys[0], keys) == (0, sorted(keys))
    assert len(keys) > 2
    film = films["plain.mp4"]
    both = zip(sample_frames(film, 4, size=16), sample_frames(film, 4), strict=True)
    for (_, small), (_, large) in both:
        peer = np.asarray(Image.fromarray(large).resize((16, 16), Image.Resampling.BILINEAR))
        assert np.abs(peer.astype(int) - small).mean() < 1
    samples = sample_frames(film, 20)
    next(samples)
    samples.close()
    assert list(samples) == []


def test_rates_are_exact_or_none():
    assert as_rate(29.97) == Fraction(30000, 1001)
    assert as_rate(1 / 3) == Fraction(1, 3)
    nan, inf = float("nan"), float("inf")
    for value in (0, -1, nan, inf, "fast", None, 2000, 1e-6, "1e999999999", "1" * 99):
        with raises(OptionError, setting="fps"):
            as_rate(value)


@pytest.mark.slow
def test_frames_are_let_go_at_once(films):
    """No decoded frame may linger in a reference cycle: a large one takes megabytes."""
    gc.collect()
    gc.disable()
    try:
        samples = sample_frames(films["plain.mp4"], 20)
        alive = [sum(type(thing) is av.VideoFrame for thing in gc.get_objects()) for _ in samples]
    finally:
        gc.enable()
    assert max(alive) <= 6


CODED = {
    "b-frames": {"preset": "medium", "bf": "3", "g": "100"},
    "dense key frames": {"g": "2"},
    "a key frame a second": {"g": "20", "bf": "2", "preset": "medium"},
    "open groups": {"preset": "medium", "bf": "3", "g": "10", "x264-params": "open-gop=1"},
    "many b-frames": {"bf": "8", "g": "100", "x264-params": "b-pyramid=none:b-adapt=0"},
}


@pytest.mark.parametrize("kind", CODED)
def test_samples_stay_within_two_rows_and_parts_join_to_the_whole(tmp_path, kind):
    film = make_film(tmp_path / "film.mp4", frames=200, rate=20, **CODED[kind])
    for fps in (2, 5):
        exact, samples = sample_frames(film, fps), sample_frames(film, fps, fast=True)
        right = [(time, number_of(image)) for time, image in exact]
        less = [(time, number_of(image)) for time, image in samples]
        assert [time for time, _ in less] == [time for time, _ in right]
        assert (samples.duration, samples.corrupt) == (exact.duration, 0)
        late = [(one - other) / 20 for (_, one), (_, other) in zip(right, less, strict=True)]
        assert 0 <= min(late) <= max(late) <= 2 / fps
    if kind == "a key frame a second":
        spans = [{"start": 0, "end": 2}, {"start": 2, "end": 7}, {"start": 7}]
        made = [sample_frames(film, fps, fast=True, **span) for span in spans]
        parts = [number_of(image) for one in made for _, image in one]
        assert parts == [number for _, number in less]


def decoded(film, fps, monkeypatch):
    frames, decode = [], sample._decode

    def count(*given):
        for frame in decode(*given):
            frames.append(1)
            yield frame

    with monkeypatch.context() as patch:
        patch.setattr(sample, "_decode", count)
        list(sample_frames(film, fps, fast=True))
    return len(frames)


def test_less_is_decoded(tmp_path, monkeypatch):
    film = make_film(tmp_path / "keys.mp4", frames=200, rate=20, g="10")
    assert decoded(film, 2, monkeypatch) == 20  # key frames alone, two a second
    assert decoded(film, 8, monkeypatch) == 200  # they are too far apart, and others refer to all
    film = make_film(tmp_path / "b.mp4", frames=200, rate=20, **CODED["b-frames"])
    assert decoded(film, 2, monkeypatch) < 150
    film = make_film(tmp_path / "dense.mp4", frames=200, rate=20, g="2")
    assert decoded(film, 2, monkeypatch) == 21  # those that a row shows, and the last


def make_moving_film(path, codec, options):
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


def test_fast_rows_are_features_of_their_own(tmp_path):
    film = make_film(tmp_path / "film.mp4", frames=60, rate=20, **CODED["dense key frames"])
    backbone = Grey()
    backbone.spec = FeatureSpec("tests:Grey", fast=True)
    fast, _ = extract(film, backbone, cache=tmp_path)
    backbone.spec = FeatureSpec("tests:Grey")
    exact, _ = extract(film, backbone, cache=tmp_path)
    assert len(fast[0].rows) == len(exact[0].rows)
    said = [read_rows(file)[1] for file in (tmp_path / "features").iterdir()]
    assert sorted(one.get("fast", "") for one in said) == ["", "true"]
