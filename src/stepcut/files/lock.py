"""A lock between processes: a file beside what it guards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Inside, this is the only process of this machine that holds the file `lock`, where the system can say so.

    The file stays: removing it would let two processes hold two files of one name.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lock, "w", encoding="ascii") as file:
        with contextlib.suppress(ImportError):  # Windows has no fcntl
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
