"""Files that appear whole or not at all, and folders that one process holds at a time: all results are written here."""

import contextlib
import errno
import json
import os
import secrets
import shlex
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from stepcut.errors import OutputError
from stepcut.files.addresses import Address, AnyPath, as_path, put
from stepcut.progress import warn_once

LONGEST_WAIT = 60.0
"""Seconds to wait for a folder that another program holds; stepcut itself holds one for moments."""


@contextlib.contextmanager
def whole_file(path: AnyPath, follow: bool = True) -> Iterator[Path]:
    """Give a temporary path beside `path`; when the block ends well, it takes the name of `path` in one step.

    When the block fails, or the process dies, `path` is what it was before. A full disk becomes an `OutputError`.
    The mode of a file that is replaced stays. A link stays one and its file is written, unless `follow` is false:
    then the link itself is replaced, so that a stranger's folder cannot name a file elsewhere.
    """
    target = as_path(path)
    if isinstance(target, Address):
        with tempfile.TemporaryDirectory(prefix="stepcut-") as folder:
            temporary = Path(folder, target.name)
            temporary.touch()
            yield temporary
            put(temporary, target)
        return
    with output_errors(target):
        place = target.resolve() if follow else target.parent.resolve() / target.name
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
        mode = file_mode(place)
        temporary.touch(0o666 if mode is None else mode, exist_ok=False)
        try:
            yield temporary
            if mode is not None:
                temporary.chmod(mode)
            with open(temporary, "r+b") as written:  # Windows takes no other handle
                os.fsync(written.fileno())
            os.replace(temporary, place)
            sync_folder(place.parent)
        finally:
            temporary.unlink(missing_ok=True)


def file_mode(path: Path) -> int | None:
    """The permissions of the file or folder at `path`; None where there is none, or a link."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return None
    return None if stat.S_ISLNK(mode) else stat.S_IMODE(mode)


def sync_folder(folder: Path) -> None:
    """Write the names in `folder` to the disk, so that a rename outlives a loss of power."""
    with contextlib.suppress(OSError):  # Windows opens no folders
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_place(path: AnyPath, folder: bool = False) -> None:
    """Say before the work, not after it, that nothing can be written to `path`, a file, or a `folder`."""
    target = as_path(path)
    if isinstance(target, Address):
        return
    try:
        with output_errors(target):
            if target.exists() and folder != target.is_dir():
                raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
            if target.exists() and not folder and not target.is_file():
                raise OutputError(
                    f"{target}: it is no plain file, so it is left alone. Choose another name."
                )
            places = [target, *target.resolve().parents][not folder :]
            nearest = next(place for place in places if place.exists())
            with tempfile.TemporaryFile(dir=nearest, prefix=f".{target.name}.", suffix=".part"):
                pass
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(
            f"{target}: nothing can be written there ({error}). Choose another place."
        ) from error


def write_bytes(path: AnyPath, data: bytes, follow: bool = True) -> None:
    """Write `data` to `path`, whole or not at all; `follow` as for `whole_file`."""
    with whole_file(path, follow) as temporary:
        temporary.write_bytes(data)


def write_text(path: AnyPath, text: str) -> None:
    """Write UTF-8 `text` to `path`, whole or not at all."""
    write_bytes(path, text.encode())


def write_json(path: AnyPath, value: Any, follow: bool = True) -> None:
    """Write `value` to `path` as readable JSON, whole or not at all; NaN and infinity are refused.

    Half a surrogate pair, a byte of a file name that is no UTF-8, is written as JSON escapes it, and read as it was.
    `follow` as for `whole_file`.
    """
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    write_bytes(path, f"{text}\n".encode(errors="backslashreplace"), follow)


def read_json(path: AnyPath) -> Any:
    """The value of the JSON file at `path`, which may begin with the mark of some editors that it is UTF-8."""
    return json.loads(read_bytes(path).decode("utf-8-sig"))


def read_bytes(path: AnyPath) -> bytes:
    """The content of the file at `path`. A pipe, a device or a large hole, as a stranger may put there, is an OSError."""
    place = as_path(path)
    if isinstance(place, Path):
        state = place.stat()
        if not (stat.S_ISREG(state.st_mode) or place.is_dir()) or is_hole(state):
            raise OSError(errno.EINVAL, "not a plain file", str(place))
    return place.read_bytes()


def is_hole(state: os.stat_result) -> bool:
    """Whether a file of such a `state` is far longer than its content on the disk: cheap to make, and hours to read."""
    on_disk = getattr(state, "st_blocks", state.st_size) * 512
    return state.st_size > 100 * max(on_disk, 1 << 20)


@contextlib.contextmanager
def output_errors(target: Path) -> Iterator[None]:
    """Turn what the operating system says of a failed write to `target` into a sentence with advice."""
    try:
        yield
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            advice = "no space left on the disk. Free some, then run the same command again: finished work is kept."
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            advice = (
                f"writing is not permitted ({error.strerror}). Choose a folder you may write to."
            )
        elif error.errno in (errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.EBUSY):
            advice = f"a file stands where a folder is needed, or the reverse ({error.strerror}). Choose another place."
        elif error.errno == errno.EFBIG:
            advice = "larger than a file may be here. Raise the limit (ulimit -f), or choose a disk that takes it."
        elif error.errno == errno.ENAMETOOLONG:
            advice = "the name is too long for this file system. Choose a shorter one."
        else:
            raise
        raise OutputError(f"{target}: {advice}") from error


@contextlib.contextmanager
def hold(folder: Path, shared: bool = False) -> Iterator[None]:
    """Inside, no other process of this machine holds `folder`, or, with `shared`, none that does not share it.

    Where the system has no such locks (Windows, some network disks), nobody waits. Any user who may read the folder
    can hold it: what is waited for is logged, and after `LONGEST_WAIT` seconds it is an `OutputError`.
    """
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        _wait_for(folder, lambda: fcntl.flock(handle, kind | fcntl.LOCK_NB))
        yield
    finally:
        os.close(handle)


def _wait_for(folder: Path, lock: Callable[[], None]) -> None:
    """Call `lock` for this `folder` until it succeeds."""
    begin = time.monotonic()
    while True:
        try:
            lock()
        except BlockingIOError as error:
            waited = time.monotonic() - begin
            if waited > LONGEST_WAIT:
                raise OutputError(
                    f"{folder}: another program has locked this folder for {waited:.0f} s. "
                    f"End that program (fuser {shlex.quote(str(folder))} names it), then try again."
                ) from error
            if waited > 2:
                warn_once(f"waiting for {folder}, which another program has locked.")
            time.sleep(0.01)
        except OSError:  # this disk has no locks
            return
        else:
            return
