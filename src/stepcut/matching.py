"""The one-to-one matching of two sets of steps, clusters or boundaries."""

from typing import Any

from numpy.typing import NDArray


def best_pairs(gain: NDArray[Any], least: float = 0.0) -> list[tuple[int, int]]:
    """Return the pairs (row, column) with the highest total `gain`, without those up to `least`.

    >>> import numpy as np
    >>> best_pairs(np.array([[3, 2], [2, 0]]))
    [(0, 1), (1, 0)]
    """
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(gain, maximize=True)
    pairs = zip(rows.tolist(), columns.tolist(), strict=True)
    return [(row, column) for row, column in pairs if gain[row, column] > least]
