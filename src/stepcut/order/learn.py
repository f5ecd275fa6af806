"""Learn a procedure graph: which steps must precede which, from videos that contain errors.

A pair (a, b) of steps is in one of three states. With r the probability that video v breaks a
requirement:

    a must precede b:   p(a first in v) = 1 - r
    b must precede a:   p(a first in v) = r
    free:               p(a first in v) = p, the same for all videos, with a uniform prior

Two models define r, both fitted by EM from several starts. *Careless videos*: every video has its
own error rate, counted on the current edges that share no step with the pair. *Misplaced steps*:
in every video each step is misplaced with some probability mu, learned from its other pairs, and
then r = 1/2.

The order with the highest likelihood of whole sequences wins. There, a person takes any step whose
preconditions are met, with equal probability, or by an error any remaining step. Every video has
its own error rate, with a uniform prior. Every edge costs ln(n) / 2 for n choices (Schwarz). A
precondition that was broken once is not required again in that video.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from statistics import median_low
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, expit, logit, logsumexp

from stepcut.errors import OptionError, wrong
from stepcut.order.graph import END, START, Duration, ProcedureGraph, Support
from stepcut.order.orders import Labels, Orders, grouped, rank_orders, video_order
from stepcut.timeline import BACKGROUND, runs

Bools = NDArray[np.bool_]
Floats = NDArray[np.floating[Any]]
# closed order, and log probabilities (3, K, K) of the three states of each pair
FoundOrder = tuple[Bools, Floats]

ITERATIONS = 30  # EM stops sooner, when the order no longer changes
PRIOR = 0.5  # of a video's error rate in edges, as a share of the number of steps
# range of error rates; a video that breaks half of all requirements says nothing
LOWEST, HIGHEST = 1e-3, 0.5
# Initial error rates. At the lowest, any pair that is contradicted once is free
STARTS = {"careless videos": (LOWEST, 0.05), "misplaced steps": (0.01, 0.05, 0.2)}
SHARE_FREE = 0.2  # initial share of free pairs
SLIP = 0.01  # probability that two correctly placed steps are exchanged anyway
# Nodes and weights of Gauss-Legendre quadrature over error rates, exact for up to 63 choices
RATES, WEIGHTS = (np.polynomial.legendre.leggauss(32) + np.array([[1.0], [0.0]])) / 2
# lead in nats of the likeliest state; less is "barely worth mentioning" (Jeffreys)
DECISIVE = 0.5 * np.log(10)
LONG = 0.5  # a segment is long from this share of the longest of its step in the video
# Shorter segments, as a share of the video's time on the step, are errors. This share and `LONG`
# are divided by n for a step that is done n times
SLIVER = 0.1


def learn_graph(
    sequences: Sequence[Sequence[int]],
    durations: Sequence[Sequence[float]] | None = None,
    names: Sequence[str] = (),
    confidences: Sequence[Sequence[float]] | None = None,
    order: bool = True,
) -> ProcedureGraph:
    """Learn preconditions, optional and repeated steps, durations and transitions.

    A precondition of a step must precede its first occurrence.

    Parameters
    ----------
    sequences
        The step numbers of each video in order of time. Steps may be missing, repeated or
        exchanged.
    durations
        Seconds of each segment, in the layout of `sequences`. With durations, the first long
        segment of a step counts, because segmentations contain short errors.
    names
        Step names.
    confidences
        Confidence of each segment, 0 to 1, in the layout of `sequences`.
    order
        Whether to learn edges. Without them, only the counts are made, which is fast.

    Returns
    -------
    ProcedureGraph
        The graph.

    Raises
    ------
    OptionError
        If `sequences` is empty or invalid, or another argument has a different layout.

    Examples
    --------
    >>> graph = learn_graph([[0, 1, 2], [1, 0, 2]] * 4)
    >>> sorted(graph.edges)
    [(0, 2), (1, 2)]
    """
    done = _checked(sequences)
    steps = sorted({step for sequence in done for step in sequence})
    number = {step: place for place, step in enumerate(steps)}
    laid_out = _laid_out(done, durations, "durations", 1e12)
    sure = _laid_out(done, confidences, "confidences", 1)
    places = list(map(main_places, done, laid_out))
    orders = [[number[video[at]] for at in own] for video, own in zip(done, places, strict=True)]
    weights = [[row[at] for at in own] for row, own in zip(sure, places, strict=True)]
    closed, undecided = np.zeros((2, len(steps), len(steps)), dtype=bool)
    if order:
        closed, undecided = find_precedence(orders, len(steps), weights)
    first = count_first(orders, len(steps))

    def pairs(table: NDArray[Any]) -> list[tuple[int, int]]:
        return [(steps[a], steps[b]) for a, b in np.argwhere(table).tolist()]

    edges = set(pairs(reduce_order(closed)))
    support = {}
    for a, b in edges:
        kept, broken = int(first[number[a], number[b]]), int(first[number[b], number[a]])
        support[a, b] = Support(kept, kept + broken)
    counts = [Counter(sequence) for sequence in done]
    times = {step: tuple(sorted(own[step] for own in counts if step in own)) for step in steps}
    lengths = [grouped(zip(*both, strict=True)) for both in zip(done, laid_out, strict=True)]
    spent = {step: [sum(own[step]) for own in lengths if step in own] for step in steps}
    return ProcedureGraph(
        steps=tuple(steps),
        edges=edges,
        support=support,
        videos=len(done),
        occurs={step: len(own) for step, own in times.items()},
        times=times,
        transitions=dict(Counter(pair for path in done for pair in pairwise([START, *path, END]))),
        first={(a, b): int(first[number[a], number[b]]) for a, b in pairs(first > 0)},
        durations={step: Duration.of(spent[step]) for step in steps if durations is not None},
        names=tuple(names),
        undecided=set(pairs(np.triu(undecided))),
        ahead=_ahead(done, places, pairs(closed)),
    )


def _ahead(
    done: Sequence[Sequence[int]], places: Sequence[Sequence[int]], pairs: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], tuple[int, ...]]:
    """Videos that did a 0, 1, 2 ... times before the first b, if a is repeated."""
    found: dict[tuple[int, int], Counter[int]] = {pair: Counter() for pair in pairs}
    for sequence, own in zip(done, places, strict=True):
        before = {sequence[place]: Counter(sequence[:place]) for place in own}
        for (a, b), counts in found.items():
            if b in before:
                counts[before[b][a]] += 1
    return {
        pair: tuple(counts[times] for times in range(max(counts) + 1))
        for pair, counts in found.items()
        if max(counts, default=0) > 1
    }


def _checked(sequences: Sequence[Sequence[int]]) -> list[list[int]]:
    try:
        done = [list(sequence) for sequence in sequences]
    except TypeError as error:
        why = "is not a list of lists; give the steps of each video."
        raise wrong("sequences", sequences, why) from error
    odd = [
        f"[{place}] contains {step!r}"
        for place, steps in enumerate(done)
        for step in steps
        if not isinstance(step, int | np.integer) or step < 0
    ]
    if not done or odd:
        why = (
            f"sequences{odd[0] if odd else ' is empty'}; give the step numbers of one video or more, "
            "from 0. `stepcut.order.sequence(labels)` removes the background."
        )
        raise OptionError(why, setting="sequences")
    return [[int(step) for step in sequence] for sequence in done]


def _laid_out(
    done: Sequence[Sequence[int]], values: Sequence[Sequence[float]] | None, name: str, most: float
) -> Sequence[Sequence[float]]:
    """Check one number per segment; without numbers, all are 1."""
    needed = [len(sequence) for sequence in done]
    if values is None:
        return [[1.0] * count for count in needed]
    try:
        rows = [[float(number) for number in row] for row in values]
    except (TypeError, ValueError, OverflowError):
        rows = []
    # The tolerance allows for rounded sums.
    odd = [number for row in rows for number in row if not 0 <= number <= most + 1e-6]
    counts = [len(row) for row in rows]
    if counts != needed or odd:
        value, allowed = (odd[0], most) if odd else (counts, needed)
        seen = f"contains {value}" if odd else f"has {counts} for {needed}"
        why = f"{name} {seen}; give one number from 0 to {most:g} per entry of sequences."
        raise OptionError(why, setting=name, value=value, allowed=allowed)
    return rows


def main_places(sequence: Sequence[int], seconds: Sequence[float]) -> list[int]:
    """Place of the first long segment of each step in a video."""
    lengths = grouped(zip(sequence, seconds, strict=True))
    least = {step: LONG * max(own) / times_done(own) for step, own in lengths.items()}
    found: dict[int, int] = {}
    for place, (step, time) in enumerate(zip(sequence, seconds, strict=True)):
        if time >= least[step]:
            found.setdefault(step, place)
    return list(found.values())


def times_done(lengths: Sequence[float]) -> int:
    """Effective number of segments, (sum l)^2 / sum l^2 rounded down: 1 if one is much longer."""
    squares = sum(length**2 for length in lengths)
    return max(1, int(sum(lengths) ** 2 / squares + 1e-9)) if squares > 0 else 1


class Occurrence(NamedTuple):
    """One step from `start` to `end` in seconds; `spent` excludes pauses."""

    step: int
    start: float
    end: float
    spent: float
    sure: float = 1.0  # confidence of the segmentation


def find_occurrences(
    labels: Labels,
    rate: float,
    sure: NDArray[np.floating[Any]] | None = None,
    sliver: float = SLIVER,
) -> list[Occurrence]:
    """Find occurrences in order of time, from `labels` (T,) and their confidence `sure` (T,).

    Segments of one step that only background or slivers separate are one occurrence. Slivers are
    shorter than the share `sliver` of the video's time on the step, divided by its repetitions.
    """
    found = [run for run in runs(np.asarray(labels)).tolist() if run[0] != BACKGROUND]
    lengths = grouped((step, b - a) for step, a, b in found)
    least = {step: sliver * sum(own) / times_done(own) for step, own in lengths.items()}
    kept = [(step, a, b) for step, a, b in found if b - a >= least[step]]
    merged = []
    for step, group in groupby(kept, key=lambda run: run[0]):
        parts = [(a, b) for _, a, b in group]
        times = parts[0][0] / rate, parts[-1][1] / rate, sum(b - a for a, b in parts) / rate
        trust = [1.0] if sure is None else np.concatenate([sure[a:b] for a, b in parts])
        merged.append(Occurrence(step, *times, float(np.mean(trust))))
    return merged


def first_times(video: Sequence[Occurrence]) -> dict[int, Occurrence]:
    places = main_places([one.step for one in video], [one.spent for one in video])
    return {video[place].step: video[place] for place in places}


def orders_of_labels(
    labels: Mapping[str, Labels], rate: float, names: Sequence[str] = ()
) -> Orders:
    """Rank the orders of videos with `labels` (T,) by name, `rate` rows per second.

    Steps are sorted by mean time, as in the paper (`video_order`). If a step is usually repeated,
    they are sorted by first occurrence: in cyclic tasks, mean times are too close to compare.
    """
    videos = {name: find_occurrences(numbers, rate) for name, numbers in labels.items()}
    times = grouped(
        pair for video in videos.values() for pair in Counter(one.step for one in video).items()
    )
    once = all(median_low(counts) == 1 for counts in times.values())
    orders = {
        name: video_order(numbers) if once else list(first_times(videos[name]))
        for name, numbers in labels.items()
    }
    return rank_orders(orders, names, by_first=not once)


def graph_of_labels(
    labels: Mapping[str, Labels], rate: float, names: Sequence[str] = ()
) -> ProcedureGraph:
    videos = [find_occurrences(numbers, rate) for numbers in labels.values()]
    return graph_of_occurrences(videos, names)


def graph_of_occurrences(
    videos: Sequence[Sequence[Occurrence]], names: Sequence[str] = (), order: bool = True
) -> ProcedureGraph:
    return learn_graph(
        [[one.step for one in video] for video in videos],
        durations=[[one.spent for one in video] for video in videos],
        names=names,
        confidences=[[one.sure for one in video] for video in videos],
        order=order,
    )


# ---------- what must precede what


def reduce_order(closed: Bools) -> Bools:
    paths = closed.astype(np.int64)
    return closed & ~((paths @ paths) > 0)


def close_order(edges: Bools) -> Bools:
    closed = edges.copy()
    for middle in range(len(closed)):
        closed |= np.outer(closed[:, middle], closed[middle])
    return closed


def first_in(
    orders: Sequence[Sequence[int]], steps: int, weights: Sequence[Sequence[float]] | None = None
) -> Floats:
    """Whether a is before b in each order, times the geometric mean of their weights: (V, K, K)."""
    place, weight = np.full((len(orders), steps), np.inf), np.zeros((len(orders), steps))
    for video, order in enumerate(orders):
        place[video, list(order)] = np.arange(len(order))
        weight[video, list(order)] = 1.0 if weights is None else weights[video]
    earlier = place[:, :, None] < place[:, None, :]
    return np.asarray(earlier * np.sqrt(weight[:, :, None] * weight[:, None, :]))


def count_first(orders: Sequence[Sequence[int]], steps: int) -> NDArray[np.int64]:
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


def find_precedence(
    orders: Sequence[Sequence[int]], steps: int, weights: Sequence[Sequence[float]]
) -> tuple[Bools, Bools]:
    """Whether a must precede b, directly or indirectly, and which pairs lack evidence: (K, K).

    `weights` has the layout of `orders`: the confidence, 0 to 1, that each step is at its place.
    """
    kept = first_in(orders, steps, weights)
    found = [careless_videos(kept, start) for start in STARTS["careless videos"]]
    found += [misplaced_steps(kept, start) for start in STARTS["misplaced steps"]]
    closed, logs = max(found, key=lambda one: order_likelihood(one[0], orders))
    first, second = np.sort(logs, axis=0)[:0:-1]
    undecided = ~np.eye(steps, dtype=bool) & (_seen_once(kept) | (first - second < DECISIVE))
    return closed, undecided & ~closed & ~closed.T


def careless_videos(kept: Floats, start: float) -> FoundOrder:
    """Every video has its own error rate; `kept` (V, K, K): a comes before b."""
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
    return closed, logs


def misplaced_steps(kept: Floats, start: float) -> FoundOrder:
    """Single steps are misplaced; `kept` (V, K, K): a comes before b."""
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
        keeps = -np.log(2 * (1 - SLIP - (0.5 - SLIP) * other))
        breaks = -np.log(2 * (SLIP + (0.5 - SLIP) * other))
        before, after = kept * keeps + broken * breaks, broken * keeps + kept * breaks
        evidence = shares[0] * before + shares[1] * after
        whole = evidence.sum(axis=2)
        error = float(((expit(logit(error) + whole) * present).sum() + 0.5) / (present.sum() + 1))
        error = float(np.clip(error, LOWEST, HIGHEST))
        moved = expit(logit(error) + whole[:, :, None] - evidence)
    return closed, logs


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
    broken, pairs = kept.transpose(0, 2, 1), ~np.eye(kept.shape[1], dtype=bool)
    required = (np.log1p(-rate) * kept + np.log(rate) * broken).sum(axis=0)
    required = required + np.log((1 - share_free) / 2)
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
