"""Checks of numeric settings, and dataclass fields with limits."""

import math
import sys
from dataclasses import field, fields
from fractions import Fraction
from typing import Any

import numpy as np

from stepcut.errors import OptionError

SEEDS = 2**32 - 1
"""The largest seed that every library accepts."""


def limited(
    default: Any, low: float, high: float = math.inf, *, above: bool = False, whole: bool = False
) -> Any:
    """Return a dataclass field with a `default` and limits for `check_limits`."""
    limits = {"low": low, "high": high, "above": above, "whole": whole}
    return field(default=default, metadata={"limits": limits})


def check_limits(part: Any) -> None:
    """Refuse the first setting of `part` that is outside its limits or has the wrong type.

    A setting with the default None may be None.
    """
    for each in fields(part):
        limits, value = each.metadata.get("limits"), getattr(part, each.name)
        if limits and not (each.default is None and value is None):
            check_number(each.name, value, **limits)
        if isinstance(each.default, bool) and not isinstance(value, bool | np.bool_):
            raise OptionError(
                f"{each.name}={value!r} is not allowed; give true or false (Python: True, False).",
                setting=each.name,
                value=value,
                allowed=(True, False),
            )


def check_number(
    name: str,
    value: Any,
    low: float,
    high: float = math.inf,
    *,
    above: bool = False,
    whole: bool = False,
) -> None:
    """Refuse a value that is not a number from `low` to `high`; `above` excludes `low`."""
    kinds: Any = (int, np.integer) if whole else (int, float, Fraction, np.integer, np.floating)
    plain = value.item() if isinstance(value, np.generic) else value  # float32 overflows below
    numeric = (
        isinstance(value, kinds)
        and not isinstance(value, bool)
        and abs(plain) <= sys.float_info.max
    )
    if numeric and low <= plain <= high and not (above and plain == low):
        return
    kind = "whole number" if whole else "number"
    least = f"above {low:g}" if above else f"of at least {low:g}"
    most = f" and at most {high if whole else format(high, 'g')}" if high < math.inf else ""
    wanted = f"a {kind} {least}{most}"
    raise OptionError(
        f"{name}={value!r} is not allowed; give {wanted}.",
        setting=name,
        value=value,
        allowed=wanted,
    )
