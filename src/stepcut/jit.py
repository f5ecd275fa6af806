"""Machine code: loops compiled by numba and kept on disk, and the polynomials by which they follow a function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray

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


def fit(function: Callable[[Any], Any], degree: int, low: float, high: float) -> NDArray[np.float64]:
    """The polynomial that follows a function between two places: its coefficients, the constant first."""
    fitted = Chebyshev.interpolate(function, degree, domain=[low, high]).convert(kind=Polynomial)
    return np.asarray(fitted.coef, dtype=np.float64)
