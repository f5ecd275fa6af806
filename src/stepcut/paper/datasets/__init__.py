"""Data sets: what they are, how to obtain them, and their tasks, videos and true timelines, all in
the same form.

>>> DATASETS["egoprocel"]
<DataSet egoprocel: EgoProceL, 16 tasks>
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stepcut.paper.datasets.dataset import DATASETS, DataSet, Loaded, Task, TaskInfo, TaskVideo
from stepcut.plugins import find, registered

EGOPROCEL = DATASETS["egoprocel"]
CROSSTASK = DATASETS["crosstask"]
PROCEL = DATASETS["procel"]
CAPTAINCOOK4D = DATASETS["captaincook4d"]
TOY = DATASETS["toy"]
FOLDER = DATASETS["folder"]


def find_dataset(name: str) -> DataSet:
    """The data set of this `name`: one of `DATASETS`, or one that an installed package
    registers."""
    return find("dataset", name, DATASETS, "data set")


def all_datasets() -> dict[str, DataSet]:
    """Ours, then those that installed packages register."""
    return {name: find_dataset(name) for name in (*DATASETS, *registered("dataset"))}


def load(name: str, root: str | Path | Sequence[str | Path], **options: Any) -> list[Task]:
    """The tasks of a data set.

    Parameters
    ----------
    name
        Of the data set, one of `DATASETS`, or one that a package registers.
    root
        Its folder, or several.
    options
        Of its reader: EgoProceL takes `view="egocentric"` (or top, back, left, right) for the
        cameras of CMU-MMAC, a plain folder the `rate` of label files that count frames.

    Raises
    ------
    DataError
        When nothing was found. What is missing or inconsistent is logged.
    """
    return find_dataset(name).load(root, **options)


def examine(name: str, root: str | Path | Sequence[str | Path], **options: Any) -> Loaded:
    """As `load`, with the same `name`, `root` and `options`, together with what is missing or
    inconsistent."""
    return find_dataset(name).examine(root, **options)


__all__ = [
    "DATASETS",
    "DataSet",
    "Loaded",
    "Task",
    "TaskInfo",
    "TaskVideo",
    "all_datasets",
    "examine",
    "find_dataset",
    "load",
]
