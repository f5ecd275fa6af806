"""The guide and a network camera: a real RTSP connection that drops, hangs and changes resolution."""

import threading
from dataclasses import replace
from fractions import Fraction
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice

import numpy as np
import pytest
from errors_kit import raises
from kitchen_kit import Eye
from rtsp_camera import RtspCamera, encode

from stepcut.checking.calibrate import learn_expectations
from stepcut.cli.checking import follow_pictures
from stepcut.errors import VideoError
from stepcut.features.video.live import frames_of, open_samples

QUICK = {"patience": 20.0}


@pytest.fixture(autouse=True)
def _reconnect_quickly(monkeypatch):
    monkeypatch.setattr("stepcut.features.video.live.FIRST_WAIT", 0.01)
    monkeypatch.setattr("stepcut.features.video.live.LONGEST_WAIT", 0.05)


def film(step, pictures, size=64):
    """A quarter of the picture is bright: the step that is done."""
    picture = np.zeros((size, size, 3), dtype=np.uint8)
    picture[:, size // 4 * step : size // 4 * (step + 1)] = 255
    return encode([picture] * pictures)


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
        for state in islice(
            follow_pictures(hasty.guide(), camera.address, hasty.rate, Eye(), stall=5.0, **QUICK),
            4000,
        ):
            states.append(state)
            if set(state.done) >= {0, 2}:
                break
    assert states[-1].done == (0, 2)  # what was done before the drop is still known
    said = [alert.reason for state in states for alert in state.alerts if alert.kind == "source"]
    assert any(
        reason.startswith("the source dropped (it ended); trying again in 0.01 s")
        for reason in said
    )
    times = [state.time for state in states]
    assert times == sorted(set(times))


def test_an_rtsp_camera_that_hangs_is_opened_again():
    notes: list[str] = []
    with (
        RtspCamera([film(1, 30), film(1, 30)], hangs=True) as camera,
        open_samples(camera.address, Fraction(100), 16, stall=0.3, **QUICK) as samples,
    ):
        for sample in islice(samples, 4000):
            assert sample.picture.shape == (16, 16, 3)
            notes += sample.notes
            if camera.plays > 1 and len(notes) > 2:
                break
    assert {
        "no frame for 0.3 s; waiting",
        "the source dropped (no data within the time limit); trying again in 0.01 s",
    } <= {*notes}
    assert notes[-1].startswith("frames again after")


def test_an_rtsp_camera_may_change_resolution_while_it_films():
    both = [*film(1, 10, size=64), *film(3, 10, size=128)]
    seen = set()
    with (
        RtspCamera([both]) as camera,
        open_samples(camera.address, Fraction(100), 16, stall=5.0, **QUICK) as samples,
    ):
        for sample in islice(samples, 4000):
            assert sample.picture.shape == (16, 16, 3)
            seen.add(int(sample.picture.mean(axis=(0, 2)).reshape(4, 4).mean(axis=1).argmax()))
            if seen == {1, 3}:
                break
    assert seen == {1, 3}


def test_a_server_that_does_not_speak_rtsp_is_said_to_be_no_source():
    with RtspCamera([film(0, 5)]) as camera, raises(VideoError, "http://127.0.0.1:", "/live"):
        next(frames_of(camera.address.replace("rtsp", "http"), stall=0.5, say=print))


def test_a_playlist_at_an_address_leads_nowhere_else(tmp_path):
    asked: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            super().do_GET()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=tmp_path)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        there = f"http://127.0.0.1:{server.server_port}"
        (tmp_path / "live.m3u8").write_text(
            f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{there}/secret.ts\n"
        )
        with pytest.raises(VideoError, match="playlist"):
            next(frames_of(f"{there}/live.m3u8", 5.0, lambda _: None))
        server.shutdown()
    assert asked
    assert "/secret.ts" not in asked
