"""One long recording with many cycles: found, learned as recordings, shown in the time of the file."""

import csv
import json
from fractions import Fraction

import numpy as np
import pytest
from errors_kit import raises

import stepcut as sc
from stepcut.errors import AnnotationError, OptionError
from stepcut.features.cycles import find_cycles
from stepcut.features.extract import export
from stepcut.features.features import Features
from stepcut.files.names import Fragment, video_name
from stepcut.procedure.learning import read_cycles
from stepcut.timeline import Segment, Timeline
from stepcut.toy import toy_features

RATE = 2


def make_line(count=10, seed=0, pauses=True):
    rng = np.random.default_rng(seed)
    rows, timelines = toy_features(count, seed, rate=RATE, duration=30, offset=0, shuffle=0, skip=0,
                                   repeat=0)  # fmt: skip
    idle, parts, true, length = rng.normal(size=rows[0].shape[1]) / 5, [], [], 0
    for each, timeline in zip(rows, timelines, strict=True):
        wait = int(rng.integers(4, 40)) if pauses else 0
        parts += [idle + 0.1 * rng.normal(size=(wait, len(idle))), each]
        at = (length + wait) / RATE
        true.append((at + timeline.segments[0].start, at + timeline.segments[-1].end))
        length += wait + len(each)
    return record(np.concatenate(parts)), true


def record(rows, name="line"):
    return Features(rows.astype(np.float32), Fraction(RATE), len(rows) / RATE, name)


def shares(found, true):
    """Precision and recall of starts within a tenth of a cycle."""
    near = 0.1 * np.median([end - start for start, end in true])
    starts = np.array([one.start for one in found])
    hits = sum(np.abs(starts - start).min() <= near for start, _ in true)
    return hits / len(found), hits / len(true)


@pytest.fixture(scope="module")
def line():
    return make_line()


@pytest.fixture(scope="module")
def file(line, tmp_path_factory):
    return str(export(line[0], tmp_path_factory.mktemp("line")))


@pytest.fixture(scope="module")
def learned(line, file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("learned")
    table = folder / "cycles.csv"
    lines = [f"{start:.1f},{end:.1f},cycle" for start, end in line[1]]
    table.write_text("\n".join(["start,end,label", *lines]))
    options = {"steps": 6, "restarts": 1, "output": folder / "line.proc"}
    return sc.learn(read_cycles(file, table), **options), folder / "line.proc"


def test_finds_cycles_with_pauses(line):
    assert min(shares(find_cycles(line[0]).cycles, line[1])) >= 0.9


def test_finds_the_others_of_a_marked_cycle(line):
    features, true = line
    found = find_cycles(features, [true[3]])
    assert min(shares(found.cycles, true)) >= 0.8
    assert next(one for one in found.cycles if one.confidence is None)[:2] == true[3]


@pytest.mark.slow
def test_cycles_without_pauses_start_with_the_recording():
    features, true = make_line(pauses=False)
    found = find_cycles(features)
    assert min(shares(found.cycles, true)) >= 0.8
    assert "no pause" in found.notes[0]


def test_no_repetition_and_one_cycle_are_refused():
    rng = np.random.default_rng(0)
    other = np.repeat(rng.normal(size=(40, 16)), 12, axis=0) + 0.3 * rng.normal(size=(480, 16))
    with raises(OptionError, "line: no repetition in 00:04:00.0; nothing else is like it"):
        find_cycles(record(other))
    once = np.concatenate([np.repeat(np.eye(16), 5, axis=0), 0.1 * rng.normal(size=(300, 16))])
    with raises(OptionError, "one cycle in 00:03:10.0; nothing else is like it. Mark one or two"):
        find_cycles(record(once), [(0, 40)])


@pytest.mark.slow
def test_a_changeover_is_reported():
    first, true = make_line(8, 0)
    second, _ = make_line(8, 7)
    found = find_cycles(record(np.concatenate([first.rows, second.rows])), [true[2]])
    assert all(one.end <= first.duration + 5 for one in found.cycles)
    assert "a changeover to another product? Find its cycles with --like" in found.notes[0]


@pytest.mark.parametrize("span", [(-1, 10), (20, 10), (0, 1e6), (3, 3.5)])
def test_marks_outside_are_refused(line, span):
    with raises(OptionError, "Give the start and the end of one cycle"):
        find_cycles(line[0], [span])


def test_marks_that_overlap_are_refused(line):
    with raises(OptionError, "0 to 30 s and 20 to 50 s overlap"):
        find_cycles(line[0], [(20, 50), (0, 30)])


def test_the_name_of_a_part_says_where_it_is():
    assert Fragment.of("a/line.mp4#t=12.5,48.2") == ("a/line.mp4", 12.5, 48.2)
    assert str(Fragment("line", 12.5, 48.0)) == "line#t=12.5,48"
    assert Fragment.of("line.mp4").tail == ""
    assert video_name("a/line.mp4#t=12,48") == "line#t=12,48"


def test_times_are_those_of_the_file():
    timeline = Timeline([Segment(1, 3, "cut")], 36, ("cut",), "line#t=10,46")
    assert "00:00:11.0  00:00:13.0  cut" in str(timeline)
    assert timeline.to_pandas().start.tolist() == [11]
    assert timeline.in_file().in_part(timeline.video) == timeline
    assert "00:00:11.0 to 00:00:13.0" in timeline._repr_html_()


def test_features_are_computed_once_and_divided(line, file):
    from stepcut.features.extract import read_source

    whole = line[0].rows
    found, _ = read_source([f"{file}#t=10,20.2", f"{file}#t=30,40"])
    assert [one.name for one in found] == ["line#t=10,20", "line#t=30,40"]
    assert np.allclose(found[0].rows, whole[20:40], atol=1e-2)
    with raises(OptionError, "lies outside the recording, which has"):
        read_source([f"{file}#t=10,100000"])


def test_learn_export_edit_teach_and_load_keep_the_time_of_the_file(learned, line, tmp_path, run):
    proc, folder = learned
    name = list(proc.timelines)[4]
    start = Fragment.of(name).start
    assert abs(start - line[1][4][0]) <= 0.5
    assert proc.timelines[name].end < 40  # inside, times start at zero

    table, tier = tmp_path / "line.csv", tmp_path / "elan"
    run("convert", str(folder), str(table))
    run("convert", str(folder), str(tier), "--to", "elan")
    from_csv = sc.read(table)
    from_elan = sc.read(tier / "line.eaf")
    for whole in (from_csv, from_elan):
        there = [s.start for s in whole if s.step == proc.timelines[name].segments[0].step]
        first = start + proc.timelines[name].segments[0].start
        assert np.abs(np.array(there) - first).min() < 0.01

    edited = proc.corrected({"do": "confirm", "video": name})
    taught = edited.teach()
    taught.save(tmp_path / "taught.proc")
    again = sc.load(tmp_path / "taught.proc")
    assert again.annotations.annotated == [name]
    assert again.timelines[name].segments == proc.timelines[name].segments
    assert again.learned_features()[4].name == name


def test_labels_of_the_file_are_divided_among_its_cycles(learned):
    proc, _ = learned
    names = list(proc.timelines)
    first, second = (Fragment.of(name).start for name in names[:2])
    labels = Timeline([Segment(first + 2, first + 5, "a"), Segment(second, second + 4, "b")])
    taught = proc.teach({"line": labels})
    said = taught.annotations.videos
    assert said.keys() == set(names[:2])
    assert [(s.start, s.end, s.step) for s in said[names[0]].segments] == [(2, 5, "a")]


def test_check_and_segment_take_a_part(learned, file, run):
    _, folder = learned
    answer = run("segment", str(folder), f"{file}#t=40,75")
    assert "<Timeline line#t=40,75:" in answer.out
    told = run("check", str(folder), f"{file}#t=40,75", "--json", code=(0, 1, 3, 4)).out
    times = [time for step in json.loads(told)["steps"] for part in step["times"] for time in part]
    assert times
    assert all(40 <= time <= 75 for time in times)  # of the file


def test_the_command_writes_a_table_that_learn_and_view_read(line, file, tmp_path, run):
    table = tmp_path / "cycles.csv"
    start, end = line[1][2]
    said = run("cycles", file, "-o", str(table), "--like", f"{start}-{end}")
    rows = list(csv.DictReader(table.read_text("utf-8-sig").splitlines()))
    assert list(rows[0]) == ["video", "start", "end", "label", "cycle", "confidence"]
    assert [row["cycle"] for row in rows] == [str(k + 1) for k in range(len(rows))]
    assert f"{len(rows)} cycles of" in said.out
    output = str(tmp_path / "p.proc")
    words = ["learn", file, "--cycles", str(table), "-k", "6", "--method", "kmeans", "--quiet"]
    run(*words, "-o", output)
    assert len(sc.load(output).timelines) == len(rows)


def test_bad_tables_of_cycles_are_refused(file, tmp_path):
    def refused(text, words, error=OptionError):
        table = tmp_path / "bad.csv"
        table.write_text(f"start,end,label\n{text}")
        with raises(error, words):
            sc.learn(read_cycles(file, table), steps=2, method="kmeans")

    refused("0,20,cycle\n15,30,cycle\n", "the cycles 0 to 20 s and 15 to 30 s overlap")
    refused("0,20,cycle\n30,99999,cycle\n", "the cycle 30 to 99999 s lies outside the recording")
    refused("0,20,cycle\n", "1 cycles; learning compares at least two. Find them: stepcut cycles")
    refused("20,0,cycle\n", "before", AnnotationError)


def test_a_single_video_is_told_of_cycles(file, run):
    said = run("learn", file, "--quiet", code=(2,))
    assert "If it shows many cycles, find them:" in said.err


def test_a_malformed_mark_is_refused(file, tmp_path, run):
    said = run("cycles", file, "-o", str(tmp_path / "c.csv"), "--like", "12", code=(2,))
    assert "such as --like 12.0-48.5" in said.err


def test_a_tap_at_each_start_divides_intervals_and_begins_cycles(tmp_path):
    table = tmp_path / "taps.csv"
    table.write_text("start,end,label\n0,20,cycle\n12,,cycle\n30,,cycle\n45,,cycle\n")
    found = [Fragment.of(name)[1:] for name in read_cycles("line.mp4", table)]
    assert found == [(0, 12), (12, 20), (30, 45), (45, 60)]
