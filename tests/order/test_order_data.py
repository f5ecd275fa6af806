"""The graph on real sequences: the five CaptainCook4D recipes against their true graphs."""

import numpy as np
import pytest

from stepcut.order import learn_graph
from stepcut.order.learn import close_order, reduce_order
from stepcut.paper.datasets import load

pytestmark = pytest.mark.data


def edge_f1(task):
    true = np.zeros((len(task.steps),) * 2, dtype=bool)
    for before, after in task.graph or ():
        true[task.steps.index(before), task.steps.index(after)] = True
    edges = {(a, b) for a, b in np.argwhere(reduce_order(close_order(true))).tolist()}
    walks = [
        [task.steps.index(s.step) for s in video.timeline]
        for video in task
        if video.timeline is not None
    ]
    found = learn_graph(walks).edges
    return 2 * len(found & edges) / (len(found) + len(edges))


def test_the_graphs_of_real_recipes_are_found(shared_data):
    tasks = [
        task
        for task in load("captaincook4d", shared_data / "captaincook4d")
        if task.graph is not None
    ]
    assert len(tasks) == 5
    assert np.mean([edge_f1(task) for task in tasks]) >= 0.80
