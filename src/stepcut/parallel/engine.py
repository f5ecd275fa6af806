"""The contract of an engine, which does the same work for many items and survives crashes."""

import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from multiprocessing.spawn import get_executable
from pathlib import Path
from typing import Any, TypeVar

from stepcut.errors import wrong
from stepcut.parallel.worker import attempt, reporting
from stepcut.threads import PASSIVE

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Done = Callable[[int, Answer | Exception], None]
"""Called in the caller's process with the number of an item and its answer."""

Advance = Callable[[int, int], None]
"""Called in the caller's process with the number of an item and how many more rows it has; also
with 0 rows from time to time. An exception in it stops all work."""

TRIES = 2
"""Number of attempts before an item is blamed for the death of its worker."""


class Engine(ABC):
    """A place where work is done. Call `close` at the end."""

    def map(
        self,
        work: Callable[[Item], Answer],
        items: Sequence[Item],
        done: Done[Answer] | None = None,
        gpu: float = 0,
        advance: Advance = lambda _number, _rows: None,
    ) -> list[Answer | Exception]:
        """Call `work(item)` for every item; return the answers in order, exceptions included.

        A worker that dies is replaced, and its item is tried again; after `TRIES` deaths the
        answer is `WorkerDied`. `done(number, answer)` is called in this process as answers arrive;
        an exception in it stops all work. `gpu` is the share of a GPU that an item needs on a
        cluster that has some.
        """
        answers: dict[int, Any] = {}
        with closing(self._answers(work, items, gpu, advance)) as arriving:
            for number, answer in arriving:
                answers[number] = answer
                if done is not None:
                    done(number, answer)
        return [answers[number] for number in range(len(items))]

    @abstractmethod
    def _answers(
        self, work: Callable[[Any], Any], items: Sequence[Any], gpu: float, advance: Advance
    ) -> Generator[tuple[int, Any]]:
        """Yield the number and the answer of every item as it arrives; stop all work if closed."""

    def gpu_share(self, device: str) -> float:
        """Return the share of a GPU of the cluster for each worker on a `device`, 0 for none."""
        del device
        return 0.0

    @abstractmethod
    def close(self) -> None:
        """Stop the workers."""


class Here(Engine):
    """This process, for work that no worker can do."""

    def _answers(
        self, work: Callable[[Any], Any], items: Sequence[Any], gpu: float, advance: Advance
    ) -> Generator[tuple[int, Any]]:
        del gpu
        for number, item in enumerate(items):

            def report(kind: str, value: Any, number: int = number) -> None:
                if kind != "limit":
                    advance(number, value or 0)

            with reporting(report):
                answer = attempt(work, item)
            yield number, answer

    def close(self) -> None:
        """Nothing to stop."""


def count_cores() -> int:
    """Return the number of cores that this process may use, at most `STEPCUT_CORES`."""
    if text := os.environ.get("STEPCUT_CORES"):
        if not re.fullmatch("0*[1-9][0-9]{0,5}", text):
            what = "in the environment is not a number of cores from 1 up."
            raise wrong("STEPCUT_CORES", text, what)
        return int(text)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Set environment variables inside the block, for processes that start there."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def import_folders() -> list[str]:
    """The folders in which a new process finds the modules of this one, without the current one.

    The current folder may contain files of strangers, such as downloads.
    """

    def is_here(folder: str) -> bool:
        with suppress(OSError):
            return os.path.samefile(folder, os.curdir)
        return False

    own = str(Path(__file__).parents[2])  # where stepcut itself lies
    folders = [folder for folder in sys.path if os.path.isabs(folder)]
    return [folder for folder in folders if folder == own or not is_here(folder)]


def isolated(code: str, *args: str) -> list[str]:
    """The command of a process that runs Python `code` with `sys.argv[1:] = args`."""
    found = f"import sys; sys.path = {import_folders()!r}\n"
    return [os.fsdecode(get_executable()), "-I", "-c", found + code, *args]


def share_cores(cores: int) -> AbstractContextManager[None]:
    """Limit `count_cores()` and the threads of libraries that are not loaded yet to `cores`."""
    names = ("STEPCUT_CORES", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    return environment(**{**PASSIVE, **os.environ, **dict.fromkeys(names, str(cores))})
