"""The input of an experiment: tasks of a data set or of the toy kitchen, with their features."""

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import DataError, OptionError, StepcutError, choose, unknown
from stepcut.evaluation.evaluate import fingerprint
from stepcut.features.backbones.networks import map_shape
from stepcut.features.extract import extract
from stepcut.features.features import Failure, Features
from stepcut.features.files import content_hash, load_features, spec_of
from stepcut.features.spec import DEFAULT, FeatureSpec, as_spec
from stepcut.files.cache import cache_dir
from stepcut.paper.datasets import Task, TaskVideo, all_datasets, load
from stepcut.paper.datasets.egoprocel import TASKS, VIEWS
from stepcut.parallel.engine import Engine
from stepcut.progress import Hook
from stepcut.rate import Rate
from stepcut.timeline import Timeline
from stepcut.toy import make_kitchen
from stepcut.toy.script import DEFAULTS

Rows = NDArray[Any]
Maker = Callable[[list[Path], FeatureSpec], tuple[list[Features], list[Failure]]]
Found = tuple[dict[str, tuple[Features, float]], list[str]]
"""Features (with their file) and length in seconds by video, and notes."""

MAPS = {
    "keep": "keep all maps in the cache",
    "stream": "keep the maps of one task at a time",
}
SLACK = 2.0
"""Seconds by which features may miss the end of their video before their rate is rejected."""
TOY_VIEWS = {"egocentric": "ego", "side": "side"}


@dataclass(frozen=True)
class Material:
    """The videos of one task from one camera; small enough to send to a process."""

    task: Task
    view: str
    durations: dict[str, float]
    """Lengths of the videos used, in seconds."""
    features: dict[str, Path] = field(default_factory=dict)
    """Video -> file of rows (T, d) or (T, C, h, w); empty without features and videos."""
    rate: float = 1.0
    described: str | None = None
    """Description of the features."""
    notes: Sequence[str] = ()
    """Assumptions, and excluded videos."""
    fingerprint: str = field(init=False)
    """Changes when the annotations or the features change."""

    def __post_init__(self) -> None:
        # Computed now: streamed maps are deleted before the results are written.
        contents = {
            name: content_hash(path, cache_dir()) for name, path in sorted(self.features.items())
        }
        held = json.dumps([fingerprint(self.truth), contents, self.rate])
        object.__setattr__(self, "fingerprint", hashlib.sha256(held.encode()).hexdigest()[:16])

    @property
    def truth(self) -> dict[str, Timeline]:
        return {
            name: timeline
            for name, timeline in self.task.timelines.items()
            if name in self.durations
        }

    @property
    def steps(self) -> int:
        return len({segment.step for timeline in self.truth.values() for segment in timeline})

    def read(self) -> dict[str, Rows]:
        existing = {
            path.absolute(): (video, kind)
            for video in self.task
            for kind, path in video.features.items()
        }
        rows = {}
        for name, path in self.features.items():
            if path in existing:
                video, kind = existing[path]
                rows[name] = video.open_features(kind, self.rate).rows
            else:
                rows[name] = load_features([path], self.rate)[0].rows
        return rows


def make_material(
    task: Task, view: str, kind: str | FeatureSpec | None, fps: Rate | None, make: Maker
) -> Material | None:
    """Collect the material of a `task` from one `view`; None without usable videos.

    `kind` is the name of existing features, the spec of features that `make` extracts, or None.
    `fps` is the rate of existing features that do not store it.
    """
    true = {
        video.name: video for video in task if video.timeline is not None and len(video.timeline)
    }
    if kind is None:
        lengths = {name: video.duration or task.timelines[name].end for name, video in true.items()}
        return Material(task, view, lengths) if lengths else None
    found, notes = (
        _read_existing(true, kind, fps) if isinstance(kind, str) else _extract(true, kind, make)
    )
    if not found:
        return None
    durations = {name: length for name, (_, length) in found.items()}
    rates = sorted({one.rate for one, _ in found.values()})
    if len(rates) > 1:
        raise DataError(
            f"task {task.name!r}: features {kind} have different rates: {[*map(str, rates)]}.",
            setting="features",
            value=kind,
        )
    files = {name: Path(one.path or "") for name, (one, _) in found.items()}
    words = _describe(next(iter(found.values()))[0], kind)
    return Material(
        task,
        view,
        durations,
        files,
        float(rates[0]),
        words,
        [f"{task.name}: {note}" for note in notes],
    )


def _read_existing(true: Mapping[str, TaskVideo], kind: str, fps: Rate | None) -> Found:
    """Read existing features of annotated videos; note assumptions."""
    found, notes = {}, []
    for name, video in true.items():
        if kind not in video.features:
            continue
        file = video.features[kind].absolute()
        one = video.open_features(kind, fps)
        length, expected = len(one.rows) / float(one.rate), video.duration
        if expected is not None and abs(length - expected) > max(SLACK, 0.05 * expected):
            raise DataError(
                f"{file}: {len(one.rows)} rows at {one.rate} per second are {length:.0f} s, but "
                f"the video has {expected:.0f} s. Set --fps {len(one.rows) / expected:.3g}",
                path=file,
            )
        if one.spec is None and video.rate is None and fps is None:
            notes = ["the rate of the features is unknown; 1 row per second is assumed."]
        found[name] = one, length
    return found, notes


def _extract(true: Mapping[str, TaskVideo], spec: FeatureSpec, make: Maker) -> Found:
    """Extract features of annotated videos; failed videos are excluded."""
    with_video = {str(video.path): name for name, video in true.items() if video.path is not None}
    made, failed = make([Path(path) for path in with_video], spec) if with_video else ([], [])
    notes = [f"{failure.name} is excluded: {failure.error}" for failure in failed]
    found = {}
    for one in made:
        if isinstance(one.rows, np.memmap) and one.rows.filename is not None:
            found[with_video[str(one.path)]] = (
                replace(one, path=str(one.rows.filename)),
                one.duration,
            )
    if with_video and not found:
        raise DataError(
            f"none of the {len(with_video)} videos of a task is usable. {' '.join(notes[:2])}"
        )
    return found, notes


def _describe(one: Features, kind: str | FeatureSpec) -> str:
    spec = one.spec or (kind if isinstance(kind, FeatureSpec) else None)
    name = str(kind) if spec is None else spec.backbone
    layer = (spec and spec.layer) or ("conv4c" if name == "resnet50" else "")
    maps = "maps of {} x {}".format(*one.rows.shape[2:]) if one.rows.ndim == 4 else ""
    return " ".join(
        word for word in (name, layer, maps, f"at {float(one.rate):g} per second") if word
    )


def find_tasks(
    roots: Sequence[str | os.PathLike[str]],
    tasks: Sequence[str] | None,
    views: bool,
    folder: Path,
    toy: Mapping[str, Any],
    progress: Hook,
    datasets: Sequence[str] = (),
    fps: Rate | None = None,
) -> tuple[str, list[tuple[str, Task]]]:
    """Return the name of the data set, and its tasks, each with its camera or data set.

    `roots` are "toy", folders of one data set, or NAME:DIR. With `views`, load every camera. The
    toy kitchen is rendered into `folder`. `datasets` are those that a table compares.
    `fps` is the rate of labels per frame, in the layout of action segmentation.
    """
    if datasets:
        name, seen = _compare(roots, datasets)
    elif [str(root) for root in roots] == ["toy"]:
        name, seen = "toy", {}
        for setting in toy:
            choose("toy", setting, dict.fromkeys(("videos", "seed", *DEFAULTS)))
        for view, camera in (TOY_VIEWS if views else {"": "ego"}).items():
            make_kitchen(folder / f"toy-{camera}", view=camera, progress=progress, **toy)
            seen[view] = load("toy", folder / f"toy-{camera}")
    else:
        name, seen = _load(roots, views, fps)
    chosen = []
    for view, found in seen.items():
        names = {task.name: task for task in found}
        spelled = {each.casefold(): each for each in names}
        wanted = names if tasks is None else tasks
        if datasets and tasks is not None:
            wanted = [each for each in tasks if each.casefold() in spelled]
        chosen += [
            (view, choose("task", spelled.get(each.casefold(), each), names)) for each in wanted
        ]
    return name, chosen


def _compare(
    roots: Sequence[str | os.PathLike[str]], datasets: Sequence[str]
) -> tuple[str, dict[str, list[Task]]]:
    seen: dict[str, list[Task]] = {}
    for root in roots:
        kind, place = _which(str(root)) if str(root) != "toy" else ("toy", "")
        if kind not in datasets:
            raise OptionError(
                f"--data {root} is {kind}; this table compares {' and '.join(datasets)}. Use "
                + " ".join(f"--data {each}:DIR" for each in datasets),
                setting="data",
                value=root,
                allowed=list(datasets),
            )
        seen.setdefault(kind, []).extend(load(kind, place))
    return " and ".join(each for each in datasets if each in seen), seen


def _load(
    roots: Sequence[str | os.PathLike[str]], views: bool, fps: Rate | None
) -> tuple[str, dict[str, list[Task]]]:
    """Load one data set from folders `roots`, once per camera if `views`."""
    kinds = [_which(str(root)) for root in roots]
    name, root = kinds[0]
    if {kind for kind, _ in kinds} != {name}:
        raise OptionError(
            f"--data names several data sets: {', '.join(kind for kind, _ in kinds)}. Use one.",
            setting="data",
            value=roots,
        )
    if not views:
        options = {"rate": fps} if name == "segmentation" else {}
        return name, {"": [task for _, place in kinds for task in load(name, place, **options)]}
    if name != "egoprocel":
        raise OptionError(
            f"views: {name!r} has only one camera. Use egoprocel (CMU-MMAC), or --data toy.",
            setting="views",
            value=name,
        )
    seen = {view: load(name, root, view=view) for view in VIEWS}
    cmu = {
        view: [task for task in found if TASKS[task.name].part == "CMU-MMAC"]
        for view, found in seen.items()
    }
    if not any(
        video.path or video.features for found in cmu.values() for task in found for video in task
    ):
        raise DataError(
            f"{root}: comparing cameras needs videos or features of CMU-MMAC. Add them.", path=root
        )
    return name, cmu


def _which(data: str) -> tuple[str, str]:
    """Return kind and folder of a data set: from NAME:DIR, or the first kind that finds tasks."""
    name, colon, root = data.partition(":")
    expected = all_datasets()
    if colon and name in expected:
        return name, root
    if colon and not Path(data).exists():
        raise unknown("data", name, expected)
    if not Path(data).is_dir():
        raise DataError(
            f"{data}: no such folder. Use the folder of a data set, NAME:DIR, or toy.",
            setting="data",
            path=data,
        )
    failed: StepcutError | None = None
    for kind, data_set in expected.items():
        try:
            if data_set.examine(data).tasks:
                return kind, data
        except StepcutError as error:
            failed = error
    raise failed or DataError(
        f"{data}: this folder is not a data set. 'stepcut data list' shows the data sets.",
        setting="data",
        path=data,
    )


def choose_features(
    features: str | None, spec: FeatureSpec | None, fps: Rate | None, tasks: Sequence[Task]
) -> str | FeatureSpec | None:
    """Return the name of existing features, the spec to extract them with, or None.

    `features` names existing features; by default the only ones. Otherwise `spec`, or the default
    spec, extracts `fps` rows per second. Existing features of the same spec are used instead of the
    videos.
    """
    existing = sorted({name for task in tasks for video in task for name in video.features})
    with_video = any(video.path for task in tasks for video in task)
    if features is not None:
        if features in existing:
            return features
        if not with_video:
            raise unknown("features", features, existing or ["(none)"])
        return as_spec(features, fps=fps)
    if spec is not None:
        files = {
            name: [v.features[name] for task in tasks for v in task if name in v.features]
            for name in existing
        }
        made = [name for name in existing if all(spec_of(file) == spec for file in files[name])]
        if made or with_video:
            return made[0] if made else spec
        raise DataError(
            f"--backbone {spec.backbone}: found neither videos nor features of this backbone.",
            setting="backbone",
            value=spec.backbone,
        )
    if len(existing) > 1:
        raise OptionError(
            f"there are several features; choose one: --features {' | '.join(existing)}.",
            setting="features",
            allowed=existing,
        )
    return existing[0] if existing else as_spec(DEFAULT, fps=fps) if with_video else None


# ------------------------------------------------------------------ maps


def state_cost(
    spec: FeatureSpec | str | None, maps: str, tasks: Sequence[Task], folder: Path
) -> str | None:
    """Describe the disk space that the maps of `tasks` need, before extracting them.

    Returns None if `spec` gives vectors or features exist. `maps` is a key of `MAPS`. Too little
    free space raises `DataError`.
    """
    if not isinstance(spec, FeatureSpec) or spec.backbone != "resnet50":
        return None
    with_video = [[video for video in task if video.path and video.timeline] for task in tasks]
    seconds = [sum(video.duration or 0.0 for video in videos) for videos in with_video]
    a_frame = 2 * math.prod(map_shape(spec.layer or "conv4c"))
    frames = [float(spec.fps) * each for each in seconds]
    most = a_frame * (max(frames, default=0.0) if maps == "stream" else sum(frames))
    wanted = cache_dir() if maps == "keep" else folder
    place = next(each for each in (wanted, *wanted.absolute().parents) if each.exists())
    free = shutil.disk_usage(place).free
    cost = (
        f"maps of {sum(frames):,.0f} frames need up to {most / 1e9:.1f} GB in {place}, where "
        f"{free / 1e9:.0f} GB are free; a GPU extracts about 500 per second, two CPU cores about 10"
    )
    if most > free:
        raise DataError(
            f"{cost}. Choose a folder on a larger disk (--out, STEPCUT_CACHE), or --maps "
            "stream (one task at a time).",
            path=place,
        )
    return cost


def make_maps(
    videos: Sequence[Path],
    spec: FeatureSpec,
    maps: str,
    folder: Path,
    progress: Hook,
    engine: Engine | None,
    device: str,
) -> tuple[list[Features], list[Failure]]:
    """Extract the features of `videos`, stored as `maps` specifies; workers share `folder`."""
    cache = folder / "maps" if maps == "stream" else None if engine is None else folder
    return extract(list(videos), spec, None, cache, progress, device=device, engine=engine)
