"""Alpha-expansion (Boykov, Veksler, Zabih 2001) on any Potts graph, over SciPy's maximum flow.

One move lets every frame keep its label or take alpha, all at once and optimally: a minimum cut. The source's side
keeps, the sink's side takes. Moves go round the labels until a full round brings nothing; the result is then at most
twice the lowest energy there is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepcut.errors import FeatureError
from stepcut.methods.cnc.graph.energy import Unary, check_links, check_unary, total_energy

CAPACITY = 2**30 - 1
"""Half of what SciPy can count: what is left of an arc is its capacity plus the flow against it."""


def expand(unary: ArrayLike, links: ArrayLike, weights: ArrayLike, start: ArrayLike | None = None) -> NDArray[np.int64]:
    """Labels (T,) that no single move can better: `unary (T, K)`, `links (E, 2)`, `weights (E,)` or one number.

    It begins from the cheapest label of every frame, or from `start (T,)`.
    """
    costs = check_unary(unary)
    if not np.isfinite(costs).all():
        raise FeatureError("unary holds infinity; alpha-expansion needs finite costs. Use a large number instead.")
    pairs, strength = check_links(links, weights, len(costs))
    labels = np.argmin(costs, axis=1) if start is None else np.array(start, dtype=np.int64)
    lowest = total_energy(costs, pairs, strength, labels)
    alpha, quiet = 0, 0
    while quiet < costs.shape[1]:  # a full round without a move ends it
        moved = _move(costs, pairs, strength, labels, alpha)
        reached = total_energy(costs, pairs, strength, moved)
        # Capacities are rounded, the energy is not: only what truly lowers it counts, so it must end.
        if reached < lowest:
            labels, lowest, quiet = moved, reached, 0
        quiet += 1
        alpha = (alpha + 1) % costs.shape[1]
    return labels


def _move(
    unary: Unary, links: NDArray[np.int64], weights: NDArray[np.float64], labels: NDArray[np.int64], alpha: int
) -> NDArray[np.int64]:
    """The best labels that a move to alpha can reach, up to the rounding of capacities."""
    free = np.flatnonzero(labels != alpha)
    if len(free) == 0:
        return labels
    place = np.full(len(labels), -1)
    place[free] = np.arange(len(free))
    take = unary[free, alpha].astype(np.float64)
    keep = unary[free, labels[free]].astype(np.float64)

    a, b = place[links[:, 0]], place[links[:, 1]]
    # A link to a frame that has alpha already costs w when the other end keeps.
    for end, other in ((a, b), (b, a)):
        lone = (end >= 0) & (other < 0)
        keep += np.bincount(end[lone], weights[lone], minlength=len(free))
    both = (a >= 0) & (b >= 0) & (a != b)
    a, b, w = a[both], b[both], weights[both]
    same = labels[free[a]] == labels[free[b]]
    # Equal labels: w when one takes and the other keeps, either way round. Different labels: w unless both take,
    # which is w (b keeps) + w (a keeps, b takes).
    keep += np.bincount(b[~same], w[~same], minlength=len(free))
    tails, heads = np.concatenate([a, b[same]]), np.concatenate([b, a[same]])
    takes = _cut(take - keep, tails, heads, np.concatenate([w, w[same]]))
    moved = labels.copy()
    moved[free[takes]] = alpha
    return moved


def _cut(
    gap: NDArray[np.float64], tails: NDArray[np.int64], heads: NDArray[np.int64], weights: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Which nodes end on the sink's side of the minimum cut: `gap` (n,) is the cost of that side less the other's."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    count = len(gap)
    source, sink = count, count + 1
    up, down = np.flatnonzero(gap > 0), np.flatnonzero(gap < 0)
    # No more can flow than leaves the source or enters the sink; larger weights than that are never cut.
    most = min(gap[up].sum(), -gap[down].sum())
    if most <= 0:
        return np.full(count, len(up) == 0)
    rows = np.concatenate([np.full(len(up), source), down, tails])
    columns = np.concatenate([up, np.full(len(down), sink), heads])
    room = np.concatenate([gap[up], -gap[down], weights])
    graph = coo_matrix((room, (rows, columns)), shape=(count + 2, count + 2)).tocsr()  # adds up what joins twice
    graph.data = np.rint(np.minimum(graph.data / most, 1) * (CAPACITY - count)).astype(np.int32)
    flow = maximum_flow(graph, source, sink).flow
    left = graph - flow
    left.eliminate_zeros()
    kept = breadth_first_order(left, source, return_predecessors=False)
    takes = np.ones(count + 2, dtype=bool)
    takes[kept] = False
    return takes[:count]
