"""Slow axes: the view of features in which what lasts (a step) stands out from what flickers and from the kitchen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DIRECTIONS = 64
"""Principal directions kept before anything else is learned."""
AXES = 32
"""Slow axes kept of them."""
FLOOR = 0.5
"""Of the mean flicker, added to every direction, so that a still direction is not taken for a slow one."""
EVEN = 0.25
"""0 leaves every axis its own strength, 1 makes all equally strong."""
SHRINK = 0.5
"""Of the mean scatter within steps, added to every direction of the refined axes."""
SOFT = 0.3
"""A row this share of the usual length or shorter says little; rows are scaled to nearly 1 above it."""


def calm(rows: NDArray[Any], sigma: float) -> Floats:
    """Smooth over time with a Gaussian of `sigma` rows."""
    from scipy.ndimage import gaussian_filter1d

    wide = np.asarray(rows, dtype=np.float64)
    # Beyond half a video a wider Gaussian is a mean; scipy would make its kernel of any length it is asked for.
    return wide if sigma <= 0 else np.asarray(gaussian_filter1d(wide, min(sigma, len(wide) / 2), axis=0))


def restlessness(videos: Sequence[Floats], sigma: float) -> float:
    """Energy that calming over `sigma` rows takes from centred videos, over the energy that it leaves."""
    whole, left = np.trace(scatter(videos)), np.trace(scatter([calm(rows, sigma) for rows in videos]))
    return float((whole - left) / left) if left > 0 else 1.0


def centre(rows: NDArray[Any]) -> Floats:
    """Move a video's mean to 0: it holds the kitchen and the camera, which say nothing of the step."""
    wide = np.asarray(rows, dtype=np.float64)
    return np.asarray(wide - wide.mean(axis=0))


def scatter(videos: Sequence[Floats]) -> Floats:
    """Mean outer product of all rows of centred videos: (d, d)."""
    total = sum((rows.T @ rows for rows in videos), np.zeros((videos[0].shape[1],) * 2))
    return np.asarray(total / sum(len(rows) for rows in videos))


def principal_directions(videos: Sequence[Floats], sigma: float, count: int = DIRECTIONS) -> Floats:
    """(d, count): the strongest directions of the centred videos, lightly calmed."""
    _, directions = np.linalg.eigh(scatter([calm(rows, sigma) for rows in videos]))
    return fix_signs(directions[:, ::-1][:, :count])


def slow_axes(videos: Sequence[Floats], sigma: float, count: int = AXES) -> Floats:
    """(d, p): the directions in which rows change slowly, measured in units of how much they flicker.

    Slow feature analysis: v maximises  v' S v / v' N v,  S the scatter of the calmed rows, N that of what calming
    takes away. Within a step almost everything is flicker, so N stands for the scatter within steps without labels.
    """
    slow = [calm(rows, sigma) for rows in videos]
    flicker = [calm(rows, sigma / 12) - calmed for rows, calmed in zip(videos, slow, strict=True)]
    return _solve(scatter(slow), scatter(flicker), FLOOR, EVEN, count)


def refined_axes(slow: Sequence[Floats], labels: Sequence[NDArray[np.int64]], steps: int, count: int = AXES) -> Floats:
    """(d, p): as `slow_axes`, with N the scatter within the steps found so far: it also holds what differs between
    videos in the same step, which flicker does not show. Linear discriminant analysis on found labels."""
    means, weight = np.zeros((steps, slow[0].shape[1])), np.zeros(steps)
    for rows, cut in zip(slow, labels, strict=True):
        seen = np.unique(cut[cut >= 0])
        for step in seen:
            means[step] += rows[cut == step].mean(axis=0)  # every video counts once in the mean of a step
        weight[seen] += 1
    means /= np.maximum(weight, 1)[:, None]
    within = [rows[cut >= 0] - means[cut[cut >= 0]] for rows, cut in zip(slow, labels, strict=True)]
    return _solve(scatter(slow), scatter(within), SHRINK, 0.0, count)


def _solve(signal: Floats, noise: Floats, floor: float, even: float, count: int) -> Floats:
    """The `count` strongest v of  signal v = w noise v, each of length w^(-even / 2)."""
    from scipy.linalg import eigh

    dim = len(noise)
    level = float(np.trace(noise)) / dim or 1.0
    strength, axes = eigh(signal, noise + floor * level * np.eye(dim))
    strength, axes = strength[::-1][:count], axes[:, ::-1][:, :count]
    kept = max(1, int((strength > 1e-9 * max(strength[0], 1e-300)).sum()))  # repeated features have empty directions
    return fix_signs(axes[:, :kept] * np.maximum(strength[:kept], 1e-300) ** (-even / 2))


def fix_signs(axes: Floats) -> Floats:
    """The largest entry of every axis is positive: the same on every machine."""
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)
    return axes * np.where(largest < 0, -1.0, 1.0)


def usual_length(videos: Sequence[Floats]) -> float:
    """The median length of a row."""
    return float(np.median(np.concatenate([np.linalg.norm(rows, axis=1) for rows in videos]))) or 1.0


def nearly_unit(rows: Floats, usual: float) -> Floats:
    """z / (|z| + SOFT usual): directions count, and a row near the video's mean, which is no direction, stays short."""
    return np.asarray(rows / (np.linalg.norm(rows, axis=1, keepdims=True) + SOFT * usual))
