"""Segment and Timeline: seconds, half-open, immutable."""

import math
from fractions import Fraction

import numpy as np
import pytest
from errors_kit import raises
from hypothesis import given
from hypothesis import strategies as st

from stepcut.errors import AnnotationError, OptionError
from stepcut.formats import read, write
from stepcut.show import draw_axis, draw_bar
from stepcut.timeline import Segment, Timeline, clock


@pytest.mark.parametrize("bad", [math.nan, math.inf, 10**400])
def test_a_segment_needs_finite_seconds(bad):
    with pytest.raises(AnnotationError, match="finite"):
        Segment(0, bad, "stir")


def test_segments_are_sorted_plain_numbers(tmp_path):
    timeline = Timeline([Segment(5, 6, "b"), Segment(1, 2, "a")])
    assert [s.step for s in timeline] == ["a", "b"]
    assert timeline.steps == ("a", "b")
    assert timeline.end == 6
    assert Timeline(steps=(name for name in "ab")).steps == ("a", "b")
    sure = np.float32(0.5)
    found = Timeline([Segment(np.float32(0.25), np.int64(2), "a", sure)])
    assert type(found.segments[0].start) is float
    write(tmp_path / "a.json", found)
    assert read(tmp_path / "a.json") == found
    for length in (np.float32(3), Fraction(3)):
        assert type(Timeline(duration=length).duration) is float
    odd = ["0", 1, "a", 0, 1, 3]
    for three in (odd[:3], odd[3:]):
        with raises(AnnotationError, "finite"):
            Segment(*three)


@given(
    st.lists(st.integers(-1, 3), min_size=1, max_size=60), st.sampled_from([1.0, 2.0, 29.97, 0.5])
)
def test_labels_survive_the_way_through_segments(labels, rate):
    timeline = Timeline.from_labels(labels, rate, ["a", "b", "c", "d"])
    again = timeline.labels(np.arange(len(labels)) / rate)
    assert again.tolist() == labels


def test_labels_become_segments(tmp_path):
    timeline = Timeline.from_labels([-2, 0, 0, 1], Fraction(2), ["a", "b", "c"])
    assert timeline.segments == (Segment(0.5, 1.5, "a"), Segment(1.5, 2.0, "b"))
    assert draw_bar(timeline).count("<title>") == 2
    write(tmp_path / "a.json", timeline)
    assert read(tmp_path / "a.json").segments == timeline.segments
    with raises(AnnotationError, "label 3"):
        Timeline.from_labels([3], 1, ["a", "b", "c"])
    timeline = Timeline.from_labels([0, 0, 1], 1, ["a", "b"], duration=2.0)
    assert timeline.segments == (Segment(0, 2, "a"),)  # no click
    timeline = Timeline([Segment(0, 1, "a"), Segment(1, 2, "b")]).rename({"b": "a"})
    assert (timeline.steps, timeline.sequence()) == (("a",), ["a", "a"])
    timeline = Timeline.from_labels([0, 0, 1], 1, ["a", "b"], confidence=[0.5, 1.0, 0.25])
    assert [s.confidence for s in timeline] == [0.75, 0.25]


def test_overlaps_gaps_and_parts():
    touching = Timeline([Segment(0, 2, "a"), Segment(2, 3, "b")])
    assert touching.labels([1.999, 2.0]).tolist() == [0, 1]
    timeline = Timeline([Segment(0, 10, "a"), Segment(4, 5, "b")])
    assert timeline.labels([3.0, 4.5, 6.0]).tolist() == [0, 1, 0]
    assert timeline.overlapping() == [(Segment(0, 10, "a"), Segment(4, 5, "b"))]
    assert len(Timeline([Segment(0, 5, "a"), Segment(4, 10, "b")]).overlapping()) == 1
    timeline = Timeline([Segment(1, 5, "a"), Segment(2, 3, "b"), Segment(6, 7, "a")], duration=9)
    assert timeline.gaps() == [(0.0, 1), (5, 6), (7, 9)]
    timeline = Timeline([Segment(0, 4, "a"), Segment(4, 8, "b"), Segment(8, 9, "c")], duration=9)
    assert timeline.crop(2, 6).segments == (Segment(2, 4, "a"), Segment(4, 6, "b"))
    timeline = Timeline([Segment(0, 0, "a"), Segment(0, 4, "x"), Segment(2, 2, "b")])
    assert timeline.crop(0, 2).sequence() == ["a", "x"]  # clicks are kept, and none are made
    assert timeline.crop(2, 3).segments == (Segment(2, 2, "b"), Segment(2, 3, "x"))
    assert timeline.crop(1, 1).segments == timeline.crop(3, 2).segments == ()
    empty = Timeline(duration=3)
    assert (empty.gaps(), empty.labels([1.0]).tolist()) == ([(0.0, 3)], [-1])
    assert "0 segments" in repr(empty)


def test_clicks_are_instants_and_label_no_time():
    timeline = Timeline([Segment(0, 2, "a"), Segment(3, 3, "b"), Segment(1, 1, "c")], duration=5)
    assert timeline.clicks == (Segment(1, 1, "c"), Segment(3, 3, "b"))
    assert timeline.intervals == (Segment(0, 2, "a"),)
    assert timeline.sequence() == ["a", "c", "b"]
    assert timeline.gaps() == [(2, 5)]
    assert timeline.labels([1.0, 3.0]).tolist() == [0, -1]
    assert timeline.overlapping() == []
    assert timeline.end == 5
    assert Timeline([Segment(3, 3, "b")]).end == 3
    assert "1 segments and 2 clicks" in repr(timeline)
    assert draw_bar(timeline).count("<polygon") == 2


@pytest.mark.parametrize("odd", [[0, math.nan, 1], [0.9], [0, math.inf], ["a"], [None], [[0]]])
def test_labels_that_are_not_whole_numbers_are_refused(odd):
    with pytest.raises(OptionError):
        Timeline.from_labels(odd, 1, ["a", "b"])
    assert Timeline.from_labels([0.0, 1.0], 1, ["a", "b"]).sequence() == ["a", "b"]


@pytest.mark.parametrize(
    "end", [9, 600, 36_000, 90_000, 1.7e12]
)  # the last: milliseconds since 1970
def test_an_axis_has_ten_marks_at_most(end):
    assert 5 < draw_axis(end).count("<text") <= 11


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "00:00:00.0"), (59.96, "00:01:00.0"), (3723.5, "01:02:03.5"), (-1, "-00:00:01.0")],
)
def test_clock(seconds, text):
    assert clock(seconds) == text
