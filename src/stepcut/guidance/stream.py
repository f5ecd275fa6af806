"""Stream: the newest frame of a live source. It skips rather than falls behind, and reconnects when the source drops.

A thread reads the source and keeps one picture per sampling slot of 1 / rate seconds, the newest only; whoever asks
gets that one. A picture that was never asked for before the next slot's came is counted as skipped. So memory does not
grow and the answer is never about the past, however slow the machine is.
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
"""Opens a source and gives its frames, as long as they come; tells what is worth knowing in words."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds before the first attempt to reconnect, doubled each time, and the most of them."""


@dataclass(frozen=True)
class Sample:
    """One sampled picture: seconds since the start, the picture, and what the source has to say."""

    time: float
    picture: Picture
    skipped: int = 0
    """How many samples were passed over so far because nobody asked in time."""
    notes: tuple[str, ...] = ()
    """What happened to the source since the last sample, in words."""


class Stream(Iterator[Sample]):
    """Samples of a live source, for as long as it lasts; `close()` lets go of it."""

    def __init__(
        self,
        name: str,
        connect: Connect,
        scale: Callable[[Any], Picture],
        rate: float,
        patience: float = 30.0,
        stall: float = 10.0,
    ) -> None:
        """`connect` opens the source `name` and gives its frames; `scale(frame)` makes a picture, `rate` a second.

        patience      seconds to wait for the very first frame; then a VideoError says that it never started
        stall         seconds without a frame after which the stream says so
        """
        self.name, self.connect, self.scale, self.rate = name, connect, scale, rate
        self.patience, self.stall = patience, stall
        self.skipped = 0
        self._news = threading.Condition()
        self._stop = threading.Event()
        self._start: float | None = None  # when the first frame came
        self._seen = time.monotonic()  # when the last frame came
        self._slot = -1
        self._waiting: Sample | None = None
        self._notes: list[str] = []
        self._reason = "no frame has come"
        self._failure: BaseException | None = None
        self._quiet = False
        self._thread = threading.Thread(target=self._read, name=f"stepcut-{name}", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------------ for whoever looks at the samples

    def __next__(self) -> Sample:
        with self._news:
            while True:
                if self._failure is not None:
                    raise self._failure
                if self._stop.is_set():
                    raise StopIteration
                if self._waiting is not None:
                    sample, self._waiting = self._waiting, None
                    notes, self._notes = tuple(self._notes), []
                    return Sample(sample.time, sample.picture, self.skipped, notes)
                self._check_patience()
                self._news.wait(0.05)

    def close(self) -> None:
        """Let go of the source."""
        self._stop.set()
        self._thread.join(timeout=2.0)

    def say(self, note: str) -> None:
        """Pass a note on with the next sample, the newest few only."""
        log.warning("%s: %s", self.name, note)
        with self._news:
            self._notes = [*self._notes, note][-5:]

    def _check_patience(self) -> None:
        """Say once that nothing comes; give up only on a source that never gave a frame."""
        silent = time.monotonic() - self._seen
        if self._start is None and silent > self.patience:
            self._stop.set()
            raise VideoError(
                f"{self.name}: not a single frame in {self.patience:g} s ({self._reason}). "
                "Check the address and that nobody else holds the device, then try again."
            )
        if self._start is not None and silent > self.stall and not self._quiet:
            self._quiet = True
            self.say(f"no frame for {self.stall:g} s; waiting")

    # ------------------------------------------------------------------ the thread that reads

    def _read(self) -> None:
        wait = FIRST_WAIT
        try:
            while not self._stop.is_set():
                before = self._seen
                self._reason = self._read_until_it_drops()
                if self._seen > before:
                    wait = FIRST_WAIT  # it did work in between
                if self._stop.is_set():
                    return
                if self._start is not None:
                    self.say(f"the source dropped ({self._reason}); trying again in {wait:g} s")
                self._stop.wait(wait)
                wait = min(2 * wait, LONGEST_WAIT)
        except (
            BaseException
        ) as error:  # whatever it is, whoever asks for the next sample hears of it
            with self._news:
                self._failure = error
                self._news.notify_all()

    def _read_until_it_drops(self) -> str:
        """Read frames as long as they come; gives the reason for the end."""
        try:
            with closing(self.connect(self.say)) as frames:
                for frame in frames:
                    if self._stop.is_set():
                        return "stopped"
                    self._take(frame)
        except (OSError, VideoError) as error:
            return " ".join(str(error).split()) or type(error).__name__
        return "it ended"

    def _take(self, frame: Any) -> None:
        now = time.monotonic()
        with self._news:
            if self._start is None:
                self._start = now
            elif self._quiet:
                self.say(f"frames come again after {now - self._seen:.0f} s")
            self._seen, self._quiet = now, False
            slot = int((now - self._start) * self.rate)
            if slot == self._slot:
                return
            self._slot = slot
        picture = self.scale(frame)
        with self._news:
            self.skipped += self._waiting is not None
            self._waiting = Sample(now - self._start, picture)
            self._news.notify_all()
