"""DataSet: a table of facts (`about.toml`), its tasks, its videos, and tables of them."""

import csv
import hashlib
import logging
import re
import tomllib
from collections import ChainMap
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
from stepcut.features.features import Features, load_features
from stepcut.files.names import VIDEO_SUFFIXES
from stepcut.procedure.lengths import read_durations, video_duration
from stepcut.settings import Rate, as_rate
from stepcut.tables import FIXED, Cell, Table, drawn_with, save_figure
from stepcut.timeline import Segment, Timeline

log = logging.getLogger("stepcut")


@dataclass(frozen=True)
class TaskVideo:
    """One video of a task: its file, its features and its annotated timeline.

    Examples
    --------
    >>> TaskVideo("tea", duration=60.0).timeline is None
    True
    """

    name: str
    path: Path | None = None  # The video file, if there is one
    # Backbone name -> `.npy` or `.safetensors` file of rows (T, d) or maps (T, C, h, w)
    features: Mapping[str, Path] = field(default_factory=dict)
    rate: Fraction | None = None  # Feature rows per second: row i is at time i / rate
    duration: float | None = None  # Seconds
    timeline: Timeline | None = None  # The annotated steps, in seconds; None without an annotation
    # Further metadata: person, environment, view
    about: Mapping[str, str] = field(default_factory=dict)
    # (step, kind of mistake), if the data set labels mistakes; "missing step" for an omitted one
    errors: tuple[tuple[str, str], ...] = ()
    # Whether the feature files are arrays (d, T), as published for action segmentation
    frames_last: bool = False

    def open_features(self, backbone: str, rate: Rate | None = None) -> Features:
        """Open the features of a `backbone`; `rate` counts if the file has none."""
        path, rate = choose("backbone", backbone, self.features).absolute(), rate or self.rate or 1
        if path.suffix == ".txt":
            rows = np.loadtxt(path, dtype=np.float32, ndmin=2)
            return Features(rows, as_rate(rate), len(rows) / float(rate), self.name, str(path))
        (found,) = load_features([path], rate)
        if self.frames_last:
            length = found.rows.shape[1] / float(found.rate)
            found = replace(found, rows=found.rows.T, duration=length)
        return replace(found, path=str(path))

    def read_features(self, backbone: str) -> NDArray[np.float32]:
        """(T, d), or maps (T, C, h, w)."""
        return np.array(self.open_features(backbone).rows, dtype=np.float32)


@dataclass(frozen=True)
class Task:
    """Videos of people doing the same task.

    Examples
    --------
    >>> Task("pour tea", [TaskVideo("a"), TaskVideo("b")], steps=("pour",))
    <Task pour tea: 2 videos, 1 steps>
    """

    name: str
    videos: list[TaskVideo]
    steps: tuple[str, ...]
    # The annotated partial order, if there is one: (before, after) by step name
    graph: tuple[tuple[str, str], ...] | None = None
    defects: tuple[str, ...] = ()  # Known defects of the files

    def __iter__(self) -> Iterator[TaskVideo]:
        return iter(self.videos)

    def __len__(self) -> int:
        return len(self.videos)

    def __repr__(self) -> str:
        return f"<Task {self.name}: {len(self.videos)} videos, {len(self.steps)} steps>"

    @property
    def timelines(self) -> dict[str, Timeline]:
        return {video.name: video.timeline for video in self.videos if video.timeline is not None}

    def with_features(self, backbone: str) -> Self:
        """Only the videos that have features of this `backbone`."""
        return replace(self, videos=[video for video in self.videos if backbone in video.features])


class TaskInfo(NamedTuple):
    """Published figures of a task, and its names in the files."""

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
    """Tasks of a root, and lines on missing and on inconsistent files."""

    tasks: list[Task] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, part: Self) -> None:
        self.tasks += part.tasks
        self.missing += part.missing
        self.problems += part.problems


@dataclass(frozen=True)
class DataSet:
    """The description of a data set; a plugin registers its own as `stepcut.datasets`.

    Examples
    --------
    >>> DATASETS["captaincook4d"].title
    'CaptainCook4D'
    """

    name: str
    title: str
    reader: str  # `module:function`, called with a root and a `Loaded` to fill
    options: Sequence[str] = ()  # Further options of the reader
    about: str = ""
    citation: str = ""  # BibTeX
    licence: str = ""
    obtain: str = ""  # How to obtain it
    tree: str = ""  # The expected folder tree below the root
    rate: str = ""  # Frame rates
    tasks: Mapping[str, TaskInfo] = field(default_factory=dict)
    # What -> web address. The videos must not be redistributed
    sources: Mapping[str, str] = field(default_factory=dict)
    # Published figures: total hours; steps and seconds per video as means over tasks
    published: Mapping[str, float] = field(default_factory=dict)
    # File -> SHA-256 of the published file
    checksums: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<DataSet {self.name}: {self.title}, {len(self.tasks)} tasks>"

    def load(self, root: str | Path | Sequence[str | Path], **options: Any) -> list[Task]:
        """See `stepcut.paper.datasets.load`."""
        loaded = self.examine(root, **options)
        if not loaded.tasks:
            absent = " ".join(loaded.missing[:3]) or "It contains no task."
            shown = f"'stepcut data info {self.name}' shows the expected folder tree."
            raise DataError(f"{root}: {absent} {shown}", path=root)
        for line in loaded.problems:
            log.warning("%s: %s", self.name, line)
        return loaded.tasks

    def examine(self, root: str | Path | Sequence[str | Path], **options: Any) -> Loaded:
        """Load as `load` does, and report missing and inconsistent files."""
        roots = [root] if isinstance(root, str | Path) else root
        items = as_items("root", roots, (str, Path), "a folder, or several")
        places = [Path(each).expanduser() for each in items]
        if wrong := sorted(options.keys() - set(self.options)):
            what = f"--{wrong[0]}: {self.name} does not have this option. Omit it."
            raise OptionError(what, setting=wrong[0], allowed=list(self.options))
        loaded, read = Loaded(), resolve_name(self.reader)
        for place in places:
            if not place.is_dir() and self.name != "toy":  # its reader shows how to render it
                shown = f"'stepcut data info {self.name}' shows its folder tree."
                what = f"no such folder. Use the root of data set {self.name}; {shown}"
                raise DataError(f"{place}: {what}", path=place)
            read(place, part := Loaded(), **options)
            loaded.add(part)
        for path, published in ((p / f, sha) for p in places for f, sha in self.checksums.items()):
            if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() != published:
                problem = f"{path} differs from the published file (SHA-256). Copy it again."
                loaded.problems.append(problem)
        return loaded


DATASETS: dict[str, DataSet] = {}
_facts = tomllib.loads((Path(__file__).parent / "about.toml").read_text(encoding="utf-8"))
for _name, _about in _facts.items():
    _tasks = {task: TaskInfo(**info) for task, info in _about.pop("tasks", {}).items()}
    DATASETS[_name] = DataSet(_name, tasks=_tasks, **_about)


class Shelf:
    """Videos, features and lengths below a `root`, by video name."""

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
        """The video of any of `names`; `length` counts if no list and no file has it."""
        name, file = names[0], next((self.videos[n] for n in names if n in self.videos), None)
        listed = next((self.lengths[n] for n in names if n in self.lengths), None)
        length = listed or (None if file is None else video_duration(file)) or length
        features = ChainMap(*(self.features.get(n, {}) for n in names))
        timeline = None if segments is None else Timeline(segments, length, steps, name)
        rate = rate if features else None
        return TaskVideo(name, file, dict(features), rate, length, timeline, about or {}, errors)

    def match(self, loaded: Loaded, optional: Iterable[str] = (), place: str = "videos") -> None:
        """Report annotated videos without files, and files, not `optional`, without annotations."""
        videos = [video for task in loaded.tasks for video in task]
        files = {name: next(iter(held.values())) for name, held in self.features.items()}
        files |= self.videos
        bare = sorted(f"{v.name}.*" for v in videos if v.path is None and not v.features)
        if bare and not files:
            bare = [f"<each of {len(bare)} names>.*"]
        loaded.missing += [
            f"{self.root / place / name}: annotated, but without video and features."
            for name in bare
        ]
        used = {path for video in videos for path in (video.path, *video.features.values())}
        loaded.problems += [
            f"{path}: a video without an annotation."
            for name, path in sorted(files.items())
            if path not in used and name not in optional
        ]


def first_of(root: Path, *places: str) -> Path | None:
    return next((root / place for place in places if (root / place).exists()), None)


def find_videos(root: Path, loaded: Loaded | None = None) -> dict[str, Path]:
    """Video name -> file, below `root`; `loaded` reports files of equal name."""
    found: dict[str, Path] = {}
    for path in sorted(root.rglob("[!.]*")):
        if path.suffix.lower() in VIDEO_SUFFIXES and path.is_file():
            first = found.setdefault(path.name[: -len(path.suffix)], path)
            if loaded is not None and first != path:
                problem = f"{path}: {first} has the same name; this file is ignored. Rename it."
                loaded.problems.append(problem)
    return found


def find_features(root: Path) -> dict[str, dict[str, Path]]:
    """Video name -> backbone -> file; files directly in `features` are of "features"."""
    found: dict[str, dict[str, Path]] = {}
    for folder, suffix in product(("features/*", "features"), ("npy", "safetensors")):
        for path in sorted(root.glob(f"{folder}/[!.]*.{suffix}")):
            found.setdefault(path.stem, {}).setdefault(path.parent.name, path)
    return found


def plain_name(text: str) -> str:
    """Lower-case letters and digits, to compare names."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


# ---------- tables

COLUMNS = ["task", "videos", "steps", "foreground", "missing", "repeated"]
MORE = ["segments", "hours", "video minutes", "segment seconds"]


class Figures(NamedTuple):
    """A row of the table: figures of the annotated videos of one task or several."""

    task: str
    videos: int
    steps: int
    # F = mean_n(annotated duration / video duration), over videos of known length
    foreground: float | None
    # M = 1 - sum_n u_n / sum_n K, with u_n distinct steps in video n, K steps of its task
    missing: float | None
    repeated: float | None  # R = 1 - sum_n u_n / sum_n g_n, with g_n the segments in video n
    segments: int
    hours: float
    video_minutes: float | None  # Mean length of videos of known length
    segment_seconds: float | None


def count(tasks: Sequence[Task], name: str = "total") -> Figures:
    """Count `tasks` together, as a row called `name`."""
    timelines = [timeline for task in tasks for timeline in task.timelines.values()]
    lengths = [timeline.duration for timeline in timelines if timeline.duration]
    ratios = [covered(timeline) / timeline.duration for timeline in timelines if timeline.duration]
    distinct = sum(len(set(timeline.sequence())) for timeline in timelines)
    possible = sum(len(task.steps) * len(task.timelines) for task in tasks)
    parts = [segment.duration for timeline in timelines for segment in timeline]
    return Figures(
        name,
        len(timelines),
        sum(len(task.steps) for task in tasks),
        foreground=sum(ratios) / len(ratios) if ratios else None,
        missing=1 - distinct / possible if possible else None,
        repeated=1 - distinct / len(parts) if parts else None,
        segments=len(parts),
        hours=sum(lengths) / 3600,
        video_minutes=sum(lengths) / 60 / len(lengths) if lengths else None,
        segment_seconds=sum(parts) / len(parts) if parts else None,
    )


def covered(timeline: Timeline) -> float:
    """Seconds that at least one segment covers; overlaps count once."""
    last = max((segment.end for segment in timeline), default=0.0)
    return max(timeline.end, last) - sum(end - start for start, end in timeline.gaps())


def statistics(
    tasks: Sequence[Task], title: str = "", more: bool = False, published: DataSet | None = None
) -> Table:
    """`more` adds counts, hours, lengths, means over tasks, and the published figures."""
    counted, total = [count([task], task.name) for task in tasks], count(tasks)
    columns = [*COLUMNS, *(MORE if more else [])]
    rows: list[list[Cell]] = []
    for figures in counted:
        rows.append(list(figures[: len(columns)]))
        info = published.tasks.get(figures.task) if more and published else None
        if info is not None and info.foreground is not None:
            theirs = [info.videos, info.steps, info.foreground, info.missing, info.repeated]
            rows.append([f"{figures.task} (published)", *theirs, *[None] * len(MORE)])
    rows.append(list(total[: len(columns)]))
    if more and counted:
        rows += _means(counted, total, published)
    notes = [f"{task.name}: {defect}." for task in tasks for defect in task.defects]
    unknown = sum(not timeline.duration for task in tasks for timeline in task.timelines.values())
    if unknown:
        notes.append(f"{unknown} videos have no known length; foreground and hours exclude them.")
    return Table(columns, rows, caption=title, notes=notes, digits=2)


def leaderboard() -> Table:
    """Published results on EgoProceL, each with its matching, K and source, as read there.

    Baselines that ignore the video are scored on the true annotations, under the same matching.
    """
    text = (Path(__file__).parent / "leaderboard.csv").read_text(encoding="utf-8")
    head, *rows = csv.reader(text.splitlines())
    return Table(
        head,
        [[cell or None for cell in row] for row in rows],
        "EgoProceL, F1/IoU in percent",
        [
            "Compare rows of one matching only. Per-video matching does not ask whether a step is the "
            "same in all videos, and gives every row a higher score.",
            "Without a figure that could be read at its source: STEPs (ICCV 2023), GPL (WACV 2024), "
            "OPEL (NeurIPS 2024), RGWOT (2025), REALIGN (2025).",
        ],
    )


@drawn_with(FIXED)
def plot_statistics(table: Table, path: str | Path) -> None:
    """Foreground, missing and repeated as bars, to a PNG, SVG or PDF `path`."""
    from matplotlib.figure import Figure

    rows = [row for row in table.rows if isinstance(row[3], float)]
    names = [str(row[0]) for row in rows]
    figure = Figure(figsize=(8, 0.6 + 0.32 * len(names)), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    for place, each in enumerate(axes, start=3):
        what, fill = COLUMNS[place], ("#4477aa", "#ee6677", "#228833")[place - 3]
        values = [value if isinstance(value := row[place], float) else 0.0 for row in rows]
        each.barh(range(len(names)), values, color=fill)
        each.set_xlim(0, 1)
        each.set_title(what)
        each.set_yticks(range(len(names)), names)
    axes[0].invert_yaxis()
    figure.suptitle(table.caption)
    save_figure(figure, path)


def _means(
    counted: Sequence[Figures], total: Figures, published: DataSet | None
) -> list[list[Cell]]:
    """Mean steps and length over tasks, as in the paper, and over videos."""
    minutes = [each.video_minutes for each in counted if each.video_minutes is not None]
    by_task = sum(each.steps for each in counted) / len(counted)
    by_video = sum(each.steps * each.videos for each in counted) / max(1, total.videos)

    def row(name: str, videos: Cell, steps: Cell, hours: Cell, length: Cell) -> list[Cell]:
        return [name, videos, steps, None, None, None, None, hours, length, None]

    mean = sum(minutes) / len(minutes) if minutes else None
    rows = [
        row("mean over tasks", None, by_task, None, mean),
        row("mean over videos", None, by_video, None, total.video_minutes),
    ]
    known = {} if published is None else published.published
    if known:
        videos = sum(info.videos or 0 for info in published.tasks.values()) if published else None
        rows.append(row("total (published)", videos, None, known["hours"], None))
        minute = known["seconds"] / 60
        rows.append(row("mean over tasks (published)", None, known["steps"], None, minute))
    return rows
