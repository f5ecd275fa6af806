"""Plans: which cells make each table of the paper. A cell is one row, task, K and seed; it can be run on its own."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from stepcut.errors import OptionError, choose
from stepcut.methods import METHODS
from stepcut.plugins import find

NO_VIDEO = ("random", "uniform", "one-cluster")


@dataclass(frozen=True)
class Cell:
    """One figure of a table before it is known."""

    task: str
    row: str
    steps: int
    seed: int
    view: str = ""

    @property
    def parts(self) -> tuple[str, str]:
        """What the row is made of: an embedding, and the segmenter that is given it.

        The embedding is "none" (it looks at no video), "raw" features, "smooth" ones, a loss that an embedder is
        trained with, or "method", where the second names a whole method.
        """
        if self.row in NO_VIDEO:
            return "none", self.row
        if self.row in ("kmeans", "smooth"):
            return ("raw" if self.row == "kmeans" else "smooth"), "kmeans"
        embedding, _, segmenter = self.row.partition(" + ")
        return (embedding, segmenter) if segmenter else ("method", self.row)

    @property
    def key(self) -> str:
        """A name for its file."""
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]
        words = "-".join([self.task, self.view, self.row, str(self.steps), str(self.seed)])
        return "".join(c if c.isalnum() else "_" for c in words)[:80] + "-" + digest


@dataclass(frozen=True)
class Experiment:
    """A table of the paper; `tables.toml` has them and says what each part means."""

    name: str
    title: str
    rows: Sequence[str]
    figures: Sequence[str]
    protocol: str = "paper"
    also: Sequence[str] = ()
    steps: Sequence[int] = ()
    views: bool = False


EXPERIMENTS: dict[str, Experiment] = {
    name: Experiment(name, **about)
    for name, about in tomllib.loads((Path(__file__).parent / "tables.toml").read_text(encoding="utf-8")).items()
}


def choose_rows(experiment: Experiment, names: Sequence[str] | None) -> list[str]:
    """The rows of an `experiment` to fill: all, or those of these `names`; the clock is always among them.

    A name that the table does not have may be a method: one of stepcut's, of an entry point, `package.module:Class`.
    """
    own = [name for name in names or () if name not in experiment.rows]
    for name in own:
        try:
            find("method", name, METHODS)
        except OptionError:
            if ":" in name:
                raise
            choose("row", name, dict.fromkeys(experiment.rows))
    return [*(row for row in experiment.rows if names is None or row in names or row == "uniform"), *own]


def plan(
    rows: Sequence[str], tasks: Sequence[tuple[str, str]], numbers: Mapping[str, Sequence[int]], seeds: Sequence[int]
) -> list[Cell]:
    """All cells of `rows` and `seeds`: `tasks` as (view, name), `numbers[name]` the numbers of steps for a task."""
    return [
        Cell(task, row, number, seed, view)
        for view, task in tasks
        for number in numbers[task]
        for row in rows
        for seed in (seeds[:1] if row in ("uniform", "one-cluster") else seeds)
    ]
