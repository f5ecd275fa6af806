"""Addresses: files on shared storage (s3://, gs://, memory://, what fsspec reads), with the few verbs of a path.

A file at an address is read through a copy on this machine and appears there whole or not at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from stepcut.errors import ExtraNeeded, OptionError

_PUT_IS_WHOLE = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "oci", "memory"})
"""Object stores: what is put there appears when all of it is. Elsewhere it is put beside its place and then moved."""
_MOST = 50 * 2**30
"""Bytes of copies that are kept on this machine; the ones not used for longest go first."""


@dataclass(frozen=True)
class Address:
    """A file or a folder at `url`."""

    url: str

    def __post_init__(self) -> None:
        # fsspec says memory:///a for what it also calls memory://a.
        object.__setattr__(self, "url", self.url.rstrip("/").replace("memory:///", "memory://"))

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str | Path) -> Address:
        return Address(f"{self.url}/{Path(name).as_posix()}")

    @property
    def protocol(self) -> str:
        """`s3` of `s3://bucket/film.mp4`."""
        return self.url.split("://", 1)[0]

    @property
    def path(self) -> PurePosixPath:
        """`/bucket/film.mp4`, for names and suffixes."""
        return PurePosixPath("/", self.url.split("://", 1)[1])

    @property
    def name(self) -> str:
        """The last part."""
        return self.path.name

    @property
    def suffix(self) -> str:
        """`.mp4`."""
        return self.path.suffix

    @property
    def parent(self) -> Address:
        """The folder it is in."""
        return Address(self.url.rsplit("/", 1)[0])

    def with_name(self, name: str) -> Address:
        """Another file in the same folder."""
        return self.parent / name

    def absolute(self) -> Address:
        """Itself: an address is always whole."""
        return self

    def exists(self) -> bool:
        """Whether there is something."""
        return bool(self._fs().exists(self.url))

    def is_dir(self) -> bool:
        """Whether it is a folder, or the beginning of names in an object store."""
        return bool(self._fs().isdir(self.url))

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the file."""
        try:
            self._fs().rm_file(self.url)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def remove(self) -> None:
        """Remove the folder and all in it."""
        with contextlib.suppress(FileNotFoundError):
            self._fs().rm(self.url, recursive=True)

    def files(self, pattern: str | None = None) -> Iterator[Address]:
        """All files below it, or those that match `pattern` from here."""
        fs = self._fs()
        found = fs.find(self.url) if pattern is None else fs.glob(f"{self.url}/{pattern}")
        for path in sorted(found):
            yield Address(fs.unstrip_protocol(path))

    def folders(self) -> Iterator[Address]:
        """The folders in it."""
        fs = self._fs()
        for entry in fs.ls(self.url, detail=True):
            if entry["type"] == "directory":
                yield Address(fs.unstrip_protocol(entry["name"]))

    def read_bytes(self) -> bytes:
        """What is in the file."""
        data: bytes = self._fs().cat_file(self.url)
        return data

    def version(self) -> str:
        """Changes whenever the file does."""
        fs = self._fs()
        fs.invalidate_cache()
        known = fs.info(self.url)
        kept = ("size", "ETag", "etag", "md5Hash", "content_md5", "mtime", "LastModified", "last_modified", "created")
        said = {key: str(known[key]) for key in kept if known.get(key) is not None}
        return json.dumps(said, sort_keys=True)

    def fetch(self) -> Path:
        """A copy on this machine, made once for each version of the file; the caller only reads it."""
        from stepcut.files.atomic import whole_file

        key = hashlib.sha256(f"{self.url} {self.version()}".encode()).hexdigest()[:32]
        copy = copies() / key / self.name
        with _one_at_a_time(copies() / f"{key}.lock"):
            if not copy.exists():
                _make_room(int(self._fs().size(self.url) or 0))
                with whole_file(copy) as temporary:
                    self._fs().get_file(self.url, str(temporary))
        os.utime(copy)
        return copy

    def put(self, file: Path) -> None:
        """Put a file of this machine here, whole or not at all."""
        fs = self._fs()
        # Stores without folders have nothing to make, and some say so by an error, as they do of a bucket that is
        # there; where a folder is really missing, the put below fails and says which.
        with contextlib.suppress(FileExistsError, NotImplementedError):
            fs.makedirs(self.parent.url, exist_ok=True)
        if self.protocol in _PUT_IS_WHOLE:
            fs.put_file(str(file), self.url)
            return
        beside = self.with_name(f".{self.name}.{uuid.uuid4().hex}.part")
        try:
            fs.put_file(str(file), beside.url)
            fs.mv(beside.url, self.url)
        finally:
            beside.unlink(missing_ok=True)

    def _fs(self) -> Any:
        import fsspec

        try:
            return fsspec.filesystem(self.protocol)
        except ImportError as error:
            package = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}.get(self.protocol)
            raise ExtraNeeded(f"{self.url}: {error}. Run: pip install {package or 'the package it names'}") from error
        except ValueError as error:
            raise OptionError(f"{self.url}: {error}. Give a path, or an address such as s3://bucket/folder.") from error


AnyPath = str | os.PathLike[str] | Address
"""What a user may give for a file or a folder."""


def as_path(where: AnyPath) -> Path | Address:
    """A path, or an address where `where` begins like one. `file://` is a path.

    >>> as_path("s3://bucket/films").name, as_path("file:///films") == Path("/films")
    ('films', True)
    """
    if isinstance(where, Address):
        return where
    text = os.fspath(where)
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text):
        return Path(text)
    if text.startswith(("file://", "local://")):
        return Path(text.split("://", 1)[1])
    return Address(text)


def local(where: AnyPath) -> Path:
    """A file of this machine with what is at `where`: itself, or a copy."""
    found = as_path(where)
    return found.fetch() if isinstance(found, Address) else found


def copies() -> Path:
    """Where copies of files at addresses are kept."""
    from stepcut.files.cache import cache_dir

    return cache_dir() / "fetched"


@contextlib.contextmanager
def _one_at_a_time(lock: Path) -> Iterator[None]:
    """Inside is one process of this machine only, where the system can say so: workers want the same video at once."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lock, "w", encoding="ascii") as file:
        with contextlib.suppress(ImportError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make_room(size: int) -> None:
    """Remove the copies that were not used for longest until one of `size` bytes fits."""
    kept = sorted((f for f in copies().glob("*/*") if f.is_file()), key=lambda f: f.stat().st_mtime, reverse=True)
    for file in kept:
        size += file.stat().st_size
        if size > _MOST:
            file.unlink(missing_ok=True)
