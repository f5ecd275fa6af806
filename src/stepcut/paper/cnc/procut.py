"""The segmenters of the paper: ProCut, and the subset selection that it is compared with.

ProCut turns fuzzy memberships u into costs, and cuts one graph per video:

    E(x) = sum_t (1 - u[t, x_t] + prior |t/T - x_t/K|) + sum_(t,s) w(|t - s|) [x_t != x_s]
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepcut.methods.arithmetic import FUZZIFIER, TINY, fuzzy_shares, squared_distances
from stepcut.methods.baselines import CentreMethod, KMeans, find_means, time_cost
from stepcut.methods.constraints import Constraints
from stepcut.methods.inputs import Array, Labels, Rows
from stepcut.parallel import compiled_later
from stepcut.settings import check_number, setting

SMOOTHNESS = 2.0  # Seconds, tuned on toy features and CaptainCook4D recipes


@dataclass(eq=False, repr=False)
class ProCut(CentreMethod):
    """Fuzzy c-means over the frames of all videos, then one graph cut per video."""

    smoothness: float = setting(
        SMOOTHNESS,
        "Cost of a change of step, in seconds spent in a step that is certainly wrong.",
        0,
    )
    window: float = setting(
        0.0, "Largest distance of linked frames, in seconds. 0 links neighbours only.", 0, 3600
    )
    m: float = setting(FUZZIFIER, "Fuzzifier of the memberships.", 1, above=True)
    restarts: int = setting(5, "Number of starts of fuzzy c-means.", 1, 10_000)
    solver: Literal["exact", "expansion"] = setting(
        "exact",
        '"exact" solves the chain exactly; "expansion" is the alpha-expansion of the paper.',
    )
    change: Literal["equal", "numbers"] = setting(
        "equal",
        '"equal": any change of step costs the same; "numbers": k to l costs |k - l| / K of that.',
    )
    join_videos: bool = setting(
        False,
        "Cut all videos as one, with a link from each to the next, as the authors' code does.",
    )

    def learn(self, videos: list[Array]) -> None:
        if self.change == "numbers":  # as their code numbers them: in any order
            self.centres_ = self._find_centres(videos)
        else:
            super().learn(videos)

    def _find_centres(self, videos: list[Array]) -> Rows:
        rows = self._stack(videos)
        return fuzzy_c_means(
            rows, self.count, self.m, self.seed, restarts=self.restarts, overwrite=True
        )[1]

    def shares(self, rows: Array) -> Rows:
        return memberships(self._prepare(rows), self.centres_, self.m, overwrite=True)

    def label(self, videos: list[Array]) -> list[Labels]:
        if not self.join_videos:
            return super().label(videos)
        ends = np.cumsum([len(video) for video in videos])[:-1]
        return np.split(self.segment(np.concatenate(videos)), ends)

    def segment(self, rows: Array) -> Labels:
        """Exact on the chain, alpha-expansion for a wider window."""
        cost: Array = 1 - self.shares(rows)
        if self.prior > 0:
            cost = cost + self.prior * time_cost(*cost.shape)
        # One second has `rate` frames, so `smoothness` seconds cost smoothness * rate.
        change = float(self.smoothness * self.rate)
        links, weights = window_links(len(rows), self.window, float(self.rate), change)
        if self.change == "numbers":
            numbers = np.arange(self.count)
            apart = np.abs(numbers[:, None] - numbers) / self.count
            return expand(cost, links, weights, apart=apart)
        if self.solver == "expansion":
            return expand(cost, links, weights)
        labels = chain(cost, change)
        # A window below two frames links neighbours only: the chain is exact.
        return labels if self.window * self.rate < 2 else expand(cost, links, weights, start=labels)


@dataclass(eq=False, repr=False)
class Subset(KMeans):
    """k-means to `states` states, then greedy choice of `steps` of them."""

    restarts: int = setting(1, "Number of starts of k-means.", 1, 10_000)
    states: int | None = setting(None, "Number of states. None: 10 per step.", 1)

    def check_settings(self, constraints: Constraints | None = None) -> None:
        super().check_settings(constraints)
        if self.states is not None:
            check_number("states", self.states, self.count, whole=True)

    def _choose_centres(self, rows: Rows) -> Rows:
        wanted = 10 * self.count if self.states is None else self.states
        states = find_means(rows, min(wanted, len(rows)), self.seed, self.restarts)
        return states[choose_subset(np.sqrt(squared_distances(states, rows)), self.count)]


def choose_subset(apart: NDArray[np.float32], k: int) -> list[int]:
    """Greedily choose k of M states that best represent all frames; `apart (M, T)` are distances.

    Each choice has the highest facility-location gain, sum_t max(0, served_t - apart[s, t]); the
    lowest number wins a tie.
    """
    served = apart.max(axis=0)
    chosen: list[int] = []
    for _ in range(k):
        gains = np.array([np.maximum(served - row, 0).sum() for row in apart])
        gains[chosen] = -1
        chosen.append(int(gains.argmax()))
        served = np.minimum(served, apart[chosen[-1]])
    return chosen


# ---------- fuzzy c-means
#
# It minimizes, over centres c and memberships u whose rows sum to 1,
#
#     J = sum_i sum_k u_ik^m |x_i - c_k|^2
#
# by alternating, with d = |x - c|^2: u_ik = d_ik^(-1/(m-1)) / sum_j d_ij^(-1/(m-1)), then
# c_k = sum_i u_ik^m x_i / sum_i u_ik^m.

CHUNK = 4096  # Frames per block; a block stays in the cache


def fuzzy_c_means(
    x: NDArray[Any],
    k: int,
    m: float = FUZZIFIER,
    seed: int = 0,
    *,
    start: NDArray[Any] | None = None,
    restarts: int = 3,
    iterations: int = 300,
    tolerance: float = 1e-4,
    overwrite: bool = False,
) -> tuple[Rows, Rows]:
    """Memberships (T, k), whose rows sum to 1, and centres (k, d) of frames `x` (T, d).

    The k-means++ start with the lowest objective wins, unless `start` has centres; it stops when
    no centre moves by more than `tolerance` times the spread. `overwrite` may change `x`, to save
    memory.
    """
    frames = _Frames(x, overwrite)
    rng = np.random.default_rng(seed)
    drawn = restarts if start is None else 0
    starts = [frames.spread(k, rng) for _ in range(drawn)] or [frames.inward(start)]
    found = [_descend(frames, first, m, iterations, tolerance) for first in starts]
    centres = min(found, key=lambda each: frames.turn(each, m)[0]) if len(found) > 1 else found[0]
    return frames.memberships(centres, m), frames.outward(centres)


def memberships(
    x: NDArray[Any], centres: NDArray[Any], m: float = FUZZIFIER, *, overwrite: bool = False
) -> Rows:
    """(T, k), of frames `x` (T, d) around `centres` (k, d)."""
    frames = _Frames(x, overwrite)
    return frames.memberships(frames.inward(centres), m)


class _Frames:
    """Centred and scaled to an RMS length of 1, so that float32 is precise enough."""

    def __init__(self, x: NDArray[Any], overwrite: bool) -> None:
        kind = np.result_type(x.dtype, np.float32)
        # In the precision of the frames: far from the origin, float32 loses their differences.
        self.mean = x.mean(axis=0, dtype=np.float64).astype(kind)
        inplace = overwrite and x.dtype == np.float32 and x.flags.writeable and x.flags.c_contiguous
        self.rows: Rows = x if inplace else np.empty(x.shape, dtype=np.float32)
        np.subtract(x, self.mean, out=self.rows, casting="same_kind")
        squares = np.einsum("td,td->t", self.rows, self.rows)
        self.scale = float(np.sqrt(squares.mean(dtype=np.float64))) or 1.0
        self.rows *= np.float32(1 / self.scale)
        self.norms = np.einsum("td,td->t", self.rows, self.rows)

    def inward(self, centres: Any) -> Rows:
        wide = np.asarray(centres, dtype=np.float64)
        return np.asarray((wide - self.mean) / self.scale, dtype=np.float32)

    def outward(self, centres: Rows) -> Rows:
        return np.asarray(centres * self.scale + self.mean, dtype=np.float32)

    def distances(self, part: slice, centres: Rows) -> Rows:
        """|x - c|^2 of some frames and all centres, at least `TINY`: (k, t)."""
        apart: Rows = (centres * -2) @ self.rows[part].T
        apart += self.norms[part]
        apart += np.einsum("kd,kd->k", centres, centres)[:, None]
        return np.maximum(apart, np.float32(TINY), out=apart)

    def turn(self, centres: Rows, m: float) -> tuple[float, Rows]:
        """The objective of these centres, and the updated centres."""
        total, mass, sums = 0.0, np.zeros(len(centres)), np.zeros(centres.shape)
        for first in range(0, len(self.rows), CHUNK):
            part = slice(first, first + CHUNK)
            apart = self.distances(part, centres)
            power = fuzzy_shares(apart, m) ** np.float32(m)
            total += float(np.vdot(power, apart))
            mass += power.sum(axis=1)
            sums += power @ self.rows[part]
        # With m near 1, a centre far from all frames has no mass and stays where it is.
        moved = np.where(mass[:, None] > TINY, sums / np.maximum(mass, TINY)[:, None], centres)
        return total, moved.astype(np.float32)

    def memberships(self, centres: Rows, m: float) -> Rows:
        parts = [slice(first, first + CHUNK) for first in range(0, len(self.rows), CHUNK)]
        return np.concatenate([fuzzy_shares(self.distances(part, centres), m).T for part in parts])

    def spread(self, k: int, rng: np.random.Generator) -> Rows:
        """k-means++: draw each centre in proportion to its squared distance to the others."""
        closest, drawn = np.full(len(self.rows), np.inf, dtype=np.float32), []
        chance = np.ones_like(closest)
        for _ in range(k):
            sums = np.cumsum(chance, dtype=np.float64)
            if sums[-1] > 0:
                at = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
            else:  # every frame lies on a centre
                at = int(rng.integers(len(sums)))
            drawn.append(min(at, len(sums) - 1))
            np.minimum(closest, self.distances(slice(None), self.rows[drawn[-1:]])[0], out=closest)
            closest[drawn] = 0
            chance = closest
        return self.rows[drawn]


def _descend(frames: _Frames, centres: Rows, m: float, iterations: int, tolerance: float) -> Rows:
    for _ in range(iterations):
        before = centres
        _, centres = frames.turn(centres, m)
        if np.linalg.norm(centres - before, axis=1).max() <= tolerance:
            break
    return centres


# ---------- the energy of one video

# E(x) = sum_t unary[t, x_t] + sum_(t,s) weights_ts V(x_t, x_s), with V = [k != l] (Potts) or a metric
# `apart (K, K)`, has an exact minimum on a chain. In a move of alpha-expansion (Boykov, Veksler,
# Zabih 2001) every frame keeps its label (source side of a minimum cut) or takes alpha, until no
# label lowers the energy: with Potts, it is at most twice the minimum.

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
