"""The same work in many processes, here or on a Ray cluster. One verb, `map`; choose where it runs by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stepcut.errors import OptionError, choose
from stepcut.parallel.contract import PIECE, Engine
from stepcut.parallel.local import Local
from stepcut.parallel.ray import Ray

ENGINES: dict[str, Callable[[int | None, str | None, float], Engine]] = {"local": Local, "ray": Ray}


def make_engine(
    engine: str | Engine | None = "local",
    workers: int | None = None,
    address: str | None = None,
    piece: float = PIECE,
) -> Engine:
    """The engine of that name, or the object itself if it is one already.

    engine   "local" or "ray", or an engine
    workers  processes at once; left out, as many as cores and memory allow, or all that the cluster has
    address  of a Ray cluster ("auto": the one this machine belongs to); left out, Ray starts on this machine
    piece    seconds of video that one worker sees at a time
    """
    if workers is not None and (not isinstance(workers, int) or isinstance(workers, bool) or workers < 1):
        raise OptionError(f"workers={workers!r}; give a whole number from 1 up, or leave it out.")
    if isinstance(engine, str) or engine is None:
        return choose("engine", engine or "local", ENGINES)(workers, address, piece)
    return engine


@contextmanager
def open_engine(
    engine: str | Engine | None = "local",
    workers: int | None = None,
    address: str | None = None,
    always: bool = False,
) -> Iterator[Engine | None]:
    """The engine for a block; None where this process does the work itself: where nothing asks for another.

    engine, workers, address   as `make_engine` takes them; left out, this process does the work
    always                     give an engine even then

    One process is the fastest way on one machine, since it has all cores; worker processes outlive a video that
    crashes its decoder. An engine that was handed over stays open.
    """
    if engine in (None, "local") and workers is None and address is None and not always:
        yield None
        return
    chosen = make_engine(engine, workers, address)
    try:
        yield chosen
    finally:
        if chosen is not engine:
            chosen.close()
