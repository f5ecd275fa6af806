"""Powers of two for compiled loops over floats of either kind, without a call of a library: several at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from stepcut.jit import fit


def numbers(array: Any) -> Any:
    """For the kind of floats in the array: what rounds to a whole number when added and taken away again, the bias of
    the exponent, and the polynomial of 2^y, exact to the last digit for |y| <= 1/2."""


def _numbers_compiled(array: Any) -> Callable[[Any], Any]:
    single = array.dtype == types.float32
    kind, digits, bias, degree = (np.float32, 23, 127, 5) if single else (np.float64, 52, 1023, 11)
    rounds, polynomial = 1.5 * 2**digits, tuple(kind(c) for c in fit(np.exp2, degree, -0.5, 0.5))

    def given(array: Any) -> Any:  # numba wants the very parameters of the function around it, types included
        return array.dtype.type(rounds), array.dtype.type(bias), polynomial

    return given


def two_to(shifted: Any) -> Any:
    """2^n for a whole n, given as n + bias + the number that rounds: the last bits of that float, moved to where a
    float has its exponent."""


def _two_to_compiled(shifted: Any) -> Callable[[Any], Any]:
    def single(shifted: Any) -> Any:
        return np.int32(np.float32(shifted).view(np.int32) << 23).view(np.float32)

    def double(shifted: Any) -> Any:
        return np.int64(np.float64(shifted).view(np.int64) << 52).view(np.float64)

    return single if shifted == types.float32 else double


overload(numbers)(_numbers_compiled)
overload(two_to)(_two_to_compiled)
