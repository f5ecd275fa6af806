"""Extraction of many videos: the store, resuming, failures, cancelling, and equality however it is done."""

import hashlib
import os
import shutil
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
from stepcut.features.extract import extract, load_features, read_like, read_source
from stepcut.features.features import Features, content_hash
from stepcut.features.spec import FeatureSpec
from stepcut.features.video.sample import sample_frames
from stepcut.files import cache_dir
from stepcut.progress import Event


class Mean:
    """A backbone of twelve numbers: the mean colour of four columns. Counts the frames it was given.

    No worker can import it, so videos are read in this process.
    """

    name, dim, size, batch = "mean", np.int64(12), np.int64(16), 4

    def __init__(self, fingerprint="mean 1", scale=1.0):
        self.fingerprint, self.scale, self.seen = fingerprint, scale, 0

    def __reduce__(self):
        raise TypeError("it counts here")

    def extract(self, frames):
        self.seen += len(frames)
        return self.scale * frames.reshape(-1, 16, 4, 4, 3).mean(axis=(1, 3)).reshape(-1, 12)


@pytest.fixture(scope="module")
def folder(films, tmp_path_factory):
    folder = tmp_path_factory.mktemp("videos")
    for name in ("v0.mp4", "v1.mp4", "v2.mp4"):
        shutil.copy(films / name, folder / name)
    return folder


def test_rows_are_the_frames_at_their_times(folder, tmp_path):
    features, failures = extract(folder, Mean(), fps=5, cache=tmp_path)
    assert failures == []
    assert [f.name for f in features] == ["v0", "v1", "v2"]
    for found, seconds in zip(features, (1.5, 2.25, 3.05), strict=True):
        frames = np.stack([image for _, image in sample_frames(str(found.path), 5, 16)])
        assert np.array_equal(found.rows, Mean().extract(frames).astype(np.float16))
        told = (found.rate, found.duration, found.corrupt, len(found.rows))
        assert told == (Fraction(5), pytest.approx(seconds), 0, int(np.ceil(seconds * 5)))
        assert isinstance(found.rows, np.memmap)
    assert "v2: 16 x 12, 5 rows per second, 3.0 s" in repr(features[2])
    stored = load_features(tmp_path / "features")  # plain safetensors, for anybody
    assert sorted(len(one.rows) for one in stored) == [8, 12, 16]
    assert stored[0].rate == 5


def test_a_second_run_does_no_work(folder, tmp_path):
    first, again, events = Mean(), Mean(), list[tuple[Event, int]]()
    how = {"fps": 5, "cache": tmp_path}
    how["progress"] = lambda event: events.append((event, threading.get_ident()))
    one, _ = extract(folder, first, **how)
    rows = sum(len(f.rows) for f in one)
    assert first.seen == rows
    assert {thread for _, thread in events} == {threading.get_ident()}
    assert [each for each, _ in groupby(one.stage for one, _ in events)] == ["look", "features"]
    last, _ = events[-1]
    assert (last.finished, last.done, last.total, last.unit) == (True, rows, rows, "frames")
    events.clear()
    two, _ = extract(folder, again, **how)
    assert again.seen == 0
    assert {(event.stage, event.unit) for event, _ in events} == {("look", "videos")}
    assert [event.finished for event, _ in events] == [False] * (len(events) - 1) + [True]
    assert all(np.array_equal(a.rows, b.rows) for a, b in zip(one, two, strict=True))


def test_a_long_look_at_one_video_can_be_cancelled(tmp_path):
    """A raw stream states no length: it is read twice, for its hash and for its packets."""
    film = make_film(tmp_path / "long.h264", frames=3)
    filler = b"\0\0\0\1\x0c" + b"\xff" * 1_000_000 + b"\x80"  # bytes that a decoder passes over
    film.write_bytes((film.read_bytes() + filler) * 40)
    looks = []

    def watch(event):
        looks.append((event.stage, event.done))
        if len(looks) > 2 and event.stage == "look":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(film, Logged(tmp_path / "log"), fps=5, cache=tmp_path / "cache", progress=watch)
    assert looks == [("look", 0)] * 3  # before the video was read


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
    videos, cache = tmp_path / "videos", tmp_path / "cache"
    videos.mkdir()
    for film in folder.iterdir():
        (videos / film.name).write_bytes(film.read_bytes())
        os.utime(videos / film.name, (1, 1))

    def seen(fps=5, backbone=None):
        backbone = backbone or Mean()
        extract(videos, backbone, fps=fps, cache=cache)
        return backbone.seen

    rows = seen()
    assert seen(fps=4) > 0
    assert seen(backbone=Mean("mean 2")) == rows
    (videos / "v1.mp4").rename(videos / "moved.mp4")
    (videos / "copy.mp4").write_bytes((videos / "v2.mp4").read_bytes())
    assert seen() == 0  # the content is what counts, not the name
    (videos / "copy.mp4").unlink()
    make_film(videos / "v0.mp4", frames=20)
    assert (seen(), seen(fps=4)) == (5, 4)
    assert len(list((cache / "features").glob("*.safetensors"))) == 3 + 3 + 3 + 1 + 1


def test_a_broken_video_is_left_out_and_listed(folder, tmp_path):
    good, cache = sorted(folder.iterdir()), tmp_path / "cache"
    empty, broken = tmp_path / "empty.mp4", tmp_path / "broken.mp4"
    empty.touch()
    make_film(broken, frames=200, muxer={"movflags": "faststart"})
    broken.write_bytes(broken.read_bytes()[: broken.stat().st_size // 2])
    videos = [good[0], empty, broken, good[1]]
    features, failures = extract(videos, Mean(), fps=5, cache=cache)
    assert [f.name for f in (*features, *failures)] == ["v0", "v1", "empty", "broken"]
    assert "the file is empty" in str(failures[0])
    assert "no frame after" in str(failures[1])
    assert len(list((cache / "features").iterdir())) == 2
    for some, says in ((videos, "empty.mp4"), (videos[2:], "broken.mp4")):
        with raises(VideoError, says):
            extract(some, Mean(), fps=5, cache=cache, strict=True)


def test_cancelling_stops_at_the_next_batch_and_keeps_what_is_finished(folder, tmp_path):
    backbone = Mean()
    for enough in (0, 20):

        def hook(event, enough=enough):
            if event.stage == "features" and event.done > enough:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            extract(folder, backbone, fps=10, cache=tmp_path, progress=hook)
        assert enough or backbone.seen == backbone.batch
    kept = list((tmp_path / "features").iterdir())
    again = Mean()
    features, _ = extract(folder, again, fps=10, cache=tmp_path)
    assert (again.seen < sum(len(f.rows) for f in features)) == (len(kept) > 0)


def test_leftovers_of_killed_runs_go_after_a_day(folder, tmp_path):
    (tmp_path / "features").mkdir()
    old, new = (tmp_path / "features" / f".{name}.safetensors.x.part" for name in "ab")
    old.touch()
    new.touch()
    os.utime(old, (1, 1))
    extract(folder / "v0.mp4", Mean(), cache=tmp_path)
    assert (old.exists(), new.exists()) == (False, True)


def test_a_backbone_that_misbehaves_or_a_full_disk_stops_everything(folder, tmp_path, monkeypatch):
    backbone = Mean()
    for cut, says in ((lambda x: x[:, 0], "(4,) for 4"), (lambda x: x[:, :1], "(4, 1)")):
        backbone.extract = lambda frames, cut=cut: cut(Mean().extract(frames))
        with raises(FeatureError, says):
            extract(folder, backbone, fps=5, cache=tmp_path)
    for scale, says in ((1e6, "half precision"), (np.nan, "nan or inf")):
        with raises(FeatureError, says):
            extract(folder, Mean(scale=scale), fps=5, cache=tmp_path)
    assert list((tmp_path / "features").iterdir()) == []

    def full(*_):
        yield np.zeros((1, 12))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("stepcut.features.extract.compute_rows", full)
    with raises(OutputError, "no space"):
        extract(folder, Mean(), fps=5, cache=tmp_path)


def test_wrong_settings(folder, tmp_path):
    for name, value, setting in (
        ("fps", 0, "fps"),
        ("videos", 3, "source"),
        ("device", 3, "device"),
    ):
        with raises(OptionError, setting=setting, value=value):
            extract(**{"videos": folder, "cache": tmp_path, name: value})
    with raises(VideoError, "20 frames per second", "--fps 20"):
        extract(folder, Mean(), fps=1000, cache=tmp_path, strict=True)


def test_vectors_is_a_backbone_too(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((6, 3), np.float32))
    for backbone in ("vectors", FeatureSpec("vectors", 3)):
        [one], failures = extract(tmp_path, backbone, fps=3)
        assert (one.rate, one.duration, failures) == (3, 2.0, [])
    (tmp_path / "b.npy").write_text("no array")
    found, failures = extract(tmp_path, "vectors", fps=3)
    assert [one.name for one in (*found, *failures)] == ["a", "b"]
    with raises(FeatureError, "b.npy"):
        extract(tmp_path, "vectors", fps=3, strict=True)


def test_the_cache_is_where_the_platform_wants_it(monkeypatch, tmp_path):
    for name, mode in (("mine", 0o700), ("group", 0o755)):  # which a group shares on purpose
        monkeypatch.setenv("STEPCUT_CACHE", str(tmp_path / name))
        (tmp_path / "group").mkdir(mode=0o755, exist_ok=True)
        assert cache_dir() == tmp_path / name
        assert os.name == "nt" or cache_dir().stat().st_mode & 0o777 == mode
    monkeypatch.delenv("STEPCUT_CACHE")
    for name in ("XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path))
    places = {"linux": "stepcut", "darwin": "Library/Caches/stepcut", "win32": "stepcut/cache"}
    for system, place in places.items():
        monkeypatch.setattr("sys.platform", system)
        assert cache_dir() == tmp_path / place


class Replacing(Mean):
    """A backbone during whose work another video takes the place of the one that is read."""

    def extract(self, frames):
        film, other = self.films
        if other.exists():
            other.replace(film)
        return super().extract(frames)


def test_a_video_replaced_while_it_is_read_is_not_stored(tmp_path):
    backbone, cache = Replacing(), tmp_path / "cache"
    film, other = backbone.films = tmp_path / "film.mp4", tmp_path / "other.mp4"
    first = make_film(film, frames=40).read_bytes()
    make_film(other, frames=60)
    found, failures = extract(film, backbone, fps=2, cache=cache)
    assert found == []
    assert "changed while it was read" in str(failures[0])
    assert not list(cache.rglob("*.safetensors"))
    film.write_bytes(first)
    assert len(extract(film, Mean(), fps=2, cache=cache)[0][0].rows) == 4


def test_another_file_of_equal_size_and_time_is_not_taken_for_the_first(tmp_path):
    file, cache = tmp_path / "film.mp4", tmp_path / "cache"
    old = 1_000_000_000
    for content in (b"one", b"two"):
        (tmp_path / "new").write_bytes(content)
        os.utime(tmp_path / "new", (old, old))
        (tmp_path / "new").replace(file)
        with patch("stepcut.features.features.time.time_ns", lambda: 2**62):  # not changed just now
            assert content_hash(file, cache) == hashlib.sha256(content).hexdigest()
    assert len(list((cache / "hashes").iterdir())) == 1


def rows(seed, length=5, width=4):
    return np.random.default_rng(seed).normal(size=(length, width)).astype(np.float32)


def test_arrays_by_name_keep_their_names_and_rows_of_another_rate_are_refused():
    features, failures = read_source({"a": rows(0), "b": rows(1)}, rate=2)
    assert [one.name for one in features] == ["a", "b"]
    assert (features[0].rate, features[0].duration, failures) == (2, 2.5, [])
    assert [one.name for one in read_source([rows(0), rows(1)])[0]] == ["0", "1"]
    with raises(OptionError, setting="rate", value=0):
        read_source([rows(0)], rate=0)
    for bad, says in ((rows(1, width=5), "(5,)"), (np.full((3, 4), np.nan), "1: row 0")):
        with raises(FeatureError, says):
            read_source([rows(0), bad])
    other = Features(rows(0), Fraction(1), 5.0, "b")
    with raises(FeatureError, "stepcut features VIDEO -o DIR --fps 5/2"):
        read_like(other, Fraction(5, 2), [4], None)


def test_features_below_folders_are_read_and_not_mixed_with_videos(tmp_path):
    for place in ("cam1/a", "cam2/a"):
        (tmp_path / place).parent.mkdir()
        np.save(tmp_path / f"{place}.npy", rows(0))
    proc = tmp_path / "task.proc"
    proc.mkdir()
    for name in ("config.json", "steps.json", "model.safetensors"):
        (proc / name).write_text("{}")
    found, _ = read_source(tmp_path)
    assert [one.name for one in found] == ["cam1/a", "cam2/a"]
    np.save(tmp_path / "a.npy", rows(0))
    for name in ("b", "c"):
        (tmp_path / f"{name}.mp4").touch()
    with raises(OptionError, "b.mp4", "a.npy"):
        read_source([tmp_path / "a.npy", tmp_path / "b.mp4"])
    with raises(VideoError, "b.mp4", "c.mp4"):
        read_source(tmp_path)
