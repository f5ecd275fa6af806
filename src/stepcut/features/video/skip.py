"""Decode less: which packets of a video can be left out when a sample may lie a little before its time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from stepcut.features.video.container import stated_rate


def skip_frames(stream: Any, times: str, tolerance: Fraction | None) -> None:
    """Tell the decoder of `stream`, before it begins, what it need not do with these `times` and this `tolerance`.

    With "fast" it does not smooth the edges of blocks either.
    """
    if tolerance is None:
        return
    # Up to three frames in a row are such that no other refers to them, in what encoders write.
    if 4 / (stated_rate(stream) or Fraction(1)) <= tolerance:
        stream.codec_context.skip_frame = "NONREF"
    if times == "fast":
        stream.codec_context.options = {"skip_loop_filter": "all"}


def needed(
    packets: Iterator[Any], zero: int | None, fps: Fraction, tolerance: Fraction | None
) -> Iterator[tuple[Any, bool]]:
    """The packets to decode, and whether some before this one were left out.

    A key frame stands for the samples until `tolerance` after it. Where the next key frame comes before any later
    sample, the packets between the two are left out, and the first of the two as well where it stands for none; what
    follows the last key frame never is.

    packets    of one stream, in the order of the file
    zero       the timestamp of time zero; that of the first packet unless given
    fps        samples per second
    tolerance  seconds, None for all packets
    """
    held: list[Any] = []  # the last key frame, and what follows it
    left_out = False
    due = late = Fraction(0)  # the first sample that it may stand for, and the first for which it is too old
    for packet in packets:
        known = tolerance is not None and packet.pts is not None and packet.size
        zero = packet.pts if zero is None and known else zero
        time = (packet.pts - zero) * packet.time_base if known else None
        if time is not None and packet.is_keyframe and held:
            if time > due:
                yield held[0], left_out
                left_out = False
            left_out = left_out or len(held) > 1 or time <= due
            held = []
        if time is not None and packet.is_keyframe:
            held = [packet]
            due, late = math.ceil(time * fps) / fps, (math.floor((time + (tolerance or 0)) * fps) + 1) / fps
        elif held and time is not None and time < late:
            held.append(packet)
        else:
            for one in [*held, packet]:
                yield one, left_out
                left_out = False
            held = []
    for one in held:
        yield one, left_out
        left_out = False
