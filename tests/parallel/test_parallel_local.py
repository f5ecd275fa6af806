"""Worker processes on one machine: answers, failures, deaths, cancelling; none runs files of a folder."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from pickle import PicklingError

import parallel_kit
import pytest
from errors_kit import raises

from stepcut.errors import OptionError, WorkerDied
from stepcut.parallel import PASSIVE
from stepcut.parallel import engine as pool
from stepcut.parallel.engine import Local, count_cores, share_cores


@pytest.fixture
def engine():
    pool.shared().close()  # of other tests
    engine = Local(2)
    yield engine
    engine.close()
    assert not workers()


def workers():
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = file.read_text().rpartition(")")[2].split()[:2]
            found += [int(file.parent.name)] * (int(parent) == os.getpid() and state != "Z")
    return found


def test_answers_come_in_order_and_work_that_hangs_is_ended(engine):
    told = []
    squares = [n * n for n in range(7)]
    assert engine.map(parallel_kit.square, range(7), lambda *one: told.append(one)) == squares
    assert sorted(told) == list(enumerate(squares))
    assert engine.map(parallel_kit.square, []) == []
    # One item has all cores; two share them.
    for count in (1, 2):
        share = max(1, count_cores() // count)
        assert engine.map(parallel_kit.cores, range(count)) == [(share, str(share))] * count
    silent = engine.map(parallel_kit.fall_silent, [1.0])
    assert isinstance(silent[0], WorkerDied)
    assert str(silent[0]) == "no progress for 1 seconds while sleeping"
    assert engine.map(parallel_kit.keep_busy, [1.0, 1.0]) == [1.0, 1.0]


def test_a_worker_ends_when_it_has_nothing_to_do(engine, monkeypatch):
    quick = "from stepcut.parallel import worker\nworker.IDLE = 0.5\n" + pool.CODE
    monkeypatch.setattr(pool, "CODE", quick)
    assert engine.map(parallel_kit.square, [3]) == [9]
    until = time.monotonic() + 60
    while workers() and time.monotonic() < until:
        time.sleep(0.05)
    assert not workers()
    assert engine.map(parallel_kit.square, [4]) == [16]


def test_a_worker_with_other_settings_is_replaced_and_a_deaf_one_killed(engine, monkeypatch):
    [first] = engine.map(parallel_kit.folder_of, [0])
    assert engine.map(parallel_kit.folder_of, [0]) == [first]
    monkeypatch.setenv("STEPCUT_ANY", "x")
    [second] = engine.map(parallel_kit.folder_of, [0])
    assert second != first
    monkeypatch.setattr("stepcut.parallel.engine._PATIENCE", 0.2)
    assert engine.map(parallel_kit.deafen, [0]) == [0]
    engine.close()
    assert not workers()


def test_failures_deaths_and_what_cannot_travel_stop_nobody_else(engine, tmp_path):
    answers = parallel_kit.check_answers(engine, tmp_path, "died by SIGKILL, 2 times")
    assert "stumble" in answers[2].__notes__[0]
    answers = engine.map(parallel_kit.fail_oddly, range(5))
    assert [answers[n] for n in (0, 4)] == [0, 4]
    for number, said in ((1, "ValueError: one is odd"), (2, "Fussy: two is odd")):
        assert isinstance(answers[number], RuntimeError)
        assert said in str(answers[number])
        assert "in fail_oddly" in answers[number].__notes__[0]
    assert isinstance(answers[3], RuntimeError)
    with pytest.raises((TypeError, AttributeError, PicklingError)):
        engine.map(parallel_kit.square, [lambda: None])
    assert not workers()
    assert engine.map(parallel_kit.square, [3]) == [9]


def test_cancelled_workers_end_and_remove_what_they_have_half_written(engine, tmp_path):
    def enough(_number, _answer):
        assert [file.suffix for file in tmp_path.iterdir()] == [".part"]
        for worker in workers():  # as a scheduler tells all processes of a group
            os.kill(worker, signal.SIGTERM)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.map(parallel_kit.half_write, [(n, str(tmp_path)) for n in range(2)], enough)
    assert not list(tmp_path.iterdir())
    assert not workers()
    assert engine.map(parallel_kit.square, [3]) == [9]


def test_wrong_settings(monkeypatch):
    for given, said in (
        (("rai",), "'ray'?"),
        (("local", 0), "workers=0"),
        (("local", True), "workers=True"),
        (("local", None, "auto"), "address='auto'"),
    ):
        with raises(OptionError, said), pool.open_engine(*given):
            pass
    for number in ("0", "-2", "many", "1.5"):
        monkeypatch.setenv("STEPCUT_CORES", number)
        with raises(OptionError, "STEPCUT_CORES"):
            count_cores()


def test_an_engine_of_ones_own_stays_open():
    pool.shared().close()
    own = Local(1)
    with pool.open_engine(own) as given:
        assert given is own
        assert own.map(parallel_kit.square, [2]) == [4]
    assert workers()
    own.close()
    with pool.open_engine() as none, pool.open_engine(workers=1) as one:
        assert none is None
        assert one is not None
        assert one.workers >= 1


@pytest.mark.slow
def test_threads_of_commands_and_workers_sleep_while_they_wait(monkeypatch):
    for name in (*PASSIVE, "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    with share_cores(1):
        assert {name: os.environ[name] for name in PASSIVE} == PASSIVE
    assert not PASSIVE.keys() & os.environ.keys()
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")  # which somebody may want
    with share_cores(1):
        assert os.environ["OMP_WAIT_POLICY"] == "active"
    code = "import sys; from stepcut.cli.main import main; main(['doctor', '--json']); import os; "
    code += "import threadpoolctl, scipy.linalg; print(os.environ['OMP_WAIT_POLICY'], "
    code += "{one['num_threads'] for one in threadpoolctl.threadpool_info() "
    code += "if one['internal_api'] == 'openblas'} <= {1})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "active True"


HIDDEN = ("struct", "socket", "pickle", "filelock", "av", "numpy", "scipy", "msgspec", "stepcut")
"""Modules that a process imports, early or late."""

VIDEO = """
from stepcut.features.video.container import probe
print(probe(sys.argv[2]).frames)
"""
WORKERS = """
from stepcut.parallel.engine import Local
engine = Local(1)
assert engine.map(abs, [-3]) == [3]
engine.close()
"""
RAY = """
from stepcut.parallel.engine import Ray
engine = Ray(1)
assert engine.map(abs, [-3]) == [3]
engine.close()
"""
JOBS = """
import time
from pathlib import Path
from stepcut.app.jobs import Jobs
jobs = Jobs(Path(sys.argv[2]).parent)
job = jobs.start("copies", {"videos": [sys.argv[2]], "kind": "mp4"}, Path(sys.argv[2]), "")
end = time.monotonic() + 100
while job.state["state"] in ("waiting", "running") and time.monotonic() < end:
    time.sleep(0.1)
assert job.state["state"] == "done", job.state
jobs.close()
"""


@pytest.fixture
def hostile(tmp_path):
    folder = tmp_path / "downloads"
    folder.mkdir()
    for name in HIDDEN:
        mark = f"open({str(folder / 'RAN')!r}, 'a').write(__name__)\nraise SystemExit(9)\n"
        (folder / f"{name}.py").write_text(mark)
    return folder


@pytest.mark.parametrize("code", [
    VIDEO,
    WORKERS,
    pytest.param(JOBS, marks=pytest.mark.slow),
    pytest.param(RAY, marks=pytest.mark.ray),
], ids=["video", "workers", "jobs", "ray"])  # fmt: skip
def test_no_process_runs_files_of_the_current_folder(code, hostile, kitchen, tmp_path):
    video = str(next((kitchen / "videos").glob("*.mp4")))
    # The parent has all that it needs itself before it goes there, and looks there for modules.
    preload = "import os, sys, stepcut.app.jobs, stepcut.features.video.container\n"
    start = preload + "assert not sys.path[0]; os.chdir(sys.argv[1])\n"
    command = [sys.executable, "-c", start + code, str(hostile), video]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert not (hostile / "RAN").exists(), (hostile / "RAN").read_text()
    assert run.returncode == 0, run.stderr


def test_the_module_form_of_the_command_runs_no_files_of_the_current_folder(hostile):
    # Python was asked to run the first, and loads the others before.
    for name in ("stepcut", "struct", "socket", "pickle"):
        (hostile / f"{name}.py").unlink()
    command = [sys.executable, "-m", "stepcut", "learn", "--help"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=hostile)
    assert (run.returncode, (hostile / "RAN").exists()) == (0, False), run.stderr
