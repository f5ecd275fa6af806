"""The built-in networks, each described once: OpenVINO builds it from `forward`, or torch runs it.

`forward` is written with the names of torch's functions, over convolutions that contain their
batch norm. The weights of EfficientNet-Lite0, the default, come in a pip package; the user provides
those of ResNet-50, whose conv4c maps (1024 x 14 x 14) are the paper's features.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import choose, wrong
from stepcut.features.backbones import openvino_runtime as ov
from stepcut.features.backbones.backbone import Frames, Network, Place, Rows, precision
from stepcut.features.backbones.weights import (
    FETCHABLE,
    fetch_weights,
    find_weights,
    hash_file,
    package_weights,
    read_weights,
    weights_file,
)
from stepcut.features.spec import FeatureSpec

Array = NDArray[np.float32]
Three = tuple[float, float, float]

SIZE = 224
"""Side of the input frames of both networks."""
IMAGENET_MEAN, IMAGENET_SCALE = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Graph:
    """A network: `forward(functions, x, convs, **options)` for normalised `x` (n, 3, H, W)."""

    name: str
    convs: dict[str, tuple[Array, Array]]
    """Name -> weight and bias."""
    mean: Three
    """The input is (frame / 255 - mean) / scale, RGB."""
    scale: Three
    options: dict[str, str] = field(default_factory=dict)
    """Variant of the network."""

    def forward(self, functions: Any, x: Any, convs: Mapping[str, tuple[Any, Any]]) -> Any:
        """Compute or build the network with the `functions` and `convs` of a runtime."""
        return FORWARDS[self.name](functions, x, convs, **self.options)

    def run(self, place: Place) -> Callable[[Frames], Rows]:
        """Return the function that computes rows from frames at a `place`."""
        if place.runtime == "openvino":
            openvino = ov.import_openvino()
            shape, kind = (-1, SIZE, SIZE, 3), openvino.Type.f32
            frames, x = ov.frames_to(shape, (0, 3, 1, 2), self.mean, self.scale, False, kind)
            y = self.forward(ov.functions(), x, self.convs)
            return ov.OpenVinoRuntime(openvino.Model([y], [frames], "stepcut"))
        from stepcut.features.backbones import torch_runtime as tr

        convs = tr.as_tensors(self.convs, place.device)
        return tr.TorchRuntime(
            lambda x: self.forward(tr.FUNCTIONS, x, convs), self.mean, self.scale, place.device
        )


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
        parts = ("weight", "bias", "running_mean", "running_var")
        w = read(f"{conv}.weight")
        gamma, beta, mu, var = (read(f"{norm}.{part}") for part in parts)
        s = gamma / np.sqrt(var + eps)
        bias = beta - mu * s
        if f"{conv}.bias" in weights:  # Keras and Caffe have a bias before the batch norm
            bias = bias + read(f"{conv}.bias") * s
        convs[conv] = (w * s[:, None, None, None]).astype(np.float32), bias.astype(np.float32)
    return convs


# ------------------------------------------------------------------------ EfficientNet-Lite0

DIM = 1280
STAGES = [(1, 1), (2, 2), (2, 2), (2, 3), (1, 3), (2, 4), (1, 1)]
"""Stride and number of blocks per stage; kernels and widths come from the weights."""
LAYOUT = {"head": 1 / 8, "cells": 1 / 64}
"""Factors of the parts of a layout row: inverse standard deviations, rounded to powers of two.

Measured inside the knot-tying videos: 7.7 (head) and 65 (cells). Both parts get equal weight.
"""
LAYOUT_DIM = DIM + 9 * 192
_NORMS = {"_expand_conv": "_bn0", "_depthwise_conv": "_bn1", "_project_conv": "_bn2"}


def load_lite0(spec: FeatureSpec, place: Place) -> Network:
    """Return EfficientNet-Lite0, or with the layer "layout" its features with their places."""
    if spec.layer not in (None, "layout") or spec.family is not None:
        what = "does not fit efficientnet-lite0, which has layer='layout'. Use resnet50."
        name = "family" if spec.layer in (None, "layout") else "layer"
        raise wrong(name, getattr(spec, name), what, "layout")
    file = weights_file() if spec.weights is None else find_weights(spec.weights)
    digest = hash_file(file)[:16]
    spec = spec if spec.weights is None else spec.opened(digest)
    dim, mark = DIM, f"efficientnet-lite0 {digest} {precision(place)}"
    if spec.layer is not None:
        dim, mark = LAYOUT_DIM, f"{mark} {spec.layer} {LAYOUT_DIM}"

    def build() -> Callable[[Frames], Rows]:
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
    """Compute (n, 1280) from normalised frames (n, 3, 224, 224).

    A layout row adds 3 x 3 cells of the last stage but one (192 channels), which keep positions.
    """

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


# ---------------------------------------------------------------------------------- ResNet-50

BLOCKS = {2: 3, 3: 4, 4: 6, 5: 3}
"""Blocks in the stages conv2 to conv5 (layer1 to layer4 in torchvision)."""
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
    """Return ResNet-50 up to a block, with the weights of a file."""
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
    mark = f"resnet50 {layer} {family} {digest} {precision(place)}"
    return Network(spec, spec.backbone, channels, SIZE, mark, lambda: graph.run(place), place)


def resnet50_graph(
    weights: Mapping[str, Any], layer: str = "conv4c", family: str = "v1.5"
) -> Graph:
    """Return ResNet-50 of a `family` up to the block `layer`."""
    convs = fold(weights, _resnet50_pairs(layer), 1e-5, f"resnet50 up to layer={layer!r}")
    if family == "v1":  # it expects BGR; frames are RGB
        convs["conv1"] = np.ascontiguousarray(convs["conv1"][0][:, ::-1]), convs["conv1"][1]
    return Graph("resnet50", convs, *FAMILIES[family], {"layer": layer, "family": family})


def family_of(weights: Mapping[str, Any], metadata: Mapping[str, str]) -> str:
    """Return the family of `weights` by the `metadata` of their file; v1.5 by default."""
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
    """Yield name, stage and number of all blocks up to a `layer`."""
    last = LAYERS[layer]
    return (
        (f"layer{stage - 1}.{number}", stage, number)
        for stage, number in LAYERS.values()
        if (stage, number) <= last
    )


def _resnet50_pairs(layer: str) -> Iterator[tuple[str, str]]:
    yield "conv1", "bn1"
    for block, _, number in _blocks(layer):
        for part in (1, 2, 3):
            yield f"{block}.conv{part}", f"{block}.bn{part}"
        if number == 0:
            yield f"{block}.downsample.0", f"{block}.downsample.1"


def resnet50(functions: Any, x: Any, convs: Mapping[str, Any], layer: str, family: str) -> Any:
    """Compute the maps of `layer` from normalised frames `x` (n, 3, H, W)."""

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
