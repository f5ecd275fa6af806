"""Decoding less: samples stay within the stated tolerance, as many as before, and parts still join to the whole."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from features_films import make_film, number_of
from numpy.typing import NDArray

from stepcut.errors import OptionError
from stepcut.features.extract import extract
from stepcut.features.files import read_rows
from stepcut.features.spec import FeatureSpec
from stepcut.features.video.sample import sample_frames
from stepcut.features.video.skip import needed
from stepcut.features.video.unreferred import begins_anew, find_teller, leave_out_unreferred

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


@pytest.mark.parametrize("times", ["near", "fast"])
@pytest.mark.parametrize("kind", FILMS)
def test_samples_stay_within_the_tolerance(tmp_path: Path, kind: str, times: str) -> None:
    film = make_film(tmp_path / "film.mp4", frames=200, rate=20, **FILMS[kind])
    exact, samples = sample_frames(film, 2), sample_frames(film, 2, times=times)
    right = [(time, number_of(image)) for time, image in exact]
    less = [(time, number_of(image)) for time, image in samples]
    assert [time for time, _ in less] == [time for time, _ in right]
    assert samples.duration == exact.duration
    assert samples.corrupt == 0
    assert samples.tolerance is not None
    late = [(one - other) / 20 for (_, one), (_, other) in zip(right, less, strict=True)]
    assert min(late) >= 0
    assert max(late) <= samples.tolerance


GROUPS: dict[str, tuple[str, dict[str, str], bool]] = {
    "H.264": ("libx264", {"bf": "3", "g": "13"}, True),
    "H.264, open": (
        "libx264",
        {"bf": "3", "g": "13", "x264-params": "open-gop=1:scenecut=0"},
        False,
    ),
    "HEVC": ("libx265", {"g": "13", "x265-params": "open-gop=0:bframes=3:log-level=none"}, True),
    "HEVC, open": (
        "libx265",
        {"g": "13", "x265-params": "open-gop=1:bframes=3:log-level=none:scenecut=0"},
        False,
    ),
    "VP9": ("libvpx-vp9", {"g": "13"}, True),
    "AV1": ("libsvtav1", {"svtav1-params": "keyint=13"}, True),
    "MPEG-4": ("mpeg4", {"bf": "2", "g": "13"}, False),
}
"""Codecs and how films are made, and whether their key frames after the first begin anew."""


def make_moving_film(path: Path, codec: str, options: dict[str, str]) -> list[NDArray[np.uint8]]:
    """A film in which all that is seen moves, so that frames are told by others; its frames as decoded one by one."""
    noise = np.random.default_rng(0).integers(0, 256, (15, 60), np.uint8)
    wall = np.repeat(np.kron(noise, np.ones((8, 8), np.uint8))[:, :, None], 3, axis=2)
    with av.open(str(path), "w") as out:
        stream = out.add_stream(codec, rate=20, options=options)
        stream.width, stream.height = 160, 120
        stream.pix_fmt = (av.Codec(codec, "w").video_formats or [av.VideoFormat("yuv420p")])[0].name
        for number in range(90):
            out.mux(
                stream.encode(av.VideoFrame.from_ndarray(wall[:, 3 * number : 3 * number + 160]))
            )
        out.mux(stream.encode(None))
    with av.open(str(path)) as film:
        return [frame.to_ndarray(format="rgb24") for frame in film.decode(video=0)]


@pytest.mark.parametrize("kind", GROUPS)
def test_samples_are_frames_of_the_film_whatever_is_left_out(tmp_path: Path, kind: str) -> None:
    codec, options, anew = GROUPS[kind]
    film = tmp_path / "film.mkv"
    whole = make_moving_film(film, codec, options)
    with av.open(str(film)) as container:
        stream = container.streams.video[0]
        keys = [packet for packet in container.demux(stream) if packet.is_keyframe]
        assert {begins_anew(stream.codec_context, packet) for packet in keys[1:]} == {anew}
    for fps in (Fraction(2), Fraction(7, 3), Fraction(3)):
        samples = sample_frames(film, fps, times="near", threads=4)
        for number, (_, picture) in enumerate(samples):
            shown, oldest = number * 20 / fps, (number - Fraction(1, 2)) * 20 / fps
            right = whole[max(0, math.ceil(oldest)) : math.floor(shown) + 1]
            assert (
                min(np.abs(picture.astype(int) - one).max() for one in right) <= 2
            )  # dithering of AV1
        assert samples.corrupt == 0


UNSURE = {
    "qtrle": ".mov",
    "svq1": ".mov",
    "cfhd": ".mov",
    "h263p": ".avi",
    "msvideo1": ".avi",
    "flashsv": ".flv",
}
"""Codecs whose packets or frames do not say which are key frames, or say it of all."""


@pytest.mark.parametrize("times", ["near", "fast"])
@pytest.mark.parametrize("codec", UNSURE)
def test_where_key_frames_are_not_told_nothing_is_left_out(
    tmp_path: Path, codec: str, times: str
) -> None:
    film = tmp_path / f"film{UNSURE[codec]}"
    make_moving_film(film, codec, {"g": "10"})
    exact, samples = sample_frames(film, 2), sample_frames(film, 2, times=times)
    np.testing.assert_array_equal([image for _, image in samples], [image for _, image in exact])
    assert samples.duration == exact.duration


@pytest.mark.parametrize("codec", ["mjpeg", "mpeg2video", "libvpx"])
def test_where_key_frames_are_told_less_is_decoded(tmp_path: Path, codec: str) -> None:
    film = tmp_path / "film.mkv"
    make_moving_film(film, codec, {"g": "5"})
    samples = sample_frames(film, 1, times="near")
    assert len(list(samples)) == 5
    assert samples.spare is not None


@pytest.mark.parametrize("codec", ["libx264", "libx265"])
@pytest.mark.parametrize(
    "suffix", [".mp4", ".mkv", ".ts"]
)  # units by their lengths; in the last, by marks
def test_packets_tell_what_the_decoder_would_leave_out(
    tmp_path: Path, suffix: str, codec: str
) -> None:
    film = make_film(
        tmp_path / f"film{suffix}", frames=60, rate=20, codec=codec, bf="3", g="30", preset="medium"
    )
    with av.open(str(film)) as container:
        stream = container.streams.video[0]
        tell = find_teller(stream.codec_context)
        assert tell is not None
        told = {
            packet.pts for packet in container.demux(stream) if packet.size and not tell(packet)
        }
        every = stream.frames or 60
    with av.open(str(film)) as container:
        stream = container.streams.video[0]
        stream.codec_context.skip_frame = "NONREF"
        decoded = {frame.pts for frame in container.decode(stream)}
    assert told == decoded
    assert 0 < len(told) < every


def test_other_codecs_do_not_tell(tmp_path: Path) -> None:
    with av.open(str(make_film(tmp_path / "film.avi", frames=4, codec="mpeg4"))) as container:
        assert find_teller(container.streams.video[0].codec_context) is None


def test_packets_that_hold_no_picture_are_kept() -> None:
    def tell(_: Any) -> bool:
        return True

    film = [Packet(None), Packet(0, size=0), *(Packet(number) for number in range(12))]
    chosen = list(leave_out_unreferred(iter(film), tell, Fraction(1, 4)))
    assert [one.pts for one in chosen] == [None, 0, 0, 6]  # a quarter of a second is five frames
    assert list(leave_out_unreferred(iter(film), tell, None)) == film
    assert list(leave_out_unreferred(iter(film), None, Fraction(1, 4))) == film


def test_parts_join_to_the_whole(tmp_path: Path) -> None:
    film = make_film(tmp_path / "film.mp4", frames=200, rate=20, **FILMS["a key frame a second"])
    whole = [number_of(image) for _, image in sample_frames(film, 2, times="near")]
    borders = [Fraction(0), Fraction(2), Fraction(7), None]
    parts = [
        number_of(image)
        for start, end in pairwise(borders)
        for _, image in sample_frames(film, 2, start=start or 0, end=end, times="near")
    ]
    assert parts == whole


@dataclass
class Packet:
    pts: int | None
    is_keyframe: bool = False
    size: int = 1
    time_base: Fraction = Fraction(1, 20)


def test_what_is_left_out() -> None:
    film = [
        Packet(number, number % 5 == 0) for number in range(40)
    ]  # a key frame every quarter of a second
    chosen = list(needed(iter(film), None, Fraction(2), Fraction(1, 4)))
    assert [one.pts for one, _ in chosen] == [0, 10, 20, 30, *range(35, 40)]
    assert [one.pts for one, fresh in chosen if fresh] == [10, 20, 30, 35]
    assert [one for one, _ in needed(iter(film), None, Fraction(2), None)] == film
    unknown = [Packet(None, True), Packet(None), Packet(None)]
    assert [one for one, _ in needed(iter(unknown), None, Fraction(2), Fraction(1))] == unknown


def make_group(rng: np.random.Generator, begin: int, b_frames: int) -> list[Packet]:
    """A key frame and what follows it, in the order of the file: up to `b_frames` after the one that they refer to."""
    shown = begin + np.cumsum(rng.choice([1, 1, 1, 2, 4], size=rng.integers(1, 30)))
    packets, rest = [Packet(begin, True)], [int(time) for time in shown]
    while rest:
        count = int(rng.integers(1, b_frames + 2))
        packets += [Packet(time) for time in (*rest[:count][-1:], *rest[:count][:-1])]
        rest = rest[count:]
    return packets


def shows(frames: list[int], sample: Fraction, tolerance: Fraction, all_frames: list[int]) -> bool:
    """Whether a sample, in ticks, shows a frame in time, or the one that it shows when all are decoded."""
    best = max((time for time in frames if time <= sample), default=None)
    return best is not None and (
        best >= sample - tolerance or best == max(time for time in all_frames if time <= sample)
    )


@pytest.mark.parametrize("b_frames", [0, 3])
@pytest.mark.parametrize("seed", range(10))
def test_what_is_left_out_against_trying_all_prefixes(seed: int, b_frames: int) -> None:
    rng = np.random.default_rng(seed)
    fps, tolerance = (
        Fraction(int(rng.integers(1, 5)), int(rng.integers(1, 3))),
        Fraction(int(rng.integers(1, 9)), 20),
    )
    groups: list[list[Packet]] = [make_group(rng, 0, b_frames)]
    for _ in range(12):
        groups.append(
            make_group(
                rng, max(one.pts or 0 for one in groups[-1]) + int(rng.integers(1, 4)), b_frames
            )
        )
    film = [one for group in groups for one in group]
    chosen = list(needed(iter(film), None, fps, tolerance))
    kept, fresh = {id(one) for one, _ in chosen}, {id(one) for one, after in chosen if after}
    row, slack = 20 / fps, tolerance * 20
    for group, following in pairwise(groups):
        count = sum(id(one) in kept for one in group)
        assert [id(one) in kept for one in group] == [True] * count + [False] * (len(group) - count)
        begin, end = group[0].pts or 0, following[0].pts or 0
        samples = [
            number * row for number in range(int(end / row) + 2) if begin <= number * row < end
        ]
        times = [one.pts or 0 for one in group]
        fewest = min(
            n
            for n in range(len(times) + 1)
            if all(shows(times[:n], sample, slack, times) for sample in samples)
        )
        assert all(shows(times[:count], sample, slack, times) for sample in samples)
        in_time = not samples or any(samples[-1] - slack <= time <= samples[-1] for time in times)
        assert count == fewest if in_time and b_frames == 0 else count >= fewest
        assert (id(following[0]) in fresh) == (count < len(group)) or id(following[0]) not in kept
    assert all(id(one) in kept for one in groups[-1])


def test_samples_of_a_second_recording_are_not_guessed() -> None:
    first = [Packet(number, number % 5 == 0) for number in range(40)]
    second = [Packet(number - 500, number % 5 == 0) for number in range(40)]
    chosen = [one for one, _ in needed(iter(first + second), None, Fraction(2), Fraction(1, 4))]
    assert chosen[-40:] == second


def test_without_a_gpu_the_frames_are_the_same(tmp_path: Path) -> None:
    film = make_film(
        tmp_path / "film.mp4", frames=12, rate=20, scale=20, **FILMS["a key frame a second"]
    )
    here = [image for _, image in sample_frames(film, 2, 64, times="near")]
    there = [image for _, image in sample_frames(film, 2, 64, times="near", gpu="cuda")]
    np.testing.assert_array_equal(here, there)


def test_less_true_times_are_features_of_their_own(tmp_path: Path) -> None:
    class Grey:
        name, dim, size, fingerprint = "grey", 1, 16, "grey"

        def extract(self, frames: Any) -> Any:
            return frames.mean(axis=(1, 2, 3))[:, None]

    film = make_film(tmp_path / "film.mp4", frames=60, rate=20, **FILMS["dense key frames"])
    backbone: Any = Grey()
    backbone.spec = FeatureSpec("tests:Grey", times="near")
    near, _ = extract(film, backbone, cache=tmp_path)
    backbone.spec = FeatureSpec("tests:Grey")
    exact, _ = extract(film, backbone, cache=tmp_path)
    assert np.abs(near[0].rows.astype(float) - exact[0].rows).max() < 70
    said = [read_rows(file)[1] for file in (tmp_path / "features").iterdir()]
    assert sorted(one.get("tolerance", "") for one in said) == ["", "1/4"]


def test_an_unknown_word_is_told() -> None:
    with pytest.raises(OptionError, match="times='nearly' is unknown; did you mean 'near'"):
        FeatureSpec(times="nearly")
