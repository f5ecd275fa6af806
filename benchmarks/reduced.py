"""`--reduce N` of other scripts: the features of a data folder on their first N principal directions, for speed."""

from __future__ import annotations

import argparse
import atexit
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np


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
