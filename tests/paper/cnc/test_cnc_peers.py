"""ASOT with its training."""

from pathlib import Path

import numpy as np
import pytest

import stepcut as sc
from stepcut.methods import METHODS
from stepcut.paper.cnc.peers import AsotTrained
from stepcut.testing import check_method, made_up_videos


def make(**settings: object) -> AsotTrained:
    return AsotTrained(**{"steps": 3, "epochs": 4, "hidden": 16, "restarts": 2, **settings})  # type: ignore[arg-type]


def test_keeps_the_contract_of_methods() -> None:
    assert METHODS["asot-trained"] is AsotTrained
    check_method(make())


def test_training_lowers_the_loss_and_finds_the_steps() -> None:
    videos = made_up_videos()
    method = make(temperature=0.5, epochs=20, prior=0.2).fit(videos)
    losses = np.array(method.curve_.values)[:, 0]  # type: ignore[union-attr]
    assert losses.shape == (100,)
    assert losses[-5:].mean() < 0.9 * losses[:5].mean()
    for rows, labels in zip(videos, method.labels_, strict=True):
        assert (labels == rows[:, :3].argmax(1)).mean() > 0.95


@pytest.mark.parametrize(
    "videos",
    [
        [np.zeros((9, 4)), np.zeros((5, 4))],
        [np.full((1, 3), 2.0), np.random.default_rng(0).normal(size=(8, 3))],
    ],
)
def test_poor_videos_are_read(videos: list[np.ndarray]) -> None:
    method = make().fit(videos)
    assert np.isfinite(method.read(videos[0]).probabilities).all()


def test_is_saved_and_loaded(tmp_path: Path) -> None:
    videos = made_up_videos()
    learned = sc.learn(videos, steps=3, method="asot-trained", epochs=2)
    learned.save(tmp_path / "p.proc")
    loaded = sc.load(tmp_path / "p.proc")
    one, other = (each.method.read(videos[0]) for each in (learned, loaded))
    assert np.array_equal(one.probabilities, other.probabilities)
