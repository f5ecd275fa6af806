"""Rates, in frames or rows per second, as exact fractions, and times as text."""

from fractions import Fraction
from numbers import Rational

from stepcut.errors import wrong

Rate = int | float | str | Fraction

_NTSC = (Fraction(24000, 1001), Fraction(30000, 1001), Fraction(60000, 1001))


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


def clock(seconds: float) -> str:
    tenths = round(seconds * 10)
    whole, rest = divmod(abs(tenths), 10)
    sign = "-" if tenths < 0 else ""
    return f"{sign}{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}.{rest}"
