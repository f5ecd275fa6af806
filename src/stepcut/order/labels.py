"""From label arrays to the procedure graph: the sequence of each video and the seconds of each of its segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stepcut.order.graph import ProcedureGraph
from stepcut.order.learn import learn_graph
from stepcut.order.orders import Labels
from stepcut.timeline import BACKGROUND


def timed_sequence(labels: Labels, rate: float) -> list[tuple[int, float]]:
    """The segments of one video as `(step, seconds)`; background between two stretches of one step does not part them.

    The steps are those of `sequence(labels)`; background itself takes no part in the seconds.

    >>> timed_sequence([0, 0, -1, 0, 1, 1], rate=2)
    [(0, 1.5), (1, 1.0)]
    """
    segments: list[tuple[int, int]] = []
    for number in labels:
        if number == BACKGROUND:
            continue
        if segments and segments[-1][0] == number:
            segments[-1] = (int(number), segments[-1][1] + 1)
        else:
            segments.append((int(number), 1))
    return [(step, frames / rate) for step, frames in segments]


def graph_of_labels(labels: Mapping[str, Labels], rate: float, names: Sequence[str] = ()) -> ProcedureGraph:
    """The procedure graph of cut videos: `labels[video]` is a step number per frame, `rate` frames a second."""
    videos = [timed_sequence(numbers, rate) for numbers in labels.values()]
    return learn_graph(
        [[step for step, _ in video] for video in videos],
        durations=[[seconds for _, seconds in video] for video in videos],
        names=names,
    )
