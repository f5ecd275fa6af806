"""A toy kitchen: videos of breakfast, or features of them, with exact ground truth."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from stepcut.errors import DataError, check_kind, choose
from stepcut.files import path_text, read_json, write_json
from stepcut.formats import write
from stepcut.progress import Hook, Stage, silent
from stepcut.settings import SEEDS, check_number
from stepcut.timeline import Timeline
from stepcut.toy.script import DEFAULTS, EDGES, STEPS, Flaw, Script, write_script

__all__ = [
    "EDGES", "STEPS", "Flaw", "Script", "ToyKitchen", "make_kitchen", "toy_features", "write_script",
]  # fmt: skip

VIEWS = {"ego": "from the cook's own eyes", "side": "from a tripod in the corner"}
EDITION = 4  # incremented when the same settings produce different videos
MOST_VIDEOS = 100_000


@dataclass(frozen=True)
class ToyKitchen:
    """A folder of toy videos and their ground truth.

    Examples
    --------
    >>> make_kitchen("toy", videos=1, duration=5).annotations.name
    'annotations'
    """

    folder: Path
    videos: tuple[Path, ...]
    timelines: dict[str, Timeline]
    """Ground truth by video name (file name without suffix)."""
    view: str = "ego"
    steps: tuple[str, ...] = STEPS
    edges: frozenset[tuple[str, str]] = EDGES
    """The true task graph: `(before, after)` by step name."""
    flaws: dict[str, tuple[Flaw, ...]] = field(default_factory=dict)
    """Mistakes by video name; empty for kitchens made without `flaw`."""

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
    """Render breakfast videos: `videos/*.mp4`, `annotations/*.csv` (EgoProceL) and `graph.json`.

    The same arguments give the same videos. Existing videos are kept, so the same call completes an
    interrupted kitchen.

    Parameters
    ----------
    folder
        Where to write.
    videos
        Number of videos.
    seed
        Seed of all random choices.
    view
        "ego", or "side" for a tripod that films the same recordings.
    progress
        Progress hook.
    **plan
        Parameters of `write_script`, such as `duration=66` or `flaw="skip:add jam"`.

    Returns
    -------
    ToyKitchen
        The files and their ground truth.

    Raises
    ------
    OptionError
        If an argument is out of range.
    DataError
        If the folder contains a kitchen with other settings.

    Examples
    --------
    >>> kitchen = make_kitchen("toy", videos=1, duration=5)
    >>> [video.name for video in kitchen.videos]
    ['kitchen-0-00.mp4']
    """
    from stepcut.toy.render import is_filmed, render_video  # PIL: only when needed

    choose("view", view, VIEWS)
    check_number("videos", videos, 1, MOST_VIDEOS, whole=True)
    scripts = [write_script(seed, video, **plan) for video in range(videos)]
    root = Path(path_text(folder))
    settings = {
        "edition": EDITION,
        "videos": videos,
        "seed": seed,
        "view": view,
        **DEFAULTS,
        **plan,
    }
    there = read_json(root / "kitchen.json") if (root / "kitchen.json").is_file() else settings
    differ = [f"{key}={there.get(key)!r}" for key in settings if there.get(key) != settings[key]]
    if differ:
        what = (
            f"{root}: contains another toy kitchen, made with {', '.join(differ)}. Choose another "
        )
        raise DataError(f"{what}folder, or delete this one.")
    write_json(root / "kitchen.json", settings)
    write_json(root / "graph.json", {"steps": STEPS, "edges": sorted(EDGES)})
    if flaws := {script.name: script.flaws for script in scripts if script.flaws}:
        listed = {name: [asdict(flaw) for flaw in found] for name, found in flaws.items()}
        write_json(root / "flaws.json", listed)
    for script in scripts:
        write(root / "annotations" / f"{script.name}.csv", script.timeline, "egoprocel")
    paths = tuple(root / "videos" / f"{script.name}.mp4" for script in scripts)

    def film(script: Script, path: Path) -> str:
        if not is_filmed(script, path):
            render_video(script, path, view)
        return path.name

    # Threads suffice: drawing and encoding release the GIL.
    with (
        Stage(progress, "film", total=videos, unit="videos") as stage,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        for name in pool.map(film, scripts, paths):
            stage.advance(item=name)
    timelines = {script.name: script.timeline for script in scripts}
    return ToyKitchen(root, paths, timelines, view, flaws=flaws)


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
    """Generate features of breakfast videos, and their true timelines.

    Each row is the prototype of its step, plus an offset of the video, slow drift and noise.
    Prototypes have length about 1 and are the same in all videos. Each stretch of background has
    its own vector.

    Parameters
    ----------
    videos
        Number of videos.
    seed
        Seed of all random choices.
    dim
        Dimension of a row.
    rate
        Rows per second.
    noise, offset, drift
        Weights of the parts.
    **plan
        Parameters of `write_script`.

    Returns
    -------
    rows : list of array
        Features, (T, dim) each.
    timelines : list of Timeline
        Ground truth.

    Raises
    ------
    OptionError
        If an argument is out of range.

    Examples
    --------
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
        shaken = rng.standard_normal((count, dim))
        slow = gaussian_filter1d(shaken, 10 * rate, axis=0, mode="nearest")
        slow /= max(float(np.sqrt((slow**2).sum(1).mean())), 1e-9)
        particular = rng.standard_normal(dim) / np.sqrt(dim)
        shaken = noise * rng.standard_normal((count, dim)) / np.sqrt(dim)
        rows.append((clean + offset * particular + drift * slow + shaken).astype(np.float32))
        timelines.append(script.timeline)
    return rows, timelines
