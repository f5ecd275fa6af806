"""Score: everything in which a video differs in one number, and the limit that normal videos keep.

In every way g a video strays by an amount x_g (`evidence.measure`). Each of the n videos learned
from is measured by what the others say; with m and s the mean and spread of these amounts, s drawn
towards what is believed beforehand,

    z_g = the normal score of (x_g - m) / (s sqrt(1 + 1/n)) in a t-distribution
    total = sum of w_g max(z_g, -1) over length, missed, timing, misordered, apart
            + sum of max(z_g - z*, 0) over the other ways

with w_g = 2 for missing steps, by their probabilities, and 1 otherwise. Whoever errs skips a step,
hurries, does things at another time or in another order, and the whole looks different: these count
always. Repeating, taking long and doing something new are what careful people do as well: they
count by what they exceed z*, which one video of n + 1 exceeds by chance.

The limit is distribution-free: put a new normal video among the n that were learned from, and let m
and s of each of the n + 1 be those of the n others. Then all are treated alike, and the total of
the new one is among the k highest of the n + 1 with chance k / (n + 1). So it is called wrong if it
is among the `rate` (n + 1) highest, and no rate below 1 / (n + 1) can be promised.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from stepcut.checking.observe import Floats
from stepcut.checking.usual import PRIOR, Scale

BELIEVED = {
    "length": 0.25,
    "timing": 0.05,
    "apart": 0.15,
    **dict.fromkeys(("missed", "misordered", "extra", "unusual", "unknown"), 1.0),
}
"""The spread of each amount before any video is seen, worth PRIOR videos: a quarter of the length,
a twentieth of the video, a seventh of how far it is apart, and for -ln of chances 1, as chances
have that are right."""
ALWAYS = {"length": 1, "missed": 2, "timing": 1, "misordered": 1, "apart": 1}
"""The ways that count always, and how much; the others only beyond what is met by chance."""


def learn_scales(amounts: Mapping[str, Any]) -> dict[str, Scale]:
    """What is usual of every amount; `amounts`: for each way, by how much every video strays."""
    return {way: Scale.of(amounts[way], believed) for way, believed in BELIEVED.items()}


def worths(amounts: Mapping[str, Any], scales: Mapping[str, Scale]) -> dict[str, Any]:
    """What each way of straying adds to the total: numbers, or arrays with one for each video."""
    found = {}
    for way, scale in scales.items():
        score = scale.normal_score(amounts[way])
        by_chance = -float(ndtri(1 / (scale.videos + 1)))
        found[way] = (
            ALWAYS[way] * np.maximum(score, -1.0)
            if way in ALWAYS
            else np.maximum(score - by_chance, 0.0)
        )
    return found


def total_worth(worth: Mapping[str, Any]) -> Any:
    """The total of what each way adds: numbers, or arrays with one for each video."""
    return sum(worth.values())


def worths_beside(amounts: Mapping[str, Any], new: Mapping[str, float]) -> dict[str, Any]:
    """The same as `worths`, for each video learned from, which stray by these `amounts`, where a
    `new` one takes its place among the others."""
    scales = {}
    for way, found in amounts.items():
        values: Any = np.asarray(found)
        # The same as `Scale.of`, for all of them at once.
        mean = (values.sum() - values + new[way]) / len(values)
        squares = (values**2).sum() - values**2 + new[way] ** 2 - len(values) * mean**2
        spread = np.sqrt(
            (np.maximum(squares, 0) + PRIOR * BELIEVED[way] ** 2) / (len(values) - 1 + PRIOR)
        )
        scales[way] = Scale(mean, spread, len(values))
    return worths(amounts, scales)


def promised_rate(videos: int, asked: float) -> float:
    """The rate of false alarms that the limit is set for: the one asked for, or the least that can
    be promised.

    >>> round(promised_rate(8, 0.05), 3)
    0.111
    """
    return max(asked, 1 / (videos + 1))


def find_limit(scores: Sequence[float] | Floats, rate: float) -> float:
    """The score that a share `rate` of normal videos exceed, from the scores of normal videos.

    Where `rate` (n + 1) lies between two whole numbers, the limit lies between the scores of those
    ranks.
    """
    if not len(scores):
        return float(-ndtri(rate))
    place = promised_rate(len(scores), rate) * (len(scores) + 1) - 1
    return float(np.interp(round(place, 9), range(len(scores)), np.sort(scores)[::-1]))


@dataclass(frozen=True)
class Planted:
    """Videos with one kind of deviation planted in them."""

    of: tuple[int, ...]
    """Which of the videos learned from each was made of."""
    amounts: dict[str, tuple[float, ...]]
    """For each way of straying, by how much each of them strays."""

    @classmethod
    def gather(cls, changed: Sequence[tuple[int, Mapping[str, float]]]) -> Self:
        """From the video that each was `changed` from, and by how much it strays in each way."""
        amounts = {way: tuple(one[way] for _, one in changed) for way in BELIEVED}
        return cls(tuple(place for place, _ in changed), amounts)

    def among(self, kept: Sequence[int]) -> "Planted":
        """Those that were made of the videos `kept`, which are numbered anew."""
        place = {old: new for new, old in enumerate(kept)}
        mine = [row for row, video in enumerate(self.of) if video in place]
        amounts = {way: tuple(values[row] for row in mine) for way, values in self.amounts.items()}
        return Planted(tuple(place[self.of[row]] for row in mine), amounts)


def is_found(
    planted: Planted, amounts: Mapping[str, Any], false_alarms: float
) -> NDArray[np.bool_]:
    """Whether each changed video would raise an alarm, in the place of the one that it was made of,
    (m,); `amounts`: by how much the videos learned from differ."""
    found = np.zeros(len(planted.of), dtype=bool)
    alone_there = len(next(iter(amounts.values()))) < 2  # nothing is left to compare with
    for place in () if alone_there else sorted(set(planted.of)):
        rest: dict[str, Floats] = {way: np.delete(values, place) for way, values in amounts.items()}
        scales = learn_scales(rest)
        for row in (row for row, video in enumerate(planted.of) if video == place):
            new = {way: values[row] for way, values in planted.amounts.items()}
            limit = find_limit(total_worth(worths_beside(rest, new)), false_alarms)
            found[row] = total_worth(worths(new, scales)) > limit
    return found


def set_limits(
    amounts: dict[str, tuple[float, ...]], planted: dict[str, Planted], false_alarms: float
) -> dict[str, Any]:
    """What follows from how far normal videos differ, their `amounts`: the scales, the limit, what
    it promises, and what will be found of deviations, by those `planted`."""
    scales = learn_scales(amounts)
    totals = total_worth(worths(amounts, scales))
    limit = find_limit(totals, false_alarms)
    found = {kind: is_found(changed, amounts, false_alarms) for kind, changed in planted.items()}
    return {
        "amounts": amounts,
        "planted": planted,
        "scales": scales,
        "limit": limit,
        "promised": promised_rate(len(totals), false_alarms),
        "alarmed": float(np.mean(totals > limit)),
        "detects": {kind: float(np.mean(told)) for kind, told in found.items() if len(told)},
    }
