"""Which of two steps must come first, told from errors: every pair of steps is a requirement or free, every video errs.

With e_v the rate at which video v breaks requirements, a pair (a, b) that both occur in the videos is one of three:

    a must precede b:   p(a first in v) = 1 - e_v
    b must precede a:   p(a first in v) = e_v
    free:               p(a first in v) = p, the same for all videos, any p between 0 and 1 as likely as another

EM alternates between the probability of the three for every pair and the rates e_v, which are counted on the edges of
the order found so far. A video's rate for a pair is counted on edges that share no step with it: otherwise a video that
does one step at another time would be called unreliable on the very pairs that it is evidence about. A few videos that
do everything anyhow are thus given little weight, without anybody naming them, and nothing is set by hand but a prior:
a rate counts as if half as many edges again had been seen, broken as often as they are in all videos together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

Bools = NDArray[np.bool_]
Floats = NDArray[np.floating[Any]]

ROUNDS = 30
"""EM stops sooner, when the order no longer changes."""
PRIOR = 0.5
"""Edges that the prior of a video's error rate is worth, as a share of the number of steps."""
LOWEST, HIGHEST = 1e-3, 0.5
"""The range of an error rate: nobody is beyond error, and who breaks half of all requirements tells nothing."""
DECISIVE = 0.5 * np.log(10)
"""Nats by which the likeliest of the three must lead; less is "barely worth mentioning" (Jeffreys)."""


class Precedence(NamedTuple):
    """What the videos say of every pair of steps, and the order that follows."""

    closed: Bools
    """(K, K): a must precede b, near or far."""
    undecided: Bools
    """(K, K): pairs of which the videos cannot tell whether one must precede the other."""
    error: float
    """The share of requirements that are broken, over all videos."""


def reduce_order(closed: Bools) -> Bools:
    """The edges of a transitively closed order `(K, K)` that no path of other edges replaces."""
    paths = closed.astype(np.int64)
    return closed & ~((paths @ paths) > 0)


def close_order(edges: Bools) -> Bools:
    """All relations that follow from `edges` `(K, K)`: a before b, b before c, so a before c."""
    closed = edges.copy()
    for middle in range(len(closed)):
        closed |= np.outer(closed[:, middle], closed[middle])
    return closed


def first_in(orders: Sequence[Sequence[int]], steps: int, weights: Sequence[Sequence[float]] | None = None) -> Floats:
    """`(V, K, K)`: whether a comes before b in a video's order (distinct steps), times the weights of both."""
    place, weight = np.full((len(orders), steps), np.inf), np.zeros((len(orders), steps))
    for video, order in enumerate(orders):
        place[video, list(order)] = np.arange(len(order))
        weight[video, list(order)] = 1.0 if weights is None else weights[video]
    earlier = place[:, :, None] < place[:, None, :]
    return np.asarray(earlier * weight[:, :, None] * weight[:, None, :])


def count_first(orders: Sequence[Sequence[int]], steps: int) -> NDArray[np.int64]:
    """`(K, K)`: in how many of the orders, each of distinct steps, does a come before b."""
    return np.asarray(first_in(orders, steps).sum(axis=0), dtype=np.int64)


def insert_relations(score: Floats, least: float) -> Bools:
    """The transitively closed order of all relations that score above `least`, the highest first, without a circle."""
    closed = np.zeros(score.shape, dtype=bool)
    pairs = np.argwhere(score > least)
    for a, b in pairs[np.argsort(-score[pairs[:, 0], pairs[:, 1]], kind="stable")].tolist():
        if not closed[b, a] and not closed[a, b]:
            before, after = closed[:, a].copy(), closed[b].copy()
            before[a] = after[b] = True
            closed |= np.outer(before, after)
    return closed


def find_precedence(
    orders: Sequence[Sequence[int]], steps: int, weights: Sequence[Sequence[float]] | None = None
) -> Precedence:
    """What must precede what.

    orders    for each video its distinct steps, numbers below `steps`, in the order of time
    steps     how many steps there are (K)
    weights   laid out as `orders`: how far to trust that a step is where it was found, from 0 to 1
    """
    kept = first_in(orders, steps, weights)
    broken = kept.transpose(0, 2, 1)
    pairs = ~np.eye(steps, dtype=bool)
    free = betaln(kept.sum(axis=0) + 1, broken.sum(axis=0) + 1)
    rate = np.full(kept.shape, 0.05)
    share_free, error = 0.2, 0.05
    closed = np.zeros((steps, steps), dtype=bool)
    seen_once = (kept + broken).sum(axis=0) < 1.5  # one video proves nothing
    logs = np.zeros((3, steps, steps))
    for _ in range(ROUNDS):
        required = (np.log1p(-rate) * kept + np.log(rate) * broken).sum(axis=0) + np.log((1 - share_free) / 2)
        logs = np.stack([required, required.T, free + np.log(share_free)])
        shares = np.exp(logs - logs.max(axis=0))
        shares /= shares.sum(axis=0)
        share_free = (shares[2][pairs].sum() + 2) / (pairs.sum() + 6)
        before, closed = closed, insert_relations(np.where(pairs & ~seen_once, shares[0], 0.0), 0.5)
        if np.array_equal(before, closed):
            break
        edges = reduce_order(closed)
        errors, chances = _elsewhere(np.where(edges, broken, 0)), _elsewhere(np.where(edges, kept + broken, 0))
        error = (np.where(edges, broken, 0).sum() + 0.5) / (np.where(edges, kept + broken, 0).sum() + 1)
        rate = np.clip((errors + PRIOR * steps * error) / (chances + PRIOR * steps), LOWEST, HIGHEST)
    ranked = np.sort(logs, axis=0)
    undecided = pairs & (seen_once | (ranked[2] - ranked[1] < DECISIVE)) & ~closed & ~closed.T
    return Precedence(closed, undecided, float(error))


def contrary_needed(kept: int, broken: int, error: float) -> int:
    """How many more videos that do b before a would make "free" more likely than "a must precede b"."""
    more = np.arange(1, kept + 2)
    required = kept * np.log1p(-error) + (broken + more) * np.log(error)
    refuted = required < betaln(kept + 1, broken + more + 1)
    return int(more[refuted][0]) if refuted.any() else int(more[-1])


def _elsewhere(amount: Floats) -> Floats:
    """`(V, K, K)`: of amounts on edges (V, K, K), the sum over edges that share no step with the pair (a, b)."""
    both = amount + amount.transpose(0, 2, 1)
    touching = both.sum(axis=2)
    total = touching.sum(axis=1)[:, None, None] / 2
    return np.asarray(np.maximum(total - touching[:, :, None] - touching[:, None, :] + both, 0))
