"""Open videos in another process, which is killed if FFmpeg hangs.

The process loads PyAV and little else. It starts with the first video, serves many, and exits when
its parent does. Threads that open videos at the same time use up to `_MOST` processes.
"""

import atexit
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from queue import Empty, LifoQueue, SimpleQueue
from typing import Any, BinaryIO, NoReturn, TypeVar, cast

from stepcut.errors import StepcutError, VideoError
from stepcut.parallel.engine import isolated

Answer = TypeVar("Answer")
Advance = Callable[[int], None]

OPEN_SECONDS = 30.0
"""Time limit for an answer, or for progress towards it."""

_MOST = 4
_POLL = 0.5
"""Seconds after which a waiting thread checks whether it should stop."""

_CODE = """
from stepcut.features.video.opener import serve
serve()
"""


def ask(
    work: Callable[[str, Advance | None], Answer], path: Path, advance: Advance | None = None
) -> Answer:
    """Return `work(path, advance)`, called in the other process.

    `work` is a function of a module. An exception in `advance` stops it. A VideoError follows if
    `work` raises it, makes no progress for `OPEN_SECONDS`, or crashes the process.
    """
    places = _places(os.getpid())
    while True:
        try:
            process = places.get(timeout=_POLL)
            break
        except Empty:
            if advance is not None:
                advance(0)
    try:
        if process is not None and not process.alive:
            process.end()
            process = None
        process = process or _Process()
        kind, value = process.ask(work, path, advance)
    except BaseException:
        if process is not None:
            process.end()
            process = None
        raise
    finally:
        places.put(process)
    if kind == "error":
        raise value
    answer: Answer = value
    return answer


_idle: "dict[int, LifoQueue[_Process | None]]" = {}
"""The idle processes of a parent, by its number, since a fork has others; None is not started."""


def _places(parent: int) -> "LifoQueue[_Process | None]":
    if parent not in _idle:
        places: LifoQueue[_Process | None] = LifoQueue()
        for _ in range(_MOST):
            places.put(None)
        _idle.setdefault(parent, places)
    return _idle[parent]


class _Process:
    """The other process, seen from this one."""

    def __init__(self) -> None:
        # Popen, since a daemon of multiprocessing may not have children. In a new session,
        # since Ctrl-C must reach the parent only.
        self._process = subprocess.Popen(
            isolated(_CODE),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._input = cast(BinaryIO, self._process.stdin)
        self._output = cast(BinaryIO, self._process.stdout)
        atexit.register(self.end)
        self._messages: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True, name="stepcut-opener")
        self._reader.start()
        self._ready = False

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, work: Any, path: Path, advance: Advance | None) -> tuple[str, Any]:
        """Return ("answer", value) or ("error", exception)."""
        if not self._ready:  # not limited, since the disk with the packages may be slow
            if self._messages.get()[0] == "end":
                raise StepcutError(
                    "the process that opens videos cannot start. Free memory, then try again."
                )
            self._ready = True
        self._send((work, str(path), None if path.is_absolute() else os.getcwd()))
        until = time.monotonic() + OPEN_SECONDS
        while True:
            try:
                kind, value = self._messages.get(timeout=min(_POLL, OPEN_SECONDS))
                until = time.monotonic() + OPEN_SECONDS
            except Empty:
                kind, value = "progress", 0
            if kind == "end":
                raise VideoError(
                    f"{path}: crashes FFmpeg. Exclude it, or copy it again.", path=path
                )
            if kind != "progress":
                return kind, value
            if time.monotonic() >= until:
                raise VideoError(
                    f"{path}: cannot be opened within {OPEN_SECONDS:g} seconds. Exclude it, or "
                    "copy it to a faster disk.",
                    path=path,
                )
            if advance is not None:
                advance(value)

    def end(self) -> None:
        """Kill it; do not wait long for one that the system cannot end, as on a broken disk."""
        atexit.unregister(self.end)
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
            self._reader.join(1)
            for pipe in (self._input, self._output):
                with suppress(OSError):  # an unsent message
                    pipe.close()

    def _send(self, message: object) -> None:
        with suppress(OSError):  # it died: the reader sees the end
            self._input.write(pickle.dumps(message))
            self._input.flush()

    def _read(self) -> None:
        with suppress(EOFError, OSError, pickle.UnpicklingError):
            while True:
                self._messages.put(pickle.load(self._output))
        self._messages.put(("end", None))


def serve() -> NoReturn:
    """Be the other process: do the work that arrives until the parent ends."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library may print
    waiting: SimpleQueue[Any] = SimpleQueue()

    def listen() -> None:
        try:
            while True:
                waiting.put(pickle.load(sys.stdin.buffer))
        finally:
            os._exit(0)  # now, even while FFmpeg hangs

    def send(kind: str, value: Any) -> None:
        try:
            output.write(pickle.dumps((kind, value)))
            output.flush()
        except OSError:
            os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    import_module("av")
    send("ready", None)
    while True:
        work, path, folder = waiting.get()
        try:
            if folder is not None:
                os.chdir(folder)
            value = work(path, lambda count: send("progress", count))
        except Exception as error:
            send("error", error)
        else:
            send("answer", value)
