"""The features of a video, checked, and their files: those of the cache and a user's."""

import hashlib
import json
import time
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from stepcut.errors import FeatureError, OptionError, StepcutError, placed
from stepcut.features.find import Inputs, Source, find_files, unique_names
from stepcut.features.spec import FeatureSpec
from stepcut.files import (
    Address,
    AnyPath,
    as_path,
    local,
    read_json,
    version,
    whole_file,
    write_json,
)
from stepcut.files.names import FEATURE_SUFFIXES, is_hole
from stepcut.parallel.worker import alive
from stepcut.settings import Rate, as_rate

Array = NDArray[Any]
Place = Path | Address

LARGEST = 1e15  # larger values overflow in squared distances of single precision
VERSION = 1  # incremented whenever the same video gets other features
_HEADER = 16384  # bytes before the first row, written last, when the number of rows is known
_BOMB = 100  # largest ratio of the unpacked size of an .npz to its file size


@dataclass(frozen=True, eq=False)
class Features:
    """The features of one video: row i belongs to the time i / rate, in seconds.

    Examples
    --------
    >>> proc.features(new).end
    40.0
    """

    rows: Array
    """(T, d) vectors or (T, C, h, w) maps; memory-mapped float16 if read from the cache."""
    rate: Fraction
    """Rows per second."""
    duration: float
    """Length of the video in seconds."""
    name: str
    path: str | None = None
    """The video they were computed from, if any."""
    corrupt: int = 0
    """Damaged frames that the decoder skipped."""
    spec: FeatureSpec | None = None
    """How they were computed, if known."""

    @property
    def end(self) -> float:
        """End of the last row in seconds: the duration, or half a row after its time if later."""
        last = (len(self.rows) - 1) / float(self.rate)
        return self.duration if self.duration > last else last + 0.5 / float(self.rate)

    def __repr__(self) -> str:
        shape = " x ".join(str(n) for n in self.rows.shape)
        return (
            f"<Features {self.name}: {shape}, {self.rate} rows per second, {self.duration:.1f} s>"
        )


@dataclass(frozen=True)
class Failure:
    """An unusable video and its error.

    Examples
    --------
    >>> from stepcut.errors import VideoError
    >>> print(Failure("a", "a.mp4", VideoError("a.mp4: the file is empty.")))
    a.mp4: the file is empty.
    """

    name: str
    path: str
    error: StepcutError

    def __str__(self) -> str:
        return str(self.error)


def check_alike(features: Sequence[Features]) -> None:
    for other in features[1:]:
        both = (features[0], other)
        old, new = (one.spec for one in both)
        same = old is new if old is None or new is None else not old.unlike(new)
        if len({(one.rate, one.rows.shape[1:]) for one in both}) > 1 or not same:
            differ = " and ".join(
                f"{one.name} has {one.rate} rows of shape {one.rows.shape[1:]} per second by "
                f"{one.spec.to_json() if one.spec else 'an unknown backbone'}"
                for one in both
            )
            what = f"features differ: {differ}. Use features of one backbone and one rate."
            raise FeatureError(what, video=other.name)


def check_rows(rows: Any, name: str, kinds: tuple[int, ...] = (2, 4)) -> Array:
    try:  # rows of different lengths; a tensor on a GPU, or with gradients
        array = np.asarray(rows)
    except (ValueError, TypeError, RuntimeError) as error:
        what = f"{name}: not an array ({error}). Use numbers of shape (T, d)."
        raise FeatureError(what) from error
    if array.dtype.kind not in "fiu":
        raise FeatureError(
            f"{name}: values of type {array.dtype}, not numbers. Save them as float16 or float32."
        )
    if array.ndim not in kinds:
        wanted = " or ".join({2: "(T, d) vectors", 4: "(T, C, h, w) maps"}[kind] for kind in kinds)
        advice = "Pass a list of such arrays" if array.ndim == 1 else "Reshape them"
        raise FeatureError(
            f"{name}: shape {array.shape}; features are {wanted}, one row per time step. {advice}."
        )
    if array.size == 0:
        what = "Features need at least one row of one number."
        raise FeatureError(f"{name}: empty, shape {array.shape}. {what}")
    for at in range(0, len(array), 1024):  # in pieces, so that a memory-mapped file stays on disk
        part = array[at : at + 1024]
        with np.errstate(invalid="ignore"):  # numpy warns of unusual NaNs
            if part.dtype == np.float16:  # slow min and max
                part = part.astype(np.float32)
            if not (float(part.min()) >= -LARGEST and float(part.max()) <= LARGEST):  # also for NaN
                bad = np.argwhere(~(np.abs(part.astype(np.float64)) <= LARGEST))[0]
                what = f"NaN, infinity or a number beyond {LARGEST:g} ({part[tuple(bad)]})"
                advice = "Recompute it, or exclude the video."
                raise FeatureError(f"{name}: row {at + bad[0]} contains {what}. {advice}")
    return array


# ---------- the cache


def stamp(path: Place) -> str:
    """Return what changes whenever the file at `path` changes or is replaced."""
    if isinstance(path, Address):
        return version(path)
    state = path.stat()
    return f"{state.st_size} {state.st_mtime_ns} {state.st_ctime_ns} {state.st_ino}"


def content_hash(path: AnyPath, cache: Place, quickly: bool = False) -> str:
    """Return the SHA-256 of a video, cached by path and `stamp`; with `quickly` "" if unknown."""
    file, hashed = as_path(path).absolute(), hashlib.sha256()
    key = hashlib.sha256(str(file).encode(errors="surrogateescape")).hexdigest()[:32]
    memory, seen = cache / "hashes" / f"{key}.json", {"path": str(file), "stamp": stamp(file)}
    with suppress(OSError, ValueError):
        entry = read_json(memory)
        if {key: entry.get(key) for key in seen} == seen:
            return str(entry["sha256"])
    if quickly:
        return ""
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


def feature_file(video_hash: str, fps: Fraction, fingerprint: str, cache: Place) -> Place:
    key = json.dumps([VERSION, video_hash, str(fps), fingerprint])
    return cache / "features" / f"{hashlib.sha256(key.encode()).hexdigest()[:40]}.safetensors"


def is_stored(target: Place) -> bool:
    """Return whether features are stored at `target`; remove damaged ones."""
    if not target.exists():
        return False
    with suppress(FeatureError, ValueError, LookupError, TypeError):
        if not isinstance(target, Address):
            return bool(read_rows(target))
        head = target.fs.cat_file(target.path, start=0, end=_HEADER)
        if target.fs.size(target.path) == _HEADER + json.loads(head[8:])["rows"]["data_offsets"][1]:
            return True
    with suppress(OSError):  # a read-only cache
        target.unlink(missing_ok=True)
    return False


def clear_leftovers(cache: Place) -> None:
    if isinstance(cache, Address):
        return  # uploads are atomic
    for part in (*cache.glob("*/.*.part"), *cache.glob("fetched/*/.*.part")):
        with suppress(OSError):  # another run may remove it at the same time
            if time.time() - part.stat().st_mtime > 86400:
                part.unlink()


def write_rows(
    path: AnyPath, parts: Iterable[Array], metadata: Callable[[], Mapping[str, str]]
) -> None:
    """Write `parts` (n, ...) as they come, in half precision; `metadata` is called at the end."""
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


def save_rows(path: AnyPath, rows: Array, metadata: Mapping[str, str]) -> None:
    with suppress(OSError, FeatureError):
        there, stored = read_rows(path)
        if stored == metadata and np.array_equal(there, rows):
            return
    write_rows(path, (rows[at : at + 256] for at in range(0, len(rows), 256)), lambda: metadata)


def read_rows(path: AnyPath) -> tuple[Array, dict[str, str]]:
    file = local(path)
    try:
        with open(file, "rb") as opened, safe_open(file, "np"):  # the second checks the header
            length = int.from_bytes(opened.read(8), "little")
            header = json.loads(opened.read(length))
        metadata: dict[str, str] = header.pop("__metadata__", None) or {}
        entry = next(header[name] for name in ("rows", "features", *header) if name in header)
        kind, shape = entry["dtype"], tuple(entry["shape"])
        dtype = np.dtype(f"<{kind[0].lower()}{int(kind[1:]) // 8}")  # F16 is <f2
    except (SafetensorError, ValueError, TypeError, LookupError, StopIteration) as error:
        reason = error if isinstance(error, SafetensorError) else "no rows of a supported type"
        raise FeatureError(
            f"{file}: not a safetensors file of features ({reason}). Compute or export it again."
        ) from error
    if not shape or 0 in shape:
        return np.empty(shape, dtype), metadata
    return np.memmap(file, dtype, "r", 8 + length + entry["data_offsets"][0], shape), metadata


# ---------- files of a user


def load_features(
    paths: Source | Inputs, rate: Rate | None = None, failures: list[Failure] | None = None
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
    inputs = paths if isinstance(paths, Inputs) else find_files(paths, "feature file")
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
    return FeatureSpec.from_metadata(_read(as_path(file))[1])


def _load_one(file: Place, name: str, default: Fraction | None) -> Features:
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


def _read(file: Place) -> tuple[Array, dict[str, str]]:
    copy = None
    try:
        copy = local(file)
        if not copy.is_file() or copy.suffix not in FEATURE_SUFFIXES:
            raise FeatureError(f"not a feature file. Use {', '.join(FEATURE_SUFFIXES)} files.")
        if is_hole(copy.stat()):
            raise FeatureError("most of its bytes are not on the disk. Copy it again.")
        if copy.suffix == ".safetensors":
            return read_rows(copy)
        with warnings.catch_warnings(), open(copy, "rb") as opened:
            warnings.simplefilter("ignore")  # numpy warns of unusual headers before refusing them
            if opened.read(2) == b"PK":  # numpy would leave a damaged archive open
                return _read_npz(copy), {}
            return np.load(copy, "r", allow_pickle=False), {}
    except StepcutError as error:
        what = str(error).removeprefix(f"{copy}: ")
        raise FeatureError(f"{file}: {what}") from error
    except Exception as error:  # anything can happen in a damaged file, or with a server
        what = "not readable as an array (empty, damaged, or of Python objects). Use numpy.save."
        if copy is None or isinstance(error, PermissionError):
            why = getattr(error, "strerror", None) or type(error).__name__
            what = f"cannot be read ({why}). Check the address and its permissions."
        raise FeatureError(f"{file}: {what}") from error


def _read_npz(file: Path) -> Array:
    with zipfile.ZipFile(file) as archive:
        total, size = sum(info.file_size for info in archive.infolist()), file.stat().st_size
    if total > _BOMB * size and total > 2**26:
        what = f"{size:,} bytes would unpack to {total:,}. If that is correct, save it with "
        raise FeatureError(f"{what}numpy.save.")
    with open(file, "rb") as opened, np.load(opened, allow_pickle=False) as arrays:
        names = list(arrays)
        for name in ("features", "rows", *(names if len(names) == 1 else ())):
            if name in names and isinstance(rows := arrays[name], np.ndarray):
                return rows
    raise FeatureError(f"contains the arrays {', '.join(names)}. Name one of them 'features'.")
