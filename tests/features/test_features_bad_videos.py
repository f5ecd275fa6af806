"""Every kind of bad file has its own sentence; a damaged film is survived as far as it goes."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from features_films import make_film, make_sound, number_of

from stepcut.errors import VideoError
from stepcut.features.video.probe import probe
from stepcut.features.video.sample import sample_frames


def read_all(path: Path) -> list[int]:
    return [number_of(image) for _, image in sample_frames(path, 20)]


def test_missing(tmp_path: Path) -> None:
    for look in (probe, read_all):
        with pytest.raises(VideoError, match=r"absent\.mp4: no such file\. Check the path; it is read from "):
            look(tmp_path / "absent.mp4")


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(VideoError, match=r"this is a folder, not a video\. .*give the files in it"):
        probe(tmp_path)


def test_empty(tmp_path: Path) -> None:
    (tmp_path / "empty.mp4").touch()
    with pytest.raises(VideoError, match=r"the file is empty \(0 bytes\)\. Copy it again"):
        probe(tmp_path / "empty.mp4")


def test_not_a_video(tmp_path: Path) -> None:
    junk = tmp_path / "junk.mp4"
    junk.write_bytes(bytes(range(256)) * 40)
    with pytest.raises(VideoError, match=r"junk\.mp4: not a video that can be read .* try: ffmpeg -i junk\.mp4"):
        probe(junk)


def test_text_and_pictures_are_no_videos(tmp_path: Path) -> None:
    from PIL import Image

    (tmp_path / "notes.txt").write_text("butter, jam\n" * 50)
    Image.new("RGB", (32, 32)).save(tmp_path / "photo.png")
    for name in ("notes.txt", "photo.png"):
        with pytest.raises(VideoError, match="not a video but a text or a single picture"):
            probe(tmp_path / name)


def test_sound_only(tmp_path: Path) -> None:
    with pytest.raises(VideoError, match=r"voice\.m4a: holds sound only\. Leave it out"):
        probe(make_sound(tmp_path / "voice.m4a"))


def test_sound_with_a_cover_picture(tmp_path: Path) -> None:
    with pytest.raises(VideoError, match=r"holds sound only"):
        probe(make_sound(tmp_path / "song.mp4", cover=True))


def test_the_command_that_may_mend_it_takes_any_name(tmp_path: Path) -> None:
    film = tmp_path / "Käse & Brot.mp4"
    film.write_bytes(b"no film" * 100)
    with pytest.raises(VideoError, match="ffmpeg -i 'Käse & Brot.mp4' fixed.mp4"):
        probe(film)


def test_no_frames(tmp_path: Path) -> None:
    with pytest.raises(VideoError, match=r"not a single frame could be decoded \(codec \w+\)\. Copy it again"):
        read_all(make_film(tmp_path / "none.avi", frames=0, codec="mpeg4"))


def test_no_stream(tmp_path: Path) -> None:
    with pytest.raises(VideoError, match=r"none\.mp4: holds no video stream\. Leave it out"):
        read_all(make_film(tmp_path / "none.mp4", frames=0))


def test_cut_short_with_the_index_at_the_end(tmp_path: Path) -> None:
    film = make_film(tmp_path / "film.mp4")
    film.write_bytes(film.read_bytes()[: film.stat().st_size // 2])
    with pytest.raises(VideoError, match=r"the file is cut short \([\d,]+ bytes, its index is missing\)"):
        probe(film)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("front.mp4", {"muxer": {"movflags": "faststart"}}),
        ("film.mkv", {}),
        ("film.avi", {"codec": "mpeg4"}),
        ("film.flv", {"codec": "flv"}),
    ],
)
def test_cut_short(tmp_path: Path, name: str, options: dict[str, str]) -> None:
    film = make_film(tmp_path / name, frames=200, **options)
    film.write_bytes(film.read_bytes()[: film.stat().st_size // 3])
    numbers = []
    with pytest.raises(
        VideoError, match=r"no frame after 00:00:0\d\.\d \(expected 00:00:10\.0\)\. The file is cut short or damaged"
    ):
        numbers.extend(number_of(image) for _, image in sample_frames(film, 20))


def test_whole_films_are_not_called_cut_short(tmp_path: Path) -> None:
    for name in ("a.mp4", "a.mkv", "a.avi", "a.webm"):
        codec = {"avi": "mpeg4", "webm": "libvpx"}.get(name[2:], "libx264")
        assert len(read_all(make_film(tmp_path / name, codec=codec))) == 40


def test_sound_that_outlasts_the_picture_is_fine(tmp_path: Path) -> None:
    import av
    from features_films import add_sound

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


def test_damaged_frames_are_survived_and_counted(tmp_path: Path) -> None:
    film = make_film(tmp_path / "film.mp4", frames=60, g="10")
    overwrite_the_middle(film)
    samples = sample_frames(film, 20)
    numbers = [number_of(image) for _, image in samples]
    assert samples.corrupt > 0
    assert numbers[:20] == list(range(20))
    assert numbers[-5:] == list(range(55, 60))
    assert len(numbers) == 60


@pytest.mark.parametrize("times", ["exact", "near"])
@pytest.mark.parametrize("sound", [False, True])
def test_frames_that_matroska_passes_over_are_counted(tmp_path: Path, sound: bool, times: str) -> None:
    film = make_film(tmp_path / "film.mkv", frames=400, g="20", sound=sound)
    whole = sample_frames(film, 2, times=times)
    rows = len(list(whole))
    assert whole.corrupt == 0
    data = bytearray(film.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 600] = np.random.default_rng(0).bytes(600)
    film.write_bytes(data)
    samples = sample_frames(film, 2, times=times)
    assert len(list(samples)) == rows
    assert 10 < samples.corrupt < 200


@pytest.mark.parametrize("sound", [False, True])
def test_a_picture_that_stands_still_is_no_damage(tmp_path: Path, sound: bool) -> None:
    still = np.random.default_rng(0).choice([1, 2, 60, 400], size=60)  # a screen, recorded when it changes
    times = [0, *np.cumsum(still).tolist()]
    film = make_film(tmp_path / "film.mkv", frames=61, rate=1, times=times, clock=Fraction(1, 20), sound=sound)
    samples = sample_frames(film, 2)
    assert len(list(samples)) > 60
    assert samples.corrupt == 0


def test_a_damaged_place_that_ends_the_reading_is_told(tmp_path: Path) -> None:
    film = make_film(tmp_path / "film.webm", frames=80, codec="libvpx", g="10")
    overwrite_the_middle(film)
    with pytest.raises(VideoError, match=r"no frame after 00:00:0\d\.\d \(expected 00:00:04\.0\)"):
        read_all(film)


def overwrite_the_middle(film: Path) -> None:
    data = bytearray(film.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 400] = b"\xff" * 400
    film.write_bytes(data)


def test_an_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    film = make_film(tmp_path / "locked.mp4")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(VideoError, match=r"locked\.mp4: cannot be read \(Permission denied\)\. Check its permissions"):
        probe(film)
