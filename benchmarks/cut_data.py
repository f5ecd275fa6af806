"""What the scripts about the cut work on: toy features and CaptainCook4D recipes, prepared without any training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from stepcut.paper.datasets import load
from stepcut.timeline import Timeline
from stepcut.toy import toy_features

DIMENSIONS = 64


@dataclass
class Cuttable:
    """One task with features that are ready to be cut, one row a second, and its true labels (0 is background)."""

    name: str
    rows: list[NDArray[Any]]
    true: list[NDArray[np.int64]]
    steps: tuple[str, ...]
    group: str


def toy_tasks(seeds: int = 5, smooth: float = 0.0, noise: float = 0.5) -> list[Cuttable]:
    """Toy features of eight videos each, a seed per task."""
    tasks = []
    for seed in range(seeds):
        rows, timelines = toy_features(videos=8, seed=seed, noise=noise)
        tasks.append(make(f"toy {seed}", rows, timelines, "toy", smooth))
    return tasks


def recipe_tasks(root: Path, smooth: float = 0.0) -> list[Cuttable]:
    """The CaptainCook4D recipes under `root` that have features."""
    tasks = []
    for task in load("captaincook4d", root):
        backbones = {name for video in task for name in video.features}
        for backbone in sorted(backbones - {"slowfast"}):
            videos = [v for v in task.with_features(backbone) if v.timeline is not None]
            rows = [video.read_features(backbone) for video in videos]
            timelines = [video.timeline for video in videos if video.timeline is not None]
            tasks.append(make(f"{task.name}, {backbone}", rows, timelines, "captaincook4d", smooth))
    return tasks


def make(
    name: str, rows: list[NDArray[Any]], timelines: list[Timeline], group: str, smooth: float
) -> Cuttable:
    pairs = zip(rows, timelines, strict=True)
    true = [timeline.labels(np.arange(len(video)) + 0.5) + 1 for video, timeline in pairs]
    return Cuttable(name, prepare(rows, smooth), true, timelines[0].steps, group)


def prepare(rows: list[NDArray[Any]], smooth: float) -> list[NDArray[np.float32]]:
    """Every video centred on its own mean, smoothed over `smooth` seconds, at most 64 principal components."""
    centred = [video - video.mean(axis=0) for video in rows]
    smoothed = [
        gaussian_filter1d(video, smooth, axis=0, mode="nearest") if smooth else video
        for video in centred
    ]
    joined = np.concatenate(smoothed)
    _, axes = np.linalg.eigh(joined.T @ joined)
    return [(video @ axes[:, -DIMENSIONS:]).astype(np.float32) for video in smoothed]
