"""Atomic files and folder locks; stepcut writes all results with these functions."""

import contextlib
import errno
import json
import os
import re
import secrets
import shlex
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stepcut.errors import OutputError
from stepcut.files.addresses import Address, AnyPath, as_path, put
from stepcut.files.names import is_hole
from stepcut.progress import warn_once

LONGEST_WAIT = 60.0  # seconds, for a folder that another program has locked
# names of unfinished files and folders
PART = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}([0-9a-f]{24})?\.part", re.DOTALL)


@contextlib.contextmanager
def whole_file(path: AnyPath, follow: bool = True) -> Iterator[Path]:
    """Yield a temporary path that atomically replaces `path` when the block succeeds.

    Without `follow`, a symbolic link is replaced, so that one in an untrusted folder cannot
    redirect the write.
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
        try:
            temporary.touch(0o666 if mode is None else mode, exist_ok=False)
            yield temporary
            if mode is not None:
                temporary.chmod(mode)
            with open(temporary, "r+b") as written:  # Windows needs a writable handle
                os.fsync(written.fileno())
            os.replace(temporary, place)
            sync_folder(place.parent)
        finally:
            temporary.unlink(missing_ok=True)


def file_mode(path: Path) -> int | None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return None
    return None if stat.S_ISLNK(mode) else stat.S_IMODE(mode)


def sync_folder(folder: Path) -> None:
    """Sync `folder`, so that a rename survives a power failure."""
    with contextlib.suppress(OSError):  # Windows cannot open folders
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def clear_parts(target: Path) -> None:
    """Remove unfinished versions of `target` that killed runs left, after a day."""
    with contextlib.suppress(OSError):  # no such folder, or another run removes them, too
        for part in target.parent.iterdir():
            named = PART.fullmatch(part.name)
            if not named or named["name"] != target.name:
                continue
            if time.time() - part.lstat().st_mtime > 86400:
                shutil.rmtree(part) if part.is_dir() else part.unlink()


def check_place(path: AnyPath, folder: bool = False) -> None:
    """Refuse, before any work, a file or `folder` at `path` that cannot be written."""
    target = as_path(path)
    if isinstance(target, Address):
        return
    clear_parts(target)
    try:
        with output_errors(target):
            if target.exists() and folder != target.is_dir():
                raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
            if target.exists() and not folder and not target.is_file():
                what = f"{target}: this is not a regular file. Choose another name."
                raise OutputError(what, path=target)
            places = [target, *target.resolve().parents][not folder :]
            nearest = next(place for place in places if place.exists())
            with tempfile.TemporaryFile(dir=nearest, prefix=f".{target.name}.", suffix=".part"):
                pass
    except OutputError:
        raise
    except OSError as error:
        what = f"{target}: this place is not writable ({error}). Choose another place."
        raise OutputError(what, path=target) from error


def write_bytes(path: AnyPath, data: bytes, follow: bool = True) -> None:
    with whole_file(path, follow) as temporary:
        temporary.write_bytes(data)


def write_text(path: AnyPath, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: AnyPath, value: Any, follow: bool = True) -> None:
    """Write indented JSON, atomically; refuse NaN and infinity, escape lone surrogates."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    write_bytes(path, f"{text}\n".encode(errors="backslashreplace"), follow)


def read_json(path: AnyPath) -> Any:
    try:
        return json.loads(read_bytes(path).decode("utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"{as_path(path).name} is not JSON: {error}") from error


def read_bytes(path: AnyPath) -> bytes:
    """Read the file at `path`; raise OSError for a pipe, a device or a large sparse file."""
    place = as_path(path)
    if isinstance(place, Path):
        state = place.stat()
        if not (stat.S_ISREG(state.st_mode) or place.is_dir()) or is_hole(state):
            raise OSError(errno.EINVAL, "not a plain file", str(place))
    return place.read_bytes()


_ADVICE = {
    "ENOSPC EDQUOT": "no space left on the disk. Free some, then run the same command again; "
    "finished work is kept.",
    "EACCES EPERM EROFS": "writing is not permitted ({why}). Choose a writable folder.",
    "ENOTDIR EEXIST EISDIR EBUSY": "a file is in the place of a folder, or a folder in the place "
    "of a file ({why}). Choose another place.",
    "EFBIG": "the file exceeds the size limit. Raise the limit (ulimit -f), or choose another "
    "disk.",
    "ENAMETOOLONG": "the name is too long for this file system. Choose a shorter one.",
}


@contextlib.contextmanager
def output_errors(target: Path) -> Iterator[None]:
    """Turn an OSError of a write to `target` into an `OutputError` with advice."""
    try:
        yield
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        for names, advice in _ADVICE.items():
            if error.errno in [getattr(errno, name, None) for name in names.split()]:
                what = advice.format(why=error.strerror)
                raise OutputError(f"{target}: {what}", path=target) from error
        raise


@contextlib.contextmanager
def hold(folder: Path, shared: bool = False) -> Iterator[None]:
    """Lock `folder` against other processes or, with `shared`, against exclusive locks.

    Systems without locks (Windows, some network disks) are not locked.
    """
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    begin = time.monotonic()
    try:
        while True:
            try:
                fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                waited = time.monotonic() - begin
                if waited > LONGEST_WAIT:
                    what = f"{folder}: another program has locked this folder for {waited:.0f} s."
                    find = f"find it with: fuser {shlex.quote(str(folder))}"
                    advice = f"End that program ({find}), then try again."
                    raise OutputError(f"{what} {advice}", path=folder) from error
                if waited > 2:
                    warn_once(f"waiting for {folder}, which another program has locked.")
                time.sleep(0.01)
            except OSError:  # this disk does not support locks
                break
        yield
    finally:
        os.close(handle)
