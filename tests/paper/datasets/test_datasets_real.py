"""The real annotations, if available: published statistics are reproduced, defects reported."""

from pathlib import Path

import pytest

from stepcut.paper.datasets import DATASETS, load
from stepcut.paper.datasets.dataset import count
from stepcut.paper.datasets.egoprocel import TASKS

SHARED = Path(__file__).parents[4] / "shared" / "data"
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not SHARED.is_dir(), reason="the real data in ../shared/data are not here"),
]
DEFECT = {title for title, info in TASKS.items() if info.defects}


def test_egoprocel_statistics_are_the_published_ones():
    tasks = load("egoprocel", SHARED / "egoprocel")
    assert len(tasks) == 16
    for task in tasks:
        published, counted = DATASETS["egoprocel"].tasks[task.name], count([task])
        assert counted.foreground == pytest.approx(published.foreground, abs=0.02), task.name
        if task.name not in DEFECT:
            assert counted.videos == published.videos
            assert counted.steps == published.steps
            assert counted.missing == pytest.approx(published.missing, abs=0.03), task.name
            assert counted.repeated == pytest.approx(published.repeated, abs=0.03), task.name
    assert count(tasks).hours == pytest.approx(62, abs=2)  # three videos of MECCANO are absent


def test_captaincook4d():
    tasks = load("captaincook4d", SHARED / "captaincook4d")
    assert {task.name: (len(task), len(task.steps)) for task in tasks} == {
        "Microwave Egg Sandwich": (18, 12),
        "Spiced Hot Chocolate": (16, 7),
        "Microwave French Toast": (14, 11),
        "Tomato Mozzarella Salad": (18, 9),
        "Scrambled Eggs": (16, 23),
    }
    for task in tasks:
        assert {step for edge in task.graph for step in edge} <= set(task.steps)
        for video in task:
            assert max(s.end for s in video.timeline) <= video.duration
            for backbone in video.features:
                assert abs(len(video.read_features(backbone)) - video.duration) <= 2
    errors = [what for task in tasks for video in task for _, what in video.errors]
    assert errors.count("missing step") == 59
