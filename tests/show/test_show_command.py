"""stepcut view and stepcut.view: the address line, and a clean shutdown."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest
from errors_kit import raises
from show_kit import Page

import stepcut as sc
from stepcut.app.server import Running
from stepcut.cli.main import main
from stepcut.errors import ProcedureError


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


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("breakfast", ["--port", "99999"], "from 0 to 65535"),
        ("breakfast", ["--at", "thre@5"], "video='thre' is unknown"),
        ("breakfast", ["--at", "one"], "''"),
        ("none", [], "does not exist"),
        ("none", ["--port", "99999"], "does not exist"),
    ],
)
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
    """The viewers that a command would have served until it is stopped."""
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
