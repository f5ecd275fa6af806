"""What a worker does for one video: look whether its features are stored, else compute them."""

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain, islice, repeat
from pathlib import Path

import numpy as np

from stepcut.errors import FeatureError, VideoError
from stepcut.features.backbones.backbone import Backbone, Frames, Rows
from stepcut.features.files import (
    content_hash,
    feature_file,
    is_stored,
    known_hash,
    read_rows,
    stamp,
    write_rows,
)
from stepcut.features.video.container import blame, check_file, probe
from stepcut.features.video.sample import Samples, sample_frames
from stepcut.files.addresses import Address
from stepcut.files.cache import local
from stepcut.parallel.engine import count_cores
from stepcut.parallel.worker import count_rows, time_limit

DECODE_SECONDS = 60.0
"""Time limit for the next packet of an open video."""


@dataclass(frozen=True)
class Job:
    """The features of one video, and where they are or will be."""

    name: str
    path: Path | Address
    target: Path | Address
    fps: Fraction
    fast: bool
    expected: int = 0
    """Expected number of rows; 0 if the features are already stored."""
    stamp: str = ""
    """The `stamp` of the file when it was probed."""


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
    if is_stored(target):
        return Job(name, path, target, fps, fast)
    if quickly:
        return None
    with named(path) as file:
        info = probe(file)
    if info.rate and fps > 30 and fps > 2 * info.rate:
        shown = f"{float(info.rate):.4g}"
        what = f"{path}: has {shown} frames per second, fewer than half of fps={fps}. Use --fps "
        raise VideoError(f"{what}{shown} or less.", setting="fps", value=fps, allowed=info.rate)
    return Job(name, path, target, fps, fast, max(1, round(info.duration * fps)), seen)


def compute(job: Job, backbone: Backbone | partial[Backbone]) -> int:
    """Compute and store the features of a `job` unless they exist; return the number of rows."""
    if not job.target.exists():
        with named(job.path) as file:
            _store(job, file, backbone() if isinstance(backbone, partial) else backbone)
    return len(read_rows(job.target)[0])


def _store(job: Job, file: Path, backbone: Backbone) -> None:
    device = str(getattr(backbone, "device", None))
    samples = sample_frames(
        file,
        job.fps * frames_per_row(backbone, job.fps),
        backbone.size,
        # At least two: FFmpeg decodes damaged frames differently with a single thread.
        threads=max(2, count_cores()),
        fast=job.fast,
        gpu=device if device.startswith("cuda") else None,
    )

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
def named(path: Path | Address) -> Iterator[Path]:
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
    """Yield rows in batches of `backbone.batch` frames (32 by default), and report their number.

    For a backbone of clips there are `frames_per_row` samples per row; `fps` is the rate of the
    rows, by default that of the samples.
    """
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
                raise FeatureError(
                    f"backbone {backbone.name} returned {rows.shape} for {len(batch)} frames; it "
                    f"must return a row per frame: ({len(batch)}, {backbone.dim}) or (..., h, w).",
                    setting="backbone",
                )
            yield rows
            count_rows(len(rows))


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
