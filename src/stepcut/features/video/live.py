"""Live sources: cameras, addresses and pipes, and the newest frame of each sampling slot.

A picture that is not requested before the next slot counts as skipped, so memory does not grow.
A pipe is read to its end instead, frame by frame.
"""

import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import av
import msgspec
import numpy as np
from numpy.typing import NDArray

from stepcut.errors import VideoError
from stepcut.features.find import natural
from stepcut.features.video.container import CONTAINERS
from stepcut.features.video.sample import Scaler, Size, sample_frames

log = logging.getLogger("stepcut")

Picture = NDArray[np.uint8]
Say = Callable[[str], None]
# opens a source and yields its frames while they come; reports problems as text
Connect = Callable[[Say], Generator[Any, None, None]]
ADDRESS = re.compile(r"^(rtsp|rtsps|rtmp|http|https|udp|tcp|srt)://", re.IGNORECASE)
CAMERA = re.compile(r"^camera(:(?P<which>.+))?$", re.IGNORECASE)
PIPE = "-"  # the source that is the standard input
SPAN = 3.0  # seconds over which waiting is averaged, to detect a machine that is too slow
LOST = 1.5  # seconds without a frame, or three frame intervals, after which a source is lost
HEARTBEAT = 2.0  # seconds between two outage reports while a source is lost
# seconds before the first reconnection, doubled each time, and their maximum
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0


class NoDevice(VideoError):
    """A camera that does not exist, so that waiting is useless."""


class Outage(msgspec.Struct, frozen=True):
    time: float
    waited: float
    reason: str

    def to_json(self) -> dict[str, Any]:
        figures = {"waited": round(self.waited, 1), "reason": self.reason}
        return {"time": round(self.time, 3), "source": "lost", **figures}


class Sample(msgspec.Struct, frozen=True):
    time: float
    picture: Picture
    skipped: int = 0  # samples so far, because the consumer was too slow
    notes: tuple[str, ...] = ()  # about the source since the last sample


def is_live(source: str) -> bool:
    return bool(CAMERA.match(source) or ADDRESS.match(source))


def is_pipe(source: str) -> bool:
    return source == PIPE or Path(source).is_fifo()


@contextmanager
def open_samples(
    source: str, rate: Fraction, size: Size, realtime: bool = False, **waits: Any
) -> Iterator[Iterator[Sample]]:
    """Yield the samples of a `source`; `realtime` plays a file at its speed."""
    if is_live(source):
        connect = partial(frames_of, source, waits.get("stall", 10.0))
        name, scale = hide_password(source), Scaler(size)
        with closing(Stream(name, connect, scale, float(rate), **waits)) as stream:
            yield stream
        return
    if is_pipe(source):
        samples = _sample_pipe(frames_of(source, 0.0, log.warning), rate, Scaler(size))
    else:
        samples = (Sample(at, picture) for at, picture in sample_frames(source, rate, size))
    yield keep_pace(samples, rate) if realtime else samples


def _sample_pipe(
    frames: Iterable[Any], rate: Fraction, scale: Callable[[Any], Picture]
) -> Iterator[Sample]:
    zero: int | None = None
    shown: Any = None
    number, at, previous = 0, Fraction(0), Fraction(0)

    def shown_until(end: Fraction) -> Iterator[Sample]:
        nonlocal number
        while shown is not None and number / rate < end:
            yield Sample(float(number / rate), scale(shown))
            number += 1

    for frame in frames:
        if frame.pts is not None:  # some formats have no times
            zero = frame.pts if zero is None else zero
            at = (frame.pts - zero) * frame.time_base
        if at < previous:
            continue  # a frame from the past
        yield from shown_until(at)
        shown, previous = frame, at
        at += frame.duration * frame.time_base if frame.duration else Fraction(1, 25)
    yield from shown_until(at)


def keep_pace(samples: Iterator[Sample], rate: Fraction) -> Iterator[Sample]:
    begin, skipped = time.monotonic(), 0
    for sample in samples:
        late = time.monotonic() - begin - sample.time
        if late > 1 / rate:
            skipped += 1
            continue
        time.sleep(max(-late, 0))
        yield Sample(sample.time, sample.picture, skipped)


# ---------- opening and decoding


def frames_of(source: str, stall: float, say: Say) -> Generator[Any, None, None]:
    device: Any = source
    piped, name = is_pipe(source), hide_password(source)
    # No playlists, since they can redirect to any other address.
    options = {"format_whitelist": f"rtsp,rtp,{CONTAINERS}"}
    how: dict[str, Any] = {"options": options}
    with ExitStack() as files:
        if camera := CAMERA.match(source):
            which = camera["which"] or "0"
            device, driver = camera_device(which, sys.platform)
            if driver == "v4l2" and not Path(device).exists():
                connected = sorted(Path("/dev").glob("video[0-9]*"), key=natural)
                there = ", ".join(f"camera:{path.name[5:]}" for path in connected) or "none"
                what = f"device {device} does not exist. Connected cameras: {there}."
                raise NoDevice(f"{source}: {what}", path=device)
            name, how = f"camera {which} ({device})", {"format": driver}
        elif source == PIPE:
            device, name = sys.stdin.buffer, "standard input"
        elif piped:
            device = files.enter_context(open(source, "rb"))
        else:
            # RTSP over TCP: UDP loses packets, and a lost key frame costs seconds of grey.
            options |= {"rtsp_transport": "tcp"} if source.lower().startswith("rtsp") else {}
            how["timeout"] = (stall, stall)
        try:
            container = av.open(device, **how)
        except av.error.ArgumentError as error:
            what = "not a video stream, but a playlist or something else"
            raise VideoError(f"{name}: {what}. Use the address of the stream itself") from error
        except (av.error.FFmpegError, OSError, ValueError) as error:
            why, what = _error_text(error), "cannot be opened (%s)"
            what = "not a video that can be read from a pipe (%s). Use a file" if piped else what
            raise VideoError(f"{name}: {what % why}") from error
        yield from decoded(name, container, say, piped)


def camera_device(which: str, platform: str) -> tuple[str, str]:
    if platform == "darwin":
        return which, "avfoundation"
    if platform == "win32":
        if which.isdigit():
            what = f"camera:{which}: Windows names cameras, as in camera:Integrated Camera. List "
            what += "them with: ffmpeg -list_devices true -f dshow -i dummy"
            raise VideoError(what, setting="source", value=f"camera:{which}")
        return f"video={which}", "dshow"
    return (f"/dev/video{which}" if which.isdigit() else which), "v4l2"


def decoded(name: str, container: Any, say: Say, piped: bool = False) -> Iterator[Any]:
    """Yield the frames of a `container` that can be decoded; key frames only if it is too fast."""
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
                if now - since >= SPAN and not piped:
                    # Two thresholds avoid frequent switching.
                    busy = waited / (now - since) < (0.5 if hurried else 0.02)
                    if busy != hurried:
                        stream.codec_context.skip_frame = "NONKEY" if busy else "DEFAULT"
                        hurry = "the stream is too fast to decode; using key frames only"
                        say(hurry if busy else "decoding every frame again")
                    since, waited, hurried = now, 0.0, busy
                try:
                    yield from packet.decode()
                except av.error.InvalidDataError:
                    continue
                finally:
                    began = time.monotonic()
        except av.error.FFmpegError as error:  # timeouts are not OSErrors
            raise VideoError(_error_text(error)) from error


def hide_password(address: str) -> str:
    return re.sub(r"//[^/?#]+@", "//***@", address)


def _error_text(error: BaseException) -> str:
    """Describe an `error` without the address, which may contain a password."""
    if type(error).__name__ == "ExitError":
        return "no data within the time limit"
    return str(getattr(error, "strerror", None) or type(error).__name__)


# ---------- the newest frame


class Stream(Iterator[Sample]):
    """Samples of a live source; `lost` is called during an outage, every two seconds."""

    def __init__(
        self,
        name: str,
        connect: Connect,
        scale: Callable[[Any], Picture],
        rate: float,
        patience: float = 30.0,
        stall: float = 10.0,
        lost: Callable[[Outage], None] = lambda _: None,
    ) -> None:
        self.name, self.connect, self.scale, self.rate = name, connect, scale, rate
        self.patience, self.stall, self.lost = patience, stall, lost
        self.skipped = 0
        self._news, self._stop = threading.Condition(), threading.Event()
        self._start: float | None = None  # time of the first frame
        self._seen = time.monotonic()  # time of the last frame
        self._interval = 0.0  # average between two frames
        self._beat = 0.0  # time of the last outage report
        self._slot = -1
        self._waiting: Sample | None = None
        self._notes: list[str] = []
        self._reason = "no frame yet"
        self._failure: BaseException | None = None
        self._quiet = False
        self._thread = threading.Thread(target=self._read, name=f"stepcut-{name}", daemon=True)
        self._thread.start()

    def __next__(self) -> Sample:
        while True:
            with self._news:
                if self._failure is not None:
                    raise self._failure
                if self._stop.is_set():
                    raise StopIteration
                if self._waiting is not None:
                    sample, self._waiting = self._waiting, None
                    notes, self._notes = tuple(self._notes), []
                    return Sample(sample.time, sample.picture, self.skipped, notes)
                self._check_patience()
                outage = self._outage()
                if outage is None:
                    self._news.wait(0.05)
                    continue
            self.lost(outage)  # outside the lock, so that it does not block the source

    def close(self) -> None:
        self._stop.set()
        self._thread.join(timeout=2.0)

    def say(self, note: str) -> None:
        log.warning("%s: %s", self.name, note)
        with self._news:
            self._notes = [*self._notes, note][-5:]

    def _check_patience(self) -> None:
        """Report a silent source once; give up only if it never delivered a frame."""
        silent = time.monotonic() - self._seen
        if self._start is None and silent > self.patience:
            self._stop.set()
            what = f"no frame within {self.patience:g} s ({self._reason}). Check the address and "
            what += "that no other program uses the device, then try again."
            raise VideoError(f"{self.name}: {what}", path=self.name)
        if self._start is not None and silent > self.stall and not self._quiet:
            self._quiet = True
            self.say(f"no frame for {self.stall:g} s; waiting")

    def _outage(self) -> Outage | None:
        now = time.monotonic()
        waited = now - self._seen
        if waited < max(LOST, 3 * self._interval) or now - self._beat < HEARTBEAT:
            return None
        self._beat = now
        return Outage(0.0 if self._start is None else now - self._start, waited, self._reason)

    def _read(self) -> None:
        wait = FIRST_WAIT
        try:
            while not self._stop.is_set():
                before = self._seen
                self._reason = self._read_until_it_drops()
                if self._seen > before:
                    wait = FIRST_WAIT  # it worked in between
                if self._stop.is_set():
                    return
                if self._start is not None:
                    self.say(f"the source dropped ({self._reason}); trying again in {wait:g} s")
                self._stop.wait(wait)
                wait = min(2 * wait, LONGEST_WAIT)
        except BaseException as error:  # raised by the next `__next__`
            with self._news:
                self._failure = error
                self._news.notify_all()

    def _read_until_it_drops(self) -> str:
        try:
            with closing(self.connect(self.say)) as frames:
                for frame in frames:
                    if self._stop.is_set():
                        return "stopped"
                    self._take(frame)
        except (OSError, VideoError) as error:
            if isinstance(error, NoDevice) and self._start is None:
                raise
            return " ".join(str(error).split()) or type(error).__name__
        return "it ended"

    def _take(self, frame: Any) -> None:
        now = time.monotonic()
        with self._news:
            gap = now - self._seen
            if self._start is None:
                self._start = now
            elif self._quiet:
                self.say(f"frames again after {gap:.0f} s")
            elif gap < self.stall:
                self._interval = 0.8 * self._interval + 0.2 * gap
            self._seen, self._quiet, self._reason = now, False, "no frame"
            slot = int((now - self._start) * self.rate)
            if slot == self._slot:
                return
            self._slot = slot
        picture = self.scale(frame)
        with self._news:
            self.skipped += self._waiting is not None
            self._waiting = Sample(now - self._start, picture)
            self._news.notify_all()
