"""The journal of `stepcut watch`: a private record of the finished videos."""

import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from stepcut.errors import OutputError
from stepcut.files.atomic import output_errors, sync_folder
from stepcut.files.sparse import is_hole

Stamp = tuple[str | int, ...]
"""(path, fingerprint of procedure and options, size in bytes, mtime in ns); for a failed video also
the ctime in ns. Older versions wrote no fingerprint, so their stamps equal no current one."""

LATEST = 253402300799.0
"""The last second of the year 9999, which the time of a file may exceed."""


def wall_clock(seconds: float | None = None) -> str:
    """Return a time in seconds since 1970, or the present, in UTC.

    >>> wall_clock(1)
    '1970-01-01T00:00:01+00:00'
    """
    moment = time.time() if seconds is None else min(max(seconds, 0.0), LATEST)
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


def state_folder() -> Path:
    """Return the folder for data that cannot be recomputed: `STEPCUT_STATE` or the platform's."""
    if chosen := os.environ.get("STEPCUT_STATE"):
        return Path(chosen)
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        return Path(home) / "stepcut" / "state"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "stepcut"


def journal_of(folder: Path) -> Path:
    """Return the journal of a watched `folder`, outside of it, since others may write there."""
    place = folder.resolve()
    digest = hashlib.sha256(os.fsencode(place)).hexdigest()[:16]
    return state_folder() / "watch" / f"{digest}.jsonl"


class Journal:
    """An append-only file of JSON lines that only this user can change.

    `done` maps finished videos to their verdicts. A file that cannot be written, is a link, or that
    another user owns or can change, raises an `OutputError`.
    """

    def __init__(self, path: Path, make_folder: bool = False) -> None:
        self.path = path
        self.done: dict[Stamp, str] = {}
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            if make_folder:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.is_symlink():  # where the system has no O_NOFOLLOW
                raise self._refused("is a symbolic link, which stepcut does not follow")
            handle = os.open(path, flags, 0o600)
        except OSError as error:
            if isinstance(error, OutputError):
                raise
            raise self._refused(f"cannot be written ({error.strerror})") from error
        self.file = os.fdopen(handle, "r+b", buffering=0)
        try:
            self._check_owner(os.fstat(handle))
        except OutputError:
            self.close()
            raise
        sync_folder(self.path.parent)
        for entry in self._read():
            self._take(entry)

    def lock(self) -> None:
        """Refuse to run beside another watch with this journal, which would report twice."""
        with suppress(ImportError):  # Windows has no such locks
            import fcntl

            try:
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                why = "another watch uses this journal. End it, or use another journal"
                raise OutputError(
                    f"{self.path}: {why} with --journal FILE.", path=self.path
                ) from error
            except OSError:
                pass  # some network disks have no locks

    def write(self, entry: Mapping[str, Any]) -> None:
        """Append one line with its wall-clock time, and wait until it is on disk."""
        with output_errors(self.path):
            self.file.write(json.dumps({"time": wall_clock(), **entry}).encode() + b"\n")
            os.fsync(self.file.fileno())
        self._take(entry)

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, entry: Mapping[str, Any]) -> None:
        with suppress(KeyError, TypeError):  # another kind of line
            self.done[tuple(entry["stamp"])] = str(entry["verdict"])

    def _read(self) -> Iterator[Mapping[str, Any]]:
        content = self.file.read()
        if content and not content.endswith(b"\n"):  # a watch was killed while writing
            self.file.write(b"\n")
        for line in content.decode(errors="replace").splitlines():
            with suppress(ValueError, RecursionError):  # an incomplete or a hostile line
                yield json.loads(line)

    def _check_owner(self, state: os.stat_result) -> None:
        if not stat.S_ISREG(state.st_mode) or is_hole(state):
            raise self._refused("is not a regular file")
        if sys.platform == "win32":
            return
        if state.st_uid != os.geteuid():
            raise self._refused("belongs to another user, who could hide videos from the watch")
        if state.st_nlink != 1:
            raise self._refused("has a second name (a hard link), whose file it would change")
        if state.st_mode & 0o022:
            raise self._refused("can be changed by other users (chmod 600 prevents that)")

    def _refused(self, why: str) -> OutputError:
        return OutputError(
            f"{self.path}: the journal {why}. Name another with --journal FILE.", path=self.path
        )
