"""What an experiment is made of: tasks of a data set or of the toy kitchen, with given features or videos."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import DataError, OptionError, StepcutError, unknown
from stepcut.progress import Hook, silent
from stepcut.timeline import Timeline

if TYPE_CHECKING:
    from stepcut.datasets import Task
    from stepcut.parallel.contract import Engine

Rows = NDArray[Any]

TOY_VIEWS = {"egocentric": "ego", "side": "side"}


@dataclass(frozen=True)
class Material:
    """The videos of one task from one camera, as much of them as a cell needs; small enough to hand to a process."""

    task: str
    view: str
    truth: dict[str, Timeline]
    durations: dict[str, float]
    fingerprint: str
    """Changes when the truth or the features do."""
    graph: tuple[tuple[str, str], ...] | None = None
    features: dict[str, Path] = field(default_factory=dict)
    """Video -> a file of rows (T, d) or (T, C, h, w); empty where there are neither features nor videos."""
    rate: float = 1.0

    @property
    def steps(self) -> int:
        """The number of true steps that occur."""
        return len({segment.step for timeline in self.truth.values() for segment in timeline})

    @property
    def bytes(self) -> int:
        """What its features take, roughly."""
        return sum(path.stat().st_size for path in self.features.values())

    def read(self) -> dict[str, Rows]:
        """The features of every video."""
        from stepcut.features.extract import load_features

        if not self.features:
            raise DataError(f"task {self.task!r} has neither features nor videos; only rows of no video can be filled.")
        return {name: load_features([path], self.rate)[0].rows for name, path in self.features.items()}


@dataclass(frozen=True)
class Source:
    """Where the material comes from, as the results file names it."""

    data: str
    features: str | None


def gather(
    data: str | os.PathLike[str],
    features: str | None = None,
    tasks: Sequence[str] | None = None,
    views: bool = False,
    fps: float | None = None,
    folder: Path = Path(),
    toy: Mapping[str, Any] | None = None,
    progress: Hook = silent,
    engine: Engine | None = None,
) -> tuple[Source, list[Material]]:
    """The material of an experiment.

    `data`: "toy", the folder of a data set, or NAME:DIR where its kind cannot be told. `features`: the name of given
    features, or of a backbone for videos. `fps`: frames seen per second of video (2), or rows per second of given
    features that do not say it (1). `tasks`: only these. `views`: from every camera. With an `engine`, its workers see
    the videos, and keep the features in `folder`, which they share.
    """
    name, per_view = _load(data, views, folder, toy or {}, progress)
    chosen = {view: _select(found, tasks) for view, found in per_view.items()}
    everything = [task for found in chosen.values() for task in found]
    kind = _choose_features(features, everything)
    materials = []
    for view, found in chosen.items():
        for task in found:
            material = _material(task, view, kind, fps, folder, progress, engine)
            if material is not None:
                materials.append(material)
    if not materials:
        raise DataError(f"no task of {data} has features {kind!r} and true timelines. Choose other features or tasks.")
    return Source(name, kind), materials


def _load(
    data: str | os.PathLike[str], views: bool, folder: Path, toy: Mapping[str, Any], progress: Hook
) -> tuple[str, dict[str, list[Task]]]:
    """The name of the data set, and its tasks from each camera."""
    from stepcut.datasets import DATASETS, load

    if str(data) == "toy":
        from stepcut.datasets.toy import make_kitchen

        places = {view: folder / f"toy-{eye}" for view, eye in (TOY_VIEWS if views else {"": "ego"}).items()}
        for view, place in places.items():
            make_kitchen(place, view=TOY_VIEWS.get(view, "ego"), progress=progress, **toy)
        return "toy", {view: load("toy", place) for view, place in places.items()}
    name, root = _which(str(data))
    if not views:
        return name, {"": load(name, root)}
    if name != "egoprocel":
        raise OptionError(f"views: {name!r} has one camera only. Choose egoprocel (CMU-MMAC), or --data toy.")
    from stepcut.datasets.egoprocel import VIEWS
    from stepcut.evaluation.experiments.published import PART_OF

    seen = {view: load(name, root, view=view) for view in VIEWS}
    cmu = {view: [task for task in found if PART_OF.get(task.name) == "CMU-MMAC"] for view, found in seen.items()}
    if not any(video.path or video.features for found in cmu.values() for task in found for video in task):
        raise DataError(f"{root}: the cameras differ in what they see, so videos or features of CMU-MMAC are needed.")
    return str(DATASETS[name].name), cmu


def _which(data: str) -> tuple[str, str]:
    """The kind and the folder of a data set: as given in NAME:DIR, or the first kind that finds tasks there."""
    from stepcut.datasets import DATASETS, examine

    name, colon, root = data.partition(":")
    if colon and name in DATASETS:
        return name, root
    if colon and not Path(data).exists():
        raise OptionError(unknown("data", name, [*DATASETS, "toy"]))
    if not Path(data).is_dir():
        raise DataError(f"{data}: there is no such folder. Give the folder of a data set, NAME:DIR, or toy.")
    for kind in DATASETS:
        try:
            if examine(kind, data).tasks:
                return kind, data
        except StepcutError:
            continue
    raise DataError(f"{data}: no data set is known by this folder. 'stepcut data list' names those that are.")


def _select(found: Sequence[Task], wanted: Sequence[str] | None) -> list[Task]:
    if not wanted:
        return list(found)
    names = {task.name.casefold(): task for task in found}
    for name in wanted:
        if name.casefold() not in names:
            raise OptionError(unknown("task", name, [task.name for task in found]))
    return [names[name.casefold()] for name in wanted]


def _choose_features(features: str | None, tasks: Sequence[Task]) -> str | None:
    """The features to use: as asked for, the only given ones, the default backbone for videos, or none at all."""
    given = sorted({name for task in tasks for video in task for name in video.features})
    filmed = any(video.path for task in tasks for video in task)
    if features is not None:
        if features not in given and not filmed:
            raise OptionError(unknown("features", features, given or ["none are here"]))
        return features
    if len(given) > 1:
        raise OptionError(f"features of several kinds are here; say which: --features {' | '.join(given)}.")
    if given:
        return given[0]
    return "efficientnet-lite0" if filmed else None


def _material(
    task: Task,
    view: str,
    kind: str | None,
    fps: float | None,
    folder: Path,
    progress: Hook,
    engine: Engine | None,
) -> Material | None:
    """The material of one task; None where no video has both a truth and these features."""
    true = {v.name: v for v in task if v.timeline is not None and len(v.timeline)}
    files: dict[str, Path] = {}
    durations: dict[str, float] = {}
    rate = 1.0
    if kind is None:
        durations = {name: v.duration or (v.timeline.end if v.timeline else 0.0) for name, v in true.items()}
    elif any(kind in v.features for v in true.values()):
        files = {name: v.features[kind].absolute() for name, v in true.items() if kind in v.features}
        rates = {float(v.rate) for name, v in true.items() if name in files and v.rate is not None}
        if len(rates) > 1:
            raise DataError(
                f"task {task.name!r}: features of {kind} come at {sorted(rates)} rows a second. Use one rate."
            )
        rate = rates.pop() if rates else fps or 1.0
        durations = {n: len(np.load(p, mmap_mode="r", allow_pickle=False)) / rate for n, p in files.items()}
    elif filmed := {name: v.path for name, v in true.items() if v.path is not None}:
        files, durations, rate = _see(filmed, kind, fps or 2.0, folder, progress, engine)
    if not durations:
        return None
    truth = {name: v.timeline for name, v in true.items() if name in durations and v.timeline is not None}
    return Material(task.name, view, truth, durations, _fingerprint(truth, files, rate), task.graph, files, rate)


def _see(
    filmed: Mapping[str, Path], backbone: str, fps: float, folder: Path, progress: Hook, engine: Engine | None
) -> tuple[dict[str, Path], dict[str, float], float]:
    """Features of videos, computed once and kept in the store: their files, the videos' lengths, and the rate."""
    from stepcut.features.extract import extract

    cache = None if engine is None else folder
    found, _ = extract(list(filmed.values()), backbone, fps, cache, progress, strict=True, engine=engine)
    seen = {one.path: one for one in found}
    files, durations, rate = {}, {}, fps
    for name, path in filmed.items():
        one = seen[str(path)]
        if isinstance(one.rows, np.memmap) and one.rows.filename is not None:
            files[name], durations[name], rate = Path(one.rows.filename), one.duration, float(one.rate)
    return files, durations, rate


def _fingerprint(truth: Mapping[str, Timeline], files: Mapping[str, Path], rate: float) -> str:
    from stepcut.evaluation.evaluate import fingerprint
    from stepcut.features.store import content_hash
    from stepcut.files.cache import cache_dir

    contents = {name: content_hash(path, cache_dir()) for name, path in sorted(files.items())}
    return hashlib.sha256(json.dumps([fingerprint(truth), contents, rate]).encode()).hexdigest()[:16]
