"""Task and TaskVideo: what every data set gives, whatever its files look like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import choose
from stepcut.features.files import load_features
from stepcut.timeline import Timeline


@dataclass(frozen=True)
class TaskVideo:
    """One video of a task: where it is, its features, its true timeline."""

    name: str
    path: Path | None = None
    """The video file, where there is one."""
    features: Mapping[str, Path] = field(default_factory=dict)
    """Backbone name -> a `.npy` or `.safetensors` file of rows, (T, d) or maps (T, C, h, w)."""
    rate: Fraction | None = None
    """Rows of the features per second, where there are features: row i stands for time i / rate."""
    duration: float | None = None
    """Seconds."""
    timeline: Timeline | None = None
    """Which step is done when, in seconds; None where nobody has said."""
    about: Mapping[str, str] = field(default_factory=dict)
    """What else is known: person, environment, view."""
    errors: tuple[tuple[str, str], ...] = ()
    """(step, what went wrong) for data sets that label mistakes; "missing step" for one that was left out."""

    def read_features(self, backbone: str) -> NDArray[np.float32]:
        """The features of one `backbone`, a name in `features`: (T, d), or maps (T, C, h, w)."""
        (found,) = load_features([choose("backbone", backbone, self.features)], 1)
        return np.array(found.rows, dtype=np.float32)


@dataclass(frozen=True)
class Task:
    """Some videos of people doing the same thing.

    >>> Task("pour tea", [TaskVideo("a"), TaskVideo("b")], steps=("pour",))
    <Task pour tea: 2 videos, 1 steps>
    """

    name: str
    videos: list[TaskVideo]
    steps: tuple[str, ...]
    graph: tuple[tuple[str, str], ...] | None = None
    """The true partial order where it is known, as given: (before, after) by step name."""
    defects: tuple[str, ...] = ()
    """What is known to be wrong with these files."""

    def __iter__(self) -> Iterator[TaskVideo]:
        return iter(self.videos)

    def __len__(self) -> int:
        return len(self.videos)

    def __repr__(self) -> str:
        return f"<Task {self.name}: {len(self.videos)} videos, {len(self.steps)} steps>"

    @property
    def timelines(self) -> dict[str, Timeline]:
        """Video name -> true timeline, for the videos that have one."""
        return {video.name: video.timeline for video in self.videos if video.timeline is not None}

    def with_features(self, backbone: str) -> Task:
        """The task with only those videos that have features of this backbone."""
        videos = [video for video in self.videos if backbone in video.features]
        return Task(self.name, videos, self.steps, self.graph, self.defects)
