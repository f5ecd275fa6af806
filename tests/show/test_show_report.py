"""The report, stepcut view and clips: self-contained, safe against hostile names, cleanly ended."""

import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path

import av
import numpy as np
import pytest
from errors_kit import raises
from features_films import make_film, number_of
from msgspec import structs
from show_kit import Page
from store_kit import change_config, change_saved, saved

import stepcut as sc
from stepcut.app.server import Running
from stepcut.checking.report import Finding, Report, StepSeen
from stepcut.cli.common import find_moved
from stepcut.cli.main import main
from stepcut.colours import colour
from stepcut.errors import OptionError, ProcedureError, VideoError
from stepcut.features.video.container import key_times, probe
from stepcut.features.video.sample import frame_at, sample_frames
from stepcut.show import draw_axis, draw_bar
from stepcut.show.clips import BEGINNING, cut_clip, make_proxy, picture_at, write_clips
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


def test_the_top_states_reliability_and_bars_tell_on_hover(learned):
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


KEYS = {
    True: None,
    False: [Fraction(0)],
}  # those of the video, so that packets are copied, or none near


def test_a_clip_is_copied_where_a_key_frame_is_near(films, tmp_path):
    video, target = films / "v3.mp4", tmp_path / "a.mp4"
    key = float(key_times(video)[4])
    assert cut_clip(video, key, key + 2, target)
    assert probe(target).duration == pytest.approx(2, abs=0.3)
    ours = next(sample_frames(target, 10))[1].astype(int)
    theirs = next(sample_frames(video, 10, start=key))[1].astype(int)
    assert np.abs(ours - theirs).mean() < 2  # identical frames
    assert not cut_clip(video, key + 0.2, key + 1.2, target, keys=[Fraction(0)])
    assert probe(target).duration == pytest.approx(1, abs=0.3)
    ours = next(sample_frames(target, 10))[1].astype(int)
    theirs = next(sample_frames(video, 10, start=key + 0.2))[1].astype(int)
    assert np.abs(ours - theirs).mean() < 12


def test_the_beginning_of_a_long_video_is_copied_first(tmp_path):
    video = make_film(tmp_path / "film.mp4", frames=300, sound=True, g="20")
    made = make_proxy(video, beginning=True)
    lasts = float(probe(made).duration)
    assert lasts == pytest.approx(BEGINNING, abs=0.2)
    assert lasts < probe(video).duration - 4
    assert made != make_proxy(video)
    whole = float(probe(make_proxy(video)).duration)
    assert whole == pytest.approx(float(probe(video).duration), abs=0.2)


@pytest.mark.parametrize("copied", [True, False])
def test_a_clip_keeps_its_sound(copied, tmp_path):
    video = make_film(tmp_path / "film.mp4", frames=200, sound=True, g="20")
    assert cut_clip(video, 4.0, 6.0, tmp_path / "a.mp4", KEYS[copied]) == copied
    with av.open(str(tmp_path / "a.mp4")) as clip:
        heard = list(clip.decode(clip.streams.audio[0]))
        clip.seek(0)
        seen = [frame.time for frame in clip.decode(clip.streams.video[0])]
    assert sum(frame.samples / frame.sample_rate for frame in heard) == pytest.approx(2, abs=0.2)
    assert max(seen) == pytest.approx(2, abs=0.3)
    silent = make_film(tmp_path / "silent.mp4", frames=60, g="20")
    cut_clip(silent, 0.0, 1.0, tmp_path / "b.mp4")
    with av.open(str(tmp_path / "b.mp4")) as clip:
        assert not clip.streams.audio


@pytest.mark.parametrize("copied", [True, False])
def test_an_instant_is_a_short_clip(copied, tmp_path):
    video = make_film(tmp_path / "film.mp4", frames=60, g="20", bf="0")
    at, target = float(key_times(video)[1]), tmp_path / "a.mp4"
    assert cut_clip(video, at, at, target, KEYS[copied]) == copied
    assert 0 < probe(target).duration < 0.5


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("start", [1.93, 2.0])
def test_a_clip_of_the_very_end_has_a_picture(start, copied, tmp_path):
    # 2 s; the last key frame is at 1.6 s.
    video = make_film(tmp_path / "film.mp4", frames=40, rate=20, g="8", bf="0")
    assert cut_clip(video, start, 2.0, tmp_path / "a.mp4", KEYS[copied]) == copied
    assert len(list(sample_frames(tmp_path / "a.mp4", 20))) >= 1


@pytest.mark.parametrize(("bf", "start"), [("0", 0.5), ("0", 9.85), ("3", 3.9), ("3", 9.85)])
def test_a_copied_clip_of_matroska_begins_with_its_key_frame(bf, start, tmp_path):
    video = make_film(tmp_path / "film.mkv", frames=199, rate=20, g="18", bf=bf, preset="medium")
    key = max(time for time in key_times(video) if time <= start)
    assert cut_clip(video, start, start + 0.6, tmp_path / "a.mp4")
    seen = [number_of(picture) for _, picture in sample_frames(tmp_path / "a.mp4", 20)]
    assert seen[0] == key * 20
    assert seen[-1] >= min(198, math.floor((start + 0.6) * 20) - 1)
    assert seen == list(range(seen[0], seen[-1] + 1))


@pytest.mark.parametrize(
    ("start", "end", "shown"), [(12, 18, {1}), (12, 12, {1}), (18, 22, {1, 2})]
)
def test_a_clip_between_frames_shows_the_one_before(start, end, shown, tmp_path):
    times = {"times": [0, 10, 20, 30], "clock": Fraction(1)}
    video = make_film(tmp_path / "film.mp4", frames=4, rate=1, **times)
    assert not cut_clip(video, start, end, tmp_path / "a.mp4")
    assert {number_of(picture) for _, picture in sample_frames(tmp_path / "a.mp4", 5)} == shown
    assert probe(tmp_path / "a.mp4").duration == pytest.approx(max(end - start, 0.2), abs=0.01)


def test_videos_that_moved_are_found_again(learned, kitchen, tmp_path):
    place = Path(shutil.copytree(learned, tmp_path / "a.proc"))
    record = saved(place)
    for one in record["videos"].values():
        one["path"] = None
    change_saved(place, record)
    words = [str(place), "--videos", str(kitchen / "videos"), "--quiet", "-o"]
    assert main(["clips", *words, str(tmp_path / "clips"), "--step", "STEP 1"]) == 0
    assert [one.name for one in (tmp_path / "clips").iterdir() if one.is_dir()] == ["step 1"]
    assert main(["report", *words, str(tmp_path / "r.html"), "--pictures", "1"]) == 0
    page = (tmp_path / "r.html").read_text()
    assert "data:image/jpeg" in page
    assert "<h1>a</h1>" in page  # the procedure's own name, since no title is given
    for more in ([], ["--videos", str(learned.parent)]):
        assert main(["clips", str(place), "--quiet", "-o", str(tmp_path / "none"), *more]) == 2


def test_a_video_that_may_be_two_is_not_chosen(films, tmp_path):
    for name in ("cam1/a.mp4", "cam2/a.mp4", "b.mp4", "b.avi"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(films / "v3.mp4", tmp_path / name)
    (tmp_path / "link.mp4").symlink_to(tmp_path / "cam1" / "a.mp4")  # the same video again
    for name in ("a", "b"):
        with raises(OptionError, f"'{name}'"):
            find_moved({name: None}, [str(tmp_path)])
    known = {"cam1/a": None, "cam2/a": None}
    places = {name: str(tmp_path / f"{name}.mp4") for name in known}
    assert find_moved(known, [str(tmp_path)]) == places
    assert find_moved({"a": None}, [str(tmp_path / "cam2")]) == {"a": places["cam2/a"]}


def test_a_folder_of_clips(films, tmp_path):
    (tmp_path / "broken.mp4").write_bytes(b"no film")
    one = Timeline([Segment(0.5, 1.5, "pour")], 5.0)
    two = Timeline([Segment(0, 1.5, "pour"), Segment(1.5, 4, "add jam/honey")], 5.0)
    timelines = {"v3": two, "broken": one, "gone": one, "v2": one}
    videos = {"v3": str(films / "v3.mp4"), "broken": str(tmp_path / "broken.mp4"), "gone": None}
    videos["v2"] = str(films / "v2.mp4")
    out = tmp_path / "clips"
    done = list(write_clips(timelines, videos, out))
    assert [name for name, clip in done if isinstance(clip, VideoError)] == ["broken", "gone"]
    names = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert names == [
        "add jam_honey/v3-02.jpg", "add jam_honey/v3-02.mp4",
        "pour/v2-01.jpg", "pour/v2-01.mp4", "pour/v3-01.jpg", "pour/v3-01.mp4",
        "times.csv",
    ]  # fmt: skip
    assert "v3,pour,1,1.5,1.5,1.5,30.0,100.0" in (out / "times.csv").read_text()
    list(write_clips(timelines, videos, tmp_path / "one", step="pour"))
    assert [path.name for path in (tmp_path / "one").iterdir() if path.is_dir()] == ["pour"]


def test_clips_of_two_videos_never_share_a_name(films, tmp_path):
    one, video = Timeline([Segment(0, 1, "pour")], 5.0), str(films / "v3.mp4")
    dotted = ["01.tent.a", "01.tent.b"]
    places = dict.fromkeys(dotted, video)
    done = list(write_clips(dict.fromkeys(dotted, one), places, tmp_path / "clips"))
    assert [Path(str(clip)).name for _, clip in done] == [f"{name}-01.mp4" for name in dotted]
    assert {path.name for path in (tmp_path / "clips" / "pour").iterdir()} == {
        f"{name}-01{suffix}" for name in dotted for suffix in (".mp4", ".jpg")
    }
    # Some disks know no case, and some one Unicode form.
    for names in (["a/b", "a_b"], ["Tea", "tea"], ["caf\u00e9", "cafe\u0301"]):
        with raises(OptionError, names[0]):
            list(write_clips(dict.fromkeys(names, one), {}, tmp_path / "none"))
    steps = Timeline([Segment(0, 1, "jam/honey"), Segment(1, 2, "jam_honey")])
    with raises(OptionError, "same names"):
        list(write_clips({"a": steps}, {}, tmp_path / "none"))
    assert not (tmp_path / "none").exists()
