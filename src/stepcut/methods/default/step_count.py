"""How many steps there are, without labels: how long features remember sets the scale, clearness chooses near it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.default.restarts import Search
from stepcut.methods.default.slow_features import restlessness

Floats = NDArray[np.float64]

FORGOTTEN = 0.2
"""Features have forgotten what was going on when their autocorrelation has fallen to this."""
PER_MEMORY = 2.3
"""Times that features forget during a step, when they are as restless as lasting: steps have phases. Calibrated on
recipes and toy kitchens, see docs/results.md."""
CALMEST = 0.1
"""Features that are less restless than this say no more about how often they change."""
LEAST = 3
"""Fewer steps than this are no procedure, and two are always clear-cut: before and after."""
FEWER, MORE = 1.0, 0.8
"""What half or twice the number of the memory must make up for in clearness, as a share of the best. Too few steps
join what differs; one too many is only a step in two parts."""
RESTARTS = 9
"""Starts per number tried."""


@dataclass(frozen=True)
class Choice:
    """The number chosen, and why: `curve` has a row (number, clearness, memory's number) for every one tried."""

    count: int
    curve: Floats

    @property
    def scores(self) -> Floats:
        """What every number tried is worth: see `choose_count`."""
        return weigh(*self.curve.T)

    @property
    def reason(self) -> str:
        """The choice in words."""
        if not len(self.curve):
            return f"{self.count} steps"
        clear = dict(zip(self.curve[:, 0].astype(int).tolist(), self.curve[:, 1].tolist(), strict=True))
        return (
            f"{self.count} steps: features change as if there were about {self.curve[0, 2]:.0f}, and of "
            f"{', '.join(map(str, sorted(clear)))} tried, {self.count} is the clearest near that "
            f"(clearness {clear[self.count]:.2f})"
        )


def memory(videos: Sequence[Floats], base: int) -> float:
    """Rows after which centred features have forgotten: the first lag at which  C(lag) / C(base) < FORGOTTEN.

    C(lag) = mean over t of x_t . x_{t + lag}, over all videos. Noise has no memory, so C is measured against a lag
    `base` that is short and not 0.
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


def expect_count(videos: Sequence[Floats], rate: float) -> float:
    """The number of steps by how long centred features remember: restless ones forget sooner,

    K = L / (PER_MEMORY memory sqrt(n / s)),   L the median length, n / s the restlessness over a quarter of the memory.
    """
    lasts = memory(videos, max(1, round(2 * rate)))
    restless = max(restlessness(videos, lasts / 4), CALMEST)
    return float(np.median([len(rows) for rows in videos])) / (PER_MEMORY * lasts * math.sqrt(restless))


def weigh(tried: Floats, clear: Floats, expected: Floats) -> Floats:
    """score(K) = clearness(K) / max clearness - doubt log2(K / K_memory)^2,   doubt FEWER below K_memory, or MORE."""
    away = np.log2(tried / expected)
    doubt = np.where(away < 0, FEWER, MORE) * away**2
    return np.asarray(clear / max(clear.max(), 1e-9) - doubt)


def choose_count(
    videos: Sequence[Floats], rate: float, make: Callable[[int], Search], tick: Callable[[], None] = lambda: None
) -> Choice:
    """Try numbers of steps around what the memory of the features says; take the one with the best score, `weigh`.

    The clearness of a number is the mean of the clearer half of its starts.
    """
    expected = max(float(LEAST), expect_count(videos, rate))
    tried = sorted({max(LEAST, round(expected * factor)) for factor in (0.6, 0.75, 0.87, 1, 1.15, 1.33, 1.6)})
    tried = [count for count in tried if count <= max(LEAST, sum(map(len, videos)) // 4)]
    clear = []
    for count in tried:
        scores = np.sort(make(count).tries(videos).clear)
        clear.append(float(scores[-max(1, len(scores) // 2) :].mean()))
        tick()
    curve = np.column_stack([tried, clear, np.full(len(tried), expected)]).astype(np.float64)
    return Choice(tried[int(np.argmax(weigh(*curve.T)))], curve)
