"""The viewer's server: access control, answers, and which files it serves."""

import re
import shutil
import socket
import stat
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import av
import pytest
from show_kit import Page, ask, wait
from store_kit import revision

import stepcut as sc
from stepcut.app.checks import CheckedVideo, check_video, outline_of
from stepcut.app.security import Guard
from stepcut.app.state import OtherTimelines
from stepcut.app.workspace import Workspace
from stepcut.features.video.container import probe
from stepcut.procedure.edits import Edits
from stepcut.procedure.learning import read_outline
from stepcut.progress import silent
from stepcut.show.clips import proxy_of
from stepcut.timeline import Segment, Timeline
from stepcut.toy import make_kitchen


@pytest.fixture
def page(place):
    with Page(place) as opened:
        yield opened


def test_the_page_and_its_files_come_with_safety_headers(page):
    answer = page.get("")
    assert answer.status == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    files = re.findall(r'(?:href|src)="../../(files/[^"]+)"', answer.text)
    assert {Path(file).name for file in files} >= {"app.js", "strings.js", "style.css", "icon.svg"}
    for file in files:
        found = page.ask("GET", f"/{page.token.partition('/')[0]}/{file}", {})
        assert found.status == 200
        assert "immutable" in found.headers["cache-control"]
    assert "http" not in page.get("").text.replace("http-equiv", "")  # nothing from elsewhere


def test_requests_without_the_token_or_from_elsewhere_are_refused(page):
    token, _, rest = page.token.partition("/")
    paths = ["/", "/api/state", "/wrong/", "/wrong/api/state", "/favicon.ico", "//"]
    for path in [*paths, f"/{token[:-1]}/{rest}/", f"/{token}x/{rest}/"]:
        answer = page.ask("GET", path, {})
        assert (answer.status, "token" in answer.json()["error"]) == (403, True), path
        assert "content-security-policy" in answer.headers
    assert page.ask("GET", f"/{token}/", {}).headers["location"] == f"{rest}/"
    evil = "evil.example evil.example:80 127.0.0.1.evil.example [ [::1 ] a[b"
    for host in ("", *evil.split()):
        answer = page.get("api/state", headers={"host": host})
        assert (answer.status, "host name" in answer.text) == (403, True), host
    origins = [{"origin": name} for name in ("http://evil.example", "null", "http://127.0.0.1:1")]
    for headers in (*origins, *({"sec-fetch-site": f"{kind}-site"} for kind in ("cross", "same"))):
        assert page.get("api/state", headers=headers).status == 403, headers
        assert page.post("api/undo", {"revision": 0}, headers=headers).status == 403, headers
    followed = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"}  # a link
    assert page.get("", followed).status == 200
    for dest in ("iframe", "script", "empty", "video"):
        assert page.get("", {**followed, "sec-fetch-dest": dest}).status == 403, dest
    assert page.post("api/undo", {"revision": page.revision}, followed).status == 403


def test_a_change_needs_an_origin_json_and_a_small_body(page):
    undo, kind = f"/{page.token}/api/undo", {"content-type": "application/json"}
    assert page.ask("POST", undo, kind, b"{}").status == 403
    words = page.ask("POST", undo, {"origin": page.origin}, b"{}")
    assert (words.status, "application/json" in words.text) == (403, True)
    large = page.post("api/edit", {"revision": 0, "edit": {"do": "add", "name": "x" * 5_000_000}})
    assert "too large" in large.text


HOSTS = {  # by the address of the server: names that are its own, and others
    "127.0.0.1": ("localhost:8000 [::1]:8000", "10.0.0.5"),
    "0.0.0.0": ("10.0.0.5:80", "evil.example"),
    "10.0.0.5": ("10.0.0.5", "10.0.0.6"),
    "studio.lan": ("studio.lan:80", "evil.example"),
}


@pytest.mark.parametrize("bound", HOSTS)
def test_which_host_names_are_ours(bound):
    async def nothing(*_): ...

    guard, (ours, others) = Guard(nothing, "t", bound), HOSTS[bound]
    assert all(map(guard.accepts_host, ours.split()))
    assert not any(map(guard.accepts_host, others.split()))


def test_no_path_of_a_request_reaches_the_disk(page):
    paths = "../../../etc/passwd ..%2f..%2fetc%2fpasswd %2e%2e/%2e%2e/etc/passwd /etc/passwd "
    paths += "static/app.js config.json app.py poster/99 copy/0/mp4 api/zzz video/2 video/-1 "
    paths += "video/..%2f..%2fetc%2fpasswd video/one"
    for path in paths.split():
        answer = page.get(path)
        assert answer.status in (404, 405), path
        assert "root:" not in answer.text
    assert page.post("api/zzz", {"revision": page.revision}).status == 404


@pytest.mark.parametrize("name", ["notes.txt", "key", "link.mp4", "code.ts"])
def test_no_file_that_is_no_video_is_served(place, tmp_path, name):
    (tmp_path / "secret").write_text("root:x:0:0\n" * 99)
    (tmp_path / name).symlink_to(tmp_path / "secret")
    film = Path(read_outline(place).videos["two"])
    other = shutil.copy(film, tmp_path / "film.html")
    with Page(place, videos={"one": str(tmp_path / name), "two": str(other)}) as page:
        answer = page.get(f"video/{page.keys[0]}")
        assert (answer.status, "root:" in answer.text) == (422, False)
        answer = page.get(f"video/{page.keys[1]}")
        assert answer.content == film.read_bytes()
        assert answer.headers["content-type"] == "video/mp4"
        assert answer.headers["content-security-policy"].startswith("sandbox")
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_missing_video_is_reported(place):
    with Page(place, videos={"one": str(place / "moved.mp4")}) as page:
        assert page.get(f"video/{page.keys[0]}").json() == {"error": "This video is missing."}
        assert [video["there"] for video in page.get("api/state").json()["videos"]] == [False, True]


def test_the_state_holds_all_that_is_shown_and_is_not_sent_again(page):
    state = page.get("api/state").json()
    assert [step["name"] for step in state["steps"]] == ["slice bread", "spread butter", "pour tea"]
    assert state["videos"][0]["parts"][0] == [0.0, 2.0, 0, 0.8]
    assert (state["title"], state["undo"], state["revision"]) == ("breakfast", None, page.revision)
    assert {video["mistake"] for video in state["videos"]} == {None}  # none is a reference
    known = page.get("api/state").json()["stamp"]
    assert page.get(f"api/state?known={known}").json() == {}
    state = page.edit({"do": "rename", "step": 0, "name": "cut"})["state"]
    assert state["stamp"] != known
    assert page.get(f"api/state?known={known}").json() == state
    page.viewer.checks.add(CheckedVideo("new", "/new.mp4", 1.0, (), {}))
    assert page.get(f"api/state?known={state['stamp']}").json()["videos"][-1]["name"] == "new"


def test_edit_undo_redo_are_saved_before_they_are_answered(page, place):
    answer = page.edit({"do": "rename", "step": 0, "name": "<b>bread</b>"})
    assert answer["words"] == "rename slice bread to <b>bread</b>"
    assert answer["state"]["undo"] == answer["words"]
    assert Edits(place).document.steps[0].name == "<b>bread</b>"
    for verb, name in (("undo", "slice bread"), ("redo", "<b>bread</b>")):
        state = page.post(f"api/{verb}", {"revision": page.revision}).json()["state"]
        assert state["steps"][0]["name"] == name


def test_the_history_leads_back_to_any_change(page):
    for name in ("bread", "loaf"):
        page.edit({"do": "rename", "step": 0, "name": name})
    events = page.get("api/history").json()["events"][-2:]
    told = ["rename slice bread to bread", "rename bread to loaf"]
    assert [(one["what"], one["now"]) for one in events] == [(told[0], False), (told[1], True)]
    wish = {"revision": page.revision, "to": events[0]["id"]}
    state = page.post("api/back", wish).json()["state"]
    assert (state["steps"][0]["name"], state["undo"]) == ("bread", told[0])
    assert page.post("api/back", wish).status == 409  # it is of an earlier state
    for to, said in ((999, "does not exist"), ("x", "api/history")):
        answer = page.post("api/back", {"revision": page.revision, "to": to})
        assert (answer.status, said in answer.json()["error"]) == (422, True)


def test_an_edit_from_a_window_that_is_behind_is_refused(page, place):
    before = page.revision
    page.edit({"do": "rename", "step": 0, "name": "bread"})
    for call, wish in (
        ("edit", {"edit": {"do": "rename", "step": 0, "name": "late"}}),
        ("severity", {"step": 1, "severity": "critical"}),
    ):
        answer = page.post(f"api/{call}", {"revision": before, **wish})
        assert answer.status == 409
        assert answer.json()["state"]["steps"][0]["name"] == "bread"
    assert not Edits(place).severity


def test_videos_come_in_ranges_of_bytes_with_posters_and_frame_rates(page):
    place = f"video/{page.keys[0]}"
    whole = page.get(place).content
    answer = page.get(place, headers={"range": "bytes=100-199"})
    assert (answer.status, answer.content) == (206, whole[100:200])
    assert answer.headers["content-range"] == f"bytes 100-199/{len(whole)}"
    assert answer.headers["content-type"] == "video/mp4"
    assert page.get(f"poster/{page.keys[0]}").content.startswith(b"\xff\xd8")
    assert page.get(f"api/about/{page.keys[1]}").json()["rate"] == 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mp4", "webm"])
def test_copies_are_made_of_the_videos_that_the_browser_cannot_play(place, kind, tmp_path):
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video at all")
    with Page(place, videos={"two": str(broken)}) as page:
        good, bad = page.keys
        wanted = {"kind": kind, "codecs": ["vp9"], "videos": [bad], "stage": good}
        answer = page.post("api/copies", wanted).json()
        assert (answer["needed"], answer["ready"]) == ([bad, good], [])
        failed = wait(page, answer["job"])["result"]
        assert list(failed) == [str(broken)]
        assert "broken.mp4" in failed[str(broken)]
        again = page.post("api/copies", wanted).json()
        assert (again["needed"], again["ready"], again["begun"]) == ([bad, good], [good], [good])
        assert (list(again["failed"]), again["job"]) == ([bad], None)  # not tried again
        for query in ("", "?beginning"):
            copy = f"copy/{good}/{kind}{query}"
            assert page.get(copy, headers={"range": "bytes=0-3"}).status == 206
        video = str(page.viewer.videos["one"])
    made = proxy_of(video, kind)
    assert probe(made).duration == pytest.approx(probe(video).duration, abs=0.1)
    with av.open(made) as container:
        assert container.format.name.startswith({"mp4": "mov,mp4", "webm": "matroska,webm"}[kind])


def test_no_copy_is_made_of_what_the_browser_plays(page):
    answer = page.post("api/copies", {"kind": "mp4", "codecs": ["h264"]}).json()
    assert answer == {"needed": [], "ready": [], "begun": [], "failed": {}, "job": None}
    forced = {"kind": "mp4", "codecs": ["h264"], "videos": page.keys[1:]}
    assert page.post("api/copies", forced).json()["needed"] == page.keys[1:]
    assert page.post("api/copies", {"kind": "exe", "codecs": []}).status == 422


@pytest.mark.slow
def test_a_check_uses_the_names_that_a_person_gave(learned):
    with Page(learned) as page:
        for name in ("the first thing", "the very first thing"):
            page.edit({"do": "rename", "step": 0, "name": name})
            job = ask(page, "api/check", {"keys": page.keys[:1]})
            assert job["result"] == {"checked": 1, "failed": {}}
            videos = page.get("api/state").json()["videos"]
            report = videos[-1]["check"]
            assert {"ok", "summary", "missed", "unknown", "accepted"} <= report.keys()
            assert {step["step"]: step["name"] for step in report["steps"]}[0] == name
            assert len(videos) == 3


def test_rules_are_proposed_added_refused_and_removed(many):
    with Page(many) as page:
        rule = page.get("api/rules").json()["offered"][0]["rule"]
        after = page.post("api/rules", {"rule": rule}).json()
        assert after["now"] == [rule]
        assert rule not in [one["rule"] for one in after["offered"]]
        assert list(map(str, sc.load(many).expectations.rules)) == [rule]
        wrong = page.post("api/rules", {"rule": "nothing is last"})
        assert (wrong.status, "'nothing' is unknown" in wrong.text) == (422, True)
        assert page.post("api/rules", {"rule": rule, "holds": False}).json()["now"] == []
        (many / "rules.toml").write_text("rules = 3")
        assert "write one list" in page.get("api/rules").json()["problem"]


def test_unusual_videos_are_shown_and_can_be_excluded(many):
    odd = sc.load(many).expectations.most_unusual

    def those(state, what):
        return {video["name"] for video in state["videos"] if video[what]}

    with Page(many) as page:
        assert those(page.get("api/state").json(), "unusual") == set(odd[:3])
        state = page.edit({"do": "mistake", "video": odd[0]})["state"]
        assert (those(state, "mistake"), those(state, "unusual")) == ({odd[0]}, set(odd[1:4]))
    assert sc.load(many).expectations.mistakes == {odd[0]}


def test_a_damaged_reference_excludes_nothing(many):
    (revision(many) / "check.json").write_text("{")
    with Page(many) as damaged:
        assert {video["mistake"] for video in damaged.get("api/state").json()["videos"]} == {None}


@pytest.mark.slow
def test_a_checked_video_follows_what_is_merged_and_taught(learned, kitchen):
    new = check_video(sc.load(learned), str(min((kitchen / "videos").iterdir())), silent)
    with Page(learned, [new]) as page:

        def shown():
            return {part[2] for part in page.get("api/state").json()["videos"][-1]["parts"]}

        def checked_again():
            return page.viewer.checks.all() == [check_video(sc.load(learned), new.path, silent)]

        first, second, *_ = sorted(shown())
        for step, into in ((first, second), (second, None)):
            page.edit({"do": "merge", "step": step, "into": into})
            assert step not in shown()
        for _ in range(2):
            page.post("api/undo", {"revision": page.revision})
        assert shown() == {part.step for part in new.parts}
        name = page.get("api/state").json()["videos"][0]["name"]
        for step in range(2):
            at = 3.0 * step
            page.edit({"do": "mark", "video": name, "start": at, "end": at + 3, "step": step})
        ask(page, "api/teach", {"revision": page.revision})
        assert checked_again()
        assert page.viewer.checks.all() != [new]
        page.get("api/state")  # reads what was taught
        page.post("api/back", {"revision": page.revision})
        wait(page, page.get("api/jobs").json()["jobs"][-1])
        assert checked_again()


@pytest.mark.slow
def test_a_checked_video_joins_and_its_findings_follow_new_names(learned, tmp_path):
    [path] = make_kitchen(tmp_path / "other", videos=1, duration=6, seed=3).videos
    path = path.rename(tmp_path / "new.mp4")
    with Page(learned, [check_video(sc.load(learned), str(path), silent)]) as page:
        page.edit({"do": "rename", "step": 0, "name": "the first thing"})
        shown = page.get("api/state").json()["videos"][-1]
        assert {one["step"]: one["name"] for one in shown["check"]["steps"]}[0] == "the first thing"
        job = ask(page, "api/adopt", {"revision": page.revision, "keys": [shown["key"]]})
        assert job["result"] == {"video": "new", "added": ["new"], "failed": {}}
        page.edit({"do": "confirm", "video": "new"})
        state = page.get("api/state").json()
        assert (len(state["videos"]), state["videos"][-1]["editable"]) == (3, True)
        ask(page, "api/teach", {"revision": page.revision, "keep": ["new"]})


@pytest.mark.slow
def test_learning_from_corrections_and_taking_it_back(learned):
    with Page(learned) as page:
        job = page.post("api/teach", {"revision": page.revision}).json()
        assert "nothing to learn from" in wait(page, job, "failed")["error"]
        name, other = (video["name"] for video in page.get("api/state").json()["videos"])
        page.edit({"do": "rename", "step": 0, "name": "the first thing"})
        page.edit({"do": "mark", "video": other, "start": 0.0, "end": 1.0, "step": 0})
        page.edit({"do": "mark", "video": name, "start": 0.0, "end": 3.0, "step": 0})
        page.edit({"do": "mark", "video": name, "start": 3.0, "end": 6.0, "step": 1})
        page.edit({"do": "confirm", "video": name})
        assert page.post("api/teach", {"revision": "old"}).status == 409
        changes = ask(page, "api/teach", {"revision": page.revision})["result"]["changes"]
        assert {one["video"]: one["labelled"] for one in changes} == {name: True, other: False}
        state = page.get("api/state").json()
        assert (state["taught"], state["undo"]) == (True, None)
        assert len(state["videos"][0]["annotated"]) == 1
        assert "the first thing" in [step["name"] for step in state["steps"]]
        assert not any(video["corrected"] for video in state["videos"])
        page.edit({"do": "move", "video": name, "part": 0, "edge": "end", "time": 2.5})
        videos = page.get("api/state").json()["videos"]
        assert [video["corrected"] for video in videos] == [True, False]
        page.post("api/undo", {"revision": page.revision})
        assert len(ask(page, "api/suggest", {})["result"]) == 1
        back = page.post("api/back", {"revision": page.revision}).json()["state"]
        assert back["undo"] == f"confirm {name}"
        assert page.post("api/back", {"revision": page.revision}).status == 422


def test_labels_are_shown_per_folder_up_to_the_end_of_the_video(kitchen, tmp_path):
    labels = {f"cam{number}/a": Timeline([Segment(0, number, "pour")], 9) for number in (1, 2)}
    shown = outline_of(labels, {}, "two cameras")
    assert list(shown.timelines) == ["cam1/a", "cam2/a"]
    for names in ([f"/films/{name}.mp4" for name in labels], ["CAM1/A.MP4", "CAM2/A.MP4"]):
        beside = OtherTimelines("other", dict(zip(names, labels.values(), strict=True)))
        rows = beside.rows(shown.document)
        assert [rows[name][0][1] for name in labels] == [1, 2]
    film = str(min((kitchen / "videos").iterdir()))  # about six seconds
    labels = {name: Timeline([Segment(0, 2, "pour")]) for name in ("there", "gone", "known")}
    labels["known"] = Timeline([Segment(0, 2, "pour")], 3)
    films = {"there": film, "gone": str(tmp_path / "gone.mp4"), "known": film}
    shown = outline_of(labels, films, "labels").timelines
    ends = {name: timeline.end for name, timeline in shown.items()}
    assert ends["there"] > 5
    assert (ends["gone"], ends["known"]) == (2, 3)


def test_steps_beside_are_paired_by_name_then_by_the_time_they_share(place):
    segments = [(0, 2, "cut"), (2, 4, "Spread  butter"), (4.5, 5, "drink"), (5, 6, "eat")]
    other = Timeline([Segment(*one) for one in segments])
    space = Workspace.around(place, beside=OtherTimelines("other", {"one.mp4": other}))
    shown = space.only.state()
    rows = {row[2]: row[3:] for row in shown["videos"][0]["beside"]}
    colours = {step["number"]: step["colour"] for step in shown["steps"]}
    paired = {"cut": 0, "spread butter": 1, "drink": None, "eat": 2}
    assert {name: row[2] for name, row in rows.items()} == paired
    assert rows["eat"][0] == colours[2]
    assert rows["drink"][0] not in colours.values()
    assert shown["videos"][1]["beside"] is None


def connect(page):
    return socket.create_connection(("127.0.0.1", int(page.host.rsplit(":", 1)[1])), timeout=10)


def head(page, *lines):
    first = (f"POST /{page.token}/api/edit HTTP/1.1", f"Host: {page.host}")
    own = (f"Origin: {page.origin}", "Content-Type: application/json")
    return "\r\n".join((*first, *own, *lines, "", "")).encode()


@pytest.mark.parametrize("length", [[], ["Content-Length: 2"]])
def test_a_large_body_is_refused_however_it_comes(page, length):
    chunks = b"".join(b"4000\r\n" + b"x" * 0x4000 + b"\r\n" for _ in range(5)) + b"0\r\n\r\n"
    with connect(page) as line:
        line.sendall(head(page, *length, "Transfer-Encoding: chunked") + chunks)
        assert line.recv(400)[9:12] in (b"403", b"400")
    assert page.viewer.edits.corrections.history == ()


def test_a_connection_that_asks_for_nothing_is_let_go(place, monkeypatch):
    monkeypatch.setattr("stepcut.app.server.PATIENCE", 0.3)
    with Page(place) as page:
        lines = [connect(page) for _ in range(20)]
        lines[0].sendall(b"GET / HTTP/1.1\r\nHo")
        assert [line.recv(10) for line in lines] == [b""] * 20
        for line in lines:
            line.close()
        assert page.get("api/state").status == 200


def test_a_body_that_never_comes_is_not_waited_for(page, monkeypatch):
    monkeypatch.setattr("stepcut.app.security.PATIENCE", 0.3)
    with connect(page) as line:
        line.sendall(head(page, "Content-Length: 40") + b"{")
        answer = b"".join(iter(lambda: line.recv(400), b""))  # ends when the server closes it
    assert answer.startswith(b"HTTP/1.1 408")
    assert page.viewer.edits.corrections.history == ()


def test_the_token_is_not_on_the_command_line_of_the_browser(page, own_cache, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    page.running.open_browser("#one@5")
    deadline = time.monotonic() + 10
    while not opened and time.monotonic() < deadline:
        time.sleep(0.01)
    assert page.token not in opened[0]
    file = Path(unquote(urlsplit(opened[0]).path))
    assert file.is_relative_to(own_cache)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert f'url={page.running.address}#one@5"' in file.read_text()
    page.running.close()
    assert not file.exists()
