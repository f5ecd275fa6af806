"""From label arrays to the procedure graph."""

from __future__ import annotations

import numpy as np

from stepcut.order import graph_of_labels, sequence, timed_sequence


def test_the_steps_are_those_of_sequence_and_the_seconds_add_up() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        labels = rng.integers(-1, 3, size=rng.integers(0, 30))
        timed = timed_sequence(labels, rate=2)
        assert [step for step, _ in timed] == sequence(labels)
        assert sum(seconds for _, seconds in timed) == (labels >= 0).sum() / 2


def test_a_graph_knows_order_and_length() -> None:
    videos = {str(video): [0, 0, -1, 1, 1] for video in range(8)}
    graph = graph_of_labels(videos, rate=1, names=["pour", "stir"])
    assert graph.edges == {(0, 1)}
    assert graph.durations[0].median == 2
