"""ResNet-50 up to any block, the paper's backbone: conv4c gives 1024 x 14 x 14 maps. Weights are the user's.

Two families of weights share the parameter names but not the network:
  v1.5  torchvision: a block halves the picture in its 3x3 convolution; RGB in 0..1, minus a mean, over a deviation
  v1    the original paper, Caffe, Keras: in its first 1x1 convolution; BGR in 0..255, minus a mean
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stepcut.errors import OptionError, choose
from stepcut.features.backbones.program import Add, Conv, MaxPool, Program, fold

SIZE = 224
EPS = 1e-5
BLOCKS = {2: 3, 3: 4, 4: 6, 5: 3}
"""Blocks in the stages conv2 to conv5, which torchvision calls layer1 to layer4."""
LAYERS = {f"conv{stage}{'abcdef'[n]}": (stage, n) for stage, count in BLOCKS.items() for n in range(count)}
FAMILIES = {"v1.5": "v1.5", "v1": "v1"}

_RGB_MEAN, _RGB_DEVIATION = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
_V1_MEAN = (123.68, 116.779, 103.939)  # in the order R, G, B


def family_of(weights: Mapping[str, Any], metadata: Mapping[str, str]) -> str:
    """Which family a file of weights belongs to, from what it says of itself; torchvision's where it says nothing."""
    said = {key.lower(): value.lower() for key, value in metadata.items()}
    variant = said.get("family", said.get("variant", ""))
    if variant.startswith("v1.5") or "v1.5" in variant:
        return "v1.5"
    if variant.startswith(("v1", "caffe", "keras")) or "bgr" in said.get("input", ""):
        return "v1"
    return "v1" if "conv1.bias" in weights else "v1.5"  # Keras keeps a bias before the batch norm


def map_shape(layer: str) -> tuple[int, int, int]:
    """(C, h, w) of a layer's maps for a 224 x 224 frame."""
    stage, _ = choose("layer", layer, LAYERS)
    return 64 * 2**stage, SIZE // 2**stage, SIZE // 2**stage


def resnet50(weights: Mapping[str, Any], layer: str = "conv4c", family: str = "v1.5") -> Program:
    """The network up to and with the block `layer`."""
    last = choose("layer", layer, LAYERS)
    v1 = choose("family", family, FAMILIES) == "v1"
    program = (
        Program(_V1_MEAN, (1.0, 1.0, 1.0))
        if v1
        else Program(_RGB_MEAN, (1 / _RGB_DEVIATION[0], 1 / _RGB_DEVIATION[1], 1 / _RGB_DEVIATION[2]))
    )

    def conv(source: int, name: str, norm: str, stride: int, activation: str) -> int:
        if f"{name}.weight" not in weights:
            raise OptionError(
                f"layer={layer!r} needs {name}.weight, which the weights do not hold ({len(weights)} entries). "
                "Choose an earlier layer, or give the weights of a whole ResNet-50."
            )
        weight, bias = fold(weights, name, norm, EPS)
        if v1 and name == "conv1":
            weight = np.ascontiguousarray(weight[:, ::-1])  # it expects BGR; frames are RGB
        return program.add(Conv(source, weight, bias, stride, (weight.shape[-1] // 2,) * 2, 1, activation))

    x = conv(0, "conv1", "bn1", 2, "relu")
    x = program.add(MaxPool(x, 3, 2, (1, 1)))
    for stage, number in LAYERS.values():
        block, stride = f"layer{stage - 1}.{number}", 2 if number == 0 and stage > 2 else 1
        y = conv(x, f"{block}.conv1", f"{block}.bn1", stride if v1 else 1, "relu")
        y = conv(y, f"{block}.conv2", f"{block}.bn2", 1 if v1 else stride, "relu")
        y = conv(y, f"{block}.conv3", f"{block}.bn3", 1, "")
        if number == 0:
            x = conv(x, f"{block}.downsample.0", f"{block}.downsample.1", stride, "")
        x = program.add(Add(x, y, "relu"))
        if (stage, number) == last:
            break
    return program
