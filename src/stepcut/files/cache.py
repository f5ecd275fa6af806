"""The cache: where stepcut keeps what can be computed again."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_dir() -> Path:
    """Where stepcut keeps what can be computed again: `STEPCUT_CACHE`, or the platform's folder for that."""
    if chosen := os.environ.get("STEPCUT_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "stepcut"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "stepcut" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stepcut"


@contextmanager
def writable(folder: Path) -> Iterator[Path]:
    """Give `folder` where it can be written to, else a temporary folder that is removed when the block ends.

    A full disk is an error all the same: a temporary folder would not help.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        with tempfile.TemporaryDirectory(prefix="stepcut-") as temporary:
            yield Path(temporary)
        return
    yield folder
