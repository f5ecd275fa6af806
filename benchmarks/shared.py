"""Shared code of the benchmarks: arguments, reports, recipes and stored figures."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import re
import resource
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.paper.datasets import TaskVideo, load
from stepcut.timeline import Timeline
from stepcut.version import __version__

REPORTS = Path(__file__).parent / "reports"

# ------------------------------------------------------------------ arguments and reports


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """A parser whose help is the docstring of the script."""
    form = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=doc, formatter_class=form)


def head(seeds: object, data: str, command: str = "") -> str:
    """The table on top of every report: command, version, seeds, data, machine and date."""
    given = command or shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    rows = {
        "Command": f"`{given}`",
        "Version": f"stepcut {__version__}",
        "Seeds": seeds,
        "Data": data,
        "Machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "Date": f"{datetime.now(UTC):%Y-%m-%d}",
    }
    return "| | |\n|---|---|\n" + "\n".join(f"| {name} | {text} |" for name, text in rows.items())


def cpu_of_children() -> float:
    """CPU seconds of all finished child processes."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


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
"""Tuning recipes. Of the others, only the constants of `auto` and of the quality grades use
anything, and those are reported with each task held out."""
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
    """One task and one backbone, `rate` rows per second; labels from 1, 0 is background."""

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
    """The recipes in folders of CaptainCook4D for `backbones`, in the order of the tables."""
    for root in roots:
        tasks = [task for task in load("captaincook4d", root) if task.name in SHORT]
        for backbone, task in itertools.product(backbones, tasks):
            videos = [one for one in task.with_features(backbone) if one.timeline is not None]
            rows = [video.read_features(backbone) for video in videos]
            pairs = zip(videos, rows, strict=True)
            true = [labels_of(video.timeline, task.steps, len(one)) for video, one in pairs]
            if videos:
                count = len(set(np.concatenate(true)) - {0})
                yield Recipe(backbone, task.name, rows, true, count)


def labels_of(
    timeline: Timeline, steps: Sequence[str], count: int, rate: float = 1.0
) -> NDArray[np.int64]:
    """The step of each row, from 1; 0 is background."""
    labels = np.zeros(count, dtype=np.int64)
    for part in timeline:
        labels[round(rate * part.start) : round(rate * part.end)] = steps.index(part.step) + 1
    return labels


def is_wrong(video: TaskVideo) -> bool:
    """Whether a step is missing or out of order, as annotated."""
    return any(what in ("missing step", "order error") for _, what in video.errors)


def gestures(file: Path, count: int, rate: float) -> NDArray[np.int64]:
    """The gesture of each row, from 1; 0 is none. Lines: first frame, last frame (from 1, 30 fps),
    gesture."""
    labels, times = np.zeros(count, dtype=np.int64), np.arange(count) / rate
    for line in file.read_text().splitlines():
        first, last, name = line.split()[:3]
        inside = (times >= (int(first) - 1) / 30) & (times < int(last) / 30)
        labels[inside] = GESTURES.index(name) + 1
    return labels


class Kept:
    """Figures by name, in a file with one line per figure."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = map(json.loads, path.read_text().splitlines() if path.exists() else ())
        self.known: dict[str, dict[str, Any]] = {line["name"]: line["figures"] for line in lines}

    def get(self, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if name not in self.known:
            self.add(name, compute())
        return self.known[name]

    def fill(
        self, work: Callable[..., dict[str, Any]], todo: Mapping[str, tuple[Any, ...]], workers: int
    ) -> None:
        """Compute `work(*given)` for each missing entry of `todo`, in separate processes."""
        missing = {name: given for name, given in todo.items() if name not in self.known}
        with ProcessPoolExecutor(workers) as pool:
            names = {pool.submit(work, *given): name for name, given in missing.items()}
            for future in as_completed(names):
                self.add(names[future], future.result())

    def add(self, name: str, figures: dict[str, Any]) -> None:
        self.known[name] = figures
        with self.path.open("a") as file:
            file.write(json.dumps({"name": name, "figures": figures}) + "\n")


# ------------------------------------------------------------------ pages of the docs


def fill(page: str, tables: Mapping[str, str]) -> str:
    """Replace the `tables` of a `page`, by name."""
    for name, text in tables.items():
        mark = re.compile(rf"(<!-- (?:table )?{name}\b[^>]*-->\n).*?(<!-- end -->)", re.DOTALL)
        page, count = mark.subn(lambda match, text=text: f"{match[1]}{text}\n{match[2]}", page)
        if not count:
            raise SystemExit(f"the page lacks a mark for {name}: <!-- {name} --> ... <!-- end -->")
    return page


def renew_head(page: str, top: str) -> str:
    """Replace the table on top of a `page`."""
    table = r"\| \| \|\n\|---\|---\|\n(\|.*\n)+"
    return re.sub(table, lambda _: f"{top}\n", page, count=1)
