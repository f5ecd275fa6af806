"""A video that hangs, crashes or fills its worker is named; the others finish, and nothing is done twice."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from errors_kit import raises
from extraction_kit import Crash, fill_the_disk, kill_and_run_again, stored
from features_films import make_film
from parallel_kit import Grey, Logged, pids, seen

from stepcut.app.workspace import Workspace
from stepcut.errors import FeatureError, OptionError, StepcutError, VideoError
from stepcut.features.backbones import pack, unpack
from stepcut.features.extract import extract
from stepcut.features.video.container import key_times, probe, read_info, read_packets
from stepcut.features.video.sample import sample_frames
from stepcut.parallel import engine as pool
from stepcut.parallel.engine import Local
from stepcut.procedure.lengths import video_duration
from stepcut.progress import Event

# FFmpeg sleeps for ten minutes in hang.mp4, where no signal handler of Python runs, and in the packets of
# stuck.mp4; it dies in crash.mp4. With {library} = PyDLL it also holds the lock of the interpreter.
STUB = """
import av, ctypes, os
from stepcut.features import extract
from stepcut.features.video import container, sample
container.OPEN_SECONDS, extract.DECODE_SECONDS = {seconds}, {seconds}
really_open, really_decode = av.open, sample._decode

def open_badly(path, *args, **options):
    if path.endswith("/hang.mp4"):
        with open(path.removeprefix("file:") + ".process", "w") as file:
            file.write(str(os.getpid()))
        ctypes.{library}(None).sleep(600)
    if path.endswith("/crash.mp4"):
        os.abort()
    return really_open(path, *args, **options)

def decode_badly(samples, *rest):
    for number, frame in enumerate(really_decode(samples, *rest)):
        if number == 50 and str(samples.path).endswith("/stuck.mp4"):
            ctypes.{library}(None).sleep(600)
        yield frame

av.open, sample._decode = open_badly, decode_badly
"""

unix = pytest.mark.skipif(sys.platform == "win32", reason="libc is called")


def bad_code(library="PyDLL", seconds=2.0):
    return STUB.format(library=library, seconds=seconds) + pool.CODE


@pytest.fixture
def _fresh():
    pool.shared().close()
    yield
    pool.shared().close()


@pytest.fixture
def bad_ffmpeg(_fresh, monkeypatch):
    monkeypatch.setattr(pool, "CODE", bad_code())


@pytest.fixture(scope="module")
def engine():
    engine = Local(2)
    yield engine
    engine.close()


def films_of(folder, *names):
    return [make_film(folder / f"{name}.mp4", frames=150 + n) for n, name in enumerate(names)]


def lives(process):
    """Whether a process exists and has not ended; its parent may not have asked for its code."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_an_answer_of_a_worker_is_that_of_this_process(tmp_path, monkeypatch):
    film = make_film(tmp_path / "film.mp4", frames=31, g="5")
    assert probe(film) == read_info(film)
    assert key_times(film) == read_packets(film)[1] != []
    assert video_duration(film) == pytest.approx(31 / 20)
    (tmp_path / "a").mkdir()
    make_film(tmp_path / "a" / "film.mp4", frames=20)
    monkeypatch.chdir(tmp_path / "a")  # a relative path counts from there
    assert probe("film.mp4").frames == 20
    with raises(VideoError, "nowhere.mp4: no such file"):
        probe("nowhere.mp4")


BAD = {
    "hang": "no progress for 2 seconds while opening it. Exclude it, or copy it to a faster",
    "stuck": "no progress for 2 seconds while decoding. Exclude it",
    "crash": "the worker process died by SIGABRT, 2 times. It crashes the decoder",
}


@unix
@pytest.mark.usefixtures("bad_ffmpeg")
def test_a_bad_video_is_named_and_the_others_finish(tmp_path):
    films = films_of(tmp_path, "a", *BAD, "z")
    found, failures = extract(films, Grey(), 2, tmp_path / "cache")
    assert [one.name for one in found] == ["a", "z"]
    told = {one.name: str(one.error) for one in failures}
    assert told.keys() == BAD.keys()
    for film, (name, says) in zip(films[1:], BAD.items(), strict=False):
        assert told[name].startswith(f"{film}: {says}")
    assert not lives(int(Path(f"{films[1]}.process").read_text()))


@pytest.mark.slow
@unix
@pytest.mark.usefixtures("bad_ffmpeg")
def test_whoever_opens_a_video_is_safe(tmp_path):
    good, bad = films_of(tmp_path, "a", "hang")
    with raises(VideoError, "no progress for 2 seconds"):
        next(sample_frames(bad))  # in this process, but only after a worker has opened it
    first, second = Workspace(tmp_path).probe([good.name, bad.name])
    assert first["problem"] is None
    assert "no progress for 2 seconds" in second["problem"]


def test_small_files_that_claim_gigabytes_take_no_memory(tmp_path):
    film = make_film(tmp_path / "film.mp4", frames=20, bf="0")
    data = bytearray(film.read_bytes())
    for table, place in ((b"stsz", 8), (b"stsz", 12), (b"stts", 12), (b"stsc", 16)):
        at = data.index(table) + place
        data[at : at + 4] = (1 if place == 8 else 20_000_000).to_bytes(4, "big")
    film.write_bytes(data)
    with raises(VideoError, "claims 20,000,000 frames in 2,"):
        probe(film)


@unix
@pytest.mark.usefixtures("bad_ffmpeg")
def test_stopping_does_not_wait_for_a_video_that_hangs(tmp_path):
    [film] = films_of(tmp_path, "hang")
    place, begun = Path(f"{film}.process"), time.monotonic()

    def stop(_event):
        if place.exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(film, Grey(), 2, tmp_path / "cache", progress=stop)
    assert time.monotonic() - begun < 60
    assert not lives(int(place.read_text()))


@pytest.mark.usefixtures("_fresh")
def test_a_worker_that_cannot_start_is_reported(tmp_path, monkeypatch):
    film = make_film(tmp_path / "film.mp4")
    with monkeypatch.context() as patched:
        patched.setattr(pool, "CODE", "raise SystemExit(1)")
        with raises(StepcutError, "a worker process cannot start (ended with exit code 1)"):
            probe(film)
    assert probe(film).frames


@unix
@pytest.mark.parametrize(
    "way",
    ["SIGTERM", *(pytest.param(one, marks=pytest.mark.slow) for one in ("SIGINT", "SIGKILL"))],
)
def test_no_process_is_left_over_when_the_program_is_stopped(tmp_path, way):
    """Each ends it, while FFmpeg hangs: Ctrl-C, a scheduler, and a kill that no program sees."""
    (tmp_path / "films").mkdir()
    _, hang = films_of(tmp_path / "films", "a", "hang")
    # After a kill, only a thread in the worker itself can notice: FFmpeg does not hold the lock.
    code = bad_code("CDLL" if way == "SIGKILL" else "PyDLL", 600)
    program = f"from stepcut.parallel import engine; engine.CODE = {code!r}; "
    program += "from stepcut.cli.main import main; main()"
    words = [sys.executable, "-c", program, "features", str(hang.parent), "-o", tmp_path / "out"]

    def heed():  # jobs in the background of a shell ignore Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)

    running = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, preexec_fn=heed)
    until, place = time.monotonic() + 120, Path(f"{hang}.process")
    while not (place.exists() and place.read_text()):
        assert running.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    child, begun = int(place.read_text()), time.monotonic()
    assert lives(child)
    running.send_signal(signal.Signals[way])
    _, said = running.communicate(timeout=60)
    while lives(child) and time.monotonic() < begun + 60:
        time.sleep(0.05)
    assert not lives(child)
    number = signal.Signals[way]
    assert running.returncode == (-number if way == "SIGKILL" else 128 + number)
    assert ("interrupted" in said) == (way != "SIGKILL")
    assert "Traceback" not in said


def test_workers_give_the_features_of_one_process(films, tmp_path, engine):
    class Here(Logged):
        """Of a function, so that no worker can import it."""

    here, there = Here(tmp_path / "here"), Logged(tmp_path / "there")
    events = []
    how = {"engine": engine, "progress": events.append, "cache": tmp_path / "many"}
    one, _ = extract(films, here, fps=5, cache=tmp_path / "one")
    many, failures = extract(films, there, fps=5, **how)
    assert failures == []
    for f, g in zip(one, many, strict=True):
        assert (f.name, f.path, f.rate, f.duration) == (g.name, g.path, g.rate, g.duration)
    assert stored(tmp_path / "one") == stored(tmp_path / "many")
    rows = sum(len(f.rows) for f in one)
    assert seen(tmp_path / "here") == seen(tmp_path / "there") == rows
    assert pids(tmp_path / "here") == {os.getpid()}
    assert os.getpid() not in pids(tmp_path / "there")
    assert (events[-1].done, events[-1].total, events[-1].finished) == (rows, rows, True)
    extract(films, there, fps=5, **how)
    assert seen(tmp_path / "there") == rows  # a second run computes nothing


def test_the_longest_videos_come_first(films, tmp_path):
    events = list[Event]()
    with pool.open_engine(workers=1) as engine:
        how = {"engine": engine, "progress": events.append}
        found, _ = extract(films, Logged(tmp_path / "log"), fps=5, cache=tmp_path, **how)
    items = [event.item for event in events if event.stage == "features" and event.item]
    assert list(dict.fromkeys(items)) == ["v3", "v2", "v1", "v0"]
    # The answers stay in the order of the videos.
    assert [one.name for one in found] == ["v0", "v1", "v2", "v3"]


@pytest.mark.slow
def test_a_backbone_that_crashes_its_worker_costs_one_video(films, tmp_path, engine):
    dark = make_film(tmp_path / "dark.mp4", frames=1, rate=1)
    videos = [films / "v0.mp4", dark, films / "v1.mp4"]
    found, failures = extract(videos, Crash(tmp_path / "log"), 5, cache=tmp_path, engine=engine)
    assert [f.name for f in found] == ["v0", "v1"]
    assert f"{dark}: the worker process died by SIGSEGV, 2 times" in str(failures[0])
    backbone, cache = Logged(tmp_path / "log", die=tmp_path / "died"), tmp_path / "cache"
    extract(films, Logged(tmp_path / "other"), fps=5, cache=tmp_path / "clean")
    (tmp_path / "log").unlink()
    found, failures = extract(films, backbone, fps=5, cache=cache, engine=engine)
    assert (failures, (tmp_path / "died").exists()) == ([], True)
    assert stored(tmp_path / "clean") == stored(cache)
    assert seen(tmp_path / "log") == sum(len(f.rows) for f in found)  # it died before its first


@pytest.mark.slow
def test_killing_the_driver(films, tmp_path):
    kill_and_run_again(films, tmp_path, "local")


@pytest.mark.slow
def test_a_full_disk(films, tmp_path):
    fill_the_disk(films, tmp_path, "local")


def test_backbones_that_workers_cannot_open(tmp_path):
    backbone = Logged(tmp_path)
    # As what holds a network of another library often does.
    vars(backbone)["session"] = threading.Lock()
    with raises(OptionError, "logged", "cannot pickle"):
        pack(backbone)
    with raises(FeatureError, "'logged 1'", "'logged 2'"):
        unpack("logged 2", pickle.dumps(Logged(tmp_path)))
    with raises(FeatureError, "cannot import"):
        unpack("logged 1", pickle.dumps(Logged(tmp_path)).replace(b"Logged", b"Gone__"))
