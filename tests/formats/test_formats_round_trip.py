"""read(write(x)) == as_read_back(x): every format gives back exactly what its table says it keeps."""

from __future__ import annotations

import string
import tempfile
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from formats_kit import as_read_back
from hypothesis import given, settings
from hypothesis import strategies as st

from stepcut.errors import AnnotationError
from stepcut.formats import FORMATS, losses, read, read_all, read_folder, write, write_folder
from stepcut.formats.common import Options
from stepcut.timeline import Segment, Timeline

RATE = Fraction(30000, 1001)
READABLE = [name for name, form in FORMATS.items() if form.read is not None]

# Letters of several scripts, signs that some format treats specially, spaces and line breaks.
NAMES = st.text(
    alphabet=st.sampled_from(
        string.ascii_letters + string.digits + "éß写ж☕ ,;:.'\"<>&-_#/\\|=→\t\n\r\u2028\u00a0"
    ),
    min_size=1,
    max_size=12,
).filter(lambda name: bool(name.strip()) and name.strip() not in ("background", "SIL"))
TIMES = st.one_of(
    st.integers(0, 20).map(float),  # touching and equal times come up often
    st.floats(0, 3 * 3600, allow_nan=False, allow_infinity=False),
    st.integers(0, 10_000_000).map(lambda ms: ms / 1000),
)
SEGMENTS = st.builds(
    lambda a, b, step, sure: Segment(min(a, b), max(a, b), step, sure),
    TIMES,
    TIMES,
    NAMES,
    st.none() | st.floats(0, 1),
)


@st.composite
def timelines(draw: st.DrawFn, longest: float = 3 * 3600.0) -> Timeline:
    segments = [s for s in draw(st.lists(SEGMENTS, max_size=8)) if s.end <= longest]
    more = draw(st.lists(NAMES, max_size=3, unique=True))
    last = max((segment.end for segment in segments), default=0.0)
    duration = draw(st.none() | st.floats(0, 60).map(lambda rest: last + rest))
    return Timeline(
        segments, duration, more, draw(st.sampled_from(["clip", "films/clip one.mp4", "写真"]))
    )


def sure(timeline: Timeline) -> list[float]:
    return sorted(-1.0 if s.confidence is None else s.confidence for s in timeline)


def round_trip(name: str, timeline: Timeline, rate: Fraction = RATE) -> None:
    form, options = FORMATS[name], Options(rate)
    counted = (
        rate if form.capabilities.times == "frames" else None
    )  # given, it also makes neighbours touch
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{form.suffix}"
        try:
            write(path, timeline, name, rate)
        except AnnotationError as error:
            refused = str(error)
            assert not path.exists()
            assert ("be named" in refused) or ("no segments" in refused) or ("no length" in refused)
            return
        again = read(path, name, counted)
        expected = as_read_back(timeline, form.capabilities, "file", options)
        assert again == expected
        assert sure(again) == sure(expected)
        same = again == replace(timeline, video=again.video) and sure(again) == sure(timeline)
        if (
            form.capabilities.overlaps
        ):  # else frames of one step that touch become one segment, which is no loss
            assert same == (losses([timeline], name, rate) == [])
        guessed = read(path, rate=counted)  # suffix and content lead to the same format
        assert guessed == again


@pytest.mark.parametrize("name", [name for name in READABLE if name != "mstcn"])
@given(timeline=timelines())
@settings(max_examples=20, deadline=None)
def test_what_is_kept_comes_back(name: str, timeline: Timeline) -> None:
    round_trip(name, timeline)


@given(timeline=timelines(longest=300.0))
@settings(max_examples=20, deadline=None)
def test_frames_come_back_from_mstcn(timeline: Timeline) -> None:
    round_trip("mstcn", timeline, Fraction(5))


@pytest.mark.parametrize("name", list(FORMATS))
def test_keeping_twice_is_keeping_once(name: str) -> None:
    timeline = Timeline(
        [Segment(0.00049, 2.1234567, "add  jam", 0.25), Segment(2.1234567, 2.1234567, "écrase")],
        9.0,
        ["x"],
        "v",
    )
    options = Options(RATE)
    once = as_read_back(timeline, FORMATS[name].capabilities, "file", options)
    twice = as_read_back(once, FORMATS[name].capabilities, "file", options)
    if once.duration == twice.duration:  # frames of 30000/1001 Hz are not whole in binary
        assert once == twice


def test_millisecond_rounding_is_to_the_nearest(tmp_path: Path) -> None:
    timeline = Timeline([Segment(1.0004999, 7200.0006, "stir")])
    for name in ("vtt", "srt", "elan"):
        path = tmp_path / f"x{FORMATS[name].suffix}"
        write(path, timeline)
        assert read(path).segments == (Segment(1.0, 7200.001, "stir"),)


@pytest.mark.parametrize("name", [name for name in READABLE if FORMATS[name].many])
def test_many_videos_in_one_file(name: str, tmp_path: Path) -> None:
    one = Timeline([Segment(0, 1, "pour"), Segment(1, 2, "stir")], 3.0, video="a")
    two = Timeline([Segment(1, 2, "pour")], 4.0, ["pour", "stir"], video="b")
    path = tmp_path / f"all{FORMATS[name].suffix}"
    write(path, {"a": one, "b": two}, name, rate=10)
    assert [t.segments for t in read_all(path, name)] == [one.segments, two.segments]
    assert list(read_folder(path)) == ["a", "b"]
    assert read(path, video="b").segments == two.segments
    with pytest.raises(
        AnnotationError, match=r"it holds 2 videos \(a, b\)\. Say which one with video=NAME"
    ):
        read(path)


def test_a_folder_of_very_many_files_takes_no_longer_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepcut.formats.write", lambda *_: None)  # a disk takes its time
    begin = time.process_time()
    write_folder(tmp_path, [Timeline(video=f"v{number}") for number in range(5000)], "csv")
    assert time.process_time() - begin < 5  # comparing each name with each took 15


@pytest.mark.parametrize("name", READABLE)
def test_a_folder_of_files(name: str, tmp_path: Path) -> None:
    made = {
        "a": Timeline([Segment(0, 1, "pour")], 2.0, ["pour"], video="a"),
        "b.c": Timeline([Segment(0.5, 1, "stir")], 2.0, ["stir"], video="b.c"),
    }
    paths = write_folder(tmp_path / "out", made, name, rate=10)
    assert [path.name for path in paths] == [f"{video}{FORMATS[name].suffix}" for video in made]
    again = read_folder(tmp_path / "out", rate=10)
    assert {video: timeline.segments for video, timeline in again.items()} == {
        v: t.segments for v, t in made.items()
    }
