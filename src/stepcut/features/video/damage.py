"""Notice that a video is truncated or damaged, and name a command that may repair it."""

import os
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, BinaryIO

from stepcut.errors import VideoError
from stepcut.progress import warn_once
from stepcut.rate import clock

if TYPE_CHECKING:  # the process that opens videos starts sooner without it
    from stepcut.files.addresses import Address

JUMP = 600
"""Seconds. A larger jump in the timestamps, or one second backwards, is a splice, not a pause.

Packets must go backwards, too, since a decoder returns old frames after damage."""

SKIPPED = 1024
"""Bytes between two Matroska packets that indicate damage; headers take less than a tenth."""

_MP4_BOXES = {
    b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"styp", b"sidx", b"moof", b"mfra",
    b"uuid", b"meta",
}  # fmt: skip


def mendable(path: "Path | Address", what: str, how: str = "fixed.mp4") -> VideoError:
    """Return a VideoError that ends in a command that may repair the video."""
    return VideoError(
        f"{path}: {what}. Copy it again, or try: ffmpeg -i {quote(path.name)} {how}", path=path
    )


def cut_short(file: Path) -> bool:
    """Return whether an mp4 or Matroska `file` is truncated or lacks its index."""
    with open(file, "rb") as opened:
        head = opened.read(64)
        if head.startswith(b"\x1aE\xdf\xa3"):
            return _matroska_end(head) > file.stat().st_size
        return _lacks_boxes(opened, file.stat().st_size)


def _lacks_boxes(opened: BinaryIO, size: int) -> bool:
    """Return whether an mp4 lacks boxes: a length and a type, of 4 bytes each.

    Length 1: 8 bytes more; 0: the rest.
    """
    at, types = 0, set()
    while at + 8 <= size:
        opened.seek(at)
        head = opened.read(16)
        length, kind = int.from_bytes(head[:4], "big"), head[4:8]
        length = int.from_bytes(head[8:16], "big") if length == 1 else length
        if kind not in _MP4_BOXES and (at == 0 or not kind.isalnum()):
            break  # not an mp4; or padding, or damage that decoding will report
        types.add(kind)
        if length < 8 or at + length > size:
            return length >= 8 or b"moov" not in types
        at += length
    return bool(types) and b"moov" not in types


def _matroska_end(head: bytes) -> int:
    """Return the end of the segment of a Matroska file; 0 if it states no length.

    The leading zero bits of a length give its number of bytes; all ones mean unknown.
    """

    def number(at: int) -> tuple[int, int, int]:
        count = 9 - head[at].bit_length() if at < len(head) else 9
        ones = (1 << 7 * count) - 1
        return int.from_bytes(head[at : at + count], "big") & ones, ones, at + count

    header, _, at = number(4)  # after the four bytes of the file type
    segment, unknown, at = number(at + header + 4)
    return 0 if segment == unknown else at + segment


def packets_of(container: Any, stream: Any) -> Iterator[tuple[Any, bool]]:
    """Yield the packets of a `stream`, each with whether bytes before it were skipped as damaged.

    Matroska silently continues at the next cluster after damage; a gap between the packets of all
    streams reveals it. Other formats never report it.
    """
    matroska, skipped = container.format.name.startswith("matroska"), False
    begin: int | None = None
    end = 0
    for packet in container.demux() if matroska else container.demux(stream):
        if matroska and packet.size:
            skipped = skipped or (None not in (begin, packet.pos) and packet.pos - end > SKIPPED)
            # Several packets may share a block.
            end = packet.size + (end if packet.pos == begin else packet.pos or 0)
            begin = packet.pos
        if packet.stream.index == stream.index:
            yield packet, skipped
            skipped = False


def stated_duration(container: Any, stream: Any) -> tuple[Fraction | None, bool]:
    """Return the seconds a `container` states, if any, and whether they are the stream's own."""
    if stream.duration:
        stated = Fraction(stream.duration * stream.time_base)
        if container.format.name == "avi":  # FFmpeg guesses it from the file size without an index
            stated = max(stated, stream.frames / (stated_rate(stream) or Fraction(25)))
        return stated, True
    late = Fraction(0)
    if container.format.name.startswith("matroska") and stream.start_time:  # counts from zero
        late = max(late, stream.start_time * stream.time_base)
    for key in ("DURATION", "DURATION-eng"):  # Matroska: per stream, "00:00:02.000000000"
        parts = re.match(
            r"(\d{1,6}):(\d\d):(\d\d(?:\.\d{1,12})?)[\0 ]*$", stream.metadata.get(key, "")
        )
        if parts:
            hours, minutes, seconds = map(Fraction, parts.groups())
            return hours * 3600 + minutes * 60 + seconds - late, True
    if container.duration:
        return Fraction(container.duration, 1_000_000) - late, len(container.streams) == 1
    return None, False


def check_length(path: str | os.PathLike[str], seconds: Fraction, frames: int) -> None:
    """Refuse a video whose few `frames` claim to last too many `seconds`.

    A picture may last ten minutes, and all of them a minute each. A longer video has a damaged
    index and would fill the memory with copies of one picture.
    """
    if seconds > JUMP + 60 * frames:
        length = clock(float(seconds))
        what = f"its index claims {length} for {frames} frames, more than a minute each"
        raise mendable(Path(path), what, "-c copy -bsf:v setts=N fixed.mp4")


def look_at_end(
    path: str | os.PathLike[str],
    container: Any,
    stream: Any,
    reached: Fraction,
    read: int,
    damaged: bool,
) -> tuple[Fraction, VideoError | None]:
    """Return the end of the last frame, and an error if frames are missing after it.

    Frames are missing if the stated length is longer than `reached`, and the file is truncated or
    `damaged` there. The last picture of a Matroska file may last longer than its frame states. If
    the packets (`read` up to this byte) end with the file, then the stated length is right. A
    damaged time of a Matroska cluster makes the video longer than stated, which is reported.
    """
    file, (expected, own) = Path(path), stated_duration(container, stream)
    if expected is None:
        return reached, None
    missing, kind = expected - reached, container.format.name.split(",")[0]
    end, stated = clock(float(reached)), clock(float(expected))
    if own and kind == "matroska" and -missing > max(Fraction(1), expected / 50):
        warn_once(
            f"{path}: its frames end at {end}, but it states {stated}; some times may be damaged. "
            f"Try: ffmpeg -i {quote(file.name)} -c copy -bsf:v setts=N fixed.mp4"
        )
    if missing <= Fraction(1, 2):
        return reached, None
    # These formats may end silently at damage, and do not state more than they show, as the edit
    # lists of mp4 do. If the length is that of the whole file, sound may outlast the picture.
    lost = missing > (max(Fraction(1), expected / 50) if own else max(Fraction(5), expected / 20))
    ends_early = cut_short(file)
    if not (damaged or ends_early or (lost and kind in ("matroska", "avi", "flv", "asf"))):
        return reached, None
    whole = read > 0.9 * file.stat().st_size and not ends_early
    if kind == "matroska" and not damaged and missing <= JUMP and whole:
        return expected if own else reached, None
    what = f"no frame after {end} (expected {stated}). The file is truncated or damaged"
    return reached, mendable(file, what, "-c copy fixed.mkv")


def stated_rate(stream: Any) -> Fraction | None:
    """Return the frames per second that the file states or FFmpeg guesses."""
    rate = stream.average_rate or stream.guessed_rate or stream.base_rate
    return Fraction(rate) if rate else None
