"""Rates, in frames or rows per second, as exact fractions."""

from fractions import Fraction
from numbers import Rational

from stepcut.errors import OptionError

Rate = int | float | str | Fraction

_NTSC = (Fraction(24000, 1001), Fraction(30000, 1001), Fraction(60000, 1001))


def as_rate(value: Rate, setting: str = "fps", most: int = 1000) -> Fraction:
    """A rate as an exact fraction; 29.97 is short for 30000/1001.

    value    a number, or words such as "30000/1001"
    setting  what the rate is called where it was given
    most     the highest rate that makes sense

    >>> as_rate("30000/1001"), as_rate(29.97), as_rate(0.1)
    (Fraction(30000, 1001), Fraction(30000, 1001), Fraction(1, 10))
    """
    try:
        exact = fraction_of(value) if isinstance(value, str) else value
        rate = Fraction(exact if isinstance(exact, Rational) else float(exact)).limit_denominator(
            10_000
        )
    except (ValueError, TypeError, OverflowError, ZeroDivisionError):
        rate = Fraction(0)
    if not 0 < rate <= most:
        raise OptionError(
            f"{setting}={value!r} is not a rate; give a number above 0 and at most {most}, per second."
        )
    for ntsc in _NTSC:
        if abs(rate - ntsc) < Fraction(1, 200) and rate.denominator != 1:
            return ntsc
    return rate


def fraction_of(words: str) -> Fraction:
    """The number that `words` such as "30000/1001" say; not one with an exponent, all of whose digits would be made."""
    if len(words) > 40 or "e" in words.lower():
        raise ValueError(f"{words[:40]!r} is no plain number")
    return Fraction(words)
