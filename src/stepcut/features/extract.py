"""Features of many videos: found in the store, or computed with decoding and backbone side by side."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from stepcut.errors import VideoError
from stepcut.features.backbones import HeldBackbone, open_backbone
from stepcut.features.backbones.contract import Backbone
from stepcut.features.compute import batch_size, clip_length
from stepcut.features.contract import Failure, Features
from stepcut.features.files import clear_leftovers, load_features, read_rows, save_rows
from stepcut.features.find import Source, find_videos, name_videos
from stepcut.features.jobs import Carried, Extraction, compute_job, join, look, video_error
from stepcut.features.spec import VECTORS, FeatureSpec
from stepcut.files.addresses import Address, AnyPath, as_path
from stepcut.files.cache import cache_dir, writable
from stepcut.files.names import safe_name
from stepcut.parallel.contract import Engine, Holder, count_cores
from stepcut.parallel.local import map_threads
from stepcut.progress import Hook, Stage, silent
from stepcut.rate import Rate, as_rate

PIECE = 600.0
"""Seconds: a video of twice this length or more is split, so that several workers see it at once."""
_MOST_WORKERS = 16
"""Videos decoded side by side at most: each holds its decoder's frames in memory."""


def extract(
    videos: Source,
    backbone: str | FeatureSpec | Backbone = "efficientnet-lite0",
    fps: Rate | None = None,
    cache: AnyPath | None = None,
    progress: Hook = silent,
    strict: bool = False,
    device: str = "auto",
    engine: Engine | None = None,
) -> tuple[list[Features], list[Failure]]:
    """The features of every video: from the store in `cache`, or computed and kept there.

    videos    a folder, files or globs, or addresses (s3://...)
    backbone  a name, a `FeatureSpec`, or a backbone of your own; "vectors" reads given feature files instead
    fps       rows per second, where the spec does not say it (2 unless given); of feature files that do not say it
    cache     where features are kept, a folder or an address
    progress  hears how far the work is
    strict    raise the error of a video that cannot be used, which is else left out and listed in the second result
    device    auto, cpu or cuda
    engine    whose workers compute; left out, this process does
    """
    if backbone == VECTORS:
        return load_features(videos, as_rate(2 if fps is None else fps)), []
    network, spec = open_backbone(backbone, fps, device, engine)
    paths = find_videos(videos)
    folder = cache_dir() if cache is None else as_path(cache)
    clear_leftovers(folder)
    names = name_videos(paths)
    failures: dict[int, Failure] = {}

    def note(number: int, error: VideoError) -> None:
        if strict:
            raise error
        failures[number] = Failure(names[number], str(paths[number]), error)

    # A worker may have another working folder.
    items = [(name, path if engine is None else path.absolute()) for name, path in zip(names, paths, strict=True)]
    find = partial(
        look,
        fingerprint=network.fingerprint,
        fps=spec.fps,
        cache=folder.absolute(),
        batch=batch_size(network),
        times=spec.times or "exact",
    )
    stage = Stage(progress, "look", len(items), "videos")

    def told(place: int, count: int) -> None:
        stage.advance(count, item=items[place][0])

    def found(place: int, _answer: object) -> None:
        told(place, 1)

    looked: list[Extraction | Exception]
    if engine is None:
        looked = map_threads(lambda item, tell: find(item, tell=tell), items, found, told)
    else:
        # A clip reaches over the border of a part, so that its video stays whole.
        looked = engine.map(partial(find, piece=PIECE if clip_length(network) == 1 else None), items, found)
    jobs: dict[int, Extraction] = {}
    for number, answer in enumerate(looked):
        if isinstance(answer, Extraction):
            jobs[number] = answer
        else:
            note(number, video_error(answer, paths[number]))
    missing = {number: job for number, job in jobs.items() if job.expected is not None}
    with writable(folder) if missing and cache is None and isinstance(folder, Path) else nullcontext(folder) as place:
        if place != folder:  # the features of this run alone
            missing = {number: replace(job, target=place / job.target.name) for number, job in missing.items()}
            jobs |= missing
        for number, error in _compute_all(missing, network, progress, strict, engine).items():
            note(number, error)
        done = [_read(job, paths[number], spec) for number, job in jobs.items() if number not in failures]
        if place != folder:
            done = [replace(one, rows=np.array(one.rows)) for one in done]
    return done, [failures[number] for number in sorted(failures)]


def export(features: Features, folder: AnyPath) -> Path | Address:
    """Write features as `folder/NAME.safetensors`, which `load_features` and `stepcut learn` read back."""
    safe = safe_name(features.name)
    target = as_path(folder) / safe.with_name(f"{safe.name}.safetensors")
    said = {
        "name": features.name,
        "path": features.path,
        "rate": str(features.rate),
        "duration": repr(features.duration),
        "corrupt": str(features.corrupt),
        "spec": features.spec and json.dumps(features.spec.to_json()),
    }
    # A file name may hold bytes that are no text; the header of the file must be text.
    save_rows(target, features.rows, {k: v.encode("utf-8", "replace").decode() for k, v in said.items() if v})
    return target


def _read(job: Extraction, given: Path | Address, spec: FeatureSpec) -> Features:
    rows, metadata = read_rows(job.target)
    rate, duration = Fraction(metadata["rate"]), float(metadata["duration"])
    return Features(rows, rate, duration, job.name, str(given), int(metadata["corrupt"]), spec)


def _compute_all(
    jobs: Mapping[int, Extraction], backbone: Backbone, progress: Hook, strict: bool, engine: Engine | None
) -> dict[int, VideoError]:
    """Compute and store what is missing, several videos side by side; gives the errors of those that failed.

    Videos with the same content are computed once; parts that an earlier run has finished are not computed again. The
    hook is called in the caller's thread, and whatever it raises (or Ctrl-C) stops the workers.
    """
    owners: dict[Path | Address, list[int]] = {}
    for number, job in jobs.items():
        owners.setdefault(job.target, []).append(number)
    if not owners:
        return {}
    first = {numbers[0]: jobs[numbers[0]] for numbers in owners.values()}
    work = [(number, part) for number, job in first.items() for part in job.parts()]
    if engine is not None:  # the longest first: begun last, it would be waited for by all workers but one
        work.sort(key=lambda one: one[1].expected or 0, reverse=True)
    parts = [part for _, part in work]
    failed: dict[int, VideoError] = {}
    seen = [0] * len(parts)

    def judge(number: int, answer: object) -> None:
        """Note the error of a video; raise what is not a video's fault."""
        if isinstance(answer, Exception):
            error = video_error(answer, jobs[number].path)
            if strict:
                raise error
            failed[number] = error

    with Stage(progress, "features", sum(part.expected or 0 for part in parts), "frames") as stage:

        def told(place: int, rows: int) -> None:
            seen[place] += rows
            stage.advance(rows, item=parts[place].name)

        def done(place: int, answer: int | Exception) -> None:
            if isinstance(answer, int):
                told(place, answer - seen[place])
            elif not first[work[place][0]].cuts or not isinstance(answer, VideoError):
                judge(work[place][0], answer)  # what goes wrong with one part of several is seen again in one pass
            stage.total = (stage.total or 0) + seen[place] - (parts[place].expected or 0)

        if engine is None:
            workers = min(len(parts), max(2, count_cores()), _MOST_WORKERS)
            compute = partial(
                compute_job, backbone=HeldBackbone(Holder(backbone)), threads=max(1, count_cores() // workers)
            )
            map_threads(lambda part, tell: compute(part, tell=tell), parts, done, told, workers)
        else:
            carried = Carried(backbone.fingerprint, pickle.dumps(backbone))
            engine.map(partial(compute_job, backbone=carried), parts, done)
            split = [number for number, job in first.items() if job.cuts and number not in failed]
            wholes = [first[number] for number in split]
            engine.map(partial(join, backbone=carried), wholes, lambda place, made: judge(split[place], made))
    return {number: failed[numbers[0]] for numbers in owners.values() if numbers[0] in failed for number in numbers}
