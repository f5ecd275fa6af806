"""What an engine is: one verb that does the same work for many items, somewhere, and outlives what goes wrong."""

import os
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, TypeVar

from stepcut.errors import OptionError, StepcutError

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Done = Callable[[int, Answer | Exception], None]
"""Hears, in the caller's process, the number of an item and its answer."""

Held = Callable[..., Any]
"""An object that is held somewhere for several that use it one at a time: `held(work, *given)` gives what
`work(object, *given)` gives there."""

TRIES = 2
"""How often an item is begun before a worker that dies on it is taken to be the item's fault."""


class Engine(Protocol):
    """Where work is done. Leave it with `close`."""

    def map(
        self,
        work: Callable[[Item], Answer],
        items: Sequence[Item],
        done: Done[Answer] | None = None,
        gpu: bool = False,
    ) -> list[Answer | Exception]:
        """`work(item)` for every item; the answers in the order of the items, an exception where an item raised it.

        A worker that dies is replaced and its item begun again; where it dies again, the answer is `WorkerDied`. Items
        are handed out as workers become free (to a cluster a few ahead, so that it knows when to grow). `done(number,
        answer)` is called here as answers come; what it raises stops all work. With `gpu`, every item has a GPU to
        itself where there are any.
        """

    def hold(self, make: Callable[[str], Any], device: str = "auto") -> Held | None:
        """Make an object, `make("cpu")` or `make("cuda")`, once in a few places for all workers, to which what this
        gives may travel; None where each makes its own. The `device` is auto, cpu or cuda."""

    def close(self) -> None:
        """Let the workers go."""


def attempt(work: Callable[[Any], Any], item: Any) -> Any:
    """`work(item)`, or the exception that it raised; one that is no `StepcutError` brings its traceback as a note."""
    try:
        return work(item)
    except StepcutError as error:
        return error
    except Exception as error:
        error.add_note("in a worker:\n" + "".join(traceback.format_exception(error)))
        return error


def count_cores() -> int:
    """The cores that this process may run on, which in a container can be fewer than the machine has.

    `STEPCUT_CORES` says fewer: a worker shares the machine with others.
    """
    if said := os.environ.get("STEPCUT_CORES"):
        if not re.fullmatch("0*[1-9][0-9]{0,5}", said):
            raise OptionError(
                f"STEPCUT_CORES={said!r} in the environment is no number of cores; give one from 1 up."
            )
        return int(said)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Inside, the environment, which processes that start there inherit, has these values."""
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


PASSIVE = {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0", "OPENBLAS_THREAD_TIMEOUT": "4"}
"""Threads of numerical libraries sleep while they wait. They spin unless told so, which beside other work doubles the
CPU time of `learn` and keeps the threads that it waits for from running."""


def wait_passively() -> None:
    """Let numerical libraries that are not loaded yet wait without spinning, unless the user says otherwise."""
    for name, value in PASSIVE.items():
        os.environ.setdefault(name, value)


def share_cores(cores: int) -> AbstractContextManager[None]:
    """Inside, `count_cores()` says `cores`, and numerical libraries that are not loaded yet use as many threads, which
    do not spin."""
    names = (
        "STEPCUT_CORES",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMBA_NUM_THREADS",
    )
    return environment(**{**PASSIVE, **os.environ, **dict.fromkeys(names, str(cores))})
