"""Feature maps of videos: disk space needed, and two ways to use less."""

import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from stepcut.errors import DataError
from stepcut.features.backbones.resnet50 import map_shape
from stepcut.features.extract import extract
from stepcut.features.features import Failure, Features
from stepcut.features.files import (
    content_hash,
    feature_file,
    in_parts,
    load_features,
    read_rows,
    write_rows,
)
from stepcut.features.spec import FeatureSpec
from stepcut.files.cache import cache_dir
from stepcut.paper.datasets import Task
from stepcut.parallel.engine import Engine
from stepcut.progress import Hook

MAPS = {
    "keep": "keep all maps in the cache",
    "half": "halve width and height, for a quarter of the disk space",
    "stream": "keep the maps of one task at a time",
}


def state_cost(
    spec: FeatureSpec | str | None, maps: str, tasks: Sequence[Task], folder: Path
) -> str | None:
    """Describe the disk space that the maps of `tasks` need, before extracting them.

    Returns None if `spec` gives vectors or features exist. `maps` is a key of `MAPS`. Too little
    free space raises `DataError`.
    """
    if not isinstance(spec, FeatureSpec) or spec.backbone != "resnet50":
        return None
    with_video = [[video for video in task if video.path and video.timeline] for task in tasks]
    seconds = [sum(video.duration or 0.0 for video in videos) for videos in with_video]
    a_frame = 2 * math.prod(map_shape(spec.layer or "conv4c")) / (4 if maps == "half" else 1)
    frames = [float(spec.fps) * each for each in seconds]
    most = a_frame * (max(frames, default=0.0) if maps == "stream" else sum(frames))
    wanted = cache_dir() if maps == "keep" else folder
    place = next(each for each in (wanted, *wanted.absolute().parents) if each.exists())
    free = shutil.disk_usage(place).free
    cost = (
        f"maps of {sum(frames):,.0f} frames need up to {most / 1e9:.1f} GB in {place}, where "
        f"{free / 1e9:.0f} GB are free; a GPU extracts about 500 per second, two CPU cores about 10"
    )
    if most > free:
        raise DataError(
            f"{cost}. Choose a folder on a larger disk (--out, STEPCUT_CACHE), --maps half (a "
            "quarter of the space) or --maps stream (one task at a time).",
            path=place,
        )
    return cost


def make_maps(
    videos: Sequence[Path],
    spec: FeatureSpec,
    maps: str,
    folder: Path,
    progress: Hook,
    engine: Engine | None,
    device: str,
) -> tuple[list[Features], list[Failure]]:
    """Extract the features of `videos`, stored as `maps` specifies; return features and failures.

    Workers of an `engine` share `folder`.
    """
    if maps != "half":
        cache = folder / "maps" if maps == "stream" else None if engine is None else folder
        return extract(list(videos), spec, None, cache, progress, device=device, engine=engine)
    made: list[Features] = []
    failures: list[Failure] = []
    for video in videos:  # one video at a time, to save disk space
        digest = content_hash(video, cache_dir())
        kept = Path(str(feature_file(digest, spec.fps, repr(spec), folder / "maps")))
        if not kept.exists():
            whole = folder / "maps" / "whole"
            found, failed = extract(
                [video], spec, None, whole, progress, device=device, engine=engine
            )
            failures += failed
            for one in found:
                _halve(one, kept)
            shutil.rmtree(whole, ignore_errors=True)
        if kept.exists():
            made.append(replace(load_features([kept], spec.fps)[0], path=str(video)))
    return made, failures


def _halve(one: Features, path: Path) -> None:
    """Store maps (T, C, h, w) at `path` with half width and height: means of 2 x 2 cells."""
    if one.rows.ndim != 4 or not isinstance(one.rows, np.memmap):
        raise DataError(
            "--maps half: this backbone gives vectors, not maps. Omit --maps.",
            setting="maps",
            value="half",
        )
    (_, channels, height, width), file = one.rows.shape, Path(str(one.rows.filename))
    whole = (
        rows[:, :, : height // 2 * 2, : width // 2 * 2].astype(np.float32)
        for rows in in_parts(one.rows)
    )
    parts = (
        rows.reshape(len(rows), channels, height // 2, 2, width // 2, 2).mean((3, 5))
        for rows in whole
    )
    write_rows(path, parts, lambda: read_rows(file)[1])
