"""Features of what a user hands over: arrays, feature files, or videos, whose features are stored or computed."""

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

from stepcut.errors import FeatureError, OptionError, VideoError
from stepcut.features.backbones import open_backbone
from stepcut.features.backbones.contract import Backbone
from stepcut.features.compute import batch_size, clip_length
from stepcut.features.contract import Failure, Features, check_alike, check_rows
from stepcut.features.files import clear_leftovers, read_files, read_rows, save_rows
from stepcut.features.files import (
    load_features as load_features,
)  # both ways to features stand in one place
from stepcut.features.find import Inputs, find_inputs, find_videos
from stepcut.features.find import Source as Videos
from stepcut.features.jobs import Extraction, compute_jobs, look, video_error
from stepcut.features.spec import DEFAULT, SENSORS, VECTORS, FeatureSpec, as_spec, need_spec
from stepcut.files.addresses import Address, AnyPath, as_path
from stepcut.files.cache import cache_dir, writable
from stepcut.files.names import safe_name
from stepcut.parallel.contract import Engine
from stepcut.parallel.local import map_threads
from stepcut.progress import Hook, Stage, silent, warn_once
from stepcut.rate import Rate, as_rate

Array = NDArray[Any]
Source = AnyPath | Iterable[AnyPath] | Iterable[Array] | Mapping[str, Array]
PIECE = 600.0
"""Seconds: a video of twice this length or more is split, so that several workers see it at once."""


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
    """`extract` of video files."""
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

    def told(place: int, count: int) -> None:
        stage.advance(count, item=items[place][0])

    def done(place: int, _: object) -> None:
        told(place, 1)

    looked: list[Extraction | Exception]
    with stage:
        if engine is None:
            looked = map_threads(lambda item, tell: look_at(item, tell=tell), items, done, told)
        else:
            # A clip reaches over the border of a part, so that its video stays whole.
            piece = PIECE if clip_length(network) == 1 else None
            looked = engine.map(partial(look_at, piece=piece), items, done)
    jobs = {
        number: answer for number, answer in enumerate(looked) if isinstance(answer, Extraction)
    }
    errors = {
        n: video_error(answer, paths[n])
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
        if place != folder:  # the features of this run alone
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
    save_rows(
        target,
        features.rows,
        {k: v.encode("utf-8", "replace").decode() for k, v in said.items() if v},
    )
    return target


def _read(job: Extraction, given: Path | Address, spec: FeatureSpec) -> Features:
    rows, metadata = read_rows(job.target)
    rate, duration = as_rate(metadata["rate"]), float(metadata["duration"])
    return Features(rows, rate, duration, job.name, str(given), int(metadata["corrupt"]), spec)


def read_source(
    source: Source,
    rate: Rate = 1,
    spec: FeatureSpec | None = DEFAULT,
    cache: AnyPath | None = None,
    strict: bool = False,
    progress: Hook = silent,
    engine: Engine | None = None,
    device: str = "auto",
    backbone: Backbone | None = None,
) -> tuple[list[Features], list[Failure]]:
    """The features of everything in `source`, and what could not be used: the one door through which inputs come in.

    source    what `find_inputs` takes: videos, feature files, sensor files or arrays
    rate      rows per second of features, and samples per second of sensors, that do not say it themselves
    spec      how features are made (see `as_spec`); None: they cannot be made of videos, since the procedure was learned
              from given features
    backbone  the network itself, where it is a user's own object

    `cache`, `strict`, `progress`, `engine` and `device` are those of `extract`.
    """
    return read_inputs(
        find_inputs(source), rate, spec, cache, strict, progress, engine, device, backbone
    )


def read_inputs(
    inputs: Inputs,
    rate: Rate = 1,
    spec: FeatureSpec | None = DEFAULT,
    cache: AnyPath | None = None,
    strict: bool = False,
    progress: Hook = silent,
    engine: Engine | None = None,
    device: str = "auto",
    backbone: Backbone | None = None,
) -> tuple[list[Features], list[Failure]]:
    """As `read_source`, of `inputs` that are resolved already."""
    failures: list[Failure] = []
    if inputs.kind == "arrays":
        return _from_arrays(inputs.arrays, rate), []
    if inputs.kind != "video":
        per_second = _sample_rate(spec, rate) if inputs.kind == "sensor file" else rate
        return read_files(inputs, per_second, None if strict else failures), failures
    spec = need_spec(spec)
    network, made = open_backbone(backbone or spec, spec.fps, device, engine)
    features, failures = _extract(inputs, network, made, cache, progress, strict, engine)
    if not features:
        reasons = "".join("; " + " ".join(str(failure).split()).rstrip(".") for failure in failures)
        raise VideoError(f"none of the {len(inputs)} videos could be used{reasons}.")
    return features, failures


def _sample_rate(spec: FeatureSpec | None, rate: Rate) -> Rate:
    """Samples per second of sensor files: those that a procedure was learned from, or the `rate` that is given."""
    if spec is not None and spec.backbone == SENSORS and spec.clip_fps is not None:
        return spec.clip_fps
    return rate


def read_like(
    video: Any,
    rate: Fraction,
    shape: Sequence[int],
    spec: FeatureSpec | None,
    device: str = "auto",
    progress: Hook = silent,
) -> Features:
    """The features of one more `video`, a feature file, an array, or features, made as those that a procedure was
    learned from: `rate` rows per second of such a `shape`, by a `spec`, None where features were given. `device` and
    `progress` are those of `extract`."""
    if isinstance(video, Features):
        features = video
    else:
        path = isinstance(video, str | os.PathLike | Address)
        inputs = find_inputs(video if path or _holds_paths(video) else {"video": video})
        if len(inputs) > 1:
            raise OptionError(f"{len(inputs)} videos were given; give the files one at a time.")
        [features], _ = read_inputs(
            inputs, rate, spec, strict=True, progress=progress, device=device
        )
    if features.rate != rate:
        what = f"{features.rate} rows per second; this procedure was learned at {rate}"
        raise FeatureError(
            f"{features.name}: {what}. Make them anew: stepcut features VIDEO -o DIR --fps {rate}"
        )
    seen, known = list(features.rows.shape[1:]), list(shape)
    if seen != known:
        what = (
            "Make them as those were"
            if spec is None
            else f"Give the video itself, or features by {spec.backbone}"
        )
        known_from = f"this procedure was learned from {known}"
        raise FeatureError(f"{features.name}: a row has shape {seen}; {known_from}. {what}.")
    if spec is not None and features.spec is not None and (unlike := spec.unlike(features.spec)):
        made, learned = (
            ", ".join(f"{name}={getattr(one, name)}" for name in unlike)
            for one in (features.spec, spec)
        )
        warn_once(
            f"features made with {made} are given to a procedure that was learned with {learned}. What is found may "
            "be wrong; give the video itself."
        )
    return features


def _holds_paths(video: object) -> bool:
    return isinstance(video, list | tuple) and any(
        isinstance(one, str | os.PathLike | Address) for one in video
    )


def _from_arrays(named: Mapping[str, Any], rate: Rate) -> list[Features]:
    if not named:
        raise FeatureError(
            "no video was given: there are no arrays. Give at least two, each (T, d)."
        )
    per_second = as_rate(rate, "rate")
    checked = {str(name): check_rows(one, f"video {name}") for name, one in named.items()}
    features = [
        Features(rows, per_second, len(rows) / float(per_second), name)
        for name, rows in checked.items()
    ]
    check_alike(features)
    return features
