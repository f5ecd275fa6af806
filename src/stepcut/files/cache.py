"""The cache: where stepcut keeps what can be computed again, and copies of files at addresses, the oldest make room."""

import errno
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stepcut.files.addresses import Address, AnyPath, as_path, version
from stepcut.files.atomic import hold, whole_file

_MOST = 50 * 2**30
"""Bytes of copies that are kept on this machine; the ones not used for longest go first."""


def cache_dir() -> Path:
    """Where stepcut keeps what can be computed again: `STEPCUT_CACHE`, or the platform's folder for that.

    It is made for its owner alone, as is the platform's folder where it was open to others; one that a user named and
    shares is left as it is.
    """
    chosen = os.environ.get("STEPCUT_CACHE")
    folder = Path(chosen).expanduser() if chosen else _platform_folder()
    with suppress(OSError):  # one that cannot be made is told where it is used
        if not folder.exists():
            folder.mkdir(0o700, parents=True)
        elif not chosen and folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
    return folder


def _platform_folder() -> Path:
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


def local(where: AnyPath) -> Path:
    """The file at `where` on this machine: itself, or a copy of what is at an address, which is not to be changed."""
    found = as_path(where)
    if not isinstance(found, Address):
        return found
    key = hashlib.sha256(f"{found} {version(found)}".encode()).hexdigest()[:32]
    copy = copies() / key / found.name
    copy.parent.mkdir(parents=True, exist_ok=True)
    with hold(copy.parent):  # workers want the same video at once
        if not copy.exists():
            _make_room(int(found.fs.size(found.path) or 0))
            with whole_file(copy) as temporary:
                found.fs.get_file(found.path, str(temporary))
    os.utime(copy)
    return copy


def copies() -> Path:
    """The folder in which the copies are kept."""
    return cache_dir() / "fetched"


def _make_room(size: int) -> None:
    """Remove the copies that were not used for longest until one of `size` bytes fits."""
    with hold(
        copies()
    ):  # two that make room at once would look for files that the other has removed
        kept = [(file.stat(), file) for file in copies().glob("*/*") if file.is_file()]
        for state, file in sorted(kept, key=lambda each: -each[0].st_mtime):
            size += state.st_size
            if size > _MOST:
                file.unlink(missing_ok=True)
