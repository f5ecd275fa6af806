"""DataSet: a data set as a table of facts (`about.toml`); the tasks that every one gives; how
videos are found."""

import hashlib
import logging
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import DataError, OptionError, as_items, choose
from stepcut.features.files import load_features
from stepcut.files.names import VIDEO_SUFFIXES
from stepcut.procedure.lengths import read_durations, video_duration
from stepcut.timeline import Segment, Timeline

log = logging.getLogger("stepcut")


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
    """(step, what went wrong) for data sets that label mistakes; "missing step" for one that was
    left out."""

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

    def with_features(self, backbone: str) -> Self:
        """The task with only those videos that have features of this backbone."""
        return replace(self, videos=[video for video in self.videos if backbone in video.features])


class TaskInfo(NamedTuple):
    """What was published about one task, and how the files call it."""

    videos: int | None = None
    steps: int | None = None
    foreground: float | None = None
    missing: float | None = None
    repeated: float | None = None
    part: str = ""
    folder: str = ""
    key: str = ""
    defects: Sequence[str] = ()


@dataclass
class Loaded:
    """What was found under a root: tasks, what is absent, and what makes no sense."""

    tasks: list[Task] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Each says which file is absent and where to put it."""
    problems: list[str] = field(default_factory=list)
    """Each says which file or label makes no sense."""

    def add(self, part: Self) -> None:
        """Add what was found in a `part` of the data set."""
        self.tasks += part.tasks
        self.missing += part.missing
        self.problems += part.problems


@dataclass(frozen=True)
class DataSet:
    """A data set, described rather than programmed; a package registers its own as
    `stepcut.datasets`."""

    name: str
    title: str
    reader: str
    """`module:function`; it is given a root, and a `Loaded` to which it adds what it finds
    there."""
    options: Sequence[str] = ()
    """What else the reader takes."""
    about: str = ""
    citation: str = ""
    """BibTeX."""
    licence: str = ""
    obtain: str = ""
    """How to obtain it, in words."""
    tree: str = ""
    """The folder tree that is expected under the root."""
    rate: str = ""
    """Frame rates, in words."""
    tasks: Mapping[str, TaskInfo] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    """What -> where on the web it is offered; nobody may redistribute the videos."""
    published: Mapping[str, float] = field(default_factory=dict)
    """What the data set's own paper says of it: hours in all, steps and seconds a video as means
    over tasks."""
    checksums: Mapping[str, str] = field(default_factory=dict)
    """File -> SHA-256, where the publisher's files are known."""

    def __repr__(self) -> str:
        return f"<DataSet {self.name}: {self.title}, {len(self.tasks)} tasks>"

    def load(self, root: str | Path | Sequence[str | Path], **options: Any) -> list[Task]:
        """The tasks below `root`, a folder or several; `options` are those of its reader.

        What is missing or inconsistent is logged; a `DataError` says that there is nothing at all.
        """
        loaded = self.examine(root, **options)
        if not loaded.tasks:
            absent = " ".join(loaded.missing[:3]) or "No task was found."
            raise DataError(
                f"{root}: {absent} 'stepcut data info {self.name}' shows the folder tree to build."
            )
        for line in loaded.problems:
            log.warning("%s: %s", self.name, line)
        return loaded.tasks

    def examine(self, root: str | Path | Sequence[str | Path], **options: Any) -> Loaded:
        """As `load`, together with what is missing and what is inconsistent."""
        given = [root] if isinstance(root, str | Path) else root
        roots = [
            Path(each).expanduser()
            for each in as_items("root", given, (str, Path), "a folder, or several")
        ]
        if wrong := sorted(options.keys() - set(self.options)):
            raise OptionError(f"--{wrong[0]}: {self.name} has no such choice. Leave it out.")
        loaded, read = Loaded(), resolve_name(self.reader)
        for place in roots:
            if not place.is_dir() and self.name != "toy":  # whose reader says how to film one there
                what = f"{place}: no such folder"
                raise DataError(
                    f"{what}. Give the root of data set {self.name} (stepcut data info {self.name} "
                    "shows its tree)."
                )
            read(place, part := Loaded(), **options)
            loaded.add(part)
        for place, (file, published) in product(roots, self.checksums.items()):
            path = place / file
            if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() != published:
                loaded.problems.append(
                    f"{path}: it differs from the published file (SHA-256). Copy it again."
                )
        return loaded


DATASETS: dict[str, DataSet] = {}
for _name, _about in tomllib.loads(
    (Path(__file__).parent / "about.toml").read_text(encoding="utf-8")
).items():
    _tasks = {task: TaskInfo(**info) for task, info in _about.pop("tasks", {}).items()}
    DATASETS[_name] = DataSet(_name, tasks=_tasks, **_about)


class Shelf:
    """What lies under a `root` beside the annotations: `videos` (given where they do not simply lie
    in `videos/`), features and lengths by the name of a video."""

    def __init__(self, root: Path, videos: Mapping[str, Path] | None = None) -> None:
        self.root = root
        self.videos = find_videos(root / "videos") if videos is None else videos
        self.features = find_features(root)
        self.lengths = read_durations(root)

    def video(
        self,
        names: Sequence[str],
        segments: Iterable[Segment] | None,
        steps: tuple[str, ...],
        rate: Fraction | None = None,
        length: float | None = None,
        about: Mapping[str, str] | None = None,
        errors: tuple[tuple[str, str], ...] = (),
    ) -> TaskVideo:
        """The video that goes by any of `names`, the first its own, with its true `segments`, where
        there are some, of the task's `steps`; with `rate` rows of features a second, where the data
        set says so, and a `length`, seconds, where neither a list of lengths nor the file says it.
        `about`: what else is known (person, environment, view); `errors`: (step, what went wrong),
        where mistakes are labelled."""
        film = next((self.videos[name] for name in names if name in self.videos), None)
        features = {
            kind: path
            for name in reversed(names)
            for kind, path in self.features.get(name, {}).items()
        }
        listed = next((self.lengths[name] for name in names if name in self.lengths), None)
        length = listed or (None if film is None else video_duration(film)) or length
        timeline = None if segments is None else Timeline(segments, length, steps, names[0])
        return TaskVideo(
            names[0],
            film,
            features,
            rate if features else None,
            length,
            timeline,
            about or {},
            errors,
        )

    def match(self, loaded: Loaded, known: Iterable[str] = (), place: str = "videos") -> None:
        """Report in `loaded` the videos of its tasks of which nothing lies here, and files that
        belong to none.

        `known` are names of further videos, which need not be there; `place` is where videos are
        put under the root."""
        videos = [video for task in loaded.tasks for video in task]
        files = {
            **{name: next(iter(held.values())) for name, held in self.features.items()},
            **self.videos,
        }
        bare = sorted(
            f"{video.name}.*" for video in videos if video.path is None and not video.features
        )
        where = [
            self.root / place / name
            for name in (bare if files else [f"<each of {len(bare)} names>.*"])
        ]
        loaded.missing += [f"{path}: a timeline but no video and no features." for path in where]
        used = {path for video in videos for path in (video.path, *video.features.values())}
        strays = sorted(
            name for name, path in files.items() if path not in used and name not in known
        )
        loaded.problems += [f"{files[name]}: a video without a timeline." for name in strays]


def first_of(root: Path, *places: str) -> Path | None:
    """The first of several places under the root that exists."""
    return next((root / place for place in places if (root / place).exists()), None)


def find_videos(root: Path, loaded: Loaded | None = None) -> dict[str, Path]:
    """Video name (without suffix) -> file, for all videos below the folder `root`. Of several with
    one name the first is taken, and the others are reported in what was `loaded`."""
    found: dict[str, Path] = {}
    for path in sorted(root.rglob("[!.]*")):
        if path.suffix.lower() in VIDEO_SUFFIXES and path.is_file():
            first = found.setdefault(path.name[: -len(path.suffix)], path)
            if loaded is not None and first != path:
                loaded.problems.append(
                    f"{path}: {first} has the same name, so this one is passed over. Rename it."
                )
    return found


def find_features(root: Path) -> dict[str, dict[str, Path]]:
    """Video name -> backbone -> file, from `features/<backbone>/<name>.npy` or .safetensors under
    `root`.

    Files of `stepcut features -o ROOT/features` lie in `features` itself; their backbone is called
    "features"."""
    found: dict[str, dict[str, Path]] = {}
    for pattern in (
        "features/*/[!.]*.npy",
        "features/*/[!.]*.safetensors",
        "features/[!.]*.safetensors",
    ):
        for path in sorted(root.glob(pattern)):
            found.setdefault(path.stem, {}).setdefault(path.parent.name, path)
    return found


def plain_name(text: str) -> str:
    """The `text` without case, spaces and signs, to compare names by.

    >>> plain_name("EGTEA_Gaze+") == plain_name("egtea gaze")
    True
    """
    return re.sub(r"[^a-z0-9]", "", text.lower())
