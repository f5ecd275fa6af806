"""The same work in many processes, here or on a Ray cluster. One verb, `map`; choose where it runs by name."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stepcut.errors import OptionError, choose
from stepcut.parallel.contract import Engine
from stepcut.parallel.local import Local
from stepcut.parallel.ray import Ray

ENGINES: dict[str, Callable[[int | None, str | None], Engine]] = {"local": Local, "ray": Ray}


@contextmanager
def open_engine(
    engine: str | Engine | None = "local",
    workers: int | None = None,
    address: str | None = None,
    always: bool = False,
) -> Iterator[Engine | None]:
    """The engine for a block; None where this process does the work itself: where nothing asks for another.

    engine   "local" or "ray", or an engine, which stays open; left out, this process does the work
    workers  processes at once; left out, as many as cores and memory allow, or all that the cluster has
    address  of a Ray cluster ("auto": the one this machine belongs to); left out, Ray starts on this machine
    always   give an engine even where nothing asks for one

    One process is the fastest way on one machine, since it has all cores; worker processes outlive a video that
    crashes its decoder.
    """
    if workers is not None and (
        not isinstance(workers, int) or isinstance(workers, bool) or workers < 1
    ):
        raise OptionError(f"workers={workers!r}; give a whole number from 1 up, or leave it out.")
    if engine is not None and not isinstance(engine, str):
        yield engine
    elif engine in (None, "local") and workers is None and address is None and not always:
        yield None
    else:
        chosen = choose("engine", engine or "local", ENGINES)(workers, address)
        try:
            yield chosen
        finally:
            chosen.close()
