"""What a worker does for one video: look whether its features are stored, else compute them."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain, islice, repeat
from pathlib import Path

import numpy as np

from stepcut.errors import FeatureError, VideoError
from stepcut.features.backbones.backbone import Backbone, Frames, Rows
from stepcut.features.files import (
    check_stored,
    content_hash,
    feature_file,
    known_hash,
    read_rows,
    stamp,
    write_rows,
)
from stepcut.features.video.container import blame, check_file, probe
from stepcut.features.video.sample import Samples, sample_frames
from stepcut.files.addresses import Address, AnyPath, as_path
from stepcut.files.cache import local
from stepcut.parallel.engine import count_cores
from stepcut.parallel.worker import count_rows, time_limit
from stepcut.rate import Rate, as_rate

DECODE_SECONDS = 60.0
"""Time limit for the next packet of an open video."""


@dataclass(frozen=True)
class Job:
    """The features of one video, and where they are or will be."""

    name: str
    path: Path | Address
    target: Path | Address
    fps: Fraction
    expected: int | None
    """Expected number of rows; None if the features are already stored."""
    stamp: str = ""
    """The `stamp` of the file when it was probed."""
    fast: bool = False


def look(
    video: tuple[str, Path | Address],
    fingerprint: str,
    fps: Fraction,
    cache: Path | Address,
    fast: bool = False,
    quickly: bool = False,
) -> Job | None:
    """Probe a `video` (name, path) unless its features are in the `cache`.

    `fingerprint` is that of the backbone. With `quickly`, return None if the file must be read.
    """
    name, path = video
    with blame(path):
        if not isinstance(path, Address):
            check_file(path)  # before its content is read, since a pipe has no end
        seen = stamp(path)
        digest = known_hash(path, cache) if quickly else content_hash(path, cache)
        if digest is None:
            return None
        target = feature_file(digest, fps, f"{fingerprint} skip" if fast else fingerprint, cache)
    if target.exists() and not _discarded(target):
        return Job(name, path, target, fps, None)
    if quickly:
        return None
    with named(path) as file:
        duration = probe(file).duration
    return Job(name, path, target, fps, max(1, round(duration * fps)), seen, fast)


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


def compute(job: Job, backbone: Backbone | partial[Backbone]) -> int:
    """Compute and store the features of a `job` unless they exist; return the number of rows."""
    if not job.target.exists():
        opened = backbone() if isinstance(backbone, partial) else backbone
        unchanged = partial(_check_unchanged, job)
        with named(job.path) as file:
            compute_features(file, opened, job.fps, job.target, job.fast, unchanged)
    return len(read_rows(job.target)[0])


def _check_unchanged(job: Job) -> None:
    """Refuse a file that changed since it was probed, since features are stored by content."""
    with blame(job.path):
        if stamp(job.path) != job.stamp:
            raise VideoError(
                f"{job.path}: the file changed while it was read. Run the same command again.",
                path=job.path,
            )


@contextmanager
def named(path: Path | Address) -> Iterator[Path]:
    """Yield a local file of the video at `path`; errors name `path` instead of the copy."""
    with blame(path):
        file = local(path)
    try:
        yield file
    except VideoError as error:
        raise VideoError(str(error).replace(str(file), str(path)), path=path) from error


def compute_features(
    path: str | os.PathLike[str],
    backbone: Backbone,
    fps: Rate,
    target: AnyPath,
    fast: bool = False,
    check: Callable[[], None] = lambda: None,
) -> Path | Address:
    """Write the features of the video at `path` to `target` atomically.

    `backbone` computes `fps` rows per second; `fast` is as in `sample_frames`. `check` is called
    before the file is renamed into place, and an exception in it stops the work.
    """
    per_second = as_rate(fps)
    rate = per_second * frames_per_row(backbone, per_second)
    device = str(getattr(backbone, "device", None))
    gpu = device if device.startswith("cuda") else None
    # At least two threads: FFmpeg decodes damaged frames differently with a single one.
    samples = sample_frames(
        path, rate, backbone.size, threads=max(2, count_cores()), fast=fast, gpu=gpu
    )

    def metadata() -> dict[str, str]:
        check()
        return {
            "rate": str(per_second),
            "duration": repr(samples.duration),
            "corrupt": str(samples.corrupt),
            "backbone": backbone.fingerprint,
            **({"fast": "true"} if fast else {}),
        }

    # Close explicitly on errors: the garbage collector could do it inside any other code.
    with closing(compute_rows(samples, backbone, per_second)) as rows:
        write_rows(target, rows, metadata)
    return as_path(target)


def compute_rows(
    samples: Samples, backbone: Backbone, fps: Fraction | None = None
) -> Generator[Rows]:
    """Yield rows in batches of `backbone.batch` frames, and report them as progress.

    For a backbone of clips there are `frames_per_row` samples per row; `fps` is the rate of the
    rows, by default that of the samples.
    """
    pictures: Iterator[Frames] = (picture for _, picture in samples)
    if clip_length(backbone) > 1:
        pictures = make_clips(
            pictures, clip_length(backbone), frames_per_row(backbone, fps or samples.fps)
        )
    with closing(samples):
        while True:
            with time_limit(DECODE_SECONDS, "decoding"):
                batch = list(islice(pictures, batch_size(backbone)))
            if not batch:
                return
            rows = np.asarray(backbone.extract(np.stack(batch)))
            if rows.ndim not in (2, 4) or rows.shape[:2] != (len(batch), backbone.dim):
                what = f"backbone {backbone.name} returned {rows.shape} for {len(batch)} frames"
                raise FeatureError(
                    f"{what}; it must return one row per frame: "
                    f"({len(batch)}, {backbone.dim}) or (..., h, w).",
                    setting="backbone",
                )
            yield rows
            count_rows(len(rows))


def batch_size(backbone: Backbone) -> int:
    """Return the frames per call of a backbone, 32 by default."""
    return int(getattr(backbone, "batch", None) or 32)


def clip_length(backbone: Backbone) -> int:
    """Return the frames per clip; 1 if the backbone takes single frames."""
    return int(getattr(backbone, "clip_frames", None) or 1)


def frames_per_row(backbone: Backbone, fps: Fraction) -> int:
    """Return the frames sampled per row: `clip_fps` of the backbone over `fps`, rounded."""
    rate = getattr(backbone, "clip_fps", None)
    return 1 if clip_length(backbone) == 1 or rate is None else max(1, round(Fraction(rate) / fps))


def make_clips(pictures: Iterable[Frames], length: int, per_row: int) -> Iterator[Frames]:
    """Yield a clip (length, H, W, 3) centred on every `per_row`-th picture, padded at the ends.

    >>> pictures = (np.full((1, 1, 3), number, np.uint8) for number in range(5))
    >>> [clip[:, 0, 0, 0].tolist() for clip in make_clips(pictures, 3, 2)]
    [[0, 0, 1], [1, 2, 3], [3, 4, 4]]
    """
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
