"""Work on one machine: worker processes that are replaced when they die, or threads that tell of their progress."""

import os
import queue
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from multiprocessing.reduction import ForkingPickler
from typing import Any

from stepcut.errors import OptionError, WorkerDied, in_words
from stepcut.parallel.contract import TRIES, Answer, Done, Item, attempt, count_cores, share_cores

_MEMORY = 2**30
"""Bytes that a worker needs: the libraries, the backbone, a decoder and two batches of frames."""

_PATIENCE = 5
"""Seconds in which a worker or a thread that is told to go removes what it has half written."""


@dataclass(frozen=True)
class _Worker:
    process: Any
    pipe: connection.Connection

    def end(self) -> int | None:
        """Wait until the process is gone: its exit code. One that was told to go and is still busy is killed."""
        self.pipe.close()
        self.process.join(_PATIENCE)
        self.process.kill()
        self.process.join()
        code: int | None = self.process.exitcode
        self.process.close()
        return code


class Local:
    """So many `workers`, as `open_engine` takes it, processes on this machine that start with the first work and stay
    until `close`; an `address` is refused."""

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        if address is not None:
            raise OptionError(
                f"address={address!r} is that of a Ray cluster; give engine='ray' (--engine ray) too."
            )
        cores = count_cores()
        self.workers = workers or max(1, min(cores, int(free_memory() / _MEMORY)))
        self.threads = max(1, cores // self.workers)
        self._idle: list[_Worker] = []

    def map(
        self,
        work: Callable[[Item], Answer],
        items: Sequence[Item],
        done: Done[Answer] | None = None,
        gpu: bool = False,
    ) -> list[Answer | Exception]:
        """See `Engine.map`."""
        del gpu  # the GPUs of one machine are shared by all workers
        answers: dict[int, Any] = {}
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
                        answers[number] = worker.pipe.recv()
                        self._idle.append(worker)
                        del busy[pipe]
                    except (EOFError, ConnectionError):
                        del busy[pipe]
                        ending = _ending(worker.end())
                        if begun[number] < TRIES:
                            waiting.appendleft(number)
                            continue
                        answers[number] = WorkerDied(f"the worker process {ending}, {TRIES} times")
                    if done is not None:
                        done(number, answers[number])
        except BaseException:
            self._idle += [worker for worker, _ in busy.values()]
            self.close()
            raise
        return [answers[number] for number in range(len(items))]

    def hold(self, make: Callable[[str], Any], device: str = "auto") -> None:
        """See `Engine.hold`: every worker makes its own."""

    def close(self) -> None:
        """See `Engine.close`."""
        for worker in self._idle:
            worker.process.terminate()
        for worker in self._idle:
            worker.end()
        self._idle = []

    def _give(self, work: Callable[[Any], Any], item: Any) -> _Worker:
        """Hand an item to a worker that is idle and alive, or to a new one."""
        while True:
            worker = self._idle.pop() if self._idle else self._start()
            try:
                worker.pipe.send((work, item))
                return worker
            except ConnectionError:  # it died while it had nothing to do
                worker.end()
            except BaseException:  # the item cannot be sent
                self._idle.append(worker)
                raise

    def _start(self) -> _Worker:
        # Fresh processes: threads of torch and OpenVINO do not survive a fork.
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs,), daemon=True, name="stepcut-worker")
        with share_cores(self.threads):
            process.start()
        theirs.close()
        return _Worker(process, ours)


def _serve(pipe: connection.Connection) -> None:
    """A worker: take work, do it, answer, until the other end is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
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
    """Go, with half-written files removed on the way; once, though a scheduler and the parent both say so."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(1)


def _pack(answer: Any) -> Any:
    """An answer as it is sent; an error that cannot be, or not be made again there, is told in words."""
    try:
        data = ForkingPickler.dumps(answer)
        if isinstance(answer, Exception):
            ForkingPickler.loads(data)
        return data
    except Exception as error:
        told = answer if isinstance(answer, Exception) else error
        words = RuntimeError(in_words(told))
        words.add_note("in a worker:\n" + "".join(traceback.format_exception(told)))
        return ForkingPickler.dumps(words)


def _leave_with_parent() -> None:
    """Die when the parent does: what it began again must not be done here as well."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _ending(code: int | None) -> str:
    """How a process ended, in words."""
    names = {-number.value: number.name for number in signal.Signals}
    return f"died by {names[code]}" if code in names else f"ended with exit code {code}"


def free_memory() -> float:
    """Bytes that are free now; 8 GB where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            said = dict(line.split(":", 1) for line in file)
        return float(said["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 8e9


class Stopped(Exception):
    """Raised inside the work when somebody asked for it to stop."""


def map_threads(
    work: Callable[[Item, Callable[[int], None]], Answer],
    items: Sequence[Item],
    done: Done[Answer],
    told: Callable[[int, int], None],
    workers: int | None = None,
) -> list[Answer | Exception]:
    """`work(item, tell)` for every one of `items`; the answers in their order, an exception where an item raised it.

    So many `workers` at once, as many as cores unless given, call `tell(count)` on the way, which ends them when the
    others were stopped. Here, in the caller's thread, `told` hears the number of an item and that count, and `done` the
    number and the answer; what they raise stops all.
    """
    events: queue.SimpleQueue[tuple[int, int | None, Any]] = queue.SimpleQueue()
    waiting = queue.SimpleQueue[int]()
    stop = threading.Event()
    answers: list[Any] = [None] * len(items)

    def run() -> None:
        with suppress(queue.Empty):
            while not stop.is_set():
                number = waiting.get_nowait()

                def tell(count: int, number: int = number) -> None:
                    if stop.is_set():
                        raise Stopped
                    events.put((number, count, None))

                try:
                    tell(0)
                    answer: Any = work(items[number], tell)
                except BaseException as error:  # whatever it is, the caller's thread decides
                    answer = error
                events.put((number, None, answer))

    for number in range(len(items)):
        waiting.put(number)
    # Daemons: one that hangs inside a library does not keep the program from ending.
    count = min(workers or count_cores(), len(items))
    threads = [threading.Thread(target=run, daemon=True, name="stepcut-work") for _ in range(count)]
    try:
        for thread in threads:
            thread.start()
        running = len(items)
        while running:
            number, told_count, answer = events.get()
            if told_count is not None:
                told(number, told_count)
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
