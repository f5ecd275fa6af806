"""What a video is: length, frame rate, size as shown, codec."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

import av

from stepcut.errors import VideoError
from stepcut.features.video.container import (
    check_length,
    open_video,
    stated_duration,
    stated_rate,
    turn_of,
)


@dataclass(frozen=True)
class VideoInfo:
    """What a video is, as far as its file says."""

    duration: float
    """Seconds; read from the packets where the file does not state it."""
    rate: Fraction | None
    """Frames per second on average."""
    width: int
    """As shown, that is, after the rotation that the file asks for."""
    height: int
    codec: str
    frames: int | None
    """How many frames, where the file says so."""


Tell = Callable[[int], None]


def probe(path: str | os.PathLike[str], tell: Tell | None = None) -> VideoInfo:
    """Look at the video at `path`: its header and first frame, and all packets (not decoded) if it states no length.
    `tell` is called with 0 after every 16 MB of packets; what it raises stops the reading."""
    with open_video(path, threads=1) as (container, stream):
        codec, rate, frames = stream.codec_context.name, stated_rate(stream), stream.frames or None
        duration, _ = stated_duration(container, stream)
        try:
            first = next(container.decode(stream), None)
        except (
            av.error.FFmpegError,
            OSError,
        ):  # the first packet is damaged; sampling goes on past it
            first = None
        width, height = stream.codec_context.width, stream.codec_context.height
        if first is not None:
            width, height = first.width, first.height
            if turn_of(first)[0]:
                width, height = height, width
        if not width or not height:
            what = f"not a single frame could be decoded (codec {codec})"
            raise VideoError(f"{path}: {what}. Copy it again, or leave it out.")
        if duration is None:
            duration, _ = _scan(path, tell)
        if frames is not None:
            check_length(path, duration, frames)
        return VideoInfo(float(duration), rate, width, height, codec, frames)


def key_times(path: str | os.PathLike[str], tell: Tell | None = None) -> list[Fraction]:
    """When the key frames are shown, in seconds after the first frame; empty if the timestamps are not fit to seek by.

    A long video may be split at these times for several workers to sample. `path` and `tell`: as in `probe`.
    """
    return _scan(path, tell)[1]


def _scan(path: str | os.PathLike[str], tell: Tell | None) -> tuple[Fraction, list[Fraction]]:
    """The length of a video by the timestamps of its packets, or their number, and what `key_times` gives."""
    first: Fraction | None = None
    last = total = Fraction(0)
    keys: list[Fraction] = []
    size, fit = 0, True
    with (
        open_video(path, threads=1) as (container, stream),
        suppress(av.error.FFmpegError, OSError),
    ):
        step = 1 / (stated_rate(stream) or Fraction(25))
        for packet in container.demux():  # of all streams, as far as they can be read
            size += packet.size
            if size >= 1 << 24 and tell is not None:
                size = 0
                tell(0)
            if not packet.size or packet.stream_index != stream.index:
                continue
            length = packet.duration * packet.time_base if packet.duration else step
            total += length
            if packet.pts is None:
                fit = False
                continue
            time = packet.pts * packet.time_base
            first = time if first is None else min(first, time)
            last = max(last, time + length)
            if packet.is_keyframe:
                fit = fit and (not keys or time > keys[-1])
                keys.append(time)
    return total if first is None else last - first, [
        time - (first or 0) for time in keys
    ] if fit else []
