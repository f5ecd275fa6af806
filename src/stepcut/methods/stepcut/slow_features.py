"""Slow feature analysis: the directions in which what lasts (a step) stands out from noise."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.arithmetic import Computed, Floats, fix_signs, scatter, step_sums

PER_STEP = 4  # a step lasts this many widths of the Gaussian that smooths noisy features
AXES = 32  # slow axes kept
NOISE = 12  # noise is what a Gaussian takes away and one narrower by this factor leaves
WHITEN = 0.25  # 0 leaves every axis its own variance, 1 makes all variances equal
# Share of the mean noise (or variance within steps) added to every direction, so that a still one
# is not slow
SHRINK = 0.5
# rows are divided by their norm plus this share of the median norm: near 0 they stay short
SOFT = 0.3
WIDE = 16.0  # rows; a wider Gaussian is faster as a product of cosine transforms


def smooth(rows: NDArray[Any], sigma: float) -> Floats:
    """Rows (T, d) over time, with a Gaussian of `sigma` rows."""
    from scipy.fft import dct, idct
    from scipy.ndimage import gaussian_filter1d

    wide = np.asarray(rows, dtype=np.float64)
    if sigma < 1e-9:
        return wide
    # A Gaussian wider than half a video is a mean, and its kernel would need much memory.
    sigma = min(sigma, len(wide) / 2)
    if sigma <= WIDE:
        return np.asarray(gaussian_filter1d(wide, sigma, axis=0))
    # The same, with the same reflection at the ends, as a product of cosine transforms.
    waves = np.exp(-0.5 * (sigma * np.pi / len(wide) * np.arange(len(wide))) ** 2)
    return np.asarray(idct(waves[:, None] * dct(wide, axis=0), axis=0))


def noise_ratio(videos: Sequence[Floats], sigma: float) -> float:
    """Energy that smoothing over `sigma` rows takes from centred videos, over what it leaves."""
    whole = np.trace(scatter(videos))
    left = np.trace(scatter([smooth(rows, sigma) for rows in videos]))
    # Beside its ends, smoothing may add energy.
    return max(0.0, float((whole - left) / left)) if left > 0 else 1.0


def centre(rows: NDArray[Any]) -> Floats:
    """The mean of a video shows the room and the camera, not the step."""
    wide = np.asarray(rows, dtype=np.float64)
    return np.asarray(wide - wide.mean(axis=0))


def slow_axes(videos: Sequence[Floats], sigma: float) -> Floats:
    """(d, AXES): the directions in which centred videos change slowly for their noise.

    v maximises  v' S v / v' N v,  S the scatter of the smoothed rows, N that of what smoothing
    takes away: within a step almost everything is noise.
    """
    slow = [smooth(rows, sigma) for rows in videos]
    noise = [smooth(rows, sigma / NOISE) - low for rows, low in zip(videos, slow, strict=True)]
    return _solve(scatter(slow), scatter(noise), WHITEN)


def refined_axes(slow: Sequence[Floats], labels: Sequence[NDArray[np.int64]], steps: int) -> Floats:
    """Slow axes of videos smoothed before, with N the scatter within the labelled steps.

    It also holds what differs between videos in the same step, which the noise does not show.
    """
    sums, shown = step_sums(slow, labels, steps)
    means = sums / np.maximum(shown, 1)[:, None]
    within = (
        rows[numbers >= 0] - means[numbers[numbers >= 0]]
        for rows, numbers in zip(slow, labels, strict=True)
    )
    return _solve(scatter(slow), scatter(within), 0.0)


def _solve(signal: Floats, noise: Floats, whiten: float) -> Floats:
    """The strongest v of  signal v = w noise v, each of length w^(-whiten / 2)."""
    from scipy.linalg import eigh

    dim = len(noise)
    level = float(np.trace(noise)) / dim or 1.0
    strength, axes = eigh(signal, noise + SHRINK * level * np.eye(dim))
    strength, axes = strength[::-1][:AXES], axes[:, ::-1][:, :AXES]
    # Repeated features have empty directions.
    kept = max(1, int((strength > 1e-9 * max(strength[0], 1e-300)).sum()))
    return fix_signs(axes[:, :kept] * np.maximum(strength[:kept], 1e-300) ** (-whiten / 2))


def project(slow: Sequence[Floats], axes: Floats) -> tuple[float, Sequence[Floats]]:
    """Smoothed videos on the axes, softly normalised; first the median norm for that."""
    norms = [np.linalg.norm(rows @ axes, axis=1) for rows in slow]
    norm = float(np.median(np.concatenate(norms))) or 1.0
    return norm, Computed(lambda rows: soft_normalise(rows @ axes, norm), slow)


def soft_normalise(rows: Floats, norm: float) -> Floats:
    """z / (|z| + SOFT norm): the direction counts, and rows near the mean of a video stay short."""
    return np.asarray(rows / (np.linalg.norm(rows, axis=1, keepdims=True) + SOFT * norm))
