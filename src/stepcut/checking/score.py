"""Score: five measures, one total, and the limit that few normal videos exceed.

A video deviates by measure g by an amount x_g (`Comparison.amounts`). Each reference video is
predicted and measured as if it were new, against the others. With m and s the mean and spread of
these amounts, s shrunk towards a prior,

    z_g = the normal score of (x_g - m) / (s sqrt(1 + 1/n)) in a t-distribution
    total = sum of max(z_g, -1) over the five measures

with |z_g| for the length: too long counts as much as too short. The limit is the quantile of a
t-distribution fitted to the totals of all reference videos, so no single video sets it.

Before that, reference videos that stand out are set aside as a group. For this, m, s and the spread
of the totals come from medians and quartiles, which a fifth of odd videos cannot move far.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepcut.checking.observe import Floats
from stepcut.checking.usual import PRIOR, Amount, Count, Scale

MEASURES = {"length": 0.25, "missed": 1.0, "timing": 0.05, "apart": 0.15, "unknown": 1.0}
"""The measures, and the prior spread of the amounts of each."""
TOTAL_SPREAD = 1.5
"""Prior spread of totals."""
STANDS_OUT = 3.0
"""Spreads above the median from which a reference video stands out."""
MOST_ASIDE = 5
"""At most one in this many reference videos is set aside."""
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


def contributions(amounts: Mapping[str, Any], scales: Mapping[str, Scale]) -> dict[str, Any]:
    """Contribution of each measure to the total: numbers, or arrays with one entry per video."""
    scores = {way: scale.normal_score(amounts[way]) for way, scale in scales.items()}
    scores["length"] = np.abs(scores["length"])
    return {way: np.maximum(score, -1.0) for way, score in scores.items()}


def learn_scales(amounts: Mapping[str, Any], robust: bool = False) -> dict[str, Scale]:
    """Estimate the scale of each measure from its amounts in every video."""
    estimate = Scale.robust if robust else Scale.of
    return {way: estimate(amounts[way], prior) for way, prior in MEASURES.items()}


def held_out_totals(amounts: Mapping[str, Any]) -> Floats:
    """Total of each video, (n,), with the scales of the others."""
    number = len(next(iter(amounts.values())))
    if number < 2:
        return np.zeros(0)
    scales = {}
    for way, prior in MEASURES.items():
        values = np.asarray(amounts[way])
        # `Scale.of` of the others, for all videos at once.
        mean = (values.sum() - values) / (number - 1)
        squares = np.maximum((values**2).sum() - values**2 - (number - 1) * mean**2, 0)
        spread: Any = np.sqrt((squares + PRIOR * prior**2) / (number - 2 + PRIOR))
        scales[way] = Scale(mean, spread, number - 1)
    return np.asarray(sum(contributions(amounts, scales).values()))


def find_limit(totals: Any, rate: float) -> float:
    """Total that a share `rate` of normal videos exceeds, from the totals of normal videos."""
    scale = Scale.of(totals, TOTAL_SPREAD) if len(totals) else Scale(0.0, TOTAL_SPREAD, 0)
    return scale.exceeded_by(rate)


def promised_rate(videos: int, requested: float) -> float:
    """False-alarm rate of the limit: the requested rate, or what so few videos can support.

    It is 1 / (n + 1): that often, a new video is the most unusual of all.

    >>> round(promised_rate(8, 0.05), 3)
    0.111
    """
    return max(requested, 1 / (videos + 1))


def stand_out(amounts: Mapping[str, Any], candidates: Iterable[int]) -> list[int]:
    """Those of the `candidates` that stand out from all videos, the most unusual first."""
    number = len(next(iter(amounts.values())))
    if number < MOST_ASIDE:
        return []
    totals = np.asarray(sum(contributions(amounts, learn_scales(amounts, robust=True)).values()))
    usual = Scale.robust(totals, TOTAL_SPREAD)
    limit = usual.middle + STANDS_OUT * usual.spread
    beyond = sorted((p for p in candidates if totals[p] > limit), key=lambda p: -totals[p])
    return beyond[: number // MOST_ASIDE]


class Copy(NamedTuple):
    """An altered copy of a reference video."""

    of: Count
    """Place of the reference video."""
    amounts: tuple[Amount, Amount, Amount, Amount, Amount]
    """Its amounts, in the order of `MEASURES`."""
    least: Share
    """Probability of the least likely invariant step."""
    gone: int = -1
    """The removed step; -1 if none was."""
    likely: Share = 1.0
    """Probability of the removed step."""


def find_copies(
    copies: Sequence[Copy], amounts: Mapping[str, Floats], normal: Sequence[int], rate: float
) -> NDArray[np.bool_]:
    """Whether each copy exceeds the limit of the `normal` videos without its original, (m,)."""
    of, found = np.array([one.of for one in copies]), np.zeros(len(copies), dtype=bool)
    for place in np.unique(of):
        if others := [p for p in normal if p != place]:
            rest = {way: values[others] for way, values in amounts.items()}
            columns = zip(*(one.amounts for one in copies if one.of == place), strict=True)
            new = {way: np.array(own) for way, own in zip(MEASURES, columns, strict=True)}
            totals = sum(contributions(new, learn_scales(rest)).values())
            found[of == place] = totals > find_limit(held_out_totals(rest), rate)
    return found
