"""Compute the features of one video, in any process."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, suppress
from fractions import Fraction
from itertools import chain, islice, repeat
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import numpy as np

from stepcut.errors import FeatureError, VideoError
from stepcut.features.backbones.backbone import Backbone, Frames, Rows
from stepcut.features.files import write_rows
from stepcut.features.video.sample import Samples, sample_frames
from stepcut.files.addresses import Address, AnyPath, as_path
from stepcut.parallel.engine import count_cores
from stepcut.rate import Rate, as_rate

DECODE_SECONDS = 60
"""Time limit for the next packet of an open video."""
_LEAVE = 5.0
"""Seconds in which the decoding thread closes the file."""


def compute_features(
    path: str | os.PathLike[str],
    backbone: Backbone,
    fps: Rate,
    target: AnyPath,
    advance: Callable[[int], None] | None = None,
    threads: int = 0,
    start: Fraction | float = 0,
    end: Fraction | None = None,
    fast: bool = False,
    check: Callable[[], None] = lambda: None,
) -> Path | Address:
    """Write the features of the video at `path`, or of a part of it, to `target` atomically.

    `backbone` computes `fps` rows per second. `advance` gets the size of every batch, and `check`
    is called before the file is renamed into place; an exception in either stops the work.
    `threads`, `start`, `end` and `fast` are as in `sample_frames`.
    """
    # At least two threads: FFmpeg decodes damaged frames differently with a single one.
    per_second = as_rate(fps)
    rate = per_second * frames_per_row(backbone, per_second)
    device = str(getattr(backbone, "device", None))
    gpu = device if device.startswith("cuda") else None
    samples = sample_frames(
        path, rate, backbone.size, start, end, max(2, threads or count_cores()), fast, gpu
    )

    def tracked() -> Generator[Rows]:
        with closing(compute_rows(samples, backbone, per_second)) as every:
            for rows in every:
                yield rows
                if advance is not None:
                    advance(len(rows))

    def metadata() -> dict[str, str]:
        check()
        return {
            "rate": str(per_second),
            "duration": repr(samples.duration),
            "corrupt": str(samples.corrupt),
            "backbone": backbone.fingerprint,
            **({"fast": "true"} if fast else {}),
        }

    with closing(tracked()) as rows:
        write_rows(target, rows, metadata)
    return as_path(target)


def compute_rows(
    samples: Samples, backbone: Backbone, fps: Fraction | None = None
) -> Generator[Rows]:
    """Yield rows in batches of `backbone.batch` frames, decoding in another thread.

    For a backbone of clips there are `frames_per_row` samples per row; `fps` is the rate of the
    rows, by default that of the samples. A part of a video that starts at a whole batch gives
    exactly the rows of a single pass.
    """
    pictures: Iterator[Frames] = (picture for _, picture in samples)
    if clip_length(backbone) > 1:
        pictures = make_clips(
            pictures, clip_length(backbone), frames_per_row(backbone, fps or samples.fps)
        )
    # Close explicitly on errors: the garbage collector could close it inside any other code,
    # where waiting for a thread can deadlock.
    with closing(_batches(pictures, batch_size(backbone), samples)) as batches:
        for frames in batches:
            rows = np.asarray(backbone.extract(frames))
            if rows.ndim not in (2, 4) or rows.shape[:2] != (len(frames), backbone.dim):
                what = f"backbone {backbone.name} returned {rows.shape} for {len(frames)} frames"
                raise FeatureError(
                    f"{what}; it must return one row per frame: "
                    f"({len(frames)}, {backbone.dim}) or (..., h, w).",
                    setting="backbone",
                )
            yield rows


def _batches(pictures: Iterator[Frames], size: int, samples: Samples) -> Generator[Frames]:
    """Yield arrays (n, H, W, 3) of up to `size` frames, reading one batch ahead."""
    wanted: SimpleQueue[bool] = SimpleQueue()
    found: SimpleQueue[list[Frames] | BaseException] = SimpleQueue()

    def decode() -> None:
        while wanted.get():
            try:
                found.put(list(islice(pictures, size)))
            except BaseException as error:  # the caller's thread decides
                found.put(error)
        with suppress(Exception):
            samples.close()

    # Only this thread uses the decoder. A daemon, since Python waits for others at its exit, and a
    # damaged video may hang the decoder.
    reader = Thread(target=decode, name="stepcut-decode", daemon=True)
    reader.start()
    try:
        wanted.put(True)
        while batch := _wait(found, samples):
            if isinstance(batch, BaseException):
                raise batch
            wanted.put(True)
            yield np.stack(batch)
    finally:
        wanted.put(False)
        reader.join(_LEAVE)


def _wait(
    found: SimpleQueue[list[Frames] | BaseException], samples: Samples
) -> list[Frames] | BaseException:
    """Return what the decoding thread found, unless it reads no packet for `DECODE_SECONDS`.

    Seconds are counted one by one, so that a suspended program has as many left afterwards.
    """
    progress = waited = 0
    while waited < DECODE_SECONDS:
        with suppress(Empty):
            return found.get(timeout=1)
        waited = waited + 1 if 0 < samples.progress == progress else 0
        progress = samples.progress
    what = f"the decoder made no progress for {DECODE_SECONDS} seconds"
    raise VideoError(f"{samples.path}: {what}. Exclude it, or copy it to a faster disk.")


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
