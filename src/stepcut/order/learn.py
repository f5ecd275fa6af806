"""learn_graph: from the step sequences of all videos to what must precede what. No label is needed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from stepcut.errors import OptionError
from stepcut.order.graph import ProcedureGraph
from stepcut.order.likelihood import OrderFit, count_first, reduce_order
from stepcut.order.predict import END, START
from stepcut.order.relations import Duration, Support

# Chosen on the true sequences of CaptainCook4D; benchmarks/use.py repeats the choice leaving one recipe out.
SLIP = 0.05
SCRAMBLED = 0.1
PENALTY = 1.5
# Chosen on sequences found in features of toy kitchens, at three levels of noise.
EARNEST = 0.5
"""A step is done in earnest by a segment that takes at least this share of the longest one in its video."""


def learn_graph(
    sequences: Sequence[Sequence[int]],
    durations: Sequence[Sequence[float]] | None = None,
    names: Sequence[str] = (),
    slip: float = SLIP,
    scrambled: float = SCRAMBLED,
    penalty: float = PENALTY,
) -> ProcedureGraph:
    """Learn which step must precede which, which are optional, which repeat, how long each takes and what comes next.

    `sequences` has the steps of each video, by number, in the order of time; steps may be missing, repeated or swapped.
    What must precede a step must precede its first time. `durations`, if given, has the seconds of each segment, laid
    out as `sequences`; then it is the first time in earnest that counts, for a cut has short segments in the wrong
    places. `slip`, `scrambled` and `penalty` are explained in `likelihood.py`.

    >>> graph = learn_graph([[0, 1, 2], [1, 0, 2]] * 4)
    >>> sorted(graph.edges)
    [(0, 2), (1, 2)]
    """
    done = _checked(sequences)
    _check_settings(slip, scrambled, penalty)
    steps = sorted({step for sequence in done for step in sequence})
    number = {step: place for place, step in enumerate(steps)}
    laid_out = _seconds(done, durations)
    orders = [[number[sequence[at]] for at in main_places(sequence, laid_out[v])] for v, sequence in enumerate(done)]
    closed = OrderFit(orders, len(steps), slip, scrambled, penalty).search()
    first = count_first(orders, len(steps))

    edges = {(steps[a], steps[b]) for a, b in np.argwhere(reduce_order(closed)).tolist()}
    support = {(a, b): Support(*_support(first, number[a], number[b])) for a, b in edges}
    counts = [Counter(sequence) for sequence in done]
    return ProcedureGraph(
        steps=tuple(steps),
        edges=edges,
        support=support,
        videos=len(done),
        occurs={step: sum(step in count for count in counts) for step in steps},
        times={step: tuple(sorted(count[step] for count in counts if step in count)) for step in steps},
        transitions=_transitions(done),
        first={(steps[a], steps[b]): int(first[a, b]) for a, b in np.argwhere(first > 0).tolist()},
        durations=_durations(done, laid_out, steps) if durations is not None else {},
        names=tuple(names),
    )


def _checked(sequences: Sequence[Sequence[int]]) -> list[list[int]]:
    if not len(sequences):
        raise OptionError("sequences is empty; a graph is learned from the step sequences of one video or more.")
    done = []
    for place, sequence in enumerate(sequences):
        steps = list(sequence)
        wrong = [step for step in steps if not isinstance(step, int | np.integer) or step < 0]
        if wrong:
            raise OptionError(
                f"sequences[{place}] holds {wrong[0]!r}; steps are whole numbers from 0 up. "
                "Background is left out: `stepcut.order.sequence(labels)` does that."
            )
        done.append([int(step) for step in steps])
    return done


def _check_settings(slip: float, scrambled: float, penalty: float) -> None:
    for name, value in {"slip": slip, "scrambled": scrambled}.items():
        if not 0 < value < 1:
            raise OptionError(f"{name}={value!r} is a probability; choose a number between 0 and 1, both excluded.")
    if not (math.isfinite(penalty) and penalty >= 0):
        raise OptionError(
            f"penalty={penalty!r} is what an edge must earn; choose 0 or more ({PENALTY} is the default)."
        )


def _support(first: np.ndarray, a: int, b: int) -> tuple[int, int]:
    return int(first[a, b]), int(first[a, b] + first[b, a])


def _transitions(done: Sequence[Sequence[int]]) -> dict[tuple[int, int], int]:
    pairs: Counter[tuple[int, int]] = Counter()
    for sequence in done:
        path = [START, *sequence, END]
        pairs.update(pairwise(path))
    return dict(pairs)


def _seconds(done: Sequence[Sequence[int]], durations: Sequence[Sequence[float]] | None) -> Sequence[Sequence[float]]:
    """The seconds of every segment; where they are not known, all are alike."""
    if durations is None:
        return [[1.0] * len(sequence) for sequence in done]
    if [len(row) for row in durations] != [len(sequence) for sequence in done]:
        raise OptionError(
            "durations must have one number of seconds per entry of sequences; "
            f"got {[len(row) for row in durations]} for {[len(sequence) for sequence in done]}."
        )
    return durations


def main_places(sequence: Sequence[int], seconds: Sequence[float]) -> list[int]:
    """The places, in the order of time, at which each step of one video is first done in earnest.

    >>> main_places([2, 0, 1, 2], seconds=[1.0, 9.0, 9.0, 8.0])
    [1, 2, 3]
    """
    longest: dict[int, float] = {}
    for step, time in zip(sequence, seconds, strict=True):
        longest[step] = max(time, longest.get(step, 0.0))
    found: dict[int, int] = {}
    for place, (step, time) in enumerate(zip(sequence, seconds, strict=True)):
        if time >= EARNEST * longest[step]:
            found.setdefault(step, place)
    return list(found.values())


def _durations(
    done: Sequence[Sequence[int]], durations: Sequence[Sequence[float]], steps: Sequence[int]
) -> dict[int, Duration]:
    """Seconds that a video spends on a step, all its segments together: the middle and the usual range."""
    spent: dict[int, list[float]] = {step: [] for step in steps}
    for sequence, seconds in zip(done, durations, strict=True):
        total: dict[int, float] = {}
        for step, time in zip(sequence, seconds, strict=True):
            total[step] = total.get(step, 0.0) + float(time)
        for step, time in total.items():
            spent[step].append(time)
    return {step: Duration.of(times) for step, times in spent.items()}
