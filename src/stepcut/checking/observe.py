"""Observe: extract occurrences, evidence, novelty and slices from the segmentation of one video."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from stepcut.checking.presence import step_evidence
from stepcut.checking.warping import Slices, slice_video
from stepcut.order.learn import Occurrence, find_occurrences, first_times
from stepcut.order.orders import Labels, grouped

Floats = NDArray[np.floating[Any]]
T = TypeVar("T")

SMOOTHING = 4.0
"""Seconds over which novelty is averaged."""


@dataclass(frozen=True)
class Observed:
    """What one video shows."""

    occurrences: list[Occurrence]
    seconds: float
    rate: float
    labels: NDArray[np.int64]
    """The step of each row, (T,)."""
    novelty: Floats | None = None
    """Smoothed novelty, (T,)."""
    evidence: Floats = field(default_factory=lambda: np.zeros(0))
    """Evidence for each step, (K,); see `presence`."""
    embedding: Floats | None = None
    """(T, p)"""
    slices: Slices | None = None

    @cached_property
    def by_step(self) -> dict[int, list[Occurrence]]:
        return grouped((one.step, one) for one in self.occurrences)

    @cached_property
    def first(self) -> dict[int, Occurrence]:
        """First long occurrence of each step."""
        return first_times(self.occurrences)

    @cached_property
    def spent(self) -> dict[int, float]:
        """Seconds spent on each step."""
        return {step: sum(one.spent for one in done) for step, done in self.by_step.items()}

    @cached_property
    def mean_times(self) -> dict[int, float]:
        """Mean time of each step, from 0 (start of the video) to 1 (end)."""
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
    """Summarize one video: labels (T,), probabilities (T, K), novelty (T,) and embedding (T, p).

    Without probabilities the labels count as certain.
    """
    numbers = np.asarray(labels, dtype=np.int64)
    confidence = slices = None
    if probabilities is not None and len(probabilities):
        confidence = np.asarray(probabilities)[np.arange(len(numbers)), np.maximum(numbers, 0)]
    evidence = evidence_of(numbers, rate, probabilities)
    if embedding is not None and len(embedding):
        embedding = np.asarray(embedding, dtype=np.float64)
        slices = slice_video(embedding, numbers)
    return Observed(
        find_occurrences(numbers, rate, confidence),
        len(numbers) / rate,
        rate,
        numbers,
        None if novelty is None else smooth(np.asarray(novelty), rate),
        evidence,
        None if slices is None else embedding,
        slices,
    )


def evidence_of(labels: Labels, rate: float, probabilities: Floats | None) -> Floats:
    """Evidence for each step, (K,), from probabilities (T, K), or from labels (T,) without them."""
    if probabilities is not None and len(probabilities):
        return step_evidence(probabilities, rate)
    numbers = np.asarray(labels)
    return np.asarray(np.log1p(np.bincount(numbers[numbers >= 0]) / rate))


def smooth(values: Floats, rate: float) -> Floats:
    """Moving average of values (T,) over `SMOOTHING` seconds."""
    if not len(values):
        return values
    width = min(max(1, round(SMOOTHING * rate)), len(values))
    padded = np.pad(values.astype(np.float64), (width // 2, width - 1 - width // 2), mode="edge")
    return np.asarray(np.convolve(padded, np.ones(width) / width, mode="valid"))


def some_of(items: Sequence[T], most: int) -> list[T]:
    """At most `most` items, evenly spaced from first to last."""
    places = np.linspace(0, len(items) - 1, min(most, len(items))).round().astype(int)
    return [items[place] for place in places]
