"""ResNet-50 up to any block, the paper's backbone: conv4c gives 1024 x 14 x 14 maps.

The user provides the weights. Two families share the parameter names but not the network:
  v1.5  torchvision: stride in the 3x3 convolution; RGB in 0..1, minus mean, over deviation
  v1    original paper, Caffe, Keras: stride in the first 1x1 convolution; BGR in 0..255, minus mean
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from stepcut.errors import OptionError, choose
from stepcut.features.backbones.backbone import (
    Convs,
    Graph,
    Network,
    Place,
    fold,
    precision,
    run_graph,
)
from stepcut.features.backbones.weights import FETCHABLE, fetch_weights, hash_file, read_weights
from stepcut.features.spec import FeatureSpec

SIZE = 224
EPS = 1e-5
BLOCKS = {2: 3, 3: 4, 4: 6, 5: 3}
"""Blocks in the stages conv2 to conv5 (layer1 to layer4 in torchvision)."""
LAYERS = {
    f"conv{stage}{'abcdef'[n]}": (stage, n) for stage, count in BLOCKS.items() for n in range(count)
}
FAMILIES = {"v1.5": "v1.5", "v1": "v1"}

IMAGENET_MEAN, IMAGENET_SCALE = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_V1_MEAN = (123.68 / 255, 116.779 / 255, 103.939 / 255)  # in the order R, G, B


def load(spec: FeatureSpec, place: Place) -> Network:
    weights = spec.weights
    if weights is None or (weights in FETCHABLE and not spec.trusted):
        what = f"backbone='resnet50' comes without weights (weights={weights!r})"
        raise OptionError(
            f"{what}. Use a .safetensors or .pth file, or download 100 MB: {', '.join(FETCHABLE)}.",
            setting="weights",
            value=weights,
        )
    layer = spec.layer or "conv4c"
    channels, _, _ = map_shape(layer)
    choose("family", spec.family or "v1.5", FAMILIES)
    file = fetch_weights(weights) if weights.startswith("torchvision:") else weights
    arrays, metadata = read_weights(file)
    digest = hash_file(file)[:16]
    spec = spec.opened(digest)
    family = spec.family or family_of(arrays, metadata)
    graph = resnet50(arrays, layer, family)  # now, to refuse a wrong file before any decoding
    mark = f"resnet50 {layer} {family} {digest} {precision(place)}"
    return Network(
        spec, spec.backbone, channels, SIZE, mark, lambda: run_graph(graph, SIZE, place), place
    )


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


def resnet50(weights: Mapping[str, Any], layer: str = "conv4c", family: str = "v1.5") -> Graph:
    """Return the network of a `family` up to and including the block `layer`."""
    last = choose("layer", layer, LAYERS)
    v1 = choose("family", family, FAMILIES) == "v1"
    convs = {}

    def add(name: str, norm: str) -> None:
        if f"{name}.weight" not in weights:
            what = f"layer={layer!r} needs {name}.weight, missing in the {len(weights)} weights"
            raise OptionError(
                f"{what}. Choose an earlier layer, or use a complete ResNet-50.",
                setting="layer",
                value=layer,
            )
        convs[name] = fold(weights, name, norm, EPS)

    add("conv1", "bn1")
    if v1:  # it expects BGR; frames are RGB
        convs["conv1"] = np.ascontiguousarray(convs["conv1"][0][:, ::-1]), convs["conv1"][1]
    for stage, number in _blocks(last):
        block = f"layer{stage - 1}.{number}"
        for part in (1, 2, 3):
            add(f"{block}.conv{part}", f"{block}.bn{part}")
        if number == 0:
            add(f"{block}.downsample.0", f"{block}.downsample.1")
    mean, scale = (_V1_MEAN, (1 / 255,) * 3) if v1 else (IMAGENET_MEAN, IMAGENET_SCALE)
    return Graph("resnet50", forward, convs, mean, scale, {"layer": layer, "family": family})


def forward(functions: Any, x: Any, convs: Convs, layer: str, family: str) -> Any:
    """Compute the maps of `layer` from normalised frames `x` (n, 3, H, W)."""
    last, v1 = LAYERS[layer], family == "v1"

    def conv(x: Any, name: str, stride: int = 1, linear: bool = False) -> Any:
        weight, bias = convs[name]
        y = functions.conv2d(x, weight, bias, stride, weight.shape[-1] // 2)
        return y if linear else functions.relu(y)

    x = functions.max_pool2d(conv(x, "conv1", 2), 3, 2, 1)
    for stage, number in _blocks(last):
        block, stride = f"layer{stage - 1}.{number}", 2 if number == 0 and stage > 2 else 1
        y = conv(x, f"{block}.conv1", stride if v1 else 1)
        y = conv(y, f"{block}.conv2", 1 if v1 else stride)
        y = conv(y, f"{block}.conv3", linear=True)
        if number == 0:
            x = conv(x, f"{block}.downsample.0", stride, linear=True)
        x = functions.relu(functions.add(x, y))
    return x


def _blocks(last: tuple[int, int]) -> list[tuple[int, int]]:
    """Return stage and number of all blocks up to the last one."""
    blocks = list(LAYERS.values())
    return blocks[: blocks.index(last) + 1]
