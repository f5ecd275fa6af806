"""Nothing in a video file may stop the others: every exception of the decoder, every strange file, every odd name."""

import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import av
import pytest
from errors_kit import raises
from features_films import hostile_texts, make_film
from parallel_kit import Grey

from stepcut.cli.main import main
from stepcut.errors import VideoError
from stepcut.features.extract import export, extract, load_features
from stepcut.features.video.container import probe, read_info, read_packets
from stepcut.features.video.sample import sample_frames


class Injected(Exception):
    """What no decoder is known to raise."""


class Trap:
    """Raises at one call or look into the decoder, the `place`-th."""

    def __init__(self, place, error):
        self.place, self.error, self.count = place, error, 0

    def pass_by(self):
        self.count += 1
        if self.count == self.place:
            raise self.error


class Watched:
    """An object of PyAV behind a trap: attributes, calls and iterations all count; what they give is watched too."""

    def __init__(self, inside, trap):
        self.__dict__.update(inside=inside, trap=trap)

    def __getattr__(self, name):
        self.trap.pass_by()
        return watch(getattr(self.inside, name), self.trap)

    def __setattr__(self, name, value):
        self.trap.pass_by()
        setattr(self.inside, name, value)

    def __call__(self, *args, **options):
        self.trap.pass_by()
        return watch(
            self.inside(*map(bare, args), **{k: bare(v) for k, v in options.items()}), self.trap
        )

    def __iter__(self):
        return self

    def __next__(self):
        self.trap.pass_by()
        if not hasattr(self.inside, "__next__"):
            self.__dict__["inside"] = iter(self.inside)
        return watch(next(self.inside), self.trap)

    def __enter__(self):
        return watch(self.inside.__enter__(), self.trap)

    def __exit__(self, *error):
        return self.inside.__exit__(*error)

    def __len__(self):
        return len(self.inside)


def watch(value, trap):
    ours = type(value).__module__.startswith("av.") or callable(value) or hasattr(value, "__next__")
    if isinstance(value, list | tuple) and value and type(value[0]).__module__.startswith("av."):
        return [watch(one, trap) for one in value]
    return Watched(value, trap) if ours and not isinstance(value, Exception | type | int) else value


def bare(value):
    return value.inside if isinstance(value, Watched) else value


WAYS: dict[str, Callable[[Path], object]] = {
    "probe": read_info,
    "key_times": read_packets,
    "samples": lambda film: [time for time, _ in sample_frames(film, 20, 16)],
    "fast": lambda film: [time for time, _ in sample_frames(film, 2, 16, fast=True)],
    "a part": lambda film: [time for time, _ in sample_frames(film, 20, 16, start=0.1, end=0.2)],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "error",
    [
        Injected("ouch"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        av.error.InvalidDataError(1, "bad"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_at_any_call_into_the_decoder_is_the_videos_failure(
    tmp_path, monkeypatch, way, error
):
    film = make_film(tmp_path / "film.mp4", frames=4, g="2")
    real_open, real_reformatter = av.open, av.video.reformatter.VideoReformatter
    for place in range(1, 10_000):
        trap = Trap(place, error)
        with monkeypatch.context() as patched:
            patched.setattr(av, "open", Watched(real_open, trap))
            patched.setattr(
                av.video.reformatter, "VideoReformatter", Watched(real_reformatter, trap)
            )
            with suppress(VideoError):
                WAYS[way](film)
        error.__traceback__ = error.__context__ = None  # which hold the frames of the film
        if trap.count < place:
            break
    assert place > 30


def test_a_duration_tag_that_is_no_duration_says_nothing(tmp_path):
    film = make_film(tmp_path / "film.mkv")
    data = film.read_bytes()
    assert data.count(b"00:00:02.000000000") == 1
    for wrong in (
        b"00:00:0x.000000000",
        b"0000:02.0000000000",
        b"\xff0:00:02.000000000",
        b"99:99:99.999999999",
    ):
        film.write_bytes(data.replace(b"00:00:02.000000000", wrong))
        if wrong[0] != ord("9"):
            assert len(list(sample_frames(film, 2))) == 4
        else:
            with raises(VideoError, "00:00:02.0"):
                list(sample_frames(film, 2))


def test_an_index_that_claims_days_is_not_believed(tmp_path):
    film = make_film(tmp_path / "film.mp4", frames=100, bf="0")
    data = bytearray(film.read_bytes())
    # Version, number of entries; then (how many frames, how long each).
    table = data.index(b"stts") + 12
    length = int.from_bytes(data[table + 4 : table + 8], "big")
    data[table + 4 : table + 8] = (length * 20 * 36 * 30).to_bytes(4, "big")
    film.write_bytes(data)
    with raises(VideoError, "index"):
        next(sample_frames(film, 2, 16))
    film = make_film(tmp_path / "film.avi", frames=100, codec="mpeg4")
    data = bytearray(film.read_bytes())
    scale = data.index(b"strh") + 28  # the length of a frame
    data[scale : scale + 4] = (100_000).to_bytes(4, "little")
    film.write_bytes(data)
    with raises(VideoError, "index", "100 frames"):
        probe(film)


def test_a_picture_that_stands_for_minutes_is_believed(tmp_path):
    film = make_film(tmp_path / "slides.mkv", frames=4, times=[0, 20, 20 * 300, 20 * 301])
    assert len(list(sample_frames(film, 1, 16))) == 302


@pytest.mark.skipif(sys.platform == "win32", reason="no such files there")
def test_pipes_sockets_devices_and_holes_are_refused(tmp_path):
    film = make_film(tmp_path / "film.mp4", frames=4)
    os.mkfifo(tmp_path / "pipe.mp4")
    (tmp_path / "zero.mp4").symlink_to("/dev/zero")
    (tmp_path / "hole.mp4").write_bytes(film.read_bytes())
    os.truncate(tmp_path / "hole.mp4", 1 << 40)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "door.mp4"))
        for source in (tmp_path, f"{tmp_path}/*.mp4", list(tmp_path.iterdir())):
            features, failures = extract(source, Grey())
            assert [one.name for one in features] == ["film"]
            told = {one.name: str(one) for one in failures}
            assert "1,099,511,627,776 bytes" in told.pop("hole")
            assert sorted(told) == ["door", "pipe", "zero"]
            assert all("a pipe, a socket or a device" in one for one in told.values())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names themselves")
def test_names_of_bytes_and_control_characters(tmp_path, capfd):
    make_film(tmp_path / "film.mp4", frames=4)
    os.link(tmp_path / "film.mp4", os.fsencode(tmp_path) + b"/\xff.mp4")
    os.link(tmp_path / "film.mp4", tmp_path / "\x1b[2Jred.mp4")
    (tmp_path / "\x1b]0;bad\x07.mp4").touch()
    assert main(["features", str(tmp_path), "-o", str(tmp_path / "out")]) == 2
    said = "".join(capfd.readouterr())
    assert "not UTF-8" in said
    assert "%1B]0;bad%07.mp4: the file is empty" in said
    assert "Traceback" not in said
    assert all(c.isprintable() or c in "\n\r" for c in said)
    assert sorted(one.name for one in load_features(tmp_path / "out")) == ["%1B[2Jred", "film"]


def test_features_with_equal_names_are_told_apart_before_any_work(tmp_path):
    for camera in ("cam1", "cam2"):
        (tmp_path / camera).mkdir()
        film = make_film(tmp_path / "take.mp4", frames=8 if camera == "cam1" else 12)
        export(extract(film, Grey())[0][0], tmp_path / camera)
    features = load_features([tmp_path / "cam1", tmp_path / "cam2"])
    assert [one.name for one in features] == ["cam1/take", "cam2/take"]


def test_playlists_beside_videos_are_left_out_and_the_others_used(tmp_path):
    names = hostile_texts(tmp_path / "films")
    made = [
        make_film(tmp_path / "films" / f"{name}.mp4", frames=20 + place).stem
        for place, name in enumerate("ab")
    ]
    found, failures = extract(tmp_path / "films", Grey(), 2, tmp_path / "cache")
    assert [one.name for one in found] == [*made, "level24"]
    bad = {name for name in names if not name.endswith(".m3u8")}  # which is no suffix of a video
    assert {Path(failure.path).name for failure in failures} == bad
    assert all(isinstance(failure.error, VideoError) for failure in failures)
