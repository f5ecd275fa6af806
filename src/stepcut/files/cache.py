"""The cache (recomputable data, copies of remote files) and the state folder (what is not)."""

import errno
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from stepcut.files.addresses import Address, AnyPath, as_path, version
from stepcut.files.atomic import hold, whole_file

_MOST = 50 * 2**30  # bytes of local copies; the least recently used are deleted first


def cache_dir() -> Path:
    """Return `STEPCUT_CACHE`, or the cache folder of the platform, which is private."""
    chosen = os.environ.get("STEPCUT_CACHE")
    home = Path.home()
    if chosen:
        folder = Path(chosen).expanduser()
    elif sys.platform == "darwin":
        folder = home / "Library" / "Caches" / "stepcut"
    elif sys.platform == "win32":
        folder = Path(os.environ.get("LOCALAPPDATA", home)) / "stepcut" / "cache"
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "stepcut"
    with suppress(OSError):  # the first write reports a folder that cannot be created
        if not folder.exists():
            folder.mkdir(0o700, parents=True)
        elif not chosen and folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
    return folder


LATEST = 253402300799.0  # the last second of the year 9999, which the time of a file may exceed


def wall_clock(seconds: float | None = None) -> str:
    """Return a time in seconds since 1970, or the present, in UTC."""
    moment = time.time() if seconds is None else min(max(seconds, 0.0), LATEST)
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


def state_folder() -> Path:
    """Return `STEPCUT_STATE`, or the platform's folder for data that cannot be recomputed."""
    if chosen := os.environ.get("STEPCUT_STATE"):
        return Path(chosen)
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        return Path(home) / "stepcut" / "state"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "stepcut"


@contextmanager
def writable(folder: Path) -> Iterator[Path]:
    """Yield `folder` if it is writable, otherwise a temporary one; a full disk is an error."""
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
    """Return the local file at `where`, or a read-only local copy of a remote one."""
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
    return cache_dir() / "fetched"


def _make_room(size: int) -> None:
    with hold(copies()):  # one process at a time may delete copies
        kept = [(file.stat(), file) for file in copies().glob("*/*") if file.is_file()]
        for state, file in sorted(kept, key=lambda each: -each[0].st_mtime):
            size += state.st_size
            if size > _MOST:
                file.unlink(missing_ok=True)
