"""Options: what a reader or writer may be told beside the path."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from stepcut.errors import AnnotationError, OptionError


@dataclass(frozen=True)
class Options:
    """Most formats need none of these."""

    rate: Fraction | None = None
    """Frames per second, for formats that count frames."""
    annotator: str | None = None
    """Whose labels, for formats that hold those of several people."""

    def frame_rate(self, what: str) -> Fraction:
        """The frame rate that was given, or an error that asks for it."""
        if self.rate is None:
            raise AnnotationError(
                f"{what}: this format counts frames and no frame rate is known. "
                "Give it: rate=30 in Python, --rate 30 on the command line (30000/1001 for 29.97)."
            )
        return self.rate


NONE = Options()


def as_rate(rate: float | str | Fraction | None) -> Fraction | None:
    """A frame rate as a fraction: 30, "30000/1001", or the float 29.97, which is meant to be 30000/1001.

    >>> as_rate("30000/1001"), as_rate(29.97), as_rate(25)
    (Fraction(30000, 1001), Fraction(30000, 1001), Fraction(25, 1))
    """
    if rate is None:
        return None
    advice = "Give frames per second: 30, 29.97, 30000/1001."
    try:
        exact = Fraction(rate)
    except (ValueError, ZeroDivisionError, OverflowError, TypeError) as error:
        raise OptionError(f"rate={rate!r} is not a frame rate. {advice}") from error
    if exact <= 0:
        raise OptionError(f"rate={rate!r} must be above zero. {advice}")
    for ntsc in (Fraction(24000, 1001), Fraction(30000, 1001), Fraction(60000, 1001)):
        if abs(exact - ntsc) < Fraction(1, 200) and exact.denominator != 1:
            return ntsc
    return exact.limit_denominator(1_000_000)
