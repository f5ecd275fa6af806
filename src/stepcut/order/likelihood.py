"""Likelihood: learn which steps must precede which, from videos that contain errors.

A pair (a, b) of steps is in one of three states. With r the probability that video v breaks a
requirement:

    a must precede b:   p(a first in v) = 1 - r
    b must precede a:   p(a first in v) = r
    free:               p(a first in v) = p, the same for all videos, with a uniform prior

Two models define r. Both are fitted by EM; only the start is set by hand. *Careless videos*: every
video has its own error rate, counted on the current edges that share no step with the pair.
*Misplaced steps*: in every video each step is misplaced with some probability mu, and then r = 1/2
for all its pairs. mu is learned from all its other pairs.

EM finds a local optimum near its start, so it runs from several starts. The order with the highest
likelihood of whole sequences wins. In that likelihood, a person takes any step whose preconditions
are met, with equal probability, or by an error any remaining step. Every video has its own error
rate, with a uniform prior. Every edge costs ln(n) / 2 for n choices (Schwarz). A precondition that
was broken once is not required again in that video.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, expit, logit, logsumexp

Bools = NDArray[np.bool_]
Floats = NDArray[np.floating[Any]]
FoundOrder = tuple[Bools, Floats, float]
"""Closed order, log probabilities (3, K, K) of the three states of each pair, and error rate."""

ITERATIONS = 30
"""EM stops sooner, when the order no longer changes."""
PRIOR = 0.5
"""Weight of the prior of a video's error rate in edges, as a share of the number of steps."""
LOWEST, HIGHEST = 1e-3, 0.5
"""Range of error rates. A video that breaks half of all requirements carries no information."""
STARTS = {"careless videos": (LOWEST, 0.05), "misplaced steps": (0.01, 0.05, 0.2)}
"""Initial error rates. At the lowest, any pair that is contradicted once is free."""
SHARE_FREE = 0.2
"""Initial share of free pairs."""
SLIP = 0.01
"""Probability that two correctly placed steps are exchanged anyway."""
RATES, WEIGHTS = (np.polynomial.legendre.leggauss(32) + np.array([[1.0], [0.0]])) / 2
"""Nodes and weights of Gauss-Legendre quadrature over error rates, exact for up to 63 choices."""
DECISIVE = 0.5 * np.log(10)
"""Lead in nats of the likeliest state; less is "barely worth mentioning" (Jeffreys)."""


class Precedence(NamedTuple):
    """The order of steps that follows from the videos."""

    closed: Bools
    """Whether a must precede b, directly or indirectly, (K, K)."""
    undecided: Bools
    """Pairs without enough evidence, (K, K)."""
    error: float
    """Share of requirements that are broken, over all videos."""


def reduce_order(closed: Bools) -> Bools:
    """Transitive reduction of a closed order (K, K)."""
    paths = closed.astype(np.int64)
    return closed & ~((paths @ paths) > 0)


def close_order(edges: Bools) -> Bools:
    """Transitive closure of `edges` (K, K)."""
    closed = edges.copy()
    for middle in range(len(closed)):
        closed |= np.outer(closed[:, middle], closed[middle])
    return closed


def first_in(
    orders: Sequence[Sequence[int]], steps: int, weights: Sequence[Sequence[float]] | None = None
) -> Floats:
    """Whether a is before b in each of `orders`, times the geometric mean of their weights: (V, K,
    K)."""
    place, weight = np.full((len(orders), steps), np.inf), np.zeros((len(orders), steps))
    for video, order in enumerate(orders):
        place[video, list(order)] = np.arange(len(order))
        weight[video, list(order)] = 1.0 if weights is None else weights[video]
    earlier = place[:, :, None] < place[:, None, :]
    return np.asarray(earlier * np.sqrt(weight[:, :, None] * weight[:, None, :]))


def count_first(orders: Sequence[Sequence[int]], steps: int) -> NDArray[np.int64]:
    """Number of orders in which a comes before b, (K, K)."""
    return np.asarray(first_in(orders, steps).sum(axis=0), dtype=np.int64)


def insert_relations(score: Floats, least: float) -> Bools:
    """Closed order of all relations that score above `least`, highest first, without cycles."""
    closed = np.zeros(score.shape, dtype=bool)
    pairs = np.argwhere(score > least)
    for a, b in pairs[np.argsort(-score[pairs[:, 0], pairs[:, 1]], kind="stable")].tolist():
        if not closed[b, a] and not closed[a, b]:
            before, after = closed[:, a].copy(), closed[b].copy()
            before[a] = after[b] = True
            closed |= np.outer(before, after)
    return closed


def no_precedence(steps: int) -> Precedence:
    """Empty order of `steps` steps."""
    nothing = np.zeros((steps, steps), dtype=bool)
    return Precedence(nothing, nothing, LOWEST)


def find_precedence(
    orders: Sequence[Sequence[int]], steps: int, weights: Sequence[Sequence[float]]
) -> Precedence:
    """Learn what must precede what.

    `orders` has distinct step numbers below `steps` per video, `weights` in the same layout the
    confidence, 0 to 1, that each step is at its place.
    """
    kept = first_in(orders, steps, weights)
    found = [careless_videos(kept, start) for start in STARTS["careless videos"]]
    found += [misplaced_steps(kept, start) for start in STARTS["misplaced steps"]]
    closed, logs, error = max(found, key=lambda one: order_likelihood(one[0], orders))
    first, second = np.sort(logs, axis=0)[:0:-1]
    undecided = ~np.eye(steps, dtype=bool) & (_seen_once(kept) | (first - second < DECISIVE))
    return Precedence(closed, undecided & ~closed & ~closed.T, error)


def careless_videos(kept: Floats, start: float) -> FoundOrder:
    """Fit the order if every video has its own error rate; `kept` (V, K, K): a comes before b."""
    broken, steps = kept.transpose(0, 2, 1), kept.shape[1]
    rate, share_free, error = np.full(kept.shape, start), SHARE_FREE, start
    closed = np.zeros((steps, steps), dtype=bool)
    for _ in range(ITERATIONS):
        logs, share_free, new = _weigh_pairs(kept, rate, share_free)
        if np.array_equal(new, closed):
            break
        closed, edges = new, reduce_order(new)
        errors, chances = np.where(edges, broken, 0), np.where(edges, kept + broken, 0)
        error = float((errors.sum() + 0.5) / (chances.sum() + 1))
        rate = (_elsewhere(errors) + PRIOR * steps * error) / (_elsewhere(chances) + PRIOR * steps)
        rate = np.clip(rate, LOWEST, HIGHEST)
    return closed, logs, error


def misplaced_steps(kept: Floats, start: float) -> FoundOrder:
    """Fit the order if single steps are misplaced; `kept` (V, K, K): a comes before b."""
    broken, steps = kept.transpose(0, 2, 1), kept.shape[1]
    present = (kept + broken).any(axis=2)
    moved, share_free, error = np.full(kept.shape, start), SHARE_FREE, start
    closed = np.zeros((steps, steps), dtype=bool)
    for iteration in range(ITERATIONS):
        other = moved.transpose(0, 2, 1)
        rate = SLIP + (0.5 - SLIP) * (1 - (1 - moved) * (1 - other))
        logs, share_free, new = _weigh_pairs(kept, rate, share_free)
        if iteration > ITERATIONS // 6 and np.array_equal(new, closed):
            break
        closed, shares = new, np.exp(logs - logsumexp(logs, axis=0))
        # Log odds of "a is misplaced" from each pair: then both orders are equally likely.
        keeps, breaks = (
            -np.log(2 * (1 - SLIP - (0.5 - SLIP) * other)),
            -np.log(2 * (SLIP + (0.5 - SLIP) * other)),
        )
        evidence = shares[0] * (kept * keeps + broken * breaks) + shares[1] * (
            broken * keeps + kept * breaks
        )
        whole = evidence.sum(axis=2)
        error = float(((expit(logit(error) + whole) * present).sum() + 0.5) / (present.sum() + 1))
        error = float(np.clip(error, LOWEST, HIGHEST))
        moved = expit(logit(error) + whole[:, :, None] - evidence)
    return closed, logs, error


def order_likelihood(closed: Bools, orders: Sequence[Sequence[int]]) -> float:
    """Log-likelihood of whole `orders` in nats, less the cost of the edges; see above."""
    nats, choices = 0.0, 0
    for order in orders:
        remaining = np.zeros(len(closed), dtype=bool)
        remaining[list(order)] = True
        required = remaining.copy()
        logs = np.log(WEIGHTS)
        for step in order:
            needed = closed[:, step] & required
            ready = max(int((remaining & ~closed[required].any(axis=0)).sum()), 1)
            left = int(remaining.sum())
            if left > 1:  # p(step) = (1 - e) / ready + e / left, or e / left if it is not ready
                logs += np.log((0.0 if needed.any() else (1 - RATES) / ready) + RATES / left)
            required &= ~needed
            remaining[step] = required[step] = False
        nats, choices = nats + float(logsumexp(logs)), choices + len(order)
    return float(nats - 0.5 * np.log(max(choices, 2)) * reduce_order(closed).sum())


def _weigh_pairs(kept: Floats, rate: Floats, share_free: float) -> tuple[Floats, float, Bools]:
    """Log probabilities (3, K, K) of the states, share of free pairs, and the order."""
    broken, pairs = kept.transpose(0, 2, 1), ~np.eye(kept.shape[1], dtype=bool)
    required = (np.log1p(-rate) * kept + np.log(rate) * broken).sum(axis=0) + np.log(
        (1 - share_free) / 2
    )
    free = betaln(kept.sum(axis=0) + 1, broken.sum(axis=0) + 1) + np.log(share_free)
    logs = np.stack([required, required.T, free])
    shares = np.exp(logs - logsumexp(logs, axis=0))
    closed = insert_relations(np.where(pairs & ~_seen_once(kept), shares[0], 0.0), 0.5)
    return logs, float((shares[2][pairs].sum() + 2) / (pairs.sum() + 6)), closed


def _seen_once(kept: Floats) -> Bools:
    """Pairs that fewer than two videos show, (K, K)."""
    return np.asarray((kept + kept.transpose(0, 2, 1)).sum(axis=0) < 1.5)


def _elsewhere(amount: Floats) -> Floats:
    """Sum of amounts (V, K, K) over edges that share no step with the pair (a, b)."""
    both = amount + amount.transpose(0, 2, 1)
    touching = both.sum(axis=2)
    total = touching.sum(axis=1)[:, None, None] / 2
    return np.asarray(np.maximum(total - touching[:, :, None] - touching[:, None, :] + both, 0))
