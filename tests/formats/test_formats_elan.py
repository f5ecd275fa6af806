"""ELAN, checked against the structure of its schema; Praat TextGrid in both forms, and XES."""

import re
import xml.etree.ElementTree as etree

import pytest
from elan_kit import write_tiers
from errors_kit import raises

from stepcut.errors import AnnotationError
from stepcut.formats import read, write
from stepcut.timeline import Segment, Timeline

# From EAFv2.8.xsd: the order of children, and the required attributes of each element.
ORDER = [
    "LICENSE", "HEADER", "TIME_ORDER", "TIER", "LINGUISTIC_TYPE", "LOCALE", "LANGUAGE", "CONSTRAINT",
    "CONTROLLED_VOCABULARY", "LEXICON_REF", "EXTERNAL_REF",
]  # fmt: skip
REQUIRED = {
    name: set(words.split())
    for name, words in {
        "ANNOTATION_DOCUMENT": "DATE AUTHOR VERSION", "MEDIA_DESCRIPTOR": "MEDIA_URL MIME_TYPE",
        "TIME_SLOT": "TIME_SLOT_ID", "TIER": "TIER_ID LINGUISTIC_TYPE_REF",
        "ALIGNABLE_ANNOTATION": "ANNOTATION_ID TIME_SLOT_REF1 TIME_SLOT_REF2",
        "LINGUISTIC_TYPE": "LINGUISTIC_TYPE_ID", "LANGUAGE": "LANG_ID", "CONSTRAINT": "STEREOTYPE",
        "CONTROLLED_VOCABULARY": "CV_ID", "CV_ENTRY_ML": "CVE_ID", "CVE_VALUE": "LANG_REF",
        "DESCRIPTION": "LANG_REF",
    }.items()
}  # fmt: skip
OPTIONAL = {
    name: set(words.split())
    for name, words in {
        "ANNOTATION_DOCUMENT": "FORMAT {http://www.w3.org/2001/XMLSchema-instance}noNamespaceSchemaLocation",
        "HEADER": "MEDIA_FILE TIME_UNITS", "PROPERTY": "NAME", "TIME_SLOT": "TIME_VALUE",
        "MEDIA_DESCRIPTOR": "RELATIVE_MEDIA_URL TIME_ORIGIN EXTRACTED_FROM",
        "TIER": "PARTICIPANT ANNOTATOR DEFAULT_LOCALE PARENT_REF EXT_REF LANG_REF",
        "LINGUISTIC_TYPE": "TIME_ALIGNABLE CONSTRAINTS GRAPHIC_REFERENCES CONTROLLED_VOCABULARY_REF EXT_REF",
        "LANGUAGE": "LANG_DEF LANG_LABEL", "CONSTRAINT": "DESCRIPTION", "CVE_VALUE": "DESCRIPTION",
    }.items()
}  # fmt: skip
CHILDREN = {
    "HEADER": ["MEDIA_DESCRIPTOR", "LINKED_FILE_DESCRIPTOR", "PROPERTY"], "TIME_ORDER": ["TIME_SLOT"],
    "TIER": ["ANNOTATION"], "ANNOTATION": ["ALIGNABLE_ANNOTATION"], "CV_ENTRY_ML": ["CVE_VALUE"],
    "ALIGNABLE_ANNOTATION": ["ANNOTATION_VALUE"], "CONTROLLED_VOCABULARY": ["DESCRIPTION", "CV_ENTRY_ML"],
}  # fmt: skip
IDS = ("TIME_SLOT_ID", "ANNOTATION_ID", "LANG_ID", "CVE_ID")


def check_schema(path):
    root = etree.parse(path).getroot()
    assert root.tag == "ANNOTATION_DOCUMENT"
    for element in root.iter():
        order = ORDER if element is root else CHILDREN.get(element.tag, [])
        places = [order.index(child.tag) for child in element]
        assert places == sorted(places)
        must, may = REQUIRED.get(element.tag, set()), OPTIONAL.get(element.tag, set())
        assert must <= set(element.attrib) <= must | may, element.attrib
    assert [child.tag for child in root].count("HEADER") == 1
    assert [child.tag for child in root].count("TIME_ORDER") == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", root.attrib["DATE"])
    names = [e.attrib[k] for e in root.iter() for k in IDS if k in e.attrib]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[A-Za-z_][\w.-]*", name) for name in names)  # xsd:ID
    slots = {e.get("TIME_SLOT_ID"): int(e.get("TIME_VALUE")) for e in root.iter("TIME_SLOT")}
    assert list(slots.values()) == sorted(slots.values())
    types = {e.attrib["LINGUISTIC_TYPE_ID"]: e.attrib for e in root.iter("LINGUISTIC_TYPE")}
    vocabularies = {each.attrib["CV_ID"] for each in root.iter("CONTROLLED_VOCABULARY")}
    tiers = [tier.attrib["TIER_ID"] for tier in root.iter("TIER")]
    assert len(tiers) == len(set(tiers))
    used = []
    for tier in root.iter("TIER"):
        kind = types[tier.attrib["LINGUISTIC_TYPE_REF"]]
        assert kind["TIME_ALIGNABLE"] == "true"
        assert "CONSTRAINTS" not in kind  # an independent tier has none
        assert kind["CONTROLLED_VOCABULARY_REF"] in vocabularies
        reached = 0
        for annotation in tier.iter("ALIGNABLE_ANNOTATION"):
            ends = [annotation.attrib["TIME_SLOT_REF1"], annotation.attrib["TIME_SLOT_REF2"]]
            used += ends
            start, end = (slots[each] for each in ends)
            assert reached <= start < end  # annotations of a tier never overlap and are never empty
            reached = end
    assert sorted(used) == sorted(slots)  # every annotation has two separate slots
    languages = {each.attrib["LANG_ID"] for each in root.iter("LANGUAGE")}
    assert {e.attrib["LANG_REF"] for e in root.iter() if "LANG_REF" in e.attrib} <= languages
    return root


def change(path, *pairs):
    text = path.read_text()
    for old, new in zip(pairs[::2], pairs[1::2], strict=True):
        assert old in text
        text = text.replace(old, new, 1 if old == "<MEDIA_DESCRIPTOR" else -1)
    path.write_text(text)


def lines(*parts):
    return Timeline([Segment(*part) for part in parts], video="v")


PARTS = [(0, 2, "pour"), (1, 3, "stir & wait"), (1, 1, "<tap>"), (2, 4, "pour")]
TIMELINE = Timeline([Segment(*part) for part in PARTS], 9.5, ("wash", "pour"), "tea time.mp4")


def test_files_are_valid_and_link_their_media(tmp_path):
    path = tmp_path / "sub" / "tea.eaf"
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "tea time.mp4").touch()
    write(path, TIMELINE)
    root = check_schema(path)
    (media,) = root.iter("MEDIA_DESCRIPTOR")
    assert media.attrib["MEDIA_URL"] == (tmp_path / "sub" / "tea time.mp4").as_uri()
    assert media.attrib["RELATIVE_MEDIA_URL"] == "./tea%20time.mp4"
    assert media.attrib["MIME_TYPE"] == "video/mp4"
    words = [value.text for value in root.iter("CVE_VALUE")]
    assert words == ["wash", "pour", "<tap>", "stir & wait"]
    tiers = [tier.attrib["TIER_ID"] for tier in root.iter("TIER")]
    assert tiers == ["stepcut", "stepcut (2)", "stepcut (3)"]
    assert {tier.attrib["ANNOTATOR"] for tier in root.iter("TIER")} == {"stepcut"}
    assert read(path).steps == TIMELINE.steps
    path = tmp_path / "tea.eaf"
    write(path, TIMELINE)
    entry = '<CV_ENTRY_ML CVE_ID="left"><CVE_VALUE LANG_REF="und">left</CVE_VALUE></CV_ENTRY_ML>'
    hands = f'<CONTROLLED_VOCABULARY CV_ID="hands">{entry}</CONTROLLED_VOCABULARY></ANNOTATION_DOCUMENT>'
    change(path, "</ANNOTATION_DOCUMENT>", hands)
    assert read(path).steps == TIMELINE.steps


@pytest.mark.parametrize(("video", "file", "links"), [
    ("", None, []),
    ("tea", "tea.mkv", ["./tea.mkv"]),
    ("tea", None, ["./tea.mp4"]),
    ("films/tea.mp4", "films/tea.mp4", ["./films/tea.mp4"]),
])  # fmt: skip
def test_the_video_is_looked_for_beside_the_file(video, file, links, tmp_path):
    if file:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    write(tmp_path / "x.eaf", Timeline([Segment(0, 1, "a")], video=video))
    media = check_schema(tmp_path / "x.eaf").iter("MEDIA_DESCRIPTOR")
    assert [each.attrib["RELATIVE_MEDIA_URL"] for each in media] == links
    assert read(tmp_path / "x.eaf").video == video


def test_one_tier_per_annotator(tmp_path):
    path = tmp_path / "x.eaf"
    both = {"ann": lines((0, 1, "pour")), "bob": lines((0.5, 1.5, "stir"))}
    write_tiers(path, both)
    tiers = [tier.attrib for tier in check_schema(path).iter("TIER")]
    assert [tier["TIER_ID"] for tier in tiers] == ["ann", "bob"]
    assert [tier["ANNOTATOR"] for tier in tiers] == ["ann", "bob"]
    for name, timeline in both.items():
        assert read(path, annotator=name).segments == timeline.segments
    with raises(AnnotationError, "'ann', 'bob'", "annotator=NAME"):
        read(path)
    with raises(AnnotationError, "'eve'", "'ann', 'bob'"):
        read(path, annotator="eve")
    change(path, "<ANNOTATION_VALUE>stir<", "<ANNOTATION_VALUE><")
    assert read(path, annotator="ann").sequence() == ["pour"]  # whatever others left empty
    with raises(AnnotationError, "label is empty"):
        read(path, annotator="bob")


def test_a_person_goes_before_the_proposal(tmp_path):
    path = tmp_path / "x.eaf"
    proposal, corrected, empty = lines((0, 1, "a")), lines((0, 2, "a")), lines()
    write_tiers(path, {"stepcut": proposal, "ann": empty})
    assert read(path).segments == proposal.segments
    write_tiers(path, {"stepcut": proposal, "ann": corrected})
    assert read(path).segments == corrected.segments
    # A copied tier keeps its attributes but has a new name.
    change(path, 'ANNOTATOR="ann" TIER_ID="ann"', 'ANNOTATOR="stepcut" TIER_ID="stepcut-cp"')
    assert read(path).segments == corrected.segments


def test_tiers_of_one_annotator_are_not_mixed(tmp_path):
    path = tmp_path / "x.eaf"
    steps = lines((0, 4, "pour"), (1, 2, "stir"))  # overlaps: a tier "steps (2)"
    gaze = lines((1, 6, "looks at cup"))
    owner = ('ANNOTATOR="steps"', 'ANNOTATOR="ann"', 'ANNOTATOR="gaze"', 'ANNOTATOR="ann"')
    write_tiers(path, {"steps": steps, "gaze": gaze, "bob": gaze})
    change(path, *owner)
    assert read(path, annotator="steps").segments == steps.segments
    assert read(path, annotator="gaze").segments == gaze.segments
    with raises(AnnotationError, "'ann'", "'steps', 'gaze'"):
        read(path, annotator="ann")
    write_tiers(path, {"steps": steps, "gaze": lines(), "x": gaze})
    change(path, *owner, 'ANNOTATOR="x"', 'ANNOTATOR="bob"')
    assert read(path, annotator="ann").segments == steps.segments  # the other tier is empty
    assert read(path, annotator="x") == read(path, annotator="bob")
    assert read(path, annotator="x").segments == gaze.segments


def test_a_file_that_elan_itself_has_saved(tmp_path):
    path = tmp_path / "x.eaf"
    path.write_text(
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<ANNOTATION_DOCUMENT AUTHOR="" DATE="2024-01-01T10:00:00+01:00" FORMAT="3.0" VERSION="3.0" '
        'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
        'xsi:noNamespaceSchemaLocation="http://www.mpi.nl/tools/elan/EAFv3.0.xsd">'
        '<HEADER MEDIA_FILE="" TIME_UNITS="milliseconds">'
        '<MEDIA_DESCRIPTOR MEDIA_URL="file:///C:/films/tea%20time.mp4" MIME_TYPE="video/mp4"/></HEADER>'
        '<TIME_ORDER><TIME_SLOT TIME_SLOT_ID="ts1" TIME_VALUE="500"/><TIME_SLOT TIME_SLOT_ID="ts2" TIME_VALUE="1750"/>'
        "</TIME_ORDER>"
        '<TIER LINGUISTIC_TYPE_REF="default-lt" TIER_ID="steps"><ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a1" '
        'TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts2"><ANNOTATION_VALUE>pour  tea</ANNOTATION_VALUE>'
        "</ALIGNABLE_ANNOTATION></ANNOTATION></TIER>"
        '<TIER LINGUISTIC_TYPE_REF="note" PARENT_REF="steps" TIER_ID="notes"><ANNOTATION><REF_ANNOTATION '
        'ANNOTATION_ID="a2" ANNOTATION_REF="a1"><ANNOTATION_VALUE>slowly</ANNOTATION_VALUE></REF_ANNOTATION>'
        "</ANNOTATION></TIER>"
        '<LINGUISTIC_TYPE GRAPHIC_REFERENCES="false" LINGUISTIC_TYPE_ID="default-lt" TIME_ALIGNABLE="true"/>'
        '<LINGUISTIC_TYPE CONSTRAINTS="Symbolic_Association" LINGUISTIC_TYPE_ID="note" TIME_ALIGNABLE="false"/>'
        "</ANNOTATION_DOCUMENT>"
    )
    assert read(path) == Timeline([Segment(0.5, 1.75, "pour tea")], video="tea time")
    # ELAN shows the video at its time plus the origin, and the video is not its sound.
    sound = '<MEDIA_DESCRIPTOR MEDIA_URL="file:///C:/films/sound.wav" MIME_TYPE="audio/x-wav"/>'
    change(path, ' MIME_TYPE="video/mp4"/>', ' MIME_TYPE="video/mp4" TIME_ORIGIN="2040"/>')
    change(path, "<MEDIA_DESCRIPTOR", f"{sound}<MEDIA_DESCRIPTOR")
    assert read(path) == Timeline([Segment(2.54, 3.79, "pour tea")], video="tea time")
    change(path, "pour  tea", " ")
    with raises(AnnotationError, "annotation a1", "label is empty"):
        read(path)
    change(path, ' TIME_VALUE="1750"', "")
    with raises(AnnotationError, "annotation a1", "times"):
        read(path)


@pytest.mark.parametrize("prolog", [
    '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
    '<!DOCTYPE a SYSTEM "http://example.org/a.dtd">',
    '<!doctype a [<!entity x "&y;&y;">]>',
])  # fmt: skip
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_are_refused(prolog, encoding, tmp_path):
    path = tmp_path / "x.eaf"
    text = f"<?xml version='1.0' encoding='{encoding}'?>\n{prolog}\n<a>&x;</a>"
    path.write_bytes(text.encode(encoding))
    with raises(AnnotationError, "<!", line=2):
        read(path)


@pytest.mark.parametrize(("old", "new", "word"), [
    (">9.5<", ">soon<", "'soon'"),
    ('TIME_VALUE="0"', 'TIME_VALUE="early"', "ELAN"),
    ('TIME_SLOT_REF1="ts2"', "", "ELAN"),
    ("<ANNOTATION_VALUE>pour</ANNOTATION_VALUE>", "", "annotation a1"),
    ('TIER_ID="stepcut"', "", "ELAN"),
    ('NAME="stepcut:video"', "", "ELAN"),
    ("</HEADER>", "", "ELAN"),
])  # fmt: skip
def test_damaged_files_are_refused(old, new, word, tmp_path):
    path = tmp_path / "x.eaf"
    write(path, TIMELINE)
    change(path, old, new)
    with raises(AnnotationError, "x.eaf", word):
        read(path)


def test_the_video_that_was_cut_is_linked(tmp_path):
    video = tmp_path / "films" / "new film.mp4"
    video.parent.mkdir()
    video.touch()
    far = tmp_path / "a" / "b" / "c" / "new.eaf"
    for path, link in ((tmp_path / "new.eaf", "./films/new%20film.mp4"), (far, "./new%20film.mp4")):
        write(path, Timeline([Segment(0, 1, "a")], video=str(video)))
        (media,) = check_schema(path).iter("MEDIA_DESCRIPTOR")
        assert media.attrib["MEDIA_URL"] == video.as_uri()
        assert media.attrib["RELATIVE_MEDIA_URL"] == link


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


@pytest.mark.parametrize(("old", "new", "told"), [
    ("TextGrid", "Pitch", "does not begin like"),
    ("size = 2", "size = 3", "is truncated"),
    ("size = 2", "size = 1e400", "not valid as Praat TextGrid"),
    ("xmax = 1.5", "xmax = soon", "is not a time"),
    ("xmax = 1.5", "xmax = -1", "before the start"),
])  # fmt: skip
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
    events = [{e.attrib["key"]: e.attrib["value"] for e in event} for event in traces[0][1:]]
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
