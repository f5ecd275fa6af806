"""A kitchen that films itself: first-person videos of breakfast being made, or features of them, with exact truth.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     make_kitchen(folder, videos=1, duration=5)
<ToyKitchen 1 video of 6 steps, 0.1 min, ego>
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from stepcut.checks import SEEDS, check_number
from stepcut.errors import DataError, check_kind, choose
from stepcut.files.addresses import path_text
from stepcut.files.atomic import read_json, write_json
from stepcut.formats import write
from stepcut.progress import Hook, Stage, silent
from stepcut.timeline import Timeline
from stepcut.toy.script import DEFAULTS, EDGES, STEPS, Flaw, Script, write_script

__all__ = [
    "EDGES",
    "STEPS",
    "Flaw",
    "Script",
    "ToyKitchen",
    "make_kitchen",
    "toy_features",
    "write_script",
]

VIEWS = {"ego": "from the cook's own eyes", "side": "from a tripod in the corner"}
EDITION = 3
"""Raised when the same settings give other videos than before."""
MOST_VIDEOS = 100_000
"""More would be filmed for months."""


@dataclass(frozen=True)
class ToyKitchen:
    """A folder of toy videos and what is true of them."""

    folder: Path
    videos: tuple[Path, ...]
    timelines: dict[str, Timeline]
    """The ground truth by the video's name, the file's name without its suffix."""
    view: str = "ego"
    steps: tuple[str, ...] = STEPS
    edges: frozenset[tuple[str, str]] = EDGES
    """The true task graph: `(before, after)` by step name."""
    flaws: dict[str, tuple[Flaw, ...]] = field(default_factory=dict)
    """What is wrong, by the video's name; empty for kitchens made without `flaw`."""

    @property
    def annotations(self) -> Path:
        """The folder of the annotation files."""
        return self.folder / "annotations"

    def __repr__(self) -> str:
        minutes = sum(timeline.end for timeline in self.timelines.values()) / 60
        count = f"{len(self.videos)} video{'s' if len(self.videos) > 1 else ''}"
        return f"<ToyKitchen {count} of {len(self.steps)} steps, {minutes:.1f} min, {self.view}>"


def make_kitchen(
    folder: str | os.PathLike[str],
    videos: int = 8,
    seed: int = 0,
    *,
    view: str = "ego",
    progress: Hook = silent,
    **plan: Any,
) -> ToyKitchen:
    """Film `videos` breakfasts into `folder`: `videos/*.mp4`, `annotations/*.csv` (EgoProceL), `graph.json`.

    view: "ego", or "side" for a tripod that films the same recordings. plan: what `write_script` takes: duration=66,
    background=0.2, skip=0.1, repeat=0.15, shuffle=0.7, flaw=None or for example "skip:add jam" (in every video).

    Same arguments, same videos. What is there already is kept; an interrupted kitchen is completed by the same call.
    """
    from stepcut.toy.render import is_filmed, render_video  # PIL: only when needed

    choose("view", view, VIEWS)
    check_number("videos", videos, 1, MOST_VIDEOS, whole=True)
    scripts = [write_script(seed, video, **plan) for video in range(videos)]
    root = Path(path_text(folder))
    settings: dict[str, Any] = {
        "edition": EDITION,
        "videos": videos,
        "seed": seed,
        "view": view,
        **DEFAULTS,
        **plan,
    }
    there = read_json(root / "kitchen.json") if (root / "kitchen.json").is_file() else settings
    if differing := [
        f"{key}={there.get(key)!r}" for key, value in settings.items() if there.get(key) != value
    ]:
        what = f"{root}: another toy kitchen is there, made with {', '.join(differing)}; old and new videos would mix"
        raise DataError(f"{what}. Choose another folder, or delete this one.")
    write_json(root / "kitchen.json", settings)
    write_json(root / "graph.json", {"steps": STEPS, "edges": sorted(EDGES)})
    flaws = {script.name: script.flaws for script in scripts if script.flaws}
    if flaws:
        write_json(
            root / "flaws.json",
            {name: [asdict(flaw) for flaw in found] for name, found in flaws.items()},
        )
    for script in scripts:
        write(root / "annotations" / f"{script.name}.csv", script.timeline, "egoprocel")
    paths = tuple(root / "videos" / f"{script.name}.mp4" for script in scripts)

    def film(script: Script, path: Path) -> str:
        if not is_filmed(script, path):
            render_video(script, path, view)
        return path.name

    # Threads do: drawing and encoding let go of Python's lock.
    with (
        Stage(progress, "film", total=videos, unit="videos") as stage,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        for name in pool.map(film, scripts, paths):
            stage.advance(item=name)
    return ToyKitchen(
        root, paths, {script.name: script.timeline for script in scripts}, view, flaws=flaws
    )


def toy_features(
    videos: int = 6,
    seed: int = 0,
    dim: int = 32,
    rate: float = 1.0,
    *,
    noise: float = 0.5,
    offset: float = 2.0,
    drift: float = 0.5,
    **plan: Any,
) -> tuple[list[NDArray[np.float32]], list[Timeline]]:
    """Features of `videos` breakfasts that nobody filmed, `(T, dim)` at `rate` rows a second, and the true timelines.

    Row = the step's prototype (of length about 1, the same in all videos; a vector of its own for each stretch of
    background) + `offset` x what is particular to the video + `drift` x something that changes slowly + `noise`.
    `plan` is what `write_script` takes.

    >>> rows, timelines = toy_features(videos=2, rate=2)
    >>> len(rows[0]) == round(2 * timelines[0].end)
    True
    """
    check_number("videos", videos, 1, MOST_VIDEOS, whole=True)
    check_number("seed", seed, 0, SEEDS, whole=True)
    check_number("dim", dim, 1, whole=True)
    check_number("rate", rate, 0, 1000, above=True)
    for name, weight in {"noise": noise, "offset": offset, "drift": drift}.items():
        check_kind(name, weight, Real, "a number")
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
        slow = gaussian_filter1d(
            rng.standard_normal((count, dim)), 10 * rate, axis=0, mode="nearest"
        )
        slow /= max(float(np.sqrt((slow**2).sum(1).mean())), 1e-9)
        particular = rng.standard_normal(dim) / np.sqrt(dim)
        shaken = noise * rng.standard_normal((count, dim)) / np.sqrt(dim)
        rows.append((clean + offset * particular + drift * slow + shaken).astype(np.float32))
        timelines.append(script.timeline)
    return rows, timelines
