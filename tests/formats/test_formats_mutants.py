"""Real files with random changes: readers return timelines or a clear error; `make fuzz` runs longer."""

import contextlib
import json
import signal
import tempfile
from pathlib import Path

import pytest
from errors_kit import raises
from fuzz_kit import EXTREMES, label_targets, main
from hypothesis import given, settings
from hypothesis import strategies as st

from stepcut.errors import AnnotationError
from stepcut.formats import FORMATS, read_folder, write_folder
from stepcut.timeline import Segment, Timeline

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
