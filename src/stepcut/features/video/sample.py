"""Sample the frames of a video at regular true times, read from presentation timestamps; a few frames in memory."""

import math
import os
from collections import deque
from collections.abc import Iterator
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
from stepcut.rate import Rate, as_rate

Picture = NDArray[np.uint8]
Ticks = int | Fraction
"""A time in units of the timestamps."""
Size = int | tuple[int, int] | None
"""One side of a square, or height and width; None: as the video has it."""
PAUSE = Fraction(1, 2)
"""Seconds without a frame, beside bytes that no packet holds, that are frames lost."""
KEYED = ("h264", "hevc", "vp8", "vp9", "av1", "mpeg1video", "mpeg2video", "mpeg4")
"""Codecs of which FFmpeg says for sure which packets are key frames, beside those that have no others."""
FAST_ROWS = 2
"""How many rows older than its own time the frame of a row may be where sampling is fast."""


class Samples(Iterator[tuple[float, Picture]]):
    """The frames of the video at `path`, `fps` a second; once all are read, also its length and how many are damaged.

    `fast` is that of `sample_frames`.
    """

    def __init__(self, path: str | os.PathLike[str], fps: Fraction, fast: bool = False) -> None:
        self.path, self.fps, self.fast = path, fps, fast
        self.keys = False
        """Whether key frames alone are decoded."""
        self.corrupt = 0
        """Damaged frames so far: the decoder gave none, or said that the one it gave is not right."""
        self.duration: float | None = None
        """Seconds from the first frame to the end of the last one; known at the end."""
        self.last = 0
        """The timestamp at which the last packet read so far ends."""
        self.read = 0
        """The byte of the file at which the last packet read so far ends."""
        self.restarts = 0
        """How often timestamps of packets began anew, as where two recordings are one file."""
        self._frames: Iterator[tuple[float, Picture]] = iter(())

    def __next__(self) -> tuple[float, Picture]:
        return next(self._frames)

    def watch(self, container: Any, stream: Any) -> Iterator[Any]:
        """The packets of a stream; remember where the last one ends, and count the frames of those that are lost, and
        the restarts: a second before both of the last two, for the time of one alone may be damaged."""
        two: deque[int] = deque(maxlen=2)
        for packet, skipped in packets_of(container, stream):
            if (time := packet.dts if packet.pts is None else packet.pts) is not None:
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
        """Let go of the file before the end."""
        if hasattr(self._frames, "close"):
            self._frames.close()


def sample_frames(
    path: str | os.PathLike[str],
    fps: Rate = 2,
    size: Size = None,
    start: float | Fraction = 0,
    end: float | Fraction | None = None,
    threads: int = 0,
    fast: bool = False,
    gpu: str | None = None,
) -> Samples:
    """Give (time, picture) for every time i / fps: the frame that is shown then, as RGB (H, W, 3) uint8.

    Time counts from the first frame. Parts that share their borders give together exactly the samples of one pass; a
    part begins at the key frame before it. A file that ends early raises a VideoError after its last frame.

    path     a video file
    fps      samples per second
    size     one side of a square, or height and width: frames are scaled without keeping their shape
    start    samples at this time and later
    end      samples before this time
    threads  that decode; 0 is all cores
    fast     decode less: frames that no other refers to are left out, or all but key frames where these are close
             enough; a frame may be up to two rows older, and pictures are rougher
    gpu      "cuda": where sampling is fast, large frames are decoded there, if driver and codec let one
    """
    rate = as_rate(fps)
    samples = Samples(path, rate, fast)
    first = sample_number(start, rate)
    last = None if end is None else sample_number(end, rate)
    samples._frames = _sample(samples, size, first, last, threads, gpu if fast else None)
    return samples


def frame_at(path: str | os.PathLike[str], time: float) -> Picture | None:
    """The frame (H, W, 3) shown at a `time` in seconds; None more than 0.1 s past the end."""
    for at in (time, time - 0.1):
        samples = sample_frames(path, fps=1000, start=at, end=at + 0.002)
        frame = next(samples, None)
        samples.close()
        if frame is not None:
            return frame[1]
    return None


def sample_number(time: float | Fraction, rate: Fraction) -> int:
    """The number of the first sample at or after `time`, where there are `rate` a second."""
    return max(0, math.ceil(Fraction(time).limit_denominator(1_000_000) * rate))


def _sample(
    samples: Samples, size: Size, first: int, last: int | None, threads: int, gpu: str | None
) -> Iterator[tuple[float, Picture]]:
    """The frame of sample i is the last one whose time is at most i / fps; so it is known when the next one comes."""
    fps, number = samples.fps, first
    with ExitStack() as files:

        def begin() -> tuple[Any, Any]:
            container, stream = files.enter_context(open_video(samples.path, threads, gpu))
            if samples.fast:
                _decode_less(samples, stream)
            return container, stream

        container, stream = begin()
        scale = Scaler(size)
        zero: int | None = None
        frames: Iterator[Any] | None = None
        if first > 0:
            zero, frames = _seek(samples, container, stream, first / fps)
            if frames is None:  # no way to get there but from the start
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
            what = f"not a single frame could be decoded (codec {stream.codec_context.name})"
            raise VideoError(f"{samples.path}: {what}. Copy it again, or leave it out.")
        check_length(samples.path, (reached - (begun or 0)) * base, count)
        if samples.fast and shown.pts is not None:  # the last frames may have been left out
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
    """Let the decoder of a `stream` leave out what `samples` can do without: all but key frames where these are close
    enough by the index of the file, else frames that no other refers to."""
    decoder = stream.codec_context
    decoder.options = {"skip_loop_filter": "all"}
    keys = [entry.timestamp for entry in stream.index_entries if entry.is_keyframe]
    longest = max((after - before for before, after in pairwise(keys)), default=math.inf)
    known = decoder.codec.intra_only or decoder.codec.canonical_name in KEYED
    samples.keys = known and longest * stream.time_base <= FAST_ROWS / samples.fps
    decoder.skip_frame = "NONKEY" if samples.keys else "NONREF"


def _needed_keys(packets: Iterator[Any], zero: int | None, fps: Fraction) -> Iterator[Any]:
    """Of the `packets` those of key frames that one of `fps` samples a second shows; time begins at `zero`, that of the
    first packet where it is None. None of them refers to another."""
    held: Any = None
    for packet in packets:
        if packet.pts is None or not packet.is_keyframe:
            continue
        zero = packet.pts if zero is None else zero
        scale = packet.time_base * fps
        if held is not None and math.ceil((held.pts - zero) * scale) != math.ceil(
            (packet.pts - zero) * scale
        ):
            yield held
        held = packet
    if held is not None:
        yield held


def _timed(
    samples: Samples, frames: Iterator[Any], stream: Any, base: Fraction, zero: int | None
) -> Iterator[tuple[Ticks, Ticks, Any]]:
    """(time since the first frame, how long it is shown, frame), in the order of showing, in ticks of `base` seconds;
    `zero`: when time began. Whole numbers: while Python works on fractions, no other video is decoded."""
    step = 1 / ((stated_rate(stream) or Fraction(25)) * base)
    second, jump = math.floor(1 / base), math.floor(JUMP / base)
    previous: Ticks | None = None
    due: Ticks = 0  # when the next frame comes if the timestamps say nothing else
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
                if (
                    following
                    and following.pts is not None
                    and previous <= following.pts - zero < time - second
                ):
                    samples.corrupt += (
                        1  # its timestamp is damaged, for the next frame comes before it
                    )
                    continue
            anew = previous is not None and previous - time > second and samples.restarts > splices
            if anew or (previous is not None and time - due > jump):
                # Two recordings in one file: the second goes on where the first ended.
                splices += anew
                zero, time = pts - round(due), due
            elif previous is not None and time < previous:
                continue  # a stray frame from the past
        previous, due = time, time + length
        yield time, length, frame


def _seek(
    samples: Samples, container: Any, stream: Any, target: Fraction
) -> tuple[int | None, Iterator[Any] | None]:
    """Go to the last key frame at or before `target`: the timestamp of time zero, and the frames from there.

    None for the frames where no seek leads there: without timestamps, or in a file that cannot be indexed.
    """
    head = next(_decode(samples, container, stream), None)
    if head is None or head.pts is None:
        return None, None
    zero, base, back = head.pts, head.time_base or stream.time_base, Fraction(0)
    while target > back:
        try:
            container.seek(zero + math.floor((target - back) / base), stream=stream, backward=True)
        except (av.error.FFmpegError, OSError):  # the file cannot be sought in
            break
        frames = _decode(samples, container, stream, zero)
        key = next((frame for frame in frames if frame.key_frame and frame.pts is not None), None)
        # Files are indexed by decoding time, so the seek may land on a key frame that is shown after the target. Frames
        # that are shown before the key frame (their references may be missing) come before it, so they are gone by now.
        if key is not None and (key.pts - zero) * base <= target:
            return zero, chain([key], frames)
        back = back * 2 + 1
    return None, None


def _decode(
    samples: Samples, container: Any, stream: Any, zero: int | None = None
) -> Iterator[Any]:
    """The frames that can be decoded; what cannot is counted and passed over. `zero`: the timestamp of time zero."""
    packets, decoder = samples.watch(container, stream), stream.codec_context
    if samples.keys:
        packets = _needed_keys(packets, zero, samples.fps)
    while True:
        try:
            packet = next(packets, None)
        except (av.error.FFmpegError, OSError):  # the file breaks off inside a packet
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
    """Scale a decoded frame to `size`, turn it and convert it to RGB; the last one is remembered."""

    def __init__(self, size: Size) -> None:
        self.size = (int(size), int(size)) if isinstance(size, int | np.integer) else size
        self._reformat = VideoReformatter().reformat
        # Without full chroma FFmpeg is seven grey levels off a plain bilinear filter on 1080p; with it, a third of one.
        self._how = (
            Interpolation.BILINEAR | Interpolation.FULL_CHR_H_INT | Interpolation.ACCURATE_RND
        )
        self._turn: tuple[bool, int, int] | None = None
        self._last: tuple[Any, Picture] | None = None

    def __call__(self, frame: Any) -> Picture:
        if self._last is not None and self._last[0] is frame:
            return self._last[1]
        if (
            self._turn is None
        ):  # once: asking a frame ties it into a reference cycle, which keeps 3 MB alive for long
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
