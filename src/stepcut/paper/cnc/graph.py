"""The energy of one video: exact minimum on a chain, alpha-expansion on any graph.

With a cost per frame and step, a weight per link, and the distance V of two steps, which is [k !=
l] (Potts) or a metric `apart (K, K)`, labels x have the energy

    E(x) = sum_t unary[t, x_t] + sum_(t,s) weight_ts V(x_t, x_s)

In a move of alpha-expansion (Boykov, Veksler, Zabih 2001) every frame keeps its label (source side
of a minimum cut) or takes alpha, until no label lowers the energy: with Potts, at most twice the
minimum.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepcut.compute import compiled_later

# Half of SciPy's integer range: a residual is a capacity plus the opposite flow
CAPACITY = 2**30 - 1


def energy(
    unary: ArrayLike,
    links: ArrayLike,
    weights: ArrayLike,
    labels: ArrayLike,
    apart: NDArray[np.float64] | None = None,
) -> np.float64:
    """E(x) of `labels (T,)`, for links e = (a, b); `weights (E,)` or one number."""
    costs, x = np.asarray(unary), np.asarray(labels)
    a, b = np.asarray(links, dtype=np.int64).reshape(-1, 2).T
    data = costs[np.arange(len(costs)), x].sum(dtype=np.float64)
    changes = x[a] != x[b] if apart is None else apart[x[a], x[b]]
    return np.float64(data + (weights * changes).sum())


def chain(unary: ArrayLike, weights: ArrayLike) -> NDArray[np.int64]:
    """Labels (T,) of minimum energy where frame t is linked to t + 1 only.

    `unary (T, K)` may be infinite: that step is forbidden. `weights (T - 1,)`, or one number.
    """
    costs = np.asarray(unary)
    costs = costs if costs.dtype == np.float32 else costs.astype(np.float64)
    strength = np.broadcast_to(np.asarray(weights, dtype=np.float64), len(costs) - 1)
    return _chain(np.ascontiguousarray(costs), np.ascontiguousarray(strength))


@compiled_later
def _chain(unary: NDArray[Any], weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """best_t(k) = unary_t(k) + min(best_{t-1}(k), min_j best_{t-1}(j) + w)."""
    frames, steps = unary.shape
    best = unary[0].astype(np.float64)
    cheapest = np.zeros(frames, dtype=np.int32)  # the cheapest step at the previous frame
    stays = np.ones((frames, steps), dtype=np.bool_)
    for t in range(1, frames):
        at = np.argmin(best)
        cheapest[t] = at
        # Relative to the cheapest: sums over a million frames stay precise.
        base, change = best[at], weights[t - 1]
        for k in range(steps):
            keep = best[k] - base
            if change < keep:
                stays[t, k] = False
                keep = change
            best[k] = unary[t, k] + keep
    labels = np.empty(frames, dtype=np.int64)
    step = np.argmin(best)
    for t in range(frames - 1, -1, -1):
        labels[t] = step
        if not stays[t, step]:
            step = cheapest[t]
    return labels


def expand(
    unary: ArrayLike,
    links: ArrayLike,
    weights: ArrayLike,
    start: ArrayLike | None = None,
    apart: NDArray[np.float64] | None = None,
) -> NDArray[np.int64]:
    """Labels (T,) that no move improves, from the cheapest of every frame or `start (T,)`."""
    costs, pairs = np.asarray(unary), np.asarray(links, dtype=np.int64).reshape(-1, 2)
    strength = np.broadcast_to(np.asarray(weights, dtype=np.float64), len(pairs))
    labels = np.argmin(costs, axis=1) if start is None else np.asarray(start, dtype=np.int64)
    metric = 1.0 - np.eye(costs.shape[1]) if apart is None else apart
    lowest = energy(costs, pairs, strength, labels, metric)
    alpha, quiet = 0, 0
    while quiet < costs.shape[1]:  # ends after one pass without a move
        moved = _move(costs, pairs, strength, metric, labels, alpha)
        reached = energy(costs, pairs, strength, moved, metric)
        # Capacities are rounded, the energy is not: comparing it guarantees termination.
        if reached < lowest:
            labels, lowest, quiet = moved, reached, 0
        quiet += 1
        alpha = (alpha + 1) % costs.shape[1]
    return labels


def window_links(
    frames: int, window: float, rate: float, cost: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Link frames up to `window` seconds apart, at least neighbours: links (E, 2), weights (E,).

    Weights w(D) of frames D apart fall linearly to 0 just past the window. One lasting change
    costs `cost` for any window and rate: sum_D D * w(D) = cost, as D links cross a boundary.
    """
    reach = max(1, int(window * rate + 1e-9))  # in frames; 0.1 * 30 = 2.9999...
    apart = np.arange(1, reach + 1)
    fall = 1 - apart / (reach + 1)
    fall *= cost / (fall @ apart)
    near = [d for d in apart if d < frames]
    links = np.concatenate(
        [np.stack([np.arange(frames - d), np.arange(d, frames)], axis=1) for d in near]
        or [np.empty((0, 2), dtype=np.int64)]
    )
    return links.astype(np.int64), np.repeat(fall[: len(near)], [frames - d for d in near])


def _move(
    unary: NDArray[Any],
    links: NDArray[np.int64],
    weights: NDArray[np.float64],
    apart: NDArray[np.float64],
    labels: NDArray[np.int64],
    alpha: int,
) -> NDArray[np.int64]:
    """Best labels that a move to alpha reaches, up to the rounding of capacities."""
    free = np.flatnonzero(labels != alpha)
    if len(free) == 0:
        return labels
    place = np.full(len(labels), -1)
    place[free] = np.arange(len(free))
    take = unary[free, alpha].astype(np.float64)
    keep = unary[free, labels[free]].astype(np.float64)

    a, b = place[links[:, 0]], place[links[:, 1]]
    to_alpha = apart[labels, alpha]
    # A link to a frame that already has alpha costs w V if the other end keeps its label.
    for end, other in ((a, b), (b, a)):
        lone = (end >= 0) & (other < 0)
        cost = weights[lone] * to_alpha[free[end[lone]]]
        keep += np.bincount(end[lone], cost, minlength=len(free))
    both = (a >= 0) & (b >= 0) & (a != b)
    a, b, w = a[both], b[both], weights[both]
    stay, first, second = (
        apart[labels[free[a]], labels[free[b]]],
        to_alpha[free[a]],
        to_alpha[free[b]],
    )
    # Kept by both: w stay. Kept by one: w first or w second. Taken by both: 0. That is, up to a
    # constant, w (stay - second) if a keeps, w second if b keeps, and if a keeps and b takes
    # w (first + second - stay), which is not negative, because V is a metric.
    keep += np.bincount(a, w * (stay - second), minlength=len(free))
    keep += np.bincount(b, w * second, minlength=len(free))
    takes = _cut(take - keep, a, b, w * (first + second - stay))
    moved = labels.copy()
    moved[free[takes]] = alpha
    return moved


def _cut(
    gap: NDArray[np.float64],
    tails: NDArray[np.int64],
    heads: NDArray[np.int64],
    weights: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Which nodes lie on the sink side of the minimum cut; `gap` (n,): cost of sink less source."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    count = len(gap)
    source, sink = count, count + 1
    up, down = np.flatnonzero(gap > 0), np.flatnonzero(gap < 0)
    # The flow is at most what leaves the source or enters the sink: larger weights are never cut.
    most = min(gap[up].sum(), -gap[down].sum())
    if most <= 0:
        return np.full(count, len(up) == 0)
    rows = np.concatenate([np.full(len(up), source), down, tails])
    columns = np.concatenate([up, np.full(len(down), sink), heads])
    room = np.concatenate([gap[up], -gap[down], weights])
    size = count + 2
    graph = coo_matrix((room, (rows, columns)), shape=(size, size)).tocsr()  # sums duplicates
    graph.data = np.rint(np.minimum(graph.data / most, 1) * (CAPACITY - count)).astype(np.int32)
    flow = maximum_flow(graph, source, sink).flow
    left = graph - flow
    left.eliminate_zeros()
    kept = breadth_first_order(left, source, return_predecessors=False)
    takes = np.ones(size, dtype=bool)
    takes[kept] = False
    return takes[:count]
