"""The feature store: one safetensors file per video, named by a fingerprint, written whole, read by memory map."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import FeatureError
from stepcut.files.addresses import Address, AnyPath, as_path, version
from stepcut.files.atomic import read_json, whole_file, write_json
from stepcut.files.copies import local

VERSION = 1
"""Raised whenever sampling or backbones change what they give for the same video and settings."""

_HEADER = 16384
"""Bytes before the first row: the header is written last, when the number of rows is known, padded with blanks."""
_LONGEST = 100_000_000
"""Bytes of a header at most, as safetensors has it."""
_DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I8": "|i1", "U8": "|u1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}


def content_hash(path: AnyPath, cache: Path | Address, tell: Callable[[int], None] | None = None) -> str:
    """The SHA-256 of a video; remembered by path, size and time of change, so that a second run does not read it.

    path   a file or an address
    cache  where it is remembered
    tell   is called with 0 after every 16 MB that are read
    """
    file = as_path(path).absolute()
    memory = cache / "hashes" / f"{hashlib.sha256(str(file).encode(errors='surrogateescape')).hexdigest()[:32]}.json"
    seen: dict[str, Any] = {"path": str(file)}
    settled = True
    if isinstance(file, Address):
        seen["changed"] = version(file)
    else:
        state = file.stat()
        seen |= {"size": state.st_size, "changed": state.st_mtime_ns}
        # A file changed within the last seconds may change again without a new time stamp: do not remember it yet.
        settled = time.time_ns() - state.st_mtime_ns > 2_000_000_000
    with contextlib.suppress(OSError, ValueError):
        known = read_json(memory)
        if {key: known.get(key) for key in seen} == seen:
            return str(known["sha256"])
    with open(local(file), "rb") as opened:
        hashed = hashlib.sha256()
        while block := opened.read(1 << 24):
            hashed.update(block)
            if tell is not None:
                tell(0)
    digest = hashed.hexdigest()
    if settled:
        with contextlib.suppress(OSError):  # a cache that may only be read
            write_json(memory, {**seen, "sha256": digest})
    return digest


def feature_file(video_hash: str, fps: Fraction, fingerprint: str, cache: Path | Address) -> Path | Address:
    """Where in the `cache` the features of a video are: `video_hash`, `fps` and the `fingerprint` name it."""
    key = json.dumps([VERSION, video_hash, str(fps), fingerprint])
    return cache / "features" / f"{hashlib.sha256(key.encode()).hexdigest()[:40]}.safetensors"


def clear_leftovers(cache: Path | Address) -> None:
    """Remove from the `cache` the unfinished files of runs that were killed, which nobody has touched for a day."""
    if isinstance(cache, Address):
        return  # nothing is written there before it is whole
    for part in (cache / "features").glob(".*.part"):
        with contextlib.suppress(OSError):  # another run may remove it at the same time
            if time.time() - part.stat().st_mtime > 86400:
                part.unlink()


class RowWriter:
    """Writes rows to a `file` as they come, so that a long video never has to fit into memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.rows = 0
        self.shape: tuple[int, ...] | None = None
        file.write(b" " * _HEADER)

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows (n, ...), all of one shape; they are kept in half precision."""
        if self.shape is None:
            self.shape = rows.shape[1:]
        if rows.shape[1:] != self.shape:
            raise FeatureError(f"rows of shape {rows.shape[1:]} after rows of shape {self.shape}: all must be alike.")
        with np.errstate(over="ignore"):
            half = rows.astype("<f2", copy=False)
        if not np.isfinite(half).all():
            raise FeatureError(
                f"the backbone gave values up to {np.abs(rows).max():g}, not finite in half precision (at most 65504). "
                "Scale its features down."
            )
        self._file.write(np.ascontiguousarray(half).data)
        self.rows += len(rows)

    def append_all(self, rows: NDArray[Any]) -> None:
        """Add many rows, such as those of a file, a few at a time."""
        for at in range(0, len(rows), 256):
            self.append(rows[at : at + 256])

    def finish(self, metadata: Mapping[str, str]) -> None:
        """Write the header with its `metadata`, now that the number of rows is known."""
        shape = [self.rows, *(self.shape or ())]
        entry = {"dtype": "F16", "shape": shape, "data_offsets": [0, 2 * int(np.prod(shape))]}
        header = json.dumps({"__metadata__": dict(metadata), "rows": entry}).encode()
        if len(header) > _HEADER - 8:
            raise FeatureError(
                f"what is said of these features takes {len(header):,} bytes, and there is room for {_HEADER - 8:,}. "
                "Use shorter names and paths."
            )
        self._file.seek(0)
        self._file.write((_HEADER - 8).to_bytes(8, "little") + header.ljust(_HEADER - 8))


@contextlib.contextmanager
def write_rows(path: AnyPath) -> Iterator[RowWriter]:
    """A writer whose file becomes `path` when the block ends well, and leaves nothing behind when it does not."""
    with whole_file(path) as temporary, open(temporary, "wb") as file:
        yield RowWriter(file)


def save_rows(path: AnyPath, rows: NDArray[Any], metadata: Mapping[str, str]) -> None:
    """Write `rows` and their `metadata` to `path`; a file that holds just that already is left alone."""
    with contextlib.suppress(OSError, FeatureError):
        there, said = read_rows(path)
        if said == metadata and np.array_equal(there, rows):
            return
    with write_rows(path) as writer:
        writer.append_all(rows)
        writer.finish(metadata)


def _count(number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"{number!r} is no count")
    return number


def read_rows(path: AnyPath) -> tuple[NDArray[Any], dict[str, str]]:
    """The rows of the safetensors file at `path`, memory-mapped, not to be changed, and its metadata."""
    file = local(path)
    size = file.stat().st_size
    try:
        with open(file, "rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            header = json.loads(opened.read(min(length, size, _LONGEST)))
        metadata = {str(key): str(value) for key, value in header.pop("__metadata__", {}).items()}
        name = next(n for n in ("rows", "features", *header) if n in header) if len(header) > 1 else next(iter(header))
        entry = header[name]
        shape, (start, end) = tuple(map(_count, entry["shape"])), map(_count, entry["data_offsets"])
        stored = str(entry["dtype"])
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration, RecursionError) as error:
        raise FeatureError(
            f"{file}: not a safetensors file with rows of features. Compute or export it again."
        ) from error
    if stored not in _DTYPES:
        raise FeatureError(f"{file}: rows of type {stored} cannot be read; save them as F16 or F32.")
    dtype = np.dtype(_DTYPES[stored])
    if end - start != math.prod(shape) * dtype.itemsize or 8 + length + end > size:
        raise FeatureError(f"{file}: cut short ({size:,} bytes for rows of shape {shape}). Compute or copy it again.")
    if end == start or not shape:
        return np.empty(shape, dtype), metadata
    return np.memmap(file, dtype, "r", 8 + length + start, shape), metadata
