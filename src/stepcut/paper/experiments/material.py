"""The input of an experiment: tasks of a data set or of the toy kitchen, with their features."""

import hashlib
import json
import logging
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import DataError, OptionError, StepcutError, as_items, choose, unknown, wrong
from stepcut.evaluation.evaluate import fingerprint
from stepcut.features.backbones.networks import map_shape
from stepcut.features.extract import extract
from stepcut.features.features import Features, content_hash, load_features, spec_of
from stepcut.features.spec import DEFAULT, FeatureSpec, as_spec
from stepcut.files import cache_dir
from stepcut.paper.datasets import Task, TaskVideo, all_datasets, load
from stepcut.paper.datasets.egoprocel import TASKS, VIEWS
from stepcut.parallel.engine import Engine
from stepcut.progress import Hook, silent
from stepcut.settings import Rate
from stepcut.timeline import Timeline
from stepcut.toy import make_kitchen
from stepcut.toy.script import DEFAULTS

log = logging.getLogger("stepcut")

Root = str | os.PathLike[str]
Kind = str | FeatureSpec | None  # The name of existing features, how to extract them, or None
# Features (with their file) and length in seconds by video, and notes
Found = tuple[dict[str, tuple[Features, float]], list[str]]

MAPS = {"keep": "all maps stay in the cache", "stream": "those of one task at a time"}
SLACK = 2.0  # Seconds by which features may miss the end of their video
TOY_VIEWS = {"egocentric": "ego", "side": "side"}


@dataclass(frozen=True)
class Material:
    """The videos of one task from one camera; small enough to send to a process."""

    task: Task
    view: str
    durations: dict[str, float]  # Lengths of the videos used, in seconds
    # Video -> file of rows (T, d) or (T, C, h, w); empty without features and videos
    features: dict[str, Path] = field(default_factory=dict)
    rate: float = 1.0
    described: str | None = None  # Description of the features
    notes: Sequence[str] = ()  # Assumptions, and excluded videos
    fingerprint: str = field(init=False)  # Changes when the annotations or the features change

    def __post_init__(self) -> None:
        # Computed now: streamed maps are deleted before the results are written.
        files = sorted(self.features.items())
        contents = {name: content_hash(path, cache_dir()) for name, path in files}
        held = json.dumps([fingerprint(self.truth), contents, self.rate])
        object.__setattr__(self, "fingerprint", hashlib.sha256(held.encode()).hexdigest()[:16])

    @property
    def truth(self) -> dict[str, Timeline]:
        return {name: line for name, line in self.task.timelines.items() if name in self.durations}

    @property
    def steps(self) -> int:
        return len({segment.step for timeline in self.truth.values() for segment in timeline})

    def record(self) -> dict[str, Any]:
        return {
            "task": self.task.name,
            "view": self.view,
            "videos": len(self.durations),
            "steps": self.steps,
            "hours": round(sum(self.durations.values()) / 3600, 3),
            "fingerprint": self.fingerprint,
        }

    def read(self) -> dict[str, NDArray[Any]]:
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


@dataclass
class Source:
    """The tasks of an experiment, and where the features of their videos come from.

    Arguments as of `run_experiment`; `views`: load every camera; `datasets`: that a table
    compares.
    """

    data: Any
    features: str | None = None
    tasks: Sequence[str] | None = None
    folder: str | os.PathLike[str] | None = None
    fps: Rate | None = None
    toy: Mapping[str, Any] | None = None
    progress: Hook = silent
    spec: FeatureSpec | None = None
    device: str = "auto"
    maps: str = "keep"
    views: bool = False
    datasets: Sequence[str] = ()
    engine: Engine | None = None

    def __post_init__(self) -> None:
        choose("maps", self.maps, MAPS)
        self.roots = _roots(self.data)
        # Absolute, because a worker may have another working folder.
        place = cache_dir() / "experiments" if self.folder is None else Path(self.folder)
        self.place = place.absolute()
        # The name of the data set, and its tasks, each with its camera or data set
        self.name, self.found = self._find_tasks()
        self.kinds: dict[str, Kind] = {}
        # Cameras share features; data sets do not.
        for group in dict.fromkeys(view if self.datasets else "" for view, _ in self.found):
            members = [task for view, task in self.found if group in (view, "")]
            self.kinds[group] = kind = self._choose_features(members)
            if cost := self._state_cost(kind, members):
                log.warning("%s", cost)

    def material(self, view: str, task: Task) -> Material | None:
        """The material of a task from one view; None without usable videos."""
        kind = self.kinds[view if self.datasets else ""]
        true = {v.name: v for v in task if v.timeline is not None and len(v.timeline)}
        if kind is None:
            lengths = {name: v.duration or task.timelines[name].end for name, v in true.items()}
            return Material(task, view, lengths) if lengths else None
        found, notes = (
            self._read(true, kind) if isinstance(kind, str) else self._extract(true, kind)
        )
        if not found:
            return None
        rates = sorted({one.rate for one, _ in found.values()})
        if len(rates) > 1:
            what = f"features {kind} have different rates: {[*map(str, rates)]}."
            raise DataError(f"task {task.name!r}: {what}", setting="features", value=kind)
        lengths = {name: length for name, (_, length) in found.items()}
        files = {name: Path(one.path or "") for name, (one, _) in found.items()}
        described = _describe(next(iter(found.values()))[0], kind)
        notes = [f"{task.name}: {note}" for note in notes]
        return Material(task, view, lengths, files, float(rates[0]), described, notes)

    def _read(self, true: Mapping[str, TaskVideo], kind: str) -> Found:
        """Existing features of annotated videos; notes assumptions."""
        found, notes = {}, []
        for name, video in true.items():
            if kind not in video.features:
                continue
            file, expected = video.features[kind].absolute(), video.duration
            one = video.open_features(kind, self.fps)
            length = len(one.rows) / float(one.rate)
            if expected is not None and abs(length - expected) > max(SLACK, 0.05 * expected):
                seen = f"{len(one.rows)} rows at {one.rate} per second are {length:.0f} s"
                fix = f"Set --fps {len(one.rows) / expected:.3g}"
                what = f"{seen}, but the video has {expected:.0f} s. {fix}"
                raise DataError(f"{file}: {what}", path=file)
            if one.spec is None and video.rate is None and self.fps is None:
                notes = ["the rate of the features is unknown; 1 row per second is assumed."]
            found[name] = one, length
        return found, notes

    def _extract(self, true: Mapping[str, TaskVideo], spec: FeatureSpec) -> Found:
        """Extract features of annotated videos; failed videos are excluded."""
        names = {str(video.path): name for name, video in true.items() if video.path is not None}
        if not names:
            return {}, []
        shared = None if self.engine is None else self.place
        cache = self.place / "maps" if self.maps == "stream" else shared
        where: dict[str, Any] = {"device": self.device, "engine": self.engine}
        made, failed = extract([*map(Path, names)], spec, None, cache, self.progress, **where)
        notes = [f"{failure.name} is excluded: {failure.error}" for failure in failed]
        found = {
            names[str(one.path)]: (replace(one, path=str(one.rows.filename)), one.duration)
            for one in made
            if isinstance(one.rows, np.memmap) and one.rows.filename is not None
        }
        if not found:
            why = " ".join(notes[:2])
            raise DataError(f"none of the {len(names)} videos of a task is usable. {why}")
        return found, notes

    def _find_tasks(self) -> tuple[str, list[tuple[str, Task]]]:
        name, seen = self._load()
        chosen = []
        for view, found in seen.items():
            names = {task.name: task for task in found}
            spelled = {each.casefold(): each for each in names}
            for each in names if self.tasks is None else self.tasks:
                if each.casefold() in spelled or not self.datasets:
                    chosen.append((view, choose("task", spelled.get(each.casefold(), each), names)))
        return name, chosen

    def _load(self) -> tuple[str, dict[str, list[Task]]]:
        """The name of the data, and its tasks by camera or data set."""
        kinds = [("toy", "") if str(r) == "toy" else _which(str(r)) for r in self.roots]
        name, root = kinds[0]
        if self.datasets:
            seen: dict[str, list[Task]] = {}
            for given, (kind, place) in zip(self.roots, kinds, strict=True):
                if kind not in self.datasets:
                    both, allowed = " and ".join(self.datasets), list(self.datasets)
                    use = " ".join(f"--data {each}:DIR" for each in allowed)
                    what = f"--data {given} is {kind}; this table compares {both}. Use {use}"
                    raise OptionError(what, setting="data", value=given, allowed=allowed)
                seen.setdefault(kind, []).extend(load(kind, place))
            return " and ".join(each for each in self.datasets if each in seen), seen
        if kinds == [("toy", "")]:
            seen, toy = {}, self.toy or {}
            for setting in toy:
                choose("toy", setting, dict.fromkeys(("videos", "seed", *DEFAULTS)))
            for view, camera in (TOY_VIEWS if self.views else {"": "ego"}).items():
                kitchen = self.place / f"toy-{camera}"
                make_kitchen(kitchen, view=camera, progress=self.progress, **toy)
                seen[view] = load("toy", kitchen)
            return name, seen
        if {kind for kind, _ in kinds} != {name}:
            several = ", ".join(kind for kind, _ in kinds)
            what = f"--data names several data sets: {several}. Use one."
            raise OptionError(what, setting="data", value=self.data)
        if not self.views:
            options = {"rate": self.fps} if name == "segmentation" else {}
            return name, {"": [task for _, place in kinds for task in load(name, place, **options)]}
        if name != "egoprocel":
            what = f"{name!r} has only one camera. Use egoprocel (CMU-MMAC), or --data toy."
            raise OptionError(f"views: {what}", setting="views", value=name)
        cmu = {
            view: [t for t in load(name, root, view=view) if TASKS[t.name].part == "CMU-MMAC"]
            for view in VIEWS
        }
        if not any(v.path or v.features for tasks in cmu.values() for task in tasks for v in task):
            what = "comparing cameras needs videos or features of CMU-MMAC. Add them."
            raise DataError(f"{root}: {what}", path=root)
        return name, cmu

    def _choose_features(self, tasks: Sequence[Task]) -> Kind:
        """Existing features that were chosen, are the only ones or of the same spec; or a spec."""
        existing = sorted({name for task in tasks for video in task for name in video.features})
        with_video = any(video.path for task in tasks for video in task)
        if self.features is not None:
            if self.features in existing:
                return self.features
            if not with_video:
                raise unknown("features", self.features, existing or ["(none)"])
            return as_spec(self.features, fps=self.fps)
        if self.spec is not None:
            for name in existing:
                files = [v.features[name] for task in tasks for v in task if name in v.features]
                if all(spec_of(file) == self.spec for file in files):
                    return name
            if with_video:
                return self.spec
            named, what = self.spec.backbone, "found neither videos nor features of this backbone."
            raise DataError(f"--backbone {named}: {what}", setting="backbone", value=named)
        if len(existing) > 1:
            what = f"there are several features; choose one: --features {' | '.join(existing)}."
            raise OptionError(what, setting="features", allowed=existing)
        return existing[0] if existing else as_spec(DEFAULT, fps=self.fps) if with_video else None

    def _state_cost(self, spec: Kind, tasks: Sequence[Task]) -> str | None:
        """The disk space that maps of `tasks` need, None for vectors; too little raises."""
        if not isinstance(spec, FeatureSpec) or spec.backbone != "resnet50":
            return None
        lengths = [sum(v.duration or 0.0 for v in task if v.path and v.timeline) for task in tasks]
        frames = [float(spec.fps) * length for length in lengths]
        wanted = [max(frames, default=0.0)] if self.maps == "stream" else frames
        most = 2 * math.prod(map_shape(spec.layer or "conv4c")) * sum(wanted)
        folder = (cache_dir() if self.maps == "keep" else self.place).absolute()
        place = next(each for each in (folder, *folder.parents) if each.exists())
        free = shutil.disk_usage(place).free
        cost = (
            f"maps of {sum(frames):,.0f} frames need up to {most / 1e9:.1f} GB in {place}, where "
            f"{free / 1e9:.0f} GB are free; a GPU extracts about 500 per second, two CPU cores "
            "about 10"
        )
        if most > free:
            fix = "Choose a folder on a larger disk (--out, STEPCUT_CACHE), or --maps stream"
            raise DataError(f"{cost}. {fix} (one task at a time).", path=place)
        return cost


def _roots(data: Any) -> list[Root]:
    wanted = "the folder of a data set (or several), NAME:DIR, or toy"
    roots = [data] if isinstance(data, str | os.PathLike) else data
    roots = list(as_items("data", roots, (str, os.PathLike), wanted))
    if not roots:
        raise wrong("data", data, f"is empty; use {wanted}.", wanted)
    return roots


def _describe(one: Features, kind: str | FeatureSpec) -> str:
    spec = one.spec or (kind if isinstance(kind, FeatureSpec) else None)
    name = str(kind) if spec is None else spec.backbone
    layer = (spec and spec.layer) or ("conv4c" if name == "resnet50" else "")
    maps = "maps of {} x {}".format(*one.rows.shape[2:]) if one.rows.ndim == 4 else ""
    return " ".join(filter(None, (name, layer, maps, f"at {float(one.rate):g} per second")))


def _which(data: str) -> tuple[str, str]:
    """Kind and folder: from NAME:DIR, or the first kind that finds tasks."""
    name, colon, root = data.partition(":")
    expected = all_datasets()
    if colon and name in expected:
        return name, root
    if colon and not Path(data).exists():
        raise unknown("data", name, expected)
    if not Path(data).is_dir():
        what = "no such folder. Use the folder of a data set, NAME:DIR, or toy."
        raise DataError(f"{data}: {what}", setting="data", path=data)
    failed: StepcutError | None = None
    for kind, data_set in expected.items():
        try:
            if data_set.examine(data).tasks:
                return kind, data
        except StepcutError as error:
            failed = error
    what = "this folder is not a data set. 'stepcut data list' shows the data sets."
    raise failed or DataError(f"{data}: {what}", setting="data", path=data)
