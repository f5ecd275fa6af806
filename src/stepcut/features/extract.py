"""Features of many videos: found in the store, or computed with decoding and backbone side by side."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import VideoError
from stepcut.features.backbones import Backbone
from stepcut.features.backbones.remote import open_backbone
from stepcut.features.clips import clip_length
from stepcut.features.compute import Stopped, batch_size, compute_features
from stepcut.features.contract import Failure, Features
from stepcut.features.files import find_features, load_features
from stepcut.features.jobs import Job, look, named, video_error
from stepcut.features.spec import VECTORS, FeatureSpec
from stepcut.features.store import clear_leftovers, read_rows, save_rows
from stepcut.features.video import find_videos, name_videos
from stepcut.features.video.find import Source
from stepcut.files.addresses import Address, AnyPath, as_path
from stepcut.files.cache import cache_dir, writable
from stepcut.files.names import safe_name
from stepcut.parallel.contract import attempt
from stepcut.parallel.cores import count_cores
from stepcut.progress import Hook, Stage, silent
from stepcut.rate import Rate, as_rate

if TYPE_CHECKING:
    from stepcut.parallel.contract import Engine

__all__ = ["Failure", "Features", "cache_dir", "export", "extract", "find_features", "load_features"]


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
    known: Mapping[str, VideoError] | None = None,
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
    known     what is wrong with some of the videos, by path: they are not looked at again
    """
    if backbone == VECTORS:
        return load_features(videos, as_rate(2 if fps is None else fps)), []
    network, spec = open_backbone(backbone, fps, device, engine)
    rate = spec.fps
    paths = find_videos(videos)
    folder = cache_dir() if cache is None else as_path(cache)
    clear_leftovers(folder)
    names = name_videos(paths)
    failures: dict[int, Failure] = {}

    def note(number: int, error: VideoError) -> None:
        if strict:
            raise error
        failures[number] = Failure(names[number], str(paths[number]), error)

    cores = count_cores()
    find = partial(
        look,
        fingerprint=network.fingerprint,
        fps=rate,
        cache=folder.absolute(),
        batch=batch_size(network),
        times=spec.times or "exact",
    )
    bad = {n: error for n, path in enumerate(paths) if (error := (known or {}).get(str(path.absolute())))}
    wanted = [number for number in range(len(paths)) if number not in bad]
    # A worker may have another working folder.
    items = [(names[n], paths[n] if engine is None else paths[n].absolute()) for n in wanted]
    looked: list[Job | Exception]
    if engine is None:
        with ThreadPoolExecutor(cores) as pool:
            looked = list(pool.map(partial(attempt, find), items))
    else:
        # A clip reaches over the border of a piece, so that its video stays whole.
        looked = engine.map(partial(find, piece=engine.piece if clip_length(network) == 1 else None), items)
    jobs: dict[int, Job] = {}
    for number, answer in [*zip(wanted, looked, strict=True), *bad.items()]:
        if isinstance(answer, Job):
            jobs[number] = answer
        else:
            note(number, video_error(answer, paths[number]))
    missing = {number: job for number, job in jobs.items() if job.expected is not None}
    with writable(folder) if missing and cache is None and isinstance(folder, Path) else nullcontext(folder) as place:
        if place != folder:  # the features of this run alone
            missing = {number: replace(job, target=place / job.target.name) for number, job in missing.items()}
            jobs |= missing
        if engine is None:
            failed = _compute_all(missing, network, rate, progress, strict, cores)
        else:
            from stepcut.features.parts import compute_pieces

            failed = compute_pieces(missing, network, rate, progress, strict, engine)
        for number, error in failed.items():
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


def _read(job: Job, given: Path | Address, spec: FeatureSpec) -> Features:
    rows, metadata = read_rows(job.target)
    rate, duration = Fraction(metadata["rate"]), float(metadata["duration"])
    return Features(rows, rate, duration, job.name, str(given), int(metadata["corrupt"]), spec)


def _compute_all(
    jobs: Mapping[int, Job], backbone: Backbone, fps: Fraction, progress: Hook, strict: bool, cores: int
) -> dict[int, VideoError]:
    """Compute and store what is missing, several videos side by side; gives the errors of those that failed.

    The workers only compute; the progress hook is called here, in the caller's thread, and whatever it raises (or
    Ctrl-C) stops them. Videos with the same content are computed once.
    """
    failed: dict[int, VideoError] = {}
    owners: dict[Path | Address, list[int]] = {}
    for number, job in jobs.items():
        owners.setdefault(job.target, []).append(number)
    if not owners:
        return failed
    workers = min(len(owners), max(2, cores), _MOST_WORKERS)
    events: queue.Queue[tuple[int, int | BaseException | None]] = queue.Queue()
    stop = threading.Event()
    shared = _Shared(backbone)

    def work(number: int) -> None:
        def tell(rows: int) -> None:
            if stop.is_set():
                raise Stopped
            events.put((number, rows))

        try:
            tell(0)
            job = jobs[number]
            with named(job.path) as file:
                compute_features(file, shared, fps, job.target, tell, threads=max(1, cores // workers), times=job.times)
            events.put((number, None))
        except BaseException as error:  # whatever it is, the caller's thread decides
            events.put((number, error))

    first = [numbers[0] for numbers in owners.values()]
    expected = {number: jobs[number].expected or 0 for number in first}
    with (
        Stage(progress, "features", sum(expected.values()), "frames") as stage,
        ThreadPoolExecutor(workers, thread_name_prefix="stepcut-features") as pool,
    ):
        try:
            for number in first:
                pool.submit(work, number)
            seen = dict.fromkeys(first, 0)
            running = len(first)
            while running:
                number, event = events.get()
                if isinstance(event, int):
                    seen[number] += event
                    stage.advance(event, item=jobs[number].name)
                    continue
                running -= 1
                stage.total = (stage.total or 0) + seen[number] - expected[number]
                if isinstance(event, VideoError) and not strict:
                    failed.update(dict.fromkeys(owners[jobs[number].target], event))
                elif event is not None:
                    raise event
        finally:
            stop.set()
    return failed


class _Shared:
    """A backbone that several threads may call: one at a time."""

    def __init__(self, backbone: Backbone) -> None:
        self.name, self.dim, self.size = backbone.name, backbone.dim, backbone.size
        self.fingerprint, self.batch = backbone.fingerprint, batch_size(backbone)
        self.clip_frames, self.clip_fps = clip_length(backbone), getattr(backbone, "clip_fps", None)
        self._backbone, self._lock = backbone, threading.Lock()

    def extract(self, frames: NDArray[np.uint8]) -> NDArray[Any]:
        """Wait for the backbone to be free, then use it."""
        with self._lock:
            return self._backbone.extract(frames)
