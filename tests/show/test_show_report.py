"""The report: self-contained, complete, small, and safe against hostile names."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from errors_kit import raises
from features_films import make_film, number_of
from msgspec import structs

import stepcut as sc
from stepcut.checking.report import Finding, Report, StepSeen
from stepcut.cli.main import main
from stepcut.colours import colour
from stepcut.errors import OptionError, VideoError
from stepcut.features.video.sample import frame_at
from stepcut.show.bars import draw_axis, draw_bar
from stepcut.show.clips import picture_at
from stepcut.show.report import find_moments, make_report
from stepcut.timeline import Segment, Timeline
from stepcut.toy import toy_features


class Outside(HTMLParser):
    """Collect all addresses that a page fetches, and all scripts."""

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


def test_the_command_writes_one_page_that_needs_nothing_else(learned, kitchen, tmp_path, capsys):
    video = str(sorted((kitchen / "videos").iterdir())[0])
    words = ["report", str(learned), "-o", str(tmp_path / "r.html"), "--check", video, "--quiet"]
    words += ["--truth", str(kitchen / "annotations"), "--title", "Breakfast & <tea>"]
    assert main(words) == 0
    assert "the report is in" in capsys.readouterr().out
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


def test_a_checked_video_has_its_timeline_and_marks_where_something_was_found(procedure):
    seen = StepSeen(1, procedure.steps[1], 0.97, ((2.0, 5.0), (7.0, 9.0)), 1.0)
    never = StepSeen(0, procedure.steps[0], 0.02, (), 1.0)
    gone = Finding("missed", 5.0, 7.0, 0, procedure.steps[0], 0.9, "it was <b>left out</b>")
    check = Report("new <film>", 10.0, [gone], 1.5, [seen, never], 0.1, 0.05)
    page = make_report(procedure, checks=[check], pictures=0)
    assert page.count(f"<title>{procedure.steps[1]}, 00:00:02.0 to 00:00:05.0</title>") == 1
    assert "<th>new &lt;film&gt;</th>" in page
    first = f"<tr><td><bdi>{procedure.steps[0]}</bdi></td><td>not seen</td><td>2 %</td>"
    second = f"<td><bdi>{procedure.steps[1]}</bdi></td><td>seen</td><td>97 %</td>"
    assert f"{first}<td></td></tr><tr>{second}<td>0:02–0:05, 0:07–0:09</td></tr>" in page
    assert "<title>it was &lt;b&gt;left out&lt;/b&gt;, 00:00:05.0 to 00:00:07.0</title>" in page


def test_the_summary_names_deviations(procedure):
    step = procedure.steps[0]
    gone = Finding("missed", 65.0, 70.0, 0, step, 0.9, "it was not done; 2 of 2 videos do it")
    checks = [Report(f"v{n}", 90.0, [gone], 1.5, [], 0.1, 0.05) for n in range(5)]
    checks += [
        Report("good", 90.0, [], 0.5, [], 0.1, 0.05, detection={"missing step": 0.9}),
        Report("else", 90.0, [], 0.5, [], 2.0, 0.05),
    ]
    page = make_report(procedure, checks=checks, pictures=0)
    top = page.split('<div class="summary">')[1].split("</div>")[0]
    assert f"6 of 7 checked videos deviate: v0: {step} is missing; v1" in top
    assert "and 3 more" in top
    assert "good" not in top
    assert "<b>1:05</b> it was not done" in page
    assert page.count("✓ No deviation found. A missing step would be found in") == 1
    assert "✗ it shows another task" in page
    fine = make_report(procedure, checks=checks[5:6], pictures=0)
    assert "1 video checked: no deviation found." in fine


def test_a_video_without_an_alarm_is_not_fine_where_a_usual_step_was_not_seen(procedure):
    step = procedure.steps[0]
    never = StepSeen(0, step, 0.02, (), 1.0)
    rare = StepSeen(1, procedure.steps[1], 0.02, (), 0.2)
    doubtful, good = (
        Report(name, 90.0, [], 0.5, steps, 0.1, 0.05, detection={"missing step": 0.9})
        for name, steps in {"odd": [never, rare], "good": [rare]}.items()
    )
    page = make_report(procedure, checks=[doubtful, good], pictures=0)
    top = page.split('<div class="summary">')[1].split("</div>")[0]
    assert (doubtful.unseen, good.unseen) == ([step], [])
    assert "<p>odd: not seen: " in top
    assert "good:" not in top
    assert page.count('<p class="fine">') == 1


def test_steps_are_counted_from_one_and_merged_ones_are_gone(procedure):
    page = make_report(procedure, pictures=0)
    assert re.findall(r"<h3[^>]*>(\d+) ·", page) == ["1", "2", "3"]
    assert json.dumps(procedure.config.fingerprint)[1:-1] in page  # a setting
    procedure = procedure.corrected({"do": "merge", "step": 0, "into": 1})
    page = make_report(procedure, pictures=1)  # in the colours of the viewer
    assert (colour(0) in page, colour(1) in page) == (False, True)
    procedure = procedure.corrected({"do": "merge", "step": 2, "into": 1})
    assert "<p>1 step discovered in 2 videos" in make_report(procedure, pictures=0)


def test_a_step_is_counted_as_the_timelines_beside_it_show(procedure):
    one, other = procedure.timelines
    [step, *_] = [n for n, videos in enumerate(procedure.graph.occurs) if videos == 2]
    name = procedure.steps[step]
    parts = {one: [Segment(0, 3, name)], other: []}
    timelines = {v: Timeline(part, 9.0, procedure.steps, v) for v, part in parts.items()}
    procedure = replace(procedure, learned=replace(procedure.learned, timelines=timelines))
    page = make_report(procedure, pictures=0)
    assert "in 1 of 2 videos, about 3&nbsp;s" in page
    assert f"Not done in every video: {name}" in page
    assert "counts may be below those above" in page  # the graph counts other videos


def test_videos_that_were_left_out_are_listed_one_by_one(procedure):
    skipped = {"a": "a.mp4: <empty>. Copy it again.", "b": "b.mp4: no video. Leave it out."}
    config = structs.replace(procedure.config, skipped=skipped)
    procedure = replace(procedure, learned=replace(procedure.learned, config=config))
    page = make_report(procedure, pictures=0)
    first, second = "a.mp4: &lt;empty&gt;. Copy it again.", "b.mp4: no video. Leave it out."
    assert f"<li>{first}</li><li>{second}</li>" in page


def test_a_hostile_name_is_text(procedure):
    procedure = procedure.rename({0: '"><script>alert(1)</script>'})
    page = make_report(procedure, pictures=1)
    assert Outside(page).scripts == 0
    assert "&lt;script&gt;alert(1)" in page


def test_thirty_videos_stay_below_five_megabytes(procedure):
    name, timeline = next(iter(procedure.timelines.items()))
    path = next(iter(procedure.videos.values()))
    numbers = [f"{name}-{number:02d}" for number in range(30)]
    learned = replace(
        procedure.learned,
        timelines={number: replace(timeline, video=number) for number in numbers},
        videos=dict.fromkeys(numbers, path),
        samples=dict.fromkeys(numbers, next(iter(procedure.samples.values()))),
    )
    procedure = sc.Procedure(learned)
    assert len(make_report(procedure).encode()) < 5_000_000
    found = [moment for step in procedure.steps for moment in find_moments(procedure, step, each=1)]
    # Twenty steps with four pictures each are the most that a task of the data sets has.
    assert 20 * 4 * max(len(picture) for *_, picture in found) < 4_000_000


def test_pictures_are_of_the_surest_segments(procedure):
    for step in procedure.steps:
        ((video, time, _),) = find_moments(procedure, step, each=1)
        chosen = next(s for s in procedure.timelines[video] if s.start <= time < s.end)
        assert chosen.step == step
        every = [s for t in procedure.timelines.values() for s in t if s.step == chosen.step]
        assert chosen.confidence == max(s.confidence or 0 for s in every)
    procedure = procedure.corrected({"do": "mark", "video": video, "start": 1, "end": 2, "step": 0})
    ((first, time, _),) = find_moments(procedure, procedure.steps[0], each=1)
    assert (first, 1 <= time <= 2) == (video, True)  # what a person set is surest


def test_the_report_has_the_colours_that_a_person_chose(procedure):
    for step, chosen in enumerate(("#123456", "#654321", "#abcdef")):
        procedure = procedure.corrected({"do": "colour", "step": step, "colour": chosen})
    video, timeline = next(iter(procedure.timelines.items()))
    seen = StepSeen(0, procedure.steps[0], 0.97, ((2.0, 5.0),), 1.0)
    checks = [Report("new", 10.0, [], 1.5, [seen], 0.1, 0.05)]
    page = make_report(procedure, truth={video: timeline}, checks=checks)
    assert not [number for number in range(3) if colour(number) in page]
    drawn = procedure._repr_html_()
    assert "#123456" in drawn
    assert not [number for number in range(3) if colour(number) in drawn]


def test_a_video_that_is_gone_or_was_never_there(procedure):
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


def test_the_top_states_reliability_without_jargon():
    rows, truth = toy_features(videos=4, duration=40)
    taught = sc.learn(rows, steps=6, restarts=2).teach({str(k): truth[k] for k in range(3)})
    assert taught.quality.kind == "labels"
    page = make_report(taught, pictures=0)
    top = page.partition("</div>")[0]
    assert "% of the unlabelled time is right (between" in top
    assert "cross-validated" not in top
    assert str(taught.quality) in page


def test_how_the_number_of_steps_was_chosen_is_shown(tmp_path):
    random = np.random.default_rng(0)
    clean = np.repeat(np.eye(6)[:4], 12, axis=0)
    rows = [clean + 0.1 * random.normal(size=(48, 6)) for _ in range(3)]
    sc.learn(rows, steps=(3, 5), restarts=2).save(tmp_path / "auto.proc")
    procedure = sc.load(tmp_path / "auto.proc")
    page = make_report(procedure, pictures=0)
    why = procedure.method.why_steps_
    assert str(len(procedure.steps)) in why
    assert f"<p>{why}</p>" in page
    assert str(procedure.quality) in page
    assert f"{len(procedure.steps) - 1} steps: (" in page


def test_bars_tell_name_times_and_confidence_on_hover():
    bar = draw_bar(Timeline([Segment(1, 3, "pour & stir", 0.5)], duration=4))
    assert "<title>pour &amp; stir, 00:00:01.0 to 00:00:03.0, confidence 0.50</title>" in bar
    assert 'x="250.0" width="500.0"' in bar
    assert ">1:00<" in draw_axis(125)
    assert ">0:05<" in draw_axis(30)


def test_values_of_a_wrong_type_are_refused(procedure):
    path = "kitchen.proc"
    with raises(OptionError, "'kitchen.proc'"):
        make_report(path)
    wrong = [("truth", 3), ("checks", 3), ("checks", ["a"])]
    for name, value in [*wrong, ("pictures", "all"), ("title", 3)]:
        with raises(OptionError, name):
            make_report(procedure, **{name: value})
