"""The number of steps without labels: what is usual for videos of this length, and how distinct the steps are."""

from collections.abc import Callable, Sequence

import numpy as np

from stepcut.methods.arithmetic import Floats
from stepcut.methods.learned import Choice
from stepcut.methods.stepcut.restarts import Search

USUAL, GROWTH = 1.31, 0.35
"""Videos of S seconds usually have USUAL S^GROWTH steps: fitted to nine recipes, surgical knots and toy kitchens; how
each fares when judged by the others is in benchmarks/reports/recipes.md."""
DOUBT = 4.0
"""What half or twice the usual number must make up for in silhouette, as a share of the best."""
LEAST = 3
"""Fewer steps than this are no procedure, and two are always distinct: before and after."""
RESTARTS = 9
"""Restarts per number tried."""
FLAT = 0.1
"""Where the silhouettes of all numbers tried differ by no more than this share, they do not tell the number."""


def usual_count(videos: Sequence[Floats], rate: float) -> float:
    """The number of steps that videos (T, d) of this length usually have; `rate` is rows per second."""
    seconds = float(np.median([len(rows) for rows in videos])) / rate
    return float(max(LEAST, USUAL * seconds**GROWTH))


def score_counts(tried: Floats, silhouettes: Floats, usual: float) -> Floats:
    """silhouette(K) / max silhouette - DOUBT log2(K / usual)^2  for every number tried."""
    return np.asarray(
        silhouettes / max(silhouettes.max(), 1e-9) - DOUBT * np.log2(tried / usual) ** 2
    )


def choose_count(
    videos: Sequence[Floats],
    rate: float,
    make: Callable[[int], Search],
    limits: tuple[int, int] | None = None,
    advance: Callable[[], None] = lambda: None,
) -> Choice:
    """Try numbers of steps around the usual one, or between `limits`; take the one with the best score.

    The silhouette of a number is the mean over the better half of its restarts. See `score_counts`. `make` gives the
    search for a number; `advance` is called after each.
    """
    usual = typical = usual_count(videos, rate)
    rows = sum(map(len, videos))
    if limits is None:
        tried = sorted(
            {max(LEAST, round(usual * factor)) for factor in (0.75, 0.87, 1, 1.15, 1.33)}
        )
        fewest, most = LEAST, max(LEAST, rows // 4)
    else:
        fewest, high = limits
        usual, most = float(np.clip(usual, fewest, high)), rows
        tried = sorted({round(fewest * (high / fewest) ** (place / 6)) for place in range(7)})
    tried = [count for count in tried if count <= most] or [fewest]
    silhouettes = []
    for count in tried:
        found = np.sort(make(count).run_restarts(videos).silhouettes)
        silhouettes.append(float(found[-max(1, len(found) // 2) :].mean()))
        advance()
    scores = score_counts(np.array(tried, dtype=np.float64), np.array(silhouettes), usual)
    count = tried[int(np.argmax(scores))]
    return Choice(
        count,
        np.column_stack([tried, scores]).astype(np.float64),
        _reason(count, tried, silhouettes, typical),
    )


def _reason(count: int, tried: Sequence[int], silhouettes: Sequence[float], usual: float) -> str:
    reason = f"{count} steps: about {usual:.0f} are usual for videos of this length"
    if len(tried) == 1:
        return reason
    best, worst = max(silhouettes), min(silhouettes)
    if best - worst <= FLAT * max(best, 1e-9):
        return (
            f"{reason}, and the features do not tell: {tried[0]} to {tried[-1]} steps are about as distinct. "
            "If you know the number, give it; one too many is merged with a click"
        )
    clearest = tried[int(np.argmax(silhouettes))]
    return (
        f"{reason}, and of {tried[0]} to {tried[-1]} steps tried, {clearest} are the most distinct"
    )
