"""Read the weights of a network without running code from the file; download them only when the user asks for it.

A file of torch (.pth, .pt) holds a pickle, a small program for a stack machine. The machine here knows the words that
build plain values and tensors, and refuses every other word, so that a file can hold weights and nothing else. torch
has two ways to lay out a file: a zip with a member for each storage, and, before torch 1.6, pickles followed by the
storages.
"""

import hashlib
import io
import math
import os
import pickletools
import shutil
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from stepcut.errors import OptionError, choose
from stepcut.features.spec import LOOKED
from stepcut.files.atomic import whole_file
from stepcut.files.cache import cache_dir

FETCHABLE = {
    "torchvision:IMAGENET1K_V1": "https://download.pytorch.org/models/resnet50-0676ba61.pth",
    "torchvision:IMAGENET1K_V2": "https://download.pytorch.org/models/resnet50-11ad3fa6.pth",
}
"""Words that ask for a download of about 100 MB. The hex digits in the name are the beginning of the file's SHA-256."""
_MAGIC = 0x1950A86A20F9469CFC6C
_TYPES = {
    "Float": "<f4",
    "Half": "<f2",
    "Double": "<f8",
    "Long": "<i8",
    "Int": "<i4",
    "Short": "<i2",
    "Char": "|i1",
}
_TYPES |= {"Byte": "|u1", "Bool": "|b1", "BFloat16": "<u2"}


def read_weights(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The arrays in the `.safetensors`, `.pth` or `.pt` file at `path` by name, and what it says of itself."""
    file = find_weights(path)
    metadata: dict[str, str] = {}
    if file.suffix == ".safetensors":
        try:
            with safe_open(file, "np") as opened:
                names, metadata = opened.keys(), dict(opened.metadata() or {})
                arrays = {name: opened.get_tensor(name) for name in names}
        except SafetensorError as error:
            raise OptionError(
                f"weights='{file}': damaged ({error}). Get the file again."
            ) from error
        except TypeError as error:  # bfloat16 and the like, which numpy does not have
            raise OptionError(
                f"weights='{file}': not readable here ({error}). Save it as float32."
            ) from error
    elif file.suffix in (".pth", ".pt"):
        try:
            arrays = read_torch(file)
        except Refused as error:
            what = f"not a file of plain weights ({error}): damaged, or with objects that would run code"
            raise OptionError(
                f"weights='{file}': {what}. Save the state_dict() alone, as .safetensors."
            ) from error
    else:
        raise OptionError(
            f"weights='{file}': the suffix {file.suffix!r} is unknown; give .safetensors, .pth or .pt."
        )
    return {name.removeprefix("module."): value for name, value in arrays.items()}, metadata


def find_weights(path: str | os.PathLike[str]) -> Path:
    """The file of weights at `path`, which is there."""
    if not Path(path).is_file():
        raise OptionError(
            f"weights={str(path)!r}: no such file. Give a .safetensors or .pth file. {LOOKED}"
        )
    return Path(path)


def fetch_weights(word: str) -> Path:
    """Download what `word` names into the cache, once, and check it against its hash."""
    address = choose("weights", word, FETCHABLE)
    name = address.rsplit("/", 1)[1]
    digest = name.split("-")[1].removesuffix(".pth")
    target = cache_dir() / "weights" / name
    if target.exists():
        return target
    with whole_file(target) as temporary:
        try:
            with (
                urllib.request.urlopen(address, timeout=60) as answer,
                open(temporary, "wb") as out,
            ):
                shutil.copyfileobj(answer, out)
        except OSError as error:
            what = f"{address} cannot be fetched ({error})"
            raise OptionError(
                f"weights={word!r}: {what}. Fetch it by hand, then give: --weights {name}"
            ) from error
        seen = hash_file(temporary)
        if not seen.startswith(digest):
            what = f"{address} has the SHA-256 {seen[:16]}..., expected {digest}"
            raise OptionError(
                f"weights={word!r}: {what}. It was changed on the way; try another network."
            )
    return target


def hash_file(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of the file at `path`."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Refused(ValueError):
    """The file holds something that is no tensor."""


@dataclass(frozen=True)
class _Storage:
    key: str
    kind: str
    count: int


@dataclass(frozen=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_torch(file: Path) -> dict[str, NDArray[Any]]:
    """The tensors of the state dict in a .pth or .pt `file` by name, also where it lies under `state_dict` or `model`;
    what is damaged, or holds more than plain values, raises `Refused`."""
    try:
        # In memory: a length that the file claims then gives no more than there is.
        opened = io.BytesIO(file.read_bytes())
        state, storages = _read_zip(opened) if zipfile.is_zipfile(opened) else _read_stream(opened)
        for key in ("state_dict", "model"):
            if isinstance(state, dict) and isinstance(state.get(key), dict):
                state = state[key]
        if not isinstance(state, dict):
            raise Refused("no dictionary of weights")
        return {
            str(name): _array(value, storages)
            for name, value in state.items()
            if isinstance(value, _Tensor)
        }
    except Refused:
        raise
    except Exception as error:  # whatever a damaged file leads to
        raise Refused(f"{type(error).__name__}: {error}") from error


def _read_zip(file: IO[bytes]) -> tuple[Any, dict[str, bytes]]:
    archive = zipfile.ZipFile(file)
    inside = {info.filename.partition("/")[2]: info for info in archive.infolist()}
    if any(info.compress_type != zipfile.ZIP_STORED for info in inside.values()):
        raise Refused("compressed members, which torch never writes")
    if inside.get("byteorder") and archive.read(inside["byteorder"]) != b"little":
        raise Refused("big-endian storages")
    contents = {
        key[5:]: archive.read(info) for key, info in inside.items() if key.startswith("data/")
    }
    return _unpickle(io.BytesIO(archive.read(inside["data.pkl"]))), contents


def _read_stream(file: IO[bytes]) -> tuple[Any, dict[str, bytes]]:
    file.seek(0)
    if _unpickle(file) != _MAGIC:
        raise Refused("not a torch file")
    _version, system = _unpickle(file), _unpickle(file)
    if not system["little_endian"]:
        raise Refused("big-endian storages")
    found: dict[str, _Storage] = {}
    state = _unpickle(file, found)
    contents = {}
    for key in _unpickle(file):
        count, size = int.from_bytes(file.read(8), "little"), _dtype(found[key].kind).itemsize
        if count != found[key].count:
            raise Refused(f"storage {key} has {count} numbers, not {found[key].count}")
        contents[key] = file.read(count * size)
    return state, contents


def _array(tensor: _Tensor, contents: dict[str, bytes]) -> NDArray[Any]:
    dtype, data = _dtype(tensor.storage.kind), contents[tensor.storage.key]
    # A stride of 0 would repeat one number without end.
    if math.prod(tensor.shape) * dtype.itemsize > len(data) or min(tensor.strides, default=0) < 0:
        raise Refused(f"a tensor of shape {tensor.shape} in a storage of {len(data)} bytes")
    if 0 in tensor.shape:
        return np.empty(tensor.shape, dtype)
    # Offset and strides that lead out of the data are refused by numpy.
    strides = [step * dtype.itemsize for step in tensor.strides]
    view = np.ndarray(tensor.shape, dtype, data, tensor.offset * dtype.itemsize, strides).copy()
    # bfloat16 is the upper half of a float32.
    return (view.astype("<u4") << 16).view("<f4") if tensor.storage.kind == "BFloat16" else view


def _dtype(kind: str) -> np.dtype[Any]:
    if kind not in _TYPES:
        raise Refused(f"storages of type {kind}")
    return np.dtype(_TYPES[kind])


def _rebuild(arguments: tuple[Any, ...]) -> _Tensor:
    storage, offset, shape, strides = arguments[:4]
    if not isinstance(storage, _Storage):
        raise Refused("a tensor without storage")
    return _Tensor(storage, int(offset), tuple(map(int, shape)), tuple(map(int, strides)))


_CALLS: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    "torch._utils _rebuild_tensor_v2": _rebuild,
    "torch._utils _rebuild_parameter": lambda arguments: arguments[0],
    "collections OrderedDict": lambda arguments: dict(*arguments),
}
_MARK = object()
_VALUES = ("BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE", "SHORT_BINUNICODE", "BINFLOAT")
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "MARK": _MARK, "EMPTY_TUPLE": ()}
_EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list}


def _unpickle(file: IO[bytes], found: dict[str, _Storage] | None = None) -> Any:
    """The value that a pickle builds; `found` is filled with the storages that it names."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}

    def since_mark() -> list[Any]:
        at = len(stack) - 1 - stack[::-1].index(_MARK)
        items = stack[at + 1 :]
        del stack[at:]
        return items

    for operation, given, _ in pickletools.genops(file):
        word, argument = operation.name, cast(Any, given)
        if word == "STOP":
            break
        if word in ("PROTO", "FRAME"):
            continue
        if word in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            memo[len(memo) if argument is None else argument] = stack[-1]
        elif word in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif word in _VALUES:
            stack.append(argument)
        elif word in _CONSTANTS:
            stack.append(_CONSTANTS[word])
        elif word in _EMPTY:
            stack.append(_EMPTY[word]())
        elif word in ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"):
            items = (
                since_mark()
                if word == "TUPLE"
                else [stack.pop() for _ in range(int(word[-1]))][::-1]
            )
            stack.append(tuple(items))
        elif word in ("SETITEM", "SETITEMS"):
            items = since_mark() if word == "SETITEMS" else [stack.pop() for _ in range(2)][::-1]
            stack[-1].update(zip(items[::2], items[1::2], strict=True))
        elif word in ("APPEND", "APPENDS"):
            stack.append(since_mark() if word == "APPENDS" else [stack.pop()])
            stack[-2].extend(stack.pop())
        elif word == "GLOBAL" and (argument in _CALLS or argument.endswith("Storage")):
            stack.append(argument)
        elif word == "BINPERSID":
            kind, place, key, _, count = stack.pop()[:5]
            if kind != "storage" or not place.startswith("torch "):
                raise Refused(f"the reference {kind!r}")
            stack.append(
                _Storage(str(key), place.removeprefix("torch ").removesuffix("Storage"), int(count))
            )
            if found is not None:
                found[str(key)] = stack[-1]
        elif word == "REDUCE":
            arguments, call = stack.pop(), stack.pop()
            stack.append(_CALLS[call](arguments))
        elif word == "BUILD":
            stack.pop()  # attributes of an OrderedDict: torch's own notes on versions
        else:
            raise Refused(f"{word} {argument if argument is not None else ''}".strip())
    return stack.pop()
