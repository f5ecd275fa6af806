"""Options: what a reader or writer may be told beside the path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from stepcut.errors import AnnotationError, OptionError

Rate = float | str | Fraction | None


@dataclass(frozen=True)
class Options:
    """Most formats need none of these."""

    rate: Fraction | None = None
    """Frames per second, for formats that count frames."""
    annotator: str | None = None
    """Whose labels, for formats that hold those of several people."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """What a table calls its columns: `{"start": "t0", "end": "t1", "step": "label"}`."""
    spreadsheet: bool = False
    """Whether a table is written so that no spreadsheet takes a name for a formula."""

    def frame_rate(self, what: str) -> Fraction:
        """The frame rate that was given, or an error that asks for it."""
        if self.rate is None:
            raise AnnotationError(
                f"{what}: this format counts frames and no frame rate is known. "
                "Give it: rate=30 in Python, --rate 30 on the command line (30000/1001 for 29.97)."
            )
        return self.rate

    def agreed_rate(self, known: Fraction | None, what: str) -> Fraction:
        """The rate that the file itself states, else the one that was given; the two must not contradict each other.

        known  frames per second, as the file says
        what   whose rate it is, for the message
        """
        if known is None:
            return self.frame_rate(what)
        if self.rate is not None and abs(self.rate / known - 1) > Fraction(1, 1000):
            raise AnnotationError(
                f"{what}: it has {float(known):g} frames per second and rate={float(self.rate):g} was given; every "
                "time would be wrong. Leave the rate out."
            )
        return known


NONE = Options()


def as_rate(rate: Rate) -> Fraction | None:
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
        raise OptionError(f"rate={str(rate)[:40]!r} is not a frame rate. {advice}") from error
    if not 0 < exact <= 1_000_000:
        raise OptionError(f"rate={str(rate)[:40]} must be above zero and at most a million. {advice}")
    for ntsc in (Fraction(24000, 1001), Fraction(30000, 1001), Fraction(60000, 1001)):
        if abs(exact - ntsc) < Fraction(1, 200) and exact.denominator != 1:
            return ntsc
    return exact.limit_denominator(1_000_000)


def as_columns(columns: str | Mapping[str, str] | None) -> dict[str, str]:
    """`start=t0,end=t1,step=label` as a dict; a dict stays one.

    >>> as_columns("start=t0,end=t1")
    {'start': 't0', 'end': 't1'}
    """
    if columns is None or isinstance(columns, Mapping):
        return dict(columns or {})
    pairs = [word.partition("=") for word in columns.split(",")]
    if not all(ours.strip() and theirs.strip() for ours, _, theirs in pairs):
        raise OptionError(f"columns={columns!r} does not say which is which. Write start=t0,end=t1,step=label.")
    return {ours.strip(): theirs.strip() for ours, _, theirs in pairs}
