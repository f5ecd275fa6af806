"""Data sets: how to obtain them, and their tasks, videos and annotated timelines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stepcut.paper.datasets.dataset import DATASETS, DataSet, Task, TaskVideo
from stepcut.plugins import find, registered

EGOPROCEL = DATASETS["egoprocel"]
CROSSTASK = DATASETS["crosstask"]
PROCEL = DATASETS["procel"]
CAPTAINCOOK4D = DATASETS["captaincook4d"]
TOY = DATASETS["toy"]
FOLDER = DATASETS["folder"]
SEGMENTATION = DATASETS["segmentation"]


def find_dataset(name: str) -> DataSet:
    """One of `DATASETS`, or one that a plugin registers."""
    return find("dataset", name, DATASETS, "data set")


def all_datasets() -> dict[str, DataSet]:
    return {name: find_dataset(name) for name in (*DATASETS, *registered("dataset"))}


def load(name: str, root: str | Path | Sequence[str | Path], **options: Any) -> list[Task]:
    """Load the tasks of a data set.

    Parameters
    ----------
    name
        One of `DATASETS`, or a data set that a plugin registers.
    root
        The folder of the data set, or several.
    options
        Options of the reader. EgoProceL takes `view="egocentric"` (or top, back, left, right) for
        the cameras of CMU-MMAC. A plain folder takes the `rate` of label files that count frames.

    Returns
    -------
    list of Task
        The tasks. Missing or inconsistent files are logged.

    Raises
    ------
    DataError
        The folder contains no task.

    Examples
    --------
    >>> from stepcut.formats import write_folder
    >>> files = write_folder("kitchen/sandwich", {"video1": labels}, "csv")
    >>> load("folder", "kitchen")
    [<Task sandwich: 1 videos, 3 steps>]
    """
    return find_dataset(name).load(root, **options)


__all__ = ["DATASETS", "DataSet", "Task", "TaskVideo", "load"]
