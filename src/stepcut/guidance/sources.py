"""Follow a source with a guide: features, a video, a camera (`camera:1`) or an address."""

import re
import sys
import time
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from stepcut.errors import VideoError
from stepcut.features.backbones.backbone import Backbone
from stepcut.features.compute import clip_length, frames_per_row, make_clips
from stepcut.features.find import natural
from stepcut.features.video.container import CONTAINERS
from stepcut.features.video.sample import Scaler, Size, sample_frames
from stepcut.guidance.guide import Alert, Guide, State
from stepcut.guidance.stream import NoDevice, Picture, Sample, Say, Stream

ADDRESS = re.compile(r"^(rtsp|rtsps|rtmp|http|https|udp|tcp|srt)://", re.IGNORECASE)
SPAN = 3.0
"""Seconds over which waiting for a source is averaged, to detect a machine that is too slow."""
CAMERA = re.compile(r"^camera(:(?P<which>.+))?$", re.IGNORECASE)


def is_live(source: str) -> bool:
    """Return whether a `source` is a camera or an address rather than a file."""
    return bool(CAMERA.match(source) or ADDRESS.match(source))


def follow_pictures(
    guide: Guide,
    source: str,
    rate: Fraction,
    backbone: Backbone,
    realtime: bool = False,
    **waits: Any,
) -> Iterator[State]:
    """Follow a video file, a camera or an address and yield a state per sample.

    `rate` and `backbone` are those of the procedure. With a clip model, states are half a clip
    late. `realtime` plays a file at its original speed, skipping what is too slow. `waits` are
    the `patience`, `stall` and `lost` of `Stream`.
    """
    length, per_row = clip_length(backbone), frames_per_row(backbone, rate)
    waiting: deque[Sample] = deque()  # until their clips are complete
    notes: list[str] = []

    def pictures(samples: Iterator[Sample]) -> Iterator[Picture]:
        for number, sample in enumerate(samples):
            waiting.extend([sample] if number % per_row == 0 else [])
            notes.extend(sample.notes)
            yield sample.picture

    with open_samples(source, rate * per_row, backbone.size, realtime, **waits) as samples:
        for clip in make_clips(pictures(samples), length, per_row):
            sample, alerts = waiting.popleft(), [Alert("source", note) for note in notes]
            notes.clear()
            row = backbone.extract(clip if length == 1 else clip[None])[0]
            yield guide.push(sample.time, row, sample.skipped, alerts)


@contextmanager
def open_samples(
    source: str, rate: Fraction, size: Size, realtime: bool = False, **waits: Any
) -> Iterator[Iterator[Sample]]:
    """Open a `source` and yield its samples, pictures of `size`; see `follow_pictures`."""
    if not is_live(source):
        samples = (Sample(at, picture) for at, picture in sample_frames(source, rate, size))
        yield keep_pace(samples, rate) if realtime else samples
        return
    connect = partial(frames_of, source, waits.get("stall", 10.0))
    with closing(
        Stream(hide_password(source), connect, Scaler(size), float(rate), **waits)
    ) as stream:
        yield stream


def keep_pace(samples: Iterator[Sample], rate: Fraction) -> Iterator[Sample]:
    """Yield `samples` at their time, as a camera does, skipping late ones."""
    begin, skipped = time.monotonic(), 0
    for sample in samples:
        late = time.monotonic() - begin - sample.time
        if late > 1 / rate:
            skipped += 1
            continue
        time.sleep(max(-late, 0))
        yield Sample(sample.time, sample.picture, skipped)


def frames_of(source: str, stall: float, say: Say) -> Generator[Any, None, None]:
    """Yield the frames of a camera (on Windows `camera:NAME`) or an address.

    PyAV gives up after `stall` seconds without data. `say` gets reports of problems.
    """
    import av

    how: dict[str, Any]
    if camera := CAMERA.match(source):
        which = camera["which"] or "0"
        device, driver = camera_device(which, sys.platform)
        if driver == "v4l2" and not Path(device).exists():
            there = ", ".join(f"camera:{path.name[5:]}" for path in cameras()) or "none"
            raise NoDevice(
                f"{source}: device {device} does not exist. Connected cameras: {there}.",
                path=device,
            )
        name, how = f"camera {which} ({device})", {"format": driver}
    else:
        # RTSP over TCP: UDP loses packets, and a lost key frame costs seconds of grey.
        options = {"rtsp_transport": "tcp"} if source.lower().startswith("rtsp") else {}
        # No playlists, since they can redirect to any other address.
        options["format_whitelist"] = f"rtsp,rtp,{CONTAINERS}"
        device, name, how = (
            source,
            hide_password(source),
            {"options": options, "timeout": (stall, stall)},
        )
    try:
        container = av.open(device, **how)
    except av.error.ArgumentError as error:
        what = "not a video stream, but a playlist or something else"
        raise VideoError(f"{name}: {what}. Use the address of the stream itself") from error
    except (av.error.FFmpegError, OSError, ValueError) as error:
        raise VideoError(f"{name}: cannot be opened ({error_text(error)})") from error
    yield from decoded(name, container, say)


def cameras() -> list[Path]:
    return sorted(Path("/dev").glob("video[0-9]*"), key=natural)


def camera_device(which: str, platform: str) -> tuple[str, str]:
    """Return FFmpeg's `(device, driver)` of the camera `which`.

    >>> camera_device("1", "linux")
    ('/dev/video1', 'v4l2')
    """
    if platform == "darwin":
        return which, "avfoundation"
    if platform == "win32":
        if which.isdigit():
            raise VideoError(
                f"camera:{which}: Windows names cameras, as in camera:Integrated Camera. "
                "List them with: ffmpeg -list_devices true -f dshow -i dummy",
                setting="source",
                value=f"camera:{which}",
            )
        return f"video={which}", "dshow"
    return (f"/dev/video{which}" if which.isdigit() else which), "v4l2"


def decoded(name: str, container: Any, say: Say) -> Iterator[Any]:
    """Yield the frames of a `container` that can be decoded, skipping damaged packets.

    A machine that is too slow for a stream never waits for it. Then only key frames are decoded,
    and `say` reports it.
    """
    import av

    with container:
        if not container.streams.video:
            raise VideoError(f"{name}: contains no video")
        stream = container.streams.video[0]
        packets = container.demux(stream)
        since = began = time.monotonic()
        waited, hurried = 0.0, False
        try:
            while (packet := next(packets, None)) is not None:
                now = time.monotonic()
                waited += now - began
                if now - since >= SPAN:
                    # Two thresholds avoid frequent switching.
                    busy = waited / (now - since) < (0.5 if hurried else 0.02)
                    if busy != hurried:
                        stream.codec_context.skip_frame = "NONKEY" if busy else "DEFAULT"
                        say(
                            "the stream is too fast to decode; using key frames only"
                            if busy
                            else "decoding every frame again"
                        )
                    since, waited, hurried = now, 0.0, busy
                try:
                    yield from packet.decode()
                except av.error.InvalidDataError:
                    continue
                finally:
                    began = time.monotonic()
        except av.error.FFmpegError as error:  # timeouts are not OSErrors
            raise VideoError(error_text(error)) from error


def hide_password(address: str) -> str:
    """Return an address without its password.

    >>> hide_password("rtsp://me:secret@10.0.0.5/live")
    'rtsp://***@10.0.0.5/live'
    """
    return re.sub(r"//[^/?#]+@", "//***@", address)


def error_text(error: BaseException) -> str:
    """Describe an `error` of the decoder without the address, which may contain a password."""
    if type(error).__name__ == "ExitError":
        return "no data within the time limit"
    return str(getattr(error, "strerror", None) or type(error).__name__)
