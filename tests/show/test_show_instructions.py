"""Work instructions: what they say, in every format, and nothing that nobody wrote."""

import re

import pytest

import stepcut as sc
from stepcut.procedure.edits import Edits
from stepcut.show.instructions import make_instructions, usual_order

NOTE = "Wear gloves.\n<b>Hold</b> the board."


@pytest.fixture
def noted(learned):
    edits = Edits(learned)
    edits.do({"do": "rename", "step": 0, "name": "cut <bread>"})
    edits.do({"do": "note", "step": 0, "text": NOTE})
    edits.do({"do": "severity", "step": 0, "severity": "critical"})
    edits.set_rule("'cut <bread>' once")
    return learned


def test_a_page_has_a_cover_pictures_and_only_what_was_written_or_counted(noted, tmp_path, run):
    target = tmp_path / "sop.html"
    told = run("instructions", noted, "-o", target, "--title", "Tea & more", "--quiet").out
    assert "the work instruction is in" in told
    page = target.read_text()
    names = sc.load(noted).steps
    assert (
        re.findall(r'<li><a href="#step\d+"><bdi>(.*?)</bdi>', page).count("cut &lt;bread&gt;") == 1
    )
    assert len(re.findall("<section id=", page)) == len(names)
    assert page.count("data:image/jpeg;base64,") == 2 * len(names)
    assert "Wear gloves.\n&lt;b&gt;Hold&lt;/b&gt; the board." in page
    for words in ("<h1>Tea &amp; more</h1>", "Critical: a check", "Rule: cut &lt;bread&gt; once.",
                  "Nobody has confirmed the steps: this is a draft", "Usually ", "@page"):  # fmt: skip
        assert words in page
    assert "<script" not in page
    assert not re.search(r'(src|href)="(?!data:image|#)', page)


def test_notes_pictures_and_draft_follow_what_a_person_did(noted):
    made = make_instructions(sc.load(noted), pictures=1)
    (part,) = (one for one in made.parts if one.name == "cut <bread>")
    assert part.note == NOTE
    (picture,) = part.pictures
    shown = sc.load(noted).timelines[picture.video]
    assert any(s.start <= picture.time <= s.end and s.step == part.name for s in shown)
    edits = Edits(noted)
    for video in edits.document.segments:
        edits.do({"do": "confirm", "video": video})
    made = make_instructions(sc.load(noted), pictures=0)
    assert made.cover[-1] == "A person confirmed 100 % of the time of the steps."
    assert not any(part.pictures for part in made.parts)


def test_markdown_word_and_what_cannot_be_written(noted, tmp_path, run):
    run("instructions", noted, "-o", tmp_path / "sop.md", "--quiet")
    text = (tmp_path / "sop.md").read_text()
    for picture in re.findall(r"!\[.*?\]\(<(.*?)>\)", text):
        assert (tmp_path / picture).read_bytes().startswith(b"\xff\xd8")
    assert r"cut \<bread\>" in text
    told = run("instructions", noted, "-o", tmp_path / "sop.pdf", code=2).err
    assert ".html, .md, .docx" in told
    docx = pytest.importorskip("docx")
    run("instructions", noted, "-o", tmp_path / "sop.docx", "--quiet")
    paragraphs = [one.text for one in docx.Document(tmp_path / "sop.docx").paragraphs]
    assert NOTE in paragraphs


def test_without_the_library_word_is_refused_with_what_to_install(
    noted, tmp_path, run, monkeypatch
):
    monkeypatch.setitem(__import__("sys").modules, "docx", None)
    assert "[docx]" in run("instructions", noted, "-o", tmp_path / "sop.docx", code=2).err


def test_the_usual_order_is_that_of_most_recordings():
    timeline = sc.Timeline([sc.Segment(0, 4, "pour"), sc.Segment(4, 9, "stir")], 9)
    graph = sc.order.graph_of_labels(
        {"v": timeline.labels([0.5, 4.5, 8.5])}, 0.25, ["pour", "stir"]
    )
    assert usual_order(graph) == [0, 1]
