"""Worker processes on one machine: answers in order, failures named, the dead replaced, cancelling."""

import multiprocessing
import os
import subprocess
import sys
import threading
from pickle import PicklingError
from typing import Any

import pytest
from errors_kit import raises
from parallel_kit import (
    cores,
    deafen,
    die_once,
    fail_oddly,
    half_write,
    slow_square,
    square,
    stumble,
)

from stepcut.errors import OptionError, WorkerDied
from stepcut.parallel import open_engine
from stepcut.parallel.engine import count_cores, share_cores
from stepcut.parallel.local import Local, map_threads
from stepcut.threads import PASSIVE


@pytest.fixture
def engine():
    engine = Local(2)
    yield engine
    engine.close()
    assert not multiprocessing.active_children()


def test_answers_come_in_the_order_of_the_items(engine):
    told: list[tuple[int, object]] = []
    assert engine.map(square, range(7), lambda number, answer: told.append((number, answer))) == [
        n * n for n in range(7)
    ]
    assert sorted(told) == [(n, n * n) for n in range(7)]
    assert engine.map(square, []) == []
    assert engine.map(cores, [0]) == [(engine.threads, str(engine.threads))]


def test_a_failure_and_a_death_stop_nobody_else(engine, tmp_path):
    answers = engine.map(stumble, range(6))
    assert [answers[n] for n in (0, 1, 4, 5)] == [0, 1, 4, 5]
    assert isinstance(answers[2], ValueError)
    assert "stumble" in answers[2].__notes__[0]
    assert isinstance(answers[3], WorkerDied)
    assert "died by SIGKILL, 2 times" in str(answers[3])
    # A worker that is killed once, by whomever, costs one more try and nothing else.
    assert engine.map(die_once, [(n, str(tmp_path)) for n in range(4)]) == [0, 1, 2, 3]
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "begun-0": "x",
        "begun-1": "xx",
        "begun-2": "x",
        "begun-3": "x",
    }


def test_errors_that_cannot_travel_are_told_in_words(engine):
    answers: Any = engine.map(fail_oddly, range(5))
    assert [answers[n] for n in (0, 4)] == [0, 4]
    for number, said in ((1, "ValueError: one is odd"), (2, "Fussy: two is odd")):
        assert isinstance(answers[number], RuntimeError)
        assert said in str(answers[number])
        assert "in fail_oddly" in answers[number].__notes__[0]
    assert isinstance(answers[3], RuntimeError)


def test_an_item_that_cannot_be_sent_leaves_no_worker_behind(engine):
    with pytest.raises((TypeError, AttributeError, PicklingError)):
        engine.map(square, [lambda: None])
    assert not multiprocessing.active_children()
    assert engine.map(square, [3]) == [9]


@pytest.mark.parametrize("said", ["0", "-2", "many", "1.5"])
def test_a_number_of_cores_that_is_none_is_refused(monkeypatch, said):
    monkeypatch.setenv("STEPCUT_CORES", said)
    with pytest.raises(OptionError, match="STEPCUT_CORES"):
        count_cores()


def test_cancelling_ends_all_workers(engine):
    def enough(_number, _answer):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.map(slow_square, range(100), enough)
    assert not multiprocessing.active_children()
    assert engine.map(square, [3]) == [9]


def test_cancelled_workers_remove_what_they_have_half_written(engine, tmp_path):
    def enough(_number, _answer):
        assert [file.suffix for file in tmp_path.iterdir()] == [".part"]
        for (
            worker
        ) in multiprocessing.active_children():  # as a scheduler tells all processes of a group
            worker.terminate()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.map(half_write, [(n, str(tmp_path)) for n in range(2)], enough)
    assert not list(tmp_path.iterdir())


def test_a_worker_that_does_not_go_is_killed(engine, monkeypatch):
    monkeypatch.setattr("stepcut.parallel.local._PATIENCE", 0.2)
    assert engine.map(deafen, [0]) == [0]
    engine.close()
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("rai",), "'ray'?"),
        (("local", 0), "workers=0"),
        (("local", True), "workers=True"),
        (("local", None, "auto"), "address='auto'"),
    ],
)
def test_wrong_settings(given, said):
    with raises(OptionError, said), open_engine(*given):
        pass


def test_an_engine_of_ones_own_stays_open():
    own = Local(1)
    with open_engine(own) as given:
        assert given is own
        assert own.map(square, [2]) == [4]
    assert multiprocessing.active_children()
    own.close()
    with open_engine() as none, open_engine(always=True) as one:
        assert none is None
        assert one is not None
        assert one.workers >= 1


def test_a_thread_that_hangs_does_not_keep_an_interrupted_program(monkeypatch):
    monkeypatch.setattr("stepcut.parallel.local._PATIENCE", 0.05)
    hang, begun = threading.Event(), threading.Event()

    def work(item, _):
        if item:
            begun.set()
            hang.wait(60)
        begun.wait(60)
        return item

    def interrupt(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        map_threads(work, [0, 1], interrupt, lambda *_: None, workers=2)
    left = [thread for thread in threading.enumerate() if thread.name == "stepcut-work"]
    assert [thread.daemon for thread in left] == [True]
    hang.set()
    left[0].join(60)


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
