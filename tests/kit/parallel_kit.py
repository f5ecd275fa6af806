"""Shared by the tests of parallel work: a backbone that logs every frame, and work that fails."""

import ctypes
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from stepcut.errors import WorkerDied

RAY = [
    pytest.mark.ray,
    # Ray leaves sockets and processes to the garbage collector, and warns of its own future.
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
    ),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Logged:
    """Twelve numbers, the mean colour of four columns; logs every batch in a file, in any process."""

    name, dim, size, batch = "logged", 12, 16, 4

    def __init__(self, log, wait=0.0, die=None):
        self.log, self.wait, self.die = log, wait, die
        self.fingerprint = "logged 1"

    def extract(self, frames):
        time.sleep(self.wait)
        if self.die is not None and not self.die.exists():
            self.die.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        with open(self.log, "a", encoding="ascii") as file:
            file.write(f"{os.getpid()} {len(frames)}\n")
        return frames.reshape(len(frames), 16, 4, 4, 3).mean(axis=(1, 3)).reshape(len(frames), 12)


class Grey:
    name, dim, size, fingerprint = "grey", 1, 16, "grey"

    def extract(self, frames):
        return frames.mean(axis=(1, 2, 3))[:, None]


class Wide(Logged):
    """The same a hundred times: rows of 2.4 kB in half precision, which fill a small disk."""

    dim = 1200

    def extract(self, frames):
        return super().extract(frames).repeat(100, axis=1)


def seen(log):
    lines = log.read_text().splitlines() if log.exists() else []
    return sum(int(line.split()[1]) for line in lines)


def pids(log):
    return {int(line.split()[0]) for line in log.read_text().splitlines()}


def square(number):
    return number * number


def stumble(number):
    if number == 2:
        raise ValueError("two is too many")
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


class Fussy(Exception):
    def __init__(self, one, other):
        super().__init__(one + other)


def fail_oddly(number):
    """What cannot be pickled: the error of number 1, the answer of 3; 2 cannot be unpickled."""
    if number == 1:
        error = ValueError("one is odd")
        error.hook = lambda: None  # type: ignore[attr-defined]
        raise error
    if number == 2:
        raise Fussy("two is ", "odd")
    return (lambda: None) if number == 3 else number


def die_once(item):
    number, folder = item
    with open(Path(folder, f"begun-{number}"), "a", encoding="ascii") as file:
        file.write("x")
    if number == 1 and Path(folder, f"begun-{number}").read_text() == "x":
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def cores(_):
    from stepcut.parallel.engine import count_cores

    return count_cores(), os.environ["OMP_NUM_THREADS"]


def folder_of(_):
    return os.getpid(), os.getcwd()


def fall_silent(seconds):
    """Work that hangs: Python holds its lock, so that only another process can end it."""
    from stepcut.parallel.worker import time_limit

    with time_limit(seconds, "sleeping"):
        ctypes.PyDLL(None).sleep(600)


def keep_busy(seconds):
    """Work that takes twice its limit, but makes progress."""
    from stepcut.parallel.worker import alive, time_limit

    with time_limit(seconds, "working"):
        until = time.monotonic() + 2 * seconds
        while time.monotonic() < until:
            time.sleep(0.01)
            alive()
    return seconds


def scribble(item):
    """Number 1 writes for a minute; every other waits until it does, and finishes."""
    number, folder = item
    paper = Path(folder) / "scribbled"
    if number != 1:
        while not paper.exists():
            time.sleep(0.01)
        return number
    for _ in range(6000):
        with open(paper, "a", encoding="ascii") as file:
            file.write("x")
        time.sleep(0.01)
    return number


def half_write(item):
    """Number 1 has a partial file for a minute; every other waits until it does, and finishes."""
    number, folder = item
    if number != 1:
        while not list(Path(folder).iterdir()):
            time.sleep(0.01)
        return number
    from stepcut.files import whole_file

    with whole_file(Path(folder) / "rows"):
        time.sleep(60)
    return number


def deafen(number):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=time.sleep, args=(60,)).start()
    return number


def check_answers(engine, folder, death):
    answers = engine.map(stumble, range(6))
    assert [answers[n] for n in (0, 1, 4, 5)] == [0, 1, 4, 5]
    assert isinstance(answers[2], ValueError)
    assert isinstance(answers[3], WorkerDied)
    assert death in str(answers[3])
    # A worker that is killed once, by whomever, costs one more try and nothing else.
    assert engine.map(die_once, [(n, str(folder)) for n in range(4)]) == [0, 1, 2, 3]
    begun = {file.name: file.read_text() for file in folder.iterdir()}
    assert begun == {f"begun-{n}": "xx" if n == 1 else "x" for n in range(4)}
    return answers
