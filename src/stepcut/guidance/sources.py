"""Follow a source with a guide: feature rows, a video, a camera (`camera`, `camera:1`), an address
(`rtsp://...`)."""

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
from stepcut.features.backbones.contract import Backbone
from stepcut.features.compute import clip_length, frames_per_row, make_clips
from stepcut.features.find import natural
from stepcut.features.video.container import CONTAINERS
from stepcut.features.video.sample import Scaler, Size, sample_frames
from stepcut.guidance.guide import Alert, Guide, State
from stepcut.guidance.stream import NoDevice, Picture, Sample, Say, Stream

ADDRESS = re.compile(r"^(rtsp|rtsps|rtmp|http|https|udp|tcp|srt)://", re.IGNORECASE)
SPAN = 3.0
"""Seconds over which the waiting for a source is summed, to see whether it is faster than the
machine."""
CAMERA = re.compile(r"^camera(:(?P<which>.+))?$", re.IGNORECASE)


def is_live(source: str) -> bool:
    """Whether a `source` is a camera or an address rather than a file."""
    return bool(CAMERA.match(source) or ADDRESS.match(source))


def follow_pictures(
    guide: Guide,
    source: str,
    rate: Fraction,
    backbone: Backbone,
    realtime: bool = False,
    **waits: Any,
) -> Iterator[State]:
    """Follow a video file, `camera`, `camera:1`, or an address such as `rtsp://...`, at the `rate`
    and with the `backbone` of the procedure; gives a state per sample, with a clip model half a
    clip late.

    realtime   play a file at its own pace and skip what the machine is too slow for
    waits      `patience`, `stall` and `lost` of a live source, see `Stream`
    """
    length, per_row = clip_length(backbone), frames_per_row(backbone, rate)
    waiting: deque[Sample] = deque()  # for the end of their clips
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
            row = backbone.extract(clip if length == 1 else clip[None])[
                0
            ]  # a clip of one frame is a batch of it
            yield guide.push(sample.time, row, sample.skipped, alerts)


@contextmanager
def open_samples(
    source: str, rate: Fraction, size: Size, realtime: bool = False, **waits: Any
) -> Iterator[Iterator[Sample]]:
    """Samples of a `source`; `rate`, `realtime` and `waits` are those of `follow_pictures`, `size`
    that of pictures."""
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
    """The `samples`, `rate` a second, when it is time, as a camera gives them; those that are late
    are skipped."""
    begin, skipped = time.monotonic(), 0
    for sample in samples:
        late = time.monotonic() - begin - sample.time
        if late > 1 / rate:
            skipped += 1
            continue
        time.sleep(max(-late, 0))
        yield Sample(sample.time, sample.picture, skipped, sample.notes)


def frames_of(source: str, stall: float, say: Say) -> Generator[Any, None, None]:
    """The frames of a camera (`camera`, `camera:1`, on Windows `camera:NAME`) or an address, which
    PyAV gives up after `stall` seconds without data; `say` is told of trouble."""
    import av

    how: dict[str, Any]
    if camera := CAMERA.match(source):
        which = camera["which"] or "0"
        device, driver = camera_device(which, sys.platform)
        if driver == "v4l2" and not Path(device).exists():
            there = ", ".join(f"camera:{path.name[5:]}" for path in cameras()) or "none"
            raise NoDevice(
                f"{source}: there is no device {device}. Connected cameras: {there}.", path=device
            )
        name, how = f"camera {which} ({device})", {"format": driver}
    else:
        # RTSP over TCP: UDP loses packets, and a lost key frame is seconds of grey.
        options = {"rtsp_transport": "tcp"} if source.lower().startswith("rtsp") else {}
        # No playlist: it could send the reader to any other address.
        options["format_whitelist"] = f"rtsp,rtp,{CONTAINERS}"
        device, name, how = (
            source,
            hide_password(source),
            {"options": options, "timeout": (stall, stall)},
        )
    try:
        container = av.open(device, **how)
    except av.error.ArgumentError as error:
        what = "not a stream of video, but a playlist or something else"
        raise VideoError(f"{name}: {what}. Give the address of the stream itself") from error
    except (av.error.FFmpegError, OSError, ValueError) as error:
        raise VideoError(f"{name}: cannot be opened ({error_text(error)})") from error
    yield from decoded(name, container, say)


def cameras() -> list[Path]:
    """The cameras of a Linux machine."""
    return sorted(Path("/dev").glob("video[0-9]*"), key=natural)


def camera_device(which: str, platform: str) -> tuple[str, str]:
    """What FFmpeg calls the camera `which` on a `platform`: `(device, driver)`.

    >>> camera_device("1", "linux")
    ('/dev/video1', 'v4l2')
    """
    if platform == "darwin":
        return which, "avfoundation"
    if platform == "win32":
        if which.isdigit():
            raise VideoError(
                f"camera:{which}: Windows knows cameras by name. Give it, as in camera:Integrated Camera; "
                "ffmpeg -list_devices true -f dshow -i dummy lists them."
            )
        return f"video={which}", "dshow"
    return (f"/dev/video{which}" if which.isdigit() else which), "v4l2"


def decoded(name: str, container: Any, say: Say) -> Iterator[Any]:
    """The frames of a `container` called `name` that can be decoded; damaged packets are passed
    over.

    A machine too slow to decode all of a stream never waits for it: then only key frames are
    decoded until it does, and `say` is told.
    """
    import av

    with container:
        if not container.streams.video:
            raise VideoError(f"{name}: it holds no picture")
        stream = container.streams.video[0]
        packets = container.demux(stream)
        since = began = time.monotonic()
        waited, hurried = 0.0, False
        try:
            while (packet := next(packets, None)) is not None:
                now = time.monotonic()
                waited += now - began
                if now - since >= SPAN:
                    # Two limits, so that it does not flicker.
                    busy = waited / (now - since) < (0.5 if hurried else 0.02)
                    if busy != hurried:
                        stream.codec_context.skip_frame = "NONKEY" if busy else "DEFAULT"
                        say(
                            "too fast to decode; key frames only"
                            if busy
                            else "every frame is decoded again"
                        )
                    since, waited, hurried = now, 0.0, busy
                try:
                    yield from packet.decode()
                except av.error.InvalidDataError:
                    continue
                finally:
                    began = time.monotonic()
        except (
            av.error.FFmpegError
        ) as error:  # not all of them are OSErrors, the one of a timeout is none
            raise VideoError(error_text(error)) from error


def hide_password(address: str) -> str:
    """An address that may be printed.

    >>> hide_password("rtsp://me:secret@10.0.0.5/live")
    'rtsp://***@10.0.0.5/live'
    """
    return re.sub(r"//[^/?#]+@", "//***@", address)


def error_text(error: BaseException) -> str:
    """What an `error` of the decoder says, without the address (it may hold a password)."""
    if type(error).__name__ == "ExitError":
        return "no data came in time"
    return str(getattr(error, "strerror", None) or type(error).__name__)
