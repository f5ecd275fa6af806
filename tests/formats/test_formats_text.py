"""Frame ranges, encodings, column names in four languages, clicks of other programs, transcripts."""

import json
import logging
from pathlib import Path

import pytest
from errors_kit import raises

from stepcut.errors import AnnotationError, OptionError
from stepcut.formats import read, read_all, read_folder, read_transcripts, write
from stepcut.timeline import Segment, Timeline

KNOTS = Path(__file__).parents[3] / "shared" / "data" / "knot_tying" / "gestures"


# ------------------------------------------------------------------------------- ranges of frames


@pytest.mark.data
@pytest.mark.skipif(not KNOTS.is_dir(), reason=f"{KNOTS} is absent")
def test_gestures_of_knot_tying():
    found = read_folder(KNOTS, rate=30)
    assert len(found) == len(list(KNOTS.glob("*.txt")))
    assert {step for timeline in found.values() for step in timeline.steps} <= {
        f"G{number}" for number in range(1, 16)
    }
    first = found["Knot_Tying_S02_T01"].segments
    assert first[0] == Segment(44 / 30, 85 / 30, "G12")
    assert first[0].end == first[1].start  # frame 86 follows frame 85
    for file in KNOTS.glob("*.txt"):
        lines = [line.split() for line in file.read_text().splitlines() if line.strip()]
        frames = sum(int(last) - int(first) + 1 for first, last, _ in lines)
        seconds = sum(segment.duration for segment in found[file.stem])
        assert seconds == pytest.approx(frames / 30, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("5 78 G1\n79 90 G2 \n", [(4, 78, "G1"), (78, 90, "G2")]),
        ("5 78 G1 \r\n79 90 tie the knot\r\n", [(4, 78, "G1"), (78, 90, "tie the knot")]),
        ("1-30 SIL\n31-40 pour\n", [(30, 40, "pour")]),
        ("0 9 a\n10 19 b\n", [(0, 10, "a"), (10, 20, "b")]),
        ("0 10 a\n10 20 b\n", [(0, 10, "a"), (10, 21, "b")]),  # touching, not overlapping
        ("0.0 1.5 a\n1.5 2 b c\n", [(0, 15, "a"), (15, 20, "b c")]),
    ],
)
def test_lines_of_first_and_last_frame(text, segments, tmp_path):
    path = tmp_path / "groundTruth" / "v.txt"
    path.parent.mkdir()
    path.write_bytes(text.encode())
    expected = tuple(Segment(a / 10, b / 10, step) for a, b, step in segments)
    assert read(path, rate=10).segments == expected


def test_ranges_without_a_rate_are_refused(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text("5 78 G1\n")
    with raises(AnnotationError, setting="rate"):
        read(path)
    path.write_text("78 5 G1\n")
    with raises(AnnotationError, path=str(path), line=1):
        read(path, rate=30)
    path.write_text("5 78 G1\nG2\n")
    with raises(AnnotationError, path=str(path), line=2):
        read(path, "frame-ranges", rate=30)


# ------------------------------------------------------------------------------- encodings

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
    with pytest.raises(AnnotationError, match="--encoding"):
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


def test_csv_opens_in_excel_with_umlauts(tmp_path):
    write(tmp_path / "x.csv", Timeline([Segment(0, 1, "Öl einfüllen")]))
    assert (tmp_path / "x.csv").read_bytes().startswith(b"\xef\xbb\xbfstart,end,label\n")
    assert read(tmp_path / "x.csv").sequence() == ["Öl einfüllen"]


# ------------------------------------------------------------------------------- column names


@pytest.mark.parametrize(
    "text",
    [
        "Anfang;Ende;Schritt\n0,0;1,5;rühren\n",
        "Beginn (s);Dauer (s);Tätigkeit\n0;1,5;rühren\n",
        "Début;Fin;Étape\n0,0;1,5;rühren\n",
        "Début [s];Durée [s];Libellé\n0;1,5;rühren\n",
        "Inicio;Fin;Acción\n00:00:00,0;00:00:01,5;rühren\n",
        "Comportamiento;Tiempo inicial;Tiempo final\nrühren;0;1,5\n",
    ],
)
def test_headings_of_excel_in_other_languages(text, tmp_path):
    (tmp_path / "x.csv").write_text(text, encoding="utf-8-sig")
    assert read(tmp_path / "x.csv").segments == (Segment(0, 1.5, "rühren"),)


@pytest.mark.parametrize(
    "text",
    [
        "Beobachtungs-ID;Mediendatei;Subjekt;Verhalten;Verhaltenstyp;Zeit\n"
        "a;tea.mp4;;rühren;START;1,5\na;tea.mp4;;rühren;STOP;4,0\na;tea.mp4;;tippen;PUNKT;4,5\n",
        "Id observation;Fichier média;Sujet;Comportement;Statut;Temps\n"
        "a;tea.mp4;;rühren;START;1,5\na;tea.mp4;;rühren;STOP;4,0\na;tea.mp4;;tippen;POINT;4,5\n",
        "Id de observación;Archivo multimedia;Sujeto;Conducta;Tipo de conducta;Inicio (s);Fin (s)\n"
        "a;tea.mp4;;rühren;STATE;1,5;4,0\na;tea.mp4;;tippen;PUNTO;4,5;4,5\n",
    ],
)
def test_headings_of_boris_in_other_languages(text, tmp_path):
    (tmp_path / "x.csv").write_text(text)
    (timeline,) = read_all(tmp_path / "x.csv", "boris-events")
    assert timeline.segments == (Segment(1.5, 4, "rühren"), Segment(4.5, 4.5, "tippen"))
    assert timeline.video == "tea.mp4"
    assert read(tmp_path / "x.csv") == timeline


# ------------------------------------------------------------------------------- clicks


@pytest.mark.parametrize(
    "text",
    [
        "time,step\n1.5,tap\n3,stir\n",
        "Zeit;Schritt\n1,5;tap\n3;stir, well\n",
        "start,end,label\n1.5,,tap\n3,4,stir\n",
        "1.5,,tap\n3,4,stir\n",
        "1.5,,tap\n",
        "start,duration,label\n1.5,,tap\n3,1,stir\n",
        "start,end,label\n1.5,1.5,tap\n",
        "note,time,step\nx,1.5,tap\n",
    ],
)
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
    with pytest.raises(AnnotationError):
        read(path)


def test_clicks_of_elan_and_label_studio(tmp_path):
    write(tmp_path / "x.eaf", Timeline([Segment(0, 2, "pour"), Segment(3, 3, "tap")], video="x"))
    text = (tmp_path / "x.eaf").read_text()
    assert 'TIME_VALUE="3001"' in text  # ELAN needs a length
    (tmp_path / "x.eaf").write_text(text.replace("3001", "3000"))
    assert read(tmp_path / "x.eaf").clicks == (Segment(3, 3, "tap"),)
    regions = [
        {"type": "timelinelabels", "value": {"ranges": [{"start": a, "end": b}], "timelinelabels": ["tap"]}}
        for a, b in [(11, 11), (21, 30)]
    ]  # fmt: skip
    regions.append({"type": "labels", "value": {"start": 4.0, "end": 4.0, "labels": ["tap"]}})
    tasks = [{"data": {"name": "v", "fps": 10}, "annotations": [{"result": regions}]}]
    (tmp_path / "x.json").write_text(json.dumps(tasks))
    timeline = read(tmp_path / "x.json")
    assert timeline.clicks == (Segment(1, 1, "tap"), Segment(4, 4, "tap"))
    assert timeline.intervals == (Segment(2, 3, "tap"),)


def test_point_events_of_boris_are_written_as_such(tmp_path):
    timeline = Timeline([Segment(0, 2, "pour"), Segment(1, 1, "pour"), Segment(3, 3, "tap")])
    write(tmp_path / "x.boris", timeline)
    conf = json.loads((tmp_path / "x.boris").read_text())["behaviors_conf"].values()
    assert {each["code"]: each["type"] for each in conf} == {
        "pour": "State event",
        "tap": "Point event",
    }
    assert read(tmp_path / "x.boris").segments == timeline.segments


# ------------------------------------------------------------------------------- transcripts


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.txt", "# by ann\na.mp4: cut, butter, jam, butter\n\nb.mp4: jam\n"),
        ("t.txt", "a.mp4:cut;butter;jam;butter\nb.mp4 : jam"),
        ("t.csv", "a.mp4,cut,butter,jam,butter\nb.mp4,jam,,,\n"),
        ("t.csv", "video,steps\na.mp4,\"cut, butter, jam, butter\"\nb.mp4,jam\n"),
        ("t.csv", "Datei;Schritte\na.mp4;cut;butter;jam;butter\nb.mp4;jam\n"),
        ("t.tsv", "a.mp4\tcut\tbutter\tjam\tbutter\nb.mp4\tjam\n"),
    ],
)  # fmt: skip
def test_transcripts(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    found = read_transcripts(tmp_path / name)
    assert found == {"a.mp4": ["cut", "butter", "jam", "butter"], "b.mp4": ["jam"]}


def test_a_transcript_of_a_video_on_a_drive(tmp_path):
    (tmp_path / "t.txt").write_text("C:\\films\\a.mp4: cut, stir: well\n")
    assert read_transcripts(tmp_path / "t.txt") == {"C:\\films\\a.mp4": ["cut", "stir: well"]}


@pytest.mark.parametrize(
    ("name", "text", "line", "word"),
    [
        ("t.txt", "a: cut\nb cut, jam\n", 2, "colon"),
        ("t.txt", "a: cut\na: jam\n", 2, "line 1"),
        ("t.txt", "a: cut\nb:\n", 2, "'b'"),
        ("t.txt", "a: cut,, jam\n", 1, "'a'"),
        ("t.txt", ": cut\n", 1, "no video"),
        ("t.txt", "a: cut\x1b[2J\n", 1, "control"),
        ("t.txt", "# nothing\n", None, "no transcript"),
        ("t.csv", "a,cut\nb,,jam\n", 2, "'b'"),
        ("t.csv", "a,cut\n,jam\n", 2, "no video"),
        ("t.csv", "video,steps\n", None, "no transcript"),
        ("t.csv", "", None, "empty"),
    ],
)
def test_transcripts_that_make_no_sense(name, text, line, word, tmp_path):
    (tmp_path / name).write_text(text)
    with raises(AnnotationError, name, word, line=line):
        read_transcripts(tmp_path / name)
