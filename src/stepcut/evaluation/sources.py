"""Open what `evaluate` compares: procedures, folders of timelines, data sets."""

import os
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from stepcut.errors import OptionError, as_items
from stepcut.evaluation.compare import NO_VIDEO
from stepcut.features.spec import VECTORS
from stepcut.files.addresses import as_path
from stepcut.files.names import short_names
from stepcut.formats import read_folder
from stepcut.plugins import find
from stepcut.procedure.folder import is_procedure
from stepcut.procedure.loading import read_outline
from stepcut.procedure.procedure import Procedure
from stepcut.rate import as_rate
from stepcut.timeline import Timeline

Edges = Iterable[tuple[str, str]] | None
Found = Procedure | Mapping[str, Timeline] | str | os.PathLike[str]
Truth = Any | Mapping[str, Timeline] | str | os.PathLike[str]


class Opened(NamedTuple):
    """The result of one run of a method."""

    timelines: Mapping[str, Timeline]
    steps: Sequence[str]
    """Names of all steps, including unused ones."""
    seed: str
    labelled: set[str]
    """Videos annotated by a person."""
    rate: Fraction | None = None
    """Rows per second of feature files, if the user set it."""


def open_rows(source: Any) -> dict[str, list[Opened]]:
    """Open the rows to score by name, each with a run per seed."""
    timelines = isinstance(source, Mapping) and all(
        isinstance(one, Timeline) for one in source.values()
    )
    rows = source if isinstance(source, Mapping) and not timelines else {"ours": source}
    if taken := [name for name in rows if name in NO_VIDEO]:
        raise OptionError(
            f"row {taken[0]!r} has the name of a baseline. Rename it.",
            setting="row",
            value=taken[0],
        )
    return {name: _open_row(one) for name, one in rows.items()}


def _open_row(source: Any) -> list[Opened]:
    """Open one result, or several runs with different seeds."""
    alone = isinstance(source, str | os.PathLike | Mapping) or hasattr(source, "timelines")
    runs = source if isinstance(source, Iterable) and not alone else [source]
    opened = [_open(one) for one in runs]
    if not opened:
        raise OptionError("nothing to evaluate. Pass a procedure, its path, or timelines.")
    return opened


def _open(found: Any) -> Opened:
    if isinstance(found, str | os.PathLike):
        place = as_path(found)
        # Timelines need no model.
        found = read_outline(place) if is_procedure(place) else read_folder(found)
    if isinstance(found, Mapping):
        return Opened(found, (), "unknown", set())
    if not hasattr(found, "config"):
        raise OptionError(
            f"{found!r} cannot be evaluated. Pass a procedure, its path, or timelines by video.",
            setting="proc_or_timelines",
            value=found,
        )
    seed = str(found.config.get("seed", "unknown"))
    labelled = set(found.annotations.annotated)
    vectors = found.config.get("backbone", {}).get("name") == VECTORS
    rate = as_rate(found.config["rate"], "rate") if vectors else None
    return Opened(found.timelines, found.steps, seed, labelled, rate)


def read_truth(truth: Any) -> tuple[Mapping[str, Timeline], str, Mapping[str, Edges]]:
    """Return the annotated timelines by video, their origin in a word, and graphs by video."""
    if isinstance(truth, str) and ":" in truth and not Path(truth).exists():
        kind, _, root = truth.partition(":")
        tasks: Any = find("dataset", kind, setting="data set").load(root)
        videos = [(task, name, each) for task in tasks for name, each in task.timelines.items()]
        # Two tasks may have videos of one name.
        names = short_names([f"{task.name}/{name}" for task, name, _ in videos])
        graphs = {name: task.graph for name, (task, _, _) in zip(names, videos, strict=True)}
        return dict(zip(names, (timeline for _, _, timeline in videos), strict=True)), kind, graphs
    if isinstance(truth, str | os.PathLike):
        return read_folder(truth, confirmed=True), Path(truth).name or str(truth), {}
    if not isinstance(truth, Mapping):
        if not hasattr(truth, "timelines"):
            raise OptionError(
                f"truth={truth!r} has no timelines. Pass a folder, timelines by video, or a task.",
                setting="truth",
                value=truth,
            )
        graph = getattr(truth, "graph", None)
        return (
            truth.timelines,
            str(getattr(truth, "name", "unnamed")),
            dict.fromkeys(truth.timelines, graph),
        )
    as_items("truth", truth.values(), Timeline, "a stepcut.Timeline for each video")
    return truth, "unnamed", {}
