"""Quality: the share of time in which the steps are right, measured on labelled videos."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Self

import msgspec
import numpy as np
from scipy.special import stdtrit

from stepcut.methods.arithmetic import normalised_times
from stepcut.methods.constraints import OPEN
from stepcut.methods.inputs import Labels

NOT_MEASURED = (
    "Not measured. On 16 recorded tasks 35 to 68 % of the time was right without labels "
    "(median 48). Label three videos to measure it."
)
NO_LABELS = (
    "Not measured: clicks and transcripts do not show when steps end. "
    "Label three videos to measure it."
)
ONE_LABELLED = "Not measured: only one video is labelled. Label two more to measure it."
NOTHING_SHARED = (
    "The videos seem to share no steps: what is found depends on the start. "
    "Check that they show one task, or use other features."
)
# a, b: on noise, segmentations from different starts agree by less than a + b / steps
SHARED = (0.38, 1.2)
LABELLED = 0.5  # least share of a video that is labelled if it is to count

# Chosen on the tasks of benchmarks/quality.py, whose report has the coverage of the interval.
SPREAD = 0.1  # prior SD of the share that is right over videos; weighs as much as two videos
DRAWS = 0.07  # SD of the same over draws of the labelled videos


class Estimate(NamedTuple):
    """Share of time that is right, with an 80 % interval."""

    right: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.right:.0f} % ({100 * self.low:.0f}–{100 * self.high:.0f} %)"


class Quality(msgspec.Struct, frozen=True):
    """How much of the time the steps are right; `str` is a sentence.

    A moment, also of background, is right if it has its true step.

    Examples
    --------
    >>> proc.quality.kind in ("labels", "unknown")
    True
    """

    kind: Literal["labels", "unknown"] = "unknown"
    """labels: cross-validated on labelled videos; unknown: not measured."""
    now: Estimate | None = None
    """None if `kind` is unknown."""
    why: str = NOT_MEASURED
    """How it was measured, or why it was not."""
    warning: str = ""
    """States that the videos seem to share no steps, if so."""

    @property
    def right(self) -> float | None:
        """The estimated share of time that is right."""
        return None if self.now is None else self.now.right

    def __str__(self) -> str:
        said = self.why
        if self.now is not None:
            said = f"Estimated: {self.now} of the unlabelled time is right, {self.why}."
        return f"{self.warning} {said}" if self.warning else said

    def to_json(self) -> dict[str, Any]:
        """Return the quality as JSON values."""
        record: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return record

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """Read the result of `to_json`; an estimate without labels, of earlier versions, is unknown."""
        if "why" not in record or record.get("kind") in ("estimate", "uniform"):
            return cls()
        read = msgspec.convert(record, cls)
        return read if read.kind == "labels" or "after" not in record else cls()


def measure(labels: Sequence[Labels | None], held_out: Sequence[Labels], count: int) -> Quality:
    """Measure `count` steps on videos that were labelled by a person and held out.

    `labels` (T,) are -1 for background, -2 where nothing is labelled. With a_v the share of
    labelled rows of video v that is right, m its mean over n videos, s its SD, shrunk towards
    `SPREAD`:

        m  +-  t sqrt(s^2 / n + DRAWS^2),   t the 90 % quantile with n + 1 degrees of freedom
    """
    pairs = [
        (true, seen)
        for true, seen in zip(labels, held_out, strict=True)
        if true is not None and (true != OPEN).mean() >= LABELLED
    ]
    number = len(pairs)
    if number < 2:
        return Quality(why=ONE_LABELLED if number else NO_LABELS)
    shares = np.array([(seen == true)[true != OPEN].mean() for true, seen in pairs])
    variance = (((shares - shares.mean()) ** 2).sum() + 2 * SPREAD**2) / (number + 1)
    half = float(stdtrit(number + 1, 0.9) * np.sqrt(variance / number + DRAWS**2))
    right = float(shares.mean())
    now = Estimate(*(float(np.clip(x, 0.0, 1.0)) for x in (right, right - half, right + half)))
    baseline = f"{100 * _uniform([true for true, _ in pairs], count):.0f} %"
    why = f"cross-validated on {number} labelled videos; uniform baseline: {baseline}"
    return Quality("labels", now, why)


def _uniform(labels: Sequence[Labels], count: int) -> float:
    """What segments of equal length get right, in the usual order of the steps."""
    rows = np.concatenate(labels)
    when = np.concatenate([normalised_times(len(one)) for one in labels])
    times = [when[rows == step].mean() if (rows == step).any() else 2.0 for step in range(count)]
    equal = np.argsort(times)[(when * count).astype(np.int64)]
    return float((equal == rows)[rows != OPEN].mean())


def warn_of_nothing_shared(agreement: float | None, steps: int) -> str:
    """A warning if segmentations from different starts agree no more than on noise."""
    noise = agreement is not None and agreement < SHARED[0] + SHARED[1] / steps
    return NOTHING_SHARED if noise else ""
