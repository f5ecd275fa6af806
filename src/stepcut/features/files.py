"""Feature files, one row per time step: those of the cache and those of a user.

The cache uses safetensors, written atomically and memory-mapped. A user's files are checked.
"""

import hashlib
import json
import time
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from stepcut.errors import FeatureError, OptionError, placed
from stepcut.features.features import Failure, Features, check_alike, check_rows
from stepcut.features.find import FEATURE_SUFFIXES, Inputs, Source, find_features, unique_names
from stepcut.features.spec import FeatureSpec
from stepcut.files.addresses import Address, AnyPath, as_path, version
from stepcut.files.atomic import read_json, whole_file, write_json
from stepcut.files.cache import local
from stepcut.files.names import is_hole
from stepcut.parallel.worker import alive
from stepcut.rate import Rate, as_rate

VERSION = 1
"""Incremented whenever sampling or backbones change their result for the same video."""

_HEADER = 16384
"""Bytes before the first row. The header is written last, when the number of rows is known."""
_DTYPES = {
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
    "I8": "|i1",
    "U8": "|u1",
    "I16": "<i2",
    "I32": "<i4",
    "I64": "<i8",
}
_BOMB = 100
"""Largest ratio of the unpacked size of an .npz to its file size."""


def stamp(path: Path | Address) -> str:
    """Return a string that changes whenever the file at `path` changes or is replaced."""
    if isinstance(path, Address):
        return version(path)
    state = path.stat()
    return f"{state.st_size} {state.st_mtime_ns} {state.st_ctime_ns} {state.st_ino}"


def known_hash(path: AnyPath, cache: Path | Address) -> str | None:
    """Return the `content_hash` of an unchanged video from the `cache`, None if it has none."""
    memory, seen = _memory(path, cache)
    with suppress(OSError, ValueError):
        entry = read_json(memory)
        if {key: entry.get(key) for key in seen} == seen:
            return str(entry["sha256"])
    return None


def content_hash(path: AnyPath, cache: Path | Address) -> str:
    """Return the SHA-256 of the video at `path`, cached by path and `stamp`."""
    if (known := known_hash(path, cache)) is not None:
        return known
    file, (memory, seen), hashed = as_path(path), _memory(path, cache), hashlib.sha256()
    with open(local(file), "rb") as opened:
        while block := opened.read(1 << 24):
            hashed.update(block)
            alive()
    # A recently changed file may change again within the same time stamp, so do not cache it.
    changed = 0 if isinstance(file, Address) else file.stat().st_ctime_ns
    if time.time_ns() - changed > 2_000_000_000:
        with suppress(OSError):  # a read-only cache
            write_json(memory, {**seen, "sha256": hashed.hexdigest()})
    return hashed.hexdigest()


def _memory(path: AnyPath, cache: Path | Address) -> tuple[Path | Address, dict[str, str]]:
    """Return the file that remembers the hash of a video, and what identifies the video."""
    file = as_path(path).absolute()
    key = hashlib.sha256(str(file).encode(errors="surrogateescape")).hexdigest()[:32]
    return cache / "hashes" / f"{key}.json", {"path": str(file), "stamp": stamp(file)}


def feature_file(
    video_hash: str, fps: Fraction, fingerprint: str, cache: Path | Address
) -> Path | Address:
    """Return the cache path of features, which depends on content, rate and backbone."""
    key = json.dumps([VERSION, video_hash, str(fps), fingerprint])
    return cache / "features" / f"{hashlib.sha256(key.encode()).hexdigest()[:40]}.safetensors"


def is_stored(target: Path | Address) -> bool:
    """Return whether features are stored at `target`; remove damaged ones.

    Those at an address are judged by header and size, without a download.
    """
    if not target.exists():
        return False
    try:
        if not isinstance(target, Address):
            return bool(read_rows(target))
        head = target.fs.cat_file(target.path, start=0, end=_HEADER)
        if target.fs.size(target.path) == _HEADER + json.loads(head[8:])["rows"]["data_offsets"][1]:
            return True
    except (FeatureError, ValueError, LookupError, TypeError):
        pass
    with suppress(OSError):  # a read-only cache
        target.unlink(missing_ok=True)
    return False


def clear_leftovers(cache: Path | Address) -> None:
    """Remove unfinished files of killed runs from the `cache` after a day."""
    if isinstance(cache, Address):
        return  # uploads are atomic
    for part in (*cache.glob("*/.*.part"), *cache.glob("fetched/*/.*.part")):
        with suppress(OSError):  # another run may remove it at the same time
            if time.time() - part.stat().st_mtime > 86400:
                part.unlink()


def write_rows(
    path: AnyPath, parts: Iterable[NDArray[Any]], metadata: Callable[[], Mapping[str, str]]
) -> None:
    """Write rows to the file at `path` as they come, atomically and in half precision.

    `parts` are arrays (n, ...) of equal row shape. `metadata` is called after the last row.
    """
    count, shape = 0, None
    with whole_file(path) as temporary, open(temporary, "wb") as file:
        file.write(b" " * _HEADER)
        for rows in parts:
            shape = rows.shape[1:] if shape is None else shape
            if rows.shape[1:] != shape:
                raise FeatureError(
                    f"rows of shape {rows.shape[1:]} after rows of shape {shape}; all must agree."
                )
            with np.errstate(over="ignore"):
                half = rows.astype("<f2", copy=False)
            if not np.isfinite(half).all():
                what = "nan or inf. Check the mean and scale of its input"
                if np.isfinite(rows).all():
                    most = f"{np.abs(rows).max():g}, above the 65504 of half precision"
                    what = f"values up to {most}. Scale its features down"
                raise FeatureError(f"the backbone returned {what}.")
            file.write(np.ascontiguousarray(half).data)
            count += len(rows)
        whole = [count, *(shape or ())]
        entry = {"dtype": "F16", "shape": whole, "data_offsets": [0, 2 * int(np.prod(whole))]}
        header = json.dumps({"__metadata__": dict(metadata()), "rows": entry}).encode()
        if len(header) > _HEADER - 8:
            raise FeatureError(
                f"{len(header):,} bytes of names and paths, at most {_HEADER - 8:,}. Shorten them."
            )
        file.seek(0)
        file.write((_HEADER - 8).to_bytes(8, "little") + header.ljust(_HEADER - 8))


def save_rows(path: AnyPath, rows: NDArray[Any], metadata: Mapping[str, str]) -> None:
    """Write `rows` and their `metadata` to `path`, unless the file already contains them."""
    with suppress(OSError, FeatureError):
        there, stored = read_rows(path)
        if stored == metadata and np.array_equal(there, rows):
            return
    write_rows(path, (rows[at : at + 256] for at in range(0, len(rows), 256)), lambda: metadata)


def read_rows(path: AnyPath) -> tuple[NDArray[Any], dict[str, str]]:
    """Return the rows of a safetensors file, memory-mapped and read-only, and its metadata."""
    file = local(path)
    try:
        with open(file, "rb") as opened, safe_open(file, "np"):  # the second checks the header
            length = int.from_bytes(opened.read(8), "little")
            header = json.loads(opened.read(length))
        metadata: dict[str, str] = header.pop("__metadata__", None) or {}
        entry = next(header[name] for name in ("rows", "features", *header) if name in header)
        dtype, shape = np.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"])
    except (SafetensorError, ValueError, LookupError, StopIteration) as error:
        reason = error if isinstance(error, SafetensorError) else "no rows of a supported type"
        raise FeatureError(
            f"{file}: not a safetensors file of features ({reason}). Compute or export it again."
        ) from error
    if not shape or 0 in shape:
        return np.empty(shape, dtype), metadata
    return np.memmap(file, dtype, "r", 8 + length + entry["data_offsets"][0], shape), metadata


def load_features(
    paths: Source, rate: Rate | None = None, failures: list[Failure] | None = None
) -> list[Features]:
    """Read features from files, one row per time step.

    Parameters
    ----------
    paths
        `.npy`, `.npz` or `.safetensors` files, or folders of them.
    rate
        Rows per second, for files that do not state it. `stepcut features` writes it.
    failures
        Collects unusable files. By default, the first one raises its error.

    Returns
    -------
    list of Features
        All of the same dimension and rate.

    Raises
    ------
    FeatureError
        If a file cannot be used, or if all of them cannot.
    OptionError
        If a file does not state its rate and `rate` is None.

    Examples
    --------
    >>> np.save("new.npy", new)
    >>> load_features("new.npy", rate=1)
    [<Features new: 40 x 8, 1 rows per second, 40.0 s>]
    """
    return read_files(Inputs("feature file", find_features(paths)), rate, failures)


def read_files(inputs: Inputs, rate: Rate | None, failures: list[Failure] | None) -> list[Features]:
    """Read the feature files in `inputs`; see `load_features`."""
    default = None if rate is None else as_rate(rate, "rate")
    loaded: dict[str, Features] = {}
    for file, name in zip(inputs.files, inputs.names, strict=True):
        try:
            with placed(path=str(file), video=name):
                loaded[name] = _load_one(file, name, default)
        except FeatureError as error:
            if failures is None:
                raise
            failures.append(Failure(name, str(file), error))
    if failures and not loaded:
        raise failures[0].error
    check_alike(list(loaded.values()))
    names = unique_names([[one.name for one in loaded.values()], list(loaded)])
    return [replace(one, name=name) for one, name in zip(loaded.values(), names, strict=True)]


def spec_of(file: AnyPath) -> FeatureSpec | None:
    """Return how the features of a file were computed; None if it does not state it."""
    path = as_path(file)
    return FeatureSpec.from_metadata(_read(path)[1]) if path.suffix == ".safetensors" else None


def _load_one(file: Path | Address, name: str, default: Fraction | None) -> Features:
    rows, stated = _read(file)
    check_rows(rows, str(file))
    try:
        rate = as_rate(stated["rate"], "rate") if "rate" in stated else default
        duration = float(stated.get("duration", len(rows) / (rate or 1)))
        spec = FeatureSpec.from_metadata(stated)
        corrupt = int(stated.get("corrupt", 0))
        if not 0 <= duration < 1e9 or corrupt < 0 or any("\0" in text for text in stated.values()):
            raise ValueError(f"duration {duration}, {corrupt} damaged frames")
    except Exception as error:  # anything can be in the header of a stranger's file
        what = f"invalid metadata ({type(error).__name__}: {error}). Export it again."
        raise FeatureError(f"{file}: {what}") from error
    if rate is None:
        what = "does not state its rate (rate=None). Set the rows per second, such as rate=1."
        raise OptionError(f"{file}: {what}", setting="rate")
    name, path = stated.get("name", name), stated.get("path")
    return Features(rows, rate, duration, name, path, corrupt, spec)


def _read(file: Path | Address) -> tuple[NDArray[Any], dict[str, str]]:
    """Return the rows and the metadata of any feature file; errors name it, not its copy."""
    try:
        copy = local(file)
    except (OSError, EOFError) as error:  # the last, if a server closes the connection
        why = getattr(error, "strerror", None) or type(error).__name__
        what = f"cannot be read ({why}). Check the address and its permissions."
        raise FeatureError(f"{file}: {what}") from error
    try:
        if not copy.is_file() or copy.suffix not in FEATURE_SUFFIXES:
            what = f"not a feature file. Use {', '.join(FEATURE_SUFFIXES)} files."
            raise FeatureError(f"{file}: {what}")
        if is_hole(copy.stat()):
            raise FeatureError(f"{file}: most of its bytes are not on the disk. Copy it again.")
        if copy.suffix == ".safetensors":
            return read_rows(copy)
        with warnings.catch_warnings(), open(copy, "rb") as opened:
            warnings.simplefilter("ignore")  # numpy warns of unusual headers before refusing them
            if opened.read(2) == b"PK":  # numpy would leave a damaged archive open
                return _read_npz(copy), {}
            return np.load(copy, "r", allow_pickle=False), {}
    except FeatureError as error:
        raise FeatureError(str(error).replace(str(copy), str(file))) from error
    except PermissionError as error:
        what = f"cannot be read ({error.strerror}). Check the address and its permissions."
        raise FeatureError(f"{file}: {what}") from error
    except Exception as error:  # anything can happen in a damaged file
        what = "not readable as an array (empty, damaged, or contains Python objects)"
        raise FeatureError(f"{file}: {what}. Save it with numpy.save.") from error


def _read_npz(file: Path) -> NDArray[Any]:
    """Return the only array of an archive, or "features" or "rows"; refuse a zip bomb."""
    with zipfile.ZipFile(file) as archive:
        total, size = sum(info.file_size for info in archive.infolist()), file.stat().st_size
    if total > _BOMB * size and total > 2**26:
        what = f"{size:,} bytes would unpack to {total:,}. If that is correct, save it with "
        raise FeatureError(f"{file}: {what}numpy.save.")
    with open(file, "rb") as opened, np.load(opened, allow_pickle=False) as arrays:
        names = list(arrays)
        for name in ("features", "rows", *(names if len(names) == 1 else ())):
            if name in names and isinstance(rows := arrays[name], np.ndarray):
                return rows
    what = f"contains the arrays {', '.join(names)}. Name one of them 'features'."
    raise FeatureError(f"{file}: {what}")
