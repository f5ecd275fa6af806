"""What the scripts here share: arguments, reports, kept figures, recipes, toys, reduced features and tables in pages."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import io
import json
import re
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from stepcut.features.extract import extract
from stepcut.features.spec import FeatureSpec
from stepcut.paper.datasets import load
from stepcut.rate import as_rate
from stepcut.timeline import Timeline
from stepcut.toy import toy_features
from stepcut.version import __version__

REPORTS = Path(__file__).parent / "reports"

# ------------------------------------------------------------------ arguments and reports


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """A parser whose help is the docstring of the script."""
    return argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def report_head(seed: object = 0) -> str:
    """The first line of a report: command, version, seed, data and date."""
    given = sys.argv[1:]
    data = [Path(word).name for word in given if Path(word).is_dir()]
    command = shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *given])
    told = f"seed {seed}, data {', '.join(data) or 'made by the script'}"
    return f"`{command}`, stepcut {__version__}, {told}, {datetime.now(UTC):%Y-%m-%d}"


class _Both(io.StringIO):
    """Keeps what is written, and passes it on."""

    def __init__(self, on: Any) -> None:
        super().__init__()
        self.on = on

    def write(self, text: str) -> int:
        self.on.write(text)
        return super().write(text)

    def flush(self) -> None:
        self.on.flush()


@contextlib.contextmanager
def report(script: str, seed: object = 0) -> Iterator[None]:
    """Write what is printed inside to `reports/SCRIPT.md`, too, below its head; not with --quick, nor after an error.

    `seed`: what the script uses where the command does not say it.
    """
    both = _Both(sys.stdout)
    code: int | str | None = 0
    with contextlib.redirect_stdout(both):
        try:
            yield
        except SystemExit as ended:
            code = ended.code
    if not code and both.getvalue().strip() and not {"--quick", "--help", "-h"} & {*sys.argv}:
        REPORTS.mkdir(exist_ok=True)
        text = (
            f"# {Path(script).stem}\n\n{report_head(seed)}\n\n```\n{both.getvalue().strip()}\n```\n"
        )
        (REPORTS / f"{Path(script).stem}.md").write_text(text)
    if code:
        raise SystemExit(code)


# ------------------------------------------------------------------ recipes, knots and kept figures

Labels = list[NDArray[np.int64]]

BACKBONES = {"pe_core_b16": "image", "omnivore": "clip"}
BUILT_ON = {
    "Microwave Egg Sandwich": "1",
    "Spiced Hot Chocolate": "8",
    "Microwave French Toast": "9",
    "Tomato Mozzarella Salad": "12",
    "Scrambled Eggs": "16",
}
"""Recipes that settings were chosen on. Of the others only the constants of `auto` and of the grades know anything, and
those are reported leaving each task out."""
SHORT = {
    **BUILT_ON,
    "Microwave Mug Pizza": "3",
    "Pinwheels": "10",
    "Zoodles": "18",
    "Cheese Pimiento": "27",
    "Knot tying": "knots",
}
GESTURES = ("G1", "G11", "G12", "G13", "G14", "G15")


@dataclass
class Recipe:
    """One task seen by one backbone, `rate` rows a second; labels from 1, 0 is background."""

    backbone: str
    name: str
    rows: list[NDArray[np.float32]]
    true: Labels
    steps: int
    rate: float = 1.0

    @property
    def key(self) -> str:
        return f"{self.backbone} {SHORT[self.name]}"


def recipes(*roots: Path, backbones: Iterable[str] = tuple(BACKBONES)) -> Iterator[Recipe]:
    """The recipes in folders of CaptainCook4D as `backbones` see them, in the order of the tables."""
    for root in roots:
        tasks = [task for task in load("captaincook4d", root) if task.name in SHORT]
        for backbone in backbones:
            for task in tasks:
                videos = [
                    video for video in task.with_features(backbone) if video.timeline is not None
                ]
                rows = [video.read_features(backbone) for video in videos]
                true = [np.zeros(len(features), dtype=np.int64) for features in rows]
                for labels, video in zip(true, videos, strict=True):
                    for segment in video.timeline or ():
                        labels[round(segment.start) : round(segment.end)] = (
                            task.steps.index(segment.step) + 1
                        )
                if videos:
                    yield Recipe(
                        backbone, task.name, rows, true, len(set(np.concatenate(true)) - {0})
                    )


def knots(root: Path, rate: float = 2.0, fast: bool = False) -> Recipe:
    """Knot tying: raw video through the default backbone, gestures as steps; `fast` as in a `FeatureSpec`."""
    spec = FeatureSpec(fps=as_rate(rate), fast=fast)
    features, failures = extract(sorted((root / "videos").iterdir()), spec)
    assert not failures, failures
    true = [
        gestures(root / "gestures" / f"{one.name}.txt", len(one.rows), rate) for one in features
    ]
    return Recipe(
        "default", "Knot tying", [one.rows for one in features], true, len(GESTURES), rate
    )


def gestures(file: Path, count: int, rate: float) -> NDArray[np.int64]:
    """The gesture of each row, from 1; 0 is none. A line: first frame, last frame (from 1, 30 a second), gesture."""
    labels, times = np.zeros(count, dtype=np.int64), np.arange(count) / rate
    for line in file.read_text().splitlines():
        first, last, name = line.split()[:3]
        labels[(times >= (int(first) - 1) / 30) & (times < int(last) / 30)] = (
            GESTURES.index(name) + 1
        )
    return labels


class Kept:
    """Figures by name, in a file that grows by a line for each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.known: dict[str, dict[str, Any]] = {
            line["name"]: line["figures"] for line in map(json.loads, lines)
        }

    def get(self, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if name not in self.known:
            started = time.process_time()
            figures = compute()
            self.add(name, {**figures, "cpu": time.process_time() - started})
        return self.known[name]

    def fill(
        self, work: Callable[..., dict[str, Any]], todo: Mapping[str, tuple[Any, ...]], workers: int
    ) -> None:
        """`work(*given)` for each of `todo`, by name, that is not known yet, in processes of their own."""
        with ProcessPoolExecutor(workers) as pool:
            names = {
                pool.submit(work, *given): name
                for name, given in todo.items()
                if name not in self.known
            }
            for future in as_completed(names):
                self.add(names[future], future.result())

    def add(self, name: str, figures: dict[str, Any]) -> None:
        self.known[name] = figures
        with self.path.open("a") as file:
            file.write(json.dumps({"name": name, "figures": figures}) + "\n")


# ------------------------------------------------------------------ tasks that are ready to be cut

DIMENSIONS = 64


@dataclass
class Cuttable:
    """One task with features that are ready to be cut, one row a second, and its true labels (0 is background)."""

    name: str
    rows: list[NDArray[Any]]
    true: list[NDArray[np.int64]]
    steps: tuple[str, ...]
    group: str


def toy_tasks(seeds: int = 5, smooth: float = 0.0, noise: float = 0.5) -> list[Cuttable]:
    """Toy features of eight videos each, a seed per task."""
    tasks = []
    for seed in range(seeds):
        rows, timelines = toy_features(videos=8, seed=seed, noise=noise)
        tasks.append(make(f"toy {seed}", rows, timelines, "toy", smooth))
    return tasks


def recipe_tasks(root: Path, smooth: float = 0.0) -> list[Cuttable]:
    """The CaptainCook4D recipes under `root` that have features."""
    tasks = []
    for task in load("captaincook4d", root):
        backbones = {name for video in task for name in video.features}
        for backbone in sorted(backbones - {"slowfast"}):
            videos = [v for v in task.with_features(backbone) if v.timeline is not None]
            rows = [video.read_features(backbone) for video in videos]
            timelines = [video.timeline for video in videos if video.timeline is not None]
            tasks.append(make(f"{task.name}, {backbone}", rows, timelines, "captaincook4d", smooth))
    return tasks


def make(
    name: str, rows: list[NDArray[Any]], timelines: list[Timeline], group: str, smooth: float
) -> Cuttable:
    pairs = zip(rows, timelines, strict=True)
    true = [timeline.labels(np.arange(len(video)) + 0.5) + 1 for video, timeline in pairs]
    return Cuttable(name, prepare(rows, smooth), true, timelines[0].steps, group)


def prepare(rows: list[NDArray[Any]], smooth: float) -> list[NDArray[np.float32]]:
    """Every video centred on its own mean, smoothed over `smooth` seconds, at most 64 principal components."""
    centred = [video - video.mean(axis=0) for video in rows]
    smoothed = [
        gaussian_filter1d(video, smooth, axis=0, mode="nearest") if smooth else video
        for video in centred
    ]
    joined = np.concatenate(smoothed)
    _, axes = np.linalg.eigh(joined.T @ joined)
    return [(video @ axes[:, -DIMENSIONS:]).astype(np.float32) for video in smoothed]


# ------------------------------------------------------------------ reduced features


def add_reduce(parser: argparse.ArgumentParser, directions: int = 0) -> None:
    """The option `--reduce N`, whose value goes to `reduce_features`; `directions` if it is not given."""
    what = f"the features of DATA on their first N principal directions, 0: all of them (default {directions})"
    parser.add_argument("--reduce", type=int, metavar="N", default=directions, help=what)


def reduce_features(folders: Sequence[Path], directions: int) -> list[Path]:
    """Folders of the same layout whose features are reduced, gone when the script ends; `folders` for 0.

    The directions are those of all rows of a backbone in a folder, means left in; what is kept has half precision.
    """
    if not directions:
        return list(folders)
    work = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, work)
    return [
        _reduce(folder.resolve(), work / folder.resolve().name, directions) for folder in folders
    ]


def _reduce(folder: Path, into: Path, directions: int) -> Path:
    into.mkdir()
    for path in folder.iterdir():
        if path.name != "features":
            (into / path.name).symlink_to(path)
    for backbone in sorted((folder / "features").iterdir()):
        rows = {
            path.name: np.load(path).astype(np.float32) for path in sorted(backbone.glob("*.npy"))
        }
        size = next(iter(rows.values())).shape[1]
        if folder.name.endswith(
            "_more"
        ):  # there, columns are principal directions of each recipe already
            basis = np.eye(size, directions, dtype=np.float32)
        else:
            scatter = sum(one.T @ one for one in rows.values())
            basis = np.linalg.eigh(np.asarray(scatter, dtype=np.float64))[1][:, ::-1][
                :, :directions
            ].astype(np.float32)
        (into / "features" / backbone.name).mkdir(parents=True)
        for name, one in rows.items():
            np.save(into / "features" / backbone.name / name, (one @ basis).astype(np.float16))
    return into


# ------------------------------------------------------------------ pages of the docs


def fill(page: str, tables: Mapping[str, str]) -> str:
    """The text of a `page` with `tables`, by name, in place of those that stood there."""
    for name, text in tables.items():
        mark = re.compile(rf"(<!-- (?:table )?{name}\b[^>]*-->\n).*?(<!-- end -->)", re.DOTALL)
        page, count = mark.subn(lambda match, text=text: f"{match[1]}{text}\n{match[2]}", page)
        if not count:
            raise SystemExit(
                f"the page has no place for {name}: <!-- table {name} --> ... <!-- end -->"
            )
    return page
