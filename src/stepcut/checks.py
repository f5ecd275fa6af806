"""Checks of settings that are numbers, and settings of a dataclass that know their limits."""

import math
import sys
from dataclasses import field, fields
from fractions import Fraction
from typing import Any

import numpy as np

from stepcut.errors import OptionError

SEEDS = 2**32 - 1
"""The largest seed that every library takes."""


def limited(
    default: Any, low: float, high: float = math.inf, *, above: bool = False, whole: bool = False
) -> Any:
    """A setting of a dataclass with this `default`, whose limits, those of `check_number`, `check_limits` knows."""
    limits = {"low": low, "high": high, "above": above, "whole": whole}
    return field(default=default, metadata={"limits": limits})


def check_limits(part: Any) -> None:
    """Refuse the first setting of `part` that is outside its limits; one that is None by default may be None, and one
    that is true or false by default must be one of these."""
    for each in fields(part):
        limits = each.metadata.get("limits")
        if limits and not (each.default is None and getattr(part, each.name) is None):
            check_number(each.name, getattr(part, each.name), **limits)
        if isinstance(each.default, bool) and not isinstance(
            getattr(part, each.name), bool | np.bool_
        ):
            raise OptionError(
                f"{each.name}={getattr(part, each.name)!r} is not allowed; give true or false (in Python True, False).",
                setting=each.name,
                value=getattr(part, each.name),
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
    """Refuse a setting that is not a number between `low` and `high`; with `above`, also `low` itself."""
    kinds: Any = (int, np.integer) if whole else (int, float, Fraction, np.integer, np.floating)
    numeric = (
        isinstance(value, kinds)
        and not isinstance(value, bool)
        and abs(value) <= sys.float_info.max
    )
    if numeric and low <= value <= high and not (above and value == low):
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
