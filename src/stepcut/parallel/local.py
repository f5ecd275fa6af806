"""A pool of worker processes on this machine, which are watched, ended and replaced."""

import atexit
import os
import pickle
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, BinaryIO, cast

from stepcut.errors import StepcutError, WorkerDied, wrong
from stepcut.parallel.engine import (
    TRIES,
    Advance,
    Answer,
    Engine,
    Item,
    count_cores,
    import_folders,
    isolated,
    share_cores,
)
from stepcut.parallel.worker import is_worker

_MEMORY = 2**30
"""Bytes that a worker needs for libraries, backbone, decoder and a batch of frames."""
_MOST = 16
"""Most workers of a pool whose size nobody chose."""
_PATIENCE = 5.0
"""Seconds in which a stopped worker removes its partial files."""
_TICK = 0.5
"""Seconds after which the parent looks for workers that hang.

It counts ticks instead of reading the clock, so that a suspended machine kills no worker."""
CODE = "from stepcut.parallel.worker import serve\nserve()\n"

Conditions = tuple[object, ...]
"""What a process has from its start on: its share of the cores, folder, environment and modules."""


class _Process:
    """A worker process, seen from its parent."""

    def __init__(self, threads: int, conditions: Conditions) -> None:
        self.conditions = conditions
        with share_cores(threads):
            # In a new session, since Ctrl-C must reach the parent only.
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self._process = subprocess.Popen(isolated(CODE), **pipes, start_new_session=True)
        self._input = cast(BinaryIO, self._process.stdin)
        self._output = cast(BinaryIO, self._process.stdout)
        self.ready = False
        self.limit: tuple[float, str] | None = None
        self.quiet = 0.0

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def give(self, data: bytes, messages: "Messages") -> None:
        """Send it work; what it reports goes to `messages`."""
        self.limit, self.quiet = None, 0.0
        self._reader = threading.Thread(target=self._read, args=[messages], daemon=True)
        self._reader.start()
        with suppress(OSError):  # it died: the reader sees the end
            pickle.dump(data, self._input)
            self._input.flush()

    def _read(self, messages: "Messages") -> None:
        kind = ""
        with suppress(EOFError, OSError, ValueError, pickle.UnpicklingError):
            while kind != "answer":
                kind, value = pickle.load(self._output)
                messages.put((self, kind, value))
        if kind != "answer":
            messages.put((self, "end", None))

    def ask_to_end(self) -> None:
        self._process.terminate()

    def end(self, patience: float = 0.0) -> str:
        """Wait for its end, kill it if it stays busy, and return how it ended.

        Do not wait long for one that the system cannot end, as on a broken disk.
        """
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
            self._reader.join(1)
            for pipe in (self._input, self._output):
                with suppress(OSError):  # an unsent message
                    pipe.close()
        code = self._process.returncode
        names = {-number.value: number.name for number in signal.Signals}
        return f"died by {names[code]}" if code in names else f"ended with exit code {code}"


Messages = SimpleQueue[tuple[_Process, str, Any]]


class Local(Engine):
    """Worker processes on this machine, from the first work until `close`; see `open_engine`."""

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        if address is not None:
            what = "belongs to a Ray cluster. Add engine='ray' (--engine ray)."
            raise wrong("address", address, what)
        able = min(count_cores(), int(free_memory() / _MEMORY), _MOST)
        self.workers = workers or max(1, able)
        self._idle: list[_Process] = []
        self._lock = threading.Lock()

    def _answers(
        self, work: Callable[[Any], Any], items: Sequence[Any], gpu: float, advance: Advance
    ) -> Generator[tuple[int, Any]]:
        del gpu  # all workers share the GPUs of the machine
        most = min(self.workers, len(items))
        threads = max(1, count_cores() // max(1, most))
        waiting = deque(range(len(items)))
        tries = dict.fromkeys(waiting, 0)
        busy: dict[_Process, int] = {}
        messages: Messages = SimpleQueue()
        looked = time.monotonic()
        try:
            while waiting or busy:
                while waiting and len(busy) < most:
                    data = pickle.dumps((work, items[waiting[0]]))
                    number, process = waiting.popleft(), self._take(threads)
                    tries[number] += 1
                    busy[process] = number
                    process.give(data, messages)
                with suppress(Empty):
                    process, kind, value = messages.get(timeout=_TICK)
                    if process not in busy:
                        continue
                    process.quiet = 0.0
                    number = busy[process]
                    if kind == "answer":
                        del busy[process]
                        self._put_back(process)
                        yield number, pickle.loads(value)
                    elif kind == "end":
                        del busy[process]
                        ending = process.end(1.0)
                        if not process.ready:
                            what = f"a worker process cannot start ({ending}). Free memory, then "
                            raise StepcutError(f"{what}try again.")
                        if tries[number] < TRIES:
                            waiting.appendleft(number)
                        else:
                            yield number, WorkerDied(f"the worker process {ending}, {TRIES} times")
                    elif kind == "limit":
                        process.limit = value
                    elif kind == "ready":
                        process.ready = True
                    else:
                        advance(number, value or 0)
                if time.monotonic() - looked >= _TICK:
                    looked = time.monotonic()
                    yield from self._end_hanging(busy, advance)
        except BaseException:
            for process in busy:
                process.ask_to_end()
            until = time.monotonic() + _PATIENCE
            for process in busy:
                process.end(max(0.0, until - time.monotonic()))
            self.close()
            raise

    def _end_hanging(
        self, busy: dict[_Process, int], advance: Advance
    ) -> Generator[tuple[int, Any]]:
        """End the workers that made no progress within their time limits."""
        for number in list(busy.values())[:1]:
            advance(number, 0)
        for process, number in list(busy.items()):
            process.quiet += _TICK
            if process.limit is not None and process.quiet > process.limit[0]:
                seconds, doing = process.limit
                del busy[process]
                process.end()
                yield number, WorkerDied(f"no progress for {seconds:g} seconds while {doing}")

    def close(self) -> None:
        """See `Engine.close`."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.ask_to_end()
        for process in idle:
            process.end(_PATIENCE)

    def _take(self, threads: int) -> _Process:
        """Return an idle worker that fits, or a new one."""
        conditions = threads, _folder(), sorted(os.environ.items()), import_folders()
        with self._lock:
            idle, self._idle = self._idle, []
        fit = [process for process in idle if process.alive and process.conditions == conditions]
        for process in idle:
            if process not in fit:
                process.end()
        with self._lock:
            self._idle += fit[1:]
        return fit[0] if fit else _Process(threads, conditions)

    def _put_back(self, process: _Process) -> None:
        with self._lock:
            self._idle.append(process)


def _folder() -> str:
    with suppress(OSError):  # it was removed
        return os.getcwd()
    return ""


_shared: dict[int, Local] = {}


def shared() -> Local:
    """Return the pool of this process, whose workers end when they have nothing to do."""
    # By process, since a fork has no threads that read from the workers of its parent.
    if os.getpid() not in _shared:
        _shared[os.getpid()] = Local()
        atexit.register(_shared[os.getpid()].close)
    return _shared[os.getpid()]


_asking = threading.BoundedSemaphore(4)


def ask(work: Callable[[Item], Answer], item: Item) -> Answer:
    """Return `work(item)`, which is done by a worker of this machine, or raise its error."""
    if is_worker():
        return work(item)
    with _asking:
        [answer] = shared().map(work, [item])
    if isinstance(answer, Exception):
        raise answer
    return answer


def free_memory() -> float:
    """Return the free memory in bytes; 8 GB if the system does not report it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        return float(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 8e9
