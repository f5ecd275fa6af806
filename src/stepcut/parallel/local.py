"""Work on one machine: worker processes that are replaced when they die, or threads."""

import os
import queue
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from multiprocessing.reduction import ForkingPickler
from typing import Any

from stepcut.errors import OptionError, WorkerDied, in_words
from stepcut.parallel.engine import (
    TRIES,
    Answer,
    Done,
    Engine,
    Item,
    attempt,
    count_cores,
    environment,
    share_cores,
)

_MEMORY = 2**30
"""Bytes that a worker needs for libraries, backbone, decoder and two batches of frames."""

_PATIENCE = 5
"""Seconds in which a stopped worker or thread removes its partial files."""


@dataclass(frozen=True)
class _Worker:
    process: Any
    pipe: connection.Connection

    def end(self) -> int | None:
        """Wait for the end of the process, kill it if it stays busy, and return its exit code."""
        self.pipe.close()
        self.process.join(_PATIENCE)
        self.process.kill()
        self.process.join()
        code: int | None = self.process.exitcode
        self.process.close()
        return code


class Local(Engine):
    """Worker processes on this machine, from the first work until `close`; see `open_engine`."""

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        if address is not None:
            raise OptionError(
                f"address={address!r} belongs to a Ray cluster. Add engine='ray' (--engine ray).",
                setting="address",
                value=address,
            )
        cores = count_cores()
        self.workers = workers or max(1, min(cores, int(free_memory() / _MEMORY)))
        self.threads = max(1, cores // self.workers)
        self._idle: list[_Worker] = []

    def _answers(
        self, work: Callable[[Any], Any], items: Sequence[Any], gpu: bool
    ) -> Generator[tuple[int, Any]]:
        del gpu  # all workers share the GPUs of the machine
        waiting = deque(range(len(items)))
        begun = dict.fromkeys(waiting, 0)
        busy: dict[Any, tuple[_Worker, int]] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < self.workers:
                    number = waiting.popleft()
                    begun[number] += 1
                    worker = self._give(work, items[number])
                    busy[worker.pipe] = worker, number
                for pipe in connection.wait(list(busy)):
                    worker, number = busy[pipe]
                    try:
                        answer = worker.pipe.recv()
                        self._idle.append(worker)
                        del busy[pipe]
                    except (EOFError, ConnectionError):
                        del busy[pipe]
                        ending = _ending(worker.end())
                        if begun[number] < TRIES:
                            waiting.appendleft(number)
                            continue
                        answer = WorkerDied(f"the worker process {ending}, {TRIES} times")
                    yield number, answer
        except BaseException:
            self._idle += [worker for worker, _ in busy.values()]
            self.close()
            raise

    def hold(self, make: Callable[[str], Any], device: str = "auto") -> None:
        """See `Engine.hold`: every worker creates its own."""

    def close(self) -> None:
        for worker in self._idle:
            worker.process.terminate()
        for worker in self._idle:
            worker.end()
        self._idle = []

    def _give(self, work: Callable[[Any], Any], item: Any) -> _Worker:
        """Send an item to an idle worker that is alive, or to a new one."""
        while True:
            worker = self._idle.pop() if self._idle else self._start()
            try:
                worker.pipe.send((work, item))
                return worker
            except ConnectionError:  # it died while idle
                worker.end()
            except BaseException:  # the item cannot be sent
                self._idle.append(worker)
                raise

    def _start(self) -> _Worker:
        # New processes, since threads of torch and OpenVINO do not survive a fork.
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs,), daemon=True, name="stepcut-worker")
        # Until it has the search path of this process, Python finds modules in the current folder.
        with share_cores(self.threads), environment(PYTHONSAFEPATH="1"):
            process.start()
        theirs.close()
        return _Worker(process, ours)


def _serve(pipe: connection.Connection) -> None:
    """Run a worker: do the work that arrives until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends its workers
    signal.signal(signal.SIGTERM, _leave)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    while True:
        try:
            work, item = pipe.recv()
        except EOFError:
            return
        data = _pack(attempt(work, item))
        try:
            pipe.send_bytes(data)
        except ConnectionError:
            return


def _leave(*_: object) -> None:
    """Exit after removing partial files; only once, even if signalled twice."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(1)


def _pack(answer: Any) -> Any:
    """Pickle an answer; replace an error that cannot be pickled by its text."""
    try:
        data = ForkingPickler.dumps(answer)
        if isinstance(answer, Exception):
            ForkingPickler.loads(data)
        return data
    except Exception as error:
        cause = answer if isinstance(answer, Exception) else error
        text = RuntimeError(in_words(cause))
        text.add_note("in a worker:\n" + "".join(traceback.format_exception(cause)))
        return ForkingPickler.dumps(text)


def _leave_with_parent() -> None:
    """Exit when the parent dies, since a restarted run repeats this work."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _ending(code: int | None) -> str:
    names = {-number.value: number.name for number in signal.Signals}
    return f"died by {names[code]}" if code in names else f"ended with exit code {code}"


def free_memory() -> float:
    """Return the free memory in bytes; 8 GB if the system does not report it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        return float(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 8e9


class Stopped(Exception):
    """Raised inside work that is to be stopped."""


def map_threads(
    work: Callable[[Item, Callable[[int], None]], Answer],
    items: Sequence[Item],
    done: Done[Answer],
    advance: Callable[[int, int], None],
    workers: int | None = None,
) -> list[Answer | Exception]:
    """Call `work(item, tick)` for every item; return the answers in order, exceptions included.

    `workers` threads (by default one per core) call `tick(count)`, which raises `Stopped` after an
    error elsewhere. In the caller's thread, `advance` gets the number of an item and that count,
    and `done` the number and the answer; an exception in either stops all work.
    """
    events: queue.SimpleQueue[tuple[int, int | None, Any]] = queue.SimpleQueue()
    waiting = queue.SimpleQueue[int]()
    stop = threading.Event()
    answers: list[Any] = [None] * len(items)

    def run() -> None:
        with suppress(queue.Empty):
            while not stop.is_set():
                number = waiting.get_nowait()

                def tick(count: int, number: int = number) -> None:
                    if stop.is_set():
                        raise Stopped
                    events.put((number, count, None))

                try:
                    tick(0)
                    answer: Any = work(items[number], tick)
                except BaseException as error:  # the caller's thread decides
                    answer = error
                events.put((number, None, answer))

    for number in range(len(items)):
        waiting.put(number)
    # Daemons, so that a thread that hangs inside a library does not keep the program alive.
    count = min(workers or count_cores(), len(items))
    threads = [threading.Thread(target=run, daemon=True, name="stepcut-work") for _ in range(count)]
    try:
        for thread in threads:
            thread.start()
        running = len(items)
        while running:
            number, progress, answer = events.get()
            if progress is not None:
                advance(number, progress)
                continue
            running -= 1
            if isinstance(answer, BaseException) and not isinstance(answer, Exception):
                raise answer
            answers[number] = answer
            done(number, answer)
    finally:
        stop.set()
        until = time.monotonic() + _PATIENCE
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, until - time.monotonic()))
    return answers
