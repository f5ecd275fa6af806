"""What a video is: length, frame rate, size as shown, codec."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import av

from stepcut.errors import VideoError
from stepcut.features.video.container import check_length, open_video, stated_duration, stated_rate, turn_of


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
    """Look at a video: its header and its first frame, and all packets (without decoding) if it states no length.

    path  a video file
    tell  is called with 0 after every 16 MB of packets; what it raises stops the reading
    """
    with open_video(path, threads=1) as (container, stream):
        codec, rate, frames = stream.codec_context.name, stated_rate(stream), stream.frames or None
        duration, _ = stated_duration(container, stream)
        try:
            first = next(container.decode(stream), None)
        except (av.error.FFmpegError, OSError):  # the first packet is damaged; sampling goes on past it
            first = None
        width, height = stream.codec_context.width, stream.codec_context.height
        if first is not None:
            width, height = first.width, first.height
            if turn_of(first)[0]:
                width, height = height, width
        if not width or not height:
            raise VideoError(
                f"{path}: not a single frame could be decoded (codec {codec}). "
                "Copy it again from where it came from, or leave it out."
            )
        if duration is None:
            duration = _scan_duration(path, tell)
        if frames is not None:
            check_length(path, duration, frames)
        return VideoInfo(float(duration), rate, width, height, codec, frames)


def _scan_duration(path: str | os.PathLike[str], tell: Tell | None) -> Fraction:
    """The length of a video that does not state it: from the timestamps of its packets, or their number."""
    first: Fraction | None = None
    last = total = Fraction(0)
    with open_video(path, threads=1) as (container, stream):
        step = 1 / (stated_rate(stream) or Fraction(25))
        for packet in _packets(container, stream, tell):
            length = packet.duration * packet.time_base if packet.duration else step
            total += length
            if packet.pts is not None:
                time = packet.pts * packet.time_base
                first = time if first is None else min(first, time)
                last = max(last, time + length)
    return total if first is None else last - first


def key_times(path: str | os.PathLike[str], tell: Tell | None = None) -> list[Fraction]:
    """When the key frames are shown, in seconds after the first frame; empty if the timestamps are not fit to seek by.

    A long video may be split at these times for several workers to sample.

    path  a video file
    tell  as in `probe`
    """
    times: list[Fraction] = []
    first: Fraction | None = None
    with open_video(path, threads=1) as (container, stream):
        for packet in _packets(container, stream, tell):
            if packet.pts is None:
                return []
            time = packet.pts * packet.time_base
            first = time if first is None else min(first, time)
            if packet.is_keyframe:
                if times and time <= times[-1]:
                    return []
                times.append(time)
    return [time - (first or 0) for time in times]


def _packets(container: Any, stream: Any, tell: Tell | None) -> Iterator[Any]:
    """The packets of `stream` as far as they can be read; `tell` hears of those of all streams."""
    size = 0
    try:
        for packet in container.demux():
            size += packet.size
            if size >= 1 << 24:
                size = 0
                if tell is not None:
                    tell(0)
            if packet.size and packet.stream_index == stream.index:
                yield packet
    except (av.error.FFmpegError, OSError):
        return
