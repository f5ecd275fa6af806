"""Progress hooks: reports, timing and cancelling."""

import io
import json
import re

import pytest

from stepcut.progress import Bar, Event, JsonLog, Stage, describe, duration


def test_a_stage_tells_its_hook_from_start_to_end():
    events = []
    with Stage(events.append, "features", total=2, unit="videos") as stage:
        stage.advance(item="a.mp4", loss=0.5)
        stage.advance(item="b.mp4")
    told = [(0, "", False), (1, "a.mp4", False), (2, "b.mp4", False), (2, "", True)]
    assert [(e.done, e.item, e.finished) for e in events] == told
    assert events[1].values == {"loss": 0.5}


def test_an_exception_stops_the_work_and_is_not_called_finished():
    def cancel(event):
        if event.done == 1:
            raise KeyboardInterrupt

    done = []
    with pytest.raises(KeyboardInterrupt), Stage(cancel, "cut", total=3) as stage:
        for item in range(3):
            stage.advance()
            done.append(item)
    assert done == []
    events = []
    with pytest.raises(ValueError, match="no"), Stage(events.append, "cut"):
        raise ValueError("no")
    assert not any(e.finished for e in events)


def test_lines_have_rate_time_left_and_safe_names_also_off_a_terminal():
    text = describe(Event("train", 50, 100, "steps", values={"loss": 0.25}, elapsed=10))
    assert text == "train       50 %  50/100 steps  5.0/s  10 s left  loss 0.25"
    assert describe(Event("cut", 1, 2, item="a\nb\x1b[2J.mp4")).endswith("a%0Ab%1B[2J.mp4")
    stream = io.StringIO()
    with Stage(JsonLog(stream), "cut", total=500) as stage:
        for _ in range(500):
            stage.advance()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert lines[-1]["finished"] is True
    assert lines[-1]["done"] == 500
    assert len(lines) < 100
    stream = io.StringIO()
    with Stage(Bar(stream), "cut", total=2, unit="videos") as stage:
        stage.advance(2)
    assert "\r" not in stream.getvalue()
    assert "2/2 videos" in stream.getvalue()


def test_a_bar_on_a_terminal_redraws_its_line(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    with Stage(Bar(stream), "cut", total=2) as stage:
        stage.advance(2)
    assert stream.getvalue().count("\n") == 1
    assert "\r" in stream.getvalue()
    with pytest.raises(OSError, match="full"), Stage(Bar(stream := Terminal()), "cut", total=2):
        raise OSError("full")
    assert stream.getvalue().endswith("0/2 ")
    Bar.clear()  # the next output starts a new line
    assert re.search("\r +\r$", stream.getvalue())
    narrow = Terminal()
    monkeypatch.setenv("COLUMNS", "40")
    Bar(narrow)(Event("features", 5, 9, "frames", item="a very long name of a video.mp4"))
    assert len(narrow.getvalue().strip("\r")) == 39  # a wrapped line cannot be redrawn
    bar = Bar(stream := Terminal())
    bar(Event("check", 1, 2))
    bar.clear()
    # Blanks over the line, and back to its start.
    assert stream.getvalue().rstrip("\r ").endswith("1/2")
    assert stream.getvalue().endswith(" \r")


@pytest.mark.parametrize(("seconds", "text"), [(3.14, "3.1 s"), (42, "42 s"), (3600, "1 h 0 min")])
def test_duration(seconds, text):
    assert duration(seconds) == text


def test_no_rate_or_estimate_is_shown_before_it_is_measured():
    slow_start = Event("features", 2, 102, elapsed=33.0, begun=(1, 31.0))
    assert slow_start.left == 200
    assert Event("features", 1, 102, elapsed=31.0, begun=(1, 31.0)).left is None  # no estimate yet
    assert "/s" not in describe(Event("film", 0, 10, "videos", elapsed=5.0))
    assert "/s" not in describe(Event("film", 1, 10, "videos", elapsed=60.0))
    assert "2.0/s" in describe(Event("film", 10, 10, "videos", elapsed=5.0))
