"""Progress hooks: a bar for people, JSON lines for programs, or nothing.

A hook is a function of one `Event`. An exception in it cancels the work; finished work is kept.
"""

import json
import logging
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar, Self, TextIO

from stepcut.errors import printable


@dataclass(frozen=True)
class Event:
    """The progress of one stage of the work.

    Examples
    --------
    >>> stages = []
    >>> again = sc.learn(videos, 3, restarts=2, progress=lambda event: stages.append(event.stage))
    >>> "steps" in stages
    True
    """

    stage: str
    """The stage: "features", "steps", "order"."""
    done: float
    total: float | None
    unit: str = ""
    """The unit of `done` and `total`: "frames", "iterations"."""
    item: str = ""
    """The current item, such as the name of a video."""
    values: Mapping[str, float] = field(default_factory=dict)
    """Further values, such as the loss."""
    elapsed: float = 0.0
    finished: bool = False
    begun: tuple[float, float] = (0.0, 0.0)
    """`done` and `elapsed` at the first progress; the time before was preparation."""

    @property
    def rate(self) -> float:
        """Units per second since the stage began."""
        return self.done / self.elapsed if self.elapsed > 0 else 0.0

    @property
    def left(self) -> float | None:
        """The estimated seconds left, or None."""
        done, elapsed = self.done - self.begun[0], self.elapsed - self.begun[1]
        if self.total is None or done <= 0 or elapsed <= 1:
            return None
        return (self.total - self.done) * elapsed / done


Hook = Callable[[Event], None]


@cache
def warn_once(sentence: str) -> None:
    logging.getLogger("stepcut").warning("%s", printable(sentence))


def silent(event: Event) -> None:
    """Ignore the event."""


def default_hook() -> Hook:
    return Bar() if "ipykernel" in sys.modules else silent


class Stage:
    def __init__(self, hook: Hook, name: str, total: float | None = None, unit: str = "") -> None:
        self.hook, self.name, self.total, self.unit = hook, name, total, unit
        self.done = 0.0
        self._begun: tuple[float, float] | None = None
        self._start = time.perf_counter()

    def __enter__(self) -> Self:
        self._report()
        return self

    def advance(self, by: float = 1, item: str = "", **values: float) -> None:
        self.done += by
        self._report(item, values)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._report(finished=True)

    def _report(
        self, item: str = "", values: Mapping[str, float] | None = None, finished: bool = False
    ) -> None:
        elapsed = time.perf_counter() - self._start
        if self.done and self._begun is None:
            self._begun = (self.done, elapsed)
        begun = self._begun or (0.0, 0.0)
        about = (self.name, self.done, self.total, self.unit)
        self.hook(Event(*about, item, values or {}, elapsed, finished, begun))


class Bar:
    """Shows one line per stage on a terminal, or a line every 10 s elsewhere."""

    _drawn: ClassVar["Bar | None"] = None

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.every = 0.1 if self.stream.isatty() else 10.0
        self._last = float("-inf")
        self._width = 0

    @classmethod
    def clear(cls) -> None:
        """Remove the line from the terminal before other output."""
        bar, cls._drawn = cls._drawn, None
        if bar is not None:
            bar.stream.write("\r" + " " * bar._width + "\r")
            bar.stream.flush()
            bar._width = 0

    def __call__(self, event: Event) -> None:
        now = time.monotonic()
        if not event.finished and now - self._last < self.every:
            return
        if not event.finished and event.elapsed < self.every and not self.stream.isatty():
            return
        self._last = now
        text = describe(event)
        if self.stream.isatty():
            if not event.finished:  # a wrapped line cannot be redrawn
                text = text[: shutil.get_terminal_size().columns - 1]
            self.stream.write("\r" + text.ljust(self._width) + ("\n" if event.finished else ""))
            self._width = 0 if event.finished else len(text)
            Bar._drawn = None if event.finished else self
        else:
            self.stream.write(text + "\n")
        self.stream.flush()


class JsonLog:
    """Writes at most ten lines per second, and always the last of a stage."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = sys.stderr if stream is None else stream
        self._last = float("-inf")

    def __call__(self, event: Event) -> None:
        now = time.monotonic()
        if not event.finished and now - self._last < 0.1:
            return
        self._last = now
        names = ("stage", "done", "total", "unit", "item", "elapsed", "finished")
        record = {name: getattr(event, name) for name in names}
        record |= {"elapsed": round(event.elapsed, 3), **event.values}
        self.stream.write(json.dumps(record) + "\n")
        self.stream.flush()


def describe(event: Event) -> str:
    share = f"{event.done:,.0f}"
    if event.total:
        share = f"{100 * event.done / event.total:3.0f} %  {event.done:,.0f}/{event.total:,.0f}"
    parts = [f"{event.stage:<10} {share} {event.unit}"]
    if event.rate >= 0.05:  # a lower rate would be rounded to 0.0
        parts.append(f"{event.rate:,.1f}/s")
    if event.finished:
        parts.append(f"in {duration(event.elapsed)}")
    elif event.left is not None:
        parts.append(f"{duration(event.left)} left")
    parts += [f"{name} {value:.4g}" for name, value in event.values.items()]
    if event.item:
        parts.append(printable(event.item).replace("\n", "%0A"))
    return "  ".join(parts)


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
