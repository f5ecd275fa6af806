"""Plans: which cells make each table of the paper. A cell is one row, task, K and seed; it can be run on its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from stepcut.errors import OptionError, choose
from stepcut.methods import METHODS
from stepcut.plugins import find

NO_VIDEO = ("random", "uniform", "one-cluster")
LOSSES = ("tcc", "lav+tcc", "lav", "tc3i")
SEGMENTERS = ("kmeans", "subset", "procut", "asot")
NUMBERS_OF_STEPS = (7, 10, 12, 15)
SEEDLESS = ("uniform", "one-cluster")


@dataclass(frozen=True)
class Cell:
    """One figure of a table before it is known.

    `embedding` is what the segmenter is given: "none" (it looks at no video), "raw" features, "smooth", a loss that an
    embedder is trained with, or "method", where `segmenter` names a whole method.
    """

    task: str
    row: str
    embedding: str
    segmenter: str
    steps: int
    seed: int
    view: str = ""

    @property
    def key(self) -> str:
        """A name for its file."""
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]
        words = "-".join([self.task, self.view, self.row, str(self.steps), str(self.seed)])
        return "".join(c if c.isalnum() else "_" for c in words)[:80] + "-" + digest


@dataclass(frozen=True)
class Experiment:
    """A table of the paper: the rows to fill, under which protocol the paper filled them, and what it shows."""

    name: str
    title: str
    rows: tuple[tuple[str, str, str], ...]
    """(row, embedding, segmenter)"""
    figures: tuple[str, ...] = ("F1", "IoU")
    protocol: str = "paper"
    also: tuple[str, ...] = ()
    """Further protocols that the published rows may be of; the table shows them all."""
    steps: tuple[int, ...] | None = None
    """The numbers of steps that it compares, where it does."""
    views: bool = False
    """Whether it compares cameras."""


def _learned(losses: Sequence[str], segmenters: Sequence[str]) -> tuple[tuple[str, str, str], ...]:
    return tuple((f"{loss} + {segmenter}", loss, segmenter) for loss in losses for segmenter in segmenters)


_BLIND = tuple((name, "none", name) for name in NO_VIDEO)
_CLOCK = (("uniform", "none", "uniform"),)

EXPERIMENTS: dict[str, Experiment] = {
    each.name: each
    for each in (
        Experiment(
            "main",
            "every method beside the rows that need no video",
            (
                *_BLIND,
                ("kmeans", "raw", "kmeans"),
                ("smooth", "smooth", "kmeans"),
                *_learned(["tc3i"], ["kmeans", "subset", "procut"]),
                ("stepcut", "method", "stepcut"),
            ),
        ),
        Experiment(
            "losses",
            "four losses, each followed by the ProCut Module",
            (*_CLOCK, *_learned(LOSSES, ["procut"])),
            figures=("precision", "F1", "IoU"),
        ),
        Experiment(
            "steps",
            "K = 7, 10, 12 and 15 for every segmenter",
            (*_BLIND, *_learned(["tc3i"], SEGMENTERS)),
            steps=NUMBERS_OF_STEPS,
        ),
        Experiment(
            "cuts",
            "every loss with every segmenter",
            (*_CLOCK, *_learned(LOSSES, SEGMENTERS)),
            figures=("precision", "recall", "F1", "IoU"),
        ),
        Experiment(
            "views",
            "the cook's own eyes against cameras that watch",
            (*_CLOCK, *_learned(["tc3i"], ["procut"])),
            figures=("precision", "recall", "F1", "IoU"),
            views=True,
        ),
        Experiment(
            "third-person",
            "ProceL and CrossTask",
            (*_BLIND, *_learned(["tc3i"], ["kmeans", "procut"])),
            figures=("precision", "recall", "F1"),
            protocol="framewise",
            also=("framewise-steps",),
        ),
    )
}


def choose_rows(experiment: Experiment, names: Sequence[str] | None) -> list[tuple[str, str, str]]:
    """The rows of a table to fill: all of them, or these; the clock is always among them.

    A name that the table does not have may be a method: one of stepcut's, of an entry point, `package.module:Class`.
    """
    known = {row[0]: row for row in experiment.rows}
    own = []
    for name in names or ():
        if name not in known:
            try:
                find("method", name, METHODS)
            except OptionError:
                if ":" in name:
                    raise
                choose("row", name, known)
            own.append((name, "method", name))
    ours = [row for row in experiment.rows if names is None or row[0] in names or row[0] == "uniform"]
    return [*ours, *own]


def plan(
    rows: Sequence[tuple[str, str, str]],
    tasks: Sequence[tuple[str, str]],
    numbers: Mapping[str, Sequence[int]],
    seeds: Sequence[int],
) -> list[Cell]:
    """All cells of these rows: `tasks` as (view, name), `numbers[name]` the numbers of steps for a task."""
    return [
        Cell(task, row, embedding, segmenter, number, seed, view)
        for view, task in tasks
        for number in numbers[task]
        for row, embedding, segmenter in rows
        for seed in (seeds[:1] if segmenter in SEEDLESS else seeds)
    ]
