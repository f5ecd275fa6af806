"""Sample the frames of a video at regular true times, keeping only a few frames in memory."""

import math
import os
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from fractions import Fraction
from itertools import chain, pairwise
from typing import Any

import av
import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter
from numpy.typing import NDArray

from stepcut.errors import VideoError
from stepcut.features.video.container import (
    JUMP,
    check_length,
    look_at_end,
    open_video,
    packets_of,
    stated_rate,
    turn_of,
)
from stepcut.parallel.worker import alive
from stepcut.settings import Rate, as_rate

Picture = NDArray[np.uint8]
Ticks = int | Fraction  # a time in units of the timestamps
# side of a square, or height and width; None keeps the size of the video
Size = int | tuple[int, int] | None
PAUSE = Fraction(1, 2)  # seconds without a frame, beside skipped bytes, that count as lost frames
# codecs whose key frames FFmpeg marks reliably, beside those with key frames only
KEYED = ("h264", "hevc", "vp8", "vp9", "av1", "mpeg1video", "mpeg2video", "mpeg4")
FAST_ROWS = 2  # with fast sampling, the frame of a row may be this many rows older


class Samples(Iterator[tuple[float, Picture]]):
    """The frames of a video; at the end, `duration` is known."""

    def __init__(self, path: str | os.PathLike[str], fps: Fraction, fast: bool = False) -> None:
        self.path, self.fps, self.fast = path, fps, fast
        self.keys = False  # only key frames are decoded
        self.corrupt = 0  # damaged frames so far: not decoded, or marked as damaged by the decoder
        # seconds from the first frame to the end of the last one
        self.duration: float | None = None
        self.last = 0  # timestamp at which the last packet so far ends
        self.read = 0  # byte at which the last packet so far ends
        # how often the timestamps restarted, as in a file made of two recordings
        self.restarts = 0
        self._frames: Generator[tuple[float, Picture]]

    def __next__(self) -> tuple[float, Picture]:
        return next(self._frames)

    def watch(self, container: Any, stream: Any) -> Iterator[Any]:
        """Yield the packets of a stream, and track their end, lost frames and restarts."""
        two: deque[int] = deque(maxlen=2)
        for packet, skipped in packets_of(container, stream):
            alive()
            if (time := packet.dts if packet.pts is None else packet.pts) is not None:
                # Before both of the last two, since one time alone may be damaged.
                self.restarts += bool(two) and (min(two) - time) * stream.time_base > 1
                two.append(time)
            if packet.pts is not None:
                self.read = max(self.read, (packet.pos or 0) + packet.size)
                missing = (packet.pts - self.last) * stream.time_base if skipped else 0
                if missing > PAUSE:
                    self.corrupt += math.ceil(missing * (stated_rate(stream) or 25))
                self.last = max(self.last, packet.pts + (packet.duration or 0))
            yield packet

    def close(self) -> None:
        self._frames.close()


def sample_frames(
    path: str | os.PathLike[str],
    fps: Rate = 2,
    size: Size = None,
    start: float | Fraction = 0,
    end: float | Fraction | None = None,
    threads: int = 0,
    fast: bool = False,
) -> Samples:
    """Yield (time, picture) for every time i / fps: the frame shown then, as RGB (H, W, 3) uint8.

    Time counts from the first frame; `end` is excluded. Adjacent parts give exactly the samples of
    a single pass. With `fast`, a frame may be up to two rows older, in lower quality. A file that
    ends early raises a VideoError after its last frame.
    """
    rate = as_rate(fps)
    first, last = (
        None if at is None else max(0, math.ceil(Fraction(at).limit_denominator(1_000_000) * rate))
        for at in (start, end)
    )
    samples = Samples(path, rate, fast)
    samples._frames = _sample(samples, size, first or 0, last, threads)
    return samples


def frame_at(path: str | os.PathLike[str], time: float) -> Picture | None:
    """Return the frame shown at a `time` in seconds; None more than 0.1 s past the end."""
    for at in (time, time - 0.1):
        samples = sample_frames(path, fps=1000, start=at, end=at + 0.002)
        frame = next(samples, None)
        samples.close()
        if frame is not None:
            return frame[1]
    return None


def _sample(
    samples: Samples, size: Size, first: int, last: int | None, threads: int
) -> Generator[tuple[float, Picture]]:
    """Yield the samples; the frame of sample i is the last one whose time is at most i / fps."""
    fps, number = samples.fps, first
    with ExitStack() as files:

        def begin() -> tuple[Any, Any]:
            container, stream = files.enter_context(open_video(samples.path, threads))
            if samples.fast:
                _decode_less(samples, stream)
            return container, stream

        container, stream = begin()
        scale = Scaler(size)
        zero: int | None = None
        frames: Iterator[Any] | None = None
        if first > 0:
            zero, frames = _seek(samples, container, stream, first / fps)
            if frames is None:  # it can only be reached from the start
                container, stream = begin()
        shown: Any = None
        base = stream.time_base or Fraction(1, 90_000)
        between = 1 / (base * fps)  # ticks from sample to sample
        begun: Ticks | None = None
        reached: Ticks = 0
        due, count, corrupt = number * between, 0, 0
        timed = _timed(
            samples, frames or _decode(samples, container, stream, zero), stream, base, zero
        )
        for count, (time, length, frame) in enumerate(timed, start=1):
            begun = time if begun is None else begun
            while shown is not None and due < time:
                check_length(samples.path, (time + length - begun) * base, count)
                if last is not None and number >= last:
                    return
                yield float(number / fps), scale(shown)
                number += 1
                due = number * between
            shown, reached, corrupt = frame, time + length, samples.corrupt
        if shown is None:
            what = f"no frame can be decoded (codec {stream.codec_context.name})"
            raise VideoError(f"{samples.path}: {what}. Copy it again, or exclude it.")
        check_length(samples.path, (reached - (begun or 0)) * base, count)
        if samples.fast and shown.pts is not None:  # the last frames may have been skipped
            after = samples.last - shown.pts - length
            reached += after if 0 < after * base <= max(1, FAST_ROWS / fps) else 0
        damaged = samples.corrupt > corrupt
        end, error = look_at_end(
            samples.path, container, stream, reached * base, samples.read, damaged
        )
        reached, samples.duration = end / base, float(end)
        while number * between < reached and (last is None or number < last):
            yield float(number / fps), scale(shown)
            number += 1
        if error is not None:
            raise error


def _decode_less(samples: Samples, stream: Any) -> None:
    """Skip all but key frames if these are close, else unreferenced frames."""
    decoder = stream.codec_context
    decoder.options = {**decoder.options, "skip_loop_filter": "all"}
    keys = [entry.timestamp for entry in stream.index_entries if entry.is_keyframe]
    longest = max((after - before for before, after in pairwise(keys)), default=math.inf)
    reliable = decoder.codec.intra_only or decoder.codec.canonical_name in KEYED
    samples.keys = reliable and longest * stream.time_base <= FAST_ROWS / samples.fps
    decoder.skip_frame = "NONKEY" if samples.keys else "NONREF"


def _needed_keys(packets: Iterator[Any], zero: int | None, fps: Fraction) -> Iterator[Any]:
    """Yield the packets of key frames that a sample shows; `zero` is the time of the first."""
    held: Any = None
    for packet in packets:
        if packet.pts is None or not packet.is_keyframe:
            continue
        zero = packet.pts if zero is None else zero
        sample = math.ceil((packet.pts - zero) * packet.time_base * fps)
        if held is not None and held[0] != sample:
            yield held[1]
        held = sample, packet
    if held is not None:
        yield held[1]


def _timed(
    samples: Samples, frames: Iterator[Any], stream: Any, base: Fraction, zero: int | None
) -> Iterator[tuple[Ticks, Ticks, Any]]:
    """Yield (time since the first frame, duration, frame) in display order, in ticks of `base`."""
    step = 1 / ((stated_rate(stream) or Fraction(25)) * base)
    second, jump = math.floor(1 / base), math.floor(JUMP / base)
    previous: Ticks | None = None
    due: Ticks = 0  # expected time of the next frame
    splices, following = 0, None
    while (frame := following or next(frames, None)) is not None:
        following = None
        length: Ticks = frame.duration or step
        time, pts = due, frame.pts
        if pts is not None:
            zero = pts if zero is None else zero
            time = pts - zero
            if previous is not None and time - due > second:
                following = next(frames, None)
                after = None if following is None else following.pts
                if after is not None and previous <= after - zero < time - second:
                    samples.corrupt += 1  # a damaged timestamp: the next frame comes before it
                    continue
            anew = previous is not None and previous - time > second and samples.restarts > splices
            if anew or (previous is not None and time - due > jump):
                # Two recordings in one file: the second continues where the first ended.
                splices += anew
                zero, time = pts - round(due), due
            elif previous is not None and time < previous:
                continue  # a frame from the past
        previous, due = time, time + length
        yield time, length, frame


def _seek(
    samples: Samples, container: Any, stream: Any, target: Fraction
) -> tuple[int | None, Iterator[Any] | None]:
    """Return the zero timestamp, and the frames from the last key frame at or before `target`."""
    head = next(_decode(samples, container, stream), None)
    if head is None or head.pts is None:
        return None, None
    zero, base, back = head.pts, head.time_base or stream.time_base, Fraction(0)
    while target > back:
        try:
            container.seek(zero + math.floor((target - back) / base), stream=stream, backward=True)
        except (av.error.FFmpegError, OSError):  # the file does not support seeking
            break
        frames = _decode(samples, container, stream, zero)
        key = next((frame for frame in frames if frame.key_frame and frame.pts is not None), None)
        # Files are indexed by decoding time, so the key frame may be shown after the target.
        # Frames shown before it, whose references may be missing, are already skipped.
        if key is not None and (key.pts - zero) * base <= target:
            return zero, chain([key], frames)
        back = back * 2 + 1
    return None, None


def _decode(
    samples: Samples, container: Any, stream: Any, zero: int | None = None
) -> Iterator[Any]:
    packets, decoder = samples.watch(container, stream), stream.codec_context
    if samples.keys:
        packets = _needed_keys(packets, zero, samples.fps)
    while True:
        try:
            packet = next(packets, None)
        except (av.error.FFmpegError, OSError):  # the file ends inside a packet
            samples.corrupt += 1
            packet = None
        try:
            frames = decoder.decode(packet)
        except av.error.EOFError:
            return
        except av.error.FFmpegError:
            samples.corrupt += 1
            frames = []
        for frame in frames:
            samples.corrupt += bool(frame.is_corrupt)
            yield frame
        if packet is None or (packet.dts is None and packet.size == 0):
            return


class Scaler:
    def __init__(self, size: Size) -> None:
        self.size = (int(size), int(size)) if isinstance(size, int | np.integer) else size
        self._reformat = VideoReformatter().reformat
        # Full chroma keeps 1080p within a third of a grey level of a plain bilinear filter,
        # instead of seven.
        self._how = (
            Interpolation.BILINEAR | Interpolation.FULL_CHR_H_INT | Interpolation.ACCURATE_RND
        )
        self._turn: tuple[bool, int, int] | None = None
        self._last: tuple[Any, Picture] | None = None

    def __call__(self, frame: Any) -> Picture:
        if self._last is not None and self._last[0] is frame:
            return self._last[1]
        if self._turn is None:  # once, since asking ties the frame into a reference cycle of 3 MB
            self._turn = turn_of(frame)
        transposed, down, across = self._turn
        height, width = self.size or (frame.height, frame.width)
        if transposed and self.size:
            height, width = width, height
        scaled = self._reformat(frame, width, height, "rgb24", interpolation=self._how, threads=1)
        shown = scaled.to_ndarray().swapaxes(0, 1) if transposed else scaled.to_ndarray()
        picture: Picture = np.ascontiguousarray(shown[::down, ::across])
        self._last = (frame, picture)
        return picture
