"""Bad files: unusual encodings are read, unreadable files are refused with file and line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepcut.errors import AnnotationError, OptionError
from stepcut.formats import FORMATS, common, read, read_folder, write, write_folder
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


def put(folder: Path, name: str, data: bytes | str, stem: str = "x") -> Path:
    path = folder / f"{stem}{SUFFIX[name]}"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize("name", list(TEXT))
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_encodings_and_line_ends(name: str, ending: str, encoding: str, tmp_path: Path) -> None:
    path = put(tmp_path, name, TEXT[name].replace("\n", ending).encode(encoding))
    assert read(path, name, rate=2).segments == CREPE


def test_windows_characters_that_latin_1_lacks(tmp_path: Path) -> None:
    path = put(tmp_path, "csv", "0,1,cook “slow” – €5\n".encode("cp1252"))
    assert read(path).sequence() == ["cook “slow” – €5"]


def test_latin_1_bytes_that_windows_lacks(tmp_path: Path) -> None:
    path = put(tmp_path, "csv", b"0,1,cr\xeape \x81\n")
    assert read(path).sequence() == ["crêpe \x81"]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("data", [b"", b"\n \r\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(name: str, data: bytes, tmp_path: Path) -> None:
    path = put(tmp_path, name, data)
    with pytest.raises(AnnotationError, match=r"x\.\w+: is empty\."):
        read(path, name, rate=2)
    with pytest.raises(AnnotationError, match="is empty"):
        read(path, rate=2)


@pytest.mark.parametrize("name", ALL)
def test_a_folder_is_refused(name: str, tmp_path: Path) -> None:
    folder = tmp_path / f"x{SUFFIX[name]}"
    folder.mkdir()
    with pytest.raises(AnnotationError, match=r"is a folder, not a label file\. .*read_folder"):
        read(folder, name, rate=2)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        AnnotationError, match=r"no\.csv: cannot be opened \(No such file or directory\)"
    ):
        read(tmp_path / "no.csv")


@pytest.mark.parametrize("name", ALL)
def test_a_huge_file_is_refused_before_it_is_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{SUFFIX[name]}"
    with path.open("wb") as file:
        os.truncate(file.fileno(), common.LIMIT + 1)  # a sparse file
    with pytest.raises(AnnotationError, match=r"has 256 MB; .*Is it a video\?"):
        read(path, name, rate=2)


@pytest.mark.parametrize("name", ALL)
def test_a_video_by_mistake_is_refused(name: str, tmp_path: Path) -> None:
    path = put(tmp_path, name, b"\x00\x00\x00 ftypisom\x00\x00\x02\x00")
    with pytest.raises(AnnotationError, match="zero bytes"):
        read(path, name, rate=2)


@pytest.mark.parametrize("name", ["json", "label-studio", "activitynet", "fiftyone"])
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{\n "format":\n', r"line 3: is not JSON: Expecting value"),
        ("[" * 100_000, r"nested too deep|is not JSON"),
        ('"words"', r"x\.json: "),
        ("[]", r"x\.json: "),
        ("{}", r"x\.json: "),
    ],
)
def test_json_that_is_none(name: str, text: str, what: str, tmp_path: Path) -> None:
    path = put(tmp_path, name, text)
    with pytest.raises(AnnotationError, match=what):
        read(path, name)
    with pytest.raises(AnnotationError, match=what):
        read(path)


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("csv", "0,1,a\n2,x,b\n", r"line 2: 'x' is not a time\. Write seconds"),
        ("csv", "0,1,a\n\n3,2,b\n", r"line 3: .*the end 2 s is before the start 3 s"),
        ("csv", "0,0,1,5,a\n1,5,2,5,b\n", r"line 1: 0,0,1,5 may be two times or four"),
        ("csv", "# soon\n", "has no rows"),
        ("csv", "0,1,a\n1,2\n", r"line 2: \['1', '2'\] has too few columns"),
        ("csv", "0,1,a\n1,2, \n", "line 2: the label is empty"),
        ("csv", "when,what\n1,2\n", r"line 1: the header \['when', 'what'\] has no column for start, end, step"),
        ("csv", '0,1,"a\nb"\n1,2,\n', "line 3: the label is empty"),  # the line of the file, not of the table
        ("csv", "0,1,a\n0,5,pour, then stir\n", "line 2: .* has more than 3 columns"),
        ("csv", "start,end,label\n0,5,pour, then stir\n", "line 2: .* has more than 3 columns"),
        ("csv", "0,1,a,0.9\n", r"more than 3 columns\. Quote .* start,end,label,confidence"),
        ("csv", "0,1,a\n1,2,b\x1b[2J\n", "line 2: the step name .* contains control characters"),
        ("egoprocel", "0,1,1 a\n1,2,b\n", r"line 2: 'b' does not begin with the number"),
        ("egoprocel", "0,1\n", "line 1: '' does not begin with the number"),
        ("vtt", "00:00.000 --> 00:01.000\na\n", r"line 1: does not begin with WEBVTT"),
        ("vtt", "WEBVTT\n\n00:00 -> 1\na\n\n00:01.000 --> later\nb\n", "line 6: 'later' is not a time"),
        ("srt", "1\n00:00:02,000 --> 00:00:01,000\na\n", "line 2: segment 'a': the end 1 s is before"),
        ("srt", "1\n00:00:01,000 --> 00:00:02,000\n\n", "line 2: the label is empty"),
        ("audacity", "0\t1\ta\nnonsense\n", "line 2: 'nonsense' is not a time"),
        ("audacity", "0\t1\t\n", "line 1: the label is empty"),
        ("mstcn", "a\n\nb\n", "line 2: the line is empty"),
        ("label-studio", '[{"data":{"video":"v"},"predictions":[{"result":[{"type":"timelinelabels","value":{"ranges":'
         '[{"start":1,"end":2}],"timelinelabels":["a"]}}]}]}]', "counts frames"),
        ("label-studio", '[{"data":{"fps":2},"predictions":[{"result":[{"type":"timelinelabels","value":{}}]}]}]',
         "Label Studio .*KeyError 'ranges'"),
        ("label-studio", '[{"data":{"fps":2},"predictions":[{"result":[{"type":"timelinelabels","value":{"ranges":'
         '[{"start":1,"end":2}],"timelinelabels":[]}}]}]}]', "a region .* has no label"),
        ("activitynet", '{"database":{"v":{"annotations":[{"label":"a"}]}}}', "ActivityNet JSON .KeyError"),
        ("activitynet", '{"results":{"v":[{"label":"a","segment":[0,"1"]}]}}', "'1' is not a number of seconds"),
        ("fiftyone", '{"labels":{"v":[{"label":"a"}]}}', "counts frames"),
        ("fiftyone", '{"labels":{"v":[{"label":3,"timestamps":[0,1]}]},"classes":["a"]}', "label 3 is not one"),
        ("fiftyone", '{"labels":{"v":[{"label":-1,"timestamps":[0,1]}]},"classes":["a"]}', "the label -1 is not one"),
        ("json", '{"format":"stepcut timeline","segments":[{"start":NaN,"end":1,"step":"a"}]}', "'nan' is not"),
        ("json", '{"format":"stepcut timeline","segments":[{"start":2,"end":1,"step":"a"}]}', "before the start"),
        ("json", '{"format":"stepcut timeline","segments":7}', "stepcut JSON .TypeError"),
        ("json", '{"format":"stepcut timeline","version":99,"segments":[]}', r"version 99 of a newer stepcut"),
        ("json", '{"format":"stepcut timeline","steps":["a","a"],"segments":[]}', "step names must be different"),
        ("elan", "<ANNOTATION_DOCUMENT/>", "has no tier"),
        ("elan", "<a><b></a>", "is not an ELAN file"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_with_its_place(
    name: str, text: str, what: str, tmp_path: Path
) -> None:
    with pytest.raises(AnnotationError, match=what) as caught:
        read(
            put(tmp_path, name, text),
            name,
            rate=None if "fps" not in text and name != "mstcn" else 2,
        )
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    "name", ["csv", "tsv", "egoprocel", "json", "activitynet", "fiftyone", "label-studio"]
)
def test_a_label_with_newlines_and_quoted_commas_is_kept(name: str, tmp_path: Path) -> None:
    step = 'salt,\npepper; "and" oil'
    path = tmp_path / f"x{SUFFIX[name]}"
    write(path, Timeline([Segment(0, 1, step)], video="x"), name, rate=10)
    assert read(path).sequence() == [step]


@pytest.mark.parametrize("name", ["elan", "vtt", "srt", "audacity", "mstcn", "frame-ranges"])
def test_a_label_with_newlines_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{SUFFIX[name]}"
    with pytest.raises(
        AnnotationError, match=r"has a line break, which format .* does not support"
    ):
        write(path, Timeline([Segment(0, 1, "salt\n\npepper")]), name, rate=2)
    assert not path.exists()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("step", ["bell \x07", "half \ud800", " \n "])
def test_names_that_no_file_can_hold_are_refused(name: str, step: str, tmp_path: Path) -> None:
    with pytest.raises(
        AnnotationError, match=r"is empty or contains control characters\. Rename it"
    ):
        write(tmp_path / f"x{SUFFIX[name]}", Timeline([Segment(0, 1, step)]), name, rate=2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ALL)
def test_times_before_the_video_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match=r"'a' from -1 s .* Use timeline\.crop"):
        write(tmp_path / f"x{SUFFIX[name]}", Timeline([Segment(-1, 1, "a")]), name, rate=2)


def test_two_names_that_would_become_one_are_refused(tmp_path: Path) -> None:
    timeline = Timeline([Segment(0, 1, "add jam"), Segment(1, 2, "add  jam")])
    with pytest.raises(AnnotationError, match=r"two steps have the name 'add jam' in format 'vtt'"):
        write(tmp_path / "x.vtt", timeline)


def test_unknown_suffix_and_format(tmp_path: Path) -> None:
    (tmp_path / "x.doc").write_text("hello")
    with pytest.raises(
        AnnotationError, match=r"the suffix '\.doc' is unknown\. Use one of \.json, \.csv"
    ):
        read(tmp_path / "x.doc")
    with pytest.raises(AnnotationError, match=r"the suffix '\.doc' is unknown"):
        write(tmp_path / "y.doc", Timeline([]))
    with pytest.raises(OptionError, match=r"format='elam' is unknown; did you mean 'elan'\?"):
        read(tmp_path / "x.doc", "elam")
    (tmp_path / "notes.txt").write_text("just some words\n")
    with pytest.raises(AnnotationError, match="not in a folder 'groundTruth'"):
        read(tmp_path / "notes.txt")
    (tmp_path / "x.json").write_text('{"a": 1}')
    with pytest.raises(AnnotationError, match="JSON of an unknown format. Supported: json, boris"):
        read(tmp_path / "x.json")


@pytest.mark.parametrize("rate", ["fast", 0, -1, "1/0", float("nan"), "1e999999999"])
def test_rates_that_are_none(rate: float | str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="is not a rate"):
        read(put(tmp_path, "mstcn", "a\n"), "mstcn", rate=rate)


def test_frames_without_a_rate(tmp_path: Path) -> None:
    path = put(tmp_path, "mstcn", "a\n")
    with pytest.raises(AnnotationError, match=r"Give rate=30 in Python, --rate 30"):
        read(path, "mstcn")
    with pytest.raises(AnnotationError, match="needs a frame rate"):
        write(tmp_path / "t.json", Timeline([Segment(0, 1, "a")], video="v"), "label-studio")


def test_folders_with_two_files_of_one_video_or_none(tmp_path: Path) -> None:
    put(tmp_path, "csv", "0,1,a\n", stem="v")
    put(tmp_path, "vtt", TEXT["vtt"], stem="v")
    with pytest.raises(AnnotationError, match=r"v\.vtt: the video 'v' is already in .*v\.csv"):
        read_folder(tmp_path)
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "README.txt").write_text("words")
    with pytest.raises(
        AnnotationError, match=r"no readable label file in this folder\. (?!.*\bxes\b)"
    ):
        read_folder(tmp_path / "none")


def test_a_folder_of_files_keeps_equal_names_apart_where_the_format_knows_the_video(
    tmp_path: Path,
) -> None:
    two = [Timeline([Segment(0, 1, "a")], video=f"/films/cam{number}/v.mp4") for number in (1, 2)]
    assert [path.name for path in write_folder(tmp_path, two, "elan")] == [
        "cam1_v.eaf",
        "cam2_v.eaf",
    ]
    assert list(read_folder(tmp_path)) == ["cam1/v", "cam2/v"]
    with pytest.raises(OptionError, match=r"one file \(\.json, \.csv\) for all"):
        write_folder(tmp_path, two, "vtt")


def test_many_timelines_into_a_format_for_one(tmp_path: Path) -> None:
    two = [Timeline([Segment(0, 1, "a")], video="v"), Timeline([Segment(0, 1, "a")], video="v")]
    with pytest.raises(OptionError, match="format 'vtt' stores one video per file"):
        write(tmp_path / "x.vtt", two)
    with pytest.raises(OptionError, match="two timelines have the video name 'v'"):
        write_folder(tmp_path, two, "vtt")
    for name in ("activitynet", "fiftyone", "boris", "json", "csv"):
        with pytest.raises(AnnotationError, match="two timelines have the video name 'v'"):
            write(tmp_path / "x", two, name)  # a table would merge the two
