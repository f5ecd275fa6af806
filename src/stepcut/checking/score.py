"""Score: combine all deviations into one number, and set the limit from normal videos.

A video deviates in measure g by an amount x_g (`Comparison.amounts`). Each of the n training videos
is measured against the others. With m and s the mean and spread of these amounts, s shrunk towards
a prior,

    z_g = the normal score of (x_g - m) / (s sqrt(1 + 1/n)) in a t-distribution
    total = sum of w_g max(z_g, -1) over length, missed, timing, misordered, apart
            + sum of w_g max(z_g - z*, 0) over the other measures

with w_g = 2 for missed, misordered and extra steps, and 1 for the other measures. Mistakes skip
steps, shorten the video, change times or order, and change the look of the whole, so these measures
always count. Careful people also repeat steps, take long or do something new. Those measures count
only beyond z*, which one of n + 1 videos exceeds by chance.

The limit is distribution-free. Add a new normal video to the n training videos. For each of the
n + 1, take m and s from the other n. All videos are treated alike, so the new total is among the k
highest with probability k / (n + 1). The video raises an alarm if it is among the `rate` (n + 1)
highest. No rate below 1 / (n + 1) is possible.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from stepcut.checking.observe import Floats
from stepcut.checking.usual import PRIOR, Scale

PRIOR_SPREADS = {
    "length": 0.25,
    "timing": 0.05,
    "apart": 0.15,
    **dict.fromkeys(("missed", "misordered", "extra", "unusual", "unknown"), 1.0),
}
"""Prior spread of each amount, worth PRIOR videos. For -ln of calibrated probabilities it is 1."""
ALWAYS = ("length", "missed", "timing", "misordered", "apart")
"""Measures that always count."""
TWICE = ("missed", "misordered", "extra")
"""Measures of which steps are done, and when: they count twice, those of the whole video once.

Chosen among about ten rules on nine recipes, toy kitchens and the demo with seeds 0 to 2.
"""


def learn_scales(amounts: Mapping[str, Any]) -> dict[str, Scale]:
    """Estimate the scale of each measure from its amounts in every video."""
    return {way: Scale.of(amounts[way], prior) for way, prior in PRIOR_SPREADS.items()}


def contributions(amounts: Mapping[str, Any], scales: Mapping[str, Scale]) -> dict[str, Any]:
    """Contribution of each measure to the total: numbers, or arrays with one entry per video."""
    found = {}
    for way, scale in scales.items():
        score = scale.normal_score(amounts[way])
        by_chance = -float(ndtri(1 / (scale.videos + 1)))
        least, usual = (-1.0, 0.0) if way in ALWAYS else (0.0, by_chance)
        found[way] = (1 + (way in TWICE)) * np.maximum(score - usual, least)
    return found


def contributions_beside(amounts: Mapping[str, Any], new: Mapping[str, float]) -> dict[str, Any]:
    """`contributions` of each training video, with the `new` one in its place among the others."""
    scales = {}
    for way, found in amounts.items():
        values: Any = np.asarray(found)
        # Vectorized `Scale.of`.
        mean = (values.sum() - values + new[way]) / len(values)
        squares = (values**2).sum() - values**2 + new[way] ** 2 - len(values) * mean**2
        spread = np.sqrt(
            (np.maximum(squares, 0) + PRIOR * PRIOR_SPREADS[way] ** 2) / (len(values) - 1 + PRIOR)
        )
        scales[way] = Scale(mean, spread, len(values))
    return contributions(amounts, scales)


def promised_rate(videos: int, requested: float) -> float:
    """False-alarm rate of the limit: the requested rate, or the least possible one.

    >>> round(promised_rate(8, 0.05), 3)
    0.111
    """
    return max(requested, 1 / (videos + 1))


def find_limit(scores: Sequence[float] | Floats, rate: float) -> float:
    """Score that a share `rate` of normal videos exceeds, from the scores of normal videos.

    If `rate` (n + 1) is not a whole number, the limit is interpolated between two ranks.
    """
    if not len(scores):
        return float(-ndtri(rate))
    place = promised_rate(len(scores), rate) * (len(scores) + 1) - 1
    return float(np.interp(round(place, 9), range(len(scores)), np.sort(scores)[::-1]))


@dataclass(frozen=True)
class Altered:
    """Copies of training videos with one kind of deviation."""

    of: tuple[int, ...]
    """Index of the training video of each copy."""
    amounts: dict[str, tuple[float, ...]]
    """Amounts of each copy, by measure."""

    @classmethod
    def gather(cls, changed: Sequence[tuple[int, Mapping[str, float]]]) -> Self:
        """Collect (training video, amounts) pairs."""
        amounts = {way: tuple(one[way] for _, one in changed) for way in PRIOR_SPREADS}
        return cls(tuple(place for place, _ in changed), amounts)

    def among(self, kept: Sequence[int]) -> "Altered":
        """The copies of the videos `kept`, which are renumbered."""
        place = {old: new for new, old in enumerate(kept)}
        mine = [row for row, video in enumerate(self.of) if video in place]
        amounts = {way: tuple(values[row] for row in mine) for way, values in self.amounts.items()}
        return Altered(tuple(place[self.of[row]] for row in mine), amounts)


def is_found(
    altered: Altered, amounts: Mapping[str, Any], false_alarms: float
) -> NDArray[np.bool_]:
    """Whether each altered video would raise an alarm in place of its original, (m,)."""
    found = np.zeros(len(altered.of), dtype=bool)
    if len(next(iter(amounts.values()))) < 2:  # no other video to compare with
        return found
    for place in sorted(set(altered.of)):
        rest: dict[str, Floats] = {way: np.delete(values, place) for way, values in amounts.items()}
        scales = learn_scales(rest)
        for row in (row for row, video in enumerate(altered.of) if video == place):
            new = {way: values[row] for way, values in altered.amounts.items()}
            beside = contributions_beside(rest, new)
            limit = find_limit(sum(beside.values()), false_alarms)
            found[row] = sum(contributions(new, scales).values()) > limit
    return found


def set_limits(
    amounts: dict[str, tuple[float, ...]], altered: dict[str, Altered], false_alarms: float
) -> dict[str, Any]:
    """Derive scales, limit, false-alarm rate and detection rates from normal amounts."""
    scales = learn_scales(amounts)
    totals = sum(contributions(amounts, scales).values())
    limit = find_limit(totals, false_alarms)
    found = {kind: is_found(changed, amounts, false_alarms) for kind, changed in altered.items()}
    return {
        "amounts": amounts,
        "altered": altered,
        "scales": scales,
        "limit": limit,
        "promised": promised_rate(len(totals), false_alarms),
        "alarmed": float(np.mean(totals > limit)),
        "detects": {kind: float(np.mean(hits)) for kind, hits in found.items() if len(hits)},
    }
