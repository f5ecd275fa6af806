"""Addresses: files on shared storage (s3://, gs://, memory://, anything that fsspec reads)."""

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
from stepcut.plugins import pip_install

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
    return path if is_address(path) else str(as_path(path).resolve())
