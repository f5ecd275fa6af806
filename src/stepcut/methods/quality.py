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
    "Not measured. On 17 recorded tasks 29 to 76 % of the time was right without labels "
    "(median 44). Label three videos to measure it."
)
SPREAD = 0.1
"""Prior standard deviation of the share that is right over videos; weighs as much as two videos."""


class Estimate(NamedTuple):
    """The share of time that is right, with an 80 % interval."""

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
        record: dict[str, Any] = msgspec.to_builtins(self)
        return record

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """Read the result of `to_json`; an estimate without labels, of earlier versions, is unknown."""
        if "why" not in record or record.get("kind") in ("estimate", "uniform"):
            return cls()
        read = msgspec.convert(record, cls)
        return read if read.kind == "labels" or "after" not in record else cls()


def cross_validated(
    labels: Sequence[Labels | None], held_out: Sequence[Labels], count: int
) -> Quality:
    """Measure the quality of `count` labelled steps on held-out videos."""
    pairs = [
        (true, seen)
        for true, seen in zip(labels, held_out, strict=True)
        if true is not None and (true != OPEN).any()
    ]
    if len(pairs) < 2:
        return Quality(why="Not measured: one labelled video cannot be compared. Label two more.")
    shares = np.array([(seen == true)[true != OPEN].mean() for true, seen in pairs])
    spread = (
        np.sqrt(((shares - shares.mean()) ** 2).sum() + 2 * SPREAD**2) / (len(shares) + 1) ** 0.5
    )
    half = float(stdtrit(len(shares) + 1, 0.9) * spread / len(shares) ** 0.5)
    rows = np.concatenate([true for true, _ in pairs])
    when = np.concatenate([normalised_times(len(true)) for true, _ in pairs])
    times = [when[rows == k].mean() if (rows == k).any() else 2.0 for k in range(count)]
    equal = np.argsort(times)[(when * count).astype(np.int64)]
    uniform = float((equal == rows)[rows != OPEN].mean())
    right = float(shares.mean())
    now = Estimate(right, max(right - half, 0.0), min(right + half, 1.0))
    why = (
        f"cross-validated on {len(pairs)} labelled videos; uniform baseline: {100 * uniform:.0f} %"
    )
    return Quality("labels", now, why)
