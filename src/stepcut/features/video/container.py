"""Open and probe video files: choose the stream, and explain why a bad file is bad."""

import errno
import os
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

import av
from av.codec.hwaccel import HWAccel
from av.stream import Disposition

from stepcut.errors import StepcutError, VideoError, WorkerDied, placed
from stepcut.features.video.damage import (
    check_length,
    cut_short,
    mendable,
    stated_duration,
    stated_rate,
)
from stepcut.files.sparse import is_hole
from stepcut.parallel.local import ask
from stepcut.parallel.worker import alive, is_worker, memory_limit, time_limit

if TYPE_CHECKING:  # the process that opens videos starts sooner without it
    from stepcut.files.addresses import Address

Answer = TypeVar("Answer")

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

OPEN_SECONDS = 30.0
"""Time limit for opening a video, or for progress in it."""
OPEN_MEMORY = 2**29
"""Bytes that a worker may take to open a video: a small file may claim an index of gigabytes."""
MOST_PIXELS = 2**27
"""Pixels of the largest frame that is decoded, somewhat more than 16K."""
PIXELS = {"max_pixels": str(MOST_PIXELS)}

_opened: set[tuple[int, ...]] = set()
"""Files that a worker has opened."""


def elsewhere(work: Callable[[str], Answer], path: str | os.PathLike[str]) -> Answer:
    """Return `work(path)`, which opens the video in a worker with limits of time and memory."""
    file = Path(path)
    with blame(file):
        check_file(file)
        seen = _identity(file)
    try:
        answer = ask(work, str(path))
    except WorkerDied as error:
        raise ended(file, error) from error
    if len(_opened) >= 10_000:
        _opened.clear()
    _opened.add(seen)
    return answer


def ended(path: "Path | Address", error: WorkerDied) -> VideoError:
    """Return the error of a video that a worker could not finish."""
    if "no progress" in str(error):
        return VideoError(f"{path}: {error}. Exclude it, or copy it to a faster disk.", path=path)
    return mendable(path, f"{error}. It crashes the decoder, or needs too much memory. Exclude it")


def _identity(file: Path) -> tuple[int, ...]:
    state = file.stat()
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


@contextmanager
def open_video(
    path: str | os.PathLike[str], threads: int = 0, gpu: str | None = None
) -> Iterator[tuple[Any, Any]]:
    """Open `path` and yield the PyAV container and the stream to decode.

    `threads` decode (0: all cores). Any error inside the block becomes a VideoError. With a `gpu`
    ("cuda", "cuda:1"), large frames are decoded there, if driver and codec support it. Outside of
    workers, a file that no worker has opened within the limits is opened by one first.
    """
    file = Path(path)
    with blame(file):
        check_file(file)
        if not is_worker() and _identity(file) not in _opened:
            elsewhere(_try, file)
        with open_here(file, threads, gpu) as opened:
            yield opened


def _try(path: str) -> None:
    with open_here(path):
        pass


@contextmanager
def open_here(
    path: str | os.PathLike[str], threads: int = 1, gpu: str | None = None
) -> Iterator[tuple[Any, Any]]:
    """Do the work of `open_video` in this process; a worker keeps its limits."""
    file = Path(path)
    with blame(file):
        try:
            with time_limit(OPEN_SECONDS, "opening it"), memory_limit(OPEN_MEMORY):
                container = _open(file, gpu)
        except (av.error.FFmpegError, OSError) as error:
            if cut_short(file):
                what = f"truncated ({file.stat().st_size:,} bytes, the index is missing). Copy it "
                raise _bad(file, f"{what}again, or try to repair it with: untrunc.") from error
            if isinstance(error, av.error.ArgumentError):  # its format is not in the list
                what = "not a video but text, a playlist, a picture or sound. Exclude it."
                raise _bad(file, what) from error
            what = f"not a readable video ({getattr(error, 'strerror', None) or error})"
            raise mendable(file, what) from error
        with container:
            stream = _choose_stream(file, container)
            stream.codec_context.options = PIXELS
            stream.thread_type = "AUTO"
            stream.codec_context.thread_count = threads
            yield container, stream


def _open(file: Path, gpu: str | None) -> Any:
    """Return the PyAV container of `file`; its decoder runs on `gpu` if possible and worthwhile."""
    # "file:" makes a name with a colon a file name.
    how: dict[str, Any] = {
        "options": {"protocol_whitelist": "file", "format_whitelist": CONTAINERS, **PIXELS},
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
        with placed(path=str(path)):
            yield
    except StepcutError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        if "://" in str(path):  # an address
            what = f"cannot be downloaded ({error}). Check the address and your permissions."
            raise _bad(path, what) from error
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        raise mendable(path, f"cannot be read ({reason})") from error


def _bad(path: "Path | Address", what: str) -> VideoError:
    return VideoError(f"{path}: {what}", path=path)


def check_file(file: Path) -> None:
    """Refuse anything but a readable, regular, non-empty file."""
    try:
        str(file).encode()
        state = file.stat()
        if not stat.S_ISREG(state.st_mode):
            what = "a folder" if file.is_dir() else "a pipe, a socket or a device"
            raise _bad(file, f"{what}, not a video. Exclude it, or name the files in it.")
        with open(file, "rb"):
            pass
    except UnicodeEncodeError as error:
        what = "its name contains bytes that are not UTF-8 text. Rename the file."
        raise _bad(file, what) from error
    except FileNotFoundError as error:
        what = f"no such file. Check the path, relative to {Path.cwd()}."
        raise _bad(file, what) from error
    except OSError as error:
        raise _bad(file, f"cannot be read ({error.strerror}). Check its permissions.") from error
    if not state.st_size:
        raise _bad(file, "the file is empty (0 bytes). Copy it again from its source.")
    if is_hole(state):
        what = f"the file states {state.st_size:,} bytes, but most are not on the disk. Copy it "
        raise _bad(file, f"{what}again from its source.")


def _choose_stream(file: Path, container: Any) -> Any:
    """Return the default video stream, the largest if there are several; never a cover picture.

    Claims that would take gigabytes of memory are refused.
    """
    videos = [s for s in container.streams.video if not s.disposition & Disposition.attached_pic]
    if not videos:
        what = "sound only" if container.streams.audio else "no video stream"
        raise _bad(file, f"contains {what}. Exclude it, or record with a picture.")
    best = max(videos, key=lambda s: (bool(s.disposition & Disposition.default), _area(s)))
    if best.codec_context is None:
        raise mendable(file, "FFmpeg does not know its video codec", "-c:v libx264 fixed.mp4")
    if best.frames > (size := file.stat().st_size):
        raise mendable(file, f"its index claims {best.frames:,} frames in {size:,} bytes")
    if _area(best) > MOST_PIXELS:
        width, height = best.codec_context.width, best.codec_context.height
        what = f"frames of {width:,} x {height:,} pixels; at most {MOST_PIXELS:,} pixels are "
        what += "decoded. Exclude it, or make it smaller: ffmpeg -i "
        raise _bad(file, f"{what}{quote(file.name)} -vf scale=1920:-2 small.mp4")
    return best


def _area(stream: Any) -> int:
    context = stream.codec_context
    return 0 if context is None else context.width * context.height


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
        shown = first or stream.codec_context
        size = (shown.width, shown.height)
        if not all(size):
            what = f"no frame can be decoded (codec {codec}). Copy it again, or exclude it."
            raise _bad(Path(path), what)
        width, height = size[::-1] if first is not None and turn_of(first)[0] else size
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
    return elsewhere(_header_length, path)


def _header_length(path: str) -> float | None:
    with open_here(path) as (container, stream):
        length, _own = stated_duration(container, stream)
    return None if length is None else float(length)


def read_packets(path: str | os.PathLike[str]) -> tuple[Fraction, list[Fraction]]:
    """Return the length of a video by the timestamps of its packets, and its key times."""
    first: Fraction | None = None
    keys: list[Fraction] = []
    end = total = Fraction(0)
    untimed = False
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
                untimed = True
                continue
            time = packet.pts * packet.time_base
            first = time if first is None else min(first, time)
            end = max(end, time + length)
            if packet.is_keyframe:
                keys.append(time)
    if first is None:
        return total, []
    fit = not untimed and all(after > before for before, after in pairwise(keys))
    return end - first, [time - first for time in keys] if fit else []
