"""Live sources: never starting, stalling, dropping, changing resolution, too fast; and real RTSP cameras."""

import contextlib
import io
import itertools
import json
import logging
import os
import socket
import threading
import time
from dataclasses import replace
from fractions import Fraction
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
from errors_kit import raises
from features_films import make_film, number_of
from kitchen_kit import Eye
from rtsp_camera import RtspCamera, encode

from stepcut.checking.calibrate import learn_expectations
from stepcut.cli.checking import follow_pictures
from stepcut.errors import VideoError
from stepcut.features.extract import compute_rows
from stepcut.features.video import live
from stepcut.features.video.sample import sample_frames


def picture(value=0, height=8, width=8):
    return np.full((height, width, 3), value, dtype=np.uint8)


def stream(connect, rate=1000.0, **waits):
    waits = {"patience": 5.0, "stall": 5.0, **waits}
    return live.Stream("fake", connect, lambda frame: frame, rate, **waits)


@pytest.fixture(autouse=True)
def _reconnect_quickly(monkeypatch):
    monkeypatch.setattr("stepcut.features.video.live.FIRST_WAIT", 0.01)
    monkeypatch.setattr("stepcut.features.video.live.LONGEST_WAIT", 0.03)


def paced(values):
    """Frames that come a little apart, so that each falls into a slot of its own."""
    for value in values:
        yield picture(value)
        time.sleep(0.003)


def test_a_stream_that_never_starts_is_given_up_with_the_reason():
    attempts = []

    def refuse(_):
        attempts.append(1)
        raise OSError("Connection refused")

    with (
        contextlib.closing(stream(refuse, patience=0.2)) as samples,
        raises(VideoError, "fake", "Connection refused"),
    ):
        next(samples)
    assert len(attempts) > 1  # it did try again


def test_a_stream_that_drops_is_opened_again_and_says_so(caplog):
    connections = []

    def drop(_):
        connections.append(1)
        yield from paced(range(3))
        raise OSError("Connection reset by peer")

    with contextlib.closing(stream(drop)) as samples:
        taken = [next(samples) for _ in range(8)]
    assert len(connections) >= 2
    notes = [note for sample in taken for note in sample.notes]
    words = "the source dropped (Connection reset by peer); trying again in 0.01 s"
    assert any(note.startswith(words) for note in notes)
    assert [sample.time for sample in taken] == sorted({sample.time for sample in taken})
    assert "the source dropped" in caplog.text


def test_waiting_doubles_while_nothing_works_and_starts_small_again_after(caplog):
    caplog.set_level(logging.WARNING, "stepcut")
    connections = []

    def come_and_go(_):
        connections.append(1)
        if len(connections) in (2, 3, 4):
            raise OSError("no route")
        yield from paced(range(3))
        raise OSError("gone")

    with contextlib.closing(stream(come_and_go)) as samples:
        while len(connections) < 6:
            next(samples)
    waits = [record.getMessage().split("trying again in ")[1] for record in caplog.records]
    assert waits[:5] == ["0.01 s", "0.02 s", "0.03 s", "0.03 s", "0.01 s"]


def test_a_stream_that_stalls_says_so_and_goes_on(caplog):
    def stall(_):
        yield picture(1)
        while "waiting" not in caplog.text:  # until somebody has noticed
            time.sleep(0.005)
        yield from paced(range(2, 20))

    with contextlib.closing(stream(stall, stall=0.05)) as samples:
        first = next(samples)
        second = next(samples)
    assert first.notes == ()
    assert second.notes[0] == "no frame for 0.05 s; waiting"
    assert second.notes[1].startswith("frames again after")


def test_a_source_faster_than_the_reader_is_skipped_and_counted():
    value = 0

    def flood(_):
        nonlocal value
        while True:
            value += 1
            yield picture(value % 256)
            time.sleep(0.001)

    with contextlib.closing(stream(flood, rate=500.0)) as samples:
        first = next(samples)
        while samples.skipped < first.skipped + 5:  # a slow machine asks again later
            time.sleep(0.005)
        second = next(samples)
    assert second.skipped >= first.skipped + 5
    assert second.time - first.time > 5 / 500  # the newest, not the next in line


def test_a_machine_that_waits_again_takes_every_frame_again(monkeypatch):
    now = 0.0
    notes = []

    class Packet:
        def decode(self):
            nonlocal now
            now += 0.1 if slow else 0.0
            return [camera.codec_context.skip_frame]

    def demux(_):
        nonlocal now, slow
        for number in range(160):  # every 0.1 s, which the machine needs for those from 40 to 120
            slow = 40 <= number < 120
            now += 0.0 if slow else 0.1
            yield Packet()

    slow = False
    camera = MagicMock(demux=demux)
    camera.streams.video = [camera]
    camera.codec_context.skip_frame = "DEFAULT"
    monkeypatch.setattr("stepcut.features.video.live.time", SimpleNamespace(monotonic=lambda: now))
    kinds = list(live.decoded("camera", camera, notes.append))
    fast = "the stream is too fast to decode; using key frames only"
    assert notes == [fast, "decoding every frame again"]
    assert [kind for kind, _ in itertools.groupby(kinds)] == ["DEFAULT", "NONKEY", "DEFAULT"]


def test_an_error_of_ours_is_not_taken_for_a_drop_and_a_closed_stream_ends():
    def broken(frame):
        raise ZeroDivisionError(f"a bug in scaling {frame.shape}")

    with (
        contextlib.closing(live.Stream("fake", lambda _: paced(range(3)), broken, 100)) as samples,
        pytest.raises(ZeroDivisionError),
    ):
        next(samples)
    samples = stream(lambda _: paced(range(1000)))
    next(samples)
    samples.close()
    assert len(list(samples)) <= 1


def test_a_file_at_its_own_pace_skips_what_is_late(monkeypatch):
    now = 0.0
    slept = []

    def sleep(seconds):
        nonlocal now
        slept.extend([seconds] if seconds else [])
        now += seconds

    fake = SimpleNamespace(monotonic=lambda: now, sleep=sleep)
    monkeypatch.setattr("stepcut.features.video.live.time", fake)
    samples = live.keep_pace((live.Sample(n / 2, picture(n)) for n in range(10)), Fraction(2))
    taken = []
    for sample in samples:
        taken.append((sample.time, sample.skipped))
        if sample.time == 1.0:
            now += 2.0  # something took two seconds
    assert taken == [(0, 0), (0.5, 0), (1.0, 0), (2.5, 2), (3.0, 2), (3.5, 2), (4.0, 2), (4.5, 2)]
    assert slept == pytest.approx([0.5, 0.5, 0.5, 0.5, 0.5])


class Clips:
    """A backbone that takes three frames, a quarter of a second apart, and gives their numbers."""

    name, dim, size, fingerprint, clip_frames, clip_fps = "clips", 3, 64, "clips 1", 3, Fraction(4)

    def extract(self, frames):
        return np.array([[number_of(frame) for frame in clip] for clip in frames], dtype=np.float32)


def test_a_network_that_takes_clips_is_given_those_that_it_was_learned_with(tmp_path):
    film = make_film(tmp_path / "film.mp4", frames=40, rate=8)
    guide = SimpleNamespace(push=lambda time, row, *_: (time, row.tolist()))
    seen = list(follow_pictures(guide, str(film), Fraction(1), Clips()))
    assert [time for time, _ in seen] == [0, 1, 2, 3, 4]
    rows = np.concatenate(list(compute_rows(sample_frames(film, 4, 64), Clips(), Fraction(1))))
    assert [row for _, row in seen] == rows.tolist()


def test_a_pipe_gives_every_sample_of_the_file(tmp_path, monkeypatch):
    film = make_film(tmp_path / "film.avi", frames=40, rate=8)
    times = [time for time, _ in sample_frames(film, 2, 64)]
    pictures = [picture for _, picture in sample_frames(film, 2, 64)]
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(film.read_bytes()), daemon=True)
    writer.start()
    with film.open("rb") as data:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=data))
        for source in (str(pipe), "-"):
            with live.open_samples(source, Fraction(2), 64) as samples:
                seen = list(samples)
            assert [sample.time for sample in seen] == times
            assert all(np.array_equal(a.picture, b) for a, b in zip(seen, pictures, strict=True))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"no video" * 100)))
    with (
        raises(VideoError, "standard input", "Use a file"),
        live.open_samples("-", Fraction(2), 64) as samples,
    ):
        next(samples)


def test_an_address_or_a_camera_that_is_not_there_says_so():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with raises(VideoError, f"tcp://***@127.0.0.1:{port}", "refused"):
        next(live.frames_of(f"tcp://me:secret@127.0.0.1:{port}", stall=1.0, say=print))
    attempts = []

    def connect(say):
        attempts.append(1)
        return live.frames_of("camera:/dev/no-such-camera", 1.0, say)

    with contextlib.closing(stream(connect)) as samples, pytest.raises(VideoError) as caught:
        next(samples)
    assert caught.value.path == "/dev/no-such-camera"
    assert len(attempts) == 1  # without the patience of a source that may come yet


def test_a_camera_that_is_unplugged_is_waited_for(monkeypatch):
    monkeypatch.setattr("stepcut.features.video.live.LOST", 0.05)
    plugged = threading.Event()
    plugged.set()
    outages = []

    def connect(say):
        if not plugged.is_set():
            yield from live.frames_of("camera:/dev/no-such-camera", 1.0, say)
        yield from paced(range(5))
        plugged.clear()

    def lost(outage):
        outages.append(outage.reason)
        if "/dev/no-such-camera" in outage.reason:  # on a busy machine, "it ended" comes first
            plugged.set()

    with contextlib.closing(stream(connect, lost=lost)) as samples:
        taken = [next(samples) for _ in range(7)]
    assert "/dev/no-such-camera" in outages[-1]
    assert len(taken) == 7


def test_a_lost_source_is_reported_again_and_again_while_it_is_waited_for(monkeypatch):
    monkeypatch.setattr("stepcut.features.video.live.LOST", 0.02)
    monkeypatch.setattr("stepcut.features.video.live.HEARTBEAT", 0.02)
    outages = []
    again = threading.Event()

    def connect(_):
        yield from paced(range(3))
        again.wait()
        yield from itertools.cycle([picture()])

    def lost(outage):
        outages.append(outage)
        if len(outages) == 4:
            again.set()

    with contextlib.closing(stream(connect, lost=lost)) as samples:
        times = [next(samples).time for _ in range(6)]
    assert len(outages) >= 4
    waited = [outage.waited for outage in outages[:4]]
    assert waited == sorted(waited)
    assert times[-1] > outages[3].time


def test_a_source_that_is_slow_by_itself_is_not_lost(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    fake = SimpleNamespace(monotonic=lambda: clock.now)
    monkeypatch.setattr("stepcut.features.video.live.time", fake)
    ended = threading.Event()

    def connect(_):
        ended.wait()
        yield from ()

    samples = stream(connect)
    for _ in range(20):  # a frame every two seconds
        clock.now += 2.0
        samples._take(picture())
    clock.now += 4.0
    assert samples._outage() is None
    clock.now += 4.0
    assert samples._outage().waited == 8.0
    for wait, waited in ((1.5, None), (0.5, 10.0)):  # a heartbeat every two seconds
        clock.now += wait
        assert getattr(samples._outage(), "waited", None) == waited
    ended.set()
    samples.close()


def test_the_command_prints_a_line_while_the_source_is_lost(tiny_task, monkeypatch, run):
    def follow(*_, lost, **__):
        lost(live.Outage(3.25, 1.6, "Connection reset by peer"))
        return iter(())

    monkeypatch.setattr("stepcut.cli.checking.load", lambda *_, **__: tiny_task.procedure)
    monkeypatch.setattr("stepcut.cli.checking.follow", follow)
    words = ["guide", "any.proc", "rtsp://10.0.0.5/live"]
    line = {"time": 3.25, "source": "lost", "waited": 1.6, "reason": "Connection reset by peer"}
    assert json.loads(run(*words).out) == line
    assert "no frames for 2 s (Connection reset by peer)" in run(*words, "--view").out


def test_a_device_is_read_as_a_camera_is(monkeypatch):
    """FFmpeg's own test picture stands in for a camera: a device with a driver, raw frames without end."""
    test_picture = "testsrc2=size=64x48:rate=25", "lavfi"
    monkeypatch.setattr(live, "camera_device", lambda *_: test_picture)
    with live.open_samples("camera:1", Fraction(50), 32, patience=20.0, stall=5.0) as samples:
        taken = [next(samples) for _ in range(3)]
    assert {sample.picture.shape for sample in taken} == {(32, 32, 3)}
    assert taken[0].picture.std() > 20  # there is something to see


def test_words_for_sources_and_names_of_cameras():
    assert live.camera_device("0", "linux") == ("/dev/video0", "v4l2")
    assert live.camera_device("/dev/video7", "linux") == ("/dev/video7", "v4l2")
    assert live.camera_device("1", "darwin") == ("1", "avfoundation")
    assert live.camera_device("USB Camera", "win32") == ("video=USB Camera", "dshow")
    with raises(VideoError, "Windows"):
        live.camera_device("0", "win32")
    assert live.is_live("camera")
    assert live.is_live("camera:1")
    assert live.is_live("RTSP://10.0.0.5/live")
    assert not live.is_live("camera.mp4")
    assert not live.is_live("folder/rtsp.mp4")
    assert live.hide_password("rtsp://10.0.0.5/a@b") == "rtsp://10.0.0.5/a@b"
    assert live.hide_password("rtsp://me:p@ss@10.0.0.5/live") == "rtsp://***@10.0.0.5/live"


QUICK = {"patience": 20.0}


def film(step, pictures, size=64):
    shown = picture(0, size, size)
    shown[:, size // 4 * step : size // 4 * (step + 1)] = 255
    return encode([shown] * pictures)


@pytest.fixture
def hasty(tiny_task):
    """The tiny task done fifty times as fast: a step takes less than half a second."""
    expectations = learn_expectations(list(tiny_task.labels.values()), 50.0)
    known = tiny_task.procedure
    learned = replace(known.learned, rate=Fraction(50), expectations=expectations)
    return replace(known, learned=learned)


def test_the_guide_follows_an_rtsp_camera_that_drops_and_comes_back_in_another_resolution(hasty):
    states = []
    with RtspCamera([film(0, 60), film(2, 50, size=128)]) as camera:
        how = {"stall": 5.0, **QUICK}
        found = follow_pictures(hasty.guide(), camera.address, hasty.rate, Eye(), **how)
        for state in islice(found, 4000):
            states.append(state)
            if set(state.done) >= {0, 2}:
                break
    assert states[-1].done == (0, 2)  # what was done before the drop is still known
    said = [alert.reason for state in states for alert in state.alerts if alert.kind == "source"]
    dropped = "the source dropped (it ended); trying again in 0.01 s"
    assert any(reason.startswith(dropped) for reason in said)
    times = [state.time for state in states]
    assert times == sorted(set(times))


def test_an_rtsp_camera_that_hangs_is_opened_again():
    notes = []
    with (
        RtspCamera([film(1, 30), film(1, 30)], hangs=True) as camera,
        live.open_samples(camera.address, Fraction(100), 16, stall=0.3, **QUICK) as samples,
    ):
        for sample in islice(samples, 4000):
            assert sample.picture.shape == (16, 16, 3)
            notes += sample.notes
            if camera.plays > 1 and len(notes) > 2:
                break
    dropped = "the source dropped (no data within the time limit); trying again in 0.01 s"
    assert {"no frame for 0.3 s; waiting", dropped} <= {*notes}
    assert notes[-1].startswith("frames again after")


def test_an_rtsp_camera_may_change_resolution_while_it_films():
    both = [*film(1, 10, size=64), *film(3, 10, size=128)]
    seen = set()
    with (
        RtspCamera([both]) as camera,
        live.open_samples(camera.address, Fraction(100), 16, stall=5.0, **QUICK) as samples,
    ):
        for sample in islice(samples, 4000):
            assert sample.picture.shape == (16, 16, 3)
            seen.add(int(sample.picture.mean(axis=(0, 2)).reshape(4, 4).mean(axis=1).argmax()))
            if seen == {1, 3}:
                break
    assert seen == {1, 3}


def test_a_playlist_at_an_address_leads_nowhere_else(tmp_path):
    asked = []

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            super().do_GET()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=tmp_path)) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        there = f"http://127.0.0.1:{server.server_port}"
        (tmp_path / "live.m3u8").write_text(
            f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{there}/secret.ts\n"
        )
        with pytest.raises(VideoError, match="playlist"):
            next(live.frames_of(f"{there}/live.m3u8", 5.0, lambda _: None))
        server.shutdown()
    assert asked
    assert "/secret.ts" not in asked
