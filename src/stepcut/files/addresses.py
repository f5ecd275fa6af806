"""Addresses: files on shared storage (s3://, gs://, memory://, whatever fsspec reads) as paths of universal_pathlib."""

import contextlib
import json
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.request import url2pathname

from upath import UPath

from stepcut.errors import ExtraNeeded, OptionError, check_kind

Address = UPath
"""A file or a folder on shared storage."""
AnyPath = str | os.PathLike[str] | Address
"""What a user may give for a file or a folder."""

_PUT_IS_WHOLE = frozenset(
    {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "oci", "memory"}
)
"""Object stores: what is put there appears when all of it is. Elsewhere it is put under another name and then moved."""
_HERE = ("file://", "local://")
_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}


def as_path(where: AnyPath) -> Path | Address:
    """A path, or an address where `where` begins like one, whose server may be asked. `file://` is a path.

    >>> as_path("memory://bucket/films").name, as_path("file:///my%20films") == Path("/my films")
    ('films', True)
    """
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
        raise ExtraNeeded(f"{text}: {error}. Run: pip install {package}") from error
    except ValueError as error:
        raise OptionError(
            f"{text}: {error}. Give a path, or an address such as s3://bucket/folder."
        ) from error
    except (OSError, EOFError) as error:
        raise OptionError(
            f"{text}: no server answers ({error!r}). Check the address, and try it again."
        ) from error
    return address


def is_address(text: str) -> bool:
    """Whether `text` begins like an address. Nobody is asked: an address that a file names may be a stranger's."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text) is not None and not text.startswith(_HERE)


def path_text(where: str | os.PathLike[str]) -> str:
    """The words of a path or an address, known to be one: `where` may be whatever a user gave."""
    wanted = "a file, a folder or an address, as words or as a Path"
    check_kind("path", where, (str, os.PathLike), wanted)
    if not (
        text := os.fspath(where)
    ):  # as of a variable of a shell that is not set; it would be where one is
        raise OptionError(f"an empty name was given; give {wanted}.")
    return text


def version(address: Address) -> str:
    """What changes whenever the file at `address` does."""
    address.fs.invalidate_cache()
    known = address.fs.info(address.path)
    kept = (
        "size",
        "ETag",
        "etag",
        "md5Hash",
        "content_md5",
        "mtime",
        "LastModified",
        "last_modified",
        "created",
    )
    return json.dumps(
        {key: str(known[key]) for key in kept if known.get(key) is not None}, sort_keys=True
    )


def files_below(address: Address, pattern: bool = False) -> Iterator[Address]:
    """All files below `address`, or those that match it where it is a `pattern`, sorted by name."""
    for path in sorted(address.fs.glob(address.path) if pattern else address.fs.find(address.path)):
        yield Address(address.fs.unstrip_protocol(path))


def put(file: Path, address: Address) -> None:
    """Put a `file` of this machine at `address`, whole or not at all."""
    # Stores without folders have nothing to make, and some say so by an error, as they do of a bucket that is
    # there; where a folder is really missing, the put below fails and says which.
    with contextlib.suppress(FileExistsError, NotImplementedError):
        address.fs.makedirs(address.parent.path, exist_ok=True)
    if address.protocol in _PUT_IS_WHOLE:
        address.fs.put_file(str(file), address.path)
        return
    beside = address.with_name(f".{address.name}.{uuid.uuid4().hex}.part")
    try:
        address.fs.put_file(str(file), beside.path)
        address.fs.mv(beside.path, address.path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            address.fs.rm_file(beside.path)


def whole_path(path: str) -> str:
    """A path from the root, or the address."""
    return path if is_address(path) else str(as_path(path).resolve())
