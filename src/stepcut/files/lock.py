"""One process at a time: a lock on a folder, which leaves no file behind."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def hold(folder: Path, shared: bool = False) -> Iterator[None]:
    """Inside, no other process of this machine holds `folder`, or, with `shared`, none that does not share it.

    Where the system has no such locks (Windows, some network disks), nobody waits.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
