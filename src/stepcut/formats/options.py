"""Options: what a reader or writer may be told beside the path, and whose labels are then read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from stepcut.errors import AnnotationError, OptionError
from stepcut.formats.text import fail
from stepcut.rate import Rate, as_rate
from stepcut.timeline import Timeline

PROPOSAL = "stepcut"
"""The annotator of what stepcut itself proposes; a person's tier goes before it when a file has both."""


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
        """The frame rate that was given, or an error that asks for it and says `what` needs it."""
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


def frame_rate(rate: Rate | None) -> Fraction | None:
    """A frame rate that somebody gave, or a file states, as a fraction; None stays None."""
    return None if rate is None else as_rate(rate, "rate", 1_000_000)


def as_columns(columns: str | Mapping[str, str] | None) -> dict[str, str]:
    """The `columns` "start=t0,end=t1,step=label" as a dict; a dict stays one.

    >>> as_columns("start=t0,end=t1")
    {'start': 't0', 'end': 't1'}
    """
    if columns is None or isinstance(columns, Mapping):
        return dict(columns or {})
    pairs = [word.partition("=") for word in columns.split(",")]
    if not all(ours.strip() and theirs.strip() for ours, _, theirs in pairs):
        raise OptionError(f"columns={columns!r} does not say which is which. Write start=t0,end=t1,step=label.")
    return {ours.strip(): theirs.strip() for ours, _, theirs in pairs}


def choose_tier(tiers: Mapping[str, Timeline], options: Options, path: Path) -> Timeline:
    """The timeline of the annotator that is named, or of the only person, or else the proposal.

    tiers    annotator -> timeline
    options  may name the annotator
    path     the file, for the error
    """
    if options.annotator is not None and set(tiers) != {""}:
        if options.annotator not in tiers:
            fail(path, f"no tier of {options.annotator!r}; it has {', '.join(map(repr, tiers))}", "Name one of these")
        return tiers[options.annotator]
    people = [name for name, timeline in tiers.items() if name != PROPOSAL and timeline.segments]
    people = people or [name for name in tiers if name == PROPOSAL] or list(tiers)
    if len(people) > 1:
        fail(path, f"has tiers of several annotators: {', '.join(map(repr, people))}", "Say which: annotator=NAME")
    return tiers[people[0]]
