"""Attacks on the app: links out of its folder, damaged neighbours, other revisions, odd names."""

import json
import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest
from show_fixtures import write_procedure
from show_kit import Page, Served, place_of, wait
from store_kit import revision

from stepcut.app.jobs import Jobs, run
from stepcut.app.server import Running
from stepcut.app.tasks import pack
from stepcut.app.watching import Watching, journal_of
from stepcut.app.workspace import Workspace
from stepcut.errors import OptionError
from stepcut.files import write_json
from stepcut.procedure.edits import Edits


def kitchen_videos(work):
    return [f"kitchen/{path.name}" for path in sorted((work / "kitchen").iterdir())]


def tree(folder):
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


ATTACKS = [
    ("tea-export", "", {"what": ["report"]}),
    ("tea-export/report.html", "private.csv", {"what": ["report"]}),
    ("tea-export/clips", "", {"what": ["clips"]}),
    ("new.proc", "new.proc", {"name": "new"}),  # it leads nowhere
    ("labels/more.csv", "private.csv", {"name": "new", "labels": "labels"}),
    ("uploads", "", {}),
]


@pytest.mark.parametrize(("link", "to", "body"), ATTACKS)
def test_links_that_leave_the_folder_are_refused_with_a_sentence(app, work, link, to, body):
    outside, procedure = work.parent / "outside", place_of(app)
    before = tree(outside)
    (work / link).parent.mkdir(exist_ok=True)
    (work / link).symlink_to(outside / to)
    if link == "uploads":
        answer = app.upload(f"{procedure}/api/upload?name=new.mp4", b"one")
    elif "what" in body:
        answer = app.post(f"{procedure}/api/export", {**body, "formats": []})
    else:
        answer = app.post("api/learn", {"videos": kitchen_videos(work), **body})
    assert answer.status == 422, answer.text
    assert "link" in answer.json()["error"]
    assert app.get("api/jobs").json()["jobs"] == []
    assert tree(outside) == before


def queue(kind, args, about):
    jobs = Jobs(about)
    jobs.close()
    return jobs.start(kind, args, about, about.stem)


def run_here(job):
    before = signal.getsignal(signal.SIGTERM)
    run(job.folder)
    signal.signal(signal.SIGTERM, before)
    return job.state


def export_args(learned, target, what):
    wish = {"what": [what], "formats": []}
    own = {"folder": str(learned), "trust": False, "videos": {}}
    return {**own, "wish": wish, "target": str(target)}


def test_a_link_that_comes_after_the_request_or_an_earlier_revision_is_refused(work, learned):
    target = learned.parent / "toy-export"
    target.mkdir()
    (target / "times.csv").symlink_to(work.parent / "outside" / "private.csv")
    before = tree(work.parent / "outside")
    state = run_here(queue("export", export_args(learned, target, "times-csv"), work))
    assert (state["state"], "is a link" in state["error"]) == ("failed", True)
    assert tree(work.parent / "outside") == before
    assert not list(learned.parent.glob(".*.part"))
    args = export_args(learned, work / "toy-export", "plan")
    state = run_here(queue("export", {**args, "fingerprint": "of another revision"}, learned))
    assert "learned again" in state["error"]
    assert not (work / "toy-export").exists()


def test_an_exported_file_that_became_a_link_is_not_sent(work):
    target = work / "tea-export"
    target.mkdir()
    (target / "plan.json").symlink_to(work.parent / "outside" / "private.csv")
    for files in (["plan.json"], ["plan.json", "plan.json"]):
        with pytest.raises(OptionError, match="is a link"):
            pack({"folder": str(target), "files": files})


def test_one_damaged_procedure_or_link_does_not_end_watching(work):
    space = Workspace(work)
    space.jobs.close()  # the jobs are counted, not run
    good, bad = work / "tea.proc", work / "bad.proc"
    shutil.copytree(good, bad)
    for procedure in (good, bad):
        line = work / f"line-{procedure.stem}"
        line.mkdir()
        viewer = space.viewer(space.id_of(procedure))
        assert viewer is not None
        viewer.checks.watched = line
    (revision(bad) / "config.json").write_text('{"format": 1')
    line = work / "line-tea"
    (line / "dangling.mp4").symlink_to("nowhere")
    (line / "leaving.mp4").symlink_to(work.parent / "outside" / "private.mp4")
    shutil.copy(next((work / "kitchen").iterdir()), line / "new.mp4")
    watching = Watching(space, settle=0)
    for _ in range(2):
        watching.look()
    (job,) = space.jobs.all()
    assert [Path(path).name for path in job.request["args"]["videos"]] == ["new.mp4"]
    assert "leaving.mp4 is a link" in watching.problems[good]
    assert "config.json" in watching.problems[bad]
    watching.close()
    lines = journal_of(line, good).read_text().splitlines()
    assert sum("leaving.mp4 is a link" in one for one in lines) == 1
    assert "config.json" in journal_of(work / "line-bad", bad).read_text()


def test_a_procedure_learned_again_elsewhere_is_noticed(work):
    first, second = sorted(str(path) for path in (work / "kitchen").iterdir())
    with Page(work / "tea.proc") as page:
        before, [old, _] = page.get("api/state").json(), page.keys
        assert page.get(f"video/{old}").content == Path(first).read_bytes()
        shutil.rmtree(work / "tea.proc")
        write_procedure(work / "tea.proc", {"one": second, "two": first}, fingerprint="beef")
        assert page.get(f"video/{old}").status == 404  # never another video under old timelines
        assert page.get(f"poster/{old}").status == 404
        state = page.get(f"api/state?known={before['stamp']}").json()
        assert state["revision"] != before["revision"]
        assert page.get(f"video/{page.keys[0]}").content == Path(second).read_bytes()
        late = {"revision": before["revision"], "edit": {"do": "add", "name": "x"}}
        assert page.post("api/edit", late).status == 409


def learn_args(work, name):
    return {
        "videos": [str(path) for path in sorted((work / "kitchen").iterdir())],
        "output": str(work / name), "root": str(work), "steps": 2, "labels": None, "recipe": None,
    }  # fmt: skip


@pytest.mark.slow
def test_an_old_job_never_replaces_a_newer_procedure(work):
    job = queue("learn", learn_args(work, "new.proc"), work / "new.proc")
    write_procedure(work / "new.proc", {"one": None, "two": None})
    before = tree(work / "new.proc")
    assert "in the meantime" in run_here(job)["error"]
    assert tree(work / "new.proc") == before
    shutil.rmtree(work / "new.proc")
    for _ in range(2):  # killed after the last step, it is started again
        assert (run_here(job)["state"], len(job.result["steps"])) == ("done", 2)
    assert not list(work.glob(".*"))


def test_a_second_request_of_a_name_is_refused_while_the_first_runs(app, work):
    body = {"videos": kitchen_videos(work), "name": "new", "steps": "2"}
    first = app.post("api/learn", body).json()
    assert app.post("api/learn", body).json()["id"] == first["id"]
    second = app.post("api/learn", {**body, "steps": "3"})
    assert (second.status, "being learned" in second.json()["error"]) == (422, True)
    app.post(f"api/jobs/{first['id']}/cancel", {})


def test_finished_jobs_do_not_pile_up(work):
    first, second = (queue("check", {"videos": [name]}, work) for name in "ab")
    for job in (first, second):
        job.write_state("done")
    third = queue("check", {"videos": ["c"]}, work)
    assert [job.id for job in Jobs(work).all()] == [third.id]  # it follows the others
    third.write_state("failed")
    write_json(third.folder / "job.json", {**third.request, "created": time.time() - 1e6})
    jobs = Jobs(work)
    jobs.open()
    jobs.close()
    assert jobs.all() == []


@pytest.mark.parametrize("jump", [-4e5, 4e5])
def test_a_clock_that_jumps_changes_no_order_of_jobs_and_spares_no_cancelled_process(
    work, monkeypatch, jump
):
    first, now, sent = queue("check", {"videos": ["a"]}, work), time.time(), []
    Jobs(work).cancel(first)
    monkeypatch.setattr("time.time", lambda: now + jump)
    second = queue("teach", {}, work)
    assert [job.id for job in Jobs(work).all()] == [first.id, second.id]
    monkeypatch.setattr(Jobs, "_is_alive", lambda *_: True)
    monkeypatch.setattr(Jobs, "_signal", lambda *given: sent.append(given[-1]))
    Jobs(work).tend()
    assert sent == [signal.SIGKILL]


def test_a_start_removes_what_a_killed_server_left(work):
    (work / "uploads").mkdir()
    dead = [work / "uploads" / ".a.mp4.0123abcd.part", work / "uploads" / "empty.mp4"]
    dead.append(work / ".tea-export.0123abcd.part")
    kept = [work / "uploads" / ".b.mp4.0123abcd.part"]
    kept.append(work / f".tea-export.{'0123abcd' * 4}.part")  # of a command
    for path in (*dead, *kept):
        path.mkdir() if "export" in path.name else path.touch()
        if path != kept[0]:
            os.utime(path, (1, 1))
    with Served(Running(Workspace(work))) as app:
        app.get("api/home")  # it has started
        assert not any(path.exists() for path in dead)
        assert all(path.exists() for path in kept)


@pytest.mark.slow
def test_a_job_resumed_at_once_after_its_cancel_goes_on(app):
    job = app.post(f"{place_of(app)}/api/copies", {"kind": "webm", "codecs": []}).json()["job"]
    place = f"api/jobs/{job['id']}"
    for pause in (0.0, 0.1, 0.3, 0.6):
        time.sleep(pause)
        if app.get(place).json()["state"] in ("waiting", "running"):
            app.post(f"{place}/cancel", {})
            assert app.post(f"{place}/resume", {}).status == 200
    assert wait(app, job)["result"] == {}


def test_a_server_starts_again_at_its_address(work):
    with Served(Running(Workspace(work))) as app:
        address = app.running.address
        with Served(Running(Workspace(work))) as second:  # the port is taken
            assert second.running.address.split("/")[2] != address.split("/")[2]
    again = Running(Workspace(work))
    assert again.address == address
    again.start().close()
    (file,) = (Path(os.environ["STEPCUT_STATE"]) / "app").glob("*.json")
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)  # others may have read the token
    other = Running(Workspace(work))
    assert other.address.split("/")[3] != address.split("/")[3]
    other.start().close()


def test_names_that_are_not_utf8_are_listed_and_used(app, work):
    folder = work / os.fsdecode(b"caf\xe9")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this disk has no such names")
    shutil.copy(min((work / "kitchen").iterdir()), folder / os.fsdecode(b"\xff.mp4"))
    shutil.copytree(work / "tea.proc", folder.with_suffix(".proc"))
    assert {one["title"] for one in app.get("api/home").json()["procedures"]} == {"tea", "caf%E9"}
    shown = app.get("api/folder").json()["folders"]
    path = next(one["path"] for one in shown if one["name"] == "caf%E9")
    (video,) = app.get(f"api/folder?path={path.replace('%', '%25')}").json()["videos"]
    assert video["name"] == "%FF.mp4"
    (probed,) = app.post("api/probe", {"videos": [video["path"]]}).json()["videos"]
    assert "Rename the file" in probed["problem"]


def test_requests_may_name_sixteen_hundred_videos(app):
    name = "kitchen/a-folder-with-a-long-name/recording-{:04}-of-the-top-camera.mp4"
    answer = app.post("api/learn", {"videos": [name.format(n) for n in range(1600)]})
    assert answer.status == 422
    assert "is not a file of this app" in answer.json()["error"]


BIG = "9" * 5000
BODIES = {
    "edit": ['{"revision": "REV", "edit": {"do": "add", "name": "\\ud800"}}',
             '{"revision": "REV", "edit": {"do": "rename", "step": BIG, "name": "x"}}',
             '{"revision": "\\ud800", "edit": {"do": "\\ud800"}}',
             '{"revision": "REV", "edit": {"do": "add", "name": "a\\u0000"}}',
             "[" * 30_000, '{"a":' * 9_000 + "1" + "}" * 9_000,
             '{"revision": "REV", "edit": {"do": "move", "video": "one", "part": 0, "edge": "end", "time": HUGE}}',
             '{"revision": "REV", "edit": {"do": "move", "video": "one", "part": HUGE, "edge": "end", "time": 1}}',
             '{"revision": "REV", "edit": {"do": "mark", "video": "one", "start": 0, "end": 1e999, "step": 0}}',
             '{"revision": "REV", "edit": {"do": ["rename"]}}',
             '{"revision": "REV", "edit": {"do": "merge", "step": 0, "into": {}}}'],
    "check": ['{"videos": ["\\ud800"]}', '{"videos": ["a\\u0000b"]}', '{"videos": ["LONG"]}', '{"keys": ["\\ud800"]}'],
    "watch": ['{"folder": "\\ud800"}', '{"folder": "LONG"}', '{"folder": "a\\u0000"}', '{"folder": 7}'],
    "export": ['{"what": ["plan"], "folder": "LONG"}', '{"what": ["plan"], "folder": "\\ud800"}',
               *(f'{{"what": ["labels"], "formats": ["mstcn"], "rate": "{rate}"}}'
                 for rate in ("BIG", "HUGE", "1/0", "nan", "-3")),
               '{"what": ["plan"], "folder": "a\\u0000"}'],
    "compare": ['{"a": ["\\ud800"], "b": []}'],
    "copies": ['{"kind": "\\ud800", "codecs": []}', '{"kind": "mp4", "codecs": ["\\ud800"], "videos": ["\\ud800"]}'],
}  # fmt: skip
LEARN = ['"labels": "LONG"', '"labels": "a\\u0000"', '"name": "\\ud800"', '"name": "LONG"', '"name": "a\\u0000"',
         '"recipe": "\\ud800\\npour"', '"steps": "BIG"', '"steps": BIG', '"labels": "\\ud800"']  # fmt: skip


def test_hostile_values_are_refused_with_a_sentence(app, work):
    procedure, names = place_of(app), kitchen_videos(work)
    revision = app.get(f"{procedure}/api/state").json()["revision"]
    learn = [f'{{"videos": {json.dumps(names)}, "name": "new", {one}}}' for one in LEARN]
    calls = [("api/learn", body) for body in (*learn, '{"videos": ["a\\u0000", "LONG"]}')]
    calls += [(f"{procedure}/api/{call}", one) for call in BODIES for one in BODIES[call]]
    calls += [("api/probe", '{"videos": ["\\ud800"], "x": BIG}')]
    named = {"origin": app.origin, "content-type": "application/json"}
    long = {"REV": revision, "BIG": BIG, "HUGE": "1" + "0" * 400, "LONG": "x" * 6000}
    for path, text in calls:
        body = re.sub("|".join(long), lambda found: long[found[0]], text)
        answer = app.ask("POST", f"/{app.token}/{path}", named, body.encode())
        assert answer.status < 500, (path, text[:80], answer.text[:200])
        assert answer.status < 400 or answer.json()["error"], (path, text[:80])
    for path in ("x" * 6000, "%00", "%ED%A0%80"):
        assert 400 <= app.get(f"api/folder?path={path}").status < 500, path[:80]
    assert app.upload(f"{procedure}/api/upload?name={'x' * 6000}.mp4", b"x").status < 500
    for job in app.get("api/jobs").json()["jobs"]:  # odd names are made safe
        app.post(f"api/jobs/{job['id']}/cancel", {})
    assert {path.name for path in work.parent.iterdir()} == {"work", "outside"}
    assert not Edits(work / "tea.proc").corrections.history


def test_every_error_is_json(app, work, monkeypatch):
    refused = app.ask("GET", "/wrong/", {})
    assert (refused.status, "token" in refused.json()["error"]) == (403, True)
    assert "error" in app.get("nothing").json()
    (work / "uploads").write_bytes(b"a file in the place of the folder")
    assert app.upload(f"{place_of(app)}/api/upload?name=a.mp4", b"x").status == 507

    def broken(*_):
        raise RuntimeError("odd")

    monkeypatch.setattr(Workspace, "listing", broken)
    answer = app.get("api/folder")
    assert (answer.status, "a bug in stepcut" in answer.json()["error"]) == (500, True)
