"""DataSet: a data set as a table of facts (`about.toml`), and the shared code that finds its videos and features."""

from __future__ import annotations

import csv
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from stepcut.datasets.task import Task, TaskVideo
from stepcut.errors import AnnotationError, DataError, VideoError
from stepcut.files.names import VIDEO_SUFFIXES
from stepcut.formats.common import build_segment, fail, read_text, seconds
from stepcut.timeline import Segment, Timeline


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


@dataclass(frozen=True)
class DataSet:
    """A data set, described rather than programmed."""

    name: str
    title: str
    about: str
    citation: str
    """BibTeX."""
    licence: str
    obtain: str
    """How to obtain it, in words."""
    tree: str
    """The folder tree that is expected under the root."""
    rate: str
    """Frame rates, in words."""
    tasks: Mapping[str, TaskInfo]
    sources: Mapping[str, str] = field(default_factory=dict)
    """What -> where on the web it is offered; nobody may redistribute the videos."""
    checksums: Mapping[str, str] = field(default_factory=dict)
    """File -> SHA-256, where the publisher's files are known."""

    def __repr__(self) -> str:
        return f"<DataSet {self.name}: {self.title}, {len(self.tasks)} tasks>"


def read_facts() -> dict[str, DataSet]:
    """All data sets of `about.toml`."""
    found = {}
    for name, about in tomllib.loads((Path(__file__).parent / "about.toml").read_text(encoding="utf-8")).items():
        tasks = {task: TaskInfo(**info) for task, info in about.pop("tasks", {}).items()}
        found[name] = DataSet(name, tasks=tasks, **about)
    return found


DATASETS = read_facts()


class Shelf:
    """What lies under a root beside the annotations: videos, features and lengths by the name of a video.

    `videos` are given where they do not simply lie in `videos/`.
    """

    def __init__(self, root: Path, videos: Mapping[str, Path] | None = None) -> None:
        self.videos = find_videos(root / "videos") if videos is None else videos
        self.features = find_features(root)
        self.lengths = read_durations(root)

    def find(self, names: Sequence[str]) -> tuple[Path | None, dict[str, Path], float | None]:
        """The file, the features and the listed length of a video that goes by any of these names."""
        film = next((self.videos[name] for name in names if name in self.videos), None)
        features = {kind: path for name in reversed(names) for kind, path in self.features.get(name, {}).items()}
        return film, features, next((self.lengths[name] for name in names if name in self.lengths), None)

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
        """The video that goes by any of `names`, the first its own, with its true `segments`, where there are some.

        steps   the names of the task's steps
        rate    rows a second of its features, where the data set says so
        length  seconds, where neither a list of lengths nor the file says it
        about   what else is known: person, environment, view
        errors  (step, what went wrong), where mistakes are labelled
        """
        film, features, listed = self.find(names)
        length = listed or (None if film is None else video_duration(film)) or length
        timeline = None if segments is None else Timeline(segments, length, steps, names[0])
        return TaskVideo(names[0], film, features, rate if features else None, length, timeline, about or {}, errors)


def existing_root(root: str | Path, what: str) -> Path:
    """The `root` of the data set `what` as a path; one that is no folder is an error."""
    place = Path(root).expanduser()
    if not place.is_dir():
        raise DataError(
            f"{place}: no such folder. Give the folder of {what} (stepcut data info {what} shows its tree)."
        )
    return place


def first_of(root: Path, *places: str) -> Path | None:
    """The first of several places under the root that exists."""
    return next((root / place for place in places if (root / place).exists()), None)


def find_videos(root: Path) -> dict[str, Path]:
    """Video name (without suffix) -> file, for all videos below the folder `root`."""
    found: dict[str, Path] = {}
    for path in sorted(root.rglob("*")):
        if path.suffix.lower() in VIDEO_SUFFIXES and path.is_file():
            found.setdefault(path.name[: -len(path.suffix)], path)
    return found


def find_features(root: Path) -> dict[str, dict[str, Path]]:
    """Video name -> backbone -> file, from `features/<backbone>/<name>.npy` or .safetensors under `root`.

    Files of `stepcut features -o ROOT/features` lie in `features` itself; their backbone is called "features".
    """
    found: dict[str, dict[str, Path]] = {}
    for pattern in ("features/*/*.npy", "features/*/*.safetensors", "features/*.safetensors"):
        for path in sorted(root.glob(pattern)):
            found.setdefault(path.stem, {}).setdefault(path.parent.name, path)
    return found


def read_durations(root: Path) -> dict[str, float]:
    """Video name -> seconds from `durations.csv` (name, seconds) under `root`, for those who have no videos."""
    path = root / "durations.csv"
    if not path.is_file():
        return {}
    lengths = {}
    for line, cells in enumerate(csv.reader(read_text(path).splitlines()), start=1):
        if len(cells) < 2:
            continue
        try:
            lengths[cells[0].strip()] = float(cells[1])
        except ValueError as error:
            if line > 1:  # the first line may be a header
                raise DataError(f"{path}, line {line}: {cells[1]!r} is not a length in seconds. Correct it.") from error
    return lengths


def video_duration(path: Path) -> float | None:
    """The length of the video at `path` by its header, or None when it does not say; needs no decoding."""
    from stepcut.features.video.container import open_video, stated_duration

    try:
        with open_video(path, threads=1) as (container, stream):
            length, _ = stated_duration(container, stream)
    except VideoError:
        return None
    return None if length is None else float(length)


def match_videos(videos: Mapping[str, Path], names: Iterable[str], where: str) -> tuple[list[str], list[str]]:
    """Sentences for the videos of these `names` absent from `where`, and for `videos` that are none of them."""
    known = set(names)
    if not videos:
        return [f"{where}: no videos. {len(known)} are expected there, named as their annotation files."], []
    absent = [f"{where}/{name}.*: a timeline but no video." for name in sorted(known - set(videos))]
    extra = [f"{videos[name]}: a video without a timeline." for name in sorted(set(videos) - known)]
    return absent, extra


def plain_name(text: str) -> str:
    """The `text` without case, spaces and signs, to compare names by.

    >>> plain_name("EGTEA_Gaze+") == plain_name("egtea gaze")
    True
    """
    return re.sub(r"[^a-z0-9]", "", text.lower())


def read_numbered(path: Path, steps: Sequence[str], loaded: Loaded) -> list[Segment]:
    """The segments of the file at `path`, whose lines hold a number in `steps`, start and end.

    A line that makes no sense, and a number that no step has, are reported in `loaded` and left out.
    """
    segments = []
    for line, text in enumerate(read_text(path).split("\n"), start=1):
        if not text.strip():
            continue
        cells = [cell.strip() for cell in text.split(",")]
        times = [seconds(cell) for cell in cells[1:3]]
        try:
            if len(times) != 2 or None in times or not re.fullmatch("[0-9]{1,9}", cells[0]):
                fail(path, f"{text!r} is not 'step number,start,end'", "Copy the file again", line)
            if not 1 <= int(cells[0]) <= len(steps):
                fail(path, f"step {cells[0]} is not known; the task has {len(steps)}", "Copy the file again", line)
            segments.append(build_segment(times[0] or 0.0, times[1] or 0.0, steps[int(cells[0]) - 1], path, line))
        except AnnotationError as error:
            loaded.problems.append(str(error))
    return segments
