"""Dialects of each format, as other programs write them."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as etree
from datetime import time, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from errors_kit import raises

from stepcut.errors import AnnotationError, ExtraNeeded, OptionError
from stepcut.evaluation.clock import read_truth
from stepcut.formats import read, read_all, read_folder, write
from stepcut.procedure.labels import read_labels
from stepcut.timeline import Segment, Timeline

TWO = (Segment(0.0, 1.5, "pour tea"), Segment(1.5, 62.25, "stir"))


@pytest.mark.parametrize(
    "text",
    [
        "0,1.5,pour tea\n1.5,62.25,stir\n",
        "0, 1.5, pour tea\n1.5, 62.25, stir",
        "start,end,label\n0,1.5,pour tea\n1.5,62.25,stir\n",
        "Label;Start;End\npour tea;0,0;1,5\nstir;1,5;62,25\n",
        "0;1,5;pour tea\n1,5;62,25;stir\n",
        "start_time\tend_time\tstep\n0\t1.5\tpour tea\n1.5\t62.25\tstir\n",
        "0\t1,5\tpour tea\n1,5\t62,25\tstir\n",
        "00:00:00,00:00:01.5,pour tea\n00:00:01.500,00:01:02.25,stir\n",
        '"0","1.5","pour tea"\n"1.5","62.25","stir"\n',
        "# made by hand\n\n0,1.5,pour tea\n\n# later\n1.5,62.25,stir\n",
        "begin,stop,action,score\n0,1.5,pour tea,0.5\n1.5,62.25,stir,\n",
        "id,start,end,name\n7,0,1.5,pour tea\n8,1.5,62.25,stir\n",
        "1.5,62.25,stir\n0,1.5,pour tea\n",
        "0e0,1.5e0,pour tea\n1.5,6.225e1,stir\n",
        "0,1.5,pour tea,,\n1.5,62.25,stir,,\n",
        '"0","1,5",pour tea\n"1,5","62,25",stir\n',
    ],
)
def test_csv_in_many_dialects(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    assert read(path).segments == TWO


@pytest.mark.parametrize(
    ("text", "annotator"),
    [
        ('# CSV_HEADER = metadata_id,file_list,flags,temporal_coordinates,spatial_coordinates,metadata\n'
         '"1_a","[""x.mp4""]",0,"[0,1.5]","[]","{""1"":""pour tea""}"\n'
         '"1_b","[""x.mp4""]",0,"[1.5,62.25]","[]","{""1"":""stir""}"\n'
         '"1_c","[""x.mp4""]",0,"[]","[]","{""2"":""about the file""}"\n', None),
        ('#4\nhand (MATRIX,true,)-code01|NOMINAL,code02|NOMINAL\n'
         '00:00:00:000,00:00:01:500,(pour tea,)\n00:00:01:500,00:01:02:250,(stir,)\n', None),
        ('#4\nhand (MATRIX,true,)-code01|NOMINAL\n00:00:00:000,00:00:01:500,(pour tea)\n'
         '00:00:01:500,00:01:02:250,(stir)\neye (MATRIX,true,)-code01|NOMINAL\n'
         '00:00:03:000,00:00:04:000,()\n', "hand"),
        ('file,column,ordinal,onset,offset,code01\nx,hand,1,0,1500,pour tea\nx,hand,2,1500,62250,stir\n', None),
        ('Date_Time_Absolute_dmy_hmsf;Time_Relative_hms;Time_Relative_sf;Duration_sf;Observation;Subject;Behavior;'
         'Event_Type;Comment\n1-1-2024;00:00:00;0;1,5;x;Ann;pour tea;State start;\n'
         '1-1-2024;00:00:01;1,5;0;x;Ann;pour tea;State stop;\n'
         '1-1-2024;00:00:01;1,5;60;x;Ann;stir;State start;\n'
         '1-1-2024;00:01:02;62,25;0;x;Ann;stir;State stop;\n', None),
    ],
    ids=["VIA 3", "Datavyu", "Datavyu, two columns", "a script of Datavyu", "Noldus"],
)  # fmt: skip
def test_tables_of_other_programs(text: str, annotator: str | None, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    assert read(path, annotator=annotator).segments == TWO
    if annotator:
        with raises(AnnotationError, "'hand', 'eye'"):
            read(path)


def test_excel_files_are_tables(tmp_path: Path) -> None:
    path = tmp_path / "x.xlsx"
    book = openpyxl.Workbook()
    book.active.append(["notes"])
    sheet = book.create_sheet("labels")
    sheet.append(["Anfang", "Ende", "Schritt", None])
    sheet.append([0, 1.5, "pour tea"])
    sheet.append([time(0, 0, 1, 500_000), timedelta(seconds=62.25), "stir"])
    book.save(path)
    assert read(path, sheet="labels").segments == read_folder(path, sheet="labels")["x"].segments
    assert read(path, sheet="labels").segments == TWO
    with raises(OptionError, "'labels'?", value="label"):
        read(path, sheet="label")
    with raises(AnnotationError, "start, end, step"):
        read(path)
    path.write_bytes(path.read_bytes()[:900])
    with raises(AnnotationError, "not a readable Excel file", path=str(path)):
        read(path)


def test_without_openpyxl_the_pip_line_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "x.xlsx", Timeline(TWO))
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with raises(ExtraNeeded, "pip install", "xlsx"):
        read(tmp_path / "x.xlsx")


def test_csv_with_only_a_header_has_no_segments(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("start,end,label\n")
    assert read(tmp_path / "x.csv") == Timeline(video="x")


@pytest.mark.parametrize(
    "text",
    [
        "0,1,1 break egg\n2,3,9 put omelette in the plate\n3,4,2 mix\n",
        "0,1,1. break egg\n2,3,9. put omelette in the plate\n3,4,2. mix\n",
        "0.0,1.0,1) break egg\n2,3,9:put omelette in the plate\n3,4,2.mix\n",
        "0;1;1 break egg\n2;3;9 put omelette in the plate\n3;4;2 mix\n",
    ],
)
def test_egoprocel_numbers_order_the_steps_and_may_have_gaps(text: str, tmp_path: Path) -> None:
    path = tmp_path / "S07_Eggs.csv"
    path.write_text(text)
    timeline = read(path)
    assert timeline.steps == ("break egg", "mix", "put omelette in the plate")
    assert timeline.sequence() == ["break egg", "put omelette in the plate", "mix"]
    assert timeline.video == "S07_Eggs"


def test_elan_text_with_times_in_three_ways_and_no_length(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    # 1000 * 1.001 < 1001.
    path.write_text("ann\t\t00:00:01.001\t1.001\t1001\t00:00:02.000\t2.0\t2000\tpour\n")
    assert read(path).segments == (Segment(1.001, 2.0, "pour"),)
    path.write_text("ann\t\t00:00:00.001\t0.001\t00:00:01.000\t1.0\t00:00:00.999\t0.999\tpour\n")
    assert read(path).segments == (Segment(0.001, 1.0, "pour"),)


def test_egoprocel_names_with_commas_and_equal_names(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("0,1,1 cut, carefully\n1,2,2 stir\n2,3,5 stir\n")
    assert read(path).steps == ("cut, carefully", "stir", "stir (5)")


def test_vtt_as_other_programs_write_it(tmp_path: Path) -> None:
    path = tmp_path / "x.vtt"
    path.write_text(
        "WEBVTT - a title\nKind: captions\n\nNOTE\nmade by hand\n\nSTYLE\n::cue { color: lime }\n\n"
        "first\n00:00.000 --> 00:01.500 line:0 align:end\n<v Ann>pour <i>tea</i></v>\n\n"
        "00:00:01.500 --> 00:01:02.250\nstir\n"
    )
    assert read(path).segments == TWO


def test_srt_without_numbers_and_with_two_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.srt"
    path.write_text(
        "00:00:00,000 --> 00:00:01,500\npour\ntea\n\n\n2\n00:00:01.500 --> 00:01:02.250 X1:0\nstir\n"
    )
    assert read(path).segments == TWO


def test_audacity_with_frequencies_and_decimal_commas(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("0,000000\t1,500000\tpour tea\n\\\t100.0\t200.0\n1,500000\t62,250000\tstir\n")
    assert read(path).segments == TWO


def test_mstcn_folder_with_its_mapping(tmp_path: Path) -> None:
    for name, frames in {
        "a": ["SIL", "stir", "stir", "SIL"],
        "b": ["pour_tea", "pour_tea"],
    }.items():
        path = tmp_path / "groundTruth" / f"{name}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(frames) + "\n")
    (tmp_path / "mapping.txt").write_text("0 SIL\n1 pour_tea\n2 stir\n")
    found = read_folder(tmp_path, rate=2)
    assert found["a"].segments == (Segment(0.5, 1.5, "stir"),)
    assert found["a"].duration == 2.0
    assert found["b"].steps == ("pour_tea", "stir")
    (tmp_path / "groundTruth" / "a.txt").write_text("fry\n")
    with raises(AnnotationError, "'fry'", "mapping.txt", line=1):
        read_folder(tmp_path, rate=2)
    (tmp_path / "mapping.txt").write_text("0 SIL\nfry\n")
    with raises(AnnotationError, "mapping.txt, line 2"):
        read_folder(tmp_path, rate=2)


def test_mstcn_adds_to_the_mapping_of_all_videos(tmp_path: Path) -> None:
    truth, mapping = tmp_path / "groundTruth", tmp_path / "mapping.txt"
    write(truth / "a.txt", Timeline([Segment(0, 1, "pour tea")], 2.0), rate=2)
    write(truth / "b.txt", Timeline([Segment(1, 2, "stir")], 2.0), rate=2)
    assert mapping.read_text() == "0 background\n1 pour_tea\n2 stir\n"
    assert (truth / "b.txt").read_text() == "background\nbackground\nstir\nstir\n"
    # Numbers stay, and so does the word for background.
    mapping.write_text("0 stir\n1 pour_tea\n7 SIL\n")
    write(truth / "a.txt", Timeline([Segment(0, 1, "taste"), Segment(1, 2, "stir")], 3.0), rate=1)
    assert mapping.read_text() == "0 stir\n1 pour_tea\n7 SIL\n8 taste\n"
    assert (truth / "a.txt").read_text() == "taste\nstir\nSIL\n"
    wrong = {"'SIL'": [Segment(0, 1, "SIL")], "no length": [], "lines": [Segment(0, 9e6, "a")]}
    for word, segments in wrong.items():
        with raises(AnnotationError, word):
            write(truth / "c.txt", Timeline(segments), rate=30)


def test_mstcn_does_not_drift_at_ntsc_rates(tmp_path: Path) -> None:
    hour = Timeline([Segment(3599.0, 3600.0, "end")], 3600.0)
    write(tmp_path / "x.txt", hour, "mstcn", rate="30000/1001")
    again = read(tmp_path / "x.txt", "mstcn", rate=29.97)
    assert again.duration == pytest.approx(3600.0, abs=0.04)
    assert again.segments[0].start == pytest.approx(3599.0, abs=0.04)


def test_activitynet_ground_truth_and_results(tmp_path: Path) -> None:
    truth = {
        "version": "1.3",
        "taxonomy": [{"nodeName": name} for name in ("Root", "stir", "wash", "pour tea")],
        "database": {
            "v_1": {"duration": 90.5, "subset": "training", "annotations": [
                {"segment": [0, 1.5], "label": "pour tea"}, {"segment": [1.5, 62.25], "label": "stir"}]},
            "v_2": {"duration": 3, "subset": "testing", "annotations": []},
        },
    }  # fmt: skip
    (tmp_path / "t.json").write_text(json.dumps(truth))
    one, two = read_all(tmp_path / "t.json")
    assert (one.segments, one.duration, one.video, one.steps) == (
        TWO,
        90.5,
        "v_1",
        ("stir", "pour tea"),
    )
    assert (two.segments, two.duration, two.video) == ((), 3.0, "v_2")
    results = {
        "version": "x",
        "results": {"v_1": [{"label": "stir", "score": 0.25, "segment": [0, 2]}]},
    }
    (tmp_path / "r.json").write_text(json.dumps(results))
    assert read(tmp_path / "r.json").segments[0].confidence == 0.25


def label_studio_export() -> list[dict[str, Any]]:
    """A task in a Label Studio export with a corrected prediction."""
    region = {
        "type": "timelinelabels",
        "from_name": "steps",
        "to_name": "video",
        "origin": "manual",
    }
    return [
        {
            "id": 1,
            "data": {"video": "/data/upload/1/ab12-v.mp4", "name": "v", "fps": 10.0, "rate": "10", "steps": ["stir"]},
            "annotations": [
                {"completed_by": 7, "was_cancelled": True, "result": []},
                {"completed_by": {"id": 8, "email": "ann@example.org"}, "was_cancelled": False, "result": [
                    {**region, "value": {"ranges": [{"start": 11, "end": 20}], "timelinelabels": ["pour tea"]}},
                    {"type": "labels", "value": {"start": 4.0, "end": 5.5, "labels": ["stir"]}},
                    {"type": "choices", "value": {"choices": ["fine"]}}]},
            ],
            "predictions": [{"model_version": "stepcut", "result": [
                {**region, "value": {"ranges": [{"start": 1, "end": 5}], "timelinelabels": ["stir"]}}]}],
        }
    ]  # fmt: skip


def test_label_studio_export_gives_the_corrected_labels(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    export = label_studio_export()
    path.write_text(json.dumps(export))
    timeline = read(path)
    assert timeline.video == "v"
    assert timeline.segments == (Segment(1.0, 2.0, "pour tea"), Segment(4.0, 5.5, "stir"))
    assert timeline.steps == ("stir", "pour tea")
    assert read(path, annotator="ann@example.org") == timeline
    with raises(AnnotationError, "'bob'", "['8', 'ann@example.org']"):
        read(path, annotator="bob")
    export[0]["annotations"][0]["was_cancelled"] = False
    path.write_text(json.dumps(export))
    with raises(AnnotationError, "['7', 'ann@example.org']"):
        read(path)
    assert read(path, annotator="7").segments == ()
    export[0]["annotations"][1]["result"][0]["value"]["timelinelabels"].append("wait")
    path.write_text(json.dumps(export))
    both = (Segment(1, 2, "pour tea"), Segment(1, 2, "wait"))
    assert read(path, annotator="8").segments[:2] == both
    export[0]["annotations"] = []
    path.write_text(json.dumps(export))
    assert read(path).segments == (Segment(0.0, 0.5, "stir"),)


@pytest.mark.parametrize("numbers", [("", ""), ("1\n", "2\n")])
@pytest.mark.parametrize("name", ["x.srt", "x.vtt"])
def test_cues_without_a_blank_line_between_them(
    name: str, numbers: tuple[str, str], tmp_path: Path
) -> None:
    one, two = numbers
    cues = f"{one}00:00:00.000 --> 00:00:01.500\n7\npour tea\n{two}00:00:01.500 --> 00:01:02.250\nstir\n"
    (tmp_path / name).write_text(("WEBVTT\n\n" if name == "x.vtt" else "") + cues)
    assert read(tmp_path / name).segments == (Segment(0.0, 1.5, "7 pour tea"), TWO[1])


def test_predictions_that_nobody_confirmed_are_no_labels(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    done, skipped, untouched = (label_studio_export()[0] for _ in range(3))
    skipped["annotations"], skipped["data"]["name"] = (
        [{"completed_by": 8, "was_cancelled": True, "result": []}],
        "w",
    )
    untouched["annotations"], untouched["data"]["name"] = [], "x"
    path.write_text(json.dumps([done, skipped, untouched]))
    assert list(read_folder(path)) == ["v"]
    assert list(read_labels(path)) == list(read_truth(path)[0]) == ["v"]
    path.write_text(json.dumps([skipped, untouched]))
    assert list(read_folder(path)) == ["w", "x"]
    for read_them in (read_labels, read_truth):
        with raises(AnnotationError, "predictions", "all 2"):
            read_them(path)


def test_videos_that_an_annotator_has_not_done_are_left_out(tmp_path: Path) -> None:
    both, one = label_studio_export()[0], label_studio_export()[0]
    both["annotations"][0]["was_cancelled"], one["data"]["name"] = False, "w"
    (tmp_path / "export.json").write_text(json.dumps([one, both]))
    (tmp_path / "people.csv").write_text(
        "annotator,video,start,end,label\n8,w,0,2,y\n8,v,0,2,x\n7,v,0,3,x\n"
    )
    for name in ("export.json", "people.csv"):
        assert list(read_folder(tmp_path / name, annotator="7")) == ["v"]
        assert list(read_folder(tmp_path / name, annotator="8")) == ["w", "v"]
        with raises(AnnotationError, "'eve'", "all 2"):
            read_folder(tmp_path / name, annotator="eve")
    for name, person in (("v", "ann"), ("w", "bob")):
        write(
            tmp_path / "eaf" / f"{name}.eaf",
            Timeline([Segment(0, 1, "pour")], video=name),
            annotator=person,
        )
    assert list(read_folder(tmp_path / "eaf", annotator="bob")) == ["w"]


def test_label_studio_tasks_have_what_its_import_needs(tmp_path: Path) -> None:
    timeline = Timeline(
        [Segment(0, 1.5, 'pour "tea" & milk', 0.5), Segment(1.5, 2.0, "stir")], 3.0, video="v.mp4"
    )
    path = tmp_path / "tasks.json"
    write(path, timeline, "label-studio", rate=29.97)
    (task,) = json.loads(path.read_text())
    assert task["data"]["video"] == "v.mp4"
    assert task["data"]["fps"] == pytest.approx(29.97, abs=1e-3)
    (prediction,) = task["predictions"]
    assert (prediction["model_version"], prediction["score"]) == ("stepcut", 0.5)
    first, second = prediction["result"]
    assert first["value"] == {
        "ranges": [{"start": 1, "end": 45}],
        "timelinelabels": ['pour "tea" & milk'],
    }
    # Touching segments do not share a frame.
    assert second["value"]["ranges"] == [{"start": 46, "end": 60}]
    config = etree.fromstring((tmp_path / "tasks.config.xml").read_text())
    control, video = config
    assert (control.tag, video.tag, control.get("toName")) == (
        "TimelineLabels",
        "Video",
        video.get("name"),
    )
    assert {first["from_name"], second["from_name"]} == {control.get("name")}
    assert [label.get("value") for label in control] == ['pour "tea" & milk', "stir"]
    assert (video.get("value"), video.get("frameRate")) == ("$video", "$fps")


def test_a_labelling_configuration_that_stood_there_is_kept(tmp_path: Path) -> None:
    mine = tmp_path / "tasks.config.xml"
    mine.write_text("<View>mine</View>")
    timeline = Timeline([Segment(0, 1, "pour")], 2, video="tea.mp4")
    for _ in range(2):  # the second time, the content is the same and there is no backup
        write(tmp_path / "tasks.json", timeline, "label-studio", rate=25)
    assert sorted(path.name for path in tmp_path.glob("*.bak")) == ["tasks.config.xml.1.bak"]
    assert (tmp_path / "tasks.config.xml.1.bak").read_text() == "<View>mine</View>"
    assert "pour" in mine.read_text()


def test_rates_are_fractions(tmp_path: Path) -> None:
    timeline = Timeline([Segment(0, 1001.0, "long")], video="v")
    write(tmp_path / "x.json", timeline, "label-studio", rate=Fraction(30000, 1001))
    assert json.loads((tmp_path / "x.json").read_text())[0]["predictions"][0]["result"][0]["value"][
        "ranges"
    ] == [{"start": 1, "end": 30000}]
    assert read(tmp_path / "x.json").segments[0].end == 1001.0


def frames(*ranges: tuple[int, int]) -> str:
    """Label Studio tasks at 25 frames per second, with first and last frame."""
    regions = [
        {
            "type": "timelinelabels",
            "value": {"ranges": [{"start": a, "end": b}], "timelinelabels": [f"step {a}"]},
        }
        for a, b in ranges
    ]
    return json.dumps([{"data": {"name": "v", "fps": 25}, "annotations": [{"result": regions}]}])


@pytest.mark.parametrize(
    ("name", "text", "rate", "ends"),
    [
        ("a.csv", "0,2.033,pour\n2,3,stir\n", 30, [2.0, 3.0]),
        ("a.csv", "0,2.033,pour\n2,3,stir\n", None, [2.033, 3.0]),  # the length of a frame is unknown
        ("a.csv", "0,2.034,pour\n2,3,stir\n", 30, [2.034, 3.0]),  # more than a frame
        ("a.csv", "0,9,pour\n2,2.01,stir\n", 30, [9.0, 2.01]),  # removing the overlap would drop seven seconds
        ("a.csv", "2,2.02,pour\n2,3,stir\n", 30, [2.02, 3.0]),  # the first segment would become empty
        ("a.csv", "0,2.01,pour\n2,2,tap\n2,3,stir\n", 30, [2.0, 2.0, 3.0]),
        ("a.vtt", "WEBVTT\n\n00:00.000 --> 00:02.001\npour\n\n00:02.000 --> 00:03.000\nstir\n", None, [2.0, 3.0]),
        ("a.vtt", "WEBVTT\n\n00:00.000 --> 00:02.002\npour\n\n00:02.000 --> 00:03.000\nstir\n", None, [2.002, 3.0]),
        ("a.json", frames((1, 51), (51, 75)), None, [2.0, 3.0]),
        ("a.json", frames((1, 52), (51, 75)), None, [2.08, 3.0]),
    ],
)  # fmt: skip
def test_neighbours_that_overlap_by_rounding_touch(
    name: str, text: str, rate: int | None, ends: list[float], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    assert [segment.end for segment in read(tmp_path / name, rate=rate)] == ends


def test_activitynet_of_both_kinds_is_a_ground_truth(tmp_path: Path) -> None:
    true = {"tea": {"annotations": [{"segment": [0, 1.5], "label": "pour"}], "duration": 9}}
    (tmp_path / "x.json").write_text(json.dumps({"database": true, "results": {}}))
    assert read(tmp_path / "x.json").duration == 9
    (tmp_path / "x.json").write_text(json.dumps({"database": {}}))
    assert read_all(tmp_path / "x.json") == []


@pytest.mark.parametrize("more", [{}, {"video": None, "steps": None}])
def test_native_json_reads_what_other_programs_leave_out(
    more: dict[str, None], tmp_path: Path
) -> None:
    parts = [{"start": 0, "end": 1.5, "step": "pour tea"}]
    record = {"format": "stepcut timeline", "segments": parts, **more}
    (tmp_path / "tea.json").write_text(json.dumps(record))
    assert read(tmp_path / "tea.json") == Timeline([TWO[0]], video="tea")
