"""Compute the features of one video: a pure function of path, backbone and rate that any process may run."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import FeatureError
from stepcut.features.backbones.contract import Backbone
from stepcut.features.clips import clip_length, frames_per_row, make_clips
from stepcut.features.store import write_rows
from stepcut.features.video.sample import Picture, Samples, sample_frames
from stepcut.files.addresses import Address, AnyPath, as_path
from stepcut.parallel.cores import count_cores
from stepcut.rate import Rate, as_rate

Rows = NDArray[Any]


class Stopped(Exception):
    """Raised inside the work when somebody asked for it to stop."""


def compute_features(
    path: str | os.PathLike[str],
    backbone: Backbone,
    fps: Rate,
    target: AnyPath,
    tell: Callable[[int], None] | None = None,
    threads: int = 0,
    start: Fraction | float = 0,
    end: Fraction | None = None,
    times: str = "exact",
) -> Path | Address:
    """Write the features of the video at `path`, or of a part of it, to the file `target`, whole or not at all.

    path      a video file
    backbone  makes the rows
    fps       rows per second
    target    the file to write
    tell      hears of every batch; what it raises stops the work
    threads   that decode; 0 is all cores
    start     where the part begins
    end       where it ends
    times     "exact", "near" or "fast", as `sample_frames` takes it
    """
    # Never one thread: what FFmpeg makes of a damaged frame depends on whether threads decode, not on how many.
    rate = as_rate(fps) * frames_per_row(backbone, as_rate(fps))
    samples = sample_frames(path, rate, backbone.size, start, end, max(2, threads or count_cores()), times)
    with write_rows(target) as writer:
        for rows in compute_rows(samples, backbone, as_rate(fps)):
            writer.append(rows)
            if tell is not None:
                tell(len(rows))
        metadata = {
            "rate": str(as_rate(fps)),
            "duration": repr(samples.duration),
            "corrupt": str(samples.corrupt),
            "backbone": backbone.fingerprint,
            **({"times": times, "tolerance": str(samples.tolerance)} if samples.tolerance is not None else {}),
        }
        writer.finish(metadata)
    return as_path(target)


def compute_rows(samples: Samples, backbone: Backbone, fps: Fraction | None = None) -> Iterator[Rows]:
    """Rows in batches of `backbone.batch` frames; decoding goes on in another thread while the backbone works.

    samples   frames: of a backbone that takes clips, `frames_per_row` times as many as rows
    backbone  makes the rows
    fps       rows per second; those of the samples unless given

    A part of a video (`sample_frames(..., start, end)`) that begins on a whole batch gives the very rows of one pass.
    """
    pictures: Iterator[Picture] = (picture for _, picture in samples)
    if clip_length(backbone) > 1:
        pictures = make_clips(pictures, clip_length(backbone), frames_per_row(backbone, fps or samples.fps))
    for frames in _batches(pictures, batch_size(backbone), samples.close):
        rows = np.asarray(backbone.extract(frames))
        if rows.ndim < 2 or len(rows) != len(frames):
            raise FeatureError(
                f"backbone {backbone.name} gave shape {rows.shape} for {len(frames)} frames; it must give a row each: "
                f"({len(frames)}, {backbone.dim}) or ({len(frames)}, {backbone.dim}, h, w)."
            )
        yield rows


def batch_size(backbone: Backbone) -> int:
    """Frames that a backbone takes at a time; 32 where it does not say."""
    return int(getattr(backbone, "batch", 32))


def split_times(key_times: list[Fraction], fps: Rate, batch: int, parts: int, duration: float) -> list[Fraction]:
    """Where to split a long video in about `parts` parts: times of whole batches, soon after key frames.

    The times include 0; a part ends where the next begins. Empty `key_times` means: cannot be split.
    """
    rate = as_rate(fps)
    times = {Fraction(0)}
    for part in range(1, parts):
        wanted = Fraction(duration) * part / parts
        before = max((time for time in key_times if time <= wanted), default=None)
        if before is not None:
            batches = -((-before * rate) // batch)  # the first whole batch that begins at or after the key frame
            times.add(batches * batch / rate)
    return sorted(time for time in times if time < duration)


def _batches(pictures: Iterator[Picture], size: int, close: Callable[[], None]) -> Iterator[NDArray[np.uint8]]:
    """Arrays (n, H, W, 3) of `size` frames (the last may be smaller), read ahead by at most one batch."""
    waiting: queue.Queue[Picture | BaseException | None] = queue.Queue(maxsize=size)
    stop = threading.Event()

    def hand_over(item: Picture | BaseException | None) -> bool:
        while not stop.is_set():
            try:
                waiting.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def decode() -> None:
        try:
            for picture in pictures:
                if not hand_over(picture):
                    break
            hand_over(None)
        except BaseException as error:  # whatever it is, the reader raises it
            hand_over(error)
        finally:
            close()

    reader = threading.Thread(target=decode, name="stepcut-decode", daemon=True)
    reader.start()
    try:
        batch: list[Picture] = []
        while True:
            item = waiting.get()
            if isinstance(item, BaseException):
                raise item
            if item is not None:
                batch.append(item)
            if len(batch) == size or (item is None and batch):
                yield np.stack(batch)
                batch = []
            if item is None:
                return
    finally:
        stop.set()
        reader.join()
