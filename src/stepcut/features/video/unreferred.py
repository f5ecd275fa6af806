"""What the first bytes of packets say: whether no other frame refers to theirs, and whether all begins anew with it."""

import math
from collections import deque
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

_DEEPEST = 17
"""Frames that an H.264 or HEVC stream may keep until they are shown, and the one that is being decoded."""


def find_teller(decoder: Any) -> Callable[[Any], bool] | None:
    """A function that says of a packet whether no other frame refers to its own; None where the codec does not tell.

    A packet is a row of units, each with a header in its first byte: in H.264 two bits of it are zero where nothing
    refers to the picture, in HEVC the even types below 16 are such pictures. The set-up of the `decoder` says how the
    units are told apart.
    """
    if decoder.name not in _CODECS:
        return None
    prefix, is_referred = _prefix(decoder), _CODECS[decoder.name].is_referred

    def tell(packet: Any) -> bool:
        said = {is_referred(header) for header in _headers(memoryview(packet), prefix)}
        return False in said and True not in said

    return tell


def begins_anew(decoder: Any, packet: Any) -> bool:
    """Whether a `decoder` may get the key frame in `packet` with others missing before it, and gives what is right from
    there on: then the frames that it works on need not be waited for.

    In AV1 and VP9 all key frames are such, in H.264 and HEVC those of their own kind of unit; after others come frames
    that are shown before the key frame and refer to earlier ones.
    """
    if decoder.name not in _CODECS:
        return decoder.codec.canonical_name in ("av1", "vp9")
    return any(
        map(_CODECS[decoder.name].begins_anew, _headers(memoryview(packet), _prefix(decoder)))
    )


def leave_out_unreferred(
    packets: Iterator[Any], tell: Callable[[Any], bool] | None, tolerance: Fraction | None
) -> Iterator[Any]:
    """The `packets` of one stream, in the order of the file, less those of which one can `tell` that nothing refers to
    them, unless the frame shown before is more than `tolerance` seconds older; all where that is None."""
    if tell is None or tolerance is None:
        yield from packets
        return
    kept: deque[int] = deque(
        maxlen=_DEEPEST
    )  # when frames are shown, the latest that were not left out
    for packet in packets:
        time = packet.pts
        if time is not None and packet.size:
            if tell(packet):
                oldest = time - math.floor(tolerance / packet.time_base)
                if any(oldest <= shown < time for shown in kept):
                    continue
            kept.append(time)
        yield packet


def _prefix(decoder: Any) -> int | None:
    """How many bytes the length of a unit takes, by the set-up of the `decoder`; None where units have none."""
    place, setup = _CODECS[decoder.name].place, bytes(decoder.extradata or b"")
    return (setup[place] & 3) + 1 if len(setup) > place and setup[:2] != b"\0\0" else None


def _headers(data: memoryview, prefix: int | None) -> Iterator[int]:
    """The first byte of every unit in `data`: each has its length before it, in `prefix` bytes, or else 0 0 1."""
    at = 0
    if prefix is None:
        whole = data.tobytes()
        while (at := whole.find(b"\0\0\1", at) + 3) > 2 and at < len(whole):
            yield whole[at]
        return
    while at + prefix < len(data):
        yield data[at + prefix]
        at += prefix + int.from_bytes(data[at : at + prefix], "big")


def _is_referred_h264(header: int) -> bool | None:
    """Whether others refer to the picture of a unit; None where it holds none."""
    return bool(header & 0x60) if 1 <= header & 31 <= 5 else None


def _is_referred_hevc(header: int) -> bool | None:
    """Whether others refer to the picture of a unit; None where it holds none."""
    kind = (header >> 1) & 63
    return (kind > 15 or kind % 2 == 1) if kind < 32 else None


class _Codec(NamedTuple):
    place: int
    """Which byte of a decoder's set-up says how many bytes a unit's length takes."""
    is_referred: Callable[[int], bool | None]
    begins_anew: Callable[[int], bool]
    """Whether a unit, by its header, refers to nothing before it, and nothing that follows does."""


_CODECS = {
    "h264": _Codec(4, _is_referred_h264, lambda header: header & 31 == 5),
    "hevc": _Codec(21, _is_referred_hevc, lambda header: 16 <= (header >> 1) & 63 <= 20),
}
