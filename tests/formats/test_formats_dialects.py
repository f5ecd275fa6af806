"""Dialects of each format, as people and other programs write them: the same segments from many texts."""

import json
import logging
import sys
import xml.etree.ElementTree as etree
from datetime import time, timedelta
from fractions import Fraction

import openpyxl
import pytest
from errors_kit import raises

from stepcut.errors import AnnotationError, ExtraNeeded, OptionError
from stepcut.evaluation.clock import read_truth
from stepcut.formats import read, read_all, read_folder, read_transcripts, write
from stepcut.procedure.labels import read_labels
from stepcut.timeline import Segment, Timeline

TWO = (Segment(0.0, 1.5, "pour tea"), Segment(1.5, 62.25, "stir"))
STIR = (Segment(0, 1.5, "rühren"),)
BORIS = (Segment(1.5, 4, "rühren"), Segment(4.5, 4.5, "tippen"))
EVENTS = "a;tea.mp4;;rühren;START;1,5\na;tea.mp4;;rühren;STOP;4,0\na;tea.mp4;;tippen;{};4,5\n"

TEXTS = [
    ("x.csv", TWO, "0,1.5,pour tea\n1.5,62.25,stir\n"),
    ("x.csv", TWO, "0, 1.5, pour tea\n1.5, 62.25, stir"),
    ("x.csv", TWO, "start,end,label\n0,1.5,pour tea\n1.5,62.25,stir\n"),
    ("x.csv", TWO, "Label;Start;End\npour tea;0,0;1,5\nstir;1,5;62,25\n"),
    ("x.csv", TWO, "0;1,5;pour tea\n1,5;62,25;stir\n"),
    ("x.csv", TWO, "0\t1,5\tpour tea\n1,5\t62,25\tstir\n"),
    ("x.csv", TWO, "00:00:00,00:00:01.5,pour tea\n00:00:01.500,00:01:02.25,stir\n"),
    ("x.csv", TWO, "# made by hand\n\n0,1.5,pour tea\n\n# later\n1.5,62.25,stir\n"),
    ("x.csv", TWO, "begin,stop,action,score\n0,1.5,pour tea,0.5\n1.5,62.25,stir,\n"),
    ("x.csv", TWO, "1.5,62.25,stir\n0,1.5,pour tea\n"),
    ("x.csv", TWO, "0,1.5,pour tea,,\n1.5,62.25,stir,,\n"),
    ("x.csv", (), "start,end,label\n"),
    # VIA 3, Datavyu, a script of Datavyu, Noldus
    ("x.csv", TWO, '# CSV_HEADER = metadata_id,file_list,flags,temporal_coordinates,spatial_coordinates,metadata\n'
     '"1_a","[""x.mp4""]",0,"[0,1.5]","[]","{""1"":""pour tea""}"\n'
     '"1_b","[""x.mp4""]",0,"[1.5,62.25]","[]","{""1"":""stir""}"\n'
     '"1_c","[""x.mp4""]",0,"[]","[]","{""2"":""about the file""}"\n'),
    ("x.csv", TWO, '#4\nhand (MATRIX,true,)-code01|NOMINAL,code02|NOMINAL\n'
     '00:00:00:000,00:00:01:500,(pour tea,)\n00:00:01:500,00:01:02:250,(stir,)\n'),
    ("x.csv", TWO, 'file,column,ordinal,onset,offset,code01\nx,hand,1,0,1500,pour tea\nx,hand,2,1500,62250,stir\n'),
    ("x.csv", TWO, 'Date_Time_Absolute_dmy_hmsf;Time_Relative_hms;Time_Relative_sf;Duration_sf;Observation;Subject;'
     'Behavior;Event_Type;Comment\n1-1-2024;00:00:00;0;1,5;x;Ann;pour tea;State start;\n'
     '1-1-2024;00:00:01;1,5;0;x;Ann;pour tea;State stop;\n1-1-2024;00:00:01;1,5;60;x;Ann;stir;State start;\n'
     '1-1-2024;00:01:02;62,25;0;x;Ann;stir;State stop;\n'),
    # ELAN's text with times in three ways and no length; 1000 * 1.001 < 1001
    ("x.tsv", (Segment(1.001, 2.0, "pour"),), "ann\t\t00:00:01.001\t1.001\t1001\t00:00:02.000\t2.0\t2000\tpour\n"),
    ("x.tsv", (Segment(0.001, 1.0, "pour"),),
     "ann\t\t00:00:00.001\t0.001\t00:00:01.000\t1.0\t00:00:00.999\t0.999\tpour\n"),
    ("x.csv", STIR, "Anfang;Ende;Schritt\n0,0;1,5;rühren\n"),
    ("x.csv", STIR, "Beginn (s);Dauer (s);Tätigkeit\n0;1,5;rühren\n"),
    ("x.csv", STIR, "Début;Fin;Étape\n0,0;1,5;rühren\n"),
    ("x.csv", STIR, "Inicio;Fin;Acción\n00:00:00,0;00:00:01,5;rühren\n"),
    ("x.csv", BORIS, "Beobachtungs-ID;Mediendatei;Subjekt;Verhalten;Verhaltenstyp;Zeit\n"
     + EVENTS.format("PUNKT")),
    ("x.csv", BORIS, "Id observation;Fichier média;Sujet;Comportement;Statut;Temps\n" + EVENTS.format("POINT")),
    ("x.csv", BORIS, "Id de observación;Archivo multimedia;Sujeto;Conducta;Tipo de conducta;Inicio (s);Fin (s)\n"
     "a;tea.mp4;;rühren;STATE;1,5;4,0\na;tea.mp4;;tippen;PUNTO;4,5;4,5\n"),
    ("x.vtt", TWO, "WEBVTT - a title\nKind: captions\n\nNOTE\nmade by hand\n\nSTYLE\n::cue { color: lime }\n\n"
     "first\n00:00.000 --> 00:01.500 line:0 align:end\n<v Ann>pour <i>tea</i></v>\n\n"
     "00:00:01.500 --> 00:01:02.250\nstir\n"),
    ("x.srt", TWO, "00:00:00,000 --> 00:00:01,500\npour\ntea\n\n\n2\n00:00:01.500 --> 00:01:02.250 X1:0\nstir\n"),
    *((name, (Segment(0.0, 1.5, "7 pour tea"), TWO[1]),  # no blank line between cues
       f"{head}{one}00:00:00.000 --> 00:00:01.500\n7\npour tea\n{two}00:00:01.500 --> 00:01:02.250\nstir\n")
      for name, head in (("x.srt", ""), ("x.vtt", "WEBVTT\n\n")) for one, two in (("", ""), ("1\n", "2\n"))),
    ("x.srt", (Segment(0, 1.5, "7"), TWO[1]),
     "00:00:00,000 --> 00:00:01,500\n7\n00:00:01.500 --> 00:01:02.250\nstir\n"),
    # Audacity with frequencies and decimal commas
    ("x.txt", TWO, "0,000000\t1,500000\tpour tea\n\\\t100.0\t200.0\n1,500000\t62,250000\tstir\n"),
    # ranges of frames, at 10 per second
    ("x.txt", ((4, 78, "G1"), (78, 90, "G2")), "5 78 G1\n79 90 G2 \n"),
    ("x.txt", ((4, 78, "G1"), (78, 90, "tie the knot")), "5 78 G1 \r\n79 90 tie the knot\r\n"),
    ("x.txt", ((30, 40, "pour"),), "1-30 SIL\n31-40 pour\n"),
    ("x.txt", ((4, 5, "a"),), "5 5 a\n"),
    ("x.txt", ((0, 10, "a"), (10, 20, "b")), "0 9 a\n10 19 b\n"),
    ("x.txt", ((0, 10, "a"), (10, 21, "b")), "0 10 a\n10 20 b\n"),  # touching, not overlapping
    ("x.txt", ((0, 15, "a"), (15, 20, "b c")), "0.0 1.5 a\n1.5 2 b c\n"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "expected", "text"), TEXTS)
def test_the_same_segments_in_many_dialects(name, expected, text, tmp_path):
    (tmp_path / name).write_bytes(text.encode())
    frames = name == "x.txt" and "\t" not in text
    if frames:
        expected = tuple(Segment(a / 10, b / 10, step) for a, b, step in expected)
    timeline = read(tmp_path / name, rate=10 if frames else None)
    assert timeline.segments == expected
    if expected == BORIS:
        assert timeline.video == "tea.mp4"
        assert read_all(tmp_path / name, "boris-events") == [timeline]


@pytest.mark.parametrize("text", [
    "behavior,start,end\npour,0,1.5\n",
    "tmin\ttier\ttext\ttmax\n0\tsteps\tpour\t1.5\n",
    "frame_start,frame_end,action\n0,15,pour\n",
    "onset,duration,name\n0,1.5,pour\n",
    "Tier\tBegin Time - hh:mm:ss.ms\tEnd Time - hh:mm:ss.ms\tAnnotation\nann\t00:00:00.000\t00:00:01.500\tpour\n",
    "ann\t\t00:00:00.000\t0.0\t00:00:01.500\t1.5\t00:00:01.500\t1.5\tpour\n",
])  # fmt: skip
@pytest.mark.parametrize("suffix", ["csv", "tsv", "txt"])
def test_columns_under_the_names_that_people_have(text, suffix, tmp_path):
    path = tmp_path / f"x.{suffix}"
    path.write_text(text if suffix == "csv" else text.replace(",", "\t"))
    assert read(path, "csv", rate=10).segments == (Segment(0, 1.5, "pour"),)
    if "frame" not in text or suffix != "txt":
        assert read(path, rate=10).segments == (Segment(0, 1.5, "pour"),)


def test_two_columns_of_datavyu_are_two_annotators(tmp_path):
    (tmp_path / "x.csv").write_text(
        "#4\nhand (MATRIX,true,)-code01|NOMINAL\n00:00:00:000,00:00:01:500,(pour tea)\n"
        "00:00:01:500,00:01:02:250,(stir)\neye (MATRIX,true,)-code01|NOMINAL\n00:00:03:000,00:00:04:000,()\n"
    )
    assert read(tmp_path / "x.csv", annotator="hand").segments == TWO
    with raises(AnnotationError, "'hand', 'eye'"):
        read(tmp_path / "x.csv")


def test_excel_files_are_tables(tmp_path, monkeypatch):
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
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with raises(ExtraNeeded, "pip install", "xlsx"):
        read(path)


STEPS = {
    "cp1251": ["нарезать хлеб", "Намазать масло"],
    "shift_jis": ["パンを切る", "バターを塗る"],
    "cp1252": ["Öl einfüllen", "crêpe – flip"],
    "latin-1": ["pain à la crème", "é"],
}


@pytest.mark.parametrize("encoding", list(STEPS))
def test_encodings_are_found_out_and_reported(encoding, tmp_path, caplog):
    rows = [f"{k},{k + 1},{step}\n" for k, step in enumerate(STEPS[encoding])]
    for name in ("x.csv", "y.csv"):
        (tmp_path / name).write_bytes("".join(["start,end,label\n", *rows]).encode(encoding))
    with caplog.at_level(logging.WARNING, "stepcut"):
        assert read(tmp_path / "x.csv").sequence() == STEPS[encoding]
        read(tmp_path / "y.csv")
    assert caplog.text.count("not UTF-8") == 1  # once for the folder
    assert read(tmp_path / "x.csv", encoding=encoding).sequence() == STEPS[encoding]


@pytest.mark.parametrize(("encoding", "step"), [("gb18030", "切面包"), ("euc_kr", "빵을 자르다")])
def test_an_encoding_that_is_not_clear_is_asked_for(encoding, step, tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(f"0,1,{step}\n".encode(encoding))
    with raises(AnnotationError, "--encoding"):
        read(path)
    assert read(path, encoding=encoding).sequence() == [step]
    with raises(OptionError, setting="encoding", value="utf-9"):
        read(path, encoding="utf-9")
    with raises(AnnotationError, "utf-8", line=1):
        read(path, encoding="utf-8")


def test_xml_says_its_encoding(tmp_path):
    path = tmp_path / "x.eaf"
    write(path, Timeline([Segment(0, 1, "切面包")], video="x"))
    text = path.read_text("utf-8").replace('encoding="UTF-8"', 'encoding="gb18030"')
    path.write_bytes(text.encode("gb18030"))
    assert read(path).sequence() == ["切面包"]


@pytest.mark.parametrize("text", [
    "time,step\n1.5,tap\n3,stir\n", "Zeit;Schritt\n1,5;tap\n3;stir, well\n",
    "start,end,label\n1.5,,tap\n3,4,stir\n", "1.5,,tap\n3,4,stir\n", "1.5,,tap\n",
    "start,duration,label\n1.5,,tap\n3,1,stir\n", "start,end,label\n1.5,1.5,tap\n",
    "note,time,step\nx,1.5,tap\n",
])  # fmt: skip
def test_rows_with_a_start_only_are_clicks(text, tmp_path):
    (tmp_path / "x.csv").write_text(text)
    timeline = read(tmp_path / "x.csv")
    assert timeline.clicks[0] == Segment(1.5, 1.5, "tap")
    assert all(segment.step == "tap" or segment.start == 3 for segment in timeline)


def test_a_column_that_may_be_the_end_is_asked_about(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("start,done_at,label\n1.5,2,tap\n3,4,stir\n")
    with raises(AnnotationError, "column for end"):
        read(path)
    assert read(path, columns="end=done_at").intervals[0] == Segment(1.5, 2, "tap")
    assert len(read(path, columns="start=start,step=label").clicks) == 2
    path.write_text("1.5,pour\n2.5,stir\n")  # may be numbers and names
    with raises(AnnotationError):
        read(path)


def test_clicks_of_elan_and_label_studio(tmp_path):
    write(tmp_path / "x.eaf", Timeline([Segment(0, 2, "pour"), Segment(3, 3, "tap")], video="x"))
    text = (tmp_path / "x.eaf").read_text()
    assert 'TIME_VALUE="3001"' in text  # ELAN needs a length
    (tmp_path / "x.eaf").write_text(text.replace("3001", "3000"))
    assert read(tmp_path / "x.eaf").clicks == (Segment(3, 3, "tap"),)
    sound = {"type": "labels", "value": {"start": 4.0, "end": 4.0, "labels": ["step 11"]}}
    (tmp_path / "x.json").write_text(frames((11, 11), (21, 30), fps=10, more=[sound]))
    assert read(tmp_path / "x.json").segments == (
        Segment(1, 1, "step 11"), Segment(2, 3, "step 21"), Segment(4, 4, "step 11"),
    )  # fmt: skip


def test_mstcn_with_a_mapping(tmp_path):
    truth, mapping = tmp_path / "groundTruth", tmp_path / "mapping.txt"
    truth.mkdir()
    for name, words in {"a": "SIL stir stir SIL", "b": "pour_tea pour_tea"}.items():
        (truth / f"{name}.txt").write_text(words.replace(" ", "\n") + "\n")
    mapping.write_text("0 SIL\n1 pour_tea\n2 stir\n")
    found = read_folder(tmp_path, rate=2)
    assert (found["a"].segments, found["a"].duration) == ((Segment(0.5, 1.5, "stir"),), 2.0)
    assert found["b"].steps == ("pour_tea", "stir")
    (truth / "a.txt").write_text("fry\n")
    with raises(AnnotationError, "'fry'", "mapping.txt", line=1):
        read_folder(tmp_path, rate=2)
    mapping.write_text("0 SIL\nfry\n")
    with raises(AnnotationError, "mapping.txt, line 2"):
        read_folder(tmp_path, rate=2)
    more = tmp_path / "more"
    truth, mapping = more / "groundTruth", more / "mapping.txt"
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


def test_frames_do_not_drift_at_ntsc_rates(tmp_path):
    hour = Timeline([Segment(3599.0, 3600.0, "end")], 3600.0)
    write(tmp_path / "x.txt", hour, "mstcn", rate="30000/1001")
    again = read(tmp_path / "x.txt", "mstcn", rate=29.97)
    assert again.duration == pytest.approx(3600.0, abs=0.04)
    assert again.segments[0].start == pytest.approx(3599.0, abs=0.04)
    exact = Timeline([Segment(0, 1001.0, "long")], video="v")
    write(tmp_path / "x.json", exact, "label-studio", rate=Fraction(30000, 1001))
    (task,) = json.loads((tmp_path / "x.json").read_text())
    assert task["predictions"][0]["result"][0]["value"]["ranges"] == [{"start": 1, "end": 30000}]
    assert read(tmp_path / "x.json").segments[0].end == 1001.0


def frames(*ranges, fps=25, more=None):
    regions = [
        {"type": "timelinelabels", "value": {"ranges": [{"start": a, "end": b}], "timelinelabels": [f"step {a}"]}}
        for a, b in ranges
    ]  # fmt: skip
    done = [{"result": regions + (more or [])}]
    return json.dumps([{"data": {"name": "v", "fps": fps}, "annotations": done}])


@pytest.mark.parametrize(("name", "text", "rate", "ends"), [
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
])  # fmt: skip
def test_neighbours_that_overlap_by_rounding_touch(name, text, rate, ends, tmp_path):
    (tmp_path / name).write_text(text)
    assert [segment.end for segment in read(tmp_path / name, rate=rate)] == ends


@pytest.mark.parametrize("text", [
    "0,1,1 break egg\n2,3,9 put omelette in the plate\n3,4,2 mix\n",
    "0,1,1. break egg\n2,3,9. put omelette in the plate\n3,4,2. mix\n",
    "0.0,1.0,1) break egg\n2,3,9:put omelette in the plate\n3,4,2.mix\n",
    "0;1;1 break egg\n2;3;9 put omelette in the plate\n3;4;2 mix\n",
])  # fmt: skip
def test_egoprocel_numbers_sort_the_vocabulary(text, tmp_path):
    path = tmp_path / "S07_Eggs.csv"
    path.write_text(text)
    timeline = read(path)
    assert timeline.steps == ("break egg", "mix", "put omelette in the plate")
    assert timeline.sequence() == ["break egg", "put omelette in the plate", "mix"]
    assert timeline.video == "S07_Eggs"
    path.write_text("0,1,1 cut, carefully\n1,2,2 stir\n2,3,5 stir\n")
    assert read(path).steps == ("cut, carefully", "stir", "stir (5)")


def test_activitynet_ground_truth_and_results(tmp_path):
    path = tmp_path / "t.json"
    segments = [{"segment": [one.start, one.end], "label": one.step} for one in TWO]
    truth = {
        "taxonomy": [{"nodeName": name} for name in ("Root", "stir", "wash", "pour tea")],
        "database": {
            "v_1": {"duration": 90.5, "subset": "training", "annotations": segments},
            "v_2": {"duration": 3, "subset": "testing", "annotations": []},
        },
    }
    for more in ({}, {"results": {}}):  # both kinds are a ground truth
        path.write_text(json.dumps({**truth, **more}))
        assert read_all(path) == [
            Timeline(TWO, 90.5, ("stir", "pour tea"), "v_1"), Timeline([], 3.0, video="v_2"),
        ]  # fmt: skip
    results = {"v_1": [{"label": "stir", "score": 0.25, "segment": [0, 2]}]}
    path.write_text(json.dumps({"version": "x", "results": results}))
    assert read(path).segments[0].confidence == 0.25
    path.write_text(json.dumps({"database": {}}))
    assert read_all(path) == []


@pytest.mark.parametrize("more", [{}, {"video": None, "steps": None}])
def test_native_json_reads_what_other_programs_leave_out(more, tmp_path):
    parts = [{"start": 0, "end": 1.5, "step": "pour tea"}]
    record = {"format": "stepcut timeline", "segments": parts, **more}
    (tmp_path / "tea.json").write_text(json.dumps(record))
    assert read(tmp_path / "tea.json") == Timeline([TWO[0]], video="tea")


def label_studio_export(name="v"):
    def region(first, last, label):
        value = {"ranges": [{"start": first, "end": last}], "timelinelabels": [label]}
        return {"type": "timelinelabels", "from_name": "steps", "to_name": "video", "value": value}

    sound = {"type": "labels", "value": {"start": 4.0, "end": 5.5, "labels": ["stir"]}}
    other = {"type": "choices", "value": {"choices": ["fine"]}}
    relation = {"type": "relation", "from_id": "a", "to_id": "b"}
    ann = {"id": 8, "email": "ann@example.org"}
    return {
        "id": 1,
        "data": {"video": "/data/upload/1/ab12-v.mp4", "name": name, "fps": 10.0, "rate": "10", "steps": ["stir"]},
        "annotations": [
            {"completed_by": 7, "was_cancelled": True, "result": []},
            {"completed_by": ann, "was_cancelled": False, "result": [region(11, 20, "pour tea"), sound, other, relation]},
        ],
        "predictions": [{"model_version": "stepcut", "result": [region(1, 5, "stir")]}],
    }  # fmt: skip


def test_label_studio_export_gives_the_corrected_labels(tmp_path):
    path, task = tmp_path / "export.json", label_studio_export()

    def segments(annotator=None, **changes):
        path.write_text(json.dumps([{**task, **changes}]))
        return read(path, annotator=annotator).segments

    expected = (Segment(1.0, 2.0, "pour tea"), Segment(4.0, 5.5, "stir"))
    assert segments() == segments("ann@example.org") == expected
    assert read(path) == Timeline(expected, None, ("stir", "pour tea"), "v")
    with raises(AnnotationError, "'bob'", "['8', 'ann@example.org']"):
        segments("bob")
    skipped = [*task["annotations"], {"was_cancelled": 1, "result": []}]
    assert segments(predictions=[12], annotations=skipped) == expected
    assert segments(annotations=[]) == (Segment(0.0, 0.5, "stir"),)
    task["annotations"][0]["was_cancelled"] = False
    with raises(AnnotationError, "['7', 'ann@example.org']"):
        segments()
    assert segments("7") == ()
    task["annotations"][1]["result"][0]["value"]["timelinelabels"].append("wait")
    assert segments("8")[:2] == (Segment(1, 2, "pour tea"), Segment(1, 2, "wait"))


def test_predictions_that_nobody_confirmed_are_no_labels(tmp_path):
    path = tmp_path / "export.json"
    done, skipped, untouched = map(label_studio_export, "vwx")
    skipped["annotations"] = [{"completed_by": 8, "was_cancelled": True, "result": []}]
    untouched["annotations"] = []
    path.write_text(json.dumps([done, skipped, untouched]))
    assert list(read_folder(path)) == ["v"]
    assert list(read_labels(path)) == list(read_truth(path)[0]) == ["v"]
    path.write_text(json.dumps([skipped, untouched]))
    assert list(read_folder(path)) == ["w", "x"]
    for read_them in (read_labels, read_truth):
        with raises(AnnotationError, "predictions", "all 2"):
            read_them(path)


def test_videos_that_an_annotator_has_not_done_are_left_out(tmp_path):
    both, one = label_studio_export(), label_studio_export("w")
    both["annotations"][0]["was_cancelled"] = False
    (tmp_path / "export.json").write_text(json.dumps([one, both]))
    people = "annotator,video,start,end,label\n8,w,0,2,y\n8,v,0,2,x\n7,v,0,3,x\n"
    (tmp_path / "people.csv").write_text(people)
    for name in ("export.json", "people.csv"):
        assert list(read_folder(tmp_path / name, annotator="7")) == ["v"]
        assert list(read_folder(tmp_path / name, annotator="8")) == ["w", "v"]
        with raises(AnnotationError, "'eve'", "all 2"):
            read_folder(tmp_path / name, annotator="eve")
    for name, person in (("v", "ann"), ("w", "bob")):
        one = Timeline([Segment(0, 1, "pour")], video=name)
        write(tmp_path / "eaf" / f"{name}.eaf", one, annotator=person)
    assert list(read_folder(tmp_path / "eaf", annotator="bob")) == ["w"]


def test_label_studio_tasks_have_what_its_import_needs(tmp_path):
    name, path = 'pour "tea" & milk', tmp_path / "tasks.json"
    timeline = Timeline([Segment(0, 1.5, name, 0.5), Segment(1.5, 2.0, "stir")], 3.0, video="v.mp4")
    mine = tmp_path / "tasks.config.xml"
    mine.write_text("<View>mine</View>")
    for _ in range(2):  # the second time, the content is the same and there is no backup
        write(path, timeline, "label-studio", rate=29.97)
    assert [each.name for each in tmp_path.glob("*.bak")] == ["tasks.config.xml.1.bak"]
    assert (tmp_path / "tasks.config.xml.1.bak").read_text() == "<View>mine</View>"
    (task,) = json.loads(path.read_text())
    assert task["data"]["video"] == "v.mp4"
    assert task["data"]["fps"] == pytest.approx(29.97, abs=1e-3)
    (prediction,) = task["predictions"]
    assert (prediction["model_version"], prediction["score"]) == ("stepcut", 0.5)
    first, second = prediction["result"]
    assert first["value"] == {"ranges": [{"start": 1, "end": 45}], "timelinelabels": [name]}
    assert second["value"]["ranges"] == [{"start": 46, "end": 60}]
    control, video = etree.fromstring(mine.read_text())
    assert (control.tag, video.tag) == ("TimelineLabels", "Video")
    assert (control.get("toName"), first["to_name"]) == (video.get("name"), video.get("name"))
    assert {first["from_name"], second["from_name"]} == {control.get("name")}
    assert [label.get("value") for label in control] == [name, "stir"]
    assert (video.get("value"), video.get("frameRate")) == ("$video", "$fps")


CUT = {"a.mp4": ["cut", "butter", "jam", "butter"], "b.mp4": ["jam"]}


@pytest.mark.parametrize(("name", "text", "expected"), [
    ("t.txt", "# by ann\na.mp4: cut, butter, jam, butter\n\nb.mp4: jam\n", CUT),
    ("t.txt", "a.mp4:cut;butter;jam;butter\nb.mp4 : jam", CUT),
    ("t.csv", "a.mp4,cut,butter,jam,butter\nb.mp4,jam,,,\n", CUT),
    ("t.csv", "video,steps\na.mp4,\"cut, butter, jam, butter\"\nb.mp4,jam\n", CUT),
    ("t.csv", "Datei;Schritte\na.mp4;cut;butter;jam;butter\nb.mp4;jam\n", CUT),
    ("t.tsv", "a.mp4\tcut\tbutter\tjam\tbutter\nb.mp4\tjam\n", CUT),
    ("t.txt", "C:\\films\\a.mp4: cut, stir: well\n", {"C:\\films\\a.mp4": ["cut", "stir: well"]}),
])  # fmt: skip
def test_transcripts(name, text, expected, tmp_path):
    (tmp_path / name).write_text(text)
    assert read_transcripts(tmp_path / name) == expected
