"""A written timeline reads back the same, except for information that the format does not store."""

import logging
import string
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from errors_kit import raises
from hypothesis import given, settings
from hypothesis import strategies as st

from stepcut.errors import AnnotationError
from stepcut.formats import FORMATS, read, read_all, read_folder, write
from stepcut.timeline import Segment, Timeline

RATE = 5
READABLE = [name for name, form in FORMATS.items() if form.read is not None]

# Letters of several scripts, special characters of formats, spaces and line breaks.
LETTERS = "éß写ж☕ ,;:.'\"<>&-_#/\\|=→\t\n\u2028\u00a0"
NAMES = st.text(
    st.sampled_from(string.ascii_letters + string.digits + LETTERS), min_size=1, max_size=12
).filter(lambda name: bool(name.strip()) and name.strip() not in ("background", "SIL"))
TIMES = st.integers(0, 3 * 3600 * RATE).map(lambda frames: frames / RATE)


def kept(form, timeline):
    """The segments after a round trip, compared within one frame."""
    keeps = form.keeps.split()
    return sorted(
        (s.start, s.end, form.names(s.step), s.confidence if "confidence" in keeps else None)
        for s in (timeline if "clicks" in keeps else timeline.intervals)
    )


@st.composite
def timelines(draw, overlap=True):
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    times = sorted(draw(st.lists(TIMES, max_size=16, unique=True)))
    pairs = list(zip(times[::2], times[1::2], strict=False))
    if overlap:
        pairs += [(a, b) for (a, _), (_, b) in pairwise(pairs[:2])]
    segments = []
    for start, end in pairs:
        if end - start > 2 / RATE:  # one frame of Label Studio is a click
            sure = draw(st.none() | st.sampled_from([0.0, 0.25, 1.0]))
            segments.append(Segment(start, end, draw(st.sampled_from(names)), sure))
    taken = {s.start for s in segments}
    for time in draw(st.lists(TIMES, max_size=3, unique=True)):
        if time not in taken:
            segments.append(Segment(time, time, draw(st.sampled_from(names))))
    last = max((segment.end for segment in segments), default=0.0)
    duration = draw(st.none() | st.just(last + 2.0))
    video = draw(st.sampled_from(["clip", "films/clip one.mp4", "写真"]))
    return Timeline(segments, duration, names, video)


def round_trip(name, timeline):
    form = FORMATS[name]
    keeps = form.keeps.split()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{form.suffix}"
        try:
            write(path, timeline, name, RATE)
        except AnnotationError as error:
            refused = str(error)
            assert not path.exists()
            told = (
                "two steps have the name|without segments|no length|line break|looks like the times"
            )
            assert any(words in refused for words in told.split("|"))
            return
        again = read(path, name, RATE if form.frames else None)
        back = sorted((s.start, s.end, s.step, s.confidence) for s in again)
        if name == "mstcn":  # touching segments of one step are merged
            back, expected = [], []
            times = [frame / RATE + 0.1 for frame in range(int(timeline.end * RATE))]
            labels = timeline.rename({s: form.names(s) for s in timeline.steps}).labels(times)
            assert again.labels(times).tolist() == labels.tolist()
        else:
            expected = kept(form, timeline)
        assert back == expected
        if "duration" in keeps and timeline.duration is not None:
            assert again.duration == timeline.duration
        if "steps" in keeps:
            assert again.steps == tuple(form.names(step) for step in timeline.steps)
        guessed = read(path, rate=RATE if form.frames else None)
        if path.suffix != ".txt":  # suffix and content select the same format
            assert guessed == again


@pytest.mark.parametrize("name", READABLE)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_what_is_kept_comes_back(name, data):
    timeline = data.draw(timelines(overlap=name != "mstcn"))
    short = replace(timeline.crop(0, 300), duration=300.0)
    round_trip(name, short if name == "mstcn" else timeline)


PARTS = [Segment(0, 2, "pour"), Segment(1, 1, "tap"), Segment(3, 3, "pour"), Segment(4, 5, "stir")]
CLICKS = Timeline(PARTS, 6.0, video="tea")


@pytest.mark.parametrize("name", READABLE)
def test_clicks_come_back_or_are_reported(name, tmp_path, caplog):
    form = FORMATS[name]
    path = tmp_path / f"tea{form.suffix}"
    with caplog.at_level(logging.WARNING, "stepcut"):
        write(path, CLICKS, name, RATE)
    again = read(path, name, RATE if form.frames else None)
    if "clicks" in form.keeps.split():
        assert again.segments == CLICKS.segments
        assert not caplog.records
    else:
        assert again.clicks == ()
        assert "2 clicks dropped" in caplog.text
    assert again.intervals == CLICKS.intervals


HOSTILE = [
    "-->", "00:00:01,000 --> 00:00:02,000", "WEBVTT", "7", "1 2 pour", "NOTE x", "a\nb", "a\n\nb",
    "<v Ann>", "&lt;", "]]>", "</TIER>", "'=1+1", '"', '""', "a\tb", "#x", "\\", "a\u2028b", "a;b",
    "null", "1970-01-01", "-", "x" * 300, "../../x", "{}", "[]", "%s", "\u202eabc",
]  # fmt: skip


@pytest.mark.parametrize("name", READABLE)
def test_hostile_names_come_back_or_are_refused(name, tmp_path):
    form = FORMATS[name]
    for number, step in enumerate(HOSTILE):
        path = tmp_path / str(number) / f"tea{form.suffix}"
        timeline = Timeline([Segment(0, 1, step), Segment(2, 3, "stir")], 4.0, video="tea")
        try:
            write(path, timeline, name, RATE)
        except AnnotationError:
            assert not path.exists(), step
            continue
        again = read(path, name, RATE if form.frames else None)
        assert again.sequence() == [form.names(step), form.names("stir")], step


def test_millisecond_rounding_is_to_the_nearest(tmp_path):
    timeline = Timeline([Segment(1.0004999, 7200.0006, "stir")])
    for suffix in ("vtt", "srt", "eaf"):
        write(tmp_path / f"x.{suffix}", timeline)
        assert read(tmp_path / f"x.{suffix}").segments == (Segment(1.0, 7200.001, "stir"),)


@pytest.mark.parametrize("name", [name for name in READABLE if FORMATS[name].many])
def test_many_videos_in_one_file(name, tmp_path):
    one = Timeline([Segment(0, 1, "pour"), Segment(1, 2, "stir")], 3.0, video="a")
    two = Timeline([Segment(1, 2, "pour")], 4.0, ["pour", "stir"], video="b")
    path = tmp_path / f"all{FORMATS[name].suffix}"
    write(path, {"a": one, "b": two}, name, rate=10)
    assert [t.segments for t in read_all(path, name)] == [one.segments, two.segments]
    assert list(read_folder(path)) == ["a", "b"]
    assert read(path, video="b").segments == two.segments
    with raises(AnnotationError, "(a, b)"):
        read(path)
    unnamed = [Timeline([each], 70.0) for each in one]
    write(path, unnamed, name, rate=4)
    assert [each.sequence() for each in read_all(path, name)] == [["pour"], ["stir"]]
    if "empty" in FORMATS[name].keeps:
        for given in (["a"], []):  # the videos with segments
            made = [Timeline(one.segments if v in given else [], 70.0, ["pour"], v) for v in "ab"]
            write(path, made, name, rate=4)
            found = {each.video: len(each.segments) for each in read_all(path, name)}
            assert found == {each.video: len(each.segments) for each in made}


@pytest.mark.parametrize("name", [n for n in FORMATS if FORMATS[n].many and not FORMATS[n].links])
def test_other_people_see_names_of_videos_not_paths(name, tmp_path):
    films = [tmp_path / "ann" / "tea.mp4", tmp_path / "bob" / "tea.mp4", tmp_path / "soup.mp4"]
    path = tmp_path / f"all{FORMATS[name].suffix}"
    made = [Timeline([Segment(0, 1, "pour")], 2.0, video=str(film)) for film in films]
    if name in ("xes", "boris-events"):  # their video names have no folders
        made = made[1:]
    write(path, made, name, rate=10)
    assert str(tmp_path).encode() not in path.read_bytes()
    if name in READABLE:
        assert list(read_folder(path))[-1] == "soup"
