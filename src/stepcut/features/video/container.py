"""Open and probe video files, explain why a bad one is bad, and notice damage and missing ends."""

import errno
import os
import re
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple, TypeVar

import av
from av.stream import Disposition

from stepcut.errors import StepcutError, VideoError, WorkerDied, placed
from stepcut.files.names import is_hole
from stepcut.parallel.engine import ask
from stepcut.parallel.worker import alive, is_worker, memory_limit, time_limit
from stepcut.progress import warn_once
from stepcut.timeline import clock

FilePath = str | os.PathLike[str]
Answer = TypeVar("Answer")

# Formats with video that refer to no other file: a text file x.mp4 may be a playlist.
CONTAINERS = ",".join((
    "mov", "mp4", "matroska", "webm", "avi", "mpeg", "mpegts", "mpegvideo", "mpeg1video",
    "mpeg2video", "vob", "asf", "flv", "live_flv", "ogg", "mxf", "nut", "dv", "gif", "wtv", "rm",
    "ivf", "obu", "av1", "h261", "h263", "h264", "hevc", "vvc", "m4v", "vc1", "mjpeg", "mpjpeg",
    "dirac", "cavsvideo", "yuv4mpegpipe",
))  # fmt: skip

OPEN_SECONDS = 30.0  # time limit for opening a video, or for progress in it
OPEN_MEMORY = 2**29  # of a worker that opens a video: a small file may claim an index of gigabytes
MOST_PIXELS = 2**27  # of a frame, somewhat more than 16K
PIXELS = {"max_pixels": str(MOST_PIXELS)}

_opened: set[tuple[int, ...]] = set()  # files that a worker has opened


def elsewhere(work: Callable[[str], Answer], path: FilePath) -> Answer:
    """Return `work(path)`, which opens the video in a worker with limits of time and memory."""
    file = Path(path)
    with blame(file):
        seen = check_file(file)
    try:
        answer: Answer = ask(work, str(path))
    except WorkerDied as error:
        raise ended(file, error) from error
    _opened.add(seen)
    return answer


def ended(path: Any, error: WorkerDied) -> VideoError:
    if "no progress" in str(error):
        return _bad(path, f"{error}. Exclude it, or copy it to a faster disk.")
    return mendable(path, f"{error}. It crashes the decoder, or needs too much memory. Exclude it")


@contextmanager
def open_video(path: FilePath, threads: int = 0) -> Iterator[tuple[Any, Any]]:
    """Yield the PyAV container and the stream of `path`; any error becomes a VideoError.

    A file that no worker has opened within the limits is opened by one first.
    """
    file = Path(path)
    with blame(file):
        if check_file(file) not in _opened and not is_worker():
            elsewhere(_try, file)
        with _open(file, threads) as opened:
            yield opened


def _try(path: str) -> None:
    with _open(Path(path)):
        pass


@contextmanager
def _open(file: Path, threads: int = 1) -> Iterator[tuple[Any, Any]]:
    with blame(file):
        options = {"protocol_whitelist": "file", "format_whitelist": CONTAINERS, **PIXELS}
        try:
            with time_limit(OPEN_SECONDS, "opening it"), memory_limit(OPEN_MEMORY):
                # "file:" makes a name with a colon a file name.
                container = av.open(f"file:{file}", options=options, metadata_errors="replace")
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


@contextmanager
def blame(path: Any) -> Iterator[None]:
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


def _bad(path: Any, what: str) -> VideoError:
    return VideoError(f"{path}: {what}", path=path)


def mendable(path: Any, what: str, how: str = "fixed.mp4") -> VideoError:
    command = f"ffmpeg -i {quote(path.name)} {how}"
    return _bad(path, f"{what}. Copy it again, or convert it with a video program ({command}).")


def check_file(file: Path) -> tuple[int, ...]:
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
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


def _choose_stream(file: Path, container: Any) -> Any:
    """Return the default video stream, the largest if there are several; never a cover picture."""

    def area(stream: Any) -> int:
        context = stream.codec_context
        return 0 if context is None else context.width * context.height

    videos = [s for s in container.streams.video if not s.disposition & Disposition.attached_pic]
    if not videos:
        what = "sound only" if container.streams.audio else "no video stream"
        raise _bad(file, f"contains {what}. Exclude it, or record with a picture.")
    best = max(videos, key=lambda s: (bool(s.disposition & Disposition.default), area(s)))
    if best.codec_context is None:
        raise mendable(file, "FFmpeg does not know its video codec", "-c:v libx264 fixed.mp4")
    if best.frames > (size := file.stat().st_size):
        raise mendable(file, f"its index claims {best.frames:,} frames in {size:,} bytes")
    if area(best) > MOST_PIXELS:
        width, height = best.codec_context.width, best.codec_context.height
        what = f"frames of {width:,} x {height:,} pixels; at most {MOST_PIXELS:,} pixels are "
        what += "decoded. Exclude it, or make it smaller: ffmpeg -i "
        raise _bad(file, f"{what}{quote(file.name)} -vf scale=1920:-2 small.mp4")
    return best


def turn_of(frame: Any) -> tuple[bool, int, int]:
    """Return whether a `frame` is transposed, and the steps through its axes, -1 if mirrored.

    The display matrix shows (x, y) at (a x + c y, b x + d y).
    """
    data = frame.side_data.get("DISPLAYMATRIX")
    if data is None:
        return False, 1, 1
    a, b, _, c, d, *_ = struct.unpack_from("9i", bytes(data))
    transposed = abs(a) + abs(d) < abs(b) + abs(c)
    down, across = (b, c) if transposed else (d, a)
    return transposed, -1 if down < 0 else 1, -1 if across < 0 else 1


class VideoInfo(NamedTuple):
    duration: float  # seconds
    rate: Fraction | None  # average frames per second
    width: int  # as displayed, after rotation
    height: int
    codec: str
    frames: int | None  # if the file states it
    created: str = ""  # when the recording began, as the camera wrote


def probe(path: FilePath) -> VideoInfo:
    return elsewhere(read_info, path)


def read_info(path: FilePath) -> VideoInfo:
    file = Path(path)
    with time_limit(OPEN_SECONDS, "opening it"), _open(file) as (container, stream):
        codec, rate, frames = (
            stream.codec_context.codec.canonical_name,
            stated_rate(stream),
            stream.frames or None,
        )
        duration, _ = stated_duration(container, stream)
        try:
            first = next(container.decode(stream), None)
        except (av.error.FFmpegError, OSError):  # the first packet is damaged; sampling skips it
            first = None
        shown = first or stream.codec_context
        size = (shown.width, shown.height)
        if not all(size):
            what = f"no frame can be decoded (codec {codec}). Copy it again, or exclude it."
            raise _bad(file, what)
        width, height = size[::-1] if first is not None and turn_of(first)[0] else size
        if duration is None:
            duration, _ = read_packets(path)
        if frames is not None:
            check_length(path, duration, frames)
        created = container.metadata.get("creation_time", "")
        return VideoInfo(float(duration), rate, width, height, codec, frames, created)


def key_times(path: FilePath) -> list[Fraction]:
    """Return the times of the key frames after the first; empty if timestamps allow no seeking."""
    return elsewhere(read_packets, path)[1]


def read_packets(path: FilePath) -> tuple[Fraction, list[Fraction]]:
    first: Fraction | None = None
    keys: list[Fraction] = []
    end = total = Fraction(0)
    untimed = False
    with (
        time_limit(OPEN_SECONDS, "opening it"),
        _open(Path(path)) as (container, stream),
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


# ---------- damage, truncation and stated lengths

# A larger jump of timestamps (s), or one second backwards also of packets, is a splice.
JUMP = 600
# bytes between two Matroska packets that indicate damage; headers take under a tenth
SKIPPED = 1024
_MP4_BOXES = b"ftyp moov mdat free skip wide styp sidx moof mfra uuid meta".split()


def cut_short(file: Path) -> bool:
    size = file.stat().st_size
    with open(file, "rb") as opened:
        head = opened.read(64)
        if head.startswith(b"\x1aE\xdf\xa3"):
            return _matroska_end(head) > size
        # An mp4 consists of boxes: a length and a type, of 4 bytes each. Length 1: 8 bytes more; 0:
        # the rest.
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
    """Return the end of the segment of a Matroska file; 0 if it states no length."""

    def number(at: int) -> tuple[int, int, int]:
        count = 9 - head[at].bit_length() if at < len(head) else 9
        ones = (1 << 7 * count) - 1
        return int.from_bytes(head[at : at + count], "big") & ones, ones, at + count

    header, _, at = number(4)  # after the four bytes of the file type
    segment, unknown, at = number(at + header + 4)
    return 0 if segment == unknown else at + segment


def packets_of(container: Any, stream: Any) -> Iterator[tuple[Any, bool]]:
    """Yield the packets, each with whether bytes before it were skipped as damaged.

    Matroska silently continues at the next cluster; a gap between the packets of all streams
    reveals it.
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
        text = stream.metadata.get(key, "")
        if parts := re.match(r"(\d{1,6}):(\d\d):(\d\d(?:\.\d{1,12})?)[\0 ]*$", text):
            hours, minutes, seconds = map(Fraction, parts.groups())
            return hours * 3600 + minutes * 60 + seconds - late, True
    if container.duration:
        return Fraction(container.duration, 1_000_000) - late, len(container.streams) == 1
    return None, False


def check_length(path: FilePath, seconds: Fraction, frames: int) -> None:
    """Refuse a video whose few `frames` claim to last long: it would fill the memory."""
    if seconds > JUMP + 60 * frames:
        length = clock(float(seconds))
        what = f"its index claims {length} for {frames} frames, more than a minute each"
        raise mendable(Path(path), what, "-c copy -bsf:v setts=N fixed.mp4")


def look_at_end(
    path: FilePath, container: Any, stream: Any, reached: Fraction, read: int, damaged: bool
) -> tuple[Fraction, VideoError | None]:
    """Return the end of the last frame, and an error if frames are missing after it.

    They are if the stated length is longer than `reached`, and the file is truncated or `damaged`
    there. The last picture of a Matroska file may last longer than it states: if the packets
    (`read` up to this byte) end with the file, the stated length is right.
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
    rate = stream.average_rate or stream.guessed_rate or stream.base_rate
    return Fraction(rate) if rate else None
