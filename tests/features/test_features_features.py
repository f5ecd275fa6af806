"""Extraction of many videos: the store, resuming, failures, cancelling, and equality however it is done."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from errors_kit import raises
from features_films import make_film
from parallel_kit import Logged

from stepcut.errors import FeatureError, OptionError, OutputError, VideoError
from stepcut.features.extract import extract, load_features
from stepcut.features.files import content_hash
from stepcut.features.spec import FeatureSpec
from stepcut.features.video.sample import sample_frames
from stepcut.files.cache import cache_dir
from stepcut.progress import Event


class Mean:
    """A backbone of twelve numbers: the mean colour of four columns. Counts the frames it was given.

    No worker can import it, so videos are read in this process.
    """

    name, dim, size, batch = "mean", 12, 16, 4

    def __init__(self, fingerprint="mean 1", scale=1.0):
        self.fingerprint, self.scale, self.seen = fingerprint, scale, 0

    def __reduce__(self):
        raise TypeError("it counts here")

    def extract(self, frames):
        self.seen += len(frames)
        return (
            frames.reshape(len(frames), 16, 4, 4, 3).mean(axis=(1, 3)).reshape(len(frames), 12)
            * self.scale
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("videos")
    for number, frames in enumerate((30, 45, 61)):
        make_film(folder / f"v{number}.mp4", frames=frames, g="10", bf="2")
    return folder


def test_rows_are_the_frames_at_their_times(folder, tmp_path):
    features, failures = extract(folder, Mean(), fps=5, cache=tmp_path)
    assert failures == []
    assert [f.name for f in features] == ["v0", "v1", "v2"]
    for found, seconds in zip(features, (1.5, 2.25, 3.05), strict=True):
        frames = np.stack([image for _, image in sample_frames(str(found.path), 5, 16)])
        assert np.array_equal(found.rows, Mean().extract(frames).astype(np.float16))
        assert (found.rate, found.duration, found.corrupt) == (
            Fraction(5),
            pytest.approx(seconds),
            0,
        )
        assert len(found.rows) == int(np.ceil(seconds * 5))
        assert isinstance(found.rows, np.memmap)
        assert found.rows.dtype == np.float16
        assert not found.rows.flags.writeable
    assert "v2: 16 x 12, 5 rows per second, 3.0 s" in repr(features[2])


def test_a_second_run_does_no_work(folder, tmp_path):
    first, again = Mean(), Mean()
    one, _ = extract(folder, first, fps=5, cache=tmp_path)
    assert first.seen == sum(len(f.rows) for f in one)
    events: list[Event] = []
    two, _ = extract(folder, again, fps=5, cache=tmp_path, progress=events.append)
    assert again.seen == 0
    assert {(event.stage, event.unit) for event in events} == {("look", "videos")}
    assert [event.finished for event in events] == [False] * (len(events) - 1) + [True]
    assert all(np.array_equal(a.rows, b.rows) for a, b in zip(one, two, strict=True))


def test_a_long_look_at_one_video_can_be_cancelled(tmp_path):
    """A raw stream states no length: it is read twice, for its hash and for its packets."""
    film = make_film(tmp_path / "long.h264", frames=3)
    filler = b"\0\0\0\1\x0c" + b"\xff" * 1_000_000 + b"\x80"  # bytes that a decoder passes over
    film.write_bytes((film.read_bytes() + filler) * 40)
    looks = []

    def watch(event):
        looks.append((event.stage, event.done))
        if len(looks) > 1 and event.stage == "look":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(film, Logged(tmp_path / "log"), fps=5, cache=tmp_path / "cache", progress=watch)
    assert looks == [("look", 0), ("look", 0)]  # before the video was read


def test_damaged_features_of_the_store_are_computed_again(folder, tmp_path):
    one, _ = extract(folder, Mean(), fps=5, cache=tmp_path)
    rows = [np.array(each.rows) for each in one]
    damaged = Path(str(one[1].rows.filename))
    damaged.unlink()  # not written over: its rows are mapped
    damaged.write_bytes(b"xx")
    again = Mean()
    two, failures = extract(folder, again, fps=5, cache=tmp_path)
    assert (again.seen, failures) == (len(rows[1]), [])
    assert all(np.array_equal(a, b.rows) for a, b in zip(rows, two, strict=True))


def test_what_changes_is_computed_again_and_nothing_else(folder, tmp_path):
    videos = tmp_path / "videos"
    videos.mkdir()
    for film in folder.iterdir():
        (videos / film.name).write_bytes(film.read_bytes())
        os.utime(videos / film.name, (1, 1))
    cache = tmp_path / "cache"
    counts = {f.name: len(f.rows) for f in extract(videos, Mean(), fps=5, cache=cache)[0]}

    def seen(fps=5, backbone=None):
        backbone = backbone or Mean()
        extract(videos, backbone, fps=fps, cache=cache)
        return backbone.seen

    assert seen(fps=4) > 0
    assert seen(backbone=Mean("mean 2")) == sum(counts.values())
    (videos / "v1.mp4").rename(videos / "moved.mp4")
    assert seen() == 0  # the content is what counts, not the name
    make_film(videos / "v0.mp4", frames=20)
    assert seen() == 5
    assert seen(fps=4) == 4
    assert len(list((cache / "features").glob("*.safetensors"))) == 3 + 3 + 3 + 1 + 1


def test_the_same_content_is_computed_once(folder, tmp_path):
    for name in ("a.mp4", "b.mp4"):
        (tmp_path / name).write_bytes((folder / "v0.mp4").read_bytes())
    backbone = Mean()
    features, _ = extract(tmp_path, backbone, fps=4, cache=tmp_path / "cache")
    assert [f.name for f in features] == ["a", "b"]
    assert backbone.seen == 6
    assert np.array_equal(features[0].rows, features[1].rows)


def test_a_broken_video_is_left_out_and_listed(folder, tmp_path):
    good = sorted(folder.iterdir())
    (tmp_path / "empty.mp4").touch()
    broken = tmp_path / "broken.mp4"
    make_film(broken, frames=200, muxer={"movflags": "faststart"})
    broken.write_bytes(broken.read_bytes()[: broken.stat().st_size // 2])
    videos = [good[0], tmp_path / "empty.mp4", broken, good[1]]
    features, failures = extract(videos, Mean(), fps=5, cache=tmp_path / "cache")
    assert [f.name for f in features] == ["v0", "v1"]
    assert [f.name for f in failures] == ["empty", "broken"]
    assert "the file is empty" in str(failures[0])
    assert "no frame after" in str(failures[1])
    assert len(list((tmp_path / "cache" / "features").iterdir())) == 2
    with raises(VideoError, "empty.mp4"):
        extract(videos, Mean(), fps=5, cache=tmp_path / "cache", strict=True)
    with raises(VideoError, "broken.mp4"):
        extract([good[0], broken], Mean(), fps=5, cache=tmp_path / "cache", strict=True)


def test_progress_counts_frames_in_the_callers_thread(folder, tmp_path):
    events: list[Event] = []
    threads = set()

    def hook(event):
        events.append(event)
        threads.add(threading.get_ident())

    features, _ = extract(folder, Mean(), fps=5, cache=tmp_path, progress=hook)
    rows = sum(len(f.rows) for f in features)
    assert threads == {threading.get_ident()}
    assert [stage for stage, _ in groupby(event.stage for event in events)] == ["look", "features"]
    assert events[-1].finished
    assert (events[-1].done, events[-1].total, events[-1].unit) == (rows, rows, "frames")


def test_cancelling_keeps_what_is_finished(folder, tmp_path):
    def hook(event):
        if event.stage == "features" and event.done > 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(folder, Mean(), fps=10, cache=tmp_path, progress=hook)
    assert not list((tmp_path / "features").glob(".*.part"))
    backbone = Mean()
    kept = len(list((tmp_path / "features").iterdir()))
    features, _ = extract(folder, backbone, fps=10, cache=tmp_path)
    assert backbone.seen <= sum(len(f.rows) for f in features)
    assert (backbone.seen < sum(len(f.rows) for f in features)) == (kept > 0)


def test_cancelling_stops_at_the_next_batch(folder, tmp_path):
    def hook(event):
        if event.stage == "features" and event.done:
            raise RuntimeError("enough")

    backbone = Mean()
    with pytest.raises(RuntimeError, match="enough"):
        extract(folder, backbone, fps=20, cache=tmp_path, progress=hook)
    assert backbone.seen == backbone.batch
    assert list((tmp_path / "features").iterdir()) == []


@pytest.mark.slow
def test_killed_at_any_point_then_run_again_gives_the_same_bits(folder, tmp_path):
    code = """
import os, signal, sys
sys.path[:0] = sys.argv[1].split(os.pathsep)
from test_features_features import Mean
from stepcut.features.extract import extract
def hook(event):
    if event.done >= int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)
extract(sys.argv[2], Mean(), fps=10, cache=sys.argv[3], progress=hook)
"""
    clean, _ = extract(folder, Mean(), fps=10, cache=tmp_path / "clean")
    for moment in (0, 25):
        cache = tmp_path / f"killed-{moment}"
        words = [sys.executable, "-c", code, os.pathsep.join(sys.path), str(folder), str(cache)]
        words += [str(moment)]
        assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
        again, failures = extract(folder, Mean(), fps=10, cache=cache)
        assert failures == []
        for a, b in zip(clean, again, strict=True):
            assert np.array_equal(a.rows, b.rows)
            name = Path(str(a.rows.filename)).name
            assert (tmp_path / "clean" / "features" / name).read_bytes() == (
                cache / "features" / name
            ).read_bytes()


def test_leftovers_of_killed_runs_go_after_a_day(folder, tmp_path):
    (tmp_path / "features").mkdir()
    old, new = (
        tmp_path / "features" / ".a.safetensors.x.part",
        tmp_path / "features" / ".b.safetensors.y.part",
    )
    old.touch()
    new.touch()
    os.utime(old, (1, 1))
    extract(folder / "v0.mp4", Mean(), cache=tmp_path)
    assert not old.exists()
    assert new.exists()


def test_a_backbone_that_misbehaves_stops_everything(folder, tmp_path):
    class Flat(Mean):
        def extract(self, frames):
            return frames.mean(axis=(1, 2, 3))

    class Narrow(Mean):
        def extract(self, frames):
            return super().extract(frames)[:, :1]

    for backbone, says in (
        (Flat(), "(4,) for 4"),
        (Narrow("narrow"), "(4, 1) for 4"),
        (Mean(scale=1e6), "half precision"),
        (Mean(scale=np.nan), "nan or inf"),
    ):
        with raises(FeatureError, says):
            extract(folder, backbone, fps=5, cache=tmp_path)
    assert list((tmp_path / "features").iterdir()) == []


def test_the_numbers_of_a_backbone_may_be_those_of_numpy(folder, tmp_path):
    backbone = Mean()
    vars(backbone).update(size=np.int64(16), dim=np.int64(12))
    features, failures = extract(folder / "v0.mp4", backbone, fps=5, cache=tmp_path)
    assert failures == []
    assert np.array_equal(
        features[0].rows,
        extract(folder / "v0.mp4", Mean("other"), fps=5, cache=tmp_path)[0][0].rows,
    )


def test_no_space_on_the_disk_is_not_the_videos_fault(folder, tmp_path, monkeypatch):
    def full(*_):
        yield np.zeros((1, 12))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("stepcut.features.compute.compute_rows", full)
    with raises(OutputError, "no space"):
        extract(folder, Mean(), fps=5, cache=tmp_path)


def test_wrong_settings(folder, tmp_path):
    with raises(OptionError, setting="fps", value=0):
        extract(folder, Mean(), fps=0, cache=tmp_path)
    with raises(OptionError, setting="source", value=3):
        extract(3, Mean(), cache=tmp_path)
    with raises(OptionError, setting="device", value=3):
        extract(folder, device=3, cache=tmp_path)


def test_vectors_is_a_backbone_too(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((6, 3), np.float32))
    features, failures = extract(tmp_path, "vectors", fps=3)
    assert failures == []
    assert (features[0].rate, features[0].duration) == (Fraction(3), 2.0)
    # As `stepcut features --backbone vectors` asks.
    assert extract(tmp_path, FeatureSpec("vectors", 3))[0][0].rate == 3
    (tmp_path / "b.npy").write_text("no array")
    features, failures = extract(tmp_path, "vectors", fps=3)
    assert ([one.name for one in features], [failure.name for failure in failures]) == (
        ["a"],
        ["b"],
    )
    with raises(FeatureError, "b.npy"):
        extract(tmp_path, "vectors", fps=3, strict=True)


def test_stored_files_can_be_read_back_as_given_features(folder, tmp_path):
    from safetensors.numpy import load_file

    features, _ = extract(folder / "v0.mp4", Mean(), fps=5, cache=tmp_path)
    stored = load_features(tmp_path / "features")
    assert np.array_equal(stored[0].rows, features[0].rows)
    assert stored[0].rate == 5
    file = next((tmp_path / "features").iterdir())
    # Plain safetensors, for anybody.
    assert np.array_equal(load_file(file)["rows"], features[0].rows)


def test_the_cache_is_where_the_platform_wants_it(monkeypatch, tmp_path):
    monkeypatch.setenv("STEPCUT_CACHE", str(tmp_path / "mine"))
    assert cache_dir() == tmp_path / "mine"
    monkeypatch.delenv("STEPCUT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert cache_dir() == tmp_path / "stepcut"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_dir().parts[-3:] == ("Library", "Caches", "stepcut")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    monkeypatch.setattr("sys.platform", "win32")
    assert cache_dir() == tmp_path / "stepcut" / "cache"


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_the_cache_is_its_owners_alone(monkeypatch, tmp_path):
    def mode():
        return cache_dir().stat().st_mode & 0o777

    monkeypatch.setenv("STEPCUT_CACHE", str(tmp_path / "new"))
    assert mode() == 0o700
    (tmp_path / "new").chmod(0o755)  # which a group shares on purpose
    assert mode() == 0o755
    monkeypatch.delenv("STEPCUT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    (tmp_path / "stepcut").mkdir(mode=0o755)  # as earlier versions left it
    assert mode() == 0o700


class Replacing(Mean):
    """A backbone during whose work another video takes the place of the one that is read."""

    def __init__(self, film, other):
        super().__init__()
        self.film, self.other = film, other

    def extract(self, frames):
        if self.other.exists():
            self.other.replace(self.film)
        return super().extract(frames)


def test_a_video_replaced_while_it_is_read_is_not_stored(tmp_path):
    film = make_film(tmp_path / "film.mp4", frames=40)
    first = film.read_bytes()
    other = make_film(tmp_path / "other.mp4", frames=60)
    found, failures = extract(film, Replacing(film, other), fps=2, cache=tmp_path / "cache")
    assert found == []
    assert "changed while it was read" in str(failures[0])
    assert not list((tmp_path / "cache").rglob("*.safetensors"))
    film.write_bytes(first)
    assert len(extract(film, Mean(), fps=2, cache=tmp_path / "cache")[0][0].rows) == 4


def test_another_file_of_equal_size_and_time_is_not_taken_for_the_first(tmp_path):
    file, cache = tmp_path / "film.mp4", tmp_path / "cache"
    old = 1_000_000_000
    for content in (b"one", b"two"):
        (tmp_path / "new").write_bytes(content)
        os.utime(tmp_path / "new", (old, old))
        (tmp_path / "new").replace(file)
        with patch("stepcut.features.files.time.time_ns", lambda: 2**62):  # not changed just now
            assert content_hash(file, cache) == hashlib.sha256(content).hexdigest()
    assert len(list((cache / "hashes").iterdir())) == 1
