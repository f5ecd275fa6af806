"""Decode less: which packets of a video can be left out when a sample may lie a little before its time."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from stepcut.features.video.container import JUMP

UNREFERRED = 3
"""Frames in a row such that no other refers to them, at most, in what encoders write."""

KEYED = ("h264", "hevc", "vp8", "vp9", "av1", "mpeg1video", "mpeg2video", "mpeg4")
"""Codecs of which FFmpeg says which packets and frames are key frames, beside those that have no others; of H.263 it
says it of all packets, of QuickTime Animation of no frame."""


def skip_frames(
    decoder: Any, rate: Fraction | None, times: str, tolerance: Fraction | None, told: bool
) -> Fraction | None:
    """Tell a `decoder`, before it begins, what it need not do; what is left of the `tolerance` for leaving out packets.

    The video has `rate` frames a second, None where that is not known; the tolerance is in seconds, None for exact
    `times`; with "fast" the edges of blocks are not smoothed either. Where packets have `told` that nothing refers to
    their frame, the decoder never gets those. Where key frames are not told for sure, all is decoded.
    """
    if tolerance is None:
        return None
    if times == "fast":
        decoder.options = {"skip_loop_filter": "all"}
    if not (decoder.codec.intra_only or decoder.codec.canonical_name in KEYED):
        return None
    if told:
        return tolerance
    unseen = UNREFERRED / (rate or Fraction(1))
    if unseen > tolerance:
        return tolerance
    decoder.skip_frame = "NONREF"
    return tolerance - unseen


def needed(
    packets: Iterator[Any], zero: int | None, fps: Fraction, tolerance: Fraction | None
) -> Iterator[tuple[Any, bool]]:
    """The packets to decode, and whether some before this one were left out.

    The last sample before a key frame may show any frame that is at most `tolerance` older. Once such a frame is
    decoded, what follows it in the file until the key frame is left out; and a key frame is left out with all that
    follows it where no sample comes before the next. What follows the last key frame never is.

    The `packets` are of one stream, in the order of the file: none refers to a later one, or to one before its key
    frame. There are `fps` samples a second from the timestamp `zero`, that of the first packet unless given; the
    tolerance is in seconds, None for all packets.
    """
    held: list[
        tuple[int, Any]
    ] = []  # since the key frame, what may yet be left out, with its time in ticks
    sent: list[int] = []  # since the key frame, the times of what is decoded
    key, newest = 0, 0  # the times of the key frame and of the latest frame
    ticks: _Ticks | None = None
    left_out = False
    for packet in packets:
        time: int | None = None
        if tolerance is not None and packet.pts is not None and packet.size:
            zero = packet.pts if zero is None else zero
            time = packet.pts - zero
            if ticks is None:
                ticks, newest = _Ticks(packet.time_base, fps, tolerance), time
            if not newest - ticks.second <= time <= newest + JUMP * ticks.second:
                tolerance = time = (
                    None  # two recordings in one file: samples of the second lie elsewhere
                )
        count = len(held)
        if ticks is not None and time is not None:
            newest = max(newest, time)
            if packet.is_keyframe:
                count = _count_needed(
                    [at for at, _ in held], sent, key, *ticks.window(ticks.before(time))
                )
            else:
                held.append((time, packet))
                count = _count_older([at for at, _ in held], ticks.window(ticks.until(newest))[0])
        for at, one in held[:count]:
            yield one, left_out
            left_out = False
            sent.append(at)
        held = held[count:]
        if time is None:
            yield packet, left_out
            left_out = False
        elif packet.is_keyframe:
            left_out = left_out or bool(held)
            held, sent, key = [(time, packet)], [], time
    for _, one in held:
        yield one, left_out
        left_out = False


class _Ticks:
    """Samples in ticks, the unit of the timestamps, from time zero: fractions of seconds would cost as much as decoding
    a small frame."""

    def __init__(self, base: Fraction, fps: Fraction, tolerance: Fraction) -> None:
        self.second = math.ceil(1 / base)
        self._sample = (1 / (base * fps)).as_integer_ratio()
        self._tolerance = (tolerance / base).as_integer_ratio()

    def until(self, time: int) -> int:
        """The number of the last sample at or before `time`."""
        ticks, parts = self._sample
        return time * parts // ticks

    def before(self, time: int) -> int:
        """The number of the last sample before `time`."""
        ticks, parts = self._sample
        return (time * parts - 1) // ticks

    def window(self, number: int) -> tuple[int, int]:
        """From when to when the frames are shown that may stand for sample `number`, in whole ticks inside that."""
        (ticks, parts), (older, of) = self._sample, self._tolerance
        return -((older * parts - number * ticks * of) // (parts * of)), number * ticks // parts


def _count_older(held: list[int], oldest: int) -> int:
    """How many of the packets `held` to decode so that no frame is left that is shown before `oldest`."""
    return max((place for place, at in enumerate(held, start=1) if at < oldest), default=0)


def _count_needed(held: list[int], sent: list[int], key: int, oldest: int, last: int) -> int:
    """How many packets, whose frames are `held`, to decode before the next key frame, beside those that are `sent`, so
    that the last sample shows a frame from `oldest` to `last`; none where that is before the `key` frame."""
    if last < key and not sent:
        return 0
    for count in range(_count_older(held, oldest), len(held) + 1):
        if any(oldest <= at <= last for at in (*sent, *held[:count])):
            return count
    return len(held)
