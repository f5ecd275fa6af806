"""A temporal prior: videos of one task tend to do the same steps at the same time. 0 is off.

Two forms, both a clock mixed into the features: a cost per frame and step once steps are numbered in time, and the
time itself as one more dimension. The strongest single effect in this field, so always compare with `uniform`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.segmenter import Labels, Rows, normalised_times


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
