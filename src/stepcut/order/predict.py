"""What comes next: a probability for each step, from what was done, the graph and how the videos went on.

For a step x after the last step y, with n(y, x) how often x followed y in the videos,

    weight(x) = (n(y, x) + prior * readiness(x)) * readiness(x)

where readiness is small as long as a precondition is not met (as small as videos without it are rare), and small for
a step that is done already (as small as repeats are rare). The weight of "nothing follows" is made the same way: it is
ready when every step that is usually done was done. Weights divided by their sum are the probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepcut.order.relations import Relations

START, END = -1, -2
"""Stand-ins in `transitions` for "nothing done yet" and "nothing follows"; they are not among the steps or edges."""

PRIOR = 0.5


def next_steps(graph: Relations, done: Sequence[int], ordered: bool) -> list[tuple[int, float]]:
    """`(step, probability)` after `done` in a `graph`, the most probable first; the rest of 1 is "nothing follows".

    `ordered`: whether `done` is in the order of time, so that its last is the step before.
    """
    weights = next_weights(graph, done, ordered)
    total = sum(weights.values())
    likely = [(step, weights[step] / total) for step in graph.steps if weights[step] > 0]
    return sorted(likely, key=lambda pair: (-pair[1], pair[0]))


def next_weights(graph: Relations, done: Sequence[int], ordered: bool, least: float = 0.0) -> dict[int, float]:
    """The weight of each step of a `graph`, and of `END`, to come next; `done` and `ordered` as for `next_steps`.

    `least`: how ready every step is, where `done` may be mistaken.
    """
    before = set(done)
    last = (done[-1] if done else START) if ordered or not done else None
    weights: dict[int, float] = {}
    for step in [*graph.steps, END]:
        ready = max(readiness(graph, step, before), least)
        weights[step] = (followed(graph, last, step, before) + PRIOR * ready) * ready
    return weights


def followed(graph: Relations, last: int | None, step: int, done: set[int]) -> float:
    """How often in a `graph` a `step` followed the `last`; where that is not known, how often any of those `done`."""
    if last is not None:
        return graph.transitions.get((last, step), 0)
    return sum(graph.transitions.get((y, step), 0) for y in done) / max(len(done), 1)


def readiness(graph: Relations, step: int, done: set[int]) -> float:
    """How ready a `step` of a `graph` is after `done`, from 0 to 1: what unmet preconditions and repetition allow."""
    if step == END:
        missing = [graph.occurs[other] / graph.videos for other in graph.steps if other not in done]
        return min((smoothed(1 - share, graph.videos) for share in missing), default=1.0)
    if step in done:
        again = sum(times > 1 for times in graph.times[step])
        return again / (graph.occurs[step] + 1)
    ready = 1.0
    for other in graph.before(step) - done:
        # Of the videos that do the step, those that had not done `other` before it.
        without = graph.occurs[step] - graph.first.get((other, step), 0)
        ready = min(ready, smoothed(without / graph.occurs[step], graph.occurs[step]))
    return ready


def smoothed(share: float, count: int) -> float:
    """A share of `count` videos, drawn a little towards one half so that what was never seen stays possible."""
    return (share * count + 0.25) / (count + 0.5)
