"""Loops compiled by numba and kept on disk, where there is a place to keep them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

Loop = TypeVar("Loop", bound=Callable[..., object])


def compiled(**options: Any) -> Callable[[Loop], Loop]:
    """Compile a loop when it is first called; it lets go of Python's lock. `options` are those of numba's `njit`."""
    from numba import njit

    def machine(loop: Loop) -> Loop:
        try:
            return cast(Loop, njit(cache=True, nogil=True, **options)(loop))
        except RuntimeError:  # neither the package's folder nor the user's may be written
            return cast(Loop, njit(nogil=True, **options)(loop))

    return machine


def compiled_later(loop: Loop) -> Loop:
    """As `compiled`, for modules that are often imported and seldom used: numba comes with the first call."""

    @functools.cache
    def machine() -> Loop:
        return compiled()(loop)

    @functools.wraps(loop)
    def call(*given: object) -> object:
        return machine()(*given)

    return cast(Loop, call)
