"""The graph of one video: its Potts energy, the exact minimum on a chain, alpha-expansion on any
graph.

The energy of labels x, with a cost per frame and step and a weight per link:

    E(x) = sum_t unary[t, x_t] + sum_(t,s) weight_ts [x_t != x_s]

Alpha-expansion (Boykov, Veksler, Zabih 2001), over SciPy's maximum flow: one move lets every frame
keep its label or take alpha, all at once and optimally, a minimum cut. The source's side keeps, the
sink's side takes. Moves go round the labels until a full round brings nothing; the result is then
at most twice the lowest energy there is."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepcut.errors import FeatureError, OptionError
from stepcut.jit import compiled_later

Unary = NDArray[np.float64] | NDArray[np.float32]

CAPACITY = 2**30 - 1
"""Half of what SciPy can count: what is left of an arc is its capacity plus the flow against it."""


def energy(unary: ArrayLike, links: ArrayLike, weights: ArrayLike, labels: ArrayLike) -> float:
    """E(x) = sum_t unary[t, x_t] + sum_e weights[e] [x_a != x_b], link e joining frames a and b.

    `unary (T, K)`, `links (E, 2)`, `weights (E,)` or one number, `labels (T,)`.

    >>> energy([[0.0, 1.0], [0.5, 0.0]], [[0, 1]], [0.2], [0, 1])
    0.2
    """
    costs, pairs, strength = _check(unary, weights, links)
    return float(_energy(costs, pairs, strength, _check_labels(labels, costs, "labels")))


def chain(unary: ArrayLike, weights: ArrayLike) -> NDArray[np.int64]:
    """The labels (T,) of lowest energy where frame t is linked to t + 1 only.

    `unary (T, K)`; `weights (T - 1,)`, the cost of a change between t and t + 1, or one number for
    all.

    >>> chain([[0, 1], [0.6, 0.4], [0, 1]], 0.2).tolist()
    [0, 0, 0]
    """
    costs, _, strength = _check(unary, weights)
    labels = _chain(costs, strength)
    if labels[0] < 0:
        what = "unary holds NaN, minus infinity, or a frame without any finite cost"
        raise FeatureError(f"{what}. Infinity may forbid some steps of a frame, not all.")
    return labels


@compiled_later
def _chain(unary: NDArray[Any], weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """best_t(k) = unary_t(k) + min(best_{t-1}(k), min_j best_{t-1}(j) + w): stay, or come from the
    cheapest."""
    frames, steps = unary.shape
    best = unary[0].astype(np.float64)
    cheapest = np.zeros(
        frames, dtype=np.int32
    )  # the step it is cheapest to come from, at the frame before
    stays = np.ones((frames, steps), dtype=np.bool_)
    for t in range(1, frames):
        at = np.argmin(best)
        cheapest[t] = at
        # Kept relative to the cheapest, so that sums over a million frames lose no digits.
        base, change = best[at], weights[t - 1]
        for k in range(steps):
            keep = best[k] - base
            if change < keep:
                stays[t, k] = False
                keep = change
            best[k] = unary[t, k] + keep
    labels = np.full(frames, -1, dtype=np.int64)
    step = np.argmin(best)
    if not np.isfinite(best[step]) or np.isnan(best).any():  # NaN, once met, stays to the end
        return labels
    for t in range(frames - 1, -1, -1):
        labels[t] = step
        if not stays[t, step]:
            step = cheapest[t]
    return labels


def expand(
    unary: ArrayLike, links: ArrayLike, weights: ArrayLike, start: ArrayLike | None = None
) -> NDArray[np.int64]:
    """Labels (T,) that no single move can better: `unary (T, K)`, `links (E, 2)`, `weights (E,)` or
    one number.

    It begins from the cheapest label of every frame, or from `start (T,)`.
    """
    costs, pairs, strength = _check(unary, weights, links)
    if not np.isfinite(costs).all():
        raise FeatureError(
            "unary holds infinity; alpha-expansion needs finite costs. Use a large number instead."
        )
    labels = np.argmin(costs, axis=1) if start is None else _check_labels(start, costs, "start")
    lowest = _energy(costs, pairs, strength, labels)
    alpha, quiet = 0, 0
    while quiet < costs.shape[1]:  # a full round without a move ends it
        moved = _move(costs, pairs, strength, labels, alpha)
        reached = _energy(costs, pairs, strength, moved)
        # Capacities are rounded, the energy is not: only what truly lowers it counts, so it must
        # end.
        if reached < lowest:
            labels, lowest, quiet = moved, reached, 0
        quiet += 1
        alpha = (alpha + 1) % costs.shape[1]
    return labels


def window_links(
    frames: int, window: float, rate: float, cost: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Links (E, 2) between frames up to `window` seconds apart, at least neighbours, and their
    weights (E,).

    The weight falls linearly to 0 just past the window. All weights together are such that one
    change that lasts costs `cost` whatever the window and the rate: D frames apart lie D links
    across every cut, so sum_D D * w(D) = cost. A window of one frame is the chain with weights
    `cost`."""
    reach = max(
        1, int(window * rate + 1e-9)
    )  # in frames; the small number forgives 0.1 * 30 = 2.9999...
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
    unary: Unary,
    links: NDArray[np.int64],
    weights: NDArray[np.float64],
    labels: NDArray[np.int64],
    alpha: int,
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
    # Equal labels: w when one takes and the other keeps, either way round. Different labels: w
    # unless both take, which is w (b keeps) + w (a keeps, b takes).
    keep += np.bincount(b[~same], w[~same], minlength=len(free))
    tails, heads = np.concatenate([a, b[same]]), np.concatenate([b, a[same]])
    takes = _cut(take - keep, tails, heads, np.concatenate([w, w[same]]))
    moved = labels.copy()
    moved[free[takes]] = alpha
    return moved


def _cut(
    gap: NDArray[np.float64],
    tails: NDArray[np.int64],
    heads: NDArray[np.int64],
    weights: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Which nodes end on the sink's side of the minimum cut: `gap` (n,) is the cost of that side
    less the other's."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    count = len(gap)
    source, sink = count, count + 1
    up, down = np.flatnonzero(gap > 0), np.flatnonzero(gap < 0)
    # No more can flow than leaves the source or enters the sink; larger weights than that are never
    # cut.
    most = min(gap[up].sum(), -gap[down].sum())
    if most <= 0:
        return np.full(count, len(up) == 0)
    rows = np.concatenate([np.full(len(up), source), down, tails])
    columns = np.concatenate([up, np.full(len(down), sink), heads])
    room = np.concatenate([gap[up], -gap[down], weights])
    graph = coo_matrix(
        (room, (rows, columns)), shape=(count + 2, count + 2)
    ).tocsr()  # adds up what joins twice
    graph.data = np.rint(np.minimum(graph.data / most, 1) * (CAPACITY - count)).astype(np.int32)
    flow = maximum_flow(graph, source, sink).flow
    left = graph - flow
    left.eliminate_zeros()
    kept = breadth_first_order(left, source, return_predecessors=False)
    takes = np.ones(count + 2, dtype=bool)
    takes[kept] = False
    return takes[:count]


def _energy(
    unary: Unary,
    links: NDArray[np.int64],
    weights: NDArray[np.float64],
    labels: NDArray[np.integer[Any]],
) -> np.float64:
    """The same for arrays that have been checked."""
    data = unary[np.arange(len(unary)), labels].sum(dtype=np.float64)
    return np.float64(data + weights[labels[links[:, 0]] != labels[links[:, 1]]].sum())


def _check_labels(given: ArrayLike, unary: Unary, name: str) -> NDArray[np.int64]:
    """Labels (T,), a step of `unary` (T, K) for each frame; an error calls them `name`."""
    labels, (frames, steps) = np.asarray(given), unary.shape
    if (
        labels.shape != (frames,)
        or labels.dtype.kind not in "iu"
        or not 0 <= labels.min() <= labels.max() < steps
    ):
        what = f"{name} has shape {labels.shape} and holds {labels.dtype}"
        raise FeatureError(f"{what}; expected are {frames} whole numbers, 0 to {steps - 1}.")
    return labels.astype(np.int64)


def _check(
    unary: ArrayLike, weights: ArrayLike, links: ArrayLike | None = None
) -> tuple[Unary, NDArray[np.int64], NDArray[np.float64]]:
    """Costs (T, K), contiguous; links (E, 2), none where they are left out; weights (E,), one
    number stands for all."""
    costs = np.asarray(unary)
    if costs.ndim != 2 or 0 in costs.shape or costs.dtype.kind not in "fiu":
        what = f"unary is {costs.dtype} of shape {costs.shape}"
        raise FeatureError(f"{what}; expected is (T, K), a cost per frame and step.")
    pairs = np.asarray([] if links is None else links)
    pairs = pairs.astype(np.int64).reshape(0, 2) if pairs.size == 0 else pairs
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        what = f"links is {pairs.dtype} of shape {pairs.shape}"
        raise FeatureError(f"{what}; expected is (E, 2), two frame numbers each.")
    if len(pairs) and not 0 <= pairs.min() <= pairs.max() < len(costs):
        raise FeatureError(
            f"links join frames {pairs.min()} to {pairs.max()}; there are frames 0 to "
            f"{len(costs) - 1}."
        )
    count = len(costs) - 1 if links is None else len(pairs)
    strength = np.asarray(weights, dtype=np.float64)
    strength = np.full(count, strength) if strength.ndim == 0 else np.ascontiguousarray(strength)
    if strength.shape != (count,):
        raise FeatureError(
            f"weights has shape {strength.shape}; expected is one number or ({count},), one per "
            "link."
        )
    if count and not strength.min() >= 0:  # a Potts weight below 0 has no cut
        raise OptionError(
            f"weights go down to {strength.min()}; allowed are numbers of at least 0. Raise them."
        )
    kind: Any = np.float32 if costs.dtype == np.float32 else np.float64
    return np.ascontiguousarray(costs, dtype=kind), pairs.astype(np.int64), strength
