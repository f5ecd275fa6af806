"""How work runs: threads that sleep while they wait, loops compiled by numba, and engines.

Libraries read the settings of threads when they are loaded, so this must not load numpy.
"""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

Loop = TypeVar("Loop", bound=Callable[..., object])

# Lets threads sleep: those of OpenBLAS spin, and beside other work triple the CPU time.
PASSIVE = {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0", "OPENBLAS_NUM_THREADS": "1"}


def wait_passively() -> None:
    for name, value in PASSIVE.items():
        os.environ.setdefault(name, value)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit OpenBLAS to one thread, also where numpy was loaded first: more round otherwise."""
    from threadpoolctl import ThreadpoolController

    with ThreadpoolController().select(internal_api="openblas").limit(limits=1):
        yield


def compiled_later(loop: Loop) -> Loop:
    """Compile a `loop` at its first call, which also imports numba. It releases the GIL."""

    @functools.cache
    def machine() -> Loop:
        from numba import njit

        try:
            return cast(Loop, njit(cache=True, nogil=True)(loop))
        except RuntimeError:  # neither the package's folder nor the user's is writable
            return cast(Loop, njit(nogil=True)(loop))

    @functools.wraps(loop)
    def call(*args: object) -> object:
        return machine()(*args)

    return cast(Loop, call)
