"""Open a video file, choose its stream, read its rotation, and explain why a bad file is bad."""

import errno
import os
import re
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import av
from av.codec.hwaccel import HWAccel
from av.stream import Disposition

from stepcut.errors import StepcutError, VideoError
from stepcut.features.video.opener import Advance, ask
from stepcut.files.sparse import is_hole
from stepcut.progress import warn_once
from stepcut.rate import clock

if TYPE_CHECKING:  # the process that opens videos starts sooner without it
    from stepcut.files.addresses import Address

Answer = TypeVar("Answer")

JUMP = 600
"""Seconds. A larger jump in the timestamps, or one second backwards, is a splice, not a pause.

Packets must go backwards, too, since a decoder returns old frames after damage."""

SKIPPED = 1024
"""Bytes between two Matroska packets that indicate damage; headers take less than a tenth."""

LARGE = 1280 * 720
"""Pixels. Smaller frames are decoded by a few cores as fast as by a GPU."""

CONTAINERS = ",".join((
    "mov", "mp4", "matroska", "webm", "avi", "mpeg", "mpegts", "mpegvideo", "mpeg1video",
    "mpeg2video", "vob", "asf", "flv", "live_flv", "ogg", "mxf", "nut", "dv", "gif", "wtv", "rm",
    "ivf", "obu", "av1", "h261", "h263", "h264", "hevc", "vvc", "m4v", "vc1", "mjpeg", "mpjpeg",
    "dirac", "cavsvideo", "yuv4mpegpipe",
))  # fmt: skip
"""FFmpeg's formats that contain video and refer to no other file.

FFmpeg detects formats by content, so without this list a text file x.mp4 may be a playlist."""

_MP4_BOXES = {
    b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"styp", b"sidx", b"moof", b"mfra",
    b"uuid", b"meta",
}  # fmt: skip


_opened: set[tuple[int, ...]] = set()
"""Files that the other process has opened."""


def elsewhere(
    work: Callable[[str, Advance | None], Answer],
    path: str | os.PathLike[str],
    advance: Advance | None = None,
) -> Answer:
    """Return `work(path, advance)`, which opens the video in a process with a time limit."""
    file = Path(path)
    with blame(file):
        check_file(file)
        seen = _identity(file)
    answer = ask(work, file, advance)
    if len(_opened) >= 10_000:
        _opened.clear()
    _opened.add(seen)
    return answer


def _identity(file: Path) -> tuple[int, ...]:
    state = file.stat()
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


@contextmanager
def open_video(
    path: str | os.PathLike[str], threads: int = 0, gpu: str | None = None
) -> Iterator[tuple[Any, Any]]:
    """Open `path` and yield the PyAV container and the stream to decode.

    `threads` decode (0: all cores). Any error inside the block becomes a VideoError. With a `gpu`
    ("cuda", "cuda:1"), large frames are decoded there, if driver and codec support it. A file that
    no other process has opened within the time limit is opened there first.
    """
    file = Path(path)
    with blame(file):
        check_file(file)
        if _identity(file) not in _opened:
            elsewhere(_try, file)
        with open_here(file, threads, gpu) as opened:
            yield opened


def _try(path: str, _: Advance | None) -> None:
    with open_here(path):
        pass


@contextmanager
def open_here(
    path: str | os.PathLike[str], threads: int = 1, gpu: str | None = None
) -> Iterator[tuple[Any, Any]]:
    """Do the work of `open_video` in this process, without a time limit."""
    file = Path(path)
    with blame(file):
        try:
            container = _open(file, gpu)
        except (av.error.FFmpegError, OSError) as error:
            if cut_short(file):
                what = f"truncated ({file.stat().st_size:,} bytes, the index is missing)"
                raise VideoError(
                    f"{file}: {what}. Copy it again, or try to repair it with: untrunc."
                ) from error
            if isinstance(error, av.error.ArgumentError):  # its format is not in the list
                raise VideoError(
                    f"{file}: not a video but text, a playlist, a picture or sound. Exclude it."
                ) from error
            what = f"not a readable video ({getattr(error, 'strerror', None) or error})"
            raise mendable(file, what) from error
        with container:
            stream = _choose_stream(file, container)
            stream.thread_type = "AUTO"
            stream.codec_context.thread_count = threads
            yield container, stream


def _open(file: Path, gpu: str | None) -> Any:
    """Return the PyAV container of `file`; its decoder runs on `gpu` if possible and worthwhile."""
    # "file:" makes a name with a colon a file name.
    how: dict[str, Any] = {
        "options": {"protocol_whitelist": "file", "format_whitelist": CONTAINERS},
        "metadata_errors": "replace",
    }
    container = av.open(f"file:{file}", **how)
    if gpu is None or max(map(_area, container.streams.video), default=0) < LARGE:
        return container
    # Use a separate CUDA context: FFmpeg refuses the flags of torch's context.
    number = gpu.partition(":")[2] or None
    accelerator = HWAccel("cuda", device=number, options={"primary_ctx": "0"}, is_hw_owned=True)
    try:
        faster = av.open(f"file:{file}", hwaccel=accelerator, **how)
    except (av.error.FFmpegError, OSError):  # no driver, or no support for decoding
        return container
    container.close()
    return faster


@contextmanager
def blame(path: "Path | Address") -> Iterator[None]:
    """Turn any exception, except for a full disk, into a VideoError of the video at `path`."""
    try:
        yield
    except StepcutError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        if "://" in str(path):  # an address
            raise VideoError(
                f"{path}: cannot be downloaded ({error}). Check the address and your permissions."
            ) from error
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        raise mendable(path, f"cannot be read ({reason})") from error


def mendable(path: "Path | Address", what: str, how: str = "fixed.mp4") -> VideoError:
    """Return a VideoError that ends in a command that may repair the video."""
    return VideoError(f"{path}: {what}. Copy it again, or try: ffmpeg -i {quote(path.name)} {how}")


def check_file(file: Path) -> None:
    """Refuse anything but a readable, regular, non-empty file."""
    try:
        str(file).encode()
        state = file.stat()
        if not stat.S_ISREG(state.st_mode):
            what = "a folder" if file.is_dir() else "a pipe, a socket or a device"
            raise VideoError(f"{file}: {what}, not a video. Exclude it, or name the files in it.")
        with open(file, "rb"):
            pass
    except UnicodeEncodeError as error:
        raise VideoError(
            f"{file}: its name contains bytes that are not UTF-8 text. Rename the file."
        ) from error
    except FileNotFoundError as error:
        raise VideoError(
            f"{file}: no such file. Check the path, relative to {Path.cwd()}."
        ) from error
    except OSError as error:
        raise VideoError(
            f"{file}: cannot be read ({error.strerror}). Check its permissions."
        ) from error
    if not state.st_size:
        raise VideoError(f"{file}: the file is empty (0 bytes). Copy it again from its source.")
    if is_hole(state):
        raise VideoError(
            f"{file}: the file states {state.st_size:,} bytes, but most are not on the disk. "
            "Copy it again from its source."
        )


def cut_short(file: Path) -> bool:
    """Return whether an mp4 or Matroska `file` is truncated or lacks its index."""
    with open(file, "rb") as opened:
        head = opened.read(64)
        if head.startswith(b"\x1aE\xdf\xa3"):
            return _matroska_end(head) > file.stat().st_size
        return _lacks_boxes(opened, file.stat().st_size)


def _lacks_boxes(opened: BinaryIO, size: int) -> bool:
    """Return whether an mp4 lacks boxes.

    A box has a length (4 bytes) and a type (4 bytes). Length 1: 8 bytes more; 0: the rest.
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


def _choose_stream(file: Path, container: Any) -> Any:
    """Return the default video stream, the largest if there are several; never a cover picture."""
    videos = [s for s in container.streams.video if not s.disposition & Disposition.attached_pic]
    if not videos:
        what = "sound only" if container.streams.audio else "no video stream"
        raise VideoError(f"{file}: contains {what}. Exclude it, or record with a picture.")
    best = max(videos, key=lambda s: (bool(s.disposition & Disposition.default), _area(s)))
    if best.codec_context is None:
        raise mendable(file, "FFmpeg does not know its video codec", "-c:v libx264 fixed.mp4")
    return best


def _area(stream: Any) -> int:
    context = stream.codec_context
    return 0 if context is None else context.width * context.height


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


def turn_of(frame: Any) -> tuple[bool, int, int]:
    """Return the rotation of a `frame`: whether it is transposed, and the steps through its axes.

    A step is -1 for a mirrored axis. The display matrix shows (x, y) at (a x + c y, b x + d y).
    """
    data = frame.side_data.get("DISPLAYMATRIX")
    if data is None:
        return False, 1, 1
    a, b, _, c, d, *_ = struct.unpack_from("9i", bytes(data))
    transposed = abs(a) + abs(d) < abs(b) + abs(c)
    down, across = (b, c) if transposed else (d, a)
    return transposed, -1 if down < 0 else 1, -1 if across < 0 else 1


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
    expected, own = stated_duration(container, stream)
    missing = expected - reached if expected is not None else Fraction(0)
    kind = container.format.name.split(",")[0]
    if own and kind == "matroska" and -missing > max(Fraction(1), (expected or 0) / 50):
        warn_once(
            f"{path}: its frames end at {clock(float(reached))}, but it states "
            f"{clock(float(reached + missing))}; some times may be damaged. Try: "
            f"ffmpeg -i {quote(Path(path).name)} -c copy -bsf:v setts=N fixed.mp4"
        )
    if expected is None or missing <= Fraction(1, 2):
        return reached, None
    # These formats may end silently at damage, and do not state more than they show, as the edit
    # lists of mp4 do. If the length is that of the whole file, sound may outlast the picture.
    lost = missing > (max(Fraction(1), expected / 50) if own else max(Fraction(5), expected / 20))
    if not (
        damaged or (lost and kind in ("matroska", "avi", "flv", "asf")) or cut_short(Path(path))
    ):
        return reached, None
    file = Path(path)
    whole = read > 0.9 * file.stat().st_size and not cut_short(file)
    if kind == "matroska" and not damaged and missing <= JUMP and whole:
        return expected if own else reached, None
    what = f"no frame after {clock(float(reached))} (expected {clock(float(expected))})"
    return reached, mendable(file, f"{what}. The file is truncated or damaged", "-c copy fixed.mkv")


def stated_rate(stream: Any) -> Fraction | None:
    """Return the frames per second that the file states or FFmpeg guesses."""
    rate = stream.average_rate or stream.guessed_rate or stream.base_rate
    return Fraction(rate) if rate else None
