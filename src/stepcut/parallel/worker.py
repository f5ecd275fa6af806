"""Inside a worker: do the work that arrives until the parent ends, and report progress.

The parent ends a worker that makes none within a `time_limit`.
"""

import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any, NoReturn

from stepcut.errors import StepcutError, in_words

try:
    import resource
except ImportError:  # on Windows, which has no such limits
    resource = None  # type: ignore[assignment]

IDLE = 60.0  # seconds without work after which a worker ends
# gets ("rows", count), ("alive", None) or ("limit", (seconds, doing) or None)
Report = Callable[[str, Any], None]


def _nobody(_kind: str, _value: Any) -> None:
    pass


_report: Report = _nobody
_limit: tuple[float, str] | None = None
_said = 0.0
_inside = False


def is_worker() -> bool:
    return _inside


@contextmanager
def reporting(report: Report) -> Iterator[None]:
    global _report
    before, _report = _report, report
    try:
        yield
    finally:
        _report = before


@contextmanager
def time_limit(seconds: float, doing: str) -> Iterator[None]:
    """Let the parent end this worker if `alive` is not called for so many `seconds`."""
    global _limit
    before, _limit = _limit, (seconds, doing)
    _report("limit", _limit)
    try:
        yield
    finally:
        _limit = before
        _report("limit", _limit)


def alive() -> None:
    """Report that the work makes progress; cheap enough for every packet of a video."""
    global _said
    now = time.monotonic()
    if now - _said > 0.5:
        _said = now
        _report("alive", None)


def count_rows(count: int) -> None:
    _report("rows", count)


@contextmanager
def memory_limit(most: int) -> Iterator[None]:
    before = None
    if _inside:
        with suppress(OSError, StopIteration, ValueError, AttributeError):
            with open("/proc/self/status", encoding="ascii") as file:
                used = next(line for line in file if line.startswith("VmData")).split()[1]
            soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
            allowed = int(used) * 1024 + most
            if soft == resource.RLIM_INFINITY or allowed < soft:
                resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))
                before = soft, hard
    try:
        yield
    finally:
        if before is not None:
            resource.setrlimit(resource.RLIMIT_DATA, before)


def attempt(work: Callable[[Any], Any], item: Any) -> Any:
    """Return `work(item)`, or its exception; unexpected ones carry their traceback as a note."""
    try:
        return work(item)
    except StepcutError as error:
        return error
    except Exception as error:
        return _noted(error, error)


def _noted(error: Exception, cause: Exception) -> Exception:
    error.add_note("in a worker:\n" + "".join(traceback.format_exception(cause)))
    return error


def serve() -> NoReturn:
    global _inside
    _inside = True
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library may print
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends its workers
    signal.signal(signal.SIGTERM, _leave)
    waiting: SimpleQueue[bytes] = SimpleQueue()

    def listen() -> None:
        try:
            while True:
                waiting.put(pickle.load(sys.stdin.buffer))
        finally:
            os._exit(1)  # now, even while FFmpeg hangs: a restarted run repeats this work

    def send(kind: str, value: Any) -> None:
        try:
            pickle.dump((kind, value), output)
            output.flush()
        except OSError:
            os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    send("ready", None)
    try:
        with reporting(send):
            while True:
                send("answer", _packed(attempt(_do, waiting.get(timeout=IDLE))))
    except (Empty, SystemExit):
        pass
    finally:
        os._exit(0)  # at once: the listening thread keeps Python from ending in an orderly way


def _do(data: bytes) -> Any:
    work, item = pickle.loads(data)
    return work(item)


def _packed(answer: Any) -> bytes:
    try:
        data = pickle.dumps(answer)
        if isinstance(answer, Exception):
            pickle.loads(data)
        return data
    except Exception as error:
        cause = answer if isinstance(answer, Exception) else error
        return pickle.dumps(_noted(RuntimeError(in_words(cause)), cause))


def _leave(*_: object) -> None:
    """Exit after removing partial files; only once, even if signalled twice."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(1)
