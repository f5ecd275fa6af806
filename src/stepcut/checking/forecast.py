"""Forecast: what a check would find of the deviations that are planted in the videos learned from (`simulate.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.checking.observe import Floats
from stepcut.checking.score import BELIEVED, find_limit, learn_scales, total_worth, worths, worths_beside


@dataclass(frozen=True)
class Planted:
    """Videos with one kind of deviation planted in them."""

    of: tuple[int, ...]
    """Which of the videos learned from each was made of."""
    amounts: dict[str, tuple[float, ...]]
    """For each way of straying, by how much each of them strays."""

    @classmethod
    def gather(cls, changed: Sequence[tuple[int, Mapping[str, float]]]) -> Planted:
        """From the video that each was `changed` from, and by how much it strays in each way."""
        amounts = {way: tuple(one[way] for _, one in changed) for way in BELIEVED}
        return cls(tuple(place for place, _ in changed), amounts)

    def among(self, kept: Sequence[int]) -> Planted:
        """Those that were made of the videos `kept`, which are numbered anew."""
        place = {old: new for new, old in enumerate(kept)}
        mine = [row for row, video in enumerate(self.of) if video in place]
        amounts = {way: tuple(values[row] for row in mine) for way, values in self.amounts.items()}
        return Planted(tuple(place[self.of[row]] for row in mine), amounts)


def is_found(planted: Planted, amounts: Mapping[str, Any], false_alarms: float) -> NDArray[np.bool_]:
    """Whether each changed video would be called wrong, in the place of the one that it was made of, (m, 2): where all
    evidence is summed, and where steps may decide alone.

    planted       the changed videos
    amounts       for each way of straying, by how much the videos learned from stray
    false_alarms  the share of normal videos that may be called wrong
    """
    found = np.zeros((len(planted.of), 2), dtype=bool)
    alone_there = len(next(iter(amounts.values()))) < 2  # nothing is left to compare with
    for place in () if alone_there else sorted(set(planted.of)):
        rest: dict[str, Floats] = {way: np.delete(values, place) for way, values in amounts.items()}
        scales = learn_scales(rest)
        for row in (row for row, video in enumerate(planted.of) if video == place):
            new = {way: values[row] for way, values in planted.amounts.items()}
            worth, beside = worths(new, scales), worths_beside(rest, new)
            for alone in (False, True):
                limit = find_limit(total_worth(beside, alone), false_alarms)
                found[row, int(alone)] = total_worth(worth, alone) > limit
    return found
