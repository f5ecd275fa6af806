"""A video that hangs or crashes FFmpeg ends a helper process, never the program."""

import os
import signal
import subprocess
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path

import pytest
from features_films import hostile_texts, make_film

from stepcut.app.workspace import Workspace
from stepcut.errors import StepcutError, VideoError
from stepcut.features import compute
from stepcut.features.extract import extract
from stepcut.features.video import opener, sample
from stepcut.features.video.probe import key_times, probe, read_info, read_packets
from stepcut.features.video.sample import sample_frames
from stepcut.parallel.local import Local, map_threads
from stepcut.procedure.lengths import video_duration

# FFmpeg sleeps for ten minutes in hang.mp4, where no signal handler of Python runs, and dies in
# crash.mp4. With {library} = PyDLL it also holds the lock of the interpreter.
STUB = """
import av, ctypes, os
really_open = av.open

def open_badly(path, *args, **options):
    if path.endswith("/hang.mp4"):
        with open(path.removeprefix("file:") + ".process", "w") as file:
            file.write(str(os.getpid()))
        ctypes.{library}(None).sleep(600)
    if path.endswith("/crash.mp4"):
        os.abort()
    return really_open(path, *args, **options)

av.open = open_badly
"""
SECONDS = 4.0

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="libc is called")


class Grey:
    """A backbone of one number: how bright the picture is."""

    name, dim, size, fingerprint = "grey", 1, 16, "grey"

    def extract(self, frames):
        return frames.mean(axis=(1, 2, 3))[:, None]


def bad_code(library="PyDLL"):
    return opener._CODE.replace("serve()", STUB.format(library=library) + "serve()")


def end_all():
    places = opener._places(os.getpid())
    for process in [places.get() for _ in range(opener._MOST)]:
        if process is not None:
            process.end()
        places.put(None)


@pytest.fixture
def bad_ffmpeg(monkeypatch):
    end_all()
    monkeypatch.setattr(opener, "_CODE", bad_code())
    monkeypatch.setattr(opener, "OPEN_SECONDS", SECONDS)
    yield
    end_all()


@pytest.fixture
def impatience(monkeypatch):
    """A short wait, where no video opens."""
    monkeypatch.setattr(opener, "OPEN_SECONDS", 0.5)


def lives(process):
    """Whether a process exists and has not ended; its parent may not have asked for its code."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def heed_interrupts():
    """For a child process; jobs in the background of a shell ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def holder(film):
    return int(Path(f"{film}.process").read_text())


def test_an_answer_of_the_other_process_is_that_of_this_one(tmp_path):
    film = make_film(tmp_path / "film.mp4", frames=31, g="5")
    assert probe(film) == read_info(film)
    assert isinstance(probe(film).rate, Fraction)
    assert key_times(film) == read_packets(film)[1] != []
    assert video_duration(film) == pytest.approx(31 / 20)


def test_relative_paths_count_from_the_current_folder(tmp_path, monkeypatch):
    for name, frames in (("a", 20), ("b", 40)):
        (tmp_path / name).mkdir()
        make_film(tmp_path / name / "film.mp4", frames=frames)
    for name, frames in (("a", 20), ("b", 40)):
        monkeypatch.chdir(tmp_path / name)
        assert probe("film.mp4").frames == frames
        (tmp_path / name / "text.mp4").write_text("no video")
        with pytest.raises(VideoError, match=r"^text\.mp4: "):
            probe("text.mp4")


@pytest.mark.usefixtures("bad_ffmpeg")
def test_a_video_that_hangs_is_left_out_and_the_others_are_used(tmp_path):
    films = [make_film(tmp_path / f"{name}.mp4", frames=20) for name in ("a", "hang", "z")]
    begun = time.monotonic()
    found, failures = extract(films, Grey(), 2, tmp_path / "cache")
    assert SECONDS <= time.monotonic() - begun < 300
    assert [one.name for one in found] == ["a", "z"]
    assert [str(one.error) for one in failures] == [
        f"{films[1]}: cannot be opened within 4 seconds. Exclude it, or copy it to a faster disk."
    ]
    assert not lives(holder(films[1]))


@pytest.mark.usefixtures("bad_ffmpeg")
def test_a_video_that_crashes_ffmpeg_is_left_out(tmp_path):
    films = [make_film(tmp_path / f"{name}.mp4", frames=20) for name in ("a", "crash", "z")]
    found, failures = extract(films, Grey(), 2, tmp_path / "cache")
    assert [one.name for one in found] == ["a", "z"]
    assert [str(one.error) for one in failures] == [
        f"{films[1]}: crashes FFmpeg. Exclude it, or copy it again."
    ]


@pytest.mark.usefixtures("bad_ffmpeg", "impatience")
def test_a_file_that_ffmpeg_reads_for_ever_is_an_error(tmp_path, monkeypatch):
    """With playlists let in, FFmpeg never finishes to open this one."""
    hostile_texts(tmp_path)
    allow = "from stepcut.features.video import container; container.CONTAINERS = 'hls,mpegts'\n"
    monkeypatch.setattr(opener, "_CODE", opener._CODE.replace("serve()", f"{allow}serve()"))
    with pytest.raises(VideoError, match=r"list\.m3u8: cannot be opened within 0.5 seconds"):
        probe(tmp_path / "list.m3u8")


@pytest.mark.usefixtures("bad_ffmpeg", "impatience")
def test_a_video_is_decoded_only_after_another_process_has_opened_it(tmp_path):
    hang = make_film(tmp_path / "hang.mp4")
    with pytest.raises(VideoError, match="cannot be opened within 0.5 seconds"):
        next(sample_frames(hang))


@pytest.mark.usefixtures("bad_ffmpeg")
def test_the_app_lists_a_video_that_hangs_with_its_error(tmp_path):
    for name in ("a", "hang"):
        make_film(tmp_path / f"{name}.mp4", frames=20)
    good, bad = Workspace(tmp_path).probe(["a.mp4", "hang.mp4"])
    assert good["problem"] is None
    assert "cannot be opened within 4 seconds" in bad["problem"]


@pytest.mark.usefixtures("bad_ffmpeg")
def test_stopping_does_not_wait_for_a_video_that_hangs(tmp_path, monkeypatch):
    monkeypatch.setattr(opener, "OPEN_SECONDS", 600.0)
    film = make_film(tmp_path / "hang.mp4")

    def stop(_place, _count):
        if Path(f"{film}.process").exists():
            raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        map_threads(lambda one, tick: probe(one, tick), [film], lambda *_: None, stop)
    assert time.monotonic() - begun < 300
    assert not lives(holder(film))


def test_a_process_that_cannot_start_is_reported(tmp_path, monkeypatch):
    end_all()
    with monkeypatch.context() as patched:
        patched.setattr(opener, "_CODE", "raise SystemExit(1)")
        with pytest.raises(StepcutError, match="cannot start"):
            probe(make_film(tmp_path / "film.mp4"))
    assert probe(tmp_path / "film.mp4").frames


def test_a_process_that_died_while_idle_is_replaced(tmp_path):
    film = make_film(tmp_path / "film.mp4")
    before = probe(film)
    places = opener._places(os.getpid())
    process = places.get()
    assert process is not None
    os.kill(process._process.pid, signal.SIGKILL)
    process._process.wait()
    places.put(process)
    assert probe(film) == before


def test_worker_processes_open_videos_too(tmp_path):
    films = [make_film(tmp_path / f"{name}.mp4", frames=20) for name in "ab"]
    engine = Local(1)
    try:
        answers = engine.map(probe, films)
    finally:
        engine.close()
    assert answers == [probe(film) for film in films]


@pytest.mark.parametrize(
    "way",
    ["SIGTERM", *(pytest.param(one, marks=pytest.mark.slow) for one in ("SIGINT", "SIGKILL"))],
)
def test_no_process_is_left_over_when_the_program_is_stopped(tmp_path, way):
    """Each ends it, while FFmpeg hangs: Ctrl-C, a scheduler, and a kill that no program sees."""
    (tmp_path / "films").mkdir()
    hang = make_film(tmp_path / "films" / "hang.mp4", frames=20)
    make_film(tmp_path / "films" / "a.mp4", frames=20)
    # After a kill, only a thread in the process itself can notice: FFmpeg does not hold the lock.
    code = bad_code("CDLL" if way == "SIGKILL" else "PyDLL")
    program = (
        f"from stepcut.features.video import opener; opener._CODE = {code!r}; "
        "from stepcut.cli.main import main; main()"
    )
    words = ["features", str(hang.parent), "-o", str(tmp_path / "out")]
    running = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    until = time.monotonic() + 120
    place = Path(f"{hang}.process")
    while not (place.exists() and place.read_text()):
        assert running.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    child = holder(hang)
    assert lives(child)
    begun = time.monotonic()
    running.send_signal(signal.Signals[way])
    _, said = running.communicate(timeout=60)
    taken = time.monotonic() - begun
    while lives(child) and time.monotonic() < begun + 20:
        time.sleep(0.05)
    assert not lives(child)
    if way == "SIGKILL":
        assert running.returncode == -signal.SIGKILL
        return
    assert running.returncode == 128 + signal.Signals[way]
    assert taken < 60
    assert "interrupted" in said
    assert "Traceback" not in said


def test_a_video_that_hangs_the_decoder_is_skipped(tmp_path, monkeypatch):
    """It opens, and its first frames can be decoded; then FFmpeg does not return."""
    for frames, name in ((200, "a"), (210, "hang"), (220, "z")):
        make_film(tmp_path / f"{name}.mp4", frames=frames)
    decode, ended = sample._decode, threading.Event()

    def hang(samples, *rest):
        for number, frame in enumerate(decode(samples, *rest)):
            if number == 50 and Path(samples.path).name == "hang.mp4":
                ended.wait()
            yield frame

    monkeypatch.setattr(sample, "_decode", hang)
    monkeypatch.setattr(compute, "DECODE_SECONDS", 3)
    monkeypatch.setattr(compute, "_LEAVE", 0.1)
    try:
        found, failures = extract(tmp_path, Grey(), 2, tmp_path / "cache")
    finally:
        ended.set()
    assert [one.name for one in found] == ["a", "z"]
    assert [one.name for one in failures] == ["hang"]
    assert "no progress for 3 seconds" in str(failures[0])


PROGRAM = """
import ctypes, sys
from test_features_opener import Grey
from stepcut.features.extract import extract
from stepcut.features.video import container

def hang(*_):
    print("hangs", flush=True)
    ctypes.CDLL(None).sleep(600)

container._open = hang  # in this process only, after the other one has opened the video
try:
    extract([sys.argv[1]], Grey(), 2, sys.argv[2])
except KeyboardInterrupt:
    sys.exit(7)  # as `watch` ends, with Python's usual exit
"""


@pytest.mark.slow
def test_a_decoder_that_hangs_does_not_keep_the_program_alive(tmp_path):
    film = make_film(tmp_path / "film.mp4", frames=20)
    running = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, film, tmp_path / "cache"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == "hangs\n"
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 7
    finally:
        running.kill()
        running.communicate()
