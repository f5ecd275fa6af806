"""What an experiment is made of: tasks of a data set or of the toy kitchen, with given features or
videos."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import DataError, OptionError, StepcutError, choose, unknown
from stepcut.evaluation.evaluate import fingerprint
from stepcut.features.contract import Failure, Features
from stepcut.features.files import content_hash, load_features, spec_of
from stepcut.features.spec import DEFAULT, FeatureSpec, as_spec
from stepcut.files.cache import cache_dir
from stepcut.paper.datasets import Task, TaskVideo, all_datasets, load
from stepcut.paper.datasets.egoprocel import TASKS, VIEWS
from stepcut.progress import Hook
from stepcut.rate import Rate, as_rate
from stepcut.timeline import Timeline
from stepcut.toy import make_kitchen
from stepcut.toy.script import DEFAULTS

Rows = NDArray[Any]
Maker = Callable[[list[Path], FeatureSpec], tuple[list[Features], list[Failure]]]
Found = tuple[dict[str, tuple[Features, float]], list[str]]
"""By video, its features with the file that holds them and its length in seconds; and notes."""

SLACK = 2.0
"""Seconds by which rows may miss the end of their video before their rate is doubted."""
TOY_VIEWS = {"egocentric": "ego", "side": "side"}


@dataclass(frozen=True)
class Material:
    """The videos of one task from one camera, as much of them as a cell needs; small enough to hand
    to a process."""

    task: Task
    view: str
    durations: dict[str, float]
    """Of the videos that are used, in seconds."""
    features: dict[str, Path] = field(default_factory=dict)
    """Video -> a file of rows (T, d) or (T, C, h, w); empty where there are neither features nor
    videos."""
    rate: float = 1.0
    described: str | None = None
    """What the features are, in words."""
    notes: Sequence[str] = ()
    """What was assumed, and which videos were left out."""
    fingerprint: str = field(init=False)
    """Changes when the truth or the features do."""

    def __post_init__(self) -> None:
        # Taken now: maps that are streamed are gone when the results are written.
        contents = {
            name: content_hash(path, cache_dir()) for name, path in sorted(self.features.items())
        }
        held = json.dumps([fingerprint(self.truth), contents, self.rate])
        object.__setattr__(self, "fingerprint", hashlib.sha256(held.encode()).hexdigest()[:16])

    @property
    def truth(self) -> dict[str, Timeline]:
        """The true timelines of the videos that are used."""
        return {
            name: timeline
            for name, timeline in self.task.timelines.items()
            if name in self.durations
        }

    @property
    def steps(self) -> int:
        """The number of true steps that occur."""
        return len({segment.step for timeline in self.truth.values() for segment in timeline})

    def read(self) -> dict[str, Rows]:
        """The features of every video."""
        return {
            name: load_features([path], self.rate)[0].rows for name, path in self.features.items()
        }


def make_material(
    task: Task, view: str, kind: str | FeatureSpec | None, fps: Rate | None, make: Maker
) -> Material | None:
    """The material of a `task` from a camera, `view`; None where no video has a truth and the
    features.

    `kind` names given features, of `fps` rows a second (1) where they do not say it, or says how
    `make` is to make them of videos; None where there is nothing."""
    true = {
        video.name: video for video in task if video.timeline is not None and len(video.timeline)
    }
    if kind is None:
        lengths = {name: video.duration or task.timelines[name].end for name, video in true.items()}
        return Material(task, view, lengths) if lengths else None
    found, notes = _given(true, kind, fps) if isinstance(kind, str) else _made(true, kind, make)
    if not found:
        return None
    durations = {name: length for name, (_, length) in found.items()}
    rates = sorted({one.rate for one, _ in found.values()})
    if len(rates) > 1:
        raise DataError(
            f"task {task.name!r}: features of {kind} come at {[*map(str, rates)]} rows a second."
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


def _given(true: Mapping[str, TaskVideo], kind: str, fps: Rate | None) -> Found:
    """Given features of videos with a truth, and what was assumed."""
    found, notes = {}, []
    for name, video in true.items():
        if kind not in video.features:
            continue
        file = video.features[kind].absolute()
        (one,) = load_features([file], as_rate(fps) if fps is not None else video.rate or 1)
        length, known = len(one.rows) / float(one.rate), video.duration
        if known is not None and abs(length - known) > max(SLACK, 0.05 * known):
            raise DataError(
                f"{file}: {len(one.rows)} rows at {one.rate} a second are {length:.0f} s, but the "
                f"video is {known:.0f} "
                f"s long. Say the rate of the features: --fps {len(one.rows) / known:.3g}"
            )
        if one.spec is None and video.rate is None and fps is None:
            notes = ["its features do not say their rate; 1 row a second was assumed."]
        found[name] = replace(one, path=str(file)), length
    return found, notes


def _made(true: Mapping[str, TaskVideo], spec: FeatureSpec, make: Maker) -> Found:
    """Features made of the videos with a truth, once, each with its file; a video that fails is
    left out."""
    filmed = {str(video.path): name for name, video in true.items() if video.path is not None}
    made, failed = make([Path(path) for path in filmed], spec) if filmed else ([], [])
    notes = [f"{failure.name} was left out: {failure.error}" for failure in failed]
    found = {}
    for one in made:
        if isinstance(one.rows, np.memmap) and one.rows.filename is not None:
            found[filmed[str(one.path)]] = replace(one, path=str(one.rows.filename)), one.duration
    if filmed and not found:
        raise DataError(
            f"none of the {len(filmed)} videos of a task can be used. {' '.join(notes[:2])}"
        )
    return found, notes


def _describe(one: Features, kind: str | FeatureSpec) -> str:
    """What features are, in words: the backbone and its layer, whether they are maps, how many a
    second."""
    spec = one.spec or (kind if isinstance(kind, FeatureSpec) else None)
    name = str(kind) if spec is None else spec.backbone
    layer = (spec and spec.layer) or ("conv4c" if name == "resnet50" else "")
    maps = "maps of {} x {}".format(*one.rows.shape[2:]) if one.rows.ndim == 4 else ""
    return " ".join(
        word for word in (name, layer, maps, f"at {float(one.rate):g} a second") if word
    )


def find_tasks(
    roots: Sequence[str | os.PathLike[str]],
    tasks: Sequence[str] | None,
    views: bool,
    folder: Path,
    toy: Mapping[str, Any],
    progress: Hook,
    datasets: Sequence[str] = (),
) -> tuple[str, list[tuple[str, Task]]]:
    """The name of the data set, and its tasks, or only these `tasks`, whatever the case of their
    names, each after the camera that saw it: every one where `views` are wanted; where `datasets`
    are compared, after its data set.

    `roots` are "toy", or folders of one data set, or NAME:DIR where its kind cannot be told. The
    toy kitchen is filmed with the settings `toy` into `folder`; `progress` hears how far that is.
    """
    if datasets:
        name, seen = _compare(roots, datasets)
    elif [str(root) for root in roots] == ["toy"]:
        name, seen = "toy", {}
        for setting in toy:
            choose("toy", setting, dict.fromkeys(("videos", "seed", *DEFAULTS)))
        for view, eye in (TOY_VIEWS if views else {"": "ego"}).items():
            make_kitchen(folder / f"toy-{eye}", view=eye, progress=progress, **toy)
            seen[view] = load("toy", folder / f"toy-{eye}")
    else:
        name, seen = _load(roots, views)
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
    """The `datasets` that lie in `roots`, and the tasks of each."""
    seen: dict[str, list[Task]] = {}
    for root in roots:
        kind, place = _which(str(root)) if str(root) != "toy" else ("toy", "")
        if kind not in datasets:
            raise OptionError(
                f"--data {root} is {kind}; this table compares {' and '.join(datasets)}. Give "
                + " ".join(f"--data {each}:DIR" for each in datasets)
            )
        seen.setdefault(kind, []).extend(load(kind, place))
    return " and ".join(each for each in datasets if each in seen), seen


def _load(
    roots: Sequence[str | os.PathLike[str]], views: bool
) -> tuple[str, dict[str, list[Task]]]:
    """The name of the data set in the folders `roots`, and its tasks from each camera."""
    kinds = [_which(str(root)) for root in roots]
    name, root = kinds[0]
    if {kind for kind, _ in kinds} != {name}:
        raise OptionError(
            f"--data names several kinds of data set: {', '.join(kind for kind, _ in kinds)}. Use "
            "one."
        )
    if not views:
        return name, {"": [task for _, place in kinds for task in load(name, place)]}
    if name != "egoprocel":
        raise OptionError(
            f"views: {name!r} has one camera only. Choose egoprocel (CMU-MMAC), or --data toy."
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
            f"{root}: the cameras differ in what they see, so videos or features of CMU-MMAC are "
            "needed."
        )
    return name, cmu


def _which(data: str) -> tuple[str, str]:
    """The kind and the folder of a data set: as given in NAME:DIR, or the first kind that finds
    tasks there."""
    name, colon, root = data.partition(":")
    known = all_datasets()
    if colon and name in known:
        return name, root
    if colon and not Path(data).exists():
        raise unknown("data", name, known)
    if not Path(data).is_dir():
        raise DataError(
            f"{data}: there is no such folder. Give the folder of a data set, NAME:DIR, or toy."
        )
    failed: StepcutError | None = None
    for kind, data_set in known.items():
        try:
            if data_set.examine(data).tasks:
                return kind, data
        except StepcutError as error:
            failed = error
    raise failed or DataError(
        f"{data}: no data set is known by this folder. 'stepcut data list' names those that are."
    )


def choose_features(
    features: str | None, spec: FeatureSpec | None, fps: Rate | None, tasks: Sequence[Task]
) -> str | FeatureSpec | None:
    """Given features by their name, or how to make them of the videos of `tasks`, or None where
    there is nothing.

    `features` names given ones; left out, the only ones there are. They are made by `spec`, or by
    the default, `fps` rows a second; given ones that were made by the spec are used in place of the
    videos."""
    given = sorted({name for task in tasks for video in task for name in video.features})
    filmed = any(video.path for task in tasks for video in task)
    if features is not None:
        if features in given:
            return features
        if not filmed:
            raise unknown("features", features, given or ["none are here"])
        return as_spec(features, fps=fps)
    if spec is not None:
        files = {
            name: [v.features[name] for task in tasks for v in task if name in v.features]
            for name in given
        }
        made = [name for name in given if all(spec_of(file) == spec for file in files[name])]
        if made or filmed:
            return made[0] if made else spec
        raise DataError(
            f"--backbone {spec.backbone}: there are no videos here, and no features that it made."
        )
    if len(given) > 1:
        raise OptionError(
            f"features of several kinds are here; say which: --features {' | '.join(given)}."
        )
    return given[0] if given else as_spec(DEFAULT, fps=fps) if filmed else None
