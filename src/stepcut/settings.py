"""Settings, each described once: `restarts: int = setting(24, "Number of starts.", 1, 10_000)`.

Arguments, `GET /api/settings` and the docs read types, limits and defaults from the dataclass.
"""

import inspect
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cache
from numbers import Rational
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from stepcut.errors import unknown, wrong

T = TypeVar("T")
Rate = int | float | str | Fraction

_NTSC = (Fraction(24000, 1001), Fraction(30000, 1001), Fraction(60000, 1001))

SEEDS = 2**32 - 1
WHOLE, NUMBER = (int, np.integer), (int, float, Fraction, np.integer, np.floating)


@dataclass(frozen=True)
class Setting:
    """A setting, and the values that it may have.

    Examples
    --------
    >>> settings_of(sc.FeatureSpec)["size"].allowed
    'a whole number of at least 1 and at most 4096'
    """

    name: str
    types: tuple[Any, ...] = (object,)
    """The types of its values, without None."""
    default: Any = None
    optional: bool = False
    """Whether it may be None."""
    about: str = ""
    """What it is for, in a sentence."""
    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    """Whether `low` itself is excluded."""

    @property
    def choices(self) -> tuple[Any, ...]:
        """The only values, if they are few."""
        return self.types if all(isinstance(one, str) for one in self.types) else ()

    @property
    def allowed(self) -> str:
        """The allowed values in words."""
        if self.types == (bool,):
            return "true or false (Python: True, False)"
        if self.types == (str,):
            return "text"
        if self.choices:
            return ", ".join(self.choices)
        if not set(self.types) <= {int, float, Fraction}:
            return ""
        kind = "whole number" if self.types == (int,) else "number"
        if self.low == -math.inf:
            return f"a {kind}"
        least = f"above {self.low:g}" if self.above else f"of at least {self.low:g}"
        most = self.high if self.types == (int,) else format(self.high, "g")
        return f"a {kind} {least}" + (f" and at most {most}" if self.high < math.inf else "")

    def check(self, value: Any) -> None:
        """Refuse a value of a wrong type, beyond the limits, or that is not one of the choices."""
        if value is None and self.optional:
            return
        if self.choices:
            if value not in self.choices:
                raise unknown(self.name, value, self.choices)
        elif wanted := self.allowed:
            plain = value.item() if isinstance(value, np.generic) else value  # float32 overflows
            if self.types in ((bool,), (str,)):
                held = isinstance(plain, self.types)
            else:
                kinds: Any = WHOLE if self.types == (int,) else NUMBER
                held = (
                    isinstance(value, kinds)
                    and not isinstance(value, bool)
                    and abs(plain) <= sys.float_info.max
                    and self.low <= plain <= self.high
                    and not (self.above and plain == self.low)
                )
            if not held:
                allowed = (True, False) if self.types == (bool,) else wanted
                raise wrong(self.name, value, f"is not allowed; give {wanted}.", allowed)

    def to_json(self) -> dict[str, Any]:
        """Return the setting as JSON values."""
        default = self.default
        if isinstance(default, Fraction):
            default = float(default)
        plain = default is None or isinstance(default, bool | int | float | str)
        return {
            "name": self.name,
            "default": default if plain else None,
            "allowed": list(self.choices) or self.allowed,
            "low": None if math.isinf(self.low) else self.low,
            "high": None if math.isinf(self.high) else self.high,
            "about": self.about,
        }


def setting(
    default: Any,
    about: str,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    above: bool = False,
) -> Any:
    metadata = {"setting": {"about": about, "low": low, "high": high, "above": above}}
    return field(default=default, metadata=metadata)


def settings_of(group: type) -> Mapping[str, Setting]:
    return _read_settings(group)


@cache  # behind a function, as the type of a class is not hashable to a type checker
def _read_settings(group: type) -> Mapping[str, Setting]:
    hints = get_type_hints(group)
    found: dict[str, Setting] = {}
    for one in fields(group):
        if about := one.metadata.get("setting"):
            parts = _flat(hints[one.name])
            types = tuple(part for part in parts if part is not type(None))
            optional = len(types) < len(parts)
            found[one.name] = Setting(one.name, types, one.default, optional, **about)
    return found


def _flat(hint: Any) -> list[Any]:
    inside = get_origin(hint) in (Union, UnionType, Literal)
    return [part for one in get_args(hint) for part in _flat(one)] if inside else [hint]


def check_fields(part: Any) -> None:
    for name, setting in settings_of(type(part)).items():
        setting.check(getattr(part, name, setting.default))


def check_number(
    name: str,
    value: Any,
    low: float,
    high: float = math.inf,
    *,
    above: bool = False,
    whole: bool = False,
) -> None:
    kind = int if whole else float
    Setting(name, (kind,), low=low, high=high, above=above).check(value)


def check_chosen(chosen: Mapping[str, Any], described: Mapping[str, Setting]) -> None:
    for name, value in chosen.items():
        if name not in described:
            raise unknown("setting", name, described)
        described[name].check(value)


def build(maker: Callable[..., T], settings: Mapping[str, Any]) -> T:
    known = list(inspect.signature(maker).parameters)
    for name in settings:
        if name not in known:
            raise unknown("setting", name, known)
    return maker(**settings)


def as_rate(value: Rate, setting: str = "fps", most: int = 1000) -> Fraction:
    """Return a rate as an exact fraction: 29.97 is 30000/1001."""
    try:
        if isinstance(value, bool):
            raise TypeError(value)
        exact = fraction_of(value) if isinstance(value, str) else value
        rate = Fraction(exact if isinstance(exact, Rational) else float(exact))
        rate = rate.limit_denominator(10_000)
    except (ValueError, TypeError, OverflowError, ZeroDivisionError):
        rate = Fraction(0)
    if not 0 < rate <= most:
        allowed = f"above 0 and at most {most}"
        why = f"is not a rate; give a number per second, {allowed}."
        raise wrong(setting, value, why, allowed)
    for ntsc in _NTSC:
        if abs(rate - ntsc) < Fraction(1, 200) and rate.denominator != 1:
            return ntsc
    return rate


def fraction_of(text: str) -> Fraction:
    """Refuse exponents: the digits of 1e999999999 would fill the memory."""
    if len(text) > 40 or "e" in text.lower():
        raise ValueError(f"{text[:40]!r} is not a plain number")
    return Fraction(text)
