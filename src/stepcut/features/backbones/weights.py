"""Read the weights of a network without running code from the file; download them only when the user asks for it."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from stepcut.errors import OptionError, choose
from stepcut.features.backbones.torch_files import Refused, read_torch
from stepcut.files.atomic import whole_file
from stepcut.files.cache import cache_dir

FETCHABLE = {
    "torchvision:IMAGENET1K_V1": "https://download.pytorch.org/models/resnet50-0676ba61.pth",
    "torchvision:IMAGENET1K_V2": "https://download.pytorch.org/models/resnet50-11ad3fa6.pth",
}
"""Words that ask for a download of about 100 MB. The hex digits in the name are the beginning of the file's SHA-256."""


def read_weights(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The arrays in the `.safetensors`, `.pth` or `.pt` file at `path` by name, and what it says of itself."""
    file = Path(path)
    if not file.is_file():
        raise OptionError(f"weights={str(path)!r}: no such file. Give a .safetensors or .pth file.")
    metadata: dict[str, str] = {}
    if file.suffix == ".safetensors":
        try:
            with safe_open(file, "np") as opened:
                names, metadata = opened.keys(), dict(opened.metadata() or {})
                arrays = {name: opened.get_tensor(name) for name in names}
        except SafetensorError as error:
            raise OptionError(f"weights='{file}': damaged ({error}). Get the file again.") from error
    elif file.suffix in (".pth", ".pt"):
        try:
            arrays = read_torch(file)
        except Refused as error:
            raise OptionError(
                f"weights='{file}': not a file of plain weights ({error}); it is damaged, or holds objects that would "
                "run code. Save the state_dict() alone, best as .safetensors."
            ) from error
    else:
        raise OptionError(
            f"weights={str(path)!r}: the suffix {file.suffix!r} is unknown; give .safetensors, .pth or .pt."
        )
    return {name.removeprefix("module."): value for name, value in arrays.items()}, metadata


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
            with urllib.request.urlopen(address, timeout=60) as answer, open(temporary, "wb") as out:
                while block := answer.read(1 << 20):
                    out.write(block)
        except OSError as error:
            raise OptionError(
                f"weights={word!r}: {address} cannot be fetched ({error}). "
                f"Where there is a network, fetch it by hand and give the file: --weights {name}"
            ) from error
        seen = hash_file(temporary)
        if not seen.startswith(digest):
            raise OptionError(
                f"weights={word!r}: {address} has the SHA-256 {seen[:16]}..., expected {digest}... "
                "It was changed on the way; try again from another network."
            )
    return target


def hash_file(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of the file at `path`."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
