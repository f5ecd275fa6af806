"""BORIS: projects and tabular events as its versions write them."""

import json

import pytest
from errors_kit import raises

from stepcut.errors import AnnotationError
from stepcut.formats import read, read_folder, write
from stepcut.timeline import Segment, Timeline

POUR, STIR, TAP = Segment(1.5, 4.0, "pour"), Segment(3.0, 9.0, "stir"), Segment(4.5, 4.5, "tap")


def put_project(folder, **observation):
    kinds = {"tap": "Point event", "stir": "State event", "pour": "State event"}
    conf = [{"type": kind, "key": c[0], "code": c, "modifiers": {}} for c, kind in kinds.items()]
    record = {
        "project_format_version": "7.0",
        "behaviors_conf": dict(zip("012", conf, strict=True)),
        "subjects_conf": {"0": {"key": "1", "name": "ann", "description": ""}},
        "observations": {
            "first try": {
                "file": {"1": ["/films/tea.mp4"], "2": []},
                "type": "MEDIA",
                "time offset": 0.0,
                "media_info": {"length": {"/films/tea.mp4": 60.5}, "fps": {"/films/tea.mp4": 25.0}},
                "events": [
                    [1.5, "", "pour", "", "", 37], [3.0, "ann", "stir", "m1", ""], [4.0, "", "pour", "", ""],
                    [4.5, "", "tap", "", "a word"], [9.0, "ann", "stir", "m1", ""],
                ],
                **observation,
            }
        },
    }  # fmt: skip
    path = folder / "study.boris"
    path.write_text(json.dumps(record))
    return path, record


def put_table(folder, head, rows, name="x.tsv"):
    lines = ["\t".join(map(str, cells)) + "\n" for cells in (head.split(","), *rows)]
    (folder / name).write_text("".join(lines))
    return folder / name


def test_a_project(tmp_path):
    path, _ = put_project(tmp_path)
    timeline = read(path)
    assert timeline == Timeline([POUR, STIR, TAP], 60.5, ("tap", "stir", "pour"), "/films/tea.mp4")
    assert read(path, annotator="ann").sequence() == ["stir"]
    assert read(path, annotator="No focal subject").sequence() == ["pour", "tap"]
    with raises(AnnotationError, "'bob'", "['', 'ann']"):
        read(path, annotator="bob")
    assert list(read_folder(path)) == ["tea"]


@pytest.mark.parametrize(
    "more",
    [{"media_info": []}, {"media_info": {"length": []}}, {"file": []}, {"time offset": None}],
)
def test_what_old_projects_leave_out_or_write_otherwise(more, tmp_path):
    events = [[4.5, 1, "tap", ["m1", None]], [4.5, "", "tap", ""]]
    path, _ = put_project(tmp_path, events=events, **more)
    assert read(path).segments == (TAP, TAP)
    assert read(path, annotator="1").segments == (TAP,)


def test_the_time_offset_of_an_observation_is_taken_off(tmp_path):
    events = put_project(tmp_path)[1]["observations"]["first try"]["events"]
    moved = [[time + 100, *rest] for time, *rest in events]
    assert read(put_project(tmp_path, events=moved)[0]).segments[0].start == 101.5
    path, _ = put_project(tmp_path, events=moved, **{"time offset": 100.0})
    assert read(path).segments == (POUR, STIR, TAP)
    head = "Observation id,Time offset (s),Subject,Behavior,Behavior type,Time,Media file name"
    times = (("START", 101.5), ("STOP", 104.0))
    rows = [("x", 100.0, "", "pour", kind, time, "tea.mp4") for kind, time in times]
    assert read(put_table(tmp_path, head, rows)).segments == (POUR,)


@pytest.mark.parametrize("offset", [0, 100])
def test_a_state_of_tabular_events_that_goes_on_in_the_next_film(offset, tmp_path):
    head = "Observation id,Source,Time offset (s),Media duration (s),Behavior,Behavior type,Time,Media file name"
    # Lengths are rounded, so 3.4996 belongs to the second video.
    events = [
        ("pour", "START", 1.5, "a.mp4"), ("pour", "STOP", 14.5, "c.mp4"),
        ("stir", "START", 3.4996, "b.mp4"), ("stir", "STOP", 5, "b.mp4"),
        ("pour", "START", 15.5, "c.mp4"), ("tap", "POINT", 4.5, "b.mp4"),
        ("pour", "STOP", 16.5, "c.mp4"),
    ]  # fmt: skip

    def put(lengths, count=7):
        about = ("x", "player #1:a.mp4;b.mp4;c.mp4", offset, lengths)
        rows = [(*about, step, kind, time + offset, file) for step, kind, time, file in events]
        put_table(tmp_path, head, rows[:count])

    put("3.500;10.000;9.000")
    found = read_folder(tmp_path)
    assert found["a"].segments == (Segment(1.5, 3.5, "pour"),)
    shown = Segment(0, 1.5, "stir"), Segment(0, 10, "pour"), Segment(1, 1, "tap")
    assert found["b"].segments == shown
    assert found["c"].segments == (Segment(0, 1, "pour"), Segment(2, 3, "pour"))
    # If the start of a video is unknown, a state must stop in the video in which it starts.
    put("")
    with raises(AnnotationError, line=3):
        read_folder(tmp_path)
    put("", 1)
    with raises(AnnotationError, "no stop"):
        read_folder(tmp_path)


@pytest.mark.parametrize("player", ["player #1:", "player#1:"])
def test_aggregated_events_of_two_films_with_an_offset_and_subjects(player, tmp_path):
    head = "Observation id,Source,Time offset (s),Media duration (s),Subject,Behavior,Behavior type,Start (s),"
    states = [("hen1", "STATE", 8, 11, "a.mp4"), ("hen2", "STATE", 12, 14, "b.mp4")]
    states.append(("hen2", "POINT", 15, 15, "b.mp4"))
    about = ("x", f"{player}a.mp4;b.mp4", 100, "10.000;10.000")
    rows = [(*about, who, "eat", kind, 100 + a, 100 + b, film) for who, kind, a, b, film in states]
    put_table(tmp_path, head + "Stop (s),Media file name", rows)
    found = read_folder(tmp_path)
    assert found["a"].segments == (Segment(8, 10, "eat"),)
    assert found["b"].segments == (Segment(0, 1, "eat"), Segment(2, 4, "eat"), Segment(5, 5, "eat"))
    assert [s.start for s in read_folder(tmp_path, annotator="hen2")["b"]] == [2, 5]


def test_two_observations_of_one_film_are_told_apart(tmp_path):
    path, record = put_project(tmp_path)
    events = [[1, "", "pour", "", ""], [5, "", "pour", "", ""]]
    observations = record["observations"]
    observations["tea, bob"] = {**observations["first try"], "events": events}
    path.write_text(json.dumps(record))
    times = {"first try": {"START": 1.5, "STOP": 4}, "tea, bob": {"START": 1, "STOP": 5}}
    rows = [(n, "pour", k, times[n][k], "tea.mp4") for k in ("START", "STOP") for n in times]
    table = put_table(tmp_path, "Observation id,Behavior,Behavior type,Time,Media file name", rows)
    for file in (path, table):
        with raises(AnnotationError, "'first try', 'tea, bob'"):
            read(file)
        assert read(file, annotator="first try").segments[0] == POUR
        for name in ("tea, bob", "*bob"):
            assert read(file, annotator=name).segments == (Segment(1, 5, "pour"),)


def test_two_films_one_after_the_other(tmp_path):
    two = {"media_info": {"length": {"a.mp4": 3.5, "b.mp4": 10}}, "file": {"1": ["a.mp4", "b.mp4"]}}
    found = read_folder(put_project(tmp_path, **two)[0])
    assert found["a"].segments == (Segment(1.5, 3.5, "pour"), Segment(3.0, 3.5, "stir"))
    shown = Segment(0, 0.5, "pour"), Segment(0, 5.5, "stir"), Segment(1, 1, "tap")
    assert found["b"].segments == shown
    taps = [[time, "", "tap", "", ""] for time in (0, 3.5, 13.5)]
    found = read_folder(put_project(tmp_path, **two, events=taps)[0])
    assert [[s.start for s in found[name]] for name in "ab"] == [[0], [0, 10]]
    late = [[time, "", "pour", "", ""] for time in (3.4996, 5)]
    found = read_folder(put_project(tmp_path, **two, events=late)[0])
    assert [found[name].segments for name in "ab"] == [(), (Segment(0, 1.5, "pour"),)]


@pytest.mark.parametrize(("events", "told"), [
    ([[1.5, "", "pour", "", ""]], "'pour', at 1.5 s"),
    ([[1.5, "", "fry", "", ""]], "'fry'"),
    ([[1.5, ""]], "not valid as BORIS"),
    ([["soon", "", "pour", "", ""]], "Expected `float`"),
])  # fmt: skip
def test_what_is_wrong_is_told(events, told, tmp_path):
    with raises(AnnotationError, "study.boris", told):
        read(put_project(tmp_path, events=events)[0])


def test_what_is_written_has_what_boris_asks_for(tmp_path):
    path = tmp_path / "tea.boris"
    parts = [(0, 4, "pour"), (1, 2, "pour"), (3, 3, "tap"), (4, 5, "stir")]
    segments = tuple(Segment(*part) for part in parts)
    write(path, Timeline(segments, 9.0, ["wash"], video="films/tea.mp4"))
    record = json.loads(path.read_text())
    assert record["project_format_version"] == "7.0"
    conf = {each["code"]: each["type"] for each in record["behaviors_conf"].values()}
    state = "State event"
    assert conf == {"wash": state, "pour": state, "tap": "Point event", "stir": state}
    (observation,) = record["observations"].values()
    assert observation["file"] == {"1": ["films/tea.mp4"]}
    assert observation["media_info"]["length"] == {"films/tea.mp4": 9.0}
    assert {event[1] for event in observation["events"]} == {"", "person 2"}
    assert read(path).segments == segments
    write(path, Timeline([Segment(0, 2, "pour"), Segment(1, 1, "pour")]))  # a click in a state
    assert read(path).sequence() == ["pour", "pour"]


OLD = (
    "Observation id\tfirst try\t\t\nMedia file(s)\t\t\t\nPlayer #1\ttea.mp4\t\t\nTime offset (s)\t0.0\t\t\n\t\t\t\n"
    "Time\tMedia file path\tTotal length\tFPS\tSubject\tBehavior\tBehavioral category\tComment\tStatus\n"
    "1.500\ttea.mp4\t60.500\t25.0\t\tpour\t\t\tSTART\n4.000\ttea.mp4\t60.500\t25.0\t\tpour\t\t\tSTOP\n"
    "4.500\ttea.mp4\t60.500\t25.0\t\ttap\t\t\tPOINT\n"
)
NEW = (
    "Observation id,Observation date,Description,Media duration (s),Subject,Behavior,Behavioral category,Modifier #1,"
    "Behavior type,Time,Media file name,Image index,Comment\n"
    "first try,2024-01-01,,60.5,No focal subject,pour,,m1,START,1.500,tea.mp4,37,\n"
    "first try,2024-01-01,,60.5,No focal subject,pour,,m1,STOP,4.000,tea.mp4,100,\n"
    "first try,2024-01-01,,60.5,No focal subject,tap,,,POINT,4.500,tea.mp4,112,\n"
)
AGGREGATED = (
    "Observation id,Observation date,Media file name,Subject,Behavior,Behavior type,Start (s),Stop (s),Duration (s)\n"
    "first try,2024-01-01,tea.mp4,No focal subject,pour,STATE,1.500,4.000,2.500\n"
    "first try,2024-01-01,tea.mp4,No focal subject,tap,POINT,4.500,4.500,NA\n"
)


@pytest.mark.parametrize(
    ("name", "text"), [("x.tsv", OLD), ("x.txt", OLD), ("x.csv", NEW), ("x.csv", AGGREGATED)]
)
def test_tables_of_several_versions(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    assert read(tmp_path / name) == Timeline([POUR, TAP], video="tea.mp4")


def test_an_unpaired_event_of_a_table_is_told(tmp_path):
    (tmp_path / "x.tsv").write_text(OLD.replace("4.000", "soon"))
    with raises(AnnotationError, "'soon'", line=8):
        read(tmp_path / "x.tsv")
    (tmp_path / "x.csv").write_text(NEW.replace("STOP,4.000", "POINT,4.000"))
    with raises(AnnotationError, "'pour'", "1.5 s"):
        read(tmp_path / "x.csv")
