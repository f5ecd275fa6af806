"""Watching a folder: growing files wait, broken ones are told, nothing is checked twice."""

import errno
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
from errors_kit import raises

from stepcut.app.watching import Arrivals, Journal, journal_of
from stepcut.cli import checking
from stepcut.cli.checking import poll, post, reopen
from stepcut.cli.main import main
from stepcut.errors import OutputError, VideoError
from stepcut.features.spec import FeatureSpec
from stepcut.procedure.edits import Edits
from stepcut.procedure.learning import learn, load

NOW = ["--settle", "0", "--every", "0"]


def random_rows(seed):
    return np.random.default_rng(seed).normal(size=(30, 6))


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    place = tmp_path_factory.mktemp("learned") / "p.proc"
    learn([random_rows(n) for n in range(3)], steps=2, output=place, restarts=2)
    return place


@pytest.fixture
def arriving(tmp_path):
    (tmp_path / "arriving").mkdir()
    return tmp_path / "arriving"


def once(folder, place, *more):
    return main(["watch", str(folder), "-p", str(place), "--once", *more])


def check(path):
    if path.stem == "broken":
        raise VideoError(f"{path}: no film")
    verdict = {"flawed": "deviations", "other": "another task"}.get(path.stem, "fine")
    return {"video": path.stem, "verdict": verdict}


opened = []


@pytest.fixture(autouse=True)
def closed_journals():
    yield
    while opened:
        opened.pop().close()


class Watch(Arrivals):
    def __init__(self, folder, check=check, settle=60):
        opened.append(Journal(journal_of(folder), make_folder=True))
        super().__init__(folder, opened[-1], settle)
        self.check = check

    def poll(self, procedure=""):
        return poll(self, self.check, procedure)

    @property
    def checked(self):
        return [record["video"] for record in self.poll()]


def old(*paths, at=1):
    for number, path in enumerate(paths):
        path.write_bytes(b"film")
        os.utime(path, (at + number, at + number))


def test_what_has_stopped_growing_is_checked_once(tmp_path):
    names = ("good.mp4", "broken.mp4", "flawed.MP4", "notes.txt", ".hidden.mp4")
    old(*(tmp_path / name for name in names))
    (tmp_path / "growing.mp4").write_bytes(b"fi")
    watch = Watch(tmp_path)
    found = {record["video"]: record for record in watch.poll()}
    assert set(found) == {"good", "broken", "flawed"}
    assert "no film" in found["broken"]["error"]
    assert [path.name for path, _ in watch.waiting()] == ["growing.mp4"]
    assert watch.checked == []
    os.utime(tmp_path / "growing.mp4", (2, 2))
    assert watch.checked == ["growing"]
    with journal_of(tmp_path).open("a") as file:
        file.write('{"stamp": ["half a li')  # killed while writing
    again = Watch(tmp_path)
    assert again.checked == []
    old(tmp_path / "good.mp4", at=3)
    assert again.checked == ["good"]
    assert Watch(tmp_path).checked == again.checked == []
    assert not again.seen  # a watch of years keeps nothing of what is done


def test_a_record_and_its_line_in_the_journal_say_when_and_by_which_procedure(tmp_path):
    old(tmp_path / "good.mp4")
    (record,) = Watch(tmp_path, settle=0).poll("tea.proc")
    assert (record["file_time"], record["procedure"]) == ("1970-01-01T00:00:01+00:00", "tea.proc")
    now = datetime.fromisoformat(record["time"])
    assert abs((datetime.now(UTC) - now).total_seconds()) < 3600
    line = json.loads(journal_of(tmp_path).read_text().splitlines()[-1])
    assert {key: line[key] for key in record} == record


# The second is of the same length and date, as a copy may be.
@pytest.mark.parametrize("change", [lambda path: path.chmod(0o640), old])
def test_a_failure_is_tried_again_when_rights_or_contents_change(change, tmp_path):
    for name in ("good.mp4", "broken.mp4"):
        old(tmp_path / name)
    watch = Watch(tmp_path)
    assert sorted(watch.checked) == ["broken", "good"]
    assert watch.checked == Watch(tmp_path).checked == []
    for name in ("good.mp4", "broken.mp4"):
        change(tmp_path / name)
    assert [path.stem for path, _ in Watch(tmp_path).waiting()] == ["broken"]
    assert watch.checked == ["broken"]
    assert watch.checked == Watch(tmp_path).checked == []


@pytest.mark.slow
def test_a_procedure_that_was_corrected_meanwhile_is_opened_again(learned, tmp_path, capsys):
    place = Path(shutil.copytree(learned, tmp_path / "p.proc"))
    latest = reopen(str(place), trust=False)
    assert next(latest) is next(latest)
    Edits(place).do({"do": "rename", "step": 0, "name": "pour"})
    assert next(latest).steps[0] == "pour"
    assert next(latest) is next(latest)
    (place / "revisions").rename(tmp_path / "revisions")
    for told in ("not a procedure", ""):  # told once
        assert next(latest).steps[0] == "pour"  # as it was, until it can be read again
        assert told in (error := capsys.readouterr().err)
    assert error == ""
    (tmp_path / "revisions").rename(place / "revisions")
    learn([random_rows(n) for n in range(4)], steps=3, output=tmp_path / "q.proc")
    load(tmp_path / "q.proc").save(place)
    assert len(next(latest).steps) == 3


@pytest.mark.parametrize("jump", [0, -1e9, 1e9])
def test_a_clock_that_is_ahead_or_jumps_keeps_no_video_waiting(jump, tmp_path, monkeypatch):
    old(tmp_path / "good.mp4", at=4e9)  # the year 2096, as a camera says
    watch, now = Watch(tmp_path), time.monotonic()
    assert watch.checked == []
    monkeypatch.setattr("time.monotonic", lambda: now + 90)
    clock = time.time_ns() + int(1e9 * jump)
    monkeypatch.setattr("time.time_ns", lambda: clock)
    assert watch.checked == ["good"]
    assert Watch(tmp_path).checked == watch.checked == []


def test_a_journal_without_room_is_named(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    old(tmp_path / "good.mp4")
    watch = Watch(tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    with raises(OutputError, "jsonl", "no space"):
        list(watch.poll())


@pytest.mark.parametrize(("found", "code"), [
    (["good"], 0),
    (["flawed"], 1),
    (["flawed", "broken", "other"], 2),
    (["good", "other", "flawed"], 3),
])  # fmt: skip
def test_exit_codes_are_those_of_check(found, code, learned, tmp_path, monkeypatch):
    class Seen:
        def __init__(self, path):
            self.to_json = lambda: check(path)

    monkeypatch.setattr(
        "stepcut.procedure.procedure.Procedure.check", lambda _, path, *__, **___: Seen(path)
    )
    paths = [tmp_path / f"{name}.mp4" for name in found]
    old(*paths)
    assert once(tmp_path, learned) == code
    assert once(tmp_path, learned) == code  # the videos still lie there; nothing new came
    for path in paths:
        path.unlink()
    assert once(tmp_path, learned) == 0


@pytest.mark.parametrize(("words", "code"), [([], 0), (["--once"], 130)])
def test_a_stopped_watch_of_what_is_there_is_not_done(learned, tmp_path, monkeypatch, words, code):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(checking, "poll", stop)
    assert main(["watch", str(tmp_path), "-p", str(learned), *words]) == code


URLS = [
    "http://", "ftp://h/secret", "http://h:x/", "http://[h/", "http://h/aé", "http://me:secret@h/",
]  # fmt: skip


@pytest.mark.parametrize(("more", "code", "told"), [
    ([], 2, "does not exist"),
    (["--journal", "a_folder"], 5, "--journal"),
    (["--journal", "gone/done.jsonl"], 5, "--journal"),
    *((["--webhook", url], 2, "--webhook") for url in URLS),
])  # fmt: skip
def test_what_cannot_be_is_refused_before_the_first_video(
    more, code, told, learned, arriving, monkeypatch, capsys
):
    monkeypatch.chdir(arriving.parent)
    Path("a_folder").mkdir()
    old(arriving / "good.mp4")
    assert once("arriving" if more else "gone", learned, *more) == code
    out, error = capsys.readouterr()
    assert (out, told in error, "secret" in error) == ("", True, False)
    assert not journal_of(arriving).exists() or code == 5


def test_the_journal_lies_in_the_state_folder_wherever_it_starts(arriving, tmp_path, monkeypatch):
    old(arriving / "good.mp4")
    monkeypatch.chdir(arriving)
    assert Watch(Path()).checked == ["good"]
    assert Watch(arriving).checked == []
    assert [file.name for file in arriving.iterdir()] == ["good.mp4"]
    monkeypatch.delenv("STEPCUT_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert Watch(arriving).checked == ["good"]
    assert journal_of(arriving).is_relative_to(tmp_path / "state" / "stepcut")
    assert journal_of(arriving).stat().st_mode & 0o777 == 0o600
    assert journal_of(arriving).parent.stat().st_mode & 0o777 == 0o700


def test_what_a_stranger_puts_into_the_folder_hides_no_video(learned, arriving, tmp_path, capsys):
    bashrc = tmp_path / ".bashrc"
    old(arriving / "broken.mp4")
    bashrc.write_text("# mine\n")
    state = (arriving / "broken.mp4").stat()
    stamp = [str(arriving / "broken.mp4"), state.st_size, state.st_mtime_ns]
    forged = {"stamp": stamp, "video": "broken", "verdict": "fine"}
    (arriving / ".stepcut-watch.jsonl").write_text(json.dumps(forged) + "\n")
    shutil.copytree(learned, arriving, dirs_exist_ok=True)
    assert once(arriving, learned) == 2
    assert json.loads(capsys.readouterr().out)["verdict"] == "error"
    link = arriving / "done.jsonl"
    link.symlink_to(bashrc)
    assert once(arriving, learned, "--journal", str(link)) == 5
    link.unlink()
    os.link(bashrc, link)
    assert once(arriving, learned, "--journal", str(link)) == 5
    assert bashrc.read_text() == "# mine\n"


def test_a_journal_that_others_can_write_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "done.jsonl"
    Journal(path).close()
    path.chmod(0o662)
    with pytest.raises(OutputError, match="chmod 600"):
        Journal(path)
    path.chmod(0o600)
    os.truncate(path, 1 << 40)
    with raises(OutputError, "regular file"):
        Journal(path)
    os.truncate(path, 0)
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with raises(OutputError, "another user"):
        Journal(path)


def test_the_unit_starts_again_after_a_failure_of_the_machine_alone():
    unit = Path(__file__).parents[2] / "examples" / "watch" / "stepcut-watch.service"
    lines = [line.partition("=") for line in unit.read_text().splitlines() if "=" in line]
    rules = {name: value for name, _, value in lines if not name.startswith("#")}
    assert (rules["Restart"], rules["RestartPreventExitStatus"]) == ("on-failure", "2")
    assert "SuccessExitStatus" not in rules  # a watch that is stopped exits with 0
    assert rules["StateDirectory"] == "stepcut"
    assert "STEPCUT_STATE=/var/lib/stepcut" in rules["Environment"].split()


@pytest.mark.parametrize("change", ["severity", "options", "corrections", "procedure", "nothing"])
def test_a_file_is_checked_again_when_its_verdict_may_change(
    change, learned, arriving, tmp_path, capsys
):
    place, more = Path(shutil.copytree(learned, tmp_path / "p.proc")), []
    np.save(arriving / "a.npy", random_rows(9))
    once(arriving, place, *NOW)
    assert json.loads(capsys.readouterr().out)["video"] == "a"
    if change == "severity":
        (place / "severity.json").write_text('{"critical": [0]}')
    elif change == "options":
        more = ["--alarm-at", "0.9"]
    elif change == "corrections":
        load(place).mark_mistakes("0").save(place)
    elif change == "procedure":
        place = tmp_path / "q.proc"
        learn([random_rows(n) for n in range(1, 5)], steps=2, output=place, restarts=2)
    for again in (change != "nothing", False):
        code = once(arriving, place, *NOW, *more)
        assert bool(capsys.readouterr().out) == again
        assert code == main(["check", str(place), str(arriving / "a.npy"), *more, "--quiet"])
        capsys.readouterr()


def test_files_like_the_learned_ones_are_watched(learned, arriving, capsys):
    shutil.copytree(learned, arriving / "p.proc")  # whose tensors are not recordings
    (arriving / "notes.csv").write_text("x\n1\n")
    assert once(arriving, learned, *NOW) == 0
    out, error = capsys.readouterr()
    assert (out, str(arriving) in error) == ("", True)
    np.save(arriving / "a.npy", random_rows(9))
    once(arriving, learned, *NOW)
    [record] = map(json.loads, capsys.readouterr().out.splitlines())
    assert (record["video"], "error" in record) == ("a", False)
    assert ".npy" in checking.suffixes_of(FeatureSpec("sensors"))
    assert ".npy" not in checking.suffixes_of(FeatureSpec())


@pytest.mark.slow
def test_a_service_that_is_stopped_ends_quietly(learned, tmp_path):
    words = [sys.executable, "-m", "stepcut", "watch", str(tmp_path), "-p", str(learned)]
    words += ["--every", "0.1"]
    old(tmp_path / "broken.mp4")
    run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.stdout is not None
    assert "error" in json.loads(run.stdout.readline())  # it is at work
    run.send_signal(signal.SIGTERM)
    _, error = run.communicate(timeout=60)
    assert (run.returncode, error) == (0, "")  # whatever the videos showed


def test_what_grows_or_goes_while_others_are_checked_is_left_for_later(tmp_path):
    old(*(tmp_path / f"{name}.mp4" for name in "abcd"))

    def busy(path):
        if path.stem == "a":  # which takes long
            (tmp_path / "b.mp4").write_bytes(b"film, and more of it")
            (tmp_path / "c.mp4").unlink()
        if path.stem == "d":  # a copy that had stood still goes on
            path.write_bytes(b"film, and more")
            raise VideoError(f"{path}: the file is cut short")
        return check(path)

    watch = Watch(tmp_path, busy)
    assert watch.checked == ["a"]
    assert sorted(path.name for path, _ in watch.waiting()) == ["b.mp4", "d.mp4"]


def test_a_fault_of_ours_is_one_videos_and_a_full_disk_is_not(tmp_path):
    old(tmp_path / "a.mp4", tmp_path / "b.mp4")

    def odd(path):
        if path.stem == "a":
            raise ZeroDivisionError("odd")
        raise OutputError("cache: no space left on the disk.")

    records = Watch(tmp_path, odd).poll()
    assert next(records)["error"] == "ZeroDivisionError: odd"
    with raises(OutputError, "no space left"):
        next(records)
    assert Watch(tmp_path).checked == ["b"]  # once there is room


def test_one_watch_at_a_time_writes_a_journal(learned, tmp_path, capsys, monkeypatch):
    second = []
    old(tmp_path / "broken.mp4")
    monkeypatch.setattr(checking, "post", lambda *_: second.append(once(tmp_path, learned)) or "")
    assert once(tmp_path, learned, "--webhook", "http://x") == 2
    assert second == [5]
    assert "another watch" in capsys.readouterr().err
    assert once(tmp_path, learned) == 2


class Answering(BaseHTTPRequestHandler):
    def do_POST(self):
        server = self.server
        server.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(server.codes.pop(0) if len(server.codes) > 1 else server.codes[0])
        self.send_header("Location", f"http://127.0.0.1:{server.server_port}/elsewhere")
        self.end_headers()

    def do_GET(self):
        raise AssertionError("a redirect was followed")

    def log_message(self, *_): ...


@pytest.fixture
def hook():
    server = HTTPServer(("127.0.0.1", 0), Answering)
    server.got, server.codes = [], [204]
    server.address = f"http://127.0.0.1:{server.server_port}/hook/TOKEN?key=SECRET"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("codes", "code", "posts"), [([503, 204], 2, 2), ([500], 5, 4), ([302], 5, 4)]
)
def test_failed_deliveries_are_tried_again_and_finally_reported(
    codes, code, posts, hook, learned, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(checking, "RETRY_AFTER", (0.0, 0.0, 0.0))
    old(tmp_path / "broken.mp4")
    hook.codes = codes
    assert once(tmp_path, learned, "--every", "0", "--webhook", hook.address) == code
    out, error = capsys.readouterr()
    assert hook.got == [json.loads(out)] * posts
    assert f"http://127.0.0.1:{hook.server_port}" in error
    assert not {"TOKEN", "SECRET"} & set(re.findall("[A-Z]+", error))
    assert ("does not follow redirects" in error) == (codes == [302])
    lines = list(map(json.loads, journal_of(tmp_path).read_text().splitlines()))
    lost = [line["undelivered"] for line in lines if "undelivered" in line]
    assert lost == ([str(tmp_path / "broken.mp4")] if code == 5 else [])


@pytest.mark.parametrize(
    ("lines", "told"), [([b"garbage\r\n\r\n"], "garbage"), ([b"X: y\r\n"] * 60, "no complete")]
)
def test_an_answer_that_makes_no_sense_or_does_not_end_is_told(lines, told):
    def drip():
        with server.accept()[0] as caller, suppress(OSError):
            caller.recv(65536)
            if len(lines) > 1:
                caller.sendall(b"HTTP/1.1 200 OK\r\n")
            for line in lines:
                caller.sendall(line)
                time.sleep(0.1)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=drip, daemon=True).start()
        address = f"http://127.0.0.1:{server.getsockname()[1]}/"
        assert told in post(address, {"ok": True}, patience=1)
    assert "was not delivered" in post(address, {"ok": True}, patience=2)  # nobody listens
