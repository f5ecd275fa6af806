"""Attacks on the app: links out of its folder, damaged neighbours, other revisions, odd names."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from show_fixtures import write_procedure
from show_kit import Page, Served, wait
from store_kit import revision

from stepcut.app.export import pack
from stepcut.app.jobs import Jobs, Progress, run
from stepcut.app.server import Running
from stepcut.app.watching import Watching, journal_of
from stepcut.app.workspace import Workspace
from stepcut.errors import OptionError
from stepcut.procedure.edits import Edits
from stepcut.progress import Event


@pytest.fixture
def root(kitchen: Path, tmp_path: Path) -> Path:
    """A folder with two videos, labels and a procedure; `outside` lies beside it."""
    folder = tmp_path / "work"
    shutil.copytree(kitchen / "videos", folder / "kitchen")
    shutil.copytree(kitchen / "annotations", folder / "labels")
    first, second = sorted((folder / "kitchen").glob("k*.mp4"))
    write_procedure(folder / "tea.proc", {"one": str(first), "two": str(second)})
    (tmp_path / "outside").mkdir()
    shutil.copy(first, tmp_path / "outside" / "private.mp4")
    (tmp_path / "outside" / "private.csv").write_text("start,end,step\n0,1,secret\n")
    return folder


@pytest.fixture
def app(root: Path) -> Iterator[Served]:
    with Served(Running(Workspace(root))) as served:
        yield served


def place_of(app: Served, title: str = "tea") -> str:
    found = app.get("api/home").json()["procedures"]
    return f"p/{next(one['id'] for one in found if one['title'] == title)}"


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---------------------------------------------------------------------- links


@pytest.mark.parametrize(
    "attack", ["uploads", "export", "report.html", "clips", "dangling", "labels"]
)
def test_links_that_leave_the_folder_are_refused_with_a_sentence(
    app: Served, root: Path, attack: str
) -> None:
    outside = root.parent / "outside"
    before, procedure = tree(outside), place_of(app)
    wish = {"what": ["report"], "formats": []}
    learn = {"videos": [f"kitchen/{path.name}" for path in (root / "kitchen").iterdir()]}
    if attack == "uploads":
        (root / "uploads").symlink_to(outside)
        answer = app.upload(f"{procedure}/api/upload?name=new.mp4", b"one")
    elif attack == "export":
        (root / "tea-export").symlink_to(outside)
        answer = app.post(f"{procedure}/api/export", wish)
    elif attack == "report.html":
        (root / "tea-export").mkdir()
        (root / "tea-export" / "report.html").symlink_to(outside / "private.csv")
        answer = app.post(f"{procedure}/api/export", wish)
    elif attack == "clips":
        (root / "tea-export").mkdir()
        (root / "tea-export" / "clips").symlink_to(outside)
        answer = app.post(f"{procedure}/api/export", {**wish, "what": ["clips"]})
    elif attack == "dangling":
        (root / "new.proc").symlink_to(outside / "new.proc")
        answer = app.post("api/learn", {**learn, "name": "new"})
    else:
        (root / "labels" / "more.csv").symlink_to(outside / "private.csv")
        answer = app.post("api/learn", {**learn, "name": "new", "labels": "labels"})
    assert answer.status == 422, answer.text
    assert "link" in answer.json()["error"]
    assert app.get("api/jobs").json()["jobs"] == []
    assert tree(outside) == before


def test_a_link_that_comes_after_the_request_is_not_followed(root: Path, learned: Path) -> None:
    target = learned.parent / "toy-export"
    target.mkdir()
    (target / "time-budget.csv").symlink_to(root.parent / "outside" / "private.csv")
    before, jobs = tree(root.parent / "outside"), Jobs(root)
    jobs.close()
    wish = {"what": ["budget-csv"], "formats": []}
    args = {"folder": str(learned), "trust": False, "wish": wish, "videos": {}}
    job = jobs.start("export", {**args, "target": str(target)}, root, "toy")
    run_here(job.folder)
    assert (job.state["state"], "is a link" in job.state["error"]) == ("failed", True)
    assert tree(root.parent / "outside") == before
    assert not list(learned.parent.glob(".*.part"))


def test_an_exported_file_that_became_a_link_is_not_sent(root: Path) -> None:
    target = root / "tea-export"
    target.mkdir()
    (target / "plan.json").symlink_to(root.parent / "outside" / "private.csv")
    for files in (["plan.json"], ["plan.json", "plan.json"]):
        with pytest.raises(OptionError, match="is a link"):
            pack({"folder": str(target), "files": files})


# ---------------------------------------------------------------------- watching


def test_one_damaged_procedure_or_link_does_not_end_watching(root: Path) -> None:
    space = Workspace(root)
    space.jobs.close()  # the jobs are counted, not run
    good, bad = root / "tea.proc", root / "bad.proc"
    shutil.copytree(good, bad)
    for procedure in (good, bad):
        line = root / f"line-{procedure.stem}"
        line.mkdir()
        viewer = space.viewer(space.id_of(procedure))
        assert viewer is not None
        viewer.checks.watched = line
    (revision(bad) / "config.json").write_text('{"format": 1')
    line = root / "line-tea"
    (line / "dangling.mp4").symlink_to("nowhere")
    (line / "leaving.mp4").symlink_to(root.parent / "outside" / "private.mp4")
    shutil.copy(next((root / "kitchen").iterdir()), line / "new.mp4")
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
    assert any(
        "config.json" in one for one in journal_of(root / "line-bad", bad).read_text().splitlines()
    )


# ---------------------------------------------------------------------- one revision


def test_a_procedure_learned_again_elsewhere_is_noticed(root: Path) -> None:
    first, second = sorted(str(path) for path in (root / "kitchen").iterdir())
    with Page(root / "tea.proc") as page:
        before = page.get("api/state").json()
        old = page.keys
        assert page.get(f"video/{old[0]}").content == Path(first).read_bytes()
        shutil.rmtree(root / "tea.proc")
        write_procedure(root / "tea.proc", {"one": second, "two": first}, fingerprint="beef")
        assert page.get(f"video/{old[0]}").status == 404  # never another video under old timelines
        assert page.get(f"poster/{old[0]}").status == 404
        state = page.get(f"api/state?known={before['stamp']}").json()
        assert state["revision"] != before["revision"]
        new = [video["key"] for video in state["videos"]]
        assert page.get(f"video/{new[0]}").content == Path(second).read_bytes()
        late = {"revision": before["revision"], "edit": {"do": "add", "name": "x"}}
        assert page.post("api/edit", late).status == 409


def test_an_export_of_an_earlier_revision_is_refused(root: Path, learned: Path) -> None:
    space = Workspace.around(learned)
    args = {
        "folder": str(learned), "trust": False, "wish": {"what": ["plan"], "formats": []},
        "target": str(root / "toy-export"), "videos": {}, "fingerprint": "of another revision",
    }  # fmt: skip
    space.jobs.close()
    job = space.jobs.start("export", args, learned, "toy")
    run_here(job.folder)
    assert "learned again" in job.state["error"]
    assert not (root / "toy-export").exists()


def run_here(folder: Path) -> None:
    """Be the process of a job; its signal handler does not stay."""
    import signal

    before = signal.getsignal(signal.SIGTERM)
    run(folder)
    signal.signal(signal.SIGTERM, before)


# ---------------------------------------------------------------------- jobs and restarts


def learn_args(root: Path, name: str) -> dict[str, Any]:
    return {
        "videos": [str(path) for path in sorted((root / "kitchen").iterdir())],
        "output": str(root / name), "root": str(root), "steps": 2, "labels": None, "recipe": None,
    }  # fmt: skip


@pytest.mark.slow
def test_an_old_job_never_replaces_a_newer_procedure(root: Path) -> None:
    jobs = Jobs(root)
    jobs.close()
    job = jobs.start("learn", learn_args(root, "new.proc"), root / "new.proc", "new")
    write_procedure(root / "new.proc", {"one": None, "two": None})
    before = tree(root / "new.proc")
    run_here(job.folder)
    assert "in the meantime" in job.state["error"]
    assert tree(root / "new.proc") == before
    shutil.rmtree(root / "new.proc")
    for _ in range(2):  # killed after the last step, it is started again
        run_here(job.folder)
        assert (job.state["state"], len(job.result["steps"])) == ("done", 2)
    assert not list(root.glob(".*"))


def test_a_second_request_of_a_name_is_refused_while_the_first_runs(
    app: Served, root: Path
) -> None:
    body = {"videos": [f"kitchen/{path.name}" for path in (root / "kitchen").iterdir()]}
    first = app.post("api/learn", {**body, "name": "new", "steps": "2"}).json()
    assert app.post("api/learn", {**body, "name": "new", "steps": "2"}).json()["id"] == first["id"]
    second = app.post("api/learn", {**body, "name": "new", "steps": "3"})
    assert second.status == 422
    assert "being learned" in second.json()["error"]
    app.post(f"api/jobs/{first['id']}/cancel", {})


def test_a_job_says_how_long_it_still_takes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = Jobs(root)
    jobs.close()
    job = jobs.start("learn", learn_args(root, "new.proc"), root / "new.proc", "new")
    tell = Progress(job)
    # Half was done before: 10 s for a tenth.
    for seconds, done, left in ((100, 50, None), (101, 51, None), (110, 60, 40), (150, 100, 0)):
        monkeypatch.setattr("stepcut.app.jobs.time.monotonic", lambda now=seconds: now)
        tell(Event("features", done, 100, "videos", "a.mp4"))
        assert job.to_json()["left"] == left


def test_a_procedure_is_named_after_a_telling_folder(app: Served, root: Path) -> None:
    (root / "kitchen").rename(root / "videos")
    body = {"videos": [f"videos/{path.name}" for path in (root / "videos").iterdir()]}
    job = app.post("api/learn", body).json()
    app.post(f"api/jobs/{job['id']}/cancel", {})
    assert job["title"] == "work"


def test_a_start_removes_what_a_killed_server_left(root: Path) -> None:
    (root / "uploads").mkdir()
    dead = [root / "uploads" / name for name in (".a.mp4.0123abcd.part", "empty.mp4")]
    for path in dead:
        path.touch()
    folders = [root / f".tea-export.{digits}.part" for digits in ("0123abcd", "0123abcd" * 4)]
    for folder in folders:
        folder.mkdir()
    fresh = root / "uploads" / ".b.mp4.0123abcd.part"
    for path in (*dead, *folders):
        os.utime(path, (1, 1))
    fresh.touch()
    with Served(Running(Workspace(root))) as app:
        app.get("api/home")  # it has started
        assert not any(path.exists() for path in dead)
        assert [folder.exists() for folder in folders] == [False, True]  # the second is a command's
        assert fresh.exists()


@pytest.mark.slow
def test_a_job_resumed_at_once_after_its_cancel_goes_on(app: Served) -> None:
    job = app.post(f"{place_of(app)}/api/copies", {"kind": "webm", "codecs": []}).json()["job"]
    place = f"api/jobs/{job['id']}"
    for pause in (0.0, 0.1, 0.3, 0.6):
        time.sleep(pause)
        if app.get(place).json()["state"] in ("waiting", "running"):
            app.post(f"{place}/cancel", {})
            assert app.post(f"{place}/resume", {}).status == 200
    assert wait(app, job)["result"] == {}


def test_a_server_starts_again_at_its_address(root: Path) -> None:
    with Served(Running(Workspace(root))) as app:
        address = app.running.address
        with Served(Running(Workspace(root))) as second:  # the port is taken
            assert second.running.address.split("/")[2] != address.split("/")[2]
    again = Running(Workspace(root))
    assert again.address == address
    again.start().close()
    (file,) = (Path(os.environ["STEPCUT_STATE"]) / "app").glob("*.json")
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)  # others may have read the token
    other = Running(Workspace(root))
    assert other.address.split("/")[3] != address.split("/")[3]
    other.start().close()


# ---------------------------------------------------------------------- odd names and bodies


def test_names_that_are_not_utf8_are_listed_and_used(app: Served, root: Path) -> None:
    folder = root / os.fsdecode(b"caf\xe9")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this disk has no such names")
    shutil.copy(min((root / "kitchen").iterdir()), folder / os.fsdecode(b"\xff.mp4"))
    shutil.copytree(root / "tea.proc", folder.with_suffix(".proc"))
    assert {one["title"] for one in app.get("api/home").json()["procedures"]} == {"tea", "caf%E9"}
    shown = app.get("api/folder").json()["folders"]
    path = next(one["path"] for one in shown if one["name"] == "caf%E9")
    (video,) = app.get(f"api/folder?path={path.replace('%', '%25')}").json()["videos"]
    assert video["name"] == "%FF.mp4"
    (probed,) = app.post("api/probe", {"videos": [video["path"]]}).json()["videos"]
    assert "Rename the file" in probed["problem"]


def test_requests_may_name_sixteen_hundred_videos(app: Served) -> None:
    names = [
        f"kitchen/a-folder-with-a-long-name/recording-{n:04}-of-the-top-camera.mp4"
        for n in range(1600)
    ]
    answer = app.post("api/learn", {"videos": names})
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


def test_hostile_values_are_refused_with_a_sentence(app: Served, root: Path) -> None:
    procedure, names = (
        place_of(app),
        [f"kitchen/{path.name}" for path in (root / "kitchen").iterdir()],
    )
    revision = app.get(f"{procedure}/api/state").json()["revision"]
    learn = [f'{{"videos": {json.dumps(names)}, "name": "new", {one}}}' for one in LEARN]
    calls = [("api/learn", body) for body in (*learn, '{"videos": ["a\\u0000", "LONG"]}')]
    calls += [
        (f"{procedure}/api/{call}", body) for call, bodies in BODIES.items() for body in bodies
    ]
    calls += [("api/probe", '{"videos": ["\\ud800"], "x": BIG}')]
    named = {"origin": app.origin, "content-type": "application/json"}
    wrong = []
    for path, text in calls:
        for old, new in (
            ("REV", revision),
            ("BIG", BIG),
            ("HUGE", "1" + "0" * 400),
            ("LONG", "x" * 6000),
        ):
            text = text.replace(old, new)
        answer = app.ask("POST", f"/{app.token}/{path}", named, text.encode())
        if answer.status >= 500 or (answer.status >= 400 and not answer.json()["error"]):
            wrong.append((path, text[:80], answer.status, answer.text[:200]))
    for path in (
        "api/folder?path=" + "x" * 6000,
        "api/folder?path=%00",
        "api/folder?path=%ED%A0%80",
    ):
        answer = app.get(path)
        if not 400 <= answer.status < 500:
            wrong.append((path[:80], "", answer.status, answer.text[:200]))
    answer = app.upload(f"{procedure}/api/upload?name={'x' * 6000}.mp4", b"x")
    wrong += [("upload", "", answer.status, answer.text)] if answer.status >= 500 else []
    assert not wrong, "\n".join(map(str, wrong))
    for job in app.get("api/jobs").json()["jobs"]:  # odd names are made safe
        app.post(f"api/jobs/{job['id']}/cancel", {})
    assert {path.name for path in root.parent.iterdir()} == {"work", "outside"}
    assert not Edits(root / "tea.proc").corrections.history


def test_every_error_is_json(app: Served, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = app.ask("GET", "/wrong/", {})
    assert (refused.status, "token" in refused.json()["error"]) == (403, True)
    assert "error" in app.get("nothing").json()
    (root / "uploads").write_bytes(b"a file in the place of the folder")
    assert app.upload(f"{place_of(app)}/api/upload?name=a.mp4", b"x").status == 507

    def broken(*_: object) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr(Workspace, "listing", broken)
    answer = app.get("api/folder")
    assert (answer.status, "a bug in stepcut" in answer.json()["error"]) == (500, True)
