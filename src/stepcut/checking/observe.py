"""Observed: what one video shows, gathered from its cut: what is done when, how surely, how new it
is."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from stepcut.checking.presence import step_evidence
from stepcut.checking.warping import Slices, slice_video
from stepcut.errors import OptionError
from stepcut.order.learn import Occurrence, find_occurrences, first_times
from stepcut.order.orders import Labels, grouped

Floats = NDArray[np.floating[Any]]
T = TypeVar("T")

SMOOTHING = 4.0
"""Seconds over which novelty is averaged."""


@dataclass(frozen=True)
class Observed:
    """What the evidence is drawn from."""

    occurrences: list[Occurrence]
    seconds: float
    rate: float
    novelty: Floats | None = None
    """(T,), smoothed."""
    evidence: Floats = field(default_factory=lambda: np.zeros(0))
    """(K,): how long each step shows clearly, see `presence`."""
    embedding: Floats | None = None
    """(T, p): where each frame lies."""
    prototypes: dict[int, Floats] | None = None
    """The mean (p,) of the embedding of each step that is done."""
    slices: Slices | None = None
    """What it looks like from beginning to end."""

    @cached_property
    def by_step(self) -> dict[int, list[Occurrence]]:
        """The occurrences of each step that is done, in the order of time."""
        return grouped((one.step, one) for one in self.occurrences)

    @cached_property
    def first(self) -> dict[int, Occurrence]:
        """When each step is first done in earnest, in the order of time."""
        return first_times(self.occurrences)

    @cached_property
    def spent(self) -> dict[int, float]:
        """Seconds spent on each step that is done."""
        return {step: sum(one.spent for one in done) for step, done in self.by_step.items()}

    @cached_property
    def mean_times(self) -> dict[int, float]:
        """When each step is done in the mean, from 0 at the beginning of the video to 1 at its
        end."""
        return {
            step: sum(one.spent * (one.start + one.end) / 2 for one in done)
            / (self.spent[step] * self.seconds)
            for step, done in self.by_step.items()
        }


def observe(
    labels: Labels,
    rate: float,
    probabilities: Floats | None = None,
    novelty: Floats | None = None,
    embedding: Floats | None = None,
) -> Observed:
    """Gather what one video shows: its `labels` (T,), probabilities (T, K), novelty (T,) and
    embedding (T, p).

    Without probabilities the labels are taken as certain.
    """
    for name, rows in {
        "probabilities": probabilities,
        "novelty": novelty,
        "embedding": embedding,
    }.items():
        if rows is not None and len(rows) != len(labels):
            raise OptionError(
                f"{name} has {len(rows)} rows for {len(labels)} labels; give one row per label."
            )
    numbers = np.asarray(labels, dtype=np.int64)
    prototypes = sure = slices = None
    if probabilities is not None and len(probabilities):
        sure = np.asarray(probabilities)[np.arange(len(numbers)), np.maximum(numbers, 0)]
        evidence = step_evidence(probabilities, rate)
    else:
        evidence = np.log1p(np.bincount(numbers[numbers >= 0]) / rate)
    if embedding is not None and len(embedding):
        embedding = np.asarray(embedding, dtype=np.float64)
        prototypes = {
            int(k): embedding[numbers == k].mean(axis=0) for k in np.unique(numbers[numbers >= 0])
        }
        slices = slice_video(embedding, numbers)
    return Observed(
        find_occurrences(numbers, rate, sure),
        len(numbers) / rate,
        rate,
        None if novelty is None else smooth(np.asarray(novelty), rate),
        evidence,
        embedding if prototypes is not None else None,
        prototypes,
        slices,
    )


def smooth(values: Floats, rate: float) -> Floats:
    """The mean of values (T,) over a few seconds around each frame."""
    if not len(values):
        return values
    width = min(max(1, round(SMOOTHING * rate)), len(values))
    padded = np.pad(values.astype(np.float64), (width // 2, width - 1 - width // 2), mode="edge")
    return np.asarray(np.convolve(padded, np.ones(width) / width, mode="valid"))


def some_of(given: Sequence[T], most: int) -> list[T]:
    """As many as `most` of what is given, from the first to the last."""
    places = np.linspace(0, len(given) - 1, min(most, len(given))).round().astype(int)
    return [given[place] for place in places]
