"""The number of steps that videos of some length usually have."""

from collections.abc import Sequence

import numpy as np

USUAL, GROWTH = 1.31, 0.35
"""Videos of S seconds usually have USUAL S^GROWTH steps: fitted to nine recipes, surgical knots and toy kitchens."""
LEAST = 3
"""Fewer steps than this are not a procedure."""


def choose_count(
    lengths: Sequence[int], rate: float, limits: tuple[int, int] | None = None
) -> tuple[int, str]:
    """The usual number of steps of videos of so many rows, `rate` a second, and why; within `limits` where given.

    Features do not reveal the number: several ways to choose it from them were no better on test recipes.
    """
    seconds = float(np.median(lengths)) / rate
    usual = USUAL * seconds**GROWTH
    low, high = limits or (LEAST, max(LEAST, sum(lengths) // 4))
    count = int(np.clip(round(usual), low, high))
    count = max(1, min(count, sum(lengths)))
    reason = f"{count} steps, usual for videos of {seconds:.0f} s"
    if limits is not None and count != round(usual):
        reason = (
            f"{count} steps, within {low} to {high}; {round(usual)} are usual for {seconds:.0f} s"
        )
    return count, reason
