"""Features of a user's input: arrays, feature files, or videos, whose features are cached."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import FeatureError, OptionError, VideoError, placed
from stepcut.features.backbones import open_backbone
from stepcut.features.backbones.backbone import Backbone
from stepcut.features.compute import batch_size, clip_length
from stepcut.features.features import Failure, Features, check_alike, check_rows
from stepcut.features.files import clear_leftovers, read_files, read_rows, save_rows
from stepcut.features.files import load_features as load_features
from stepcut.features.find import Inputs, find_inputs, find_videos
from stepcut.features.find import Source as Videos
from stepcut.features.jobs import Extraction, compute_jobs, look, video_error
from stepcut.features.spec import DEFAULT, VECTORS, FeatureSpec, as_spec, need_spec
from stepcut.files.addresses import Address, AnyPath, as_path
from stepcut.files.cache import cache_dir, writable
from stepcut.files.names import safe_name
from stepcut.parallel.engine import Engine
from stepcut.parallel.local import map_threads
from stepcut.progress import Hook, Stage, silent, warn_once
from stepcut.rate import Rate, as_rate

Array = NDArray[Any]
Source = AnyPath | Iterable[AnyPath] | Iterable[Array] | Mapping[str, Array]
PIECE = 600.0
"""Seconds. With an engine, a video of at least twice this length is split among the workers."""


def extract(
    videos: Videos,
    backbone: str | FeatureSpec | Backbone = "efficientnet-lite0",
    fps: Rate | None = None,
    cache: AnyPath | None = None,
    progress: Hook = silent,
    strict: bool = False,
    device: str = "auto",
    engine: Engine | None = None,
) -> tuple[list[Features], list[Failure]]:
    """Compute the features of every video, or read them from the cache.

    Parameters
    ----------
    videos
        A folder, files or globs, or addresses (s3://...).
    backbone
        A name, a `FeatureSpec`, or a custom backbone; "vectors" reads feature files instead.
    fps
        Rows per second, 2 by default; for feature files, the rate of those that do not state it.
    cache
        Folder or address of the cache.
    progress
        Progress hook.
    strict
        Raise the error of an unusable video instead of skipping it.
    device
        "auto", "cpu" or "cuda".
    engine
        Computes in its workers; by default this process does.

    Returns
    -------
    tuple of list
        The features, and the videos that could not be used.

    Raises
    ------
    VideoError
        With `strict`, if a video cannot be used.

    Examples
    --------
    >>> from stepcut.toy import make_kitchen
    >>> kitchen = make_kitchen("toy", videos=1, duration=5)
    >>> features, failures = extract("toy/videos", fps=2, cache="cache")
    >>> features[0].rows.shape, failures
    ((10, 1280), [])
    """
    if getattr(backbone, "backbone", backbone) == VECTORS:
        broken: list[Failure] = []
        return load_features(
            videos, as_spec(backbone, fps=fps).fps, None if strict else broken
        ), broken
    network, spec = open_backbone(backbone, fps, device, engine)
    inputs = Inputs("video", find_videos(videos))
    return _extract(inputs, network, spec, cache, progress, strict, engine)


def _extract(
    inputs: Inputs,
    network: Backbone,
    spec: FeatureSpec,
    cache: AnyPath | None,
    progress: Hook,
    strict: bool,
    engine: Engine | None,
) -> tuple[list[Features], list[Failure]]:
    """Do the work of `extract` for video files."""
    folder = cache_dir() if cache is None else as_path(cache)
    clear_leftovers(folder)
    names, paths = inputs.names, inputs.files
    # A worker may have another working folder.
    items = [
        (name, path if engine is None else path.absolute())
        for name, path in zip(names, paths, strict=True)
    ]
    look_at = partial(
        look,
        fingerprint=network.fingerprint,
        fps=spec.fps,
        cache=folder.absolute(),
        batch=batch_size(network),
        fast=spec.fast,
    )
    stage = Stage(progress, "look", len(items), "videos")

    def advance(place: int, count: int) -> None:
        stage.advance(count, item=items[place][0])

    def done(place: int, _: object) -> None:
        advance(place, 1)

    looked: list[Extraction | Exception]
    with stage:
        if engine is None:
            looked = map_threads(
                lambda item, tick: look_at(item, advance=tick), items, done, advance
            )
        else:
            # Clips extend over the border of a part, so their video is not split.
            piece = PIECE if clip_length(network) == 1 else None
            looked = engine.map(partial(look_at, piece=piece), items, done)
    jobs = {
        number: answer for number, answer in enumerate(looked) if isinstance(answer, Extraction)
    }
    errors = {
        n: video_error(answer, names[n], paths[n])
        for n, answer in enumerate(looked)
        if isinstance(answer, Exception)
    }
    if strict and errors:
        raise errors[min(errors)]
    missing = {number: job for number, job in jobs.items() if job.expected is not None}
    with (
        writable(folder)
        if missing and cache is None and isinstance(folder, Path)
        else nullcontext(folder) as place
    ):
        if place != folder:  # a temporary folder: the features are not cached
            missing = {
                number: replace(job, target=place / job.target.name)
                for number, job in missing.items()
            }
            jobs |= missing
        errors |= compute_jobs(missing, network, progress, strict, engine)
        found = [
            _read(job, paths[number], spec) for number, job in jobs.items() if number not in errors
        ]
        if place != folder:
            found = [replace(one, rows=np.array(one.rows)) for one in found]
    return found, [
        Failure(names[number], str(paths[number]), errors[number]) for number in sorted(errors)
    ]


def export(features: Features, folder: AnyPath) -> Path | Address:
    """Write features to `folder/NAME.safetensors`, which `load_features` and `learn` read."""
    safe = safe_name(features.name)
    target = as_path(folder) / safe.with_name(f"{safe.name}.safetensors")
    metadata = {
        "name": features.name,
        "path": features.path,
        "rate": str(features.rate),
        "duration": repr(features.duration),
        "corrupt": str(features.corrupt),
        "spec": features.spec and json.dumps(features.spec.to_json()),
    }
    # A file name may contain bytes that are not text, but the file header must be text.
    save_rows(
        target,
        features.rows,
        {k: v.encode("utf-8", "replace").decode() for k, v in metadata.items() if v},
    )
    return target


def _read(job: Extraction, path: Path | Address, spec: FeatureSpec) -> Features:
    rows, metadata = read_rows(job.target)
    rate, duration = as_rate(metadata["rate"]), float(metadata["duration"])
    return Features(rows, rate, duration, job.name, str(path), int(metadata["corrupt"]), spec)


def read_source(
    source: Source | Inputs,
    rate: Rate = 1,
    spec: FeatureSpec | None = DEFAULT,
    cache: AnyPath | None = None,
    strict: bool = False,
    progress: Hook = silent,
    engine: Engine | None = None,
    device: str = "auto",
    backbone: Backbone | None = None,
) -> tuple[list[Features], list[Failure]]:
    """Return the features of everything in `source`, and what could not be used.

    `source` is videos, feature files or arrays. `rate` is that of files that do not
    state it. `spec` None refuses videos, for a procedure that was learned from feature files.
    `backbone` is the network itself, if it is a custom object. The rest is as in `extract`.
    """
    inputs = find_inputs(source)
    failures: list[Failure] = []
    if inputs.kind == "arrays":
        return _from_arrays(inputs.arrays, rate), []
    if inputs.kind != "video":
        return read_files(inputs, rate, None if strict else failures), failures
    spec = need_spec(spec)
    network, made = open_backbone(backbone or spec, spec.fps, device, engine)
    features, failures = _extract(inputs, network, made, cache, progress, strict, engine)
    if not features:
        reasons = "".join("; " + " ".join(str(failure).split()).rstrip(".") for failure in failures)
        raise VideoError(f"none of the {len(inputs)} videos can be used{reasons}.")
    return features, failures


def read_like(
    video: Any,
    rate: Fraction,
    shape: Sequence[int],
    spec: FeatureSpec | None,
    device: str = "auto",
    progress: Hook = silent,
) -> Features:
    """Return the features of one more video, computed like those a procedure was learned from.

    `video` is a video, a feature file, an array or features. The rows must have this `rate`
    (per second) and `shape`. `spec` is None if the procedure was learned from feature files.
    """
    if isinstance(video, Features):
        features = video
    else:
        path = isinstance(video, str | os.PathLike | Address)
        inputs = find_inputs(video if path or _holds_paths(video) else {"video": video})
        if len(inputs) > 1:
            raise OptionError(
                f"{len(inputs)} videos instead of one. Pass one file at a time.",
                setting="video",
                value=len(inputs),
                allowed=1,
            )
        [features], _ = read_source(
            inputs, rate, spec, strict=True, progress=progress, device=device
        )
    if features.rate != rate:
        what = f"{features.rate} rows per second; this procedure was learned at {rate}"
        raise FeatureError(
            f"{features.name}: {what}. Recompute: stepcut features VIDEO -o DIR --fps {rate}",
            video=features.name,
            setting="rate",
            value=features.rate,
            allowed=rate,
        )
    seen, expected = list(features.rows.shape[1:]), list(shape)
    if seen != expected:
        advice = (
            "Compute them in the same way"
            if spec is None
            else "Use features of the same columns"
            if not spec.of_videos
            else f"Use the video itself, or features of {spec.backbone}"
        )
        learned = f"this procedure was learned from {expected}"
        raise FeatureError(
            f"{features.name}: a row has shape {seen}; {learned}. {advice}.",
            video=features.name,
            value=seen,
            allowed=expected,
        )
    if spec is not None and features.spec is not None and (unlike := spec.unlike(features.spec)):
        made, learned = (
            ", ".join(f"{name}={getattr(one, name)}" for name in unlike)
            for one in (features.spec, spec)
        )
        if unlike == ["columns"]:
            raise FeatureError(
                f"{features.name}: {made}, but this procedure was learned with {learned}. "
                "Rename the columns of the sensor file, then run stepcut features again.",
                video=features.name,
                value=features.spec.columns,
                allowed=spec.columns,
            )
        warn_once(
            f"features computed with {made} do not fit a procedure learned with {learned}. "
            "Results may be wrong; use the video itself."
        )
    return features


def _holds_paths(video: object) -> bool:
    return isinstance(video, list | tuple) and any(
        isinstance(one, str | os.PathLike | Address) for one in video
    )


def _from_arrays(named: Mapping[str, Any], rate: Rate) -> list[Features]:
    if not named:
        raise FeatureError("no arrays. Pass at least two, each of shape (T, d).", setting="videos")
    per_second = as_rate(rate, "rate")
    checked = {}
    for name, one in named.items():
        with placed(video=str(name)):
            checked[str(name)] = check_rows(one, f"video {name}")
    features = [
        Features(rows, per_second, len(rows) / float(per_second), name)
        for name, rows in checked.items()
    ]
    check_alike(features)
    return features
