"""Bad files: odd encodings and mutants are read or refused with file and line, whatever a name holds."""

import contextlib
import json
import os
import signal
import tempfile
from itertools import product
from pathlib import Path

import pytest
from errors_kit import raises
from fuzz_kit import EXTREMES, label_targets, main
from hypothesis import given, settings
from hypothesis import strategies as st

from stepcut.errors import AnnotationError, OptionError
from stepcut.formats import FORMATS, read, read_folder, read_transcripts, write, write_folder
from stepcut.formats.common import LIMIT
from stepcut.timeline import Segment, Timeline

CREPE = (Segment(0.0, 2.5, "flip crêpe"),)
ALL = [name for name, form in FORMATS.items() if form.read is not None]
TEXT = {
    "csv": "start,end,label\n0,2.5,flip crêpe\n",
    "tsv": "0\t2.5\tflip crêpe\n",
    "egoprocel": "0,2.5,1 flip crêpe\n",
    "vtt": "WEBVTT\n\n00:00.000 --> 00:02.500 align:start\nflip crêpe\n",
    "srt": "1\n00:00:00,000 --> 00:00:02,500\nflip crêpe\n",
    "audacity": "0.000000\t2.500000\tflip crêpe\n",
    "mstcn": "flip crêpe\n" * 5,
}
SUFFIX = {name: form.suffix for name, form in FORMATS.items()}


def put(folder, name, data, stem="x"):
    path = folder / f"{stem}{SUFFIX[name]}"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize("name", list(TEXT))
def test_encodings_and_line_ends(name, tmp_path):
    encodings = ("utf-8", "utf-8-sig", "utf-16", "latin-1")
    for ending, encoding in product(("\n", "\r\n", "\r"), encodings):
        path = put(tmp_path, name, TEXT[name].replace("\n", ending).encode(encoding))
        assert read(path, name, rate=2).segments == CREPE, (ending, encoding)


NO_LABELS = {
    b"": "is empty", b"\n \r\n": "is empty", b"\xef\xbb\xbf": "is empty",
    b"\x00\x00\x00 ftypisom\x00\x00\x02\x00": "zero bytes",
    "folder": "read_folder", "nothing": "No such file", "huge": "256 MB",
}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_what_is_no_label_file_is_refused(name, tmp_path):
    for number, (data, word) in enumerate(NO_LABELS.items()):
        path = put(tmp_path, name, data, f"x{number}")
        if isinstance(data, str):
            path.unlink()
        if data == "folder":
            path.mkdir()
        if data == "huge":
            path.touch()
            os.truncate(path, LIMIT + 1)  # refused before it is read
        for form in (name, None):
            with raises(AnnotationError, word, path=str(path)):
                read(path, form, rate=2)


@pytest.mark.parametrize("name", ["json", "label-studio", "activitynet"])
@pytest.mark.parametrize("text", ['{\n "format":\n', "[" * 100_000, '"words"', "[]", "{}"])
def test_json_that_is_none(name, text, tmp_path):
    path = put(tmp_path, name, text)
    for form in (name, None):
        with raises(AnnotationError, "line 3" if "format" in text else "", path=str(path)):
            read(path, form)


@pytest.mark.parametrize(("name", "text", "line", "word"), [
    ("csv", "0,1,a\n2,x,b\n", 2, "'x'"),
    ("csv", "0,1,a\n\n3,2,b\n", 3, "2 s"),
    ("csv", "0,0,1,5,a\n1,5,2,5,b\n", 1, "two times"),
    ("csv", "# soon\n", None, "no rows"),
    ("csv", "0,1,a\n1,2\n", 2, "too few"),
    ("csv", "0,1,a\n1,2, \n", 2, "empty"),
    ("csv", "when,what\n1,2\n", 1, "start, end, step"),
    ("csv", '0,1,"a\nb"\n1,2,\n', 3, "empty"),  # the line of the file, not of the table
    ("csv", "0,1,a\n0,5,pour, then stir\n", 2, "more than 3"),
    ("csv", "0,1,a,0.9\n", 1, "start,end,step,confidence"),
    ("csv", "0,1,a\n1,2,b\x1b[2J\n", 2, "control"),
    ("egoprocel", "0,1,1 a\n1,2,b\n", 2, "'b'"),
    ("vtt", "00:00.000 --> 00:01.000\na\n", 1, "WEBVTT"),
    ("vtt", "WEBVTT\n\n00:00 -> 1\na\n\n00:01.000 --> later\nb\n", 6, "'later'"),
    ("srt", "1\n00:00:02,000 --> 00:00:01,000\na\n", 2, "1 s"),
    ("audacity", "0\t1\ta\nnonsense\n", 2, "'nonsense'"),
    ("mstcn", "a\n\nb\n", 2, "empty"),
    ("mstcn", "a\n", None, "--rate 30"),
    ("frame-ranges", "5 78 G1\n", None, "rate"),
    ("frame-ranges", "78 5 G1\n", 1, "before the start"),
    ("frame-ranges", "5 78 G1\nG2\n", 2, "'G2'"),
    ("label-studio", '[{"data":{"video":"v"},"predictions":[{"result":[{"type":"timelinelabels","value":{"ranges":'
     '[{"start":1,"end":2}],"timelinelabels":["a"]}}]}]}]', None, "rate"),
    ("label-studio", '[{"data":{"fps":2},"predictions":[{"result":[{"type":"timelinelabels","value":{"ranges":'
     '[{"start":1,"end":2}],"timelinelabels":[]}}]}]}]', None, "no label"),
    ("activitynet", '{"database":{"v":{"annotations":[{"label":"a"}]}}}', None, "missing required field `segment`"),
    ("activitynet", '{"results":{"v":[{"label":"a","segment":[0,"1"]}]}}', None, "Expected `float`"),
    ("json", '{"format":"stepcut timeline","segments":[{"start":NaN,"end":1,"step":"a"}]}', None, "nan"),
    ("json", '{"format":"stepcut timeline","segments":[{"start":2,"end":1,"step":"a"}]}', None, "before"),
    ("json", '{"format":"stepcut timeline","version":99,"segments":[]}', None, "99"),
    ("elan", "<ANNOTATION_DOCUMENT/>", None, "no tier"),
    ("elan", "<a><b></a>", None, "ELAN"),
])  # fmt: skip
def test_nonsense_is_refused_with_its_place(name, text, line, word, tmp_path):
    counted = "fps" in text or (name in ("mstcn", "frame-ranges") and "rate" not in word)
    rate = 2 if counted else None
    with raises(AnnotationError, word, str(tmp_path)) as caught:
        read(put(tmp_path, name, text), name, rate=rate)
    assert line is None or caught.value.line == line


@pytest.mark.parametrize(("name", "text", "line", "word"), [
    ("t.txt", "a: cut\nb cut, jam\n", 2, "colon"),
    ("t.txt", "a: cut\na: jam\n", 2, "line 1"),
    ("t.txt", "a: cut\nb:\n", 2, "'b'"),
    ("t.txt", "a: cut,, jam\n", 1, "'a'"),
    ("t.txt", "a: cut\x1b[2J\n", 1, "control"),
    ("t.txt", "# nothing\n", None, "no transcript"),
    ("t.csv", "a,cut\nb,,jam\n", 2, "'b'"),
    ("t.csv", "video,steps\n", None, "no transcript"),
])  # fmt: skip
def test_transcripts_that_make_no_sense(name, text, line, word, tmp_path):
    (tmp_path / name).write_text(text)
    with raises(AnnotationError, name, word, line=line):
        read_transcripts(tmp_path / name)


@pytest.mark.parametrize("name", ALL)
def test_what_no_file_can_hold_is_not_written(name, tmp_path):
    for start, step in ((0, "bell \x07"), (0, "half \ud800"), (0, " \n "), (-1, "a")):
        with raises(AnnotationError, "timeline.crop" if start else "control characters"):
            write(tmp_path / f"x{SUFFIX[name]}", Timeline([Segment(start, 1, step)]), name, rate=2)
        assert list(tmp_path.iterdir()) == []


ONE = Timeline([Segment(0, 1, "a")], video="v")


def videos(*names):
    return [Timeline([Segment(0, 1, "pour")], video=name) for name in names]


@pytest.mark.parametrize(("path", "form", "text", "word"), [
    ("x.doc", None, "hello", "the suffix '.doc' is unknown. Use one of .json, .csv"),
    ("x.doc", "elam", "hello", "did you mean 'elan'?"),
    ("notes.txt", None, "just some words\n", "'groundTruth'"),
    ("x.json", None, '{"a": 1}', "json, boris"),
    ("x.json", None, '{"labels": {}}', "FiftyOne"),
    ("x.json", "fiftyone", '{"labels": {}}', "(csv)"),
    ("x.csv", None, "0,1700000000,pour\n", "from the beginning"),
    ("x.csv", None, '0,1,"\ud800"\n', "not UTF-8"),
    ("x.json", None, '{"format":"stepcut timeline","segments":[{"start":0,"end":1,"step":"\\ud800"}]}', "control"),
])  # fmt: skip
def test_what_is_not_read(path, form, text, word, tmp_path):
    (tmp_path / path).write_bytes(text.encode("utf-8", "surrogatepass"))
    with raises(OptionError if form else AnnotationError, word):
        read(tmp_path / path, form)


@pytest.mark.parametrize(("path", "form", "given", "word"), [
    ("x.vtt", None, Timeline([Segment(0, 1, "add jam"), Segment(1, 2, "add  jam")]), "name 'add jam' in format 'vtt'"),
    ("x.doc", None, Timeline([]), "'.doc'"),
    ("x.json", "label-studio", ONE, "--rate 30"),
    ("x.json", "fiftyone", ONE, "(csv)"),
    ("x.vtt", None, [ONE, ONE], "format 'vtt' stores one video"),
    *(("x", name, [ONE, ONE], "video name 'v'") for name in ("activitynet", "boris", "json", "csv")),
    *(("x", name, videos("a", "a "), "video name 'a'") for name in ("csv", "xlsx", "boris-events")),
])  # fmt: skip
def test_what_is_not_written(path, form, given, word, tmp_path):
    with raises((AnnotationError, OptionError), word):
        write(tmp_path / path, given, form)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "names", [("a", "A"), ("caf\u00e9", "cafe\u0301"), ("x/a", "y/a"), ("v", "v")]
)
def test_files_that_some_disk_would_overwrite_are_refused(names, tmp_path):
    with raises(OptionError, "Rename one"):
        write_folder(tmp_path, videos(*names), "csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("rate", ["fast", 0, -1, "1/0", float("nan"), "1e999999999"])
def test_rates_that_are_none(rate, tmp_path):
    with raises(OptionError, setting="rate", value=rate):
        read(put(tmp_path, "mstcn", "a\n"), "mstcn", rate=rate)


def test_files_of_one_video_or_of_one_name(tmp_path):
    put(tmp_path, "csv", "0,1,a\n", stem="v")
    put(tmp_path, "vtt", TEXT["vtt"], stem="v")
    with raises(AnnotationError, "v.csv", video="v"):
        read_folder(tmp_path)
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "README.txt").write_text("words")
    with raises(AnnotationError, "no readable label file in this folder") as caught:
        read_folder(tmp_path / "none")
    assert "xes" not in str(caught.value)
    two = videos("/films/cam1/v.mp4", "/films/cam2/v.mp4")
    names = [path.name for path in write_folder(tmp_path / "two", two, "elan")]
    assert names == ["cam1_v.eaf", "cam2_v.eaf"]
    assert list(read_folder(tmp_path / "two")) == ["cam1/v", "cam2/v"]
    with raises(OptionError, ".json, .csv"):
        write_folder(tmp_path, two, "vtt")


READABLE = [name for name, form in FORMATS.items() if form.read is not None]


@pytest.mark.parametrize("name", READABLE)
def test_mutants_are_read_or_refused(name, tmp_path):
    targets = label_targets(tmp_path)
    for seed in range(25):
        for target in (targets[f"labels:{name}"], targets[f"labels:{name}, found out"]):
            folder = tmp_path / f"{seed}"
            folder.mkdir(exist_ok=True)
            assert target.attempt(seed, folder) == ""


KEYS = st.sampled_from(
    ["format", "version", "segments", "timelines", "start", "end", "step", "steps", "database", "results", "segment",
     "annotations", "label", "labels", "duration", "taxonomy", "nodeName", "data", "predictions", "result", "type",
     "value", "ranges", "timelinelabels", "fps", "rate", "name", "video", "completed_by", "score", "events"]
)  # fmt: skip
WORDS = st.sampled_from(["stepcut timeline", "stepcut timelines", "timelinelabels", "labels", "a"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | WORDS | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
FRAMES = {"data": {"fps": 9}}
RECORDS = {
    "json": lambda v, w: {"format": "stepcut timeline", "segments": [{"start": 0, "end": v, "step": w}]},
    "json: many": lambda v, w: {"format": "stepcut timelines", "timelines": v, "version": w},
    "activitynet": lambda v, w: {"database": {"v": {"annotations": v, "duration": w}}},
    "activitynet: results": lambda v, w: {"results": {"v": [{"label": v, "segment": w}]}, "taxonomy": v},
    "boris": lambda v, w: {"observations": {"a": {"events": v, "file": w}}, "behaviors_conf": {"0": w}},
    "label-studio": lambda v, w: [{"data": {"fps": v, "steps": w}, "predictions": [{"result": v}]}],
    "label-studio: export": lambda v, w: [{**FRAMES, "annotations": [{"completed_by": v, "result": [w]}]}],
    "label-studio: regions": lambda v, w: [{**FRAMES, "predictions": [{"result": [
        {"type": "timelinelabels", "value": v, "score": w}]}]}],
}  # fmt: skip


@pytest.mark.parametrize("kind", RECORDS)
@given(v=VALUES, w=VALUES)
@settings(max_examples=40, deadline=None)
def test_any_json_is_read_or_refused(kind, v, w):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.json"
        path.write_text(json.dumps(RECORDS[kind](v, w)))
        for chosen in (kind.partition(":")[0], None):
            with contextlib.suppress(AnnotationError):
                found = read_folder(path, chosen)
                assert all(isinstance(each, Timeline) for each in found.values())


@pytest.mark.slow
def test_a_minute_of_everything_that_reads_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGALRM)
    try:
        assert main(45, seed=1_794_797_600) == 0
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "time", sorted({each.decode() for each in EXTREMES} - {"0", "2147483648", ""})
)
def test_times_that_are_none(time, tmp_path):
    for name, text in {
        "x.csv": f"start,end,label\n0,{time},pour\n",
        "x.srt": f"1\n00:00:00,000 --> {time}\npour\n",
        "x.json": f'{{"format":"stepcut timeline","segments":[{{"start":0,"end":{time},"step":"a"}}]}}',
        "x.TextGrid": f'"ooTextFile"\n"TextGrid"\n0\n9\n<exists>\n1\n"IntervalTier"\n"a"\n0\n9\n1\n0\n{time}\n"pour"\n',
    }.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(AnnotationError, match=name):
            read_folder(tmp_path / name)


@pytest.mark.parametrize("name", list(FORMATS))
def test_odd_names_of_videos_are_written_or_refused(name, tmp_path):
    for number, video in enumerate(("a\x00b", "a\ud800b", "a\x1b[2Jb", "../../a")):
        one, out = Timeline([Segment(0, 1, "pour")], 2.0, video=video), tmp_path / str(number)
        (path,) = write_folder(out, [one], name, rate=5)
        assert (path.parent, path.exists()) == (out, True)
        if FORMATS[name].read is not None:
            (found,) = read_folder(path, name, rate=5).values()
            assert found.sequence() == ["pour"], video


def test_videos_without_a_name_or_with_one_that_no_file_can_have(tmp_path):
    names = ["n" * 300, "..", "C:\\x:y", "a\nb"]
    made = [Timeline([Segment(0, 1, "a")], video=name) for name in names]
    paths = write_folder(tmp_path / "out", made, "csv")
    safe = ["n" * 200 + ".csv", "video.csv", "x%3Ay.csv", "a%0Ab.csv"]
    assert [path.name for path in paths] == safe
    assert all(path.parent == tmp_path / "out" and read_folder(path) for path in paths)
    (tmp_path / "x.csv").write_text("start,end,label,video\n0,1,pour,a\n1,2,stir\n")
    with raises(AnnotationError, "video", line=3):
        read_folder(tmp_path / "x.csv")
