"""The app's server: folder isolation, validated requests, jobs that outlive the server."""

import json
import os
import re
import shutil
import signal
import socket
import time
from pathlib import Path

import pytest
from show_kit import Served, ask, place_of, wait
from store_kit import revision

from stepcut.app.routes import HOME, imports, procedure_routes, static_files
from stepcut.app.server import Running
from stepcut.app.watching import Watching, journal_of
from stepcut.app.workspace import Workspace
from stepcut.errors import OptionError
from stepcut.procedure.verbs import VERBS


@pytest.fixture(autouse=True)
def root(work):
    (work / "kitchen" / "broken.mp4").write_bytes(b"no video")
    (work / "link").symlink_to(work.parent / "outside")
    (work / "kitchen" / "link.mp4").symlink_to(work.parent / "outside" / "private.mp4")
    return work


def videos(app, path="kitchen"):
    found = app.get(f"api/folder?path={path}").json()["videos"]
    return [video["path"] for video in found if video["name"] != "broken.mp4"]


def keys_of(app):
    return [video["key"] for video in app.get(f"{place_of(app)}/api/state").json()["videos"]]


def test_the_start_page_shows_procedures_with_pictures(app):
    assert app.get("").status == 200
    (one,) = app.get("api/home").json()["procedures"]
    assert (one["title"], one["steps"], one["videos"]) == ("tea", 3, 2)
    assert (one["path"], one["thumbs"]) == ("tea.proc", keys_of(app))
    assert app.get(f"p/{one['id']}/poster/{one['thumbs'][0]}").content.startswith(b"\xff\xd8")
    assert app.get(f"p/{one['id']}/").status == 200
    assert app.get(f"p/{one['id']}/api/state").json()["home"] is True
    assert app.get("p/nothing/api/state").status == 404


def test_a_damaged_procedure_is_listed_with_its_problem_and_restored(app, root):
    (root / "tea.proc" / "CURRENT").write_text("?")
    (one,) = app.get("api/home").json()["procedures"]
    assert "damaged: CURRENT. Restoring will lose: nothing." in one["restore"]
    (after,) = app.post("api/restore", {"id": one["id"]}).json()["procedures"]
    assert (after["steps"], after.get("error")) == (3, None)
    assert "no longer exists" in app.post("api/restore", {"id": "x"}).json()["error"]
    (revision(root / "tea.proc") / "procedure.json").write_text("{")
    with Served(Running(Workspace(root))) as again:
        (one,) = again.get("api/home").json()["procedures"]
        assert "damaged" in one["error"]
        assert not one["restore"]  # it has no other state
        told = again.post("api/restore", {"id": one["id"]}).json()["error"]
    assert "no learned state" in told


def test_the_picker_lists_folders_videos_with_problems_and_labels(app):
    top = app.get("api/folder").json()
    assert [folder["name"] for folder in top["folders"]] == ["kitchen", "labels"]  # no procedure
    assert (top["path"], top["folders"][0]["videos"]) == ("", 4)
    assert [folder["labels"] > 0 for folder in top["folders"]] == [False, True]
    inside = app.get("api/folder?path=kitchen").json()
    assert inside["videos"][0]["name"] == "broken.mp4"
    assert (inside["path"], inside["parent"]) == ("kitchen", "")
    assert app.get("api/folder?path=labels").json()["labels"]
    asked = ["kitchen/broken.mp4", *videos(app)]
    found = app.post("api/probe", {"videos": asked}).json()["videos"]
    assert found[0]["duration"] is None
    assert "broken.mp4" in found[0]["problem"]
    assert found[0]["problem"].startswith("not a readable video")  # the page shows the name
    assert all(one["duration"] > 5 and one["problem"] is None for one in found[1:])
    assert app.post("api/probe", {"videos": ["x"] * 51}).status == 422


def test_the_picker_never_leaves_its_folder(app):
    for path in "..", "../outside", "/etc", "link", "kitchen/../..", "none", "%00", "~":
        assert app.get(f"api/folder?path={path}").status == 422, path
    assert "link.mp4" not in json.dumps(app.get("api/folder?path=kitchen").json())
    (answer,) = app.post("api/probe", {"videos": ["kitchen/link.mp4"]}).json()["videos"]
    assert answer["duration"] is None
    body = {"videos": ["kitchen/link.mp4", *videos(app)]}
    assert app.post("api/learn", body).status == 422


WISHES = [
    ("learn", {"videos": []}, "at least two"),
    ("learn", {"steps": "many"}, "steps='many'"),
    ("learn", {"steps": "0"}, "steps"),
    ("learn", {"name": "tea"}, "already"),
    ("learn", {"labels": "../outside"}, "not a"),
    ("learn", {"labels": "labels", "recipe": "stir\npour"}, "recipe"),
    ("learn", {"videos": ["kitchen/none.mp4", "kitchen/broken.mp4"]}, "none.mp4"),
    ("export", {"what": []}, "nothing"),
    ("export", {"what": ["everything"]}, "everything"),
    ("export", {"what": ["labels"], "formats": ["elam"]}, "elan"),
    ("export", {"what": ["labels"], "formats": []}, "format"),
    ("export", {"what": ["plan"], "folder": "../up"}, "folder"),
    ("export", {"what": ["plan"], "folder": "tea.proc"}, "procedure"),
    ("export", {"what": ["labels"], "formats": ["mstcn"]}, "rate"),
    ("compare", {"a": ["9"], "b": []}, "'9'"),
    ("check", {}, "no video"),
]


def test_a_wish_that_makes_no_sense_starts_nothing(app):
    procedure, learn = place_of(app), {"videos": videos(app), "name": "new"}
    for call, body, message in WISHES:
        place = "api/learn" if call == "learn" else f"{procedure}/api/{call}"
        answer = app.post(place, {**(learn if call == "learn" else {}), **body})
        assert (answer.status, message in answer.json()["error"]) == (422, True), answer.text
    assert app.get("api/jobs").json()["jobs"] == []


def test_a_folder_that_is_not_there(tmp_path, run):
    with pytest.raises(OptionError, match="no such folder"):
        Workspace(tmp_path / "none")
    assert "no such folder" in run("app", tmp_path / "none", "--no-browser", code=2).err


def test_stepcut_alone_opens_the_app_on_a_desktop_only(monkeypatch, run):
    from stepcut.cli import main as module

    asked = []
    monkeypatch.setattr(module, "run_command", lambda *words: asked.append(words) or 0)
    assert "commands:" in run().out
    monkeypatch.setattr(module, "on_desktop", lambda: True)
    run()
    assert asked == [("app", [])]


def copy_all(app, kind="mp4"):
    body = {"kind": kind, "codecs": []}
    return app.post(f"{place_of(app)}/api/copies", body).json()["job"]


@pytest.mark.slow
def test_a_job_outlives_the_server_that_started_it(root, tmp_path):
    with Served(Running(Workspace(root))) as app:
        job = copy_all(app)
    with Served(Running(Workspace(root))) as app:
        assert wait(app, job)["result"] == {}
    (tmp_path / "other").mkdir()
    assert Workspace(tmp_path / "other").jobs.all() == []  # those of other folders are not shown


@pytest.mark.slow
def test_a_worker_that_is_killed_is_started_again(app):
    job = copy_all(app, "webm")
    state = Path(os.environ["STEPCUT_CACHE"]) / "jobs" / job["id"] / "state.json"
    wait_until(state.exists, 60)
    os.kill(json.loads(state.read_text())["pid"], signal.SIGKILL)
    assert wait(app, job)["result"] == {}
    assert json.loads(state.read_text())["starts"] == 2


@pytest.mark.slow
def test_a_job_is_cancelled_resumed_and_forgotten(app):
    job = copy_all(app)
    path = f"api/jobs/{job['id']}"
    assert app.post(f"{path}/forget", {}).status == 422  # it runs
    assert app.post(f"{path}/cancel", {}).json()["state"] == "cancelled"
    assert app.post(f"{path}/cancel", {}).status == 422
    assert app.post(f"{path}/resume", {}).json()["state"] in ("waiting", "running")
    wait(app, job)
    assert app.post(f"{path}/resume", {}).status == 422
    assert app.post(f"{path}/explode", {}).status == 404
    assert app.post(f"{path}/forget", {}).status == 200
    assert app.get(path).status == 404


def test_a_dropped_video_is_kept_and_never_replaces_another(app, root):
    place = f"{place_of(app)}/api/upload?name="
    assert app.upload(f"{place}new.mp4", b"one").json() == {"path": "uploads/new.mp4"}
    assert app.upload(f"{place}new.mp4", b"two").json() == {"path": "uploads/new-2.mp4"}
    assert (root / "uploads" / "new.mp4").read_bytes() == b"one"
    hostile = app.upload(f"{place}../../evil.mp4", b"x").json()
    assert hostile["path"].startswith("uploads/")
    assert not (root.parent / "evil.mp4").exists()
    assert app.upload(f"{place}notes.txt", b"x").status == 422
    assert app.upload(f"{place}new.mp4", b"").status == 422


def test_an_interrupted_upload_leaves_nothing(app, root):
    head = (
        f"POST /{app.token}/{place_of(app)}/api/upload?name=new.mp4 HTTP/1.1\r\nHost: {app.host}\r\n"
        f"Origin: {app.origin}\r\nContent-Type: application/octet-stream\r\n"
        "Content-Length: 9\r\n\r\nhalf"
    )
    name, port = app.host.split(":")
    with socket.create_connection((name, int(port))) as line:
        line.sendall(head.encode())
        wait_until(lambda: list((root / "uploads").glob(".*.part")))
        listed = app.get("api/folder?path=uploads").json()["videos"]
        assert (listed, list((root / "uploads").glob("*.mp4"))) == ([], [])
    wait_until(lambda: not list((root / "uploads").iterdir()))


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_new_videos_in_a_watched_folder_are_checked_once(app, root):
    place = f"{place_of(app)}/api/watch"
    assert app.get(place).json() == {"folder": None, "problem": None}
    assert app.post(place, {"folder": "../outside"}).status == 422
    (root / "line").mkdir()
    assert app.post(place, {"folder": "line"}).json()["folder"] == "line"
    shutil.copy(root / "kitchen" / "broken.mp4", root / "line" / "new.mp4")
    os.utime(root / "line" / "new.mp4", (1, 1))  # it has stopped growing

    def checks():
        return [job for job in app.get("api/jobs").json()["jobs"] if job["kind"] == "check"]

    wait_until(checks)
    (job,) = checks()
    assert wait(app, job, state=None)["state"] in ("done", "failed")
    journal = journal_of(root / "line", root / "tea.proc")
    wait_until(lambda: "new.mp4" in journal.read_text())
    assert '"error"' in journal.read_text()
    assert [one["id"] for one in checks()] == [job["id"]]
    assert app.post(place, {"folder": None}).json()["folder"] is None


def test_two_groups_are_compared(app):
    place, (one, two) = f"{place_of(app)}/api/compare", keys_of(app)
    assert "group A" in app.post(place, {"a": [one], "b": [two]}).json()["error"]
    assert app.post(place, {"a": [one, "9"], "b": [two, one]}).status == 422
    answer = app.post(place, {"a": [one, two], "b": [two, one]}).json()
    assert "A" in answer["words"]
    assert {row[0] for row in answer["times"]["rows"]} == {"A", "B"}


def test_labels_of_another_person_are_chosen_to_stand_beside(app, learned):
    shutil.copytree(learned, app.workspace_root / "toy.proc")
    (app.workspace_root / "other.csv").write_text("video,step,start,end\nnone,a,0,1\n")
    place = place_of(app, "toy")

    def beside(labels):
        shown = app.post(f"{place}/api/beside", {"labels": labels}).json()
        if "error" in shown:
            return shown["error"]
        return shown["state"]["beside"], [bool(one["beside"]) for one in shown["state"]["videos"]]

    assert beside("labels") == ("labels", [True, True])
    assert "none of its videos (none)" in beside("other.csv")
    assert "not a file" in beside("../labels")
    assert app.get(f"{place}/api/state").json()["beside"] == "labels"
    assert beside(None) == (None, [False, False])


@pytest.mark.slow
def test_an_export_is_previewed_written_and_downloaded(app, learned):
    root = app.workspace_root
    shutil.copytree(learned, root / "toy.proc")
    procedure = place_of(app, "toy")
    place = f"{procedure}/api/export"
    body = {"what": ["labels", "clips", "times-xlsx", "plan"], "formats": ["elan"]}
    shown = app.post(place, {**body, "preview": True}).json()
    names = [file["path"] for file in shown["files"]]
    assert {"times.xlsx", "plan.json", "clips/times.csv"} < set(names)
    assert sum(name.endswith(".eaf") for name in names) == 2
    assert shown["folder"] == "toy-export"
    assert not (root / "toy-export").exists()
    job = ask(app, place, body)
    written = root / "toy-export"
    found = [path.relative_to(written).as_posix() for path in written.rglob("*") if path.is_file()]
    assert sorted(found) == sorted(names) == sorted(job["result"]["files"])
    packed = app.get(f"{procedure}/api/download/{job['id']}")
    assert (packed.status, packed.content[:2]) == (200, b"PK")


PAGE = Path(__file__).parents[2] / "docs" / "http.md"


def cells(line):
    return [cell.strip() for cell in line.split("|")]


def test_every_call_is_documented(root):
    page = PAGE.read_text(encoding="utf-8")
    routes = [*HOME, *procedure_routes(Watching(Workspace(root)))]
    missing = [route.path for route in routes if f"`{route.path}`" not in page]
    assert missing == ["/"]
    documented = set(re.findall(r"`(/[^`]*)`", page))
    assert documented <= {route.path for route in routes}
    rows = re.findall(r"^\| ([A-Z, ]+) (`/.*?) \|", page, re.MULTILINE)
    methods = {
        path: set(row.split(", ")) for row, calls in rows for path in calls[1:-1].split("`, `")
    }
    served = {path: set[str]() for path in documented}
    for route in routes[:-1]:
        served[route.path] |= (route.methods or set()) - {"HEAD"}
    assert methods == served
    table = page.split("| `do` |")[1].splitlines()[2:]
    edits = {verb: set(re.findall(r"`(\w+)`", values)) for _, verb, values, *_ in map(cells, table)}
    assert edits.keys() == {f"`{verb}`" for verb in VERBS}
    assert all(edits[f"`{verb}`"] <= set(each.reads) for verb, each in VERBS.items())


def test_scripts_use_documented_calls_and_texts_of_one_file():
    page = PAGE.read_text(encoding="utf-8")
    documented = {re.sub(r"\{.*?\}", "{}", path) for path in re.findall(r"`(/api/[^`]*)`", page)}
    scripts = "".join(data.decode() for name, data in static_files().items() if name[-3:] == ".js")
    calls = re.findall(r"""["`](?:\$\{ROOT\})?(api/[^"`?]*)""", scripts)
    calls += [f"api/{verb}" for verb in re.findall(r"""\bsend\("(\w+)\"""", scripts)]
    used = {re.sub(r"\$\{.*?\}", "{}", f"/{call}") for call in calls} - {"/api/{}"}
    used = {re.sub(r"^(/api/jobs/\{\}/)\w+$", r"\1{}", path) for path in used}  # cancel
    assert len(used) > 20
    assert used <= documented
    for script in (name for name in static_files() if name.endswith(".js")):
        direct = re.findall(r'from "\./(\w+\.js)"', static_files()[script].decode())
        assert all(script not in imports(other) for other in direct), script
    files = {name: data.decode() for name, data in static_files().items()}
    known = set(re.findall(r"^ +(\w+):|(?<=[,{] )(\w+):", files["strings.js"], re.MULTILINE))
    names = {name for pair in known for name in pair if name}
    for file, text in files.items():
        if file.endswith(".js"):
            assert set(re.findall(r"\bS\.(\w+)", text)) <= names, file
        spoken = re.findall(r"""(?:text|title|"aria-label"|placeholder): ["`][A-Z]""", text)
        assert not spoken or file == "strings.js", (file, spoken)


def test_times_limits_and_classes_on_the_page(app):
    place = place_of(app)
    state = app.get(f"{place}/api/state").json()
    step = state["steps"][0]
    edit = {"do": "classify", "step": step["number"], "kind": "waste"}
    answer = app.post(f"{place}/api/edit", {"revision": state["revision"], "edit": edit}).json()
    assert answer["words"] == f"set the class of {step['name']}"
    limit = {"step": step["number"], "limit": "10-"}
    assert app.post(f"{place}/api/limit", limit).json() == {"limits": {step["name"]: "10-"}}
    found = app.get(f"{place}/api/times?by=recording&step={step['number']}&takt=2,5").json()
    about = {"number": step["number"], "name": step["name"], "kind": "waste", "limit": "10-"}
    assert found["steps"][0] == {**about, "note": ""}
    assert found["takt"] == 2.5
    assert found["columns"][1] == "class"
    assert len(found["points"]) == 2
    assert [part[0] for part in found["stacks"]["all"]][-1] == "(no step)"
    for query, words in (
        ("takt=0", "takt=0.0 is not allowed"),
        ("takt=x", "takt='x'"),
        ("by=week", "by='week'"),
    ):
        answer = app.get(f"{place}/api/times?{query}")
        assert answer.status == 422
        assert words in answer.json()["error"]


@pytest.mark.slow
def test_cycles_of_a_recording_are_found_corrected_and_learned(app):
    """Where nothing repeats, the page is there to be tapped."""
    video = videos(app)[0]
    done = ask(app, "api/cycles", {"video": video})
    assert (done["result"]["cycles"] >= 2) or "no repetition" in done["result"]["notes"][0]
    assert "has cycles already" in app.post("api/cycles", {"video": video}).json()["error"]
    (one,) = [p for p in app.get("api/home").json()["procedures"] if "cycles" in p["title"]]
    state = app.get(f"p/{one['id']}/api/state").json()
    assert state["cycles"] == {"videos": [video], "cycles": one["path"]}
    revision, name = state["revision"], state["videos"][0]["name"]
    for start in (0.1, 2.0, 4.0):
        change = {"do": "click", "video": name, "time": start, "step": 0}
        made = app.post(f"p/{one['id']}/api/edit", {"revision": revision, "edit": change}).json()
        revision = made["state"]["revision"]
    done = ask(app, "api/learn", {**state["cycles"], "name": "line", "steps": "2"})
    assert done["result"]["videos"] >= 3, done
