"""Properties of a video: length, frame rate, displayed size, codec."""

import os
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

import av

from stepcut.errors import VideoError
from stepcut.features.video.container import OPEN_SECONDS, elsewhere, open_here, turn_of
from stepcut.features.video.damage import check_length, stated_duration, stated_rate
from stepcut.parallel.worker import alive, time_limit


@dataclass(frozen=True)
class VideoInfo:
    duration: float
    """Seconds; read from the packets if the file does not state it."""
    rate: Fraction | None
    """Average frames per second."""
    width: int
    """As displayed, after rotation."""
    height: int
    codec: str
    frames: int | None
    """Number of frames, if the file states it."""


def probe(path: str | os.PathLike[str]) -> VideoInfo:
    """Probe the video at `path`: its header and first frame, and all packets if it has no length."""
    return elsewhere(read_info, path)


def read_info(path: str | os.PathLike[str]) -> VideoInfo:
    """Do the work of `probe` in this process; a worker keeps its time limit."""
    with time_limit(OPEN_SECONDS, "opening it"), open_here(path) as (container, stream):
        codec, rate, frames = stream.codec_context.name, stated_rate(stream), stream.frames or None
        duration, _ = stated_duration(container, stream)
        try:
            first = next(container.decode(stream), None)
        except (av.error.FFmpegError, OSError):  # the first packet is damaged; sampling skips it
            first = None
        width, height = stream.codec_context.width, stream.codec_context.height
        if first is not None:
            width, height = first.width, first.height
            if turn_of(first)[0]:
                width, height = height, width
        if not width or not height:
            what = f"no frame can be decoded (codec {codec})"
            raise VideoError(f"{path}: {what}. Copy it again, or exclude it.")
        if duration is None:
            duration, _ = read_packets(path)
        if frames is not None:
            check_length(path, duration, frames)
        return VideoInfo(float(duration), rate, width, height, codec, frames)


def key_times(path: str | os.PathLike[str]) -> list[Fraction]:
    """Return the times of the key frames in seconds after the first frame.

    The list is empty if the timestamps do not allow seeking.
    """
    return elsewhere(read_packets, path)[1]


def stated_length(path: str | os.PathLike[str]) -> float | None:
    """Return the length in the header of a video, without decoding; None if it has none."""
    return elsewhere(read_header, path)


def read_header(path: str | os.PathLike[str]) -> float | None:
    """Do the work of `stated_length` in this process; a worker keeps its time limit."""
    with open_here(path) as (container, stream):
        length, _own = stated_duration(container, stream)
    return None if length is None else float(length)


def read_packets(path: str | os.PathLike[str]) -> tuple[Fraction, list[Fraction]]:
    """Return the length of a video by the timestamps of its packets, and its key times."""
    first: Fraction | None = None
    last = total = Fraction(0)
    keys: list[Fraction] = []
    fit = True
    with (
        time_limit(OPEN_SECONDS, "opening it"),
        open_here(path) as (container, stream),
        suppress(av.error.FFmpegError, OSError),
    ):
        step = 1 / (stated_rate(stream) or Fraction(25))
        for packet in container.demux():  # of all streams, as far as they are readable
            alive()
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
