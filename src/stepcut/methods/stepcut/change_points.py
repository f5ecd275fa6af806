"""Change points: divide one video into segments of similar rows, by exact dynamic programming."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import OptionError
from stepcut.jit import compiled_later


def find_change_points(
    rows: NDArray[Any], count: int, shortest: int = 1, longest: int | None = None
) -> NDArray[np.int64]:
    """Bounds (count + 1,) of the segments of one video (T, d) that lie closest to their means.

    They minimise  sum over segments of sum over t in segment |x_t - mean|^2  and have `shortest` to `longest` rows.

    >>> find_change_points(np.repeat([[0.0], [1.0], [5.0]], [4, 2, 3], axis=0), 3).tolist()
    [0, 4, 6, 9]
    """
    frames = len(rows)
    limit = frames if longest is None else min(longest, frames)
    if not (count >= 1 and shortest >= 1 and count * shortest <= frames <= count * limit):
        raise OptionError(
            f"{frames} rows cannot be divided into {count} segments of {shortest} to {limit} rows; ask for fewer.",
            setting="steps",
            value=count,
        )
    return _cut(np.ascontiguousarray(rows, dtype=np.float64), count, shortest, limit)


@compiled_later
def _cut(rows: NDArray[np.float64], count: int, shortest: int, longest: int) -> NDArray[np.int64]:
    """best_n(e) = min over length L of  best_{n-1}(e - L) + cost(e - L, e)."""
    frames, dim = rows.shape
    first, second = np.zeros((frames + 1, dim)), np.zeros(frames + 1)  # sums of x and |x|^2
    for t in range(frames):
        square = 0.0
        for j in range(dim):
            first[t + 1, j] = first[t, j] + rows[t, j]
            square += rows[t, j] ** 2
        second[t + 1] = second[t] + square
    cost = np.full((frames + 1, longest + 1), np.inf)
    for end in range(1, frames + 1):
        for length in range(shortest, min(longest, end) + 1):
            square = 0.0
            for j in range(dim):
                square += (first[end, j] - first[end - length, j]) ** 2
            # sum |x - mean|^2 = sum |x|^2 - |sum x|^2 / L
            cost[end, length] = second[end] - second[end - length] - square / length
    best = np.full(frames + 1, np.inf)
    best[0] = 0.0
    chosen = np.zeros((count, frames + 1), dtype=np.int32)
    for n in range(count):
        better = np.full(frames + 1, np.inf)
        for end in range(shortest, frames + 1):
            for length in range(shortest, min(longest, end) + 1):
                value = best[end - length] + cost[end, length]
                if value < better[end]:
                    better[end] = value
                    chosen[n, end] = length
        best = better
    bounds = np.zeros(count + 1, dtype=np.int64)
    bounds[count] = frames
    for n in range(count - 1, -1, -1):
        bounds[n] = bounds[n + 1] - chosen[n, bounds[n + 1]]
    return bounds
