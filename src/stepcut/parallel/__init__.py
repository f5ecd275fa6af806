"""The same work in many processes, on this machine or on a Ray cluster."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stepcut.errors import choose
from stepcut.parallel.engine import Engine
from stepcut.parallel.local import Local
from stepcut.parallel.ray import Ray
from stepcut.settings import check_number

ENGINES: dict[str, Callable[[int | None, str | None], Engine]] = {"local": Local, "ray": Ray}


@contextmanager
def open_engine(
    engine: str | Engine | None = "local",
    workers: int | None = None,
    address: str | None = None,
    always: bool = False,
) -> Iterator[Engine | None]:
    """Open an engine for a block; None means that this process does the work itself.

    Even then, workers of this machine compute the features of videos. `engine` is "local", "ray",
    None for this process, or an engine, which stays open. `workers` are by default as many as cores
    and memory allow, or the cluster has. `address` is that of a Ray cluster ("auto" for that of
    this machine); by default Ray starts here. With `always`, return an engine even if no option
    asks for one.
    """
    if workers is not None:
        check_number("workers", workers, 1, whole=True)
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
