"""Compute the features of one video: a pure function of path, backbone and rate that any process may run."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from fractions import Fraction
from itertools import chain, islice, repeat
from pathlib import Path

import numpy as np

from stepcut.errors import FeatureError
from stepcut.features.backbones.contract import Backbone, Frames, Rows
from stepcut.features.files import write_rows
from stepcut.features.video.sample import Samples, sample_frames
from stepcut.files.addresses import Address, AnyPath, as_path
from stepcut.parallel.contract import count_cores
from stepcut.rate import Rate, as_rate


def compute_features(
    path: str | os.PathLike[str],
    backbone: Backbone,
    fps: Rate,
    target: AnyPath,
    tell: Callable[[int], None] | None = None,
    threads: int = 0,
    start: Fraction | float = 0,
    end: Fraction | None = None,
    fast: bool = False,
    check: Callable[[], None] = lambda: None,
) -> Path | Address:
    """Write the features of the video at `path`, or of a part of it, to the file `target`, whole or not at all.

    path      a video file
    backbone  makes the rows, `fps` a second
    target    the file to write
    tell      hears of every batch; what it raises stops the work
    check     is called before the file gets its name; what it raises stops that

    `threads`, `start`, `end` and `fast` are those of `sample_frames`.
    """
    # Never one thread: what FFmpeg makes of a damaged frame depends on whether threads decode, not on how many.
    rate = as_rate(fps) * frames_per_row(backbone, as_rate(fps))
    device = str(getattr(backbone, "device", None))
    gpu = device if device.startswith("cuda") else None
    samples = sample_frames(
        path, rate, backbone.size, start, end, max(2, threads or count_cores()), fast, gpu
    )

    def told() -> Generator[Rows]:
        with closing(compute_rows(samples, backbone, as_rate(fps))) as every:
            for rows in every:
                yield rows
                if tell is not None:
                    tell(len(rows))

    def metadata() -> dict[str, str]:
        check()
        return {
            "rate": str(as_rate(fps)),
            "duration": repr(samples.duration),
            "corrupt": str(samples.corrupt),
            "backbone": backbone.fingerprint,
            **({"fast": "true"} if fast else {}),
        }

    with closing(told()) as rows:
        write_rows(target, rows, metadata)
    return as_path(target)


def compute_rows(
    samples: Samples, backbone: Backbone, fps: Fraction | None = None
) -> Generator[Rows]:
    """Rows in batches of `backbone.batch` frames; decoding goes on in another thread while the `backbone` works.

    Of one that takes clips, there are `frames_per_row` times as many `samples` as rows; `fps` rows a second, as many as
    samples unless given. A part of a video (`sample_frames(..., start, end)`) that begins on a whole batch gives the
    very rows of one pass.
    """
    pictures: Iterator[Frames] = (picture for _, picture in samples)
    if clip_length(backbone) > 1:
        pictures = make_clips(
            pictures, clip_length(backbone), frames_per_row(backbone, fps or samples.fps)
        )
    # Closed here and now where something goes wrong: what an error holds on to, the garbage collector would close one
    # day, inside whatever it interrupts; there, waiting for a thread can be a deadlock.
    with closing(_batches(pictures, batch_size(backbone), samples.close)) as batches:
        for frames in batches:
            rows = np.asarray(backbone.extract(frames))
            if rows.ndim not in (2, 4) or rows.shape[:2] != (len(frames), backbone.dim):
                what = f"backbone {backbone.name} gave shape {rows.shape} for {len(frames)} frames"
                raise FeatureError(
                    f"{what}; it must give a row each: ({len(frames)}, {backbone.dim}) or (..., h, w)."
                )
            yield rows


def _batches(pictures: Iterator[Frames], size: int, close: Callable[[], None]) -> Generator[Frames]:
    """Arrays (n, H, W, 3) of `size` frames (the last may be smaller); the next one is made while this one is used."""

    def take() -> list[Frames]:
        return list(islice(pictures, size))

    with ThreadPoolExecutor(1, "stepcut-decode") as reader:  # one thread alone touches the decoder
        try:
            coming = reader.submit(take)
            while batch := coming.result():
                coming = reader.submit(take)
                yield np.stack(batch)
        finally:
            reader.submit(close)


def batch_size(backbone: Backbone) -> int:
    """Frames that a backbone takes at a time; 32 where it does not say."""
    return int(getattr(backbone, "batch", None) or 32)


def clip_length(backbone: Backbone) -> int:
    """Frames of a clip; 1 where the backbone takes single frames."""
    return int(getattr(backbone, "clip_frames", None) or 1)


def frames_per_row(backbone: Backbone, fps: Fraction) -> int:
    """How many frames are sampled for each row: `clip_fps` of the backbone as a multiple of `fps`, the nearest one."""
    rate = getattr(backbone, "clip_fps", None)
    return 1 if clip_length(backbone) == 1 or rate is None else max(1, round(Fraction(rate) / fps))


def make_clips(pictures: Iterable[Frames], length: int, per_row: int) -> Iterator[Frames]:
    """A clip (length, H, W, 3) for every `per_row`-th picture, centred on it; at the ends the outermost is repeated.

    >>> pictures = (np.full((1, 1, 3), number, np.uint8) for number in range(5))
    >>> [clip[:, 0, 0, 0].tolist() for clip in make_clips(pictures, 3, 2)]
    [[0, 0, 1], [1, 2, 3], [3, 4, 4]]
    """
    after = length - length // 2 - 1
    window: deque[Frames] = deque(maxlen=length)
    for number, given in enumerate(chain(pictures, repeat(None, after)), start=-after):
        picture = window[-1] if given is None and window else given
        if picture is None:  # there is not a single one
            return
        if not window:
            window.extend([picture] * (length // 2))
        window.append(picture)
        if number >= 0 and number % per_row == 0:
            yield np.stack(window)
