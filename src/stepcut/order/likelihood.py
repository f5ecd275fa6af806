"""Which of two steps must come first: every pair is a requirement or free, and people make errors.

A pair (a, b) that both occur in the videos is one of three, with r the chance that video v breaks a
requirement:

    a must precede b:   p(a first in v) = 1 - r
    b must precede a:   p(a first in v) = r
    free:               p(a first in v) = p, the same for all videos, any p between 0 and 1 as
                        likely as another

Two models say what r is, each learned by EM with nothing set by hand but a start. *Careless
videos*: every video errs at a rate of its own, counted on the edges found so far that share no step
with the pair. *Misplaced steps*: in every video each step is misplaced with some probability mu,
then r = 1/2 for all its pairs; mu is learned from all its other pairs, so that a video is evidence
about a pair as far as both steps are where they belong.

EM finds what is near its start: where hardly anybody errs, or where many do. Of the orders found
from several starts the most likely one is taken, by a likelihood of whole sequences: a person takes
any step whose preconditions are met, each as likely as another, or by an error any step that is
left; every video errs at a rate of its own, any rate as likely as another; every edge costs ln(n) /
2 for n choices (Schwarz). A precondition that was passed over once is not asked for again in that
video.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, expit, logit, logsumexp

Bools = NDArray[np.bool_]
Floats = NDArray[np.floating[Any]]
FoundOrder = tuple[Bools, Floats, float]
"""What one model finds: the closed order, log probabilities (3, K, K) of the three for every pair,
and the error."""

ROUNDS = 30
"""EM stops sooner, when the order no longer changes."""
PRIOR = 0.5
"""Edges that the prior of a video's error rate is worth, as a share of the number of steps."""
LOWEST, HIGHEST = 1e-3, 0.5
"""The range of an error rate: nobody is beyond error, and who breaks half of all requirements tells
nothing."""
STARTS = {"careless videos": (LOWEST, 0.05), "misplaced steps": (0.01, 0.05, 0.2)}
"""Error rates from which the models are learned; from the lowest, whatever is contradicted once is
free."""
SHARE_FREE = 0.2
"""The share of pairs that are free, before any were weighed."""
SLIP = 0.01
"""The chance that two steps that are where they belong come the other way round all the same."""
RATES, WEIGHTS = (np.polynomial.legendre.leggauss(32) + np.array([[1.0], [0.0]])) / 2
"""Error rates and their weights in a mean over all rates: Gauss and Legendre's, exact for up to 63
choices."""
DECISIVE = 0.5 * np.log(10)
"""Nats by which the likeliest of the three must lead; less is "barely worth mentioning"
(Jeffreys)."""


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


def first_in(
    orders: Sequence[Sequence[int]], steps: int, weights: Sequence[Sequence[float]] | None = None
) -> Floats:
    """`(V, K, K)`: is a before b in each of `orders` (distinct steps), times the geometric mean of
    their `weights`."""
    place, weight = np.full((len(orders), steps), np.inf), np.zeros((len(orders), steps))
    for video, order in enumerate(orders):
        place[video, list(order)] = np.arange(len(order))
        weight[video, list(order)] = 1.0 if weights is None else weights[video]
    earlier = place[:, :, None] < place[:, None, :]
    return np.asarray(earlier * np.sqrt(weight[:, :, None] * weight[:, None, :]))


def count_first(orders: Sequence[Sequence[int]], steps: int) -> NDArray[np.int64]:
    """`(K, K)`: in how many of the orders, each of distinct steps, does a come before b."""
    return np.asarray(first_in(orders, steps).sum(axis=0), dtype=np.int64)


def insert_relations(score: Floats, least: float) -> Bools:
    """The transitively closed order of all relations that score above `least`, the highest first,
    without a circle."""
    closed = np.zeros(score.shape, dtype=bool)
    pairs = np.argwhere(score > least)
    for a, b in pairs[np.argsort(-score[pairs[:, 0], pairs[:, 1]], kind="stable")].tolist():
        if not closed[b, a] and not closed[a, b]:
            before, after = closed[:, a].copy(), closed[b].copy()
            before[a] = after[b] = True
            closed |= np.outer(before, after)
    return closed


def no_precedence(steps: int) -> Precedence:
    """What is known of `steps` steps before any video was seen: nothing must precede anything."""
    nothing = np.zeros((steps, steps), dtype=bool)
    return Precedence(nothing, nothing, LOWEST)


def find_precedence(
    orders: Sequence[Sequence[int]], steps: int, weights: Sequence[Sequence[float]] | None = None
) -> Precedence:
    """What must precede what, by the `orders` of videos, each of distinct numbers below `steps`,
    and `weights` laid out like them: how far to trust that a step is where it was found, from 0 to
    1."""
    kept = first_in(orders, steps, weights)
    found = [careless_videos(kept, start) for start in STARTS["careless videos"]]
    found += [misplaced_steps(kept, start) for start in STARTS["misplaced steps"]]
    closed, logs, error = max(found, key=lambda one: order_likelihood(one[0], orders))
    first, second = np.sort(logs, axis=0)[:0:-1]
    undecided = ~np.eye(steps, dtype=bool) & (_seen_once(kept) | (first - second < DECISIVE))
    return Precedence(closed, undecided & ~closed & ~closed.T, error)


def careless_videos(kept: Floats, start: float) -> FoundOrder:
    """The order when every video errs at a rate of its own, from a `start` on; `kept` (V, K, K): a
    comes before b."""
    broken, steps = kept.transpose(0, 2, 1), kept.shape[1]
    rate, share_free, error = np.full(kept.shape, start), SHARE_FREE, start
    closed = np.zeros((steps, steps), dtype=bool)
    for _ in range(ROUNDS):
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
    """The order when some steps of some videos are misplaced, from a `start` on; `kept` (V, K, K):
    a comes before b."""
    broken, steps = kept.transpose(0, 2, 1), kept.shape[1]
    present = (kept + broken).any(axis=2)
    moved, share_free, error = np.full(kept.shape, start), SHARE_FREE, start
    closed = np.zeros((steps, steps), dtype=bool)
    for rounds in range(ROUNDS):
        other = moved.transpose(0, 2, 1)
        rate = SLIP + (0.5 - SLIP) * (1 - (1 - moved) * (1 - other))
        logs, share_free, new = _weigh_pairs(kept, rate, share_free)
        if rounds > ROUNDS // 6 and np.array_equal(new, closed):
            break
        closed, shares = new, np.exp(logs - logsumexp(logs, axis=0))
        # What a pair says of "a is misplaced": by then it comes either way round, else as the other
        # step allows.
        keeps, breaks = (
            -np.log(2 * (1 - SLIP - (0.5 - SLIP) * other)),
            -np.log(2 * (SLIP + (0.5 - SLIP) * other)),
        )
        said = shares[0] * (kept * keeps + broken * breaks) + shares[1] * (
            broken * keeps + kept * breaks
        )
        whole = said.sum(axis=2)
        error = float(((expit(logit(error) + whole) * present).sum() + 0.5) / (present.sum() + 1))
        error = float(np.clip(error, LOWEST, HIGHEST))
        moved = expit(logit(error) + whole[:, :, None] - said)
    return closed, logs, error


def order_likelihood(closed: Bools, orders: Sequence[Sequence[int]]) -> float:
    """Nats of whole `orders` under the order `closed`, less the price of its edges; see the top of
    this file."""
    nats, choices = 0.0, 0
    for order in orders:
        remaining = np.zeros(len(closed), dtype=bool)
        remaining[list(order)] = True
        asked = remaining.copy()
        logs = np.log(WEIGHTS)
        for step in order:
            needed = closed[:, step] & asked
            ready, left = (
                max(int((remaining & ~closed[asked].any(axis=0)).sum()), 1),
                int(remaining.sum()),
            )
            if left > 1:  # p(step) = (1 - e) / ready + e / left, or e / left where it is not ready
                logs += np.log((0.0 if needed.any() else (1 - RATES) / ready) + RATES / left)
            asked &= ~needed
            remaining[step] = asked[step] = False
        nats, choices = nats + float(logsumexp(logs)), choices + len(order)
    return float(nats - 0.5 * np.log(max(choices, 2)) * reduce_order(closed).sum())


def _weigh_pairs(kept: Floats, rate: Floats, share_free: float) -> tuple[Floats, float, Bools]:
    """Log probabilities (3, K, K) of the three for every pair, how many pairs are free, and the
    order that follows."""
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
    """(K, K): pairs that fewer than two videos tell of; one video proves nothing."""
    return np.asarray((kept + kept.transpose(0, 2, 1)).sum(axis=0) < 1.5)


def contrary_needed(found: Precedence, edge: tuple[int, int], kept: int, broken: int) -> int:
    """How many more videos that do an `edge` of what was `found` the other way round, and all else
    right, would refute it, which so many have `kept` and `broken`. Exact for two steps; for more,
    to within a video or two.

    Of two steps the likelihood of sequences decides: each is 1/2, with the edge 3/4 or 1/4. Of
    more, the EM: the edge must be likelier than "free" at its start, and at the rate that it comes
    to when these videos count as errors.
    """
    steps, more = len(found.closed), np.arange(1, kept + 2)
    if steps == 2:
        refuted = (
            kept * np.log(1.5) - (broken + more) * np.log(2)
            <= np.log(2 * (kept + broken + more)) / 2
        )
    else:
        edges, pairs = reduce_order(found.closed), steps * (steps - 1)
        chances, others = (
            (kept + broken) * edges.sum() + 1,
            _elsewhere(edges[None].astype(float))[0][edge],
        )
        error = (found.error * chances + more) / (chances + more * edges.sum())
        rate = np.clip(PRIOR * steps * error / (PRIOR * steps + others), LOWEST, HIGHEST)
        share_free = (pairs - 2 * found.closed.sum() + 2) / (pairs + 6)
        lead = [
            kept * np.log1p(-r) + (broken + more) * np.log(r) + np.log((1 - free) / 2 / free)
            for r, free in ((STARTS["careless videos"][-1], SHARE_FREE), (rate, share_free))
        ]
        refuted = np.minimum(*lead) < betaln(kept + 1, broken + more + 1)
    return int(more[refuted][0]) if refuted.any() else int(more[-1])


def _elsewhere(amount: Floats) -> Floats:
    """`(V, K, K)`: of amounts on edges (V, K, K), the sum over edges that share no step with the
    pair (a, b)."""
    both = amount + amount.transpose(0, 2, 1)
    touching = both.sum(axis=2)
    total = touching.sum(axis=1)[:, None, None] / 2
    return np.asarray(np.maximum(total - touching[:, :, None] - touching[:, None, :] + both, 0))
