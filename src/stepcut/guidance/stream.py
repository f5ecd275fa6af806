"""Stream: the newest frame of a live source. It skips frames instead of falling behind.

A thread reads the source, reconnects after outages, and keeps the newest picture of each sampling
slot of 1 / rate seconds. A picture that is not requested before the next slot counts as skipped.
So memory does not grow, and the answer is current on a slow machine, too.
"""

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import VideoError

log = logging.getLogger("stepcut")

Picture = NDArray[np.uint8]
Say = Callable[[str], None]
Connect = Callable[[Say], Generator[Any, None, None]]
"""Opens a source and yields its frames while they come; reports problems as text."""
LOST = 1.5
"""Seconds without a frame after which a source is lost; slow sources get three frame intervals."""
HEARTBEAT = 2.0
"""Seconds between two outage reports while a source is lost."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds before the first reconnection, doubled each time, and their maximum."""


class NoDevice(VideoError):
    """A camera that does not exist, so that waiting is useless."""


@dataclass(frozen=True)
class Outage:
    time: float
    """Seconds since the first frame; 0 before it."""
    waited: float
    """Seconds without a frame."""
    reason: str

    def to_json(self) -> dict[str, Any]:
        waited = round(self.waited, 1)
        return {
            "time": round(self.time, 3),
            "source": "lost",
            "waited": waited,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Sample:
    """One sampled picture, its time in seconds since the start, and messages of the source."""

    time: float
    picture: Picture
    skipped: int = 0
    """Number of samples skipped so far because the consumer was too slow."""
    notes: tuple[str, ...] = ()
    """Messages about the source since the last sample."""


class Stream(Iterator[Sample]):
    """Samples of a live source; `close()` ends it."""

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
        """Start reading the source `name`.

        connect   opens the source and yields its frames; `scale` converts a frame to a picture
        rate      pictures per second
        patience  seconds to wait for the first frame before raising a VideoError
        stall     seconds without a frame before the stream reports it
        lost      called during an outage, within two seconds and then every two seconds
        """
        self.name, self.connect, self.scale, self.rate = name, connect, scale, rate
        self.patience, self.stall, self.lost = patience, stall, lost
        self.skipped = 0
        self._news = threading.Condition()
        self._stop = threading.Event()
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

    # ------------------------------------------------------------------ for the consumer

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
            # Outside the lock, so that a slow callback does not block the source.
            self.lost(outage)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(timeout=2.0)

    def say(self, note: str) -> None:
        """Attach a note to the next sample, keeping the newest five."""
        log.warning("%s: %s", self.name, note)
        with self._news:
            self._notes = [*self._notes, note][-5:]

    def _check_patience(self) -> None:
        """Report a silent source once; give up only if it never delivered a frame."""
        silent = time.monotonic() - self._seen
        if self._start is None and silent > self.patience:
            self._stop.set()
            raise VideoError(
                f"{self.name}: no frame within {self.patience:g} s ({self._reason}). "
                "Check the address and that no other program uses the device, then try again.",
                path=self.name,
            )
        if self._start is not None and silent > self.stall and not self._quiet:
            self._quiet = True
            self.say(f"no frame for {self.stall:g} s; waiting")

    def _outage(self) -> Outage | None:
        """Return the outage to report now, if any."""
        now = time.monotonic()
        waited = now - self._seen
        if waited < max(LOST, 3 * self._interval) or now - self._beat < HEARTBEAT:
            return None
        self._beat = now
        since = 0.0 if self._start is None else now - self._start
        return Outage(since, waited, self._reason)

    # ------------------------------------------------------------------ the thread that reads

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
        """Read frames while they come; return the reason for the end."""
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
