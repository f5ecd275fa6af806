"""The report: self-contained and safe against hostile names; stepcut view: its address, a clean end."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from errors_kit import raises
from features_films import make_film, number_of
from msgspec import structs
from show_kit import Page
from store_kit import change_config

import stepcut as sc
from stepcut.app.server import Running
from stepcut.checking.report import Finding, Report, StepSeen
from stepcut.cli.main import main
from stepcut.colours import colour
from stepcut.errors import ProcedureError, VideoError
from stepcut.features.video.sample import frame_at
from stepcut.show import draw_axis, draw_bar
from stepcut.show.clips import picture_at
from stepcut.show.report import find_moments, make_report
from stepcut.timeline import Segment, Timeline


class Outside(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.addresses = []
        self.scripts = 0
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        fetched = ("src", "href", "poster", "srcset")
        self.addresses += [value or "" for name, value in attrs if name in fetched]


@pytest.fixture
def procedure(learned):
    return sc.load(learned)


def test_the_command_writes_one_page_that_needs_nothing_else(learned, kitchen, tmp_path, run):
    video = str(sorted((kitchen / "videos").iterdir())[0])
    words = ["report", str(learned), "-o", str(tmp_path / "r.html"), "--check", video, "--quiet"]
    words += ["--truth", str(kitchen / "annotations"), "--title", "Breakfast & <tea>"]
    assert "the report is in" in run(*words).out
    page = (tmp_path / "r.html").read_text()
    outside = Outside(page)
    assert outside.addresses
    assert all(address.startswith("data:image/jpeg;base64,") for address in outside.addresses)
    assert outside.scripts == 0
    heads = "The steps|Timelines of all videos|Checked videos|What comes before what|Details"
    assert "|".join(re.findall("<h2>(.*?)</h2>", page)) == heads
    folded = re.findall("<summary>(.*?)</summary>", page.split("<h2>Details</h2>")[1])
    assert "|".join(folded) == (
        "Orders of the steps|How reliable the timelines are|What a check can find|What comes before what, as text|"
        "Scores against the true timelines|With more or fewer steps|Settings and versions"
    )
    assert page.count("<details open") == 0
    assert "<h1>Breakfast &amp; &lt;tea&gt;</h1>" in page
    assert "3 steps discovered in 2 videos" in page
    assert "protocol strict" in page
    assert "@media print" in page


def test_a_checked_video_has_its_timeline_and_marks_in_the_chosen_colours(procedure):
    for step, chosen in enumerate(("#123456", "#654321", "#abcdef")):
        procedure = procedure.corrected({"do": "colour", "step": step, "colour": chosen})
    seen = StepSeen(1, procedure.steps[1], 0.97, ((2.0, 5.0), (7.0, 9.0)), 1.0)
    never = StepSeen(0, procedure.steps[0], 0.02, (), 1.0)
    gone = Finding("missed", 5.0, 7.0, 0, procedure.steps[0], 0.9, "it was <b>left out</b>")
    check = Report("new <film>", 10.0, [gone], 1.5, [seen, never], 0.1, 0.05)
    video, timeline = next(iter(procedure.timelines.items()))
    page = make_report(procedure, truth={video: timeline}, checks=[check], pictures=0)
    assert page.count(f"<title>{procedure.steps[1]}, 00:00:02.0 to 00:00:05.0</title>") == 1
    assert "<th>new &lt;film&gt;</th>" in page
    first = f"<tr><td><bdi>{procedure.steps[0]}</bdi></td><td>not seen</td><td>2 %</td>"
    second = f"<td><bdi>{procedure.steps[1]}</bdi></td><td>seen</td><td>97 %</td>"
    assert f"{first}<td></td></tr><tr>{second}<td>0:02–0:05, 0:07–0:09</td></tr>" in page
    assert "<title>it was &lt;b&gt;left out&lt;/b&gt;, 00:00:05.0 to 00:00:07.0</title>" in page
    for drawn in (page, procedure._repr_html_()):
        assert "#123456" in drawn
        assert not [number for number in range(3) if colour(number) in drawn]


def test_the_summary_names_deviations_and_usual_steps_that_were_not_seen(procedure):
    step = procedure.steps[0]
    gone = Finding("missed", 65.0, 70.0, 0, step, 0.9, "it was not done; 2 of 2 videos do it")
    found = {"missing step": 0.9}
    never, rare = StepSeen(0, step, 0.02, (), 1.0), StepSeen(1, procedure.steps[1], 0.02, (), 0.2)
    checks = [Report(f"v{n}", 90.0, [gone], 1.5, [never], 0.1, 0.05) for n in range(5)]
    good = Report("good", 90.0, [], 0.5, [rare], 0.1, 0.05, detection=found)
    doubtful = Report("odd", 90.0, [], 0.5, [never, rare], 0.1, 0.05, detection=found)
    checks += [good, doubtful, Report("else", 90.0, [], 0.5, [], 2.0, 0.05)]
    page = make_report(procedure, checks=checks, pictures=0)
    top = page.split('<div class="summary">')[1].split("</div>")[0]
    assert f"6 of 8 checked videos deviate: v0: {step} is missing; v1" in top
    assert "and 3 more" in top
    assert "good" not in top
    assert "<p>odd: not seen: " in top
    assert top.count("not seen") == 1
    assert page.count('<p class="fine">') == 1
    assert "<b>1:05</b> it was not done" in page
    assert page.count("✓ No deviation found. A missing step would be found in") == 1
    assert "✗ it shows another task" in page
    assert "1 video checked: no deviation found." in make_report(procedure, checks=[good])


def test_steps_are_counted_from_one_and_merged_ones_are_gone(procedure):
    procedure = procedure.rename({0: '"><script>alert(1)</script>'})
    skipped = {"a": "a.mp4: <empty>. Copy it again.", "b": "b.mp4: no video. Leave it out."}
    config = structs.replace(procedure.config, skipped=skipped)
    procedure = replace(procedure, learned=replace(procedure.learned, config=config))
    page = make_report(procedure, pictures=1)
    assert Outside(page).scripts == 0
    assert "&lt;script&gt;alert(1)" in page
    first, second = "a.mp4: &lt;empty&gt;. Copy it again.", "b.mp4: no video. Leave it out."
    assert f"<li>{first}</li><li>{second}</li>" in page
    assert re.findall(r"<h3[^>]*>(\d+) ·", page) == ["1", "2", "3"]
    assert procedure.config.fingerprint in page  # a setting
    procedure = procedure.corrected({"do": "merge", "step": 0, "into": 1})
    page = make_report(procedure, pictures=1)  # in the colours of the viewer
    assert (colour(0) in page, colour(1) in page) == (False, True)
    procedure = procedure.corrected({"do": "merge", "step": 2, "into": 1})
    assert "<p>1 step discovered in 2 videos" in make_report(procedure, pictures=0)


def test_pictures_are_of_the_surest_segments_that_are_there(procedure):
    for step in procedure.steps:
        ((video, time, _),) = find_moments(procedure, step, each=1)
        chosen = next(s for s in procedure.timelines[video] if s.start <= time < s.end)
        assert chosen.step == step
        every = [s for t in procedure.timelines.values() for s in t if s.step == chosen.step]
        assert chosen.confidence == max(s.confidence or 0 for s in every)
    procedure = procedure.corrected({"do": "mark", "video": video, "start": 1, "end": 2, "step": 0})
    ((first, time, _),) = find_moments(procedure, procedure.steps[0], each=1)
    assert (first, 1 <= time <= 2) == (video, True)  # what a person set is surest
    procedure = procedure.moved(dict.fromkeys(procedure.videos))
    assert list(find_moments(procedure, procedure.steps[0], each=4)) == []
    procedure = procedure.moved(dict.fromkeys(procedure.videos, "gone.mp4"))
    page = make_report(procedure)
    assert Outside(page).addresses == []


def test_a_picture_is_of_the_frame_shown_at_its_time_up_to_the_end(tmp_path):
    film = make_film(tmp_path / "film.mp4", frames=41, rate=20)
    times = (0.0, 0.34, 1.0, 1.97, 2.03, 2.049, 2.05, 2.1)
    for time, number in zip(times, (0, 6, 20, 39, 40, 40, 39, 40), strict=True):
        frame = frame_at(film, time)
        assert frame is not None, time
        assert number_of(frame) == number, time
    assert frame_at(film, 2.3) is None
    assert picture_at(film, 1.0).startswith(b"\xff\xd8")
    with raises(VideoError, "900"):
        picture_at(film, 900.0)


def test_the_top_states_reliability_without_jargon(learned):
    why = "cross-validated on 2 labelled videos"
    change_config(learned, quality={"kind": "labels", "now": [0.45, 0.3, 0.6], "why": why})
    procedure = sc.load(learned)
    procedure.method.why_steps_ = "3 steps explain <most>"
    page = make_report(procedure, pictures=0)
    assert "<p>3 steps explain &lt;most&gt;</p>" in page
    top = page.partition("</div>")[0]
    assert "45 % of the unlabelled time is right (between" in top
    assert "cross-validated" not in top
    assert str(procedure.quality) in page


def test_bars_tell_name_times_and_confidence_on_hover():
    bar = draw_bar(Timeline([Segment(1, 3, "pour & stir", 0.5)], duration=4))
    assert "<title>pour &amp; stir, 00:00:01.0 to 00:00:03.0, confidence 0.50</title>" in bar
    assert 'x="250.0" width="500.0"' in bar
    assert ">1:00<" in draw_axis(125)
    assert ">0:05<" in draw_axis(30)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_view_prints_one_line_and_ends_cleanly(place, number):
    command = [sys.executable, "-m", "stepcut.cli.main", "view", str(place), "--port", "0"]
    command += ["--no-browser"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/[\w-]{20,}/", line)
        assert address is not None, line
        with urllib.request.urlopen(address.group()) as answer:
            assert answer.status == 200
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "", "")


def test_a_port_that_is_taken(place, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["view", str(place), "--port", str(port), "--no-browser"]) == 2
    assert f"port={port}: cannot serve there" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "words", "message"), [
    ("breakfast", ["--port", "99999"], "from 0 to 65535"),
    ("breakfast", ["--at", "thre@5"], "video='thre' is unknown"),
    ("breakfast", ["--at", "one"], "''"),
    ("none", [], "does not exist"),
    ("none", ["--port", "99999"], "does not exist"),
])  # fmt: skip
def test_wrong_arguments(place, name, words, message, run, monkeypatch):
    monkeypatch.setattr(Running, "run", lambda *_: None)
    folder = place.with_name(f"{name}.proc")
    assert message in run("view", folder, *words, "--no-browser", code=2).err


def test_view_from_python_goes_on_beside_a_notebook(learned):
    procedure = sc.load(learned)
    running = sc.view(procedure, browser=False, block=False)
    try:
        with urllib.request.urlopen(running.address) as answer:
            assert answer.status == 200
        assert running.address in repr(running)
        assert f'href="{running.address}"' in running._repr_html_()
        running.viewer.edits.do({"do": "rename", "step": 0, "name": "kept"})
    finally:
        running.close()
    again = sc.view(procedure, browser=False, block=False)
    assert again.viewer.edits.document.steps[0].name == "kept"
    again.close()


@pytest.fixture
def shown(monkeypatch):
    found = []
    monkeypatch.setattr(Running, "run", lambda self: (found.append(self), self._socket.close()))
    return found


def test_names_of_videos_may_have_other_capitals_and_a_suffix(place, tmp_path, shown, run):
    (tmp_path / "ONE.csv").write_text("start,end,step\n0,1,pour\n")
    words = ["view", str(place), "--at", "One.mp4@5", "--beside", str(tmp_path / "ONE.csv")]
    assert run(*words, "--no-browser").out.strip().endswith("#one%405")  # as the page calls it
    assert [len(video["beside"] or ()) for video in shown[0].viewer.state()["videos"]][:2] == [1, 0]


def test_labels_alone_are_shown_beside_others(tmp_path, kitchen, shown, run):
    labels = kitchen / "annotations"
    words = ["view", labels, "--beside", labels, "--videos", kitchen / "videos", "--no-browser"]
    run(*words)
    state = shown[0].viewer.state()
    about = state["title"], state["learned"], state["beside"]
    assert about == ("annotations", False, "annotations")
    for video in state["videos"]:
        assert video["there"]
        assert [part[:2] for part in video["beside"]] == [part[:2] for part in video["parts"]]
    shown[0].viewer.edits.do({"do": "rename", "step": 0, "name": "another name"})
    message = run(*words).err
    assert f"1 corrections of {labels} are saved in {shown[1].viewer.folder}" in message
    assert shown[1].viewer.state()["steps"][0]["name"] == "another name"  # found again
    shutil.copytree(labels, tmp_path / "bob")
    run("view", tmp_path / "bob", "--no-browser")
    other = shown[2].viewer.state()  # the same labels of another annotator
    assert (other["title"], other["steps"][0]["name"]) == ("bob", state["steps"][0]["name"])
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "tea.csv").write_text("start,end,step\n0,1,pour\n")
    assert "none of its videos (tea)" in run(*words[:3], tmp_path / "others", code=2).err
    with raises(ProcedureError, "not a learned"):
        sc.load(shown[0].viewer.folder)


def test_ending_stops_work_in_the_background(place):
    with Page(place) as page:
        job = page.post("api/copies", {"kind": "mp4", "codecs": []}).json()["job"]
    kept = page.viewer.jobs.get(job["id"])
    assert kept is not None
    assert kept.state.get("pid") is None
    assert kept.state["state"] in ("waiting", "done")  # the next server continues it
