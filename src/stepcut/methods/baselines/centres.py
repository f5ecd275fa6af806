"""What the segmenters that learn a centre per step share: rows prepared alike, steps in the order of time, a prior.

The temporal prior: videos of one task tend to do the same steps at the same time; 0 is off. It has two forms, both a
clock mixed into the features: a cost per frame and step once steps are numbered in time (`clock_cost`), and the time
itself as one more dimension (`append_time`). The strongest single effect in this field: always compare with `uniform`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.arithmetic import unit
from stepcut.methods.segmenter import Labels, Rows, Segmenter, check_number, normalised_times


@dataclass(eq=False, repr=False)
class CentreSegmenter(Segmenter):
    """Learns `centres_` (steps, d). `normalise` scales every frame to length 1 first, so only directions count."""

    LEARNED: ClassVar[tuple[str, ...]] = ("centres_",)

    normalise: bool = True
    prior: float = 0.0

    def _check_settings(self) -> None:
        super()._check_settings()
        check_number("prior", self.prior, 0)

    def _learn(self, videos: list[NDArray[Any]]) -> None:
        self.centres_ = self._find_centres(videos)
        # The numbers that clustering gives are arbitrary; time gives them a meaning, and the prior its order.
        first = [self._first_cut(rows) for rows in videos]
        self.centres_ = self.centres_[time_order(first, self.steps)]

    @abstractmethod
    def _find_centres(self, videos: list[NDArray[Any]]) -> Rows:
        """A centre per step, in any order: (steps, d)."""

    def _first_cut(self, rows: NDArray[Any]) -> Labels:
        """The cut that gives the steps their order; one that needs the order itself leaves it out here."""
        return self._cut(rows)

    def _prepare(self, rows: NDArray[Any]) -> Rows:
        """The rows of one video as float32, of length 1 where asked for: a copy, ours to spoil."""
        return unit(rows) if self.normalise else rows.astype(np.float32)

    def _stack(self, videos: list[NDArray[Any]]) -> Rows:
        """All frames of all videos, prepared: one array that is ours to spoil."""
        dimension = self._prepare(videos[0][:1]).shape[1]
        stacked = np.empty((sum(map(len, videos)), dimension), dtype=np.float32)
        first = 0
        for rows in videos:
            stacked[first : first + len(rows)] = self._prepare(rows)
            first += len(rows)
        return stacked


def clock_cost(frames: int, steps: int) -> NDArray[np.float64]:
    """|i/T - k/K|, taken at the middle of frame i and of step k: (T, K), to be weighted and added to a cost."""
    return np.abs(normalised_times(frames)[:, None] - normalised_times(steps))


def append_time(rows: Rows, weight: float) -> Rows:
    """The rows with `weight` times the normalised time as one more dimension: (T, d + 1)."""
    clock = weight * normalised_times(len(rows))[:, None]
    return np.concatenate([rows, clock.astype(np.float32)], axis=1)


def time_order(labels: list[Labels], steps: int) -> NDArray[np.intp]:
    """The steps sorted by the mean normalised time of their frames over all videos; steps without a frame come last."""
    times = np.concatenate([normalised_times(len(video)) for video in labels])
    joined: NDArray[Any] = np.concatenate(labels)
    count = np.bincount(joined, minlength=steps)
    total = np.bincount(joined, times, minlength=steps)
    return np.argsort(np.where(count > 0, total / np.maximum(count, 1), np.inf), kind="stable")
