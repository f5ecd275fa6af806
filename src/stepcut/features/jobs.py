"""Videos as pieces of work for any process: looked at, computed whole or in parts, the parts joined.

Long videos are split at key frames for several workers; joined, the parts are the very rows of one pass.
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
from stepcut.features.backbones.contract import Backbone
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
from stepcut.features.video.container import JUMP, blame, check_file, mendable
from stepcut.features.video.probe import key_times, probe
from stepcut.files.addresses import Address
from stepcut.files.cache import local
from stepcut.parallel.contract import Engine, count_cores
from stepcut.parallel.local import map_threads
from stepcut.progress import Hook, Stage
from stepcut.rate import Rate, as_rate

_MOST_WORKERS = 16
"""Videos decoded side by side at most: each holds its decoder's frames in memory."""


def pack(backbone: Backbone) -> partial[Backbone]:
    """What opens a `backbone` in a worker, once however many parts that computes."""
    try:
        return partial(unpack, backbone.fingerprint, pickle.dumps(backbone))
    except Exception as error:  # one of somebody's own may hold anything
        what = f"backbone {backbone.name} cannot be sent to workers ({error})"
        raise OptionError(
            f"{what}. Give its class a __reduce__, or leave out engine and workers."
        ) from error


@cache
def unpack(fingerprint: str, packed: bytes) -> Backbone:
    """The backbone that was `packed`; one of another `fingerprint`, so with other features, is refused."""
    try:
        backbone: Backbone = pickle.loads(packed)  # from our own driver, never from a file
    except (
        AttributeError,
        ImportError,
    ) as error:  # its class is in a notebook, or its module is not on this machine
        what = f"a worker does not find the class of the backbone ({error})"
        raise FeatureError(f"{what}. Put it into a module that can be imported there.") from error
    if backbone.fingerprint != fingerprint:
        what = f"this worker's backbone is {backbone.fingerprint!r}, the driver's {fingerprint!r}"
        raise FeatureError(
            f"{what}. Install the same packages on all machines, or name the device: --device cpu."
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
    """How many rows to expect; None: the features are stored already."""
    stamp: str = ""
    """The `stamp` of the file when it was looked at."""
    fast: bool = False
    cuts: tuple[Fraction, ...] = ()
    """Times, the first of them 0, at which it is split for several workers."""
    start: Fraction = Fraction(0)
    end: Fraction | None = None

    def parts(self) -> list[Self]:
        """Its parts: itself alone where it stays whole."""
        ends: list[Fraction | None] = [*self.cuts[1:], None]
        # Hidden and ending in .part: what is left of a killed run for a day is swept away.
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
    tell: Callable[[int], None] | None = None,
) -> Extraction:
    """Find out whether the features of a `video`, its name and place, are stored in the `cache`; if not, look at it.

    The `fingerprint` is that of the backbone, which computes a `batch` of rows at a time, `fps` a second; `fast` is that
    of `FeatureSpec`. A video of twice `piece` seconds or more is to be split, at times that depend on
    nothing else, so that a run that was killed finds its parts again. `tell` is called with 0 after every 16 MB that
    are read, so that who watches sees progress.
    """
    name, path = video
    if not isinstance(path, Address):
        check_file(path)  # before its content is read: a pipe has no end
    with blame(path):
        seen = stamp(path)
        made = f"{fingerprint} skip" if fast else fingerprint
        target = feature_file(content_hash(path, cache, tell), fps, made, cache)
    if target.exists() and not _discarded(target):
        return Extraction(name, path, target, fps, None)
    cuts: list[Fraction] = []
    with named(path) as file:
        duration = probe(file, tell).duration
        if piece is not None and duration >= 2 * piece:
            keys = key_times(file, tell)
            # A jump in time is a splice, which only one pass sees as such.
            if all(after - before < JUMP for before, after in pairwise(keys)):
                cuts = split_times(
                    keys, fps, batch, min(int(duration // piece), len(keys)), duration
                )
    expected = max(1, round(duration * fps))
    parts = tuple(cuts) if len(cuts) > 1 else ()
    return Extraction(name, path, target, fps, expected, seen, fast, parts)


def _discarded(stored: Path | Address) -> bool:
    """Whether features of the store were damaged, and are removed; at an address not all of them are looked at."""
    try:
        if isinstance(stored, Address):
            check_stored(stored)
        else:
            read_rows(stored)
    except FeatureError:
        with suppress(OSError):  # a cache that may only be read
            stored.unlink(missing_ok=True)
        return True
    return False


def split_times(
    key_times: list[Fraction], fps: Rate, batch: int, parts: int, duration: float
) -> list[Fraction]:
    """Where to split a video of `duration` seconds in about `parts` parts: at whole batches, soon after key frames.

    The times include 0; a part ends where the next begins. `key_times`: when its key frames are shown; `fps`: rows per
    second; `batch`: rows that are computed at a time.
    """
    rate = as_rate(fps)
    times = {Fraction(0)}
    for part in range(1, parts):
        wanted = Fraction(duration) * part / parts
        if before := bisect_right(key_times, wanted):
            batches = -(
                (-key_times[before - 1] * rate) // batch
            )  # the first whole one at or after the key frame
            times.add(batches * batch / rate)
    return sorted(time for time in times if time < duration)


def compute_job(
    job: Extraction,
    backbone: Backbone | partial[Backbone],
    threads: int = 0,
    tell: Callable[[int], None] | None = None,
) -> int:
    """Compute and store what a `job`, a video or a part of one, asks for, unless it is there; gives the number of rows.

    The parts of one that is split are joined. A video that is damaged anywhere is computed in one pass: what a decoder
    makes of damage depends on where it began. The `backbone` is one, or what opens it; `threads` decode, 0 is all
    cores; `tell` hears of every batch, and what it raises stops the work.
    """
    if not job.target.exists() and not (job.cuts and _join(job, backbone)):
        opened = backbone() if isinstance(backbone, partial) else backbone
        with named(job.path) as file:
            compute_features(
                file,
                opened,
                job.fps,
                job.target,
                tell,
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
    """Raise where the file of a `job` is not the one that was looked at: its features would be stored as those of it."""
    with blame(job.path):
        if stamp(job.path) != job.stamp:
            raise VideoError(
                f"{job.path}: the file changed while it was read. Run the same command again."
            )


def _join(job: Extraction, backbone: Backbone | partial[Backbone]) -> bool:
    """Join undamaged parts that have all their rows to the file that one pass writes; false where they have not."""
    said: dict[str, str] = {}
    found = []
    try:
        for part in job.parts():
            compute_job(part, backbone)
            rows, said = read_rows(part.target)
            if int(said["corrupt"]) or (
                part.end is not None and len(rows) != (part.end - part.start) * part.fps
            ):
                return False
            found.append(rows)
    except VideoError:
        return False
    write_rows(job.target, (few for rows in found for few in in_parts(rows)), lambda: said)
    return True


def compute_jobs(
    jobs: Mapping[int, Extraction],
    backbone: Backbone,
    progress: Hook,
    strict: bool,
    engine: Engine | None,
) -> dict[int, VideoError]:
    """Compute and store what is missing, several videos side by side; gives the errors of those that failed.

    Videos with the same content are computed once; parts that an earlier run has finished are not computed again.

    `jobs` are the videos by number; `backbone`, `progress`, `strict` and `engine` are those of `extract`.
    """
    if not jobs:
        return {}
    first: dict[Path | Address, int] = {}
    for number, job in jobs.items():
        first.setdefault(job.target, number)
    work = [(number, part) for number in first.values() for part in jobs[number].parts()]
    if (
        engine is not None
    ):  # the longest first: begun last, it would be waited for by all workers but one
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
            elif not jobs[work[place][0]].cuts or not isinstance(answer, VideoError):
                judge(
                    work[place][0], answer
                )  # what goes wrong with one part of several is seen again in one pass
            stage.total = (stage.total or 0) + seen[place] - (parts[place].expected or 0)

        if engine is None:
            workers = min(len(parts), max(2, count_cores()), _MOST_WORKERS)
            lock = threading.Lock()

            def held(use: Callable[..., Any], *given: Any) -> Any:
                with lock:
                    return use(backbone, *given)

            threads = max(1, count_cores() // workers)
            compute = partial(compute_job, backbone=HeldBackbone(held), threads=threads)
            map_threads(lambda part, tell: compute(part, tell=tell), parts, done, told, workers)
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
    """A file of this machine with the video at `path`; errors inside name `path`, not the copy."""
    with blame(path):
        file = local(path)
    try:
        yield file
    except VideoError as error:
        raise VideoError(str(error).replace(str(file), str(path))) from error


def video_error(error: Exception, path: Path | Address) -> VideoError:
    """What the video at `path` is to blame for, as its `error`; anything else is raised."""
    if isinstance(error, VideoError):
        return error
    if isinstance(error, WorkerDied):
        return mendable(
            path,
            f"{error}. It crashes its decoder, or needs more memory than there is. Leave it out",
        )
    raise error
