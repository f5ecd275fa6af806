"""Features of toy videos that nobody filmed: the same scripts, with vectors in place of frames."""

from __future__ import annotations

from typing import Unpack

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from stepcut.datasets.toy.script import STEPS, ScriptSettings, write_script
from stepcut.methods.segmenter import check_number
from stepcut.timeline import Timeline


def toy_features(
    videos: int = 6,
    seed: int = 0,
    dim: int = 32,
    rate: float = 1.0,
    *,
    noise: float = 0.5,
    offset: float = 2.0,
    drift: float = 0.5,
    **plan: Unpack[ScriptSettings],
) -> tuple[list[NDArray[np.float32]], list[Timeline]]:
    """A list of `(T, dim)` features, `rate` rows a second, and the true timelines.

    Row = the step's prototype (of length about 1, the same in all videos; a vector of its own for each stretch of
    background) + `offset` x what is particular to the video + `drift` x something that changes slowly + `noise`.
    `plan` is what `write_script` takes.

    >>> rows, timelines = toy_features(videos=2, rate=2)
    >>> len(rows[0]) == round(2 * timelines[0].end)
    True
    """
    check_number("videos", videos, 1, whole=True)
    check_number("dim", dim, 1, whole=True)
    check_number("rate", rate, 0, 1000, above=True)
    prototypes = np.random.default_rng([seed, 5]).standard_normal((len(STEPS), dim)) / np.sqrt(dim)
    rows, timelines = [], []
    for video in range(videos):
        script = write_script(seed, video, **plan)
        rng = np.random.default_rng([seed, video, 6])
        count = max(1, round(script.duration * rate))
        times = np.arange(count) / rate
        clean = np.empty((count, dim))
        for shot in script.shots:
            own = rng.standard_normal(dim) / np.sqrt(dim)
            clean[times >= shot.start] = prototypes[STEPS.index(shot.step)] if shot.step else own
        slow = gaussian_filter1d(rng.standard_normal((count, dim)), 10 * rate, axis=0, mode="nearest")
        slow /= max(float(np.sqrt((slow**2).sum(1).mean())), 1e-9)
        particular = rng.standard_normal(dim) / np.sqrt(dim)
        shaken = noise * rng.standard_normal((count, dim)) / np.sqrt(dim)
        rows.append((clean + offset * particular + drift * slow + shaken).astype(np.float32))
        timelines.append(script.timeline)
    return rows, timelines
