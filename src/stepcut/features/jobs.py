"""Videos as jobs for any process: probed, computed whole or in parts, and joined.

Long videos are split at key frames among workers. The joined parts equal the rows of one pass.
"""

import pickle
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from stepcut.errors import FeatureError, OptionError, VideoError, WorkerDied
from stepcut.features.backbones import HeldBackbone
from stepcut.features.backbones.backbone import Backbone
from stepcut.features.compute import compute_features
from stepcut.features.files import (
    check_stored,
    content_hash,
    feature_file,
    in_parts,
    read_rows,
    stamp,
    write_rows,
)
from stepcut.features.video.container import blame, check_file
from stepcut.features.video.damage import JUMP, mendable
from stepcut.features.video.probe import key_times, probe
from stepcut.files.addresses import Address
from stepcut.files.cache import local
from stepcut.parallel.engine import Engine, count_cores
from stepcut.parallel.local import map_threads
from stepcut.progress import Hook, Stage
from stepcut.rate import Rate, as_rate

_MOST_WORKERS = 16
"""Most videos decoded in parallel, since each decoder keeps frames in memory."""


def pack(backbone: Backbone) -> partial[Backbone]:
    """Return a function that opens `backbone` in a worker, once per worker."""
    try:
        return partial(unpack, backbone.fingerprint, pickle.dumps(backbone))
    except Exception as error:  # a custom backbone may contain anything
        what = f"backbone {backbone.name} cannot be sent to workers ({error})"
        raise OptionError(
            f"{what}. Add a __reduce__ to its class, or run without engine and workers.",
            setting="backbone",
        ) from error


@cache
def unpack(fingerprint: str, packed: bytes) -> Backbone:
    """Open a packed backbone; refuse one with another `fingerprint`, thus other features."""
    try:
        backbone: Backbone = pickle.loads(packed)  # from our own driver, never from a file
    except (AttributeError, ImportError) as error:  # defined in a notebook, or not installed here
        what = f"a worker cannot import the class of the backbone ({error})"
        raise FeatureError(f"{what}. Move it to a module that all workers can import.") from error
    if backbone.fingerprint != fingerprint:
        what = f"this worker's backbone is {backbone.fingerprint!r}, the driver's {fingerprint!r}"
        raise FeatureError(
            f"{what}. Install the same packages on all machines, or set the device: --device cpu."
        )
    return backbone


@dataclass(frozen=True)
class Extraction:
    """The features of one video, or of a part of it, and where they are or will be."""

    name: str
    path: Path | Address
    target: Path | Address
    fps: Fraction
    expected: int | None
    """Expected number of rows; None if the features are already stored."""
    stamp: str = ""
    """The `stamp` of the file when it was probed."""
    fast: bool = False
    cuts: tuple[Fraction, ...] = ()
    """Times, starting with 0, at which it is split among workers."""
    start: Fraction = Fraction(0)
    end: Fraction | None = None

    def parts(self) -> list[Self]:
        """Return its parts, or itself if it is not split."""
        ends: list[Fraction | None] = [*self.cuts[1:], None]
        # Hidden names with .part: leftovers of a killed run are removed after a day.
        names = [
            f".{self.target.name}.{number:04d}-of-{len(ends):04d}.part"
            for number in range(len(ends))
        ]
        expected = max(1, (self.expected or 0) // len(ends))
        return [
            replace(
                self,
                target=self.target.with_name(name),
                expected=expected,
                cuts=(),
                start=start,
                end=end,
            )
            for name, start, end in zip(names, self.cuts, ends, strict=False)
        ] or [self]


def look(
    video: tuple[str, Path | Address],
    fingerprint: str,
    fps: Fraction,
    cache: Path | Address,
    batch: int,
    piece: float | None = None,
    fast: bool = False,
    advance: Callable[[int], None] | None = None,
) -> Extraction:
    """Probe a `video` (name, path) unless its features are in the `cache`.

    `fingerprint` is that of the backbone, which computes a `batch` of rows at a time. A video of
    at least twice `piece` seconds is split. The times depend on nothing else, so a restarted run
    finds its parts again. `advance` is called with 0 after every 16 MB that are read.
    """
    name, path = video
    with blame(path):
        if not isinstance(path, Address):
            check_file(path)  # before its content is read, since a pipe has no end
        seen = stamp(path)
        made = f"{fingerprint} skip" if fast else fingerprint
        target = feature_file(content_hash(path, cache, advance), fps, made, cache)
    if target.exists() and not _discarded(target):
        return Extraction(name, path, target, fps, None)
    cuts: list[Fraction] = []
    with named(path) as file:
        duration = probe(file, advance).duration
        if piece is not None and duration >= 2 * piece:
            keys = key_times(file, advance)
            # A jump in time is a splice, which only a single pass can detect.
            if all(after - before < JUMP for before, after in pairwise(keys)):
                cuts = split_times(
                    keys, fps, batch, min(int(duration // piece), len(keys)), duration
                )
    expected = max(1, round(duration * fps))
    parts = tuple(cuts) if len(cuts) > 1 else ()
    return Extraction(name, path, target, fps, expected, seen, fast, parts)


def _discarded(stored: Path | Address) -> bool:
    """Remove damaged stored features and return whether they were; at addresses, check little."""
    try:
        if isinstance(stored, Address):
            check_stored(stored)
        else:
            read_rows(stored)
    except FeatureError:
        with suppress(OSError):  # a read-only cache
            stored.unlink(missing_ok=True)
        return True
    return False


def split_times(
    key_times: list[Fraction], fps: Rate, batch: int, parts: int, duration: float
) -> list[Fraction]:
    """Return times that split a video in about `parts` parts, each at a whole batch.

    The times include 0 and follow key frames closely. `key_times` are the times of the key frames.
    """
    rate = as_rate(fps)
    times = {Fraction(0)}
    for part in range(1, parts):
        wanted = Fraction(duration) * part / parts
        if before := bisect_right(key_times, wanted):
            # The first whole batch at or after the key frame.
            batches = -((-key_times[before - 1] * rate) // batch)
            times.add(batches * batch / rate)
    return sorted(time for time in times if time < duration)


def compute_job(
    job: Extraction,
    backbone: Backbone | partial[Backbone],
    threads: int = 0,
    advance: Callable[[int], None] | None = None,
) -> int:
    """Compute and store the features of a `job` unless they exist; return the number of rows.

    The parts of a split job are joined. A damaged video is computed in one pass, because the
    decoder's output after damage depends on where it started. `threads` decode (0: all cores).
    `advance` gets the size of every batch; an exception in it stops the work.
    """
    if not job.target.exists() and not (job.cuts and _join(job, backbone)):
        opened = backbone() if isinstance(backbone, partial) else backbone
        with named(job.path) as file:
            compute_features(
                file,
                opened,
                job.fps,
                job.target,
                advance,
                threads,
                job.start,
                job.end,
                job.fast,
                partial(_check_unchanged, job),
            )
    for part in job.parts() if job.cuts else ():
        part.target.unlink(missing_ok=True)
    return len(read_rows(job.target)[0])


def _check_unchanged(job: Extraction) -> None:
    """Refuse a file that changed since it was probed, since features are stored by content."""
    with blame(job.path):
        if stamp(job.path) != job.stamp:
            raise VideoError(
                f"{job.path}: the file changed while it was read. Run the same command again.",
                path=job.path,
            )


def _join(job: Extraction, backbone: Backbone | partial[Backbone]) -> bool:
    """Join the parts if they are undamaged and complete; return whether they are."""
    metadata: dict[str, str] = {}
    found = []
    try:
        for part in job.parts():
            compute_job(part, backbone)
            rows, metadata = read_rows(part.target)
            if int(metadata["corrupt"]) or (
                part.end is not None and len(rows) != (part.end - part.start) * part.fps
            ):
                return False
            found.append(rows)
    except VideoError:
        return False
    write_rows(job.target, (few for rows in found for few in in_parts(rows)), lambda: metadata)
    return True


def compute_jobs(
    jobs: Mapping[int, Extraction],
    backbone: Backbone,
    progress: Hook,
    strict: bool,
    engine: Engine | None,
) -> dict[int, VideoError]:
    """Compute and store the missing features, several videos in parallel; return the errors.

    Videos with the same content are computed once, and finished parts of an earlier run are kept.
    `jobs` maps numbers to videos; `progress`, `strict` and `engine` are as in `extract`.
    """
    if not jobs:
        return {}
    first: dict[Path | Address, int] = {}
    for number, job in jobs.items():
        first.setdefault(job.target, number)
    work = [(number, part) for number in first.values() for part in jobs[number].parts()]
    if engine is not None:  # longest first, so that no worker starts a long one at the end
        work.sort(key=lambda one: one[1].expected or 0, reverse=True)
    parts = [part for _, part in work]
    failed: dict[int, VideoError] = {}
    seen = [0] * len(parts)

    def judge(number: int, answer: object) -> None:
        """Note the error of a video; raise any other error."""
        if isinstance(answer, Exception):
            error = video_error(answer, jobs[number].name, jobs[number].path)
            if strict:
                raise error
            failed[number] = error

    with Stage(progress, "features", sum(part.expected or 0 for part in parts), "frames") as stage:

        def advance(place: int, rows: int) -> None:
            seen[place] += rows
            stage.advance(rows, item=parts[place].name)

        def done(place: int, answer: int | Exception) -> None:
            if isinstance(answer, int):
                advance(place, answer - seen[place])
            elif not jobs[work[place][0]].cuts or not isinstance(answer, VideoError):
                # An error in one of several parts occurs again in the single pass.
                judge(work[place][0], answer)
            stage.total = (stage.total or 0) + seen[place] - (parts[place].expected or 0)

        if engine is None:
            workers = min(len(parts), max(2, count_cores()), _MOST_WORKERS)
            lock = threading.Lock()

            def held(use: Callable[..., Any], *args: Any) -> Any:
                with lock:
                    return use(backbone, *args)

            threads = max(1, count_cores() // workers)
            compute = partial(compute_job, backbone=HeldBackbone(held), threads=threads)
            map_threads(
                lambda part, tick: compute(part, advance=tick), parts, done, advance, workers
            )
        else:
            compute = partial(compute_job, backbone=pack(backbone))
            engine.map(compute, parts, done)
            split = [
                number for number in first.values() if jobs[number].cuts and number not in failed
            ]
            engine.map(
                compute,
                [jobs[number] for number in split],
                lambda place, made: judge(split[place], made),
            )
    return {
        number: failed[first[job.target]]
        for number, job in jobs.items()
        if first[job.target] in failed
    }


@contextmanager
def named(path: Path | Address) -> Iterator[Path]:
    """Yield a local file of the video at `path`; errors name `path` instead of the copy."""
    with blame(path):
        file = local(path)
    try:
        yield file
    except VideoError as error:
        raise VideoError(str(error).replace(str(file), str(path)), path=path) from error


def video_error(error: Exception, name: str, path: Path | Address) -> VideoError:
    """Return `error` if the video at `path` caused it; raise any other error."""
    if isinstance(error, WorkerDied):
        what = f"{error}. It crashes the decoder, or needs too much memory. Exclude it"
        error = mendable(path, what)
    if isinstance(error, VideoError | FeatureError):
        error.video, error.path = name, str(path)
    if isinstance(error, VideoError):
        return error
    raise error
