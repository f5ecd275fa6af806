"""Results: one file, from which the table, its LaTeX and a plot are made without a new run."""

import csv
import hashlib
import json
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Self

import numpy as np

from stepcut.colours import colour
from stepcut.errors import DataError, OptionError, choose
from stepcut.evaluation.clock import NO_VIDEO
from stepcut.evaluation.compare import above_uniform, adjust, compare_videos
from stepcut.evaluation.protocols import PROTOCOLS
from stepcut.files import read_json, write_json
from stepcut.files.names import safe_name
from stepcut.order.orders import grouped
from stepcut.paper.datasets import DATASETS
from stepcut.tables import FIXED, Cell, Spread, Table, drawn_with, save_figure

FORMAT = "stepcut experiment 1"
# Required fields of a results file
PARTS = {"experiment", "data", "features", "steps", "seeds", "versions", "tasks", "cells", "notes"}
NOTES = 4  # Notes shown below a table; the results file has all of them

# Protocols that score every cell; discovered steps have no names, so `named` is excluded
SCORED = [name for name in PROTOCOLS if name != "named"]

Key = tuple[str | int, ...]  # A row of a table: its name, then camera and K where they vary
Cells = list[dict[str, Any]]


@dataclass(frozen=True)
class Experiment:
    """A table of the paper; `tables.toml` explains the fields."""

    name: str
    title: str
    rows: Sequence[str]
    figures: Sequence[str]
    protocol: str = "paper"
    also: Sequence[str] = ()
    steps: Sequence[int] = ()
    views: bool = False
    datasets: Sequence[str] = ()


_tables = tomllib.loads((Path(__file__).parent / "tables.toml").read_text(encoding="utf-8"))
EXPERIMENTS = {name: Experiment(name, **about) for name, about in _tables.items()}


def choose_protocol(name: str, scored: Iterable[str] = SCORED) -> str:
    return choose("protocol", name, {each: each for each in scored})


@cache
def read_published() -> list[dict[str, str]]:
    """All figures that the paper (Bansal, Arora, Jawahar, ECCV 2022) reports.

    `framewise` is what the authors' code computes; the protocol of a third-person row is the most
    likely one. Rows whose precision is far below the recall come from Shen et al., who count
    background in it. The uniform baseline assigns every frame to a step, so its precision cannot
    exceed its recall there: its ProceL row follows the other protocol.
    """
    text = (Path(__file__).parent / "published.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


class Results:
    """The cells of one experiment with settings, seeds and versions; `run_experiment` makes it.

    Examples
    --------
    >>> made = {"experiment": "main", "data": "kitchen", "cells": []}
    >>> Results(made)
    <Results main on kitchen: 0 cells>
    """

    def __init__(self, record: dict[str, Any]) -> None:
        self.record = record
        self.experiment = choose("experiment", str(record.get("experiment")), EXPERIMENTS)

    def __repr__(self) -> str:
        data, cells = self.record["data"], len(self.record["cells"])
        return f"<Results {self.experiment.name} on {data}: {cells} cells>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the results to a JSON file."""
        write_json(path, self.record)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file that `save` wrote; one of another version raises `DataError`."""
        try:
            record = read_json(path)
            if not isinstance(record, dict) or record.get("format") != FORMAT:
                raise ValueError(f"not a results file of this version, {FORMAT}")
            if absent := sorted(PARTS - record.keys()):
                raise ValueError(f"missing {', '.join(absent)}")
        except (OSError, ValueError) as error:
            what = f"is not a readable results file ({error}). Run the experiment again."
            raise DataError(f"{path} {what}", path=path) from error
        return cls(record)

    def table(self, protocol: str | None = None) -> Table:
        """Make the table under a protocol (default: the paper's), each row above its published one."""
        shown = self._protocols(protocol)
        several = len(shown) > 1
        columns, figures = self._columns(), self.experiment.figures
        ours, body, filled = self.rows(), list[list[Cell]](), set[int]()
        for key, name in product(self._keys(), shown):
            head: list[Cell] = [*([name] * several), *key[1:]]
            if key in ours:
                filled.add(len(body))
                body.append([key[0], *head, *self._figures(ours[key], name, columns)])
            if known := self._published(key, name, columns):
                body.append([f"{key[0]} (published)", *head, *known])
        heads = ["row", *(["protocol"] * several), *(["camera"] * self.experiment.views)]
        heads += ["K"] if self.experiment.steps else []
        named = [*columns, *(["mean"] if len(columns) > 1 else [])]
        return Table(
            [*heads, *(f"{column} {figure}" for column in named for figure in figures)],
            body,
            self._caption(" and ".join(shown)),
            [
                self._settings(),
                *self._verdicts(shown[0]),
                *self._published_on(body),
                *self._notes(),
            ],
            bold=_best(body, filled, len(heads)),
            groups=[("", len(heads)), *((column, len(figures)) for column in named)],
            label=f"tab:{self.experiment.name}",
        )

    def file_name(self) -> str:
        """Unique to settings, data, code and figures."""
        left_out = ("cells", "notes", "made", "format")
        kept = {name: value for name, value in self.record.items() if name not in left_out}
        kept["cells"] = [[cell["cell"], cell["figures"]] for cell in self.record["cells"]]
        digest = hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()
        data = str(self.record["data"]).replace("/", "-")
        return str(safe_name(f"{self.experiment.name}-{data}-{digest[:8]}.json"))

    def _columns(self) -> list[str]:
        """Tasks; for EgoProceL its parts as the paper orders them; data sets that are compared."""
        here = [self._column(task) for task in self.record["tasks"]]
        order = [each["column"] for each in read_published() if each["column"] in here]
        return list(self.experiment.datasets or dict.fromkeys([*order, *here]))

    def _keys(self) -> list[Key]:
        """Rows of the table in order: filled and published ones."""
        table = [each for each in read_published() if each["table"] == self.experiment.name]
        ours, reported = self.rows(), (each["row"] for each in table)
        names = dict.fromkeys([*self.experiment.rows, *reported, *(str(key[0]) for key in ours)])
        varied: list[list[str | int]] = []
        if self.experiment.views:
            known = table if self.record["data"] == "egoprocel" else []
            varied.append(sorted({str(key[1]) for key in ours} | {one["camera"] for one in known}))
        if self.experiment.steps:
            varied.append(list(self.experiment.steps))
        return [(name, *rest) for name in names for rest in product(*varied)]

    def mean(self, row: str, figure: str = "F1", protocol: str = "strict") -> Spread:
        """Return the mean of a figure of a row over tasks, with its sample deviation over seeds."""
        cells = [cell for key, cells in self.rows().items() if key[0] == row for cell in cells]
        if not cells:
            raise OptionError(f"these results have no row {row!r}.", setting="row", value=row)
        return self._average(cells, figure, protocol)

    @drawn_with(FIXED)
    def plot(self, path: str | os.PathLike[str], protocol: str | None = None) -> None:
        """Draw the mean F1 of every row (over K if it varies) as PNG, SVG or PDF."""
        from matplotlib.figure import Figure

        name = self._protocols(protocol)[0]
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.add_subplot(title=f"{self.experiment.name} on {self.record['data']}")
        means = {key: self._average(cells, "F1", name) for key, cells in self.rows().items()}
        label = f"mean F1 in percent, protocol {name}, ± sample deviation over seeds"
        if self.experiment.steps:
            for number, row in enumerate(dict.fromkeys(key[0] for key in means)):
                line = {int(key[-1]): mean for key, mean in means.items() if key[0] == row}
                f1, deviations = zip(*line.values(), strict=True)
                style: dict[str, Any] = {"color": colour(number), "marker": "o", "capsize": 3}
                axes.errorbar(list(line), f1, yerr=deviations, label=row, **style)
                axes.set_xticks(list(line))
            axes.set_xlabel("K, the number of steps")
            axes.set_ylabel(label)
            figure.legend(loc="outside right upper", fontsize="small")
        else:
            f1, deviations = zip(*means.values(), strict=True)
            places = range(len(means))
            colours = [colour(number) for number in places]
            axes.barh(places, f1, xerr=deviations, color=colours, capsize=3)
            axes.set_yticks(places, [", ".join(map(str, key)) for key in means])
            axes.set_xlabel(label)
            axes.invert_yaxis()
        save_figure(figure, path)

    def rows(self) -> dict[Key, Cells]:
        """The cells of every row in the order of the table; custom rows are last."""
        varied = ["row", *(["view"] * self.experiment.views)]
        varied += ["steps"] if self.experiment.steps else []
        cells = (
            {**one["cell"], "figures": one.get("figures"), "videos": one.get("videos")}
            for one in self.record["cells"]
        )
        found: dict[Key, Cells] = grouped(
            (tuple(cell[name] for name in varied), cell) for cell in cells
        )
        order = [*self.experiment.rows, *(str(key[0]) for key in found)]
        return dict(
            sorted(found.items(), key=lambda one: (order.index(str(one[0][0])), *one[0][1:]))
        )

    def _protocols(self, wanted: str | None) -> list[str]:
        shown = [wanted] if wanted else [self.experiment.protocol, *self.experiment.also]
        scored = {name: name for cell in self.record["cells"] for name in cell["figures"]}
        return [choose_protocol(each, scored) for each in shown]

    def _column(self, of: Mapping[str, Any]) -> str:
        """Column of a task or cell: a part of EgoProceL, a data set, or a task."""
        if self.experiment.datasets:
            return str(of["view"])
        task, parts = str(of["task"]), DATASETS["egoprocel"].tasks
        return parts[task].part if self.record["data"] == "egoprocel" and task in parts else task

    def _by_column(self, cells: Cells) -> dict[str, Cells]:
        return grouped((self._column(cell), cell) for cell in cells)

    def _figures(self, cells: Cells, protocol: str, columns: list[str]) -> list[Cell]:
        parts, values = self._by_column(cells), list[Cell]()
        groups = [*map(parts.get, columns), *([cells] if len(columns) > 1 else [])]
        for mine, figure in product(groups, self.experiment.figures):
            mean = self._average(mine, figure, protocol) if mine else None
            values.append(mean.mean if mean is not None and mean.sd < 1e-9 else mean)
        return values

    def _average(self, cells: Cells, figure: str, protocol: str) -> Spread:
        """Mean over columns, as in the paper: every part has the same weight."""
        parts = self._by_column(cells).values()
        seeds = np.mean([_by_seed(part, figure, protocol) for part in parts], axis=0)
        return Spread.of(seeds.tolist())

    def _published(self, key: Key, protocol: str, columns: list[str]) -> list[Cell]:
        """Published figures of this row; empty without any for this data, K and protocol."""
        steps = str(key[-1] if self.experiment.steps else self.record["steps"])
        wanted = {"table": self.experiment.name, "row": key[0], "protocol": protocol}
        wanted["camera"] = key[1] if self.experiment.views else ""
        figures = self.experiment.figures
        known = {
            each["column"]: {name: float(each[name]) for name in figures if each[name]}
            for each in read_published()
            if wanted.items() <= each.items() and each["K"] in ("", steps)
            if self.experiment.datasets or self.record["data"] == "egoprocel"
        }
        grid = [[known.get(c, {}).get(figure) for figure in figures] for c in columns]
        cells: list[Cell] = [cell for row in grid for cell in row]
        for values in zip(*grid, strict=True) if len(columns) > 1 else ():
            known_ones = [value for value in values if value is not None]
            cells.append(float(np.mean(known_ones)) if len(known_ones) == len(values) else None)
        return cells if known else []

    def _caption(self, protocol: str) -> str:
        record, seeds = self.record, len(self.record["seeds"])
        fixed = "the true number" if record["steps"] == "true" else str(record["steps"])
        steps = "" if self.experiment.steps else f" K is {fixed}."
        over = f" ± is the sample deviation over {seeds} seeds." if seeds > 1 else ""
        return (
            f"{self.experiment.name}: {self.experiment.title}, on {record['data']}, protocol "
            f"{protocol}, in percent.{steps}{over}"
        )

    def _settings(self) -> str:
        """What the caption leaves out."""
        record, tasks = self.record, self.record["tasks"]
        seeds, encoder = record["seeds"], record.get("encoder", "none")
        if record.get("preset") and encoder != "none":
            encoder += f", as {record['preset']}"
        return (
            f"Settings: tasks {len(tasks)}, videos {sum(task['videos'] for task in tasks)}, features "
            f"{record['features'] or 'none'}, encoder {encoder}, segmenters "
            f"{record.get('segmenters', 'none')}, device {record.get('device', 'CPU')}, seeds "
            f"{seeds[0]} to {seeds[-1]}, stepcut {record['versions']['stepcut']}."
        )

    def _published_on(self, body: list[list[Cell]]) -> Iterable[str]:
        if not any("(published)" in str(row[0]) for row in body):
            return
        if "conv4c maps" not in str(self.record["features"]):
            ours = self.record["features"] or "no features"
            yield f"Published rows use ResNet-50 conv4c maps; stepcut's use {ours}."
        if self.experiment.also:
            yield (
                "The protocol of a published row cannot be verified without the videos; each "
                "row is shown under the most likely one."
            )

    def _notes(self) -> list[str]:
        every: list[str] = self.record["notes"]
        more = f"... and {len(every) - NOTES} more notes in the results file."
        return every if len(every) <= NOTES else [*every[:NOTES], more]

    def _verdicts(self, protocol: str) -> Iterable[str]:
        """Compare every row that uses videos with the uniform baseline, also video by video."""
        rows, tested = self.rows(), dict[str, float]()
        for key, cells in rows.items():
            uniform = rows.get(("uniform", *key[1:]))
            if uniform and key[0] not in NO_VIDEO:
                parts = (part if isinstance(part, str) else f"K = {part}" for part in key)
                row, both = ", ".join(parts), (cells, uniform)
                means = [self._average(each, "F1", protocol) for each in both]
                videos = [_by_video(each, protocol) for each in both]
                words = f"{row}: {above_uniform(means[0], means[1].mean)}"
                if videos[0]:
                    gap = compare_videos(*videos)
                    tested[row] = gap.p
                    words += f"; {gap}"
                yield f"{words}."
        if len(tested) > 1:
            pairs = zip(tested, adjust([*tested.values()]), strict=True)
            words = ", ".join(f"{name} {p:.3g}" for name, p in pairs)
            yield f"p against uniform, adjusted for {len(tested)} tests (Holm): {words}."


def _best(body: list[list[Cell]], filled: set[int], first: int) -> frozenset[tuple[int, int]]:
    """The highest of our figures in every column from `first`."""
    best = set()
    for place in range(first, len(body[0]) if len(filled) > 1 else 0):
        cells = {row: body[row][place] for row in filled}
        means = ((row, getattr(cell, "mean", cell)) for row, cell in cells.items())
        values = {row: mean for row, mean in means if isinstance(mean, float)}
        if values and max(values.values()) > min(values.values()):
            best |= {(row, place) for row in values if values[row] == max(values.values())}
    return frozenset(best)


def _by_video(cells: Cells, protocol: str) -> dict[str, float]:
    """F1 of each video, the mean over seeds; empty in results of version 0.3."""
    found = grouped(
        (f"{cell['view']} {cell['task']} {video}", f1)
        for cell in cells
        for video, f1 in ((cell["videos"] or {}).get(protocol) or {}).items()
    )
    return {video: float(np.mean(each)) for video, each in found.items()}


def _by_seed(cells: Cells, figure: str, protocol: str) -> list[float]:
    """Mean over tasks for each seed; deterministic rows have one seed."""
    means = []
    for seed in sorted({cell["seed"] for cell in cells}):
        values = [cell["figures"][protocol].get(figure) for cell in cells if cell["seed"] == seed]
        known = [value for value in values if value is not None]
        means.append(float(np.mean(known)) if known else float("nan"))
    return means
