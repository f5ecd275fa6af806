"""What the default method claims on real recordings: CaptainCook4D features, no labels in learning."""

import numpy as np
import pytest

from stepcut.evaluation import score
from stepcut.methods import METHODS, StepCut
from stepcut.paper.datasets import load

pytestmark = pytest.mark.data


def recipe(root, name, backbone):
    task = next(task for task in load("captaincook4d", root / "captaincook4d") if task.name == name)
    rows, true = [], []
    for video in task.with_features(backbone):
        if video.timeline is not None:
            rows.append(video.read_features(backbone))
            labels = np.zeros(len(rows[-1]), dtype=np.int64)
            for segment in video.timeline:
                labels[round(segment.start) : round(segment.end)] = (
                    task.steps.index(segment.step) + 1
                )
            true.append(labels)
    return rows, true, len(set(np.concatenate(true)) - {0})


@pytest.mark.parametrize(
    ("name", "backbone", "least"),
    [("Microwave Egg Sandwich", "pe_core_b16", 55), ("Spiced Hot Chocolate", "omnivore", 57)],
)
def test_far_above_the_clock(shared_data, name, backbone, least):
    rows, true, steps = recipe(shared_data, name, backbone)
    uniform = score(METHODS["uniform"](steps=steps).fit(rows).labels_, true).f1
    found = score(StepCut(steps=steps).fit(rows).labels_, true).f1
    assert found > least
    assert found > uniform + 10


def test_the_number_of_steps_by_itself(shared_data):
    rows, _, steps = recipe(shared_data, "Tomato Mozzarella Salad", "pe_core_b16")
    assert abs(StepCut().fit(rows).steps_ - steps) <= 0.3 * steps
