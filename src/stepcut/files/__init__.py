"""Files: addresses (s3://, gs://), atomic writing, locks, the cache and the state folder."""

import errno
import hashlib
import json
import os
import re
import secrets
import shlex
import shutil
import stat
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import url2pathname

from upath import UPath

from stepcut.errors import ExtraNeeded, OptionError, OutputError, check_kind
from stepcut.files.names import is_hole
from stepcut.plugins import pip_install
from stepcut.progress import warn_once

# ---------------------------------------------------------------------- addresses

Address = UPath  # a file or folder on shared storage
AnyPath = str | os.PathLike[str] | Address  # a file or folder as users pass it

_PUT_IS_WHOLE = frozenset(
    {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "oci", "memory"}
)  # Object stores with atomic uploads. Elsewhere, a file is moved after its upload.
_HERE = ("file://", "local://")
_VERSION_KEYS = (
    "size", "ETag", "etag", "md5Hash", "content_md5", "mtime", "LastModified", "last_modified",
    "created",
)  # fmt: skip
_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}


def as_path(where: AnyPath) -> Path | Address:
    """Return a path, or an address, which may contact its server; `file://` is a path."""
    if isinstance(where, Address):
        return where
    text = path_text(where)
    if text.startswith(_HERE):
        return Path(url2pathname(re.sub("^localhost(?=/)", "", text.split("://", 1)[1])))
    if not is_address(text):
        return Path(text)
    try:
        address = Address(text.rstrip("/"))
        _ = address.fs
    except ImportError as error:
        package = _PACKAGES.get(text.split("://", 1)[0], "the package it names")
        raise ExtraNeeded(f"{text}: {error}. Run: {pip_install(package)}") from error
    except (ValueError, OSError, EOFError) as error:
        what = f"{error}. Give a path, or an address such as s3://bucket/folder."
        if not isinstance(error, ValueError):
            what = f"the server does not answer ({error!r}). Check the address and try again."
        raise OptionError(f"{text}: {what}", path=text) from error
    return address


def is_address(text: str) -> bool:
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text) is not None and not text.startswith(_HERE)


def path_text(where: str | os.PathLike[str]) -> str:
    wanted = "a file, a folder or an address, as text or as a Path"
    check_kind("path", where, (str, os.PathLike), wanted)
    text = os.fspath(where)
    if not text:  # an unset shell variable, for example
        raise OptionError(f"the path is empty; give {wanted}.", setting="path", value=where)
    return text


def version(address: Address) -> str:
    address.fs.invalidate_cache()
    info = address.fs.info(address.path)
    stated = {key: str(info[key]) for key in _VERSION_KEYS if info.get(key) is not None}
    return json.dumps(stated, sort_keys=True)


def files_below(address: Address, pattern: bool = False) -> Iterator[Address]:
    for path in sorted(address.fs.glob(address.path) if pattern else address.fs.find(address.path)):
        yield Address(address.fs.unstrip_protocol(path))


def put(file: Path, address: Address) -> None:
    # Stores without folders may raise here. If a folder is really missing, the upload fails.
    with suppress(FileExistsError, NotImplementedError):
        address.fs.makedirs(address.parent.path, exist_ok=True)
    if address.protocol in _PUT_IS_WHOLE:
        address.fs.put_file(str(file), address.path)
        return
    beside = address.with_name(f".{address.name}.{uuid.uuid4().hex}.part")
    try:
        address.fs.put_file(str(file), beside.path)
        address.fs.mv(beside.path, address.path)
    finally:
        with suppress(FileNotFoundError):
            address.fs.rm_file(beside.path)


def whole_path(path: str) -> str:
    return path if is_address(path) else str(as_path(path).resolve())


# ---------------------------------------------------------------------- whole files

LONGEST_WAIT = 60.0  # seconds, for a folder that another program has locked
# names of unfinished files and folders
PART = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}([0-9a-f]{24})?\.part", re.DOTALL)


@contextmanager
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
    with suppress(OSError):  # Windows cannot open folders
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def clear_parts(target: Path) -> None:
    """Remove unfinished versions of `target` that killed runs left, after a day."""
    with suppress(OSError):  # no such folder, or another run removes them, too
        for part in target.parent.iterdir():
            named = PART.fullmatch(part.name)
            if not named or named["name"] != target.name:
                continue
            if time.time() - part.lstat().st_mtime > 86400:
                shutil.rmtree(part) if part.is_dir() else part.unlink()


def check_place(path: AnyPath, folder: bool = False) -> None:
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


@contextmanager
def output_errors(target: Path) -> Iterator[None]:
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


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Lock `folder` against other processes, where the system has locks."""
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
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                waited = time.monotonic() - begin
                if waited > LONGEST_WAIT:
                    what = (
                        f"{folder}: another program has locked this folder for {waited:.0f} s. End "
                    )
                    find = f"find it with: fuser {shlex.quote(str(folder))}"
                    what += f"that program ({find}), then try again."
                    raise OutputError(what, path=folder) from error
                if waited > 2:
                    warn_once(f"waiting for {folder}, which another program has locked.")
                time.sleep(0.01)
            except OSError:  # this disk does not support locks
                break
        yield
    finally:
        os.close(handle)


# ---------------------------------------------------------------------- cache and state

_MOST = 50 * 2**30  # bytes of local copies; the least recently used are deleted first


def cache_dir() -> Path:
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
    moment = time.time() if seconds is None else min(max(seconds, 0.0), LATEST)
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


def state_folder() -> Path:
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
