"""The whole workflow in a real browser, on desktop and phone, with a killed server."""

import os
import re
import signal
import subprocess
import sys
from fractions import Fraction

import pytest
from show_browser_kit import Browser, counts, launched, shows, until
from show_fixtures import write_procedure

from stepcut.features.video.sample import sample_frames
from stepcut.formats import read
from stepcut.procedure.edits import Edits
from stepcut.show.clips import write_video
from stepcut.toy import make_kitchen

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Three toy videos to learn from, a broken one, and one that ends after two seconds."""
    folder = tmp_path_factory.mktemp("made")
    kitchen = make_kitchen(folder / "toy", videos=3, duration=8).folder
    (folder / "videos").mkdir()
    for video in (kitchen / "videos").iterdir():
        video.rename(folder / "videos" / video.name)
    (folder / "videos" / "broken.mp4").write_bytes(b"no video")
    (folder / "new").mkdir()
    first = min((folder / "videos").glob("k*.mp4"))
    frames = [picture for time, picture in sample_frames(first, fps=Fraction(10)) if time < 2]
    write_video(frames, Fraction(10), folder / "new" / "flawed.mp4")
    return folder


class App:
    def __init__(self, root):
        words = ["app", str(root), "--no-browser"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stepcut", *words], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()

    def end(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
            self.process.communicate()


@pytest.fixture
def root(made, tmp_path):
    """A separate folder for each run; jobs of a killed server end with the test."""
    folder = tmp_path / "work"
    folder.mkdir()
    for name in ("videos", "new"):
        (folder / name).mkdir()
        for video in (made / name).iterdir():
            os.link(video, folder / name / video.name)
    yield folder
    App(folder).end()  # takes over the jobs


@pytest.fixture(params=[(1280, 800), (390, 844)], ids=["desktop", "phone"])
def size(request):
    return request.param


@pytest.fixture
def open_app(root, size):
    apps, browser = [], None

    def start():
        apps.append(App(root))
        return apps[-1], browser.open(apps[-1].address, size)

    with launched() as chromium:
        browser = Browser(chromium)
        yield start
        tab = chromium.contexts[-1].pages[-1]
        assert tab.evaluate("document.documentElement.scrollWidth") <= size[0]
        tab.context.close()
    for app in apps:
        app.end()
    assert browser.complaints == []


def open_tea(open_app, root):
    """The page of a procedure of two videos."""
    first, second, _ = sorted((root / "videos").glob("k*.mp4"))
    write_procedure(root / "tea.proc", {"one": str(first), "two": str(second)})
    _, tab = open_app()
    tab.locator(".procedures a").click()
    tab.wait_for_selector("body.ready")
    return tab


def test_the_whole_loop(open_app, root):
    app, tab = open_app()

    # New procedure: the picker, the videos with their problems, and the number of steps.
    tab.locator("#new").click()
    tab.get_by_role("button", name="videos/").click()
    until(tab, "document.querySelectorAll('.wizard tbody .soft').length === 3")
    counts(tab.locator(".wizard tbody .bad"), 1)
    assert tab.get_by_label("Use broken.mp4").is_disabled()
    tab.locator("[name=steps]").fill("3")
    tab.locator("[name=name]").fill("tea")
    tab.get_by_role("button", name="Learn", exact=True).click()

    # Cancel and resume; then kill the server, and continue with a new one.
    tab.get_by_role("button", name="Cancel").click()
    tab.wait_for_selector(".job.cancelled")
    tab.get_by_role("button", name="Resume").click()
    tab.wait_for_selector(".job.running")
    app.end(signal.SIGKILL)
    until(tab, "document.getElementById('status').textContent.includes('does not answer')")
    tab.context.close()
    _, tab = open_app()
    tab.wait_for_selector(".job.done", timeout=300_000)
    assert "3 steps from 3 videos" in tab.locator(".job").inner_text()
    tab.locator(".job a.button").click()
    tab.wait_for_selector("body.ready")

    # Tap three videos, and learn from the clicks.
    tab.locator("#tap").click()
    for video in range(3):
        until(tab, "document.querySelector('#stage video').readyState >= 1")
        for step in range(3):
            for _ in range(2):
                tab.keyboard.press("ArrowRight")
            tab.locator("#taps .chip").nth(step).click()
            until(tab, f"document.querySelectorAll('.track .pin').length === {step + 1}")
        shows(tab.locator("#taps .counter"), f"{video + 1} of 3 videos clicked")
        if video < 2:
            tab.locator("#taps .next-video").click()
            until(tab, "document.querySelectorAll('.track .pin').length === 0")
            tab.keyboard.press("Space")
    assert {len(clicks) for clicks in Edits(root / "tea.proc").document.said.clicks.values()} == {3}
    tab.locator("#taps button.main").click()
    tab.locator("dialog button.main").click()
    tab.locator("dialog .changes").wait_for(timeout=300_000)
    counts(tab.locator("dialog .changes .strip"), 6)  # before and after, of each video
    tab.get_by_role("button", name="Keep").click()
    tab.locator("#tap").click()

    # A flawed video: every step is critical here, and it ends before most of them.
    for step in range(3):
        tab.locator(".severity").nth(step).select_option("critical")
        until(tab, f"document.querySelectorAll('.severity.critical').length === {step + 1}")
    tab.locator("#tabs a").nth(1).click()
    tab.get_by_role("button", name="Choose videos").click()
    tab.get_by_role("button", name="new/").click()
    tab.get_by_label("flawed.mp4").check()
    tab.locator("dialog button.main").click()
    tab.locator("article.check.bad").wait_for(timeout=300_000)
    shows(tab.locator("article.check .verdict"), "deviations")
    counts(tab.locator("article.check tbody tr"), 3)
    tab.locator("article.check summary").click()
    heard = tab.locator("#check-view").aria_snapshot()
    assert "deviations" in heard
    assert re.search(r'button "(missing|unusual) \w+', heard)
    assert 'row "step 1 ' in heard

    while tab.locator("article.check li:not(.fine) .mark-fine").count():
        left = tab.locator("article.check li:not(.fine)").count()
        tab.locator("article.check li:not(.fine) .mark-fine").first.click()
        until(tab, f"document.querySelectorAll('.check li:not(.fine)').length === {left - 1}")
    shows(tab.locator("article.check .verdict"), "not enough evidence")
    tab.get_by_role("button", name="Check again").click()
    tab.locator("#check-view progress").wait_for(state="hidden")
    shows(tab.locator("article.check .verdict"), "not enough evidence")

    tab.locator("#tabs a").nth(4).click()
    tab.locator("#export-view [name=elan]").check()
    tab.locator("#export-view [name='times-xlsx']").check()
    until(tab, "document.querySelector('.preview').textContent.includes('times.xlsx')")
    tab.get_by_role("button", name="Write the files").click()
    tab.locator(".done .good").wait_for(timeout=300_000)
    written = root / "tea-export"
    assert (written / "times.xlsx").read_bytes()[:2] == b"PK"
    labels = sorted((written / "labels-elan").glob("*.eaf"))
    assert len(labels) == 3
    assert read(labels[0])


def test_a_file_that_is_not_a_video_is_refused_with_a_reason(open_app, root):
    tab = open_tea(open_app, root)
    tab.locator("#tap").click()
    tab.evaluate("location.hash = '#/check'")  # as the key F3 does
    tab.locator("#tabs a").nth(1).wait_for()  # tap mode does not hide the tabs here
    with tab.expect_file_chooser() as chooser:
        tab.get_by_role("button", name="Upload videos").click()
    chooser.value.set_files({"name": "notes.txt", "mimeType": "text/plain", "buffer": b"x"})
    note = tab.locator("#check-view [role=status].bad")
    note.wait_for()
    assert "notes.txt" in note.inner_text()

    # An export without a format asks for one.
    tab.locator("#tabs a").nth(4).click()
    tab.locator(".preview p").wait_for()
    write = tab.get_by_role("button", name="Write the files")
    assert write.is_disabled()
    tab.locator("#export-view [name=elan]").check()
    until(tab, "document.querySelectorAll('.preview li').length === 2")
    assert write.is_enabled()


def test_existing_labels_are_chosen_and_given_up_again(open_app, root, size):
    labels = root / "labels"
    labels.mkdir()
    for name in ("one.eaf", "two.csv", "three.TextGrid"):
        (labels / name).write_text("")
    (labels / "notes.docx").write_text("")
    _, tab = open_app()
    tab.locator("#new").click()
    group = tab.get_by_role("group", name="Labels")
    shown = group.locator("output")
    nothing = shown.inner_text()

    # A label file, whatever its format; other files are not offered.
    choose = group.get_by_role("button").first
    choose.click()
    dialog = tab.locator("dialog")
    dialog.get_by_role("button", name="labels/").click()
    dialog.get_by_label("two.csv").wait_for()
    counts(dialog.locator(".listing :focus"), 1)  # the keyboard stays in the list
    counts(dialog.get_by_role("radio"), 3)
    assert dialog.evaluate("node => node.scrollWidth") <= size[0]
    dialog.get_by_label("three.TextGrid").check()
    dialog.locator("button.main").click()
    shows(shown, "/labels/three.TextGrid")
    choose.click()
    dialog.get_by_role("button", name="Cancel").click()
    shows(shown, "/labels/three.TextGrid")
    group.get_by_role("button").last.click()
    shows(shown, nothing)


def test_times_are_shown_and_classes_limits_and_notes_written(open_app, root):
    tab = open_tea(open_app, root)
    tab.locator("#tabs a").nth(3).click()
    view = tab.locator("#times-view")
    view.locator(".run circle").nth(1).wait_for()
    view.locator("select[aria-label^='Class of']").first.select_option("waste")
    view.locator(".stack .waste").wait_for()
    view.get_by_label("Takt (s)").fill("2")
    tab.keyboard.press("Enter")
    view.locator(".run text.takt").wait_for()
    view.locator("[aria-label^='Limit of']").first.fill("10-40")
    view.locator("textarea").first.fill("Wear gloves")
    tab.keyboard.press("Tab")
    until(tab, "document.querySelector('#status').textContent.includes('note')")
    edits = Edits(root / "tea.proc")
    name = edits.document.steps[0].name
    assert edits.document.said.notes == {name: "Wear gloves"}
    assert edits.document.said.classes == {name: "waste"}
    assert edits.limits == {name: "10-40"}
    view.locator(".run circle").nth(1).click()
    until(tab, "document.body.dataset.view === 'correct'")
