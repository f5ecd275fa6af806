"""Limits: how much of each kind of deviation is too much, so that a stated share of normal videos is called wrong.

The amounts of n normal videos are known, each judged by what the others say. Put a new video among them: if it is
normal too, it is the most deviant of the n + 1 with chance 1 / (n + 1), and among the k most deviant with chance
k / (n + 1). So the limits call a video wrong that would be among the `rate` (n + 1) most deviant; that holds whatever
the distribution, and no rate below 1 / (n + 1) can be promised.

How deviant a video is, all kinds together, is the least of its tail probabilities. Those of a kind are read off the
n + 1 videos: above the middle, exceedances x are taken to fall exponentially, at a pace known from m of them and from
one more, as large as the floor of the kind, that stands for what is believed before any video is seen:

    p(amount > middle + x) = 1/2 (1 + x / (x_1 + ... + x_m + floor))^-(m + 1)

So a kind in which normal videos vary much does not raise the limits of one in which they never do. The other way round
it may: beside a kind that normal videos show once and never else, no amount of one that varies is rare. Therefore twice
as much of a kind as any normal video shows is always too much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from stepcut.checking.evidence import KINDS

Floats = NDArray[np.float64]

# No kind may alarm below this, however tame the training videos are. Nats: what fewer than a tenth of the videos do;
# for durations, three spreads from the middle; for unknown stretches, seconds.
FLOORS = {
    "missed": math.log(10),
    "misordered": math.log(10),
    "extra": math.log(10),
    "unusual": 4.5,
    "unknown": 5.0,
}
FURTHEST = 2.0
"""A limit is never more than this many times the largest amount of its kind in a normal video."""
HALVINGS = 24


def promised_rate(videos: int, asked: float) -> float:
    """The rate of false alarms that the limits are set for: the one asked for, or the least that can be promised.

    >>> round(promised_rate(8, 0.05), 3)
    0.111
    """
    return max(asked, 1 / (videos + 1))


def find_limits(amounts: Sequence[Mapping[str, float]], rate: float) -> dict[str, float]:
    """The limit of each kind, from the amounts of normal videos, for a share `rate` of false alarms.

    Where `rate` (n + 1) lies between two whole numbers, a limit lies between those of the two.
    """
    floors = np.array([FLOORS[kind] for kind in KINDS])
    known = np.array([[amount[kind] for kind in KINDS] for amount in amounts]).reshape(-1, len(KINDS))
    place = promised_rate(len(known), rate) * (len(known) + 1)
    rank = min(math.floor(place + 1e-9), len(known) + 1)
    part = min(max(place - rank, 0.0), 1.0)
    limits = {}
    for column, kind in enumerate(KINDS):
        limit = _limit(known, floors, column, rank)
        if part > 0:
            limit = limit ** (1 - part) * _limit(known, floors, column, rank + 1) ** part
        limits[kind] = max(limit, FLOORS[kind])  # a power of a floor may round below it
    return limits


def _limit(known: Floats, floors: Floats, kind: int, rank: int) -> float:
    """The least amount of one kind, with nothing of the others, that is among the `rank` most deviant."""
    low = float(floors[kind])
    high = FURTHEST * max(low, float(known[:, kind].max(initial=0.0)))
    if _rank(known, floors, kind, low * (1 + 1e-9)) <= rank:
        return low
    if _rank(known, floors, kind, high) > rank:
        return high
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        if _rank(known, floors, kind, middle) <= rank:
            high = middle
        else:
            low = middle
    return high


def _rank(known: Floats, floors: Floats, kind: int, amount: float) -> int:
    """The place, from 1, of a new video with this amount of one kind among the known ones; of equals, the last."""
    new = np.zeros((1, len(floors)))
    new[0, kind] = amount
    chances = rarity(np.concatenate([known, new]), floors)
    return int(np.sum(chances <= chances[-1]))


def rarity(amounts: Floats, floors: Floats) -> Floats:
    """The least tail probability of each of n videos, (n,), from their amounts (n, kinds); 1 below all floors."""
    middle = np.median(amounts, axis=0)
    upper = np.sort(amounts, axis=0)[::-1][: (len(amounts) + 1) // 2]
    scale = (upper - middle).sum(axis=0) + floors
    beyond = np.maximum(amounts - middle, 0) / scale
    chances: Floats = np.where(amounts > floors, 0.5 * (1 + beyond) ** -(len(upper) + 1.0), 1.0)
    least: Floats = chances.min(axis=1)
    return least
