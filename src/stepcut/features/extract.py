"""Features of a user's input: arrays, feature files, or videos, whose features are cached."""

import json
import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import FeatureError, VideoError, WorkerDied, placed, wrong
from stepcut.features.backbones import can_travel, open_backbone, pack
from stepcut.features.backbones.runtime import Backbone, Frames, Rows
from stepcut.features.cycles import check_apart
from stepcut.features.features import (
    Failure,
    Features,
    Place,
    check_alike,
    check_rows,
    clear_leftovers,
    content_hash,
    feature_file,
    is_stored,
    read_rows,
    save_rows,
    stamp,
    write_rows,
)
from stepcut.features.features import load_features as load_features
from stepcut.features.find import Inputs, find_files, find_inputs
from stepcut.features.find import Source as Videos
from stepcut.features.spec import DEFAULT, VECTORS, FeatureSpec, as_spec, need_spec
from stepcut.features.video.container import blame, check_file, ended, probe
from stepcut.features.video.sample import Samples, sample_frames
from stepcut.files import Address, AnyPath, as_path, cache_dir, local, writable
from stepcut.files.names import Fragment, safe_name
from stepcut.parallel.engine import Engine, Here, ask, count_cores, shared
from stepcut.parallel.worker import attempt, count_rows, time_limit
from stepcut.progress import Hook, Stage, silent, warn_once
from stepcut.settings import Rate, as_rate

Array = NDArray[Any]
Source = AnyPath | Iterable[AnyPath] | Iterable[Array] | Mapping[str, Array]

DECODE_SECONDS = 60.0  # time limit for the next packet of an open video


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
    return _extract(find_files(videos, "video"), network, spec, cache, progress, strict, engine)


# ---------- what a worker does


class Job(NamedTuple):
    name: str
    path: Place
    target: Place
    fps: Fraction
    fast: bool
    expected: int = 0  # rows; 0 if the features are already stored
    stamp: str = ""  # of the file when it was probed


def look(
    video: tuple[str, Place],
    fingerprint: str,
    fps: Fraction,
    cache: Place,
    fast: bool = False,
    quickly: bool = False,
) -> Job | None:
    """Probe a `video` (name, path) unless it is cached; `quickly`: None if it must be read."""
    name, path = video
    with blame(path):
        if not isinstance(path, Address):
            check_file(path)  # before its content is read, since a pipe has no end
        seen = stamp(path)
        if not (digest := content_hash(path, cache, quickly)):
            return None
        target = feature_file(digest, fps, f"{fingerprint} skip" if fast else fingerprint, cache)
    if is_stored(target):
        return Job(name, path, target, fps, fast)
    if quickly:
        return None
    with _named(path) as file:
        info = probe(file)
    if info.rate and fps > 30 and fps > 2 * info.rate:
        shown = f"{float(info.rate):.4g}"
        what = f"{path}: has {shown} frames per second, fewer than half of fps={fps}. Use --fps "
        raise VideoError(f"{what}{shown} or less.", setting="fps", value=fps, allowed=info.rate)
    return Job(name, path, target, fps, fast, max(1, round(info.duration * fps)), seen)


def compute(job: Job, backbone: Backbone | partial[Backbone]) -> int:
    if not job.target.exists():
        with _named(job.path) as file:
            _store(job, file, backbone() if isinstance(backbone, partial) else backbone)
    return len(read_rows(job.target)[0])


def _store(job: Job, file: Path, backbone: Backbone) -> None:
    rate = job.fps * frames_per_row(backbone, job.fps)
    # At least two threads: FFmpeg decodes damaged frames differently with a single one.
    threads = max(2, count_cores())
    samples = sample_frames(file, rate, backbone.size, threads=threads, fast=job.fast)

    def metadata() -> dict[str, str]:
        with blame(job.path):
            if stamp(job.path) != job.stamp:  # features are stored by content
                what = "the file changed while it was read. Run the same command again."
                raise VideoError(f"{job.path}: {what}")
        return {
            "rate": str(job.fps),
            "duration": repr(samples.duration),
            "corrupt": str(samples.corrupt),
            "backbone": backbone.fingerprint,
            **({"fast": "true"} if job.fast else {}),
        }

    # Close explicitly on errors: the garbage collector could do it inside any other code.
    with closing(compute_rows(samples, backbone, job.fps)) as rows:
        write_rows(job.target, rows, metadata)


@contextmanager
def _named(path: Place) -> Iterator[Path]:
    """Yield a local file of the video at `path`; errors name `path` instead of the copy."""
    with blame(path):
        file = local(path)
    try:
        yield file
    except VideoError as error:
        raise VideoError(str(error).replace(str(file), str(path)), path=path) from error


def compute_rows(
    samples: Samples, backbone: Backbone, fps: Fraction | None = None
) -> Generator[Rows]:
    """Yield rows in batches of `backbone.batch` frames (32 by default), `fps` per second."""
    pictures: Iterator[Frames] = (picture for _, picture in samples)
    if (length := clip_length(backbone)) > 1:
        pictures = make_clips(pictures, length, frames_per_row(backbone, fps or samples.fps))
    size = int(getattr(backbone, "batch", None) or 32)
    with closing(samples):
        while True:
            with time_limit(DECODE_SECONDS, "decoding"):
                batch = list(islice(pictures, size))
            if not batch:
                return
            rows = np.asarray(backbone.extract(np.stack(batch)))
            if rows.ndim not in (2, 4) or rows.shape[:2] != (len(batch), backbone.dim):
                what = f"backbone {backbone.name} returned {rows.shape} for {len(batch)} frames; it"
                shape = f"({len(batch)}, {backbone.dim}) or (..., h, w)"
                raise FeatureError(
                    f"{what} must return a row per frame: {shape}.", setting="backbone"
                )
            yield rows
            count_rows(len(rows))


def clip_length(backbone: Backbone) -> int:
    return int(getattr(backbone, "clip_frames", None) or 1)


def frames_per_row(backbone: Backbone, fps: Fraction) -> int:
    rate = getattr(backbone, "clip_fps", None)
    return 1 if clip_length(backbone) == 1 or rate is None else max(1, round(Fraction(rate) / fps))


def make_clips(pictures: Iterable[Frames], length: int, per_row: int) -> Iterator[Frames]:
    """Yield a clip (length, H, W, 3) centred on every `per_row`-th picture, padded at the ends."""
    after = length - length // 2 - 1
    window: deque[Frames] = deque(maxlen=length)
    for number, item in enumerate(chain(pictures, repeat(None, after)), start=-after):
        picture = window[-1] if item is None and window else item
        if picture is None:  # no pictures at all
            return
        if not window:
            window.extend([picture] * (length // 2))
        window.append(picture)
        if number >= 0 and number % per_row == 0:
            yield np.stack(window)


# ---------- many videos


def _extract(
    inputs: Inputs,
    network: Backbone,
    spec: FeatureSpec,
    cache: AnyPath | None,
    progress: Hook,
    strict: bool,
    engine: Engine | None,
) -> tuple[list[Features], list[Failure]]:
    folder = cache_dir() if cache is None else as_path(cache)
    clear_leftovers(folder)
    names, paths = inputs.names, inputs.files
    # A worker of a cluster may have another working folder.
    places = [path if engine is None else path.absolute() for path in paths]
    videos = list(zip(names, places, strict=True))
    see = partial(
        look, fingerprint=network.fingerprint, fps=spec.fps, cache=folder.absolute(), fast=spec.fast
    )
    with Stage(progress, "look", len(videos), "videos") as stage:
        answers = dict(enumerate(attempt(partial(see, quickly=True), video) for video in videos))
        unknown = [number for number, answer in answers.items() if answer is None]
        stage.advance(len(videos) - len(unknown))
        # Workers of this machine cannot see what only this process has.
        own = any(str(place).startswith("memory:") for place in (folder, *paths))
        here = own or not unknown or not can_travel(network)
        pool = engine or (Here() if here else shared())
        looked = pool.map(
            partial(ask, see) if engine else see,
            [videos[number] for number in unknown],
            lambda at, _: stage.advance(item=names[unknown[at]]),
            advance=lambda at, _: stage.advance(0, item=names[unknown[at]]),
        )
    answers |= zip(unknown, looked, strict=True)
    errors: dict[int, VideoError] = {}

    def keep_errors(some: Mapping[int, Any]) -> None:
        for number, answer in some.items():
            if isinstance(answer, Exception):
                errors[number] = _video_error(answer, names[number], paths[number])

    keep_errors(answers)
    if strict and errors:
        raise errors[min(errors)]
    jobs: dict[int, Job] = {n: answer for n, answer in answers.items() if n not in errors}
    todo = {number: job for number, job in jobs.items() if job.expected}
    private = folder if isinstance(folder, Path) and todo and cache is None else None
    with writable(private) if private else nullcontext(folder) as place:
        temporary = place != folder  # the features are not cached
        if temporary:
            todo = {n: job._replace(target=place / job.target.name) for n, job in todo.items()}
            jobs |= todo
        keep_errors(_compute(todo, network, progress, strict, pool, engine))
        found = []
        for number, job in jobs.items():
            if number not in errors:
                rows, stated = read_rows(job.target)
                rows = np.array(rows) if temporary else rows
                rate, duration = as_rate(stated["rate"]), float(stated["duration"])
                path, corrupt = str(paths[number]), int(stated["corrupt"])
                found.append(Features(rows, rate, duration, job.name, path, corrupt, spec))
    return found, [Failure(names[n], str(paths[n]), errors[n]) for n in sorted(errors)]


def _compute(
    jobs: Mapping[int, Job],
    network: Backbone,
    progress: Hook,
    strict: bool,
    pool: Engine,
    engine: Engine | None,
) -> dict[int, Any]:
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
                raise _video_error(answer, todo[at].name, todo[at].path)
            stage.total = (stage.total or 0) + seen[at] - todo[at].expected

        work = partial(compute, backbone=network if isinstance(pool, Here) else pack(network))
        share = engine.gpu_share(str(getattr(network, "device", None) or "cpu")) if engine else 0.0
        made = pool.map(partial(ask, work) if engine else work, todo, done, share, advance)
    answers = dict(zip(order, made, strict=True))
    return {number: answers[first[job.target]] for number, job in jobs.items()}


def _video_error(error: Exception, name: str, path: Place) -> VideoError:
    if isinstance(error, WorkerDied):
        error = ended(path, error)
    if isinstance(error, VideoError | FeatureError):
        error.video, error.path = name, str(path)
    if isinstance(error, VideoError):
        return error
    raise error


def export(features: Features, folder: AnyPath) -> Place:
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


# ---------- any input


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

    `rate` is that of files that do not state it; `spec` None refuses videos.
    """
    inputs = find_inputs(source)
    failures: list[Failure] = []
    if inputs.kind == "arrays":
        return _from_arrays(inputs.arrays, as_rate(rate, "rate")), []
    if inputs.kind != "video":
        features = load_features(inputs, rate, None if strict else failures)
        return cut_parts(features, inputs, failures), failures
    spec = need_spec(spec)
    network, made = open_backbone(backbone or spec, spec.fps, device, engine)
    features, failures = _extract(inputs, network, made, cache, progress, strict, engine)
    if not features:
        reasons = "".join("; " + " ".join(str(failure).split()).rstrip(".") for failure in failures)
        raise VideoError(f"none of the {len(inputs)} videos can be used{reasons}.")
    return cut_parts(features, inputs, failures), failures


def cut_parts(
    features: Sequence[Features], inputs: Inputs, failures: Sequence[Failure]
) -> list[Features]:
    """Return a recording for each part of a file in the input; its times are those of rows."""
    failed = {failure.path for failure in failures}
    files = [str(file) for file in inputs.files if str(file) not in failed]
    found: list[Features] = []
    for one, file in zip(features, files, strict=True):
        parts = inputs.parts.get(file, ())
        check_apart([(part.start, part.end) for part in parts], file, one.end)
        found += [take_part(one, part) for part in parts] if parts else [one]
    return found


def take_part(features: Features, part: Fragment) -> Features:
    rate = features.rate
    first, last = (min(round(time * rate), len(features.rows)) for time in part[1:])
    if last <= first:
        what = f"{part}: shorter than a row of features, {1 / float(rate):g} s. Use a higher --fps."
        raise FeatureError(what, video=features.name)
    start, end = (float(row / rate) for row in (first, last))
    name = str(Fragment(features.name, start, end))
    return replace(features, rows=features.rows[first:last], duration=end - start, name=name)


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

    `spec` is None if the procedure was learned from feature files.
    """
    if isinstance(video, Features):
        features = video
    else:
        some = video if isinstance(video, list | tuple) else [video]
        paths = any(isinstance(item, str | os.PathLike | Address) for item in some)
        inputs = find_inputs(video if paths else {"video": video})
        if len(inputs) > 1:
            raise wrong("video", len(inputs), "videos instead of one. Pass one file at a time.", 1)
        how: Any = {"strict": True, "progress": progress, "device": device}
        [features], _ = read_source(inputs, rate, spec, **how)
    seen, made = list(features.rows.shape[1:]), features.spec
    setting: str | None = None
    unlike = spec.unlike(made) if spec is not None and made is not None else []
    facts: list[Any] = [
        ", ".join(f"{name}={getattr(one, name)}" for name in unlike) for one in (made, spec)
    ]
    if features.rate != rate:
        facts, setting = [features.rate, rate], "rate"
        what = f"{features.rate} rows per second; this procedure was learned at {rate}. "
        what += f"Recompute: stepcut features VIDEO -o DIR --fps {rate}"
    elif seen != list(shape):
        facts, advice = [seen, list(shape)], "Compute them in the same way"
        if spec is not None:
            alike = f"Use the video itself, or features of {spec.backbone}"
            advice = alike if spec.of_videos else "Use features of the same columns"
        what = f"a row has shape {seen}; this procedure was learned from {facts[1]}. {advice}."
    elif unlike == ["columns"]:
        what = f"{facts[0]}, but this procedure was learned with {facts[1]}. Rename the columns of "
        what += "the sensor file, then run stepcut features again."
    else:
        if unlike:
            what = f"features computed with {facts[0]} do not fit a procedure learned with "
            warn_once(f"{what}{facts[1]}. Results may be wrong; use the video itself.")
        return features
    name, (value, allowed) = features.name, facts
    raise FeatureError(f"{name}: {what}", video=name, setting=setting, value=value, allowed=allowed)
