"""Praat TextGrid in both forms, and XES for process mining."""

import re
import xml.etree.ElementTree as etree

import pytest
from errors_kit import raises

from stepcut.errors import AnnotationError
from stepcut.formats import read, write
from stepcut.timeline import Segment, Timeline

LONG = """File type = "ooTextFile"
Object class = "TextGrid"

xmin = 0 ; xmax = 9.5 ; tiers? <exists> ; size = 2 ; item []: ; item [1]:
class = "IntervalTier" ; name = "steps" ; xmin = 0 ; xmax = 9.5
intervals: size = 3
intervals [1]: ; xmin = 0 ; xmax = 1.5 ; text = "pour ""green"" tea"
intervals [2]: ; xmin = 1.5 ; xmax = 2 ; text = ""
intervals [3]: ; xmin = 2 ; xmax = 9.5 ; text = "stir 2 times"
item [2]:
class = "TextTier" ; name = "taps" ; xmin = 0 ; xmax = 9.5
points: size = 1
points [1]: ; number = 3.25 ; mark = "tap"
""".replace(" ; ", "\n        ")
VALUES = re.findall(r'"(?:[^"]|"")*"(?!\])|<\w+>|(?<== )[\d.]+', LONG)
SHORT = "\n".join(['File type = "ooTextFile"', *VALUES[1:]])  # the same without the words


@pytest.mark.parametrize("text", [LONG, SHORT])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_both_forms(text, encoding, tmp_path):
    path = tmp_path / "x.TextGrid"
    path.write_bytes(text.encode(encoding))
    timeline = read(path, annotator="steps")
    segments = [Segment(0, 1.5, 'pour "green" tea'), Segment(2, 9.5, "stir 2 times")]
    assert timeline == Timeline(segments, 9.5, video="x")
    assert read(path, annotator="taps").segments == (Segment(3.25, 3.25, "tap"),)
    with raises(AnnotationError, "'steps', 'taps'"):
        read(path)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("TextGrid", "Pitch", "does not begin like"),
        ("size = 2", "size = 3", "is truncated"),
        ("size = 2", "size = 1e400", "not valid as Praat TextGrid"),
        ("xmax = 1.5", "xmax = soon", "is not a time"),
        ("xmax = 1.5", "xmax = -1", "before the start"),
    ],
)
def test_damage_is_told(old, new, told, tmp_path):
    path = tmp_path / "x.TextGrid"
    path.write_text(LONG.replace(old, new))
    with raises(AnnotationError, "x.TextGrid", told):
        read(path, annotator="steps")


def test_a_tier_that_is_written_has_no_gaps(tmp_path):
    textgrids = pytest.importorskip("textgrids", reason="pip install praat-textgrids")
    path = tmp_path / "x.TextGrid"
    segments = [Segment(1, 2, "a b"), Segment(1.5, 3, "c"), Segment(2.5, 2.5, "tap")]
    write(path, Timeline(segments, 5.0))
    grid = textgrids.TextGrid(str(path))
    assert list(grid) == ["stepcut", "stepcut (2)", "stepcut (points)"]
    intervals = [(each.text, each.xmin, each.xmax) for each in grid["stepcut"]]
    assert intervals == [("", 0, 1), ("a b", 1, 2), ("", 2, 5)]
    assert [(each.text, each.xpos) for each in grid["stepcut (points)"]] == [("tap", 2.5)]


TEA = Timeline(
    [Segment(0, 1.5, "pour <tea>"), Segment(1.5, 3, "stir", 0.25)], 9.0, video="films/tea.mp4"
)


def test_xes_has_a_trace_per_video_and_two_events_per_segment(tmp_path):
    path = tmp_path / "log.xes"
    write(path, [TEA, Timeline([Segment(0, 2, "stir")], video="b")])
    root = etree.parse(path).getroot()
    space = "{http://www.xes-standard.org/}"
    traces = root.findall(f"{space}trace")
    assert [trace[0].attrib["value"] for trace in traces] == ["tea", "b"]
    events = [
        {value.attrib["key"]: value.attrib["value"] for value in event} for event in traces[0][1:]
    ]
    assert [(e["concept:name"], e["lifecycle:transition"]) for e in events] == [
        ("pour <tea>", "start"), ("pour <tea>", "complete"), ("stir", "start"), ("stir", "complete"),
    ]  # fmt: skip
    assert events[1]["time:timestamp"] == "1970-01-01T00:00:01.500000+00:00"
    with raises(AnnotationError, "'xes'"):
        read(path)
    with pytest.raises(AnnotationError, match="outside the video"):
        write(path, Timeline([Segment(0, 5e11, "beyond the last date")]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_pm4py_opens_it(tmp_path):
    pm4py = pytest.importorskip("pm4py", reason="pip install pm4py")
    path = tmp_path / "log.xes"
    write(path, [TEA, Timeline([Segment(0, 2, "stir")], video="b")])
    log = pm4py.read_xes(str(path))
    assert len(log) == 6
    assert set(log["case:concept:name"]) == {"tea", "b"}
    assert pm4py.get_start_activities(log) == {"pour <tea>": 1, "stir": 1}
    assert log["time:timestamp"].diff().iloc[1].total_seconds() == 1.5
