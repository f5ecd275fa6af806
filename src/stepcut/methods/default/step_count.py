"""The number of steps without labels: how long features stay similar sets the scale, the silhouette chooses near it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.contract import Choice
from stepcut.methods.default.restarts import Search
from stepcut.methods.default.slow_features import noise_ratio

Floats = NDArray[np.float64]

FORGOTTEN = 0.2
"""The correlation time is the lag at which the autocorrelation of features has fallen to this."""
PER_STEP = 2.3
"""Correlation times in a step, when features have as much noise as signal. Calibrated on recipes and toy kitchens, see
docs/results.md."""
LEAST_NOISE = 0.1
"""Features with a lower noise ratio than this say no more about how often they change."""
LEAST = 3
"""Fewer steps than this are no procedure, and two are always distinct: before and after."""
FEWER, MORE = 1.0, 0.8
"""What half or twice the expected number must make up for in silhouette, as a share of the best. Too few steps join
what differs; one too many is only a step in two parts."""
RESTARTS = 9
"""Restarts per number tried."""


def correlation_time(videos: Sequence[Floats], base: int) -> float:
    """Rows after which centred features have become dissimilar: the first lag at which  C(lag) / C(base) < FORGOTTEN.

    C(lag) = mean over t of x_t . x_{t + lag}, over all videos. White noise has no autocorrelation, so C is measured
    against a lag `base` that is short and not 0.
    """
    longest = max(2, max(len(rows) for rows in videos) // 2)

    def alike(lag: int) -> float:
        pairs = [float((rows[:-lag] * rows[lag:]).sum()) / (len(rows) - lag) for rows in videos if len(rows) > lag]
        return float(np.mean(pairs))

    start = alike(min(base, longest))
    if start <= 0:
        return float(base)
    for lag in range(base + 1, longest + 1):
        if alike(lag) < FORGOTTEN * start:
            return float(lag)
    return float(longest)


def expected_count(videos: Sequence[Floats], rate: float) -> float:
    """The number of steps by the correlation time c of centred features; noisy ones become dissimilar sooner.

    K = L / (PER_STEP c sqrt(n / s)),   L the median length, n / s the noise ratio over a quarter of c.

    videos  (T, d) each, centred
    rate    rows per second
    """
    lasts = correlation_time(videos, max(1, round(2 * rate)))
    noise = max(noise_ratio(videos, lasts / 4), LEAST_NOISE)
    return float(np.median([len(rows) for rows in videos])) / (PER_STEP * lasts * math.sqrt(noise))


def score_counts(tried: Floats, silhouettes: Floats, expected: float) -> Floats:
    """silhouette(K) / max silhouette - doubt log2(K / expected)^2,   doubt FEWER below the expected number, or MORE."""
    away = np.log2(tried / expected)
    doubt = np.where(away < 0, FEWER, MORE) * away**2
    return np.asarray(silhouettes / max(silhouettes.max(), 1e-9) - doubt)


def choose_count(
    videos: Sequence[Floats], rate: float, make: Callable[[int], Search], advance: Callable[[], None] = lambda: None
) -> Choice:
    """Try numbers of steps around the expected one; take the one with the best score, see `score_counts`.

    The silhouette of a number is the mean over the better half of its restarts.

    videos   (T, d) each, centred
    rate     rows per second
    make     the search for a number of steps
    advance  called after every number tried
    """
    expected = max(float(LEAST), expected_count(videos, rate))
    tried = sorted({max(LEAST, round(expected * factor)) for factor in (0.6, 0.75, 0.87, 1, 1.15, 1.33, 1.6)})
    tried = [count for count in tried if count <= max(LEAST, sum(map(len, videos)) // 4)]
    silhouettes = []
    for count in tried:
        found = np.sort(make(count).run_restarts(videos).silhouettes)
        silhouettes.append(float(found[-max(1, len(found) // 2) :].mean()))
        advance()
    scores = score_counts(np.array(tried, dtype=np.float64), np.array(silhouettes), expected)
    count = tried[int(np.argmax(scores))]
    reason = (
        f"{count} steps: features change as if there were about {expected:.0f}, and of {', '.join(map(str, tried))} "
        f"tried, {count} has the most distinct steps near that (silhouette {silhouettes[tried.index(count)]:.2f})"
    )
    return Choice(count, np.column_stack([tried, scores]).astype(np.float64), reason)
