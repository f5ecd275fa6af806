"""The viewer in a real browser: mouse, keyboard, and attacks."""

import json
import re
from pathlib import Path

import pytest
from features_films import make_film
from show_browser_kit import counts, launched, shows, until
from show_kit import Page as Served
from show_kit import clicks_of, parts_of
from store_kit import change_config, change_saved, edit, saved

import stepcut as sc
from stepcut.app.server import Running
from stepcut.procedure.edits import Edits

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def chromium():
    with launched() as opened:
        yield opened


@pytest.fixture
def browser(chromium):
    yield chromium
    for context in chromium.contexts:
        context.close()


@pytest.fixture
def served(place):
    with Served(place) as opened:
        yield opened


@pytest.fixture
def page(browser, served):
    """The open page; console errors fail the test."""
    tab = browser.new_page(viewport={"width": 1400, "height": 900})
    complaints = []
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
    tab.goto(served.running.address)
    tab.wait_for_selector("body.ready")
    until(tab, video("readyState >= 2"))
    yield tab
    tab.context.close()
    # A refused edit is not an error of the page.
    assert [words for words in complaints if "422" not in words] == []


def opened(browser, served, width=1400, at=""):
    tab = browser.new_page(viewport={"width": width, "height": 844})
    tab.goto(served.running.address + at)
    tab.wait_for_selector("body.ready")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    return tab


def reload(page):
    page.reload()
    page.wait_for_selector("body.ready")


def video(words):
    """A condition of the video in the stage, such as `paused`."""
    return f"document.querySelector('#stage video').{words}"


def text_of(place, words):
    return f"document.querySelector({json.dumps(place)})?.textContent.includes({json.dumps(words)})"


PRESS = "key => document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }))"


def wait_saved(page, words):
    until(page, text_of("#status", words))


def wait_rate(page):
    """Wait for the frame rate, which comes with a separate request."""
    asked = "performance.getEntriesByType('resource').find(one => one.name.includes('api/about/'))"
    until(page, f"({asked})?.responseEnd > 0")
    page.wait_for_timeout(500)


def name_of(page, number):
    return page.locator(f"[data-key=name{number}]")


def press(page, *keys, saved=None):
    for key in keys:
        page.keyboard.press(key)
    if saved is not None:
        wait_saved(page, saved)


def rename(page, number, name, told="Saved"):
    name_of(page, number).fill(name)
    name_of(page, number).press("Enter")
    wait_saved(page, told)


def test_a_screen_reader_hears_steps_segments_and_boundaries(page):
    page.locator("#grid .card .bar").nth(1).wait_for(state="attached")
    heard = page.locator("body").aria_snapshot()
    for words in (
        'navigation "What to do"',
        'textbox "Name of step 1": slice bread',
        'button "slice bread 0:00.0 – 0:02.0"',
        'slider "end of slice bread"',
        'img "two: slice bread, pour tea"',
        'textbox "Time": 0:00.0',  # a status would be announced on every frame
    ):
        assert words in heard, words
    assert page.locator("[role=status]").count() >= 1


def test_click_a_segment_to_jump_and_hop_between_segments(page):
    page.locator("#stage .segments button").nth(1).click()
    until(page, video("currentTime === 2"))
    press(page, "ArrowDown")
    until(page, video("currentTime === 4.5"))
    press(page, "ArrowUp")
    until(page, video("currentTime === 2"))
    # The grid: a click on the last block of the second card shows that video, there.
    bar = page.locator("#grid .card").nth(1).locator(".blocks").first
    bar.scroll_into_view_if_needed()
    size = bar.bounding_box()
    bar.click(position={"x": 0.6 * size["width"], "y": size["height"] / 2})
    shows(page.locator("#stage h2"), "two")
    shows(page.locator("#stage .segments [aria-current] .what"), "pour tea")


def test_frame_steps_speed_loop_and_zoom(page):
    wait_rate(page)
    for key, frame in ((".", 1.5), (",", 0.5)):
        press(page, key)
        until(page, f"Math.abs({video('currentTime')} - {frame} / 10) < 0.01")
    press(page, *9 * [">"])
    assert page.evaluate(video("playbackRate")) == 4
    press(page, *9 * ["<"])
    assert page.evaluate(video("playbackRate")) == 0.25
    press(page, "r")
    assert page.locator("[aria-label='Loop the segment']").get_attribute("aria-pressed") == "true"
    for key, wider in (("+", True), ("0", False)):
        press(page, key)
        wide, track = (page.evaluate(f"document.querySelector('{part}').clientWidth")
                       for part in (".wide", ".track"))  # fmt: skip
        assert (wide > track) == wider


def test_rename_undo_and_find_the_edit_after_reloading(page, place):
    rename(page, 0, "cut the bread", "Saved: rename slice bread to cut the bread")
    assert Edits(place).document.steps[0].name == "cut the bread"
    reload(page)
    assert name_of(page, 0).input_value() == "cut the bread"
    shows(page.locator("#stage .segments .what").first, "cut the bread")
    page.locator("#undo").click()
    wait_saved(page, "Undone")
    assert name_of(page, 0).input_value() == "slice bread"
    assert Edits(place).document.steps[0].name == "slice bread"
    press(page, "Control+Shift+z", saved="Redone")
    assert name_of(page, 0).input_value() == "cut the bread"


def test_the_timeline_is_scrubbed_and_times_are_typed(page, place):
    at = video("currentTime")
    box = page.locator("#stage .blocks").first.bounding_box()
    x, y = box["x"] + 20, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + box["width"] / 2, y, steps=5)
    until(page, f"{at} > 3")
    page.mouse.up()
    shows(page.locator("#stage .segments [aria-current] .what"), "spread butter")
    shows(page.locator("#stage .subtitle"), "spread butter")
    press(page, "j")  # backwards
    until(page, f"{at} < 2.5")
    press(page, "k")
    wait_rate(page)
    time = page.get_by_label("Time", exact=True)
    for typed, seconds in (("0:04.5", 4.5), ("#15", 1.5)):
        time.fill(typed)
        time.press("Enter")
        until(page, f"{at} === {seconds}")
    time.fill("soon")
    time.press("Enter")
    wait_saved(page, "“soon” is not a time. Type 83.4, 1:23.4, or #312 for a frame.")
    page.get_by_label("end", exact=True).fill("3.25")
    page.get_by_label("end", exact=True).press("Enter")
    wait_saved(page, "Saved: move a boundary")
    assert parts_of(Edits(place))[0][1] == parts_of(Edits(place))[1][0] == 3.25
    page.get_by_role("button", name="Confirm").focus()
    press(page, "Space")  # plays, whatever has the focus
    until(page, f"!{video('paused')} && {at} > 1.6")


def test_the_queue_leads_to_what_is_uncertain_and_confirms(browser, place):
    record = saved(place)
    for segment, confidence in zip(record["videos"]["two"]["segments"], (0.7, 0.3), strict=True):
        segment["confidence"] = confidence
    change_saved(place, record)
    with Served(place) as served:
        tab = opened(browser, served, 1366)
        queue = tab.locator("#queue")
        shows(queue.locator("p"), "0 of 2, 0:00 of 0:12 confirmed")
        last = tab.locator("#grid .card").last.bounding_box()
        assert last["y"] + last["height"] < 768  # all timelines beside the video
        press(tab, "Enter")
        shows(tab.locator("#stage h2"), "two")
        until(tab, video("currentTime === 3"))
        queue.get_by_label("Which videos").select_option("unsure")
        counts(tab.locator("#grid .card"), 1)
        queue.get_by_label("Which videos").select_option("all")
        queue.get_by_label("Order").select_option("unsure")
        shows(tab.locator("#grid .card .name").first, "two")
        queue.get_by_label("Find a video").fill("on")
        counts(tab.locator("#grid .card"), 1)
        queue.get_by_label("Find a video").fill("")
        queue.get_by_label("Select all").check()
        queue.get_by_role("button", name="Confirm 2 videos").click()
        shows(queue.locator("p"), "2 of 2, 0:12 of 0:12 confirmed")
        confirm = tab.locator(".transport").get_by_role("button", name="Confirmed")
        confirm.click()
        shows(queue.locator("p"), "1 of 2, 0:06 of 0:12 confirmed")
        press(tab, "Control+z")
        shows(queue.locator("p"), "2 of 2, 0:12 of 0:12 confirmed")
        press(tab, "Enter", saved="Every video is confirmed.")
        queue.get_by_role("button", name="Cards").click()
        assert tab.locator("#grid .picture").first.is_visible()


def test_keyboard_only(page, place):
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('handle')"):
            break
    label = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert label == "start of slice bread"
    press(page, "Tab", "Shift+ArrowRight", saved="move a boundary")
    assert parts_of(Edits(place))[0] == (0.0, 3.0, 0)
    assert page.evaluate("document.activeElement.getAttribute('aria-valuetext')") == "0:03.0"
    press(page, "Control+z", saved="Undone: move a boundary")
    assert parts_of(Edits(place))[0] == (0.0, 2.0, 0)
    page.evaluate("document.activeElement.blur()")
    press(page, "b", saved="Saved: mark background")
    assert parts_of(Edits(place))[0] == (2.0, 4.0, 1)
    press(page, "ArrowUp", "3", saved="Saved: mark pour tea")
    assert parts_of(Edits(place)) == [(2.0, 4.0, 2), (4.5, 6.0, 2)]
    press(page, "ArrowRight", "s", saved="Saved: split a segment")
    assert parts_of(Edits(place))[:2] == [(2.0, 3.0, 2), (3.0, 4.0, 2)]  # both halves keep the step
    assert page.locator("#stage .segments button").nth(1).get_attribute("aria-current") == "true"
    press(page, "Control+z", saved="Undone: split a segment")
    press(page, "n", saved="Saved: split a step")
    assert parts_of(Edits(place))[:2] == [(2.0, 3.0, 2), (3.0, 4.0, 3)]
    press(page, "m", "ArrowLeft", "m", "1", saved="Saved: mark slice bread")
    assert (2.0, 3.0, 0) in parts_of(Edits(place))
    press(page, "?")
    shows(page.locator("dialog h2"), "Keys")
    press(page, "Escape", "PageDown")
    shows(page.locator("#stage h2"), "two")


def test_a_boundary_moved_by_keys_is_saved_before_the_next_key_acts(page, place):
    page.locator("#stage .segments button").first.click()
    page.locator("[data-key='1end']").focus()
    press(page, "Shift+ArrowLeft")
    # Of the first segment, within the time in which a held key counts as one move.
    press(page, "b", saved="Saved: mark background")
    page.wait_for_timeout(500)
    assert parts_of(Edits(place)) == [(2.0, 3.0, 1), (4.5, 6.0, 2)]
    page.locator("[data-key='1end']").focus()
    press(page, "Shift+ArrowLeft", "Control+z", saved="Undone: move a boundary")
    assert parts_of(Edits(place)) == [(2.0, 3.0, 1), (4.5, 6.0, 2)]


def test_a_boundary_is_dragged_while_the_video_plays(page, place):
    box = page.locator("[data-key='0end']").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    press(page, "Space")
    page.mouse.move(x - 20, y, steps=4)
    # In the next segment: all is drawn again.
    until(page, video("currentTime > 2.2"))
    page.mouse.move(x + 60, y, steps=4)
    page.mouse.up()
    wait_saved(page, "Saved: move a boundary")
    wide = page.locator(".wide").bounding_box()["width"]  # six seconds
    assert parts_of(Edits(place))[0][1] == pytest.approx(2.0 + 60 * 6 / wide, abs=0.1)


def test_keys_in_quick_succession_act_on_what_the_one_before_left(page, place):
    # Split at 1 s; the second half ends a frame later.
    page.evaluate(f"['ArrowRight', 's', '.', 'o'].forEach({PRESS})")
    wait_saved(page, "Saved: move a boundary")
    (_, first, _), (start, end, _), *_ = parts_of(Edits(place))
    assert first == start == 1.0
    assert 1.0 < end < 1.2


def test_what_was_just_done_is_saved_when_the_page_is_left(page, served, place):
    name_of(page, 0).fill("cut")
    page.goto(served.running.address)
    page.wait_for_selector("body.ready")
    until(page, "document.querySelector('#steps .name').value === 'cut'")
    page.locator("[data-key='0end']").focus()
    press(page, "Shift+ArrowLeft")
    reload(page)
    assert [edit["do"] for edit in Edits(place).corrections.done] == ["rename", "move"]


def test_a_video_that_is_not_there_shows_no_picture_of_another(page, served):
    film = Path(served.viewer.videos["two"])
    away = film.rename(film.with_suffix(".away"))
    reload(page)
    press(page, "PageDown")
    until(page, text_of("#stage .note", "missing"))
    assert not page.locator("#stage video").get_attribute("poster")
    away.rename(film)


def test_a_range_from_another_video_starts_again(page):
    press(page, "m", "PageDown")
    shows(page.locator("#stage h2"), "two")
    press(page, "ArrowRight", "m")
    assert page.locator(".range").is_hidden()
    press(page, "ArrowRight", "m")
    until(page, text_of(".segment-acts", "Range 0:01.0 – 0:02.0"))


def test_a_name_that_is_typed_while_another_is_saved_stays(page, place):
    page.evaluate(
        "(get => { window.fetch = async (...all) => { const answer = await get(...all);"
        "await new Promise(then => setTimeout(then, 600)); return answer; } })(window.fetch)"
    )
    name_of(page, 0).fill("cut")
    name_of(page, 1).click()
    press(page, "Control+a")
    page.keyboard.type("butter it well", delay=80)
    press(page, "Enter", saved="to butter it well")
    assert [edit["name"] for edit in Edits(place).corrections.done] == ["cut", "butter it well"]


def test_two_people_see_each_others_edits(page, browser, served):
    other = opened(browser, served)
    for editor, reader, place in ((page, other, 0), (other, page, 1)):
        rename(editor, place, f"named {place}")
        until(reader, f"document.querySelector('[data-key=name{place}]').value === 'named {place}'")
    steps = served.viewer.edits.document.steps
    assert [step.name for step in steps[:2]] == ["named 0", "named 1"]


def test_a_lost_server_is_reported(browser, place):
    with Served(place) as served:
        tab = opened(browser, served)
    rename(tab, 0, "cut", "stepcut does not answer.")
    press(tab, "e")
    tab.locator("#export-view [name=csv]").check()
    until(tab, text_of(".preview", "does not answer"))
    port = int(served.host.rpartition(":")[2])
    again = Running(served.running.workspace, port).start()  # at the same place
    press(tab, "F2")
    rename(tab, 0, "cut")
    again.close()


def test_steps_are_merged_coloured_added_and_made_critical(page, place):
    rename(page, 0, "pour tea", "is already a step")
    assert name_of(page, 0).input_value() == "slice bread"
    page.locator("[data-key=more1]").click()
    page.get_by_label("Merge into").select_option("0")
    page.locator("dialog button.main").click()
    wait_saved(page, "Saved: merge spread butter into slice bread")
    assert parts_of(Edits(place))[0] == (0.0, 4.0, 0)
    page.locator("[data-key=colour0]").evaluate(
        "input => { input.value = '#aa0000'; input.dispatchEvent(new Event('change')) }"
    )
    wait_saved(page, "Saved: colour slice bread")
    assert Edits(place).document.steps[0].colour == "#aa0000"
    page.get_by_label("Severity of pour tea in a check").select_option("critical")
    wait_saved(page, "Saved: set the severity")
    assert Edits(place).severity == {2: "critical"}
    reload(page)
    assert page.get_by_label("Severity of pour tea in a check").input_value() == "critical"
    page.locator("#add").click()
    page.keyboard.type("wipe")
    press(page, "Enter", saved="Saved: add step wipe")
    counts(page.locator("dialog"), 0)


def test_filter_and_search(page):
    page.locator("[data-key=only1]").click()
    counts(page.locator("#grid .card:visible"), 1)  # the second video does not do it
    bar = page.locator("#grid .card").first.locator(".blocks").first
    drawn = bar.evaluate("one => one.style.getPropertyValue('--steps')")
    assert len(re.findall(r"color-mix\(in srgb, #\w+ 16%", drawn)) == 2  # the other steps are dim
    press(page, "Escape")
    counts(page.locator("#grid .card:visible"), 2)
    press(page, "/")
    page.keyboard.type("TEA")
    counts(page.locator("#steps .name"), 1)
    press(page, "Enter")
    shows(page.locator("#stage .segments [aria-current] .what"), "pour tea")
    press(page, "Enter")
    shows(page.locator("#stage h2"), "two")


def test_one_step_in_all_videos_side_by_side(page):
    page.locator("[data-key=all0]").click()
    shows(page.locator("#compare h2"), "slice bread")
    counts(page.locator("#compare .tile"), 2)
    until(page, "[...document.querySelectorAll('.tile video')].every(v => v.currentTime > 0.6)")
    times = page.locator(".tile video").evaluate_all("all => all.map(video => video.currentTime)")
    assert times[0] < 2.1
    assert 0.4 < times[1] < 3.1
    rename(page, 0, "cut")  # while it plays
    shows(page.locator("#compare h2"), "cut")
    page.locator("#compare [aria-label='Back to the video']").click()
    shows(page.locator("#stage .segments .what").first, "cut")
    counts(page.locator(".tile"), 2)
    assert page.locator(".tile video").evaluate_all(
        "all => all.every(video => !video.getAttribute('src'))"
    )


def test_a_hostile_name_is_text(page, served):
    hostile = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
    rename(page, 0, hostile)
    reload(page)
    shows(page.locator("#stage .segments .what").first, hostile)
    page.locator("[data-key=more0]").click()
    press(page, "Escape")
    page.locator("[data-key=all0]").click()
    shows(page.locator("#compare h2"), hostile)
    assert page.evaluate("window.hacked === undefined")
    counts(page.locator("main img[src=x], header img[src=x]"), 0)
    assert hostile not in served.get("").text


def test_names_fit_into_blocks_of_any_width(page, place):
    rename(page, 0, "spread marmalades")
    for width in range(220, 900, 40):
        page.set_viewport_size({"width": width, "height": 800})
        shown = page.locator("#stage .track .block .head").evaluate_all(
            "all => all.map(head => [head.offsetTop, head.clientWidth, head.scrollWidth])"
        )
        assert all(top > 20 or wide >= min(20, whole) for top, wide, whole in shown), (width, shown)
        lefts = page.locator(".track .block .tail").evaluate_all(
            """all => all.map(tail => tail.getBoundingClientRect().left
                                      - tail.parentNode.getBoundingClientRect().left)"""
        )
        assert min(lefts) >= 0, width  # it loses its end, not its beginning
    page.set_viewport_size({"width": 1400, "height": 900})
    rename(page, 0, "put the very long thing that nobody can read on shelf A")
    block = page.locator("#stage .track .block").first
    shows(block.locator(".tail"), "on shelf A")
    box, tail = block.bounding_box(), block.locator(".tail").bounding_box()
    assert tail["x"] + tail["width"] <= box["x"] + box["width"]
    Edits(place).do({"do": "mark", "video": "one", "start": 1.0, "end": 1.1, "step": 2})
    reload(page)
    shown = page.locator("#stage .track .block").evaluate_all(
        "all => all.map(one => [one.clientWidth, getComputedStyle(one.lastChild).display])"
    )
    assert {text for width, text in shown if width < 20} == {"none"}
    assert "none" not in {text for width, text in shown if width > 100}


def test_the_page_runs_no_injected_script_and_asks_nobody_else(browser, served):
    tab = browser.new_page()
    assert tab.goto(f"{served.origin}/wrong-token/").status == 403
    assert "token" in tab.content()
    tab.goto(served.running.address)
    tab.evaluate("""() => { const s = document.createElement('script'); s.textContent = 'window.ran = 1';
                            document.head.append(s); }""")
    assert tab.evaluate("window.ran === undefined")
    asked = "fetch('http://localhost:9/').then(() => 'sent', () => 'blocked')"
    assert tab.evaluate(asked) == "blocked"


def test_another_site_cannot_reach_it(browser, served):
    tab = browser.new_page()
    page = {"body": "<h1>evil</h1>", "content_type": "text/html"}
    tab.route("http://evil.example/", lambda route: route.fulfill(**page))
    tab.goto("http://evil.example/")
    address = served.running.address
    reached = tab.evaluate(
        "url => fetch(url + 'api/state').then(a => a.text(), () => 'blocked')", address
    )
    assert reached == "blocked"
    tab.evaluate("url => fetch(url + 'api/undo', {method: 'POST', mode: 'no-cors', body: '{}'})"
                 ".then(() => 0, () => 0)", address)  # fmt: skip
    assert served.viewer.edits.corrections.history == ()


def test_a_video_that_the_browser_cannot_play_gets_a_copy(browser, place):
    film = make_film(place.parent / "old.avi", frames=90, rate=15, codec="mpeg4")
    record = saved(place)
    record["videos"]["one"]["path"] = str(film)
    change_saved(place, record)
    with Served(place) as served:
        tab = opened(browser, served)
        until(tab, "/copy/.test(document.querySelector('#stage video').src)")
        until(tab, video("videoWidth > 0"))
        assert tab.evaluate(video("duration")) == pytest.approx(6, abs=0.5)


def test_thirty_videos_and_a_first_paint(browser, place):
    record = saved(place)
    videos = [record["videos"]["one" if number % 2 else "two"] for number in range(30)]
    change_saved(place, {**record, "videos": {f"video {n}": one for n, one in enumerate(videos)}})
    with Served(place) as served:
        tab = opened(browser, served)
        counts(tab.locator("#grid .card"), 30)
        counts(tab.locator("video"), 1)  # only the chosen one is loaded
        assert tab.evaluate("performance.getEntriesByType('paint').length") > 0
        tab.locator("[data-key=all0]").click()
        until(tab, "document.querySelectorAll('.tile video[src]').length > 3")
        assert tab.locator(".tile video[src]").count() < 30


def test_a_check_report_is_shown_on_the_timeline(browser, place, kitchen):
    from stepcut.app.checks import CheckedVideo, Part
    from stepcut.checking.report import Finding, Report, StepSeen

    why = "spread <b>butter</b> was not done", "2 s match no known step"
    findings = [Finding("missed", 2.0, 2.0, 1, "spread butter", 0.9, why[0])]
    findings.append(Finding("unknown", 3.0, 4.5, None, "", 0.7, why[1]))
    steps = [StepSeen(1, "spread butter", 0.02, (), 1.0)]
    report = Report("new", 6.0, findings, 2.0, steps, 0.25, 0.05)
    film = str(sorted((kitchen / "videos").iterdir())[0])
    new = CheckedVideo("new", film, 6.0, (Part(0.0, 2.0, 0), Part(4.5, 6.0, 2)), report.to_json())
    with Served(place, [new]) as served:
        tab = opened(browser, served)
        tab.locator("#grid .card").nth(2).locator("button").click()
        counts(tab.locator("#stage .track .findings .finding"), 2)
        shows(tab.locator(".found p").first, "new: 1 missed, 1 unknown.")
        shows(tab.locator(".found .what").first, "spread <b>butter</b> was not done")
        unseen = tab.locator(".found .unseen").inner_text()
        assert unseen == "not seen: spread butter (probability 2 %)"
        counts(tab.locator("#stage .handle"), 0)  # a new video is shown, not edited
        assert tab.locator(".segment-acts").is_hidden()
        tab.locator(".found button").nth(1).click()
        until(tab, video("currentTime === 3"))


def test_two_annotators_one_above_the_other(browser, place):
    from stepcut.app.state import OtherTimelines
    from stepcut.timeline import Segment, Timeline

    parts = [(0, 3, "slice bread"), (3, 4, "spread butter"), (4.5, 6, "drink")]
    bob = Timeline([Segment(*part) for part in parts], 6.0)
    with Served(place, beside=OtherTimelines("bob", {"films/one.mp4": bob})) as served:
        for width in (1400, 390):
            tab = opened(browser, served, width)
            counts(tab.locator("#stage .track .beside .block"), 3)
            assert tab.locator("#stage .track .beside").bounding_box()["height"] == 30  # names fit
            assert tab.locator("#grid .card").nth(1).locator(".beside").is_hidden()
            assert tab.locator(".apart .what").all_inner_texts() == ["spread butter ≠ slice bread"]
            press(tab, "d")
            until(tab, video("currentTime === 2"))
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
        tab = opened(browser, served, at="#two@3.5")
        shows(tab.locator("#stage h2"), "two")
        shows(tab.locator("#stage .segments [aria-current] .what"), "pour tea")


def test_keys_work_on_keyboards_of_other_letters(page, place):
    def press(key, code, ctrl=False):
        page.evaluate(
            """([key, code, ctrlKey]) => document.body.dispatchEvent(
                new KeyboardEvent('keydown', { key, code, ctrlKey, bubbles: true }))""",
            [key, code, ctrl],
        )

    press("ف", "KeyT")  # nothing to learn yet
    press("\u06f2", "Digit2")  # a Persian 2: the second step
    wait_saved(page, "mark spread butter")
    press("я", "KeyZ", ctrl=True)
    wait_saved(page, "Undone")
    press("х", "BracketRight")  # to the next boundary
    until(page, video("currentTime === 2"))
    press("ы", "KeyS")  # at the start of the segment: in its middle
    wait_saved(page, "split a segment")
    press("я", "KeyZ", ctrl=True)
    wait_saved(page, "Undone")
    press("é", "Digit2")  # no digit on a French keyboard
    press("и", "KeyB")
    wait_saved(page, "mark background")
    assert [edit["do"] for edit in Edits(place).corrections.done] == ["mark"]


def test_names_from_right_to_left_begin_at_the_right(page):
    for number, name in (
        (0, "לחתוך את הלחם לפרוסות דקות (לאט)"),
        (2, "صب الشاي في الكوب 2 (ساخن)"),
    ):
        rename(page, number, name, f"to {name}")
    blocks = """all => all.map(block => ['.head', '.tail'].map(
        part => block.querySelector(part).getBoundingClientRect().left))"""
    places = page.locator(".track .block").evaluate_all(blocks)
    assert [head > tail for head, tail in places] == [True, False, True]


def test_a_video_is_marked_as_containing_a_mistake(browser, many):
    with Served(many) as served:
        page = opened(browser, served, 390)
        button = page.get_by_role("button", name="Contains a mistake", exact=True)
        name = page.locator("#stage h2").text_content()
        button.click()
        wait_saved(page, f"{name} contains a mistake")
        assert button.get_attribute("aria-pressed") == "true"
        assert page.locator(".card .badge.wrong").all_text_contents() == ["contains a mistake"]
        counts(page.locator(".card .badge:text-is('most unusual')"), 3)
        assert sc.load(many).document.said.mistakes == {name}
        press(page, "x", saved=f"{name} is normal")
        assert button.get_attribute("aria-pressed") == "false"
        assert sc.load(many).document.said.mistakes == set()
        page.close()


def test_quality_is_shown_and_the_number_of_steps_is_chosen(browser, place):
    merges = [{"a": [0], "b": [2], "cost": 0.1, "count": 2}]
    merges.append({"a": [0, 2], "b": [1], "cost": 0.9, "count": 1})
    quality = {"kind": "labels", "now": [0.45, 0.3, 0.6], "why": "cross-validated on 2 videos"}
    change_config(place, quality=quality, hierarchy={"steps": ["0", "1", "2"], "merges": merges})
    with Served(place) as served:
        tab = opened(browser, served)
        shows(tab.locator("#trust"), "45 % right")
        press(tab, "g")
        told = tab.locator("dialog").inner_text()
        assert "45 % (30–60 %) of the unlabelled time is right" in told
        tab.get_by_label("How many steps").fill("2")
        groups = tab.locator("dialog .groups li").all_inner_texts()
        assert groups == ["slice bread\npour tea", "spread butter"]
        tab.get_by_text("Merge these").click()
        wait_saved(tab, "Saved: merge pour tea into slice bread")
        assert [step.number for step in Edits(place).document.steps] == [0, 1]


def test_boundaries_are_reached_and_moved_by_a_frame(page, served):
    wait_rate(page)
    press(page, "]")
    until(page, video("currentTime === 2"))
    press(page, "w", saved="move a boundary")
    assert parts_of(served.viewer.edits)[0][1] == pytest.approx(2 + 1 / 10, abs=0.001)
    press(page, *5 * ["w"])  # faster than they are saved
    until(page, "Math.abs(document.querySelector('#stage video').currentTime - 2.6) < 0.01")
    assert parts_of(served.viewer.edits)[0][1] == pytest.approx(2.6, abs=0.005)
    press(page, "[")
    until(page, video("currentTime === 0"))


def test_a_video_is_confirmed_and_the_others_learn_from_it(browser, learned):
    with Served(learned) as served:
        tab = opened(browser, served, 390)
        assert tab.locator("#teach").is_hidden()
        video = served.viewer.state()["videos"][0]["name"]
        for step, start in enumerate((0.0, 3.0)):
            # Long enough for any segmentation of this short video.
            change = edit("mark", video, start=start, end=start + 2.9, step=step)
            served.viewer.edits.do(change)
        reload(tab)
        press(tab, "y", saved="confirm")
        tab.locator("#teach").click()
        tab.locator("dialog button.main").click()
        until(tab, text_of("dialog", "as you labelled it"))
        assert served.viewer.edits.outline.learned.annotations.annotated
        tab.get_by_text("Take it back").click()
        wait_saved(tab, "Undone")
        assert not served.viewer.edits.outline.learned.annotations.annotated


def test_clicks_are_tapped_moved_removed_and_undone(page, place):
    press(page, "p")
    assert page.locator("#taps").is_visible()
    press(page, "1", saved="Saved: click slice bread in one")
    press(page, *3 * ["ArrowRight"])
    page.locator("#taps .chip", has_text="spread butter").click()
    wait_saved(page, "Saved: click spread butter")
    assert clicks_of(Edits(place)) == [(0.0, 0), (3.0, 1)]
    shows(page.locator("#taps .counter"), "1 of 2 videos clicked")
    counts(page.locator(".track .pin"), 2)
    # A pin is dragged with the mouse, moved and removed with keys.
    bar, pin = (
        page.locator(which).bounding_box() for which in ("#stage .blocks >> nth=0", ".pin >> nth=1")
    )
    at = pin["x"] + pin["width"] / 2, pin["y"] + pin["height"] / 2
    page.mouse.move(*at)
    page.mouse.down()
    page.mouse.move(at[0] - bar["width"] / 6, at[1], steps=4)
    page.mouse.up()
    wait_saved(page, "Saved: move a click")
    assert clicks_of(Edits(place))[1][0] == pytest.approx(2.0, abs=0.03)
    page.locator(".pin").nth(0).focus()
    press(page, "Shift+ArrowRight")
    until(page, "document.activeElement.getAttribute('aria-valuetext') === '0:01.0'")
    label = "document.activeElement.getAttribute('aria-label')"
    until(page, f"{label} === 'click: slice bread at 0:01.0'")  # it is saved
    press(page, "Delete", saved="Saved: remove a click")
    assert [step for _, step in clicks_of(Edits(place))] == [1]
    press(page, "Control+z", saved="Undone: remove a click")
    assert clicks_of(Edits(place))[0] == (1.0, 0)
    # A redraw before the answer, such as a late suggestion, keeps the tick.
    page.evaluate(
        """() => {
          const store = document.querySelector("script[type=module]").src.replace("app.js", "store.js");
          document.querySelector("#taps .whole input").addEventListener("change",
            () => import(store).then((own) => own.changed("tap")), { once: true });
        }"""
    )
    page.locator("#taps").get_by_label("Every step of this video is clicked").check()
    wait_saved(page, "complete")
    assert Edits(place).document.said.videos["one"].complete
    page.evaluate("document.activeElement.blur()")
    press(page, "Enter")  # the next video, playing
    shows(page.locator("#stage h2"), "two")
    until(page, "!document.querySelector('#stage video').paused")
    press(page, "Escape")
    assert page.locator("#taps").is_hidden()
    reload(page)
    counts(page.locator(".track .pin"), 2)


def test_onsets_are_coded_by_keys_of_one_and_two_letters(page, place):
    page.keyboard.press("p")
    page.get_by_role("button", name="Onsets").click()
    key = page.get_by_label("Key of pour tea")
    for code in ("1", "pt"):  # the first is taken
        key.fill(code)
        key.press("Enter")
    page.keyboard.press("1")
    for code in ("pt", "0"):
        page.keyboard.press("ArrowRight")
        page.keyboard.type(code)
    wait_saved(page, "Saved: background starts in one")
    page.keyboard.press("Shift+2")
    wait_saved(page, "Saved: click spread butter in one")

    def keyed():
        onsets = Edits(place).document.said.videos["one"].onsets
        return [(round(each.time, 1), each.step) for each in onsets]

    assert keyed() == [(0.0, "slice bread"), (1.0, "pour tea"), (2.0, "")]
    assert [step for _, step in clicks_of(Edits(place))] == [1]
    assert page.locator("#stage .segments .what").all_inner_texts() == ["slice bread", "pour tea"]
    page.get_by_role("slider", name="onset: background").focus()
    page.keyboard.press("Shift+ArrowRight")
    wait_saved(page, "Saved: move an onset")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("7")
    wait_saved(page, "No step has the key 7.")
    page.keyboard.press("Backspace")
    wait_saved(page, "Saved: remove an onset")
    assert len(keyed()) == 2
    page.keyboard.press("ArrowRight")
    page.keyboard.type("pt")  # the key of the step that runs ends it
    wait_saved(page, "Saved: background starts in one")


def test_keys_act_on_the_video_after_a_click_in_tap_mode(page):
    page.locator("#tap").click()
    page.locator("#taps .chip").first.click()
    until(page, "document.querySelectorAll('.track .pin').length === 1")
    press(page, "Space")  # plays; pressing the chip again would add a click
    until(page, "!document.querySelector('#stage video').paused")
    counts(page.locator(".track .pin"), 1)
    press(page, "Enter")  # the next video; the Tap button would leave tap mode
    shows(page.locator("#stage h2"), "two")
    assert page.locator("#taps").is_visible()


def test_a_phone_shows_the_chosen_video_and_creates_steps_while_tapping(browser, served):
    tab = opened(browser, served, 390)
    tab.locator("#grid .card .open").last.click()
    shows(tab.locator("#stage h2"), "two")
    until(tab, "document.querySelector('#stage').getBoundingClientRect().top > -2")
    tab = opened(browser, served, 390)
    tab.locator("#tap").click()
    chips = tab.locator("#taps .chip")
    for place in range(chips.count()):
        box = chips.nth(place).bounding_box()
        assert box["height"] >= 48  # a thumb's size
        assert box["y"] > 844 / 3
        assert box["y"] + box["height"] <= 844  # and where a thumb is
    tab.get_by_role("button", name="New step").last.click()
    tab.locator("dialog input").fill("add jam")
    press(tab, "Enter", saved="Saved: click add jam in one")
    assert clicks_of(Edits(served.viewer.folder)) == [(0.0, 3)]
    assert tab.evaluate("document.documentElement.scrollWidth") == 390


def test_signals_are_shown_where_there_is_no_video(browser, tmp_path):
    import numpy as np

    from stepcut.toy import toy_features

    rows, timelines = toy_features(videos=3, seed=0, dim=6)
    for timeline, one in zip(timelines, rows, strict=True):
        (tmp_path / "sensors").mkdir(exist_ok=True)
        np.save(tmp_path / "sensors" / f"{timeline.video}.npy", one)
    sc.learn(tmp_path / "sensors", steps=4, restarts=2, output=tmp_path / "sensors.proc")
    with Served(tmp_path / "sensors.proc") as served:
        tab = opened(browser, served, 1280)
        until(tab, "!document.querySelector('#stage canvas').hidden")
        label = tab.locator("#stage canvas").get_attribute("aria-label")
        assert label.startswith("Signals: channel 1, channel 2")
        press(tab, "Space")  # it plays as a video does
        until(tab, "parseFloat(document.querySelector('.signal-line').style.left) > 0")
        press(tab, "Space")


def test_the_history_lists_changes_and_goes_back(page, served):
    for name in ("bread", "loaf"):
        served.edit({"do": "rename", "step": 0, "name": name})
    reload(page)
    page.click("#history")
    assert "rename bread to loaf" in page.text_content("dialog tr")
    page.click("dialog tr:nth-child(2) button")
    wait_saved(page, "all after change")
    assert served.viewer.edits.document.steps[0].name == "bread"
