"""Results: one self-contained file, from which the table, its LaTeX and a plot are made again without rerunning."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stepcut.errors import DataError, OptionError, choose
from stepcut.evaluation.experiments import published
from stepcut.evaluation.experiments.plan import EXPERIMENTS
from stepcut.evaluation.experiments.plot import draw
from stepcut.evaluation.protocols import find_protocol
from stepcut.files.atomic import read_json, write_json
from stepcut.tables import Cell, Spread, Table

FORMAT = "stepcut experiment 1"
NOTES = 4
"""So many notes on the data stand beneath a table; the results file has them all."""


class Results:
    """The cells of one experiment with their settings, seeds and versions."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.record = record
        self.experiment = choose("experiment", str(record.get("experiment")), EXPERIMENTS)

    def __repr__(self) -> str:
        return f"<Results {self.experiment.name} on {self.record['data']}: {len(self.record['cells'])} cells>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the results file."""
        write_json(path, self.record)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Results:
        """Read a results file."""
        try:
            record = read_json(path)
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: it cannot be read as results ({error}). Run the experiment again.") from error
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise DataError(f"{path}: it is not a results file of this version ({FORMAT}). Run the experiment again.")
        return cls(record)

    # ------------------------------------------------------------------ the table

    def table(self, protocol: str | None = None) -> Table:
        """Ours, and beneath each row the published one where there is one. The default protocol is the paper's."""
        shown = [protocol] if protocol else [self.experiment.protocol, *self.experiment.also]
        for each in shown:
            find_protocol(each)
        columns = self._columns()
        body: list[list[Cell]] = []
        for keys in self.rows():
            for name in shown:
                said = [name] if len(shown) > 1 else []
                body.append([keys[0], *said, *keys[1:], *self._figures(keys, name, columns)])
                known = self._published(keys, name)
                if known:
                    cells = _published_cells(known, columns, self._shown())
                    body.append([f"{keys[0]} (published)", *said, *keys[1:], *cells])
        for name in shown:
            said = [name] if len(shown) > 1 else []
            body += [[row[0], *said, *row[1:]] for row in self._only_published(name, columns)]
        head = ["row", *(["protocol"] if len(shown) > 1 else [])]
        head += [*(["camera"] if self.experiment.views else []), *(["K"] if self._has_k() else [])]
        titles = [*(f"{column} {figure}" for column in columns for figure in self._shown()), *self._means(columns)]
        notes = [*self._verdicts(shown[0]), *self._on_published(body), *self._notes()]
        return Table([*head, *titles], body, self._caption(" and ".join(shown)), notes)

    def mean(self, row: str, figure: str = "F1", protocol: str = "strict", **where: Any) -> Spread:
        """A row's figure: the mean over tasks, with the deviation over seeds. `where` limits cells, e.g. steps=7."""
        cells = [c for c in self._cells(protocol, row) if all(c[key] == value for key, value in where.items())]
        if not cells:
            raise OptionError(f"there is no cell of row {row!r} with {where or 'these settings'} in these results.")
        return self._average(cells, figure)

    def plot(self, path: str | os.PathLike[str], protocol: str | None = None) -> None:
        """A picture of the mean F1 of every row (over K where that was varied), with deviations over seeds."""
        name = protocol or self.experiment.protocol
        figures: dict[str, Any] = {}
        for keys in self.rows():
            mean = self._average(self._of(keys, name), "F1")
            if self._has_k():
                figures.setdefault(str(keys[0]), {})[int(keys[-1])] = mean
            else:
                figures[", ".join(map(str, keys))] = mean
        title = f"{self.experiment.name} on {self.record['data']}: mean F1, protocol {name}"
        draw(Path(path), title, figures)

    # ------------------------------------------------------------------ inside

    def _has_k(self) -> bool:
        return self.experiment.steps is not None

    def _shown(self) -> tuple[str, ...]:
        return self.experiment.figures

    def rows(self) -> list[tuple[str | int, ...]]:
        """The rows of the table in the order of the plan: name, then camera and K where they vary."""
        seen: dict[tuple[str | int, ...], None] = {}
        for record in self.record["cells"]:
            cell = record["cell"]
            key: tuple[str | int, ...] = (cell["row"],)
            key += (cell["view"],) if self.experiment.views else ()
            key += (cell["steps"],) if self._has_k() else ()
            seen[key] = None
        order = [row for row, _, _ in self.experiment.rows]
        return sorted(seen, key=lambda key: (order.index(str(key[0])), *key[1:]))

    def _columns(self) -> list[str]:
        return list(dict.fromkeys(self._column(task["task"]) for task in self.record["tasks"]))

    def _column(self, task: str) -> str:
        if self.experiment.name == "third-person":
            return str(self.record["data"])
        return published.PART_OF.get(task, task) if self.record["data"] == "egoprocel" else task

    def _means(self, columns: list[str]) -> list[str]:
        return [f"mean {figure}" for figure in self._shown()] if len(columns) > 1 else []

    def _cells(self, protocol: str, row: str) -> list[dict[str, Any]]:
        return [
            {**record["cell"], "figures": record["figures"][protocol]}
            for record in self.record["cells"]
            if record["cell"]["row"] == row
        ]

    def _of(self, keys: tuple[str | int, ...], protocol: str) -> list[dict[str, Any]]:
        names = [*(["view"] if self.experiment.views else []), *(["steps"] if self._has_k() else [])]
        where = dict(zip(names, keys[1:], strict=True))
        cells = self._cells(protocol, str(keys[0]))
        return [cell for cell in cells if all(cell[key] == value for key, value in where.items())]

    def _figures(self, keys: tuple[str | int, ...], protocol: str, columns: list[str]) -> list[Cell]:
        cells = self._of(keys, protocol)
        values: list[Cell] = []
        for column in columns:
            mine = [cell for cell in cells if self._column(cell["task"]) == column]
            values += [_shorten(_over_seeds(mine, figure)) if mine else None for figure in self._shown()]
        if len(columns) > 1:
            values += [_shorten(self._average(cells, figure)) for figure in self._shown()]
        return values

    def _average(self, cells: list[dict[str, Any]], figure: str) -> Spread:
        """As in the paper, over the columns: a part of many tasks weighs no more than a part of one."""
        groups: dict[str, list[dict[str, Any]]] = {}
        for cell in cells:
            groups.setdefault(self._column(cell["task"]), []).append(cell)
        seeds = np.mean([list(_by_seed(group, figure).values()) for group in groups.values()], axis=0)
        return Spread(float(np.mean(seeds)), float(np.std(seeds)))

    def _published(self, keys: tuple[str | int, ...], protocol: str) -> Mapping[str, published.Figures]:
        """Column -> figures of the paper for this row; empty where there are none for this data and protocol."""
        row, data, name = str(keys[0]), self.record["data"], self.experiment.name
        if name == "third-person":
            known = published.THIRD_PERSON.get(row, {}) if published.READING.get(row) == protocol else {}
            return {c: f for c, f in known.items() if c == data}
        if protocol != self.experiment.protocol:
            return {}
        if data != "egoprocel":
            return {}
        if name == "views":
            return published.VIEWS.get(str(keys[1]), {}) if row == "tc3i + procut" else {}
        if name == "steps":
            return published.STEPS.get(row, {}).get(int(keys[1]), {})
        if self.record["steps"] != 7:
            return {}
        if name == "cuts":
            return {**published.MAIN.get(row, {}), **published.LOSSES.get(row, {}), **published.CUTS.get(row, {})}
        return (published.LOSSES if name == "losses" else published.MAIN).get(row, {})

    def _only_published(self, protocol: str, columns: list[str]) -> list[list[Cell]]:
        """Rows of others that the paper compares with, in the third-person table."""
        if self.experiment.name != "third-person":
            return []
        ours = {row for row, _, _ in self.experiment.rows}
        rows = [row for row in published.THIRD_PERSON if row not in ours and published.READING[row] == protocol]
        known = {row: {c: f for c, f in published.THIRD_PERSON[row].items() if c in columns} for row in rows}
        return [
            [f"{row} (published)", *_published_cells(known[row], columns, self._shown())] for row in rows if known[row]
        ]

    def _caption(self, protocol: str) -> str:
        record, tasks = self.record, self.record["tasks"]
        steps = (
            "K varied"
            if self._has_k()
            else "K = true number"
            if record["steps"] == "true"
            else f"K = {record['steps']}"
        )
        videos = sum(task["videos"] for task in tasks)
        seeds = record["seeds"]
        return (
            f"{self.experiment.name}: {self.experiment.title}; protocol {protocol}, {steps}, data {record['data']} "
            f"({len(tasks)} tasks, {videos} videos), features {record['features'] or 'none'}, "
            f"{record.get('encoder', 'no encoder')}{' as published' if record.get('as_published') else ''}, "
            f"{record.get('device', 'cpu')}, seeds {seeds[0]} to {seeds[-1]}, stepcut {record['versions']['stepcut']}"
        )

    def _on_published(self, body: list[list[Cell]]) -> Iterable[str]:
        """What must be known to read published rows beside ours."""
        if not any("(published)" in str(row[0]) for row in body):
            return
        if "conv4c maps" not in str(self.record["features"]):
            yield (
                f"Published rows were made from ResNet-50 conv4c maps of the videos; ours from "
                f"{self.record['features'] or 'no features'}."
            )
        if self.experiment.also:
            yield (
                "Which reading of the protocol made which published row cannot be settled without the videos: each "
                "stands under the one it is possible under and most likely of."
            )

    def _notes(self) -> list[str]:
        """What is odd about the data; the first few, so that a large data set leaves the table readable."""
        every: list[str] = self.record["notes"]
        more = len(every) - NOTES
        return every if more <= 0 else [*every[:NOTES], f"... and {more} more such notes in the results file."]

    def _verdicts(self, protocol: str) -> Iterable[str]:
        """For every row that looks at videos: how far above the clock."""
        for keys in self.rows():
            clock = self._of(("uniform", *keys[1:]), protocol)
            if str(keys[0]) in ("uniform", "random", "one-cluster") or not clock:
                continue
            ours, theirs = self._average(self._of(keys, protocol), "F1"), self._average(clock, "F1").mean
            gap = ours.mean - theirs
            where = "".join(f", {key}" if isinstance(key, str) else f", K = {key}" for key in keys[1:])
            place = (
                "level with" if abs(gap) < max(ours.sd, 0.05) else f"{abs(gap):.1f} {'above' if gap > 0 else 'below'}"
            )
            yield f"{keys[0]}{where}: {place} uniform ({ours.mean:.1f} against {theirs:.1f} F1)."


def _by_seed(cells: list[dict[str, Any]], figure: str) -> dict[int, float]:
    """The mean over tasks for each seed; rows without chance have one seed."""
    seeds = sorted({cell["seed"] for cell in cells})
    means = {}
    for seed in seeds:
        values = [cell["figures"].get(figure) for cell in cells if cell["seed"] == seed]
        known = [value for value in values if value is not None]
        means[seed] = float(np.mean(known)) if known else float("nan")
    return means


def _over_seeds(cells: list[dict[str, Any]], figure: str) -> Spread:
    values = list(_by_seed(cells, figure).values())
    return Spread(float(np.mean(values)), float(np.std(values)) if len(values) > 1 else 0.0)


def _shorten(value: Spread) -> Cell:
    return value.mean if value.sd == 0.0 else value


def _published_cells(known: Mapping[str, published.Figures], columns: list[str], shown: tuple[str, ...]) -> list[Cell]:
    cells: list[Cell] = [known.get(column, {}).get(figure) for column in columns for figure in shown]
    if len(columns) > 1:
        complete = all(column in known for column in columns)
        for figure in shown:
            values = [known[column].get(figure) for column in columns] if complete else [None]
            present = [value for value in values if value is not None]
            cells.append(float(np.mean(present)) if len(present) == len(columns) else None)
    return cells
