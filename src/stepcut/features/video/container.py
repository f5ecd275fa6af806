"""Open a video file: choose its picture stream, read how it is turned, and say clearly why a bad file is bad."""

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from shlex import quote
from typing import Any, BinaryIO

import av
import numpy as np
from av.codec.hwaccel import HWAccel
from av.stream import Disposition

from stepcut.errors import StepcutError, VideoError
from stepcut.files.addresses import Address
from stepcut.files.atomic import is_hole
from stepcut.progress import warn_once
from stepcut.timeline import clock

JUMP = 600
"""Seconds: a step in the timestamps larger than this, or backwards by one second, is a splice and not a pause. It is
one where packets go backwards, too: where frames are damaged, a decoder gives old ones."""

SKIPPED = 1024
"""Bytes between two packets of Matroska that are damage; what begins a cluster or a block takes less than a tenth."""

LARGE = 1280 * 720
"""Pixels: smaller frames are decoded by a few cores as fast as by a GPU, which takes longer to begin."""

CONTAINERS = ",".join((
    "mov", "mp4", "matroska", "webm", "avi", "mpeg", "mpegts", "mpegvideo", "mpeg1video", "mpeg2video", "vob", "asf",
    "flv", "live_flv", "ogg", "mxf", "nut", "dv", "gif", "wtv", "rm", "ivf", "obu", "av1", "h261", "h263", "h264",
    "hevc", "vvc", "m4v", "vc1", "mjpeg", "mpjpeg", "dirac", "cavsvideo", "yuv4mpegpipe",
))  # fmt: skip
"""The formats of FFmpeg that hold video and name no other file. It chooses one by content: without this list, a text
file called film.mp4 may be a playlist."""

OPEN_SECONDS = 30.0
"""Within which a file must be opened, and each packet of it read: whatever takes longer hangs."""

_MP4_BOXES = {
    b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"styp", b"sidx", b"moof", b"mfra", b"uuid", b"meta",
}  # fmt: skip


@contextmanager
def open_video(
    path: str | os.PathLike[str], threads: int = 0, gpu: str | None = None
) -> Iterator[tuple[Any, Any]]:
    """Open `path`; gives the PyAV container and the stream to decode, by so many `threads` (0 is all cores).

    All that touches the decoder happens inside such a block, and whatever goes wrong there is a VideoError. On a `gpu`
    ("cuda", "cuda:1") large frames are decoded, if driver and codec let one, and stay until scaled.
    """
    file = Path(path)
    with blame(file):
        check_file(file)
        try:
            container = _open(file, gpu)
        except av.error.ExitError as error:
            raise mendable(file, f"cannot be opened in {OPEN_SECONDS:g} seconds") from error
        except (av.error.FFmpegError, OSError) as error:
            if cut_short(file):
                what = (
                    f"the file is cut short ({file.stat().st_size:,} bytes, its index is missing)"
                )
                raise VideoError(
                    f"{file}: {what}. Copy it again, or try to repair it with: untrunc."
                ) from error
            if isinstance(error, av.error.ArgumentError):  # its format is not in the list
                raise VideoError(
                    f"{file}: not a video but text, a playlist, a picture or sound alone. Leave it out."
                ) from error
            what = f"not a video that can be read ({getattr(error, 'strerror', None) or error})"
            raise mendable(file, what) from error
        with container:
            stream = _choose_stream(file, container)
            stream.thread_type = "AUTO"
            stream.codec_context.thread_count = threads
            yield container, stream


def _open(file: Path, gpu: str | None) -> Any:
    """The PyAV container of `file`; its decoder runs on `gpu` where that can be and pays."""
    # "file:" so that a name with a colon is a name.
    how: dict[str, Any] = {
        "options": {"protocol_whitelist": "file", "format_whitelist": CONTAINERS},
        "timeout": OPEN_SECONDS,
        "metadata_errors": "replace",
    }
    container = av.open(f"file:{file}", **how)
    if gpu is None or max(map(_area, container.streams.video), default=0) < LARGE:
        return container
    # In a CUDA context of its own: that of torch, where there is one, has other flags, which FFmpeg refuses.
    number = gpu.partition(":")[2] or None
    accelerator = HWAccel("cuda", device=number, options={"primary_ctx": "0"}, is_hw_owned=True)
    try:
        faster = av.open(f"file:{file}", hwaccel=accelerator, **how)
    except (av.error.FFmpegError, OSError):  # no driver, or one that does not decode
        return container
    container.close()
    return faster


@contextmanager
def blame(path: Path | Address) -> Iterator[None]:
    """Any exception inside, but for a full disk, is the fault of the video at `path`, and raised as its VideoError."""
    try:
        yield
    except StepcutError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        if isinstance(path, Address):
            raise VideoError(
                f"{path}: cannot be fetched ({error}). Check the address and your rights."
            ) from error
        said = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        raise mendable(path, f"cannot be read ({said})") from error


def mendable(path: Path | Address, what: str, how: str = "fixed.mp4") -> VideoError:
    """The error of the video at `path`: `what` is wrong, and the command that may mend it, which ends in `how`."""
    return VideoError(f"{path}: {what}. Copy it again, or try: ffmpeg -i {quote(path.name)} {how}")


def check_file(file: Path) -> None:
    """Raise a VideoError unless `file` is a plain file with something in it, which may be read."""
    try:
        str(file).encode()
        state = file.stat()
        if not stat.S_ISREG(state.st_mode):
            what = "this is a folder" if file.is_dir() else "a pipe, a socket or a device"
            raise VideoError(f"{file}: {what}, not a video. Leave it out, or give the files in it.")
        with open(file, "rb"):
            pass
    except UnicodeEncodeError as error:
        raise VideoError(
            f"{file}: its name holds bytes that are not UTF-8 text. Rename the file."
        ) from error
    except FileNotFoundError as error:
        raise VideoError(
            f"{file}: no such file. Check the path; it is read from {Path.cwd()}."
        ) from error
    except OSError as error:
        raise VideoError(
            f"{file}: cannot be read ({error.strerror}). Check its permissions."
        ) from error
    if not state.st_size:
        raise VideoError(
            f"{file}: the file is empty (0 bytes). Copy it again from where it came from."
        )
    if is_hole(state):
        raise VideoError(
            f"{file}: the file states {state.st_size:,} bytes, but hardly any are on the disk. "
            "Copy it again from where it came from."
        )


def cut_short(file: Path) -> bool:
    """Whether an mp4 or Matroska `file` stops before the length that it states, or has no index; False for others."""
    with open(file, "rb") as opened:
        head = opened.read(64)
        if head.startswith(b"\x1aE\xdf\xa3"):
            return _matroska_end(head) > file.stat().st_size
        return _lacks_boxes(opened, file.stat().st_size)


def _lacks_boxes(opened: BinaryIO, size: int) -> bool:
    """Whether boxes of an mp4 file are missing: length (4 bytes), type (4 bytes); length 1: 8 bytes more; 0: the rest."""
    at, types = 0, set()
    while at + 8 <= size:
        opened.seek(at)
        head = opened.read(16)
        length, kind = int.from_bytes(head[:4], "big"), head[4:8]
        length = int.from_bytes(head[8:16], "big") if length == 1 else length
        if kind not in _MP4_BOXES and (at == 0 or not kind.isalnum()):
            break  # not an mp4; or padding, or damage that decoding will tell of
        types.add(kind)
        if length < 8 or at + length > size:
            return length >= 8 or b"moov" not in types
        at += length
    return bool(types) and b"moov" not in types


def _matroska_end(head: bytes) -> int:
    """Where the segment, which follows the header of a Matroska file, ends; 0 where it states no length.

    A length says by its leading zero bits how many bytes it has; all ones are an unknown length.
    """

    def number(at: int) -> tuple[int, int, int]:
        count = 9 - head[at].bit_length() if at < len(head) else 9
        ones = (1 << 7 * count) - 1
        return int.from_bytes(head[at : at + count], "big") & ones, ones, at + count

    header, _, at = number(4)  # after the four bytes that tell the kind
    segment, unknown, at = number(at + header + 4)
    return 0 if segment == unknown else at + segment


def _choose_stream(file: Path, container: Any) -> Any:
    """The default picture stream, the largest if there are several; never a cover picture."""
    films = [s for s in container.streams.video if not s.disposition & Disposition.attached_pic]
    if not films:
        what = "sound only" if container.streams.audio else "no video stream"
        raise VideoError(f"{file}: holds {what}. Leave it out, or record with picture.")
    best = max(films, key=lambda s: (bool(s.disposition & Disposition.default), _area(s)))
    if best.codec_context is None:
        raise mendable(file, "its video codec is unknown to this FFmpeg", "-c:v libx264 fixed.mp4")
    return best


def _area(stream: Any) -> int:
    context = stream.codec_context
    return 0 if context is None else context.width * context.height


def packets_of(container: Any, stream: Any) -> Iterator[tuple[Any, bool]]:
    """The packets of a `stream`, each with whether the `container` passed over bytes since the one before it.

    At a damaged place Matroska goes on at the next cluster without a word; bytes between packets that no packet of any
    stream holds tell it. Of other kinds this is not known.
    """
    tells, skipped = container.format.name.startswith("matroska"), False
    begin: int | None = None
    end = 0
    for packet in container.demux() if tells else container.demux(stream):
        if tells and packet.size:
            skipped = skipped or (None not in (begin, packet.pos) and packet.pos - end > SKIPPED)
            end = packet.size + (
                end if packet.pos == begin else packet.pos or 0
            )  # several may share a block
            begin = packet.pos
        if packet.stream.index == stream.index:
            yield packet, skipped
            skipped = False


def turn_of(frame: Any) -> tuple[bool, int, int]:
    """How a decoded `frame` is turned before it is shown: whether its rows become columns, and then the step, 1 or -1
    where it is mirrored, through its rows and its columns.

    By its display matrix, the point (x, y) is shown at (a x + c y, b x + d y).
    """
    data = frame.side_data.get("DISPLAYMATRIX")
    if data is None:
        return False, 1, 1
    a, b, _, c, d, *_ = np.frombuffer(bytes(data), np.int32, count=9).tolist()
    transposed = abs(a) + abs(d) < abs(b) + abs(c)
    down, across = (b, c) if transposed else (d, a)
    return transposed, -1 if down < 0 else 1, -1 if across < 0 else 1


def stated_duration(container: Any, stream: Any) -> tuple[Fraction | None, bool]:
    """The seconds that a `container` states for a `stream`, when it does, and whether they are the picture's own."""
    if stream.duration:
        stated = Fraction(stream.duration * stream.time_base)
        if (
            container.format.name == "avi"
        ):  # without its index FFmpeg guesses the length from what is left of the file
            stated = max(stated, stream.frames / (stated_rate(stream) or Fraction(25)))
        return stated, True
    late = Fraction(0)
    if (
        container.format.name.startswith("matroska") and stream.start_time
    ):  # its lengths count from zero
        late = max(late, stream.start_time * stream.time_base)
    for key in ("DURATION", "DURATION-eng"):  # Matroska: per stream, "00:00:02.000000000"
        words = re.match(
            r"(\d{1,6}):(\d\d):(\d\d(?:\.\d{1,12})?)[\0 ]*$", stream.metadata.get(key, "")
        )
        if words:  # a tag that says something else says nothing
            return Fraction(words[1]) * 3600 + Fraction(words[2]) * 60 + Fraction(
                words[3]
            ) - late, True
    if container.duration:
        return Fraction(container.duration, 1_000_000) - late, len(container.streams) == 1
    return None, False


def check_length(path: str | os.PathLike[str], seconds: Fraction, frames: int) -> None:
    """Raise a VideoError of `path` where its `frames` are said to last more `seconds` than anybody can have filmed.

    A picture may stand still for ten minutes, and all of them for a minute each; what claims more has a damaged index,
    and would fill the memory with copies of one picture.
    """
    if seconds > JUMP + 60 * frames:
        what = f"its index claims that {frames} frames last {clock(float(seconds))}, more than a minute each"
        raise mendable(Path(path), what, "-c copy -bsf:v setts=N fixed.mp4")


def look_at_end(
    path: str | os.PathLike[str],
    container: Any,
    stream: Any,
    reached: Fraction,
    read: int,
    damaged: bool,
) -> tuple[Fraction, VideoError | None]:
    """When the last frame of `path` ends, and the error to raise after it where frames are missing, by the length that
    the `container` states for its `stream`: the file is cut short, or what follows the time `reached` is `damaged`.

    In Matroska the last picture may stand for longer than its frame says; then the file is whole, its packets end where
    it does (they were `read` up to this byte), and the stated length, where it is the picture's own, is when it ends.
    A time of a damaged Matroska cluster makes the video longer than it states, which is reported.
    """
    expected, own = stated_duration(container, stream)
    missing = expected - reached if expected is not None else Fraction(0)
    kind = container.format.name.split(",")[0]
    if own and kind == "matroska" and -missing > max(Fraction(1), (expected or 0) / 50):
        warn_once(
            f"{path}: its frames end at {clock(float(reached))}, but it states {clock(float(reached + missing))}; some "
            "of its times may be damaged. Try: "
            f"ffmpeg -i {quote(Path(path).name)} -c copy -bsf:v setts=N fixed.mp4"
        )
    if expected is None or missing <= Fraction(1, 2):
        return reached, None
    # In these a damaged place may end the reading without a word, and nothing cuts a film shorter than they state (as
    # edit lists do in mp4). Where the length is that of the whole file, sound may go on after the picture.
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
    return reached, mendable(file, f"{what}. The file is cut short or damaged", "-c copy fixed.mkv")


def stated_rate(stream: Any) -> Fraction | None:
    """Frames per second of a `stream` as the file states them, or as FFmpeg guesses."""
    rate = stream.average_rate or stream.guessed_rate or stream.base_rate
    return Fraction(rate) if rate else None
