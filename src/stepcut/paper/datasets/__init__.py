"""Data sets: what they are, how to obtain them, and their tasks, videos and true timelines, all in the same form.

>>> DATASETS["egoprocel"]
<DataSet egoprocel: EgoProceL, 16 tasks>
"""

import hashlib
import logging
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from stepcut.errors import DataError, as_items, choose
from stepcut.paper.datasets import captaincook4d, egoprocel, plain, third_person
from stepcut.paper.datasets.dataset import DATASETS, DataSet, Loaded, Task, TaskInfo, TaskVideo

log = logging.getLogger("stepcut")

READERS: dict[str, Callable[..., None]] = {
    "egoprocel": egoprocel.read,
    "crosstask": third_person.read_crosstask,
    "procel": third_person.read_procel,
    "captaincook4d": captaincook4d.read,
    "toy": plain.read_kitchen,
    "folder": plain.read,
}
"""Each is given a root, and a `Loaded` to which it adds what it finds there."""


def load(name: str, root: str | Path | Sequence[str | Path], **options: Any) -> list[Task]:
    """The tasks of a data set. What is absent or makes no sense is logged; nothing at all is an error.

    name     of the data set, one of `DATASETS`
    root     its folder, or several
    options  of its reader: EgoProceL takes `view="egocentric"` (or top, back, left, right) for the cameras of
             CMU-MMAC, a plain folder the `rate` of label files that count frames
    """
    loaded = examine(name, root, **options)
    if not loaded.tasks:
        absent = " ".join(loaded.missing[:3]) or "No task was found."
        raise DataError(
            f"{root}: {absent} 'stepcut data info {name}' shows the folder tree to build."
        )
    for line in loaded.problems:
        log.warning("%s: %s", name, line)
    return loaded.tasks


def examine(name: str, root: str | Path | Sequence[str | Path], **options: Any) -> Loaded:
    """As `load`, with the same `name`, `root` and `options`, together with what is missing and what makes no sense."""
    data_set = choose("data set", name, DATASETS)
    given = [root] if isinstance(root, str | Path) else root
    roots = [
        Path(each).expanduser()
        for each in as_items("root", given, (str, Path), "a folder, or several")
    ]
    loaded = Loaded()
    for place in roots:
        if not place.is_dir() and name != "toy":  # whose reader says how to film one there
            what = f"{place}: no such folder"
            raise DataError(
                f"{what}. Give the root of data set {name} (stepcut data info {name} shows its tree)."
            )
        READERS[name](place, part := Loaded(), **options)
        loaded.add(part)
    for place, (file, published) in product(roots, data_set.checksums.items()):
        path = place / file
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() != published:
            loaded.problems.append(
                f"{path}: it differs from the published file (SHA-256). Copy it again."
            )
    return loaded


__all__ = ["DATASETS", "DataSet", "Loaded", "Task", "TaskInfo", "TaskVideo", "examine", "load"]
