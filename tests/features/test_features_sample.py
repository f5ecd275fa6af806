"""Sampling on true time, against a slow oracle that decodes everything and looks up each time."""

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
from PIL import Image

from stepcut.errors import OptionError
from stepcut.features.video.container import key_times, probe
from stepcut.features.video.sample import sample_frames
from stepcut.rate import as_rate

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
    """Decode all, sort by time, and for each i find the last frame whose time is at most i / fps."""
    with av.open(str(path)) as container:
        frames = sorted(
            (f.pts * f.time_base, f.duration * f.time_base, number_of(f.to_ndarray(format="rgb24")))
            for f in container.decode(video=0)
        )
    zero, end = frames[0][0], frames[-1][0] + frames[-1][1]
    rows = range(math.ceil((end - zero) * fps))
    return [[n for time, _, n in frames if time - zero <= i / fps][-1] for i in rows], end - zero


ALL = [*FILMS, "variable.mp4", "late.mkv"]


@pytest.mark.parametrize("fps", [2, Fraction(30000, 1001), Fraction(7, 3), 20])
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
        parts = [
            sample
            for start, end in itertools.pairwise(borders)
            for sample in sample_frames(films[name], 7, size=(24, 32), start=start or 0, end=end)
        ]
        assert [time for time, _ in parts] == [time for time, _ in whole]
        assert all(np.array_equal(a, b) for (_, a), (_, b) in zip(parts, whole, strict=True))


def test_streams_without_timestamps_or_a_stated_length(tmp_path):
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


def test_scaled_pictures_look_like_the_large_ones_and_reading_can_stop(films):
    film = films["plain.mp4"]
    both = zip(sample_frames(film, 4, size=16), sample_frames(film, 4), strict=True)
    for (_, small), (_, large) in both:
        peer = np.asarray(Image.fromarray(large).resize((16, 16), Image.Resampling.BILINEAR))
        assert np.abs(peer.astype(int) - small).mean() < 1
    samples = sample_frames(film, 20)
    next(samples)
    samples.close()
    assert list(samples) == []


def test_two_recordings_in_one_file_follow_each_other(tmp_path):
    one = make_film(tmp_path / "one.ts", g="10")
    both = tmp_path / "both.ts"
    both.write_bytes(one.read_bytes() * 2)
    numbers = [number_of(image) for _, image in sample_frames(both, 20)]
    assert numbers.count(39) == 2
    assert 75 <= len(numbers) <= 82


def test_probe_tells_what_the_film_is(films):
    info = probe(films["sound.mp4"])
    told = (info.width, info.height, info.codec, info.rate, info.frames)
    assert told == (WIDTH, HEIGHT, "h264", Fraction(20), 40)
    assert info.duration == pytest.approx(2.0, abs=0.01)
    keys = key_times(films["b-frames.mp4"])
    assert (keys[0], keys) == (0, sorted(keys))
    assert len(keys) > 2


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
