"""Bad files each have their sentence; nothing in a video may stop the others; damage is survived as far as it goes."""

import os
import re
import socket
import struct
import sys
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from errors_kit import raises
from features_films import add_sound, hostile_texts, make_film, make_sound, number_of
from parallel_kit import Grey
from PIL import Image

from stepcut.cli.main import main
from stepcut.errors import VideoError
from stepcut.features.extract import extract, load_features
from stepcut.features.video.container import probe, read_info, read_packets
from stepcut.features.video.sample import sample_frames


def read_all(path):
    return [number_of(image) for _, image in sample_frames(path, 20)]


def not_a_film(path):
    path.write_bytes(b"no film" * 100)
    return path


def half_a_film(path):
    film = make_film(path)
    film.write_bytes(film.read_bytes()[: film.stat().st_size // 2])
    return film


@pytest.mark.parametrize(("name", "make", "says"), [
    ("absent.mp4", Path, "no such file"),
    ("folder.mp4", Path.mkdir, "folder"),
    ("empty.mp4", Path.touch, "0 bytes"),
    ("Käse & Brot.mp4", not_a_film, "ffmpeg -i 'Käse & Brot.mp4' fixed.mp4"),
    ("voice.m4a", make_sound, "sound only"),
    ("song.mp4", lambda path: make_sound(path, cover=True), "sound only"),
    ("none.mp4", lambda path: make_film(path, frames=0), "no video stream"),
    ("half.mp4", half_a_film, "truncated"),
    ("notes.txt", lambda path: path.write_text("butter, jam\n" * 50), "not a video"),
])  # fmt: skip
def test_each_kind_of_bad_file_has_its_reason(tmp_path, name, make, says):
    make(tmp_path / name)
    for look in (probe, read_all):
        with raises(VideoError, name, says):
            look(tmp_path / name)


def test_pictures_and_playlists_are_no_videos(tmp_path):
    Image.new("RGB", (32, 32)).save(tmp_path / "photo.png")
    (tmp_path / "list.mp4").write_text("ffconcat version 1.0\nfile real.mp4\n")
    make_film(tmp_path / "real.mp4", frames=2)
    for name in ("photo.png", "list.mp4", *hostile_texts(tmp_path)):
        with raises(VideoError, "not a ", str(tmp_path / name)):
            read_all(tmp_path / name)
    with raises(VideoError, "none.avi", "codec mpeg4"):
        read_all(make_film(tmp_path / "none.avi", frames=0, codec="mpeg4"))


def state_length(film, seconds):
    """Let a Matroska `film` of five seconds state another length, as where its last picture stands for longer."""
    data = film.read_bytes().replace(b"00:00:05.000000000", b"00:00:%02d.000000000" % seconds)
    at = data.index(b"\x44\x89\x88") + 3
    film.write_bytes(data[:at] + struct.pack(">d", 1000 * seconds) + data[at + 8 :])
    return film


def test_a_picture_that_stands_still_is_no_damage(tmp_path):
    film = state_length(make_film(tmp_path / "still.mkv", frames=100), 9)
    numbers = read_all(film)
    assert numbers == [*range(100), *[99] * 80]
    assert probe(film).duration == 9
    with raises(VideoError, "truncated or damaged"):
        read_all(state_length(make_film(tmp_path / "never.mkv", frames=100), 50 * 60 + 99))
    still = np.random.default_rng(0).choice([1, 2, 60, 400], size=60)
    how = {"times": [0, *np.cumsum(still).tolist()], "clock": Fraction(1, 20), "sound": True}
    samples = sample_frames(make_film(tmp_path / "film.mkv", frames=61, rate=1, **how), 2)
    assert len(list(samples)) > 60
    assert samples.corrupt == 0


@pytest.mark.parametrize(("name", "options"), [
    ("front.mp4", {"muxer": {"movflags": "faststart"}}),
    ("film.mkv", {}),
    ("film.avi", {"codec": "mpeg4"}),
    ("film.flv", {"codec": "flv"}),
])  # fmt: skip
def test_what_is_cut_is_told_whatever_length_it_states(tmp_path, name, options):
    film = make_film(tmp_path / name, frames=200, **options)
    whole = film.read_bytes()
    film.write_bytes(whole[: len(whole) // 3])
    with raises(VideoError, "00:00:10.0"):
        read_all(film)
    if name == "film.mkv":
        film.write_bytes(whole[: len(whole) * 3 // 4] + bytes(len(whole) // 4))
        with raises(VideoError, "truncated or damaged"):
            read_all(film)
        for left in (0.3, 0.97):
            film = state_length(make_film(tmp_path / "cut.mkv", frames=100), 9)
            film.write_bytes(film.read_bytes()[: int(left * film.stat().st_size)])
            with raises(VideoError, "truncated or damaged"):
                read_all(film)


def test_a_damaged_time_of_a_cluster_is_reported(tmp_path, caplog):
    muxer = {"cluster_time_limit": "2000"}
    film = make_film(tmp_path / "film.mkv", frames=400, g="20", muxer=muxer)
    data = bytearray(film.read_bytes())
    clusters = [m.start() for m in re.finditer(b"\x1f\x43\xb6\x75", bytes(data))]
    at = data.index(b"\xe7\x82", clusters[3]) + 2  # its time, two bytes of milliseconds
    data[at] += 0x40  # 16 seconds later
    film.write_bytes(data)
    samples = sample_frames(film, 2)
    list(samples)
    assert samples.duration > 20
    assert any("times may be damaged" in record.getMessage() for record in caplog.records)


def test_an_old_frame_of_a_damaged_film_is_no_second_recording(tmp_path):
    film = make_film(tmp_path / "film.mkv", frames=400, bf="3", g="60", preset="medium")
    data = film.read_bytes()
    for share in (0.15, 0.4, 0.65):
        place = int(share * len(data))
        film.write_bytes(data[:place] + bytes(200) + data[place + 200 :])
        samples = sample_frames(film, 5, size=8)
        assert len(list(samples)) == 100
        assert samples.corrupt > 0


def test_sound_that_outlasts_the_picture_is_fine(tmp_path):
    film = tmp_path / "long-sound.mkv"
    short = make_film(tmp_path / "short.mkv")
    with av.open(str(short)) as source, av.open(str(film), "w") as out:
        stream = out.add_stream_from_template(source.streams.video[0])
        voice = out.add_stream("aac", rate=8000, layout="mono")
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                out.mux(packet)
        add_sound(out, voice, 6.0)
    assert len(read_all(film)) == 40


def test_damaged_frames_are_survived_and_counted(tmp_path):
    film = make_film(tmp_path / "film.mp4", frames=60, g="10")
    overwrite_the_middle(film)
    samples = sample_frames(film, 20)
    numbers = [number_of(image) for _, image in samples]
    assert samples.corrupt > 0
    assert (numbers[:20], numbers[-5:]) == (list(range(20)), list(range(55, 60)))
    assert len(numbers) == 60
    film = make_film(tmp_path / "film.webm", frames=80, codec="libvpx", g="10")
    overwrite_the_middle(film)
    with raises(VideoError, "00:00:04.0"):  # where the reading ends
        read_all(film)


@pytest.mark.parametrize(("sound", "fast"), [(False, True), (True, False)])
def test_frames_that_matroska_passes_over_are_counted(tmp_path, sound, fast):
    film = make_film(tmp_path / "film.mkv", frames=400, g="20", sound=sound)
    whole = sample_frames(film, 2, fast=fast)
    rows = len(list(whole))
    assert whole.corrupt == 0
    data = bytearray(film.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 600] = np.random.default_rng(0).bytes(600)
    film.write_bytes(data)
    samples = sample_frames(film, 2, fast=fast)
    assert len(list(samples)) == rows
    assert 10 < samples.corrupt < 200


def overwrite_the_middle(film):
    data = bytearray(film.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 400] = b"\xff" * 400
    film.write_bytes(data)


def test_an_unreadable_file(tmp_path, monkeypatch):
    film = make_film(tmp_path / "locked.mp4")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with raises(VideoError, "locked.mp4", "Permission denied"):
        probe(film)


class Broken:
    def __init__(self, inside, fails):
        self.inside, self.fails = inside, fails

    def __getattr__(self, name):
        if name == self.fails:
            raise ZeroDivisionError("ouch")  # which no decoder is known to raise
        return getattr(self.inside, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.inside.close()


@pytest.mark.parametrize("fails", ["streams", "format", "duration", "demux", "decode", "seek"])
def test_any_exception_of_the_decoder_is_the_videos_failure(tmp_path, monkeypatch, fails):
    film, opened = make_film(tmp_path / "film.mp4", frames=4, g="2"), av.open
    monkeypatch.setattr(av, "open", lambda *args, **how: Broken(opened(*args, **how), fails))
    for look in (
        read_info,
        read_packets,
        lambda film: list(sample_frames(film, 20, 16)),
        lambda film: list(sample_frames(film, 2, 16, fast=True)),
        lambda film: list(sample_frames(film, 20, 16, start=0.1, end=0.2)),
    ):
        with raises(VideoError, "film.mp4", "ouch") if fails == "streams" else suppress(VideoError):
            look(film)  # where it is asked for that at all


def test_duration_tags_say_nothing_and_a_picture_that_claims_gigabytes_is_not_decoded(tmp_path):
    film = make_film(tmp_path / "film.mkv")
    data = film.read_bytes()
    assert data.count(b"00:00:02.000000000") == 1
    for wrong in (b"00:00:0x.000000000", b"\xff0:00:02.000000000"):
        film.write_bytes(data.replace(b"00:00:02.000000000", wrong))
        assert len(list(sample_frames(film, 2))) == 4
    film = make_film(tmp_path / "film.avi", frames=4, codec="mjpeg", strict="unofficial")
    data, at = bytearray(film.read_bytes()), -1
    while (at := data.find(b"\xff\xc0", at + 1)) >= 0:  # height and width
        data[at + 5 : at + 9] = 2 * (16_200).to_bytes(2, "big")
    film.write_bytes(data)
    with raises(VideoError, "no frame can be decoded (codec mjpeg)"):
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
    film = make_film(tmp_path / "slides.mkv", frames=4, times=[0, 20, 20 * 300, 20 * 301])
    assert len(list(sample_frames(film, 1, 16))) == 302  # a picture may stand for minutes


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
