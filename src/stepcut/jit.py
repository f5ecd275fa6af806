"""Loops compiled by numba and kept on disk."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

Loop = TypeVar("Loop", bound=Callable[..., object])


def compiled(**options: Any) -> Callable[[Loop], Loop]:
    """Compile a loop when it is first called; it lets go of Python's lock. `options` are those of numba's `njit`."""
    from numba import njit

    machine: Callable[[Loop], Loop] = njit(cache=True, nogil=True, **options)
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
