"""Extraction by workers: the very features of one process, pieces joined, deaths survived, nothing done twice."""

import os
import pickle
import threading
from fractions import Fraction

import pytest
from errors_kit import raises
from extraction_kit import Crash, fill_the_disk, kill_and_run_again, stored
from features_films import make_film
from parallel_kit import Logged, pids, seen

from stepcut.errors import FeatureError, OptionError, VideoError
from stepcut.features.extract import extract
from stepcut.features.jobs import compute_job, look, pack, unpack
from stepcut.parallel.local import Local
from stepcut.progress import Event


@pytest.fixture(scope="module")
def workers():
    """Two processes for all tests; the dead are replaced."""
    engine = Local(2)
    yield engine
    engine.close()


@pytest.fixture
def engine(workers, monkeypatch):
    monkeypatch.setattr("stepcut.features.extract.PIECE", 3.0)
    return workers


def test_workers_give_the_features_of_one_process(films, tmp_path, engine):
    here, there = Logged(tmp_path / "here"), Logged(tmp_path / "there")
    one, _ = extract(films, here, fps=5, cache=tmp_path / "one")
    events: list[Event] = []
    many, failures = extract(
        films, there, fps=5, cache=tmp_path / "many", engine=engine, progress=events.append
    )
    assert failures == []
    assert [(f.name, f.path, f.rate, f.duration) for f in one] == [
        (f.name, f.path, f.rate, f.duration) for f in many
    ]
    assert stored(tmp_path / "one") == stored(tmp_path / "many")  # v3, 12 s, went in pieces of 3 s
    rows = sum(len(f.rows) for f in one)
    assert seen(tmp_path / "here") == seen(tmp_path / "there") == rows
    assert os.getpid() not in pids(tmp_path / "there")
    assert (events[-1].done, events[-1].total, events[-1].finished) == (rows, rows, True)
    extract(films, there, fps=5, cache=tmp_path / "many", engine=engine)
    assert seen(tmp_path / "there") == rows  # a second run computes nothing


def test_the_longest_videos_come_first(films, tmp_path):
    engine, events = Local(1), list[Event]()
    try:
        found, _ = extract(
            films,
            Logged(tmp_path / "log"),
            fps=5,
            cache=tmp_path,
            engine=engine,
            progress=events.append,
        )
    finally:
        engine.close()
    items = [event.item for event in events if event.stage == "features" and event.item]
    assert list(dict.fromkeys(items)) == ["v3", "v2", "v1", "v0"]
    # The answers stay in the order of the videos.
    assert [one.name for one in found] == ["v0", "v1", "v2", "v3"]


@pytest.mark.parametrize(
    "film", [{"g": "10", "bf": "2"}, {"g": "250"}, {"g": "7", "open-gop": "1"}]
)
def test_pieces_are_equal_to_one_pass(tmp_path, film):
    path = make_film(tmp_path / "film.mp4", frames=200, **film)
    backbone = Logged(tmp_path / "log")
    one, _ = extract(path, backbone, fps=10, cache=tmp_path / "one")
    cache = tmp_path / "pieces"
    job = look(("film", path), backbone.fingerprint, Fraction(10), cache, backbone.batch, piece=1.5)
    assert (len(job.parts()) > 3) == (film["g"] != "250")
    for part in job.parts():
        compute_job(part, backbone)
    assert compute_job(job, backbone) == len(one[0].rows) == 100
    assert stored(cache) == stored(tmp_path / "one")


def test_a_damaged_video_is_seen_in_one_pass(tmp_path, engine):
    good = make_film(tmp_path / "good.mkv", frames=240, g="10")
    data = bytearray(good.read_bytes())
    for at in range(len(data) // 2, len(data) // 2 + 400, 3):
        data[at] ^= 0xFF
    (tmp_path / "bad.mkv").write_bytes(data)
    backbone = Logged(tmp_path / "log")
    one, failed_one = extract(tmp_path / "bad.mkv", backbone, fps=5, cache=tmp_path / "one")
    many, failed_many = extract(
        tmp_path / "bad.mkv", backbone, fps=5, cache=tmp_path / "many", engine=engine
    )
    assert [str(f) for f in failed_one] == [str(f) for f in failed_many]
    assert [f.corrupt for f in one] == [f.corrupt for f in many]
    assert stored(tmp_path / "one") == stored(tmp_path / "many")


def test_a_broken_video_is_named_and_strict_stops(films, tmp_path, engine):
    (tmp_path / "empty.mp4").touch()
    short = make_film(tmp_path / "short.mp4", frames=200, muxer={"movflags": "faststart"}, g="10")
    short.write_bytes(short.read_bytes()[: short.stat().st_size // 2])
    videos = [films / "v0.mp4", tmp_path / "empty.mp4", short]
    backbone = Logged(tmp_path / "log")
    features, failures = extract(videos, backbone, fps=5, cache=tmp_path / "cache", engine=engine)
    assert [f.name for f in features] == ["v0"]
    assert [f.name for f in failures] == ["empty", "short"]
    assert "no frame after" in str(failures[1])
    assert len(stored(tmp_path / "cache")) == 1
    with raises(VideoError, "empty.mp4"):
        extract(videos, backbone, fps=5, cache=tmp_path / "cache", engine=engine, strict=True)


@pytest.mark.slow
def test_a_video_that_crashes_its_worker_is_named(films, tmp_path, engine):
    dark = make_film(tmp_path / "dark.mp4", frames=1, rate=1)
    features, failures = extract(
        [films / "v0.mp4", dark, films / "v1.mp4"],
        Crash(tmp_path / "log"),
        fps=5,
        cache=tmp_path,
        engine=engine,
    )
    assert [f.name for f in features] == ["v0", "v1"]
    assert f"{dark}: the worker process died by SIGSEGV, 2 times. It crashes the decoder" in str(
        failures[0]
    )


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_costs_one_piece(films, tmp_path, engine):
    backbone = Logged(tmp_path / "log", die=tmp_path / "died")
    extract(films, Logged(tmp_path / "other"), fps=5, cache=tmp_path / "clean")
    features, failures = extract(films, backbone, fps=5, cache=tmp_path / "cache", engine=engine)
    assert failures == []
    assert (tmp_path / "died").exists()
    assert stored(tmp_path / "clean") == stored(tmp_path / "cache")
    # It died before its first batch.
    assert seen(tmp_path / "log") == sum(len(f.rows) for f in features)


@pytest.mark.slow
def test_killing_the_driver(films, tmp_path):
    kill_and_run_again(films, tmp_path, "local")


@pytest.mark.slow
def test_a_full_disk(films, tmp_path):
    fill_the_disk(films, tmp_path, "local")


def test_a_backbone_that_cannot_be_sent_to_workers_is_told(tmp_path):
    backbone = Logged(tmp_path)
    # As what holds a network of another library often does.
    vars(backbone)["session"] = threading.Lock()
    with raises(OptionError, "logged", "cannot pickle"):
        pack(backbone)


def test_a_worker_with_another_backbone_is_refused(tmp_path):
    with raises(FeatureError, "'logged 1'", "'logged 2'"):
        unpack("logged 2", pickle.dumps(Logged(tmp_path)))
    with raises(FeatureError, "cannot import"):
        unpack("logged 1", pickle.dumps(Logged(tmp_path)).replace(b"Logged", b"Gone__"))
