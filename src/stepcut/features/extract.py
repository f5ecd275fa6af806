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

from stepcut.errors import FeatureError, VideoError, WorkerDied, placed, wrong
from stepcut.features.backbones import can_travel, device_of, open_backbone, pack
from stepcut.features.backbones.backbone import Backbone
from stepcut.features.compute import Job, compute, look
from stepcut.features.features import Failure, Features, check_alike, check_rows
from stepcut.features.files import clear_leftovers, read_files, read_rows, save_rows
from stepcut.features.files import load_features as load_features
from stepcut.features.find import Inputs, find_inputs, find_videos
from stepcut.features.find import Source as Videos
from stepcut.features.spec import DEFAULT, VECTORS, FeatureSpec, as_spec, need_spec
from stepcut.features.video.container import ended
from stepcut.files.addresses import Address, AnyPath, as_path
from stepcut.files.cache import cache_dir, writable
from stepcut.files.names import safe_name
from stepcut.parallel.engine import Engine, Here
from stepcut.parallel.local import ask, shared
from stepcut.parallel.worker import attempt
from stepcut.progress import Hook, Stage, silent, warn_once
from stepcut.rate import Rate, as_rate

Array = NDArray[Any]
Source = AnyPath | Iterable[AnyPath] | Iterable[Array] | Mapping[str, Array]


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
        Computes in its workers; by default those of this machine do.

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
        failures: list[Failure] = []
        rate = as_spec(backbone, fps=fps).fps
        return load_features(videos, rate, None if strict else failures), failures
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
    # A worker of a cluster may have another working folder.
    places = [path if engine is None else path.absolute() for path in paths]
    see = partial(
        look, fingerprint=network.fingerprint, fps=spec.fps, cache=folder.absolute(), fast=spec.fast
    )
    videos = list(zip(names, places, strict=True))
    with Stage(progress, "look", len(videos), "videos") as stage:
        answers = dict(enumerate(attempt(partial(see, quickly=True), video) for video in videos))
        unknown = [number for number, answer in answers.items() if answer is None]
        stage.advance(len(videos) - len(unknown))
        pool = engine or (_workers(network, [folder, *paths]) if unknown else Here())
        looked = pool.map(
            partial(ask, see) if engine else see,
            [videos[number] for number in unknown],
            lambda at, _: stage.advance(item=names[unknown[at]]),
            advance=lambda at, _: stage.advance(0, item=names[unknown[at]]),
        )
        answers |= zip(unknown, looked, strict=True)

    def errors_of(answers: Mapping[int, Any]) -> dict[int, VideoError]:
        """Return the errors of videos by number; raise any other error."""
        return {
            number: video_error(answer, names[number], paths[number])
            for number, answer in answers.items()
            if isinstance(answer, Exception)
        }

    errors = errors_of(answers)
    if strict and errors:
        raise errors[min(errors)]
    jobs = {number: answer for number, answer in answers.items() if number not in errors}
    missing = [number for number, job in jobs.items() if job.expected]
    own = folder if isinstance(folder, Path) and missing and cache is None else None
    with writable(own) if own else nullcontext(folder) as place:
        temporary = place != folder  # the features are not cached
        for number in missing if temporary else []:
            jobs[number] = replace(jobs[number], target=place / jobs[number].target.name)
        todo = {number: jobs[number] for number in missing}
        errors |= errors_of(_compute(todo, network, progress, strict, pool, engine))
        found = [
            _read(job, paths[number], spec, temporary)
            for number, job in jobs.items()
            if number not in errors
        ]
    return found, [
        Failure(names[number], str(paths[number]), errors[number]) for number in sorted(errors)
    ]


def _compute(
    jobs: Mapping[int, Job],
    network: Backbone,
    progress: Hook,
    strict: bool,
    pool: Engine,
    engine: Engine | None,
) -> dict[int, Any]:
    """Compute the missing features; return the answers or errors of the `jobs` by number.

    Videos with the same content are computed once; the longest come first, so that no worker
    starts a long one at the end.
    """
    if not jobs:
        return {}
    first = {job.target: number for number, job in reversed(list(jobs.items()))}
    order = sorted(first.values(), key=lambda number: -jobs[number].expected)
    todo = [jobs[number] for number in order]
    seen = [0] * len(todo)
    with Stage(progress, "features", sum(job.expected for job in todo), "frames") as stage:

        def advance(at: int, rows: int) -> None:
            seen[at] += rows
            stage.advance(rows, item=todo[at].name)

        def done(at: int, answer: int | Exception) -> None:
            if isinstance(answer, int):
                advance(at, answer - seen[at])
            elif strict or not isinstance(answer, VideoError | WorkerDied):
                raise video_error(answer, todo[at].name, todo[at].path)
            stage.total = (stage.total or 0) + seen[at] - todo[at].expected

        work = partial(compute, backbone=network if isinstance(pool, Here) else pack(network))
        share = engine.gpu_share(device_of(network)) if engine else 0.0
        made = pool.map(partial(ask, work) if engine else work, todo, done, share, advance)
    answers = dict(zip(order, made, strict=True))
    return {number: answers[first[job.target]] for number, job in jobs.items()}


def _workers(network: Backbone, places: Iterable[Path | Address]) -> Engine:
    """Return the workers of this machine, or this process for what they cannot see.

    They cannot import a class of a notebook or a function, nor see the memory of this process.
    """
    here = not can_travel(network) or any(str(place).startswith("memory:") for place in places)
    return Here() if here else shared()


def video_error(error: Exception, name: str, path: Path | Address) -> VideoError:
    """Return `error` if the video at `path` caused it; raise any other error."""
    if isinstance(error, WorkerDied):
        error = ended(path, error)
    if isinstance(error, VideoError | FeatureError):
        error.video, error.path = name, str(path)
    if isinstance(error, VideoError):
        return error
    raise error


def _read(job: Job, path: Path | Address, spec: FeatureSpec, copy: bool) -> Features:
    rows, metadata = read_rows(job.target)
    rate, duration = as_rate(metadata["rate"]), float(metadata["duration"])
    rows = np.array(rows) if copy else rows
    return Features(rows, rate, duration, job.name, str(path), int(metadata["corrupt"]), spec)


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
    text = {k: v.encode("utf-8", "replace").decode() for k, v in metadata.items() if v}
    save_rows(target, features.rows, text)
    return target


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
        return _from_arrays(inputs.arrays, as_rate(rate, "rate")), []
    if inputs.kind != "video":
        return read_files(inputs, rate, None if strict else failures), failures
    spec = need_spec(spec)
    network, made = open_backbone(backbone or spec, spec.fps, device, engine)
    features, failures = _extract(inputs, network, made, cache, progress, strict, engine)
    if not features:
        reasons = "".join("; " + " ".join(str(failure).split()).rstrip(".") for failure in failures)
        raise VideoError(f"none of the {len(inputs)} videos can be used{reasons}.")
    return features, failures


def _from_arrays(named: Mapping[str, Any], rate: Fraction) -> list[Features]:
    if not named:
        raise FeatureError("no arrays. Pass at least two, each of shape (T, d).", setting="videos")
    features = []
    for name, array in named.items():
        with placed(video=name):
            rows = check_rows(array, f"video {name}")
        features.append(Features(rows, rate, len(rows) / float(rate), name))
    check_alike(features)
    return features


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
        some = video if isinstance(video, list | tuple) else [video]
        paths = any(isinstance(item, str | os.PathLike | Address) for item in some)
        inputs = find_inputs(video if paths else {"video": video})
        if len(inputs) > 1:
            raise wrong("video", len(inputs), "videos instead of one. Pass one file at a time.", 1)
        [features], _ = read_source(
            inputs, rate, spec, strict=True, progress=progress, device=device
        )
    seen, expected, made = list(features.rows.shape[1:]), list(shape), features.spec
    unlike = spec.unlike(made) if spec is not None and made is not None else []
    theirs, ours = (
        ", ".join(f"{name}={getattr(one, name)}" for name in unlike) for one in (made, spec)
    )

    def refused(what: str, value: object, allowed: object) -> FeatureError:
        error = FeatureError(f"{features.name}: {what}", value=value, allowed=allowed)
        error.video = features.name
        return error

    if features.rate != rate:
        what = f"{features.rate} rows per second; this procedure was learned at {rate}. "
        what += f"Recompute: stepcut features VIDEO -o DIR --fps {rate}"
        with placed(setting="rate"):
            raise refused(what, features.rate, rate)
    if seen != expected:
        advice = "Compute them in the same way"
        if spec is not None:
            alike = f"Use the video itself, or features of {spec.backbone}"
            advice = alike if spec.of_videos else "Use features of the same columns"
        what = f"a row has shape {seen}; this procedure was learned from {expected}. {advice}."
        raise refused(what, seen, expected)
    if unlike == ["columns"]:
        what = f"{theirs}, but this procedure was learned with {ours}. Rename the columns of the "
        what += "sensor file, then run stepcut features again."
        raise refused(what, theirs, ours)
    if unlike:
        warn_once(
            f"features computed with {theirs} do not fit a procedure learned with {ours}. "
            "Results may be wrong; use the video itself."
        )
    return features
