"""Loops compiled by numba and kept on disk, where there is a place to keep them."""

import functools
from collections.abc import Callable
from typing import TypeVar, cast

Loop = TypeVar("Loop", bound=Callable[..., object])


def compiled_later(loop: Loop) -> Loop:
    """Compile a `loop` when it is first called, which is when numba is imported; it lets go of Python's lock."""

    @functools.cache
    def machine() -> Loop:
        from numba import njit

        try:
            return cast(Loop, njit(cache=True, nogil=True)(loop))
        except RuntimeError:  # neither the package's folder nor the user's may be written
            return cast(Loop, njit(nogil=True)(loop))

    @functools.wraps(loop)
    def call(*given: object) -> object:
        return machine()(*given)

    return cast(Loop, call)
