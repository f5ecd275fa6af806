"""The training-free row of every table: centre each video, smooth over time, 32 components, tell the time, k-means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.arithmetic import as_vectors, strongest_directions
from stepcut.methods.baselines.kmeans import KMeans

SECONDS = 12.0
"""Standard deviation of the Gaussian over time."""
COMPONENTS = 32
TIME = 1.5
"""Weight of the normalised time, against rows of length 1."""


def smooth_embedding(features: Sequence[NDArray[Any]], rate: float = 1.0) -> list[NDArray[np.float32]]:
    """The features of all videos of a task, (T, d) each at `rate` rows a second, as (T, 33) rows for k-means."""
    from scipy.ndimage import gaussian_filter1d

    smoothed = []
    for rows in features:
        vectors = as_vectors(rows)
        centred = vectors - vectors.mean(axis=0)
        smoothed.append(gaussian_filter1d(centred, SECONDS * rate, axis=0, mode="nearest"))
    every = np.concatenate(smoothed).astype(np.float64)
    middle = every.mean(axis=0)
    directions, _ = strongest_directions([every - middle], COMPONENTS)
    return [_tell_time((rows - middle) @ directions) for rows in smoothed]


def cut_smooth(
    features: Sequence[NDArray[Any]], steps: int, rate: float = 1.0, seed: int = 0
) -> list[NDArray[np.int64]]:
    """The step of every frame: k-means on the smooth embedding."""
    return KMeans(steps=steps, rate=rate, seed=seed, normalise=False).fit_predict(smooth_embedding(features, rate))


def _tell_time(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    length = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    time = np.arange(len(rows))[:, None] / len(rows)
    return np.hstack([rows / length, TIME * time]).astype(np.float32)
