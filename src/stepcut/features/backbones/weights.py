"""Read the weights of a network without running code from the file; download them only when the user asks for it."""

import hashlib
import os
import shutil
import urllib.request
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from stepcut.errors import ExtraNeeded, OptionError, choose
from stepcut.features.spec import LOOKED
from stepcut.files.atomic import whole_file
from stepcut.files.cache import cache_dir
from stepcut.plugins import install_command

FETCHABLE = {
    "torchvision:IMAGENET1K_V1": "https://download.pytorch.org/models/resnet50-0676ba61.pth",
    "torchvision:IMAGENET1K_V2": "https://download.pytorch.org/models/resnet50-11ad3fa6.pth",
}
"""Words that ask for a download of about 100 MB. The hex digits in the name are the beginning of the file's SHA-256."""


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
        arrays = _read_torch(file)
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


def _read_torch(file: Path) -> dict[str, Any]:
    """The tensors of a .pth or .pt `file` by name, also where they lie under `state_dict` or `model`; torch reads
    nothing else, and runs no code of the file."""
    try:
        import torch
    except ImportError as error:
        raise ExtraNeeded(
            f"weights='{file}': a {file.suffix} file is read by torch. Run: {install_command('cnc')}; or save the "
            "weights as .safetensors."
        ) from error
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
        for key in ("state_dict", "model"):
            if isinstance(state, dict) and isinstance(state.get(key), dict):
                state = state[key]
        size = file.stat().st_size
        arrays = {}
        for name, value in state.items():
            if isinstance(value, torch.Tensor):
                if value.numel() * value.element_size() > size:
                    raise ValueError(f"{name} is larger than the file")
                brain = value.dtype == torch.bfloat16  # which numpy does not have
                arrays[str(name)] = (value.float() if brain else value).detach().numpy()
        return arrays
    except Exception as error:  # whatever a damaged or hostile file leads to
        reason = str(error).strip().splitlines()[:1]
        what = f"not a file of plain weights ({' '.join(reason) or type(error).__name__})"
        raise OptionError(
            f"weights='{file}': {what}. Save the state_dict() alone, as .safetensors."
        ) from error
