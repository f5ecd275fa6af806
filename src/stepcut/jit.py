"""Loops compiled by numba and cached on disk where that is possible."""

import functools
from collections.abc import Callable
from typing import TypeVar, cast

Loop = TypeVar("Loop", bound=Callable[..., object])


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
