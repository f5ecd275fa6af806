"""Lengths and frame rates come from the video files, if available."""

import json
from fractions import Fraction

import av
import numpy as np
import pytest

from stepcut.formats import write
from stepcut.formats.records import video_rate
from stepcut.paper.datasets import load
from stepcut.procedure.lengths import video_duration
from stepcut.timeline import Segment, Timeline


@pytest.fixture
def film(tmp_path):
    """Thirty frames at 12 a second: two and a half seconds."""
    path = tmp_path / "tea" / "a.mp4"
    path.parent.mkdir()
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=12)
        stream.width, stream.height = 32, 32
        for _ in range(30):
            frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def test_length_and_rate(film):
    assert video_duration(film) == pytest.approx(2.5)
    assert video_rate(str(film)) == Fraction(12)
    film.with_suffix(".txt").write_text("no video")
    assert video_duration(film.with_suffix(".txt")) is None
    assert video_rate("no such file") is None


def test_the_foreground_is_of_the_true_length(film):
    write(film.with_suffix(".csv"), Timeline([Segment(0, 1, "pour")]))
    (task,) = load("folder", film.parent)
    assert task.videos[0].duration == pytest.approx(2.5)
    assert task.timelines["a"].duration == pytest.approx(2.5)


def test_label_studio_asks_the_video_for_its_rate(film):
    path = film.parent / "tasks.json"
    write(path, Timeline([Segment(0, 1, "pour")], video=str(film)), "label-studio")
    (task,) = json.loads(path.read_text())
    assert (task["data"]["rate"], task["data"]["fps"]) == ("12", 12.0)
    assert task["predictions"][0]["result"][0]["value"]["ranges"] == [{"start": 1, "end": 12}]
