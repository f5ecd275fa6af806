"""Files that appear whole or not at all, and folders that one process holds at a time: all results are written here."""

import contextlib
import errno
import json
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stepcut.errors import OutputError
from stepcut.files.addresses import Address, AnyPath, as_path, put


@contextlib.contextmanager
def whole_file(path: AnyPath) -> Iterator[Path]:
    """Give a temporary path beside `path`; when the block ends well, it takes the name of `path` in one step.

    When the block fails, or the process dies, `path` is what it was before. A full disk becomes an `OutputError`.
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
        place = target.resolve()  # a link stays one
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
        temporary.touch(exist_ok=False)
        try:
            yield temporary
            with open(temporary, "r+b") as written:  # Windows takes no other handle
                os.fsync(written.fileno())
            os.replace(temporary, place)
        finally:
            temporary.unlink(missing_ok=True)


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


def write_bytes(path: AnyPath, data: bytes) -> None:
    """Write `data` to `path`, whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: AnyPath, text: str) -> None:
    """Write UTF-8 `text` to `path`, whole or not at all."""
    write_bytes(path, text.encode())


def write_json(path: AnyPath, value: Any) -> None:
    """Write `value` to `path` as readable JSON, whole or not at all; NaN and infinity are refused.

    Half a surrogate pair, a byte of a file name that is no UTF-8, is written as JSON escapes it, and read as it was.
    """
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    write_bytes(path, f"{text}\n".encode(errors="backslashreplace"))


def read_json(path: AnyPath) -> Any:
    """The value of the JSON file at `path`, which may begin with the mark of some editors that it is UTF-8."""
    return json.loads(as_path(path).read_bytes().decode("utf-8-sig"))


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

    Where the system has no such locks (Windows, some network disks), nobody waits.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
